"""A Gaussian process behind a likelihood for many rows: Laplace's method on the features of m inducing points.

    f(x) ≈ m(x) + a(x)ᵀw,    a(x) = L⁻¹ k(U, x),   LLᵀ = k(U, U),   w ~ N(0, I)

The log likelihood is a sum over rows, so Newton's steps to the mode of w are passes over chunks of them: O(nm²) work
and, beside the rows, O(m²) memory. What the points do not determine of f, k - aᵀa, is added to the variance of a
prediction.
All is learned from a thousand rows; then lengthscales, where there are several, are those of a regression on the
working response given nearest neighbours (`vecchia.py`), and lengthscales and amplitude are multiplied by what makes
rows that are left out of many most probable.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
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
from credo.models.gp.latent_base import BehindLikelihood
from credo.models.likelihoods.numbers import Counts

P = TypeVar("P", bound="ThroughPoints")

FIRST_ROWS, MANY_ROWS, JUDGES = 1000, 10_000, 4000
"""Rows that all is learned from first, rows that the kernel is then stretched for, and of those the ones left out."""
STEP, STEPS, GAIN = 2.0**0.5, 8, 1e-4
"""By what lengthscales, and standard deviations, are multiplied, how often, and the nats a row that each must gain."""
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


class ThroughPoints(BehindLikelihood):
    """Functions behind a likelihood, seen through their values at m points. Make it with `using=Inducing(m)`."""

    points: Any
    """U, chosen from the first rows that it is conditioned on."""
    form: Any = eqx.field(static=True)
    """The `Inducing` that chooses them."""

    def _through(self, latent: BehindLikelihood, form: Any) -> None:
        """The prior of a `LatentGP`, and nothing seen."""
        self.likelihood, self.kernel, self.mean = latent.likelihood, latent.kernel, latent.mean
        self.inputs, self.unit, self.standardizes = latent.inputs, latent.unit, latent.standardizes
        self.form, self.points, self.seen, self.solved = form, None, None, None

    @abstractmethod
    def posterior(self, rows: Rows, known: Any = None) -> Any:
        """The weights after all rows; `known` are those before the last of them."""

    @abstractmethod
    def left_out(self, rows: Rows) -> Predictive:
        """The prediction of each of these rows, which were seen, from all others."""

    def condition_on(self: P, statistics: Rows) -> P:
        """The posterior after all rows, seen and new."""
        rows = self.with_seen(statistics)
        own = self.placed(rows)
        return changed(own, seen=rows, solved=own.posterior(rows, self.solved))

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p of the outcomes by the model of features; after data, the difference."""
        after = self.condition_on(statistics).solved.log_evidence
        return after - (0.0 if self.solved is None else self.solved.log_evidence)

    def leave_one_out(self, *data: Any, **options: Any) -> Predictive:
        """The prediction of each row from all others; of several classes exactly, else by its cavity."""
        if data:
            return self.condition(*data, **options).leave_one_out()
        return self.left_out(self.conditioned()[0])

    def by(self, method: object) -> None:
        """No other form."""
        return

    def choose(self, statistics: Rows) -> None:
        """It is chosen."""
        return

    def learner(self, priors: Any) -> Any:
        """Its form."""
        return self.form

    def placed(self: P, rows: Rows) -> P:
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

    def target(self, statistics: Rows, priors: Any = None) -> Any:
        """Refused: draws are of all values of f."""
        raise DataError("a LatentGP by Inducing() is an approximation; for draws condition a LatentGP on fewer rows")


