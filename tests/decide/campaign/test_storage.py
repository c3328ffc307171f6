"""The storage suite: what every database must do."""

import pickle
import threading
import time

import pytest
import sqlalchemy as sa

from credo.decide.campaign import schema
from credo.decide.campaign.schema import StorageError
from credo.decide.campaign.storage import Storage
from credo.decide.campaign.trial import Outcome, Suggestion, Trial, TrialError, digest

LONG, OVER = 1000.0, -1.0
"""Leases: one that lasts, one that has run out already."""


@pytest.fixture
def campaign(storage):
    return storage.create("c", {"parameters": {}}, {"seed": 1})[0].id


def points(*xs):
    return [Suggestion({"x": x}, "design") for x in xs]


def test_a_campaign_is_made_once(storage):
    made, is_new = storage.create("a", {"p": [1, "é", None]}, {"seed": 1})
    again, is_still_new = storage.create("a", {"other": 1}, {})
    assert is_new and not is_still_new
    assert again == made == storage.campaign("a")
    assert made.space == {"p": [1, "é", None]} and made.settings == {"seed": 1}
    storage.create("b", {}, {})
    assert [entry.name for entry in storage.campaigns()] == ["a", "b"]


def test_an_unknown_campaign_is_refused_with_the_names_there_are(storage):
    storage.create("pilot", {}, {})
    with pytest.raises(StorageError, match=r"no campaign 'x' in .*; there are: pilot"):
        storage.campaign("x")
    with pytest.raises(StorageError, match="no longer in"):
        storage.reserve(99, points(0.5), "w", LONG)


def test_what_is_reserved_is_on_record(storage, campaign):
    offer = Suggestion({"x": 0.1 + 0.2, "n": 3, "c": "é", "b": True}, "explore", mean=1.5, std=float("nan"))
    (trial,) = storage.reserve(campaign, [offer], "w1", LONG)
    (read,) = storage.trials(campaign).trials
    assert trial == read
    assert trial.number == 1 and trial.state == "pending" and not trial.told
    assert dict(trial.point) == dict(offer.point) and isinstance(trial.point["b"], bool)
    assert trial.why == {"kind": "explore", "mean": 1.5} and trial.worker == "w1"
    assert abs(trial.created - time.time()) < 60 and trial.finished is None


def test_a_pending_point_is_never_given_twice(storage, campaign):
    first = storage.reserve(campaign, points(0.1, 0.2, 0.1), "w1", LONG)
    assert [trial.point["x"] for trial in first] == [0.1, 0.2]
    second = storage.reserve(campaign, points(0.2, 0.3), "w2", LONG)
    assert [(trial.number, trial.point["x"]) for trial in second] == [(3, 0.3)]
    storage.finish(campaign, 2, Outcome({"value": 1.0}))
    assert len(storage.reserve(campaign, points(0.2), "w2", LONG)) == 1, "a told point may be repeated"


def test_the_database_itself_refuses_a_point_that_is_pending_twice(storage, campaign):
    storage.reserve(campaign, points(0.1), "w", LONG)
    row = {"campaign": campaign, "number": 7, "point": {"x": 0.1}, "digest": digest({"x": 0.1}), "state": "pending"}
    with pytest.raises(StorageError, match="refused the change"), storage.database.write() as connection:
        connection.execute(schema.trials.insert().values(**row, created=0.0))


def test_campaigns_do_not_mix(storage, campaign):
    other = storage.create("d", {}, {})[0].id
    storage.reserve(campaign, points(0.1), "w", LONG)
    (trial,) = storage.reserve(other, points(0.1), "w", LONG)
    assert trial.number == 1
    storage.finish(other, 1, Outcome({"value": 1.0}))
    assert storage.trials(campaign).trials[0].state == "pending"


def test_a_budget_is_kept_to_the_trial(storage, campaign):
    storage.add(campaign, [({"x": 9.0}, Outcome({"value": 0.0}))], "added")
    assert len(storage.reserve(campaign, points(1.0, 2.0, 3.0), "w", LONG, most=2)) == 2
    assert storage.reserve(campaign, points(4.0), "w", LONG, most=2) == []
    storage.abandon(campaign, 2)
    assert len(storage.reserve(campaign, points(4.0, 5.0), "w", LONG, most=2)) == 1


# -- leases ------------------------------------------------------------------------------------------------------------


