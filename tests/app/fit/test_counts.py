"""`credo fit` and `credo predict` for counts, with and without an exposure."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from typer.testing import CliRunner

import credo
from credo.app.cli import app
from credo.app.fit.families import Candidate, CountModels
from credo.app.fit.search import Fitted, Judged
from credo.app.fit.tables import TableData, fit_table
from credo.app.table.prepare import prepare
from credo.app.table.read import Table, read_table
from credo.errors import DataError


def make_calls(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"heat": rng.normal(0, 1, n).round(3), "hours": rng.uniform(0.5, 4, n).round(2)})
    frame["calls"] = rng.poisson(frame["hours"] * np.exp(0.4 + 0.7 * frame["heat"]))
    return frame


def call(*arguments, obj=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], obj=obj)


@pytest.fixture(scope="module")
def counts(tmp_path_factory, only):
    folder = tmp_path_factory.mktemp("counts")
    frame = make_calls()
    frame.to_csv(folder / "calls.csv", index=False)
    steps = []
    few = only("constant rate", "lines", "lines, more spread")
    options = ["--target", "calls", "--exposure", "hours", "--out", folder / "r", "--loss", "3,1"]
    done = call("fit", folder / "calls.csv", *options, obj=few)
    result = fit_table(
        read_table(folder / "calls.csv"),
        "calls",
        exposure="hours",
        families=few,
        progress=lambda *step: steps.append(step),
    )
    assert done.exit_code == 0, done.output
    page = " ".join((folder / "r" / "report.html").read_text(encoding="utf-8").split())
    return SimpleNamespace(
        frame=frame, csv=folder / "calls.csv", model=folder / "r" / "model.credo", page=page, result=result, steps=steps
    )


def test_scores_are_those_of_scikit_learn(counts):
    result = counts.result
    y = result.y_test
    for each in result.fitted:
        prediction = result.predict(result.test, each.belief)
        mean = np.asarray(prediction.mean)
        assert each.scores["deviance"] == pytest.approx(metrics.mean_poisson_deviance(y, mean), rel=1e-9)
        assert each.scores["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, mean), rel=1e-9)
        median = np.asarray(prediction.quantile(0.5))
        assert each.scores["mae"] == pytest.approx(metrics.mean_absolute_error(y, median), rel=1e-9)
        assert 0.8 < each.scores["coverage"] <= 1 or each.name == "constant rate"
    names = [each.name for each in result.fitted]
    assert names == ["constant rate", "lines", "lines, more spread"] and result.comparison.best.startswith("lines")
    assert len(counts.steps) == 4 and result.model.kind == "count"


def test_candidates_learn_as_a_glm_does_by_itself(counts):
    result = counts.result
    x, y, hours = result.x_train, result.y_train, result.prepared.exposure[result.train]
    assert list(x.columns) == ["heat"]
    direct = credo.fit(credo.PoissonRegression(), x, y, exposure=hours, report=True)
    ours = next(each for each in result.fitted if each.name == "lines")
    assert ours.log_evidence == pytest.approx(direct.log_evidence, abs=2e-3)
    np.testing.assert_allclose(ours.belief.coefficients().mean, direct.belief.coefficients().mean, atol=0.01)


def test_the_page_says_it_in_words(counts):
    for said in (
        "We predict calls with a typical error of",
        "is taken for a count because it holds whole numbers from 0",
        "costs 3 and one unit above costs 1",
        "expected counts are in proportion to it",
        "Laplace&#39;s approximation",
        "deviance",
    ):
        assert said in counts.page, said


def test_predictions_for_a_new_table(counts, tmp_path):
    out = tmp_path / "p.csv"
    new = counts.frame.drop(columns="calls").head(6).astype(object)
    new.loc[1, "hours"] = ""
    new.to_csv(tmp_path / "new.csv", index=False)
    done = call("predict", counts.model, tmp_path / "new.csv", "--loss", "3,1", "--out", out)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(out)
    assert list(table.columns[2:]) == ["mean", "std", "lower", "upper", "aleatoric", "epistemic", "action"]
    assert table.loc[1, "mean":"action"].isna().all()
    whole = table.drop(index=1)
    want = credo.load(counts.model).predict(counts.frame.head(6).drop(index=1))
    np.testing.assert_allclose(whole["mean"], want.mean, rtol=1e-8)
    np.testing.assert_allclose(whole["std"] ** 2, whole["aleatoric"] + whole["epistemic"], rtol=1e-6)
    np.testing.assert_array_equal(whole["action"], want.quantile(0.75))
    done = call("predict", counts.model, tmp_path / "new.csv", "--costs", "0,1;1,0")
    assert done.exit_code == 2 and "--costs is for classes, but 'calls' is a count" in done.stderr
    counts.frame[["heat"]].to_csv(tmp_path / "short.csv", index=False)
    done = call("predict", counts.model, tmp_path / "short.csv")
    assert done.exit_code == 2 and "lacks the column 'hours'" in done.stderr


def test_refusals():
    frame = make_calls(20)
    cases = [
        (frame.assign(calls=frame["calls"] - 1), {"kind": "count"}, 'must hold whole numbers ≥ 0 for kind="count"'),
        (frame.assign(hours=0.0), {"exposure": "hours"}, "must hold numbers > 0, found '0.0' in row 1"),
        (frame, {"exposure": "calls"}, "cannot be the target"),
        (frame, {"exposure": "hour"}, "no column 'hour' for `exposure`; did you mean 'hours'?"),
    ]
    for table, options, message in cases:
        with pytest.raises(DataError, match=message.replace("?", r"\?")):
            fit_table(Table(table, "t"), "calls", **options)


def test_the_law_that_suits_lines_is_used_for_other_shapes():
    data, family = TableData(prepare(Table(make_calls().drop(columns="hours"), "t"), "calls"), "t"), CountModels()

    def done(**evidence):
        names = {"rate": "constant rate", "spread": "lines, more spread", "curves_spread": "curves, more spread"}
        plain = Candidate("", "", credo.PoissonRegression())
        tried = {names.get(k, k): v for k, v in evidence.items()}
        return [
            Fitted(plain._replace(name=k), family, None, v, np.zeros(0), Judged({}), 0.0, (), 9)
            for k, v in tried.items()
        ]

    def names(candidates):
        return [c.name for c in candidates]

    others = ["lines, own relevance", "curves"]
    assert names(family.follow(done(rate=-9.0, lines=-5.0, spread=-3.0), data)) == [n + ", more spread" for n in others]
    narrow = done(lines=-3.0, spread=-5.0)
    assert names(family.follow(narrow, data)) == others
    tried = narrow + done(curves=-4.0) + [narrow[0]._replace(candidate=narrow[0].candidate._replace(name=others[0]))]
    assert names(family.follow([e._replace(log_evidence=-3.5) if e.name == others[0] else e for e in tried], data)) == [
        *others,
        "lines, more spread",
    ]
    better = [e._replace(log_evidence=-1.0) if e.name == "curves" else e for e in tried]
    assert names(family.follow(better, data))[-1] == "curves, more spread"
