"""The search: which model predicts best, for the rows of a table and the steps of a series alike.

    propose ─▶ learn on the rows to learn from ─▶ score on those held out ─▶ follow ─▶ choose ─▶ learn on all rows

The rows held out have no say in the choice. It is made by how probable the candidates make rows that were left out in
turn, each fold with everything learned again; a series by its evidence, which is a sum of just such probabilities.
"""

import abc
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from credo.app.fit.families.base import Candidate, Family
from credo.app.fit.scores import SHOWN
from credo.core.belief import Belief
from credo.core.device import blas_threads
from credo.core.errors import CredoError, DataError, NotConvergedWarning
from credo.core.predictive import Predictive
from credo.evaluate.comparison import Comparison, rank
from credo.infer.learning import Learned
from credo.infer.progress import Progress, Show

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from credo.app.report.page import Page, Section
    from credo.app.table.prepare import Prepared
    from credo.evaluate.backtesting import Backtest

CHANCE = 2.0
"""By how many standard errors a model must beat the baseline to be said to."""


class Judged(NamedTuple):
    """What a candidate said about the outcomes that were held out."""

    scores: dict[str, float]
    prediction: Predictive | None = None
    """Of the rows held out."""
    backtest: "Backtest | None" = None
    """Of a series."""


class Data(abc.ABC):
    """What is learned from: the rows of a table, or the steps of a series."""

    kind: str
    """"number", "classes", "count" or "series"."""
    source: str
    """The name of the table."""
    train: Any
    """The rows to learn from."""
    everything: Any
    """All rows."""
    prepared: "Prepared"
    size: tuple[int, int]
    """Rows to learn from, and inputs."""

    @abc.abstractmethod
    def examples(self, rows: Any, candidate: Candidate) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What `credo.fit` takes after the belief: the data and their options."""

    @abc.abstractmethod
    def judge(self, belief: Belief, candidate: Candidate) -> Judged:
        """The scores on what was held out."""

    @cached_property
    def folds(self) -> list[tuple[Any, Any]]:
        """Rows to learn from and rows left out, in turn; none where the evidence decides."""
        return []

    def log_density(self, belief: Belief, rows: Any) -> np.ndarray:
        """log p of each outcome."""
        raise AssertionError("nothing is left out")

    def held_out(self) -> np.ndarray:
        """The places of the rows held out; none of a series."""
        return np.zeros(0, dtype=int)

    def best(self, fitted: "Sequence[Fitted]") -> "Fitted":
        """The best of these so far."""
        return choose(fitted)


class Fitted(NamedTuple):
    """A candidate after learning."""

    candidate: Candidate
    family: Family
    belief: Any
    """After the rows to learn from."""
    log_evidence: float
    left_out: np.ndarray
    """log p of the rows that were left out in turn, fold by fold; empty where the evidence decides."""
    judged: Judged
    seconds: float
    notes: tuple[str, ...]
    rows: int
    """From so many it has learned."""

    @property
    def name(self) -> str:
        """Of the candidate."""
        return self.candidate.name

    @property
    def about(self) -> str:
        """What the candidate assumes, in a sentence."""
        return self.candidate.about

    @property
    def scores(self) -> dict[str, float]:
        """On what was held out."""
        return self.judged.scores

    @property
    def prediction(self) -> Predictive | None:
        """Of the rows held out."""
        return self.judged.prediction

    @property
    def backtest(self) -> "Backtest":
        """Of a series: forecasts from origins in its held-out end."""
        assert self.judged.backtest is not None
        return self.judged.backtest

    @property
    def left_out_density(self) -> float:
        """The mean log density of the rows that were left out in turn; NaN where there are none."""
        return float(self.left_out.mean()) if len(self.left_out) else float("nan")


class Found(NamedTuple):
    """What a search found."""

    fitted: tuple[Fitted, ...]
    """In the order in which they were tried."""
    chosen: Fitted
    comparison: Comparison
    """By the evidence; the chosen one first, then those that did best where it was decided."""
    belief: Any
    """The chosen model after all rows."""
    notes: tuple[str, ...]
    seconds: float


class Budget:
    """The time for a search. What is tried follows from how long candidates are expected to take, not from the clock,

    so that a search can be repeated; only on a machine much slower than expected does the clock end it.
    """

    def __init__(self, seconds: float | int | None):
        self.seconds = np.inf if seconds is None else float(seconds)
        if not self.seconds > 0:
            raise DataError(f"`seconds` is the time that may be taken and must be positive, found {seconds}")
        self.begin, self.planned = time.perf_counter(), 0.0

    @property
    def elapsed(self) -> float:
        """Since the search began."""
        return time.perf_counter() - self.begin

    @property
    def left(self) -> float:
        """What is left by plan; nothing where the time is up."""
        return self.seconds - self.planned if self.elapsed <= self.seconds else 0.0


def run(
    data: Data,
    families: Iterable[Family],
    *,
    seconds: float | int | None = None,
    seed: int = 0,
    progress: Show | bool | None = False,
) -> Found:
    """The candidates of all families learned and compared, and the chosen one learned on all rows."""
    budget, notes = Budget(seconds), list[str]()
    fitted: list[Fitted] = []
    tried: set[str] = set()
    serving = [family for family in families if data.kind in family.kinds]
    queue = [(family, candidate) for family in serving for candidate in family.propose(data)]
    with Progress(progress) as say, blas_threads(data.size[0]):
        while queue:
            for family, candidate in queue:
                say(len(tried) / (len(tried) + len(queue) + 1), candidate.name)
                tried.add(candidate.name)
                if why := candidate.refused or _too_long(candidate, budget, fitted):
                    notes.append(f"{candidate.name!r} was not tried: {why}.")
                    continue
                fitted += _attempt(family, candidate, data, seed, budget, notes)
            done = {family: [each for each in fitted if each.family is family] for family in serving}
            following = [(f, c) for f in serving if done[f] for c in f.follow(done[f], data)]
            queue = [(f, c) for f, c in following if c.name not in tried]
        if not fitted:
            raise DataError(f"no model could be learned from {data.source}: {(notes or ['none suits it'])[-1]}")
        best = choose(fitted)
        say(0.95, f"{best.name}, on all rows")
        learned, said = _heard(lambda: best.family.learn(best.family.again(best), data, data.everything, seed))
    notes += [f"On all rows: {sentence}." for sentence in said]
    notes += beats_baseline(best, fitted)
    belief = best.family.kept(learned.belief)
    return Found(tuple(fitted), best, _ranked(fitted, best), belief, tuple(dict.fromkeys(notes)), budget.elapsed)


def _too_long(candidate: Candidate, budget: Budget, fitted: list[Fitted]) -> str:
    if candidate.seconds <= budget.left or not fitted:
        return ""
    return (
        f"it may take {candidate.seconds:.0f} s, and of the {budget.seconds:g} s {max(budget.left, 0):.0f} s are left"
    )


def _attempt(
    family: Family, candidate: Candidate, data: Data, seed: int, budget: Budget, notes: list[str]
) -> list[Fitted]:
    """The candidate learned, scored on what is held out, and judged on rows that are left out in turn."""
    begin = time.perf_counter()
    budget.planned += candidate.seconds
    try:
        learned, said = _heard(lambda: family.learn(candidate, data, data.train, seed))
        if candidate.approximate:
            candidate = candidate._replace(about="; ".join([candidate.about, *learned.notes]))
        evidence = family.evidence(learned, candidate, data, data.train)
        judged = data.judge(learned.belief, candidate)
        fitted = Fitted(
            candidate, family, learned.belief, evidence, np.zeros(0), judged, 0.0, tuple(said), data.size[0]
        )
        again = family.again(fitted)
        # What was learned and never judged was learned for nothing: one fold it is, whatever is left.
        affordable = int(np.clip(budget.left / max(again.seconds, 1e-9), min(len(data.folds), 1), len(data.folds)))

        def left_out_of(rows: Any, left_out: Any) -> np.ndarray:
            return data.log_density(_heard(lambda: family.learn(again, data, rows, seed))[0].belief, left_out)

        density = [left_out_of(*fold) for fold in data.folds[:affordable]]
    except CredoError as error:
        notes.append(f"{candidate.name!r} could not be learned: {error}")
        return []
    budget.planned += affordable * again.seconds
    if affordable < len(data.folds):
        left = len(data.folds) - affordable
        notes.append(f"{candidate.name!r} was judged on {affordable} of {len(data.folds)} folds: {left} take too long.")
    notes += [f"{candidate.name!r}: {sentence}." for sentence in said]
    left_out = np.concatenate([np.zeros(0), *density])
    left_out = np.where(np.isnan(left_out), -np.inf, left_out)
    return [fitted._replace(left_out=left_out, seconds=time.perf_counter() - begin)]


def _heard(learn: Callable[[], Learned]) -> tuple[Learned, list[str]]:
    """What was learned, and what was said on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConvergedWarning)
        learned = learn()
    return learned, [str(w.message) for w in caught if issubclass(w.category, NotConvergedWarning)]


