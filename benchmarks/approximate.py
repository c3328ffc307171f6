"""Laplace, variational inference and SGLD on logistic regression, beside what they replace; and a fresh process."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from benchmarks.densities import logistic
from benchmarks.harness import Call, Memory, Rate, Task, in_fresh_process
from credo.core.special import softplus
from credo.infer import NUTS, SGLD, Variational
from credo.infer.target import ParameterSpace, Target

TITLE = "Approximate inference"
MANY, WIDE = 80_000, 50
ROWS, COLUMNS, BATCH = 1_000_000, 20, 100


class Data(NamedTuple):
    x: np.ndarray
    y: np.ndarray


def make(n: int, d: int) -> Data:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(n, d)), 0.5 * rng.normal(size=d)
    return Data(x, (rng.uniform(size=n) < 1 / (1 + np.exp(-x @ w))).astype(float))


# -- Laplace beside a point --------------------------------------------------------------------------------------------


def credo_laplace(data: Data) -> np.ndarray:
    """A posterior: mode, covariance and evidence."""
    import credo

    return np.asarray(credo.Logistic().condition(data.x, data.y).coefficients().mean)


def sklearn_point(data: Data) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(data.x, data.y).coef_[0]


# -- variational beside NUTS -------------------------------------------------------------------------------------------


def target(data: Data) -> Target:
    return Target(ParameterSpace.of(np.zeros(data.x.shape[1])), logistic, (jnp.asarray(data.x), jnp.asarray(data.y)))


def variational(data: Data) -> Any:
    return Variational("fullrank").run(target(data))


def nuts(data: Data) -> Any:
    return NUTS().run(target(data))


@cache
def reference() -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations by many draws: NUTS with defaults has a Monte Carlo error of 2 % itself."""
    u = np.asarray(NUTS(draws=50_000).run(target(make(1000, 25)), 1).kept())
    return u.mean(0), u.std(0)


def mean_error(answer: Any, _: Data) -> float:
    """The largest error of a mean, in standard deviations."""
    mean, std = reference()
    return float(np.abs((np.asarray(answer.mean) - mean) / std).max())


def std_error(answer: Any, _: Data) -> float:
    """The largest relative error of a standard deviation; of a normal law its own, not that of draws from it."""
    normal = hasattr(answer, "covariance")
    std = np.sqrt(np.diagonal(answer.covariance)) if normal else np.asarray(answer.std)
    return float(np.abs(std / reference()[1] - 1).max())


# -- SGLD beside a loop in NumPy ---------------------------------------------------------------------------------------


@cache
def stream() -> Data:
    return make(ROWS, COLUMNS)


def log_prior(w: Any) -> Any:
    return -0.5 * jnp.sum(jnp.square(w))


def log_likelihood(w: Any, x: Any, y: Any) -> Any:
    eta = x @ w
    return y * eta - softplus(eta)


def credo_sgld(seed: int) -> float:
    """One pass over the rows; the number of steps."""
    data = stream()
    SGLD(1e-6, batch=BATCH, draws=1000).run_rows(log_prior, log_likelihood, np.zeros(COLUMNS), tuple(data), seed=seed)
    return ROWS / BATCH


def numpy_sgld(seed: int) -> float:
    """The same steps as a careful user would write them: rows shuffled once, no allocation that can be avoided."""
    rng, (x, y) = np.random.default_rng(seed), stream()
    order, w, kept = rng.permutation(ROWS), np.zeros(COLUMNS), []
    for t in range(ROWS // BATCH):
        rows = order[t * BATCH : (t + 1) * BATCH]
        part = x[rows]
        step = 1e-6 * (1 + t / 1000.0) ** -0.55
        gradient = ROWS / BATCH * (part.T @ (y[rows] - 1 / (1 + np.exp(-part @ w)))) - w
        w = w + step * gradient + np.sqrt(2 * step) * rng.normal(size=COLUMNS)
        if t % 10 == 0:
            kept.append(w)
    return ROWS / BATCH


def sgld_from_disk() -> None:
    """One pass over 10⁶ rows of 50 numbers in a file (400 MB), mapped."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.npy"
        table = np.lib.format.open_memmap(file, mode="w+", dtype=float, shape=(ROWS, 50))
        rng = np.random.default_rng(0)
        for i in range(0, ROWS, 50_000):
            table[i : i + 50_000] = rng.normal(size=(50_000, 50))
        y = (rng.uniform(size=ROWS) < 0.5).astype(float)
        del table
        x = np.load(file, mmap_mode="r")
        SGLD(1e-7, batch=BATCH).run_rows(log_prior, log_likelihood, np.zeros(50), (x, y))


# -- a fresh process ---------------------------------------------------------------------------------------------------


def fresh(name: str, again: bool) -> float:
    """Seconds of NUTS in a process of its own, imports apart; `again`: of the second run in it."""
    return in_fresh_process(
        "import time, credo.infer.diagnostics, blackjax.diagnostics; from benchmarks.mcmc import target, NUTS\n"
        f"t = target({name!r})\n"
        "def run(seed):\n"
        "    start = time.perf_counter(); NUTS().run(t, seed).verdict; return time.perf_counter() - start\n"
        f"first = run(0); print(run(1) if {again} else first)"
    )


TASKS = [
    Task(
        "Logistic regression, n = 80 000, d = 50: Laplace beside a point",
        partial(make, MANY, WIDE),
        {"credo, Laplace": credo_laplace, "scikit-learn, LogisticRegression": sklearn_point},
        {"last weight": lambda answer, _: float(np.ravel(answer)[-1])},
        most={"scikit-learn, LogisticRegression": 1.5},
    ),
    Task(
        "Full-rank variational logistic regression, n = 1000, d = 25",
        partial(make, 1000, 25),
        {"credo, Variational": variational, "credo, NUTS": nuts},
        {"mean, errors in sd": mean_error, "sd, relative errors": std_error},
        repeats=3,
        least=5.0,
        note="The largest errors against 200 000 draws.",
    ),
    Rate(
        "SGLD on 10⁶ rows, one pass in minibatches of 100",
        {"credo": credo_sgld, "NumPy loop": numpy_sgld},
        float,
        "steps",
        least=1.5,
        repeats=15,
    ),
    Memory("SGLD on 10⁶ rows of 50 numbers from disk (400 MB)", "benchmarks.approximate:sgld_from_disk", most=1000.0),
    *(
        Call(
            f"NUTS in a fresh process with a warm cache, {name}",
            {"first run": partial(fresh, name, False), "second run": partial(fresh, name, True)},
            note="Bar: the first takes at most 3 s longer than the second. Imports are not counted.",
        )
        for name in ("eight schools", "logistic")
    ),
]
