"""The log evidence of a Gaussian process with its gradient: what `learn` climbs.

    log p(y | X, θ) = log N(r | 0, K) + Σ log |∂z/∂y|,    K = k(X, X) + diag(noise),   r = z - m(X)
    ∂log p/∂K = ½(ααᵀ - K⁻¹),   ∂log p/∂r = -α,   α = K⁻¹r

z is y, or g(y) where outcomes are warped. Three steps: covariance and residual, the factor and the inverse by LAPACK,
and the pull-back to hyperparameters. The first and the last are NumPy for few rows and common kernels, where compiling
takes longer than all looks of a climb, and XLA otherwise. Rasmussen & Williams (2006), eq. 2.30 and 5.9.
"""

import itertools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, is_traced, put
from credo.core.device import aligned_empty, blas_threads
from credo.core.errors import DataError
from credo.core.linalg import evidence_on_host
from credo.infer.priors import LogScalePenalty
from credo.kernels import Constant as ConstantKernel
from credo.kernels import Kernel
from credo.kernels.pullback import FAMILIES, Gradient, Inputs, gram_and_pull, is_supported
from credo.models.gp import exact
from credo.models.gp.data import Rows
from credo.models.gp.means import Mean

FEW_ROWS = 256
"""Up to so many rows a look in NumPy is no slower than a compiled one."""

BLOCKS = 4
"""In how many blocks of rows a large covariance is computed: five eighths of it then are."""

Priors = Mapping[str, Any]
Vector = Array | np.ndarray
Pull = Callable[[Float[np.ndarray, "c c"], Float[np.ndarray, " c"]], np.ndarray]
"""∂/∂u from the lower triangle of K⁻¹ - ααᵀ = -2 ∂log p/∂K, which it may overwrite, and from ∂log p/∂r."""


@runtime_checkable
class HasEvidenceParts(Protocol):
    """A belief whose evidence is that of a Gaussian process with a kernel and a mean."""

    @property
    def kernel(self) -> Kernel:
        """k, without what an uncertain mean adds."""

    @property
    def mean(self) -> Mean:
        """m."""

    @property
    def prior(self) -> exact.GPPrior:
        """The prior as the numerics see it."""

    def transformed(self, rows: Rows) -> tuple[Rows, Float[Array, ""] | float]:
        """The rows as the Gaussian process sees them, and Σ log |∂z/∂y|."""


class About(NamedTuple):
    """What the compiled evidence is of."""

    belief: HasEvidenceParts
    slots: params.Layout
    rows: Rows
    priors: Priors

    def candidate(self, vector: Vector) -> HasEvidenceParts:
        """The belief with the numbers of the unconstrained vector."""
        return params.from_vector(self.belief, self.slots, jnp.asarray(vector))


def choose_objective(
    belief: HasEvidenceParts, slots: params.Layout, rows: Rows, priors: Priors
) -> "EvidenceObjective | None":
    """The fastest way to the evidence and its gradient; None leaves it to one compiled program of `learn`."""
    if is_traced(belief, rows):
        return None
    typical = all(isinstance(prior, LogScalePenalty) for path, prior in priors.items() if _is_own(path))
    if rows.n <= FEW_ROWS and typical and is_supported(belief.kernel):
        return EvidenceObjective(NumpyModel(belief, slots, rows, priors))
    if rows.n > FEW_ROWS and exact.on_host():
        return EvidenceObjective(CompiledModel(belief, slots, rows, priors))
    return None


def _is_own(path: str) -> bool:
    """Whether a number belongs to the kernel or is the noise, and not to a warp of the outcomes."""
    return path == "noise" or path.startswith("kernel.")


class EvidenceObjective:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector u, with its gradient."""

    def __init__(self, model: "NumpyModel | CompiledModel"):
        self._model = model
        size = (len(model.weight), len(model.weight))
        self._covariance, self._work = np.zeros(size), aligned_empty(size)  # reused: fresh pages cost time

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where the covariance is not positive definite."""
        value, log_prior, by_residual, pull = self._evaluate(vector, True)
        if not np.isfinite(value):
            return -np.inf, np.zeros_like(vector)
        return value + log_prior, pull(self._work, by_residual)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        value, log_prior, *_ = self._evaluate(vector, False)
        return value + log_prior

    def log_evidence(self, vector: np.ndarray) -> float:
        """log p(y | X, θ) alone; where outcomes are warped without Σ log |∂z/∂y|."""
        return self._evaluate(vector, False)[0]

    def left_over(self, vector: np.ndarray) -> Float[np.ndarray, " c"]:
        """What the mean of the function leaves of z: noise · α."""
        _, _, by_residual, _ = self._evaluate(vector, False)
        return -self._model.noise(vector) * by_residual

    def _evaluate(self, vector: np.ndarray, gradient: bool) -> tuple[float, float, np.ndarray, Pull]:
        residual, log_prior, pull = self._model.forward(vector, self._covariance)
        if not np.all(np.isfinite(residual)):
            return -np.inf, log_prior, np.zeros_like(residual), pull
        with blas_threads(len(residual)) if len(residual) > FEW_ROWS else nullcontext():
            value, by_residual = evidence_on_host(self._covariance, residual, self._model.weight, self._work, gradient)
        return value, log_prior, by_residual, pull


