"""APPL's `.pomdpx` files: state, observation and actions as variables, each with a table of its own given its parents.

https://bigbird.comp.nus.edu.sg/pmwiki/farm/appl/index.php?n=Main.PomdpXDocumentation. Rows of P(s' | s, a) are expanded
variable by variable, with zeros dropped at once, so that no table over all states is ever made. State variables that
are fully observed are part of what is observed.
"""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
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
from credo.decide.pomdp.cassandra import LARGEST, ROUNDING, is_count
from credo.decide.pomdp.model import POMDP

Assigned = dict[str, np.ndarray]
"""Values of variables by name, a row for each way the world may be."""


class Variable(NamedTuple):
    """A variable and the names of its values; `before` is its name in the step before, of states."""

    name: str
    values: tuple[str, ...]
    before: str = ""
    seen: bool = False
    """Whether it is fully observed."""


class Table(NamedTuple):
    """Numbers given parents: probabilities of `variable` (the last axis), or a reward that has none."""

    parents: tuple[str, ...]
    variable: str
    numbers: np.ndarray


def read(path: Path) -> POMDP:
    """The problem of a file."""
    text = bytes_of(path)
    if not text.strip():
        raise DataError(f"{path.name} is empty; a .pomdpx file is an XML document")
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise DataError(f"{path.name}, line {error.position[0]}: not well-formed XML: {error}") from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{path.name}: not XML that can be read: {error}") from None
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
        every = [*self.states, *self.shown, *self.actions, *(v._replace(name=v.before) for v in self.states)]
        self.values = {each.name: each.values for each in every}
        if len(self.values) < len(every):
            raise DataError(f"variables must have names that differ, found {[each.name for each in every]}")
        for kind in (self.states, self.shown, self.actions):
            _check_size([len(v.values) for v in kind], ", ".join(v.name for v in kind))

    def problem(self) -> POMDP:
        """Start, transitions, observations and rewards, expanded."""
        moves_by = self.tables("StateTransitionFunction")
        shows_by = self.tables("ObsFunction") if self.shown else []
        paid_by = self.tables("RewardFunction")
        sizes = tuple(len(v.values) for v in self.states)
        s, a = int(np.prod(sizes)), int(np.prod([len(v.values) for v in self.actions]))
        before = dict(zip([v.before for v in self.states], np.unravel_index(np.arange(s), sizes), strict=True))
        current = {v.name: before[v.before] for v in self.states}
        seen = [v for v in self.states if v.seen] + self.shown
        if not seen:
            raise DataError("nothing is observed: there is no ObsVar and no StateVar with fullyObs='true'")
        span = tuple(len(v.values) for v in seen)
        moves, shows, rewards = [], [], np.zeros((s, a))
        for k in range(a):
            doing = dict(zip([v.name for v in self.actions], self._action(k), strict=True))
            start = {**before, **{name: np.full(s, value) for name, value in doing.items()}}
            rows, probs, full = expand(start, [v.name for v in self.states], moves_by)
            to = np.ravel_multi_index([full[v.name] for v in self.states], sizes)
            moves.append(sp.csr_array((probs, (rows, to)), shape=(s, s)))
            there = {**current, **{name: np.full(s, value) for name, value in doing.items()}}
            at, chance, known = expand(there, [v.name for v in self.shown], shows_by)
            shows.append((at, np.ravel_multi_index([known[v.name] for v in seen], span), chance))
            for table in paid_by:
                rewards[:, k] += self.reward(table, start, (rows, probs, full), shows_by)
        possible = np.unique(np.concatenate([column for _, column, _ in shows]))
        if not any(v.seen for v in self.states):
            possible = np.arange(int(np.prod(span)))
        tables = [
            sp.csr_array((p, (row, np.searchsorted(possible, column))), shape=(s, len(possible)))
            for row, column, p in shows
        ]
        where = zip(*np.unravel_index(possible, span), strict=True)
        seen_names = [",".join(v.values[i] for v, i in zip(seen, each, strict=True)) for each in where]
        factors = tuple((v.name, v.values) for v in self.states)
        return POMDP(
            moves,
            tables,
            rewards,
            self.discount(),
            self.start(before, sizes),
            states=_products(self.states),
            actions=_products(self.actions),
            observations=seen_names,
            factors=factors if len(factors) > 1 else None,
            tolerance=ROUNDING,
        )

    def discount(self) -> float:
        """The discount."""
        return float(_floats(_need(self.root, "Discount").text, "Discount", 1)[0])

    def start(self, before: Assigned, sizes: tuple[int, ...]) -> Float[np.ndarray, " s"]:
        """The product of what is said of each variable."""
        tables = self.tables("InitialStateBelief")
        nothing: Assigned = {"": np.zeros(1, int)}
        _, probs, full = expand(nothing, [v.before for v in self.states], tables)
        out = np.zeros(int(np.prod(sizes)))
        out[np.ravel_multi_index([full[v.before] for v in self.states], sizes)] = probs
        if abs(out.sum() - 1) > ROUNDING:
            raise DataError(f"InitialStateBelief must sum to 1, found the sum {out.sum():.9g}")
        return out / out.sum()

    def reward(
        self, table: Table, start: Assigned, moved: tuple[np.ndarray, np.ndarray, Assigned], shows_by: list[Table]
    ) -> Float[np.ndarray, " s"]:
        """The expectation of one reward variable, over as much as it depends on."""
        n = len(next(iter(start.values())))
        if all(name in start for name in table.parents):
            return table.numbers[tuple(start[name] for name in table.parents)]
        rows, probs, full = moved
        if any(name not in full for name in table.parents):
            at, chance, full = expand(full, [v.name for v in self.shown], shows_by)
            rows, probs = rows[at], probs[at] * chance
        return np.bincount(rows, probs * table.numbers[tuple(full[name] for name in table.parents)], minlength=n)

    def tables(self, section: str) -> list[Table]:
        """The tables of a section."""
        parts = [each for each in _need(self.root, section) if each.tag in ("CondProb", "Func")]
        return [self.table(each) for each in parts]

    def table(self, part: ET.Element) -> Table:
        """The numbers of a variable given its parents."""
        name = (_need(part, "Var").text or "").strip()
        parents = tuple(each for each in (_need(part, "Parent").text or "").split() if each != "null")
        reward = part.tag == "Func"
        axes = parents if reward else (*parents, name)
        for each in axes:
            if each not in self.values:
                raise DataError(f"there is no variable {each!r} (of the table of {name!r})")
        shape = [len(self.values[each]) for each in axes]
        _check_size(shape, f"the table of {name!r}")
        numbers = np.zeros(shape)
        given = _need(part, "Parameter")
        if given.get("type", "TBL") != "TBL":
            _Diagram(self, given, axes, name).fill(numbers)
        else:
            for entry in given.iter("Entry"):
                self.fill(numbers, axes, name, entry)
        if not reward and numbers.min() < 0:
            raise DataError(f"the table of {name!r} must hold probabilities, found {numbers.min():g}")
        return Table(parents, name, numbers)

    def fill(self, numbers: np.ndarray, axes: Sequence[str], name: str, entry: ET.Element) -> None:
        """One entry: a value, `*` (each alike) or `-` (each in turn) for every axis, and the numbers."""
        words = (_need(entry, "Instance").text or "").split()
        if len(words) != len(axes):
            raise DataError(f"an Instance of {name!r} needs {len(axes)} words ({' '.join(axes)}), found {words}")
        wild = ("*", "-")
        index = tuple(slice(None) if w in wild else self.value(x, w) for x, w in zip(axes, words, strict=True))
        shape = [len(self.values[x]) if w == "-" else 1 for x, w in zip(axes, words, strict=True) if w in wild]
        listed = entry.find("ProbTable" if entry.find("ProbTable") is not None else "ValueTable")
        text = "" if listed is None else listed.text or ""
        free = [len(self.values[x]) for x, w in zip(axes, words, strict=True) if w == "-"]
        if text.split() == ["uniform"] and name in axes:
            numbers[index] = 1 / len(self.values[name])
        elif text.split() == ["identity"]:
            if len(free) != 2 or free[0] != free[1]:
                raise DataError(f"identity in the table of {name!r} needs two '-' of one size, found {words}")
            numbers[index] = np.eye(free[0]).reshape(shape)
        else:
            found = _floats(text, f"the table of {name!r} at {' '.join(words)}", prod(shape))
            numbers[index] = found.reshape(shape)

    def value(self, variable: str, word: str) -> int:
        """The number of a value."""
        if word not in self.values[variable]:
            raise DataError(f"{variable!r} has no value {word!r}; it has {', '.join(self.values[variable][:8])}")
        return self.values[variable].index(word)

    def _action(self, k: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(k, [len(v.values) for v in self.actions]))


