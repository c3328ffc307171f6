"""A Gaussian process behind a likelihood for many rows: Laplace's method on the features of m inducing points.

    f(x) ≈ m(x) + a(x)ᵀw,    a(x) = L⁻¹ k(U, x),   LLᵀ = k(U, U),   w ~ N(0, I)

The log likelihood is a sum over rows, so Newton's steps to the mode of w are passes over chunks of them: O(nm²) work
and, beside the rows, O(m²) memory. What the points do not determine of f, k - aᵀa, is added to the variance of a
prediction.
Lengthscales are those of a regression on the working response given nearest neighbours (`vecchia.py`), the rest is
learned from a thousand rows and the amplitude by Laplace's evidence of many.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, is_traced
from credo.core.device import blas_threads
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.linalg import factorize, log_determinant, solve, solve_lower
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.infer.priors import Priors
from credo.models.gp.base import FunctionValues
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.large.base import in_chunks, joined
from credo.models.gp.latent import LatentGP

FIRST_ROWS, AMPLITUDE_ROWS = 1000, 20_000
"""Of so many random rows everything but the lengthscales is learned, and of so many the amplitude."""
AMPLITUDES = 2.0 ** np.arange(-4.0, 5.0)
"""The factors of the variance that are tried."""
HELD = 2**26
"""So many features are kept between passes; of more rows they are computed anew."""
MAX_STEPS, SHORT = 50, 1e-4
"""Newton's steps end with one that is shorter than so many standard deviations of the prior."""


class FeaturePosterior(eqx.Module):
    """N(mean, (root rootᵀ)⁻¹) of the weights w, at the mode."""

    mean: Float[Array, " m"]
    root: Float[Array, "m m"]
    log_evidence: Float[Array, ""]
    """Laplace's, of all rows."""


class Chunk(NamedTuple):
    """Features of some rows, what is expected of f with the offset, and outcomes."""

    a: Float[np.ndarray, "c m"]
    center: Float[np.ndarray, " c"]
    y: Float[np.ndarray, " c"]


