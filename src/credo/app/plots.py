"""Pictures of predictions and beliefs, for reports, notebooks and papers.

Every function draws into `ax`, or into a new figure of its own, and returns the Axes; `axes.figure.savefig(...)`
writes it to a file. Nothing touches pyplot or matplotlib's global settings. Colours are told apart by people
with any kind of colour vision (Okabe & Ito 2008).
"""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure
from scipy.special import ndtri

from credo.core.arrays import Array, Numeric
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.params import check_path, constraint_of, learnable, replace
from credo.core.predictive import Predictive
from credo.evaluate.comparison import Comparison

if TYPE_CHECKING:
    from credo.models.gp.surfaces import Surface
    from credo.models.linear import Linear

BLUE, SKY, ORANGE, GREEN, RED, INK, GREY = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#22272e", "#8a929c"
CLASSES = (BLUE, ORANGE, GREEN, RED, SKY, "#CC79A7", "#F0E442", INK, "#7a5195", GREY)
"""The colours of classes, in their order."""
MOST_POINTS = 1500
MOST_BARS = 25


def new_axes(width: float = 7.0, height: float = 3.6) -> Axes:
    """Axes in a figure of its own that pyplot knows nothing of."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def tidy(ax: Axes, x: str = "", y: str = "", grid: str = "y") -> Axes:
    """The house style: two spines, a light grid, small ink-coloured labels."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#c4cad1")
    ax.tick_params(colors=INK, labelsize=8.5, length=3, color="#c4cad1")
    ax.set_axisbelow(True)
    if grid:
        ax.grid(True, axis=grid, color="#e8ebee", linewidth=0.8)  # type: ignore[arg-type]
    ax.set_xlabel(x, fontsize=9, color=INK)
    ax.set_ylabel(y, fontsize=9, color=INK)
    return ax


def legend(ax: Axes, **options: Any) -> None:
    """A legend without a frame."""
    ax.legend(frameon=False, fontsize=8.5, labelcolor=INK, **options)


def some(n: int, most: int = MOST_POINTS) -> np.ndarray:
    """Evenly spaced row numbers, at most `most` of them: a picture of a million points shows no more."""
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))


def bands(
    x: Numeric, prediction: Predictive, y: Numeric | None = None, ax: Axes | None = None, level: float = 0.95
) -> Axes:
    """The predicted mean along x with its doubt: ignorance alone, and ignorance and noise together.

    The inner band is mean ± z √epistemic, the outer one the central interval of probability `level`.
    """
    ax = ax or new_axes()
    where = np.asarray(x)
    if where.ndim != 1 or len(where) != len(prediction):
        raise DataError(f"x must be a vector with one entry per prediction ({len(prediction)}), found {where.shape}")
    order = np.argsort(where, kind="stable")
    at = where[order]
    mean = np.asarray(prediction.mean)[order]
    lower, upper = (np.asarray(end)[order] for end in prediction.interval(level))
    z = float(ndtri(0.5 + level / 2))
    ignorance = z * np.sqrt(np.asarray(prediction.epistemic)[order])
    ax.fill_between(at, lower, upper, color=SKY, alpha=0.28, linewidth=0, label=f"{level:.0%} of outcomes")
    ax.fill_between(
        at, mean - ignorance, mean + ignorance, color=BLUE, alpha=0.38, linewidth=0, label="doubt about the mean"
    )
    ax.plot(at, mean, color=BLUE, linewidth=1.5, label="predicted mean")
    if y is not None:
        shown = some(len(at))
        outcomes = np.asarray(y, dtype=float)[order]
        ax.plot(at[shown], outcomes[shown], ".", color=INK, markersize=4, alpha=0.65, label="observed")
    legend(ax, loc="best")
    return tidy(ax)


