"""`credo fit` and `credo predict` on a series: calendar, backtest, report, further steps."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import credo
from credo.app.cli import app
from credo.app.forecast.calendar import find_calendar
from credo.app.forecast.model import SeriesModel
from credo.app.forecast.parts import Parts, candidate, first_candidates, further_candidates
from credo.app.forecast.run import SeriesData, fit_series, is_series, seasons_of
from credo.app.forecast.series import read_series
from credo.app.table.read import Table
from credo.errors import DataError
from credo.models.structural import Level, Regression, Seasonal
from credo.models.structural.learning import StructuralEvidence

STEPS, AHEAD = 60, 3


def quarterly(seed=0):
    """A level, a season of four quarters, and what a price does to it; the last rows have no sales."""
    rng = np.random.default_rng(seed)
    when = pd.date_range("2005-01-01", periods=STEPS + AHEAD, freq="QS")
    price = rng.normal(10, 1, STEPS + AHEAD).round(2)
    sales = 200 + 20 * np.tile([1, -1, 2, -2], 16)[: STEPS + AHEAD] - 8 * price + rng.normal(0, 2, STEPS + AHEAD)
    frame = pd.DataFrame({"quarter": when.strftime("%Y-%m-%d"), "price": price, "sales": sales.round(3)})
    truth = frame["sales"].to_numpy()[STEPS:].copy()
    frame.loc[STEPS:, "sales"] = np.nan
    return frame.drop(index=[7, 8]), truth


def call(*arguments, families=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], obj=families)


class Few(Parts):
    """A level with a season or none, and the same with inputs where there are any: enough to test with."""

    def __init__(self, *parts):
        self.parts = parts

    def first(self, data):
        return [candidate("level + season" if len(self.parts) > 1 else "level", "a level", *self.parts)]

    def more(self, best, data):
        if not data.series.columns:
            return []
        return [candidate(f"{best.name} + inputs", "and the price", *self.parts, Regression())]


SEASON, LEVEL = (Few(Level(), Seasonal(4)),), (Few(Level()),)


def as_table(frame, name="t.csv"):
    return Table(frame.astype(object).where(frame.notna(), "").astype(str).astype(object), name)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """One `credo fit` on a series with a column whose future is known; two variants are enough to test with."""
    folder = tmp_path_factory.mktemp("series")
    frame, truth = quarterly()
    csv, out = folder / "sales.csv", folder / "out"
    frame.to_csv(csv, index=False)
    options = ["--target", "sales", "--time", "quarter", "--horizon", AHEAD, "--out", out]
    run = call("fit", csv, *options, families=SEASON)
    assert run.exit_code == 0, run.output
    page = (out / "report.html").read_text(encoding="utf-8")
    return SimpleNamespace(run=run, page=page, model=out / "model.credo", truth=truth, frame=frame, folder=folder)


def test_the_report_says_what_was_done(fitted):
    assert "chosen by evidence: level + season + inputs; forecast of 3 steps" in fitted.run.stdout
    for said in (
        "2 of 60 steps (every quarter) have no outcome (such as 2006 Q4, 2007 Q1)",
        "as a season ago",
        "of price goes with",
        "The season of 4 quarters moves the outcome",
        "2020 Q3",
    ):
        assert said in fitted.page, said
    assert fitted.page.count("data:image/svg+xml") == 4 and "http" not in fitted.page.replace("http://www.w3.org", "")


def test_the_forecast_knows_the_season_and_the_price(fitted):
    model = credo.load(fitted.model)
    assert isinstance(model, SeriesModel) and model.belief.input_names == ("price",)
    prices = fitted.frame["price"].to_numpy()[-AHEAD:, None]
    future = model.predict(AHEAD, inputs=prices)
    z = (fitted.truth - np.asarray(future.mean)) / np.asarray(future.std)
    assert np.all(np.abs(z) < 4) and np.all(np.asarray(future.std) < 6)


def test_predict_takes_in_newer_outcomes_first(fitted):
    table = fitted.frame.iloc[-AHEAD:].astype(object)
    table.loc[table.index[0], "sales"] = 123.0
    newer, out = fitted.folder / "newer.csv", fitted.folder / "answers.csv"
    table.to_csv(newer, index=False)
    done = call("predict", fitted.model, newer, "--out", out, "--level", "0.9")
    assert done.exit_code == 0 and "note: 1 newer outcome was taken in" in done.stderr
    got = pd.read_csv(out)
    belief = credo.load(fitted.model).belief
    prices = table["price"].to_numpy(float)[:, None]
    want = belief.condition([123.0], inputs=prices[:1]).predict(2, inputs=prices[1:])
    np.testing.assert_allclose(got["mean"][1:], want.mean, rtol=1e-8)
    np.testing.assert_allclose(got["std"][1:] ** 2, want.variance, rtol=1e-7)
    np.testing.assert_allclose(got["upper"][1:], want.interval(0.9).upper, rtol=1e-8)


def test_predict_refuses_what_it_cannot_know(fitted):
    for arguments, message in (
        ((), "give a table with the times to forecast, or --horizon"),
        (("--horizon", 2), "needs the other columns of every step"),
    ):
        done = call("predict", fitted.model, *arguments)
        assert done.exit_code == 2 and message in done.stderr and done.stderr.count("\n") == 1
    late = fitted.folder / "late.csv"
    late.write_text("quarter,price\n2020-02-01,10\n")
    assert "does not fall on a step" in call("predict", fitted.model, late).stderr
    late.write_text("price\n10\n")
    assert "no column 'quarter'" in call("predict", fitted.model, late).stderr


def test_further_steps_without_a_table(tmp_path):
    rng = np.random.default_rng(2)
    csv, out = tmp_path / "visits.csv", tmp_path / "out"
    days = pd.date_range("2021-03-01", periods=30).strftime("%d.%m.%Y")
    pd.DataFrame({"day": days, "visits": 50 + rng.normal(size=30).cumsum()}).to_csv(csv, index=False)
    # Nothing but time and target: a series, without being asked for a horizon.
    done = call("fit", csv, "--target", "visits", "--time", "day", "--out", out, families=LEVEL)
    assert done.exit_code == 0 and "forecast of 7 steps" in done.stdout, done.output
    done = call("predict", out / "model.credo", "--horizon", 2)
    rows = done.stdout.splitlines()
    assert rows[0] == "day,mean,std,lower,upper,aleatoric,epistemic" and len(rows) == 3
    assert rows[1].startswith("31.03.2021,") and rows[2].startswith("01.04.2021,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--horizon", 4], "name the column with its time by --time"),
        (["--time", "quarter", "--horizon", 9], "goes beyond the 3 steps"),
        (["--time", "quarter", "--horizon", 0], "--horizon must be a whole number of at least 1"),
        (["--time", "quarter", "--horizon", 2, "--kind", "classes"], "--kind does not go with --horizon"),
        (["--time", "price", "--horizon", 2], "follow no regular step"),
    ],
)
def test_refusals(tmp_path, arguments, message):
    csv = tmp_path / "t.csv"
    frame = quarterly()[0]
    frame["price"] = np.random.default_rng(1).uniform(size=len(frame))
    frame.to_csv(csv, index=False)
    done = call("fit", csv, "--target", "sales", *arguments, "--out", tmp_path / "out")
    assert done.exit_code == 2 and message in done.stderr and not (tmp_path / "out").exists(), done.output


def test_several_rows_of_one_time_are_refused():
    frame = pd.DataFrame({"t": [1.0, 2, 2, 3, 4, 5, 6, 7, 8, 9], "y": np.arange(10.0)})
    with pytest.raises(DataError, match="a series has one row for each"):
        read_series(as_table(frame), "y", "t")


@pytest.mark.parametrize(
    ("when", "unit", "periods"),
    [
        (pd.date_range("2020-01-31", periods=20, freq="ME"), "month", [12]),
        (pd.date_range("2020-01-01", periods=20, freq="YS"), "year", []),
        (pd.date_range("2020-01-01", periods=20, freq="QS"), "quarter", [4]),
        (pd.date_range("2020-01-01", periods=20, freq="D").delete(5), "day", [7, 365.25]),
        (pd.date_range("2020-01-01", periods=20, freq="B"), "working day", [5, 365.25 * 5 / 7]),
        (pd.date_range("2020-01-01", periods=20, freq="W"), "week", [365.25 / 7]),
        (pd.date_range("2020-01-01", periods=20, freq="h"), "hour", [24, 168, 8766]),
        (pd.DatetimeIndex(["2020-01-31", "2020-02-28", "2020-03-30", "2020-04-30", "2020-06-29"]), "month", [12]),
        (np.arange(1900.0, 1920.0), "step", []),
    ],
)
def test_calendars(when, unit, periods):
    calendar, _ = find_calendar(when)
    assert calendar.unit == unit
    np.testing.assert_allclose([season.period for season in calendar.seasons()], periods)
    slots = calendar.slots(when)
    assert slots[0] == 0
    # There and back, and on into the future.
    np.testing.assert_array_equal(
        calendar.slots(calendar.times(np.append(slots, slots[-1] + 5))), [*slots, slots[-1] + 5]
    )


def test_no_regular_step_is_no_calendar(rng):
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.sort(rng.uniform(0, 1e6, 20)).round(), unit="s")
    with pytest.raises(DataError, match="no regular step"):
        find_calendar(when)


def test_columns_without_a_future_are_left_out():
    frame = quarterly()[0].iloc[: STEPS - 2]
    series = read_series(as_table(frame), "sales", "quarter")
    assert series.columns == () and any("'price' was left out: its future" in note for note in series.notes)


def test_the_models_that_are_tried():
    seasons = seasons_of(find_calendar(pd.date_range("2020-01-01", periods=900, freq="D"))[0], 900)
    first = first_candidates(seasons)
    assert [c.name for c in first] == ["level", "trend", "trend + season", "trend + 2 waves", "trend + 3 waves"]
    more = [c.name for c in further_candidates(first[2], seasons, inputs=True)]
    assert more == [
        "damped trend + season",
        "level + season",
        "trend + season + AR",
        "trend + season + inputs",
        "trend + season + year",
    ]


def test_a_table_with_more_columns_and_no_horizon_is_no_series():
    frame = quarterly()[0]
    assert not is_series(as_table(frame), "sales", "quarter", None, ())
    assert is_series(as_table(frame), "sales", "quarter", None, ("price",))
    assert not is_series(as_table(frame), "sales", None, None, ("price",))


def test_times_of_past_and_future_are_predicted_as_they_are_smoothed_and_forecast():
    rng = np.random.default_rng(0)
    after = credo.fit(Level(), rng.normal(size=30).cumsum(), using=StructuralEvidence())
    found = after.predict_at([29, 31, 3])
    past, future = after.smooth(), after.predict(2)
    np.testing.assert_allclose(found.mean, [past.mean[29, 0], future.mean[1], past.mean[3, 0]], rtol=1e-9)
    np.testing.assert_allclose(found.variance[1], future.variance[1], rtol=1e-9)
    np.testing.assert_allclose(found.epistemic[2], past.covariance[3, 0, 0], rtol=1e-9)


def test_a_horizon_beyond_all_knowledge_is_refused():
    days = pd.date_range("2021-03-01", periods=30)
    table = Table(pd.DataFrame({"day": days, "y": np.random.default_rng(0).normal(size=30)}), "t")
    with pytest.raises(DataError, match="horizon=20000 is more than 50 times as far as the 30 steps"):
        fit_series(table, "y", "day", horizon=20000)
    data = SeriesData(read_series(table, "y", "day"), "t", 0.2, 1000, None)
    assert data.horizon == 1000 and data.reach == data.everything - data.train


@pytest.fixture(scope="module")
def multiplied(tmp_path_factory):
    """A series whose season grows with its level, as a table."""
    rng = np.random.default_rng(5)
    t = np.arange(64)
    y = np.exp(4 + 0.03 * t + np.tile([0.3, -0.1, 0.2, -0.4], 16) + 0.03 * rng.normal(size=64))
    csv = tmp_path_factory.mktemp("logs") / "growth.csv"
    when = pd.date_range("2001-01-01", periods=64, freq="QS").strftime("%Y-%m-%d")
    pd.DataFrame({"quarter": when, "sales": y.round(3)}).to_csv(csv, index=False)
    return csv


def test_logarithms_are_chosen_where_they_are_more_probable(multiplied, tmp_path):
    out = tmp_path / "out"
    done = call("fit", multiplied, "--target", "sales", "--time", "quarter", "--out", out, families=SEASON)
    assert done.exit_code == 0, done.output
    assert "chosen by evidence: level + season (log)" in done.stdout and "level + season  " in done.stdout
    page = (out / "report.html").read_text(encoding="utf-8")
    for said in ("The parts multiply (the model is one of the logarithm of sales)", "multiplies its level by"):
        assert said in page, said
    model = credo.load(out / "model.credo")
    want = model.predict(2)
    assert model.belief.log and np.all(want.median < want.mean)
    rows = call("predict", out / "model.credo", "--horizon", 2).stdout.splitlines()
    got = np.array([[float(v) for v in row.split(",")[1:]] for row in rows[1:]])
    np.testing.assert_allclose(got[:, 0], want.mean, rtol=1e-8)
    np.testing.assert_allclose(got[:, 2:4].T, want.interval(0.95), rtol=1e-8)
    np.testing.assert_allclose(got[:, 4] + got[:, 5], want.variance, rtol=1e-7)


@pytest.mark.parametrize(("option", "name"), [("--log", "level + season (log)"), ("--no-log", "level + season")])
def test_logarithms_as_asked(multiplied, tmp_path, option, name):
    options = ["--target", "sales", "--time", "quarter", option, "--out", tmp_path / "out"]
    done = call("fit", multiplied, *options, families=SEASON)
    assert done.exit_code == 0 and f"chosen by evidence: {name};" in done.stdout, done.output
    assert done.stdout.count("level + season") == 2  # in the table, and chosen


def test_logarithms_that_cannot_be(multiplied, tmp_path):
    frame = pd.read_csv(multiplied)
    frame.loc[3, "sales"] = 0.0
    frame.to_csv(csv := tmp_path / "zero.csv", index=False)
    done = call("fit", csv, "--target", "sales", "--time", "quarter", "--log", "--out", tmp_path / "out")
    assert done.exit_code == 2 and "--log needs outcomes above zero, found 0 in 'sales'" in done.stderr
    options = ["--target", "sales", "--time", "quarter", "--out", tmp_path / "out"]
    done = call("fit", csv, *options, families=SEASON)
    assert done.exit_code == 0 and "(log)" not in done.stdout
    done = call("fit", csv, "--target", "sales", "--log", "--out", tmp_path / "other")
    assert done.exit_code == 2 and "--log is for the forecast of a series" in done.stderr
