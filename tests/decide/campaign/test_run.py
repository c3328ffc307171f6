"""Running functions and commands."""

import os
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from credo.core.errors import DataError
from credo.decide.campaign import Campaign, Storage
from credo.decide.campaign.schema import StorageAway, StorageError
from credo.decide.space import Boolean, Real, Space

pytestmark = pytest.mark.usefixtures("without_model")


@pytest.fixture
def objectives(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import objectives

    return objectives


def test_a_run_uses_its_budget_and_goes_on(space, objectives, target):
    campaign = Campaign(space, storage=target)
    campaign.add({"x": 0.5, "y": 0.0}, 0.0)
    said = []
    campaign.run(objectives.bowl, 4, workers=2, progress=lambda share, text: said.append((share, text)))
    assert [t.state for t in campaign.trials] == ["done"] * 5 and campaign.used() == 4
    for trial in campaign.trials[1:]:
        assert trial.value == objectives.bowl(trial.point) and trial.cost >= 0
    assert said[-1][0] == 1.0 and "5 done, 0 failed, 0 pending, best" in said[-1][1]
    campaign.run(objectives.bowl, 4, progress=False)
    assert campaign.used() == 4, "there was nothing left to do"
    assert campaign.run(objectives.bowl, 6, progress=False).used() == 6
    campaign.close()


def test_what_goes_wrong_is_a_failure_with_its_text(space):
    answers = iter([1.0, np.nan, "text", {"value": 2.0}, ValueError("no luck"), SystemExit(3)])

    def function(point):
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    campaign = Campaign(space).run(function, 6, progress=False)
    assert [t.state for t in campaign.trials] == ["done", "failed", "failed", "done", "failed", "failed"]
    reasons = [t.reason for t in campaign.trials]
    assert "is nan" in reasons[1] and "must be a number" in reasons[2]
    assert reasons[4] == "ValueError: no luck" and reasons[5] == "SystemExit: 3"


def test_workers_work_at_the_same_time(space):
    together = threading.Barrier(3, timeout=60)

    def function(point):
        together.wait()
        return 1.0

    campaign = Campaign(space).run(function, 3, workers=3, progress=False)
    assert [t.state for t in campaign.trials] == ["done"] * 3


def test_more_workers_than_points():
    campaign = Campaign(Space({"a": Boolean()})).run(lambda point: float(point["a"]), 5, workers=4, progress=False)
    assert [t.state for t in campaign.trials] == ["done"] * 5


def test_a_slow_evaluation_fails_in_time_and_others_go_on(space):
    waiting = threading.Event()

    def function(point):
        if point["x"] < 0.5:
            waiting.wait(60)
        return 1.0

    campaign = Campaign(space).run(function, 4, workers=2, timeout=0.3, progress=False)
    waiting.set()
    slow = [t for t in campaign.trials if t.point["x"] < 0.5]
    assert slow and all(t.reason == "took longer than 0.3 s" for t in slow)
    assert all(t.state == "done" for t in campaign.trials if t.point["x"] >= 0.5)


def test_processes_may_crash(space, objectives):
    campaign = Campaign(space)
    points = iter([0.1, 0.3, 0.9])
    campaign._suggest = lambda memory, n, seed: [_at(next(points)) for _ in range(n)]
    campaign.run(objectives.fragile, 3, workers=1, progress=False, executor="process")
    outcomes = [(t.point["x"], t.state, t.reason) for t in campaign.trials]
    assert outcomes == [
        (0.1, "failed", "ValueError: x is too small"),
        (0.3, "failed", "the worker process ended with signal 9"),
        (0.9, "done", None),
    ]


def _at(x):
    from credo.decide.campaign.trial import Suggestion

    return Suggestion({"x": x, "y": 0.0}, "design")


def test_a_function_that_cannot_be_sent_is_refused(space):
    campaign = Campaign(space)
    with pytest.raises(DataError, match="cannot be sent to another process .* executor='thread'"):
        campaign.run(lambda point: 1.0, 2, progress=False, executor="process")
    assert [t.state for t in campaign.trials] == ["abandoned"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget must be a whole number"),
        ({"workers": 0}, "workers must be a whole number"),
        ({"timeout": -1}, "timeout must be a number"),
        ({"executor": "cluster"}, 'executor must be "thread" or "process"'),
    ],
)
def test_bad_arguments(space, objectives, options, message):
    with pytest.raises(DataError, match=message):
        Campaign(space).run(objectives.bowl, **{"budget": 3, **options})


def test_ctrl_c_loses_nothing(space, target):
    campaign = Campaign(space, storage=target)

    def function(point):
        if len(campaign.observations()) >= 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        campaign.run(function, 10, progress=False)
    assert [t.state for t in campaign.trials] == ["done", "done", "abandoned"]
    assert campaign.run(lambda point: 2.0, 4, progress=False).used() == 4
    campaign.close()