# -- in NumPy --------------------------------------------------------------------------------------------------------


class NumpyModel:
    """Covariance, residual and pull-back with nothing to compile but a warp that is learned."""

    def __init__(self, belief: HasEvidenceParts, slots: params.Layout, rows: Rows, priors: Priors):
        if not is_supported(belief.kernel):
            known = ", ".join(family.__name__ for family in FAMILIES)
            raise DataError(f"only kernels made of {known} can be evaluated here, found {belief.kernel.formula()}")
        own = [s for s in slots if _is_own(s.path)]
        free = {s.path for s in own}
        self._own = [(s.path, slice(s.start, s.stop), s.shape) for s in own]
        self._held = {p: np.asarray(v) for p, v in params.learnable(belief).items() if p not in free}
        if "noise" not in free:
            self._held["noise"] = np.asarray(belief.prior.noise)
        self._kernel = belief.kernel  # attributes of an equinox module take their time
        self._penalties = [(s.path, slice(s.start, s.stop), priors[s.path].on_host()) for s in own if s.path in priors]
        warped = tuple(s for s in slots if s.path not in free)
        self._warp = _LearnedWarp(belief, warped, rows, priors) if warped else None
        seen, log_slope = (rows, 0.0) if warped else belief.transformed(rows)
        held = [
            p.on_host()(np.log(np.ravel(self._held[path])))[0]
            for path, p in priors.items()
            if path in self._held and _is_own(path)
        ]
        self._constant = float(log_slope) + sum(held)
        x, z, self._scale, self._extra = seen.cut()
        n = len(z)
        self._inputs, self.weight = Inputs(x), np.ones(n)
        self._mean_covariance, self._mean = _mean_on_host(belief.mean, rows)
        self._residual = z - self._mean
        self._lower = 0.5 * np.eye(n) - np.tri(n)  # makes of K⁻¹ - ααᵀ a triangle that sums as ∂log p/∂K does

    def noise(self, vector: np.ndarray) -> Float[np.ndarray, " n"]:
        """The noise variance of each row."""
        return self._numbers(vector)["noise"] * self._scale + self._extra

    def forward(self, vector: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, float, Pull]:
        """Writes the covariance; gives the residual, log p(θ) (with Σ log |∂z/∂y|) and the pull-back."""
        numbers = self._numbers(vector)
        k, back = gram_and_pull(self._kernel, "kernel.", numbers, self._inputs)
        np.add(k, self._mean_covariance, out=out)
        out.flat[:: len(k) + 1] += numbers["noise"] * self._scale + self._extra
        gradient, more = np.zeros_like(vector), self._constant
        for _, where, penalty in self._penalties:
            value, gradient[where] = penalty(vector[where])
            more += value
        residual = self._residual
        if self._warp is not None:
            z, log_prior = self._warp(vector)
            residual, more = z - self._mean, more + log_prior

        def pull(lower: np.ndarray, by_residual: np.ndarray) -> np.ndarray:
            by_covariance = np.multiply(lower, self._lower, out=lower)
            by: Gradient = {"noise": numbers["noise"] * (by_covariance.diagonal() @ self._scale)}
            back(by_covariance, by)
            for path, where, _ in self._own:
                gradient[where] += np.ravel(by[path])
            if self._warp is not None:
                self._warp.pull(vector, by_residual, gradient)
            return gradient

        return residual, more, pull

    def _numbers(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        return self._held | {path: np.exp(vector[where]).reshape(shape) for path, where, shape in self._own}


class _LearnedWarp:
    """z = g(y) for the numbers of g in the vector, and the way back to them."""

    def __init__(self, belief: HasEvidenceParts, slots: params.Layout, rows: Rows, priors: Priors):
        self._where, self._n = np.concatenate([np.arange(s.start, s.stop) for s in slots]), rows.n
        ends = np.cumsum([s.stop - s.start for s in slots])
        moved = tuple(
            s._replace(start=int(e) - s.stop + s.start, stop=int(e)) for s, e in zip(slots, ends, strict=True)
        )
        self._about = About(belief, moved, rows, {path: prior for path, prior in priors.items() if not _is_own(path)})

    def __call__(self, vector: np.ndarray) -> tuple[Float[np.ndarray, " n"], float]:
        """z, and Σ log |∂z/∂y| + log p of the numbers of g."""
        z, more = _warp_forward(vector[self._where], self._about)
        return np.asarray(z)[: self._n], float(more)

    def pull(self, vector: np.ndarray, by_z: np.ndarray, gradient: np.ndarray) -> None:
        """Adds the gradient, from ∂log p/∂z = -α."""
        by = np.zeros(self._about.rows.capacity)
        by[: self._n] = by_z
        gradient[self._where] += np.asarray(_warp_pull(vector[self._where], self._about, by))


def _warped(u: Vector, about: About) -> tuple[Array, Array]:
    candidate = about.candidate(u)
    seen, log_slope = candidate.transformed(about.rows)
    return seen.y, log_slope + params.log_prior(candidate, about.priors)


_warp_forward = eqx.filter_jit(_warped)


@eqx.filter_jit
def _warp_pull(u: Vector, about: About, by_z: Vector) -> Float[Array, " k"]:
    _, pull = jax.vjp(lambda v: _warped(v, about), jnp.asarray(u))
    return pull((jnp.asarray(by_z), jnp.ones(())))[0]


def _mean_on_host(mean: Mean, rows: Rows) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"]]:
    """The covariance that an uncertain mean adds, and what it is expected to be; a constant compiles nothing."""
    n, more = rows.n, mean.kernel()
    covariance = np.zeros((n, n))
    if isinstance(more, ConstantKernel):
        covariance += float(more.number("variance"))
    elif more is not None:
        covariance += np.asarray(exact.gram(more, rows.x, rows.x))[:n, :n]  # padded: growing data compile nothing
    return covariance, np.broadcast_to(mean.on_host(rows.x), rows.capacity)[:n]


# -- in XLA ----------------------------------------------------------------------------------------------------------


class CompiledModel:
    """Covariance, residual and pull-back of any kernel, in two programs; of a covariance only the lower blocks."""

    def __init__(self, belief: HasEvidenceParts, slots: params.Layout, rows: Rows, priors: Priors):
        self._about = About(belief, slots, rows, dict(priors))
        self.weight = np.asarray(rows.mask, dtype=float)

    def noise(self, vector: np.ndarray) -> Float[np.ndarray, " c"]:
        """The noise variance of each row."""
        return np.asarray(_parts_compiled(vector, self._about).noise)

    def forward(self, vector: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, float, Pull]:
        """Writes the covariance; gives the residual, log p(θ) (with Σ log |∂z/∂y|) and the pull-back."""
        parts = _parts_compiled(vector, self._about)
        for (a, b), block in zip(_cuts(len(out)), parts.blocks, strict=True):
            out[a:b, :b] = block
        np.fill_diagonal(out, out.diagonal() + np.asarray(parts.noise))

        def pull(lower: np.ndarray, by_residual: np.ndarray) -> np.ndarray:
            return np.asarray(_pull_back(vector, self._about, put(lower), by_residual))

        return np.asarray(parts.residual), float(parts.log_prior), pull


class Parts(NamedTuple):
    """What the evidence is made of: k(X, X) left of its diagonal, in blocks of rows, noise, residual, and log p(θ)."""

    blocks: tuple[Float[Array, "a b"], ...]
    noise: Float[Array, " c"]
    residual: Float[Array, " c"]
    log_prior: Float[Array, ""]


def _parts(vector: Vector, about: About) -> Parts:
    candidate = about.candidate(vector)
    rows, log_slope = candidate.transformed(about.rows)
    prior, mask = candidate.prior, rows.mask
    blocks = tuple(
        jnp.where(mask[a:b, None] & mask[None, :b], prior.kernel.gram(rows.x[a:b], rows.x[:b]), 0.0)
        for a, b in _cuts(rows.capacity)
    )
    noise = jnp.where(mask, prior.noise * rows.scale + rows.extra, 1.0)
    return Parts(blocks, noise, exact.residual(prior, rows), params.log_prior(candidate, about.priors) + log_slope)


_parts_compiled = eqx.filter_jit(_parts)


def _cuts(size: int) -> list[tuple[int, int]]:
    """The first and the last row of each block."""
    edges = np.linspace(0, size, (BLOCKS if size >= 512 else 1) + 1).astype(int).tolist()
    return list(itertools.pairwise(edges))


@eqx.filter_jit
def _pull_back(vector: Vector, about: About, lower: Float[Array, "c c"], by_residual: Vector) -> Float[Array, " k"]:
    """∂/∂u from K⁻¹ - ααᵀ = -2 ∂log p/∂K, of which the lower triangle is given."""
    i = jnp.arange(lower.shape[0])
    blocks = tuple(
        jnp.where(i[a:b, None] > i[None, :b], -1.0, jnp.where(i[a:b, None] == i[None, :b], -0.5, 0.0)) * lower[a:b, :b]
        for a, b in _cuts(about.rows.capacity)
    )
    slopes = Parts(blocks, -0.5 * jnp.diagonal(lower), jnp.asarray(by_residual), jnp.ones(()))
    _, pull = jax.vjp(lambda u: _parts(u, about), jnp.asarray(vector))
    return pull(slopes)[0]
