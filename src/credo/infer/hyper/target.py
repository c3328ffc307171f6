"""The posterior density of hyperparameters, as methods that integrate over them see it.

    J(u) = log p(data | θ) + log p(θ) + log |dθ/du|,    θ = T(u)

over the learnable numbers that are not fixed, without constraints: the log marginal likelihood (evidence), the prior
and the Jacobian. A number without a prior counts as flat in u: 1/θ for a positive one.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.infer.averaging import Averaged
from credo.infer.learning import Evidence, Learned
from credo.infer.optimize import gradient_differences
from credo.infer.priors import PenaltyDensity, Priors, as_densities
from credo.infer.progress import Progress
from credo.infer.target import ParameterSpace, Target


def hyper_target(belief: Belief, statistics: object, fixed: Sequence[str], priors: Priors) -> Target:
    """J as a `Target` by path, for samplers: traceable."""
    slots = params.layout(belief, fixed)
    free = params.learnable(belief)
    values = {s.path: free[s.path] for s in slots}
    space = ParameterSpace.of(values, {s.path: s.constraint for s in slots})
    return Target(space, _log_joint, (belief, statistics, as_densities(priors)))


def _log_joint(values: dict[str, Array], belief: Any, statistics: object, priors: Priors) -> Float[Array, ""]:
    candidate = params.replace(belief, values)
    slots = params.layout(candidate)
    flat = [path for path in values if path not in priors]
    jacobian = params.log_jacobian(slots, params.to_vector(candidate, slots), flat)
    return candidate.evidence_of(statistics) + params.log_prior(candidate, priors) - jacobian


class HyperDensity(NamedTuple):
    """J on the host, at one vector or many, with its gradient, in the belief's own way of computing the evidence."""

    inner: Any
    """log p(data | θ) + log p(θ), with its gradient."""
    belief: Any
    slots: params.Layout
    statistics: object
    priors: Priors

    @classmethod
    def of(cls, belief: Any, slots: params.Layout, statistics: object, priors: Priors) -> "HyperDensity":
        """With penalties as the densities that are as wide."""
        return cls(
            Evidence().objective(belief, slots, statistics, priors), belief, slots, statistics, as_densities(priors)
        )

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density and its gradient."""
        value, gradient = self.inner.value_and_grad(vector)
        more, slope = self._density(vector)
        return value + more, gradient + slope

    def value(self, vector: np.ndarray) -> float:
        """The log density."""
        return self.inner.value(vector) + self._density(vector)[0]

    def _density(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """What makes a density of u of the prior: the mass of a penalty, which is one of u already, or a Jacobian."""
        kept = {p: prior.penalty for p, prior in self.priors.items() if isinstance(prior, PenaltyDensity)}
        mass = sum(np.size(params.learnable(self.belief)[p]) * float(prior.log_mass) for p, prior in kept.items())
        proper = frozenset(self.priors) - frozenset(kept)
        more = float(params.log_jacobian(self.slots, vector, proper))
        return more - mass, params.log_jacobian_gradient(self.slots, vector, proper)

    def values(self, vectors: np.ndarray) -> np.ndarray:
        """The log density at every row; one by one where the belief has its own way of computing it."""
        if self.belief.objective(self.slots, self.statistics, self.priors) is None:
            return np.asarray(log_densities(vectors, *self[1:]))
        with Progress(None, "hyperparameters") as say:
            heights = []
            for i, vector in enumerate(vectors):
                say(i / len(vectors), f"hyperparameters, point {i + 1} of {len(vectors)}")
                heights.append(self.value(vector))
        return np.asarray(heights)

    def hessian(self, vector: np.ndarray, step: float = 1e-3) -> np.ndarray:
        """By central differences of the gradient."""
        return gradient_differences(self.value_and_grad, vector, step)

    def average(
        self, found: Learned, vectors: np.ndarray, log_scale: np.ndarray, heights: np.ndarray, notes: Iterable[str]
    ) -> Learned:
        """The belief averaged over points uⱼ: ∫ … du ≈ Σⱼ exp(log_scaleⱼ) …, J(uⱼ) = `heights`.

        What is returned has the weights of the points before the data, and after them where it is conditioned.
        """
        members = tuple(params.from_vector(self.belief, self.slots, vector) for vector in vectors)
        before = log_scale + [
            float(_log_prior(v, m, self.slots, self.priors)) for v, m in zip(vectors, members, strict=True)
        ]
        after = Averaged(log_scale + heights, tuple(member.condition_on(self.statistics) for member in members))
        return found._replace(belief=Averaged(before, members), conditioned=after, notes=[*found.notes, *notes])


class HyperEvidence(Evidence):
    """`Evidence` on the density of the unconstrained vector: its mode instead of that of θ."""

    def objective(self, belief: Any, slots: params.Layout, statistics: object, priors: Priors) -> HyperDensity:
        """Evidence, prior and Jacobian."""
        return HyperDensity.of(belief, slots, statistics, priors)


def _log_prior(u: Float[Array, " k"], candidate: Belief, slots: params.Layout, priors: Priors) -> Array:
    """log p(u) of the belief at u."""
    return params.log_prior(candidate, priors) + params.log_jacobian(slots, u, priors)


@eqx.filter_jit
def log_densities(
    vectors: Float[Array, "m k"], belief: Any, slots: params.Layout, statistics: object, priors: Priors
) -> Float[Array, " m"]:
    """J at many vectors, one after the other; traceable."""

    def of(u: Array) -> Array:
        candidate = params.from_vector(belief, slots, u)
        own = candidate.evidence_of(statistics) + candidate.log_prior_of_parameters()
        return own + _log_prior(u, candidate, slots, priors)

    return jax.lax.map(of, vectors)


class HyperMoments(NamedTuple):
    """Mean and standard deviation of a hyperparameter."""

    mean: np.ndarray
    std: np.ndarray


def hyperparameters(belief: Averaged) -> dict[str, HyperMoments]:
    """What an average over hyperparameters believes about each of them, by path."""
    each = [params.learnable(member) for member in belief.beliefs]
    if any(values.keys() != each[0].keys() for values in each):
        raise DataError("the beliefs of the average have different hyperparameters: there is no mean over them")
    weights = np.asarray(belief.weights)
    out = {}
    for path in each[0]:
        values = np.stack([np.asarray(member[path]) for member in each])
        mean = np.tensordot(weights, values, 1)
        out[path] = HyperMoments(mean, np.sqrt(np.tensordot(weights, np.square(values - mean), 1)))
    return out
