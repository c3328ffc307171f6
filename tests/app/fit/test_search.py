"""The search: what is tried, how it is judged, which is chosen, and how time limits it."""

import warnings

import numpy as np
import pandas as pd
import pytest

import credo
from credo.app.fit import families
from credo.app.fit.families import Candidate, Family, GaussianProcesses, LinearModels
from credo.app.fit.search import Fitted, Judged, beats_baseline, choose, lead
from credo.app.fit.tables import TableData, fit_table
from credo.app.table.prepare import prepare
from credo.app.table.read import Table, read_table
from credo.errors import DataError, NotConvergedWarning
from credo.infer.learning import fit
from credo.models.features import InterceptOnly
from credo.models.gp import NeighboursGP
from credo.models.linear import FixedPoint, Linear


@pytest.fixture
def series() -> pd.DataFrame:
    time = pd.date_range("2010-01-01", periods=72, freq="MS")
    years = np.arange(72) / 12
    rng = np.random.default_rng(3)
    return pd.DataFrame({"month": time, "y": 5 + 2 * years + np.sin(2 * np.pi * years) + rng.normal(0, 0.2, 72)})


def data_of(frame, target="y", **options):
    return TableData(prepare(Table(frame, "t"), target, **options), "t")


def judged(name, left_out, evidence=0.0, baseline=False):
    candidate = Candidate(name, "", Linear(), baseline=baseline)
    return Fitted(candidate, LinearModels(), None, evidence, np.asarray(left_out, float), Judged({}), 0.0, (), 10)


def test_many_rows_are_learned_from_by_the_rule_of_fit(monkeypatch):
    monkeypatch.setattr(families.gp, "EXACT_ROWS", 40)
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(70, 2))
    data = data_of(pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=70)}))
    family = GaussianProcesses()
    candidate = next(c for c in family.propose(data) if c.name == "smooth function")
    assert "rows, more than 40: Neighbours(20)" in candidate.about and not candidate.refused
    learned = family.learn(candidate, data, data.train, 0)
    assert isinstance(learned.belief, NeighboursGP) and np.isfinite(
        family.evidence(learned, candidate, data, data.train)
    )
    fitted = Fitted(candidate, family, learned.belief, 0.0, np.zeros(0), Judged({}), 0.0, (), data.size[0])
    again = family.learn(family.again(fitted), data, data.train[:50], 0)  # with the hyperparameters that were learned
    assert again.belief.seen.n == 50 and again.belief.kernel.variance == learned.belief.kernel.variance
    assert data.judge(learned.belief, candidate).scores["rmse"] < 0.5


def test_candidates_suit_the_table(mixed, series):
    data = data_of(mixed, "cost")
    names = [c.name for family in (LinearModels(), GaussianProcesses()) for c in family.propose(data)]
    first = ["average", "lines", "lines, own relevance", "lines, unknown noise"]
    assert names[:4] == first and "curves" in names and names[-1] == "smooth function"
    timed = data_of(series)
    found = [c for family in (LinearModels(), GaussianProcesses()) for c in family.propose(timed)]
    assert [c.name for c in found] == [
        "average",
        "straight trend",
        "straight trend + seasons",
        "bending trend + seasons",
        "twice bending trend + seasons",
        "smooth function",
        "found structure",
    ]
    assert found[-1].seconds == 30 and all(c.seconds > 0 for c in found)
    data.size = 8, 6
    assert [c.refused for c in LinearModels().propose(data) if c.name == "curves and pairs"] == [
        "35 features are too many for 8 rows"
    ]


def test_a_table_in_time_is_split_by_it_and_its_season_found(series, only):
    steps = []
    shuffled = series.sample(frac=1, random_state=0)
    families = only("average", "straight trend", "straight trend + seasons")
    result = fit_table(Table(shuffled, "s"), "y", families=families, progress=lambda *step: steps.append(step))
    time = result.prepared.time
    assert time[result.test].min() > time[result.train].max() and len(result.test) == 14
    assert result.model.name == "straight trend + seasons" and result.chosen.scores["rmse"] < 0.5
    assert [text for _, text in steps] == [
        "average",
        "straight trend",
        "straight trend + seasons",
        "straight trend + seasons, on all rows",
    ]
    assert all(0 <= share <= 1 for share, _ in steps) and result.notes == ()
    # The candidates are judged by what they say of the training part alone.
    x, y = result.x_train, result.y_train
    base = next(f for f in result.fitted if f.name == "straight trend")
    fresh = credo.learn(Linear(), x, y)
    assert base.log_evidence == pytest.approx(float(fresh.log_evidence(x, y)), abs=1e-4)
    assert sum(row.probability for row in result.comparison.rows) == pytest.approx(1)
    assert list(result.table.index) == ["straight trend + seasons", "straight trend", "average"]
    assert {"left out", "log evidence", "RMSE", "seconds"} <= set(result.table.columns)


def test_left_out_rows_are_predicted_by_what_was_learned_without_them(mixed, only):
    result = fit_table(Table(mixed, "t"), "cost", families=only("lines"))
    (lines,) = result.fitted
    want = []
    for rows, out in result.data.folds:
        x, y = result.prepared.x, result.prepared.y
        want.append(
            credo.fit(Linear(), x.iloc[rows], y[rows], using=FixedPoint()).predict(x.iloc[out]).log_prob(y[out])
        )
    np.testing.assert_allclose(lines.left_out, np.concatenate(want), rtol=1e-6)
    assert lines.left_out_density == pytest.approx(np.concatenate(want).mean())


