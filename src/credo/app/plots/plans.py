"""Pictures of plans: values and actions on a grid, or the world as a graph where there are few states."""

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, TwoSlopeNorm
from matplotlib.patches import FancyArrowPatch, Rectangle
from scipy.sparse.linalg import lsqr

from credo.app.plots.style import BLUE, CLASSES, GREY, INK, ORANGE, legend, new_axes, some, tidy, title
from credo.core.errors import DataError
from credo.decide.mdp import MDP, DiscountedPlan
from credo.decide.mdp.sources import MOVES

MOST_ARROWS = 1600
MOST_NUMBERS = 150
MOST_NODES = 40


def plan(plan: DiscountedPlan, *, ax: Axes | None = None) -> Axes:
    """A gridworld as a grid, another world as a graph where it has few states, else its values in order."""
    if not isinstance(plan.world, MDP):
        raise DataError("plan draws plans of an MDP; belief_values and belief_run draw those of a POMDP")
    if plan.world.cells is not None:
        return grid(plan, ax=ax)
    if plan.world.shape[0] <= MOST_NODES:
        return graph(plan, ax=ax)
    return values(plan, ax=ax)


def grid(plan: DiscountedPlan, *, ax: Axes | None = None) -> Axes:
    """The value of each cell as its colour, and the best action as an arrow; walls are grey, final cells framed."""
    world = plan.world
    if world.cells is None:
        raise DataError("the world has no cells to draw; make it with MDP.from_drawing, or use graph")
    top, left = (int(n) for n in world.cells.min(axis=0))
    bottom, right = (int(n) for n in world.cells.max(axis=0))
    rows, columns = bottom - top + 3, right - left + 3  # with a wall all around, drawn or not
    ax = ax or new_axes(*_size(rows, columns))
    shown = _shown(plan)
    image = np.full((bottom + 1, right + 1), np.nan)
    image[world.cells[:, 0], world.cells[:, 1]] = shown
    reach = max(float(np.abs(shown).max(initial=0.0)), 1e-12)
    signed = float(shown.min(initial=0.0)) < 0
    ax.set_facecolor("#5b6470")
    colors = _light("RdBu", 0.16, 0.84) if signed else _light("Blues", 0.06, 0.68)
    norm = TwoSlopeNorm(0.0, -reach, reach) if signed else None
    drawn = ax.imshow(image, cmap=colors, norm=norm, interpolation="nearest")
    bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.85)
    bar.set_label("value (in final cells: the reward)", fontsize=9, color=INK)
    bar.ax.tick_params(labelsize=8.5, colors=INK)
    live = np.flatnonzero(~world.terminal)
    if len(live) <= MOST_ARROWS:
        y, x = world.cells[live].T
        above = 0.08 if len(shown) <= MOST_NUMBERS else 0.0  # room for the number
        move = MOVES[plan.policy[live]]
        ax.quiver(
            x, y - above, move[:, 1], -move[:, 0], color=INK, pivot="mid", scale=1 / 0.55, scale_units="xy",
            angles="uv", width=0.28 / max(rows, columns) / 4,
        )  # fmt: skip
    if len(shown) <= MOST_NUMBERS:
        for (i, j), value in zip(world.cells, shown, strict=True):
            ax.text(j, i + 0.37, f"{value:.2g}", ha="center", va="center", fontsize=6.5, color=INK)
    for i, j in world.cells[world.terminal]:
        ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=ORANGE, linewidth=1.6))
    ax.set(xticks=[], yticks=[], xlim=(left - 1.5, right + 1.5), ylim=(bottom + 1.5, top - 1.5))
    ax.spines[:].set_visible(False)
    title(ax, _caption(plan))
    return ax


