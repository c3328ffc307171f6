"""How many independent draws Markov chains are worth, and whether they agree: split, rank-normalized statistics.

    R̂ = √((n - 1)/n + B/W)              B the variance of the halves' means, W the mean of their variances
    ESS = S/τ,  τ = -1 + 2 Σⱼ Pⱼ + ρ₂ₖ    Pⱼ = ρ₂ⱼ + ρ₂ⱼ₊₁, made monotone, up to the first, K, that is not positive

Ranks over all draws become normal scores first, so that heavy tails do no harm. In NumPy: sorting and Fourier
transforms are faster there than in XLA on a CPU, and nothing is compiled.
Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), §3-4; Geyer (1992) for the sum.
"""

import numpy as np
from jaxtyping import Bool, Float
from scipy import fft
from scipy.special import ndtri

TAIL = 0.05


def rank_statistics(
    chains: Float[np.ndarray, "c n k"],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """R̂, the larger of bulk and tails; ESS of the bulk; ESS of the tails, the smaller of both quantiles'."""
    halves = split(chains)
    flat = halves.reshape(-1, halves.shape[2])
    scores, folded = normal_scores(halves), normal_scores(np.abs(halves - np.median(flat, axis=0)))
    low, high = np.quantile(flat, [TAIL, 1 - TAIL], axis=0)
    tails = np.minimum(effective(halves <= low), effective(halves >= high))
    return np.maximum(reduction(scores), reduction(folded)), effective(scores), tails


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


def reduction(x: Float[np.ndarray, "h m k"]) -> Float[np.ndarray, " k"]:
    """R̂: how much narrower the pooled draws might become."""
    m = x.shape[1]
    between, within = x.mean(1).var(0, ddof=1), x.var(1, ddof=1).mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((m - 1) / m + between / within)


def effective(x: Float[np.ndarray, "h m k"] | Bool[np.ndarray, "h m k"]) -> Float[np.ndarray, " k"]:
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
