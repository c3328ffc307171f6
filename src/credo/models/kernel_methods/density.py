"""`KernelDensity`: a density from rows, a normal bump around each (Rosenblatt 1956, Parzen 1962).

    p(x) = 1/n Σᵢ Πⱼ N(xⱼ | xᵢⱼ, hⱼ²)

The bandwidths h, one for each column, maximize the leave-one-out likelihood Σᵢ log p(xᵢ | the other rows); a row is
left out with its copies, or h would shrink to nothing. A part of the columns given, what is left is a mixture with
other weights: p(x_b | x_a) = Σᵢ N(x_a | xᵢₐ) N(x_b | xᵢ_b) / Σᵢ N(x_a | xᵢₐ).
Habbema, Hermans & van den Broek (1974); Silverman (1986), "Density estimation", §3.4.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.checks import as_numpy, by_name, check_count, check_positive, check_table, check_vector, column_names
from credo.core.errors import DataError
from credo.core.params import given, positive
from credo.core.predictive import Normal, Predictive
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.infer.priors import LogScalePenalty
from credo.kernels import InputScales
from credo.models.kernel_methods.base import LocalMixture, RowComparison, _HeldOutLikelihood, local_mixture, rounding_of

SPREAD = 2.0
"""How far, in logarithms, a bandwidth may be from Silverman's rule before its prior weighs half a nat."""