def evidence_bars(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """How far each model's log evidence is behind the best, as bars; labels give the posterior probability."""
    rows = comparison.rows[::-1]
    ax = ax or new_axes(7.0, 0.9 + 0.36 * len(rows))
    behind = np.asarray([max(-row.log_bayes_factor, 0.0) for row in rows])
    colors = [BLUE if row.name == comparison.best else GREY for row in rows]
    ax.barh([row.name for row in rows], behind, color=colors, height=0.62)
    reach = max(float(behind.max()), 1.0)
    for i, row in enumerate(rows):
        label = f"p = {row.probability:.2g}" if row.probability >= 0.005 else "p < 0.01"
        said = f"best, {label}" if row.name == comparison.best else f"{behind[i]:.1f} behind, {label}"
        ax.text(behind[i] + 0.012 * reach, i, said, va="center", fontsize=8.5, color=INK)
    ax.set_xlim(0, 1.3 * reach)
    return tidy(ax, "log evidence behind the best (nats; 5 is very strong)", grid="x")


def coefficients(belief: "Linear", ax: Axes | None = None, level: float = 0.95) -> Axes:
    """The belief about each weight: mean and central interval, the largest first (at most 25, no intercept)."""
    names, belief_about = belief.coefficient_names(), belief.coefficients()
    mean = np.asarray(belief_about.mean)
    lower, upper = (np.asarray(end) for end in belief_about.interval(level))
    # A weight without spread is a point: its interval is the point itself.
    lower, upper = (np.where(np.isnan(end), mean, end) for end in (lower, upper))
    keep = np.asarray([i for i, name in enumerate(names) if not (i == 0 and name == "intercept")], dtype=int)
    order = keep[np.argsort(-np.abs(mean[keep]))][:MOST_BARS][::-1]
    return intervals([names[i] for i in order], mean[order], lower[order], upper[order], ax, "weight")


def intervals(
    names: list[str], mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, ax: Axes | None = None, label: str = ""
) -> Axes:
    """Named numbers with their intervals, from bottom to top; grey where the interval holds zero."""
    ax = ax or new_axes(7.0, 0.9 + 0.3 * len(names))
    places = np.arange(len(names))
    ax.axvline(0, color="#c4cad1", linewidth=1)
    for place, middle, low, high in zip(places, mean, lower, upper, strict=True):
        color = GREY if low <= 0 <= high else (BLUE if middle > 0 else RED)
        ax.plot([low, high], [place, place], color=color, linewidth=2.2, alpha=0.6, solid_capstyle="round")
        ax.plot([middle], [place], "o", color=color, markersize=5)
    ax.set_yticks(places, names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    return tidy(ax, label, grid="x")


def evidence_contour(
    belief: Belief,
    data: tuple[Any, ...],
    path_x: str,
    path_y: str,
    span: float = 1.5,
    ax: Axes | None = None,
    number: int = 41,
) -> Axes:
    """The log evidence over two positive hyperparameters, around their present values.

    Axes are log₁₀ of the natural units, `span` decades to each side; lines are 1, 2, 4, … nats below the highest
    point of the grid (the cross); the dot is the belief's own value. `belief` is one before the data, e.g. from
    `credo.learn`.
    """
    values = learnable(belief)
    for path in (path_x, path_y):
        check_path(belief, path)
        if values[path].ndim or constraint_of(belief, path).kind != "positive":
            raise DataError(f"evidence_contour needs single positive numbers, {path!r} is not one")
    statistics = belief.statistics(*data)
    center = np.log10([float(values[path_x]), float(values[path_y])])
    grid_x, grid_y = (np.linspace(c - span, c + span, number) for c in center)

    @eqx.filter_jit
    def surface(u: Array, v: Array) -> Array:
        def at(a: Array, b: Array) -> Array:
            return replace(belief, {path_x: 10.0**a, path_y: 10.0**b}).evidence_of(statistics)

        return jax.lax.map(lambda b: jax.vmap(lambda a: at(a, b))(u), v)

    height = np.asarray(surface(grid_x, grid_y))
    ax = ax or new_axes(5.4, 4.4)
    _terraces(ax, grid_x, grid_y, height)
    top = np.unravel_index(int(np.nanargmax(height)), height.shape)
    ax.plot([grid_x[top[1]]], [grid_y[top[0]]], "x", color=RED, markersize=9, markeredgewidth=2, label="highest")
    ax.plot([center[0]], [center[1]], "o", color=INK, markersize=5, label="the belief")
    legend(ax, loc="upper right")
    return tidy(ax, f"log₁₀ {path_x}", f"log₁₀ {path_y}", grid="")


def plot_evidence(surface: "Surface", ax: Axes | None = None) -> Axes:
    """The log evidence over two hyperparameters of a Gaussian process, with its local maxima (crosses).

    Lines are 1, 2, 4, … nats below the highest point; each maximum says how far below the highest it is.
    `surface` comes from `credo.models.gp.evidence_surface.evidence_surface`.
    """
    ax = ax or new_axes(5.4, 4.4)
    _terraces(ax, surface.first, surface.second, surface.log_evidence)
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


def _terraces(ax: Axes, x: np.ndarray, y: np.ndarray, height: np.ndarray) -> None:
    """Filled contours 1, 2, 4, … below the highest point."""
    below = height - np.nanmax(height)
    levels = -np.asarray([1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1, 0], dtype=float)
    # One step of colour for each level: by value all but the summit would have the same.
    shades = BoundaryNorm(levels, 256, extend="min")
    ax.contourf(x, y, below, levels=levels, cmap="Blues", norm=shades, extend="min")
    lines = ax.contour(x, y, below, levels=levels[:-1], colors="white", linewidths=0.8)
    ax.clabel(lines, fontsize=7, fmt="%g")


def calibration(prediction: Predictive, y: Numeric, ax: Axes | None = None) -> Axes:
    """How often outcomes fell into the central intervals, against how often they should.

    The grey band holds 95 % of what chance gives to a calibrated prediction (binomial, level by level).
    """
    from scipy import stats

    from credo.evaluate.calibration import pit

    ax = ax or new_axes(4.4, 4.0)
    depth = np.abs(2 * pit(prediction, y) - 1)
    levels = np.linspace(0.01, 0.99, 99)
    observed = (depth[:, None] <= levels).mean(axis=0)
    n = len(depth)
    low, high = stats.binom.ppf(0.025, n, levels) / n, stats.binom.ppf(0.975, n, levels) / n
    ax.fill_between(levels, low, high, color=GREY, alpha=0.22, linewidth=0, label="expected by chance")
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    ax.plot(levels, observed, color=BLUE, linewidth=1.8, label="observed")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_aspect("equal")
    legend(ax, loc="upper left")
    return tidy(ax, "probability of the interval", "share of outcomes inside", grid="both")


def residuals(prediction: Predictive, y: Numeric, ax: Axes | None = None) -> Axes:
    """Observed minus predicted, against the prediction; lines are half the width of the 95 % interval away."""
    ax = ax or new_axes(5.6, 4.0)
    mean = np.asarray(prediction.mean)
    lower, upper = (np.asarray(end) for end in prediction.interval(0.95))
    outcomes = np.asarray(y, dtype=float)
    if len(outcomes) != len(mean):
        raise DataError(f"y must have one value per prediction: {len(mean)}, found {len(outcomes)}")
    order = np.argsort(mean)[some(len(mean))]
    ax.axhline(0, color="#c4cad1", linewidth=1)
    ax.plot(mean[order], (outcomes - mean)[order], ".", color=BLUE, markersize=5, alpha=0.6)
    ax.plot(mean[order], (upper - mean)[order], color=ORANGE, linewidth=1.2, label="95 % interval")
    ax.plot(mean[order], (lower - mean)[order], color=ORANGE, linewidth=1.2)
    legend(ax, loc="best")
    return tidy(ax, "predicted", "observed - predicted", grid="both")


def observed_against_predicted(prediction: Predictive, y: Numeric, ax: Axes | None = None) -> Axes:
    """Outcomes against predicted means with 95 % intervals; a perfect prediction lies on the line."""
    ax = ax or new_axes(4.4, 4.0)
    mean, outcomes = np.asarray(prediction.mean), np.asarray(y, dtype=float)
    lower, upper = (np.asarray(end) for end in prediction.interval(0.95))
    shown = some(len(mean), 300)
    ax.vlines(outcomes[shown], lower[shown], upper[shown], color=SKY, linewidth=1, alpha=0.45)
    ax.plot(outcomes[shown], mean[shown], ".", color=BLUE, markersize=5, alpha=0.8)
    low, high = min(outcomes.min(), mean.min()), max(outcomes.max(), mean.max())
    ax.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle="--")
    return tidy(ax, "observed", "predicted, with 95 % interval", grid="both")