class InducingLatentGP(LatentGP):
    """A `LatentGP` that sees rows through its values at m points. Make it with `using=Inducing(m)`."""

    points: Any
    """U, chosen from the first rows that it is conditioned on."""
    form: Any = eqx.field(static=True)
    """The `Inducing` that chooses them."""

    def __init__(self, latent: LatentGP, form: Any):
        self.likelihood, self.kernel, self.mean = latent.likelihood, latent.kernel, latent.mean
        self.inputs, self.unit, self.standardizes = latent.inputs, latent.unit, latent.standardizes
        self.method, self.form = "laplace", form
        self.points = self.seen = self.solved = None

    def plain(self) -> LatentGP:
        """The same prior as a `LatentGP` of all rows."""
        plain = LatentGP(self.likelihood, self.kernel, self.mean)
        return changed(plain, inputs=self.inputs, unit=self.unit, standardizes=self.standardizes, method="laplace")

    def like(self, latent: LatentGP) -> "InducingLatentGP":
        """The same approximation of another prior."""
        return changed(self, likelihood=latent.likelihood, kernel=latent.kernel, mean=latent.mean)

    def by(self, method: object) -> None:
        """No other form: it is Laplace's."""
        return

    def learner(self, priors: Any) -> Any:
        """Its form."""
        return self.form

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Rows) -> "InducingLatentGP":
        """Laplace's approximation after all rows, seen and new, from the mode of those seen."""
        rows = self.with_seen(statistics)
        own = self.placed(rows)
        start = own.solved.mean if isinstance(self.solved, FeaturePosterior) else None
        return changed(own, seen=rows, solved=own.posterior(rows, start))

    def placed(self, rows: Rows) -> "InducingLatentGP":
        """With points chosen from the rows, where it has none."""
        if self.points is not None:
            return self
        if is_traced(self, rows):
            raise DataError("inducing points are chosen from known rows: condition outside jit")
        return changed(self, points=self.form.choose(self.prior.kernel, rows.cut()[0]))

    def _root(self) -> Float[Array, "m m"]:
        return factorize(self.prior.kernel.between(self.points, self.points)).root

    def _features(self, root: Array, x: Array) -> Float[Array, "n m"]:
        """The rows a(xᵢ)ᵀ."""
        return solve_lower(root, self.prior.kernel.between(self.points, x)).T

    def _chunks(self, rows: Rows) -> Iterator[Chunk]:
        root = self._root()
        x, y, _, offset = rows.cut()
        for part in in_chunks(rows.n, len(self.points)):
            yield Chunk(
                np.asarray(self._features(root, x[part])), np.asarray(self.mean.at(x[part])) + offset[part], y[part]
            )

    def posterior(self, rows: Rows, start: Array | None = None) -> FeaturePosterior:
        """The mode of w by Newton's method, halved steps where a whole one loses, and the curvature there."""
        m = len(self.points)
        held = list(self._chunks(rows)) if rows.n * m <= HELD else None
        w = np.zeros(m) if start is None else np.asarray(start)
        best, height, gradient, bend = w, -np.inf, np.zeros(m), np.eye(m)
        with blas_threads(rows.n):
            for _ in range(MAX_STEPS):
                found, slope, more = float(-0.5 * w @ w), -w, np.eye(m)
                for a, center, y in held or self._chunks(rows):
                    value, first, second, _ = self.likelihood.eta_derivatives(center + a @ w, y)
                    half = a * np.sqrt(np.maximum(-second, 0.0))[:, None]
                    found, slope, more = found + float(value.sum()), slope + a.T @ first, more + half.T @ half
                if found < height:
                    w = 0.5 * (best + w)
                    if np.abs(w - best).max() < SHORT:
                        break
                    continue
                best, height, gradient, bend = w, found, slope, more
                step = solve(factorize(bend).root, gradient)
                w = best + step
                if np.abs(step).max() < SHORT:
                    break
            else:
                warnings.warn(
                    f"the mode of {m} weights was not reached in {MAX_STEPS} steps; predictions are from where they "
                    "ended",
                    NotConvergedWarning,
                    stacklevel=2,
                )
        root = factorize(bend).root
        # The last step is so short that it is taken without another look.
        return FeaturePosterior(w, root, np.asarray(height - 0.5 * log_determinant(root)))

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """Laplace's approximation of log p(y | X) of the model of features; after data, the difference."""
        own = self.placed(self.with_seen(statistics))
        whole = own.posterior(self.with_seen(statistics), None if self.solved is None else self.solved.mean)
        return whole.log_evidence - (0.0 if self.solved is None else self.solved.log_evidence)

    def target(self, statistics: Rows, priors: Any = None) -> Any:
        """Refused: draws are of all values of f."""
        raise DataError(
            "a LatentGP by Inducing() is Laplace's approximation; for draws condition a LatentGP on fewer rows"
        )

    # -- predictions -----------------------------------------------------------------------------------------

    def function_at(self, rows: Array, joint: bool = False) -> FunctionValues:
        """The function at checked rows, a few at a time."""
        if not isinstance(self.solved, FeaturePosterior):
            return super().function_at(rows, joint)
        root, solved = self._root(), self.solved
        parts = []
        for part in in_chunks(len(rows), len(self.points)):
            x = rows[part]
            a = self._features(root, x)
            left = self.prior.kernel.variance_at(x) - (a * a).sum(1)
            known = solve_lower(solved.root, a.T)
            parts.append((self.mean.at(x) + a @ solved.mean, np.maximum(left, 0.0) + (known * known).sum(0)))
        return FunctionValues(*joined(parts), self._covariance(rows, rows) if joint else None)

    def _covariance(self, x: Array, z: Array) -> Float[Array, "m q"]:
        k = self.prior.kernel.between(x, z)
        if not isinstance(self.solved, FeaturePosterior):
            return k
        root = self._root()
        a, b = (self._features(root, v) for v in (x, z))
        known = [solve_lower(self.solved.root, v.T) for v in (a, b)]
        return k - a @ b.T + known[0].T @ known[1]

    def leave_one_out(self, *data: Any, **options: Any) -> Predictive:
        """The prediction of each row from all others, by its cavity in Laplace's approximation."""
        if data:
            return self.condition(*data, **options).leave_one_out()
        rows, solved = self.conditioned()
        parts = []
        for a, center, y in self._chunks(rows):
            eta, known = center + a @ solved.mean, solve_lower(solved.root, a.T)
            variance = (known * known).sum(0)
            _, slope, bend, _ = self.likelihood.eta_derivatives(eta, y)
            share = 1.0 - variance * np.maximum(-bend, 0.0)
            parts.append((eta - variance * slope / share, variance / share))
        return self._of(*joined(parts))


def learn_latent(belief: InducingLatentGP, rows: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
    """Lengthscales by neighbours on the working response, the amplitude by Laplace's evidence, the rest by few rows."""
    from credo.models.gp.large.neighbours import Neighbours
    from credo.models.gp.latent_evidence import LatentEvidence

    few = rows.at_most(FIRST_ROWS, seed)
    learned = LatentEvidence().learn(belief.plain(), few, fixed, priors, seed)
    first, notes = belief.like(learned.belief), list(learned.notes)
    if rows.n > FIRST_ROWS and not any(path.startswith("kernel") for path in fixed):
        working, regression = first._working(rows)[1], Neighbours()
        form = regression.form(GP(first.kernel, first.mean)).in_units(working)
        kernel = regression.learn(form, working, fixed, {}, seed).belief.kernel
        # A regression shrinks the function: its lengthscales are kept, not its amplitude.
        some = rows.at_most(AMPLITUDE_ROWS, seed)
        kernel = kernel.scaled(first.kernel.variance_at(some.x).mean() / kernel.variance_at(some.x).mean())
        tried = [changed(first, kernel=kernel.scaled(factor)) for factor in AMPLITUDES]
        points = tried[0].placed(some).points
        heights = [float(changed(each, points=points).posterior(some).log_evidence) for each in tried]
        first = tried[int(np.argmax(heights))]
        notes += [f"lengthscales given neighbours of all rows, the amplitude by Laplace's evidence of {some.n:,} rows"]
    if rows.n > FIRST_ROWS:
        notes += [f"the mean and the likelihood's own numbers from {few.n:,} rows"]
    return learned._replace(belief=first, conditioned=None, notes=notes)
