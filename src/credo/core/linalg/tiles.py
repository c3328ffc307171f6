"""Large covariances on the host, made and factorized in one buffer.

A covariance of 20 000 points takes 3.2 GB; building it in XLA and factorizing a copy takes three times that.
Here only the lower triangle is computed, tile by tile, into the buffer in which LAPACK then factorizes it.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import get_lapack_funcs

from credo.core.arrays import put
from credo.core.linalg import lapack
from credo.core.linalg.factor import Factor

TILE = 512


def factorize_tiles(tile: Callable[[slice, slice], Any], diagonal: Float[np.ndarray, "n"], n: int) -> Factor:
    """The Cholesky factor, under the one jitter policy, of the n × n covariance with the given blocks.

    `tile(rows, columns)` gives a block of it without what `diagonal` adds. `diagonal` is as long as the factor:
    beyond n it is padding, where the factor is the identity.
    """
    size = len(diagonal)
    out = lapack.aligned_empty((size, size))
    (potrf,) = get_lapack_funcs(("potrf",), dtype=out.dtype)
    jitter = 0.0
    while True:
        _assemble(out, tile, diagonal, jitter, n)
        policy = lapack.jitter_policy(out.diagonal()[:n].mean() - jitter, float(n), out.dtype)
        with lapack.safe_threads(size):
            _, info = potrf(out.T, lower=0, clean=1, overwrite_a=1)
        if info == 0 and bool(np.isfinite(out.diagonal()).all()):
            return Factor(put(out), put(jitter), put(True))
        if not jitter < policy.bound:  # also when the bound is NaN or not positive
            return Factor(jnp.eye(size), put(jitter), put(False))
        jitter = float(policy.after(jitter))


def _assemble(
    out: np.ndarray,
    tile: Callable[[slice, slice], Any],
    diagonal: Float[np.ndarray, "n"],
    jitter: float,
    n: int,
) -> None:
    size = len(out)
    for i in range(0, size, TILE):
        rows = slice(i, min(i + TILE, size))
        for j in range(0, i + 1, TILE):
            columns = slice(j, min(j + TILE, size))
            out[rows, columns] = tile(rows, columns)
    out[n:] = 0.0
    real = np.arange(size) < n
    np.fill_diagonal(out, np.where(real, out.diagonal() + diagonal + jitter, 1.0))
