"""What `learn` does before it climbs: features adapted to the data, and a sensible place to start from.

Features are standardized, and the constant term gets a prior worth one observation: where the outcomes alone put it,
with the inverse of one row's curvature there as variance. Kass & Wasserman (1995).
"""

import numpy as np

from credo.core.arrays import Array, namespace
from credo.core.checks import ArrayLike, check_positive, check_table, input_names
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.models.features import Affine
from credo.models.glm.belief import GLM
from credo.models.glm.newton import Rows, start
from credo.models.linear.preparation import standardized, starting_prior
from credo.models.linear.priors import Intercept

WEIGHTS_VARIANCE = 4.0
"""The variance of φ(x)ᵀw that the search for the prior's precision starts from."""


def prepare(belief: GLM, data: tuple[ArrayLike, ...], options: dict[str, ArrayLike]) -> tuple[GLM, Rows]:
    """The belief ready to learn, and the rows under its features."""
    if belief.law is not None:
        raise DataError(
            "a generalized linear model keeps its posterior, not its rows: learn from the unconditioned belief with "
            "all the data, or condition this one"
        )
    if len(data) != 2:
        raise DataError(f"a {type(belief).__name__} learns from X and y, found {len(data)} arguments")
    x = check_table(data[0], "X")
    features = standardized(belief.features, belief.intercept is not None)
    if options.get("weights") is not None and isinstance(features, Affine):
        features = _weighted(features, x, check_positive(options["weights"], "weights", len(x)))
    features = features.adapt(x)
    p = features.size(x.shape[1])
    ready = changed(belief, features=features, prior=starting_prior(belief.prior, max(p, 1) / WEIGHTS_VARIANCE, p))
    ready = changed(ready, inputs=tuple(input_names(data[0])))
    rows = ready.statistics(*data, **options)
    ready = changed(ready, likelihood=rows.likelihood)
    if belief.intercept is not None and not rows.likelihood.vector:
        ready = changed(ready, intercept=Intercept(*_constant(rows)))
    return ready, rows


def _weighted(features: Affine, x: np.ndarray, w: np.ndarray) -> Affine:
    """Means and deviations in which a row of weight w counts as w rows, where none were given."""
    mean = w @ x / w.sum()
    deviation = np.sqrt(w @ (x - mean) ** 2 / w.sum())
    varies = np.ptp(x, axis=0) > 8 * np.finfo(float).eps * np.abs(x).max(0)
    shift = mean if features.shift is None else features.shift
    return Affine(shift, np.where(varies, deviation, 1.0) if features.scale is None else features.scale)


def _constant(rows: Rows) -> tuple[Array, Array]:
    """η where the outcomes alone put it, and the inverse of one row's curvature there."""
    xp, s = namespace(rows), rows.likelihood.size
    ones = rows._replace(design=xp.ones((len(rows.y), 1)))
    u = start(ones, True, xp.zeros(s + 1))
    each = rows.weights * rows.likelihood.terms(ones.z(u), rows.y)[2][:, s, s]
    return u[s], 1 / xp.maximum(each.sum() / rows.weights.sum(), 1e-3 * xp.max(abs(each)))
