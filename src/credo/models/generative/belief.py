"""`Generative`: a density for each class and a Dirichlet law over classes, p(x, class) = p(x | class) p(class).

    P(class k | x) ∝ (αₖ + nₖ) ∫ p(x | θₖ) p(θₖ | rows of class k) dθₖ

Statistics of the rows add, so data may come in chunks, and may be taken back (`forget`). Because p(x) is known the
belief can say how surprising an input is (`novelty`), draw new rows, leave out what is missing, and learn from rows
without a label. Murphy (2012), sections 3.5 and 4.2; Bishop (2006), section 4.2.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core.abilities import DrawsMeans, HasPointEstimates, SeesNovelty, in_blocks
from credo.core.arrays import Array, as_float, host, is_traced, namespace
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, as_numpy, check_count, check_table, input_names
from credo.core.errors import DataError, NoveltyWarning
from credo.core.params import constant
from credo.core.predictive import Bernoulli, Categorical
from credo.core.predictive.classes import entropy_of, of_classes
from credo.core.pytrees import changed, plain_methods
from credo.core.special import gamma_quantile, log_rising
from credo.core.text import counted
from credo.infer.learning import Learned
from credo.infer.method import Learner
from credo.infer.optimize import CONVERGED
from credo.models.densities import Density, Gaussian, HasPredictive, HasStatistics, Observed
from credo.models.densities.base import require
from credo.models.generative import hidden, novelty, tables
from credo.models.generative.statistics import PointEstimate, Seen, Statistics
from credo.models.generative.tables import Categories, Labelled, softmax
from credo.models.likelihoods.classes import Label, shown

G = TypeVar("G", bound="Generative")

ROWS = 20_000
"""So many rows at a time: what is computed of them stays in the cache."""
ENTRIES = 4_000_000
"""Fewer where there are many classes: rows times classes."""
DRAWS = 32
"""Draws of the parameters by which doubt is split into noise and ignorance; fewer for queries beyond `ROWS`."""
LOOK = 50_000
"""Weak priors come from so many rows."""
NOVEL = 1e-5
"""Inputs that are more surprising than all but so few of the model's own are warned of."""


