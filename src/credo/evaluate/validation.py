"""Validation: judging a belief on data it has not seen, once.

Splits are rows chosen at random with a seed. What is used to choose between beliefs is not used to report how
good the chosen one is: `select` looks at the test rows only after everything is decided.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold

from credo.core.abilities import LeavesOneOut, able
from credo.core.arrays import Numeric
from credo.core.belief import Belief
from credo.core.checks import check_count, check_vector
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.evaluate.scores import LARGER_IS_BETTER, UNRANKED, Score, find_score, score_table


class Holdout(NamedTuple):
    """Row numbers of the three parts."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def holdout(n: int, test: float = 0.2, validation: float = 0.2, *, seed: int = 0) -> Holdout:
    """The rows 0 … n - 1 in three parts at random; every part that is asked for has at least one row."""
    for name, share in (("test", test), ("validation", validation)):
        if not isinstance(share, int | float) or not 0 <= share < 1:
            raise DataError(f"{name} must be a share from 0 to 1, found {share}; write 20 % as 0.2")
    n_test = max(round(n * test), 1) if test > 0 else 0
    n_validation = max(round(n * validation), 1) if validation > 0 else 0
    if n_test + n_validation >= n:
        raise DataError(
            f"test={test} and validation={validation} leave no rows of {n} to learn from; make them smaller"
        )
    order = np.random.default_rng(seed).permutation(n)
    test_rows, validation_rows, train_rows = np.split(order, [n_test, n_test + n_validation])
    return Holdout(np.sort(train_rows), np.sort(validation_rows), np.sort(test_rows))


def split(*data: Numeric, test: float = 0.2, validation: float = 0.0, seed: int = 0) -> tuple[tuple[Numeric, ...], ...]:
    """The data cut into (train, test), or (train, validation, test) where `validation` is not zero.

    Each part is a tuple like `data`: `(X, y), (X_test, y_test) = split(X, y)`.
    """
    parts = holdout(count_rows(*data), test, validation, seed=seed)
    chosen = (parts.train, parts.validation, parts.test) if validation > 0 else (parts.train, parts.test)
    return tuple(tuple(rows(each, index) for each in data) for index in chosen)


def count_rows(*data: Numeric) -> int:
    """The common number of rows of the data."""
    if not data:
        raise DataError("there are no data to split; pass at least X and y")
    lengths = [len(each) for each in data]  # type: ignore[arg-type]
    if len(set(lengths)) > 1:
        raise DataError(f"X and y must have as many rows as each other, found {', '.join(map(str, lengths))}")
    return lengths[0]


def rows(data: Any, index: np.ndarray) -> Numeric:
    """Some rows of an array, a data frame or a list, as the same kind of thing."""
    if isinstance(data, list | tuple):
        return [data[i] for i in index]
    return getattr(data, "iloc", data)[index]


def fitted(belief: Belief, X: Numeric, y: Numeric, learn: bool, **options: Any) -> Belief:
    """`fit` with its options if `learn`, else `condition`: the hyperparameters stay as they are."""
    if not learn:
        return belief.condition(X, y)
    from credo.infer.learning import fit

    return fit(belief, X, y, **options)


class CrossValidation(NamedTuple):
    """Scores on the k parts that were left out in turn."""

    scores: dict[str, np.ndarray]
    """For each score one number per fold."""

    @property
    def mean(self) -> dict[str, float]:
        """The mean over folds."""
        return {name: float(np.mean(values)) for name, values in self.scores.items()}

    @property
    def standard_error(self) -> dict[str, float]:
        """std/√k over folds. The folds share training rows, so the true error is somewhat larger.

        Bengio & Grandvalet (2004), "No unbiased estimator of the variance of k-fold cross-validation".
        """
        return {name: float(np.std(values, ddof=1) / np.sqrt(len(values))) for name, values in self.scores.items()}

    def __str__(self) -> str:
        wide = max(map(len, self.scores))
        return "\n".join(
            f"{name:<{wide}}  {self.mean[name]:>11.5g} ± {self.standard_error[name]:.2g}" for name in self.scores
        )


def cross_validate(
    belief: Belief,
    X: Numeric,
    y: Numeric,
    k: int = 5,
    *,
    folds: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
    score: str | Score | Iterable[str | Score] | None = None,
    learn: bool = True,
    seed: int = 0,
    **options: Any,
) -> CrossValidation:
    """Fit on k - 1 of k random parts, score on the one left out, for each part in turn.

    `folds` are pairs of row numbers to learn from and to score on, in place of random ones, as of `spatial_blocks`.
    `learn=False` conditions without learning hyperparameters; `options` are passed to `credo.fit`;
    `score` is a name or a function, or several; None takes those that suit the kind of prediction.
    """
    n = count_rows(X, y)
    wanted = None if score is None else [score] if isinstance(score, str) or callable(score) else list(score)
    tables = []
    for train, test in _folds(n, k, seed, "k") if folds is None else folds:
        belief_k = fitted(belief, rows(X, train), rows(y, train), learn, **seeded(options, seed, learn))
        tables.append(score_table(belief_k.predict(rows(X, test)), rows(y, test), wanted))
    return CrossValidation({name: np.asarray([table[name] for table in tables]) for name in tables[0]})


