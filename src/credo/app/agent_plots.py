"""Pictures of learning by doing: how good the policy is that an agent has learned, and what learning has cost."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from credo.app.plots import BLUE, CLASSES, INK, legend, new_axes, tidy
from credo.core.errors import DataError
from credo.decide.agents.run import Run


def learning_curve(runs: Run | Mapping[str, Run], ax: Axes | None = None, level: float = 0.5) -> Axes:
    """Values of the greedy policies against the steps of training: medians over seeds, and bands with `level` of them.

    `runs` is a run, or runs by name; a dotted line is the value of the best policy where it is known.
    """
    ax = ax or new_axes()
    named = _named(runs)
    _bands(ax, {name: (run.steps, run.scores) for name, run in named.items()}, level)
    known = {run.optimum for run in named.values() if run.optimum is not None}
    for best in known:
        ax.axhline(best, color=INK, linewidth=0.9, linestyle=":")
    if len(named) > 1:
        legend(ax, loc="best")
    return tidy(ax, "steps", "value of the policy")


def plot_regret(runs: Run | Mapping[str, Run], ax: Axes | None = None, level: float = 0.5) -> Axes:
    """What training has cost (`Run.regret`) against its steps: medians over seeds, and bands with `level` of them."""
    ax = ax or new_axes()
    named = _named(runs)
    _bands(ax, {name: (run.steps, run.regret) for name, run in named.items()}, level)
    if len(named) > 1:
        legend(ax, loc="best")
    return tidy(ax, "steps", "regret")


def _named(runs: Run | Mapping[str, Run]) -> dict[str, Run]:
    named = {type(runs.agent).__name__: runs} if isinstance(runs, Run) else dict(runs)
    if not named:
        raise DataError("there is nothing to draw: runs is empty")
    return named


def _bands(ax: Axes, curves: Mapping[str, tuple[np.ndarray, Float[np.ndarray, "g e"]]], level: float) -> None:
    share = float(level)
    if not 0 <= share < 1:
        raise DataError(f"level must lie between 0 and 1, found {level}")
    for i, (name, (steps, values)) in enumerate(curves.items()):
        color = BLUE if len(curves) == 1 else CLASSES[i % len(CLASSES)]
        finite = np.where(np.isfinite(values), values, np.nan)
        lower, median, upper = np.nanquantile(finite, [0.5 - share / 2, 0.5, 0.5 + share / 2], axis=0)
        ax.fill_between(steps, lower, upper, color=color, alpha=0.25, linewidth=0)
        marker = "o" if len(steps) == 1 else None
        ax.plot(steps, median, color=color, linewidth=1.6, label=name, marker=marker)