class KernelDensity(RowComparison):
    """A belief about rows of numbers, of any shape of density.

    Args:
        bandwidth: h, one for all columns or one for each, in their units; None until it is chosen from the data, and
            until then one.
    """

    bandwidth: Float[Array, "*d"] | None = positive(None, unset=1.0)
    center: Float[Array, "*d"] | None = given(unset=0.0)
    """Where rows are expected before any is seen."""
    spread: Float[Array, "*d"] | None = given(unset=1.0)
    """How far around it."""
    rounding: Float[Array, "*d"] | None = given(unset=0.0)
    """What is added to h² while `fit` looks for it: columns on a grid (`rounding_of`)."""
    seen: Float[Array, "n d"] | None
    inputs: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, bandwidth: object = None):
        if bandwidth is not None and not is_traced(bandwidth):
            check_positive(np.atleast_1d(np.asarray(bandwidth, dtype=object)), "bandwidth")
        self.bandwidth = None if bandwidth is None else as_float(bandwidth, "bandwidth")
        self.center = self.spread = self.rounding = self.seen = self.inputs = None

    # -- data ------------------------------------------------------------------------------------------------

    def statistics(self, *data: Any) -> Float[Array, "n d"]:
        """Rows, checked; a vector is a table of one column."""
        if len(data) != 1:
            raise DataError(f"a KernelDensity is conditioned on rows X alone, found {len(data)} argument(s)")
        return self.rows(data[0])

    def rows(self, x: Any) -> Float[Array, "n d"]:
        """Rows as users have them; a vector is a table of one column."""
        h = params.meaning(self, "bandwidth")
        expected = self.seen.shape[1] if self.seen is not None else h.shape[0] if h.ndim else None
        flat = x.ndim == 1 if is_traced(x) else column_names(x) is None and as_numpy(x, "X").ndim == 1
        if flat and expected in (None, 1):
            return check_vector(x, "X")[:, None]
        return check_table(by_name(x, self.inputs), "X", expected)

    def with_seen(self, rows: Float[Array, "n d"]) -> Float[Array, "m d"]:
        """All rows, those that were seen before first."""
        return rows if self.seen is None else namespace(self.seen, rows).concatenate([self.seen, rows])

    def seen_inputs(self) -> Float[Array | np.ndarray, "n d"] | None:
        """The rows it was conditioned on."""
        return self.seen

    def in_units(self, rows: Float[Array, "n d"]) -> "KernelDensity":
        """Silverman's rule, h = s (4/((d + 2) n))^(1/(d + 4)), for each column."""
        scales, (n, d) = InputScales.of(np.asarray(rows), 1.0), rows.shape
        rule = as_float(scales.spread * (4.0 / ((d + 2) * n)) ** (1.0 / (d + 4)))
        start = rule if self.bandwidth is None else self.bandwidth
        told = {"center": as_float(scales.center), "spread": as_float(scales.spread)}
        return changed(self, bandwidth=start, rounding=as_float(rounding_of(np.asarray(rows))), **told)

    def folded(self) -> "KernelDensity":
        """With bandwidths that include what rounding adds."""
        return changed(self, bandwidth=self.width(), rounding=None)

    def width(self) -> Float[Array, "*d"]:
        """√(h² + what rounding adds)."""
        h, rounding = (params.meaning(self, name) for name in ("bandwidth", "rounding"))
        return namespace(h, rounding).sqrt(h**2 + rounding)

    def doubts_of(self, statistics: Float[Array, "n d"]) -> tuple[str, ...]:
        """None: copies are left out together."""
        return ()

    def default_priors(self, statistics: Float[Array, "n d"]) -> dict[str, Any]:
        """Wide ones around the start."""
        return {"bandwidth": LogScalePenalty(params.meaning(self, "bandwidth"), SPREAD)}

    def learner(self, priors: Any) -> _HeldOutLikelihood:
        """Leave-one-out likelihood, climbed from one start: it has one maximum but for very few rows."""
        return _HeldOutLikelihood(starts=1, flat=False)

    # -- densities -------------------------------------------------------------------------------------------

    def _log_bumps(self, x: Float[Array, "m d"], rows: Float[Array, "n d"]) -> Float[Array, "m n"]:
        """log Πⱼ N(xⱼ | xᵢⱼ, hⱼ²) of each query and row."""
        xp, h = namespace(self, x, rows), self.width()
        h = xp.broadcast_to(h, (rows.shape[1],))
        u, w = x / h, rows / h
        total = 0.0
        for j in range(rows.shape[1]):  # differences first: coincident rows are at distance zero exactly
            total = total + (u[:, j, None] - w[None, :, j]) ** 2
        return -0.5 * (total + LOG_2PI * rows.shape[1]) - xp.log(h).sum()

    def _log_prior(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The density before any row: normal, as wide as what is expected and a bump together."""
        h, center, spread = self.width(), *(params.meaning(self, name) for name in ("center", "spread"))
        xp, variance = namespace(self, x), h**2 + spread**2
        return (-0.5 * (LOG_2PI + xp.log(variance) + (x - center) ** 2 / variance)).sum(1)

    def log_density(self, x: Any) -> Float[Array, " m"]:
        """log p(x) of rows x, all columns together."""
        queries = self.rows(x)
        if self.seen is None:
            return self._log_prior(queries)
        bumps = self._log_bumps(queries, self.seen)
        return special(bumps).logsumexp(bumps, axis=1) - np.log(len(self.seen))

    def held_out_log_prob(self, rows: Float[Array, "n d"]) -> Float[Array, " n"]:
        """log p(xᵢ | the rows that are not its copies); of a row without others what was expected before any."""
        xp = namespace(self, rows)
        copies = (rows[:, None, :] == rows[None, :, :]).all(-1)
        bumps = xp.where(copies, -xp.inf, self._log_bumps(rows, rows))
        count = (~copies).sum(1)
        safe = xp.where((count > 0)[:, None], bumps, 0.0)
        alone = special(safe).logsumexp(safe, axis=1) - xp.log(xp.maximum(count, 1))
        return xp.where(count > 0, alone, self._log_prior(rows))

    def predict(self) -> Predictive:
        """The next row: a number where there is one column, else one of each column, which belong together."""
        h, center, spread = self.width(), *(params.meaning(self, name) for name in ("center", "spread"))
        xp = namespace(self)
        rows = xp.broadcast_to(center, xp.atleast_1d(h).shape)[None] if self.seen is None else self.seen
        wide, n = (spread**2, 0) if self.seen is None else (xp.zeros(()), len(rows))
        variance = (rows - rows[0]).var(0) + wide
        noise = xp.broadcast_to(wide + h**2, rows.shape)
        whole = LocalMixture(
            xp.full(len(rows), 1 / len(rows)),
            (Normal(rows, noise, xp.zeros(rows.shape)),),
            ignorance=variance / (1 + n),
        )
        return whole[0] if rows.shape[1] == 1 else whole

    def held_out(self, rows: Float[Array, "n d"]) -> Predictive:
        """Each row from those that are not its copies, where there is one column."""
        if rows.shape[1] != 1:
            raise DataError(
                "leaving rows out one by one predicts one column, found "
                f"{rows.shape[1]}; held_out_log_prob(rows) has the densities of whole rows"
            )
        xp, center, spread = namespace(self, rows), *(params.meaning(self, name) for name in ("center", "spread"))
        apart = (rows != rows.T).astype(float)
        counts = xp.concatenate([(apart.sum(0) == 0).astype(float)[None], apart])
        at = xp.concatenate([xp.reshape(center, (1,)), rows[:, 0]])
        wide = xp.concatenate([xp.reshape(spread**2, (1,)), xp.zeros(len(rows))])
        return local_mixture(counts, at, wide, xp.reshape(self.width(), ()) ** 2)

    def sample(self, n: int = 1, *, seed: int = 0) -> Float[np.ndarray, "n d"]:
        """n new rows: a row that was seen, moved by its bump."""
        check_count(n, "n")
        rng, h = np.random.default_rng(seed), self.width()
        if self.seen is None:
            raise DataError("the density has seen no rows yet; condition it or use credo.fit")
        rows = np.asarray(self.seen)
        return rows[rng.integers(len(rows), size=n)] + h * rng.normal(size=(n, rows.shape[1]))

    def given(self, values: Any, columns: Sequence[int | str], of: int | str) -> Predictive:
        """p(x_of | x_columns = values), one prediction for each row of values.

        Args:
            values: shape (m, number of columns).
            columns: which columns are known, by place or by name.
            of: the column that is asked for.
        """
        if self.seen is None:
            raise DataError("the density has seen no rows yet; condition it or use credo.fit")
        known, asked = [self._place(c) for c in columns], self._place(of)
        if asked in known or len(set(known)) != len(known):
            raise DataError(f"columns must be others than {of!r}, each once, found {list(columns)!r}")
        h = np.broadcast_to(self.width(), self.seen.shape[1:])
        part = changed(self, bandwidth=h[known], rounding=None, inputs=None)
        bumps = part._log_bumps(check_table(values, "values", len(known)), self.seen[:, known])
        # The largest is one: of what is far from all rows the nearest counts, and the ignorance is that of one row.
        counts = np.exp(bumps - bumps.max(1, keepdims=True)).T
        return local_mixture(counts, self.seen[:, asked], np.zeros(len(counts)), h[asked] ** 2)

    def _place(self, column: int | str) -> int:
        assert self.seen is not None
        d = self.seen.shape[1]
        if isinstance(column, str) and column in (self.inputs or ()):
            return list(self.inputs or ()).index(column)
        if isinstance(column, int | np.integer) and 0 <= column < d:
            return int(column)
        names = f" or one of {list(self.inputs)}" if self.inputs else ""
        raise DataError(f"a column must be a whole number from 0 to {d - 1}{names}, found {column!r}")

    def __repr__(self) -> str:
        seen = "nothing" if self.seen is None else f"{len(self.seen)} rows"
        shown = "?" if self.bandwidth is None or is_traced(self.bandwidth) else np.round(self.bandwidth, 4)
        return f"KernelDensity(bandwidth={shown}, seen {seen})"
