import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import credo
from credo.app import workflow
from credo.app.candidates import candidates, robust_version
from credo.app.prepare import prepare
from credo.app.scoring import sampled_crps
from credo.app.tables import Table, read_table
from credo.errors import DataError
from credo.models.features import Affine, Chosen, Composed, Polynomial, Standardize
from credo.models.linear import ARD, InverseGamma, Isotropic, Linear


@pytest.fixture
def series() -> pd.DataFrame:
    time = pd.date_range("2010-01-01", periods=72, freq="MS")
    years = np.arange(72) / 12
    rng = np.random.default_rng(3)
    return pd.DataFrame({"month": time, "y": 5 + 2 * years + np.sin(2 * np.pi * years) + rng.normal(0, 0.2, 72)})


def test_composed_features_are_the_outer_of_the_inner():
    x = np.random.default_rng(0).normal(5, 2, (30, 2))
    features = Composed(Polynomial(2), Affine()).adapt(x)
    z = (x - x.mean(0)) / x.std(0)
    want = np.column_stack([z, z[:, 0] ** 2, z[:, 0] * z[:, 1], z[:, 1] ** 2])
    np.testing.assert_allclose(features(jnp.asarray(x)), want, rtol=1e-9, atol=1e-12)
    assert features.names(["a", "b"]) == ["a", "b", "a²", "a·b", "b²"] and features.size(2) == 5 and features.ready


def test_chosen_features_are_columns_of_the_others():
    x = np.random.default_rng(0).normal(size=(30, 2))
    every = Standardize(Polynomial(2)).adapt(x)
    some = Chosen(Standardize(Polynomial(2)), (0, 3)).adapt(x)
    np.testing.assert_allclose(some(jnp.asarray(x)), every(jnp.asarray(x))[:, np.asarray([0, 3])], rtol=1e-12)
    assert some.names(["a", "b"]) == ["a", "a·b"] and some.size(2) == 2


def test_the_robust_version_keeps_the_prior_and_drops_what_is_switched_off():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = 3 * x[:, 0] + rng.normal(0, 0.5, 80)
    learned = credo.fit(Linear(prior=ARD()), x, y)
    robust = robust_version("m", "about", learned, float(y.std())).belief
    assert 0 in robust.features.columns and len(robust.features.columns) < 3
    kept = np.asarray(robust.features.columns)
    np.testing.assert_allclose(robust.prior.precision, learned.prior.precision[kept])
    unknown = credo.fit(Linear(noise=InverseGamma()), x, y)
    again = robust_version("m", "about", unknown, float(y.std())).belief
    assert isinstance(again.prior, Isotropic)
    np.testing.assert_allclose(again.prior.precision, unknown.prior.precision / unknown.noise_variance(), rtol=1e-9)


def test_candidates_suit_the_table(mixed, series):
    tabular = prepare(Table(mixed, "t"), "cost")
    names = [c.name for c in candidates(tabular.schema, tabular.x.to_numpy())[0]]
    assert names[:3] == ["lines", "lines, own relevance", "lines, unknown noise"] and "curves" in names
    timed = prepare(Table(series, "t"), "y")
    found = candidates(timed.schema, timed.x.to_numpy())[0]
    assert [c.name for c in found] == [
        "straight trend",
        "straight trend + seasons",
        "bending trend + seasons",
        "twice bending trend + seasons",
        "smooth function",
        "found structure",
    ]
    assert found[-1].search > 0 and "found structure" not in names and "smooth function" in names
    wide = np.zeros((50, 6))
    notes = candidates(tabular.schema, wide[:8])[1]
    assert any("too many for 8 rows" in note for note in notes)


