"""Active learning: ask for the outcomes that teach most, and see what that saves against asking at random.

    found = learn_actively(belief, pool, oracle, budget=50)
    curves = learning_curves(belief, X, y, budget=50)

Each round scores the rest of the pool (`acquire`), asks for the outcomes of the best and conditions the belief on them;
its hyperparameters are learned again from time to time.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from jaxtyping import Float, Int

from credo.core.arrays import Numeric
from credo.core.belief import Belief
from credo.core.checks import check_array, check_count, check_real, check_table
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.predictive import Bernoulli, Categorical
from credo.decide.acquiring import from_pool
from credo.decide.acquisition.base import Acquisition
from credo.decide.acquisition.checks import check_acquisition
from credo.decide.acquisition.information import MutualInformation
from credo.evaluate.scores import LARGER_IS_BETTER, Score, find_score
from credo.evaluate.validation import count_rows, holdout
from credo.infer.learning import fit

RANDOM = "random"
Kind = Acquisition | str
Oracle = Callable[[np.ndarray], Numeric] | Numeric
"""Outcomes by input, or those of all rows."""


class Step(NamedTuple):
    """One round."""

    labels: int
    """How many outcomes were known when the round was over."""
    asked: Int[np.ndarray, " n"]
    """The rows of the pool that it asked for."""
    score: Float[np.ndarray, " n"] | None
    """What the acquisition said of them; None for random choices."""
    watched: float | None
    """What `watch` said of the belief after the round."""


class ActiveLearning(NamedTuple):
    """What was learned, from which rows."""

    belief: Belief
    chosen: Int[np.ndarray, " t"]
    """Rows of the pool in the order in which they were asked for."""
    outcomes: np.ndarray
    history: list[Step]


def learn_actively(
    belief: Belief,
    pool: Numeric,
    oracle: Oracle,
    budget: int,
    acquisition: Acquisition | str | None = None,
    *,
    start: int | Sequence[int] | np.ndarray = 5,
    batch: int = 1,
    refit: int = 10,
    seed: int = 0,
    watch: Callable[[Any], SupportsFloat] | None = None,
) -> ActiveLearning:
    """Asks for `budget` outcomes of a pool, those first that teach the belief most.

    Args:
        belief: what is believed before any of the pool's outcomes are known.
        pool: inputs, shape (m, d).
        oracle: a function from inputs (n, d) to their outcomes (n,), or the outcomes of all rows, read as needed.
        budget: how many outcomes to ask for, those of the start included.
        acquisition: the score; None is the default of `acquire`, "random" asks at random.
        start: how many rows to begin with, at random, or which.
        batch: how many to ask for in a round.
        refit: hyperparameters are learned again when so many new outcomes are there; 0 keeps those of the belief.
        seed: of the start and of scores that draw.
        watch: a function of the belief, e.g. its error on test rows, kept after each round.
    """
    table = np.asarray(check_table(pool, "pool", getattr(belief, "inputs", None)))
    m = len(table)
    for name, value, least in (("budget", budget, 1), ("batch", batch, 1), ("refit", refit, 0)):
        check_count(value, name, least)
    if budget > m:
        raise DataError(f"budget must be at most the number of rows in the pool, {m}, found {budget}")
    if isinstance(acquisition, str) and acquisition != RANDOM:
        raise DataError(f'acquisition must be an Acquisition, None or "random", found {acquisition!r}')
    if not isinstance(belief, Belief):
        raise DataError(f"active learning begins with a belief, found {type(belief).__name__}")
    check_count(seed, "seed", 0)
    if acquisition is not None and not isinstance(acquisition, str):
        check_acquisition(acquisition)
    if watch is not None and not callable(watch):
        raise DataError(f"watch must be a function of the belief, found {watch!r}")
    rng = np.random.default_rng(seed)
    if not callable(oracle):
        if isinstance(oracle, str | bytes) or not hasattr(oracle, "__len__"):
            raise DataError(f"the oracle is a function of inputs, or the outcomes of all rows, found {oracle!r}")
        count_rows(table, oracle)
    chosen = _start(start, m, int(budget), rng)
    outcomes = _asked(oracle, table, chosen)
    now = _fitted(belief, table[chosen], outcomes, refit, seed)
    look = (lambda b: None) if watch is None else (lambda b: float(watch(b)))
    history = [Step(len(chosen), chosen, None, look(now))]
    learned_at = len(chosen)
    kind = acquisition or MutualInformation()
    while len(chosen) < budget:
        n = min(int(batch), int(budget) - len(chosen))
        index, score = _next(now, table, chosen, kind, n, seed + len(chosen), rng)
        more = _asked(oracle, table, index)
        chosen, outcomes = np.concatenate([chosen, index]), np.concatenate([outcomes, more])
        if refit and len(chosen) - learned_at >= refit:
            now, learned_at = _fitted(belief, table[chosen], outcomes, refit, seed), len(chosen)
        else:
            now = now.condition(table[index], more)
        history.append(Step(len(chosen), index, score, look(now)))
    return ActiveLearning(now, chosen, outcomes, history)


def _next(
    belief: Belief,
    table: np.ndarray,
    chosen: np.ndarray,
    acquisition: Kind,
    n: int,
    seed: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray | None]:
    """n rows that have not been asked for, and their scores."""
    free = np.setdiff1d(np.arange(len(table)), chosen)
    if isinstance(acquisition, str):
        return rng.choice(free, size=n, replace=False), None
    index, score = from_pool(belief, table[free], acquisition, n, np.empty((0, table.shape[1])), seed)
    return free[index], score


def _start(start: Any, m: int, budget: int, rng: np.random.Generator) -> np.ndarray:
    start = check_array(start, "start") if isinstance(start, list | tuple) else start
    if np.ndim(start) == 0:
        check_count(start, "start")
        if start > budget:
            raise DataError(f"start must be at most the budget, {budget}, found {start}")
        return rng.choice(m, size=int(start), replace=False)
    index = np.asarray(start)
    whole = index.ndim == 1 and index.dtype.kind in "iu"
    inside = whole and np.all((index >= 0) & (index < m)) and len(np.unique(index)) == len(index)
    if not inside or not 1 <= len(index) <= budget:
        raise DataError(f"start must be how many rows to begin with, or 1 to {budget} different rows of the pool's {m}")
    return index.astype(int)


def _asked(oracle: Oracle, table: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The outcomes of some rows: what the oracle answers, or read from the table of all."""
    if not callable(oracle):
        return np.asarray(oracle)[index]
    y = np.asarray(oracle(table[index]))
    if y.shape[:1] != index.shape:
        raise DataError(f"the oracle must return one outcome per input, {len(index)}, found shape {y.shape}")
    return y


