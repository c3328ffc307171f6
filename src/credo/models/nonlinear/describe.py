"""A `StateSpaceModel` in one line: its sizes and functions, the method, and where the state is now."""

from typing import TYPE_CHECKING, Any

import numpy as np

from credo.core.gaussian import Gaussian
from credo.core.text import counted, plain
from credo.models.nonlinear.laws import Cloud

if TYPE_CHECKING:
    from credo.models.nonlinear.belief import StateSpaceModel


def describe(model: "StateSpaceModel") -> str:
    """`StateSpaceModel(2 states, 1 output; step=pendulum, observe=sine; by Extended; state 0.31 ± 0.05, …)`."""
    whole: tuple[tuple[str, Any], ...] = (("state", model.start_mean), ("output", model.observation_noise))
    sizes = [counted(value.shape[-1], noun) for noun, value in whole if hasattr(value, "shape")]
    own = ("step", "observe", "log_likelihood", "transition_sample")
    functions = {name: getattr(model, name) for name in own if getattr(model, name) is not None}
    named = ", ".join(f"{name}={getattr(f, '__name__', type(f).__name__)}" for name, f in functions.items())
    said = [", ".join(sizes), named, f"by {type(model.using).__name__}"]
    where = _where(model.state)
    return f"{type(model).__name__}({'; '.join(said + ([where] if where else []))})"


def _where(state: Gaussian | Cloud | None) -> str:
    """The mean and the standard deviation of each number of the state."""
    if state is None:
        return ""
    mean, covariance = plain(state.mean, 1), plain(state.covariance, 2)
    if mean is None or covariance is None:
        return "after data"
    pairs = list(zip(mean, np.sqrt(np.diagonal(covariance).clip(0.0)), strict=True))
    shown = ", ".join(f"{m:.3g} ± {s:.2g}" for m, s in pairs[:4])
    return f"state {shown}{', …' if len(pairs) > 4 else ''}"
