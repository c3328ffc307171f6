"""`decide`: from a prediction and a loss to the action that costs least on average.

a* = argmin_a E[L(a, Y)]        Savage (1954); Berger (1985), section 1.5
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from credo.core.arrays import Array, as_float, is_traced
from credo.core.checks import check_array
from credo.core.errors import DataError
from credo.core.predictive import Interval, Predictive
from credo.decide.custom import CustomLoss
from credo.decide.losses import Loss

LossLike = Loss | Callable[[Any, Any], Any]


class Decision(NamedTuple):
    """The Bayes action and what it is expected to cost, one of each per query."""

    action: Any
    """A number, a class or action index, or an `Interval`, as the loss defines it."""
    expected_loss: Array

    def __str__(self) -> str:
        costs = np.atleast_1d(np.asarray(self.expected_loss))
        if isinstance(self.action, Interval):
            ends = zip(*(np.atleast_1d(np.asarray(end)) for end in self.action), strict=True)
            actions = [f"[{low:.6g}, {high:.6g}]" for low, high in ends]
        else:
            actions = [f"{action:.6g}" for action in np.atleast_1d(np.asarray(self.action))]
        wide = max(6, *map(len, actions))
        lines = [f"{action:>{wide}}  {cost:>13.6g}" for action, cost in zip(actions, costs, strict=True)]
        if len(lines) > 12:
            lines = [*lines[:5], f"{'…':>{wide}}  ({len(lines) - 10} more)", *lines[-5:]]
        return "\n".join([f"{'action':>{wide}}  {'expected loss':>13}", *lines])


def decide(prediction: Predictive, loss: LossLike) -> Decision:
    """The action that minimizes the expected loss, for each query.

    `loss` is one of `credo.losses`, or a function of (action, outcome) written with `jax.numpy`, which is taken
    as `CustomLoss(function)`.
    """
    chosen = as_loss(loss)
    _check(prediction)
    action = chosen.bayes_action(prediction)
    return Decision(action, chosen.expected_loss(prediction, action))


def expected_loss(prediction: Predictive, loss: LossLike, action: Any) -> Array:
    """E[L(action, Y)] for an action that need not be the best one; a single action serves every query."""
    chosen = as_loss(loss)
    _check(prediction)
    ends = action if isinstance(action, tuple) else (action,)
    if isinstance(action, tuple) and len(action) != 2:
        raise DataError(f"an action is a number for each query, or the pair of an interval's ends, found {action!r}")
    for given in (check_array(end, "action") for end in ends if not is_traced(end)):
        if given.shape not in ((), (1,), tuple(prediction.shape)) or np.isnan(given).any():
            shape = tuple(prediction.shape)
            raise DataError(f"action must be one for all, or one for each of {shape} queries, found {action!r}")
    if isinstance(action, tuple):
        action = tuple(as_float(end) for end in action)
    return chosen.expected_loss(prediction, action)


def _check(prediction: object) -> None:
    if not isinstance(prediction, Predictive):
        raise DataError(f"decide takes a prediction first, found {type(prediction).__name__}; pass belief.predict(x)")


def as_loss(loss: Any) -> Loss:
    """The loss itself, or the function as a `CustomLoss` loss."""
    if isinstance(loss, Loss):
        return loss
    if callable(loss) and not isinstance(loss, type):
        return CustomLoss(loss)
    hint = f"; write {loss.__name__}()" if isinstance(loss, type) else "; e.g. credo.losses.Squared()"
    raise DataError(f"loss must be a loss or a function of (action, outcome), found {loss!r}{hint}")
