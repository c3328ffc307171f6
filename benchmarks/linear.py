"""Bayesian linear regression: learning by evidence, conditioning on chunks, streaming in bounded memory."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from benchmarks.harness import Memory, Task

TITLE = "Bayesian linear regression"
CHUNK = 65_536


class Data(NamedTuple):
    """Training and held-out rows; 20 of the 100 features matter, and the noise has variance one."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def make(n: int = 100_000, d: int = 100, held_out: int = 20_000) -> Data:
    rng = np.random.default_rng(0)
    w = np.where(np.arange(d) < 20, rng.normal(size=d), 0.0)
    x = rng.normal(size=(n + held_out, d))
    y = 1.0 + x @ w + rng.normal(size=n + held_out)
    return Data(x[:n], y[:n], x[n:], y[n:])


def credo_fit(prior: str) -> Any:
    def run(data: Data) -> Any:
        import credo
        from credo.models.linear import ARD, Isotropic

        return credo.fit(credo.Linear(prior=ARD() if prior == "ard" else Isotropic()), data.x, data.y)

    return run


def ridge(data: Data) -> Any:
    from sklearn.linear_model import BayesianRidge

    return BayesianRidge().fit(data.x, data.y)


def ard(**options: Any) -> Any:
    def run(data: Data) -> Any:
        from sklearn.linear_model import ARDRegression

        return ARDRegression(**options).fit(data.x, data.y)

    return run


def log_density(model: Any, data: Data) -> float:
    """Mean log predictive density of the held-out rows."""
    if hasattr(model, "fit"):
        mean, std = model.predict(data.x_test, return_std=True)
        return float(stats.norm.logpdf(data.y_test, mean, std).mean())
    return float(np.mean(model.predict(data.x_test).log_prob(data.y_test)))


def chunks(data: Data) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, len(data.y), CHUNK):
        rows = slice(start, start + CHUNK)
        yield data.x[rows], data.y[rows]


def condition_chunks(data: Data) -> Any:
    import credo

    return credo.Linear().condition(chunks(data))


def gram(data: Data) -> np.ndarray:
    return data.x.T @ data.x


def stream() -> None:
    """Learns from ten million rows of 100 features (8 GB) that exist one chunk at a time."""
    import credo

    data = make(CHUNK, held_out=0)
    credo.fit(credo.Linear(), ((data.x, data.y) for _ in range(10_000_000 // CHUNK)))


TASKS = [
    Task(
        "Evidence maximization, n = 100 000, d = 100, one precision",
        make,
        {"credo": credo_fit("ridge"), "scikit-learn BayesianRidge": ridge},
        {"held-out log density": log_density},
        least=5.0,
    ),
    Task(
        "Evidence maximization, n = 100 000, d = 100, a precision a feature (ARD)",
        make,
        {
            "credo": credo_fit("ard"),
            "scikit-learn ARDRegression": ard(),
            "scikit-learn ARDRegression, threshold_lambda=1e12": ard(threshold_lambda=1e12),
        },
        {"held-out log density": log_density},
        least=5.0,
        note=(
            "What is switched off differs, and on data with 20 strong features and 80 of none switching off more "
            "pays: ARDRegression drops precisions above 10 000, credo what raises the log evidence by less than 2, "
            "the last row nothing. credo's 2 was settled with these very rows in sight, so their density does not "
            "test it; on 12 other draws of the same kind credo minus ARDRegression was -0.000006 ± 0.000006."
        ),
    ),
    Task(
        "Conditioning on n = 1 000 000, d = 100 in chunks",
        lambda: make(1_000_000, held_out=0),
        {"credo, chunks of 65 536 rows": condition_chunks, "NumPy, X.T @ X at once": gram},
        least=0.5,
        note="What the posterior costs beside the one product that it cannot do without.",
    ),
    Memory(
        "Learning from n = 10 000 000, d = 100 in a stream of chunks",
        "benchmarks.linear:stream",
        most=1500.0,
        note="8 GB of data, 52 MB at a time.",
    ),
]
