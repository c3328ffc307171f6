"""Arrows from 5,000 rows beside pgmpy's hill climbing, over five seeds; the networks are in $CREDO_DATA/bif.

The distance is the structural Hamming distance of the equivalence classes to those of the network that made the rows.
"""

import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Task
from credo import Network
from credo.models.network import HillClimb
from credo.models.network.equivalence import completed, hamming

TITLE = "Arrows of Bayesian networks"
DATA = Path(os.environ.get("CREDO_DATA", Path(__file__).parents[2] / "shared" / "data")) / "bif"
ROWS, SEEDS = 5000, 5


class Made(NamedTuple):
    """A network, and tables drawn from it."""

    truth: Network
    frames: list[Any]


def make(name: str) -> Made:
    import pandas as pd

    truth = Network.read(DATA / f"{name}.bif")
    return Made(truth, [pd.DataFrame(truth.sample(ROWS, seed=seed), dtype=object) for seed in range(SEEDS)])


def fit_credo(data: Made, using: Any = None) -> list[list[tuple[str, str]]]:
    """With the tables, by Bayes' rule."""
    return [Network.learn_structure(frame, using=using).edges for frame in data.frames]


def fit_pgmpy(data: Made, score: str) -> list[list[tuple[str, str]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.estimators import HillClimbSearch

        searches = [HillClimbSearch(frame) for frame in data.frames]
        return [list(each.estimate(scoring_method=score, show_progress=False).edges()) for each in searches]


def distance(answer: list[list[tuple[str, str]]], data: Made) -> float:
    """The median over the seeds."""
    names = data.truth.names
    wanted = completed(_adjacency(data.truth.edges, names))
    return float(np.median([hamming(wanted, completed(_adjacency(edges, names))) for edges in answer]))


def _adjacency(edges: list[tuple[str, str]], names: tuple[str, ...]) -> np.ndarray:
    out = np.zeros((len(names), len(names)), dtype=bool)
    for parent, child in edges:
        out[names.index(parent), names.index(child)] = True
    return out


def tasks() -> Iterator[Task]:
    for name in ("asia", "sachs", "alarm"):
        yield Task(
            f"arrows of {name} from {ROWS:,} rows, {SEEDS} tables",
            partial(make, name),
            {
                "credo": fit_credo,
                "credo, HillClimb": partial(fit_credo, using=HillClimb()),
                "pgmpy, BDeu": partial(fit_pgmpy, score="bdeu"),
                "pgmpy, BIC": partial(fit_pgmpy, score="bic-d"),
            },
            {"distance": distance},
            least=25.0,
            exempt=("credo, HillClimb",),
            repeats=0 if name == "alarm" else 2,
            note="The bar: at least 25 times as fast, and a distance that is no larger.",
        )


TASKS = list(tasks())