def test_an_expired_lease_is_offered_again_oldest_first(storage, campaign):
    storage.reserve(campaign, points(0.1, 0.2, 0.3), "dead", OVER)
    storage.reserve(campaign, points(0.4), "alive", LONG)
    claimed = storage.claim(campaign, "w2", LONG, 2)
    assert [trial.number for trial in claimed] == [1, 2]
    assert {trial.worker for trial in claimed} == {"w2"}
    assert [trial.number for trial in storage.claim(campaign, "w3", LONG, 5)] == [3]
    assert storage.claim(campaign, "w4", LONG, 5) == []


def test_a_heartbeat_extends_the_leases_that_are_still_held(storage, campaign):
    storage.reserve(campaign, points(0.1, 0.2, 0.3), "w1", OVER)
    assert storage.heartbeat(campaign, [1, 2], "w1", LONG) == [1, 2]
    assert [trial.number for trial in storage.claim(campaign, "w2", LONG, 5)] == [3]
    assert storage.heartbeat(campaign, [1, 2, 3], "w1", LONG) == [1, 2], "the third went to somebody else"
    storage.finish(campaign, 1, Outcome({"value": 1.0}))
    assert storage.heartbeat(campaign, [1, 2], "w1", LONG) == [2]
    assert storage.heartbeat(campaign, [], "w1", LONG) == []


def test_one_expired_trial_goes_to_one_of_many_threads(storage, campaign):
    storage.reserve(campaign, points(*range(5)), "dead", OVER)
    got: list[int] = []

    def work(name):
        got.extend(trial.number for trial in storage.claim(campaign, name, LONG, 2))

    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [1, 2, 3, 4, 5]


def test_a_late_result_counts_if_nobody_was_faster(storage, campaign):
    storage.reserve(campaign, points(0.1, 0.2), "slow", OVER)
    storage.claim(campaign, "w2", LONG, 2)
    assert storage.finish(campaign, 1, Outcome({"value": 1.0})).state == "done"
    with pytest.raises(TrialError, match=r"trial 1 is already finished with 1.0, and was now told 2.0"):
        storage.finish(campaign, 1, Outcome({"value": 2.0}))


# -- results -----------------------------------------------------------------------------------------------------------


def test_the_same_result_again_changes_nothing(storage, campaign):
    storage.reserve(campaign, points(0.1), "w", LONG)
    told = storage.finish(campaign, 1, Outcome({"value": 3.0}, None, 0.1, 2.0))
    reached = storage.trials(campaign).reached
    assert storage.finish(campaign, 1, Outcome({"value": 3.0}, None, 0.1, 2.0)) == told
    assert storage.finish(campaign, 1, Outcome({"value": 3.0})) == told, "less is no contradiction"
    assert storage.trials(campaign, reached).trials == []
    assert told.value == 3.0 and told.noise == 0.1 and told.cost == 2.0 and told.finished is not None


@pytest.mark.parametrize(
    "second",
    [
        Outcome({"value": 3.5}),
        Outcome({"value": 3.0, "cost": 1.0}),
        Outcome({"value": 3.0}, noise=0.5),
        Outcome(None, "exploded"),
    ],
)
def test_another_result_is_refused_and_the_first_stays(storage, campaign, second):
    storage.reserve(campaign, points(0.1), "w", LONG)
    first = storage.finish(campaign, 1, Outcome({"value": 3.0}))
    with pytest.raises(TrialError, match="already finished with 3.0"):
        storage.finish(campaign, 1, second)
    assert storage.trials(campaign).trials == [first]


def test_a_failure_has_a_reason_and_is_final(storage, campaign):
    storage.reserve(campaign, points(0.1), "w", LONG)
    trial = storage.finish(campaign, 1, Outcome(None, "the oven broke", cost=1.0))
    assert (trial.state, trial.reason, trial.values, trial.value) == ("failed", "the oven broke", None, None)
    assert storage.finish(campaign, 1, Outcome(None, "the oven broke")) == trial
    with pytest.raises(TrialError, match="already finished with failed: the oven broke"):
        storage.finish(campaign, 1, Outcome({"value": 1.0}))


def test_unknown_trials_are_refused(storage, campaign):
    with pytest.raises(TrialError, match="there is no trial 1; none was asked yet"):
        storage.finish(campaign, 1, Outcome({"value": 1.0}))
    storage.reserve(campaign, points(0.1, 0.2), "w", LONG)
    with pytest.raises(TrialError, match="there is no trial 3; they go from 1 to 2"):
        storage.finish(campaign, 3, Outcome({"value": 1.0}))
    with pytest.raises(TrialError, match="there is no trial 3"):
        storage.abandon(campaign, 3)
    with pytest.raises(TrialError, match="there is no trial 3"):
        storage.partial(campaign, 3, 1.0, 1.0, LONG)


