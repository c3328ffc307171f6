"""The models that a table of classes or counts is tried with: generalized linear models in different features.

Classes: their shares, whatever the inputs say; then logistic regression (two classes) or softmax in each of the shapes
that numbers are tried with. Counts: one rate for all; straight lines under Poisson's law and under the negative
binomial, which is more spread; the other shapes under whichever of the two did better; and the best under the other.
Scales of the prior are chosen by Laplace's approximation of the evidence. Where that approximation is poor (nearly
separable classes) models are compared by a bound on their evidence instead (`credo.models.glm.refine`).
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Num
from scipy.optimize import minimize_scalar

from credo.app.candidates import Candidate, Shape, shapes
from credo.app.schema import Schema
from credo.core.arrays import Array
from credo.core.errors import NotConvergedWarning
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.optimize import CONVERGED
from credo.models.features import Features
from credo.models.glm import GLM, Logistic, NegativeBinomialRegression, PoissonRegression, Rows, Softmax
from credo.models.glm.refine import refined
from credo.models.linear import ARD, Isotropic

MOST_WEIGHTS = 250
MOST_WORK = 5e8
"""Weights² × rows that a shape with many features may have."""
CLIMB = Evidence(starts=1, tolerance=1e-2, flat=False)
"""The third digit of the evidence changes no choice, and climbs of many scales get there slowly."""
LOG_PRECISIONS = (-7.0, 12.0)
"""Where the logarithm of one precision for all weights of standardized features is searched."""
SPREAD = ", more spread"


class Nothing(Features):
    """No features: the constant term alone."""

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """No columns."""
        return np.zeros((x.shape[0], 0))

    def size(self, d: int) -> int:
        """None."""
        return 0

    def names(self, inputs: Sequence[str]) -> list[str]:
        """None."""
        return []


class Scored(NamedTuple):
    """A candidate that was learned, and its log evidence."""

    candidate: Candidate
    log_evidence: float


def class_candidates(
    schema: Schema, x: Num[np.ndarray, "n d"], levels: tuple[str, ...]
) -> tuple[list[Candidate], list[str]]:
    """The models for classes, the simplest first; and what was left out, why."""
    k = len(levels) - 1
    tried, notes = shapes(schema, x, lambda size: _affordable(size * k, len(x)))

    def belief(features: Features | None, relevance: bool) -> GLM:
        prior = ARD() if relevance else Isotropic()
        return Logistic(features, prior, classes=levels) if k == 1 else Softmax(features, prior, classes=levels)

    about = "every row has the same probabilities, whatever its inputs"
    shares = Candidate("class shares", about, belief(Nothing(), False))
    return [shares, *(Candidate(s.name, s.about, belief(s.features, s.relevance)) for s in tried)], notes


def count_shapes(schema: Schema, x: Num[np.ndarray, "n d"]) -> tuple[list[Shape], list[str]]:
    """The shapes that counts are tried with."""
    return shapes(schema, x, lambda size: _affordable(size, len(x)))


def first_counts(tried: list[Shape]) -> list[Candidate]:
    """One rate for all, and straight lines under both laws."""
    about = "counts come at one rate, whatever the inputs; they spread as Poisson's law says"
    constant = Candidate("constant rate", about, PoissonRegression(Nothing()))
    return [constant, _count(tried[0], False), _count(tried[0], True)]


def further_counts(tried: list[Shape], done: list[Scored]) -> list[Candidate]:
    """The other shapes, under the law that did better on straight lines."""
    of = {each.candidate.name: each.log_evidence for each in done}
    lines = tried[0].name
    spread = of.get(lines + SPREAD, -np.inf) > of.get(lines, -np.inf)
    return [_count(shape, spread) for shape in tried[1:]]


def last_counts(tried: list[Shape], done: list[Scored]) -> list[Candidate]:
    """The best so far under the other law, unless that was tried."""
    best = max(done, key=lambda each: each.log_evidence).candidate.name
    names = {each.candidate.name for each in done}
    shape = next((s for s in tried if s.name == best.removesuffix(SPREAD)), None)
    if shape is None:
        return []
    other = _count(shape, not best.endswith(SPREAD))
    return [] if other.name in names else [other]


def _affordable(weights: int, n: int) -> bool:
    return weights <= MOST_WEIGHTS and weights**2 * n <= MOST_WORK


def _count(shape: Shape, spread: bool) -> Candidate:
    prior = ARD() if shape.relevance else Isotropic()
    lead = f"the logarithm of the expected count: {shape.about}"
    if not spread:
        return Candidate(shape.name, f"{lead}; Poisson's law", PoissonRegression(shape.features, prior))
    said = f"{lead}; counts spread more than Poisson's law says (negative binomial)"
    belief = NegativeBinomialRegression(shape.features, prior)
    return Candidate(f"{shape.name}{SPREAD}", said, belief)


def learn_glm(belief: GLM, x: Any, y: Any, seed: int, exposure: np.ndarray | None = None) -> Learned:
    """The belief with the scale of its prior chosen by evidence, conditioned on x and y."""
    options: dict[str, Any] = {} if exposure is None else {"exposure": exposure}
    ready, rows = belief.prepare(x, y, **options)
    status = CONVERGED
    if isinstance(ready.prior, ARD):
        learned = CLIMB.learn(ready, rows, (), {}, seed)
        ready, status = learned.belief, learned.status
    elif ready.features.size(np.shape(x)[1]):
        ready = changed(ready, prior=Isotropic(_one_scale(ready, rows)))
    conditioned = refined(ready, ready.at_mode(rows), rows)
    return Learned(conditioned, status, _log_evidence(conditioned), [], {}, [])


def _log_evidence(belief: GLM) -> float:
    log_evidence = belief.weight_law().log_evidence
    return float("nan") if log_evidence is None else float(log_evidence)


def _one_scale(belief: GLM, rows: Rows) -> np.ndarray:
    """The precision, one for all weights, under which the evidence is highest."""

    def surprise(log_precision: float) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            return -_log_evidence(changed(belief, prior=Isotropic(np.asarray(np.exp(log_precision)))).at_mode(rows))

    found = minimize_scalar(surprise, bounds=LOG_PRECISIONS, method="bounded", options={"xatol": 0.02})
    return np.asarray(np.exp(found.x))
