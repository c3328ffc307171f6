"""Pictures of plans whose state is hidden: the value over the belief simplex, and the belief along an episode."""

import numpy as np
import scipy.sparse as sp
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from credo.app.plots.style import CLASSES, GREY, INK, LINE, ORANGE, legend, new_axes, tidy, title
from credo.core.errors import DataError
from credo.decide.pomdp.grid import compositions
from credo.decide.pomdp.plan import AlphaPlan, Run

FINE = 90
"""Parts of an edge of the triangle of three states."""
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
MOST_LABELS = 24
MOST_STATES = 12


def belief_values(plan: AlphaPlan, *, ax: Axes | None = None) -> Axes:
    """V(b) over the beliefs of two or three states: each α-vector, or each region, in the colour of its action."""
    s = plan.world.shape[0]
    if s == 2:
        return _two(plan, ax or new_axes())
    if s == 3:
        return _three(plan, ax or new_axes(5.6, 4.6))
    raise DataError(f"the value is drawn over the beliefs of two or three states, found {s}; belief_run draws any")


def belief_run(plan: AlphaPlan, run: Run, *, ax: Axes | None = None) -> Axes:
    """Probabilities of the states along an episode, with what was done and seen, and where the state really was."""
    ax, world, t = ax or new_axes(8.0, 3.4), plan.world, len(run.actions)
    mean = run.beliefs.mean(axis=0)
    shown = np.sort(np.argsort(-mean, kind="stable")[:MOST_STATES])
    image = ax.imshow(
        run.beliefs[:, shown].T, aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest", origin="lower"
    )
    place = {int(state): row for row, state in enumerate(shown)}
    there = [(k, place[int(state)]) for k, state in enumerate(run.states) if int(state) in place]
    if there:
        ax.plot(*zip(*there, strict=True), "o", color=ORANGE, markersize=5)
    ax.set_yticks(range(len(shown)), [str(world.state_names[k]) for k in shown], parse_math=False)
    if t <= MOST_LABELS:
        texts = ["start"] + [
            f"{world.action_names[a]}\n→ {world.observation_names[o]}"
            for a, o in zip(run.actions.tolist(), run.observations.tolist(), strict=True)
        ]
        ax.set_xticks(range(t + 1), texts, rotation=60, ha="right", rotation_mode="anchor", parse_math=False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.85)
    bar.set_label("probability", fontsize=9, color=INK)
    tidy(ax, "" if t <= MOST_LABELS else "step", "", grid="")
    ax.tick_params(labelsize=7.5)
    paid = float(run.rewards @ plan.world.discount ** np.arange(t))
    title(ax, f"an episode of {t} steps that earned {paid:.3g}; dots are where the state really was")
    return ax


def _two(plan: AlphaPlan, ax: Axes) -> Axes:
    world = plan.world
    p = np.linspace(0, 1, 501)
    beliefs = np.stack([1 - p, p], axis=1)
    value, which = plan.vectors.best(sp.csr_array(beliefs))
    labelled: set[int] = set()
    low, high = float(value.min()), float(value.max())
    for table, action in zip(plan.vectors.table, plan.vectors.actions.tolist(), strict=True):
        name = None if action in labelled else str(world.action_names[action])
        labelled.add(action)
        color = CLASSES[action % len(CLASSES)]
        ax.plot([0, 1], table, color=color, linewidth=0.9, alpha=0.55, label=name)
    actions = plan.vectors.actions[which]
    edges = np.flatnonzero(np.diff(actions)) + 1
    for part in np.split(np.arange(len(p)), edges):
        ax.plot(p[part], value[part], color=CLASSES[int(actions[part[0]]) % len(CLASSES)], linewidth=2.6)
    for edge in edges:
        ax.axvline((p[edge - 1] + p[edge]) / 2, color=LINE, linewidth=0.9, linestyle=":")
    room = 0.12 * max(high - low, 1e-9)
    ax.set(xlim=(0, 1), ylim=(low - room, high + room))
    legend(ax)
    tidy(ax, f"probability of {world.state_names[1]}", "value")
    title(ax, f"{len(plan.vectors)} vectors; the start is worth {plan.lower:.4g} to {plan.upper:.4g}")
    return ax


def _three(plan: AlphaPlan, ax: Axes) -> Axes:
    world = plan.world
    beliefs = compositions(FINE, 3) / FINE
    value, which = plan.vectors.best(sp.csr_array(beliefs))
    x, y = (beliefs @ CORNERS).T
    actions = plan.vectors.actions[which]
    used = np.unique(actions)
    ax.scatter(x, y, c=[CLASSES[int(a) % len(CLASSES)] for a in actions], s=13, marker="h", linewidths=0, alpha=0.45)
    lines = ax.tricontour(x, y, value, levels=9, colors=INK, linewidths=0.8)
    ax.clabel(lines, fontsize=7, fmt="%.3g")
    ax.plot(*CORNERS[[0, 1, 2, 0]].T, color=GREY, linewidth=1)
    for name, (u, v), down in zip(world.state_names, CORNERS, (True, True, False), strict=True):
        ax.annotate(
            str(name), (u, v), xytext=(0, -12 if down else 6), textcoords="offset points", ha="center", fontsize=9,
            color=INK, parse_math=False,
        )  # fmt: skip
    handles = [
        Patch(color=CLASSES[int(a) % len(CLASSES)], alpha=0.45, label=str(world.action_names[int(a)])) for a in used
    ]
    ax.legend(handles=handles, frameon=False, fontsize=8.5, loc="upper right")
    ax.set(xlim=(-0.1, 1.1), ylim=(-0.12, 0.98), aspect="equal")
    ax.axis("off")
    title(ax, f"value of each belief, and the region of each action; {len(plan.vectors)} vectors")
    return ax
