"""Tables on which the evidence chooses wrongly, and changes of a table that must change nothing."""

import numpy as np
import pandas as pd
import pytest

import credo
from credo.app.fit.tables import fit_table
from credo.app.table.read import Table


def few_rows_many_features(n=60, seed=0):
    """A line in one input among many that say nothing: relevances of their own are not paid for by the evidence."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n) for i in range(8)})
    frame["y"] = frame["x0"] + rng.normal(size=n)
    return frame


def unrelated_classes(n=60, seed=1):
    """Three classes that the inputs say nothing about."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=n) for i in range(4)})
    frame["y"] = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    return frame


def test_relevances_that_do_not_pay_are_not_chosen(only):
    names = ("average", "lines", "lines, own relevance", "squares and pairs")
    result = fit_table(Table(few_rows_many_features(), "t"), "y", families=only(*names))
    by_name = {each.name: each for each in result.fitted}
    highest = max(result.fitted, key=lambda each: each.log_evidence).name
    assert highest == "squares and pairs" != result.chosen.name
    assert result.chosen.left_out_density > by_name["squares and pairs"].left_out_density
    assert result.chosen.scores["nlpd"] < by_name["squares and pairs"].scores["nlpd"]


@pytest.mark.slow
def test_where_nothing_is_to_be_learned_it_is_said(only):
    names = ("class shares", "lines", "lines, own relevance")
    result = fit_table(Table(unrelated_classes(), "t"), "y", families=only(*names))
    said = " ".join(result.notes)
    assert "No model predicts rows" in said or "chance explains" in said
    shares = next(each for each in result.fitted if each.name == "class shares")
    assert result.chosen.scores["nlpd"] < shares.scores["nlpd"] + 0.1


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.uniform(1, 9, n), "c": rng.choice(["u", "v", "w"], n)})
    frame["y"] = 2 * frame["a"] + 0.3 * frame["b"] + (frame["c"] == "u") + rng.normal(0, 0.3, n)
    return frame


@pytest.fixture(scope="module")
def base(only):
    return fit_table(Table(table(), "t"), "y", families=only("average", "lines", "squares and pairs"))


CHANGES = {
    "columns in another order": lambda f: f[["y", "c", "b", "a"]],
    "rows in another order": lambda f: f.sample(frac=1, random_state=0).reset_index(drop=True),
    "another unit": lambda f: f.assign(a=1000 * f["a"] + 3, b=f["b"] / 7),
    "a constant column": lambda f: f.assign(one=1.0),
    "an identifier": lambda f: f.assign(row_id=np.arange(len(f))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_must_change_nothing(base, only, change):
    frame = CHANGES[change](table())
    result = fit_table(Table(frame, "t"), "y", families=only("average", "lines", "squares and pairs"))
    assert result.chosen.name == base.chosen.name
    here, there = result.model.predict(frame), base.model.predict(table())
    order = np.argsort(frame["y"].to_numpy()), np.argsort(table()["y"].to_numpy())
    std = np.asarray(there.std)[order[1]]
    assert np.all(np.abs(np.asarray(here.mean)[order[0]] - np.asarray(there.mean)[order[1]]) < 1e-4 * std)
    np.testing.assert_allclose(np.asarray(here.std)[order[0]], std, rtol=1e-4)
    np.testing.assert_allclose(np.sort(result.chosen.left_out), np.sort(base.chosen.left_out), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_auto_says_what_the_command_line_says(only, tmp_path):
    frame = table()
    result = credo.auto(frame, target="y", seconds=None, families=only("average", "lines"))
    assert result.chosen.name == "lines" and list(result.table.index) == ["lines", "average"]
    assert isinstance(result.model.predict(frame.head(3)), credo.Predictive)
    again = credo.load(credo.save(result.model, tmp_path / "m.credo"))
    np.testing.assert_array_equal(again.predict(frame).mean, result.model.predict(frame).mean)
    path = result.report(tmp_path / "report.html")
    assert "“lines”" in path.read_text(encoding="utf-8") and result.plot().get_xlabel() == "observed"
    with pytest.raises(credo.errors.DataError, match="no column 'z' for `target`"):
        credo.auto(frame, target="z")
    with pytest.raises(credo.errors.DataError, match=r"lists names of columns, found the text 'a'"):
        credo.auto(frame, target="y", ignore="a")


def test_auto_takes_polars_and_paths(only, tmp_path):
    polars = pytest.importorskip("polars")
    frame = table(30)
    frame.to_csv(tmp_path / "t.csv", index=False)
    few = only("lines")
    want = credo.auto(frame, target="y", families=few).model.predict(frame).mean
    for data in (tmp_path / "t.csv", polars.from_pandas(frame)):
        found = credo.auto(data, target="y", families=few)
        np.testing.assert_allclose(found.model.predict(frame).mean, want, rtol=1e-6)
