"""APPL's `.pomdpx` files: state, observation and actions as variables, each with a table of its own given its parents.

https://bigbird.comp.nus.edu.sg/pmwiki/farm/appl/index.php?n=Main.PomdpXDocumentation. Rows of P(s' | s, a) are expanded
variable by variable, with zeros dropped at once, so that no table over all states is ever made. State variables that
are fully observed are part of what is observed.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.core.files import bytes_of, replacing
from credo.decide.pomdp.cassandra import LARGEST, MANY, ROUNDING, Entry, entries, is_count
from credo.decide.pomdp.model import POMDP, entries_of
from credo.decide.pomdp.sparse_table import SparseTable

Assigned = dict[str, np.ndarray]
"""Values of variables by name, a row for each way the world may be."""


class Variable(NamedTuple):
    """A variable and the names of its values; `before` is its name in the step before, of states."""

    name: str
    values: tuple[str, ...]
    before: str = ""
    seen: bool = False
    """Whether it is fully observed."""


class Table:
    """Numbers of a variable given others, a row for each of their values; of a reward, whose rows have one column."""

    def __init__(self, part: ET.Element, values: Mapping[str, dict[str, int]], before: Mapping[str, str]) -> None:
        self.name = (_need(part, "Var").text or "").strip()
        self.parents = [each for each in (_need(part, "Parent").text or "").split() if each != "null"]
        reward = part.tag == "Func"
        self.values, self.before, self.what = values, before, f"the table of {self.name!r}"
        self.axes = self.parents if reward else [*self.parents, self.name]
        for each in self.axes:
            if each not in values or self.axes.count(each) > 1:
                found = "twice" if each in values else "which is no variable"
                raise DataError(f"{self.what} names {each!r}, {found}")
        self.sizes = [len(values[each]) for each in self.parents]
        _check_size(self.sizes, f"the rows of {self.what}")
        self.cells = SparseTable(prod(self.sizes), 1 if reward else len(values[self.name]))
        given = _need(part, "Parameter")
        self.parts = {each.get("id", ""): each for each in given.iter("SubDAGTemplate")}
        if given.get("type", "TBL") == "TBL":
            for entry in given.iter("Entry"):
                self.fill(entry)
        else:
            try:
                self.walk(self.below(_need(given, "DAG")), {})
            except RecursionError:
                raise DataError(f"{self.what} has a SubDAGTemplate that refers to itself") from None
        self.matrix = self.cells.matrix()
        del self.cells
        if not reward and (self.matrix.data < 0).any():
            raise DataError(f"{self.what} must hold probabilities, found {self.matrix.data.min():g}")

    def rows(self, known: Mapping[str, np.ndarray]) -> np.ndarray:
        """The row for values of the parents."""
        out = np.zeros(1, int)
        for parent, size in zip(self.parents, self.sizes, strict=True):
            out = out * size + known[parent]
        return out

    def value(self, variable: str, word: str) -> int:
        """The number of a value."""
        known = self.values[variable]
        if word not in known:
            raise DataError(f"{variable!r} has no value {word!r}; it has {', '.join(list(known)[:8])}")
        return known[word]

    def say(self, fixed: Mapping[str, int], numbers: np.ndarray | float, twins: tuple[str, str] | None = None) -> None:
        """Numbers where some variables are fixed, along all values of the others; only where twins agree."""
        every = np.ix_(*([fixed[x]] if x in fixed else range(len(self.values[x])) for x in self.axes))
        at = dict(zip(self.axes, every, strict=True))
        if self.name in at and self.name not in fixed:
            self.cells.clear(self.rows(at).ravel())
            if not np.any(numbers):
                return
        if twins:
            at[twins[1]] = at[twins[0]]
        rows, columns = self.rows(at), at.get(self.name, np.zeros(1, int))
        _check_size(np.broadcast_shapes(rows.shape, columns.shape), f"an entry of {self.what}")
        self.cells.say(rows, columns, numbers)

    def fill(self, entry: ET.Element) -> None:
        """One entry of a TBL: a value, `*` (each alike) or `-` (each in turn) for every axis, and the numbers."""
        words = (_need(entry, "Instance").text or "").split()
        if len(words) != len(self.axes):
            needed = f"{len(self.axes)} words ({' '.join(self.axes)})"
            raise DataError(f"an Instance of {self.name!r} needs {needed}, found {words}")
        fixed = {x: self.value(x, word) for x, word in zip(self.axes, words, strict=True) if word not in ("*", "-")}
        free = [x for x, word in zip(self.axes, words, strict=True) if word == "-"]
        listed = entry.find("ProbTable" if entry.find("ProbTable") is not None else "ValueTable")
        text = "" if listed is None else listed.text or ""
        if text.split() == ["uniform"] and self.name in self.axes:
            self.say(fixed, 1 / len(self.values[self.name]))
        elif text.split() == ["identity"]:
            if len(free) != 2 or len(self.values[free[0]]) != len(self.values[free[1]]):
                raise DataError(f"identity in {self.what} needs two '-' of one size, found {words}")
            self.say(fixed, 1.0, (free[0], free[1]))
        else:
            shape = [len(self.values[x]) if x in free else 1 for x in self.axes]
            self.say(fixed, _floats(text, f"{self.what} at {' '.join(words)}", prod(shape)).reshape(shape))

    def below(self, element: ET.Element) -> ET.Element:
        """The one element inside of another."""
        if len(element) != 1:
            raise DataError(f"{self.what} has a {element.tag} with {len(element)} elements inside, not 1")
        return element[0]

    def walk(self, node: ET.Element, fixed: dict[str, int]) -> None:
        """What is below a node of a decision diagram (DD), where some variables have values already."""
        kind, variable = node.get("type", ""), node.get("var", self.name)
        if node.tag == "Terminal":
            self.say(fixed, _floats(node.text, f"a Terminal in {self.what}", 1)[0])
        elif node.tag not in ("Node", "SubDAG"):
            raise DataError(f"{self.what} has an element {node.tag!r}; it takes Node, SubDAG, Terminal")
        elif kind == "template" and node.get("idref", "") in self.parts:
            self.walk(self.below(self.parts[node.get("idref", "")]), fixed)
        elif variable not in self.axes or (node.tag == "SubDAG" and variable != self.name):
            raise DataError(f"{self.what} has a {node.tag} of {variable!r}, for which it has no place")
        elif node.tag == "Node":
            for edge in node.findall("Edge"):
                self.walk(self.below(edge), {**fixed, variable: self.value(variable, edge.get("val", ""))})
        elif kind == "uniform":
            self.say(fixed, 1 / len(self.values[variable]))
        elif kind == "deterministic":
            self.say(fixed, 0.0)
            self.say({**fixed, variable: self.value(variable, node.get("val", ""))}, 1.0)
        elif kind == "persistent":
            if self.before.get(variable, "") not in self.axes:
                raise DataError(f"{self.what} has a persistent SubDAG, which needs a state and its value before")
            self.say(fixed, 1.0, (self.before[variable], variable))
        else:
            raise DataError(f"{self.what} has a SubDAG of an unknown kind {kind!r}")


def read(path: Path) -> POMDP:
    """The problem of a file."""
    text = bytes_of(path)
    if not text.strip():
        raise DataError(f"{path.name} is empty; a .pomdpx file is an XML document")
    # POMDPs.jl and others write attributes there that XML forbids.
    text = re.sub(rb"<pomdpx\b[^>]*>", lambda tag: b"<pomdpx" + b"\n" * tag[0].count(b"\n") + b">", text, count=1)
    try:
        root = ET.fromstring(text)
    except (SyntaxError, LookupError, ValueError) as error:
        raise DataError(f"{path.name}: not well-formed XML: {error}") from None
    try:
        return _Reader(root).problem()
    except DataError as error:
        raise DataError(f"{path.name}: {error}") from None


class _Reader:
    """The parts of a document, and the model that they make."""

    def __init__(self, root: ET.Element) -> None:
        self.root = root
        listed = _need(root, "Variable")
        self.states = [_variable(each, "vnameCurr", "s") for each in listed.iter("StateVar")]
        self.shown = [_variable(each, "vname", "o") for each in listed.iter("ObsVar")]
        self.actions = [_variable(each, "vname", "a") for each in listed.iter("ActionVar")]
        if not self.states or not self.actions:
            raise DataError("a problem needs a StateVar and an ActionVar at least")
        self.seen = [v for v in self.states if v.seen] + self.shown
        if not self.seen:
            raise DataError("nothing is observed: there is no ObsVar and no StateVar with fullyObs='true'")
        every = [*self.states, *self.shown, *self.actions, *(v._replace(name=v.before) for v in self.states)]
        self.values = {each.name: {word: k for k, word in enumerate(each.values)} for each in every}
        if len(self.values) < len(every):
            raise DataError(f"variables must have names that differ, found {[each.name for each in every]}")
        for kind, most in ((self.states, MANY), (self.seen, MANY), (self.states + self.actions, LARGEST)):
            _check_size([len(v.values) for v in kind], ", ".join(v.name for v in kind), most)

    def problem(self) -> POMDP:
        """The model."""
        moves, shows, rewards, start, possible = self.expanded()
        discount = float(_floats(_need(self.root, "Discount").text, "Discount", 1)[0])
        where = zip(*np.unravel_index(possible, [len(v.values) for v in self.seen]), strict=True)
        factors = tuple((v.name, v.values) for v in self.states)
        return POMDP(
            moves,
            shows,
            rewards,
            discount,
            start,
            states=[",".join(each) for each in product(*(v.values for v in self.states))],
            actions=[",".join(each) for each in product(*(v.values for v in self.actions))],
            observations=[",".join(v.values[i] for v, i in zip(self.seen, each, strict=True)) for each in where],
            factors=factors if len(factors) > 1 else None,
            tolerance=ROUNDING,
        )

    def expanded(self) -> tuple[list[sp.csr_array], list[sp.csr_array], np.ndarray, np.ndarray, np.ndarray]:
        """Transitions, observations and rewards of all actions, the start, and which observations are possible."""
        moves_by = self.tables("StateTransitionFunction", [v.name for v in self.states])
        shows_by = self.tables("ObsFunction", [v.name for v in self.shown]) if self.shown else []
        paid_by = self.tables("RewardFunction")
        sizes, span = ([len(v.values) for v in kind] for kind in (self.states, self.seen))
        s, names = prod(sizes), [v.name for v in self.states]
        every = np.stack(np.unravel_index(np.arange(s), sizes)).astype(np.int32)
        current = dict(zip(names, every, strict=True))
        before = {v.before: current[v.name] for v in self.states}
        moves, shows, rewards = [], [], np.zeros((s, prod(len(v.values) for v in self.actions)))
        for k, choice in enumerate(product(*(range(len(v.values)) for v in self.actions))):
            doing = {v.name: np.full(s, value, np.int32) for v, value in zip(self.actions, choice, strict=True)}
            moved = expand({**before, **doing}, moves_by)
            moves.append(_sparse(*moved, names, sizes, s))
            shows.append(_sparse(*expand({**current, **doing}, shows_by), [v.name for v in self.seen], span, s))
            for table in paid_by:
                rewards[:, k] += self.reward(table, {**before, **doing}, moved, shows_by)
        possible = np.arange(prod(span))
        if any(v.seen for v in self.states):
            possible = np.unique(np.concatenate([np.unique(each.indices) for each in shows]))
        for k, each in enumerate(shows):
            columns = np.searchsorted(possible, each.indices).astype(np.int32)
            shows[k] = sp.csr_array((each.data, columns, each.indptr), shape=(s, len(possible)))
        return moves, shows, rewards, self.start(sizes), possible

    def start(self, sizes: Sequence[int]) -> Float[np.ndarray, " s"]:
        """The product of what is said of each variable."""
        names = [v.before for v in self.states]
        out = _sparse(*expand({"": np.zeros(1, int)}, self.tables("InitialStateBelief", names)), names, sizes, 1)
        total = out.sum()
        if abs(total - 1) > ROUNDING:
            raise DataError(f"InitialStateBelief must sum to 1, found the sum {total:.9g}")
        return out.toarray()[0] / total

    def reward(
        self, table: Table, start: Assigned, moved: tuple[np.ndarray, np.ndarray, Assigned], shows_by: list[Table]
    ) -> Float[np.ndarray, " s"]:
        """The expectation of one reward variable, over as much as it depends on."""
        values, n = table.matrix.toarray().ravel(), len(next(iter(start.values())))
        if all(name in start for name in table.parents):
            return np.broadcast_to(values[table.rows(start)], n)
        rows, probs, full = moved
        if any(name not in full for name in table.parents):
            at, chance, full = expand(full, shows_by)
            rows, probs = rows[at], probs[at] * chance
        return np.bincount(rows, probs * values[table.rows(full)], minlength=n)

    def tables(self, section: str, names: Sequence[str] = ()) -> list[Table]:
        """The tables of a section, one for each of some variables; or of rewards."""
        before = {v.name: v.before for v in self.states}
        found = [Table(each, self.values, before) for each in _need(self.root, section)]
        known = [table.name for table in found]
        if names and sorted(known) != sorted(names):
            each = f"one table of each of {', '.join(names)}"
            raise DataError(f"{section} must have {each}, found {', '.join(known) or 'none'}")
        return found


def expand(start: Assigned, tables: Sequence[Table]) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"], Assigned]:
    """All values that the variables of tables can take from each row, one after the other once its parents have theirs.

    Returns the row that each came from, its probability, and the values.
    """
    known, left = dict(start), list(tables)
    rows = np.arange(len(next(iter(start.values()))))
    probs = np.ones(len(rows))
    while left:
        table = next((each for each in left if all(parent in known for parent in each.parents)), None)
        if table is None:
            names = ", ".join(each.name for each in left)
            raise DataError(f"the tables of {names} depend on each other, or on what is not known yet")
        left.remove(table)
        which, at = entries_of(table.matrix.indptr, np.broadcast_to(table.rows(known), len(rows)))
        if len(which) != len(rows) or (np.diff(which) != 1).any():
            rows, probs = rows[which], probs[which]
            known = {name: each[which] for name, each in known.items()}
        probs = probs * table.matrix.data[at]
        known[table.name] = table.matrix.indices[at].astype(np.int32)
    return rows, probs, known


def _sparse(
    rows: Int[np.ndarray, " n"],
    probs: Float[np.ndarray, " n"],
    known: Assigned,
    names: Sequence[str],
    sizes: Sequence[int],
    n: int,
) -> sp.csr_array:
    """What was expanded as a matrix, whose columns are the values of some variables together."""
    columns = np.ravel_multi_index([known[name] for name in names], tuple(sizes)).astype(np.int32)
    indptr = np.searchsorted(rows, np.arange(n + 1)).astype(np.int32)
    return sp.csr_array((probs, columns, indptr), shape=(n, prod(sizes)))


def write(pomdp: POMDP, path: Path) -> Path:
    """Writes a problem with one state variable; zeros are left out."""
    states, actions, seen = (
        [_token(each) for each in names] for names in (pomdp.state_names, pomdp.action_names, pomdp.observation_names)
    )
    listed = [f"<ValueEnum>{escape(' '.join(each))}</ValueEnum>" for each in (states, actions, seen)]
    paid = [((actions[k], states[i]), float(pomdp.rewards[i, k])) for i, k in np.argwhere(pomdp.rewards)]
    lines = [
        f'<?xml version="1.0" encoding="UTF-8"?>\n<pomdpx version="1.0" id="credo">\n<Description/>\n'
        f"<Discount>{pomdp.discount!r}</Discount>\n<Variable>\n"
        f'<StateVar vnamePrev="state_0" vnameCurr="state_1" fullyObs="false">{listed[0]}</StateVar>\n'
        f'<ObsVar vname="seen">{listed[2]}</ObsVar>\n'
        f'<ActionVar vname="action">{listed[1]}</ActionVar>\n'
        '<RewardVar vname="reward"/>\n</Variable>',
        *_section(
            "InitialStateBelief",
            "state_0",
            "null",
            [((name,), p) for name, p in zip(states, pomdp.start.tolist(), strict=True) if p],
        ),
        *_section(
            "StateTransitionFunction", "state_1", "action state_0", entries(pomdp.transitions, actions, states, states)
        ),
        *_section("ObsFunction", "seen", "action state_1", entries(pomdp.observations, actions, states, seen)),
        *_section("RewardFunction", "reward", "action state_0", paid),
        "</pomdpx>\n",
    ]
    with replacing(path) as beside:
        beside.write_text("\n".join(lines), encoding="utf-8")
    return path


def _section(section: str, variable: str, parents: str, cells: Iterable[Entry]) -> list[str]:
    tag, kind = ("Func", "ValueTable") if variable == "reward" else ("CondProb", "ProbTable")
    head = f'<{section}><{tag}><Var>{variable}</Var><Parent>{parents}</Parent><Parameter type="TBL">'
    rows = [
        f"<Entry><Instance>{escape(' '.join(at))}</Instance><{kind}>{value!r}</{kind}></Entry>" for at, value in cells
    ]
    return [head, *rows, f"</Parameter></{tag}></{section}>"]


def _token(name: object) -> str:
    text = "_".join(str(name).split())
    return f"n{text}" if text in ("*", "-", "") else text


def _need(parent: ET.Element, tag: str) -> ET.Element:
    found = parent.find(tag)
    if found is None:
        raise DataError(f"the element {parent.tag!r} has no {tag!r}")
    return found


def _floats(text: str | None, what: str, n: int) -> Float[np.ndarray, " n"]:
    """The n finite numbers of a text."""
    words = (text or "").split()
    try:
        found = np.array(words, dtype=float)
    except ValueError:
        found = np.array([np.nan])
    if not np.isfinite(found).all():
        raise DataError(f"{what} must be {f'{n} numbers' if n > 1 else 'a number'}, found {' '.join(words)[:60]!r}")
    if len(found) != n:
        raise DataError(f"{what} needs {n} numbers, found {len(found)}")
    return found


def _check_size(lengths: Sequence[int], what: str, most: int = LARGEST) -> None:
    if prod(lengths) > most:
        raise DataError(f"{what} must have at most {most:,} values together, found {prod(lengths):,}")


def _variable(element: ET.Element, name: str, letter: str) -> Variable:
    listed, count = element.find("ValueEnum"), element.find("NumValues")
    if listed is not None:
        values = tuple((listed.text or "").split())
    elif count is not None and is_count((count.text or "").strip()):
        many = int((count.text or "").strip()[:20])
        _check_size([many], element.get(name, ""), MANY)
        values = tuple(f"{letter}{k}" for k in range(many))
    else:
        values = ()
    needed = ("vnamePrev", name) if element.tag == "StateVar" else (name,)
    if not values or not all(element.get(each) for each in needed):
        raise DataError(f"a {element.tag} needs {'= and '.join(needed)}= and a ValueEnum or NumValues")
    if len(set(values)) < len(values):
        raise DataError(f"the values of {element.get(name)!r} must differ, found {' '.join(values)[:60]}")
    seen = element.get("fullyObs", "false").strip().lower() == "true"
    return Variable(element.get(name, ""), values, element.get("vnamePrev", ""), seen)
