"""Active learning against random choices on functions drawn from a Gaussian process in two dimensions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import credo
from benchmarks.harness import _section, _verdict
from credo.decide.acquisition import MutualInformation
from credo.decide.active_learning import learn_actively
from credo.kernels import RBF, Matern52

TITLE = "Active learning"
SEEDS = 10
POOL = 500
BUDGET = 100
NOISE = 0.01
SHOWN = (10, 25, 50, 75, 100)


def problem(kernel: Any, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A pool of uniform points with noisy outcomes, and a grid with the function's values."""
    rng = np.random.default_rng(seed)
    pool = rng.uniform(size=(POOL, 2))
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 20)] * 2), axis=-1).reshape(-1, 2)
    prior = credo.GP(kernel, mean=0.0, noise=1e-8)
    f = np.asarray(prior.sample(np.concatenate([pool, grid]), seed=seed))[0]
    return pool, f[:POOL] + np.sqrt(NOISE) * rng.normal(size=POOL), grid, f[POOL:]


def errors(kernel: Any, seed: int, acquisition: Any, refit: int) -> np.ndarray:
    """The root mean squared error on the grid after each outcome, from the same five at the start."""
    pool, y, grid, f = problem(kernel, seed)
    belief = credo.GP(type(kernel)()) if refit else credo.GP(kernel, mean=0.0, noise=NOISE)

    def error(now: Any) -> float:
        return float(np.sqrt(np.mean((np.asarray(now.predict(grid).mean) - f) ** 2)))

    run = learn_actively(belief, pool, y, BUDGET, acquisition, refit=refit, seed=seed, watch=error)
    return np.asarray([step.watched for step in run.history])


@dataclass(frozen=True)
class Curves:
    """Ways of asking on the same functions: their errors, and how many outcomes reach random's last error."""

    name: str
    kernel: Any
    ways: Mapping[str, Any]
    refit: int = 0
    most: int = 50
    """The bar: the first way needs at most so many outcomes."""
    note: str = ""

    def run(self) -> str:
        """The task's section of the report."""
        found = {
            way: np.stack([errors(self.kernel, seed, kind, self.refit) for seed in range(SEEDS)])
            for way, kind in self.ways.items()
        }
        labels = np.arange(BUDGET - found["random"].shape[1] + 1, BUDGET + 1)
        goal = np.median(found["random"][:, -1])
        rows, needed = [], {}
        for way, values in found.items():
            lower, median, upper = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
            reached = median <= goal
            needed[way] = int(labels[np.argmax(reached)]) if reached.any() else BUDGET + 1
            at = [int(np.searchsorted(labels, n)) for n in SHOWN]
            cells = [f"{median[j]:.3f} ({lower[j]:.3f} to {upper[j]:.3f})" for j in at]
            rows.append([way, *cells, str(needed[way]) if reached.any() else "never"])
        head = ["", *(f"error, {n} outcomes" for n in SHOWN), "to reach random's last"]
        first = needed[next(iter(self.ways))]
        verdict = _verdict(first <= self.most)
        bar = f"Bar: random's {BUDGET}-point error with at most {self.most} points: {verdict} ({first})."
        return _section(self.name, self.note, head, rows, bar)


NOTE = (
    f"Median (quartiles) over {SEEDS} functions of the root mean squared error on a 20 × 20 grid; {POOL} candidates, "
    f"uniform on the unit square, five of them at random to begin with; noise variance {NOISE}, prior variance 1."
)
WAYS = {"active": MutualInformation(), "random": "random"}
TASKS = [
    Curves("active learning, RBF", RBF(0.25), WAYS, note=f"{NOTE} Lengthscale 0.25, known."),
    Curves("active learning, Matérn-5/2", Matern52(0.3), WAYS, note=f"{NOTE} Lengthscale 0.3, known."),
    *(
        Curves(
            f"active learning, hyperparameters learned every {every} outcomes",
            RBF(0.25),
            WAYS,
            refit=every,
            note=f"{NOTE} Mean, variance, lengthscale and noise are learned again every {every} outcomes{which}.",
        )
        for every, which in ((5, ""), (10, ", the default of `learn_actively`"))
    ),
]
