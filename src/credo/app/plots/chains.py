"""Pictures of Markov chains: traces, ranks and pairs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata

from credo.app.plots.style import BLUE, CLASSES, GREY, PAGE, RED, SKY, panels, some, tidy, title
from credo.core.errors import DataError
from credo.infer.mcmc import Draws

BINS = 20


def chains(draws: Any, names: Sequence[str] | None = None) -> Figure:
    """A row for each number: the chains over time, and how their ranks are spread; flat where they agree.

    Args:
        draws: what a sampler returned.
        names: of the numbers to show, as `draws.summary()` has them; None is the first eight.
    """
    chosen = _named(draws, names, 8)
    figure, axes = panels(2 * len(chosen), 1.5, across=2, width_ratios=[2, 1])
    for trace, bars, (name, walks) in zip(axes[::2], axes[1::2], chosen.items(), strict=True):
        c, n = walks.shape
        ranks = rankdata(walks).reshape(c, n)
        edges = np.linspace(0.5, c * n + 0.5, BINS + 1)
        shown = some(n, 600)
        for i, walk in enumerate(walks):
            colour = CLASSES[i % 5]
            trace.plot(shown, walk[shown], color=colour, linewidth=0.6, alpha=0.8)
            bars.stairs(np.histogram(ranks[i], edges)[0], edges, color=colour, linewidth=1.2)
        bars.axhline(n / BINS, color=GREY, linewidth=1.0, linestyle="--")
        bars.set_ylim(bottom=0)
        tidy(trace, "draw" if trace is axes[-2] else "", name)
        tidy(bars)
    title(axes[0], "draws")
    title(axes[1], "ranks among all chains")
    return figure


def pairs(draws: Any, names: Sequence[str] | None = None) -> Figure:
    """Every pair of numbers, with draws of divergent trajectories in red; the numbers alone on the diagonal.

    Args:
        draws: what a sampler returned.
        names: of the numbers to show, as `draws.summary()` has them; None is the first five.
    """
    chosen = _named(draws, names, 5)
    k, called = len(chosen), list(chosen)
    figure, axes = panels(k * k, 0.75 * PAGE / k, across=k, width=0.75 * PAGE)
    flat = [walks.ravel() for walks in chosen.values()]
    bad = np.asarray(draws.divergent).ravel()
    shown = some(len(bad))
    for place, ax in enumerate(axes):
        i, j = divmod(place, k)
        if j > i:
            ax.set_visible(False)
        elif i == j:
            ax.hist(flat[i], bins=40, color=SKY)
        else:
            ax.plot(flat[j][shown], flat[i][shown], ".", color=BLUE, markersize=2, alpha=0.4)
            ax.plot(flat[j][bad], flat[i][bad], ".", color=RED, markersize=4)
        tidy(ax, called[j] if i == k - 1 else "", called[i] if j == 0 and i else "", grid="")
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
