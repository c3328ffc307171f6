"""Matrices whose structure makes them cheap: Kronecker products (grids) and Toeplitz (equal spacing).

Their solves are differentiated through `lax.custom_linear_solve`, that is through the product A x, and
never through an eigendecomposition, whose derivative is infinite when eigenvalues repeat.
"""

import math
from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from credo.core.errors import DataError
from credo.core.linalg import factor


class Kronecker(eqx.Module):
    """A = A₁ ⊗ A₂ ⊗ … of symmetric positive definite factors; the last index of the grid runs fastest.

    All from (A ⊗ B)vec(V) = vec(A V Bᵀ), |A ⊗ B| = |A|^m |B|^n and A ⊗ B = (Q ⊗ P)(Λ ⊗ M)(Q ⊗ P)ᵀ.
    Saatçi, Scalable Inference for Structured Gaussian Process Models (2011), chapter 5.
    """

    factors: tuple[Float[Array, "_ _"], ...]

    def __check_init__(self) -> None:
        shapes = [a.shape for a in self.factors]
        if not shapes or any(rows != columns for rows, columns in shapes):
            raise DataError(f"a Kronecker product needs one or more square factors, found shapes {shapes}")

    @property
    def size(self) -> int:
        """The number of rows of A."""
        return math.prod(len(a) for a in self.factors)

    def matmul(self, v: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """A v."""
        return _along_axes(self.factors, v)

    def solve(self, b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """A⁻¹ b = (A₁⁻¹ ⊗ A₂⁻¹ ⊗ …) b."""
        return _along_axes([factor.inverse(root) for root in self._roots()], b)

    def log_determinant(self) -> Float[Array, ""]:
        """log |A| = Σᵢ (n/nᵢ) log |Aᵢ|."""
        terms = [self.size / len(root) * factor.log_determinant(root) for root in self._roots()]
        return jnp.stack(terms).sum()

    @eqx.filter_jit
    def solve_shifted(self, b: Float[Array, "n *m"], noise: Float[Array, ""] | float) -> Float[Array, "n *m"]:
        """(A + noise·I)⁻¹ b = Q (Λ + noise)⁻¹ Qᵀ b; the factors may be singular, noise > 0."""
        vectors, values = self._eigen()
        spectrum = lax.stop_gradient(_outer(values) + noise)
        back = [q.T for q in vectors]

        def by_eigen(_: object, y: Array) -> Array:
            return _along_axes(vectors, _along_axes(back, y) / spectrum)

        def apply(x: Array) -> Array:
            return self.matmul(x) + noise * x

        def one(y: Array) -> Array:
            return lax.custom_linear_solve(apply, y, by_eigen, symmetric=True)

        return one(b) if b.ndim == 1 else jax.vmap(one, 1, 1)(b)

    @eqx.filter_jit
    def log_determinant_shifted(self, noise: Float[Array, ""] | float) -> Float[Array, ""]:
        """log |A + noise·I| = Σ log(λ + noise) over the products λ of the factors' eigenvalues."""
        return jnp.log(_outer(self._eigen()[1]) + noise).sum()

    def to_dense(self) -> Float[Array, "n n"]:
        """A as a matrix, for small n and for tests."""
        return reduce(jnp.kron, self.factors)

    def _roots(self) -> list[Array]:
        return [factor.cholesky(a, f"Kronecker factor {i}") for i, a in enumerate(self.factors)]

    def _eigen(self) -> tuple[list[Array], list[Array]]:
        """Eigenvectors, constant to the gradient, and eigenvalues as diag(QᵀAQ), rounded up to zero.

        So written, d Σ f(λ) = Σ f'(λⱼ) qⱼᵀ dA qⱼ, which is exact also for repeated eigenvalues.
        """
        vectors = [jnp.linalg.eigh(lax.stop_gradient(a))[1] for a in self.factors]
        values = [jnp.sum(q * (a @ q), axis=0) for q, a in zip(vectors, self.factors, strict=True)]
        return vectors, [w + lax.stop_gradient(jnp.maximum(w, 0.0) - w) for w in values]


class Toeplitz(eqx.Module):
    """A symmetric positive definite matrix with Aᵢⱼ = `column`[|i - j|]: a stationary kernel on a regular grid.

    Products by the fast Fourier transform in O(n log n), solves and the determinant by the recursion of
    Levinson and Durbin in O(n²) time and O(n) memory. Golub & Van Loan (4th ed. 2013), section 4.7.
    """

    column: Float[Array, "n"]

    @eqx.filter_jit
    def matmul(self, v: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """A v, as a product with the circulant matrix of size 2n in which A is a corner."""
        n = len(self.column)
        ring = jnp.concatenate([self.column, jnp.zeros(1, self.column.dtype), self.column[:0:-1]])
        spectrum = jnp.fft.rfft(ring)

        def one(x: Array) -> Array:
            return jnp.fft.irfft(spectrum * jnp.fft.rfft(x, 2 * n), 2 * n)[:n]

        return one(v) if v.ndim == 1 else jax.vmap(one, 1, 1)(v)

    def solve(self, b: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """A⁻¹ b."""
        x, ok = self._solve(b)
        return self._demand(x, ok)

    def log_determinant(self) -> Float[Array, ""]:
        """log |A| = Σ log of the prediction error variances of the Durbin recursion."""
        _, value, ok = _levinson(self.column, jnp.zeros_like(self.column))
        return self._demand(value, ok)

    def to_dense(self) -> Float[Array, "n n"]:
        """A as a matrix, for small n and for tests."""
        index = jnp.arange(len(self.column))
        return self.column[jnp.abs(index[:, None] - index[None, :])]

    @eqx.filter_jit
    def _solve(self, b: Float[Array, "n *m"]) -> tuple[Float[Array, "n *m"], Bool[Array, ""]]:
        column = lax.stop_gradient(self.column)

        def recursion(_: object, y: Array) -> tuple[Array, Array]:
            x, _, ok = _levinson(column, y)
            return x, ok

        def one(y: Array) -> tuple[Array, Array]:
            return lax.custom_linear_solve(self.matmul, y, recursion, symmetric=True, has_aux=True)

        x, ok = one(b) if b.ndim == 1 else jax.vmap(one, 1, (1, 0))(b)
        return x, ok.all()

    def _demand(self, value: Float[Array, "*s"], ok: Bool[Array, ""]) -> Float[Array, "*s"]:
        n = len(self.column)
        message = (
            f"the Toeplitz matrix ({n} × {n}) is not positive definite or not finite; "
            "add noise to column[0], or check the kernel"
        )
        return factor.demand(value, ok, message)


def _along_axes(matrices: list[Array] | tuple[Array, ...], v: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
    """(M₁ ⊗ M₂ ⊗ …) v: each matrix along its own axis of the grid."""
    grid = v.reshape(*(len(a) for a in matrices), *v.shape[1:])
    for axis, a in enumerate(matrices):
        grid = jnp.moveaxis(jnp.tensordot(a, grid, axes=(1, axis)), 0, axis)
    return grid.reshape(v.shape)


def _outer(values: list[Array]) -> Float[Array, "n"]:
    """All products of one entry from each vector, the last index fastest."""
    return reduce(lambda a, b: jnp.outer(a, b).ravel(), values)


@jax.jit
def _levinson(
    column: Float[Array, "n"], b: Float[Array, "n"]
) -> tuple[Float[Array, "n"], Float[Array, ""], Bool[Array, ""]]:
    """(A⁻¹b, log|A|, whether A is positive definite) for the symmetric Toeplitz matrix A.

    Step k extends the solution x of the leading k × k system, and y, the solution of Yule and Walker's,
    by one entry; β is the prediction error variance. Vectors keep length n and are zero past k.
    """
    n = len(column)
    index = jnp.arange(n)
    lead = jnp.where(column[0] > 0, column[0], 1.0)
    r, rhs = column / lead, b / lead
    ahead = jnp.append(r[1:], 0.0)
    State = tuple[Array, Array, Array, Array]

    def reverse(z: Array, k: Array) -> Array:
        """The first k entries in reverse order; z is zero past them and so is the result."""
        return jnp.roll(z[::-1], k)

    def step(state: State, k: Array) -> tuple[State, Array]:
        x, y, beta, ok = state
        y_back = reverse(y, k - 1)
        alpha = -(r[k] + jnp.sum(ahead * y_back)) / beta
        y = y + alpha * (y_back + (index == k - 1))
        beta = beta * (1.0 - alpha) * (1.0 + alpha)
        ok = ok & (beta > 0)
        beta = jnp.where(ok, beta, 1.0)
        x = x + (rhs[k] - jnp.sum(ahead * reverse(x, k))) / beta * (reverse(y, k) + (index == k))
        return (x, y, beta, ok), jnp.log(beta)

    start = (rhs * (index == 0), jnp.zeros_like(r), jnp.ones((), r.dtype), column[0] > 0)
    (x, _, _, ok), logs = lax.scan(step, start, jnp.arange(1, n))
    return x, n * jnp.log(lead) + logs.sum(), ok & jnp.isfinite(column).all()