def graph(plan: DiscountedPlan, *, ax: Axes | None = None) -> Axes:
    """States on a circle with their values; arrows are where the best action leads, as thick as it is probable."""
    world, s = plan.world, plan.world.shape[0]
    if s > MOST_NODES:
        raise DataError(f"a graph of {s} states cannot be read; values shows up to any number")
    ax = ax or new_axes(5.6, 5.4)
    angle = np.pi / 2 - 2 * np.pi * np.arange(s) / s
    where = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    a = world.shape[1]
    for i in np.flatnonzero(~world.terminal):
        row = world.matrix[[i * a + int(plan.policy[i])]]
        for j, p in zip(row.indices, row.data, strict=True):
            if i == j:
                x, y = where[i] * 1.22
                ax.text(x, y, f"↺ {p:.2g}", ha="center", va="center", fontsize=7.5, color=GREY)
                continue
            look: dict[str, Any] = {"arrowstyle": "-|>", "connectionstyle": "arc3,rad=0.12", "mutation_scale": 9}
            ends = tuple(where[i]), tuple(where[j])
            arrow = FancyArrowPatch(*ends, shrinkA=13, shrinkB=13, color=BLUE, alpha=0.75, **look)
            arrow.set_linewidth(0.4 + 2.2 * p)
            ax.add_patch(arrow)
    drawn = ax.scatter(
        where[:, 0], where[:, 1], c=plan.value, s=520, cmap="Blues", edgecolors=INK, linewidths=0.8, zorder=3
    )
    ax.figure.colorbar(drawn, ax=ax, shrink=0.7).set_label("value", fontsize=9, color=INK)
    for number, (x, y) in enumerate(where):
        label = _name(world.states, number)
        text = label if world.terminal[number] else f"{label}\n{_name(world.actions, int(plan.policy[number]), 'a')}"
        ax.text(x, y, text, ha="center", va="center", fontsize=7, color=ORANGE, zorder=4, parse_math=False)
    ax.set(xlim=(-1.4, 1.4), ylim=(-1.35, 1.35), aspect="equal")
    ax.axis("off")
    title(ax, _caption(plan))
    return ax


def values(plan: DiscountedPlan, *, ax: Axes | None = None) -> Axes:
    """The values of all states in their order, coloured by the action that is best."""
    ax = ax or new_axes()
    shown = some(len(plan.value))
    for k in np.unique(plan.policy[shown]):
        mine = shown[plan.policy[shown] == k]
        label = _name(plan.world.actions, int(k), "action ")
        ax.plot(mine, plan.value[mine], ".", markersize=4, color=CLASSES[k % len(CLASSES)], label=label)
    if plan.world.shape[1] <= len(CLASSES):
        legend(ax)
    tidy(ax, "state", "value")
    title(ax, _caption(plan))
    return ax


def _shown(plan: DiscountedPlan) -> np.ndarray:
    """Values; in final cells, where they are zero, what entering them pays beyond the usual."""
    world: MDP = plan.world
    shown = plan.value.copy()
    if world.terminal.any() and not world.terminal.all():
        paid = (world.rewards - np.median(world.rewards[~world.terminal])).ravel()
        entering = world.matrix[:, np.flatnonzero(world.terminal)]
        rows = np.flatnonzero(np.diff(entering.indptr))
        shown[world.terminal] = lsqr(entering[rows], paid[rows], atol=1e-12, btol=1e-12)[0]
    return shown


def _size(rows: int, columns: int) -> tuple[float, float]:
    cell = min(0.62, 9.0 / max(rows, columns))
    return max(3.2, cell * columns + 1.6), max(2.2, cell * rows + 0.6)


def _light(name: str, low: float, high: float) -> ListedColormap:
    """The part of a colormap on which dark arrows and numbers can be read."""
    return ListedColormap(colormaps[name](np.linspace(low, high, 256)))


def _caption(plan: DiscountedPlan) -> str:
    return f"within {plan.certificate:.1g} of the optimum ({plan.method})"


def _name(names: tuple[Any, ...] | None, i: int, prefix: str = "") -> str:
    return f"{prefix}{i}" if names is None else str(names[i])
