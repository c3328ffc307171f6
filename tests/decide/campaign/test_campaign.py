"""Asking and telling, without the model."""

import pickle

import numpy as np
import pytest

from credo.core.errors import DataError, RepairedWarning
from credo.decide.campaign import Campaign
from credo.decide.campaign.campaign import TRIES
from credo.decide.campaign.schema import StorageError
from credo.decide.campaign.storage import Storage
from credo.decide.campaign.trial import Suggestion, TrialError
from credo.decide.space import Boolean, Categorical, Check, Integer, Ordinal, Real, Space

pytestmark = pytest.mark.usefixtures("without_model")
BOTH = {"yield": "maximize", "waste": "minimize"}


@pytest.fixture
def campaign(space):
    return Campaign(space)


def test_ask_and_tell(campaign):
    trial = campaign.ask()
    assert trial.number == 1 and set(trial.point) == {"x", "y"} and campaign.pending == [trial]
    told = campaign.tell(trial, np.float32(0.5), noise=0.1, cost=3)
    assert told.state == "done" and told.value == 0.5 and told.noise == 0.1 and told.cost == 3.0
    assert campaign.tell(1, 0.5) == told, "the same again"
    assert campaign.trials == [told] and campaign.pending == []
    assert [each.number for each in campaign.ask(3)] == [2, 3, 4]
    assert isinstance(campaign.ask(1), list)
    assert "1 done, 0 failed, 4 pending, best 0.5" in repr(campaign)


def test_the_same_seed_asks_for_the_same_points(space):
    first, again, other = (Campaign(space, seed=seed) for seed in (1, 1, 2))
    assert [t.point for t in first.ask(4)] == [t.point for t in again.ask(4)] != [t.point for t in other.ask(4)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "the value of trial 1 is nan; tell failed='reason'"),
        (-np.inf, "the value of trial 1 is -inf; tell failed='reason'"),
        ("0.5", "must be a number, found '0.5'"),
        (True, "must be a number, found True"),
        (None, "must be a number, found None; tell failed='reason' if none"),
        ({"value": 1.0, "extra": 2.0}, "must have values for value .* found value, extra"),
        ({}, "must have values for value .* found none"),
        ([1.0, 2.0], "must be a number"),
    ],
)
def test_what_is_not_a_result_is_refused_and_the_trial_stays(campaign, value, message):
    trial = campaign.ask()
    with pytest.raises(DataError, match=message):
        campaign.tell(trial, value)
    assert campaign.pending == [trial]
    assert campaign.tell(trial, 1.0).state == "done"


def test_unknown_and_finished_trials_are_refused(campaign):
    with pytest.raises(TrialError, match="there is no trial 7; none was asked yet"):
        campaign.tell(7, 1.0)
    campaign.tell(campaign.ask(), 3.0)
    with pytest.raises(TrialError, match="trial 1 is already finished with 3.0"):
        campaign.tell(1, 4.0)
    with pytest.raises(TrialError, match="trial 1 is already finished"):
        campaign.tell(1, failed="no")
    with pytest.raises(DataError, match="the number of a trial must be a whole number"):
        campaign.tell(0, 1.0)
    with pytest.raises(TrialError, match="there is no trial 9; they go from 1 to 1"):
        campaign.explain(9)
    assert campaign.trials[0].value == 3.0


def test_failures_partial_results_and_abandoning(campaign):
    first, second, third = campaign.ask(3)
    assert campaign.tell(first, failed="the sample broke").reason == "the sample broke"
    campaign.tell(second, partial={"step": 3, "value": 0.7})
    assert campaign.pending[0].partials == ((3.0, 0.7),)
    with pytest.raises(DataError, match="both a value and failed"):
        campaign.tell(third, 1.0, failed="no")
    with pytest.raises(DataError, match="told alone"):
        campaign.tell(third, 1.0, partial={"step": 1, "value": 1.0})
    with pytest.raises(DataError, match="must be finite numbers"):
        campaign.tell(third, partial={"step": 1, "value": float("nan")})
    with pytest.raises(DataError, match='is {"step": 3, "value": 0.7}, found'):
        campaign.tell(third, partial={"step": 1})
    with pytest.raises(DataError, match="noise must be a number of at least 0, found -1"):
        campaign.tell(third, 1.0, noise=-1)
    assert campaign.abandon(third).state == "abandoned"
    assert [t.number for t in campaign.pending] == [2] and campaign.used() == 2
    assert campaign.summary() == "0 done, 1 failed, 1 pending"


