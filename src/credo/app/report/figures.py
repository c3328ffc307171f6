"""The report's pictures, each as a picture that fits into the page: SVG in a data URI."""

import base64
import io
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from credo.app import plots
from credo.core.predictive import Predictive

if TYPE_CHECKING:
    from credo.app.report.effects import Curve, Effect
    from credo.app.workflow import Result
    from credo.models.gp import GP


def data_uri(figure: Any) -> str:
    """The figure as an SVG that a page can hold; the same figure gives the same text."""
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "credo", "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    return "data:image/svg+xml;base64," + base64.b64encode(out.getvalue()).decode()


def hero(result: "Result", prediction: Predictive) -> tuple[str, str]:
    """The predictions with their doubt, and a caption: along time, or in the order of the predicted mean."""
    if result.prepared.time is not None:
        return _series(result, result.prepared.time)
    ax = plots.new_axes(9.6, 3.9)
    order = np.argsort(np.asarray(prediction.mean))
    shown = order[plots.some(len(order), 250)]
    plots.bands(np.arange(len(shown)) + 1, prediction[shown], result.y_test[shown], ax=ax)
    if result.kind == "count":
        # A few rows far out would hide the rest, and no count is negative.
        high = np.quantile(np.asarray(prediction.interval(0.95).upper), 0.98)
        ax.set_ylim(bottom=-0.02 * high, top=1.1 * max(float(high), float(result.y_test.max())))
    plots.tidy(ax, "test rows, in the order of the prediction", result.model.target)
    part = f"{len(shown)} of the {len(order)} test rows" if len(shown) < len(order) else f"All {len(order)} test rows"
    said = f"{part}; the model had not seen them. The dots should fall into the light band 95 % of the time."
    return data_uri(ax.figure), said


