"""Partially observable Markov decision processes: the state is hidden, actions pay, lead on and show something.

Kaelbling, Littman & Cassandra (1998), "Planning and acting in partially observable stochastic domains", Artificial
Intelligence 101.
"""

import os
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from credo.core.checks import ArrayLike, check_array, check_real
from credo.core.errors import DataError
from credo.decide.mdp.model import MDP
from credo.decide.mdp.problem import Effort, Problem, Question
from credo.decide.mdp.transitions import SUM_TOLERANCE, check_terminal

if TYPE_CHECKING:
    from credo.decide.pomdp.belief import BeliefState

Names = Iterable[Hashable]
Factor = tuple[str, tuple[str, ...]]
"""A variable of a factored state and its values."""


class POMDP(Problem):
    """Hidden states s, actions a, observations o: P(s' | s, a), P(o | a, s'), rewards and a discount γ.

        tiger = POMDP([T_listen, T_left, T_right], [O_listen, O_left, O_right], rewards, discount=0.95)

    `transition` is an array (s, a, s'), or a list with a matrix (s, s') for each action, dense or scipy.sparse;
    `observation` an array (s', a, o), a list with a matrix (s', o) for each action, or one matrix (s', o) for all;
    `reward` is (s,), (s, a), (s, a, s') or (s, a, s', o), of which the expectation r(s, a) is kept. `start` is a state
    or probabilities; all states alike where there is none. In states named by `terminal` the episode is over: they stay
    as they are and pay nothing, as does any absorbing state without rewards. Names are numbers where none are given.
    """

    moves: Float[np.ndarray, " n"]
    """P(s' | s, a) in compressed sparse rows, a·S + s for action a and state s; see `transitions`."""
    move_indices: Int[np.ndarray, " n"]
    move_indptr: Int[np.ndarray, " rows"]
    shows: Float[np.ndarray, " m"]
    """P(o | a, s') in the same way; see `observations`."""
    show_indices: Int[np.ndarray, " m"]
    show_indptr: Int[np.ndarray, " rows"]
    rewards: Float[np.ndarray, "s a"]
    """r(s, a), the expected immediate reward."""
    start: Float[np.ndarray, " s"]
    discount: float = eqx.field(static=True)
    state_names: tuple[Hashable, ...] = eqx.field(static=True)
    action_names: tuple[Hashable, ...] = eqx.field(static=True)
    observation_names: tuple[Hashable, ...] = eqx.field(static=True)
    factors: tuple[Factor, ...] | None = eqx.field(static=True)
    """The variables that the state consists of, the last one changing fastest; None where it is one."""

    def __init__(
        self,
        transition: Any,
        observation: Any,
        reward: Any,
        discount: SupportsFloat = 0.95,
        start: Any = None,
        *,
        terminal: ArrayLike = None,
        states: Names | None = None,
        actions: Names | None = None,
        observations: Names | None = None,
        factors: tuple[Factor, ...] | None = None,
        tolerance: float = SUM_TOLERANCE,
    ) -> None:
        self.discount = check_real(discount, "discount", 0, 1)
        moves = matrices(transition, "transition", "(s, a, s')")
        a, s = len(moves), moves[0].shape[0]
        shows = matrices(observation, "observation", "(s', a, o)", a)
        o = shows[0].shape[1]
        if len(shows) != a or any(m.shape != (s, s) for m in moves) or any(m.shape != (s, o) for m in shows):
            found = f"{[m.shape for m in moves][:3]} and {[m.shape for m in shows][:3]}"
            raise DataError(
                f"transition and observation must have a matrix (s, s') and (s', o) for each action, found {found}"
            )
        self.state_names = _names(states, s, "states")
        self.action_names = _names(actions, a, "actions")
        self.observation_names = _names(observations, o, "observations")
        self.factors = factors
        paid = expected_rewards(reward, moves, shows)
        if isinstance(terminal, list | tuple) and any(isinstance(each, str) for each in terminal):
            terminal = [self.state(each) for each in terminal]
        over = np.flatnonzero(check_terminal(terminal, s))
        if len(over):
            paid[over] = 0.0
            stay = sp.csr_array((np.ones(len(over)), (over, over)), shape=(s, s))
            keep = sp.diags_array(np.where(np.isin(np.arange(s), over), 0.0, 1.0))
            moves = [sp.csr_array(keep @ m + stay) for m in moves]
        self.rewards = paid
        stacked = self._probabilities(moves, "transition", "from", tolerance)
        self.moves, self.move_indices, self.move_indptr = stacked.data, stacked.indices, stacked.indptr
        stacked = self._probabilities(shows, "observation", "in", tolerance)
        self.shows, self.show_indices, self.show_indptr = stacked.data, stacked.indices, stacked.indptr
        self.start = np.full(s, 1 / s) if start is None else self.distribution(start)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "POMDP":
        """The problem of a file: Cassandra's format (`.pomdp`) or APPL's factored XML (`.pomdpx`)."""
        from credo.decide.pomdp import cassandra, pomdpx

        source = Path(path)
        return (pomdpx if source.suffix.lower() == ".pomdpx" else cassandra).read(source)

    @classmethod
    def from_hmm(cls, hmm: Any, inputs: ArrayLike, rewards: ArrayLike, discount: float = 0.95, **names: Any) -> "POMDP":
        """The problem of a fitted `InputHMM`: a row of `inputs` for each action, emissions are what is observed."""
        from credo.decide.pomdp.learning import from_hmm

        return from_hmm(hmm, inputs, rewards, discount, **names)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the problem in the format of the file's ending, `.pomdp` or `.pomdpx`."""
        from credo.decide.pomdp import cassandra, pomdpx

        target = Path(path)
        return (pomdpx if target.suffix.lower() == ".pomdpx" else cassandra).write(self, target)

    # ── what is in it

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many states, actions and observations."""
        s, a = self.rewards.shape
        return s, a, len(self.observation_names)

    @property
    def transitions(self) -> tuple[sp.csr_array, ...]:
        """P(s' | s, a), a sparse matrix (s, s') for each action."""
        return _unstacked(self.moves, self.move_indices, self.move_indptr, self.shape[1], self.shape[0])

    @property
    def observations(self) -> tuple[sp.csr_array, ...]:
        """P(o | a, s'), a sparse matrix (s', o) for each action."""
        return _unstacked(self.shows, self.show_indices, self.show_indptr, self.shape[1], self.shape[2])

    @property
    def terminal(self) -> Bool[np.ndarray, " s"]:
        """Where nothing happens any more: states that no action leaves and that pay nothing."""
        stays = np.column_stack([m.diagonal() for m in self.transitions]) == 1
        return np.all(stays & (self.rewards == 0), axis=1)

    @property
    def mdp(self) -> MDP:
        """The world of somebody who sees the state."""
        moves, names = list(self.transitions), (self.state_names, self.action_names)
        over, begin = self.terminal, self.start
        return MDP(moves, self.rewards, self.discount, terminal=over, start=begin, states=names[0], actions=names[1])

    def same_dynamics(self, other: "POMDP") -> bool:
        """Whether actions move, show and pay as they do in another problem; names and start may differ."""
        fields = ["moves", "move_indices", "move_indptr", "shows", "show_indices", "show_indptr", "rewards", "discount"]
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in fields)

    def belief(self, start: Any = None) -> "BeliefState":
        """What is known of the state: at the start, or the probabilities (or the state) given."""
        from credo.decide.pomdp.belief import BeliefState

        return BeliefState(self, self.start if start is None else self.distribution(start))

    def belief_mdp(self, resolution: int = 20) -> MDP:
        """The belief MDP on a grid: its states are beliefs whose probabilities are multiples of 1/resolution."""
        from credo.decide.pomdp.grid import belief_mdp

        return belief_mdp(self, resolution)

    def question(self, horizon: int | None, criterion: str, effort: Effort) -> Question:
        """What is asked with these options; see `credo.decide.pomdp.solving`."""
        from credo.decide.pomdp.solving import question

        return question(self, horizon, criterion, effort)

    # ── names and checks

    def state(self, name: Hashable) -> int:
        """The number of a state, from its name or its number."""
        return _number(name, self.state_names, "state")

    def action(self, name: Hashable) -> int:
        """The number of an action, from its name or its number."""
        return _number(name, self.action_names, "action")

    def observation(self, name: Hashable) -> int:
        """The number of an observation, from its name or its number."""
        return _number(name, self.observation_names, "observation")

    def distribution(self, given: Any, what: str = "start") -> Float[np.ndarray, " s"]:
        """Probabilities of the states, from a state (its name or number) or from probabilities."""
        s = len(self.state_names)
        if isinstance(given, str | int | np.integer):
            out = np.zeros(s)
            out[self.state(given)] = 1.0
            return out
        probs = check_array(given, what).astype(float)
        if probs.shape != (s,):
            raise DataError(f"{what} must be a state or {s} probabilities, found the shape {probs.shape}")
        if not (probs >= 0).all() or abs(probs.sum() - 1) > SUM_TOLERANCE:
            found = f"{probs.min():.9g}" if (probs < 0).any() else f"the sum {probs.sum():.9g}"
            raise DataError(f"{what} must hold probabilities that sum to 1, found {found}")
        return probs / probs.sum()

    def check_ending(self) -> None:
        """An error where the sum of rewards may have no end: a discount of one without a state to end in."""
        if self.discount == 1 and not self.terminal.any():
            raise DataError(
                "a discount of 1 needs terminal states (that no action leaves and that pay nothing), found none; give "
                "a discount below 1, terminal=, or a horizon"
            )

    def _probabilities(self, given: Sequence[sp.csr_array], what: str, where: str, tolerance: float) -> sp.csr_array:
        """The matrices of all actions in one, rows clean; or an error that names the row that is worst."""
        matrix = sp.csr_array(sp.vstack(list(given), format="csr")).astype(float, copy=False)
        s = given[0].shape[0]

        def row(k: int) -> str:
            return f"action {self.action_names[k // s]!r} {where} state {self.state_names[k % s]!r}"

        bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
        if bad.any():
            first = int(np.argmax(bad))
            at = int(np.searchsorted(matrix.indptr, first, side="right")) - 1
            raise DataError(f"{what} must hold probabilities, found {matrix.data[first]:g} for {row(at)}")
        sums = np.asarray(matrix.sum(axis=1))
        off = np.abs(sums - 1)
        worst = int(np.argmax(off))
        if off[worst] > tolerance:
            raise DataError(
                f"the {what} probabilities of each action and state must sum to 1, found {sums[worst]:.9g} (off by "
                f"{sums[worst] - 1:+.3g}) for {row(worst)}; {int((off > tolerance).sum())} rows are off"
            )
        if off[worst] > 1e-14:
            matrix.data /= np.repeat(sums, np.diff(matrix.indptr))
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return matrix


def matrices(given: Any, what: str, form: str, actions: int | None = None) -> list[sp.csr_array]:
    """A sparse matrix for each action, from an array whose middle axis is the action, a list, or one for all."""
    if sp.issparse(given):
        given = [given] * (actions or 1)
    listed = list(given) if isinstance(given, list | tuple) else []
    nested = bool(listed) and all(isinstance(m, list | tuple) for m in listed)
    if listed and not nested and all(np.ndim(m) == 2 for m in listed):
        return [sp.csr_array(m if sp.issparse(m) else np.asarray(m, dtype=float)) for m in listed]
    try:
        table = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be an array {form} or a list of matrices, found {type(given).__name__}") from None
    if table.ndim == 2 and actions:
        return [sp.csr_array(table)] * actions
    if table.ndim != 3 or 0 in table.shape:
        raise DataError(f"{what} must be an array {form} or a list of matrices, found the shape {table.shape}")
    if nested and table.shape[0] == table.shape[1]:
        both = "which could be an array or a list of matrices; use numpy.array(…) around the one or the other"
        raise DataError(f"{what} must be an array {form} or a list of matrices, found lists of {table.shape}, {both}")
    return [sp.csr_array(table[:, k]) for k in range(table.shape[1])]


def expected_rewards(
    reward: Any, moves: Sequence[sp.csr_array], shows: Sequence[sp.csr_array]
) -> Float[np.ndarray, "s a"]:
    """r(s, a) = Σ P(s' | s, a) P(o | a, s') r(s, a, s', o), of rewards that depend on as much as they do."""
    table = check_array(reward, "reward").astype(float)
    s, a, o = moves[0].shape[0], len(moves), shows[0].shape[1]
    if not np.isfinite(table).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(table))[0])
        raise DataError(f"reward must hold finite numbers, found {table[where]} at {where}")
    if table.shape == (s,):
        return np.repeat(table[:, None], a, axis=1)
    if table.shape == (s, a, s, o):
        table = np.stack([(shows[k].toarray() * table[:, k]).sum(-1) for k in range(a)], axis=1)
    if table.shape == (s, a, s):
        return np.column_stack([np.asarray(moves[k].multiply(table[:, k]).sum(axis=1)) for k in range(a)])
    if table.shape == (s, a):
        return table
    shapes = f"{(s,)}, {(s, a)}, {(s, a, s)} or {(s, a, s, o)}"
    raise DataError(f"reward must have the shape {shapes}, found {table.shape}")


