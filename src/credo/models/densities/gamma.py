"""Conjugate law of k linear maps whose columns have noise variances of their own: normal inverse gamma.

    mₖⱼ | σ² ~ N(mean, σ² precision⁻¹),  σ² ~ InverseGamma(shape, scale),   xⱼ ~ N(mₖⱼ·v, σ²)

The variances are one for each column, or one for all columns of a component (a last axis of 1). Entries of x that
are missing are simply not counted. Murphy (2012), section 7.6.3.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, namespace, special
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI, gamma_quantile
from credo.models.conjugate.matrix import log_determinants, moved, roots, solve_each, solve_triangles


def gamma_divergence(a: Array, b: Array, a0: Array, b0: Array) -> Array:
    """KL(Gamma(a, b) ‖ Gamma(a₀, b₀)), which is that of the inverse gammas too."""
    xp, by = namespace(a, b, a0, b0), special(a, b, a0, b0)
    log_gammas = by.gammaln(a0) - by.gammaln(a)
    return (a - a0) * by.digamma(a) + log_gammas + a0 * (xp.log(b) - xp.log(b0)) + a * (b0 - b) / b


class ColumnMoments(NamedTuple):
    """Σ w, Σ w vvᵀ, Σ w xv and Σ w x² for each component and column, over the entries that are seen."""

    mass: Float[Array, "k d"]
    vv: Float[Array, "k d p p"]
    xv: Float[Array, "k d p"]
    xx: Float[Array, "k d"]


class NormalInverseGammas(eqx.Module):
    """p(m, σ²) of k components; the last axis of `shape` and `scale` is d, or 1 where the columns share σ²."""

    mean: Float[Array, "k d p"]
    precision: Float[Array, "k d p p"]
    shape: Float[Array, "k g"]
    scale: Float[Array, "k g"]

    @classmethod
    def flat(cls, k: int, p: int, floor: Float[Array, " d"], shared: bool) -> "NormalInverseGammas":
        """The improper law whose mode is the maximum likelihood, but for the floor: log p = -½ floor/σ²."""
        d = floor.shape[0]
        scale = 0.5 * (floor.sum(keepdims=True) if shared else floor)
        groups = scale.shape[0]
        shape = np.full((k, groups), -1.0 - 0.5 * p * (d // groups))
        scale = namespace(scale).broadcast_to(scale, (k, groups))
        return cls(np.zeros((k, d, p)), np.zeros((k, d, p, p)), shape, scale)

    def shifted(self, origin: Float[Array, " d"]) -> "NormalInverseGammas":
        """The law of x - origin; the last input is the constant 1."""
        return changed(self, mean=moved(self.mean, -origin))

    def update(self, moments: ColumnMoments) -> "NormalInverseGammas":
        """Kₙ = K + Σvvᵀ, mₙ = Kₙ⁻¹(Km + Σxv), aₙ = a + n/2, bₙ = b + ½(Σx² + mᵀKm - mₙᵀKₙmₙ)."""
        xp = namespace(self.mean, self.precision, moments)
        precision = self.precision + moments.vv
        prior_part = (self.precision @ self.mean[..., None])[..., 0]
        mixed = prior_part + moments.xv
        root = roots(precision)
        # Without a prior what was not visited has no precision: its mean stays, and adds nothing to the rest.
        known = xp.isfinite(root).all((2, 3))[:, :, None]
        solved = solve_each(xp.where(known[..., None], root, np.eye(root.shape[-1])), mixed[..., None])[..., 0]
        mean = xp.where(known, solved, self.mean)
        before = (self.mean * prior_part).sum(-1)
        scatter = xp.maximum(moments.xx + before - (mean * mixed).sum(-1), 0.0)
        return NormalInverseGammas(
            mean, precision, self.shape + 0.5 * self._gather(moments.mass), self.scale + 0.5 * self._gather(scatter)
        )

    def mode(self) -> tuple[Float[Array, "k d p"], Float[Array, "k g"]]:
        """(m, b/(a + 1 + p/2)), and p/2 for each column that shares σ²."""
        return self.mean, self.scale / self._power

    def average(self) -> tuple[Float[Array, "k d p"], Float[Array, "k g"]]:
        """(m, b/(a - 1)); the mode of σ² where its mean does not exist."""
        excess = self.shape - 1
        return self.mean, self.scale / namespace(excess).where(excess > 0, excess, self._power)

    def log_kernel(self, coefficients: Float[Array, "k d p"], variance: Float[Array, "k g"]) -> Float[Array, ""]:
        """log p(m, σ²) without its constant."""
        spread = self._spread_of(coefficients - self.mean)
        parts = self._power * namespace(variance).log(variance) + (self.scale + 0.5 * self._gather(spread)) / variance
        return -parts.sum()

    def draw(self, key: PRNGKeyArray) -> tuple[Float[Array, "k d p"], Float[Array, "k g"]]:
        """σ² = b/Gamma(a), then m = mean + σR⁻ᵀz with RRᵀ = precision."""
        k_variance, k_mean = jr.split(key)
        variance = self.scale / jr.gamma(k_variance, self.shape)
        z = solve_triangles(roots(self.precision), jr.normal(k_mean, self.mean.shape)[..., None], transposed=True)
        return self.mean + jnp.sqrt(variance)[:, :, None] * z[..., 0], variance

    def expected_log_precision(self) -> Float[Array, "k g"]:
        """E[log 1/σ²] = ψ(a) - log b."""
        return special(self.shape).digamma(self.shape) - namespace(self.scale).log(self.scale)

    def divergence(self, prior: "NormalInverseGammas") -> Float[Array, ""]:
        """KL(self ‖ prior) = KL of the inverse gammas + E[KL of the normals | σ²]."""
        gammas = gamma_divergence(self.shape, self.scale, prior.shape, prior.scale)
        mine = roots(self.precision)
        ratio = log_determinants(mine) - log_determinants(roots(prior.precision))
        trace = namespace(mine).trace(solve_each(mine, prior.precision), axis1=-2, axis2=-1)
        distance = self.shape / self.scale * prior._spread_of(self.mean - prior.mean)
        return gammas.sum() + 0.5 * (trace - self.mean.shape[-1] + ratio + distance).sum()

    def log_normalizer(self) -> Float[Array, ""]:
        """log ∫ of the density without its constant: p/2 log 2π - ½ log|K|, and log Γ(a) - a log b."""
        maps = 0.5 * (self.mean.size * LOG_2PI - log_determinants(roots(self.precision)).sum())
        gammas = special(self.shape).gammaln(self.shape) - self.shape * namespace(self.scale).log(self.scale)
        return maps + gammas.sum()

    def several(self, n: int, seed: int) -> tuple[Float[Array, "n k d p"], Float[Array, "n k g"]]:
        """n draws of (m, σ²) from random numbers that are the same in NumPy and JAX."""
        rng, xp = np.random.default_rng(seed), namespace(self)
        variance = self.scale / gamma_quantile(self.shape, rng.random((n, *self.shape.shape)))
        z, root = rng.normal(size=(n, *self.mean.shape, 1)), roots(self.precision)
        scaled = solve_triangles(xp.broadcast_to(root, (n, *root.shape)), z, transposed=True)[..., 0]
        return self.mean + xp.sqrt(variance)[..., None] * scaled, variance

    def _spread_of(self, deviation: Float[Array, "k d p"]) -> Float[Array, "k d"]:
        """Their squared lengths by the precision."""
        return (deviation[..., None, :] @ self.precision @ deviation[..., None])[..., 0, 0]

    @property
    def _power(self) -> Float[Array, "k g"]:
        """a + 1 + p/2 · (columns that share σ²): minus the power of σ² in the density."""
        (_, d, p), groups = self.mean.shape, self.shape.shape[1]
        return self.shape + 1 + 0.5 * p * (d // groups)

    def _gather(self, values: Float[Array, "k d"]) -> Float[Array, "k g"]:
        """What the columns of each group sum to."""
        return values.sum(1, keepdims=True) if self.shape.shape[1] == 1 else values
