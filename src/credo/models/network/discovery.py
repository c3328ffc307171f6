"""Networks from a table: its columns become variables, their arrows are found and their tables learned.

A column of text, truth values, or few whole numbers is discrete; one of other numbers is linear-Gaussian.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.method import check_using
from credo.models.network import frames
from credo.models.network.edge_posterior import EdgeProbabilities, choose_edge_method
from credo.models.network.equivalence import completed, hamming
from credo.models.network.learning import STRENGTH, TableLearning
from credo.models.network.nodes import LinearGaussian, Names, Node, Table
from credo.models.network.scores import BDeu, Columns, Score
from credo.models.network.structure import StructureProblem, Tabu

if TYPE_CHECKING:
    from credo.models.network.belief import Network

MOST_STATES = 20
"""A column of more distinct whole numbers is one of numbers."""


class EquivalenceClass(NamedTuple):
    """The arrows that all equivalent networks share, and the pairs whose arrow may go either way."""

    arrows: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join([*(f"{a} → {b}" for a, b in self.arrows), *(f"{a} - {b}" for a, b in self.lines)])


def learn_structure(
    frame: Any,
    score: str | Score | None = None,
    *,
    using: Any = None,
    white: Iterable[Sequence[str]] = (),
    black: Iterable[Sequence[str]] = (),
    max_parents: int | None = None,
) -> "Network":
    """A network with arrows that score highest, and tables learned by Bayes' rule.

    Args:
        frame: a data frame, or a dict of columns; no cell may be missing.
        score: "bdeu" or `BDeu(strength)` for categories, "bic" for categories and numbers; None chooses.
        using: `HillClimb()`, `Tabu()` (the default) or `Exact()`.
        white: arrows (parent, child) that must be there.
        black: arrows that must not.
        max_parents: of a variable.
    """
    problem, states = posed(frame, score, white, black, max_parents)
    method = check_using(using or Tabu(), problem, "learn_structure")
    return network_of(method.search(problem).parents(), states, frame, problem.score.score)


def edge_probabilities(
    frame: Any,
    score: str | Score | None = None,
    *,
    using: Any = None,
    white: Iterable[Sequence[str]] = (),
    black: Iterable[Sequence[str]] = (),
    max_parents: int | None = None,
    seed: int = 0,
) -> EdgeProbabilities:
    """P(parent → child | table) of every pair: over all graphs up to 10 variables, else by draws of orders.

    `using` is `EveryGraph()`, `OrderMCMC()` or `Bootstrap()`; the other arguments are those of `learn_structure`.
    """
    check_count(seed, "seed", 0)
    problem, _ = posed(frame, score, white, black, max_parents)
    return check_using(using or choose_edge_method(problem), problem, "edge_probabilities").edges(problem, seed)


def posed(
    frame: Any,
    score: str | Score | None,
    white: Iterable[Sequence[str]],
    black: Iterable[Sequence[str]],
    max_parents: int | None,
) -> tuple[StructureProblem, dict[str, Names]]:
    """The problem of finding arrows, and the states of the discrete columns."""
    if max_parents is not None:
        check_count(max_parents, "max_parents", 0)
    found = frames.columns_of(frame)
    if not found or not len(next(iter(found.values()))):
        raise DataError("the frame is empty; arrows are learned from rows")
    states = {name: each for name, column in found.items() if (each := _states(name, column)) is not None}
    n, names = len(next(iter(found.values()))), tuple(found)
    codes, numbers = np.zeros((n, len(names)), dtype=np.int64), np.zeros((n, len(names)))
    for j, name in enumerate(names):
        if name in states:
            codes[:, j] = frames.codes_of(name, found[name], states[name])
        else:
            numbers[:, j] = frames.numbers_of(name, found[name])
        missing = codes[:, j] == frames.MISSING if name in states else np.isnan(numbers[:, j])
        if missing.any():
            raise DataError(
                f"{name!r} has a missing cell at row {int(np.argmax(missing))}; arrows are learned from complete rows: "
                "drop or fill them (tables are learned from what is there: credo.fit(net, frame))"
            )
        if name not in states and np.ptp(numbers[:, j]) == 0:
            raise DataError(f"{name!r} has the same value in all rows: nothing can be learned of it; drop the column")
    sizes = np.array([len(states.get(name, ())) for name in names])
    columns = Columns(names, codes, sizes, numbers if len(states) < len(names) else None)
    return StructureProblem(columns, score, white, black, max_parents), states


def _states(name: str, column: np.ndarray) -> Names | None:
    """The states of a discrete column in their order; None for numbers."""
    values = [v for v in set(column.tolist()) if not frames.is_missing(v)]
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if numeric and (len(values) > MOST_STATES or any(v != round(v) for v in values)):
        return None
    if len(values) < 2:
        raise DataError(f"{name!r} has one value only: nothing can be learned of it; drop the column")
    ordered = sorted(values) if numeric else sorted(values, key=str)
    return tuple(str(int(v)) if numeric else str(v) for v in ordered)


def network_of(
    parents: dict[str, Names], states: dict[str, Names], frame: Any, score: Score | None = None
) -> "Network":
    """The network of some arrows with its tables learned from a frame, under the prior of the score."""
    from credo.models.network.belief import Network

    nodes: dict[str, Node] = {}
    for name, above in parents.items():
        shape = tuple(len(states[p]) for p in above if p in states)
        if name in states:
            k = len(states[name])
            nodes[name] = Table(states[name], above, np.full((*shape, k), 1 / k))
        else:
            numbers = sum(p not in states for p in above)
            nodes[name] = LinearGaussian(above, np.zeros(shape), np.zeros((*shape, numbers)), np.ones(shape))
    strength = score.strength if isinstance(score, BDeu) else STRENGTH
    learning, rows = TableLearning.of(Network(nodes)).prepare(frame, strength=strength)
    return learning.condition_on(rows)


def adjacency_of(network: "Network", names: Names) -> Bool[np.ndarray, "d d"]:
    """Who is a parent of whom, row → column."""
    out = np.zeros((len(names), len(names)), dtype=bool)
    for parent, child in network.edges:
        out[names.index(parent), names.index(child)] = True
    return out


def equivalence_class(network: "Network") -> EquivalenceClass:
    """The completed graph by name."""
    names = network.names
    graph = completed(adjacency_of(network, names))
    arrows = [(names[i], names[j]) for i, j in np.argwhere(graph & ~graph.T)]
    lines = [(names[i], names[j]) for i, j in np.argwhere(np.triu(graph & graph.T))]
    return EquivalenceClass(tuple(arrows), tuple(lines))


def distance(a: "Network", b: "Network") -> int:
    """The structural Hamming distance of the equivalence classes of two networks of the same variables."""
    if set(a.names) != set(b.names):
        raise DataError(f"networks of the same variables have a distance, found {sorted(set(a.names) ^ set(b.names))}")
    return hamming(completed(adjacency_of(a, a.names)), completed(adjacency_of(b, a.names)))
