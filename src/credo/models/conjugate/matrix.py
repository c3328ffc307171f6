"""Conjugate law of k linear maps and their noise covariances: matrix normal inverse Wishart.

    Mₖ | Σ ~ MN(mean, Σ, precision⁻¹),  Σ ~ InverseWishart(scale, df),   x ~ N(Mₖ v, Σ)

With v = 1 it is the normal-inverse-Wishart law of a mean. The covariances are one for each map, or one for all (a
leading axis of 1). The maps are those of the states of an HMM, or the single one of a regression. Murphy (2023),
"Probabilistic machine learning: advanced topics", section 3.4.4.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, namespace, special
from credo.core.linalg import factorize, symmetric_part
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI, gamma_quantile


class JointMoments(NamedTuple):
    """Σ w, Σ w vvᵀ, Σ w xvᵀ and Σ w xxᵀ for each state."""

    mass: Float[Array, " k"]
    vv: Float[Array, "k p p"]
    xv: Float[Array, "k d p"]
    xx: Float[Array, "k d d"]


class MatrixNormalInverseWishart(eqx.Module):
    """p(M, Σ) of k states; `df` and `scale` have one entry for each state, or a single one that all share."""

    mean: Float[Array, "k d p"]
    precision: Float[Array, "k p p"]
    df: Float[Array, " g"]
    scale: Float[Array, "g d d"]

    @classmethod
    def flat(cls, states: int, p: int, floor: Float[Array, " d"], shared: bool) -> "MatrixNormalInverseWishart":
        """The improper law whose mode is the maximum likelihood, but for the floor: log p = -½ tr(floor Σ⁻¹)."""
        xp, d, groups = namespace(floor), floor.shape[0], 1 if shared else states
        df = np.full(groups, -(d + 1.0 + p * (states // groups)))
        return cls(
            np.zeros((states, d, p)), np.zeros((states, p, p)), df, xp.broadcast_to(xp.diag(floor), (groups, d, d))
        )

    def shifted(self, origin: Float[Array, " d"]) -> "MatrixNormalInverseWishart":
        """The law of x - origin; the last input is the constant 1."""
        return changed(self, mean=moved(self.mean, -origin))

    def update(self, moments: JointMoments) -> "MatrixNormalInverseWishart":
        """Kₙ = K + Σvvᵀ, Mₙ = (MK + Σxvᵀ)Kₙ⁻¹, νₙ = ν + n, Ψₙ = Ψ + Σxxᵀ + MKMᵀ - MₙKₙMₙᵀ."""
        xp = namespace(self.mean, self.precision, moments)
        precision = self.precision + moments.vv
        mixed = self.mean @ self.precision + moments.xv
        root = roots(precision)
        # Without a prior a state that was not visited has no precision: its mean stays, and adds nothing to the rest.
        known = xp.isfinite(root).all((1, 2))[:, None, None]
        solved = solve_each(xp.where(known, root, np.eye(root.shape[-1])), mixed.swapaxes(1, 2))
        mean = xp.where(known, solved.swapaxes(1, 2), self.mean)
        before = self.mean @ self.precision @ self.mean.swapaxes(1, 2)
        scatter = moments.xx + before - mean @ mixed.swapaxes(1, 2)
        return MatrixNormalInverseWishart(
            mean, precision, self.df + self._gather(moments.mass), symmetric_part(self.scale + self._gather(scatter))
        )

    def mode(self) -> tuple[Float[Array, "k d p"], Float[Array, "g d d"]]:
        """(M, Ψ/(ν + d + 1 + p)), and p for each state that shares Σ."""
        return self.mean, self.scale / self._power[:, None, None]

    def average(self) -> tuple[Float[Array, "k d p"], Float[Array, "g d d"]]:
        """(M, Ψ/(ν - d - 1)); the mode of Σ where its mean does not exist."""
        excess = self.df - self.scale.shape[-1] - 1
        return self.mean, self.scale / namespace(excess).where(excess > 0, excess, self._power)[:, None, None]

    def log_kernel(self, coefficients: Float[Array, "k d p"], covariance: Float[Array, "g d d"]) -> Float[Array, ""]:
        """log p(M, Σ) without its constant."""
        root = roots(covariance)
        trace = _trace_ratio(self.scale, root)
        deviation = coefficients - self.mean
        outer = deviation @ self.precision @ deviation.swapaxes(1, 2)
        spread = _trace_ratio(outer, self._spread(root))
        return -0.5 * ((self._power * log_determinants(root)).sum() + trace.sum() + spread.sum())

    def draw(self, key: PRNGKeyArray) -> tuple[Float[Array, "k d p"], Float[Array, "g d d"]]:
        """Σ = BBᵀ, then M given Σ."""
        k_covariance, k_mean = jr.split(key)
        half = draw_root(k_covariance, self.df, self.scale)
        return self.draw_given(k_mean, half), symmetric_part(half @ half.swapaxes(1, 2))

    def draw_given(self, key: PRNGKeyArray, root: Float[Array, "g d d"]) -> Float[Array, "k d p"]:
        """M given Σ = BBᵀ with any such `root` B: mean + B(R⁻ᵀZ)ᵀ with RRᵀ = precision."""
        k, d, p = self.mean.shape
        scaled = solve_triangles(roots(self.precision), jr.normal(key, (k, p, d)), transposed=True)
        return self.mean + self._spread(root) @ scaled.swapaxes(1, 2)

    def expected_log_det(self) -> Float[Array, "g d"]:
        """The terms of E[log |Σ⁻¹|] = Σᵢ ψ((ν - i)/2) + d log 2 - log |Ψ| that depend on i, i = 0 … d - 1."""
        return _digammas(self.df, self.scale.shape[-1])

    def divergence(self, prior: "MatrixNormalInverseWishart") -> Float[Array, ""]:
        """KL(self ‖ prior) = KL of the inverse Wisharts + E[KL of the normals | Σ]."""
        (_, d, p), root = self.mean.shape, roots(self.scale)
        wishart = wishart_divergence(self.df, self.scale, prior.df, prior.scale)
        mine = roots(self.precision)
        deviation = self.mean - prior.mean
        outer = deviation @ prior.precision @ deviation.swapaxes(1, 2)
        distance = self._spread(self.df) * _trace_ratio(outer, self._spread(root))
        ratio = log_determinants(mine) - log_determinants(roots(prior.precision))
        normal = 0.5 * (d * (_trace_ratio(prior.precision, mine) - p + ratio) + distance)
        return wishart.sum() + normal.sum()

    def log_normalizer(self) -> Float[Array, ""]:
        """log ∫ of the density without its constant: dp/2 log 2π - d/2 log|K| of each map, and of each covariance
        νd/2 log 2 + log Γ_d(ν/2) - ν/2 log|Ψ|."""
        (k, d, p), xp = self.mean.shape, namespace(self)
        maps = 0.5 * d * (k * p * LOG_2PI - log_determinants(roots(self.precision)).sum())
        gammas = special(self.df).gammaln(0.5 * (self.df[:, None] - np.arange(d))).sum() + self.df.shape[0] * (
            0.25 * d * (d - 1) * np.log(np.pi)
        )
        wishart = 0.5 * self.df * (d * np.log(2.0) - log_determinants(roots(self.scale)))
        return xp.asarray(maps + gammas + wishart.sum())

    def several(self, n: int, seed: int) -> tuple[Float[Array, "n k d p"], Float[Array, "n g d d"]]:
        """n draws of (M, Σ) from random numbers that are the same in NumPy and JAX: Bartlett's, by quantiles."""
        (k, d, p), groups, rng = self.mean.shape, self.df.shape[0], np.random.default_rng(seed)
        chi = rng.random((n, groups, d))
        lower = np.tril(rng.normal(size=(n, groups, d, d)), -1)
        z = rng.normal(size=(n, k, p, d))
        xp = namespace(self)
        chi = xp.sqrt(2 * gamma_quantile(0.5 * (self.df[:, None] - np.arange(d)), chi))
        bartlett = lower + chi[..., None] * np.eye(d)
        turned = xp.broadcast_to(roots(self.scale).swapaxes(1, 2), bartlett.shape)
        half = solve_triangles(bartlett, turned).swapaxes(2, 3)
        scaled = solve_triangles(xp.broadcast_to(roots(self.precision), (n, k, p, p)), z, transposed=True)
        spread = xp.broadcast_to(half, (n, k, d, d)) if groups == 1 else half
        return self.mean + spread @ scaled.swapaxes(2, 3), symmetric_part(half @ half.swapaxes(2, 3))

    @property
    def _power(self) -> Float[Array, " g"]:
        """ν + d + 1 + p · (states that share Σ): -2 times the power of |Σ| in the density."""
        (k, d, p), groups = self.mean.shape, self.df.shape[0]
        return self.df + d + 1 + p * (k // groups)

    def _gather(self, values: Array) -> Array:
        """What the states of each group sum to."""
        return values.sum(0, keepdims=True) if self.df.shape[0] == 1 else values

    def _spread(self, values: Array) -> Array:
        """What belongs to a group, for each of its states."""
        return namespace(values).broadcast_to(values, (self.mean.shape[0], *values.shape[1:]))


def _digammas(df: Float[Array, " g"], d: int) -> Float[Array, "g d"]:
    """ψ((ν - i)/2), i = 0 … d - 1."""
    return special(df).digamma(0.5 * (df[:, None] - np.arange(d)))


def wishart_divergence(
    df: Float[Array, " g"],
    scale: Float[Array, "g d d"],
    prior_df: Float[Array, " g"],
    prior_scale: Float[Array, "g d d"],
) -> Float[Array, " g"]:
    """KL(IW(scale, df) ‖ IW(prior_scale, prior_df)) of each."""
    d, root, by = scale.shape[-1], roots(scale), special(df, prior_df)
    return (
        0.5 * prior_df * (log_determinants(root) - log_determinants(roots(prior_scale)))
        + 0.5 * df * (_trace_ratio(prior_scale, root) - d)
        + by.multigammaln(0.5 * prior_df, d)
        - by.multigammaln(0.5 * df, d)
        + 0.5 * (df - prior_df) * _digammas(df, d).sum(-1)
    )


def draw_root(key: PRNGKeyArray, df: Float[Array, " g"], scale: Float[Array, "g d d"]) -> Float[Array, "g d d"]:
    """B with BBᵀ ~ InverseWishart(scale, df), for each of g: LA⁻ᵀ with LLᵀ = scale and A of Bartlett (1933)."""
    k_chi, k_lower = jr.split(key)
    groups, d, _ = scale.shape
    chi = jnp.sqrt(2 * jr.gamma(k_chi, 0.5 * (df[:, None] - jnp.arange(d))))
    bartlett = jnp.tril(jr.normal(k_lower, (groups, d, d)), -1) + chi[:, :, None] * jnp.eye(d)
    return solve_triangles(bartlett, roots(scale).swapaxes(1, 2)).swapaxes(1, 2)


def moved(coefficients: Float[Array, "k d p"], by: Float[Array, " d"]) -> Float[Array, "k d p"]:
    """Linear maps whose constants, the last column, are moved by so much."""
    return coefficients + by[:, None] * (np.arange(coefficients.shape[-1]) == coefficients.shape[-1] - 1)


def roots(matrices: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """The Cholesky factor of each matrix; NaN where one is not positive definite, never a wrong number."""
    flat = matrices.reshape(math.prod(matrices.shape[:-2]), *matrices.shape[-2:])
    if isinstance(flat, np.ndarray):
        try:
            return np.linalg.cholesky(matrices)
        except np.linalg.LinAlgError:  # one of them needs jitter, or has no root
            found = [factorize(each) for each in flat]
            return np.stack([f.root if f.ok else np.full_like(f.root, np.nan) for f in found]).reshape(matrices.shape)
    factors = jax.vmap(factorize)(flat)
    return jnp.where(factors.ok[:, None, None], factors.root, jnp.nan).reshape(matrices.shape)


def solve_triangles(
    root: Float[Array, "*b n n"], b: Float[Array, "*b n m"], transposed: bool = False
) -> Float[Array, "*b n m"]:
    """L⁻¹b of each, or L⁻ᵀb."""
    if namespace(root, b) is np:
        return np.linalg.solve(root.swapaxes(-1, -2) if transposed else root, b)
    root, b = jnp.asarray(root), jnp.asarray(b)
    return jax.lax.linalg.triangular_solve(root, b, left_side=True, lower=True, transpose_a=transposed)


def solve_each(root: Float[Array, "*b n n"], b: Float[Array, "*b n m"]) -> Float[Array, "*b n m"]:
    """(LLᵀ)⁻¹b of each."""
    return solve_triangles(root, solve_triangles(root, b), transposed=True)


def log_determinants(root: Float[Array, "*b n n"]) -> Float[Array, "*b"]:
    """log |LLᵀ| of each."""
    xp = namespace(root)
    return 2 * xp.log(xp.diagonal(root, axis1=-2, axis2=-1)).sum(-1)


def _trace_ratio(matrix: Float[Array, "k n n"], root: Float[Array, "k n n"]) -> Float[Array, " k"]:
    """tr(A (LLᵀ)⁻¹) of each."""
    return namespace(matrix, root).trace(solve_each(root, matrix), axis1=-2, axis2=-1)
