"""What learning an HMM needs: the evidence with a cheap gradient, and the two steps of EM (Baum-Welch).

The gradient of log p(x) is a posterior expectation (Fisher's identity), which the smoother has:

    ∂/∂log bₜ(k) = γₜ(k),    ∂/∂Pᵢⱼ = Σₜ ξₜ(i, j)/Pᵢⱼ,    ∂/∂πₖ = Σ γ_first(k)/πₖ

so nothing is differentiated through time. Baum-Welch sets each row of P to its expected transitions, and its MAP form
adds the pseudo-counts of the Dirichlet prior, `prior` - 1 everywhere and `sticky` on the diagonal. Transitions that are
impossible stay so. Baum et al. (1970); Fox et al. (2011), "A sticky HDP-HMM", for the diagonal.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, is_traced, namespace, special
from credo.core.errors import DataError
from credo.models.densities.base import ALMOST_NONE, Density, HasStatistics, Observed, require
from credo.models.hmm.passes import Law, Marks, Matrix, Table, expected_transitions, filter_states, smooth_states
from credo.models.sequences import Sequences

Saved = tuple[Array, ...]


class Expected(NamedTuple):
    """Expected statistics of the hidden path: where sequences begin, how states follow, and what they show."""

    starts: Law
    transitions: Matrix
    emission: object


def log_likelihood(start: Law, transition: Matrix, log_b: Table, first: Marks, real: Marks) -> Float[Array, ""]:
    """log p(x₁…x_T), the sum over all paths; its gradient is by Fisher's identity."""
    given = (start, transition, log_b, first, real)
    return _differentiable(*given) if is_traced(given) else filter_states(*given[:4]).log_likelihood(real)


@jax.custom_vjp
def _differentiable(start: Law, transition: Matrix, log_b: Table, first: Marks, real: Marks) -> Float[Array, ""]:
    return filter_states(start, transition, log_b, first).log_likelihood(real)


def _forward(start: Law, transition: Matrix, log_b: Table, first: Marks, real: Marks) -> tuple[Array, Saved]:
    filtered = filter_states(start, transition, log_b, first)
    return filtered.log_likelihood(real), (start, transition, filtered.probs, first, real)


def _backward(saved: Saved, slope: Array) -> tuple[Array | None, ...]:
    start, transition, probs, first, real = saved
    gamma, starts, counts = counted(transition, probs, first, real)
    by_start = jnp.where(start > 0, starts / jnp.where(start > 0, start, 1.0), 0.0)
    by_transition = jnp.where(transition > 0, counts / jnp.where(transition > 0, transition, 1.0), 0.0)
    return slope * by_start, slope * by_transition, slope * gamma, None, None


_differentiable.defvjp(_forward, _backward)


def counted(transition: Matrix, filtered: Table, first: Marks, real: Marks) -> tuple[Table, Law, Matrix]:
    """γ (0 in padding), how often a sequence is expected to begin in each state, and the expected transitions."""
    return _counts(transition, filtered, smooth_states(transition, filtered, first), first, real)


def _counts(
    transition: Matrix, filtered: Table, smoothed: Table, first: Marks, real: Marks
) -> tuple[Table, Law, Matrix]:
    xp = namespace(transition, filtered, first, real)
    gamma = xp.where(real[:, None], smoothed, 0.0)
    starts = xp.where(first[:, None], gamma, 0.0).sum(axis=0)
    return gamma, starts, expected_transitions(transition, filtered, smoothed, first)


def observed(data: Sequences) -> Observed:
    """The rows of all sequences as densities take them."""
    return Observed(data.x, data.seen, data.inputs, data.complete)


def expect(start: Law, transition: Matrix, emission: Density, data: Sequences) -> tuple[Expected, Float[Array, ""]]:
    """The E-step: expected statistics under p(path | x), and log p(x)."""
    able = require(emission, HasStatistics)
    filtered = filter_states(start, transition, able.log_prob(observed(data)), data.first)
    gamma, starts, transitions = counted(transition, filtered.probs, data.first, data.real)
    shown = able.expected_statistics(observed(data), gamma)
    return Expected(starts, transitions, shown), filtered.log_likelihood(data.real)


