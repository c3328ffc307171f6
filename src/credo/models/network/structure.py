"""Arrows from a table: the graph with the highest score, by climbing or exactly.

    HillClimb   the best of all arrows that can be added, removed or turned, until none gains
    Tabu        the same beyond the top: moves that lose are taken, too, and none is undone soon; arrows turned round
    Exact       the best graph of all, over the last variable of an order: V(W) = max_j V(W∖j) + best(j, W∖j)

The gains of all moves stand in one matrix, of which a move renews one or two columns; whether an arrow would close a
circle is read from a matrix of what can be reached from where.

Heckerman, Geiger & Chickering (1995); Glover (1989) for tabu; Silander & Myllymäki (2006), "A simple approach for
finding the globally optimal Bayesian network structure".
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.core.errors import DataError
from credo.core.method import Method
from credo.infer.method import check_settings
from credo.models.network.scores import Columns, LocalScores, Score, as_score, bits

MOST_EXACT = 15
"""Variables of which all graphs are looked through: 2^15 tables are counted."""
SHORT = 15
"""Moves to nothing better after which a walk turns round."""
FEW = 8
"""Up to so many variables a walk ends at the best graph of all as a rule, without turning round."""
GAIN = 1e-8
"""A move that gains less is rounding, or a turn to an equivalent graph."""


class Arrows(NamedTuple):
    """A graph that was found: who is a parent of whom (row → column), and its score."""

    names: tuple[str, ...]
    adjacency: Bool[np.ndarray, "d d"]
    score: float

    @property
    def edges(self) -> list[tuple[str, str]]:
        """(parent, child) by name."""
        return [(self.names[i], self.names[j]) for i, j in np.argwhere(self.adjacency)]

    def parents(self) -> dict[str, tuple[str, ...]]:
        """The parents of every variable."""
        above = [np.flatnonzero(self.adjacency[:, j]) for j in range(len(self.names))]
        return {name: tuple(self.names[i] for i in each) for name, each in zip(self.names, above, strict=True)}


class StructureProblem:
    """A table, a score, and which arrows must or must not be there."""

    def __init__(
        self,
        columns: Columns,
        score: str | Score | None = None,
        white: Iterable[Sequence[str]] = (),
        black: Iterable[Sequence[str]] = (),
        max_parents: int | None = None,
    ):
        self.columns, self.names, self.d = columns, columns.names, columns.d
        self.score = LocalScores(columns, as_score(score, columns))
        self.required, self.forbidden = self._listed(white, "white"), self._listed(black, "black")
        self.forbidden |= np.eye(self.d, dtype=bool)
        numeric = columns.cardinalities == 0
        self.forbidden |= numeric[:, None] & ~numeric[None, :]
        clash = np.argwhere(self.required & self.forbidden)
        if len(clash):
            i, j = clash[0]
            why = "an arrow from a number to a category" if numeric[i] and not numeric[j] else "on the black list, too"
            raise DataError(f"the white list has {self.names[i]} → {self.names[j]}, which is {why}; take it off one")
        self.max_parents = self.d if max_parents is None else max_parents
        if (self.required.sum(0) > self.max_parents).any():
            raise DataError(f"the white list gives a variable more than max_parents={max_parents} parents; raise it")
        if reachability(self.required) is None:
            raise DataError("the arrows of the white list make a circle; take one of them off")

    def _listed(self, arrows: Iterable[Sequence[str]], name: str) -> Bool[np.ndarray, "d d"]:
        out = np.zeros((self.d, self.d), dtype=bool)
        for arrow in arrows:
            if isinstance(arrow, str) or len(arrow) != 2:
                raise DataError(f"{name} must list arrows as pairs (parent, child), found {arrow!r}")
            for end in arrow:
                if end not in self.names:
                    raise DataError(f"{name} names {end!r}, which is no column; there are {', '.join(self.names)}")
            out[self.names.index(arrow[0]), self.names.index(arrow[1])] = True
        return out

    def with_columns(self, columns: Columns) -> "StructureProblem":
        """The same problem for other rows."""
        other = copy(self)
        other.columns, other.score = columns, LocalScores(columns, self.score.score)
        return other

    def found(self, parents: Sequence[int]) -> Arrows:
        """The graph with these sets of parents."""
        adjacency = np.zeros((self.d, self.d), dtype=bool)
        for j, mask in enumerate(parents):
            adjacency[list(bits(mask)), j] = True
        return Arrows(self.names, adjacency, float(sum(self.score(j, mask) for j, mask in enumerate(parents))))

    def all_scores(self, most: int, remedy: str) -> Float[np.ndarray, "d m"]:
        """score(j, P) of all sets of parents that the lists allow, else -inf; refused where there are too many."""
        if self.d > most:
            raise DataError(
                f"all graphs can be looked through up to {most} variables, found {self.d}: {2.0**self.d:.2g} tables "
                f"would be counted; {remedy}"
            )
        table, masks = self.score.fill(), np.arange(1 << self.d)
        many = np.bitwise_count(masks) > self.max_parents
        for j in range(self.d):
            required, forbidden = as_mask(self.required[:, j]), as_mask(self.forbidden[:, j])
            table[j, many | (masks & required != required) | (masks & forbidden != 0)] = -np.inf
        return table


def as_mask(members: Bool[np.ndarray, " d"]) -> int:
    """The set as bits of a number."""
    return sum(1 << int(i) for i in np.flatnonzero(members))


def reachability(adjacency: Bool[np.ndarray, "d d"]) -> Bool[np.ndarray, "d d"] | None:
    """What can be reached along arrows, each variable from itself; None where there is a circle."""
    d = len(adjacency)
    reach, left, degree = np.eye(d, dtype=bool), list(np.flatnonzero(~adjacency.any(0))), adjacency.sum(0)
    seen = 0
    while left:
        i = left.pop()
        seen += 1
        for j in np.flatnonzero(adjacency[i]):
            reach[:, j] |= reach[:, i]
            degree[j] -= 1
            if degree[j] == 0:
                left.append(j)
    return reach if seen == d else None


class StructureSearch(Method, ABC):
    """A way to find arrows: what `Network.learn_structure` takes as `using=`."""

    def __post_init__(self) -> None:
        check_settings(self)

    def serves(self, subject: object, verb: str) -> bool:
        """Tables whose arrows are looked for."""
        return isinstance(subject, StructureProblem) and verb == "learn_structure"

    def needs_of(self, subject: object, verb: str) -> str:
        """What to call."""
        return "it finds arrows in a table, call credo.Network.learn_structure(frame, using=…)"

    @abstractmethod
    def search(self, problem: StructureProblem) -> Arrows:
        """The best graph found."""


@dataclass(frozen=True)
class HillClimb(StructureSearch):
    """The steepest ascent over single arrows, from those of the white list alone."""

    def search(self, problem: StructureProblem) -> Arrows:
        """Where no single arrow gains."""
        return problem.found(_Walk(problem).climb()[0])


@dataclass(frozen=True)
class Tabu(StructureSearch):
    """The best move even where it loses, none of which is undone within the next `memory` moves.

    An arrow that points the wrong way draws others with it, and no single move leads back; so the walk is made again
    from the best graph with all its arrows turned round, as long as that ends higher.

    Args:
        memory: for how many moves an arrow that changed stays as it is, unless that leads above all seen.
        patience: how many moves in a row may lead to nothing better; None is three for each variable.
        turns: how often at most all arrows are turned round.
    """

    memory: int = 10
    patience: int | None = None
    turns: int = 4

    def search(self, problem: StructureProblem) -> Arrows:
        """The best graph on the way."""
        walk, turns = _Walk(problem), self.turns if problem.d > FEW else 0
        patience = 3 * problem.d if self.patience is None else self.patience
        best, height = self._beyond(walk, SHORT if turns else patience)
        for _ in range(turns):
            if not walk.turned_round(best):
                break
            found, reached = self._beyond(walk, SHORT)
            if reached <= height + GAIN:
                break
            best, height = found, reached
        if turns:
            walk.go_to(best)
            best, _ = self._beyond(walk, patience)
        return problem.found(best)

    def _beyond(self, walk: "_Walk", patience: int) -> tuple[list[int], float]:
        """To the top of the slope, and on until so many moves led to nothing better."""
        best, height = walk.climb()
        since, changed = 0, np.full((walk.d, walk.d), -np.inf)
        for step in range(10_000):
            gains = walk.gains()
            fresh = step - changed > self.memory
            allowed = np.where(fresh | (walk.height + gains > height + GAIN), gains, -np.inf)
            if since >= patience or not np.isfinite(allowed).any():
                break
            i, j = walk.move(allowed)
            changed[i, j] = changed[j, i] = step
            since += 1
            if walk.height > height + GAIN:
                best, height, since = list(walk.parents), walk.height, 0
        return best, height


@dataclass(frozen=True)
class Exact(StructureSearch):
    """The best graph of all, by dynamic programming over sets of variables; up to 15 of them."""

    def search(self, problem: StructureProblem) -> Arrows:
        """V(W) = max_j V(W∖j) + best(j, W∖j), and back along the choices."""
        local = problem.all_scores(MOST_EXACT, "climb with using=HillClimb() or Tabu()")
        d, size = problem.d, 1 << problem.d
        chosen = np.tile(np.arange(size), (d, 1))
        for j in range(d):  # the best parents among each set: the set itself, or what is best without one of them
            for i in range(d):
                score, which = (table[j].reshape(-1, 2, 1 << i) for table in (local, chosen))
                better = score[:, 0] > score[:, 1]
                score[:, 1] = np.where(better, score[:, 0], score[:, 1])
                which[:, 1] = np.where(better, which[:, 0], which[:, 1])
        value, last = np.full(size, -np.inf), np.zeros(size, dtype=int)
        value[0] = 0.0
        masks = np.arange(size)
        layers = np.bitwise_count(masks)
        for count in range(1, d + 1):
            sets = masks[layers == count]
            for j in range(d):
                with_j = sets[(sets >> j) & 1 == 1]
                without = with_j ^ 1 << j
                reached = value[without] + local[j, without]
                better = reached > value[with_j]
                value[with_j[better]], last[with_j[better]] = reached[better], j
        parents, left = [0] * d, size - 1
        while left:
            j = int(last[left])
            left ^= 1 << j
            parents[j] = int(chosen[j, left])
        return problem.found(parents)


class _Walk:
    """A graph with the gains of all single changes.

    `toggle[i, j]` is what adding i → j gains where it is not there, and removing it where it is.
    """

    def __init__(self, problem: StructureProblem):
        self.problem, self.d = problem, problem.d
        self.parents = [as_mask(problem.required[:, j]) for j in range(self.d)]
        self.adjacency = problem.found(self.parents).adjacency
        self.local = [problem.score(j, mask) for j, mask in enumerate(self.parents)]
        self.toggle = np.full((self.d, self.d), -np.inf)
        for j in range(self.d):
            self._renew(j)
        self._reach()

    @property
    def height(self) -> float:
        """The score of the graph."""
        return float(sum(self.local))

    def gains(self) -> Float[np.ndarray, "2 d d"]:
        """What each move gains: [0] adding or removing i → j, [1] turning it; -inf where it is not allowed."""
        here, forbidden = self.adjacency, self.problem.forbidden
        room = here.sum(0) < self.problem.max_parents
        add = ~here & ~forbidden & ~self.reach.T & room[None, :]
        remove = here & ~self.problem.required
        # i → j may be turned where no other way leads from i to j
        detour = (here.astype(np.float32) @ self.reach.astype(np.float32)) > 1.5
        turn = remove & ~forbidden.T & ~detour & room[:, None]
        with np.errstate(invalid="ignore"):
            turned = self.toggle + self.toggle.T
        return np.stack([np.where(add | remove, self.toggle, -np.inf), np.where(turn, turned, -np.inf)])

    def move(self, gains: Float[np.ndarray, "2 d d"]) -> tuple[int, int]:
        """Makes the move with the highest gain."""
        turn, i, j = (int(v) for v in np.unravel_index(int(np.argmax(gains)), gains.shape))
        added = not self.adjacency[i, j]
        self._flip(i, j)
        if turn:
            self._flip(j, i)
        if added:
            self.reach |= self.reach[:, i][:, None] & self.reach[j][None, :]
        else:
            self._reach()
        return i, j

    def climb(self) -> tuple[list[int], float]:
        """Moves while one gains; where that ends."""
        while True:
            gains = self.gains()
            if not gains.max() > GAIN:
                return list(self.parents), self.height
            self.move(gains)

    def go_to(self, parents: Sequence[int]) -> None:
        """The walk goes on from another graph."""
        for j in np.flatnonzero(np.not_equal(self.parents, parents)).tolist():
            self.parents[j], self.local[j] = parents[j], self.problem.score(j, parents[j])
            self.adjacency[:, j] = False
            self.adjacency[list(bits(parents[j])), j] = True
            self._renew(j)
        self._reach()

    def turned_round(self, parents: Sequence[int]) -> bool:
        """Goes to a graph with all arrows turned that may be turned; whether there is such a graph."""
        here = self.problem.found(parents).adjacency
        turn = here & ~self.problem.required & ~self.problem.forbidden.T
        after = (here & self.problem.required) | turn.T
        if (after.sum(0) > self.problem.max_parents).any() or reachability(after) is None:
            return False
        self.go_to([as_mask(after[:, j]) for j in range(self.d)])
        return True

    def _flip(self, i: int, j: int) -> None:
        self.adjacency[i, j] ^= True
        self.parents[j] ^= 1 << i
        self.local[j] = self.problem.score(j, self.parents[j])
        self._renew(j)

    def _renew(self, j: int) -> None:
        """The gains of changes of the parents of j."""
        mask, score = self.parents[j], self.problem.score
        full = mask.bit_count() >= self.problem.max_parents
        for i in np.flatnonzero(~self.problem.forbidden[:, j]).tolist():
            skipped = full and not (mask >> i) & 1
            self.toggle[i, j] = -np.inf if skipped else score(j, mask ^ 1 << i) - self.local[j]

    def _reach(self) -> None:
        reach = reachability(self.adjacency)
        assert reach is not None
        self.reach = reach
