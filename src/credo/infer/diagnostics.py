"""Whether Markov chains can be trusted: numbers, and what they mean in words.

    R̂            √((n - 1)/n + B/W): 1 where the chains agree with each other and with themselves
    ESS          S/τ, τ = -1 + 2 Σⱼ Pⱼ + ρ₂ₖ: how many independent draws they are worth, in the bulk and in the tails
    divergences  trajectories that left the typical set: there the posterior is not explored
    BFMI         how well the momentum of HMC moves between energies; low where tails are heavy

B is the variance of the means of half chains, W the mean of their variances, Pⱼ = ρ₂ⱼ + ρ₂ⱼ₊₁ are autocorrelations,
made monotone, up to the first, K, that is not positive (Geyer, 1992). Ranks over all draws become normal scores first,
so that heavy tails do no harm. In NumPy, where sorting and Fourier transforms are faster than in XLA on a CPU.
Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and localization".
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy import fft
from scipy.special import ndtri

Recorded = Float[np.ndarray, "c n"]
Flags = Bool[np.ndarray, "c n"]
PerNumber = Float[np.ndarray, " k"]

LARGEST_RHAT = 1.01
LEAST_ESS_PER_CHAIN = 100
LEAST_BFMI = 0.3
MOST_AT_DEPTH = 0.05
TAIL = 0.05


class Diagnostics(NamedTuple):
    """What the chains say about themselves; arrays have one number for each coordinate of the unconstrained vector."""

    rhat: PerNumber
    ess_bulk: PerNumber
    ess_tail: PerNumber
    acceptance: float
    """The mean acceptance probability."""
    divergences: int
    bfmi: float
    """The lowest of the chains; NaN for methods without an energy."""
    at_depth: float
    """The share of trajectories that were cut at the largest depth."""


def diagnose(
    chains: Float[np.ndarray, "c n k"], acceptance: Recorded, divergent: Flags, energy: Recorded, at_depth: Flags
) -> Diagnostics:
    """The diagnostics of chains, with what was recorded at each draw."""
    k = chains.shape[2]
    by_rank = rank_statistics(chains) if chains.shape[1] >= 4 else 3 * (np.full(k, np.nan),)
    still = np.ptp(chains.reshape(-1, k), axis=0) == 0  # a coordinate that never moved tells nothing
    rhat, bulk, tail = (np.where(still, np.nan, each) for each in by_rank)
    flags = int(divergent.sum()), _bfmi(energy), float(at_depth.mean())
    return Diagnostics(rhat, bulk, tail, float(acceptance.mean()), *flags)


def _bfmi(energy: Recorded) -> float:
    """The least over chains of E[(Eₜ - Eₜ₋₁)²] / Var[E].

    Betancourt (2016), "Diagnosing suboptimal cotangent disintegrations with the energy distribution".
    """
    if energy.shape[1] < 4 or not np.all(np.isfinite(energy)):
        return float("nan")
    spread = energy.var(1)
    return float(np.min(np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.where(spread > 0, spread, np.inf)))


def in_words(found: Diagnostics, names: Sequence[str], chains: int, draws: int) -> list[str]:
    """What there is to say against the chains; nothing where all is well."""
    notes, names = [], [name or "θ" for name in names]
    worst = int(np.nanargmax(found.rhat)) if np.any(np.isfinite(found.rhat)) else -1
    if worst >= 0 and found.rhat[worst] > LARGEST_RHAT and chains > 1:
        notes.append(
            f"The chains disagree about {names[worst]} (R-hat {found.rhat[worst]:.3f}, not below {LARGEST_RHAT}): "
            "run them longer, or look for several modes."
        )
    least = np.fmin(found.ess_bulk, found.ess_tail)
    if np.any(np.isfinite(least)):
        i = int(np.nanargmin(least))
        if least[i] < LEAST_ESS_PER_CHAIN * chains:
            notes.append(
                f"{names[i]} has only {least[i]:.0f} effective draws; {LEAST_ESS_PER_CHAIN * chains} are needed for "
                "stable quantiles: raise draws."
            )
    if np.any(np.isnan(found.rhat)) and draws >= 4:
        still = [name for name, r in zip(names, found.rhat, strict=True) if np.isnan(r)]
        notes.append(f"{', '.join(still[:3])} never moved: no proposal was accepted.")
    if found.divergences:
        notes.append(
            f"{found.divergences} of {chains * draws} trajectories diverged: part of the posterior was not explored. "
            "Raise target_acceptance (e.g. 0.95), or reparametrize (non-centered hierarchies)."
        )
    if np.isfinite(found.bfmi) and found.bfmi < LEAST_BFMI:
        notes.append(f"The energy mixes slowly (BFMI {found.bfmi:.2f}): heavy tails; reparametrize.")
    if found.at_depth > MOST_AT_DEPTH:
        notes.append(
            f"{found.at_depth:.0%} of the trajectories were cut at the largest depth: raise max_depth, or rescale."
        )
    return notes


def rank_statistics(chains: Float[np.ndarray, "c n k"]) -> tuple[PerNumber, PerNumber, PerNumber]:
    """R̂, the larger of bulk and tails; ESS of the bulk; ESS of the tails, the smaller of both quantiles'."""
    halves = split(chains)
    flat = halves.reshape(-1, halves.shape[2])
    scores, folded = normal_scores(halves), normal_scores(np.abs(halves - np.median(flat, axis=0)))
    low, high = np.quantile(flat, [TAIL, 1 - TAIL], axis=0)
    tails = np.minimum(effective_sample_size(halves <= low), effective_sample_size(halves >= high))
    rhat = np.maximum(potential_scale_reduction(scores), potential_scale_reduction(folded))
    return rhat, effective_sample_size(scores), tails