def entries_of(
    indptr: Int[np.ndarray, " rows_and_1"], rows: Int[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " e"], Int[np.ndarray, " e"]]:
    """All entries of some rows of a sparse matrix: which of the n each belongs to, and where it stands."""
    many = np.diff(indptr)[rows]
    which = np.repeat(np.arange(len(rows)), many)
    return which, np.repeat(indptr[rows] - np.cumsum(many) + many, many) + np.arange(len(which))


def _unstacked(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, actions: int, columns: int
) -> tuple[sp.csr_array, ...]:
    rows = (len(indptr) - 1) // actions
    out = []
    for k in range(actions):
        own = indptr[k * rows : (k + 1) * rows + 1]
        part = slice(own[0], own[-1])
        out.append(sp.csr_array((data[part], indices[part], own - own[0]), shape=(rows, columns)))
    return tuple(out)


def _names(names: Names | None, n: int, what: str) -> tuple[Hashable, ...]:
    found = tuple(range(n)) if names is None else tuple(names)
    if len(found) != n or len(set(found)) != n:
        raise DataError(f"{what} must name all {n} differently, found {len(set(found))} names")
    return found


def _number(name: Hashable, names: tuple[Hashable, ...], what: str) -> int:
    if name in names and not isinstance(name, bool):
        return names.index(name)
    if isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(names):
        return int(name)
    known = ", ".join(str(each) for each in names[:8]) + (", …" if len(names) > 8 else "")
    raise DataError(f"there is no {what} {name!r}; there are {known}")
