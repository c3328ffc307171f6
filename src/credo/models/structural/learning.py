"""Learning what a structural model does not integrate over, and the evidence with that integrated over as well.

The priors are weak, and on the scale on which learning is free (logarithms of variances, log-odds of what lies in
(0, 1)): a variance that the data would put at zero stays at a small number, and forecasts allow for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import numpy as np

from credo.core import params
from credo.core.arrays import Array, host
from credo.core.device import ONE_THREAD, blas_threads
from credo.core.pytrees import changed
from credo.infer.hyper import HyperDensity, laplace_evidence
from credo.infer.learning import Evidence, Learned
from credo.infer.method import Learner
from credo.infer.priors import LogitPenalty, LogScalePenalty, Penalty, Prior
from credo.models.structural.base import LOOSE, SeriesScales
from credo.models.structural.univariate_kalman import SeriesSystem, evidence_and_score, run

if TYPE_CHECKING:
    from credo.models.structural.belief import Structural
    from credo.models.structural.series import Series

AT_ZERO = 1e-5
"""A variance below this share of that of the changes of the series, where the evidence is flat, is zero."""
VARIANCES = ("variance", "slope", "noise")
STRIDE = 0.05
"""Steps, in logarithms, over which the slope of the evidence is compared."""
LOOSE_ODDS = 1.5
EVALUATIONS = 100
"""So many evaluations learning takes, more or less."""
STEP = 1e-30
"""Of the complex step: nothing is subtracted, so it may be as small as it likes."""
EMISSION = SeriesSystem._fields.index("emission")


def weak_priors(belief: "Structural", scales: SeriesScales) -> dict[str, Penalty]:
    """A prior for every learnable number of a structural model."""
    found: dict[str, Penalty] = {}
    parts = enumerate(belief.parts)
    typical = {f"parts.{i}.{field}": value for i, part in parts for field, value in part.typical(scales).items()}
    typical["noise"] = 0.3 * scales.step**2
    for path, value in params.learnable(belief).items():
        kind = params.constraint_of(belief, path).kind
        if path in typical:
            found[path] = LogScalePenalty(typical[path], LOOSE)
        elif kind == "unit_interval":
            # What fades does so slowly; a partial autocorrelation is as likely positive as negative.
            middle = 0.5 if path.endswith("partial") else 0.9
            found[path] = LogitPenalty(np.full(np.shape(value), middle), LOOSE_ODDS)
        elif kind == "positive":
            found[path] = LogScalePenalty(value, 0.5)
    return found


@dataclass(frozen=True)
class StructuralEvidence(Learner):
    """`Evidence` for variances, one of which may well be zero: that is a note, not a warning."""

    starts: int = 2
    spread: float = 2.0
    max_steps: int = 300

    def learn(
        self, belief: "Structural", statistics: "Series", fixed: Sequence[str], priors: Mapping[str, Prior], seed: int
    ) -> Learned:
        """The belief at the highest maximum found."""
        climb = Evidence(self.starts, self.spread, self.max_steps, gain=1e-11)
        with blas_threads(ONE_THREAD):  # L-BFGS-B asks for all, and on a busy machine waits longer than it works
            learned = climb.learn(belief, statistics, fixed, priors, seed)
        small = AT_ZERO * float(statistics.scales.step) ** 2
        # Where a variance is next to nothing the evidence is flat to both sides.
        zero = {
            path
            for path, value in params.learnable(learned.belief).items()
            if path.split(".")[-1] in VARIANCES and path not in fixed and float(value) < small
            if path in learned.at_bound or path not in priors
        }
        notes = [f"{name} is zero as far as the data tell: what it belongs to does not change" for name in sorted(zero)]
        kept = {name: side for name, side in learned.at_bound.items() if name not in zero}
        return learned._replace(at_bound=kept, notes=[*learned.notes, *notes])


class StructuralObjective:
    """log p(y | θ) + log p(θ) of the unconstrained vector u, with its gradient.

    The score has the gradient by the matrices of the model; those of a part depend on a number θ of its own alone:
    ∂ log p/∂u = Σ ∂ log p/∂M · ∂M/∂θ · dθ/du, with ∂M/∂θ by a complex step, Im M(θ + ih)/h, exact up to rounding.
    Squire & Trapp (1998), "Using complex variables to estimate derivatives of real functions".
    """

    def __init__(self, belief: "Structural", slots: params.Layout, series: "Series", priors: Mapping[str, Prior]):
        self.begins = belief.start is None and belief.state is None
        if belief.has_level and self.begins:  # about its mean a series has more digits
            middle = changed(series.scales, center=np.zeros(()))
            series = changed(series, y=series.y - series.scales.center, scales=middle)
        self.belief, self.slots, self.scales, self.jacobian = belief, slots, series.scales, float(series.jacobian)
        self.system, self.y, self.seen = host(belief.observed(series.cut(seen=True)))
        where = {slot.path: slice(slot.start, slot.stop) for slot in slots}
        own = {path: p for path, p in priors.items() if isinstance(p, LogScalePenalty | LogitPenalty) and path in where}
        self.penalties = [(where[path], penalty.on_host()) for path, penalty in own.items()]
        self.others = {path: prior for path, prior in priors.items() if path not in own}
        ends = np.cumsum([0] + [len(part.states) for part in belief.parts] + [1])
        self.blocks = [slice(*pair) for pair in pairwise(ends)]
        names = [path.split(".") for path in where]  # parts.1.variance, or noise
        self.owners = [(int(name[1]) if len(name) == 3 else len(belief.parts), name[-1]) for name in names]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient."""
        system = SeriesSystem(*(a.copy() for a in self.system))
        moved = self._moved(vector)
        for block, own in moved:
            for whole, at, matrix in _blocks(system, block, own):
                whole[at] = matrix.real
        found, score = run(evidence_and_score, system, self.y, self.seen, EVALUATIONS)
        value = float(found) + self.jacobian
        by = [sum(np.sum(whole[at] * m.imag) for whole, at, m in _blocks(score, *each)) / STEP for each in moved]
        each = [(slot.constraint, k) for slot in self.slots for k in range(slot.start, slot.stop)]
        slopes = [params.bijector(constraint).log_slope(vector[k : k + 1]) for constraint, k in each]
        gradient = np.asarray(by) * np.exp(slopes)
        for where, penalty in self.penalties:
            more, slope = penalty(vector[where])
            value, gradient[where] = value + more, gradient[where] + slope
        if self.others:
            log_prior, by_vector = host(_log_prior(vector, self.belief, self.slots, self.others))
            value, gradient = value + float(log_prior), gradient + np.asarray(by_vector)
        return value, gradient

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]

    def _moved(self, vector: np.ndarray) -> list[tuple[slice, SeriesSystem]]:
        """For every number the block of its part, and the matrices there after a complex step of the number."""
        values = list(params.natural_values(self.slots, vector).values())
        own: list[dict[str, Array]] = [{} for _ in self.blocks]
        for (i, field), value in zip(self.owners, values, strict=True):
            own[i][field] = value
        return [
            (self.blocks[i], self._matrices(i, own[i] | {field: value + 1j * STEP * unit}))
            for (i, field), value in zip(self.owners, values, strict=True)
            for unit in np.eye(value.size).reshape(value.size, *value.shape)
        ]

    def _matrices(self, i: int, numbers: dict[str, Array]) -> SeriesSystem:
        """Of a part, or of the noise after the last one, with other numbers."""
        if i == len(self.belief.parts):
            return SeriesSystem.white_noise(numbers["noise"])
        found, block = changed(self.belief.parts[i], **numbers).system(self.scales), self.blocks[i]
        if self.begins:
            return found
        return found._replace(mean=self.system.mean[block], covariance=self.system.covariance[block, block])


