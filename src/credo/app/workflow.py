"""What `credo fit` and `credo predict` do, without a word printed: from a table to a model that can be saved.

    prepare the table ─▶ hold out a test part ─▶ learn each candidate on the rest ─▶ choose by log evidence
    ─▶ score all on the test part, once ─▶ learn the chosen one again on all rows ─▶ TableModel

The test part has no say in the choice.
"""

import time as clock
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import pandas as pd
from jaxtyping import Float

from credo.app import glm_candidates
from credo.app.candidates import SEARCHED, Candidate, candidates, learn_gp, robust_version
from credo.app.glm_candidates import class_candidates, learn_glm
from credo.app.prepare import Prepared, prepare
from credo.app.schema import Encoded, Schema, read_exposure
from credo.app.scoring import score
from credo.app.splits import split
from credo.app.tables import Table
from credo.core.arrays import Array, Numeric
from credo.core.device import blas_threads
from credo.core.errors import CredoError, DataError, NotConvergedWarning
from credo.core.predictive import Predictive
from credo.evaluate.comparison import Comparison, rank
from credo.infer.learning import Evidence, Learned, fit
from credo.infer.optimize import CONVERGED
from credo.models.glm import GLM
from credo.models.gp import GP
from credo.models.linear import ARD, FixedPoint, Linear

ROBUST_WORK = 4e7
Progress = Callable[[int, int, str], None]