def expect_side_by_side(
    chains: Sequence[tuple[Law, Matrix]], emissions: Sequence[Density], data: Sequences
) -> list[tuple[Expected, Float[Array, ""]]]:
    """`expect` of several HMMs, whose chains are the last axis of one pass in NumPy."""
    able, rows = [require(each, HasStatistics) for each in emissions], observed(data)
    log_b = np.stack([each.log_prob(rows) for each in able], axis=-1)
    start, transition = (np.stack(each, axis=-1) for each in zip(*chains, strict=True))
    filtered = filter_states(start, transition, log_b, data.first)
    smoothed, total = smooth_states(transition, filtered.probs, data.first), filtered.log_likelihood(data.real)
    out = []
    for i, each in enumerate(able):
        laws = filtered.probs[..., i], smoothed[..., i]
        gamma, starts, transitions = _counts(transition[..., i], *laws, data.first, data.real)
        out.append((Expected(starts, transitions, each.expected_statistics(rows, gamma)), total[i]))
    return out


def log_likelihoods(
    chains: Sequence[tuple[Law, Matrix]], emissions: Sequence[Density], data: Sequences
) -> Float[np.ndarray, " b"]:
    """log p(x) of several HMMs, side by side as in `expect_side_by_side`."""
    rows = observed(data)
    log_b = np.stack([np.asarray(each.log_prob(rows)) for each in emissions], axis=-1)
    start, transition = (np.stack(each, axis=-1) for each in zip(*chains, strict=True))
    return np.asarray(filter_states(start, transition, log_b, data.first).log_likelihood(data.real))


def pseudo_counts(start: Law, transition: Matrix, prior: float, sticky: float) -> tuple[Law, Matrix]:
    """α of the Dirichlet laws of the start and of each row; 0 where a transition is impossible."""
    xp = namespace(start, transition)
    rows = xp.where(transition > 0, prior + sticky * np.eye(len(start)), 0.0)
    return xp.where(start > 0, prior, 0.0), rows


def _excess(start: Law, transition: Matrix, prior: float, sticky: float) -> tuple[Law, Matrix]:
    """α - 1 where something is possible."""
    xp = namespace(start, transition)
    by_start, by_row = pseudo_counts(start, transition, prior, sticky)
    return xp.where(start > 0, by_start - 1, 0.0), xp.where(transition > 0, by_row - 1, 0.0)


def maximize_chain(
    start: Law, transition: Matrix, expected: Expected, prior: float, sticky: float
) -> tuple[Law, Matrix]:
    """The M-step for start and transition; a row of a state that was never left stays as it is."""
    if prior < 1:
        raise DataError(
            f"EM needs prior ≥ 1, where the Dirichlet law has a mode, found {prior:g}; use VariationalBayes() or "
            "PathGibbs() for smaller ones"
        )
    by_start, by_row = _excess(start, transition, prior, sticky)
    starts, rows = expected.starts + by_start, expected.transitions + by_row
    xp, total = namespace(starts, rows, transition), rows.sum(axis=1, keepdims=True)
    left = total > ALMOST_NONE
    return starts / starts.sum(), xp.where(left, rows / xp.where(left, total, 1.0), transition)


def log_prior_of_chain(start: Law, transition: Matrix, prior: float, sticky: float) -> Float[Array, ""]:
    """log of the Dirichlet densities of start and rows, up to a constant: Σ (α - 1) log p."""
    by_start, by_row = _excess(start, transition, prior, sticky)
    by = special(start, transition)
    return by.xlogy(by_start, start).sum() + by.xlogy(by_row, transition).sum()


def fresh_chain(k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A start and a transition matrix to begin with: uniform and inclined to stay; other seeds vary the rows."""
    rows = np.full((k, k), 0.5 / k) + 0.5 * np.eye(k)
    if seed:
        rows = rows * np.random.default_rng(seed).gamma(2.0, size=(k, k))
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
