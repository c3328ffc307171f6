"""The jitter policy, and dense factorizations on the host by SciPy's LAPACK.

On a CPU, LAPACK as SciPy calls it factorizes about twice as fast as XLA and, unlike XLA, inverts from
the factor (`potri`). Everything here is NumPy.

A C-ordered lower triangle is a Fortran-ordered upper one: LAPACK is always handed the transposed view
and asked for the upper factor, so that nothing is copied or transposed.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from credo.core.device import blas_threads

NO_THREADS = 64
"""Up to this size OpenBLAS asks no second thread, and asking how many there are costs more than the work.
Otherwise its threads wait for those of NumPy's, which has an OpenBLAS of its own, up to 8 ms a call on two cores."""

Fill = Callable[[Float[ndarray, "n n"]], object]


def _threads(root: Float[ndarray, "n n"], entries: int = 0) -> AbstractContextManager[object]:
    return nullcontext() if root.size + entries <= NO_THREADS**2 else blas_threads(len(root))


class Jitter(NamedTuple):
    """The amounts tried on the diagonal: 0, then `first`, ten times more each time, at last `bound`."""

    first: Any
    bound: Any

    def after(self, jitter: Any, lib: Any = np) -> Any:
        """The amount to try when `jitter` was not enough."""
        return lib.minimum(lib.maximum(10.0 * jitter, self.first), self.bound)


def jitter_policy(scale: Any, count: Any, dtype: Any) -> Jitter:
    """n·eps·mean(diag), times ten, up to 1e-6·mean(diag) in float64 and 1e-3·mean(diag) in float32.

    `scale` is mean(diag) and `count` is n, arrays of either library. n·eps·mean(diag) is the size of the
    rounding error of the factorization itself (Higham, Accuracy and Stability of Numerical Algorithms,
    2002, theorem 10.7), the least that can matter.
    """
    eps = float(np.finfo(dtype).eps)
    relative = 1e-6 if np.dtype(dtype).itemsize >= 8 else 1e-3
    return Jitter(first=count * eps * scale, bound=relative * scale)


def factor_inplace(
    out: Float[ndarray, "n n"], fill: Fill, weight: Float[ndarray, "n"], clean: bool = True
) -> tuple[float, bool]:
    """Write into `out` the lower Cholesky factor of A + jitter·diag(weight); return (jitter, ok).

    `fill(out)` writes the lower triangle of A. `weight` is 1 on the rows that count and 0 on padding. With
    `clean=False` the strict upper triangle of `out` is left undefined.
    """
    (potrf,) = get_lapack_funcs(("potrf",), dtype=out.dtype)
    count, jitter = max(float(weight.sum()), 1.0), 0.0
    while True:
        fill(out)
        diagonal = out.diagonal()
        policy = jitter_policy(float(diagonal @ weight) / count, count, out.dtype)
        if jitter > 0.0:
            np.fill_diagonal(out, diagonal + jitter * weight)
        with _threads(out):
            _, info = potrf(out.T, lower=0, clean=int(clean), overwrite_a=1)
        if info == 0 and bool(np.isfinite(out.diagonal()).all()):
            return jitter, True
        if not jitter < policy.bound:  # also when the bound is NaN or not positive
            return jitter, False
        jitter = float(policy.after(jitter))


def solve_factored(root: Float[ndarray, "n n"], b: Float[ndarray, "n"]) -> Float[ndarray, "n"]:
    """(LLᵀ)⁻¹ b, reading only the lower triangle of L."""
    (potrs,) = get_lapack_funcs(("potrs",), dtype=root.dtype)
    return potrs(root.T, b, lower=0)[0]


def solve_triangle(root: Float[ndarray, "n n"], b: Float[ndarray, "n *m"], transposed: bool = False) -> ndarray:
    """L⁻¹b, or L⁻ᵀb."""
    (trtrs,) = get_lapack_funcs(("trtrs",), (root, b))
    with _threads(root, b.size):
        # LAPACK reads columns: a C-ordered L is the upper triangle Lᵀ to it, unless it is a transposed view already.
        if root.flags.c_contiguous:
            return trtrs(root.T, b, lower=0, trans=int(not transposed))[0]
        return trtrs(root, b, lower=1, trans=int(transposed))[0]


def solve_each(matrices: Float[ndarray, "s n n"], b: Float[ndarray, "s n m"]) -> tuple[Float[ndarray, "s n m"], bool]:
    """Aᵢ⁻¹bᵢ of many small positive definite matrices, under the jitter policy; and whether all of them were."""
    (posv,) = get_lapack_funcs(("posv",), (matrices, b))
    out, n = np.empty_like(b), matrices.shape[1]
    for i, (matrix, column) in enumerate(zip(matrices, b, strict=True)):
        _, out[i], info = posv(matrix.T, column, lower=0)
        if info or not np.isfinite(out[i]).all():
            root = np.empty((n, n))
            if not factor_inplace(root, functools.partial(np.copyto, src=matrix), np.ones(n))[1]:
                return out, False
            out[i] = solve_triangle(root, solve_triangle(root, column), transposed=True)
    return out, True


def invert_inplace(root: Float[ndarray, "n n"]) -> None:
    """Replace the lower triangle of L by that of (LLᵀ)⁻¹."""
    (potri,) = get_lapack_funcs(("potri",), dtype=root.dtype)
    with _threads(root):
        potri(root.T, lower=0, overwrite_c=1)


def invert_triangle(root: Float[ndarray, "n n"]) -> Float[ndarray, "n n"]:
    """L⁻¹, for a third of what `potri` does."""
    (trtri,) = get_lapack_funcs(("trtri",), dtype=root.dtype)
    out = np.array(root, order="C")
    with _threads(root):
        trtri(out.T, lower=0, overwrite_c=1)
    return out


def square_triangle(inverse_root: Float[ndarray, "n n"]) -> Float[ndarray, "n n"]:
    """The lower triangle of L⁻ᵀL⁻¹ = (LLᵀ)⁻¹ from L⁻¹: with `invert_triangle` this is `invert_inplace`."""
    (lauum,) = get_lapack_funcs(("lauum",), dtype=inverse_root.dtype)
    out = np.array(inverse_root, order="C")
    with _threads(out):
        lauum(out.T, lower=0, overwrite_c=1)
    return out


def subtract_outer_inplace(matrix: Float[ndarray, "n n"], x: Float[ndarray, "n"], times: float = 1.0) -> None:
    """Subtract xxᵀ, or a multiple of it, from the lower triangle."""
    (syr,) = get_blas_funcs(("syr",), dtype=matrix.dtype)
    syr(-times, x, lower=0, a=matrix.T, overwrite_a=1)
