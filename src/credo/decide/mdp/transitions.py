"""Transition probabilities and rewards as the user has them, turned into the one storage that all methods share.

A row for each pair of state and action, s · a + k for action k of state s, with its successors in compressed sparse
rows. What a row lacks to one is the probability that the episode ends there.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from credo.core.checks import check_array
from credo.core.device import cores
from credo.core.errors import DataError

SUM_TOLERANCE = 1e-8
MANY = 2_000_000
"""Entries from which a product is worth several threads."""
MAX_THREADS = 8
FORM = (
    "(s, a, s') probabilities, a list with one (s, s') sparse matrix for each action, or one sparse matrix with row "
    "s·a + k for action k of state s"
)


class Rows(NamedTuple):
    """The successors of all pairs of state and action."""

    matrix: sp.csr_array
    """(s·a, s)."""
    states: int
    actions: int


def bare(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """A csr_array of arrays that are known to fit, without looking at them; `indptr` need not begin at zero."""
    out = sp.csr_array(shape)
    out.data, out.indices, out.indptr = data, indices, indptr
    return out


def product(matrix: sp.csr_array, vector: Float[np.ndarray, " s"]) -> Float[np.ndarray, " rows"]:
    """matrix @ vector, with the rows of a large matrix shared among the cores: SciPy lets go of Python's lock."""
    parts = min(cores(), MAX_THREADS) if len(matrix.data) >= MANY else 1
    if parts == 1:
        return matrix @ vector
    cuts = np.linspace(0, matrix.shape[0], parts + 1).astype(int)
    slices = [
        bare(matrix.data, matrix.indices, matrix.indptr[low : high + 1], (high - low, len(vector)))
        for low, high in itertools.pairwise(cuts.tolist())
    ]
    with ThreadPoolExecutor(parts) as pool:
        return np.concatenate(list(pool.map(lambda rows: rows @ vector, slices)))


