"""The picture of loadings."""

import numpy as np
import pytest

import credo
from credo import plots
from credo.errors import DataError
from credo.models.factor import Loadings

W = np.array([[1.0, 0.2], [0.5, -0.4], [-0.3, 0.9]])


def test_loadings_are_drawn_with_their_intervals():
    found = Loadings(W, np.full((3, 2), 0.1), np.array([0.5, 0.2]), ("a", "b", "c"))
    ax = plots.loadings(found, level=0.9)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["c", "b", "a"]
    for k, container in enumerate(ax.containers):
        points, _, (bars,) = container
        np.testing.assert_allclose(points.get_xdata(), W[:, k])
        ends = np.array([segment[:, 0] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, W[:, k, None] + 0.1 * 1.6449 * np.array([-1, 1]), atol=1e-4)
    assert "90%" in ax.get_xlabel() and "50%" in ax.get_legend().get_texts()[0].get_text()
    bare = credo.FactorAnalysis(mean=np.zeros(3), w=W, noise=np.ones(3)).loadings("varimax")
    assert plots.loadings(bare).get_xlabel() == "loading"


def test_too_many_factors_are_refused():
    with pytest.raises(DataError, match="1 to 6 factors, found 0"):
        plots.loadings(Loadings(np.zeros((3, 0)), None, np.zeros(0), ("a", "b", "c")))
