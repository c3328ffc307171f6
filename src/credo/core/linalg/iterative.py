"""Solves and determinants that only need products A v: for matrices too large to factorize.

Conjugate gradients from lineax, a partial pivoted Cholesky factor as preconditioner, and stochastic
Lanczos quadrature for the determinant.
"""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import lineax as lx
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from credo.core.arrays import is_traced
from credo.core.errors import NotConverged, NotConvergedWarning
from credo.core.linalg import factor

Matmul = Callable[[Float[Array, "n"]], Float[Array, "n"]]


class Solution(eqx.Module):
    """What an iterative solve found, whether it may be trusted, and after how many products."""

    value: Float[Array, "n *m"]
    converged: Bool[Array, ""]
    steps: Int[Array, ""]

    @property
    def status(self) -> str:
        """ "converged" or "stopped"; outside jit."""
        return "converged" if bool(self.converged) else "stopped"


class Estimate(eqx.Module):
    """A Monte Carlo estimate and its standard error."""

    value: Float[Array, ""]
    standard_error: Float[Array, ""]


def conjugate_gradients(
    matmul: Matmul,
    b: Float[Array, "n *m"],
    preconditioner: Matmul | None = None,
    rtol: float = 1e-8,
    max_steps: int = 1000,
) -> Solution:
    """x with A x = b for a positive definite A known by its products, until max|b - Ax| ≤ rtol·max|b|.

    `preconditioner` applies an approximation of A⁻¹; it is a constant to the gradient. A matrix b is
    solved column by column: `converged` if all did, `steps` of the slowest. Hestenes & Stiefel (1952);
    Golub & Van Loan (4th ed. 2013), section 11.3.

    Concrete arguments: stopping short of the tolerance warns with `NotConvergedWarning`, a breakdown (A is
    not positive definite) raises `NotConverged`. Inside jit look at `converged`; the value after a
    breakdown is 0.
    """

    def one(rhs: Array) -> tuple[Array, Array, Array, Array]:
        return _solve_one(matmul, rhs, preconditioner, rtol, max_steps)

    value, error, finite, steps = one(b) if b.ndim == 1 else jax.vmap(one, 1, (1, 0, 0, 0))(b)
    error, finite, steps = error.max(), finite.all(), steps.max()
    solution = Solution(value, finite & (error <= rtol), steps)
    if not is_traced(value, finite):
        _report(solution, float(error), bool(finite), rtol, max_steps)
    return solution


def pivoted_cholesky(
    diagonal: Float[Array, "n"], column: Callable[[Int[Array, ""]], Float[Array, "n"]], rank: int
) -> Float[Array, "n rank"]:
    """L (n × rank) with LLᵀ ≈ A, from the diagonal of A and `rank` of its columns, in O(n·rank²).

    Each step takes the row with the largest remaining variance as pivot, so that the trace of A - LLᵀ
    falls as fast as a greedy choice can make it. Harbrecht, Peters & Schneider (2012). Once A is exhausted
    the remaining columns are zero.
    """
    n = len(diagonal)
    floor = n * jnp.finfo(diagonal.dtype).eps * diagonal.max()

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        left, rest = state
        i = jnp.argmax(rest)
        enough = rest[i] > floor
        new = (column(i) - left @ left[i]) / jnp.sqrt(jnp.where(enough, rest[i], 1.0))
        new = jnp.where(enough, new, 0.0)
        rest = jnp.where(jnp.arange(n) == i, 0.0, jnp.maximum(rest - new**2, 0.0))
        return left.at[:, k].set(new), rest

    return lax.fori_loop(0, rank, step, (jnp.zeros((n, rank), diagonal.dtype), diagonal))[0]


def lowrank_preconditioner(left: Float[Array, "n k"], noise: Float[Array, ""] | float) -> Matmul:
    """v ↦ (LLᵀ + noise·I)⁻¹ v by the matrix inversion lemma, factorized once here and O(nk) a product."""
    capacitance = noise * jnp.eye(left.shape[1], dtype=left.dtype) + left.T @ left
    root = factor.cholesky(capacitance, "the preconditioner's noise·I + LᵀL")

    def apply(v: Float[Array, "n"]) -> Float[Array, "n"]:
        return (v - left @ factor.solve(root, left.T @ v)) / noise

    return apply


def lanczos_log_determinant(key: Key[Array, ""], matmul: Matmul, n: int, probes: int = 32, steps: int = 32) -> Estimate:
    """log|A| = tr log A of a positive definite A known by its products, by stochastic Lanczos quadrature.

    E[zᵀ log(A) z] = tr log A for random signs z, and zᵀ log(A) z ≈ n Σ τⱼ² log θⱼ with θ the eigenvalues
    and τ the first entries of the eigenvectors of the tridiagonal matrix of `steps` Lanczos steps begun
    at z, orthogonalized in full, twice. Ubaru, Chen & Saad (2017), section 3. The standard error is that of
    the mean over `probes`; the error of the quadrature itself falls geometrically with `steps`.
    """
    if probes < 2:
        raise ValueError(f"probes must be at least 2 to tell a standard error, found {probes}")
    signs = jr.rademacher(key, (probes, n), dtype=jnp.result_type(float))
    values, ok = jax.vmap(lambda z: _quadrature(matmul, z, min(steps, n)))(signs)
    message = f"a matrix of size {n} given by its products is not positive definite or not finite. {factor.REMEDY}"
    values = factor.demand(values, ok.all(), message)
    return Estimate(values.mean(), values.std(ddof=1) / jnp.sqrt(probes))


