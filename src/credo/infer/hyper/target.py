"""The posterior density of hyperparameters, as methods that integrate over them see it.

    J(u) = log p(data | θ) + log p(θ) + log |dθ/du|,    θ = T(u)

over the learnable numbers that are not fixed, without constraints: the log marginal likelihood (evidence), the prior
and the Jacobian. A number without a prior counts as flat in u: 1/θ for a positive one.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.core import params
from credo.core.arrays import Array
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.infer.averaging import Averaged, Integrated
from credo.infer.learning import Evidence, Learned
from credo.infer.optimize import gradient_differences, value_differences
from credo.infer.priors import Priors, as_densities
from credo.infer.progress import Progress
from credo.infer.target import ParameterSpace, Target

STEP = 1e-4
"""Of central differences, in unconstrained units."""
NO_UNITS: Mapping[str, Any] = MappingProxyType({})


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
    flat = [path for path in values if path not in with_priors(belief, slots, priors)]
    jacobian = params.log_jacobian(slots, params.to_vector(candidate, slots), flat)
    own = candidate.log_prior_of_parameters()
    return candidate.evidence_of(statistics) + own + params.log_prior(candidate, priors) - jacobian


def with_priors(belief: Any, slots: params.Layout, priors: Priors) -> frozenset[str]:
    """The paths of the numbers that have a density: all of them where the model has priors of its own."""
    own = type(belief).log_prior_of_parameters is not Belief.log_prior_of_parameters
    return frozenset(slot.path for slot in slots if own or slot.path in priors)


class HyperDensity(NamedTuple):
    """J on the host, at one vector or many, with its gradient, in the belief's own way of computing the evidence."""

    evidence: Any
    """log p(data | θ) and what the model itself believes of θ, with the gradient."""
    belief: Any
    slots: params.Layout
    statistics: object
    priors: Priors
    units: Float[np.ndarray, " k"]
    """Of the coordinates: steps of differences, and widths, are so many of them."""

    @classmethod
    def of(
        cls,
        belief: Any,
        slots: params.Layout,
        statistics: object,
        priors: Priors,
        units: Mapping[str, Any] = NO_UNITS,
    ) -> "HyperDensity":
        """With penalties as the densities that are as wide; `units` by path, 1 where there are none."""
        each = [np.broadcast_to(units.get(s.path, 1.0), s.shape).ravel() for s in slots]
        scales = np.concatenate(each)
        evidence = belief.objective(slots, statistics, {}) or _Differences(belief, slots, statistics, scales)
        return cls(evidence, belief, slots, statistics, as_densities(priors), scales)

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log density and its gradient."""
        value, gradient = self.evidence.value_and_grad(vector)
        steps = np.diag(STEP * self.units)
        moved = self._log_priors(np.concatenate([vector + steps, vector - steps])).reshape(2, -1)
        slope = (moved[0] - moved[1]) / (2 * STEP * self.units) + params.log_jacobian_gradient(
            self.slots, vector, self.proper
        )
        return float(value + self.log_priors(vector[None])[0]), gradient + slope

    def value(self, vector: np.ndarray) -> float:
        """The log density."""
        return float(self.values(vector[None])[0])

    @property
    def proper(self) -> frozenset[str]:
        """The paths of the numbers that have a density."""
        return with_priors(self.belief, self.slots, self.priors)

    def log_priors(self, vectors: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " m"]:
        """log p(u) at every row: densities of θ and the Jacobian of the transform."""
        jacobians = [float(params.log_jacobian(self.slots, vector, self.proper)) for vector in vectors]
        return self._log_priors(vectors) + jacobians

    def _log_priors(self, vectors: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " m"]:
        """Σ log p(θ) at every row."""
        values, total = params.natural_values(self.slots, vectors), np.zeros(len(vectors))
        for path, prior in self.priors.items():
            total += np.asarray(prior.log_prob(values[path])).reshape(len(vectors), -1).sum(1)
        return total

    def values(self, vectors: np.ndarray) -> np.ndarray:
        """The log density at every row."""
        if isinstance(self.evidence, _Differences):
            return self.evidence.values(vectors) + self.log_priors(vectors)
        with Progress(None, "hyperparameters") as say:
            heights = []
            for i, vector in enumerate(vectors):
                say(i / len(vectors), f"hyperparameters, point {i + 1} of {len(vectors)}")
                # Not `value`, which some beliefs only have roughly.
                heights.append(self.evidence.value_and_grad(vector)[0])
        return np.asarray(heights) + self.log_priors(vectors)

    def hessian(self, vector: np.ndarray, step: float = 1e-3) -> np.ndarray:
        """By central differences of the gradient, or of the values where the gradient is one of those."""
        if isinstance(self.evidence, _Differences):
            scaled = value_differences(lambda v: self.values(v * self.units), vector / self.units, step)
            return scaled / np.outer(self.units, self.units)
        return gradient_differences(self.value_and_grad, vector, step)

    def root(self, vector: np.ndarray, widest: float) -> Float[np.ndarray, "k k"]:
        """`principal_root` at a vector, in units of the coordinates; signed ones do not say where axes point."""
        signed = np.concatenate([np.full(s.stop - s.start, s.constraint.kind == "real") for s in self.slots])
        scaled = self.hessian(vector) * np.outer(self.units, self.units)
        return self.units[:, None] * principal_root(scaled, widest, signed)

    def average(
        self, found: Learned, vectors: np.ndarray, log_scale: np.ndarray, heights: np.ndarray, notes: Iterable[str]
    ) -> Learned:
        """The belief averaged over points uⱼ: ∫ … du ≈ Σⱼ exp(log_scaleⱼ) …, J(uⱼ) = `heights`.

        What is returned has the weights of the points before the data, and after them where it is conditioned.
        """
        members = tuple(params.from_vector(found.belief, self.slots, vector) for vector in vectors)
        before = log_scale + self.log_priors(vectors)
        after = tuple(member.condition_on(self.statistics) for member in members)
        conditioned = Integrated(log_scale + heights, after, found.belief.condition_on(self.statistics))
        belief = Integrated(before, members, found.belief)
        return found._replace(belief=belief, conditioned=conditioned, notes=[*found.notes, *notes])


class HyperEvidence(Evidence):
    """`Evidence` on the density of the unconstrained vector: its mode instead of that of θ."""

    def objective(self, belief: Any, slots: params.Layout, statistics: object, priors: Priors) -> HyperDensity:
        """Evidence, prior and Jacobian."""
        return HyperDensity.of(belief, slots, statistics, priors)


class _Differences(NamedTuple):
    """log p(data | θ) and the model's own log p(θ), with the gradient by central differences."""

    belief: Any
    slots: params.Layout
    statistics: object
    units: Float[np.ndarray, " k"]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log evidence and its gradient."""
        steps = np.diag(STEP * self.units)
        value, *moved = self.values(np.concatenate([vector[None], vector + steps, vector - steps]))
        up, down = np.reshape(moved, (2, -1))
        return float(value), (up - down) / (2 * STEP * self.units)

    def value(self, vector: np.ndarray) -> float:
        """The log evidence."""
        return float(self.values(vector[None])[0])

    def values(self, vectors: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " m"]:
        """The log evidence at every row."""
        numbers = params.natural_values(self.slots, vectors)
        candidates = [
            params.replace(self.belief, {path: each[i] for path, each in numbers.items()}) for i in range(len(vectors))
        ]
        own = [float(each.log_prior_of_parameters()) for each in candidates]
        return np.asarray(self.belief.log_evidences_of(candidates, self.statistics)) + own


def principal_root(
    hessian: Float[np.ndarray, "k k"], widest: float, signed: Bool[np.ndarray, " k"] | None = None
) -> Float[np.ndarray, "k k"]:
    """R with RRᵀ = (-H)⁻¹ along its principal axes, of which no standard deviation is larger than `widest`."""
    values, vectors = np.linalg.eigh(-hessian)
    # An axis points where its largest component is positive, so that the order of the coordinates changes nothing;
    # one that changes its sign with the outcomes has no say where there are others.
    deciding = vectors if signed is None or signed.all() else vectors[~signed]
    vectors = vectors * np.sign(np.take_along_axis(deciding, np.abs(deciding).argmax(0)[None], axis=0))
    return vectors / np.sqrt(np.maximum(values, 1.0 / widest**2))


class HyperMoments(NamedTuple):
    """Mean and standard deviation of a hyperparameter."""

    mean: np.ndarray
    std: np.ndarray


def hyperparameters(belief: Averaged) -> dict[str, HyperMoments]:
    """What an average over hyperparameters believes about each of them, by path."""
    each = [params.learnable(member) for member in belief.beliefs]
    if any(values.keys() != each[0].keys() for values in each):
        raise DataError("the beliefs of the average have different hyperparameters: there is no mean over them")
    weights = np.asarray(belief.probabilities)
    out = {}
    for path in each[0]:
        values = np.stack([np.asarray(member[path]) for member in each])
        mean = np.tensordot(weights, values, 1)
        out[path] = HyperMoments(mean, np.sqrt(np.tensordot(weights, np.square(values - mean), 1)))
    return out