def test_leases_are_kept_while_a_long_evaluation_runs(space, tmp_path):
    campaign, other = (Campaign(space, storage=tmp_path / "c.db", lease=0.4) for _ in range(2))
    stolen = []

    def function(point):
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            stolen.extend(other.storage.claim(other._id, "thief", 100.0))
            time.sleep(0.02)
        return 1.0

    campaign.run(function, 1, progress=False)
    assert stolen == [] and campaign.trials[0].state == "done"
    campaign.close()
    other.close()


def test_a_result_that_somebody_else_told_first_is_let_go(space, tmp_path):
    campaign, other = (Campaign(space, storage=tmp_path / "c.db") for _ in range(2))

    def function(point):
        other.tell(1, 5.0)
        return 1.0

    campaign.run(function, 1, progress=False)
    assert campaign.trials[0].value == 5.0
    campaign.close()
    other.close()


def test_commands_are_run_and_their_failures_recorded(space):
    code = "import sys; x, y = map(float, sys.argv[1:]);sys.exit('the oven broke') if x < 0.5 else print('loss', x + y)"
    campaign = Campaign(space).run(f'{sys.executable} -c "{code}" {{x}} {{y}}', 4, workers=2, progress=False)
    for trial in campaign.trials:
        if trial.point["x"] < 0.5:
            assert trial.state == "failed" and trial.reason == "the command ended with status 1: the oven broke"
        else:
            np.testing.assert_allclose(trial.value, trial.point["x"] + trial.point["y"], rtol=1e-15)
    assert {t.state for t in campaign.trials} == {"done", "failed"}


def test_a_command_that_takes_too_long_or_prints_nothing(space):
    campaign = Campaign(space).run("sleep 30 {x} {y}", 1, timeout=0.2, progress=False)
    assert campaign.trials[0].reason == "the command took longer than 0.2 s and was stopped"
    campaign = Campaign(space).run("true {x} {y}", 1, progress=False)
    assert "printed nothing; expected value=number, or a number alone in the last" in campaign.trials[0].reason
    with pytest.raises(DataError, match="does not use y"):
        Campaign(space).run("true {x}", 1)


def test_ctrl_c_stops_commands(tmp_path):
    campaign, began = Campaign(Space({"x": Real(0, 1)})), tmp_path / "began"

    def press():
        while not began.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    code = f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(60)"
    thread.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        campaign.run(f'{sys.executable} -c "{code}" {{x}}', 1, progress=False)
    thread.join()
    assert time.monotonic() - started < 30
    assert campaign.trials[0].state == "abandoned"


def test_results_are_kept_while_the_storage_is_away(space, tmp_path, monkeypatch):
    """A run whose results cannot be recorded writes them aside, and the next run tells them."""
    path = tmp_path / "c.db"
    campaign = Campaign(space, storage=Storage.open(path, patience=0.05))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    calls = []

    def function(point):
        calls.append(point)
        if len(calls) == 2:
            other.execute("BEGIN IMMEDIATE")
        return np.float64(point["x"])

    with pytest.raises(StorageError, match=r"1 finished result kept in .*c\.db\.campaign\.untold\.jsonl: the next run"):
        campaign.run(function, 5, progress=False)
    assert [trial.state for trial in campaign.trials] == ["done", "pending"] and len(calls) == 2
    aside = tmp_path / "c.db.campaign.untold.jsonl"
    assert aside.read_text().startswith("[2, ")
    other.execute("COMMIT")
    other.close()
    campaign.run(lambda point: point["x"], 3, progress=False)
    assert [trial.value for trial in campaign.trials[:2]] == [point["x"] for point in calls]
    assert campaign.used() == 3 and not aside.exists()
    campaign.close()


def test_what_is_under_way_goes_on_while_the_storage_is_away(space, tmp_path, monkeypatch):
    """Two workers; the storage is away when the first is through and back when the second is: nothing is lost."""
    campaign = Campaign(space, storage=Storage.open(tmp_path / "c.db", patience=0.05))
    finish, away = campaign.storage.finish, [True]
    second = threading.Event()

    def troubled(*args):
        if away and away.pop():
            second.set()
            raise StorageAway("the server is away")
        return finish(*args)

    monkeypatch.setattr(campaign.storage, "finish", troubled)
    order = iter([False, True, True, True])

    def function(point):
        if next(order):
            assert second.wait(30)
        return point["x"]

    campaign.run(function, 4, workers=2, progress=False)
    assert [trial.state for trial in campaign.trials] == ["done"] * 4
    assert not list(tmp_path.glob("*untold*"))
    campaign.close()
