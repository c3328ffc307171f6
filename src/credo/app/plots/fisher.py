"""Classes along the directions that separate them most: Fisher's projection."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from scipy.special import chdtri, ndtri

from credo.app.plots import style
from credo.app.plots.regions import COLOURS, MARKS
from credo.core.arrays import Numeric
from credo.core.checks import ArrayLike
from credo.core.errors import DataError

if TYPE_CHECKING:
    from credo.models.generative.boundary import Fisher


def separation(found: "Fisher", X: ArrayLike, y: Numeric, *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """Rows in the first two directions of `belief.fisher()`, or along the only one, by class.

    Directions are scaled to unit variance within classes: a circle (a line) around the mean of a class holds `level` of
    it where its covariance is the one that all share.

    Args:
        found: of `Discriminant.fisher()`.
        X, y: rows and their classes.
        ax: where to draw.
        level: what the circles hold.
    """
    rows, labels = np.asarray(found(X)), np.asarray(y)
    if labels.shape != (len(rows),):
        raise DataError(f"y must have the class of each of the {len(rows)} rows, found shape {labels.shape}")
    ax = ax or style.new_axes(6.4, 4.4)
    plane = rows.shape[1] > 1
    radius = float(np.sqrt(chdtri(2, 1 - level)) if plane else ndtri(0.5 + level / 2))
    for i, name in enumerate(np.unique(labels)):
        mine, colour, mark = rows[labels == name], COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)]
        height = mine[:, 1] if plane else np.full(len(mine), -float(i))
        ax.scatter(mine[:, 0], height, s=14, color=colour, marker=mark, alpha=0.7, linewidths=0, label=str(name))
        center = mine.mean(axis=0)
        if plane:
            ax.add_patch(Circle((center[0], center[1]), radius, fill=False, color=colour, linewidth=1.4))
        else:
            ax.plot(center[0] + radius * np.array([-1, 1]), [-i - 0.25] * 2, color=colour, linewidth=1.4)
    share = [f"direction {j + 1} ({part:.0%} of the separation)" for j, part in enumerate(found.shares[:2])]
    if plane:
        ax.set_aspect("equal", adjustable="datalim")
        ax.autoscale_view()
    else:
        ax.set_yticks([])
    style.legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.4)
    return style.tidy(ax, share[0], share[1] if plane else "", grid="")