def test_results_from_elsewhere(campaign):
    trial = campaign.add({"x": 0.5, "y": 0}, 2.0)
    assert trial.source == "added" and trial.point == {"x": 0.5, "y": 0.0} and campaign.used() == 0
    campaign.add({"x": 0.5, "y": 0}, 2.5)
    assert len(campaign.observations()) == 2, "a point may be measured twice"
    with pytest.raises(DataError, match="'z' is not a parameter"):
        campaign.add({"x": 0.5, "y": 0, "z": 1}, 2.0)
    with pytest.raises(DataError, match="tell failed="):
        campaign.add({"x": 0.5, "y": 0}, float("inf"))
    assert campaign.explain(1) == "Nobody suggested it: it was added."
    assert campaign.explain(campaign.ask()) == "In order."


def test_a_category_never_seen_is_refused_with_the_choices():
    campaign = Campaign(Space({"solvent": Categorical(["water", "ethanol"]), "n": Integer(1, 5)}))
    with pytest.raises(DataError, match="solvent.*water.*ethanol"):
        campaign.add({"solvent": "acetone", "n": 2}, 1.0)
    assert campaign.trials == []
    added = campaign.add({"solvent": "water", "n": np.int64(2)}, 1.0)
    assert type(added.point["n"]) is int


def test_observations_are_what_was_told_in_the_order_of_telling(space):
    campaign = Campaign(space, BOTH, noise=0.25, outcome_constraints={"heat": "<= 80"})
    a, b, c, d = campaign.ask(4)
    campaign.tell(c, {"yield": 1.0, "waste": 2.0, "heat": 90.0})
    campaign.tell(a, {"yield": 3.0, "waste": None, "heat": 70.0}, noise=0.5, cost=2.0)
    campaign.tell(d, failed="broke")
    seen = campaign.observations()
    assert seen.numbers.tolist() == [3, 1, 4] and seen.points[0] == c.point
    np.testing.assert_array_equal(seen.values, [[1.0, 2.0], [3.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(seen.constraints, [[90.0], [70.0], [np.nan]])
    np.testing.assert_array_equal(seen.noise, [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(seen.costs, [np.nan, 2.0, np.nan])
    assert seen.failed.tolist() == [False, False, True] and not seen.warm.any()
    assert seen.feasible(campaign.problem).tolist() == [False, True, False]
    assert seen.incumbent(campaign.problem) == 1
    assert seen.fidelity.tolist() == [1.0, 1.0, 1.0]
    campaign.tell(b, {"yield": 5.0, "waste": 1.0, "heat": 1.0})
    assert len(campaign.observations()) == 4 and len(seen) == 3
    with pytest.raises(DataError, match="needs a dict with yield, waste, heat"):
        campaign.tell(campaign.ask(), 1.0)
    with pytest.raises(DataError, match="no value at all"):
        campaign.tell(5, {"yield": None, "waste": None, "heat": None})


def test_a_constant_objective_is_recorded_like_any_other(campaign):
    for trial in campaign.ask(5):
        campaign.tell(trial, 1.0)
    assert campaign.observations().values.tolist() == [[1.0]] * 5
    assert campaign.observations().incumbent(campaign.problem) == 0


def test_fidelity_is_a_parameter(space):
    problem = {"x": Real(0, 1), "epochs": Integer(1, 101)}
    campaign = Campaign(Space(problem), fidelity="epochs")
    campaign.add({"x": 0.5, "epochs": 26}, 9.0)
    campaign.add({"x": 0.5, "epochs": 101}, 1.0)
    np.testing.assert_allclose(campaign.observations().fidelity, [0.25, 1.0], atol=0.01)
    assert campaign.observations().incumbent(campaign.problem) == 1, "only what counts"
    with pytest.raises(DataError, match="fidelity must name a parameter"):
        Campaign(Space(problem), fidelity="z")
    with pytest.raises(DataError, match="must be a real, integer or ordinal parameter"):
        Campaign(Space({"b": Boolean(), "x": Real(0, 1)}), fidelity="b")
    rough = Campaign(Space({"x": Real(0, 1), "mesh": Ordinal(["coarse", "fine"])}), fidelity="mesh")
    rough.add({"x": 0.5, "mesh": "coarse"}, 1.0)
    assert rough.observations().fidelity.tolist() == [0.0]


# -- the record --------------------------------------------------------------------------------------------------------


def test_a_campaign_is_resumed_by_name(space, target):
    first = Campaign(space, "minimize", target, "tuning", seed=3, lease=50)
    trial = first.ask()
    first.tell(trial, 0.25)
    again = Campaign(space, "minimize", target, "tuning", seed=3)
    opened = Campaign.open(target)
    assert again.trials == opened.trials == first.trials
    assert opened.problem == first.problem and opened.name == "tuning"
    assert again.ask().number == 2
    sent = pickle.loads(pickle.dumps(again))
    assert len(sent.trials) == 2 and sent.problem == again.problem
    for each in (first, again, opened, sent):
        each.close()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"goal": "minimize"}, "goal.value was 'maximize' and is 'minimize'"),
        ({"goal": {"a": "maximize"}}, "goal.value was 'maximize' and is None"),
        ({"outcome_constraints": {"t": "<= 8"}}, "outcome_constraints.t was None and is '<= 8.0'"),
        ({"space": Space({"x": Real(0, 2), "y": Real(-1, 1)})}, r"parameters.x.high was 1.0 and is 2"),
        ({"space": Space({"x": Real(0, 1)})}, r"parameters.y was .* and is None"),
    ],
)
def test_another_problem_under_the_same_name_is_refused(space, tmp_path, changed, message):
    Campaign(space, storage=tmp_path / "c.db").close()
    with pytest.raises(DataError, match=f"'campaign' exists and differs: .*{message}"):
        Campaign(**{"space": space, **changed}, storage=tmp_path / "c.db")


def test_opening_by_name(space, tmp_path):
    path = tmp_path / "c.db"
    storage = Storage.open(path)
    with pytest.raises(DataError, match="has 0 campaigns"):
        Campaign.open(storage)
    Campaign(space, storage=storage, name="a")
    Campaign(space, storage=storage, name="b")
    with pytest.raises(DataError, match="has 2 campaigns; give the name, one of: a, b"):
        Campaign.open(path)
    with pytest.raises(StorageError, match="no campaign 'z'"):
        Campaign.open(storage, "z")
    storage.close()


def test_black_box_constraints_are_given_again(tmp_path):
    def small(point):
        return point["x"] < 0.5

    space = Space({"x": Real(0, 1)}, [Check(small, "small")])
    Campaign(space, storage=tmp_path / "c.db").close()
    with pytest.raises(DataError, match="the check 'small' is a function"):
        Campaign.open(tmp_path / "c.db")
    campaign = Campaign.open(tmp_path / "c.db", checks={"small": small})
    assert all(trial.point["x"] < 0.5 for trial in campaign.ask(5))
    campaign.close()


def test_expired_trials_are_asked_first(space, target):
    dead = Campaign(space, storage=target, lease=1e-3)
    lost = dead.ask(2)
    alive = Campaign(space, storage=target)
    again = alive.ask(3)
    assert [trial.number for trial in again] == [1, 2, 3]
    assert [trial.point for trial in again[:2]] == [trial.point for trial in lost]
    assert alive.heartbeat(again) == [1, 2, 3]
    dead.close()
    alive.close()


def test_a_point_that_somebody_took_meanwhile_is_suggested_anew(space, tmp_path, monkeypatch):
    """The other client is given the point, and tells it, while this one is still thinking."""
    ours, theirs = (Campaign(space, storage=tmp_path / "c.db") for _ in range(2))
    plain, calls = Campaign._suggest, []

    def slow(self, memory, n, seed):
        suggested = plain(self, memory, n, seed)
        if self is ours and not calls:
            calls.append(1)
            theirs.tell(theirs.ask(), 1.0)
        return suggested

    monkeypatch.setattr(Campaign, "_suggest", slow)
    trial = ours.ask()
    assert trial.number == 2 and trial.point != ours.trials[0].point
    ours.close()
    theirs.close()


def test_a_stubborn_model_is_overruled(space, monkeypatch):
    campaign = Campaign(space)
    monkeypatch.setattr(Campaign, "_suggest", lambda *_: [Suggestion({"x": 0.5, "y": 0.5}, "exploit", "It is best.")])
    first, second = campaign.ask(), campaign.ask()
    assert campaign.explain(first) == "It is best." and second.point != first.point
    assert second.why["kind"] == "random" and "anywhere" in campaign.explain(second)


def test_a_space_with_every_point_pending_says_so():
    campaign = Campaign(Space({"a": Boolean()}))
    seen = {campaign.ask().point["a"] for _ in range(2)}
    assert seen == {True, False}
    with pytest.raises(TrialError, match="all points that were suggested are pending, 2 in all; tell or abandon"):
        campaign.ask()
    assert len(Campaign(Space({"a": Boolean()})).ask(5)) == 2, "as many as there are"
    campaign.tell(1, 1.0)
    assert campaign.ask().number == 3, "after that it may be repeated"
    assert TRIES > 1


def test_a_reason_without_a_finite_score_can_be_kept():
    why = Suggestion({}, "explore", "", float("nan"), 0.5, -np.inf, [{"a": [1.0]}]).why()
    assert why == {"kind": "explore", "std": 0.5, "hyper": [{"a": [1.0]}]}


def test_what_the_engine_knew_goes_to_the_next_suggestion(space, monkeypatch):
    given = []

    def suggest(self, memory, n, seed):
        given.append((memory.hyper, [t.number for t in memory.pending], seed))
        point = self.problem.space.sample(1, skip=len(memory))[0]
        return [Suggestion(point, "explore", "", 1.0, 0.5, 0.1, [{"noise": [len(memory)]}])]

    monkeypatch.setattr(Campaign, "_suggest", suggest)
    campaign = Campaign(space)
    campaign.ask()
    campaign.tell(campaign.ask(), 1.0)
    campaign.ask()
    assert [hyper for hyper, _, _ in given] == [None, [{"noise": [0]}], [{"noise": [1]}]]
    assert [pending for _, pending, _ in given] == [[], [1], [1]]
    assert len({seed for _, _, seed in given}) == 3
    assert campaign.trials[0].why == {
        "kind": "explore",
        "mean": 1.0,
        "std": 0.5,
        "value": 0.1,
        "hyper": [{"noise": [0]}],
    }
    assert campaign.explain(1) == "No reason is on record."


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": "max"}, 'goal must be "maximize", "minimize" or a dict'),
        ({"goal": {}}, "goal must be"),
        ({"goal": {"x": "maximize"}}, "x is both a parameter and an outcome"),
        ({"outcome_constraints": {"t": "< 8"}}, "constraint on 't' must be text such as"),
        ({"outcome_constraints": {"t": "<= hot"}}, "constraint on 't' must be text such as"),
        ({"outcome_constraints": {"t": 8}}, "constraint on 't' must be text such as"),
        ({"noise": "big"}, 'noise must be a variance, "learn" or None'),
        ({"noise": -0.1}, "noise must be a number of at least 0"),
        ({"initial": 0}, "initial must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"lease": 0}, "lease must be a positive number"),
    ],
)
def test_bad_settings_are_refused(space, options, message):
    with pytest.raises(DataError, match=message):
        Campaign(space, **options)


