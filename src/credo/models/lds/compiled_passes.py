"""The passes over sequences that `LDS` makes, compiled."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from credo.core.errors import DataError
from credo.models.lds.checks import Varying
from credo.models.lds.kalman import Filtered, Smoothed, Start, Steps, kalman_filter
from credo.models.lds.parallel import parallel_filter, parallel_smoother
from credo.models.lds.settled import Pass, filter_sequences, filter_to_the_end
from credo.models.lds.settled_smoother import smooth_sequences
from credo.models.lds.square_root import root_filter, root_smoother
from credo.models.sequences import Sequences

METHODS = ("covariance", "square_root", "parallel")


def check_method(method: Any) -> str:
    """The name of a way to filter."""
    if method not in METHODS:
        raise DataError(f"method must be one of {', '.join(METHODS)}, found {method!r}")
    return str(method)


def before(lds: Any, data: Sequences) -> Start | None:
    """The law that the rows go on from; several sequences begin anew."""
    return lds.state if data.alone else None


def positions(lds: Any, data: Sequences) -> Int[Array, " t"]:
    """How many rows of its sequence came before each row."""
    rows = jnp.arange(data.first.shape[0])
    position = rows - jax.lax.cummax(jnp.where(data.first, rows, 0))
    return position if before(lds, data) is None else jnp.where(jnp.cumsum(data.first) == 1, rows + lds.time, position)


def steps_of(lds: Any, inputs: Float[Array, "t c"] | None, position: Int[Array, " t"]) -> Steps:
    """The matrices that lead into each row."""

    def at(value: Any) -> Any:
        return value.values[position] if isinstance(value, Varying) else value

    def driven(value: Any, size: int, constant: Any) -> Any:
        level = jnp.zeros(size) if constant is None else at(constant)
        if value is None or inputs is None:
            return level
        return jnp.einsum("...ij,...j->...i", at(value), inputs) + level

    drift = driven(lds.control, lds.states, None)
    offset = driven(lds.feedthrough, lds.outputs, lds.offset)
    return Steps(at(lds.transition), at(lds.noise), at(lds.emission), at(lds.observation), drift, offset)


def steps_for(lds: Any, data: Sequences) -> Steps:
    """The matrices that lead into each row of the data."""
    return steps_of(lds, data.inputs, positions(lds, data))


def starts(lds: Any) -> Start:
    """The law of the first state of a sequence."""
    return Start(lds.start_mean, lds.start_covariance)


def continuing(lds: Any, data: Sequences) -> Any:
    """`first`, without the row that goes on from the belief's state."""
    return data.first if before(lds, data) is None else data.first.at[0].set(False)


def _given(lds: Any, data: Sequences) -> Pass:
    return Pass(starts(lds), steps_for(lds, data), data, continuing(lds, data), before(lds, data))


@eqx.filter_jit
def filtered(lds: Any, data: Sequences) -> Filtered:
    """The filter."""
    given = _given(lds, data)
    return filter_sequences(given) if lds.method == "covariance" else _filtered(lds, given)[0]


def _filtered(lds: Any, given: Pass) -> tuple[Filtered, Any]:
    """By the other methods."""
    start, steps, data, first, law = given
    arguments = (start, steps, data.x, data.seen, first, law)
    return root_filter(*arguments) if lds.method == "square_root" else (parallel_filter(*arguments), None)


@eqx.filter_jit
def latest(lds: Any, data: Sequences) -> tuple[Start, Int[Array, ""]]:
    """The law of the state at the last row, and how many rows its sequence has."""
    given = _given(lds, data)
    time = positions(lds, data)[given.last] + 1
    if lds.method == "covariance":
        return filter_to_the_end(given), time
    found, _ = _filtered(lds, given)
    return Start(found.mean[given.last], found.covariance[given.last]), time


@eqx.filter_jit
def smoothed(lds: Any, data: Sequences) -> tuple[Float[Array, " t"], Smoothed]:
    """log p(xₜ | x₁…xₜ₋₁), and the smoother."""
    given = _given(lds, data)
    if lds.method == "covariance":
        return smooth_sequences(given)
    found, roots = _filtered(lds, given)
    if lds.method == "square_root":
        return found.increments, root_smoother(given.steps, found, roots, given.first)._replace(cross=None)
    return found.increments, parallel_smoother(given.steps, found, given.first)


def _ahead(lds: Any, count: int, inputs: Any) -> tuple[Steps, Filtered]:
    """The next `count` states, of which nothing is seen; from the start where nothing was seen before."""
    rows = jnp.arange(count)
    steps = steps_of(lds, inputs, rows if lds.state is None else rows + lds.time)
    nothing = jnp.zeros((count, lds.outputs))
    unseen = jnp.zeros((count, lds.outputs), bool)
    return steps, kalman_filter(starts(lds), steps, nothing, unseen, jnp.zeros(count, bool), lds.state)


@eqx.filter_jit
def forecast(lds: Any, count: int, inputs: Any, joint: bool) -> tuple[Array, ...]:
    """Mean, noise and latent variance of the next outcomes, and with `joint` how the latent parts covary."""
    steps, laws = _ahead(lds, count, inputs)
    mean = jnp.einsum("...ij,...j->...i", steps.emission, laws.mean) + steps.offset
    latent = jnp.einsum("...ij,...jk,...ik->...i", steps.emission, laws.covariance, steps.emission)
    noise = jnp.broadcast_to(jnp.diagonal(steps.observation, axis1=-2, axis2=-1), mean.shape)
    if not joint:
        return mean, noise, latent
    h = jnp.broadcast_to(steps.emission, (count, *steps.emission.shape[-2:]))

    def onward(past: Float[Array, "m n n"], element: Any) -> tuple[Array, Array]:
        """Cov(zⱼ, zᵢ) for all i ≤ j."""
        j, varying, p, row = element
        now = steps.at(varying)
        past = (now.transition @ past).at[j].set(p)
        return past, jnp.einsum("pn,mnk,mqk->pmq", row, past, h)

    elements = (jnp.arange(count), steps.varying(), laws.covariance, h)
    _, rows = jax.lax.scan(onward, jnp.zeros_like(laws.covariance), elements)
    size = count * lds.outputs
    low = jnp.tril(rows.reshape(size, size))  # (j, p), (i, q) with zeros where i > j
    return mean, noise, latent, low + jnp.tril(low, -1).T


@eqx.filter_jit
def ahead(lds: Any, count: int, inputs: Any) -> Start:
    """The laws of the next states."""
    laws = _ahead(lds, count, inputs)[1]
    return Start(laws.mean, laws.covariance)