class InducingLatentGP(ThroughPoints, LatentGP):
    """A `LatentGP` that sees rows through its values at m points. Make it with `using=Inducing(m)`."""

    def __init__(self, latent: LatentGP, form: Any):
        self._through(latent, form)
        self.method = "laplace"

    def plain(self) -> LatentGP:
        """The same prior as a `LatentGP` of all rows."""
        plain = LatentGP(self.likelihood, self.kernel, self.mean)
        return changed(plain, inputs=self.inputs, unit=self.unit, standardizes=self.standardizes, method="laplace")

    def like(self, latent: LatentGP) -> "InducingLatentGP":
        """The same approximation of another prior."""
        return changed(self, likelihood=latent.likelihood, kernel=latent.kernel, mean=latent.mean)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Rows) -> "InducingLatentGP":
        """Laplace's approximation after all rows, from the mode of those seen; of zeros alone there is no mode."""
        if isinstance(self.likelihood, Counts) and not np.any(self.with_seen(statistics).y):
            raise DataError("y is 0 in all rows: how low the rate is they do not say; add rows with counts")
        return super().condition_on(statistics)

    def posterior(self, rows: Rows, known: FeaturePosterior | None = None) -> FeaturePosterior:
        """The mode of w by Newton's method, halved steps where a whole one loses, and the curvature there."""
        m = len(self.points)
        held = list(self._chunks(rows)) if rows.n * m <= HELD else None
        w = np.zeros(m) if known is None else np.asarray(known.mean)
        best, height, gradient, bend = w, -np.inf, np.zeros(m), np.eye(m)
        with blas_threads(rows.n), np.errstate(all="ignore"):
            for _ in range(MAX_STEPS):
                found, slope, more = float(-0.5 * w @ w), -w, np.eye(m)
                for a, center, y in held or self._chunks(rows):
                    value, first, second, _ = self.likelihood.eta_derivatives(center + a @ w, y)
                    half = a * np.sqrt(np.maximum(-second, 0.0))[:, None]
                    found, slope, more = found + float(value.sum()), slope + a.T @ first, more + half.T @ half
                if not found >= height:  # also where a step was so long that it is not finite
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

    def left_out(self, rows: Rows) -> Predictive:
        """The prediction of each of these rows, which were seen, from all others, by its cavity."""
        solved, x = self.solved, rows.cut()[0]
        parts = []
        for a, center, y in self._chunks(rows):
            eta, known = center + a @ solved.mean, solve_lower(solved.root, a.T)
            variance = (known * known).sum(0)
            _, slope, bend, _ = self.likelihood.eta_derivatives(eta, y)
            share = 1.0 - variance * np.maximum(-bend, 0.0)
            parts.append((eta - variance * slope / share, variance / share - (a * a).sum(1)))
        mean, variance = joined(parts)
        return self._of(mean, np.maximum(variance + self.prior.kernel.variance_at(x), 0.0))


def learn_latent(belief: InducingLatentGP, rows: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
    """All from few rows; then several lengthscales by neighbours on the working response, and the kernel stretched."""
    from credo.models.gp.large.neighbours import Neighbours
    from credo.models.gp.latent_evidence import LatentEvidence

    few = rows.at_most(FIRST_ROWS, seed)
    learned = LatentEvidence().learn(belief.plain(), few, fixed, priors, seed)
    best, notes = belief.like(learned.belief), list(learned.notes)
    free = not any(path.startswith("kernel") for path in fixed)
    if free and rows.n > FIRST_ROWS and len(params.to_vector(best.kernel, params.layout(best.kernel))) > 2:
        working, regression = best._working(rows)[1], Neighbours()
        form = regression.form(GP(best.kernel, best.mean)).in_units(working)
        kernel = regression.learn(form, working, fixed, {}, seed).belief.kernel
        # A regression shrinks the function: its lengthscales are kept, not its amplitude.
        x = few.cut()[0]
        best = changed(best, kernel=kernel.scaled(best.kernel.variance_at(x).mean() / kernel.variance_at(x).mean()))
        notes += ["lengthscales given neighbours of all rows"]
    return after_all(learned._replace(notes=notes), best, rows, fixed, seed)


def _stretched(belief: P, rows: Rows, fixed: Sequence[str], seed: int) -> tuple[P, list[str]]:
    """The belief with all lengthscales, then the amplitude, multiplied until rows left out are not more probable.

    With few points a rough function is better taken for a smoother one: what the points leave open is doubt.
    """
    if rows.n <= FIRST_ROWS or any(path.startswith("kernel") for path in fixed):
        return belief, []
    some = rows.at_most(MANY_ROWS, seed)

    def longer(each: P, factor: float) -> P:
        lengths = {p: v for p, v in params.learnable(each).items() if p.rpartition(".")[2] == "lengthscale"}
        return params.replace(each, {path: factor * value for path, value in lengths.items()})

    def wider(each: P, factor: float) -> P:
        return changed(each, kernel=each.kernel.scaled(factor**2))

    best = belief.placed(some)
    top = height_of(best, some, seed)
    for change in (longer, wider, longer):
        for factor in (STEP, 1 / STEP):
            before = top
            for _ in range(STEPS):
                other = change(best, factor)
                height = height_of(other, some, seed)
                if not height > top + GAIN:
                    break
                best, top = other, height
            if top > before:
                break
    said = f"lengthscales and amplitude by leaving {min(some.n, JUDGES):,} rows out of {some.n:,}"
    return changed(best, points=None), [said, f"the rest from {FIRST_ROWS:,} rows"]


def height_of(belief: Any, some: Rows, seed: int) -> float:
    """The mean log density of rows, each left out."""
    judges = some.at_most(JUDGES, seed)
    found = changed(belief, solved=belief.posterior(some)).left_out(judges)
    return float(np.mean(found.log_prob(judges.y)))


def after_all(learned: Learned, belief: ThroughPoints, rows: Rows, fixed: Sequence[str], seed: int) -> Learned:
    """What was learned from few rows, stretched, as a belief after all of them, and their evidence."""
    belief, more = _stretched(belief, rows, fixed, seed)
    after = belief.condition_on(rows)
    evidence = float(after.solved.log_evidence)
    return learned._replace(belief=belief, conditioned=after, log_evidence=evidence, notes=learned.notes + more)
