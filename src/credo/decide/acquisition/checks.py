"""What scores ask before they begin: which rows a belief has seen, whether it knows covariances, and sound numbers."""

from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np

from credo.core.abilities import HasCovariance, KeepsRows
from credo.core.arrays import as_float, is_traced
from credo.core.checks import check_count, check_table
from credo.core.errors import DataError
from credo.infer.quasi_random import sobol


@runtime_checkable
class Predicts(Protocol):
    """What all scores ask of a belief."""

    def predict(self, x: Any) -> Any:
        """The prediction at each row."""


def seen_inputs(belief: Any) -> np.ndarray | None:
    """The inputs (n, d) of the rows that the belief was conditioned on, None where it does not keep them."""
    rows = belief.seen_inputs() if isinstance(belief, KeepsRows) else None
    return None if rows is None else np.asarray(rows)


def demand_inputs(belief: Any, remedy: str) -> np.ndarray:
    """`seen_inputs`, or an error that says what to do without."""
    inputs = seen_inputs(belief)
    if inputs is None or not len(inputs):
        raise DataError(f"the belief ({type(belief).__name__}) has seen no rows, or does not keep them; {remedy}")
    return inputs


def demand_covariance(belief: Any, who: str) -> None:
    """`DataError` unless the belief knows how function values covary."""
    if not isinstance(belief, HasCovariance):
        raise DataError(
            f"{who} needs a belief with covariance(x, z), e.g. credo.GP, found {type(belief).__name__}; "
            "use a score of single points, e.g. ExpectedImprovement or UpperConfidenceBound"
        )


def around(belief: Any, n: int, seed: int, remedy: str) -> np.ndarray:
    """The rows that were seen, and n quasi-random points of the smallest box that holds them."""
    inputs = demand_inputs(belief, remedy)
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    return np.concatenate([inputs, low + sobol(n, inputs.shape[1], seed) * (high - low)])


def check_number(value: Any, name: str, least: float = -np.inf) -> None:
    """`DataError` unless the value is one finite number of at least `least`; None and traced numbers pass."""
    if value is None or is_traced(value):
        return
    found = np.asarray(value)
    if found.shape != () or not np.isfinite(found) or found < least:
        expected = "a finite number" if least == -np.inf else f"a finite number of at least {least:g}"
        raise DataError(f"{name} must be {expected}, found {value!r}")


def check_draws(n: int) -> None:
    """`DataError` unless draws can come in antithetic pairs."""
    check_count(n, "draws", 2)
    if n % 2:
        raise DataError(f"draws come in antithetic pairs and must be an even number, found {n}")


def maybe_array(value: Any) -> Any:
    """Field converter: a number to a float64 array, None stays None."""
    return None if value is None else as_float(value)


def table_or_none(value: Any, name: str) -> Any:
    """Points of shape (p, d) as an array; None and no points are None."""
    if value is None or (not is_traced(value) and np.size(value) == 0):
        return None
    return jnp.asarray(check_table(value, name))
