"""The picture of a network."""

import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from credo import Network, plots
from credo.app.plots.networks import layout
from credo.app.plots.style import ORANGE, RED
from credo.models.network import LinearGaussian

FORK = {
    "a": [0.5, 0.5],
    "b": [0.2, 0.8],
    "c": (["a", "b"], [[[0.9, 0.1], [0.5, 0.5]], [[0.4, 0.6], [0.1, 0.9]]]),
    "x": LinearGaussian(["c"], [0.0, 1.0]),
}


def test_what_was_observed_and_what_it_opened_is_drawn():
    ax = Network(FORK).condition({"c": "1"}).plot(between=("a", "b"))
    boxes = [p for p in ax.patches if isinstance(p, FancyBboxPatch)]
    arrows = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
    assert len(boxes) == 4 and sum(p.get_linewidth() > 1 for p in boxes) == 1
    red = [p for p in arrows if p.get_edgecolor()[:3] == tuple(int(RED[i : i + 2], 16) / 255 for i in (1, 3, 5))]
    assert len(arrows) == 4 and len(red) == 2  # with the dotted line of explaining away
    assert "dotted: explaining away" in ax.get_title("left") and "open trails in red" in ax.get_title("left")
    bars = [p for p in ax.patches if type(p) is Rectangle]
    assert len(bars) == 12 and ORANGE  # six states, before and after
    before = Network(FORK).plot(between=("a", "b"))
    assert "no trail is open" in before.get_title("left")
    assert any("±" in text.get_text() for text in before.texts)


def test_many_variables_are_drawn_by_name_in_layers():
    net = Network({f"v{i}": ([f"v{i // 2}"] if i else [], [[0.5, 0.5]] * 2 if i else [0.5, 0.5]) for i in range(30)})
    places = layout(net)
    assert all(places[child][1] < places[parent][1] for parent, child in net.edges)
    same = [p for p in places.values() if p[1] == min(q[1] for q in places.values())]
    assert np.diff(sorted(x for x, _ in same)).min() > 1.1
    assert not [p for p in plots.network(net).patches if type(p) is Rectangle]
