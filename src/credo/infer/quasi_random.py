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
    half = ndtri(np.clip(sobol(n // 2, q, seed), 1e-12, 1 - 1e-12))
    if n // 2 > q:
        half = solve_lower(cholesky(half.T @ half / (n // 2), "the second moments of the draws"), half.T).T
    else:
        half = half / np.sqrt(np.mean(half**2, axis=0))
    return np.concatenate([half, -half])


def sobol(n: int, d: int, seed: Seed) -> Float[np.ndarray, "n d"]:
    """The first n of scrambled Sobol points of the unit cube, which come in powers of two. Owen (1998)."""
    from scipy.stats import qmc  # half a second of imports

    return qmc.Sobol(d, rng=np.random.default_rng(seed)).random_base2(max(n - 1, 0).bit_length())[:n]
