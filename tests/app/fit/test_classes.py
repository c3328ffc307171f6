"""`credo fit` and `credo predict` for classes, two of them and three, from the command line to the saved model."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from typer.testing import CliRunner

import credo
from credo.app.cli import app
from credo.app.fit.costs import read_costs
from credo.app.fit.tables import fit_table
from credo.app.report.class_checks import chance_error, check_classes, surprise
from credo.app.table.read import Table, read_table
from credo.app.table.target import read_target
from credo.errors import DataError
from credo.evaluate import brier_decomposition
from credo.evaluate.calibration import chance_shares
from credo.evaluate.scores import brier


def make_parts(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"load": rng.normal(5, 2, n).round(3), "steel": rng.choice(["cold", "hot"], n)})
    eta = 1.2 * (frame["load"] - 5) + 1.5 * (frame["steel"] == "hot") + rng.logistic(size=n)
    frame["state"] = np.where(eta > 0.5, "fails", "holds")
    frame["grade"] = np.select([eta < -1, eta < 1.5], ["low", "mid"], "top")
    return frame


def call(*arguments, obj=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], obj=obj)


@pytest.fixture(scope="module")
def two(tmp_path_factory, only):
    folder = tmp_path_factory.mktemp("classes")
    frame = make_parts().drop(columns="grade")
    frame.loc[4, "state"] = ""
    frame.to_csv(folder / "parts.csv", index=False)
    few = only("class shares", "lines", "squares and pairs")
    options = ["--target", "state", "--out", folder / "r", "--costs", "0,1;20,0"]
    done = call("fit", folder / "parts.csv", *options, obj=few)
    result = fit_table(read_table(folder / "parts.csv"), "state", families=few)
    assert done.exit_code == 0, done.output
    page = (folder / "r" / "report.html").read_text(encoding="utf-8")
    return SimpleNamespace(
        frame=frame, csv=folder / "parts.csv", model=folder / "r" / "model.credo", page=page, done=done, result=result
    )


@pytest.fixture(scope="module")
def three(only):
    return fit_table(Table(make_parts().drop(columns="state"), "t"), "grade", families=only("class shares", "lines"))


def test_scores_are_those_of_scikit_learn(two, three):
    for result in (two.result, three):
        y, levels = result.y_test.astype(int), result.prepared.levels
        for each in result.fitted:
            probs = np.asarray(result.predict(result.test, each.belief).probs)
            assert each.scores["nlpd"] == pytest.approx(metrics.log_loss(y, probs, labels=range(len(levels))), rel=1e-9)
            assert each.scores["accuracy"] == pytest.approx(metrics.accuracy_score(y, probs.argmax(1)))
            squares = np.sum((probs - np.eye(len(levels))[y]) ** 2, axis=1).mean()
            assert each.scores["brier"] == pytest.approx(squares / (2 if len(levels) == 2 else 1), rel=1e-9)
    assert two.result.chosen.scores["accuracy"] > 0.7 and two.result.model.levels == ("fails", "holds")
    assert three.model.levels == ("low", "mid", "top") and three.model.kind == "classes"
    assert three.comparison.best == "lines"


def test_candidates_learn_as_a_glm_does_by_itself(two, three):
    """The search for one scale changes nothing."""
    for result, belief in ((two.result, credo.Logistic()), (three, credo.Softmax())):
        x, labels = result.x_train, result.prepared.labels[result.train]
        direct = credo.fit(belief, x, labels, report=True)
        ours = next(each for each in result.fitted if each.name == "lines")
        assert ours.log_evidence == pytest.approx(direct.log_evidence, abs=2e-3)
        want = direct.belief.predict(result.x_test).probs
        np.testing.assert_allclose(ours.belief.predict(result.x_test).probs, want, atol=0.02)


def test_the_split_keeps_the_shares_of_the_classes(two):
    share = two.result.prepared.y.mean()
    assert two.result.y_test.mean() == pytest.approx(share, abs=1 / len(two.result.test))


def test_the_page_says_it_in_words_and_pictures(two):
    text = " ".join(two.page.split())
    for said in (
        "We name the right class of state in",
        "1 row without a value of &#39;state&#39; was dropped.",
        "expected calibration error",
        "The Brier score, taken apart",
        "What was decided, and what was true",
        "on the test rows it cost",
        "than acting as if the most probable class were true",
        "CostMatrix([[0.0, 1.0], [20.0, 0.0]])",
        "the probability of “holds”",
    ):
        assert said in text, said
    assert two.page.count("<img") == two.page.count('src="data:image/svg+xml;base64,') == 7
    assert "state (2 classes) from parts.csv" in two.done.stdout and "log loss" in two.done.stdout


def test_the_page_of_three_classes(three):
    from credo.app.report.page import html
    from credo.app.report.tables import page as report

    page = " ".join(html(report(three)).split())
    assert "Each class against the rest" in page and "every mistake costs one" in page and "was mid" in page


def test_predictions_for_a_new_table(two, tmp_path):
    out = tmp_path / "p.csv"
    new = two.frame.drop(columns="state").head(9).astype(object)
    new.loc[2, "load"] = ""
    new.to_csv(tmp_path / "new.csv", index=False)
    done = call("predict", two.model, tmp_path / "new.csv", "--costs", "0,1;20,0", "--out", out)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(out)
    names = ["class", "p(fails)", "p(holds)", "entropy", "aleatoric", "epistemic", "action"]
    assert list(table.columns) == ["load", "steel", *names]
    assert table.loc[2, names].isna().all()
    whole = table.drop(index=2)
    model = credo.load(two.model)
    want = model.predict(two.frame.head(9).drop(index=2))
    np.testing.assert_allclose(whole[["p(fails)", "p(holds)"]], want.probs, rtol=1e-8)
    np.testing.assert_allclose(whole["entropy"], whole["aleatoric"] + whole["epistemic"], rtol=1e-6)
    assert list(whole["class"]) == [model.levels[i] for i in np.argmax(np.asarray(want.probs), axis=1)]
    dear = 20 * np.asarray(want.probs)[:, 0]
    assert list(whole["action"]) == list(np.where(dear < np.asarray(want.probs)[:, 1], "holds", "fails"))


def test_parts_of_the_brier_score_add_up(two, three):
    for result in (two.result, three):
        prediction, y = result.predict(result.test), result.y_test
        for bins in (1, 5, 10):
            parts = brier_decomposition(prediction, y, bins)
            assert parts.score == pytest.approx(float(brier(prediction, y)), abs=1e-12)
            assert parts.reliability >= 0
    # Murphy's formula by hand where every bin holds one stated probability.
    p = np.repeat([0.2, 0.7], [10, 20])
    y = np.concatenate([np.arange(10) < 3, np.arange(20) < 12]).astype(int)
    parts = brier_decomposition(credo.core.predictive.Bernoulli.certain(p), y)
    share = y.mean()
    assert parts.reliability == pytest.approx((10 * 0.1**2 + 20 * 0.1**2) / 30)
    assert parts.resolution == pytest.approx((10 * (0.3 - share) ** 2 + 20 * (0.6 - share) ** 2) / 30)
    assert parts.uncertainty == pytest.approx(share * (1 - share))
    with pytest.raises(DataError, match="needs a prediction of classes"):
        brier_decomposition(credo.core.predictive.Normal([0.0], [1.0], [0.0]), [0.0])


def test_sureness_is_told_from_chance():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=2000)
    y = np.asarray([rng.choice(3, p=row) for row in p])
    assert abs(surprise(p, y)) < 4.5
    sharp = p**3 / np.sum(p**3, axis=1, keepdims=True)
    assert surprise(sharp, y) > 4.5 and surprise(0.5 * p + 0.5 / 3, y) < -4.5
    # For two classes this is Spiegelhalter's statistic.
    q = p[:, 0]
    happened = (y == 0).astype(int)
    z = np.sum((happened - q) * (1 - 2 * q)) / np.sqrt(np.sum((1 - 2 * q) ** 2 * q * (1 - q)))
    assert surprise(np.stack([1 - q, q], axis=1), happened) == pytest.approx(z, rel=1e-9)
    assert surprise(np.asarray([[1.0, 0.0]]), np.asarray([1])) == np.inf


def test_what_chance_does_to_a_calibration_error(two):
    checks = check_classes(two.result, two.result.predict(two.result.test))
    low, high = checks.chance
    assert 0 < low < high and checks.usual == "fails"
    errors = chance_error(np.full(5000, 0.5), 10)
    assert errors[1] < 0.02 < chance_error(np.full(20, 0.5), 10)[1]
    bottom, top = chance_shares(checks.diagram.counts, checks.diagram.stated)
    assert np.all(bottom <= checks.diagram.stated + 1e-9) and np.all(top >= checks.diagram.stated - 1e-9)


@pytest.mark.parametrize(
    ("cells", "kind", "levels"),
    [
        ([True, False, True], "classes", ("False", "True")),
        (["Yes", "no", "yes", "yes"], "classes", ("no", "yes")),
        (["b", "a", "b", "a"], "classes", ("a", "b")),
        ([0, 1, 1, 0, 1], "classes", ("0", "1")),
        ([0.5, 1.5, 2.5], "number", ()),
        ([3, 4, 5, 6, 7, 5, 6, 5, 6, 0], "number", ()),
        ([2010, 2011, 2012, 2013], "number", ()),
        ([0, 1, 2, 0, 0, 1, 5, 0, 2], "count", ()),
        ([0, 900, 10, 5000, 20, 3], "number", ()),
    ],
)
def test_what_a_target_is_taken_for(cells, kind, levels):
    found = read_target(Table(pd.DataFrame({"y": cells}), "t").cells("y"))
    assert (found.kind, found.levels) == (kind, levels)


def test_kinds_can_be_asked_for():
    table = Table(pd.DataFrame({"y": [0, 1, 2, 0, 0, 1, 2, 0, 2]}), "t")
    assert read_target(table.cells("y"), "number").kind == "number"
    asked = read_target(table.cells("y"), "classes")
    assert asked.levels == ("0", "1", "2") and asked.notes == () and asked.detail.startswith("3 classes: 0 44%")


ROWS = "\n".join(f"{i},{'abc'[i % 3]}" for i in range(12))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,y\n" + "\n".join(f"{i},same" for i in range(9)), [], "is constant (same in every row)"),
        ("a,y\n" + "\n".join(f"{i},name{i}" for i in range(30)), [], "has 30 different values in 30 rows"),
        ("a,y\n" + "\n".join(f"{i},k{i % 25}" for i in range(90)), [], "too many to be classes (at most 20"),
        ("a,y\n1,\n2,NA\n", ["--kind", "classes"], "has no values"),
        ("a,y\n1,2021-01-01\n2,2021-01-02\n", [], "found dates"),
        (f"a,y\n{ROWS}", ["--kind", "number"], "use --kind classes for labels"),
        (f"a,y\n{ROWS}", ["--kind", "colour"], "--kind must be one of auto, number, classes, count"),
        (f"a,y\n{ROWS}", ["--costs", "0,1;1,0"], "a column for each of the 3 classes (a, b, c), found 2"),
        (f"a,y\n{ROWS}", ["--costs", "0,1,x"], "--costs takes numbers such as"),
        (f"a,y\n{ROWS}", ["--costs", "0,1,1"], "two actions or more"),
        (f"a,y\n{ROWS}", ["--costs", "0,1,1;1,0,-1"], "costs must not be negative"),
        (f"a,y\n{ROWS}", ["--loss", "5,1"], "--loss is for numbers, but 'y' holds classes"),
        (f"a,y\n{ROWS}", ["--exposure", "a"], "--exposure is for counts, but 'y' is taken for classes"),
        ("a,y\n" + "\n".join(f"{i},{i / 7}" for i in range(9)), ["--costs", "0,1;1,0"], "is a number; use --loss"),
    ],
)
def test_refusals(tmp_path, text, options, message):
    (tmp_path / "t.csv").write_text(text)
    done = call("fit", tmp_path / "t.csv", "--target", "y", *options, "--out", tmp_path / "out")
    assert done.exit_code == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "out").exists()


def test_refusals_of_predict(two, tmp_path):
    for options, message in (
        (["--loss", "5,1"], "use --costs"),
        (["--costs", "1;2;3"], "a column for each of the 2 classes"),
    ):
        done = call("predict", two.model, two.csv, *options)
        assert done.exit_code == 2 and message in done.stderr


def test_a_class_with_one_row_is_remarked_on():
    cells = ["a"] * 6 + ["b"] * 6 + ["c"]
    found = read_target(Table(pd.DataFrame({"y": cells}), "t").cells("y"))
    assert found.notes == ("Only one row is of class 'c': next to nothing can be learned about it.",)


def test_costs_from_a_file(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("do,holds,fails\nship,0,20\nrepair,3,3\nscrap,9,1\n")
    costs = read_costs(str(path), ("fails", "holds"))
    assert costs.names == ("ship", "repair", "scrap")
    np.testing.assert_array_equal(costs.costs, [[20, 0], [3, 3], [1, 9]])
    path.write_text("0,1\n20,0\n5,5\n")
    assert read_costs(str(path), ("fails", "holds")).names == ("action 1", "action 2", "action 3")
    path.write_text("fails,good\n0,1\n20,0\n")
    with pytest.raises(DataError, match="must have a column for each class"):
        read_costs(str(path), ("fails", "holds"))


@pytest.mark.slow
def test_classes_may_be_smooth_functions_or_densities_of_the_inputs(only):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(90, 2)), columns=["u", "v"]).round(4)
    frame["ring"] = np.where(np.hypot(frame["u"], frame["v"]) + 0.2 * rng.normal(size=90) > 1.1, "out", "in")
    names = ("class shares", "lines", "smooth function", "Gaussian classes", "independent columns")
    result = fit_table(Table(frame, "rings"), "ring", families=only(*names))
    assert {each.name for each in result.fitted} == set(names)
    loss = {each.name: each.scores["nlpd"] for each in result.fitted}
    assert max(loss["smooth function"], loss["Gaussian classes"]) < loss["lines"]
    text = result.page()._repr_html_()
    assert "Inputs like nothing seen" in text and "The most probable class over the two inputs" in text
    known = fit_table(Table(frame, "rings"), "ring", families=only("Gaussian classes"))
    strange = pd.DataFrame({"u": [0.1, 40.0], "v": [0.0, -30.0]})
    answer = known.model.answer(Table(strange, "new")).frame
    assert answer["novelty"][0] > 0.05 and answer["novelty"][1] < 1e-4
    assert "novelty" not in result.model.answer(Table(strange, "new")).frame or "Gaussian" in result.model.name