def test_the_test_rows_are_predicted_once(mixed, only):
    result = fit_table(Table(mixed, "t"), "cost", families=only("lines"))
    assert result.predict(result.test) is result.chosen.prediction
    np.testing.assert_array_equal(result.chosen.prediction.mean, result.chosen.belief.predict(result.x_test).mean)


def test_the_choice_is_made_by_rows_left_out():
    flattered, honest = judged("ard", [-3, -3, -3], evidence=100), judged("gp", [-1, -1, -1], evidence=-100)
    assert choose([flattered, honest]) is honest
    # One that was judged on fewer folds is compared on those.
    short = judged("short", [-0.5])
    assert choose([flattered, honest, short]) is short
    assert choose([judged("short", [-1.5]), honest]) is honest
    assert choose([judged("never", [-np.inf, 0, 0]), honest]) is honest
    # A series has none: the evidence decides.
    assert choose([judged("a", [], 1.0), judged("b", [], 2.0)]).name == "b"


def test_a_choice_that_does_not_beat_the_baseline_is_said():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=100)
    plain = judged("average", noise, baseline=True)
    assert "No model predicts" in beats_baseline(plain, [plain])[0]
    hardly = judged("lines", noise + 0.01 + rng.normal(size=100))
    assert "hardly better than “average”" in beats_baseline(hardly, [plain, hardly])[0]
    better = judged("lines", noise + 1 + 0.1 * rng.normal(size=100))
    assert beats_baseline(better, [plain, better]) == [] and lead(better, plain)[0] == pytest.approx(1, abs=0.05)


def test_seed_decides_the_split_and_nothing_else_random(mixed, only):
    one, two, other = (fit_table(Table(mixed, "t"), "cost", seed=seed, families=only("lines")) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.test, two.test)
    assert one.chosen.scores == two.chosen.scores
    assert not np.array_equal(one.test, other.test)
    np.testing.assert_allclose(one.model.belief.weights.mean, other.model.belief.weights.mean, rtol=1e-6)


class Fixed(Family):
    """Candidates as given; each takes as long as it says."""

    def __init__(self, *candidates):
        self.candidates = candidates

    def propose(self, data):
        return list(self.candidates)


def lines(name, seconds, **options):
    return Candidate(name, "about", Linear(**options), seconds)


def test_time_decides_what_is_tried_and_says_what_was_left_out(mixed):
    family = Fixed(lines("quick", 1.0), lines("slow", 100.0), lines("folds", 20.0))
    result = fit_table(Table(mixed, "t"), "cost", seconds=70, families=(family,))
    assert [(each.name, len(each.left_out)) for each in result.fitted] == [("quick", 72), ("folds", 30)]
    assert "'slow' was not tried: it may take 100 s, and of the 70 s 64 s are left." in result.notes
    assert any("'folds' was judged on 2 of 5 folds" in note for note in result.notes)
    everything = fit_table(Table(mixed, "t"), "cost", seconds=None, families=(family,))
    assert len(everything.fitted) == 3 and everything.notes == ()
    # At least one is tried, however short the time.
    assert len(fit_table(Table(mixed, "t"), "cost", seconds=0.1, families=(family,)).fitted) == 1
    with pytest.raises(DataError, match="`seconds` is the time"):
        fit_table(Table(mixed, "t"), "cost", seconds=0, families=(family,))


def test_what_cannot_be_learned_is_said(mixed):
    bad = Candidate("bad", "about", Linear(), 0.1, options={"fixed": ["nothing"]})
    result = fit_table(Table(mixed, "t"), "cost", families=(Fixed(lines("good", 0.1), bad),))
    assert any(note.startswith("'bad' could not be learned") for note in result.notes)
    with pytest.raises(DataError, match="no model could be learned from t"):
        fit_table(Table(mixed, "t"), "cost", families=(Fixed(bad),))


def test_warnings_of_learning_become_notes(mixed):
    class Grumbling(Fixed):
        def learn(self, candidate, data, rows, seed):
            warnings.warn("it stopped early", NotConvergedWarning, stacklevel=2)
            return fit(candidate.belief, *data.examples(rows, candidate)[0], report=True)

    notes = fit_table(Table(mixed, "t"), "cost", families=(Grumbling(lines("lines", 0.1)),)).notes
    assert "'lines': it stopped early." in notes and "On all rows: it stopped early." in notes


def test_the_robust_version_follows_the_best(mixed):
    family = LinearModels()
    data = data_of(mixed, "cost")
    plain = Candidate("average", "", Linear(InterceptOnly()), baseline=True)
    known = credo.fit(Linear(), *data.examples(data.train, plain)[0], using=FixedPoint())
    done = [judged("lines", [-1.0])._replace(belief=known)]
    (robust,) = family.follow(done, data)
    assert robust.name == "lines, robust" and robust.belief.is_robust and not robust.refused
    data.size = 10**8, 6
    assert family.follow(done, data)[0].refused == "the table is too large for it"


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
    x = model.encode(read_table(fitted.csv)).x.dropna()
    assert not model.outside(x.to_numpy()).any()
    far = x.head(2).assign(weight=[100.0, 10.0])
    assert model.outside(far.to_numpy()).any(axis=1).tolist() == [True, False]
