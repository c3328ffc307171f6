"""Pictures of active learning: what asking well saves."""

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, ScalarFormatter

from credo.app.plots import BLUE, GREEN, GREY, INK, legend, new_axes, tidy
from credo.decide.active_learning import ActiveCurves


def plot_learning_curves(curves: ActiveCurves, ax: Axes | None = None) -> Axes:
    """Medians over seeds with their quartiles against the number of outcomes asked for.

    A line marks where the active way is as good as the other is in the end.
    """
    ax = ax or new_axes()
    colors = dict(zip(curves.scores, (BLUE, GREY, GREEN), strict=False))
    for name, color in colors.items():
        lower, median, upper = curves.quartiles(name)
        ax.fill_between(curves.labels, lower, upper, color=color, alpha=0.25, linewidth=0)
        ax.plot(curves.labels, median, color=color, linewidth=1.6, label=name)
    needed, other = curves.needed(), next(name for name in curves.scores if name != "active")
    if needed is not None:
        goal = float(curves.quartiles(other)[1, -1])
        ax.plot([needed, curves.labels[-1]], [goal, goal], color=INK, linewidth=0.9, linestyle=":")
        said = f"{needed} instead of {curves.labels[-1]}"
        ax.annotate(said, (needed, goal), (4, -12), textcoords="offset points", fontsize=8.5, color=INK)
    if all(values.min() > 0 for values in curves.scores.values()):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(ScalarFormatter())
        ax.yaxis.set_minor_formatter(NullFormatter())
    legend(ax, loc="best")
    return tidy(ax, "outcomes asked for", curves.name.replace("_", " "))
