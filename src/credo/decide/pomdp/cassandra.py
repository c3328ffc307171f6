"""Cassandra's `.pomdp` and `.mdp` files: a preamble of names, then T, O and R entries, of which the last one counts.

https://pomdp.org/code/pomdp-file-spec.html. Entries are kept as numbers of sparse cells, never as dense tables: what a
row or a matrix says takes the place of all that was said of it before.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from credo.core.errors import DataError
from credo.core.files import bytes_of, replacing
from credo.decide.pomdp.model import POMDP, entries_of

ROUNDING = 1e-4
"""Rows of files may be off by so much, as their numbers are rounded; they are divided by their sums."""
LARGEST = 50_000_000
"""States times actions, or numbers of one table, that a file may ask for."""
SECTIONS = ("discount", "values", "states", "actions", "observations", "start", "T", "O", "R")
TOKEN = re.compile(r"[^\s:*]+|[:*]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def read(path: Path) -> POMDP:
    """The problem of a file; in an `.mdp` there need be no observations, and then nothing is seen."""
    text = bytes_of(path).decode("utf-8-sig", errors="replace")
    return parse(text, path.name, {"observations": ("nothing",)} if path.suffix.lower() == ".mdp" else {})


def parse(text: str, name: str = "the text", names: Mapping[str, tuple[str, ...]] = MappingProxyType({})) -> POMDP:
    """The problem of a text in Cassandra's format; `name` is for errors, `names` are those its preamble may omit."""
    return _Parser(text, name, names).problem()


