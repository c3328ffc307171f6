"""What is hidden of the rows: classes without a label, and entries of columns that covary.

Variational Bayes (the default): given q(θ) a row is of class k with rₖ ∝ exp(E[log πₖ] + E[log p(x | θₖ)]), and q(θ) is
the conjugate posterior of the expected statistics. ML and MAP: expectation maximization. Labels that are known are
never doubted. Nigam et al. (2000), "Text classification from labeled and unlabeled documents using EM"; Bishop (2006),
chapter 10.
"""

import warnings
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, special
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.special import log_rising
from credo.models.densities import Columns, Density, HasPredictive, dirichlet
from credo.models.densities.normal import JOINT, NormalDensity
from credo.models.generative.statistics import PointEstimate, Seen, Statistics
from credo.models.generative.tables import Labelled, softmax

if TYPE_CHECKING:
    from credo.models.generative.belief import Generative

STEPS = 1000
TOLERANCE = 1e-8
"""The rows have settled where no statistic moves by more than this share of its largest."""


def fills_gaps_by_itself(density: Density) -> bool:
    """Whether single missing entries need no iteration: where columns are independent given the class."""
    if isinstance(density, Columns):
        return all(fills_gaps_by_itself(part) for part in density.parts)
    return not (isinstance(density, NormalDensity) and density.structure in JOINT and (density.columns or 1) > 1)


def completed(data: Labelled) -> Labelled:
    """The rows, marked as complete where they are."""
    seen = np.asarray(data.rows.seen)
    whole = bool(np.all(seen.all(1) | ~seen.any(1)))
    return Labelled(data.rows._replace(complete=whole), data.codes)


def variational(belief: "Generative", seen: Seen, rest: Labelled) -> Seen:
    """The sums with the expected statistics of the rows of which something is hidden."""
    density: Any = belief.density
    _check_labels(seen, rest)
    alpha = belief._alpha
    guess = rest.cut(rest.codes >= 0)
    total = seen + _expected(density, density.variational_posterior(seen.sums), guess, guess.weight(len(alpha)))
    for _ in range(STEPS):
        q = density.variational_posterior(total.sums)
        logs = dirichlet.expected_log(alpha + total.counts) + density.expected_log_prob(q, rest.rows)
        new = seen + _expected(density, q, rest, _shares(rest, logs))
        moved, total = _moved(total, new), new
        if moved < TOLERANCE:
            return total
    _give_up(moved)
    return total


def evidence_bound(belief: "Generative", statistics: Statistics) -> Float[Array, ""]:
    """A lower bound of log p(X, the labels that are known), tight where the hidden ones are certain.

    With the expected statistics of the rows in place of known ones it is their evidence, and the entropy of the
    responsibilities. Bishop (2006), section 10.2.2.
    """
    density: Any = belief.density
    rest = statistics.rest
    assert rest is not None
    gaps = np.asarray(rest.rows.seen.any(1) & ~rest.rows.seen.all(1))
    if gaps.any() and not fills_gaps_by_itself(density):
        raise DataError(
            "the evidence has no closed form where entries of columns that covary are missing; leave those rows out, "
            "or use columns that are independent given the class (NaiveBayes)"
        )
    before, total = belief._with(None), variational(belief, belief._with(statistics.seen), rest)
    q = [density.variational_posterior(each.sums) for each in (before, total)]
    alpha, new = belief._alpha + before.counts, total.counts - before.counts
    logs = dirichlet.expected_log(belief._alpha + total.counts) + density.expected_log_prob(q[1], rest.rows)
    share = _shares(rest, logs)
    shares = log_rising(alpha, new).sum() - log_rising(alpha.sum(), new.sum())
    base = total.log_base - before.log_base
    return shares + density.log_marginal(*q) + base - special(share).xlogy(share, share).sum()


