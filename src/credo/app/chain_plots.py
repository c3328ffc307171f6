"""Pictures of Markov chains: traces, ranks and pairs.

They follow the style of `plots.py`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata

from credo.app import plots
from credo.core.errors import DataError
from credo.infer.mcmc import Draws

COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.RED, plots.SKY, plots.INK)
BINS = 20


def plot_chains(draws: Any, names: Sequence[str] | None = None, width: float = 9.6) -> Figure:
    """A row for each number: the chains over time, and how their ranks are spread; flat where they agree.

    Args:
        draws: what a sampler returned.
        names: of the numbers to show, as `draws.summary()` has them; None is the first eight.
        width: of the figure, in inches.
    """
    chosen = _named(draws, names, 8)
    figure = Figure(figsize=(float(width), 1.5 * len(chosen) + 0.4), layout="constrained")
    axes = figure.subplots(len(chosen), 2, squeeze=False, width_ratios=[2, 1])
    for (trace, bars), (name, chains) in zip(axes, chosen.items(), strict=True):
        c, n = chains.shape
        ranks = rankdata(chains).reshape(c, n)
        edges = np.linspace(0.5, c * n + 0.5, BINS + 1)
        some = plots.some(n, 600)
        for i, chain in enumerate(chains):
            colour = COLOURS[i % len(COLOURS)]
            trace.plot(some, chain[some], color=colour, linewidth=0.6, alpha=0.8)
            bars.stairs(np.histogram(ranks[i], edges)[0], edges, color=colour, linewidth=1.2)
        bars.axhline(n / BINS, color=plots.GREY, linewidth=1.0, linestyle="--")
        bars.set_ylim(bottom=0)
        plots.tidy(trace, "", name)
        plots.tidy(bars, "", "")
    axes[0, 0].set_title("draws", fontsize=9.5, color=plots.INK, loc="left")
    axes[0, 1].set_title("ranks among all chains", fontsize=9.5, color=plots.INK, loc="left")
    axes[-1, 0].set_xlabel("draw", fontsize=9, color=plots.INK)
    return figure


def plot_pairs(draws: Any, names: Sequence[str] | None = None, width: float = 7.2) -> Figure:
    """Every pair of numbers, with draws of divergent trajectories in red; the numbers alone on the diagonal."""
    chosen = _named(draws, names, 5)
    k = len(chosen)
    figure = Figure(figsize=(float(width), float(width)), layout="constrained")
    axes = figure.subplots(k, k, squeeze=False)
    flat = [chains.ravel() for chains in chosen.values()]
    bad = np.asarray(draws.divergent).ravel()
    some = plots.some(len(bad))
    for i, row in enumerate(axes):
        for j, ax in enumerate(row):
            if j > i:
                ax.set_visible(False)
                continue
            if i == j:
                ax.hist(flat[i], bins=40, color=plots.SKY)
            else:
                ax.plot(flat[j][some], flat[i][some], ".", color=plots.BLUE, markersize=2, alpha=0.4)
                ax.plot(flat[j][bad], flat[i][bad], ".", color=plots.RED, markersize=4)
            plots.tidy(ax, list(chosen)[j] if i == k - 1 else "", list(chosen)[i] if j == 0 and i else "", grid="")
    return figure


def _named(draws: Any, names: Sequence[str] | None, most: int) -> dict[str, np.ndarray]:
    """The numbers in natural units by name, (chains, draws) each."""
    if not isinstance(draws, Draws):
        raise DataError(f"pictures of chains are made of draws, found {type(draws).__name__}; use NUTS()")
    c, n, _ = draws.chains.shape
    found: dict[str, np.ndarray] = {}
    for path, values in draws.space.by_path(draws.values).items():
        columns = np.asarray(values).reshape(c, n, -1)
        for i in range(columns.shape[2]):
            found[path or "θ" if columns.shape[2] == 1 else f"{path}[{i}]"] = columns[:, :, i]
    if names is None:
        return dict(list(found.items())[:most])
    unknown = [name for name in names if name not in found]
    if unknown:
        raise DataError(f"there is no number {unknown[0]!r} among the draws; there are {', '.join(found)}")
    return {name: found[name] for name in names}
