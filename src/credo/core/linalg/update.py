"""Changing a Cholesky factor in O(n²) when the matrix changes a little.

Observations come and go one at a time; factorizing again would cost O(n³) each.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from credo.core.linalg.factor import REMEDY, Factor, _search, demand, solve_lower


def update(root: Float[Array, "n n"], rows: Float[Array, "k n"], sign: int = 1) -> Float[Array, "n n"]:
    """The factor of LLᵀ + sign·Σ xxᵀ over the k rows x, in O(kn²); sign is +1 or -1.

    One Givens (or hyperbolic) rotation for each column j, from the left:
    r² = Lⱼⱼ² ± xⱼ², c = r/Lⱼⱼ, s = xⱼ/Lⱼⱼ, then L·ⱼ ← (L·ⱼ ± s x)/c and x ← c x - s L·ⱼ with the new L·ⱼ.
    Golub & Van Loan, Matrix Computations (4th ed. 2013), sections 6.5.3-6.5.4. A downdate that leaves no
    positive definite matrix raises `NotPositiveDefinite`.
    """
    if sign not in (1, -1):
        raise ValueError(f"sign must be 1 (add the rows) or -1 (take them away), found {sign}")
    changed, ok = try_update(root, rows, sign)
    return demand(
        changed,
        ok,
        f"taking {len(rows)} row(s) away from a factor of size {len(root)} leaves a matrix that is not positive "
        "definite: take away only what was added before, or factorize again",
    )


def append(
    root: Float[Array, "n n"], cross: Float[Array, "n k"], corner: Float[Array, "k k"]
) -> Float[Array, "n+k n+k"]:
    """The factor of [[A, B], [Bᵀ, C]] from that of A, with B = `cross` and C = `corner`, in O(kn² + k³).

    [[L, 0], [Wᵀ, M]] with W = L⁻¹B and MMᵀ = C - WᵀW, under the same jitter policy: its scale is that of
    C, not of the difference, which vanishes when a new row repeats an old one.
    """
    n, k = cross.shape
    half = solve_lower(root, cross)
    scale, count = jnp.diagonal(corner).mean(), jnp.asarray(float(n + k), corner.dtype)
    new = Factor(*_search(corner - half.T @ half, jnp.ones(k, corner.dtype), scale, count))
    new_root = demand(
        new.root, new.ok, f"the matrix extended by {k} row(s) is not positive definite or not finite. {REMEDY}"
    )
    return jnp.block([[root, jnp.zeros((n, k), root.dtype)], [half.T, new_root]])


def remove(root: Float[Array, "n n"], index: int) -> Float[Array, "n-1 n-1"]:
    """The factor of A without its row and column `index`, in O(n²).

    Rows above stay; the block below absorbs the column l that leaves: M Mᵀ = L₃₃L₃₃ᵀ + l lᵀ.
    """
    n = len(root)
    if not -n <= index < n:
        raise IndexError(f"index {index} is outside a factor of size {n}")
    i = index % n
    if i == n - 1:
        return root[:i, :i]
    below = update(root[i + 1 :, i + 1 :], root[None, i + 1 :, i])
    top = jnp.concatenate([root[:i, :i], jnp.zeros((i, n - 1 - i), root.dtype)], axis=1)
    return jnp.concatenate([top, jnp.concatenate([root[i + 1 :, :i], below], axis=1)])


@partial(jax.jit, static_argnames="sign")
def try_update(
    root: Float[Array, "n n"], rows: Float[Array, "k n"], sign: int = 1
) -> tuple[Float[Array, "n n"], Bool[Array, ""]]:
    """`update` for traced code: the new root, and whether it is one. A scan over rows of a scan over columns."""
    n = len(root)
    index = jnp.arange(n)
    tiny = n * jnp.finfo(root.dtype).eps

    def column(carry: tuple[Array, Array], step: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        (x, ok), (j, old) = carry, step
        pivot, xj = old[j], x[j]
        square = (pivot - xj) * (pivot + xj) if sign < 0 else pivot**2 + xj**2
        good = square > tiny * pivot**2
        r = jnp.sqrt(jnp.where(good, square, 1.0))
        c, s = r / pivot, xj / pivot
        new = jnp.where(index > j, (old + sign * s * x) / c, jnp.where(index == j, r, 0.0))
        x = jnp.where(index > j, c * x - s * new, 0.0)
        return (x, ok & good), new

    def row(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], None]:
        columns, ok = carry
        (_, ok), columns = lax.scan(column, (x, ok), (index, columns))
        return (columns, ok), None

    (columns, ok), _ = lax.scan(row, (root.T, jnp.asarray(True)), rows)
    return columns.T, ok & jnp.isfinite(columns).all()
