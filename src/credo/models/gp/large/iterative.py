"""Krylov methods of kernel interpolation: solves by conjugate gradients, log determinants by Lanczos' quadrature.

    (I + AK)β = c,   which is self-adjoint in ⟨x, y⟩ = xᵀKy
    log |I + S| ≈ (n/p) Σ e₁ᵀ log(I + Tₚ) e₁,   QᵀSQ = T from a probe z of signs

The gradient is that of the quadrature, Σ n γⱼ (Qrⱼ)ᵀ ∂S (Qrⱼ) with Γ = Σ γⱼrⱼrⱼᵀ the derivative of e₁ᵀ log(I + T) e₁:
with the same probes it is a smooth function, which can be climbed. Golub & Meurant (2010), "Matrices, moments and
quadrature"; Gardner et al. (2018), "GPyTorch: blackbox matrix-matrix Gaussian process inference".
"""

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.errors import NotConvergedWarning

Times = Callable[[np.ndarray], np.ndarray]

MOST_STEPS = 2000


def conjugate_gradients(
    kernel: Times, gram: Times, right: Float[np.ndarray, "m q"], tolerance: float
) -> Float[np.ndarray, "m q"]:
    """(I + AK)⁻¹ of the columns, until the residual in the norm of K is this share of what it was."""
    x, r = np.zeros_like(right), right.copy()
    h = kernel(r)
    p, kp, rho = r.copy(), h.copy(), (r * h).sum(0)
    enough = tolerance**2 * np.maximum(rho, 0.0)
    for _ in range(MOST_STEPS):
        if np.all(rho <= enough):
            return x
        q = p + gram(kp)
        bend = (q * kp).sum(0)
        step = np.where(bend > 0, rho / np.where(bend > 0, bend, 1.0), 0.0)
        x += step * p
        r -= step * q
        h = kernel(r)
        before, rho = rho, np.maximum((r * h).sum(0), 0.0)
        turn = np.where(before > 0, rho / np.where(before > 0, before, 1.0), 0.0)
        p, kp = r + turn * p, h + turn * kp
    worst = float(np.sqrt(np.max(rho / np.maximum(enough, 1e-300)))) * tolerance
    warnings.warn(
        f"conjugate gradients stopped after {MOST_STEPS} steps with a residual of {worst:.1e}; raise tolerance, or the "
        "noise, or use Neighbours",
        NotConvergedWarning,
        stacklevel=2,
    )
    return x


class Quadrature(NamedTuple):
    """Of one probe: its part of log |I + S|, and the vectors and weights of the derivative of that."""

    value: float
    vectors: Float[np.ndarray, "n k"]
    weights: Float[np.ndarray, " k"]


def log_determinant_parts(times: Times, n: int, probes: int, steps: int, seed: int) -> Iterator[Quadrature]:
    """For each of some probes log |I + S|, divided by their number."""
    rng = np.random.default_rng(seed)
    for _ in range(probes):
        q, diagonal, beside = _lanczos(times, rng.choice([-1.0, 1.0], n) / np.sqrt(n), min(steps, n))
        theta, turned = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
        theta = np.maximum(theta, 0.0)
        first, value = turned[0], np.log1p(theta)
        apart = theta[:, None] - theta[None, :]
        near = np.abs(apart) <= 1e-9 * (1.0 + theta[:, None])
        slope = np.where(
            near, 1.0 / (1.0 + theta[:, None]), (value[:, None] - value[None, :]) / np.where(near, 1.0, apart)
        )
        weights, r = np.linalg.eigh(turned @ (slope * np.outer(first, first)) @ turned.T)
        yield Quadrature(n * float(first**2 @ value) / probes, q @ r, n * weights / probes)


def _lanczos(times: Times, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, and the diagonals of T; each vector is made orthogonal to all before it."""
    q, diagonal, beside = np.empty((steps, len(start))), list[float](), list[float]()
    v = start
    for k in range(steps):
        q[k] = v
        w = times(v)
        diagonal.append(float(v @ w))
        for _ in range(2):
            w = w - q[: k + 1].T @ (q[: k + 1] @ w)
        size = float(np.linalg.norm(w))
        if size <= 1e-10 * max(max(diagonal), 1e-300) or k + 1 == steps:
            break
        beside.append(size)
        v = w / size
    k = len(diagonal)
    return q[:k].T, np.asarray(diagonal), np.asarray(beside[: k - 1])
