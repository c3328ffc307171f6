"""Pictures of beliefs about classes over two of their inputs: what is decided where, and how sure, and why not.

Inputs that are not shown are held at their medians.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from credo.app.plots import style
from credo.core.arrays import Numeric
from credo.core.belief import Belief
from credo.core.checks import check_count, check_table, input_names
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical
from credo.decide.losses import CostMatrix, Loss

MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
COLOURS = style.CLASSES[: len(MARKS)]
REJECT = "reject"
LINES = (0.1, 0.25, 0.5, 0.75, 0.9)
MARGIN = 0.08
"""How far the picture goes beyond the data, as a share of their range."""
Columns = Sequence[int | str]


class Slice(NamedTuple):
    """Predictions on a grid over two inputs."""

    x: np.ndarray
    y: np.ndarray
    prediction: Any
    classes: tuple[Any, ...]
    table: np.ndarray
    columns: tuple[int, int]
    names: list[str]
    title: str

    def image(self, values: Any) -> np.ndarray:
        """Values of the grid's rows as an array with a row for each y."""
        return np.asarray(values).reshape(len(self.y), len(self.x), *np.shape(values)[1:])

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """The edges of the pixels, whose centers are the grid."""
        half = [(axis[1] - axis[0]) / 2 for axis in (self.x, self.y)]
        return self.x[0] - half[0], self.x[-1] + half[0], self.y[0] - half[1], self.y[-1] + half[1]


