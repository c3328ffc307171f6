"""Cassandra's `.pomdp` and `.mdp` files: a preamble of names, then T, O and R entries, of which the last one counts.

https://pomdp.org/code/pomdp-file-spec.html. Entries are kept as numbers of sparse cells, never as dense tables: what a
row or a matrix says takes the place of all that was said of it before.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, prod
from pathlib import Path
from typing import NoReturn

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from credo.core.errors import DataError
from credo.core.files import bytes_of, replacing
from credo.decide.pomdp.model import POMDP, entries_of
from credo.decide.pomdp.sparse_table import SparseTable

ROUNDING = 1e-4
"""Rows of files may be off by so much, as their numbers are rounded; they are divided by their sums."""
LARGEST = 50_000_000
"""States times actions, or numbers of one table, that a file may ask for."""
MANY = 5_000_000
"""States, actions or observations of a file: their names alone take a gigabyte."""
Entry = tuple[tuple[str, ...], float]
"""Where a number stands, by names, and the number."""
KINDS = {
    "T": ("actions", "states", "states"),
    "O": ("actions", "states", "observations"),
    "R": ("actions", "states", "states", "observations"),
}
SECTIONS = ("discount", "values", "states", "actions", "observations", "start", *KINDS)
RESERVED = {*SECTIONS, "uniform", "identity", "reset", "reward", "cost", "include", "exclude"}
"""What nothing may be called in files for other programs, whose names are letters, digits, - and _."""
TOKEN = re.compile(r"[^\s:*]+|[:*]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def read(path: Path) -> POMDP:
    """The problem of a file; in an `.mdp` there need be no observations, and then nothing is seen."""
    text = bytes_of(path).decode("utf-8-sig", errors="replace")
    return parse(text, path.name, {"observations": ("nothing",)} if path.suffix.lower() == ".mdp" else {})


def parse(text: str, name: str = "the text", names: Mapping[str, tuple[str, ...]] | None = None) -> POMDP:
    """The problem of a text in Cassandra's format; `name` is for errors, `names` are those its preamble may omit."""
    return _Parser(text, name, names or {}).problem()