def split(chains: Float[np.ndarray, "c n k"]) -> Float[np.ndarray, "h m k"]:
    """Every chain in two halves."""
    c, n, k = chains.shape
    return chains[:, : n - n % 2].reshape(2 * c, n // 2, k)


def normal_scores(x: Float[np.ndarray, "h m k"]) -> Float[np.ndarray, "h m k"]:
    """Φ⁻¹((r - 3/8)/(S + 1/4)) of the ranks r among all S draws; draws that are equal share their mean rank."""
    columns = np.ascontiguousarray(x.reshape(-1, x.shape[2]).T)
    order = np.argsort(columns, axis=1)
    inside = np.take_along_axis(columns, order, axis=1)
    rises, place = inside[:, 1:] != inside[:, :-1], np.arange(columns.shape[1])
    # Of equal draws the first and the last: half their sum is their mean rank. Folded draws have such pairs always.
    first = np.maximum.accumulate(np.pad(rises, ((0, 0), (1, 0)), constant_values=True) * place, axis=1)
    last = np.where(np.pad(rises, ((0, 0), (0, 1)), constant_values=True), place, len(place))
    last = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
    scores = ndtri((0.5 * np.arange(2 * len(place)) + 0.625) / (len(place) + 0.25))
    out = np.empty_like(columns)
    np.put_along_axis(out, order, scores[first + last], axis=1)
    return out.T.reshape(x.shape)


def potential_scale_reduction(x: Float[np.ndarray, "h m k"]) -> Float[np.ndarray, " k"]:
    """R̂: how much narrower the pooled draws might become."""
    m = x.shape[1]
    between, within = x.mean(1).var(0, ddof=1), x.var(1, ddof=1).mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((m - 1) / m + between / within)


def effective_sample_size(x: Float[np.ndarray, "h m k"] | Bool[np.ndarray, "h m k"]) -> Float[np.ndarray, " k"]:
    """S/τ; zero for what never changes."""
    h, m, k = x.shape
    centered = x - x.mean(1, keepdims=True)
    spectrum = np.abs(fft.rfft(centered, fft.next_fast_len(2 * m, real=True), axis=1)) ** 2
    covariance = fft.irfft(spectrum, fft.next_fast_len(2 * m, real=True), axis=1)[:, :m].mean(0) / m
    within = covariance[0] * m / (m - 1)
    total = covariance[0] + x.mean(1).var(0, ddof=1)
    moved = within > 0
    rho = 1 - (within - covariance) / np.where(moved, total, 1.0)
    rho[0] = 1.0
    pairs = rho[: m - m % 2].reshape(-1, 2, k).sum(1)
    positive = np.logical_and.accumulate(pairs > 0)
    kept = np.minimum.accumulate(np.where(positive, pairs, np.inf))
    after = np.minimum(2 * positive.sum(0), m - 1)
    last = np.maximum(rho[after, np.arange(k)], 0.0) * (positive.sum(0) < len(pairs))
    tau = np.maximum(-1 + 2 * np.where(positive, kept, 0.0).sum(0) + last, 1 / np.log10(h * m))
    return np.where(moved, h * m / tau, 0.0)
