"""The one Cholesky factorization, its jitter policy, and what a factor is good for.

Write A = LLᵀ with `root` = L lower triangular. `factorize` is the traceable form and returns a status;
`cholesky` is the checked form and never returns a factor that is not one. Everything else takes the root.
Numbers that are known are factorized by SciPy's LAPACK and stay NumPy's; what is traced stays in XLA.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Bool, Float

from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.errors import NotPositiveDefinite
from credo.core.linalg import lapack
from credo.core.linalg.lapack import jitter_policy

T = TypeVar("T")

REMEDY = (
    "A value near zero means duplicated or dependent rows: remove them, or add noise to the diagonal. "
    "A clearly negative one means that the kernel or the formula that built it is not a covariance."
)


class Factor(NamedTuple):  # not of Equinox, which takes longer to make an object than to factorize a small matrix
    """A Cholesky factor with its status: LLᵀ = A + jitter·I where `ok`.

    Where not `ok`, A is not positive definite (or not finite) and `root` is the identity, a placeholder
    that keeps gradients of the branch not taken finite; it must not be used.
    """

    root: Float[Array, "n n"]
    jitter: Float[Array, ""]
    ok: Bool[Array, ""]


def factorize(matrix: Float[Array, "n n"], mask: Bool[Array, "n"] | None = None) -> Factor:
    """The Cholesky factor of a symmetric matrix under the jitter policy, under jit, vmap and grad alike.

    Tries jitter 0, then n·eps·mean(diag) and ten times more each time, up to 1e-6·mean(diag) in float64
    and 1e-3·mean(diag) in float32. The jitter is a constant to the gradient. Rows and columns where
    `mask` is False are padding: they become rows of the identity, get no jitter and do not enter the mean.

    Symmetry is assumed and A is read as (A + Aᵀ)/2; `cholesky` also checks it.
    """
    matrix, mask = host((matrix, mask))
    matrix, xp = pad_identity(matrix, mask), namespace(matrix, mask)
    weight = xp.ones(len(matrix), matrix.dtype) if mask is None else mask.astype(matrix.dtype)
    if not is_traced(matrix):
        root = np.empty(matrix.shape, matrix.dtype)

        def fill(out: np.ndarray) -> None:  # in place: a large matrix exists twice, not four times
            np.add(matrix, matrix.T, out=out)
            out *= 0.5

        jitter, ok = lapack.factor_inplace(root, fill, np.asarray(weight))
        root = root if ok else np.eye(len(root), dtype=root.dtype)
        return Factor(root, np.asarray(jitter, root.dtype), np.asarray(ok))
    count = jnp.maximum(weight.sum(), 1.0)
    return Factor(*_search(matrix, weight, jnp.diagonal(matrix) @ weight / count, count))


def cholesky(
    matrix: Float[Array, "n n"], name: str = "matrix", mask: Bool[Array, "n"] | None = None
) -> Float[Array, "n n"]:
    """The lower Cholesky factor of `matrix`, or an error that says what is wrong with it; never NaN.

    A concrete matrix that is not positive definite raises `NotPositiveDefinite` at once; inside `jit` the
    same failure is a run-time error.
    """
    if not is_traced(matrix):
        _check_symmetric(matrix, name)
    factor = factorize(matrix, mask)
    return demand(
        factor.root,
        factor.ok,
        f"{name} ({len(matrix)} × {len(matrix)}) is not positive definite or not finite. {REMEDY}",
        lambda: _explain(np.asarray(pad_identity(matrix, mask)), name, float(factor.jitter)),
    )


def pad_identity(matrix: Float[Array, "n n"], mask: Bool[Array, "n"] | None) -> Float[Array, "n n"]:
    """The matrix with the rows and columns where `mask` is False replaced by those of the identity."""
    if mask is None:
        return matrix
    xp = namespace(matrix, mask)
    return xp.where(mask[:, None] & mask[None, :], matrix, xp.eye(len(matrix), dtype=matrix.dtype))


def plus_diagonal(matrix: Float[Array, "n n"], values: Float[Array, " n"]) -> Float[Array, "n n"]:
    """A + diag(values)."""
    if is_traced(matrix, values):
        return matrix + jnp.diag(values)
    out = np.array(matrix, order="C")
    out.flat[:: len(out) + 1] += values
    return out


def factorize_whitened(matrix: Float[Array, "n n"], half: Float[Array, " n"]) -> Factor:
    """The factor of I + HAH, H = diag(half), for symmetric A; Rasmussen & Williams (2006), eq. 3.26."""
    matrix, half = host((matrix, half))
    if is_traced(matrix, half):
        return factorize(plus_diagonal(half[:, None] * matrix * half, jnp.ones(len(half))))
    root = np.empty(matrix.shape)

    def fill(out: np.ndarray) -> None:
        np.multiply(matrix, half, out=out)
        out *= half[:, None]
        out.flat[:: len(out) + 1] += 1.0

    jitter, ok = lapack.factor_inplace(root, fill, np.ones(len(root)))
    return Factor(root if ok else np.eye(len(root)), np.asarray(jitter), np.asarray(ok))


def inverse_root(root: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L⁻¹."""
    if is_traced(root):
        return solve_lower(root, jnp.eye(len(root), dtype=root.dtype))
    return lapack.invert_triangle(np.asarray(root))


