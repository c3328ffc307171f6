"""Generalized linear models of classes and counts, in the shapes that numbers are tried with.

Classes: their shares, whatever the inputs say; then logistic regression (two classes) or softmax. Counts: one rate for
all; straight lines under Poisson's law and under the negative binomial, which is more spread; the other shapes under
whichever of the two did better; and the best under the other. Scales of the prior are chosen by Laplace's approximation
of the evidence.
"""

from collections.abc import Sequence

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data, Fitted
from credo.app.fit.shapes import Shape, shapes
from credo.models.features import Features, InterceptOnly
from credo.models.glm import GLM, Logistic, NegativeBinomialRegression, PoissonRegression, Softmax
from credo.models.linear import ARD, Isotropic

MOST_WEIGHTS = 250
MOST_WORK = 5e8
"""Weights² × rows that a shape with many features may have."""
SHARES, RATE = "class shares", "constant rate"
SPREAD = ", more spread"


class ClassModels(Family):
    """Logistic regression, or softmax where there are more than two classes."""

    kinds = ("classes",)

    def propose(self, data: Data) -> list[Candidate]:
        """The shares of the classes; then all shapes."""
        (n, d), levels = data.size, data.prepared.levels
        k = len(levels) - 1

        def belief(features: Features | None, relevance: bool) -> GLM:
            prior = ARD() if relevance else Isotropic()
            return Logistic(features, prior, classes=levels) if k == 1 else Softmax(features, prior, classes=levels)

        about = "every row has the same probabilities, whatever its inputs"
        return [
            Candidate(SHARES, about, belief(InterceptOnly(), False), 0.05, baseline=True),
            *(
                Candidate(s.name, s.about, belief(s.features, s.relevance), _seconds(s, n, d, k), refused=s.refused)
                for s in shapes(data.prepared.schema, (n, d), lambda size: _affordable(size * k, n))
            ),
        ]


class CountModels(Family):
    """Regressions of the logarithm of the expected count."""

    kinds = ("count",)

    def propose(self, data: Data) -> list[Candidate]:
        """One rate for all, and straight lines under both laws."""
        about = "counts come at one rate, whatever the inputs; they spread as Poisson's law says"
        constant = Candidate(RATE, about, PoissonRegression(InterceptOnly()), 0.05, baseline=True)
        lines = self._shapes(data)[0]
        return [constant, _count(lines, False, data), _count(lines, True, data)]

    def follow(self, done: Sequence[Fitted], data: Data) -> list[Candidate]:
        """The other shapes under the law that did better on straight lines; then the best under the other law."""
        lines, *others = self._shapes(data)
        both = [each for each in done if each.name in (lines.name, lines.name + SPREAD)]
        spread = bool(both) and data.best(both).name.endswith(SPREAD)
        more = [_count(shape, spread, data) for shape in others]
        names = {each.name for each in done}
        if any(candidate.name not in names and not candidate.refused for candidate in more) or not done:
            return more
        best = data.best(done).name
        again = [s for s in (lines, *others) if s.name == best.removesuffix(SPREAD)]
        return more + [_count(shape, not best.endswith(SPREAD), data) for shape in again]

    def _shapes(self, data: Data) -> list[Shape]:
        return shapes(data.prepared.schema, data.size, lambda size: _affordable(size, data.size[0]))


def _affordable(weights: int, n: int) -> bool:
    return weights <= MOST_WEIGHTS and weights**2 * n <= MOST_WORK


def _seconds(shape: Shape, n: int, d: int, k: int = 1) -> float:
    size = shape.size(d) * k
    return 0.1 + (30 if shape.relevance else 10) * 1e-9 * n * size**2 + 0.005 * size * shape.relevance


def _count(shape: Shape, spread: bool, data: Data) -> Candidate:
    prior = ARD() if shape.relevance else Isotropic()
    lead, seconds = f"the logarithm of the expected count: {shape.about}", _seconds(shape, *data.size)
    if not spread:
        poisson = PoissonRegression(shape.features, prior)
        return Candidate(shape.name, f"{lead}; Poisson's law", poisson, seconds, refused=shape.refused)
    said = f"{lead}; counts spread more than Poisson's law says (negative binomial)"
    belief = NegativeBinomialRegression(shape.features, prior)
    return Candidate(f"{shape.name}{SPREAD}", said, belief, 2 * seconds, refused=shape.refused)