class _Diagram:
    """A table written as an algebraic decision diagram."""

    def __init__(self, reader: _Reader, given: ET.Element, axes: Sequence[str], name: str) -> None:
        self.reader, self.axes, self.name = reader, axes, name
        self.dag = _need(given, "DAG")
        self.parts = {each.get("id", ""): each for each in given.iter("SubDAGTemplate")}

    def fill(self, numbers: np.ndarray) -> None:
        """Walks along all edges."""
        try:
            self.walk(self.below(self.dag), {}, numbers)
        except RecursionError:
            raise DataError(f"the diagram of {self.name!r} has a SubDAGTemplate that refers to itself") from None

    def below(self, element: ET.Element) -> ET.Element:
        """The one element inside of another."""
        if len(element) != 1:
            raise DataError(
                f"the diagram of {self.name!r} has a {element.tag} with {len(element)} elements inside, not 1"
            )
        return element[0]

    def walk(self, node: ET.Element, fixed: dict[str, int], numbers: np.ndarray) -> None:
        """What is below a node, where some variables have values already."""
        index = tuple(fixed.get(x, slice(None)) for x in self.axes)
        if node.tag == "Terminal":
            numbers[index] = _floats(node.text, f"a Terminal in the diagram of {self.name!r}", 1)[0]
        elif node.tag == "Node":
            variable = node.get("var", "")
            if variable not in self.axes:
                raise DataError(f"the diagram of {self.name!r} asks for {variable!r}, which is no parent of it")
            for edge in node.findall("Edge"):
                value = self.reader.value(variable, edge.get("val", ""))
                self.walk(self.below(edge), {**fixed, variable: value}, numbers)
        elif node.tag == "SubDAG":
            kind, variable = node.get("type", ""), node.get("var", self.name)
            if variable not in self.axes:
                raise DataError(f"the diagram of {self.name!r} names {variable!r}, which is not in its table")
            if kind == "uniform":
                numbers[index] = 1 / len(self.reader.values[variable])
            elif kind == "deterministic":
                self.one(numbers, {**fixed, variable: self.reader.value(variable, node.get("val", ""))}, fixed)
            elif kind == "persistent":
                before = next((v.before for v in self.reader.states if v.name == variable), "")
                if before not in self.axes:
                    raise DataError(f"persistent in the diagram of {self.name!r} needs a state and its value before")
                for value in range(len(self.reader.values[variable])):
                    self.one(numbers, {**fixed, before: value, variable: value}, {**fixed, before: value})
            elif kind == "template" and node.get("idref", "") in self.parts:
                self.walk(self.below(self.parts[node.get("idref", "")]), fixed, numbers)
            else:
                raise DataError(f"the diagram of {self.name!r} has a SubDAG of an unknown kind {kind!r}")
        else:
            raise DataError(
                f"the diagram of {self.name!r} has an element {node.tag!r}; it takes Node, SubDAG, Terminal"
            )

    def one(self, numbers: np.ndarray, here: dict[str, int], all_of: dict[str, int]) -> None:
        """Probability one here, zero elsewhere."""
        numbers[tuple(all_of.get(x, slice(None)) for x in self.axes)] = 0.0
        numbers[tuple(here.get(x, slice(None)) for x in self.axes)] = 1.0


