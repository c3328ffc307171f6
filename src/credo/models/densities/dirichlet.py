"""Rows of probabilities and their Dirichlet laws, for symbols and for the components of a mixture."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, namespace, special
from credo.core.checks import ArrayLike, check_probabilities
from credo.core.errors import DataError
from credo.models.densities.base import ALMOST_NONE

WEAK = 1.01
"""The weak prior: uniform, but for a hundredth of an observation of each symbol that keeps the mode off zero."""
FLOOR = 1e-10
"""Without a prior each symbol counts as seen so often."""


def as_concentration(prior: ArrayLike, k: int, s: int) -> Float[Array, "k s"] | None:
    """The parameters of the prior of each row, from one number, one for each symbol, or a table."""
    if prior is None:
        return None
    alpha = np.asarray(WEAK if isinstance(prior, str) else prior, dtype=float)
    if alpha.shape not in ((), (s,), (k, s)) or not np.all((alpha >= 1) & np.isfinite(alpha)):
        raise DataError(
            f"prior must be Dirichlet concentrations ≥ 1 (so that there is a mode): one number, {s} of them or a table "
            f"of shape ({k}, {s}); found shape {alpha.shape}, least value {alpha.min():g}"
        )
    return np.broadcast_to(alpha, (k, s)).copy()


def excess(alpha: Float[Array, "k s"] | None) -> Float[Array, "k s"] | float:
    """α - 1, the pseudo-counts of the mode, or the floor without a prior."""
    return FLOOR if alpha is None else namespace(alpha).maximum(alpha - 1, FLOOR)


def mode(
    alpha: Float[Array, "k s"] | None, counts: Float[Array, "k s"], present: Float[Array, "k s"]
) -> Float[Array, "k s"]:
    """(α - 1 + n)/Σ(α - 1 + n); a row without counts and prior stays as it is."""
    raised = counts + excess(alpha)
    found = raised / raised.sum(-1, keepdims=True)
    if alpha is not None:
        return found
    xp = namespace(counts, present)
    return xp.where(counts.sum(-1, keepdims=True) > ALMOST_NONE, found, present)


def log_kernel(alpha: Float[Array, "k s"] | None, probs: Float[Array, "k s"]) -> Float[Array, ""]:
    """Σ (α - 1) log p."""
    return special(alpha, probs).xlogy(excess(alpha), probs).sum()


def draw(key: PRNGKeyArray, alpha: Float[Array, "*r s"]) -> Float[Array, "*r s"]:
    """One draw of each row; 0 where α is, and only there. On the log scale, where small α do not underflow."""
    logs = jr.loggamma(key, jnp.where(alpha > 0, alpha, 1.0))
    drawn = jax.nn.softmax(jnp.where(alpha > 0, logs, -jnp.inf), axis=-1)
    return jnp.where(alpha > 0, jnp.maximum(drawn, jnp.finfo(alpha.dtype).tiny), 0.0)


def expected_log(alpha: Float[Array, "*r s"]) -> Float[Array, "*r s"]:
    """E[log p] = ψ(α) - ψ(Σα); -∞ where α is 0."""
    xp, digamma, possible = namespace(alpha), special(alpha).digamma, alpha > 0
    each = digamma(xp.where(possible, alpha, 1.0)) - digamma(alpha.sum(-1, keepdims=True))
    return xp.where(possible, each, -np.inf)


def divergence(alpha: Float[Array, "*r s"], prior: Float[Array, "*r s"]) -> Float[Array, ""]:
    """KL(Dirichlet(α) ‖ Dirichlet(α₀)) over the entries that are possible, summed over the rows."""
    xp, gammaln, possible = namespace(alpha, prior), special(alpha, prior).gammaln, alpha > 0
    a, b = xp.where(possible, alpha, 1.0), xp.where(possible, prior, 1.0)
    mean = xp.where(possible, expected_log(alpha), 0.0)
    each = gammaln(b) - gammaln(a) + (a - b) * mean
    return (gammaln(alpha.sum(-1)) - gammaln(prior.sum(-1))).sum() + each.sum()


def check_rows(probs: ArrayLike, name: str, columns: int | None, of: str) -> np.ndarray:
    """A table of rows that sum to one, with so many columns where that is known."""
    table = check_probabilities(probs, name)
    if table.ndim != 2:
        raise DataError(f"{name} must be a table whose rows are probabilities, found shape {table.shape}")
    if columns not in (None, table.shape[1]):
        raise DataError(f"{name} must have one column for each of {columns} {of}, found {table.shape[1]}")
    return table
