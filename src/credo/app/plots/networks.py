"""Pictures of Bayesian networks: variables with their probabilities, arrows, what was observed and what it opened."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path

from credo.app.plots.style import BLUE, GREY, INK, LINE, ORANGE, RED, new_axes, title
from credo.models.network import Network
from credo.models.network.graph import ancestors_of

MOST_BOXES = 24
"""So many variables are drawn with the probabilities of their states; of more, only the names fit."""
MOST_STATES = 5
WIDE, HIGH, LINE_HIGH = 1.0, 0.42, 0.19


def network(
    network: Network, *, ax: Axes | None = None, between: tuple[str, str] | None = None, probabilities: bool = True
) -> Axes:
    """The variables and arrows of a network; observed variables are orange, grey bars are before what was observed.

    Args:
        network: what is drawn; the bars are given what was observed.
        ax: where; a new figure if left out.
        between: two variables: the trails between them that are open given what was observed are drawn in red.
        probabilities: whether the probabilities of states are drawn, of a network with few variables.
    """
    places = layout(network)
    x, y = np.array(list(places.values())).T
    boxes = probabilities and len(network.names) <= MOST_BOXES
    wide = max(4.0, 1.45 * (np.ptp(x) + 1)) if boxes else 11.0
    high = max(2.2, 1.25 * (np.ptp(y) + 1)) if boxes else max(4.0, 0.8 * (np.ptp(y) + 1))
    ax = ax or new_axes(wide, high)
    observed = network.observed.names
    hot = _open_arrows(network, between)
    tall = _heights(network, boxes)
    for parent, child in network.edges:
        hidden = _behind(places, parent, child)
        _arrow(ax, places[parent], places[child], tall[parent], tall[child], (parent, child) in hot, hidden)
    for a, b in _explaining_away(network) if boxes else ():
        bent = FancyArrowPatch(
            places[a], places[b], arrowstyle="-", connectionstyle="arc3,rad=0.35", color=ORANGE, linestyle=(0, (2, 2)),
            linewidth=1.3, shrinkA=12, shrinkB=12, zorder=1,
        )  # fmt: skip
        ax.add_patch(bent)
    before = network.unconditioned().marginals() if boxes else {}
    now = network.marginals() if boxes else {}
    for name, place in places.items():
        _box(ax, name, place, tall[name], name in observed)
        if boxes:
            _bars(ax, place, tall[name], now[name], before[name] if observed else None)
    ax.set(xlim=(x.min() - 0.65, x.max() + 0.65), ylim=(y.min() - 0.55, y.max() + 0.55), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    title(ax, _caption(network, between, boxes))
    return ax


def layout(network: Network) -> dict[str, tuple[float, float]]:
    """Places with parents above children, in layers, variables near those that they are connected with."""
    drawn = nx.DiGraph()
    drawn.add_nodes_from(network.names)
    drawn.add_edges_from(network.edges)
    layers = [list(layer) for layer in nx.topological_generations(drawn)]
    at = {name: i - (len(layer) - 1) / 2 for layer in layers for i, name in enumerate(layer)}
    for sweep in range(8):  # each at the mean place of its neighbours in the layers that were just ordered
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            near = drawn.predecessors if sweep % 2 == 0 else drawn.successors
            pulled = {name: float(np.mean([at[n] for n in near(name)] or [at[name]])) for name in layer}
            layer.sort(key=pulled.__getitem__)
            _apart(layer, pulled, at)
    return {name: (at[name], -1.15 * depth) for depth, layer in enumerate(layers) for name in layer}


def _apart(layer: Sequence[str], pulled: Mapping[str, float], at: dict[str, float]) -> None:
    """Places as near to those wanted as a distance of 1.2 between neighbours allows, with the same mean."""
    place = -np.inf
    for name in layer:
        at[name] = place = max(place + 1.2, pulled[name])
    off = float(np.mean([at[name] - pulled[name] for name in layer]))
    for name in layer:
        at[name] -= off


def _heights(network: Network, boxes: bool) -> dict[str, float]:
    lines = {name: min(len(network.states.get(name, ("mean",))), MOST_STATES) if boxes else 0 for name in network.names}
    return {name: (HIGH + LINE_HIGH * (n - 1) * 0.55 if n else 0.3) for name, n in lines.items()}


def _box(ax: Axes, name: str, place: tuple[float, float], tall: float, seen: bool) -> None:
    ax.add_patch(
        FancyBboxPatch(
            (place[0] - WIDE / 2, place[1] - tall / 2), WIDE, tall, boxstyle="round,pad=0.02,rounding_size=0.06",
            facecolor="#fdf1d8" if seen else "white", edgecolor=ORANGE if seen else GREY, linewidth=1.0 + 0.6 * seen,
            zorder=2,
        )
    )  # fmt: skip
    shown = name if len(name) <= 15 else name[:14] + "…"
    small = 8.5 if len(shown) <= 11 else 7.0
    below = tall / 2 - 0.09 if tall > 0.3 else 0.0
    ax.text(
        place[0],
        place[1] + below,
        shown,
        ha="center",
        va="center",
        fontsize=small,
        color=INK,
        parse_math=False,
        zorder=4,
    )


def _bars(
    ax: Axes, place: tuple[float, float], tall: float, law: Mapping[str, float], before: Mapping[str, float] | None
) -> None:
    left, top = place[0] - WIDE / 2 + 0.04, place[1] + tall / 2 - 0.2
    if set(law) == {"mean", "std"}:
        said = f"{law['mean']:.3g} ± {law['std']:.2g}"
        ax.text(place[0], top - 0.02, said, ha="center", va="center", fontsize=7.5, color=BLUE, zorder=4)
        return
    items = (
        sorted(law.items(), key=lambda item: -item[1])[:MOST_STATES] if len(law) > MOST_STATES else list(law.items())
    )
    step = (tall - 0.22) / len(items)
    start, room = left + 0.36, WIDE - 0.72
    for i, (state, p) in enumerate(items):
        y = top - step * (i + 0.45)
        ax.text(left, y, state[:7], va="center", fontsize=6.2, color=INK, parse_math=False, zorder=4)
        if before is not None:
            ax.add_patch(Rectangle((start, y - step * 0.36), room * before[state], step * 0.72, color=LINE, zorder=3))
        ax.add_patch(Rectangle((start, y - step * 0.2), room * p, step * 0.4, color=BLUE, zorder=3))
        ax.text(
            place[0] + WIDE / 2 - 0.02, y, f"{100 * p:.3g}%", ha="right", va="center", fontsize=6.2, color=INK, zorder=4
        )


def _arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], tall: float, tall_end: float, hot: bool, bent: bool
) -> None:
    first, last = (start[0], start[1] - tall / 2 - 0.02), (end[0], end[1] + tall_end / 2 + 0.03)
    around = 0.76 * WIDE if bent else 0.0  # past the box that would hide it
    near = [(first[0] + around, first[1] + 0.2 * (last[1] - first[1])), (last[0] + around, last[1] + 0.3)]
    way = Path([first, *near, last], [Path.MOVETO, *[Path.CURVE4] * 3]) if bent else Path([first, last])
    color, width = (RED, 2.0) if hot else (GREY, 0.9)
    ax.add_patch(
        FancyArrowPatch(
            path=way, arrowstyle="-|>", mutation_scale=9, color=color, linewidth=width, zorder=1.5 if hot else 1
        )
    )


def _behind(places: Mapping[str, tuple[float, float]], parent: str, child: str) -> bool:
    """Whether a straight arrow would run behind the box of another variable."""
    (x0, y0), (x1, y1) = places[parent], places[child]
    between = [(x, y) for name, (x, y) in places.items() if name not in (parent, child) and y1 < y < y0]
    return any(abs(x0 + (x1 - x0) * (y - y0) / (y1 - y0) - x) < 0.4 * WIDE for x, y in between)


def _open_arrows(network: Network, between: tuple[str, str] | None) -> set[tuple[str, str]]:
    """The arrows on trails that are open."""
    if between is None:
        return set()
    found = network.d_separated(*between)
    return {
        (a, b) if along else (b, a)
        for trail in (() if found else found.trails)
        for a, b, along in zip(trail.names, trail.names[1:], trail.forward, strict=False)
    }


def _explaining_away(network: Network) -> list[tuple[str, str]]:
    """Parents of one child that had nothing to do with each other before something at or below it was observed."""
    observed = network.observed.names
    above, before = ancestors_of(network.parents, observed), network.unconditioned()
    pairs = {pair for child in above for pair in combinations(network.parents[child], 2) if not observed & set(pair)}
    return sorted(pair for pair in pairs if before.d_separated(*pair))


def _caption(network: Network, between: tuple[str, str] | None, boxes: bool) -> str:
    lines = [f"{len(network.names)} variables, {len(network.edges)} arrows"]
    if network.observed.names:
        away = ", dotted: explaining away" if boxes and _explaining_away(network) else ""
        lines.append(f"orange: observed{', grey: before' * boxes}{away}")
    if between is not None:
        apart = bool(network.d_separated(*between))
        lines.append(f"{between[0]} and {between[1]}: {'no trail is open' if apart else 'open trails in red'}")
    return "\n".join(lines)
