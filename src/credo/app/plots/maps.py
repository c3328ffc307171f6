"""Pictures of maps: a layer in colours with the measurements on it, and the variogram."""

import numpy as np
from matplotlib.axes import Axes

from credo.app.plots.style import BLUE, INK, ORANGE, legend, new_axes, say, some, tidy
from credo.core.errors import DataError
from credo.models.gp.spatial import Map, Variogram
from credo.models.gp.spatial.grids import SQUAREST, alike

COLOURS = {"mean": "viridis", "sd": "magma_r", "exceeds": "RdBu_r", "slope": "cividis", "aspect": "twilight"}
RANGES = {"exceeds": (0.0, 1.0), "aspect": (0.0, 360.0)}
SAID = {"sd": "standard deviation", "exceeds": "probability", "aspect": "degrees from north"}


def field_map(made: Map, layer: str = "mean", points: np.ndarray | None = None, *, ax: Axes | None = None) -> Axes:
    """A layer of a map ("mean", "sd", "exceeds", "slope", …) as colours; `points` are drawn as dots."""
    if layer not in made.layers:
        raise DataError(f"the map has no layer {layer!r}; it has {', '.join(made.layers)}")
    ax = ax or new_axes(5.4, 4.2)
    (width, height), (x, y) = made.grid.cell, made.grid
    extent = (x[0] - width / 2, x[-1] + width / 2, y[0] - height / 2, y[-1] + height / 2)
    low, high = RANGES.get(layer, (None, None))
    look = COLOURS.get(layer.removesuffix("_sd") if layer.startswith("aspect") else layer, "viridis")
    drawn = ax.imshow(
        made.layers[layer],
        origin="lower",
        extent=extent,
        cmap=look,
        interpolation="nearest",
        vmin=low,
        vmax=high,
    )
    one_unit = alike((extent[1] - extent[0], extent[3] - extent[2]))
    ax.set_aspect(
        1.0 / max(np.cos(np.radians(np.mean(y))), SQUAREST) if made.lonlat else "equal" if one_unit else "auto"
    )
    ax.locator_params(nbins=4)
    ax.ticklabel_format(useOffset=False, style="plain")
    bar = ax.figure.colorbar(drawn, cax=ax.inset_axes((1.03, 0.0, 0.045, 1.0)))  # as high as the map
    bar.set_label(SAID.get(layer, ""), fontsize=9, color=INK)
    bar.ax.tick_params(labelsize=8.5, colors=INK)
    if points is not None:
        seen = np.asarray(points)[some(len(points))]
        ax.plot(seen[:, 0], seen[:, 1], ".", color="white", markeredgecolor=INK, markeredgewidth=0.4, markersize=4)
    ax.set_xlim(extent[:2])
    ax.set_ylim(extent[2:])
    return tidy(ax, *made.names, grid="")


def variogram(found: Variogram, unit: str = "", *, ax: Axes | None = None) -> Axes:
    """The empirical variogram as dots, larger for more pairs, and the learned one as a line."""
    ax = ax or new_axes(5.4, 3.4)
    size = 12 + 60 * found.pairs / found.pairs.max()
    ax.scatter(found.distance, found.gamma, s=size, color=BLUE, alpha=0.8, linewidth=0, label="of the measurements")
    if found.learned is not None:
        h, gamma = found.learned
        ax.plot(h[1:], gamma[1:], color=ORANGE, linewidth=1.6, label="learned")
        ax.plot(0, gamma[0], "_", color=ORANGE, markersize=10)
        if gamma[0] > 0.05 * gamma[-1]:
            say(ax, 0, gamma[0], "nugget", xytext=(8, -3))
    ax.set_ylim(0, None)
    ax.set_xlim(left=0)
    legend(ax, loc="lower right")
    return tidy(ax, f"distance{f' ({unit})' if unit else ''}", "half the squared difference")
