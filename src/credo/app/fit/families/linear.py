"""Linear models in different features: lines, curves, products, trends; with noise unknown or with heavy tails."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.search import Data, Fitted
from credo.app.fit.shapes import Shape, shapes
from credo.core.belief import Belief
from credo.core.pytrees import changed
from credo.infer.learning import Evidence
from credo.models.features import Affine, InterceptOnly
from credo.models.linear import ARD, FixedPoint, InverseGamma, Linear, StudentTNoise
from credo.models.linear.robust_learning import NormalFirst

if TYPE_CHECKING:
    from credo.app.report.page import Section

MOST_FEATURES = 400
MOST_WORK = 4e8
"""Features × rows that an expensive candidate may have."""
ROBUST_WORK = 4e7
"""The same, of a candidate that expects outliers."""
MEAN = "average"
ROBUST = ", robust"


def is_robust(belief: object) -> bool:
    """Whether the belief is a linear model that expects outliers."""
    return isinstance(belief, Linear) and belief.is_robust


def slowly() -> FixedPoint:
    """Precisions on their way to infinity approach it slowly; the fourth digit changes nothing."""
    return FixedPoint(starts=1, tolerance=1e-4)


class LinearModels(Family):
    """Sums of features, each with a weight."""

    def propose(self, data: Data) -> list[Candidate]:
        """The average; straight lines under three assumptions; then other shapes with relevances of their own."""
        n, d = data.size
        tried = shapes(data.prepared.schema, (n, d), lambda size: size <= MOST_FEATURES and size * n <= MOST_WORK)
        held = {"fixed": ["prior.precision"]}
        plain = Linear(InterceptOnly())
        found = [Candidate(MEAN, "the same number for every row", plain, 0.05, Evidence, held, baseline=True)]
        found += [_candidate(shape, n, d) for shape in tried]
        if data.prepared.schema.time is None:
            lines = tried[0]
            about = lines.about.replace("all share one scale", "the size of the noise is unknown and averaged over")
            found.insert(3, Candidate("lines, unknown noise", about, Linear(lines.features, noise=InverseGamma()), 0.1))
        return found

    def follow(self, done: Sequence[Fitted], data: Data) -> list[Candidate]:
        """The best with Student-t noise: outliers are rare but expected."""
        normal = [each for each in done if not each.name.endswith(ROBUST) and not each.candidate.baseline]
        if not normal:
            return []
        best = data.best(normal)
        n, d = data.size
        plain = best.candidate.belief
        size = plain.features.size(d) + 1
        refused = "the table is too large for it" if size * n > ROBUST_WORK else ""
        belief = Linear(plain.features, type(plain.prior)(), StudentTNoise())
        about = f"{best.about}; outliers are expected now and then"
        seconds = best.candidate.seconds + 0.3 + 2e-7 * n * size**2
        return [Candidate(f"{best.name}{ROBUST}", about, belief, seconds, NormalFirst, refused=refused)]

    def kept(self, belief: Belief) -> Belief:
        """Heavy-tailed noise has no sufficient statistics: the file would hold the training rows."""
        return changed(belief, seen=None) if is_robust(belief) else belief

    def sections(self, fitted: Fitted, data: Data, chosen: bool) -> "list[Section]":
        """The coefficients of straight lines."""
        from credo.app.report.families import coefficients

        known = getattr(fitted.belief, "mode", fitted.belief)  # of one that is integrated over its hyperparameters
        straight = chosen and isinstance(known.features, Affine) and not fitted.candidate.baseline
        return [coefficients(known, data.prepared)] if straight else []


def _candidate(shape: Shape, n: int, d: int) -> Candidate:
    size = shape.size(d)
    if not shape.relevance:
        # One belief to explain, not an average over hyperparameters.
        return Candidate(shape.name, shape.about, Linear(shape.features), 0.05 + 1e-9 * n * size**2, FixedPoint)
    seconds = 0.1 + 1e-9 * n * size**2 + 2e-7 * size**3
    return Candidate(shape.name, shape.about, Linear(shape.features, ARD()), seconds, slowly, refused=shape.refused)
