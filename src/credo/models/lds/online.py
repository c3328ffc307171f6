"""The next outcome: one step of the filter in tens of microseconds from Python, with nothing compiled.

Numbers so few are NumPy's: a compiled program takes longer to call than they take to multiply.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from credo.core.errors import DataError
from credo.models.lds.checks import Varying
from credo.models.lds.kalman import Start
from credo.models.sequences import read

MATRICES = ("transition", "noise", "emission", "observation", "control", "feedthrough", "offset")


def advance(lds: Any, row: Float[np.ndarray, " p"], missing: bool = False, inputs: Any = None) -> Any:
    """The belief after the next outcome; its `state` holds NumPy's numbers."""
    fields = lds.__dict__
    whole = bool(np.isfinite(row).all())
    if not whole:
        read(row[None], missing=missing)  # which says what is wrong, if anything is
    driven = _driven(fields["inputs"], inputs)
    state = fields["state"]
    time = 0 if state is None else int(fields["time"])

    def at(name: str) -> Any:
        value = fields[name]
        if type(value) is Varying:
            if time >= value.values.shape[0]:
                raise DataError(f"{name} is given for {value.values.shape[0]} times, {time + 1} are needed; give more")
            return np.asarray(value.values)[time]
        return None if value is None else np.asarray(value)

    if state is None:
        m, p = np.asarray(fields["start_mean"]), np.asarray(fields["start_covariance"])
    else:
        f, b = at("transition"), at("control")
        m = f @ np.asarray(state[0])
        p = f @ np.asarray(state[1]) @ f.T + at("noise")
        m = m if b is None else m + b @ driven
    d, offset = at("feedthrough"), at("offset")
    y = row if offset is None else row - offset
    y = y if d is None else y - d @ driven
    m, p = _update(m, p, at("emission"), at("observation"), y, whole)
    after = object.__new__(type(lds))
    # NumPy's numbers from now on: to look into one of JAX's takes as long as a product.
    after.__dict__.update(fields, state=Start(m, p), time=np.asarray(time + 1))
    if type(fields["emission"]) is not np.ndarray:
        host = {name: np.asarray(v) for name, v in fields.items() if name in MATRICES and isinstance(v, jax.Array)}
        after.__dict__.update(host)
    return after


def _driven(count: int, inputs: Any) -> Any:
    if inputs is None:
        if count:
            raise DataError(f"inputs are missing: this system is driven by {count} of them; pass inputs=")
        return None
    driven = np.asarray(inputs, dtype=float).reshape(-1)
    if driven.shape[0] != count:
        raise DataError(f"inputs must have {count} numbers for one row, found {driven.shape[0]}")
    return driven


def _update(m: Any, p: Any, h: Any, r: Any, y: Any, whole: bool) -> tuple[Any, Any]:
    """Bayes' rule on the seen numbers of y, in Joseph's form; a number that is known already says nothing."""
    if not whole:
        seen = np.isfinite(y)
        h, r, y = h[seen], r[np.ix_(seen, seen)], y[seen]
    ph = p @ h.T
    s = h @ ph + r
    if len(y) == 1:
        gain = ph / s[0, 0] if s[0, 0] > 0 else np.zeros_like(ph)
    else:
        try:
            gain = np.linalg.solve(s, ph.T).T
        except np.linalg.LinAlgError:
            gain = ph @ np.linalg.pinv(s, hermitian=True)
    rest = p - gain @ ph.T
    p = rest - (rest @ h.T - gain @ r) @ gain.T
    return m + gain @ (y - h @ m), 0.5 * (p + p.T)
