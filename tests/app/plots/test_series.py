"""Pictures of hidden states and of forecasts: what is drawn is what was given."""

import numpy as np
import pytest

from credo.core.arrays import put
from credo.core.predictive import Normal
from credo.errors import DataError
from credo.plots import forecast, states

X = np.asarray([1.0, 2.0, 4.0, 3.0])
PROBS = np.asarray([[1.0, 0.0], [0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])


def shades(ax):
    """The filled steps behind a series."""
    (background,) = (other for other in ax.figure.axes if other is not ax)
    return [patch.get_data() for patch in background.patches]


def test_states_fill_the_height_in_proportion_to_their_probabilities():
    ax = states(PROBS, X, [2000, 2001, 2002, 2003], ["calm", "wild"])
    low, high = shades(ax)
    np.testing.assert_allclose(low.values, PROBS[:, 0])
    np.testing.assert_allclose(np.asarray(high.values) - np.asarray(high.baseline), PROBS[:, 1])
    np.testing.assert_allclose(low.edges, [1999.5, 2000.5, 2001.5, 2002.5, 2003.5])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), X)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["calm", "wild"]


def test_a_path_is_drawn_as_certain_states():
    low, high = shades(states([0, 0, 1, 1], np.stack([X, -X], axis=1)))
    np.testing.assert_array_equal(low.values, [1, 1, 0, 0])
    np.testing.assert_array_equal(np.asarray(high.values) - np.asarray(high.baseline), [0, 0, 1, 1])


def test_a_forecast_goes_on_in_steps_of_the_last_one():
    told = Normal(put([5.0, 6.0]), put([0.5, 0.5]), put([0.5, 1.5]))
    ax = forecast(told, [1.0, np.nan, 3.0], [10, 12, 14])
    line = next(line for line in ax.lines if line.get_label() == "forecast")
    np.testing.assert_allclose(line.get_xdata(), [16, 18])
    np.testing.assert_allclose(line.get_ydata(), [5, 6])
    wide = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert wide.max() == pytest.approx(6 + 1.959964 * np.sqrt(2), rel=1e-6)


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: states(PROBS[:3], X), "a row for each of 4"),
        (lambda: states(PROBS, X, names=["one"]), "one for each of 2 states"),
        (lambda: states(PROBS, X, at=[1, 2]), "one time for each of 4 rows"),
        (lambda: forecast(Normal(put([0.0]), put([1.0]), put([1.0])), PROBS), "one column at a time"),
    ],
)
def test_what_does_not_fit_together_is_refused(draw, said):
    with pytest.raises(DataError, match=said):
        draw()
