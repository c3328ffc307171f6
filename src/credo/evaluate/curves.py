"""Curves: what more data would bring, and of what the error of a method is made."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from credo.core.arrays import Numeric
from credo.core.belief import Belief
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.evaluate.scores import Score, find_score
from credo.evaluate.validation import count_rows, fitted, holdout, rows, seeded

AnyMean = np.ndarray | np.floating


class LearningCurve(NamedTuple):
    """The score on test rows after learning from the first `sizes` training rows."""

    sizes: np.ndarray
    scores: np.ndarray
    """Shape (repeats, sizes)."""
    name: str

    @property
    def mean(self) -> np.ndarray:
        """The mean over repeats, for each size."""
        return self.scores.mean(axis=0)

    @property
    def standard_error(self) -> np.ndarray:
        """std/√repeats, for each size; zero with one repeat."""
        repeats = len(self.scores)
        return self.scores.std(axis=0, ddof=min(1, repeats - 1)) / np.sqrt(repeats)


def learning_curve(
    belief: Belief,
    X: Numeric,
    y: Numeric,
    sizes: Sequence[int] | None = None,
    repeats: int = 5,
    *,
    score: str | Score = "nlpd",
    test: float = 0.2,
    learn: bool = True,
    seed: int = 0,
    **options: Any,
) -> LearningCurve:
    """Learn from more and more rows and score on the same test rows, for several random splits.

    Args:
        belief: what is learned, from scratch for every size.
        X: inputs.
        y: outcomes.
        sizes: numbers of training rows; None takes six from 10 (or fewer) to all, evenly spaced in their logarithm.
        repeats: how many splits into training and test rows.
        score: the name of a score or a function of (prediction, y).
        test: the share of test rows.
        learn: whether hyperparameters are learned at every size or stay as they are.
        seed: of the splits.
        options: what `credo.fit` takes.
    """
    name, function = find_score(score)
    n = count_rows(X, y)
    check_count(repeats, "repeats")
    seeded(options, seed, learn)
    splits = [holdout(n, test, 0.0, seed=seed + r) for r in range(repeats)]
    available = len(splits[0].train)
    if sizes is None:
        wanted = np.unique(np.geomspace(min(10, available), available, 6).round().astype(int))
    else:
        wanted = np.asarray(sizes)
        if wanted.ndim != 1 or wanted.size == 0 or np.any((wanted < 1) | (wanted > available) | (wanted % 1 != 0)):
            raise DataError(
                f"sizes must be whole numbers from 1 to the {available} training rows that test={test} leaves, "
                f"found {list(sizes)}"
            )
    scores = np.empty((repeats, len(wanted)))
    for r, part in enumerate(splits):
        order = np.random.default_rng(seed + r).permutation(part.train)
        settings = seeded(options, seed + r, learn)
        for j, size in enumerate(wanted):
            index = order[: int(size)]
            posterior = fitted(belief, rows(X, index), rows(y, index), learn, **settings)
            scores[r, j] = float(function(posterior.predict(rows(X, part.test)), rows(y, part.test)))
    return LearningCurve(wanted, scores, name)


class BiasVariance(NamedTuple):
    """E(y - f̂(x))² = bias² + variance + noise, averaged over the test inputs."""

    bias2: float
    """(E[f̂] - f)²: what the method gets wrong however often it is repeated."""
    variance: float
    """Var[f̂]: how much it depends on the sample it learned from."""
    noise: float
    """σ²: what nobody can predict."""
    test_error: float
    """The mean squared error on fresh outcomes, measured, not added up."""
    standard_error: dict[str, float]
    """Monte-Carlo standard errors of bias2, variance and test_error."""

    @property
    def total(self) -> float:
        """bias² + variance + noise."""
        return self.bias2 + self.variance + self.noise


def bias_variance(
    fit_predict: Callable[[np.ndarray, np.ndarray, np.ndarray], Numeric],
    truth: Callable[[np.ndarray], Numeric],
    inputs: Callable[[np.random.Generator], np.ndarray] | np.ndarray,
    noise: float,
    test_inputs: np.ndarray,
    repeats: int = 100,
    *,
    seed: int = 0,
) -> BiasVariance:
    """Where the error of a method comes from, when the truth is known: by simulation.

    bias² is estimated without bias, as (mean f̂ - f)² - s²/R with s² the variance over R repeats; standard
    errors are jackknife ones. Geman, Bienenstock & Doursat (1992); Hastie, Tibshirani & Friedman (2009), eq. 7.9.

    Args:
        fit_predict: (x, y, x_test) → predictions at x_test, e.g.
            `lambda x, y, q: belief.condition(x, y).predict(q).mean`.
        truth: f, from inputs (n, d) to (n,).
        inputs: a table of inputs that stays the same, or a function that draws one from a NumPy generator.
        noise: the variance of the outcomes around f.
        test_inputs: where the error is measured, shape (m, d).
        repeats: how many training samples.
        seed: of the samples.
    """
    check_count(repeats, "repeats", least=3)
    if noise < 0:
        raise DataError(f"noise must be a variance ≥ 0, found {noise}")
    sd = np.sqrt(noise)
    rng = np.random.default_rng(seed)
    f = np.asarray(truth(test_inputs), float)
    off = np.empty((repeats, len(f)))
    errors = np.empty(repeats)
    for r in range(repeats):
        x = inputs(rng) if callable(inputs) else inputs
        y = np.asarray(truth(x), float) + sd * rng.normal(size=len(x))
        guess = np.asarray(fit_predict(x, y, test_inputs), float)
        if guess.shape != f.shape:
            raise DataError(f"fit_predict must return one number per test input {f.shape}, found {guess.shape}")
        off[r] = guess - f
        errors[r] = np.mean((f + sd * rng.normal(size=len(f)) - guess) ** 2)
    R = repeats
    bias2, variance = _decompose(off.mean(axis=0), (off**2).mean(axis=0), R)
    # Each sample left out in turn: the moments of the others follow from the sums.
    means = (R * off.mean(axis=0) - off) / (R - 1)
    squares = (R * (off**2).mean(axis=0) - off**2) / (R - 1)
    bias2_without, variance_without = _decompose(means, squares, R - 1)

    def jackknife(values: np.ndarray | np.floating) -> float:
        return float(np.sqrt((R - 1) / R * np.sum((values - values.mean()) ** 2)))

    return BiasVariance(
        bias2=float(bias2),
        variance=float(variance),
        noise=float(noise),
        test_error=float(errors.mean()),
        standard_error={
            "bias2": jackknife(bias2_without),
            "variance": jackknife(variance_without),
            "test_error": float(errors.std(ddof=1) / np.sqrt(R)),
        },
    )


def _decompose(mean: np.ndarray, square: np.ndarray, n: int) -> tuple[AnyMean, AnyMean]:
    """bias² and variance from the first two moments of f̂ - f over n samples, averaged over the last axis."""
    variance = (square - mean**2) * n / (n - 1)
    bias2 = mean**2 - variance / n
    return bias2.mean(axis=-1), variance.mean(axis=-1)
