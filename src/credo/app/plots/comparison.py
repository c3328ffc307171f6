"""Pictures of the evidence: of models beside each other, and of one model over two of its numbers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm

from credo.app.plots.style import BLUE, GREEN, GREY, INK, ORANGE, RED, legend, names, new_axes, tidy
from credo.evaluate.comparison import Comparison

if TYPE_CHECKING:
    from credo.models.gp.surfaces import Surface


def comparison(ranked: Comparison, *, ax: Axes | None = None) -> Axes:
    """How far each model's log evidence is behind the highest, as bars; labels give the posterior probability."""
    highest = max(row.log_evidence for row in ranked.rows)
    behind = {row.name: highest - row.log_evidence for row in ranked.rows}
    said = [f"p = {row.probability:.2g}" if row.probability >= 0.005 else "p < 0.01" for row in ranked.rows]
    ax = _bars(ax, behind, ranked.best, [f", {probability}" for probability in said], 1)
    return tidy(ax, "log evidence behind the best (nats; 5 is very strong)", grid="x")


def densities(left_out: Mapping[str, float], *, ax: Axes | None = None) -> Axes:
    """How far each model's mean log density of rows that were left out is behind the highest, as bars."""
    highest = max(left_out.values())
    behind = {name: highest - value for name, value in left_out.items()}
    ax = _bars(ax, behind, min(behind, key=lambda name: behind[name]), [""] * len(behind), 3)
    return tidy(ax, "mean log density of rows left out, behind the best (nats a row)", grid="x")


def _bars(ax: Axes | None, behind: Mapping[str, float], chosen: str, said: list[str], digits: int) -> Axes:
    """Bars from the top down, the chosen one blue."""
    ax = ax or new_axes(7.0, 0.9 + 0.36 * len(behind))
    called, values = list(behind)[::-1], list(behind.values())[::-1]
    ax.barh(range(len(values)), values, color=[BLUE if name == chosen else GREY for name in called], height=0.62)
    names(ax, called, "y")
    reach = max(*values, 10.0**-digits)
    for i, (value, more) in enumerate(zip(values, said[::-1], strict=True)):
        label = f"{value:.{digits}f} behind{more}" if value > 0 else f"best{more}"
        ax.text(value + 0.012 * reach, i, label, va="center", fontsize=8.5, color=INK)
    ax.set_xlim(0, 1.3 * reach)
    return ax


def evidence(surface: "Surface", *, ax: Axes | None = None) -> Axes:
    """The log evidence over two hyperparameters, with its local maxima (crosses).

    Lines are 1, 2, 4, … nats below the highest point; each maximum says how far below the highest it is.
    `surface` comes from `credo.models.gp.evidence_surface`.
    """
    ax = ax or new_axes(5.4, 4.4)
    below = surface.log_evidence - np.nanmax(surface.log_evidence)
    levels = -np.asarray([1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 0], dtype=float)
    # One step of colour for each level: by value all but the summit would have the same.
    shades = BoundaryNorm(levels, 256, extend="min")
    ax.contourf(surface.first, surface.second, below, levels=levels, cmap="Blues", norm=shades, extend="min")
    lines = ax.contour(surface.first, surface.second, below, levels=levels[:-1], colors="white", linewidths=0.8)
    ax.clabel(lines, fontsize=7, fmt="%g")
    for i, maximum in enumerate(surface.maxima):
        behind = surface.maxima[0].log_evidence - maximum.log_evidence
        said = "highest maximum" if i == 0 else f"another, {behind:.2g} nats below"
        color = (RED, ORANGE, GREEN, INK)[min(i, 3)]
        ax.plot([maximum.first], [maximum.second], "x", color=color, markersize=9, markeredgewidth=2.5, label=said)
    if surface.logarithmic[0]:
        ax.set_xscale("log")
    if surface.logarithmic[1]:
        ax.set_yscale("log")
    if surface.maxima:
        legend(ax, loc="best")
    return tidy(ax, *surface.names, grid="")
