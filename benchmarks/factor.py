"""Factor analysis beside scikit-learn, and with entries missing beside the parameters that made the data."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

import credo
from benchmarks.harness import Task

TITLE = "Factors"


class Made(NamedTuple):
    """Rows of a factor model, some entries hidden, and the belief that made them."""

    x: np.ndarray
    gaps: np.ndarray
    truth: Any


def make(n: int, d: int, l: int, isotropic: bool = False) -> Made:
    rng = np.random.default_rng(0)
    w, noise = rng.normal(size=(d, l)), 0.8 if isotropic else rng.uniform(0.3, 1.5, d)
    truth = (credo.PPCA if isotropic else credo.FactorAnalysis)(mean=rng.normal(size=d), w=w, noise=noise)
    x = truth.sample(n, seed=1)
    return Made(x, np.where(rng.random(x.shape) < 0.2, np.nan, x), truth)


def fit_credo(data: Made) -> float:
    """The log likelihood of a row."""
    return float(credo.fit(credo.FactorAnalysis(5), data.x, report=True).log_evidence) / len(data.x)


def fit_scikit_learn(data: Made) -> float:
    from sklearn.decomposition import FactorAnalysis

    return float(FactorAnalysis(5).fit(data.x).loglike_[-1]) / len(data.x)


def fit_with_gaps(data: Made) -> Any:
    """With the family that made the data."""
    return credo.fit(type(data.truth)(5), data.gaps, missing=True)


def take_truth(data: Made) -> Any:
    return data.truth


def excess(belief: Any, data: Made) -> float:
    """By how many per cent the imputations are worse than those of the parameters that made the data."""
    hidden = np.isnan(data.gaps)
    mine, best = (np.sqrt(np.mean((each.impute(data.gaps) - data.x)[hidden] ** 2)) for each in (belief, data.truth))
    return 100 * float(mine / best - 1)


TASKS = [
    Task(
        "factor analysis, n = 100,000, d = 50, l = 5",
        partial(make, 100_000, 50, 5),
        {"credo": fit_credo, "scikit-learn": fit_scikit_learn},
        {"log p of a row": lambda answer, data: answer},
        least=80.0,
        repeats=3,
        note="scikit-learn stops at its own tolerance, 0.01 nats in all.",
    ),
    *(
        Task(
            f"{name} with 20 % of the entries missing, n = 10,000, d = 30, l = 5",
            partial(make, 10_000, 30, 5, name == "PPCA"),
            {"credo": fit_with_gaps, "truth": take_truth},
            {"imputations worse than the truth's, %": excess},
            exempt=("truth",),
            repeats=3,
            note="The bar: 2 seconds, and 0.5 %.",
        )
        for name in ("FactorAnalysis", "PPCA")
    ),
]
