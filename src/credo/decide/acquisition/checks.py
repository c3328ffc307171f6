"""What scores ask before they begin: which rows a belief has seen, whether it knows covariances, and sound numbers."""

from collections.abc import Sequence, Sized
from typing import Protocol, cast, runtime_checkable

import numpy as np

from credo.core.abilities import HasCovariance, KeepsRows, able
from credo.core.arrays import Array, Numeric, as_float, is_traced
from credo.core.checks import check_count, check_real, check_table
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.infer.quasi_random import sobol


@runtime_checkable
class Predicts(Protocol):
    """What all scores ask of a belief."""

    def predict(self, x: Array, /) -> Predictive:
        """The prediction at each row."""


class Covaries(Predicts, Protocol):
    """What scores of several points ask of it."""

    def covariance(self, x: Array, z: Array, /) -> Array:
        """cov(f(x), f(z) | data)."""


Beliefs = Predicts | Sequence[Predicts]
"""What a score looks at: one belief, or one for each objective."""
Points = Numeric | None
"""Inputs (p, d), or none."""


def single(belief: Beliefs) -> Predicts:
    """The belief, for scores that look at one."""
    if isinstance(belief, Predicts):
        return belief
    raise DataError(f"this score looks at one belief, found {type(belief).__name__}; e.g. pass credo.GP conditioned")


def seen_inputs(belief: object) -> np.ndarray | None:
    """The inputs (n, d) of the rows that the belief was conditioned on, None where it does not keep them."""
    rows = belief.seen_inputs() if able(belief, KeepsRows) else None
    return None if rows is None else np.asarray(rows)


def demand_inputs(belief: object, remedy: str) -> np.ndarray:
    """`seen_inputs`, or an error that says what to do without."""
    inputs = seen_inputs(belief)
    if inputs is None or not len(inputs):
        raise DataError(f"the belief ({type(belief).__name__}) has seen no rows, or does not keep them; {remedy}")
    return inputs


def demand_covariance(belief: object, who: str) -> Covaries:
    """The belief, or `DataError` unless it knows how function values covary."""
    if able(belief, HasCovariance) and isinstance(belief, Predicts):
        return cast(Covaries, belief)
    raise DataError(
        f"{who} needs a belief with covariance(x, z), e.g. credo.GP, found {type(belief).__name__}; "
        "use a score of single points, e.g. ExpectedImprovement or UpperConfidenceBound"
    )


def around(belief: object, n: int, seed: int, remedy: str) -> np.ndarray:
    """The rows that were seen, and n quasi-random points of the smallest box that holds them."""
    inputs = demand_inputs(belief, remedy)
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    return np.concatenate([inputs, low + sobol(n, inputs.shape[1], seed) * (high - low)])


def check_number(value: Numeric | None, name: str, least: float = -np.inf) -> None:
    """`DataError` unless the value is one finite number of at least `least`; None and traced numbers pass."""
    if value is not None and not is_traced(value):
        check_real(value, name, least)


def check_acquisition(value: object, name: str = "acquisition") -> None:
    """`DataError` unless it is a score."""
    if not hasattr(value, "prepared") or isinstance(value, type):
        raise DataError(f"{name} must be a score such as ExpectedImprovement(), found {value!r}")


def check_draws(n: int) -> None:
    """`DataError` unless draws can come in antithetic pairs."""
    check_count(n, "draws", 2)
    if n % 2:
        raise DataError(f"draws come in antithetic pairs and must be an even number, found {n}")


def maybe_array(value: Numeric | None) -> Array | None:
    """Field converter: a number to a float64 array, None stays None."""
    return None if value is None else as_float(value)


def table_or_none(value: Points, name: str) -> Array | None:
    """Points of shape (p, d) as an array; None and no points are None."""
    return None if is_nothing(value) else check_table(value, name)


def is_nothing(value: object) -> bool:
    """Whether there are no points: None, or a list or array without any."""
    if isinstance(value, np.ndarray):
        return value.size == 0
    return value is None or (isinstance(value, Sized) and not is_traced(value) and len(value) == 0)
