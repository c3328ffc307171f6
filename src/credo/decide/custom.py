"""Any loss at all: the Bayes action by integrating the user's function and searching for its minimum."""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, as_float, host, is_traced
from credo.core.checks import ArrayLike, check_count, check_vector
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.predictive import Categorical, Predictive
from credo.core.predictive.expectation import alone, anchors, expectation
from credo.decide.losses import Loss

GOLDEN = (5**0.5 - 1) / 2
STEPS = 40
GRID = 33


class CustomLoss(Loss):
    """A loss given by a function of (action, outcome), elementwise, written with `jax.numpy`.

    E[L(a, Y)] is an exact sum for classes and counts and a quadrature for real outcomes, accurate for a function
    that is smooth but where action and outcome meet; with `n` it is the average over that many draws.
    The minimum is sought among `actions`, or between two `bounds`, or, with neither, over the range of the
    outcomes: on a grid, then by golden sections around the best grid point.
    """

    function: Callable[[Any, Any], Any] = eqx.field(static=True)
    actions: Float[Array, " a"] | None
    bounds: Float[Array, "2"] | None
    n: int | None = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        actions: ArrayLike | None = None,
        bounds: ArrayLike | None = None,
        *,
        n: int | None = None,
        seed: int = 0,
    ) -> None:
        if actions is not None and bounds is not None:
            raise DataError("pass either actions, to choose from, or bounds, to search between, not both")
        if not callable(function):
            raise DataError(f"a custom loss is a function of (action, outcome), found {function!r}")
        if n is not None:
            check_count(n, "n")
        check_count(seed, "seed", 0)
        self.function = function
        self.actions = None if actions is None else host(check_vector(actions, "actions"))
        self.bounds = None if bounds is None else host(check_vector(bounds, "bounds", 2))
        if self.bounds is not None and not is_traced(self.bounds) and not bool(self.bounds[0] < self.bounds[1]):
            raise DataError(f"bounds must be (low, high) with low < high, found {self.bounds.tolist()}")
        self.n, self.seed = n, seed

    def __call__(self, action: Any, outcome: Any) -> Array:
        """The user's function."""
        return jnp.asarray(self.function(jnp.asarray(action, float), jnp.asarray(outcome, float)), float)

    def bayes_action(self, prediction: Predictive) -> Array:
        """The action with the smallest expected loss, one per query."""
        if isinstance(prediction, Categorical) and self.actions is None:
            raise DataError("a custom loss of classes needs actions to choose from; pass actions=[0, 1, ...]")
        action, edge = host(_search(self, alone(prediction)))
        if self.actions is None and self.bounds is None and not is_traced(edge) and np.any(edge):
            warnings.warn(
                "the best action lies at the end of the range of outcomes that was searched; pass bounds=(low, high)",
                NotConvergedWarning,
                stacklevel=3,
            )
        return action

    def expected_loss(self, prediction: Predictive, action: Any) -> Array:
        """E[L(action, Y)], one number per query."""
        return host(_expected(self, alone(prediction), as_float(action)))

    def least_loss(self, outcome: Any) -> Array:
        """min_a L(a, outcome); where the actions have no bounds, among actions up to 10⁴ units away."""
        y = jnp.asarray(outcome, float)
        if self.actions is not None:
            return jnp.min(jax.vmap(lambda a: self(a, y))(self.actions), axis=0)
        if self.bounds is not None:
            grid = _between(self.bounds, y.shape)
        else:
            far = jnp.concatenate([-jnp.geomspace(1e4, 1e-4, GRID), jnp.zeros(1), jnp.geomspace(1e-4, 1e4, GRID)])
            grid = y + far.reshape(-1, *[1] * y.ndim)
        return self(minimize(lambda a: self(a, y), grid)[0], y)


def minimize(objective: Callable[[Array], Array], grid: Float[Array, "g *m"]) -> tuple[Array, Array]:
    """argmin of `objective` near the best of an ascending grid, elementwise, by golden sections.

    Also says where the minimum lies in an end cell of the grid. Kiefer (1953).
    """
    values = jax.lax.map(objective, grid)
    best = jnp.argmin(values, axis=0)
    last = grid.shape[0] - 1

    def take(index: Array) -> Array:
        return jnp.take_along_axis(grid, jnp.clip(index, 0, last)[None], axis=0)[0]

    def shrink(_: Any, state: tuple[Array, ...]) -> tuple[Array, ...]:
        low, left, right, high, at_left, at_right = state
        lower = at_left < at_right
        low, high = jnp.where(lower, low, left), jnp.where(lower, right, high)
        kept, at_kept = jnp.where(lower, left, right), jnp.where(lower, at_left, at_right)
        new = jnp.where(lower, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        at_new = objective(new)
        left, right = jnp.where(lower, new, kept), jnp.where(lower, kept, new)
        at_left, at_right = jnp.where(lower, at_new, at_kept), jnp.where(lower, at_kept, at_new)
        return low, left, right, high, at_left, at_right

    low, high = take(best - 1), take(best + 1)
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = jax.lax.map(objective, jnp.stack([left, right]))
    start = (low, left, right, high, at_left, at_right)
    _, left, right, _, at_left, at_right = jax.lax.fori_loop(0, STEPS, shrink, start)
    refined = jnp.where(at_left < at_right, left, right)
    # A jump or a flat stretch can leave the sections above the grid point they started from.
    better = jnp.minimum(at_left, at_right) <= jnp.min(values, axis=0)
    return jnp.where(better, refined, take(best)), (best == 0) | (best == last)


@eqx.filter_jit
def _expected(loss: CustomLoss, prediction: Predictive, action: Array) -> Array:
    return _risk(loss, prediction)(jnp.broadcast_to(action, prediction.shape))


def _risk(loss: CustomLoss, prediction: Predictive) -> Callable[[Array], Array]:
    """a ↦ E[L(a, Y)]; the same draws serve every action."""
    if loss.n is None:
        known = anchors(prediction)
        return lambda a: expectation(prediction, lambda y: loss(a, y), split=a, known=known)
    draws = prediction.draw(jr.key(loss.seed), loss.n)
    return lambda a: jnp.mean(jax.vmap(lambda y: loss(a, y))(draws), axis=0)


@eqx.filter_jit
def _search(loss: CustomLoss, prediction: Predictive) -> tuple[Array, Array]:
    risk = _risk(loss, prediction)
    if loss.actions is not None:
        each = jax.lax.map(lambda a: risk(jnp.full(prediction.shape, a)), loss.actions)
        return loss.actions[jnp.argmin(each, axis=0)], jnp.asarray(False)
    if loss.bounds is not None:
        return minimize(risk, _between(loss.bounds, prediction.shape))
    # Logistic in the level: as many points beyond the 1 % quantiles as between the quartiles.
    levels = jax.nn.sigmoid(jnp.asarray(np.linspace(-14, 14, GRID)))
    return minimize(risk, prediction.quantile(levels).astype(float))


def _between(bounds: Array, shape: tuple[int, ...]) -> Array:
    points = jnp.linspace(bounds[0], bounds[1], 2 * GRID - 1)
    return jnp.broadcast_to(points.reshape(-1, *[1] * len(shape)), (len(points), *shape))