def solve(root: Float[Array, "n n"], b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
    """(LLᵀ)⁻¹ b."""
    return solve_upper(root, solve_lower(root, b))


def solve_lower(root: Float[Array, "n n"], b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
    """L⁻¹ b."""
    if is_traced(root, b):
        return solve_triangular(root, b, lower=True)
    return lapack.solve_triangle(np.asarray(root), np.asarray(b))


def solve_upper(root: Float[Array, "n n"], b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
    """L⁻ᵀ b."""
    if is_traced(root, b):
        return solve_triangular(root, b, lower=True, trans=1)
    return lapack.solve_triangle(np.asarray(root), np.asarray(b), transposed=True)


def solve_each(matrices: Float[Array, "s n n"], b: Float[Array, "s n m"]) -> tuple[Float[Array, "s n m"], Any]:
    """Aᵢ⁻¹bᵢ of many small positive definite matrices, and whether all of them were."""
    if not is_traced(matrices, b):
        return lapack.solve_each(np.asarray(matrices), np.asarray(b))
    factors = jax.vmap(factorize)(matrices)
    return jax.vmap(solve)(factors.root, b), factors.ok.all()


def log_determinant(root: Float[Array, "n n"]) -> Float[Array, ""]:
    """log |LLᵀ| = 2 Σᵢ log Lᵢᵢ."""
    xp = namespace(root)
    return 2.0 * xp.log(xp.diagonal(root)).sum()


def inverse(root: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """(LLᵀ)⁻¹ = L⁻ᵀL⁻¹, exactly symmetric."""
    if not is_traced(root):
        out = np.array(root, order="C")
        lapack.invert_inplace(out)
        below = np.tri(len(out), k=-1, dtype=bool)
        out.T[below] = out[below]
        return out
    half = solve_lower(root, jnp.eye(len(root), dtype=root.dtype))
    full = half.T @ half
    return 0.5 * (full + full.T)


def quadratic(root: Float[Array, "n n"], b: Float[Array, "n *m"]) -> Float[Array, "*m"]:
    """bᵀ(LLᵀ)⁻¹b = |L⁻¹b|² for a vector b, column by column for a matrix."""
    half = solve_lower(root, b)
    return (half * half).sum(0)


def demand(value: T, ok: Bool[Array, ""] | bool, message: str, explain: Callable[[], str] | None = None) -> T:
    """`value` (any pytree of arrays) if `ok`, else `NotPositiveDefinite` outside jit and a run-time error inside.

    `explain` gives the message that needs the numbers, and is only called when they are known.
    """
    if is_traced(ok):
        return eqx.error_if(value, ~ok, message)
    if not bool(ok):
        raise NotPositiveDefinite(message if explain is None or is_traced(value) else explain())
    return value


@jax.custom_jvp
@jax.jit
def _search(
    matrix: Float[jax.Array, "n n"],
    weight: Float[jax.Array, "n"],
    scale: Float[jax.Array, ""],
    count: Float[jax.Array, ""],
) -> tuple[Float[jax.Array, "n n"], Float[jax.Array, ""], Bool[jax.Array, ""]]:
    """(root, jitter, ok) for the smallest jitter of the policy that factorizes matrix + jitter·diag(weight).

    One loop around one factorization. The loop cannot be differentiated in reverse and need not be: the
    rule below differentiates its result.
    """
    policy = jitter_policy(scale, count, matrix.dtype)
    symmetric = 0.5 * (matrix + matrix.T)
    State = tuple[jax.Array, jax.Array, jax.Array, jax.Array]

    def unfinished(state: State) -> jax.Array:
        step, jitter, _, ok = state
        return (step == 0) | (~ok & (jitter < policy.bound))

    def attempt(state: State) -> State:
        step, jitter, _, _ = state
        jitter = jnp.where(step == 0, 0.0, policy.after(jitter, jnp)).astype(matrix.dtype)
        root = lax.linalg.cholesky(symmetric + jnp.diag(jitter * weight), symmetrize_input=False)
        return step + 1, jitter, root, jnp.isfinite(jnp.diagonal(root)).all()

    start = (jnp.asarray(0), jnp.zeros((), matrix.dtype), jnp.zeros_like(matrix), jnp.asarray(False))
    _, jitter, root, ok = lax.while_loop(unfinished, attempt, start)
    return jnp.where(ok, root, jnp.eye(len(matrix), dtype=matrix.dtype)), jitter, ok


@_search.defjvp
def _search_jvp(
    primals: tuple[Array, Array, Array, Array], tangents: tuple[Array, Array, Array, Array]
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, np.ndarray]]:
    """dL = L Φ(L⁻¹ dA L⁻ᵀ) with Φ the lower triangle, diagonal halved.  Murray (2016), arXiv:1602.07527."""
    root, jitter, ok = _search(*primals)
    change = 0.5 * (tangents[0] + tangents[0].T)
    whitened = solve_lower(root, solve_lower(root, change).T)
    half = jnp.tril(whitened) - 0.5 * jnp.diag(jnp.diagonal(whitened))
    return (root, jitter, ok), (root @ half, jnp.zeros_like(jitter), np.zeros(ok.shape, jax.dtypes.float0))


def _check_symmetric(matrix: Float[Array, "n n"], name: str) -> None:
    values = np.asarray(matrix)
    gap, size = (float(np.abs(v).max(initial=0.0)) for v in (values - values.T, values))
    if gap > np.sqrt(np.finfo(values.dtype).eps) * size:  # False when not finite: that is reported as such
        raise NotPositiveDefinite(
            f"{name} ({len(values)} × {len(values)}) is not symmetric: entries that should agree differ by up "
            f"to {gap:.3g}; check how it was built, or pass (A + A.T) / 2 if the difference is rounding"
        )


def _explain(matrix: np.ndarray, name: str, jitter: float) -> str:
    """What is wrong with a matrix that could not be factorized, and what to do."""
    n = len(matrix)
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        i, j = bad[0]
        return (
            f"{name} ({n} × {n}) has {len(bad)} entries that are NaN or infinite, the first at ({i}, {j}); "
            "check the inputs and the parameters it was computed from"
        )
    eigenvalues = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))
    return (
        f"{name} ({n} × {n}) is not positive definite: its smallest eigenvalue is {eigenvalues[0]:.3g}, its "
        f"largest {eigenvalues[-1]:.3g}, and adding up to {jitter:.3g} to the diagonal did not help. {REMEDY}"
    )


def symmetric_part(matrix: Float[Array, "*b n n"]) -> Float[Array, "*b n n"]:
    """½(A + Aᵀ), which rounding cannot make asymmetric."""
    return 0.5 * (matrix + matrix.swapaxes(-1, -2))