def _folds(n: int, k: int, seed: int, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Row numbers to learn from and to score on, k times."""
    check_count(k, name, least=2)
    if k > n:
        raise DataError(f"{name} must be at least 2 and at most the number of rows {n}, found {k}")
    return list(KFold(int(k), shuffle=True, random_state=seed).split(np.arange(n)))


class Selection(NamedTuple):
    """The belief that did best on the validation rows, and how it did on the test rows."""

    name: str
    belief: Belief
    """Refitted on all rows but the test rows."""
    validation_scores: dict[str, float]
    """What each belief scored on the validation rows; with folds, the mean over them."""
    test_scores: dict[str, float]
    """What the chosen one scored on the test rows, which nothing else has looked at."""


def select(
    beliefs: Mapping[str, Belief],
    X: Numeric,
    y: Numeric,
    score: str | Score = "nlpd",
    test: float = 0.2,
    validation: float = 0.2,
    *,
    folds: int | None = None,
    learn: bool = True,
    seed: int = 0,
    **options: Any,
) -> Selection:
    """Fit each belief on the training rows, choose on the validation rows, report once on the test rows.

    With `folds` the validation rows are each of so many parts of all rows but the test rows in turn (the same for
    every belief), and `validation` is not used. The winner is refitted on training and validation rows before it
    meets the test rows. A score given as a function is a loss: smaller is better.
    """
    if not isinstance(beliefs, Mapping) or not beliefs:
        raise DataError(f"beliefs must be a dictionary of at least one named belief, found {beliefs!r:.80}")
    name, function = find_score(score)
    if name in UNRANKED and isinstance(score, str):
        raise DataError(f"score {name!r} cannot choose: an absurd prediction has the best one; use nlpd or crps")
    parts = holdout(count_rows(X, y), test, validation if folds is None else 0.0, seed=seed)
    if not len(parts.test) or (folds is None and not len(parts.validation)):
        raise DataError(f"select needs test and validation rows, found test={test}, validation={validation}")
    settings, splits = seeded(options, seed, learn), [(parts.train, parts.validation)]
    if folds is not None:
        train = parts.train
        splits = [(train[a], train[b]) for a, b in _folds(len(train), folds, seed, "folds")]

    def fit_on(belief: Belief, index: np.ndarray) -> Belief:
        return fitted(belief, rows(X, index), rows(y, index), learn, **settings)

    found: dict[str, float] = {}
    for label, belief in beliefs.items():
        scored = [function(fit_on(belief, a).predict(rows(X, b)), rows(y, b)) for a, b in splits]
        found[label] = float(np.mean(scored))
    if all(np.isnan(value) for value in found.values()):
        raise DataError(f"{name} is not a number for any belief: {found}; choose another score")
    sign = -1.0 if name in LARGER_IS_BETTER else 1.0
    best = min(found, key=lambda label: np.inf if np.isnan(found[label]) else sign * found[label])
    chosen = fit_on(beliefs[best], np.sort(np.concatenate([parts.train, parts.validation])))
    prediction = chosen.predict(rows(X, parts.test))
    y_test = rows(y, parts.test)
    scores = score_table(prediction, y_test) | {name: float(function(prediction, y_test))}
    return Selection(best, chosen, found, scores)


class LeaveOneOut(NamedTuple):
    """Each row as predicted by a belief conditioned on all the others."""

    mean: np.ndarray
    std: np.ndarray
    log_density: np.ndarray
    """log p(yᵢ | y without yᵢ)."""

    @property
    def total(self) -> float:
        """Σᵢ log p(yᵢ | y without yᵢ), the expected log predictive density of n new rows."""
        return float(np.sum(self.log_density))

    @property
    def standard_error(self) -> float:
        """√n times the standard deviation of the rows' log densities. Vehtari, Gelman & Gabry (2017), eq. 23."""
        return float(np.sqrt(len(self.log_density)) * np.std(self.log_density, ddof=1))


def leave_one_out(belief: Belief, X: Numeric, y: Numeric) -> LeaveOneOut:
    """Predict every row from all the others, with the hyperparameters as they are.

    A belief that has a closed form (a method `leave_one_out(X, y)` that returns the prediction) is asked for
    it; any other is conditioned n times.
    """
    n = count_rows(X, y)
    if n < 2:
        raise DataError(f"leaving one row out needs at least two, found {n}")
    if able(belief, LeavesOneOut):
        return _summary(belief.leave_one_out(X, y), y)
    parts = []
    for i in range(n):
        others = np.delete(np.arange(n), i)
        one = np.asarray([i])
        parts.append(_summary(belief.condition(rows(X, others), rows(y, others)).predict(rows(X, one)), rows(y, one)))
    return LeaveOneOut(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _summary(prediction: Predictive, y: Numeric) -> LeaveOneOut:
    log_density = prediction.log_prob(check_vector(y, "y"))
    return LeaveOneOut(np.asarray(prediction.mean), np.asarray(prediction.std), np.asarray(log_density))


def seeded(options: dict[str, object], seed: int, learn: bool) -> dict[str, Any]:
    """The options of `fit` with the seed; none where nothing is learned."""
    if not learn and options:
        raise DataError(f"learn=False takes no options of fit, found {', '.join(options)}")
    return {"seed": seed, **options} if learn else {}
