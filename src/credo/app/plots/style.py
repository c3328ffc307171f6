"""The house style: colours, axes, bands, panels, and a figure as text that a page can hold.

Nothing touches pyplot or matplotlib's global settings. Colours are told apart by people with any kind of colour vision
(Okabe & Ito 2008). Names of columns and classes are drawn as they are written: what looks like mathematics in them
(`$a_$b`) is none.
"""

import base64
import io
from collections.abc import Iterable
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import ndtri

BLUE, SKY, ORANGE, GREEN, RED, INK, GREY = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#22272e", "#8a929c"
LINE, GRID = "#c4cad1", "#e8ebee"
CLASSES = (BLUE, ORANGE, GREEN, RED, SKY, "#CC79A7", "#F0E442", INK, "#7a5195", GREY)
"""The colours of classes, in their order."""
MOST_POINTS = 1500
MOST_BARS = 25
PAGE = 9.6
"""The width of a page, in inches."""
DARK = (
    "<style>@media (prefers-color-scheme: dark) { svg { fill: #dfe4ea; }"
    f' [style*="fill: {INK}"] {{ fill: #dfe4ea !important; }}'
    f' [style*="stroke: {INK}"] {{ stroke: #dfe4ea !important; }}'
    f' [style*="stroke: {LINE}"] {{ stroke: #59636f !important; }}'
    f' [style*="stroke: {GRID}"] {{ stroke: #313840 !important; }} }}</style>'
)
"""Dark where the page is: ink becomes light, the grid recedes."""


def new_axes(width: float = 7.0, height: float = 3.6) -> Axes:
    """Axes in a figure of its own that pyplot knows nothing of."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def panels(n: int, height: float, across: int = 3, width: float = PAGE, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure with n axes, at most `across` in a row, each `height` inches high."""
    across = min(across, n)
    down = -(-n // across)
    figure = Figure(figsize=(width, height * down), layout="constrained")
    grid = list(figure.subplots(down, across, squeeze=False, **options).ravel())
    for ax in grid[n:]:
        ax.set_visible(False)
    return figure, grid[:n]


def tidy(ax: Axes, x: str = "", y: str = "", grid: str = "y") -> Axes:
    """Two spines, a light grid, small ink-coloured labels."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(LINE)
    ax.tick_params(colors=INK, labelsize=8.5, length=3, color=LINE)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(True, axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
    ax.set_xlabel(x, fontsize=9, color=INK, parse_math=False)
    ax.set_ylabel(y, fontsize=9, color=INK, parse_math=False)
    return ax


def title(ax: Axes, text: str) -> None:
    """A line above the axes, from the left."""
    ax.set_title(text, fontsize=9.5, color=INK, loc="left", parse_math=False)


def legend(ax: Axes | Figure, **options: Any) -> None:
    """A legend without a frame."""
    for text in ax.legend(frameon=False, fontsize=8.5, labelcolor=INK, **options).get_texts():
        text.set_parse_math(False)


def say(ax: Axes, x: Any, y: Any, text: str, **options: Any) -> None:
    """Small words at a place; `xytext` moves them by so many points."""
    look: dict[str, Any] = {"fontsize": 8.5, "color": INK, "xytext": (0, 0)}
    ax.annotate(text, (x, y), textcoords="offset points", parse_math=False, **look | options)


def names(ax: Axes, labels: Iterable[object], axis: str = "x") -> None:
    """The places 0, 1, … of an axis are called so; long names along x are turned."""
    said = [str(label) for label in labels]
    if axis == "y":
        ax.set_yticks(np.arange(len(said)), said, parse_math=False)
        return
    turned = 30 if max(map(len, said), default=0) * len(said) > 24 else 0
    ax.set_xticks(np.arange(len(said)), said, parse_math=False, rotation=turned, ha="right" if turned else "center")


def band(ax: Axes, at: Any, lower: Any, upper: Any, middle: Any = None, color: str = BLUE, **options: Any) -> None:
    """What lies between two curves, and the curve in the middle; `label` is the middle's where there is one."""
    label, alpha, width = options.get("label"), options.get("alpha", 0.25), options.get("linewidth", 1.6)
    around = label if middle is None else None
    ax.fill_between(at, lower, upper, color=color, alpha=alpha, linewidth=0, label=around)
    if middle is not None:
        ax.plot(at, middle, color=color, linewidth=width, label=label)


def some(n: int, most: int = MOST_POINTS) -> np.ndarray:
    """Evenly spaced row numbers, at most `most` of them: a picture of a million points shows no more."""
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))


def deviations(level: float) -> float:
    """How many standard deviations a normal law's central interval of this probability reaches to each side."""
    return float(ndtri(0.5 + level / 2))


def data_uri(drawn: Axes | Figure) -> str:
    """The figure as an SVG that a page can hold; the same figure gives the same text."""
    figure: Any = drawn.figure if isinstance(drawn, Axes) else drawn
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "credo", "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    text = out.getvalue().decode().replace("<defs>", DARK + "<defs>", 1)
    return "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()