def _solve_one(
    matmul: Matmul, b: Float[Array, "n"], preconditioner: Matmul | None, rtol: float, max_steps: int
) -> tuple[Float[Array, "n"], Float[Array, ""], Bool[Array, ""], Int[Array, ""]]:
    """(x, max|b - Ax|/max|b|, whether finite, steps).

    lineax's tests compare entries with |b| and |x| one by one and with an absolute tolerance, so the
    system it sees is scaled: max|b| is 1 and the Rayleigh quotient of b is 1.
    """
    size = jnp.abs(b).max()
    scale = lax.stop_gradient(jnp.where(size > 0, size, 1.0))
    rhs = b / scale
    rayleigh = rhs @ matmul(rhs) / (rhs @ rhs)
    gain = lax.stop_gradient(jnp.where(jnp.isfinite(rayleigh) & (rayleigh > 0), rayleigh, 1.0))
    shape = jax.ShapeDtypeStruct(b.shape, b.dtype)

    def operator(function: Callable[[Array], Array]) -> Any:
        return lx.FunctionLinearOperator(function, shape, lx.positive_semidefinite_tag)

    options = {}
    if preconditioner is not None:
        prior = operator(lambda v: gain * preconditioner(v))
        options["preconditioner"] = jax.tree.map(
            lambda leaf: lax.stop_gradient(leaf) if eqx.is_inexact_array(leaf) else leaf, prior
        )
    solver = lx.CG(rtol=0.5 * rtol, atol=0.5 * rtol, max_steps=max_steps)
    out = lx.linear_solve(operator(lambda v: matmul(v) / gain), rhs, solver, options=options, throw=False)
    x = out.value * (scale / gain)
    finite = jnp.isfinite(x).all()
    x = jnp.where(finite, x, 0.0)
    error = jnp.abs(b - matmul(x)).max() / scale
    return x, lax.stop_gradient(error), finite, jnp.asarray(out.stats["num_steps"])


def _report(solution: Solution, error: float, finite: bool, rtol: float, max_steps: int) -> None:
    steps = int(solution.steps)
    if not finite:
        raise NotConverged(
            f"conjugate gradients broke down after {steps} steps: the matrix is not positive definite, or it "
            "or the right-hand side is not finite; add noise to its diagonal or check what built it"
        )
    if not bool(solution.converged):
        warnings.warn(
            f"conjugate gradients stopped after {steps} steps with a relative residual of {error:.2g}, above "
            f"rtol = {rtol:.2g}; raise max_steps (now {max_steps}), pass a preconditioner such as "
            "lowrank_preconditioner(pivoted_cholesky(...), noise), or add noise to the diagonal",
            NotConvergedWarning,
            stacklevel=3,
        )


def _quadrature(matmul: Matmul, z: Float[Array, "n"], steps: int) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """(n Σ τⱼ² log θⱼ, whether all θ > 0) for one probe z."""
    n = len(z)
    small = n * jnp.finfo(z.dtype).eps

    def step(k: Array, state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        basis, alphas, betas, alive = state
        v = basis[k]
        w = matmul(v)
        size = jnp.linalg.norm(w)
        alpha = v @ w
        w = w - basis.T @ (basis @ w)
        w = w - basis.T @ (basis @ w)
        beta = jnp.linalg.norm(w)
        # Once the Krylov space is exhausted the rest of T is the identity: log 1 with weight zero.
        more = alive & (beta > small * size)
        following = jnp.where(more, w / jnp.where(more, beta, 1.0), 0.0)
        alphas = alphas.at[k].set(jnp.where(alive, alpha, 1.0))
        return basis.at[k + 1].set(following), alphas, betas.at[k].set(jnp.where(more, beta, 0.0)), more

    basis = jnp.zeros((steps + 1, n), z.dtype).at[0].set(z / jnp.linalg.norm(z))
    start = (basis, jnp.zeros(steps, z.dtype), jnp.zeros(steps, z.dtype), jnp.asarray(True))
    _, alphas, betas, _ = lax.fori_loop(0, steps, step, start)
    tridiagonal = jnp.diag(alphas) + jnp.diag(betas[:-1], 1) + jnp.diag(betas[:-1], -1)
    theta, vectors = jnp.linalg.eigh(tridiagonal)
    ok = (theta > 0).all()
    return n * jnp.sum(vectors[0] ** 2 * jnp.log(jnp.where(theta > 0, theta, 1.0))), ok