class Cells:
    """Probabilities (rows, columns) as they were said, the last word counting."""

    def __init__(self, rows: int, columns: int) -> None:
        self.shape = (rows, columns)
        self.cleared = np.full(rows, -1)
        self.chunks: list[tuple[np.ndarray, np.ndarray]] = []
        self.turn: list[int] = []

    def say(self, rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"], values: np.ndarray) -> None:
        """These cells hold these values."""
        self.chunks.append((rows * self.shape[1] + columns, values))
        self.turn.append(len(self.turn))

    def clear(self, rows: Int[np.ndarray, " n"]) -> None:
        """What was said of these rows does not count any more."""
        self.cleared[rows] = len(self.turn)

    def matrix(self) -> sp.csr_array:
        """(rows, columns), sparse."""
        if not self.chunks:
            return sp.csr_array(self.shape)
        keys = np.concatenate([k for k, _ in self.chunks])
        values = np.concatenate([v for _, v in self.chunks])
        turns = np.repeat(self.turn, [len(k) for k, _ in self.chunks])
        counts = turns >= self.cleared[keys // self.shape[1]]
        keys, values = keys[counts][::-1], values[counts][::-1]
        last, where = np.unique(keys, return_index=True)
        found = sp.csr_array((values[where], np.divmod(last, self.shape[1])), shape=self.shape)
        found.eliminate_zeros()
        return found


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
        self.cells: dict[str, Cells] = {}

    # ── tokens

    def fail(self, what: str, at: int | None = None) -> NoReturn:
        """The error, with the line and the token."""
        index = self.at if at is None else at
        places = [m.start() for m in TOKEN.finditer(self.text)]
        line = self.text.count("\n", 0, places[index]) + 1 if index < len(places) else self.text.count("\n") + 1
        found = repr(self.tokens[index]) if index < len(self.tokens) else "the end of the file"
        raise DataError(f"{self.name}, line {line}: {what}, found {found}")

    def peek(self, ahead: int = 0) -> str:
        """A token to come; empty at the end."""
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, what: str) -> str:
        """The next token."""
        if self.at >= len(self.tokens):
            self.fail(f"expected {what}")
        self.at += 1
        return self.tokens[self.at - 1]

    def colon(self) -> None:
        """The next token, a colon."""
        if self.peek() != ":":
            self.fail("expected ':'")
        self.at += 1

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
                self.fail("expected a name or a section")
            self.at += 1
        return self.tokens[first : self.at]

    def floats(self, n: int, what: str) -> Float[np.ndarray, " n"]:
        """The next n numbers."""
        given = self.tokens[self.at : self.at + n]
        try:
            out = np.array(given, dtype=float)
        except ValueError:
            out = np.array([np.nan])
        plain = "".join(given)
        if not (np.isfinite(out).all() and plain.isascii() and "_" not in plain):  # Python takes 1_0 and ٣ for numbers
            wrong = [not NUMBER.fullmatch(token) or not np.isfinite(float(token)) for token in given]
            self.fail(f"expected {n} numbers of {what}", self.at + wrong.index(True))
        if len(given) < n:
            self.at = len(self.tokens)
            self.fail(f"expected {n} numbers of {what}, of which there are {len(given)}")
        self.at += n
        return out

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
                self.fail(f"expected one of {', '.join(SECTIONS)} with a colon")
            section = self.take("a section")
            if section == "start":
                self.begin()
                continue
            self.colon()
            if section in ("T", "O", "R"):
                self.entry(section)
            else:
                self.preamble(section)
        self.ready()
        if self.discount is None:
            raise DataError(f"{self.name} has no discount; write a line such as 'discount: 0.95'")
        a, s, o = (len(self.names[kind]) for kind in ("actions", "states", "observations"))
        moves, shows = ([each[k * s : (k + 1) * s] for k in range(a)] for each in (self.table("T"), self.table("O")))
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
            self.discount = float(self.floats(1, "the discount")[0])
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
                if len(given[0]) > len(str(LARGEST)) or int(given[0]) > LARGEST:
                    self.fail(f"expected at most {LARGEST:,} {section}", first)
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

    def begin(self) -> None:
        """start: probabilities, uniform, a state; start include: states; start exclude: states."""
        self.ready()
        if self.resets:
            self.fail("expected the start before the first reset", self.at - 1)
        how = self.take("':'") if self.peek() in ("include", "exclude") else ""
        self.colon()
        s, first = len(self.names["states"]), self.at
        given = self.words()
        last = self.at
        if not given:
            self.fail("expected the start: probabilities, uniform or states")
        if not how and given == ["uniform"]:
            self.start = np.full(s, 1 / s)
            return
        if not how and len(given) == s and all(NUMBER.fullmatch(word) for word in given) and (s > 1 or given != ["0"]):
            self.at = first
            probs = self.floats(s, "the start")
            if abs(probs.sum() - 1) > ROUNDING or (probs < 0).any():
                self.fail(f"the start must be probabilities that sum to 1, their sum is {probs.sum():.9g}", first)
            self.start = probs / probs.sum()
            return
        self.at, flags = first, np.zeros(s)
        while self.at < last:
            which = self.number("states")
            flags[slice(None) if which is None else which] = 1.0
        flags = 1 - flags if how == "exclude" else flags
        if not flags.any():
            self.fail("the start excludes all states", first)
        self.start = flags / flags.sum()

    def table(self, which: str) -> sp.csr_array:
        """What was said with T or O; one observation need not be said."""
        cells = self._cells(which)
        rows, columns = cells.shape
        return cells.matrix() if cells.chunks or columns > 1 else sp.csr_array(np.ones((rows, 1)))

    def _cells(self, which: str) -> Cells:
        if which not in self.cells:
            s, a = len(self.names["states"]), len(self.names["actions"])
            if a * s > LARGEST:
                self.fail(f"expected at most {LARGEST:,} states times actions, {a * s:,} were announced")
            self.cells[which] = Cells(a * s, s if which == "T" else len(self.names["observations"]))
        return self.cells[which]

    def entry(self, which: str) -> None:
        """T: a [: s [: s']], O: a [: s' [: o]] or R: a : s [: s' [: o]], and what is there."""
        self.ready()
        kinds = {
            "T": ("actions", "states", "states"),
            "O": ("actions", "states", "observations"),
            "R": ("actions", "states", "states", "observations"),
        }[which]
        where = [self.number(kinds[0])]
        while len(where) < len(kinds) and self.peek() == ":":
            self.colon()
            where.append(self.number(kinds[len(where)]))
        if len(where) == len(kinds) and self.peek() == ":":  # some writers put one before the number, too
            self.colon()
        if which == "R":
            self.reward(where)
            return
        cells, s = self._cells(which), len(self.names["states"])
        columns = cells.shape[1]
        actions = np.arange(len(self.names["actions"])) if where[0] is None else np.array([where[0]])
        states = np.arange(s) if len(where) < 2 or where[1] is None else np.array([where[1]])
        rows = (actions[:, None] * s + states).ravel()
        if len(where) == 3:
            value = self.floats(1, "a probability")
            to = np.arange(columns) if where[2] is None else np.array([where[2]])
            self.alike(cells, rows, to, np.repeat(value, len(to)))
            return
        word = self.peek()
        cells.clear(rows)
        if word in ("uniform", "identity", "reset"):
            self.at += 1
        if word == "identity":
            if len(where) == 2 or columns != s:
                self.fail("identity takes the place of a square matrix", self.at - 1)
            cells.say(rows, rows % s, np.ones(len(rows)))
            return
        if word == "uniform":
            line = np.full(columns, 1 / columns)
        elif word == "reset":
            if which != "T":
                self.fail("reset is for transitions", self.at - 1)
            line = np.full(s, 1 / s) if self.start is None else self.start
            self.resets = True
        elif len(where) == 2:
            line = self.floats(columns, "a row")
        else:
            table = self.floats(s * columns, "a matrix").reshape(s, columns)
            i, j = np.nonzero(table)
            for action in actions:
                cells.say(action * s + i, j, table[i, j])
            return
        to = np.flatnonzero(line)
        self.alike(cells, rows, to, line[to])

    def alike(self, cells: Cells, rows: Int[np.ndarray, " n"], to: Int[np.ndarray, " m"], probs: np.ndarray) -> None:
        """The same probabilities in each of some rows."""
        if len(rows) * len(to) > LARGEST:
            self.fail(
                f"expected at most {LARGEST:,} probabilities of one line, {len(rows) * len(to):,} are meant",
                self.at - 1,
            )
        cells.say(np.repeat(rows, len(to)), np.tile(to, len(rows)), np.tile(probs, len(rows)))

    def reward(self, where: list[int | None]) -> None:
        """A number, a row over observations, or a matrix over next states and observations."""
        s, o = len(self.names["states"]), len(self.names["observations"])
        if len(where) == 1:
            self.fail("expected ':' and a state after the action of a reward")
        if len(where) == 4:
            self.rewards.append((tuple(where), float(self.floats(1, "a reward")[0])))
            return
        n = o if len(where) == 3 else s * o
        values = self.floats(n, "rewards")
        if (values == values[0]).all():
            self.rewards.append(((*where, *[None] * (4 - len(where))), float(values[0])))
            return
        for k, value in enumerate(values.tolist()):
            rest = (k,) if len(where) == 3 else divmod(k, o)
            self.rewards.append(((*where, *rest), value))


def _expected(
    said: list[tuple[tuple[int | None, ...], float]],
    moves: list[sp.csr_array],
    shows: list[sp.csr_array],
    shape: tuple[int, int, int],
) -> Float[np.ndarray, "s a"]:
    """r(s, a) of rewards as they were said: entries that name the same coordinates are looked up together, in order."""
    s, a, o = shape
    sizes = np.array([a, s, s, o])
    groups: list[tuple[tuple[bool, ...], list[tuple[int, ...]], list[float]]] = []
    for where, value in said:
        named = tuple(each is not None for each in where)
        if not groups or groups[-1][0] != named:
            groups.append((named, [], []))
        groups[-1][1].append(tuple(each or 0 for each in where))
        groups[-1][2].append(value)
    lookup = []
    for named, places, values in groups:
        weight = np.array(named) * np.append(np.cumprod(sizes[::-1])[::-1][1:], 1)
        keys = np.array(places) @ weight
        known, last = np.unique(keys[::-1], return_index=True)
        lookup.append((weight, known, np.array(values)[::-1][last]))
    sees = any(named[3] for named, _, _ in groups)
    moved = sees or any(named[2] for named, _, _ in groups)
    out = np.zeros((s, a))
    for k in range(a):
        here, after, seen, probs = np.arange(s), np.zeros(s, int), np.zeros(s, int), np.ones(s)
        if moved:
            table = moves[k].tocoo()
            here, after, probs = table.row, table.col, table.data
            seen = np.zeros(len(here), int)
        if sees:
            entry, at = entries_of(shows[k].indptr, after)
            here, after, seen = here[entry], after[entry], shows[k].indices[at]
            probs = probs[entry] * shows[k].data[at]
        paid = np.zeros(len(here))
        for weight, known, each in lookup:
            keys = k * weight[0] + here * weight[1] + after * weight[2] + seen * weight[3]
            at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            paid = np.where(known[at] == keys, each[at], paid)
        out[:, k] = np.bincount(here, probs * paid, minlength=s)
    return out


def write(pomdp: POMDP, path: Path) -> Path:
    """Writes a problem in Cassandra's format; rewards as they are expected, r(s, a)."""
    lines = [f"discount: {pomdp.discount!r}", "values: reward"]
    tokens = {}
    for kind in ("state", "action", "observation"):
        names = [str(each) for each in getattr(pomdp, f"{kind}_names")]
        plain = all(re.fullmatch(r"[A-Za-z_][^\s:#*]*", each) for each in names) and not set(names) & set(SECTIONS)
        tokens[kind] = names if plain else [str(k) for k in range(len(names))]
        lines.append(f"{kind}s: {' '.join(names) if plain else len(names)}")
    lines.append("start: " + " ".join(repr(float(p)) for p in pomdp.start))
    for letter, tables, last in (("T", pomdp.transitions, "state"), ("O", pomdp.observations, "observation")):
        for action, table in zip(tokens["action"], tables, strict=True):
            coo = table.tocoo()
            cells = zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True)
            lines += [f"{letter}: {action} : {tokens['state'][i]} : {tokens[last][j]} {p!r}" for i, j, p in cells]
    for i, k in np.argwhere(pomdp.rewards):
        lines.append(f"R: {tokens['action'][k]} : {tokens['state'][i]} : * : * {float(pomdp.rewards[i, k])!r}")
    with replacing(path) as beside:
        beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def is_count(token: str) -> bool:
    """Whether a token is a whole number; str.isdigit alone takes ² for one."""
    return token.isascii() and token.isdigit()