def _fitted(belief: Belief, x: np.ndarray, y: np.ndarray, refit: int, seed: int) -> Belief:
    if not refit:
        return belief.condition(x, y)
    with warnings.catch_warnings():
        # Of few rows no hyperparameter can be sure; what they lack, the next rounds bring.
        warnings.simplefilter("ignore", NotConvergedWarning)
        return fit(belief, x, y, seed=seed)


class ActiveCurves(NamedTuple):
    """A score on test rows against the number of outcomes asked for, by way of asking."""

    labels: Int[np.ndarray, " k"]
    scores: dict[str, np.ndarray]
    """Shape (seeds, k) each: "active", and what it is compared with."""
    name: str
    """Of the score."""

    def quartiles(self, which: str = "active") -> Float[np.ndarray, "3 k"]:
        """The lower quartile, the median and the upper quartile over seeds."""
        if which not in self.scores:
            raise DataError(f"which must be one of {', '.join(map(repr, self.scores))}, found {which!r}")
        return np.quantile(self.scores[which], [0.25, 0.5, 0.75], axis=0)

    def needed(self, target: float | None = None, which: str = "active") -> int | None:
        """How many outcomes the median needs to be as good as `target`; None where it never is.

        Without a target, as good as the other way of asking is in the end.
        """
        other = next(name for name in self.scores if name != "active")
        goal = float(self.quartiles(other)[1, -1] if target is None else target)
        median = self.quartiles(which)[1]
        good = median >= goal if self.name in LARGER_IS_BETTER else median <= goal
        return int(self.labels[int(np.argmax(good))]) if good.any() else None

    def __str__(self) -> str:
        shown = np.unique(np.linspace(0, len(self.labels) - 1, min(len(self.labels), 10)).round().astype(int))
        head = f"{'labels':>6}  " + "  ".join(f"{f'{name} {self.name} (quartiles)':>34}" for name in self.scores)
        quartiles = [self.quartiles(name) for name in self.scores]
        lines = [head]
        for j in shown:
            cells = (f"{q[1, j]:.4g} ({q[0, j]:.4g} to {q[2, j]:.4g})" for q in quartiles)
            lines.append(f"{self.labels[j]:>6}  " + "  ".join(f"{cell:>34}" for cell in cells))
        return "\n".join(lines)


