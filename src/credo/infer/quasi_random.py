"""Quasi-random points and normal draws: fewer of them say as much as many that are independent."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from credo.core.linalg import cholesky, solve_lower

Seed = int | Sequence[int] | np.random.Generator


def normals(n: int, q: int, seed: Seed) -> Float[np.ndarray, "n q"]:
    """n (an even number) draws of N(0, I) with its variances and third moments; its covariance where n > 2q.

    Scrambled Sobol points in antithetic pairs, whitened: the ELBO of a normal target is then exact.
    """
    return normals_at(sobol(n // 2, q, seed))


def normals_at(points: Float[np.ndarray, "h q"]) -> Float[np.ndarray, "2*h q"]:
    """`normals` from points of the unit cube."""
    (n, q), half = points.shape, ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    if n > q:
        half = solve_lower(cholesky(half.T @ half / n, "the second moments of the draws"), half.T).T
    else:
        half = half / np.sqrt(np.mean(half**2, axis=0))
    return np.concatenate([half, -half])


def sobol(n: int, d: int, seed: Seed) -> Float[np.ndarray, "n d"]:
    """The first n of scrambled Sobol points of the unit cube, which come in powers of two. Owen (1998)."""
    from scipy.stats import qmc  # half a second of imports

    return qmc.Sobol(d, rng=np.random.default_rng(seed)).random_base2(max(n - 1, 0).bit_length())[:n]


def lattice(n: int, d: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """The first n of a Kronecker sequence in the unit cube, shifted at random: frac(s + i α), αⱼ = φ⁻ʲ.

    φ is the root of φᵈ⁺¹ = φ + 1, the golden ratio for d = 1. Unlike `sobol` it imports nothing, which a first fit
    feels. Niederreiter (1992), "Random number generation and quasi-Monte Carlo methods", §3.
    """
    phi = 2.0
    for _ in range(64):
        phi = (1.0 + phi) ** (1.0 / (d + 1))
    steps = phi ** -np.arange(1.0, d + 1)
    return (rng.uniform(size=d) + np.arange(1, n + 1)[:, None] * steps) % 1.0


def latin_hypercube(n: int, d: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """n points of the unit cube, one in each of n slices of every coordinate. McKay, Beckman & Conover (1979)."""
    slices = rng.permuted(np.tile(np.arange(n)[:, None], d), axis=0)
    return (slices + rng.uniform(size=(n, d))) / n