def test_abandoning_frees_the_point_and_keeps_the_door_open(storage, campaign):
    storage.reserve(campaign, points(0.1), "w", LONG)
    assert storage.abandon(campaign, 1).state == "abandoned"
    assert storage.abandon(campaign, 1).state == "abandoned"
    assert storage.claim(campaign, "w", LONG, 5) == []
    assert [trial.number for trial in storage.reserve(campaign, points(0.1), "w", LONG)] == [2]
    assert storage.finish(campaign, 1, Outcome({"value": 1.0})).state == "done"
    with pytest.raises(TrialError, match="already finished with 1.0; it cannot be abandoned"):
        storage.abandon(campaign, 1)


def test_partial_results_are_kept_in_order_and_keep_the_trial_alive(storage, campaign):
    storage.reserve(campaign, points(0.1), "w", OVER)
    storage.partial(campaign, 1, 2.0, 0.7, LONG)
    storage.partial(campaign, 1, 1.0, 0.5, LONG)
    trial = storage.partial(campaign, 1, 1.0, 0.5, LONG)
    assert trial.partials == ((1.0, 0.5), (2.0, 0.7)) and trial.state == "pending"
    assert storage.trials(campaign).trials == [trial]
    assert storage.claim(campaign, "w2", LONG) == []
    with pytest.raises(TrialError, match="trial 1 already has 0.5 at step 1, and was now told 0.6"):
        storage.partial(campaign, 1, 1.0, 0.6, LONG)
    assert storage.finish(campaign, 1, Outcome({"value": 1.0})).partials == trial.partials
    with pytest.raises(TrialError, match="trial 1 is done"):
        storage.partial(campaign, 1, 3.0, 0.6, LONG)


def test_results_from_elsewhere(storage, campaign):
    storage.reserve(campaign, points(0.1), "w", LONG)
    added = storage.add(campaign, [({"x": 0.1}, Outcome({"value": 1.0})), ({"x": 0.1}, Outcome(None, "no"))], "lab")
    assert [(t.number, t.state, t.source) for t in added] == [(2, "done", "lab"), (3, "failed", "lab")]
    assert storage.trials(campaign).trials[1:] == added


# -- reading -----------------------------------------------------------------------------------------------------------


def test_only_what_changed_is_read_in_the_order_of_telling(storage, campaign):
    storage.reserve(campaign, points(0.1, 0.2, 0.3), "w", LONG)
    everything = storage.trials(campaign)
    assert len(everything.trials) == 3
    assert storage.trials(campaign, everything.reached) == ([], everything.reached)
    storage.finish(campaign, 3, Outcome({"value": 1.0}))
    storage.finish(campaign, 1, Outcome({"value": 2.0}))
    later = storage.trials(campaign, everything.reached)
    assert [trial.number for trial in later.trials] == [3, 1]
    storage.partial(campaign, 2, 1.0, 0.5, LONG)
    (only,) = storage.trials(campaign, later.reached).trials
    assert only.number == 2 and only.partials == ((1.0, 0.5),)


def test_numbers_survive_the_round_trip_exactly(storage, campaign):
    hard = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.123456789]
    storage.reserve(campaign, points(*hard), "w", LONG)
    for number, value in enumerate(hard, 1):
        storage.finish(campaign, number, Outcome({"value": value}, None, abs(value), 1 / 7))
    for trial, value in zip(storage.trials(campaign).trials, hard, strict=True):
        assert trial.point["x"] == trial.value == value and trial.noise == abs(value) and trial.cost == 1 / 7


def test_a_storage_can_be_opened_twice_and_sent_to_another_process(storage, target, campaign):
    other = Storage.open(target)
    other.reserve(campaign, points(0.1), "w", LONG)
    sent = pickle.loads(pickle.dumps(storage))
    assert len(sent.trials(campaign).trials) == 1
    other.close()
    sent.close()


def test_a_lease_does_not_outlive_a_clock_that_was_set_back(storage, monkeypatch):
    campaign = storage.create("c", {}, {})[0].id
    storage.reserve(campaign, [Suggestion({"x": 1.0}, "design")], "gone", 600.0)
    assert storage.claim(campaign, "w", 600.0) == []
    now = storage.database.now()
    monkeypatch.setattr(storage.database, "now", lambda: now - 86_400.0)
    assert [trial.number for trial in storage.claim(campaign, "w", 600.0)] == [1]
    assert storage.claim(campaign, "v", 10.0) == [], "it now has as long as a lease is"
    monkeypatch.setattr(storage.database, "now", lambda: now + 86_400.0)
    assert [trial.number for trial in storage.claim(campaign, "v", 10.0)] == [1]


