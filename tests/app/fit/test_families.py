"""A new family is a class: it appears in the search, the terminal and the report without another change."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import credo
from credo.app.cli import app
from credo.app.fit.families import FAMILIES, Candidate, Family, latent
from credo.app.fit.tables import fit_table
from credo.app.report.page import Section, Text
from credo.app.table.read import as_table
from credo.models.features import BSpline, Standardize
from credo.models.gp import GP, Inducing, KernelSearch
from credo.models.linear import ARD, FixedPoint, Linear, StudentTNoise
from credo.models.linear.robust_learning import NormalFirst


class Wiggles(Family):
    """Curves with knots at equal distances."""

    def propose(self, data):
        return [Candidate("wiggles", "a curve with eight knots", Linear(Standardize(BSpline(8))), seconds=0.5)]

    def follow(self, done, data):
        return [Candidate("more wiggles", "and one with twelve", Linear(Standardize(BSpline(12))), seconds=0.5)]

    def sections(self, fitted, data, chosen):
        if not chosen:
            return []
        knots = fitted.belief.features.size(1)
        return [Section("wiggles", "How often it turns", (Text((f"It may turn {knots} times.",)),))]


@pytest.fixture(scope="module")
def wavy(tmp_path_factory):
    path = tmp_path_factory.mktemp("wavy") / "wavy.csv"
    x = np.linspace(0, 6, 60)
    noise = np.random.default_rng(0).normal(0, 0.1, 60)
    pd.DataFrame({"x": x.round(3), "y": (np.sin(1.5 * x) + noise).round(4)}).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_new_family_appears_everywhere(wavy, only, tmp_path):
    families = (*only("average", "lines"), Wiggles())
    arguments = ["fit", str(wavy), "--target", "y", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, arguments, obj=families)
    assert done.exit_code == 0, done.output
    assert "chosen by rows left out in turn: " in done.stdout and "more wiggles" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "How often it turns" in page and "a curve with eight knots" in page
    model = credo.load(tmp_path / "out" / "model.credo")
    assert model.name in ("wiggles", "more wiggles") and dict(model.scores)["rmse"] < 0.3


def test_every_family_serves_a_kind_of_its_own():
    assert {kind for family in FAMILIES for kind in family.kinds} == {"number", "classes", "count"}


def test_normal_noise_first_keeps_the_prior_and_drops_what_is_switched_off():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = 3 * x[:, 0] + rng.normal(0, 0.5, 80)
    learned = credo.fit(Linear(prior=ARD(), noise=StudentTNoise()), x, y, using=NormalFirst(), report=True)
    robust = learned.belief
    normal = credo.fit(Linear(prior=ARD()), x, y, using=FixedPoint())
    assert robust.is_robust and 0 in robust.features.columns and len(robust.features.columns) < 3
    kept = np.asarray(robust.features.columns)
    np.testing.assert_allclose(robust.prior.precision, normal.prior.precision[kept], rtol=0.01)
    np.testing.assert_allclose(robust.predict(x).mean, normal.predict(x).mean, atol=0.2)
    one = credo.fit(Linear(noise=StudentTNoise()), x, y, using=NormalFirst())
    np.testing.assert_allclose(
        one.prior.precision, credo.fit(Linear(), x, y, using=FixedPoint()).prior.precision, rtol=0.01
    )
    with pytest.raises(credo.errors.DataError, match="cannot use NormalFirst"):
        credo.fit(Linear(), x, y, using=NormalFirst())


@pytest.mark.filterwarnings("ignore:the search for a kernel ended")
def test_a_kernel_is_searched_for_by_fit():
    x = pd.DataFrame({"t": np.linspace(0, 4, 40)})
    y = 2 * x["t"].to_numpy() + np.sin(2 * np.pi * x["t"].to_numpy())
    found = credo.fit(GP(), x, y, using=KernelSearch(20.0, depth=1), report=True)
    assert found.belief.inputs == ("t",)
    assert np.abs(found.belief.predict(x).mean - y).max() < 0.5 and "kernels were tried" in found.notes[0]


@pytest.mark.parametrize("outcome", ["two", "several", "count"])
def test_classes_and_counts_of_many_rows_are_seen_through_inducing_points(outcome, only, rng, monkeypatch, tmp_path):
    from credo.models.gp.large import choice
    from credo.models.gp.large import latent as large

    if outcome == "two":
        monkeypatch.setattr(large, "FIRST_ROWS", 100)
    monkeypatch.setattr(latent, "EXACT_ROWS", 100)
    monkeypatch.setattr(choice, "POINTS", 25)
    x = rng.uniform(-2, 2, size=(220, 2))
    f = 3 * np.sin(2 * x[:, 0]) * np.cos(x[:, 1])
    frame = pd.DataFrame(x, columns=["a", "b"])
    cuts = [0.0] if outcome == "two" else [-1.0, 1.0]
    classes = np.array(["low", "middle", "high"])[np.digitize(f + rng.logistic(size=220), cuts)]
    frame["y"] = rng.poisson(np.exp(f)) if outcome == "count" else classes
    families = only(latent.SMOOTH, "constant rate", "class shares")
    result = fit_table(as_table(frame), "y", families=families)
    assert result.model.name == latent.SMOOTH and result.model.belief.form == Inducing(25)
    assert "176 rows, more than 100: Inducing(25)" in result.chosen.about
    assert ("amplitude by leaving 176 rows out" in result.chosen.about) == (outcome == "two")
    assert result.model.belief.seen.n == 220 and len(result.chosen.left_out) == 176
    again = result.chosen.family.again(result.chosen)
    np.testing.assert_array_equal(again.belief.kernel.lengthscale, result.chosen.belief.kernel.lengthscale)
    np.testing.assert_array_equal(result.model.belief.kernel.lengthscale, result.chosen.belief.kernel.lengthscale)
    loaded = credo.load(credo.save(result.model, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(frame).mean, result.model.predict(frame).mean)


def test_a_hundred_thousand_rows_get_a_smooth_function_with_a_time_that_fits(rng):
    class Table:
        kind, size = "classes", (100_000, 8)

        class prepared:
            levels = ("no", "yes")

    (candidate,) = latent.LatentProcesses().propose(Table)
    assert not candidate.refused and 15 < candidate.seconds < 90 and candidate.using() == Inducing(300)
