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
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from credo.app.candidates import SEARCHED, Candidate, candidates, learn_gp, robust_version
from credo.app.prepare import Prepared, prepare
from credo.app.schema import Encoded, Schema
from credo.app.tables import Table
from credo.core.errors import CredoError, DataError, NotConvergedWarning
from credo.core.predictive import Mixture, Predictive, StudentT
from credo.evaluate.calibration import pit
from credo.evaluate.compare import Comparison, rank
from credo.evaluate.scores import score_table
from credo.evaluate.validation import holdout
from credo.infer.learn import Evidence, Learned, fit
from credo.infer.optimize import CONVERGED
from credo.models.gp import GP
from credo.models.linear import ARD, FixedPoint, Linear

ROBUST_WORK = 4e7
Progress = Callable[[int, int, str], None]


class TableModel(eqx.Module):
    """A belief that knows the table it came from: how columns become numbers, and where it has seen data."""

    schema: Schema
    belief: Linear | GP
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
        return self.belief.predict(encoded.x)

    def outside(self, x: Float[np.ndarray, "n d"]) -> np.ndarray:
        """Which entries lie beyond the range of the data: predictions there are extrapolated."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        slack = 1e-9 * (high - low)
        return (x < low - slack) | (x > high + slack)


class Fitted(NamedTuple):
    """A candidate after learning on the training part."""

    name: str
    about: str
    belief: Linear | GP
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


def run(
    table: Table,
    target: str,
    *,
    time: str | None = None,
    ignore: Iterable[str] = (),
    test: float = 0.2,
    seed: int = 0,
    progress: Progress | None = None,
) -> Result:
    """Learns from a table what predicts its column `target`; see the module's picture.

    `time` names a column that orders the rows: the last share `test` of them is then the test part, else as many
    at random. `progress(done, total, name)` is called before each step.
    """
    start = clock.perf_counter()
    if not 0 < test < 1:
        raise DataError(f"--test is the share of rows to hold out, between 0 and 1, found {test:g}; write 20 % as 0.2")
    prepared = prepare(table, target, time, ignore)
    train, held_out = _split(prepared, test, seed)
    x, y = prepared.x.iloc[train], prepared.y[train]
    if np.ptp(y) == 0:
        raise DataError(f"the target {target!r} is constant in the {len(y)} training rows: there is nothing to learn")
    tried, notes = candidates(prepared.schema, x.to_numpy())
    say = progress or (lambda done, total, name: None)
    total = len(tried) + 2
    fitted: list[Fitted] = []
    for i, candidate in enumerate(tried):
        say(i, total, candidate.name)
        fitted += _try(candidate, prepared, train, held_out, seed, notes)
    if not fitted:
        raise DataError(f"no model could be learned from {table.name}: {notes[-1]}")
    robust = _robust(fitted, y, notes)
    if robust is not None:
        say(len(tried), total, robust.name)
        fitted += _try(robust, prepared, train, held_out, seed, notes)
    beliefs = {each.name: each.belief for each in fitted}
    comparison = rank(beliefs, [each.log_evidence for each in fitted], (x, y))
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


def is_robust(belief: Linear | GP) -> bool:
    """Whether the belief expects outliers."""
    return isinstance(belief, Linear) and belief.is_robust


def _robust(fitted: list[Fitted], y: np.ndarray, notes: list[str]) -> Candidate | None:
    """The best linear model with noise that expects outliers, unless the table is too large for it."""
    linear = [(each, each.belief) for each in fitted if isinstance(each.belief, Linear)]
    if not linear:
        return None
    best, belief = max(linear, key=lambda pair: pair[0].log_evidence)
    q = belief.weights.mean.shape[0] if belief.weights is not None else 1
    if q * len(y) > ROBUST_WORK:
        notes.append(f"A version of {best.name!r} that expects outliers was not tried: the table is too large for it.")
        return None
    return robust_version(best.name, best.about, belief, float(y.std()))


def _split(prepared: Prepared, test: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    n = len(prepared.y)
    if prepared.time is None:
        parts = holdout(n, test=test, validation=0.0, seed=seed)
        train, held_out = parts.train, parts.test
    else:
        order = np.argsort(prepared.time, kind="stable")
        count = max(round(n * test), 1)
        train, held_out = order[: n - count], order[n - count :]
    if len(train) < 4:
        raise DataError(f"--test {test:g} leaves {len(train)} of {n} rows to learn from; make it smaller")
    return train, held_out


def _learn(candidate: Candidate, x: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[Learned, list[str]]:
    if isinstance(candidate.belief, GP):
        found = learn_gp(candidate, candidate.belief, x, y, seed)
        return found, [] if found.status == CONVERGED else ["its time was up before it had found its best"]
    options: dict[str, Any] = {}
    if candidate.belief.is_robust:
        options = {"fixed": ["prior.precision"], "using": Evidence(starts=1)}
    elif isinstance(candidate.belief.prior, ARD):
        # Precisions on their way to infinity approach it slowly; the fourth digit changes nothing.
        options = {"using": FixedPoint(starts=1, tolerance=1e-4)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConvergedWarning)
        learned = fit(candidate.belief, x, y, report=True, seed=seed, **options)
    said = [str(w.message) for w in caught if issubclass(w.category, NotConvergedWarning)]
    return learned, said


def _try(
    candidate: Candidate, prepared: Prepared, train: np.ndarray, test: np.ndarray, seed: int, notes: list[str]
) -> list[Fitted]:
    begin = clock.perf_counter()
    try:
        learned, said = _learn(candidate, prepared.x.iloc[train], prepared.y[train], seed)
    except CredoError as error:
        notes.append(f"{candidate.name!r} could not be learned: {error}")
        return []
    notes += [f"{candidate.name!r}: {sentence}." for sentence in said]
    y = prepared.y[test]
    prediction = learned.belief.predict(prepared.x.iloc[test])
    scores = score(prediction, y)
    seconds = clock.perf_counter() - begin
    return [Fitted(candidate.name, candidate.about, learned.belief, learned.log_evidence, scores, seconds, tuple(said))]


def score(prediction: Predictive, y: np.ndarray) -> dict[str, float]:
    """RMSE, NLPD, CRPS, the coverage of 95 % intervals and, where outcomes vary, R²."""
    names = ["rmse", "nlpd", *([] if isinstance(prediction, Mixture) else ["crps"])]
    scores = score_table(prediction, y, [*names, "r2"] if len(y) > 1 and np.ptp(y) > 0 else names)
    if isinstance(prediction, Mixture):
        scores["crps"] = sampled_crps(prediction, y)
    # y is in the central interval iff its probability integral transform is: no quantile need be searched for.
    scores["coverage"] = float(np.mean(np.abs(2 * pit(prediction, y) - 1) <= 0.95))
    return scores


def sampled_crps(prediction: Mixture, y: np.ndarray, n: int = 1000) -> float:
    """E|Y - y| - ½E|Y - Y′| from draws: a mixture of Student-t's has no closed form, and its quadrature is slow.

    With sorted draws y₁ ≤ … ≤ yₙ, ½E|Y - Y′| is estimated by Σᵢ (2i - n - 1) yᵢ / (n(n - 1)).
    """
    (part,) = prediction.parts
    assert isinstance(part, StudentT)
    rng = np.random.default_rng(0)
    k, m = part.mean.shape
    node, row = rng.choice(k, size=(n, m), p=np.asarray(prediction.weights)), np.arange(m)
    df, mean, scale = (np.asarray(v)[node, row] for v in (part.df, part.mean, part.scale))
    draws = np.sort(mean + scale * rng.standard_t(df), axis=0)
    rank = 2 * np.arange(1, n + 1) - n - 1
    return float(np.mean(np.abs(draws - y).mean(axis=0) - rank @ draws / (n * (n - 1))))


def _final(
    name: str, tried: list[Candidate], fitted: list[Fitted], prepared: Prepared, seed: int, notes: list[str]
) -> TableModel:
    """The chosen kind of model, learned on all rows."""
    by_name = {candidate.name: candidate for candidate in tried}
    robust = name not in by_name
    base = by_name[name.removesuffix(", robust") if robust else name]
    if isinstance(base.belief, GP):
        # The kernel that was found stays; its numbers are learned again.
        known = next(each.belief for each in fitted if each.name == name)
        assert isinstance(known, GP)
        base = base._replace(belief=known.unconditioned(), search=0.0)
    learned, said = _learn(base, prepared.x, prepared.y, seed)
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
        jnp.asarray(x.min(axis=0)),
        jnp.asarray(x.max(axis=0)),
        name,
        len(x),
        tuple((key, float(value)) for key, value in scores.items()),
    )


class Answer(NamedTuple):
    """A table with its predictions."""

    frame: pd.DataFrame
    """All columns and rows of the table, and the columns of the prediction."""
    added: tuple[str, ...]
    empty: int
    """Rows that have missing inputs and so no prediction."""
    outside: dict[str, int]
    """Per input column, rows beyond the range of the data."""
    extrapolated: int
    unknown: dict[str, int]
    unread: dict[str, int]


def answer(model: TableModel, table: Table, level: float = 0.95, loss: Any = None) -> Answer:
    """The table with columns mean, std, lower, upper, aleatoric and epistemic (variances that add up to std²).

    A `loss` adds the column `action`. Names that the table has already get the target's name in front.
    """
    from credo.decide.bayes import decide

    encoded = model.schema.encode(table.frame, table.decimal)
    x, whole = encoded.x.to_numpy(), encoded.complete
    if len(x) == 0:
        raise DataError(f"{table.name} has no rows to predict")
    values: dict[str, np.ndarray] = {}
    if whole.any():
        prediction = model.belief.predict(encoded.x[whole])
        lower, upper = prediction.interval(level)
        values = {
            "mean": np.asarray(prediction.mean),
            "std": np.asarray(prediction.std),
            "lower": np.asarray(lower),
            "upper": np.asarray(upper),
            "aleatoric": np.asarray(prediction.aleatoric),
            "epistemic": np.asarray(prediction.epistemic),
        }
        if loss is not None:
            values["action"] = np.asarray(decide(prediction, loss).action)
    else:
        raise DataError(f"every row of {table.name} has missing inputs: there is nothing to predict")
    taken = {str(column) for column in table.frame.columns}
    prefix = ""
    while any(f"{prefix}{name}" in taken for name in values):
        prefix = f"{model.target}_{prefix}"
    out = table.frame.copy()
    for name, column in values.items():
        full = np.full(len(x), np.nan)
        full[whole] = column
        out[f"{prefix}{name}"] = full
    beyond = model.outside(x[whole])
    per_column = {c.name: beyond[:, model.schema.where(c.name)].any(axis=1).sum() for c in model.schema.columns}
    return Answer(
        out,
        tuple(f"{prefix}{name}" for name in values),
        int((~whole).sum()),
        {name: int(count) for name, count in per_column.items() if count},
        int(beyond.any(axis=1).sum()),
        encoded.unknown,
        encoded.unread,
    )
