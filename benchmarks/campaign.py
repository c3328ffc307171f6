"""What a campaign compiles on the way, and how long a suggestion takes; against peers see `benchmarks.regret`."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Count, _section, _verdict, compilations
from benchmarks.objectives import BRANIN, HARTMANN, Objective
from credo.decide import Campaign, Space

TITLE = "Suggestions of a campaign"
STEPS = 100


def loop(objective: Objective, seed: int = 0) -> list[float]:
    """The seconds of each ask and tell of a campaign in memory: ten points of a design, and a hundred suggestions."""
    low, high = objective.bounds
    campaign = Campaign(Space.box(low, high), "minimize", initial=10, seed=seed)
    seconds = []
    for _ in range(10 + STEPS):
        start = time.perf_counter()
        trial = campaign.ask()
        row = np.asarray([list(trial.point.values())])
        campaign.tell(trial, float(objective.function(row)[0]))
        seconds.append(time.perf_counter() - start)
    return seconds[10:]


def compiled() -> int:
    with compilations() as found:
        loop(HARTMANN)
    return len(found)


@dataclass(frozen=True)
class Suggestions:
    """Seconds of a suggestion: fit and maximize, everything that was told on record."""

    name: str
    objective: Any
    most: float
    """The bar: the 95th percentile, once compiled."""

    def run(self) -> str:
        """The task's section of the report."""
        first = loop(self.objective)
        again = np.concatenate([loop(self.objective, seed) for seed in (1, 2, 3)])
        p95 = float(np.quantile(again, 0.95))
        row = ["credo", f"{1e3 * max(first):.0f} ms", f"{1e3 * np.median(again):.0f} ms", f"{1e3 * p95:.0f} ms"]
        bar = f"Bar: p95 below {1e3 * self.most:.0f} ms: {_verdict(p95 < self.most)}."
        return _section(self.name, "", ["", "slowest, compiling", "median", "p95"], [row], bar)


TASKS = [
    Count(f"Compilations of {STEPS} suggestions, Hartmann-6", compiled, most=6),
    Suggestions("Branin", BRANIN, 0.1),
    Suggestions("Hartmann-6", HARTMANN, 0.1),
]