def test_a_series_is_split_by_time_and_its_season_found(series, only, monkeypatch):
    monkeypatch.setattr(workflow, "candidates", only("straight trend", "straight trend + seasons"))
    steps = []
    shuffled = series.sample(frac=1, random_state=0)
    result = workflow.run(Table(shuffled, "s"), "y", progress=lambda *step: steps.append(step))
    time = result.prepared.time
    assert time[result.test].min() > time[result.train].max() and len(result.test) == 14
    assert result.model.name.startswith("straight trend + seasons")
    assert result.chosen.scores["rmse"] < 0.5 and result.comparison.best == result.chosen.name
    assert [done for done, _, _ in steps] == [0, 1, 2, 3] and steps[0][1] == 4
    # The candidates are judged by what they say of the training part alone.
    x, y = result.x_train, result.y_train
    base = next(f for f in result.fitted if f.name == "straight trend")
    fresh = credo.learn(Linear(), x, y)
    assert base.log_evidence == pytest.approx(float(fresh.log_evidence(x, y)), abs=1e-4)
    assert sum(row.probability for row in result.comparison.rows) == pytest.approx(1)


def test_seed_decides_the_split_and_nothing_else_random(mixed, only, monkeypatch):
    monkeypatch.setattr(workflow, "candidates", only("lines"))
    monkeypatch.setattr(workflow, "ROBUST_WORK", 0)
    one, two, other = (workflow.run(Table(mixed, "t"), "cost", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.test, two.test)
    assert one.chosen.scores == two.chosen.scores
    assert not np.array_equal(one.test, other.test)
    np.testing.assert_allclose(one.model.belief.weights.mean, other.model.belief.weights.mean, rtol=1e-6)
    assert any("too large" in note for note in one.notes)


def test_warnings_of_learning_become_notes(mixed, only, monkeypatch):
    import warnings

    from credo.errors import NotConvergedWarning

    def grumbling(*args, **options):
        warnings.warn("it stopped early", NotConvergedWarning, stacklevel=2)
        return real(*args, **options)

    real = workflow.fit
    monkeypatch.setattr(workflow, "fit", grumbling)
    monkeypatch.setattr(workflow, "candidates", only("lines"))
    monkeypatch.setattr(workflow, "ROBUST_WORK", 0)
    notes = workflow.run(Table(mixed, "t"), "cost").notes
    assert "'lines': it stopped early." in notes and "On all rows: it stopped early." in notes


@pytest.mark.parametrize("test", [0.0, 1.0, -0.2, 1.5])
def test_share_of_the_test_part(mixed, test):
    with pytest.raises(DataError, match="--test is the share"):
        workflow.run(Table(mixed, "t"), "cost", test=test)


def test_a_test_part_that_leaves_nothing(mixed):
    with pytest.raises(DataError, match="leaves 1 of 90 rows"):
        workflow.run(Table(mixed, "t"), "cost", test=0.99)


def test_sampled_crps_agrees_with_the_closed_form():
    from credo.core.predictive import Mixture, StudentT
    from credo.evaluate import crps

    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=400), rng.normal(size=400)
    one = StudentT(np.full(400, 4.0), mean, np.full(400, 0.5), np.zeros(400))
    stacked = StudentT(np.full((2, 400), 4.0), np.stack([mean, mean]), np.full((2, 400), 0.5), np.zeros((2, 400)))
    sampled = sampled_crps(Mixture([0.3, 0.7], (stacked,)), y)
    assert sampled == pytest.approx(float(crps(one, y)), rel=0.02)


def test_the_saved_model_predicts_as_its_belief(fitted):
    model = credo.load(fitted.model)
    frame = fitted.frame.dropna()
    prediction = model.predict(frame)
    np.testing.assert_array_equal(prediction.mean, model.belief.predict(model.encode(frame).x).mean)
    assert model.target == "cost" and model.rows == 88 and dict(model.scores)["rmse"] < 1.0
    with pytest.raises(DataError, match="row 3 has missing inputs"):
        model.predict(fitted.frame)


def test_what_lies_outside_the_data_is_known(fitted):
    model = credo.load(fitted.model)
    x = model.encode(read_table(fitted.csv).frame).x.dropna()
    assert not model.outside(x.to_numpy()).any()
    far = x.head(2).assign(weight=[100.0, 10.0])
    assert model.outside(far.to_numpy()).any(axis=1).tolist() == [True, False]
