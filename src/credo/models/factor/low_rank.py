"""The Gaussian whose covariance is of low rank but for its diagonal, N(μ, WWᵀ + Ψ), through l × l matrices only.

    z ~ N(0, I),  x = μ + Wz + ε,  ε ~ N(0, Ψ):      p(z | x) = N(M⁻¹WᵀΨ⁻¹(x - μ), M⁻¹),   M = I + WᵀΨ⁻¹W

    log |WWᵀ + Ψ| = log |Ψ| + log |M|,    (WWᵀ + Ψ)⁻¹ = Ψ⁻¹ - Ψ⁻¹W M⁻¹ WᵀΨ⁻¹

Of a row that was seen in part only the seen entries count: Mᵢ = I + Σⱼ oᵢⱼ wⱼwⱼᵀ/ψⱼ, for all rows one product of an
n × d and a d × l² matrix. Bishop (2006), section 12.2; Ghahramani & Hinton (1996).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, namespace
from credo.core.linalg import inverses
from credo.core.special import LOG_2PI
from credo.models.conjugate.normal import Moments
from credo.models.factor.statistics import Rows

BLOCK = 16_384
"""So many rows at a time: their l × l matrices fit in memory."""


class Parameters(NamedTuple):
    """μ, W and the diagonal of Ψ."""

    mean: Float[Array, " d"]
    w: Float[Array, "d l"]
    noise: Float[Array, " d"]

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """WWᵀ + Ψ."""
        return self.w @ self.w.T + namespace(self).diag(self.noise)

    @property
    def scaled(self) -> Float[Array, "d l"]:
        """Ψ⁻¹W."""
        return self.w / self.noise[:, None]

    def of_complete(self) -> tuple[Float[Array, "l l"], Float[Array, ""]]:
        """M⁻¹ and log |M| of a row that was seen in full."""
        xp, l = namespace(self), self.w.shape[1]
        inverse, log_det = inverses((xp.eye(l) + self.w.T @ self.scaled)[None])
        return inverse[0], log_det[0]


class OfRows(NamedTuple):
    """What rows say of their factors, and how probable they are."""

    mean: Float[Array, "n l"]
    """E[z | x]."""
    covariance: Float[Array, "n l l"]
    """Cov[z | x]; (1, l, l) where all rows were seen in full."""
    distance: Float[Array, " n"]
    """(x - μ)ᵀ(WWᵀ + Ψ)⁻¹(x - μ) of the seen entries: χ² with as many degrees of freedom."""
    log_prob: Float[Array, " n"]
    """log p of the seen entries."""


def look(p: Parameters, x: Float[Array, "n d"], seen: Bool[Array, "n d"] | None = None) -> OfRows:
    """The posterior of the factors of each row; `seen` None is all of them."""
    xp, (d, l) = namespace(p, x, seen), p.w.shape
    y = x - p.mean if seen is None else xp.where(seen, x - p.mean, 0.0)
    pulled = y @ p.scaled
    if seen is None:
        inverse, log_det = p.of_complete()
        constant = d * LOG_2PI + xp.log(p.noise).sum() + log_det
        mean, inverse = pulled @ inverse, inverse[None]
    else:
        o = seen.astype(float)
        products = (p.scaled[:, :, None] * p.w[:, None, :]).reshape(d, l * l)
        inverse, log_det = inverses(xp.eye(l) + (o @ products).reshape(len(o), l, l))
        constant = o @ (LOG_2PI + xp.log(p.noise)) + log_det
        mean = (inverse @ pulled[:, :, None])[:, :, 0]
    left = y - mean @ p.w.T if seen is None else xp.where(seen, y - mean @ p.w.T, 0.0)
    # The least of |y - Wz|² in units of the noise + |z|²: nothing cancels where the noise is next to nothing.
    distance = (left**2 / p.noise).sum(1) + (mean**2).sum(1)
    return OfRows(mean, inverse, distance, -0.5 * (constant + distance))


def blocks(n: int, known: bool) -> list[slice]:
    """Cuts of n rows, where their numbers are known; one cut otherwise."""
    return [slice(i, i + BLOCK) for i in range(0, n, BLOCK)] if known or not n else [slice(0, n)]


def log_likelihood(p: Parameters, rows: Rows) -> Float[Array, ""]:
    """log p(rows): of those seen in full from their moments."""
    xp = namespace(p, rows)
    total = xp.zeros(()) if rows.moments is None else log_likelihood_of_moments(p, rows.moments)
    for cut in blocks(rows.partial, xp is np):
        total = total + rows.weights[cut] @ look(p, rows.x[cut], rows.seen[cut]).log_prob
    return total


def log_likelihood_of_moments(p: Parameters, moments: Moments) -> Float[Array, ""]:
    """-½ n (log |2πΣ|) - ½ tr(Σ⁻¹ T), T the squares about μ."""
    xp, d = namespace(p, moments), p.mean.shape[0]
    inverse, log_det = p.of_complete()
    about = squares_about(moments, p.mean)
    beta = inverse @ p.scaled.T
    left = xp.eye(d) - p.w @ beta  # as `look` does for a row: nothing cancels
    trace = (xp.diagonal(left @ about @ left.T) / p.noise).sum() + xp.trace(beta @ about @ beta.T)
    return -0.5 * (moments.count * (d * LOG_2PI + xp.log(p.noise).sum() + log_det) + trace)


def squares_about(moments: Moments, mean: Float[Array, " d"]) -> Float[Array, "d d"]:
    """Σ (x - mean)(x - mean)ᵀ."""
    gap = moments.mean - mean
    return moments.squares + moments.count * gap[:, None] * gap
