"""Networks from a table: its columns become variables, their arrows are found and their tables learned.

A column of text, truth values, or few whole numbers is discrete; one of other numbers is linear-Gaussian.

Where cells are missing, arrows and what the gaps hold are found in turns (structural EM): the tables of the arrows so
far are learned from all rows, each gap is filled with draws from p(missing | the rest of its row), and the score that
is expected over these draws is climbed anew, until the arrows stay. Friedman (1997), "Learning belief networks in the
presence of missing values and hidden variables".
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.method import check_using
from credo.infer.em import EM
from credo.models.network import frames
from credo.models.network.counting import Rows, filled, rows_of
from credo.models.network.edge_posterior import EdgeProbabilities, choose_edge_method
from credo.models.network.equivalence import completed, hamming
from credo.models.network.learning import STRENGTH, TableLearning
from credo.models.network.nodes import LinearGaussian, Names, Node, Table
from credo.models.network.scores import BDeu, Columns, Score
from credo.models.network.structure import StructureProblem, StructureSearch, Tabu, as_mask

if TYPE_CHECKING:
    from credo.models.network.belief import Network

MOST_STATES = 20
"""A column of more distinct whole numbers is one of numbers."""
FILLINGS = 10
"""Draws of what a row with gaps holds, each of them a tenth of a row."""
MOST_TURNS, STEPS = 10, 10
"""Turns of structural EM, and steps of EM in each; arrows that come back are the end, too."""
ENOUGH = 20
"""With so many complete rows for each variable the turns begin with their arrows, else without any."""


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
        frame: a data frame, or a dict of columns; cells may be missing.
        score: "bdeu" or `BDeu(strength)` for categories, "bic" for categories and numbers; None chooses.
        using: `HillClimb()`, `Tabu()` (the default) or `Exact()`.
        white: arrows (parent, child) that must be there.
        black: arrows that must not.
        max_parents: of a variable.
    """
    problem, states, coded = posed(frame, score, white, black, max_parents)
    method = check_using(using or Tabu(), problem, "learn_structure")
    found = method.search(without_gaps(problem, states, coded, method))
    return network_of(found.parents(), states, coded, problem.score.score)


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
    problem, states, coded = posed(frame, score, white, black, max_parents)
    method = check_using(using or choose_edge_method(problem), problem, "edge_probabilities")
    return method.edges(without_gaps(problem, states, coded, Tabu()), seed)


def posed(
    frame: Any,
    score: str | Score | None,
    white: Iterable[Sequence[str]],
    black: Iterable[Sequence[str]],
    max_parents: int | None,
) -> tuple[StructureProblem, dict[str, Names], dict[str, np.ndarray]]:
    """The problem of finding arrows, the states of the discrete columns, and all columns coded."""
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
        if name not in states and not np.nanstd(numbers[:, j]) > 0:
            raise DataError(f"{name!r} has the same value in all rows: nothing can be learned of it; drop the column")
    sizes = np.array([len(states.get(name, ())) for name in names])
    coded = {name: codes[:, j] if name in states else numbers[:, j] for j, name in enumerate(names)}
    return StructureProblem(_columns(coded, sizes), score, white, black, max_parents), states, coded


def _columns(coded: dict[str, np.ndarray], sizes: np.ndarray, weights: np.ndarray | None = None) -> Columns:
    """The columns as scores take them; gaps are filled with anything, until it is known with what."""
    codes = [np.maximum(coded[n], 0) if k else np.zeros(len(coded[n])) for n, k in zip(coded, sizes, strict=True)]
    numbers = [np.zeros(len(coded[n])) if k else np.nan_to_num(coded[n]) for n, k in zip(coded, sizes, strict=True)]
    return Columns(
        tuple(coded), np.stack(codes, axis=1).astype(int), sizes, None if sizes.all() else np.stack(numbers, 1), weights
    )


def without_gaps(
    problem: StructureProblem, states: dict[str, Names], coded: dict[str, np.ndarray], search: StructureSearch
) -> StructureProblem:
    """The problem of rows whose gaps are filled with draws, by structural EM."""
    absent = [coded[n] == frames.MISSING if n in states else np.isnan(coded[n]) for n in coded]
    gaps = np.any(absent, axis=0)
    if not gaps.any():
        return problem
    sizes, before = problem.columns.cardinalities, set[bytes]()
    again = np.concatenate([np.flatnonzero(~gaps), np.repeat(np.flatnonzero(gaps), FILLINGS)])
    weights = np.where(gaps, 1 / FILLINGS, 1.0)[again]
    found = problem.found([as_mask(problem.required[:, j]) for j in range(problem.d)])
    if (~gaps).sum() >= ENOUGH * problem.d:
        whole = _columns({name: column[~gaps] for name, column in coded.items()}, sizes)
        found = search.search(problem.with_columns(whole))
    for _ in range(MOST_TURNS):
        told, rows = _to_learn(found.parents(), states, coded, problem.score.score)
        tables: Any = EM(max_steps=STEPS).climb(told, rows).belief
        drawn = filled(tables.now, {name: column[again] for name, column in coded.items()}, np.random.default_rng(0))
        problem = problem.with_columns(_columns(drawn, sizes, weights))
        before.add(found.adjacency.tobytes())
        found = search.search(problem)
        if found.adjacency.tobytes() in before:
            break
    return problem


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
    parents: dict[str, Names], states: dict[str, Names], coded: dict[str, np.ndarray], score: Score | None = None
) -> "Network":
    """The network of some arrows with its tables learned from columns, under the prior of the score."""
    told, rows = _to_learn(parents, states, coded, score)
    return told.condition_on(rows)


def _to_learn(
    parents: dict[str, Names], states: dict[str, Names], coded: dict[str, np.ndarray], score: Score | None
) -> tuple[TableLearning, Rows]:
    """The network of some arrows as one whose tables are to be learned, and the rows."""
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
    blank = Network(nodes)
    rows = rows_of(blank, coded)
    return TableLearning.of(blank).under(rows, strength), rows


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
