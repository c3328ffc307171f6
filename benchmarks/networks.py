"""Bayesian networks beside pyAgrum (C++): all marginals, 10⁵ rows of evidence; the networks are in $CREDO_DATA/bif.

The first call of credo triangulates; later ones of the same structure do not, while pyAgrum builds its tree each time.
The loop over rows is timed for some rows of pyAgrum's and multiplied.
"""

import os
import time
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Call, Task
from credo import Network

TITLE = "Bayesian networks"
DATA = Path(os.environ.get("CREDO_DATA", Path(__file__).parents[2] / "shared" / "data")) / "bif"
ROWS, LOOPED = 100_000, 100
NETWORKS = ("asia", "sachs", "child", "alarm", "insurance", "win95pts", "pigs", "water")


class Both(NamedTuple):
    """A network in either library."""

    ours: Network
    theirs: Any


@cache
def make(name: str) -> Both:
    """The peer's network is built from our tables: it does not read every file."""
    import pyagrum

    net = Network.read(DATA / f"{name}.bif")
    theirs = pyagrum.BayesNet()
    for variable in net.names:
        theirs.add(pyagrum.LabelizedVariable(variable, variable, list(net.states[variable])))
    for parent, child in net.edges:
        theirs.addArc(parent, child)
    for variable, law in net.nodes.items():
        scope, wanted = [*law.parents, variable], list(theirs.cpt(variable).names)[::-1]
        numbers = np.asarray(law.values).transpose([scope.index(each) for each in wanted])
        theirs.cpt(variable).fillWith(numbers.ravel().tolist())
    return Both(net, theirs)


def marginals_credo(data: Both) -> np.ndarray:
    return np.concatenate([list(law.values()) for law in data.ours.marginals().values()])


def marginals_pyagrum(data: Both) -> np.ndarray:
    import pyagrum

    engine = pyagrum.LazyPropagation(data.theirs)
    engine.makeInference()
    return np.concatenate([engine.posterior(name).toarray() for name in data.ours.names])


def off(answer: np.ndarray, data: Both) -> float:
    return float(np.abs(answer - marginals_pyagrum(data)).max())


@cache
def rows_of(name: str) -> tuple[dict[str, np.ndarray], str]:
    """Draws of all leaves, and a variable without parents to ask about."""
    net = make(name).ours
    inner = {parent for parent, _ in net.edges}
    drawn = net.sample(ROWS, seed=1)
    query = next(n for n in net.names if not net.parents[n] and n in inner)
    return {n: drawn[n] for n in net.names if n not in inner}, query


def frame_credo(name: str) -> float:
    frame, query = rows_of(name)
    start = time.perf_counter()
    make(name).ours.predict(query, frame)
    return time.perf_counter() - start


def loop_pyagrum(name: str) -> float:
    import pyagrum

    frame, query = rows_of(name)
    engine = pyagrum.LazyPropagation(make(name).theirs)
    start = time.perf_counter()
    for i in range(LOOPED):
        engine.setEvidence({n: str(column[i]) for n, column in frame.items()})
        engine.setTargets({query})
        engine.makeInference()
        engine.posterior(query).toarray()
    return (time.perf_counter() - start) * ROWS / LOOPED


def tasks() -> Iterator[Task | Call]:
    for name in NETWORKS:
        yield Task(
            f"all marginals of {name}",
            partial(make, name),
            {"credo": marginals_credo, "pyAgrum": marginals_pyagrum},
            {"off by": off},
            most={"pyAgrum": 1.5},
        )
    for name, least in (("alarm", 200.0), ("insurance", 20.0), ("child", 20.0), ("win95pts", 200.0)):
        yield Call(
            f"{ROWS:,} rows of evidence on all leaves of {name}",
            {"credo": partial(frame_credo, name), "pyAgrum, a loop": partial(loop_pyagrum, name)},
            least=least,
        )


TASKS = list(tasks())