def test_the_number_of_initial_points():
    assert [Campaign(Space.box([0] * d, [1] * d)).problem.initial for d in (1, 4, 50)] == [5, 8, 20]
    assert Campaign(Space.box(0, 1), initial=3).problem.initial == 3


def test_settings_survive_the_record(space, tmp_path):
    options = {
        "noise": "learn",
        "outcome_constraints": {"t": ">= 0.5"},
        "initial": 7,
        "acquisition": "ExpectedImprovement",
        "seed": 4,
    }
    made = Campaign(space, BOTH, tmp_path / "c.db", **options)
    opened = Campaign.open(tmp_path / "c.db")
    assert opened.problem == made.problem and opened.problem.goal == BOTH
    assert opened.problem.outcomes == ("yield", "waste", "t")
    bound = opened.problem.constraints[0]
    assert (bound.name, bound.at_most, bound.limit) == ("t", False, 0.5) and bound.slack(0.75) == 0.25
    made.close()
    opened.close()


# -- tables ------------------------------------------------------------------------------------------------------------


def test_an_earlier_campaign_is_a_start(space, tmp_path):
    pilot = Campaign(space, {"speed": "maximize"}, name="pilot")
    for trial in pilot.ask(3):
        pilot.tell(trial, trial.point["x"], noise=0.5)
    pilot.tell(pilot.ask(), failed="broke")
    narrow = Space({"x": Real(0, 0.5), "y": Real(-1, 1)})
    inside = sum(trial.point["x"] <= 0.5 for trial in pilot.trials)
    assert 0 < inside < 4
    with pytest.warns(RepairedWarning, match=f"{4 - inside} of 4 results of campaign pilot, begun .* lie outside"):
        campaign = Campaign(narrow, storage=tmp_path / "c.db", warm_start=[pilot])
    seen = campaign.observations()
    assert len(seen) == inside and seen.warm.all() and campaign.used() == 0
    assert seen.incumbent(campaign.problem) is None, "what another campaign saw is not the best of this one"
    assert "Nobody suggested it: it was taken from campaign pilot, begun 20" in campaign.explain(1)
    again = Campaign(narrow, storage=tmp_path / "c.db", warm_start=[pilot])
    assert len(again.observations()) == inside, "once"
    other = Campaign(space, {"speed": "maximize"}, name="pilot")
    other.add({"x": 0.1, "y": 0.2}, 3.0)
    more = Campaign(narrow, storage=tmp_path / "c.db", warm_start=[pilot, other])
    assert len(more.observations()) == inside + 1, "another campaign of the same name"
    other.add({"x": 0.1, "y": 0.2}, 4.0)
    latest = Campaign(narrow, storage=tmp_path / "c.db", warm_start=[other])
    assert len(latest.observations()) == inside + 2, "what it found since"
    with pytest.raises(DataError, match="the campaign 'pilot' has no outcome yield; it has speed"):
        Campaign(space, BOTH, warm_start=[pilot])
    campaign.close()
    again.close()


