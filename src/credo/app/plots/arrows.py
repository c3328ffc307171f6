"""The arrows of a network that was learned, each as strong as it is probable."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from credo.app.plots import style

BOX = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": style.LINE, "linewidth": 1.2}
MOST_LABELS = 30
"""With more arrows than this only their strength is drawn, without numbers."""


def arrows(network: Any, probabilities: Any = None, *, ax: Axes | None = None) -> Axes:
    """Variables and arrows, parents above children; with `probabilities` (of `Network.edge_probabilities`), each
    arrow with the probability that the two are connected, and how much of it is this direction.
    """
    places = layered(network.parents)
    depth, width = max(y for _, y in places.values()) + 1, max(x for x, _ in places.values()) + 1
    ax = ax or style.new_axes(min(max(1.45 * width, 5.0), 16.0), min(max(1.25 * depth, 2.2), 14.0))
    ax.set_axis_off()
    ax.set_xlim(-0.6, width - 0.4)
    ax.set_ylim(depth - 0.5, -0.5)
    size = 9.0 if len(places) < 25 else 7.5
    boxes = {
        name: ax.text(
            x, y, name, ha="center", va="center", fontsize=size, color=style.INK, bbox=BOX, parse_math=False, zorder=3
        )
        for name, (x, y) in places.items()
    }
    for parent, child in network.edges:
        forward, both = 1.0, 1.0
        if probabilities is not None:
            forward, back = probabilities[parent, child], probabilities[child, parent]
            both = min(forward + back, 1.0)
        ax.annotate(
            "",
            xy=places[child],
            xytext=places[parent],
            zorder=2,
            arrowprops={
                "arrowstyle": "-|>",
                "color": style.BLUE,
                "alpha": 0.25 + 0.75 * both,
                "linewidth": 0.8 + 1.6 * both,
                "patchA": boxes[parent].get_bbox_patch(),
                "patchB": boxes[child].get_bbox_patch(),
                "shrinkA": 1,
                "shrinkB": 2,
                "connectionstyle": "arc3,rad=0.08",
            },
        )
        if probabilities is not None and len(network.edges) <= MOST_LABELS:
            (x0, y0), (x1, y1) = places[parent], places[child]
            label = f"{both:.2f}" if both - forward < 0.005 else f"{both:.2f} ({forward:.2f} ↓)"
            ax.text(
                0.5 * (x0 + x1),
                0.5 * (y0 + y1),
                label,
                fontsize=7,
                color=style.INK,
                ha="center",
                va="center",
                zorder=2.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
            )
    return ax


def layered(parents: Any) -> dict[str, tuple[float, float]]:
    """A place for each variable: below all its parents, and in its layer near the middle of its neighbours."""
    depth: dict[str, int] = {}
    while len(depth) < len(parents):
        for name, above in parents.items():
            if name not in depth and all(p in depth for p in above):
                depth[name] = 1 + max((depth[p] for p in above), default=-1)
    layers: list[list[str]] = [[n for n in parents if depth[n] == y] for y in range(max(depth.values()) + 1)]
    near = {n: [*above, *(c for c, its in parents.items() if n in its)] for n, above in parents.items()}
    wide = max(map(len, layers))
    x = {n: (i + 0.5) * wide / len(layer) - 0.5 for layer in layers for i, n in enumerate(layer)}
    for _ in range(8):
        for layer in layers:
            wanted = {n: float(np.mean([x[m] for m in near[n]])) if near[n] else x[n] for n in layer}
            layer.sort(key=wanted.__getitem__)
            x |= {n: (i + 0.5) * wide / len(layer) - 0.5 for i, n in enumerate(layer)}
    return {n: (x[n], float(depth[n])) for n in parents}
