"""The report of `credo network --learn`: the arrows with their probabilities, the variables, what to ask next."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from credo.app.plots.arrows import arrows
from credo.app.plots.style import data_uri
from credo.app.report.page import Cell, Code, Figure, Page, Row, Section, Table, Text, Tiles
from credo.app.table.read import Table as TableRead
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.text import counted
from credo.models.network import LinearGaussian, Network
from credo.models.network.edge_posterior import EdgeProbabilities
from credo.models.network.frames import is_missing

MOST_STATES = 40
"""A column of text with more different entries is an identifier or free text: it is left out."""


class LearnedNetwork(NamedTuple):
    """A network from a table, with how probable its arrows are."""

    network: Network
    probabilities: EdgeProbabilities
    rows: int
    complete: int
    """Rows without missing cells."""
    notes: tuple[str, ...]


def learn_network(
    table: TableRead, ignore: tuple[str, ...] = (), score: str | None = None, seed: int = 0
) -> LearnedNetwork:
    """Arrows, their probabilities, and tables, from all rows."""
    frame, notes = _columns(table, ignore)
    gaps = np.any([[is_missing(v) for v in column.tolist()] for column in frame.values()], axis=0)
    if gaps.any():
        notes.append(
            f"{counted(int(gaps.sum()), 'row')} with missing cells: these were filled by what the network says of them "
            "(structural EM), which takes the gaps for accidental"
        )
    net = Network.learn_structure(frame, score)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", NotConvergedWarning)
        edges = Network.edge_probabilities(frame, score, seed=seed)
    notes += [str(each.message) for each in said]
    return LearnedNetwork(net, edges, len(gaps), int((~gaps).sum()), tuple(notes))


def _columns(table: TableRead, ignore: tuple[str, ...]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Text and few whole numbers as states, other numbers as they are; identifiers and constants left out."""
    unknown = [name for name in ignore if name not in table.columns]
    if unknown:
        raise DataError(f"the table has no column {unknown[0]!r}; it has {', '.join(table.columns[:12])}")
    found: dict[str, np.ndarray] = {}
    notes = list(table.notes)
    for name in table.columns:
        if name in ignore:
            continue
        cells = table.cells(name)
        numbers = cells.numbers
        if not numbers.unread.any() and not cells.is_flag:
            column = numbers.values
            distinct = pd.unique(column[~np.isnan(column)])
        else:
            column = cells.text.to_numpy(dtype=object).copy()
            column[cells.missing] = None
            distinct = pd.unique(column[~cells.missing])
            if len(distinct) > MOST_STATES:
                notes.append(f"{name} has {len(distinct)} different entries and is left out")
                continue
        if len(distinct) < 2:
            notes.append(f"{name} has the same value in all rows and is left out")
            continue
        found[name] = column
    if len(found) < 2:
        raise DataError("at least two columns with different values are needed; is the table read as it should be?")
    return found, notes


def network_page(learned: LearnedNetwork, title: str, command: str = "") -> Page:
    """The report."""
    net = learned.network
    return Page(title, (_headline(learned), _arrows(learned), _variables(net), _next(net)), command)


def _headline(learned: LearnedNetwork) -> Section:
    net = learned.network
    tiles = (
        ("variables", f"{len(net.names)}", ""),
        ("arrows", f"{len(net.edges)}", f"{len(net.equivalence_class().arrows)} with a direction that the data decide"),
        ("rows", f"{learned.rows:,}", "" if learned.complete == learned.rows else f"{learned.complete:,} complete"),
    )
    lead = (
        "A Bayesian network that was learned from the table: which columns depend directly on which others. An arrow "
        "is a dependence that no other column explains; what causes what the data alone rarely decide.",
    )
    blocks: tuple[Any, ...] = (Text(lead, "lead"), Tiles(tiles))
    return Section("summary", "", blocks + ((Text(learned.notes, "small"),) if learned.notes else ()))


def _arrows(learned: LearnedNetwork) -> Section:
    net, edges = learned.network, learned.probabilities
    fixed = set(net.equivalence_class().arrows)
    rows = []
    for parent, child in sorted(net.edges, key=lambda e: -(edges[e] + edges[e[::-1]])):
        both = min(edges[parent, child] + edges[child, parent], 1.0)
        direction = "decided" if (parent, child) in fixed else "either way"
        mark = "off" if both < 0.5 else ""
        cells = (f"{parent} → {child}", Cell(f"{both:.2f}", mark), f"{edges[parent, child]:.2f}", direction)
        rows.append(Row(cells))
    missed = [
        f"{a} - {b} ({p:.2f})"
        for i, a in enumerate(edges.names)
        for j, b in enumerate(edges.names)
        if i < j and (p := float(edges.adjacent[i, j])) > 0.3 and (a, b) not in net.edges and (b, a) not in net.edges
    ]
    blocks: list[Any] = [
        Figure(
            data_uri(arrows(net, edges)),
            f"a graph of {counted(len(net.edges), 'arrow')}: " + ", ".join(f"{a} to {b}" for a, b in net.edges[:20]),
            "Each arrow with the probability that the two are connected (and of this direction), over all graphs.",
        ),
        Table(
            ("arrow", "connected", "this way", "direction"),
            tuple(rows),
            left=(0, 3),
            summary="all arrows",
            open=len(rows) < 25,
        ),
    ]
    if missed:
        blocks.append(Text((f"Not drawn, yet not excluded: {', '.join(missed[:12])}.",), "small"))
    return Section("arrows", "What depends on what", tuple(blocks))


def _variables(net: Network) -> Section:
    rows, laws = [], net.marginals()
    for name, law in net.nodes.items():
        if isinstance(law, LinearGaussian):
            said = f"mean {laws[name]['mean']:.4g}, standard deviation {laws[name]['std']:.4g}"
        else:
            top = sorted(laws[name].items(), key=lambda item: -item[1])[:4]
            said = ", ".join(f"{state} {p:.3f}" for state, p in top) + (", …" if len(law.states) > 4 else "")
        rows.append(
            Row((name, said, ", ".join(law.parents) or "-", ", ".join(sorted(net.markov_blanket(name))) or "-"))
        )
    table = Table(("variable", "law", "parents", "all that matters for it"), tuple(rows), left=(0, 1, 2, 3))
    words = "Given what matters for a variable (its Markov blanket), no other column says anything more of it."
    return Section("variables", "The variables", (Text((words,)), table))


def _next(net: Network) -> Section:
    child = next((c for _, c in net.edges if c in net.states), net.names[0])
    parent = next((p for p, c in net.edges if c == child and p in net.states), None)
    given = f' --given "{parent}={net.states[parent][0]}"' if parent else ""
    lines = [
        f'credo network network.credo{given} --ask "{child}"',
        "",
        "import credo",
        'net = credo.load("network.credo")',
    ]
    if parent:
        state = net.states[parent][0]
        lines += [
            f"net.condition({{{parent!r}: {state!r}}}).predict({child!r})   # what is seen",
            f"net.do({{{parent!r}: {state!r}}}).predict({child!r})          # what is done, if arrows are causes",
        ]
    return Section("next", "What to ask next", (Code("\n".join(lines)),))