class TableModel(eqx.Module):
    """A belief that knows the table it came from: how columns become numbers, and where it has seen data."""

    schema: Schema
    belief: Linear | GP | GLM
    low: Float[Array, " d"]
    high: Float[Array, " d"]
    """The range of each input in the data."""
    name: str = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    scores: tuple[tuple[str, float], ...] = eqx.field(static=True, default=())
    """How the same kind of model did on the test part."""

    @property
    def target(self) -> str:
        """The name of what is predicted."""
        return self.schema.target

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their probabilities; none for numbers and counts."""
        return tuple(map(str, self.belief.classes or ())) if isinstance(self.belief, GLM) else ()

    @property
    def kind(self) -> str:
        """ "number", "classes" or "count"."""
        if not isinstance(self.belief, GLM):
            return "number"
        return "classes" if self.levels else "count"

    def encode(self, table: pd.DataFrame) -> Encoded:
        """The inputs of a new table in numbers."""
        return self.schema.encode(table)

    def predict(self, table: pd.DataFrame) -> Predictive:
        """The prediction for every row of a data frame with the columns of the training table."""
        encoded = self.encode(table)
        if not encoded.complete.all():
            row = int(np.argmin(encoded.complete))
            count = int((~encoded.complete).sum())
            raise DataError(
                f"row {row} has missing inputs ({count} such row{'s' * (count > 1)}); drop or fill them, or use credo "
                "predict, which leaves their predictions empty"
            )
        exposure = None if self.schema.exposure is None else read_exposure(table, self.schema.exposure)
        return self.predict_numbers(encoded.x, exposure)

    def predict_numbers(self, x: pd.DataFrame, exposure: np.ndarray | None = None) -> Predictive:
        """The prediction for inputs in numbers, as `encode` gives them."""
        return predict(self.belief, x, exposure)

    def outside(self, x: Float[np.ndarray, "n d"]) -> np.ndarray:
        """Which entries lie beyond the range of the data: predictions there are extrapolated."""
        slack = 1e-9 * (self.high - self.low)
        return (x < self.low - slack) | (x > self.high + slack)


class Fitted(NamedTuple):
    """A candidate after learning on the training part."""

    name: str
    about: str
    belief: Linear | GP | GLM
    log_evidence: float
    scores: dict[str, float]
    """On the test part."""
    seconds: float
    notes: tuple[str, ...]


class Result(NamedTuple):
    """Everything `credo fit` found out."""

    table: str
    prepared: Prepared
    train: np.ndarray
    test: np.ndarray
    fitted: tuple[Fitted, ...]
    """In the order in which they were tried."""
    comparison: Comparison
    model: TableModel
    """The chosen candidate, learned again on all rows."""
    notes: tuple[str, ...]
    """What happened while learning, in words."""
    seconds: float
    seed: int

    @property
    def chosen(self) -> Fitted:
        """The candidate with the highest evidence, as learned on the training part."""
        return next(each for each in self.fitted if each.name == self.comparison.best)

    @property
    def searched(self) -> GP | None:
        """The belief whose kernel was searched for: on all rows where it was chosen, else on the training part."""
        if self.model.name == SEARCHED and isinstance(self.model.belief, GP):
            return self.model.belief
        return next((e.belief for e in self.fitted if e.name == SEARCHED and isinstance(e.belief, GP)), None)

    @property
    def x_train(self) -> pd.DataFrame:
        """The inputs of the training part."""
        return self.prepared.x.iloc[self.train]

    @property
    def x_test(self) -> pd.DataFrame:
        """The inputs of the test part."""
        return self.prepared.x.iloc[self.test]

    @property
    def y_train(self) -> np.ndarray:
        """The outcomes of the training part."""
        return self.prepared.y[self.train]

    @property
    def y_test(self) -> np.ndarray:
        """The outcomes of the test part."""
        return self.prepared.y[self.test]

    @property
    def kind(self) -> str:
        """What the target is: "number", "classes" or "count"."""
        return self.prepared.kind

    def predict(self, rows: np.ndarray, belief: Linear | GP | GLM | None = None) -> Predictive:
        """The prediction of the chosen candidate, as learned on the training part, or of `belief`, for some rows."""
        exposure = None if self.prepared.exposure is None else self.prepared.exposure[rows]
        return predict(belief or self.chosen.belief, self.prepared.x.iloc[rows], exposure)


def predict(belief: Linear | GP | GLM, x: Numeric, exposure: np.ndarray | None = None) -> Predictive:
    """The prediction of a belief; only counts have an exposure."""
    if isinstance(belief, GLM):
        return belief.predict(x, exposure=exposure)
    return belief.predict(x)


def run(
    table: Table,
    target: str,
    *,
    time: str | None = None,
    ignore: Iterable[str] = (),
    test: float = 0.2,
    seed: int = 0,
    kind: str = "auto",
    exposure: str | None = None,
    progress: Progress | None = None,
) -> Result:
    """Learns from a table what predicts its column `target`; see the module's picture.

    `time` names a column that orders the rows: the last share `test` of them is then the test part, else as many
    at random. `kind` is what the target is, one of `credo.app.outcomes.KINDS`; `exposure` names the column that
    expected counts are in proportion to. `progress(done, total, name)` is called before each step.
    """
    start = clock.perf_counter()
    if not 0 < test < 1:
        raise DataError(f"--test is the share of rows to hold out, between 0 and 1, found {test:g}; write 20 % as 0.2")
    prepared = prepare(table, target, time, ignore, kind, exposure)
    train, held_out = split(prepared, test, seed)
    x, y = prepared.x.iloc[train], prepared.y[train]
    if np.ptp(y) == 0:
        raise DataError(f"the target {target!r} is constant in the {len(y)} training rows: there is nothing to learn")
    say = progress or (lambda done, total, name: None)
    notes: list[str] = []
    rounds, total = _rounds(prepared, x.to_numpy(), y, notes)
    fitted: list[Fitted] = []
    tried: list[Candidate] = []
    with blas_threads(len(train)):
        for candidates_of in rounds:
            for candidate in candidates_of(fitted, tried):
                say(len(tried), total, candidate.name)
                tried.append(candidate)
                fitted += _try(candidate, prepared, train, held_out, seed, notes)
        if not fitted:
            raise DataError(f"no model could be learned from {table.name}: {notes[-1]}")
        beliefs = {each.name: each.belief for each in fitted}
        comparison = rank(beliefs, [each.log_evidence for each in fitted], (x, prepared.labels[train]))
        say(total - 1, total, f"{comparison.best}, on all rows")
        model = _final(comparison.best, tried, fitted, prepared, seed, notes)
    return Result(
        table.name,
        prepared,
        train,
        held_out,
        tuple(fitted),
        comparison,
        model,
        tuple(dict.fromkeys(notes)),
        clock.perf_counter() - start,
        seed,
    )


Round = Callable[[list[Fitted], list[Candidate]], list[Candidate]]
"""From what was learned so far, and what was tried, to what to try next."""


def _rounds(prepared: Prepared, x: np.ndarray, y: np.ndarray, notes: list[str]) -> tuple[list[Round], int]:
    """What is tried, in rounds that may depend on those before; and how many steps that will be with the last."""
    if prepared.kind == "classes":
        first, said = class_candidates(prepared.schema, x, prepared.levels)
        notes += said
        return [lambda fitted, tried: first], len(first) + 1
    if prepared.kind == "count":
        shapes, said = glm_candidates.count_shapes(prepared.schema, x)
        notes += said

        def scored(fitted: list[Fitted], tried: list[Candidate]) -> list[glm_candidates.Scored]:
            of = {candidate.name: candidate for candidate in tried}
            return [glm_candidates.Scored(of[each.name], each.log_evidence) for each in fitted]

        return [
            lambda fitted, tried: glm_candidates.first_counts(shapes),
            lambda fitted, tried: glm_candidates.further_counts(shapes, scored(fitted, tried)),
            lambda fitted, tried: glm_candidates.last_counts(shapes, scored(fitted, tried)) if fitted else [],
        ], len(shapes) + 4
    numbers, said = candidates(prepared.schema, x)
    notes += said
    return [lambda fitted, tried: numbers, lambda fitted, tried: _robust(fitted, y, notes)], len(numbers) + 2


def is_robust(belief: Linear | GP | GLM) -> bool:
    """Whether the belief expects outliers."""
    return isinstance(belief, Linear) and belief.is_robust


def _robust(fitted: list[Fitted], y: np.ndarray, notes: list[str]) -> list[Candidate]:
    """The best linear model with noise that expects outliers, unless the table is too large for it."""
    linear = [(each, each.belief) for each in fitted if isinstance(each.belief, Linear)]
    if not linear:
        return []
    best, belief = max(linear, key=lambda pair: pair[0].log_evidence)
    q = belief.weights.mean.shape[0] if belief.weights is not None else 1
    if q * len(y) > ROBUST_WORK:
        notes.append(f"A version of {best.name!r} that expects outliers was not tried: the table is too large for it.")
        return []
    return [robust_version(best.name, best.about, belief, float(y.std()))]


def _learn(
    candidate: Candidate, x: pd.DataFrame, y: np.ndarray, seed: int, exposure: np.ndarray | None = None
) -> tuple[Learned, list[str]]:
    if isinstance(candidate.belief, GP):
        found = learn_gp(candidate, candidate.belief, x, y, seed)
        return found, [] if found.status == CONVERGED else ["its time was up before it had found its best"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConvergedWarning)
        if isinstance(candidate.belief, GLM):
            learned = learn_glm(candidate.belief, x, y, seed, exposure)
        else:
            learned = fit(candidate.belief, x, y, report=True, seed=seed, **_options(candidate.belief))
    said = [str(w.message) for w in caught if issubclass(w.category, NotConvergedWarning)]
    return learned, said


def _options(belief: Linear) -> dict[str, Any]:
    if belief.is_robust:
        return {"fixed": ["prior.precision"], "using": Evidence(starts=1)}
    if isinstance(belief.prior, ARD):
        # Precisions on their way to infinity approach it slowly; the fourth digit changes nothing.
        return {"using": FixedPoint(starts=1, tolerance=1e-4)}
    return {}


def _try(
    candidate: Candidate, prepared: Prepared, train: np.ndarray, test: np.ndarray, seed: int, notes: list[str]
) -> list[Fitted]:
    begin = clock.perf_counter()
    exposure = prepared.exposure
    try:
        known = None if exposure is None else exposure[train]
        learned, said = _learn(candidate, prepared.x.iloc[train], prepared.labels[train], seed, known)
    except CredoError as error:
        notes.append(f"{candidate.name!r} could not be learned: {error}")
        return []
    notes += [f"{candidate.name!r}: {sentence}." for sentence in said]
    prediction = predict(learned.belief, prepared.x.iloc[test], None if exposure is None else exposure[test])
    scores = score(prediction, prepared.y[test], prepared.kind)
    seconds = clock.perf_counter() - begin
    return [Fitted(candidate.name, candidate.about, learned.belief, learned.log_evidence, scores, seconds, tuple(said))]


def _final(
    name: str, tried: list[Candidate], fitted: list[Fitted], prepared: Prepared, seed: int, notes: list[str]
) -> TableModel:
    """The chosen kind of model, learned on all rows."""
    by_name = {candidate.name: candidate for candidate in tried}
    robust = isinstance(by_name[name].belief, Linear) and is_robust(by_name[name].belief)
    base = by_name[name.removesuffix(", robust") if robust else name]
    if isinstance(base.belief, GP):
        # The kernel that was found stays; its numbers are learned again.
        known = next(each.belief for each in fitted if each.name == name)
        assert isinstance(known, GP)
        base = base._replace(belief=known.unconditioned(), search=0.0)
    learned, said = _learn(base, prepared.x, prepared.labels, seed, prepared.exposure)
    if robust:
        assert isinstance(learned.belief, Linear)
        again = robust_version(base.name, base.about, learned.belief, float(prepared.y.std()))
        learned, said = _learn(again, prepared.x, prepared.y, seed)
    notes += [f"On all rows: {sentence}." for sentence in said]
    belief = learned.belief
    if is_robust(belief):
        # Heavy-tailed noise has no sufficient statistics: without this the file would hold the training rows.
        belief = eqx.tree_at(lambda b: b.seen, belief, None, is_leaf=lambda v: v is None)
    x = prepared.x.to_numpy()
    scores = next(each.scores for each in fitted if each.name == name)
    return TableModel(
        prepared.schema,
        belief,
        x.min(axis=0),
        x.max(axis=0),
        name,
        len(x),
        tuple((key, float(value)) for key, value in scores.items()),
    )
