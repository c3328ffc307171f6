"""`credo network --learn`: the files, the report, and what is said of a table with gaps."""

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import credo
from credo.app.cli.network import register
from credo.app.report.networks import learn_network, network_page
from credo.app.report.page import as_json, html
from credo.app.table.read import as_table


def rain(n: int) -> pd.DataFrame:
    net = credo.Network(
        {
            "cloudy": {"yes": 0.5, "no": 0.5},
            "rain": ("cloudy", {"yes": {"heavy": 0.8, "dry": 0.2}, "no": {"heavy": 0.1, "dry": 0.9}}),
        }
    )
    frame = pd.DataFrame(net.sample(n, seed=0))
    frame["bad"] = "x"
    frame["name"] = [f"row {i}" for i in range(n)]
    return frame


def test_a_network_is_learned_from_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    run = lambda *words: CliRunner().invoke(app, ["network", *words])  # noqa: E731
    frame = rain(300)
    frame.loc[5, "rain"] = None
    frame.to_csv("rain.csv", index=False)
    done = run("--learn", "rain.csv")
    assert done.exit_code == 0, done.output
    assert "2 variables, 1 arrows, 300 rows" in done.output and "1.00" in done.output
    for note in ("name has 300 different entries", "bad has the same value", "1 row with missing cells"):
        assert note in done.output
    net = credo.load("credo-rain/network.credo")
    assert net.distance(credo.Network.read("credo-rain/network.bif")) == 0
    assert sum(float(law.concentration.sum()) for law in net.laws) == pytest.approx(2 * 301, rel=1e-6)
    page = (tmp_path / "credo-rain" / "report.html").read_text()
    assert "What depends on what" in page and "data:image/svg" in page and "credo network network.credo" in page
    assert "exists already" in run("--learn", "rain.csv").output
    for words, message in [
        (["--learn", "rain.csv", "--ask", "rain"], "takes a table and nothing else"),
        (["--score", "bic"], "name a network to ask"),
        (["--learn", "rain.csv", "--force", "--ignore", "snow"], "no column 'snow'"),
        (["--learn", "rain.csv", "--force", "--ignore", "rain"], "at least two columns"),
    ]:
        refused = run(*words)
        assert refused.exit_code == 2 and message in refused.output, refused.output


def test_numbers_are_part_of_the_report():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    table = as_table(pd.DataFrame({"x": x, "y": 2 * x + rng.normal(size=200), "z<b>": rng.normal(size=200)}))
    learned = learn_network(table)
    assert {frozenset(e) for e in learned.network.edges} == {frozenset("xy")}
    page = network_page(learned, "numbers", "credo network")
    assert "standard deviation" in str(as_json(page)) and "z<b>" not in html(page)