def decision_regions(
    belief: Belief,
    X: Numeric,
    y: Numeric | None = None,
    *,
    columns: Columns = (0, 1),
    grid: int = 160,
    loss: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """The most probable class over two inputs, or the best action under `loss`, in colours; the surer, the darker.

    Lines are where the probability of a class is ½; of two classes, where that of the second is 0.1, 0.25, …, 0.9.

    Args:
        belief: predicts classes, e.g. `credo.fit(credo.Logistic(), X, y)`.
        X: the data, which say how far the picture goes, and the medians of the inputs that are not shown.
        y: the classes of the rows, drawn as points; None draws none.
        columns: the two inputs to show, by number or name.
        grid: points along each.
        loss: `CostMatrix`: colours are then actions, not classes.
        ax: where to draw.
    """
    part = _slice(belief, X, columns, grid)
    k = len(part.classes)
    probs = np.asarray(part.prediction.probs)
    if loss is not None and not isinstance(loss, Loss):
        raise DataError(f"loss must be a loss of classes such as CostMatrix(costs), found {type(loss).__name__}")
    chosen = np.asarray(probs.argmax(-1) if loss is None else loss.bayes_action(part.prediction)).astype(int)
    labels = _actions(loss, part.classes)
    ax = ax or style.new_axes(6.4, 4.4)
    palette = [style.GREY if label == REJECT else COLOURS[i] for i, label in enumerate(labels)]
    colours = np.asarray([to_rgb(colour) for colour in palette])[chosen]
    strength = 0.12 + 0.5 * (probs.max(-1) - 1 / k) / (1 - 1 / k)
    shade = 1 - strength[:, None] * (1 - colours)
    ax.imshow(part.image(shade), extent=part.extent, origin="lower", aspect="auto", interpolation="nearest", zorder=0)
    _lines(ax, part, probs)
    marks = _points(ax, part, y)
    if loss is None:
        marks = marks or [Patch(color=palette[i], alpha=0.5, label=label) for i, label in enumerate(labels)]
    else:
        used = np.unique(chosen)
        marks = [*marks, *(Patch(color=palette[i], alpha=0.5, label=f"do: {labels[i]}") for i in used)]
    style.tidy(ax, part.names[0], part.names[1], grid="")
    _finish(ax, part, part.title)
    style.legend(ax, handles=marks, loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.4)
    return ax


def doubt(
    belief: Belief,
    X: Numeric,
    y: Numeric | None = None,
    *,
    columns: Columns = (0, 1),
    grid: int = 160,
) -> Figure:
    """The two kinds of doubt about the class over two inputs, side by side, in nats.

    Left noise (aleatoric), the expected entropy once everything was known; right ignorance (epistemic), the mutual
    information of class and weights: what more data would take away. Each has a scale of its own.

    Args:
        belief: predicts classes.
        X, y, columns, grid: see `decision_regions`.
    """
    part = _slice(belief, X, columns, grid)
    kinds = {"noise (aleatoric)": part.prediction.aleatoric, "ignorance (epistemic)": part.prediction.epistemic}
    figure, axes = style.panels(2, 0.42 * style.PAGE, sharey=True)
    for ax, colour, (name, values) in zip(axes, (style.ORANGE, style.BLUE), kinds.items(), strict=True):
        shades = LinearSegmentedColormap.from_list(name, ["white", colour])
        nats = np.maximum(part.image(values), 0.0)
        picture = ax.imshow(nats, extent=part.extent, origin="lower", aspect="auto", cmap=shades, vmin=0.0, zorder=0)
        bar = figure.colorbar(picture, ax=ax, pad=0.02)
        bar.ax.tick_params(colors=style.INK, labelsize=8, length=2)
        bar.outline.set_visible(False)
        marks = _points(ax, part, y, quiet=True)
        style.tidy(ax, part.names[0], part.names[1] if ax is axes[0] else "", grid="")
        _finish(ax, part, f"{name}, nats")
    if marks:
        style.legend(figure, handles=marks, loc="outside right upper")
    if part.title:
        figure.suptitle(part.title, fontsize=9, color=style.INK, x=0.01, ha="left", parse_math=False)
    return figure


def _slice(belief: Belief, X: Numeric, columns: Columns, grid: int) -> Slice:
    """The predictions over two inputs, the others at their medians."""
    check_count(grid, "grid", 2)
    table = np.asarray(check_table(X, "X"))
    names = list(getattr(belief, "inputs", None) or input_names(X))
    first, second = _columns(columns, names)
    axes = []
    for i in (first, second):
        low, high = table[:, i].min(), table[:, i].max()
        pad = MARGIN * (high - low) or 1.0
        axes.append(np.linspace(low - pad, high + pad, grid))
    middle = np.median(table, axis=0)
    rows = np.tile(middle, (grid * grid, 1))
    across, up = np.meshgrid(*axes)
    rows[:, first], rows[:, second] = across.ravel(), up.ravel()
    prediction = belief.predict(rows)
    if not isinstance(prediction, Categorical | Bernoulli):
        raise DataError(f"these pictures are of beliefs about classes, found a {type(prediction).__name__} prediction")
    k = prediction.probs.shape[-1]
    if k > len(COLOURS):
        raise DataError(f"at most {len(COLOURS)} classes can be told apart by colour, found {k}")
    others = [f"{names[i]} = {middle[i]:.3g}" for i in range(len(names)) if i not in (first, second)]
    held = f"{', '.join(others[:4])}{', …' if len(others) > 4 else ''}"
    title = f"other inputs at their medians: {held}" if others else ""
    classes = tuple(getattr(belief, "classes", None) or range(k))
    shown = [names[first], names[second]]
    return Slice(axes[0], axes[1], prediction, classes, table, (first, second), shown, title)


def _columns(columns: Columns, names: list[str]) -> tuple[int, int]:
    wanted = list(columns) if isinstance(columns, list | tuple) else []
    found = [names.index(c) if c in names else c for c in wanted]
    valid = [c for c in found if isinstance(c, int | np.integer) and not isinstance(c, bool) and 0 <= c < len(names)]
    if len(valid) != 2 or len(wanted) != 2 or valid[0] == valid[1]:
        raise DataError(f"columns must be two different inputs of {', '.join(names)}, found {columns!r}")
    return int(valid[0]), int(valid[1])


def _actions(loss: Loss | None, classes: tuple[Any, ...]) -> list[str]:
    """The names of what can be done: the classes themselves, unless the costs say otherwise."""
    labels = [str(c) for c in classes]
    if not isinstance(loss, CostMatrix):
        return labels
    actions = loss.costs.shape[0]
    if len(loss.table) > len(COLOURS):
        raise DataError(f"at most {len(COLOURS)} actions can be told apart by colour, found {len(loss.table)}")
    own = labels if loss.names is None and actions == len(labels) else [loss.name_of(a) for a in range(actions)]
    return [*own, REJECT]


def _lines(ax: Axes, part: Slice, probs: np.ndarray) -> None:
    """Where a probability is ½; for two classes other levels, too."""
    if probs.shape[1] == 2:
        wide = [1.8 if level == 0.5 else 0.8 for level in LINES]
        image = part.image(probs[:, 1])
        drawn = ax.contour(part.x, part.y, image, levels=LINES, colors=style.INK, linewidths=wide, zorder=1)
        ax.clabel(drawn, fontsize=7, fmt="%g")
        return
    for i in range(probs.shape[1]):
        image = part.image(probs[:, i])
        if image.min() < 0.5 < image.max():
            ax.contour(part.x, part.y, image, levels=[0.5], colors=COLOURS[i], linewidths=1.4, zorder=1)


def _points(ax: Axes, part: Slice, y: Numeric | None, quiet: bool = False) -> list[Any]:
    """The data by class, and what the legend shows of them."""
    if y is None:
        return []
    labels = np.asarray(y)
    if labels.shape != (len(part.table),):
        raise DataError(f"y must have one class per row of X ({len(part.table)}), found shape {labels.shape}")
    unknown = set(labels.tolist()) - set(part.classes)
    if unknown:
        raise DataError(f"y holds {sorted(map(str, unknown))[0]!r}, which is not a class of the belief: {part.classes}")
    marks = []
    shown = style.some(len(labels))
    at = part.table[:, list(part.columns)][shown]
    for i, name in enumerate(part.classes):
        here = labels[shown] == name
        colour = COLOURS[i]
        mark: dict[str, Any] = {"marker": MARKS[i], "linestyle": "", "markersize": 3.6 if quiet else 5.0}
        edges: dict[str, Any] = {
            "markeredgecolor": style.INK if quiet else "white",
            "markeredgewidth": 0.5 if quiet else 0.6,
        }
        face = "none" if quiet and i == 0 else (style.INK if quiet else colour)
        marks += ax.plot(at[here, 0], at[here, 1], **mark, **edges, markerfacecolor=face, label=str(name), zorder=3)
    return marks


def _finish(ax: Axes, part: Slice, title: str) -> None:
    left, right, bottom, top = part.extent
    ax.set(xlim=(left, right), ylim=(bottom, top))
    style.title(ax, title)
