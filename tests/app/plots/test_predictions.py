import base64
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

import credo
from credo import plots
from credo.app.plots.style import data_uri
from credo.core.predictive import Categorical, Normal
from credo.errors import DataError
from credo.evaluate.comparison import compare
from credo.models.gp import evidence_surface
from credo.models.linear import ARD, Linear


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    return x, x @ [2.0, 0.0, -1.0] + rng.normal(0, 0.5, 50)


@pytest.fixture(scope="module")
def belief(data):
    return credo.fit(Linear(), *data)


def test_bands_draw_the_mean_and_both_bands():
    x = np.asarray([2.0, 0.0, 1.0])
    prediction = Normal([1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [0.25, 0.25, 0.25])
    ax = plots.bands(prediction, x, y=[1.0, 2.0, 3.0])
    assert isinstance(ax, Axes)
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0, 2], [1, 3], [2, 1]])
    outer, inner = (c.get_paths()[0].vertices[:, 1] for c in ax.collections)
    assert outer.max() == pytest.approx(3 + 1.959964 * np.sqrt(1.25), rel=1e-6)
    assert inner.max() == pytest.approx(3 + 1.959964 * 0.5, rel=1e-6)
    with pytest.raises(DataError, match="one entry per prediction"):
        plots.bands(prediction, x[:2])


def test_plots_draw_into_given_axes_and_leave_pyplot_alone(belief, data):
    before = "matplotlib.pyplot" in sys.modules
    prediction = belief.predict(data[0])
    for draw in (
        lambda ax: plots.bands(prediction, np.arange(50), ax=ax),
        lambda ax: plots.calibration(prediction, data[1], ax=ax),
        lambda ax: plots.residuals(prediction, data[1], ax=ax),
        lambda ax: plots.observed_against_predicted(prediction, data[1], ax=ax),
        lambda ax: plots.coefficients(belief, ax=ax),
    ):
        ax = plots.new_axes()
        assert draw(ax) is ax
        assert draw(None).figure is not ax.figure
    assert before or "matplotlib.pyplot" not in sys.modules


def test_a_comparison_ranks_the_beliefs(data):
    learned = {name: credo.learn(b, *data) for name, b in {"ridge": Linear(), "ard": Linear(prior=ARD())}.items()}
    comparison = compare(learned, *data)
    ax = plots.comparison(comparison)
    assert [t.get_text() for t in ax.get_yticklabels()][-1] == comparison.best
    lengths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(lengths[::-1], [-row.log_bayes_factor for row in comparison.rows], atol=1e-12)


def test_densities_of_rows_left_out_are_bars_behind_the_best():
    ax = plots.densities({"smooth": -5.4, "line": -5.5})
    assert [t.get_text() for t in ax.get_yticklabels()] == ["line", "smooth"]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], [0.1, 0.0], atol=1e-12)
    assert [t.get_text() for t in ax.texts] == ["0.100 behind", "best"]


def test_coefficients_are_the_largest_first_without_the_intercept(belief):
    ax = plots.coefficients(belief)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["x1", "x2", "x0"]
    middles = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
    want = np.asarray(belief.coefficients().mean)
    np.testing.assert_allclose(middles, want[[2, 3, 1]])


def test_the_evidence_has_its_top_where_learning_ends(data):
    learned = credo.learn(Linear(), *data)
    surface = evidence_surface(Linear(), *data, "prior.precision", "noise", width=2.0, points=9)
    ax = plots.evidence(surface)
    (cross,) = (line.get_xydata()[0] for line in ax.lines)
    np.testing.assert_allclose(cross, [float(learned.prior.precision), float(learned.noise)], rtol=1e-2)
    assert (ax.get_xlabel(), ax.get_xscale()) == ("prior.precision", "log")


def test_calibration_counts_what_the_intervals_hold():
    rng = np.random.default_rng(0)
    y = rng.normal(size=500)
    ax = plots.calibration(Normal(np.zeros(500), np.ones(500), np.zeros(500)), y)
    level, observed = ax.lines[1].get_xydata().T
    inside = np.abs(y) <= 1.959964
    assert observed[np.argmin(np.abs(level - 0.95))] == pytest.approx(inside.mean(), abs=0.002)


def test_residuals_need_an_outcome_each(belief, data):
    with pytest.raises(DataError, match="one value per prediction"):
        plots.residuals(belief.predict(data[0]), data[1][:3])


DOLLARS = "$a_$b"


def test_names_that_look_like_mathematics_are_drawn_as_they_are(data):
    """Matplotlib takes text between dollars for formulas, and fails on those that are none."""
    x = np.column_stack([data[0][:, 0], data[1]])
    prediction = Normal(data[1], np.ones(50), np.ones(50))
    belief = Linear().condition(pd.DataFrame({DOLLARS: data[0][:, 0], "$": data[1]}), data[1])
    classes = Categorical(np.tile([0.2, 0.3, 0.5], (50, 1)), np.ones(50))
    beliefs = {DOLLARS: credo.learn(Linear(), *data), "$": credo.learn(Linear(prior=ARD()), *data)}
    names = (DOLLARS, "$b$", "$")
    for drawn in (
        plots.coefficients(belief),
        plots.intervals([1.0], [0.0], [2.0], [DOLLARS], label=DOLLARS),
        plots.comparison(compare(beliefs, *data)),
        plots.probabilities(classes, np.arange(50) % 3, names),
        plots.reliability_diagram(classes, np.arange(50) % 3, labels=(DOLLARS, DOLLARS)),
        plots.states(np.arange(50) % 2, data[1], names=(DOLLARS, "$")),
        plots.parts({DOLLARS: prediction, "$": prediction}),
        plots.decision_regions(credo.Logistic().condition(x, np.where(data[1] > 0, DOLLARS, "$b$")), x, grid=5),
    ):
        assert DOLLARS in base64.b64decode(data_uri(drawn).partition(",")[2]).decode()
