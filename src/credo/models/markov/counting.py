"""From sequences of named states to counts of transitions.

Sequences come as people have them: one or several, of whole numbers or of names; a table holds one in each row.
Inside, a state is its index among the names and nothing loops over time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from credo.core.arrays import Array, is_traced
from credo.core.checks import ArrayLike
from credo.core.errors import DataError

Name: TypeAlias = "str | int | tuple[Name, ...]"
Names = tuple[Name, ...]
"""The states by name: all text, all whole numbers, or all tuples (the memory of a chain of higher order)."""

LARGEST_TABLE = 25_000_000
"""Entries of a table of transitions (200 MB): more is a mistake in the order more often than a wish."""


class Encoded(NamedTuple):
    """Sequences one after the other, as indices of states."""

    codes: Int[np.ndarray, " n"]
    lengths: Int[np.ndarray, " s"]

    @property
    def first(self) -> Int[np.ndarray, " s"]:
        """The state in which each sequence starts."""
        return self.codes[np.cumsum(self.lengths) - self.lengths]


def name_states(states: object) -> Names:
    """The names of the states: 0 … k - 1 for a number k, else those given, checked to differ."""
    if isinstance(states, int | np.integer) and not isinstance(states, bool):
        if states < 1:
            raise DataError(f"states must be at least one, found {states}; pass their number or their names")
        return tuple(range(int(states)))
    if not isinstance(states, Iterable):
        raise DataError(f"states must be a number of states or their names, found {states!r}")
    names = tuple(_plain(value) for value in (states.tolist() if hasattr(states, "tolist") else states))
    if not names:
        raise DataError("states is empty; pass at least one name")
    if len({type(name) for name in names}) > 1:
        raise DataError(f"states must be all text or all whole numbers, found {show(names)}")
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"states must have different names, found {twice!r} more than once")
    return names


def _plain(value: object) -> Name:
    """A name as Python's own str, int or tuple of such, so that it can be compared, hashed and saved."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str):
        return str(plain)
    if isinstance(plain, tuple):
        return tuple(_plain(part) for part in plain)
    if isinstance(plain, int | float) and plain == plain // 1:
        return int(plain)
    raise DataError(f"the name of a state must be text or a whole number, found {plain!r}; name the states by text")


def show(names: Iterable[object]) -> str:
    """Names for a message, the first ten of them."""
    known = [repr(name) for name in names]
    return ", ".join(known[:10]) + (f", … ({len(known)} in all)" if len(known) > 10 else "")


def names_array(states: tuple[object, ...]) -> np.ndarray:
    """The names as a vector that indices can pick from."""
    if not isinstance(states[0], tuple):
        return np.array(states)
    return np.fromiter(states, dtype=object, count=len(states))


def index_of(state: object, states: Names, name: str = "state") -> int:
    """The index of one state by its name."""
    found = _lookup({known: i for i, known in enumerate(states)}, state)
    if found < 0:
        raise DataError(f"{name} {state!r} is unknown; known are {show(states)}")
    return found


def is_state(value: object, states: Names) -> bool:
    """Whether `value` is the name of a state."""
    return _lookup(dict.fromkeys(states, 0), value) == 0


def _lookup(index: Mapping[Name, int], value: object) -> int:
    try:
        return index.get(value, -1)  # type: ignore[call-overload]
    except TypeError:  # not hashable, so no name
        return -1


def read_sequences(data: ArrayLike, states: Names | None = None, name: str = "sequences") -> list[np.ndarray]:
    """One vector of names for each sequence in `data`: one sequence, a list of them, or a table with one in each row.

    Text is a sequence of characters. Where tuples are names of `states`, a list of them is one sequence.
    """
    if is_traced(data):
        raise DataError(f"{name} must be known before compilation, found a traced value; count outside of jit")
    if isinstance(data, str):
        return [_vector(list(data), name)]
    raw = data.to_numpy() if hasattr(data, "to_numpy") else data
    if isinstance(raw, Array) and np.asarray(raw).dtype.kind != "O":
        array = np.asarray(raw)
        if array.ndim not in (1, 2) or array.size == 0:
            raise DataError(f"{name} must be one sequence or a table of them, found shape {array.shape}")
        return list(np.atleast_2d(array))
    if not isinstance(raw, Iterable) or isinstance(raw, dict | set):
        raise DataError(f"{name} must be a sequence of states or a list of sequences, found {type(raw).__name__}")
    items = list(raw)
    if not items:
        raise DataError(f"{name} is empty; pass at least one state")
    if not _is_sequence(items[0], states):
        return [_vector(items, name)]
    return [_vector(item, f"sequence {i} of {name}") for i, item in enumerate(items)]


def is_single(data: ArrayLike, states: Names) -> bool:
    """Whether `data` is one sequence rather than several."""
    if isinstance(data, str):
        return True
    return data.ndim == 1 if hasattr(data, "ndim") else not _is_sequence(next(iter(data), None), states)