def learning_curves(
    belief: Belief,
    X: Numeric,
    y: Numeric,
    budget: int,
    acquisition: Acquisition | None = None,
    *,
    against: Acquisition | str = RANDOM,
    test: float | tuple[Numeric, Numeric] = 0.25,
    seeds: int | Sequence[int] = 10,
    score: str | Score | None = None,
    **options: Any,
) -> ActiveCurves:
    """Active learning against asking at random (or another score), from the same starts, on the same test rows.

    Args:
        belief: what is believed before any outcome is known.
        X: the inputs whose outcomes may be asked for.
        y: their outcomes.
        budget: how many are asked for.
        acquisition: as for `learn_actively`.
        against: "random", or another acquisition.
        test: the share of rows held out, anew for each seed; or (X, y) of their own.
        seeds: how many repetitions, or their seeds.
        score: the name of a score or a function of (prediction, y); None is the RMSE, for classes the log loss.
        options: `start`, `batch` and `refit` of `learn_actively`.
    """
    if isinstance(y, str | bytes) or not hasattr(y, "__len__"):
        raise DataError(f"y must be the outcomes of all rows, found {y!r}")
    table, outcomes = np.asarray(check_table(X, "X")), np.asarray(y)
    if outcomes.ndim == 0 or not isinstance(belief, Belief):
        raise DataError(f"learning curves need a belief and the outcomes of all rows, found {type(y).__name__}")
    if isinstance(seeds, int):
        check_count(seeds, "seeds")
    elif not isinstance(seeds, Sequence) or isinstance(seeds, str | bytes):
        raise DataError(f"seeds must be how many, or a list of seeds, found {seeds!r}")
    if isinstance(test, tuple) and len(test) != 2:
        raise DataError(f"test must be the share of rows held out, or (X, y), found {test!r}")
    test = test if isinstance(test, tuple) else check_real(test, "test", 0, 1)
    n = count_rows(table, outcomes)
    ways = {"active": acquisition, against if isinstance(against, str) else type(against).__name__: against}
    found: dict[str, list[list[float]]] = {way: [] for way in ways}
    labels: list[int] = []
    name = ""
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        if isinstance(test, tuple):
            train, held = np.arange(n), (np.asarray(check_table(test[0], "test")), np.asarray(test[1]))
        else:
            part = holdout(n, test, 0.0, seed=int(seed))
            train, held = part.train, (table[part.test], outcomes[part.test])

        def judge(now: Belief, x: np.ndarray = held[0], y: np.ndarray = held[1]) -> float:
            return _judged(now, x, y, score)[1]

        for way, kind in ways.items():
            pool, known = table[train], outcomes[train]
            run = learn_actively(belief, pool, known, budget, kind, seed=int(seed), watch=judge, **options)
            found[way].append([float(step.watched) for step in run.history if step.watched is not None])
            labels = [step.labels for step in run.history]
            name = name or _judged(run.belief, held[0], held[1], score)[0]
    if not name:
        raise DataError(f"seeds must be at least one, found {seeds!r}")
    return ActiveCurves(np.asarray(labels), {way: np.asarray(rows) for way, rows in found.items()}, name)


def _judged(belief: Belief, x: np.ndarray, y: np.ndarray, score: str | Score | None) -> tuple[str, float]:
    """The score's name and value on test rows; labels are read as the belief numbers them."""
    prediction = belief.predict(x)
    default = "log_loss" if isinstance(prediction, Categorical | Bernoulli) else "rmse"
    name, function = find_score(default if score is None else score)
    known = getattr(belief, "classes", None)
    outcomes = y if known is None else np.asarray([list(known).index(label) for label in y.tolist()])
    return name, float(function(prediction, outcomes))