def _blocks(whole: SeriesSystem, block: slice, own: SeriesSystem) -> list[tuple[Array, tuple[slice, ...], Array]]:
    """The matrices that numbers change: where they are in the whole, and what is there."""
    pairs = zip(whole, own, strict=True)
    return [(a, (block,) * a.ndim, m) for i, (a, m) in enumerate(pairs) if i != EMISSION]


@eqx.filter_jit
def _log_prior(
    vector: np.ndarray, belief: "Structural", slots: params.Layout, priors: Mapping[str, Prior]
) -> tuple[Array, Array]:
    """log p(θ) of users' own priors, and its gradient."""
    return jax.value_and_grad(lambda u: params.log_prior(params.from_vector(belief, slots, u), priors))(vector)


def integrated_evidence(belief: "Structural", statistics: "Series", priors: Mapping[str, Prior] | None = None) -> float:
    """log ∫ p(y | θ) p(θ) dθ by Laplace's approximation at the learned θ, over logarithms and log-odds.

    What models with different numbers of variances are compared by.
    """
    slots = params.layout(belief)
    if not slots:
        return float(belief.log_evidence_of(statistics))
    priors = weak_priors(belief, statistics.scales) if priors is None else priors
    density = HyperDensity.of(belief, slots, statistics, priors)
    at = np.asarray(params.to_vector(belief, slots))
    # At least as much as the loosest prior bends.
    return laplace_evidence(density.value_and_grad, at, least=1 / LOOSE**2, step=STRIDE)
