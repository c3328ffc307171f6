"""How odd a row is: the probability of a row that the mixture finds as improbable, or more so.

    P(log p(x') ≤ log p(x)) ≤ Σⱼ wⱼ Pⱼ(Tⱼ ≥ τⱼ),    Tⱼ = -log pⱼ(x'),  τⱼ = log wⱼ - log p(x)

with x' of component j, and all but equal where components do not overlap: p(x') ≥ wⱼpⱼ(x'). T is a sum over independent
parts, whose cumulant functions are known: ½χ² of the c numbers that were seen, and -log of the probability of a code,

    K(t) = log E[exp(tT)] = -(c/2) log(1 - t) + Σ log Σₛ pₛ^(1-t)

from which P(T ≥ τ) follows by a saddlepoint, K'(t) = τ, with a relative error that stays small however small the
probability is, where simulation sees nothing. Lugannani & Rice (1980); Butler (2007), section 1.2. Codes alone, whose
sums are few different numbers, take the bound exp(K(t) - tτ) of Chernoff (1952) instead.
"""

from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Bool, Float

from credo.core.errors import DataError
from credo.core.special import LOG_2PI
from credo.models.densities import CategoricalDensity, Columns, Density, FactorAnalyser, Observed
from credo.models.densities.normal import JOINT, NormalDensity

GRID = 1.0 - np.geomspace(1e-6, 64.0, 1500)[::-1]
"""Saddlepoints t: from -63, where T is as small as it can be, towards 1, where ½χ² has no moments any more."""
NEAR = 1e-3
"""Saddlepoints so near to zero that Lugannani and Rice's difference of large numbers is replaced by its limit."""


def tail(
    density: Density,
    log_weights: Float[np.ndarray, " k"],
    data: Observed,
    log_density: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """The probability of a row as improbable as each, or more so; 1 for a row that shows nothing."""
    numbers, codes = _parts(density)
    k, seen = len(log_weights), np.asarray(data.seen)
    cumulants = {place: _of_codes(part) for part, place in codes}
    patterns, which = np.unique(seen, axis=0, return_inverse=True)
    weights, out = np.exp(log_weights), np.ones(len(seen))
    for i, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == i)
        if not pattern.any():
            continue
        # T without the constant of the Gaussian part, so that it is ½χ².
        constant, c = np.zeros(k), 0
        for part, place in numbers:
            constant, c = constant + _constant(part, pattern[list(place)]), c + int(pattern[list(place)].sum())
        total = np.repeat(_of_squares(c)[:, None], k, axis=1)
        for column, each in cumulants.items():
            total = total + each * pattern[column]
        at = log_weights[:, None] - constant[:, None] - log_density[rows]
        found = [w * _survival(total[:, j], at[j], c > 0) for j, w in enumerate(weights) if w > 0]
        out[rows] = np.minimum(np.sum(found, axis=0), 1.0)
    return out


def _parts(density: Any) -> tuple[list[tuple[Any, tuple[int, ...]]], list[tuple[Any, int]]]:
    """The Gaussian parts with their columns, and the columns of codes."""
    pairs = [(density, tuple(range(density.sizes[1])))]
    if isinstance(density, Columns):
        pairs = list(zip(density.parts, density.places, strict=True))
    pairs = [(part.gaussian if isinstance(part, FactorAnalyser) else part, place) for part, place in pairs]
    for part, _ in pairs:
        if not isinstance(part, NormalDensity | CategoricalDensity):
            raise DataError(
                f"anomaly is for Gaussian and categorical columns, found {type(part).__name__}; log_density(x) ranks "
                "rows under any density"
            )
    numbers = [(part, place) for part, place in pairs if isinstance(part, NormalDensity)]
    return numbers, [(part, place[0]) for part, place in pairs if isinstance(part, CategoricalDensity)]


def _constant(part: NormalDensity, seen: Bool[np.ndarray, " d"]) -> Float[np.ndarray, " k"]:
    """½ log |2πΣ| of the columns that were seen."""
    covariance, c = np.asarray(part._covariances), int(seen.sum())
    if part.structure not in JOINT:
        logs = np.broadcast_to(np.log(covariance), (part.sizes[0], len(seen)))
        return 0.5 * (c * LOG_2PI + logs[:, seen].sum(1))
    if not c:
        return np.zeros(part.sizes[0])
    cut = np.broadcast_to(covariance, (part.sizes[0], *covariance.shape[1:]))[:, seen][:, :, seen]
    return 0.5 * (c * LOG_2PI + np.linalg.slogdet(cut)[1])


def _of_squares(c: int) -> Float[np.ndarray, "4 t"]:
    """K, K', K'', K''' of ½χ² with c degrees of freedom."""
    left, h = 1 - GRID, 0.5 * c
    return np.stack([-h * np.log(left), h / left, h / left**2, 2 * h / left**3])


def _of_codes(part: CategoricalDensity) -> Float[np.ndarray, "4 k t"]:
    """K, K', K'', K''' of -log of the probability of a code, of each component."""
    probs = np.asarray(part._probs)
    logs = -np.log(np.maximum(probs, 1e-300))
    tilted = np.where(probs[:, None] > 0, (GRID[:, None] - 1) * logs[:, None], -np.inf)
    height = scipy.special.logsumexp(tilted, axis=2)
    share = np.exp(tilted - height[..., None])
    mean = (share * logs[:, None]).sum(2)
    gap = logs[:, None] - mean[..., None]
    return np.stack([height, mean, (share * gap**2).sum(2), (share * gap**3).sum(2)])


def _survival(cumulants: Float[np.ndarray, "4 t"], at: Float[np.ndarray, " n"], smooth: bool) -> np.ndarray:
    """P(T ≥ at): log probabilities along the saddlepoints, and between them linear in K'(t)."""
    height, mean, variance, third = cumulants
    exponent = height - GRID * mean
    if not smooth:
        logs = np.where(GRID > 0, np.minimum(exponent, 0.0), 0.0)
        return np.exp(np.interp(at - 1e-9, mean, logs))
    with np.errstate(divide="ignore", invalid="ignore"):
        r, u = np.sign(GRID) * np.sqrt(np.maximum(-2 * exponent, 0.0)), GRID * np.sqrt(variance)
        # log(Φ(-r) + φ(r)(1/u - 1/r)), both terms over φ(r), which is tiny where t is large.
        mills = np.exp(scipy.special.log_ndtr(-r) + 0.5 * r**2 + 0.5 * LOG_2PI)
        logs = np.log(np.maximum(mills + 1 / u - 1 / r, 1e-300)) - 0.5 * r**2 - 0.5 * LOG_2PI
        limit = np.log(0.5 - third / (6 * np.sqrt(2 * np.pi) * variance**1.5))
    near = np.abs(u) < NEAR
    logs = np.where(near, limit, logs)
    logs = np.where(GRID < -1, np.where(np.isfinite(logs), logs, 0.0), logs)  # nearly certain: φ(r) has no digits
    return np.exp(np.minimum(np.interp(at, mean, logs), 0.0))
