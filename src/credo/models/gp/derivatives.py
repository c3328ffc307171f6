"""The derivatives of a function that is believed in: ∇f is Gaussian wherever f is.

    E[∇f(x)] = ∇m(x) + ∇k(x, X) α,    cov(∇f(x)) = ∇∇'k(x, x) - ∇k(x, X) K⁻¹ ∇k(X, x)

Rasmussen & Williams (2006), §9.4; the covariances are those of `credo.kernels.derivative`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from credo.core.arrays import Array, host, namespace
from credo.core.checks import by_name, check_table
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.kernels.derivative import Differentiated, derivative_rows
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.exact import Cholesky, GPPrior
from credo.models.gp.means import DifferentiatedMean


def differentiated(gp: GP) -> GP:
    """The same prior, to be conditioned on values and derivatives: rows as `credo.kernels.derivative` reads them.

    The noise is one variance for all rows; values and derivatives have different units, so give a variance
    for each row, `condition(rows, outcomes, noise=…)`.
    """
    prior = gp.unconditioned()
    return changed(prior, kernel=Differentiated(prior.kernel), mean=DifferentiatedMean(prior.mean))


def gradient(gp: GP, x: object) -> Normal:
    """p(∇f(x*) | data), shape (m, d): all of its doubt is epistemic.

    Args:
        gp: a Gaussian process with a differentiable kernel; one that has seen derivatives too serves as well.
        x: queries, shape (m, d), inputs only.
    """
    prior, seen, rows, (m, d) = _lifted(gp, x)
    mean, variance = (v.reshape(m, d) for v in exact.predict(prior, seen, gp.solved, rows))
    return Normal(mean, namespace(mean).zeros_like(mean), variance)


def gradient_covariance(gp: GP, x: object) -> Float[Array, "m d d"]:
    """cov(∇f(x*)) for each query: how its components go together."""
    prior, seen, rows, (m, d) = _lifted(gp, x)
    return host(_blocks(prior, seen, gp.solved, rows.reshape(m, d, d + 1)))


@eqx.filter_jit
def _blocks(
    prior: GPPrior, seen: Rows | None, solved: Cholesky | None, rows: Float[Array, "m d q"]
) -> Float[Array, "m d d"]:
    blocks = jax.vmap(lambda r: exact.joint(prior, seen, solved, r, r))(rows)
    return 0.5 * (blocks + jnp.swapaxes(blocks, 1, 2))


def _lifted(gp: GP, x: object) -> tuple[GPPrior, Rows | None, Array, tuple[int, int]]:
    """The prior of values and derivatives, what was seen as its rows, and the rows that ask for ∇f."""
    prior, seen = gp.prior, gp.seen
    if all(isinstance(k, Differentiated) for k in prior.kernel.terms):
        table = check_table(by_name(x, gp.inputs), "X", None if seen is None else seen.x.shape[1] - 1)
    else:
        table = gp.queries(x)
        prior = GPPrior(Differentiated(prior.kernel), DifferentiatedMean(prior.mean), prior.noise)
        if seen is not None:
            xp = namespace(seen.x)
            seen = changed(seen, x=xp.concatenate([seen.x, xp.zeros((len(seen.x), 1))], axis=1))
    return prior, seen, derivative_rows(table), table.shape
