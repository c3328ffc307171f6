"""Naive Bayes and discriminant analysis beside scikit-learn: one pass over long tables, and what few rows are worth."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Task

TITLE = "Generative classifiers"
N, D, K = 800_000, 20, 3


class Data(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def make(n: int = N, d: int = D) -> Data:
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n + 2000)
    x = rng.normal(size=(n + 2000, d)) + 0.3 * rng.normal(size=(K, d))[y]
    return Data(x[:n], y[:n], x[n:], y[n:])


def few(name: str, n: int) -> Data:
    """n rows of one of scikit-learn's tables, and the others."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    parts = train_test_split(x[:, x.std(0) > 0], y, train_size=n, random_state=0, stratify=y)
    return Data(parts[0], parts[2], parts[1], parts[3])


def credo_fit(data: Data, covariance: str | None) -> Any:
    import credo

    belief = credo.NaiveBayes(["gaussian"] * data.x.shape[1]) if covariance is None else credo.Discriminant(covariance)
    return credo.fit(belief, data.x, data.y)


def sklearn_fit(data: Data, name: str) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import GaussianNB

    models = {
        "GaussianNB": GaussianNB,
        "LDA": LinearDiscriminantAnalysis,
        "QDA": QuadraticDiscriminantAnalysis,
        "Ledoit-Wolf LDA": partial(LinearDiscriminantAnalysis, solver="lsqr", shrinkage="auto"),
    }
    return models[name]().fit(data.x, data.y)


def with_probabilities(data: Data, fit: Any) -> Any:
    """Learned, and asked about all rows that it has learned from."""
    model = fit(data)
    probabilities(model, data.x)
    return model


def probabilities(model: Any, x: np.ndarray) -> np.ndarray:
    if hasattr(model, "predict_proba"):
        return model.predict_proba(x)
    return np.asarray(model.predict(x, draws=0, warn=False).probs)


def log_loss(model: Any, data: Data) -> float:
    probs = probabilities(model, data.x_test)[np.arange(len(data.y_test)), data.y_test.astype(int)]
    return float(-np.mean(np.log(np.maximum(probs, 1e-300))))


PAIRS = {"Naive Bayes": (None, "GaussianNB"), "LDA": ("tied", "LDA"), "QDA": ("full", "QDA")}


def long(name: str, asked: bool) -> Task:
    covariance, peer = PAIRS[name]
    fits = {"credo": partial(credo_fit, covariance=covariance), f"scikit-learn {peer}": partial(sklearn_fit, name=peer)}
    return Task(
        f"{name}, n = {N:,}, d = {D}, {'learned and asked about every row' if asked else 'learned'}",
        make,
        {who: partial(with_probabilities, fit=fit) if asked else fit for who, fit in fits.items()},
        {"held-out log loss": log_loss},
        least=None if asked else 2.0,
        repeats=3,
        note="credo's probabilities are those of Student-t densities, its parameters integrated out." if asked else "",
    )


def short(name: str, n: int) -> Task:
    return Task(
        f"Few rows: {name}, n = {n}",
        partial(few, name, n),
        {
            "credo, between": partial(credo_fit, covariance="between"),
            "scikit-learn Ledoit-Wolf LDA": partial(sklearn_fit, name="Ledoit-Wolf LDA"),
        },
        {"held-out log loss": log_loss},
    )


TASKS = [long(name, asked) for asked in (False, True) for name in PAIRS] + [
    short(name, n) for name, n in (("wine", 30), ("iris", 30), ("breast_cancer", 100), ("digits", 200))
]
