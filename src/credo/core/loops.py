"""Searches and sums that run alike in Python and under `jit`: NumPy and a loop where the numbers are known,
one compiled loop where they are traced."""

from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from credo.core.arrays import Array, host, namespace

S = TypeVar("S")

CHUNK = 2**20
"""So many numbers are computed at a time."""

GRID = 4096
"""The most terms of a sum over counts."""

SLACK = 1e-12
"""A level may be a probability that a sum reaches only up to rounding."""

quiet = np.errstate(all="ignore")
"""Decorates formulas whose infinities are meant: JAX says nothing about them either."""


def while_loop(unfinished: Callable[[S], Array], advance: Callable[[S], S], state: S) -> S:
    """`advance` the state while it is `unfinished`; what is traced must enter the state."""
    if namespace(state) is jnp:
        return jax.lax.while_loop(unfinished, advance, state)
    while unfinished(state):
        state = advance(state)
    return state


def over_nodes(xp: ModuleType, term: Callable[..., Array], nodes: tuple[Array, ...], size: int) -> Array:
    """term(node) for every node, the rows of `nodes`, a few at a time; one term takes about `size` numbers.

    `term` broadcasts over a leading axis of nodes.
    """
    if xp is jnp:
        return jax.lax.map(lambda node: term(*node), nodes, batch_size=64)
    step = max(1, CHUNK // max(size, 1))
    each = [term(*(values[i : i + step] for values in nodes)) for i in range(0, len(nodes[0]), step)]
    return each[0] if len(each) == 1 else namespace(each).concatenate(each)


@quiet
def invert_cdf(cdf: Callable[[Array], Array], q: Array, low: Array, high: Array) -> Array:
    """The y in [low, high] with cdf(y) = q, to the last bits that float64 can tell.

    Inverse quadratic interpolation inside a bracket: Chandrupatla (1997), "A new hybrid quadratic/bisection algorithm".
    About ten evaluations instead of sixty. x1 is the newest point, [x1, x2] the bracket, x3 the point that x1
    replaced; f = cdf - q.
    """
    State = tuple[Array, ...]
    shape = np.broadcast_shapes(np.shape(q), np.shape(low), np.shape(high))
    f_low, f_high = host(cdf(low)) - q, host(cdf(high)) - q
    xp = namespace(f_low, f_high, low, high)
    eps = np.finfo(float).eps

    def spread(x1: Array, x2: Array) -> Array:
        return (2 * eps * xp.maximum(xp.abs(x1), xp.abs(x2)) + 1e-300) / (xp.abs(x2 - x1) + 1e-300)

    def ratio(top: Array, bottom: Array) -> Array:
        """top / bottom, and 0 where the bottom is: a step that is then not taken."""
        zero = bottom == 0
        return xp.where(zero, 0.0, top / xp.where(zero, 1.0, bottom))

    def unfinished(state: State) -> Array:
        step, _, x1, x2, _, f1, f2, _ = state
        done = (spread(x1, x2) > 0.5) | (f1 == 0) | (f2 == 0)
        return (step < 100) & ~xp.all(done)

    def advance(state: State) -> State:
        step, t, x1, x2, x3, f1, f2, f3 = state
        x = x1 + t * (x2 - x1)
        f = host(cdf(x)) - q
        same = xp.sign(f) == xp.sign(f1)
        x3, f3 = xp.where(same, x1, x2), xp.where(same, f1, f2)
        x2, f2 = xp.where(same, x2, x1), xp.where(same, f2, f1)
        x1, f1 = x, f
        xi, phi = ratio(x1 - x2, x3 - x2), ratio(f1 - f2, f3 - f2)
        smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        quadratic = ratio(f1, f2 - f1) * ratio(f3, f2 - f3) + (
            ratio(x3 - x1, x2 - x1) * ratio(f1, f3 - f1) * ratio(f2, f3 - f2)
        )
        least = xp.minimum(spread(x1, x2), 0.5)
        t = xp.clip(xp.where(smooth, quadratic, 0.5), least, 1 - least)
        return step + 1, t, x1, x2, x3, f1, f2, f3

    low, high, f_low, f_high = (xp.broadcast_to(value, shape) for value in (low, high, f_low, f_high))
    start: State = (xp.asarray(0), xp.full(shape, 0.5), low, high, high, f_low, f_high, f_high)
    _, _, x1, x2, _, f1, f2, _ = while_loop(unfinished, advance, start)
    return xp.where(xp.abs(f1) <= xp.abs(f2), x1, x2)


def search_counts(cdf: Callable[[Array], Array], q: Array, mean: Array, std: Array) -> Array:
    """The q-quantile of counts by bisection, between the bounds of Cantelli's inequality (one-sided Chebyshev)."""
    xp = namespace(q, mean, std)
    low = xp.maximum(xp.floor(mean - std * xp.sqrt((1 - q) / q)) - 1, -1.0)
    high = xp.ceil(mean + std * xp.sqrt(q / (1 - q))) + 1

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        step, lo, hi = state
        return (step < 64) & xp.any(hi - lo > 1)

    def halve(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        step, lo, hi = state
        middle = xp.floor((lo + hi) / 2)
        enough = cdf(middle) >= q - SLACK
        return step + 1, xp.where(enough, lo, middle), xp.where(enough, middle, hi)

    return while_loop(unfinished, halve, (xp.asarray(0), low, high))[2]


def counts_near(mean: Array, std: Array) -> tuple[Array, Array]:
    """The counts within 30 standard deviations and 30 of the mean, (n, *m), and the stride between two of them.

    Where that would be more than the grid each stands for a stride. What is traced gets the whole grid.
    """
    xp, reach = namespace(mean, std), 30 * std + 30
    low = xp.maximum(xp.floor(mean - reach), 0.0)
    many = mean + reach - low + 1
    stride = xp.maximum(xp.ceil(many / GRID), 1.0)
    n = GRID if xp is jnp else int(np.ceil(np.max(many / stride, initial=1.0)))
    return low + xp.floor(stride / 2) + stride * np.arange(n, dtype=float).reshape(-1, *[1] * low.ndim), stride
