"""The passes over sequences that `LDS` makes: in NumPy where rows are few, else compiled; and the step to the next."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.core.scan import LONGEST_LOOP, run
from credo.models.lds.checks import Varying
from credo.models.lds.kalman import (
    FilterInputs,
    StateLaw,
    SystemMatrices,
    filter_step,
    forward_pass,
    kalman_filter,
    kalman_smoother,
)
from credo.models.lds.parallel import parallel_filter, parallel_smoother
from credo.models.lds.simulate import draw_future, draw_states
from credo.models.lds.square_root import root_filter, root_smoother
from credo.models.sequences import Sequences
from credo.models.state_laws import FilteredStates, SmoothedStates

if TYPE_CHECKING:
    from credo.models.lds.belief import LDS

T = TypeVar("T")

FILTERS = {"covariance": kalman_filter, "square_root": lambda given: root_filter(given)[0], "parallel": parallel_filter}


def check_method(method: str) -> str:
    """The name of a way to filter."""
    if method not in FILTERS:
        raise DataError(f"method must be one of {', '.join(FILTERS)}, found {method!r}")
    return str(method)


def over_rows(function: Callable[["LDS", Sequences], T], lds: "LDS", data: Sequences) -> T:
    """A pass over the data; "square_root" and "parallel" are always compiled."""
    if lds.method != "covariance":
        return run(function, LONGEST_LOOP + 1, lds, data)
    data = data.trimmed()
    return run(function, len(data.real), lds, data)


def positions(lds: "LDS", data: Sequences) -> Int[Array, " t"]:
    """How many rows of its sequence came before each row."""
    xp, rows = namespace(lds.time, data.first), np.arange(data.first.shape[0])
    begun = xp.where(data.first, rows, 0)
    position = rows - (np.maximum.accumulate(begun) if xp is np else jax.lax.cummax(begun))
    goes_on = data.alone and lds.state is not None
    return xp.where(xp.cumsum(data.first) == 1, rows + lds.time, position) if goes_on else position


def system_at(lds: "LDS", inputs: Float[Array, "t c"] | None, position: Int[Array, " t"]) -> SystemMatrices:
    """The matrices that lead into rows at these positions of their sequence."""

    def at(value: Array | Varying) -> Array:
        if not isinstance(value, Varying):
            return value
        xp = namespace(value.values, position)
        return xp.asarray(value.values)[position]

    def driven(value: Array | Varying | None, size: int, constant: Array | Varying | None) -> Array:
        level = np.zeros(size) if constant is None else at(constant)
        if value is None or inputs is None:
            return level
        matrix = at(value)
        return namespace(matrix, inputs).einsum("...ij,...j->...i", matrix, inputs) + level

    f, q, h, r = (at(a) for a in (lds.transition, lds.process_noise, lds.emission, lds.observation_noise))
    drift, offset = driven(lds.control, lds.states, None), driven(lds.feedthrough, lds.outputs, lds.offset)
    begun = None if lds.start_control is None else driven(lds.start_control, lds.states, None)
    return SystemMatrices(f, q, h, r, drift, offset, begun)


def starts(lds: "LDS") -> StateLaw:
    """The law of the first state of a sequence."""
    return StateLaw(lds.start_mean, lds.start_covariance)


def filter_inputs(lds: "LDS", data: Sequences) -> FilterInputs:
    """What the filters take; one sequence goes on from the belief's state, several begin anew."""
    law, first = lds.state if data.alone else None, data.first
    if law is not None:
        xp = namespace(first)
        first = xp.concatenate([xp.zeros(1, bool), first[1:]])
    system = system_at(lds, data.inputs, positions(lds, data))
    return FilterInputs(starts(lds), system, data.x, data.seen, first, law)


def filtered(lds: "LDS", data: Sequences) -> FilteredStates:
    """The filter."""
    return FILTERS[lds.method](filter_inputs(lds, data))


def latest(lds: "LDS", data: Sequences) -> tuple[StateLaw, Int[Array, ""]]:
    """The law of the state at the last row, and how many rows its sequence has."""
    found, last = filtered(lds, data), data.real.sum() - 1
    return StateLaw(found.mean[last], found.covariance[last]), positions(lds, data)[last] + 1


def advance(lds: "LDS", x: Float[np.ndarray, " p"], inputs: Float[np.ndarray, "1 c"] | None) -> tuple[StateLaw, int]:
    """The law of the state after the next outcome, NaN where it was not seen."""
    time = 0 if lds.state is None else int(lds.time)
    system, start = system_at(lds, inputs, np.asarray([time])), starts(lds)
    now = system.at(tuple(None if a is None else a[0] for a in system.varying()))
    seen = np.isfinite(x)
    with np.errstate(all="ignore"):
        last, begins = lds.state or start, np.asarray(lds.state is None)
        law, _ = filter_step(start, last, now, np.where(seen, x, 0.0), seen, begins, tell=False)
    return StateLaw(*law), time + 1


def smoothed(lds: "LDS", data: Sequences) -> SmoothedStates:
    """The smoother."""
    given = filter_inputs(lds, data)
    if lds.method == "square_root":
        return root_smoother(given, *root_filter(given))
    if lds.method == "parallel":
        return parallel_smoother(given, parallel_filter(given))
    return kalman_smoother(given, *forward_pass(given))


@eqx.filter_jit
def sampled(key: PRNGKeyArray, lds: "LDS", data: Sequences, n: int) -> Float[Array, "m t n"]:
    """n draws of all states."""
    given = filter_inputs(lds, data)
    return draw_states(key, given.system, FILTERS[lds.method](given), given.first, n)


def system_ahead(lds: "LDS", count: int, inputs: Float[Array, "t c"] | None) -> SystemMatrices:
    """The matrices that lead into the next rows."""
    rows = np.arange(count)
    return system_at(lds, inputs, rows if lds.state is None else rows + lds.time)


@eqx.filter_jit
def simulated(
    key: PRNGKeyArray, lds: "LDS", count: int, inputs: Float[Array, "t c"] | None
) -> tuple[Float[Array, "t n"], Float[Array, "t p"]]:
    """The next states and outcomes, drawn."""
    law = starts(lds) if lds.state is None else lds.state
    return draw_future(key, law, lds.state is None, system_ahead(lds, count, inputs), count)