def _series(result: "Result", time: np.ndarray) -> tuple[str, str]:
    """The whole series, and below it the held-out end with as much before it."""
    column = next(c for c in result.prepared.schema.columns if c.name == result.prepared.schema.time)
    at = column.to_dates(time) if column.kind == "date" else time
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    order, held_out = np.argsort(time, kind="stable"), len(result.test)
    for ax, rows in zip(figure.subplots(2, 1), (order, order[-2 * held_out :]), strict=True):
        rows = rows[plots.some(len(rows), 2000)]
        everything = result.predict(rows)
        plots.bands(at[rows], everything, result.prepared.y[rows], ax=ax)
        plots.tidy(ax, "", result.model.target)
        ax.axvline(at[result.test[0]], color=plots.RED, linewidth=1.2, linestyle="--")
        ax.annotate(
            "held out from here",
            (at[result.test[0]], 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(5, -10),
            textcoords="offset points",
            fontsize=8.5,
            color=plots.RED,
        )
    figure.axes[1].get_legend().remove()  # type: ignore[union-attr]
    plots.tidy(figure.axes[1], column.name, result.model.target)
    return data_uri(
        figure
    ), "Right of the dashed line are rows that the model had not seen; below, that part closer up."


def pair(result: "Result", prediction: Predictive) -> str:
    """Observed against predicted, and the residuals."""
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.observed_against_predicted(prediction, result.y_test, ax=left)
    plots.residuals(prediction, result.y_test, ax=right)
    return data_uri(figure)


def calibration(result: "Result", prediction: Predictive) -> str:
    """Coverage of the intervals."""
    return data_uri(plots.calibration(prediction, result.y_test).figure)


def evidence(result: "Result") -> str:
    """The comparison of the candidates."""
    return data_uri(plots.evidence_bars(result.comparison, plots.new_axes(9.6, 0.9 + 0.36 * len(result.fitted))).figure)


def coefficients(result: "Result") -> str:
    """The weights of standardized inputs: the effect of one standard deviation more."""
    from credo.models.linear import Linear

    assert isinstance(result.model.belief, Linear)
    shown = min(len(result.model.belief.coefficient_names()) - 1, plots.MOST_BARS)
    ax = plots.coefficients(result.model.belief, plots.new_axes(9.6, 0.9 + 0.3 * shown))
    ax.set_xlabel(f"change of {result.model.target} for one standard deviation more (95 % interval)", fontsize=9)
    return data_uri(ax.figure)


def structure(result: "Result", belief: "GP") -> str:
    """The parts of a Gaussian process, with the fit and a forecast."""
    columns = {c.name: c for c in result.prepared.schema.columns}
    only = columns.get((belief.inputs or ("",))[0]) if result.prepared.x.shape[1] == 1 else None
    to_axis = only.to_dates if only is not None and only.kind == "date" else None
    from credo.app.gp_plots import plot_components

    figure = plot_components(belief, target=result.model.target, units=units(result), to_axis=to_axis)
    return data_uri(figure)


def units(result: "Result") -> dict[str, str]:
    """Dates are in years."""
    return {c.name: "years" for c in result.prepared.schema.columns if c.kind == "date"}


def effects(ranked: "list[Effect]", what: str) -> str:
    """How far each column moves what is predicted, with doubt."""
    shown = ranked[:18][::-1]
    names = [f"{e.column}: {e.start} → {e.end}" + (f"  [{e.outcome}]" if e.outcome else "") for e in shown]
    mean, lower, upper = (np.asarray([getattr(e, field) for e in shown]) for field in ("mean", "lower", "upper"))
    ax = plots.new_axes(9.6, 0.9 + 0.3 * len(shown))
    return data_uri(plots.intervals(names, mean, lower, upper, ax, f"change of {what} (95 % interval)").figure)


def partial(curves: "list[Curve]", target: str, levels: tuple[str, ...] = ()) -> str:
    """The prediction along the most important columns, all on one scale; of several classes, one line for each."""
    across = min(3, len(curves))
    down = -(-len(curves) // across)
    figure = Figure(figsize=(9.6, 2.7 * down + 0.35 * (len(levels) > 2)), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for ax, curve in zip(grid, curves, strict=False):
        several = curve.mean.ndim == 2
        lines = [curve.mean, curve.lower, curve.upper] if several else [v[:, None] for v in curve[2:5]]
        for k, (mean, lower, upper) in enumerate(zip(*(np.asarray(v).T for v in lines), strict=True)):
            name = levels[k] if several else ""
            _curve(
                ax, curve, mean, lower, upper, plots.CLASSES[k % len(plots.CLASSES)] if several else plots.BLUE, name
            )
        if len(curve.seen):
            seen = curve.seen[plots.some(len(curve.seen), 200)]
            ax.plot(seen, np.full(len(seen), 0.0), "|", color=plots.INK, alpha=0.3, transform=ax.get_xaxis_transform())
            if curve.column.kind == "date":
                for label in ax.get_xticklabels():
                    label.set_rotation(30)
        else:
            turned = 30 if max(map(len, curve.at)) * len(curve.at) > 24 else 0
            places = np.arange(len(curve.at))
            ax.set_xticks(places, list(curve.at), rotation=turned, ha="right" if turned else "center")
        plots.tidy(ax, curve.column.name)
    for ax in grid[len(curves) :]:
        ax.set_visible(False)
    for row in range(down):
        grid[row * across].set_ylabel(target, fontsize=9, color=plots.INK)
    if len(levels) > 2:
        handles, names = grid[0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside upper center", ncols=6, frameon=False, fontsize=8.5, labelcolor=plots.INK
        )
    return data_uri(figure)


def _curve(
    ax: Axes, curve: "Curve", mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, ink: str, name: str
) -> None:
    if len(curve.seen):
        ax.fill_between(curve.at, lower, upper, color=ink, alpha=0.12 if name else 0.25, linewidth=0)
        ax.plot(curve.at, mean, color=ink, linewidth=1.6, label=name)
        return
    ends = np.maximum([mean - lower, upper - mean], 0.0)
    ax.errorbar(np.arange(len(curve.at)), mean, ends, fmt="o", color=ink, capsize=3, label=name)


def decision(costs: dict[str, float]) -> str:
    """The mean cost of acting in several ways."""
    ax = plots.new_axes(9.6, 0.8 + 0.4 * len(costs))
    names = list(costs)[::-1]
    values = [costs[name] for name in names]
    colors = [plots.BLUE if value == min(values) else plots.GREY for value in values]
    ax.barh(names, values, color=colors, height=0.6)
    for i, value in enumerate(values):
        ax.text(value, i, f" {value:.4g}", va="center", fontsize=8.5, color=plots.INK)
    ax.set_xlim(0, 1.15 * max(*values, 1e-12))
    return data_uri(plots.tidy(ax, "mean cost per test row", grid="x").figure)
