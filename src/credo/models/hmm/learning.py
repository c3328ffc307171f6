"""What learning an HMM needs: the evidence with a cheap gradient, and the two steps of EM (Baum-Welch).

The gradient of log p(x) is a posterior expectation (Fisher's identity), which the smoother has:

    ∂/∂log bₜ(k) = γₜ(k),    ∂/∂Pᵢⱼ = Σₜ ξₜ(i, j)/Pᵢⱼ,    ∂/∂πₖ = Σ γ_first(k)/πₖ

so nothing is differentiated through time. Baum-Welch sets each row of P to its expected transitions, and its MAP form
adds the pseudo-counts of the Dirichlet prior, `prior` - 1 everywhere and `sticky` on the diagonal. Transitions that are
impossible stay so. Baum et al. (1970); Fox et al. (2011), "A sticky HDP-HMM", for the diagonal.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special
from jaxtyping import Array, Bool, Float

from credo.core import params
from credo.core.errors import DataError
from credo.models.densities.base import ALMOST_NONE, Density, HasStatistics, Observed, require
from credo.models.hmm.passes import expected_transitions, filter_states, smooth_states
from credo.models.sequences import Sequences


class Expected(NamedTuple):
    """Expected statistics of the hidden path: where sequences begin, how states follow, and what they show."""

    starts: Float[Array, " k"]
    transitions: Float[Array, "k k"]
    emission: object


@jax.custom_vjp
def log_likelihood(
    start: Float[Array, " k"],
    transition: Float[Array, "k k"],
    log_b: Float[Array, "t k"],
    first: Bool[Array, " t"],
    real: Bool[Array, " t"],
) -> Float[Array, ""]:
    """log p(x₁…x_T), the sum over all paths; its gradient is by Fisher's identity."""
    return jnp.sum(jnp.where(real, filter_states(start, transition, log_b, first).increments, 0.0))


def _forward(
    start: Array, transition: Array, log_b: Array, first: Array, real: Array
) -> tuple[Array, tuple[Array, ...]]:
    filtered = filter_states(start, transition, log_b, first)
    value = jnp.sum(jnp.where(real, filtered.increments, 0.0))
    return value, (start, transition, filtered.probs, first, real)


def _backward(saved: tuple[Array, ...], slope: Array) -> tuple[Array | None, ...]:
    start, transition, probs, first, real = saved
    gamma, starts, counts = counted(start, transition, probs, first, real)
    by_start = jnp.where(start > 0, starts / jnp.where(start > 0, start, 1.0), 0.0)
    by_transition = jnp.where(transition > 0, counts / jnp.where(transition > 0, transition, 1.0), 0.0)
    return slope * by_start, slope * by_transition, slope * gamma, None, None


log_likelihood.defvjp(_forward, _backward)


def counted(
    start: Float[Array, " k"],
    transition: Float[Array, "k k"],
    filtered: Float[Array, "t k"],
    first: Bool[Array, " t"],
    real: Bool[Array, " t"],
) -> tuple[Float[Array, "t k"], Float[Array, " k"], Float[Array, "k k"]]:
    """γ (0 in padding), how often a sequence is expected to begin in each state, and the expected transitions."""
    smoothed = smooth_states(transition, filtered, first)
    gamma = jnp.where(real[:, None], smoothed, 0.0)
    starts = jnp.sum(jnp.where(first[:, None], gamma, 0.0), axis=0)
    return gamma, starts, expected_transitions(transition, filtered, smoothed, first)


def observed(data: Sequences) -> Observed:
    """The rows of all sequences as densities take them."""
    return Observed(data.x, data.seen, data.inputs, data.complete)


def expect(
    start: Float[Array, " k"], transition: Float[Array, "k k"], emission: Density, data: Sequences
) -> tuple[Expected, Float[Array, ""]]:
    """The E-step: expected statistics under p(path | x), and log p(x)."""
    able = require(emission, HasStatistics)
    filtered = filter_states(start, transition, able.log_prob(observed(data)), data.first)
    value = jnp.sum(jnp.where(data.real, filtered.increments, 0.0))
    gamma, starts, transitions = counted(start, transition, filtered.probs, data.first, data.real)
    return Expected(starts, transitions, able.expected_statistics(observed(data), gamma)), value


def pseudo_counts(
    start: Float[Array, " k"], transition: Float[Array, "k k"], prior: float, sticky: float
) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """α of the Dirichlet laws of the start and of each row; 0 where a transition is impossible."""
    k = start.shape[0]
    rows = jnp.where(transition > 0, prior + sticky * jnp.eye(k), 0.0)
    return jnp.where(start > 0, prior, 0.0), rows


def maximize_chain(
    start: Float[Array, " k"], transition: Float[Array, "k k"], expected: Expected, prior: float, sticky: float
) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """The M-step for start and transition; a row of a state that was never left stays as it is."""
    if prior < 1:
        raise DataError(
            f"EM needs prior ≥ 1, where the Dirichlet law has a mode, found {prior:g}; use VariationalBayes() or "
            "PathGibbs() for smaller ones"
        )
    by_start, by_row = pseudo_counts(start, transition, prior, sticky)
    starts = expected.starts + jnp.where(start > 0, by_start - 1, 0.0)
    rows = expected.transitions + jnp.where(transition > 0, by_row - 1, 0.0)
    total = jnp.sum(rows, axis=1, keepdims=True)
    left = total > ALMOST_NONE
    return starts / jnp.sum(starts), jnp.where(left, rows / jnp.where(left, total, 1.0), transition)


def log_prior_of_chain(
    start: Float[Array, " k"], transition: Float[Array, "k k"], prior: float, sticky: float
) -> Float[Array, ""]:
    """log of the Dirichlet densities of start and rows, up to a constant: Σ (α - 1) log p."""
    by_start, by_row = pseudo_counts(start, transition, prior, sticky)
    starts = special.xlogy(jnp.where(start > 0, by_start - 1, 0.0), start)
    return jnp.sum(starts) + jnp.sum(special.xlogy(jnp.where(transition > 0, by_row - 1, 0.0), transition))


def fresh_chain(k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A start and a transition matrix to begin with: uniform and inclined to stay; other seeds vary the rows."""
    rows = np.full((k, k), 0.5 / k) + 0.5 * np.eye(k)
    if seed:
        rng = np.random.default_rng(seed)
        rows = rows * rng.gamma(2.0, size=(k, k))
    return np.full(k, 1 / k), rows / rows.sum(axis=1, keepdims=True)


def whole_emission_held(fixed: tuple[str, ...], emission: Density) -> bool:
    """Whether the emission is fixed; `DataError` where only parts of it are, which the M-step cannot respect."""
    below = [f"emission.{path}" for path in params.learnable(emission)]
    held = [path for path in below if path in fixed]
    if held and len(held) < len(below):
        raise DataError(
            f"EM learns an emission as a whole, found {', '.join(held)} fixed; fix 'emission', or learn with "
            "using=credo.infer.Evidence()"
        )
    return bool(held)
