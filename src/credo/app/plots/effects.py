"""Pictures of what each column contributes, and of what acting costs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from credo.app.plots.predictions import intervals
from credo.app.plots.style import BLUE, CLASSES, GREY, INK, PAGE, band, legend, names, new_axes, panels, some, tidy

if TYPE_CHECKING:
    from credo.app.report.effects import Curve, Effect

MOST = 18


def effects(ranked: "Sequence[Effect]", what: str, *, ax: Axes | None = None) -> Axes:
    """How far each column moves what is predicted, with doubt."""
    shown = ranked[:MOST]
    called = [f"{e.column}: {e.start} → {e.end}" + (f"  [{e.outcome}]" if e.outcome else "") for e in shown]
    ax = ax or new_axes(PAGE, 0.9 + 0.3 * len(shown))
    mean, lower, upper = ([getattr(e, field) for e in shown] for field in ("mean", "lower", "upper"))
    return intervals(mean, lower, upper, called, ax=ax, label=f"change of {what} (95 % interval)")


def curves(drawn: "Sequence[Curve]", target: str, levels: tuple[str, ...] = ()) -> Figure:
    """The prediction along columns, all on one scale; of several classes, one line for each."""
    figure, axes = panels(len(drawn), 2.7, sharey=True)
    for i, (ax, curve) in enumerate(zip(axes, drawn, strict=True)):
        several = curve.mean.ndim == 2
        ends = (np.reshape(v, (len(v), -1)).T for v in (curve.mean, curve.lower, curve.upper))
        for k, (mean, lower, upper) in enumerate(zip(*ends, strict=True)):
            color = CLASSES[k % len(CLASSES)] if several else BLUE
            _curve(ax, curve, mean, lower, upper, color, levels[k] if several else "")
        if len(curve.seen):
            seen = curve.seen[some(len(curve.seen), 200)]
            ax.plot(seen, np.full(len(seen), 0.0), "|", color=INK, alpha=0.3, transform=ax.get_xaxis_transform())
            if curve.column.kind == "date":
                ax.tick_params(axis="x", rotation=30)
        else:
            names(ax, curve.at)
        tidy(ax, curve.column.name, target if i % 3 == 0 else "")
    if len(levels) > 2:
        figure.set_figheight(figure.get_figheight() + 0.35)
        handles, called = axes[0].get_legend_handles_labels()
        legend(figure, handles=handles, labels=called, loc="outside upper center", ncols=6)
    return figure


def _curve(
    ax: Axes, curve: "Curve", mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, ink: str, name: str
) -> None:
    if len(curve.seen):
        band(ax, curve.at, lower, upper, mean, ink, alpha=0.12 if name else 0.25, label=name)
        return
    ends = np.maximum([mean - lower, upper - mean], 0.0)
    ax.errorbar(np.arange(len(curve.at)), mean, ends, fmt="o", color=ink, capsize=3, label=name)


def costs(means: dict[str, float], *, ax: Axes | None = None) -> Axes:
    """The mean cost of acting in several ways."""
    ax = ax or new_axes(PAGE, 0.8 + 0.4 * len(means))
    values = list(means.values())[::-1]
    colors = [BLUE if value == min(values) else GREY for value in values]
    ax.barh(range(len(values)), values, color=colors, height=0.6)
    names(ax, list(means)[::-1], "y")
    for i, value in enumerate(values):
        ax.text(value, i, f" {value:.4g}", va="center", fontsize=8.5, color=INK)
    ax.set_xlim(0, 1.15 * max(*values, 1e-12))
    return tidy(ax, "mean cost per test row", grid="x")