def test_tables_are_a_start(space):
    import pandas as pd
    import polars as pl

    rows = [{"x": 0.1, "y": 0.5, "value": 1.0, "note": "a"}, {"x": 0.2, "y": 0.5, "value": None, "note": "b"}]
    frames = [rows, {k: [row[k] for row in rows] for k in rows[0]}, pd.DataFrame(rows), pl.DataFrame(rows)]
    for frame in frames:
        seen = Campaign(space, warm_start=[frame]).observations()
        assert seen.values.tolist() == [[1.0]] and seen.points[0] == {"x": 0.1, "y": 0.5}
    with pytest.raises(DataError, match="row 0 of the table has no column value"):
        Campaign(space, warm_start=[[{"x": 0.1, "y": 0.5}]])
    with pytest.raises(DataError, match="takes campaigns, data frames and lists of dicts, found int"):
        Campaign(space, warm_start=[3])


def test_the_table_and_its_files(tmp_path):
    import pandas as pd

    choices = {"state": Categorical(["a", 1]), "m": Real(0, 1, when={"state": "a"})}
    campaign = Campaign(Space(choices), {"y": "maximize"})
    campaign.add({"state": "a", "m": 0.1 + 0.2}, 1 / 3, noise=0.5)
    campaign.add({"state": 1}, failed='broke, "badly"\nin two')
    campaign.ask()
    table = campaign.to_table()
    assert list(table)[:5] == ["number", "trial_state", "state", "m", "y"]
    assert table["trial_state"] == ["done", "failed", "pending"] and table["m"][:2] == [0.1 + 0.2, None]
    assert table["created"][0].startswith("20") and table["finished"][2] is None
    assert table["source"] == ["added", "added", None] and table["why"][2] == "In order."
    csv = pd.read_csv(campaign.export(tmp_path / "a.csv"))
    parquet = pd.read_parquet(campaign.export(tmp_path / "a.parquet"))
    assert csv["y"][0] == parquet["y"][0] == 1 / 3 and csv["reason"][1] == 'broke, "badly"\nin two'
    assert list(csv.columns) == list(parquet.columns) == list(table)
    assert parquet["state"].tolist()[:2] == ["a", "1"]
    with pytest.raises(DataError, match=r"export writes .csv or .parquet, found 'a.xlsx'"):
        campaign.export(tmp_path / "a.xlsx")
    with pytest.raises(OSError, match="cannot write"):
        campaign.export(tmp_path / "no" / "a.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.parquet"]


def test_text_that_is_a_formula_is_quoted_in_an_export(tmp_path):
    space = Space({"=x": Real(0, 1), "how": Categorical(["=1+1", "-go", "@me", "plain"])})
    campaign = Campaign(space)
    for how in ("=1+1", "-go", "@me", "plain"):
        campaign.add({"=x": 0.5, "how": how}, -1.0)
    campaign.add({"=x": 0.5, "how": "plain"}, failed="+cmd|' /C calc'!A0")
    lines = campaign.export(tmp_path / "out.csv").read_text().splitlines()
    assert "'=x" in lines[0] and "-1.0" in lines[1], "numbers stay numbers"
    assert [quoted in line for quoted, line in zip(("'=1+1", "'-go", "'@me", ",plain,"), lines[1:], strict=False)] == [
        True
    ] * 4
    assert "'+cmd" in lines[5]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "..", "a/b\\c", "", "plain", "C:x"])
def test_a_file_is_named_after_a_campaign_in_this_folder(name):
    from pathlib import Path

    from credo.decide.campaign.exchange import file_name

    found = file_name(name)
    assert Path(found).name == found and found not in ("", ".", "..") and not set(found) & set("/\\:")
    assert found == "plain" or name != "plain"
