"""What `learn` does before it climbs: features adapted to the data, and a sensible place to start from.

Features are standardized, and the constant term gets a prior worth one observation: where the outcomes alone put it,
with the inverse of one row's curvature there as variance. Kass & Wasserman (1995).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credo.core.checks import ArrayLike, check_positive, check_table, input_names
from credo.core.errors import DataError
from credo.models.features import Affine
from credo.models.glm.belief import GLM
from credo.models.glm.newton import Rows, row_terms, size_of, start
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
    ready = belief._with(features=features, prior=starting_prior(belief.prior, max(p, 1) / WEIGHTS_VARIANCE, p))
    ready = ready._with(inputs=tuple(input_names(data[0])))
    rows = ready.statistics(*data, **options)
    ready = ready._with(likelihood=rows.likelihood)
    if belief.intercept is not None and not rows.likelihood.vector:
        ready = ready._with(intercept=Intercept(*_constant(rows)))
    return ready, rows


def _weighted(features: Affine, x: np.ndarray, w: np.ndarray) -> Affine:
    """Means and deviations in which a row of weight w counts as w rows, where none were given."""
    mean = w @ x / w.sum()
    deviation = np.sqrt(w @ (x - mean) ** 2 / w.sum())
    varies = np.ptp(x, axis=0) > 8 * np.finfo(float).eps * np.abs(x).max(0)
    shift = mean if features.shift is None else features.shift
    return Affine(shift, np.where(varies, deviation, 1.0) if features.scale is None else features.scale)


@eqx.filter_jit
def _constant(rows: Rows) -> tuple[jax.Array, jax.Array]:
    """η where the outcomes alone put it, and the inverse of one row's curvature there."""
    s = size_of(rows.likelihood)
    ones = Rows(jnp.ones((rows.y.shape[0], 1)), rows.y, rows.weights, rows.offset, rows.likelihood)
    u = start(ones, True, jnp.zeros(s + 1))
    eta = (u[s] + rows.offset)[:, None]
    _, _, curvature = row_terms(rows.likelihood, u[:s], eta, rows.y, rows.weights)
    each = curvature[:, s, s]
    mean = jnp.sum(each) / jnp.sum(rows.weights)
    return u[s], 1 / jnp.maximum(mean, 1e-3 * jnp.max(jnp.abs(each)))