def choose(fitted: Sequence[Fitted]) -> Fitted:
    """The candidate under which rows that were left out are most probable; where none were, the highest evidence.

    Candidates that were judged on fewer folds are compared on those.
    """
    judged = sorted((each for each in fitted if len(each.left_out)), key=lambda each: -len(each.left_out))
    if not judged:
        return max(fitted, key=lambda each: each.log_evidence)
    best = judged[0]
    for each in judged[1:]:
        n = len(each.left_out)
        if each.left_out.sum() > best.left_out[:n].sum():
            best = each
    return best


def lead(best: Fitted, other: Fitted) -> tuple[float, float]:
    """By how much the rows left out are more probable a row under one than under the other, and its standard error."""
    n = min(len(best.left_out), len(other.left_out))
    with np.errstate(invalid="ignore"):
        gain = best.left_out[:n] - other.left_out[:n]
        error = float(np.std(gain, ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    return float(gain.mean()) if n else np.nan, error if np.isfinite(error) else np.inf


def beats_baseline(best: Fitted, fitted: Iterable[Fitted]) -> list[str]:
    """A sentence where the choice is no better than a candidate that looks at no input."""
    plain = next((each for each in fitted if each.candidate.baseline and len(each.left_out)), None)
    if plain is None or not len(best.left_out):
        return []
    if plain is best:
        return [f"No model predicts rows that were left out better than “{plain.name}”, which looks at no input."]
    gain, error = lead(best, plain)
    if gain > CHANCE * error:
        return []
    return [
        f"On rows that were left out “{best.name}” is hardly better than “{plain.name}”, which looks at no input: "
        "chance explains the difference."
    ]


def _ranked(fitted: Sequence[Fitted], best: Fitted) -> Comparison:
    """The comparison by evidence, in the order of the choice."""
    found = rank({each.name: each.belief for each in fitted}, [each.log_evidence for each in fitted], ())
    density = {each.name: each.left_out_density if len(each.left_out) else -np.inf for each in fitted}
    rows = sorted(found.rows, key=lambda row: (row.name != best.name, -density[row.name]))
    return found._replace(rows=tuple(rows))


@dataclass(frozen=True)
class SearchResult(abc.ABC):
    """Everything that was found out about a table or a series."""

    source: str
    """Of the data: the name of the table."""
    fitted: tuple[Fitted, ...]
    """In the order in which they were tried."""
    comparison: Comparison
    """By the evidence; the chosen one first."""
    model: Any
    """The chosen candidate, learned again on all rows: `model.predict(frame)`, `credo.save(model, path)`."""
    notes: tuple[str, ...]
    """What happened while learning, in words."""
    seconds: float
    seed: int
    data: Data
    """What was learned from."""

    @property
    def kind(self) -> str:
        """What the target is: "number", "classes", "count" or "series"."""
        return self.data.kind

    @property
    def chosen(self) -> Fitted:
        """The candidate that was chosen, as learned on the rows to learn from."""
        return next(each for each in self.fitted if each.name == self.comparison.best)

    @property
    def table(self) -> pd.DataFrame:
        """The comparison: a row for each candidate, the chosen one first."""
        by_name = {each.name: each for each in self.fitted}
        rows = []
        for row in self.comparison.rows:
            each = by_name[row.name]
            scores = {shown.name: each.scores.get(shown.key, np.nan) for shown in SHOWN[self.kind]}
            chosen_by = {"left out": each.left_out_density} if len(each.left_out) else {}
            evidence = {"log evidence": row.log_evidence, "probability": row.probability}
            rows.append({"model": row.name} | chosen_by | evidence | scores | {"seconds": each.seconds})
        return pd.DataFrame(rows).set_index("model")

    def sections(self) -> "list[Section]":
        """What the families say about their models."""
        found = []
        for each in self.fitted:
            chosen = each is self.chosen
            known = each._replace(belief=self.model.belief) if chosen else each
            found += each.family.sections(known, self.data, chosen)
        return found

    @abc.abstractmethod
    def describe(self) -> str:
        """What was learned from what, in a line."""

    def verdict(self) -> str:
        """Which candidate was chosen, and how."""
        how = "by rows left out in turn" if len(self.chosen.left_out) else "by evidence"
        return f"chosen {how}: {self.model.name}"

    def others(self) -> dict[str, dict[str, float]]:
        """Scores of what is no candidate, to compare with."""
        return {}

    @abc.abstractmethod
    def page(self, *, command: str = "", loss: tuple[float, float] | None = None, costs: str | None = None) -> "Page":
        """The report; `loss` are the costs of being one too low and one too high, `costs` those of actions."""

    @abc.abstractmethod
    def plot(self) -> "Axes":
        """What was found, in a picture."""

    def report(self, path: str | Path | None = None, **options: Any) -> "Page | Path":
        """Writes the report as one HTML file; without a path, what a notebook shows."""
        page = self.page(**options)
        return page if path is None else page.write(path)

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()
