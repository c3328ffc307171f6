"""What was observed: states that are known, likelihoods of states, numbers; of one case, or of many rows at once."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from credo.core.arrays import Array, is_traced
from credo.models.network.nodes import Names

if TYPE_CHECKING:
    from credo.models.network.belief import Network


class Observed(NamedTuple):
    """What was observed: states that are known, likelihoods of states, numbers."""

    known: dict[str, Any]
    """The index of the state, or one for each row."""
    soft: dict[str, Array]
    numbers: dict[str, Any]
    """The number, or one for each row."""
    log_scale: float
    """log of the likelihoods of the states that are known."""
    rows: tuple[int, ...] = ()

    @property
    def names(self) -> set[str]:
        """All that something was observed of."""
        return {*self.known, *self.soft, *self.numbers}


def observed_of(network: "Network", evidence: Mapping[str, Array] | None) -> Observed:
    """The evidence of a belief; a likelihood with one state that is possible makes that state known."""
    known: dict[str, Any] = {}
    soft: dict[str, Array] = {}
    numbers: dict[str, Any] = {}
    log_scale = 0.0
    for name, value in (evidence or {}).items():
        if np.ndim(value) == 0:
            numbers[name] = value
        elif not is_traced(value) and np.count_nonzero(value) == 1:
            known[name] = int(np.argmax(value))
            log_scale += math.log(np.asarray(value)[known[name]])
        else:
            soft[name] = value
    return Observed(known, soft, numbers, log_scale)


def restricted(scope: Names, table: Any, observed: Observed) -> Any:
    """The table at the states that are known; with rows, these are its last axis (of length one, if all are equal)."""
    known = observed.known
    if any(name in known for name in scope):
        table = table[tuple(known[n] if n in known and np.ndim(known[n]) == 0 else slice(None) for n in scope)]
    left = [n for n in scope if n not in known or np.ndim(known[n])]
    varied = [a for a, n in enumerate(left) if n in known]
    if not varied:
        return table[..., None] if observed.rows else table
    free = [a for a, n in enumerate(left) if n not in known]
    code: Any = 0
    for a in varied:
        code = code * table.shape[a] + known[left[a]]
    return table.transpose(*free, *varied).reshape(*(table.shape[a] for a in free), -1).take(code, axis=-1)


def row_keys(columns: list[np.ndarray], sizes: list[int], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are equal, by one integer each: the number of each row's kind, and the first row of each kind."""
    key, span = np.zeros(rows, dtype=np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        if span * size >= 2**62:
            _, key = np.unique(key, return_inverse=True)
            span = int(key.max()) + 1
        key, span = key * size + column, span * size
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return inverse, first
