"""Pictures of factors: how much of each the columns show."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtri

from credo.app.plots.style import CLASSES, GREY, PAGE, legend, names, new_axes, tidy
from credo.core.errors import DataError

if TYPE_CHECKING:
    from credo.models.factor.loadings import Loadings

MOST = 6
"""Factors that can be told apart in one picture."""


def loadings(found: "Loadings", *, ax: Axes | None = None, level: float = 0.95) -> Axes:
    """The loadings of each column, factors side by side, with intervals where they have standard errors."""
    d, l = found.values.shape
    if not 1 <= l <= MOST:
        raise DataError(f"the picture shows 1 to {MOST} factors, found {l}")
    ax = ax or new_axes(PAGE, 0.9 + (0.16 + 0.12 * l) * d)
    half = np.zeros_like(found.values) if found.std is None else ndtri(0.5 + level / 2) * found.std
    rows = np.arange(d)[::-1]
    ax.axvline(0.0, color=GREY, linewidth=0.8)
    for k in range(l):
        at = rows + (0.5 * (l - 1) - k) * min(0.22, 0.7 / l)
        label = f"factor {k + 1} ({found.share[k]:.0%} of the variance)"
        ax.errorbar(
            found.values[:, k], at, xerr=half[:, k], fmt="o", markersize=4, color=CLASSES[k], linewidth=1.4, label=label
        )
    names(ax, found.columns[::-1], "y")
    legend(ax, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(l, 3))
    doubt = "" if found.std is None else f" ({level:.0%} intervals)"
    return tidy(ax, f"loading{doubt}", grid="x")