def _is_sequence(item: object, states: Names | None) -> bool:
    if isinstance(item, tuple):
        return states is None or not is_state(item, states)
    return not isinstance(item, str) and (isinstance(item, Sequence | Array) or hasattr(item, "iloc"))


def _vector(item: object, name: str) -> np.ndarray:
    raw = item.to_numpy() if hasattr(item, "to_numpy") else item
    try:
        values = names_array(tuple(raw)) if isinstance(raw, Sequence) and len(raw) else np.asarray(raw)
    except ValueError:
        raise DataError(f"{name} must be a vector of states, found entries that are sequences themselves") from None
    if values.ndim != 1 or values.size == 0:
        raise DataError(f"{name} must be a vector of at least one state, found shape {values.shape}")
    return values


def _together(sequences: list[np.ndarray]) -> np.ndarray:
    kinds = {"n" if s.dtype.kind in "biuf" else s.dtype.kind for s in sequences}
    # NumPy would turn numbers beside text into text
    return np.concatenate(sequences if len(kinds) == 1 else [s.astype(object) for s in sequences])


def observed_states(data: ArrayLike) -> Names:
    """The names that occur, in their order."""
    values = _together(read_sequences(data))
    try:
        return name_states(np.unique(values).tolist())
    except TypeError:  # names that have no order: the check will say which
        return name_states(dict.fromkeys(values.tolist()))


def encode(data: ArrayLike, states: Names, name: str = "sequences") -> Encoded:
    """The sequences as indices of `states`; an unknown state is an error that says where it is."""
    sequences = read_sequences(data, states, name)
    values = _together(sequences)
    index = {state: i for i, state in enumerate(states)}
    try:
        distinct, inverse = np.unique(values, return_inverse=True)
    except TypeError:  # objects without an order
        distinct, inverse = values, np.arange(len(values))
    codes = np.array([_lookup(index, value) for value in distinct.tolist()])[inverse]
    lengths = np.array([len(s) for s in sequences])
    if codes.min() < 0:
        where = int(np.argmax(codes < 0))
        sequence = int(np.searchsorted(np.cumsum(lengths), where, side="right"))
        raise DataError(
            f"{name} contains the unknown state {values[[where]].tolist()[0]!r} at position "
            f"{where - lengths[:sequence].sum()} of sequence {sequence}; known are {show(states)}"
        )
    return Encoded(codes, lengths)


def check_whole(value: object, name: str, least: int, kind: str = "whole number") -> int:
    """A whole number ≥ `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise DataError(f"{name} must be a {kind} ≥ {least}, found {value!r}")
    return int(value)


def check_order(order: object, k: int, least: int) -> int:
    """A whole number ≥ `least` for which a table of all memories fits in memory."""
    o = check_whole(order, "order", least)
    if (o + 1) * np.log(k) > np.log(LARGEST_TABLE):
        raise DataError(
            f"order {o} of {k} states needs a table of {k}^{o + 1} probabilities, more than {LARGEST_TABLE:,}; "
            "choose a lower order or merge states"
        )
    return o


def context_index(contexts: Int[Array, "*m o"], k: int) -> Int[Array, "*m"]:
    """The row of the table for each memory of o states, the most recent last: Σⱼ cⱼ k^(o - 1 - j)."""
    powers = k ** np.arange(contexts.shape[-1] - 1, -1, -1)
    return (contexts * powers).sum(-1)


def count_transitions(encoded: Encoded, k: int, order: int) -> Float[np.ndarray, "r k"]:
    """How often each state followed each memory of `order` states, within the sequences."""
    codes, lengths = encoded
    n = len(codes)
    if n <= order:
        return np.zeros((k**order, k))
    place = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    row = np.zeros(n - order, dtype=int)
    for j in range(order):
        row = row * k + codes[j : n - order + j]
    whole = place[order:] >= order
    cell = row[whole] * k + codes[order:][whole]
    return np.bincount(cell, minlength=k ** (order + 1)).reshape(k**order, k).astype(float)


def start_rows(k: int, order: int) -> Int[np.ndarray, " o1"]:
    """Where the memories of 0, 1, …, `order` - 1 states begin in a table of all of them, and how many rows it has."""
    return np.concatenate([[0], np.cumsum(k ** np.arange(order))]).astype(int)


def count_starts(encoded: Encoded, k: int, order: int, given: int = 0) -> Float[np.ndarray, "b k"]:
    """How often each state was the first, the second after each first, …, up to the `order`-th of a sequence.

    The first `given` states of the first sequence are its past and do not count.
    """
    codes, lengths = encoded
    offsets, begins = start_rows(k, order), np.cumsum(lengths) - lengths
    counts = np.zeros((offsets[-1], k))
    for j in range(order):
        there = (lengths > j) & ~((np.arange(len(lengths)) == 0) & (j < given))
        memory = (
            np.stack([codes[begins[there] + i] for i in range(j)], axis=-1) if j else np.zeros((there.sum(), 0), int)
        )
        np.add.at(counts, (offsets[j] + context_index(memory, k), codes[begins[there] + j]), 1.0)
    return counts
