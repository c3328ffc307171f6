"""Pictures of learning by asking and by doing: what asking well saves, how good a policy is, what learning has cost."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, ScalarFormatter

from credo.app.plots.style import BLUE, CLASSES, GREEN, GREY, INK, band, legend, new_axes, say, tidy
from credo.core.errors import DataError
from credo.decide.active_learning import ActiveCurves
from credo.decide.agents.run import Run

Runs = Run | Mapping[str, Run]


def learning_curves(learned: ActiveCurves | Runs, *, ax: Axes | None = None, level: float = 0.5) -> Axes:
    """How good what was learned is: medians over seeds, and bands with `level` of them.

    Of active learning, the score against the outcomes asked for, with a line where the active way is as good as the
    other is in the end. Of agents (a run, or runs by name), the values of the greedy policies against the steps of
    training; a dotted line is the value of the best policy where it is known.
    """
    ax = ax or new_axes()
    if isinstance(learned, ActiveCurves):
        return _asking(ax, learned, level)
    runs = _named(learned)
    _bands(ax, {name: (run.steps, run.scores) for name, run in runs.items()}, level)
    for best in {run.optimum for run in runs.values() if run.optimum is not None}:
        ax.axhline(best, color=INK, linewidth=0.9, linestyle=":")
    return tidy(ax, "steps", "value of the policy")


def regret(runs: Runs, *, ax: Axes | None = None, level: float = 0.5) -> Axes:
    """What training has cost (`Run.regret`) against its steps: medians over seeds, and bands with `level` of them."""
    ax = ax or new_axes()
    _bands(ax, {name: (run.steps, run.regret) for name, run in _named(runs).items()}, level)
    return tidy(ax, "steps", "regret")


def _asking(ax: Axes, curves: ActiveCurves, level: float) -> Axes:
    _bands(ax, {name: (curves.labels, values) for name, values in curves.scores.items()}, level, (BLUE, GREY, GREEN))
    needed, other = curves.needed(), next(name for name in curves.scores if name != "active")
    if needed is not None:
        goal = float(curves.quartiles(other)[1, -1])
        ax.plot([needed, curves.labels[-1]], [goal, goal], color=INK, linewidth=0.9, linestyle=":")
        say(ax, needed, goal, f"{needed} instead of {curves.labels[-1]}", xytext=(4, -12))
    if all(values.min() > 0 for values in curves.scores.values()):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
    return tidy(ax, "outcomes asked for", curves.name.replace("_", " "))


def _named(runs: Runs) -> dict[str, Run]:
    named = {type(runs.agent).__name__: runs} if isinstance(runs, Run) else dict(runs)
    if not named:
        raise DataError("there is nothing to draw: runs is empty")
    return named


def _bands(
    ax: Axes,
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    level: float,
    colors: tuple[str, ...] = CLASSES,
) -> None:
    """Medians over seeds with the central `level` of them: values of shape (seeds, steps) by name."""
    if not 0 <= level < 1:
        raise DataError(f"level must lie between 0 and 1, found {level}")
    for i, (name, (steps, values)) in enumerate(curves.items()):
        finite = np.where(np.isfinite(values), values, np.nan)
        lower, median, upper = np.nanquantile(finite, [0.5 - level / 2, 0.5, 0.5 + level / 2], axis=0)
        band(ax, steps, lower, upper, median, colors[i % len(colors)], label=name)
        if len(steps) == 1:
            ax.lines[-1].set_marker("o")
    if len(curves) > 1:
        legend(ax, loc="best")
