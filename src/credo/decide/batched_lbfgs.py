"""Many climbs at once: projected L-BFGS from several starts in lock-step, in one compiled loop.

    x ← P(x + t p),    p = H ∇f(x)

with H the inverse curvature that the last steps show (the two-loop recursion) on the coordinates that are free to move,
P the projection on the box, and t halved until the step gains what its slope promises. A turn of the loop evaluates all
climbs together, each at its own stage: those that backtrack and those that go on.
Nocedal & Wright (2006), algorithms 3.1 and 7.4; Bertsekas (1982), "Projected Newton methods".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from credo.core.arrays import Array

Rows = Float[Array, "k d"]
Each = Float[Array, " k"]
Flags = Bool[Array, " k"]
Past = Float[Array, "h k d"]
Bounds = Float[Array, " d"] | Rows
Function = Callable[[Rows], Each]
HISTORY = 8
"""Steps that are remembered."""
PROMISE = 1e-4
"""The share of what the slope promises that a step must gain."""
SHORTEST = 1e-10
"""A step shorter than this, relative to the box, ends a climb."""


class Climb(NamedTuple):
    """Where each of the k climbs is."""

    x: Rows
    value: Each
    slope: Rows
    direction: Rows
    length: Each
    moves: Past
    bends: Past
    """How far, and by how much less the slope then was; the latest first, zero where there was none."""
    going: Flags
    turns: Int[Array, ""]


class Tops(NamedTuple):
    """Where the climbs ended, how high, and whether each ended by itself."""

    x: Rows
    value: Each
    settled: Flags


def ascend(
    function: Function, starts: Rows, lower: Bounds, upper: Bounds, max_turns: int = 100, tolerance: Any = 1e-7
) -> Tops:
    """Local maxima of a function of rows in a box; to be called under `jit`.

    Args:
        function: a value for each row, each from its own row only.
        starts: a row for each climb.
        lower: the least of each coordinate; where it equals `upper` the coordinate stays.
        upper: the largest.
        max_turns: evaluations.
        tolerance: a climb ends where no coordinate, in units of its range, has a steeper slope.
    """
    lower, upper = (jnp.broadcast_to(v, starts.shape) for v in (lower, upper))
    box = Box(lower, upper, jnp.where(upper > lower, upper - lower, 1.0))
    begin = _begin(function, jnp.clip(starts, lower, upper), box)
    going = lambda s: jnp.any(s.going) & (s.turns < max_turns)  # noqa: E731
    end = jax.lax.while_loop(going, lambda s: _turn(s, function, box, tolerance), begin)
    return Tops(end.x, end.value, ~end.going)


class Box(NamedTuple):
    """Where each climb may go; a coordinate without room has a span of one."""

    lower: Rows
    upper: Rows
    span: Rows

    def free(self, x: Rows, slope: Rows) -> Bool[Array, "k d"]:
        """Coordinates that are not pressed against a wall."""
        inside = ((x > self.lower) | (slope > 0)) & ((x < self.upper) | (slope < 0))
        return inside & (self.upper > self.lower)

    def first_length(self, slope: Rows) -> Each:
        """The step that goes a tenth of the box along the steepest coordinate."""
        return 0.1 / jnp.maximum(jnp.max(jnp.abs(slope) * self.span, axis=1), 1e-300)


def _look(function: Function, x: Rows) -> tuple[Array, Array]:
    """Values and slopes; -inf and zero where they are not finite."""
    value, pull = jax.vjp(function, x)
    slope = pull(jnp.ones_like(value))[0]
    fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(slope), axis=1)
    return jnp.where(fine, value, -jnp.inf), jnp.where(fine[:, None], slope, 0.0)


def _begin(function: Function, x: Rows, box: Box) -> Climb:
    value, slope = _look(function, x)
    uphill = jnp.where(box.free(x, slope), slope, 0.0)
    none = jnp.zeros((HISTORY, *x.shape))
    going = (value > -jnp.inf) & jnp.any(uphill != 0, axis=1)
    direction, length = uphill * jnp.square(box.span), box.first_length(slope)
    return Climb(x, value, slope, direction, length, none, none, going, jnp.zeros((), int))


def _turn(s: Climb, function: Function, box: Box, tolerance: Any) -> Climb:
    """One evaluation of every climb: a step that is taken, or a shorter one to try next."""
    there = jnp.clip(s.x + s.length[:, None] * s.direction, box.lower, box.upper)
    value, slope = _look(function, there)
    move = there - s.x
    promised = jnp.sum(s.slope * move, axis=1)
    taken = s.going & (value >= s.value + PROMISE * promised) & (value > -jnp.inf) & (promised > 0)
    keep = taken[:, None]
    bend = s.slope - slope
    bent = taken & (jnp.sum(move * bend, axis=1) > 1e-12 * jnp.sum(jnp.square(bend), axis=1))
    moves, bends = _push(s.moves, move, bent), _push(s.bends, bend, bent)
    x, slope = jnp.where(keep, there, s.x), jnp.where(keep, slope, s.slope)
    loose = box.free(x, slope)
    free_slope = jnp.where(loose, slope, 0.0)
    direction, known = _two_loops(free_slope, moves, bends, loose)
    # A direction that is not uphill is forgotten for the slope itself, in the units of the box.
    uphill = known & (jnp.sum(direction * slope, axis=1) > 0)
    direction = jnp.where(uphill[:, None], direction, free_slope * jnp.square(box.span))
    length = jnp.where(taken, jnp.where(uphill, 1.0, box.first_length(slope)), 0.3 * s.length)
    direction = jnp.where(keep, direction, s.direction)
    flat = jnp.max(jnp.abs(free_slope) * box.span, axis=1) < tolerance
    short = jnp.max(jnp.abs(length[:, None] * direction) / box.span, axis=1) < SHORTEST
    going = s.going & ~(flat & taken) & ~short
    value = jnp.where(taken, value, s.value)
    return Climb(x, value, slope, direction, length, moves, bends, going, s.turns + 1)


def _push(history: Past, new: Rows, which: Flags) -> Past:
    return jnp.where(which[None, :, None], jnp.concatenate([new[None], history[:-1]]), history)


def _two_loops(slope: Rows, moves: Past, bends: Past, loose: Bool[Array, "k d"]) -> tuple[Rows, Flags]:
    """H ∇f among the coordinates that are free, and whether there was a step to learn H from."""
    moves, bends = jnp.where(loose, moves, 0.0), jnp.where(loose, bends, 0.0)
    along = jnp.sum(moves * bends, axis=2)
    used = along > 1e-14 * jnp.sum(jnp.square(bends), axis=2)
    rho = jnp.where(used, 1.0 / jnp.where(used, along, 1.0), 0.0)
    q, alphas = slope, []
    for i in range(HISTORY):
        alpha = rho[i] * jnp.sum(moves[i] * q, axis=1)
        q = q - alpha[:, None] * bends[i]
        alphas.append(alpha)
    latest = jnp.argmax(used, axis=0)  # the first in the list that counts
    each = jnp.arange(slope.shape[0])
    size = jnp.sum(jnp.square(bends), axis=2)[latest, each]
    known = jnp.any(used, axis=0)
    r = q * jnp.where(known, along[latest, each] / jnp.where(size > 0, size, 1.0), 1.0)[:, None]
    for i in reversed(range(HISTORY)):
        beta = rho[i] * jnp.sum(bends[i] * r, axis=1)
        r = r + (alphas[i] - beta)[:, None] * moves[i]
    return r, known