def rows_of(transitions: object, actions: int | None = None) -> Rows:
    """Sparse rows from any of the accepted forms; `actions` is how many, where one sparse matrix does not say."""
    if sp.issparse(transitions):
        matrix = sp.csr_array(transitions)
        total, s = matrix.shape
        a = actions or (total // s if s and total % s == 0 else 0)
        if not a or a * s != total:
            raise DataError(f"transitions has {total} rows for {s} states, which is no whole number of actions each")
        return Rows(matrix.astype(float, copy=False), s, a)
    if isinstance(transitions, list | tuple) and transitions and all(sp.issparse(each) for each in transitions):
        shapes = {each.shape for each in transitions}
        s = transitions[0].shape[0]
        if shapes != {(s, s)}:
            raise DataError(f"transitions must hold one (s, s') matrix for each action, found the shapes {shapes}")
        a = len(transitions)
        stacked = sp.csr_array(sp.vstack([sp.csr_array(each) for each in transitions], format="csr"))
        return Rows(stacked[np.arange(s * a).reshape(a, s).T.ravel()].astype(float, copy=False), s, a)
    try:
        table = np.asarray(transitions, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"transitions must be {FORM}, found {type(transitions).__name__}") from None
    if table.ndim != 3 or table.shape[0] != table.shape[2]:
        first = table.ndim == 3 and table.shape[1] == table.shape[2]
        hint = "; if the first axis is the action, pass np.moveaxis(transitions, 0, 1)" if first else ""
        raise DataError(f"transitions must be {FORM}, found the shape {table.shape}{hint}")
    s, a, _ = table.shape
    if not s or not a:
        raise DataError(f"transitions needs a state and an action at least, found the shape {table.shape}")
    return Rows(sp.csr_array(table.reshape(s * a, s)), s, a)


def check_probabilities(rows: Rows, ends: Float[np.ndarray, "s a"], terminal: Bool[np.ndarray, " s"]) -> sp.csr_array:
    """The matrix with clean rows, or an error that names the first row that is none; terminal states have no rows."""
    matrix, a = rows.matrix, rows.actions
    if terminal.any():
        keep = np.repeat(np.repeat(~terminal, a), np.diff(matrix.indptr))
        offsets = np.concatenate([[0], np.cumsum(keep)])[matrix.indptr].astype(matrix.indptr.dtype)
        matrix = sp.csr_array((matrix.data[keep], matrix.indices[keep], offsets), shape=matrix.shape)
    data = matrix.data
    if data.size and not (np.isfinite(data.min()) and np.isfinite(data.max())):
        where = int(np.flatnonzero(~np.isfinite(data))[0])
        raise DataError(f"transitions must hold probabilities, found {data[where]} in {_row(matrix, where, a)}")
    if data.size and data.min() < 0:
        where = int(np.argmin(data))
        raise DataError(f"transitions must hold probabilities, found {data[where]:g} in {_row(matrix, where, a)}")
    sums = matrix.sum(axis=1) + ends.ravel()
    sums[np.repeat(terminal, a)] = 1.0
    off = np.abs(sums - 1)
    worst = int(np.argmax(off))
    if off[worst] > SUM_TOLERANCE:
        s, k = divmod(worst, a)
        raise DataError(
            f"the probabilities of each state and action must sum to 1, found {sums[worst]:.9g} (off by "
            f"{sums[worst] - 1:+.3g}) for state {s}, action {k}; {int((off > SUM_TOLERANCE).sum())} rows are off; "
            "divide each by its sum, or name the states without successors with terminal="
        )
    if off[worst] > 1e-14:
        matrix = sp.csr_array(matrix.multiply(1 / sums[:, None]))
    if matrix.data.size and matrix.data.min() == 0:
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def _row(matrix: sp.csr_array, where: int, a: int) -> str:
    row = int(np.searchsorted(matrix.indptr, where, side="right")) - 1
    return f"the row of state {row // a}, action {row % a} (to state {int(matrix.indices[where])})"


def rewards_of(rewards: object, rows: Rows) -> tuple[Float[np.ndarray, "s a"], Any]:
    """E[reward | state, action] from rewards of states, of states and actions, or of transitions too.

    Of transitions there is also the table (s·a, s') of what each pays, dense or sparse; else None.
    """
    s, a = rows.states, rows.actions
    each = None
    if isinstance(rewards, list | tuple) and rewards and all(sp.issparse(table) for table in rewards):
        if len(rewards) != a or any(table.shape != (s, s) for table in rewards):
            found = [table.shape for table in rewards]
            raise DataError(f"sparse rewards need the shape (s, s') = {(s, s)} for each of {a} actions, found {found}")
        stacked = sp.csr_array(sp.vstack([sp.csr_array(table) for table in rewards], format="csr"))
        each = stacked[np.arange(s * a).reshape(a, s).T.ravel()]
        given = np.asarray((rows.matrix * each).sum(axis=1)).reshape(s, a)
    else:
        try:
            given = np.asarray(rewards, dtype=float)
        except (TypeError, ValueError):
            raise DataError(f"rewards must be numbers, found {type(rewards).__name__}") from None
    if np.isnan(given).any() or np.isinf(given).any():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(given))[0])
        raise DataError(f"rewards must be finite numbers, found {given[where]} at {where}")
    if given.shape == (s,):
        return np.repeat(given[:, None], a, axis=1), None
    if given.shape == (s, a):
        return given, each
    if given.shape == (s, a, s):
        each = given.reshape(s * a, s)
        return np.asarray((rows.matrix * each).sum(axis=1)).reshape(s, a), each
    shapes = f"(s,) = {(s,)}, (s, a) = {(s, a)} or (s, a, s') = {(s, a, s)}"
    raise DataError(f"rewards must have the shape {shapes}, found {given.shape}")


def check_terminal(terminal: object, states: int) -> Bool[np.ndarray, " s"]:
    """A flag for each state from flags or from numbers of states."""
    flags = np.zeros(states, dtype=bool)
    if terminal is None:
        return flags
    given = (
        np.zeros(0, int) if isinstance(terminal, list | tuple) and not terminal else check_array(terminal, "terminal")
    )
    if given.dtype == bool and given.shape == (states,):
        return given.copy()
    if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= states):
        raise DataError(f"terminal must be states from 0 to {states - 1} or {states} flags, found {terminal!r}")
    flags[given.astype(int)] = True
    return flags
