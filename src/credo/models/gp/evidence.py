"""The log evidence of a Gaussian process with its gradient: what `learn` climbs.

    log p(y | X, θ) = log N(r | 0, K) + Σ log |∂z/∂y|,    K = k(X, X) + diag(noise),   r = z - m(X)
    ∂log p/∂K = ½(ααᵀ - K⁻¹),   ∂log p/∂r = -α,   α = K⁻¹r

z is y, or g(y) where outcomes are warped. Three steps: covariance and residual, the factor and the inverse by LAPACK,
and the pull-back to hyperparameters. The first and the last are NumPy for few rows and common kernels, where compiling
takes longer than all looks of a climb, and XLA otherwise. Rasmussen & Williams (2006), eq. 2.30 and 5.9.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array
from credo.core.device import blas_threads
from credo.core.errors import DataError
from credo.core.linalg import evidence_on_host
from credo.core.pytrees import changed
from credo.infer.priors import LogScalePenalty, NormalPenalty
from credo.kernels import Kernel
from credo.kernels.pullback import FAMILIES, Gradient, Inputs, gram_and_pull, is_supported
from credo.kernels.stationary import Stationary
from credo.models.gp import exact
from credo.models.gp.data import Rows
from credo.models.gp.means import Mean
from credo.models.gp.warps import OutcomeWarp

FEW_ROWS = 256
"""Up to so many rows a look in NumPy is no slower than a compiled one."""

FEW_ROWS_OF_ONE_LENGTHSCALE = 1500
"""And up to so many where one lengthscale serves all columns: then a look reads one matrix of distances, not d."""

BLOCKS = 4
"""In how many blocks of rows a large covariance is computed: five eighths of it then are."""

Priors = Mapping[str, Any]
Vector = Array | np.ndarray
Pull = Callable[[Float[np.ndarray, "n n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]], np.ndarray]
"""∂/∂u from the lower triangle of K⁻¹ - ααᵀ = -2 ∂log p/∂K, which it may overwrite, from ∂log p/∂r, and from the factor
that the noise of each row was multiplied with."""


@runtime_checkable
class HasEvidenceParts(Protocol):
    """A belief whose evidence is that of a Gaussian process with a kernel and a mean."""

    noise_number: ClassVar[tuple[str, float]]

    @property
    def kernel(self) -> Kernel:
        """k, without what an uncertain mean adds."""

    @property
    def mean(self) -> Mean:
        """m."""

    @property
    def prior(self) -> exact.GPPrior:
        """The prior as the numerics see it."""

    @property
    def learned_warp(self) -> OutcomeWarp | None:
        """g, where z = g(y) has numbers to learn."""

    def transformed(self, rows: Rows) -> tuple[Rows, Float[Array, ""] | float]:
        """The rows as the Gaussian process sees them, and Σ log |∂z/∂y|."""

    def noise_design(self, rows: Rows) -> tuple[Float[Array, "n p"], Float[Array, " n"]]:
        """(S, e): the noise variances of the rows are S v + e, with v those that are learned."""


class About(NamedTuple):
    """What the compiled evidence is of."""

    belief: HasEvidenceParts
    slots: params.Layout
    rows: Rows
    priors: Priors

    def candidate(self, vector: Vector) -> HasEvidenceParts:
        """The belief with the numbers of the unconstrained vector."""
        return params.from_vector(self.belief, self.slots, jnp.asarray(vector))


def choose_model(
    belief: HasEvidenceParts, slots: params.Layout, rows: Rows, priors: Priors
) -> "NumpyModel | CompiledModel":
    """The faster way to the evidence and its gradient."""
    usual = all(isinstance(prior, LogScalePenalty | NormalPenalty) for prior in priors.values())
    warp = belief.learned_warp
    known = ("kernel.", belief.noise_number[0], *(f"warp.{name}" for name in (() if warp is None else warp.pulled)))
    usual = usual and all(slot.path.startswith(known) for slot in slots)
    single = isinstance(belief.kernel, Stationary) and not np.ndim(belief.kernel.number("lengthscale"))
    few = rows.n <= (FEW_ROWS_OF_ONE_LENGTHSCALE if single else FEW_ROWS)
    return (NumpyModel if few and usual and is_supported(belief.kernel) else CompiledModel)(belief, slots, rows, priors)


class EvidenceObjective:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector u, with its gradient."""

    def __init__(self, model: "NumpyModel | CompiledModel"):
        self._model = model
        size = (model.n, model.n)
        self._covariance, self._work = np.zeros(size), np.empty(size)  # reused: fresh pages cost time

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where the covariance is not positive definite."""
        found = self._evaluate(vector, True)
        if not np.isfinite(found.value):
            return -np.inf, np.zeros_like(vector)
        return found.value + found.more, found.pull(self._work, found.by_residual, found.factor)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        found = self._evaluate(vector, False)
        return found.value + found.more

    def log_evidence(self, vector: np.ndarray) -> float:
        """log p(y | X, θ) alone; where outcomes are warped without Σ log |∂z/∂y|."""
        return self._evaluate(vector, False).value

    def left_over(self, vector: np.ndarray) -> Float[np.ndarray, " n"]:
        """What the mean of the function leaves of z: noise · α."""
        found = self._evaluate(vector, False)
        return -found.noise * found.by_residual

    def noise_factors(
        self, k: Float[np.ndarray, "n n"], noise: Float[np.ndarray, " n"], residual: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], float]:
        """What the noise of each row is multiplied with, and what that adds to the objective."""
        return np.ones_like(noise), 0.0

    def _evaluate(self, vector: np.ndarray, gradient: bool) -> "Evaluated":
        with blas_threads(self._model.n):
            return self._look(vector, gradient)

    def _look(self, vector: np.ndarray, gradient: bool) -> "Evaluated":
        k = self._covariance
        residual, noise, more, pull = self._model.forward(vector, k)
        finite = bool(np.all(np.isfinite(residual)))
        factor, added = self.noise_factors(k, noise, residual) if finite else (np.ones_like(noise), 0.0)
        noise = noise * factor
        k.flat[:: len(k) + 1] += noise
        value, by_residual = -np.inf, np.zeros_like(residual)
        if finite:
            value, by_residual = evidence_on_host(k, residual, np.ones_like(residual), self._work, gradient)
        return Evaluated(value, more + added, by_residual, noise, factor, pull)


class Evaluated(NamedTuple):
    """A look at the evidence."""

    value: float
    more: float
    """log p(θ), with Σ log |∂z/∂y|."""
    by_residual: Float[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]
    factor: Float[np.ndarray, " n"]
    pull: Pull


# -- in NumPy --------------------------------------------------------------------------------------------------------


class NumpyModel:
    """Covariance, residual and pull-back with nothing to compile."""

    def __init__(self, belief: HasEvidenceParts, slots: params.Layout, rows: Rows, priors: Priors):
        if not is_supported(belief.kernel):
            known = ", ".join(family.__name__ for family in FAMILIES)
            raise DataError(f"only kernels made of {known} can be evaluated here, found {belief.kernel.formula()}")
        self._slots = [(s.path, slice(s.start, s.stop), s.shape, s.constraint.kind == "positive") for s in slots]
        free, everything = {s.path for s in slots}, params.learnable(belief)
        self._noise, self._power = belief.noise_number
        self._held = {p: np.asarray(v) for p, v in everything.items() if p not in free}
        if self._noise not in everything:
            self._held[self._noise] = np.asarray(belief.prior.noise)
        self._kernel = belief.kernel  # attributes of an equinox module take their time
        self._penalties = [(slice(s.start, s.stop), priors[s.path].on_host(s.shape)) for s in slots if s.path in priors]
        x, self._y, *_ = rows.cut()
        self.n = n = len(x)
        self._warp = belief.learned_warp if any(path.startswith("warp.") for path in free) else None
        seen, log_slope = belief.transformed(rows)
        self._constant = 0.0 if self._warp is not None else float(log_slope)
        held = params.layout(belief, free)
        at = np.asarray(params.to_vector(belief, held))
        for s in (s for s in held if s.path in priors):
            self._constant += priors[s.path].on_host(s.shape)(at[s.start : s.stop])[0]
        self._design, self._extra = (np.asarray(v)[:n] for v in belief.noise_design(rows))
        more = belief.mean.kernel()
        self._mean_covariance = np.zeros((n, n)) if more is None else np.asarray(more.between(x, x))
        self._inputs, self._mean = Inputs(x), np.asarray(belief.mean.at(x))
        self._residual = seen.cut()[1] - self._mean
        self._lower = 0.5 * np.eye(n) - np.tri(n)  # makes of K⁻¹ - ααᵀ a triangle that sums as ∂log p/∂K does

    def forward(self, vector: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, Pull]:
        """Writes k(X, X); gives the residual, the noise, log p(θ) (with Σ log |∂z/∂y|) and the pull-back."""
        numbers = self._held | {
            path: (np.exp(vector[where]) if positive else vector[where]).reshape(shape)
            for path, where, shape, positive in self._slots
        }
        k, back = gram_and_pull(self._kernel, "kernel.", numbers, self._inputs)
        np.add(k, self._mean_covariance, out=out)
        variance = numbers[self._noise].ravel() ** self._power
        gradient, more = np.zeros_like(vector), self._constant
        for where, penalty in self._penalties:
            value, gradient[where] = penalty(vector[where])
            more += value
        residual, warp = self._residual, self._warp
        if warp is not None:
            warp = changed(warp, **{name: numbers[f"warp.{name}"] for name in warp.pulled})
            residual, more = np.asarray(warp(self._y)) - self._mean, more + float(np.sum(warp.log_slope(self._y)))

        def pull(lower: np.ndarray, by_residual: np.ndarray, factor: np.ndarray) -> np.ndarray:
            by_covariance = np.multiply(lower, self._lower, out=lower)
            by: Gradient = {self._noise: self._power * variance * ((by_covariance.diagonal() * factor) @ self._design)}
            back(by_covariance, by)
            if warp is not None:
                by |= {f"warp.{name}": slope for name, slope in warp.pull(self._y, by_residual).items()}
            for path, where, _, _ in self._slots:
                gradient[where] += np.ravel(by[path])
            return gradient

        return residual, self._design @ variance + self._extra, more, pull


# -- in XLA ----------------------------------------------------------------------------------------------------------


class CompiledModel:
    """Covariance, residual and pull-back of any kernel, in two programs; of a covariance only the lower blocks."""

    def __init__(self, belief: HasEvidenceParts, slots: params.Layout, rows: Rows, priors: Priors):
        padded = rows.padded()
        self._about, self.n, self._length = About(belief, slots, padded, dict(priors)), rows.n, len(padded.y)

    def forward(self, vector: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, Pull]:
        """Writes k(X, X); gives the residual, the noise, log p(θ) (with Σ log |∂z/∂y|) and the pull-back."""
        n = self.n
        parts = _parts_compiled(vector, self._about)
        for (a, b), block in zip(_cuts(self._length), parts.blocks, strict=True):
            out[a:b, : min(b, n)] = np.asarray(block)[: max(n - a, 0), :n]

        def pull(lower: np.ndarray, by_residual: np.ndarray, factor: np.ndarray) -> np.ndarray:
            more = (0, self._length - n)
            padded = np.pad(lower, (more, more)) if more[1] else lower
            slopes = np.pad(by_residual, more), np.pad(factor, more)
            return np.asarray(_pull_back(vector, self._about, padded, *slopes))

        return np.asarray(parts.residual)[:n], np.asarray(parts.noise)[:n], float(parts.log_prior), pull


class Parts(NamedTuple):
    """What the evidence is made of: k(X, X) left of its diagonal, in blocks of rows, noise, residual, and log p(θ)."""

    blocks: tuple[Float[Array, "a b"], ...]
    noise: Float[Array, " c"]
    residual: Float[Array, " c"]
    log_prior: Float[Array, ""]


def _parts(vector: Vector, about: About) -> Parts:
    candidate = about.candidate(vector)
    rows, log_slope = candidate.transformed(about.rows)
    prior = candidate.prior
    blocks = tuple(prior.kernel.gram(rows.x[a:b], rows.x[:b]) for a, b in _cuts(len(rows.x)))
    noise = prior.noise * rows.scale + rows.extra
    log_prior = params.log_prior(candidate, about.priors) + log_slope
    return Parts(blocks, noise, exact.residual(prior, rows), jnp.asarray(log_prior))


_parts_compiled = eqx.filter_jit(_parts)


def _cuts(size: int) -> list[tuple[int, int]]:
    """The first and the last row of each block."""
    edges = np.linspace(0, size, (BLOCKS if size >= 512 else 1) + 1).astype(int).tolist()
    return list(itertools.pairwise(edges))


@eqx.filter_jit
def _pull_back(
    vector: Vector, about: About, lower: Float[Array, "c c"], by_residual: Vector, factor: Vector
) -> Float[Array, " k"]:
    """∂/∂u from K⁻¹ - ααᵀ = -2 ∂log p/∂K, of which the lower triangle is given."""
    i = jnp.arange(lower.shape[0])
    blocks = tuple(
        jnp.where(i[a:b, None] > i[None, :b], -1.0, jnp.where(i[a:b, None] == i[None, :b], -0.5, 0.0)) * lower[a:b, :b]
        for a, b in _cuts(len(about.rows.x))
    )
    by_noise = -0.5 * jnp.diagonal(lower) * factor
    slopes = Parts(blocks, by_noise, jnp.asarray(by_residual), jnp.ones(()))
    _, pull = jax.vjp(lambda u: _parts(u, about), jnp.asarray(vector))
    return pull(slopes)[0]
