"""The passes over sequences that `LDS` makes, compiled, and the step to the next outcome, which compiles nothing."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
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

FILTERS = {"covariance": kalman_filter, "square_root": lambda given: root_filter(given)[0], "parallel": parallel_filter}


def check_method(method: str) -> str:
    """The name of a way to filter."""
    if method not in FILTERS:
        raise DataError(f"method must be one of {', '.join(FILTERS)}, found {method!r}")
    return str(method)


def positions(lds: "LDS", data: Sequences) -> Int[Array, " t"]:
    """How many rows of its sequence came before each row."""
    rows = jnp.arange(data.first.shape[0])
    position = rows - jax.lax.cummax(jnp.where(data.first, rows, 0))
    goes_on = data.alone and lds.state is not None
    return jnp.where(jnp.cumsum(data.first) == 1, rows + lds.time, position) if goes_on else position


def system_at(lds: "LDS", inputs: Float[Array, "t c"] | None, position: Int[Array, " t"]) -> SystemMatrices:
    """The matrices that lead into rows at these positions of their sequence."""
    xp = namespace(lds, inputs, position)

    def at(value: Any) -> Any:
        return value.values[position] if isinstance(value, Varying) else value

    def driven(value: Any, size: int, constant: Any) -> Any:
        level = xp.zeros(size) if constant is None else at(constant)
        if value is None or inputs is None:
            return level
        return xp.einsum("...ij,...j->...i", at(value), inputs) + level

    f, q, h, r = (at(a) for a in (lds.transition, lds.process_noise, lds.emission, lds.observation_noise))
    drift, offset = driven(lds.control, lds.states, None), driven(lds.feedthrough, lds.outputs, lds.offset)
    return SystemMatrices(f, q, h, r, drift, offset)


def starts(lds: "LDS") -> StateLaw:
    """The law of the first state of a sequence."""
    return StateLaw(lds.start_mean, lds.start_covariance)


def filter_inputs(lds: "LDS", data: Sequences) -> FilterInputs:
    """What the filters take; one sequence goes on from the belief's state, several begin anew."""
    law = lds.state if data.alone else None
    first = data.first if law is None else data.first.at[0].set(False)
    system = system_at(lds, data.inputs, positions(lds, data))
    return FilterInputs(starts(lds), system, data.x, data.seen, first, law)


@eqx.filter_jit
def filtered(lds: "LDS", data: Sequences) -> FilteredStates:
    """The filter."""
    return FILTERS[lds.method](filter_inputs(lds, data))


@eqx.filter_jit
def latest(lds: "LDS", data: Sequences) -> tuple[StateLaw, Int[Array, ""]]:
    """The law of the state at the last row, and how many rows its sequence has."""
    found, last = filtered(lds, data), jnp.sum(data.real) - 1
    return StateLaw(found.mean[last], found.covariance[last]), positions(lds, data)[last] + 1


def advance(lds: "LDS", x: Float[Array, " p"], inputs: Float[Array, "1 c"] | None) -> tuple[StateLaw, int]:
    """The law of the state after the next outcome, NaN where it was not seen, by NumPy."""
    time = 0 if lds.state is None else int(lds.time)
    lds = jax.tree.map(np.asarray, lds)
    position: Any = np.asarray([time])
    system = system_at(lds, inputs, position)
    now = system.at(tuple(None if a is None else a[0] for a in system.varying())).with_blocks()
    mean, covariance = lds.state or starts(lds)
    seen = np.isfinite(x)
    row: Any = (np.where(seen, x, 0.0)[:, None], seen[:, None], np.asarray([lds.state is None]))
    with np.errstate(all="ignore"):
        law, _ = filter_step(starts(lds), (mean[..., None], covariance[..., None]), now, *row)
    return StateLaw(*(a[..., 0] for a in law)), time + 1


@eqx.filter_jit
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


def _system_ahead(lds: "LDS", count: int, inputs: Float[Array, "t c"] | None) -> SystemMatrices:
    rows = jnp.arange(count)
    return system_at(lds, inputs, rows if lds.state is None else rows + lds.time)


@eqx.filter_jit
def simulated(
    key: PRNGKeyArray, lds: "LDS", count: int, inputs: Float[Array, "t c"] | None
) -> tuple[Float[Array, "t n"], Float[Array, "t p"]]:
    """The next states and outcomes, drawn."""
    law = starts(lds) if lds.state is None else lds.state
    return draw_future(key, law, lds.state is None, _system_ahead(lds, count, inputs), count)


@eqx.filter_jit
def ahead(lds: "LDS", count: int, inputs: Float[Array, "t c"] | None) -> tuple[SystemMatrices, FilteredStates]:
    """The next `count` states, of which nothing is seen; from the start where nothing was seen before."""
    system, nothing = _system_ahead(lds, count, inputs), jnp.zeros((count, lds.outputs))
    given = FilterInputs(starts(lds), system, nothing, nothing > 0, jnp.zeros(count, bool), lds.state)
    return system, kalman_filter(given)


@eqx.filter_jit
def forecast(lds: "LDS", count: int, inputs: Float[Array, "t c"] | None, joint: bool) -> tuple[Array, ...]:
    """Mean, noise and latent variance of the next outcomes, and with `joint` how the latent parts covary."""
    system, laws = ahead(lds, count, inputs)
    mean = jnp.einsum("...ij,...j->...i", system.emission, laws.mean) + system.offset
    latent = jnp.einsum("...ij,...jk,...ik->...i", system.emission, laws.covariance, system.emission)
    noise = jnp.broadcast_to(jnp.diagonal(system.observation_noise, axis1=-2, axis2=-1), mean.shape)
    if not joint:
        return mean, noise, latent
    h = jnp.broadcast_to(system.emission, (count, *system.emission.shape[-2:]))

    def onward(past: Float[Array, "m n n"], element: tuple[Any, ...]) -> tuple[Array, Array]:
        """Cov(zⱼ, zᵢ) for all i ≤ j."""
        j, varying, p, row = element
        past = (system.at(varying).transition @ past).at[j].set(p)
        return past, jnp.einsum("pn,mnk,mqk->pmq", row, past, h)

    elements = (jnp.arange(count), system.varying(), laws.covariance, h)
    _, rows = jax.lax.scan(onward, jnp.zeros_like(laws.covariance), elements)
    size = count * lds.outputs
    low = jnp.tril(rows.reshape(size, size))  # (j, p), (i, q) with zeros where i > j
    return mean, noise, latent, low + jnp.tril(low, -1).T