class _Parser:
    """Reads token after token; `at` is the next one."""

    def __init__(self, text: str, name: str, names: Mapping[str, tuple[str, ...]]) -> None:
        self.name = name
        self.text = re.sub(r"#[^\n]*", "", text)
        self.tokens: list[str] = TOKEN.findall(self.text)
        self.at = 0
        self.names = dict(names)
        self.numbers = {kind: {word: k for k, word in enumerate(words)} for kind, words in names.items()}
        self.discount: float | None = None
        self.sign = 1.0
        self.start: np.ndarray | None = None
        self.resets = False
        """Whether some line went back to the start."""
        self.rewards: list[tuple[tuple[int | None, ...], float]] = []
        self.cells: dict[str, SparseTable] = {}

    # ── tokens

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        """The error, with the line and the token."""
        index = self.at if at is None else at
        places = [m.start() for m in TOKEN.finditer(self.text)]
        line = self.text.count("\n", 0, places[index]) + 1 if index < len(places) else self.text.count("\n") + 1
        found = repr(self.tokens[index][:40]) if index < len(self.tokens) else "the end of the file"
        raise DataError(f"{self.name}, line {line}: {what}, found {found}")

    def peek(self, ahead: int = 0) -> str:
        """A token to come; empty at the end."""
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, what: str) -> str:
        """The next token; a colon where that is what is expected."""
        if self.at >= len(self.tokens) or (what == "':'" and self.peek() != what[1]):
            self.fail(f"expected {what}")
        self.at += 1
        return self.tokens[self.at - 1]

    def section_begins(self) -> bool:
        """Whether the next tokens begin a section (or the file ends)."""
        word = self.peek()
        if word == "start" and self.peek(1) in ("include", "exclude") and self.peek(2) == ":":
            return True
        return word == "" or (word in SECTIONS and self.peek(1) == ":")

    def words(self) -> list[str]:
        """All tokens until the next section."""
        first = self.at
        while not self.section_begins():
            if self.peek() == ":":
                self.no_section(self.at - 1)
            self.at += 1
        return self.tokens[first : self.at]

    def no_section(self, at: int) -> NoReturn:
        """The error where a section should begin."""
        self.fail(f"expected one of {', '.join(SECTIONS)} with a colon", at)

    def floats(self, n: int, what: str) -> Float[np.ndarray, " n"]:
        """The next n numbers."""
        given = self.tokens[self.at : self.at + n]
        try:
            out = np.array(given, dtype=float)
        except ValueError:
            out = np.array([np.nan])
        plain = "".join(given)
        if not (np.isfinite(out).all() and plain.isascii() and "_" not in plain):  # Python takes 1_0 and ٣ for numbers
            wrong = [is_number(token) for token in given].index(False)
            self.fail(f"expected {n} numbers of {what}", self.at + wrong)
        if len(given) < n:
            self.at = len(self.tokens)
            self.fail(f"expected {n} numbers of {what}, of which there are {len(given)}")
        self.at += n
        return out

    def value(self, what: str) -> float:
        """The next number, without the price of an array."""
        token = self.peek()
        if not is_number(token):
            self.fail(f"expected {what}")
        self.at += 1
        return float(token)

    def number(self, kind: str) -> int | None:
        """The number of a state, action or observation; None for `*`, which is all of them."""
        token = self.take(f"one of the {kind}")
        if token == "*":
            return None
        known = self.numbers[kind]
        if token in known:
            return known[token]
        if is_count(token) and int(token) < len(known):
            return int(token)
        self.at -= 1
        self.fail(f"expected one of the {len(known)} {kind}")

    # ── sections

    def problem(self) -> POMDP:
        """All sections, then the model."""
        if not self.tokens:
            raise DataError(f"{self.name} is empty; a .pomdp file begins with discount, values, states, …")
        while self.at < len(self.tokens):
            if not self.section_begins():
                self.no_section(self.at)
            section = self.take("a section")
            if section == "start":
                self.begin()
                continue
            self.take("':'")
            if section in KINDS:
                self.entry(section)
            else:
                self.preamble(section)
        self.ready()
        if self.discount is None:
            raise DataError(f"{self.name} has no discount; write a line such as 'discount: 0.95'")
        s, a, o = self.shape
        moves, shows = (
            [each[k * s : (k + 1) * s] for k in range(a)] for each in (t.matrix() for t in self.cells.values())
        )
        try:
            return POMDP(
                moves,
                shows,
                self.sign * _expected(self.rewards, moves, shows, (s, a, o)),
                self.discount,
                self.start,
                states=self.names["states"],
                actions=self.names["actions"],
                observations=self.names["observations"],
                tolerance=ROUNDING,
            )
        except DataError as error:
            raise DataError(f"{self.name}: {error}") from None

    def preamble(self, section: str) -> None:
        """discount, values, states, actions, observations."""
        if section == "discount":
            self.discount = self.value("the discount, a number")
        elif section == "values":
            kind = self.take("reward or cost")
            if kind.removesuffix("s") not in ("reward", "cost"):  # the plural is found in files of pomdp.org
                self.fail("values must be reward or cost", self.at - 1)
            self.sign = -1.0 if kind.startswith("cost") else 1.0
        else:
            first = self.at
            given = self.words()
            if section in self.names:
                self.fail(f"expected the section {section} once", first - 2)
            for k, word in enumerate(given):
                if word == "*" or (NUMBER.fullmatch(word) and not is_count(word)):
                    self.fail(f"expected names of {section}, or how many there are", first + k)
            if len(given) == 1 and is_count(given[0]):
                if len(given[0]) > len(str(MANY)) or int(given[0]) > MANY:
                    self.fail(f"expected at most {MANY:,} {section}", first)
                given = [str(k) for k in range(int(given[0]))]
            if not given:
                self.fail(f"expected the {section} or how many there are")
            self.names[section] = tuple(given)
            self.numbers[section] = {word: k for k, word in enumerate(given)}
            if len(self.numbers[section]) < len(given):
                twice = next(k for k, word in enumerate(given) if word in given[:k])
                self.fail(f"expected {section} that differ", first + twice)

    def ready(self) -> None:
        """The preamble must be there before what needs it."""
        for kind in ("states", "actions", "observations"):
            if kind not in self.names:
                self.fail(f"expected the section {kind} first")
        if not self.cells:
            s, a, o = self.shape
            if (rows := a * s) > LARGEST:
                self.fail(f"expected at most {LARGEST:,} states times actions, {rows:,} were announced")
            self.cells = {"T": SparseTable(rows, s), "O": SparseTable(rows, o)}
            if o == 1:  # which need not be said
                self.cells["O"].say(np.arange(rows), 0, 1.0)

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many states, actions and observations."""
        return len(self.names["states"]), len(self.names["actions"]), len(self.names["observations"])

    def begin(self) -> None:
        """start: probabilities, uniform, a state; start include: states; start exclude: states."""
        self.ready()
        if self.resets:
            self.fail("expected the start before the first reset", self.at - 1)
        how = self.take("a word") if self.peek() in ("include", "exclude") else ""
        self.take("':'")
        s, first = self.shape[0], self.at
        given = self.words()
        last = self.at
        if not given:
            self.fail("expected the start: probabilities, uniform or states")
        self.at, weights = first, np.zeros(s)
        if not how and given == ["uniform"]:
            self.at, weights = last, np.ones(s)
        elif not how and len(given) == s and all(map(NUMBER.fullmatch, given)) and (s > 1 or given != ["0"]):
            weights = self.floats(s, "the start")
            if abs(weights.sum() - 1) > ROUNDING or (weights < 0).any():
                self.fail(f"the start must be probabilities that sum to 1, their sum is {weights.sum():.9g}", first)
        while self.at < last:
            which = self.number("states")
            weights[slice(None) if which is None else which] = 1.0
        weights = 1 - weights if how == "exclude" else weights
        if not weights.any():
            self.fail("the start excludes all states", first)
        self.start = weights / weights.sum()

    def entry(self, which: str) -> None:
        """T: a [: s [: s']], O: a [: s' [: o]] or R: a : s [: s' [: o]], and what is there."""
        self.ready()
        kinds = KINDS[which]
        where = [self.number(kinds[0])]
        while len(where) < len(kinds) and self.peek() == ":":
            self.at += 1
            where.append(self.number(kinds[len(where)]))
        if len(where) == len(kinds) and self.peek() == ":":  # some writers put one before the number, too
            self.at += 1
        if which == "R":
            self.reward(where)
            return
        cells, (s, a, _) = self.cells[which], self.shape
        action, state, column = (*where, None, None)[:3]
        if action is not None and state is not None and column is not None:  # most lines of most files
            cells.say(action * s + state, column, self.value("a probability"))
            return
        columns = cells.shape[1]
        actions = np.arange(a) if action is None else np.array([action])
        states = np.arange(s) if state is None else np.array([state])
        rows = (actions[:, None] * s + states).ravel()
        if column is not None:
            cells.say(rows, column, self.value("a probability"))
            return
        word, line = self.peek(), np.full(columns, 1 / columns)
        if word == "identity" and (len(where) == 2 or columns != s):
            self.fail("identity takes the place of a square matrix")
        if word == "reset":
            if which != "T":
                self.fail("reset is for transitions")
            line, self.resets = line if self.start is None else self.start, True
        elif len(where) == 3:
            line = np.full(columns, self.value("a probability"))
        elif word not in ("identity", "uniform"):
            n, what = (columns, "a row") if len(where) == 2 else (s * columns, "a matrix")
            line = self.floats(n, what)
        self.at += word in ("identity", "uniform", "reset")
        cells.clear(rows)
        to = np.flatnonzero(line)
        if word == "identity":
            cells.say(rows, rows % s, 1.0)
        elif line.size > columns:
            cells.say(actions[:, None] * s + to // columns, to % columns, line[to])
        elif rows.size * len(to) <= LARGEST:
            cells.say(rows[:, None], to, line[to])
        else:
            most = f"expected at most {LARGEST:,} probabilities of one line, {rows.size * len(to):,} are meant"
            self.fail(most, self.at - 1)

    def reward(self, where: list[int | None]) -> None:
        """A number, a row over observations, or a matrix over next states and observations (in an MDP over states)."""
        s, a, o = self.shape
        if len(where) == 1 and o > 1:
            self.fail("expected ':' and a state after the action of a reward")
        rest = (a, s, s, o)[len(where) :]
        if not rest:
            self.rewards.append((tuple(where), self.value("a reward")))
            return
        values = self.floats(prod(rest), "rewards")
        if (values == values[0]).all():
            self.rewards.append(((*where, *[None] * len(rest)), float(values[0])))
            return
        for k, value in zip(np.ndindex(rest), values.tolist(), strict=True):
            self.rewards.append(((*where, *k), value))


def _expected(
    said: Sequence[tuple[tuple[int | None, ...], float]],
    moves: Sequence[sp.csr_array],
    shows: Sequence[sp.csr_array],
    shape: tuple[int, int, int],
) -> Float[np.ndarray, "s a"]:
    """r(s, a) of rewards as they were said: entries that name the same coordinates are looked up together."""
    s, a, o = shape
    weights = np.array([s * s * o, s * o, o, 1])
    turns: dict[tuple[bool, ...], list[int]] = {}
    for turn, (where, _) in enumerate(said):
        turns.setdefault(tuple(each is not None for each in where), []).append(turn)
    values = np.array([0.0, *(value for _, value in said)])
    lookup = []
    for named, own in turns.items():
        weight = weights * named
        keys = np.array([[each or 0 for each in said[turn][0]] for turn in own[::-1]]) @ weight
        known, last = np.unique(keys, return_index=True)
        lookup.append((weight, known, np.array(own[::-1])[last] + 1))
    out = np.zeros((s, a))
    for k in range(a):
        here, after, seen, probs = np.arange(s), np.zeros(s, int), np.zeros(s, int), np.ones(s)
        if any(named[2] or named[3] for named in turns):
            table = moves[k].tocoo()
            here, after, probs = table.row, table.col, table.data
            seen = np.zeros(len(here), int)
        if any(named[3] for named in turns):
            entry, at = entries_of(shows[k].indptr, after)
            here, after, seen = here[entry], after[entry], shows[k].indices[at]
            probs = probs[entry] * shows[k].data[at]
        latest = np.zeros(len(here), int)  # which line said the last word
        for weight, known, lines in lookup:
            keys = k * weight[0] + here * weight[1] + after * weight[2] + seen * weight[3]
            at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            latest = np.maximum(latest, np.where(known[at] == keys, lines[at], 0))
        out[:, k] = np.bincount(here, probs * values[latest], minlength=s)
    return out


def write(pomdp: POMDP, path: Path) -> Path:
    """Writes a problem in Cassandra's format; rewards as they are expected, r(s, a)."""
    lines = [f"discount: {pomdp.discount!r}", "values: reward"]
    tokens = {}
    for kind in ("state", "action", "observation"):
        names = [re.sub(r"[^A-Za-z0-9_-]+", "_", str(each)) for each in getattr(pomdp, f"{kind}_names")]
        plain = all(each[:1].isalpha() for each in names) and len(set(names) - RESERVED) == len(names)
        tokens[kind] = names if plain else [str(k) for k in range(len(names))]
        lines.append(f"{kind}s: {' '.join(names) if plain else len(names)}")
    lines.append("start: " + " ".join(repr(float(p)) for p in pomdp.start))
    states, actions, seen = tokens.values()
    lines += [f"T: {' : '.join(at)} {p!r}" for at, p in entries(pomdp.transitions, actions, states, states)]
    lines += [f"O: {' : '.join(at)} {p!r}" for at, p in entries(pomdp.observations, actions, states, seen)]
    for i, k in np.argwhere(pomdp.rewards):
        lines.append(f"R: {actions[k]} : {states[i]} : * : * {float(pomdp.rewards[i, k])!r}")
    with replacing(path) as beside:
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def entries(
    tables: Sequence[sp.csr_array], actions: Sequence[str], rows: Sequence[str], columns: Sequence[str]
) -> Iterator[Entry]:
    """What is not zero in the tables of all actions, by names."""
    for action, table in zip(actions, tables, strict=True):
        coo = table.tocoo()
        for i, j, p in zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True):
            yield (action, rows[i], columns[j]), p


def is_number(token: str) -> bool:
    """Whether a token is a finite number, as the format writes them."""
    return NUMBER.fullmatch(token) is not None and isfinite(float(token))


def is_count(token: str) -> bool:
    """Whether a token is a whole number; str.isdigit alone takes ² for one."""
    return token.isascii() and token.isdigit()
