"""Rows of probabilities and their Dirichlet laws, for symbols and for the components of a mixture."""

from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import special
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.models.hmm.emissions.base import ALMOST_NONE

WEAK = 1.01
"""The weak prior: uniform, but for a hundredth of an observation of each symbol that keeps the mode off zero."""
FLOOR = 1e-10
"""Without a prior each symbol counts as seen so often."""


def as_concentration(prior: Any, k: int, s: int) -> Float[Array, "k s"] | None:
    """The parameters of the prior of each row, from one number, one for each symbol, or a table."""
    if prior is None:
        return None
    alpha = np.asarray(WEAK if isinstance(prior, str) else prior, dtype=float)
    if alpha.shape not in ((), (s,), (k, s)) or not np.all((alpha >= 1) & np.isfinite(alpha)):
        raise DataError(
            f"prior must be Dirichlet concentrations ≥ 1 (so that there is a mode): one number, {s} of them or a table "
            f"of shape ({k}, {s}); found shape {alpha.shape}, least value {alpha.min():g}"
        )
    return put(np.broadcast_to(alpha, (k, s)).copy())


def excess(alpha: Float[Array, "k s"] | None) -> Any:
    """α - 1, the pseudo-counts of the mode, or the floor without a prior."""
    return FLOOR if alpha is None else jnp.maximum(alpha - 1, FLOOR)


def mode(
    alpha: Float[Array, "k s"] | None, counts: Float[Array, "k s"], present: Float[Array, "k s"]
) -> Float[Array, "k s"]:
    """(α - 1 + n)/Σ(α - 1 + n); a row without counts and prior stays as it is."""
    raised = counts + excess(alpha)
    found = raised / raised.sum(-1, keepdims=True)
    if alpha is not None:
        return found
    return jnp.where(counts.sum(-1, keepdims=True) > ALMOST_NONE, found, present)


def log_kernel(alpha: Float[Array, "k s"] | None, probs: Float[Array, "k s"]) -> Float[Array, ""]:
    """Σ (α - 1) log p."""
    return jnp.sum(special.xlogy(jnp.broadcast_to(excess(alpha), probs.shape), probs))


def draw(key: PRNGKeyArray, alpha: Float[Array, "k s"]) -> Float[Array, "k s"]:
    """One draw of each row, no probability exactly zero."""
    return jnp.maximum(jr.dirichlet(key, alpha), jnp.finfo(alpha.dtype).tiny)


def expected_log(alpha: Float[Array, "k s"]) -> Float[Array, "k s"]:
    """E[log p] = ψ(α) - ψ(Σα)."""
    return special.digamma(alpha) - special.digamma(alpha.sum(-1, keepdims=True))


def divergence(alpha: Float[Array, "k s"], prior: Float[Array, "k s"]) -> Float[Array, ""]:
    """KL(Dirichlet(α) ‖ Dirichlet(α₀)), summed over the rows."""
    norm = special.gammaln(alpha.sum(-1)) - special.gammaln(alpha).sum(-1)
    norm_prior = special.gammaln(prior.sum(-1)) - special.gammaln(prior).sum(-1)
    return jnp.sum(norm - norm_prior + ((alpha - prior) * expected_log(alpha)).sum(-1))


def check_rows(probs: Any, name: str) -> np.ndarray:
    """A table of rows that sum to one."""
    table = np.asarray(probs, dtype=float)
    if table.ndim != 2 or not (np.all(table >= 0) and np.allclose(table.sum(-1), 1, atol=1e-8)):
        raise DataError(f"{name} must be a table whose rows are probabilities that sum to 1, found {probs!r}")
    return table