class Sample(NamedTuple):
    """Rows that were drawn, and their classes."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class _ByConditioning(Learner):
    """No search: the belief is conditioned, which is all that `fit` does."""

    def learn(self, belief: Any, statistics: Any, fixed: Sequence[str], priors: Any, seed: int) -> Learned:
        """The belief after the data."""
        notes = ["the parameters are those of the highest posterior density, by EM"]
        return Learned(belief, CONVERGED, float("nan"), [], {}, notes, belief.condition_on(statistics))


class Generative(Belief, HasPointEstimates, DrawsMeans, SeesNovelty):
    """Classes that are told apart by what their rows look like.

    Args:
        density: of the rows of a class, any of `credo.models.densities`; `Columns` for columns of different kinds.
        classes: their labels, in order; None to find them in the first data.
        concentration: of the Dirichlet law of the shares of the classes: one number, or one for each class.

    Weak priors of the parameters are taken from the data that are seen first, where none were given. The evidence is
    that of rows and classes together, log p(X, y). With `missing=True` NaN (or None) in X is an entry that was not
    observed, which is integrated out, and in y a row without a label, which counts for each class as far as it is
    likely to be of it (expectation maximization; variational Bayes by default).
    """

    from_data: ClassVar[tuple[str, ...]] = ("seen", "rows", "point")

    density: Density
    classes: tuple[Label, ...] | None = eqx.field(static=True)
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    categories: Categories | None = eqx.field(static=True)
    seen: Seen | None
    rows: Labelled | None
    """The rows themselves, kept for densities that are learned by going through them again."""
    point: PointEstimate | None
    concentration: Float[Array, "..."] = constant()

    __getattribute__ = plain_methods

    def __init__(self, density: object, classes: Sequence[Label] | None = None, *, concentration: ArrayLike = 1.0):
        if not isinstance(density, Density):
            raise DataError(f"density must be one of credo.models.densities, found {type(density).__name__}")
        self.density, self.classes = density, None if classes is None else tuple(classes)
        if self.classes is not None and (not self.classes or len(set(self.classes)) < len(self.classes)):
            raise DataError(f"classes must be at least one label, each named once, found {classes!r}")
        self.concentration = as_float(concentration, "concentration")
        k = None if self.classes is None else len(self.classes)
        if self.concentration.ndim > 1 or (self.concentration.ndim and self.concentration.shape[0] != k):
            raise DataError("concentration must be one number, or one for each class of classes=(…)")
        if not is_traced(self.concentration) and not np.all((self.concentration > 0) & np.isfinite(self.concentration)):
            raise DataError(f"concentration must be positive, found {concentration!r}")
        self.inputs = self.categories = self.seen = self.rows = self.point = None

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.classes is None:
            return f"{name}({self._description}; before any data)"
        rows = self.counts.sum() if not is_traced(self.counts) else 0
        return f"{name}({self._description}; classes {shown(self.classes)}; {counted(round(float(rows)), 'row')})"

    @property
    def _description(self) -> str:
        return repr(self.density)

    # -- data ------------------------------------------------------------------------------------------------

    def told(self: G, *data: Any, missing: bool = True) -> G:
        """The belief that knows its columns, its classes and a weak prior, from the data seen first."""
        if self.is_ready or (len(data) == 2 and is_traced(data)):
            return self
        x, y = tables.first_chunk(data)
        classes = tables.labels_of(y, missing=True) if self.classes is None else self.classes
        x, y = tables.thinned(x, y, self._looks)
        known = self._with_columns(x)
        rows = known._read(x, missing=True)
        known = changed(known, classes=classes)
        codes = tables.read_labels(y, classes, len(rows.x), missing=True)
        return known._adapted(Labelled(rows, codes))

    @property
    def _looks(self) -> int:
        """So many rows are enough for a weak prior."""
        return LOOK

    @property
    def is_ready(self) -> bool:
        """Whether classes, columns and priors are known."""
        return self.inputs is not None and self.classes is not None

    def _with_columns(self: G, x: ArrayLike) -> G:
        """With the names of the columns; beliefs of categories also find those."""
        check_table(np.zeros(as_numpy(x, "X").shape), "X")
        return changed(self, inputs=tuple(input_names(x)))

    def _adapted(self: G, data: Labelled) -> G:
        """With a density of the right size, and its weak prior."""
        k, d = len(self._classes), data.rows.x.shape[1]
        density = self.density.resized(k, d)
        density.check(data.rows)
        if density.able(HasPredictive):
            return changed(self, density=density.with_prior(data.rows))  # type: ignore[attr-defined]
        require(density, HasStatistics)
        return changed(self, density=density.adapt(data.rows))

    def statistics(self, *data: Any, missing: bool = False) -> Statistics:
        """The sums of X and y, or of an iterable of (X, y) chunks; rows with something hidden are kept as they are."""
        told = self if self.is_ready else self.told(*data)
        seen: Seen | None = None
        rest: Labelled | None = None
        for x, y, of in tables.every_chunk(data):
            rows = told._read(x, missing, f"X{of}", shows=True)
            told.density.check(rows)
            labelled = Labelled(rows, tables.read_labels(y, told._classes, len(rows.x), missing, of))
            known, kept = told._split(labelled)
            if kept is not None:
                rest = kept if rest is None else rest + kept
            for block in () if known is None else told._blocks(known):
                part = told._summed(block)
                seen = part if seen is None else seen + part
            if not is_traced(seen) and not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(seen)):
                told._read(x, missing, f"X{of}")  # says which entry it is
                raise DataError(f"X{of} has sums that are no numbers; use larger units")
        return Statistics(seen, rest)

    def _read(self, x: ArrayLike, missing: bool, name: str = "X", shows: bool = False) -> Observed:
        # A density that is learned row by row, or looks for whole numbers, needs numbers in the first place.
        shows = shows and isinstance(self.density, Gaussian)
        return tables.read_table(x, self.inputs, self.categories, missing, name, shows)

    def _split(self, data: Labelled) -> tuple[Labelled | None, Labelled | None]:
        """What can be summed at once, and what cannot: rows without a class, or with gaps that need the others."""
        if is_traced(data):
            return data, None
        if not self.density.able(HasPredictive):
            return None, data
        hide = np.asarray(data.codes) < 0
        if not data.rows.complete and not hidden.fills_gaps_by_itself(self.density):
            seen = np.asarray(data.rows.seen)
            hide = hide | (seen.any(1) & ~seen.all(1))
        if not hide.any():
            return data, None
        if hide.all():
            return None, data
        return hidden.completed(data.cut(~hide)), data.cut(hide)

    def _blocks(self, data: Labelled) -> Iterator[Labelled]:
        if is_traced(data):
            yield data
            return
        n = len(data.codes)
        step = max(256, min(ROWS, ENTRIES // len(self._classes)))
        for start in range(0, n, step):
            yield data if n <= step else data.cut(slice(start, start + step))

    def _summed(self, data: Labelled) -> Seen:
        weight = data.weight(len(self._classes))
        density: Any = self.density
        counts = np.ones(len(data.codes)) @ weight
        return Seen(counts, density.expected_statistics(data.rows, weight), as_float(density.log_base(data.rows).sum()))

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition(self, *data: Any, using: object = None, **options: Any) -> Any:
        """The belief after more rows: X and y, or an iterable of (X, y) chunks, which may be a generator."""
        return super().condition(*_peeked(data), using=using, **options)

    def log_evidence(self, *data: Any, **options: Any) -> Array:
        """log p(X, y | belief), of rows and classes together."""
        data = _peeked(data)
        told = self.told(*data)
        return as_float(host(told.evidence_of(told.statistics(*data, **options))))

    def condition_on(self: G, statistics: Statistics) -> G:
        """Counts and statistics add; what is hidden is averaged over (`hidden`)."""
        if not self.density.able(HasPredictive):
            return self._by_em(statistics)
        seen = self._with(statistics.seen)
        if statistics.rest is not None:
            seen = hidden.variational(self, seen, statistics.rest)
        return changed(self, seen=seen, point=None)

    def _with(self, seen: Seen | None) -> Seen:
        """Everything summed so far, and this."""
        parts = [each for each in (self.seen, seen) if each is not None]
        if not parts:
            return self._nothing
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @property
    def _nothing(self) -> Seen:
        """The statistics of no rows."""
        d = self.density.sizes[1]
        return self._summed(Labelled(Observed(np.zeros((1, d)), np.ones((1, d), bool), None, True), np.full(1, -1)))

    def _by_em(self: G, statistics: Statistics, likelihood: bool = False) -> G:
        """The mode of the parameters, for densities whose predictions have no closed form."""
        rest = statistics.rest if self.rows is None else self.rows + statistics.rest
        assert rest is not None
        return changed(self, rows=rest, point=hidden.maximized(self, None, rest, likelihood))

    def evidence_of(self, statistics: Statistics) -> Float[Array, ""]:
        """log ∫ p(X, y | θ) p(θ) dθ, of shares and densities; a lower bound where labels are hidden."""
        if statistics.rest is not None:
            if not self.density.able(HasPredictive):
                return hidden.log_likelihood(self, statistics.rest)
            return hidden.evidence_bound(self, statistics)
        new = statistics.seen
        assert new is not None
        before, after = self._with(None), self._with(new)
        alpha = self._alpha + before.counts
        shares = log_rising(alpha, new.counts).sum() - log_rising(alpha.sum(), new.counts.sum())
        density: Any = self.density
        q = [density.variational_posterior(each.sums) for each in (before, after)]
        return shares + density.log_marginal(*q) + new.log_base

    def log_evidence_of(self, statistics: Statistics) -> Float[Array, ""]:
        """`evidence_of`, of which nothing is compiled; NaN in the report of `fit` where it has no closed form."""
        rest = statistics.rest
        gaps = rest is not None and not rest.rows.complete and not hidden.fills_gaps_by_itself(self.density)
        if self.point is None and rest is not None and (gaps or not self.density.able(HasPredictive)):
            return np.asarray(np.nan)
        return as_float(host(self.evidence_of(statistics)))

    def learner(self, priors: Mapping[str, object]) -> Learner:
        """What there is to learn is learned by Bayes' rule, or by EM."""
        return _ByConditioning()

    def forget(self: G, *data: Any, missing: bool = False) -> G:
        """The belief as if it had never seen these rows: their statistics are subtracted."""
        if self.seen is None:
            raise DataError("there is nothing to forget: the belief keeps no sums of rows")
        statistics = self.statistics(*_peeked(data), missing=missing)
        if statistics.rest is not None or statistics.seen is None:
            raise DataError("rows with hidden labels or entries cannot be taken back: what they added is not known")
        left = self.seen - statistics.seen
        if np.any(np.asarray(left.counts) < -1e-9 * np.asarray(self.seen.counts)):
            which = int(np.argmin(left.counts))
            raise DataError(
                f"cannot forget {int(statistics.seen.counts[which])} rows of class {self._classes[which]!r}: "
                f"{int(self.seen.counts[which])} were seen"
            )
        return changed(self, seen=left, point=None)

    # -- point estimates ----------------------------------------------------------------------------------------

    def maximum_likelihood(self: G, *data: Any, **options: Any) -> G:
        """argmax p(X, y | θ)."""
        return self._estimated("ML", data, options)

    def maximum_a_posteriori(self: G, *data: Any, **options: Any) -> G:
        """argmax p(X, y | θ) p(θ)."""
        return self._estimated("MAP", data, options)

    def plug_in(self: G, *data: Any, **options: Any) -> G:
        """E[θ | X, y], as if it were known."""
        return self._estimated("PlugIn", data, options)

    def _estimated(self: G, how: str, data: tuple[Any, ...], options: dict[str, Any]) -> G:
        told = self.told(*data)
        statistics = told.statistics(*data, **options)
        if not told.density.able(HasPredictive):
            if how == "PlugIn":
                raise DataError(f"{type(told.density).__name__} has no posterior mean; use MAP() or ML()")
            return told._by_em(statistics, likelihood=how == "ML")
        if how == "PlugIn":
            after = told.condition_on(statistics)
            return changed(after, point=PointEstimate(after.shares, after._posterior_mean))
        seen = told._with(statistics.seen)
        point = hidden.maximized(told, seen, statistics.rest, how == "ML")
        if how == "ML":
            hidden.check_likelihood(point.density, seen.counts, told._classes)
        return changed(told, seen=seen, point=point)

    # -- what is believed --------------------------------------------------------------------------------------

    @property
    def _classes(self) -> tuple[Label, ...]:
        if self.classes is None:
            raise DataError("the classes are not known yet; condition on data first, or give classes=(…)")
        return self.classes

    @property
    def _alpha(self) -> Float[Array, " k"]:
        return namespace(self.concentration).broadcast_to(self.concentration, (len(self._classes),))

    @property
    def counts(self) -> Float[Array, " k"]:
        """How many rows of each class were seen; shares of a row count where its label was hidden."""
        if self.rows is not None:
            return np.bincount(self.rows.codes[self.rows.codes >= 0], minlength=len(self._classes)).astype(float)
        return np.zeros(len(self._classes)) if self.seen is None else self.seen.counts

    @property
    def shares(self) -> Float[Array, " k"]:
        """What share of the next rows is expected to be of each class."""
        if self.point is not None:
            return self.point.shares
        alpha = self._alpha + self.counts
        return alpha / alpha.sum()

    @property
    def law(self) -> Any:
        """What is believed of the parameters of the density: the conjugate posterior."""
        self._check_ready()
        return require(self.density, HasPredictive).variational_posterior(self._with(None).sums)

    @property
    def _posterior_mean(self) -> Density:
        density: Any = self.density
        return density.posterior_mean(self.law)

    @property
    def estimate(self) -> Density:
        """The density at a single guess of its parameters: that of `using=ML()` …, or the posterior mean."""
        return self._posterior_mean if self.point is None else self.point.density

    def _check_ready(self) -> None:
        if not self.is_ready:
            raise DataError(f"this {type(self).__name__} knows nothing yet; condition it on X and y first")

    # -- questions ------------------------------------------------------------------------------------------------

    def predict(
        self, x: ArrayLike, *, missing: bool = False, draws: int | None = None, warn: bool = True
    ) -> Bernoulli | Categorical:
        """P(class | x); its doubt is split by the mutual information of class and parameters, given x.

        Args:
            x: rows; with `missing=True` NaN is an entry that was not observed.
            draws: of the parameters, by which doubt is split; 0 takes all of it for noise. None is 32, and fewer where
                the rows are more than 20,000.
            warn: whether to say so where an input is like nothing seen.
        """
        rows = self._queries(x, missing)
        if draws is not None:
            check_count(draws, "draws", 0)
        certain = self.point is not None or draws == 0
        many = 0 if certain else min(DRAWS, max(4, DRAWS * ROWS // max(len(rows.x), 1))) if draws is None else draws
        several = self._several(many) if many else None
        blocks = list(_cuts(rows, self._width(many)))
        logs = self._log_joints(blocks)
        probs, ignorance, density = _stacked(_answers(*each, several) for each in zip(blocks, logs, strict=True))
        if warn and not is_traced(density):
            self._warn(rows, density)
        entropy = entropy_of(probs)
        return of_classes(probs, namespace(probs).clip(entropy - ignorance, 0.0, entropy))

    def mean_draws(self, x: ArrayLike, n: int = 1000, *, joint: bool = True, seed: int = 0) -> np.ndarray:
        """See `DrawsMeans`: class probabilities at draws of the shares and the parameters."""

        def drawn(groups: np.ndarray) -> np.ndarray:
            rows = self._queries(groups.reshape(-1, groups.shape[-1]), False)
            if self.point is not None:
                (logs,) = self._log_joints([rows])
                each: Array = np.broadcast_to(softmax(logs)[0], (n, *logs.shape))
            else:
                shares, densities = self._several(n, seed)
                logs = densities.log_prob(rows).reshape(len(rows.x), *shares.shape) + np.log(shares)
                each = softmax(logs)[0].swapaxes(0, 1)
            found = each.reshape(n, *groups.shape[:2], -1).mean(axis=2)
            return np.asarray(found[..., 1] if found.shape[-1] == 2 else found)

        return in_blocks(x, joint, drawn)

    def log_density(self, x: ArrayLike, *, missing: bool = False) -> Float[Array, " n"]:
        """log p(x) = log Σₖ P(class k) p(x | class k), of the entries that were seen."""
        return self._log_density(self._queries(x, missing))

    def novelty(self, x: ArrayLike, *, missing: bool = False) -> Float[np.ndarray, " n"]:
        """P(log p(X) ≤ log p(x)) for rows X of the model's own: small for an input like nothing seen.

        Uniform on rows from the model; by simulation with a fixed seed, and beyond its reach by the tail's rate.
        """
        rows = self._queries(x, missing)
        return novelty.tail_probabilities(self._simulated, self._log_density, rows, self._log_density(rows))

    def sample(self, n: int = 1, *, seed: int = 0) -> Sample:
        """New rows with their classes, each with parameters of its own from what is believed of them."""
        check_count(n, "n")
        self._check_ready()
        which, table = self._simulated(int(n), seed)
        labels = np.array(self._classes, dtype=object if len({type(c) for c in self._classes}) > 1 else None)
        return Sample(tables.decoded(table, self.categories), labels[which])

    def _queries(self, x: ArrayLike, missing: bool) -> Observed:
        self._check_ready()
        rows = self._read(x, missing)
        if not is_traced(rows):
            self.density.check(rows)
        return rows

    def _log_joints(self, blocks: Iterable[Observed]) -> Iterator[Float[Array, "n k"]]:
        """log P(class) p(x | class) of the rows of each block."""
        with np.errstate(divide="ignore"):
            shares = namespace(self.shares).log(self.shares)
        law = None if self.point is not None else self.law
        density: Any = self.density if self.point is None else self.point.density
        for rows in blocks:
            yield shares + (density.log_prob(rows) if law is None else density.log_predictive(law, rows))

    def _log_density(self, rows: Observed) -> Float[Array, " n"]:
        parts = [softmax(each)[1] for each in self._log_joints(_cuts(rows, self._width(0)))]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _width(self, draws: int) -> int:
        """How many rows at once."""
        return max(64, min(ROWS, ENTRIES // (len(self._classes) * max(draws, 1))))

    def _several(self, n: int, seed: int = 0) -> tuple[Float[Array, "n k"], Any]:
        """n draws of the shares and of the parameters."""
        alpha = self._alpha + self.counts
        drawn = gamma_quantile(alpha, np.random.default_rng([seed, n]).random((n, len(self._classes))))
        return drawn / drawn.sum(-1, keepdims=True), require(self.density, HasPredictive).several(self.law, n, seed)

    def _simulated(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions of classes, and rows of them."""
        rng = np.random.default_rng(seed)
        shares = np.asarray(self.shares)
        which = rng.choice(len(shares), size=n, p=shares / shares.sum())
        if self.point is None:
            return which, np.asarray(require(self.density, HasPredictive).sample_predictive(rng, self.law, which))
        key = jax.random.key(int(rng.integers(2**31)))
        return which, np.asarray(self.point.density.sample(key, which))

    def _warn(self, rows: Observed, density: Float[Array, " n"]) -> None:
        """A word where an input is like nothing seen."""
        if self.point is not None or (self.seen is None and self.rows is None):
            return
        surprise = novelty.tail_probabilities(self._simulated, self._log_density, rows, density, novelty.QUICK)
        strange = np.flatnonzero(surprise < NOVEL)
        if len(strange):
            more = f" ({counted(len(strange), 'such row')})" if len(strange) > 1 else ""
            warnings.warn(
                f"row {strange[0]} is like nothing seen (novelty {surprise[strange[0]]:.1g}){more}: its class "
                "probabilities are extrapolation; look at belief.novelty(x), warn=False is silent",
                NoveltyWarning,
                stacklevel=3,
            )


def _answers(rows: Observed, logs: Float[Array, "n k"], several: Any) -> tuple[Array, Array, Array]:
    """P(class | x), the mutual information of class and parameters given x, and log p(x)."""
    probs, density = softmax(logs)
    if several is None:
        return probs, namespace(logs).zeros(len(rows.x)), density
    shares, densities = several
    each = densities.log_prob(rows).reshape(len(rows.x), *shares.shape) + namespace(shares).log(shares)
    # θ is drawn from what is believed before x: x weighs the draws.
    inside, heights = softmax(each)
    weight = softmax(heights)[0]
    mean = (weight[:, :, None] * inside).sum(1)
    return probs, entropy_of(mean) - (weight * entropy_of(inside)).sum(1), density


def _peeked(data: tuple[Any, ...]) -> tuple[Any, ...]:
    """A generator of chunks, whose first can be looked at."""
    return (tables.Peeked(data[0]),) if len(data) == 1 and isinstance(data[0], Iterator) else data


def _cuts(rows: Observed, width: int) -> Iterator[Observed]:
    """The rows, some at a time."""
    n = len(rows.x)
    if is_traced(rows) or n <= width:
        yield rows
        return
    for start in range(0, n, width):
        cut = slice(start, start + width)
        yield Observed(rows.x[cut], rows.seen[cut], None, rows.complete)


def _stacked(parts: Iterator[tuple[Array, ...]]) -> tuple[Array, ...]:
    found = list(parts)
    return found[0] if len(found) == 1 else tuple(np.concatenate(each) for each in zip(*found, strict=True))
