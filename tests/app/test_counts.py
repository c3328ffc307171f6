"""`credo fit` and `credo predict` for counts, with and without an exposure."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from typer.testing import CliRunner

import credo
from credo.app import glm_candidates, workflow
from credo.app.cli import app
from credo.app.glm_candidates import Candidate, Scored, Shape, further_counts, last_counts
from credo.app.tables import Table, read_table
from credo.errors import DataError


def make_calls(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"heat": rng.normal(0, 1, n).round(3), "hours": rng.uniform(0.5, 4, n).round(2)})
    frame["calls"] = rng.poisson(frame["hours"] * np.exp(0.4 + 0.7 * frame["heat"]))
    return frame


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def lines_only(schema, x):
    found, notes = real(schema, x)
    return found[:1], notes


real = glm_candidates.count_shapes


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    frame = make_calls()
    frame.to_csv(folder / "calls.csv", index=False)
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glm_candidates, "count_shapes", lines_only)
        options = ["--target", "calls", "--exposure", "hours", "--out", folder / "r", "--loss", "3,1"]
        done = call("fit", folder / "calls.csv", *options)
        result = workflow.run(
            read_table(folder / "calls.csv"), "calls", exposure="hours", progress=lambda *step: steps.append(step)
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
    assert names == ["constant rate", "lines", "lines, more spread"] and result.comparison.best == "lines"
    assert [done for done, *_ in counts.steps] == [0, 1, 2, 4] and result.model.kind == "count"


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
        (frame.assign(calls=frame["calls"] - 1), {"kind": "count"}, "must hold whole numbers ≥ 0 for --kind count"),
        (frame.assign(hours=0.0), {"exposure": "hours"}, "must hold numbers > 0, found '0.0' in row 1"),
        (frame, {"exposure": "calls"}, "cannot be the target"),
        (frame, {"exposure": "hour"}, "no column 'hour' for --exposure; did you mean 'hours'?"),
    ]
    for table, options, message in cases:
        with pytest.raises(DataError, match=message.replace("?", r"\?")):
            workflow.run(Table(table, "t"), "calls", **options)


def test_the_law_that_suits_lines_is_used_for_other_shapes():
    tried = [Shape("lines", "a", None, False), Shape("curves", "b", None, True)]

    def scored(name, evidence):
        return Scored(Candidate(name, "", credo.PoissonRegression()), evidence)

    spread = [scored("constant rate", -9.0), scored("lines", -5.0), scored("lines, more spread", -3.0)]
    assert [c.name for c in further_counts(tried, spread)] == ["curves, more spread"]
    narrow = [scored("lines", -3.0), scored("lines, more spread", -5.0)]
    assert [c.name for c in further_counts(tried, narrow)] == ["curves"]
    assert last_counts(tried, narrow) == []
    assert [c.name for c in last_counts(tried, [*narrow, scored("curves", -1.0)])] == ["curves, more spread"]
    assert last_counts(tried, [scored("constant rate", -1.0)]) == []
