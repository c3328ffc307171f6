"""The arrows of a network that was learned, each as strong as it is probable."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from credo.app.plots import style
from credo.app.plots.networks import layout

BOX = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": style.LINE, "linewidth": 1.2}
MOST_LABELS = 30
"""With more arrows than this only their strength is drawn, without numbers."""


def arrows(network: Any, probabilities: Any = None, *, ax: Axes | None = None) -> Axes:
    """Variables and arrows, parents above children; with `probabilities` (of `Network.edge_probabilities`), each
    arrow with the probability that the two are connected, and how much of it is this direction.
    """
    places = layout(network)
    x, y = np.array(list(places.values())).T
    ax = ax or style.new_axes(min(max(1.45 * np.ptp(x) + 1.6, 5.0), 16.0), min(max(1.1 * np.ptp(y) + 1.2, 2.2), 14.0))
    ax.set_axis_off()
    ax.set(xlim=(x.min() - 0.7, x.max() + 0.7), ylim=(y.min() - 0.5, y.max() + 0.5))
    size = 9.0 if len(places) < 25 else 7.5
    boxes = {
        name: ax.text(
            *place, name, ha="center", va="center", fontsize=size, color=style.INK, bbox=BOX, parse_math=False, zorder=3
        )
        for name, place in places.items()
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
            ends = np.array([places[parent], places[child]])
            others = np.array(
                [place for name, place in places.items() if name not in (parent, child)] or [[np.inf] * 2]
            )
            at = {t: (1 - t) * ends[0] + t * ends[1] for t in (0.5, 0.3, 0.7)}
            share = max(at, key=lambda t: min(np.abs(at[t] - others).max(1).min(), 0.5))  # not behind another's box
            label = f"{both:.2f}" if both - forward < 0.005 else f"{both:.2f} ({forward:.2f} ↓)"
            ax.text(
                *at[share],
                label,
                fontsize=7,
                color=style.INK,
                ha="center",
                va="center",
                zorder=2.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
            )
    return ax