def maximized(belief: "Generative", seen: Seen | None, rest: Labelled | None, likelihood: bool) -> PointEstimate:
    """EM: the mode of the parameters, or their maximum likelihood; one step where nothing is hidden."""
    density: Any = belief.density
    k, alpha = len(belief._classes), belief._alpha

    def shares(counts: Array) -> Array:
        raised = counts if likelihood else np.maximum(counts + alpha - 1, 0.0)
        return raised / raised.sum() if raised.sum() > 0 else np.full(k, 1 / k)

    if seen is not None:
        present = density.posterior_mean(density.variational_posterior(seen.sums))
        present = present.without_prior() if likelihood else present
        if rest is None:
            return PointEstimate(shares(seen.counts), present.maximize(seen.sums))
        _check_labels(seen, rest)
        present = present.maximize(seen.sums) if not likelihood else present
    else:
        assert rest is not None
        if not (rest.codes >= 0).any():
            raise DataError("y has no label at all: at least one row of each class must be labelled")
        present = density.without_prior() if likelihood and density.able(HasPredictive) else density
        present = _by_labels(present, rest, k)
    height, now = -np.inf, shares(np.bincount(rest.codes[rest.codes >= 0], minlength=k) + 1.0)
    for _ in range(STEPS):
        with np.errstate(divide="ignore"):
            logs = np.log(now) + np.asarray(present.log_prob(rest.rows))
        weight = _shares(rest, logs)
        counts, sums = weight.sum(0), present.expected_statistics(rest.rows, weight)
        if seen is not None:
            both = Seen(counts, sums, np.zeros(())) + seen
            counts, sums = both.counts, both.sums
        before, height = height, _height(rest, logs)
        now, present = shares(counts), present.maximize(sums)
        if abs(height - before) < TOLERANCE * max(1.0, abs(height)):
            return PointEstimate(now, present)
    _give_up(abs(height - before))
    return PointEstimate(now, present)


def log_likelihood(belief: "Generative", rest: Labelled) -> Float[Array, ""]:
    """log p(x, class | θ̂) of the rows, at the point estimate."""
    if belief.point is None:
        raise DataError(f"{type(belief.density).__name__} has no evidence in closed form; condition on data first")
    return np.asarray(_height(rest, np.asarray(next(belief._log_joints([rest.rows])))))


def check_likelihood(density: Density, counts: Float[Array, " k"], classes: tuple[Any, ...]) -> None:
    """Refuses a maximum of the likelihood that is none: a covariance without an inverse, or a class without rows."""
    if np.any(np.asarray(counts) == 0):
        raise DataError(
            f"class {classes[int(np.argmin(counts))]!r} has no rows: its likelihood has no maximum; use Bayes"
        )
    for part in density.parts if isinstance(density, Columns) else (density,):
        if not isinstance(part, NormalDensity):
            continue
        noise = np.asarray(part._covariances)
        if part.structure in JOINT:
            ranks = np.array([np.linalg.matrix_rank(each, hermitian=True) for each in _scaled(noise)])
            wrong = np.flatnonzero(ranks < noise.shape[-1])
        else:
            wrong = np.flatnonzero(~np.all(noise > 0, axis=1))
        if len(wrong):
            raise DataError(
                f"the likelihood has no maximum: the rows of class {classes[int(wrong[0])]!r} do not vary in every "
                "direction, and their covariance would be singular; leave using= out (Bayes), or use MAP()"
            )


def _scaled(matrices: Float[np.ndarray, "k d d"]) -> Float[np.ndarray, "k d d"]:
    """Correlations: rank must not depend on units."""
    size = np.sqrt(np.einsum("kii->ki", matrices))
    size = np.where(size > 0, size, 1.0)
    return matrices / size[:, :, None] / size[:, None, :]


def _by_labels(density: Any, rest: Labelled, k: int) -> Any:
    """A start that knows the labels: the parameters of the rows that have one."""
    known = rest.cut(rest.codes >= 0)
    for _ in range(3):
        density = density.maximize(density.expected_statistics(known.rows, known.weight(k)))
    return density


def _expected(density: Any, q: Any, data: Labelled, weight: Array) -> Seen:
    sums = density.expected_statistics_under(q, data.rows, weight)
    return Seen(weight.sum(0), sums, np.asarray(density.log_base(data.rows).sum()))


def _shares(data: Labelled, logs: Float[Array, "n k"]) -> Float[np.ndarray, "n k"]:
    """Responsibilities; a label that is known is certain."""
    known = data.weight(logs.shape[1])
    return np.where(data.codes[:, None] < 0, softmax(np.asarray(logs))[0], known)


def _height(data: Labelled, logs: Float[np.ndarray, "n k"]) -> float:
    labelled = data.codes >= 0
    mine = logs[np.flatnonzero(labelled), data.codes[labelled]]
    return float(mine.sum() + special(logs).logsumexp(logs[~labelled], axis=1).sum())


def _moved(old: Any, new: Any) -> float:
    pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    return max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-300)) for a, b in pairs if np.size(a))


def _check_labels(seen: Seen, rest: Labelled) -> None:
    counts = np.asarray(seen.counts) + np.bincount(rest.codes[rest.codes >= 0], minlength=len(seen.counts))
    if not counts.sum() > 0:
        raise DataError("y has no label at all: at least one row of each class must be labelled")


def _give_up(moved: float) -> None:
    warnings.warn(
        f"the hidden labels and entries did not settle in {STEPS} steps (the last moved by {moved:.2g}); look at the "
        "rows, or leave out those without a label",
        NotConvergedWarning,
        stacklevel=6,
    )
