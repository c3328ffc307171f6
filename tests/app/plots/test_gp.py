import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import credo
from credo.app.fit.families import GaussianProcesses
from credo.app.fit.tables import fit_table
from credo.app.report.page import html
from credo.app.report.tables import page as report
from credo.app.table.read import Table
from credo.errors import DataError
from credo.kernels import RBF
from credo.kernels.dotproduct import Linear
from credo.models.gp import GP
from credo.plots import components


def test_components_are_drawn_one_panel_each():
    x = np.linspace(0, 5, 30)[:, None]
    gp = GP(RBF(1.0) + Linear(1.0, center=2.5), noise=0.01).condition(x, x[:, 0] + np.sin(x[:, 0]))
    figure = components(gp, target="z")
    assert isinstance(figure, Figure) and len(figure.axes) == 3
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[0].startswith("z:") and any("linear trend" in t for t in titles[1:])
    assert figure.axes[0].get_xlim()[1] > 5.5  # the forecast
    with pytest.raises(DataError, match="takes a GP or a Search"):
        components(credo.Linear())


@pytest.mark.slow
def test_a_series_is_taken_apart_in_the_report(only, tmp_path):
    years = np.arange(48) / 12
    noise = np.random.default_rng(3).normal(0, 0.2, 48)
    month = pd.date_range("2010-01-01", periods=48, freq="MS")
    frame = pd.DataFrame({"month": month, "y": 5 + 2 * years + np.sin(2 * np.pi * years) + noise})
    searching = only("found structure", families=(GaussianProcesses(seconds=4.0),))
    result = fit_table(Table(frame, "s"), "y", families=searching)
    assert result.model.name == "found structure" and isinstance(result.model.belief, GP)
    page = html(report(result))
    assert 'id="structure"' in page and "Noise with a standard deviation" in page
    again = credo.load(credo.save(result.model, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(frame).mean, result.model.predict(frame).mean)