def expand(
    start: Assigned, names: Sequence[str], tables: Sequence[Table]
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"], Assigned]:
    """All values that variables can take from each row, one variable after the other once its parents have theirs.

    Returns the row that each came from, its probability, and the values.
    """
    by_name = {table.variable: table for table in tables}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise DataError(f"the variable {missing[0]!r} has no table")
    known, left = dict(start), list(names)
    rows = np.arange(len(next(iter(start.values()))))
    probs = np.ones(len(rows))
    while left:
        ready = [name for name in left if all(parent in known for parent in by_name[name].parents)]
        if not ready:
            raise DataError(f"the tables of {', '.join(left)} depend on each other, or on what is not known yet")
        table = by_name[ready[0]]
        left.remove(ready[0])
        index = tuple(known[parent] for parent in table.parents)
        chances = table.numbers[index] if index else np.broadcast_to(table.numbers, (len(rows), len(table.numbers)))
        at, value = np.nonzero(chances)
        probs, rows = probs[at] * chances[at, value], rows[at]
        known = {name: each[at] for name, each in known.items()}
        known[ready[0]] = value
    return rows, probs, known


def write(pomdp: POMDP, path: Path) -> Path:
    """Writes a problem with one state variable; zeros are left out."""
    names = {kind: [_token(each) for each in getattr(pomdp, f"{kind}_names")] for kind in _KINDS}
    one = '<?xml version="1.0" encoding="UTF-8"?>\n<pomdpx version="1.0" id="credo">\n<Description/>\n'
    lines = [f"{one}<Discount>{pomdp.discount!r}</Discount>\n<Variable>"]
    for tag, attributes, kind in (
        ("StateVar", 'vnamePrev="state_0" vnameCurr="state_1" fullyObs="false"', "state"),
        ("ObsVar", 'vname="seen"', "observation"),
        ("ActionVar", 'vname="action"', "action"),
    ):
        lines.append(f"<{tag} {attributes}><ValueEnum>{escape(' '.join(names[kind]))}</ValueEnum></{tag}>")
    start = " ".join(repr(float(p)) for p in pomdp.start)
    lines += ['<RewardVar vname="reward"/>\n</Variable>', "<InitialStateBelief>"]
    lines += [*_entries("CondProb", "state_0", "null", "ProbTable", [("-", start)]), "</InitialStateBelief>"]
    for section, variable, parents, tables, last in (
        ("StateTransitionFunction", "state_1", "action state_0", pomdp.transitions, "state"),
        ("ObsFunction", "seen", "action state_1", pomdp.observations, "observation"),
    ):
        cells = []
        for action, table in zip(names["action"], tables, strict=True):
            coo = table.tocoo()
            for i, j, p in zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True):
                cells.append((f"{action} {names['state'][i]} {names[last][j]}", repr(p)))
        lines += [f"<{section}>", *_entries("CondProb", variable, parents, "ProbTable", cells), f"</{section}>"]
    paid = [
        (f"{names['action'][k]} {names['state'][i]}", repr(float(pomdp.rewards[i, k])))
        for i, k in np.argwhere(pomdp.rewards)
    ]
    lines += ["<RewardFunction>", *_entries("Func", "reward", "action state_0", "ValueTable", paid)]
    lines += ["</RewardFunction>", "</pomdpx>"]
    with replacing(path) as beside:
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


_KINDS = ("state", "action", "observation")


def _entries(tag: str, variable: str, parents: str, kind: str, cells: Sequence[tuple[str, str]]) -> list[str]:
    head = f'<{tag}><Var>{variable}</Var><Parent>{parents}</Parent><Parameter type="TBL">'
    rows = [f"<Entry><Instance>{escape(at)}</Instance><{kind}>{value}</{kind}></Entry>" for at, value in cells]
    return [head, *rows, f"</Parameter></{tag}>"]


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


def _check_size(lengths: Sequence[int], what: str) -> None:
    if prod(lengths) > LARGEST:
        raise DataError(f"{what} must have at most {LARGEST:,} values together, found {prod(lengths):,}")


def _variable(element: ET.Element, name: str, letter: str) -> Variable:
    listed, count = element.find("ValueEnum"), element.find("NumValues")
    if listed is not None:
        values = tuple((listed.text or "").split())
    elif count is not None and is_count((count.text or "").strip()):
        many = int((count.text or "").strip()[:20])
        _check_size([many], element.get(name, ""))
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


def _products(variables: Sequence[Variable]) -> list[str]:
    return [",".join(each) for each in product(*(v.values for v in variables))]