def test_an_older_layout_is_upgraded_and_a_newer_one_refused(target):
    made = Storage.open(target)
    key = "SERIAL" if made.database.is_postgres else "INTEGER"
    with made.database.write() as connection:
        schema.LAYOUT.drop_all(connection)
        for statement in (
            f"CREATE TABLE credo_campaigns (id {key} PRIMARY KEY, name TEXT NOT NULL UNIQUE, space JSON NOT NULL,"
            " settings JSON NOT NULL, created DOUBLE PRECISION NOT NULL)",
            "CREATE TABLE credo_trials (campaign INTEGER NOT NULL REFERENCES credo_campaigns (id),"
            " number INTEGER NOT NULL, point JSON NOT NULL, digest VARCHAR(64) NOT NULL, state VARCHAR(9) NOT NULL,"
            ' "values" JSON, reason TEXT, why JSON, worker TEXT, lease_until DOUBLE PRECISION,'
            " created DOUBLE PRECISION NOT NULL, finished DOUBLE PRECISION, PRIMARY KEY (campaign, number))",
            "CREATE UNIQUE INDEX credo_pending_once ON credo_trials (campaign, digest) WHERE state = 'pending'",
            "INSERT INTO credo_campaigns (name, space, settings, created) VALUES ('old', '{\"p\": 1}', '{}', 5.0)",
            "INSERT INTO credo_trials VALUES (1, 1, '{\"x\": 0.5}', 'd1', 'pending', NULL, NULL, NULL, 'w',"
            " 1.0, 2.0, NULL)",
            "INSERT INTO credo_trials VALUES (1, 2, '{\"x\": 0.6}', 'd2', 'done', '{\"value\": 3.5}', NULL, NULL, 'w',"
            " NULL, 2.0, 9.0)",
            "INSERT INTO credo_trials VALUES (1, 3, '{\"x\": 0.7}', 'd3', 'failed', NULL, 'oven', NULL, 'w',"
            " NULL, 2.0, 8.0)",
        ):
            connection.execute(sa.text(statement.replace(": ", "\\: ")))
    made.close()

    storage = Storage.open(target)
    entry = storage.campaign("old")
    assert entry.space == {"p": 1}
    trials = storage.trials(entry.id).trials
    assert [(t.number, t.state, t.value, t.reason) for t in trials] == [
        (3, "failed", None, "oven"),
        (2, "done", 3.5, None),
        (1, "pending", None, None),
    ]
    assert storage.claim(entry.id, "w2", LONG)[0].number == 1
    told = storage.finish(entry.id, 1, Outcome({"value": 1.0}, None, 0.25, 2.0))
    assert told.noise == 0.25
    assert storage.reserve(entry.id, points(0.8), "w", LONG)[0].number == 4
    assert storage.create("new", {}, {})[1]
    with storage.database.write() as connection:
        assert schema.found_version(connection) == schema.VERSION
        connection.execute(schema.version.update().values(version=schema.VERSION + 2))
    storage.close()
    with pytest.raises(StorageError, match=rf"newer credo: its layout is {schema.VERSION + 2} .* upgrade credo"):
        Storage.open(target)


def test_a_failed_upgrade_changes_nothing(target, monkeypatch):
    Storage.open(target).close()

    def broken(connection):
        connection.exec_driver_sql("CREATE TABLE credo_half (x INTEGER)")
        raise StorageError("the upgrade broke")

    monkeypatch.setattr(schema, "UPGRADES", (*schema.UPGRADES, broken))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr("credo.decide.campaign.database.VERSION", schema.VERSION)
    with pytest.raises(StorageError, match="the upgrade broke"):
        Storage.open(target)
    monkeypatch.undo()
    storage = Storage.open(target)
    with storage.database.read() as connection:
        assert not sa.inspect(connection).has_table("credo_half")
        assert schema.found_version(connection) == schema.VERSION
    storage.close()


def test_the_digest_does_not_depend_on_order_or_the_sign_of_zero():
    assert digest({"a": 1, "b": 0.0}) == digest({"b": -0.0, "a": 1})
    assert digest({"a": 1}) != digest({"a": 1.5}) != digest({"a": "1.5"})


def test_an_outcome_in_words():
    assert str(Outcome({"value": 3.0})) == "3.0"
    assert str(Outcome({"a": 1.0, "b": None})) == "a = 1.0, b = None"
    assert Trial(1, {}, "failed", reason="no").outcome.state == "failed"
