"""Pictures of chains show every chain, and divergences where there are some."""

import numpy as np
import pytest

from credo.core.errors import DataError
from credo.infer.mcmc import Draws
from credo.infer.target import ParameterSpace
from credo.plots import chains, pairs


@pytest.fixture
def draws(rng):
    space = ParameterSpace.of({"mean": 0.0, "scale": np.ones(2)}, {"scale": "positive"})
    divergent = np.zeros((3, 50), dtype=bool)
    divergent[1, 4] = True
    info = (np.ones((3, 50)), divergent, rng.normal(size=(3, 50)), np.zeros((3, 50), dtype=bool))
    return Draws.of(space, rng.normal(size=(3, 50, 3)), info)


def test_a_row_for_each_number_and_a_line_for_each_chain(draws):
    axes = chains(draws).axes
    assert len(axes) == 6
    assert [len(ax.lines) for ax in axes[::2]] == [3, 3, 3]
    assert [len(ax.patches) for ax in axes[1::2]] == [3, 3, 3]
    assert [ax.get_ylabel() for ax in axes[::2]] == ["mean", "scale[0]", "scale[1]"]
    counts = np.sum([patch.get_data().values for patch in axes[1].patches], axis=0)
    assert counts.sum() == 150


def test_pairs_show_divergences(draws):
    figure = pairs(draws, ["mean", "scale[1]"])
    below = figure.axes[2]
    assert len(below.lines[1].get_xdata()) == 1
    natural = np.exp(np.asarray(draws.chains)[1, 4, 2])
    assert below.lines[1].get_ydata()[0] == pytest.approx(natural)


def test_refusals(draws):
    with pytest.raises(DataError, match=r"no number 'sigma' among the draws; there are mean, scale\[0\]"):
        chains(draws, ["sigma"])
    with pytest.raises(DataError, match="found int"):
        pairs(3)
