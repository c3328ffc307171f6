"""Many processes on one record, some of which are killed."""

import contextlib
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from credo.decide.campaign.storage import Storage

CROWD = Path(__file__).parent / "crowd.py"
WORKERS, BUDGET = 8, 200
PATIENCE = 120.0


class Child:
    """A process that writes lines of JSON to a file."""

    def __init__(self, pid, output):
        self.pid, self.output = pid, output

    def lines(self, n):
        """The first n lines, when they are there."""
        give_up = time.monotonic() + PATIENCE
        while True:
            whole = self.output.read_text().splitlines(keepends=True) if self.output.exists() else []
            whole = [line for line in whole if line.endswith("\n")]
            if len(whole) >= n:
                return [json.loads(line) for line in whole]
            assert time.monotonic() < give_up, whole
            time.sleep(0.01)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def nursery():
    """Forking is fast, importing is not."""
    process = subprocess.Popen(
        [sys.executable, str(CROWD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    yield process
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.fixture
def start(nursery, tmp_path):
    children, names = [], itertools.count()

    def started(*arguments):
        output = tmp_path / f"out{next(names)}"
        nursery.stdin.write(json.dumps([str(output), *arguments]) + "\n")
        children.append(Child(int(nursery.stdout.readline()), output))
        return children[-1]

    yield started
    for child in children:
        child.kill()


def test_eight_processes_lose_nothing_and_get_nothing_twice(start, target):
    (reports,) = start("share", target, WORKERS, BUDGET).lines(1)
    told = sorted(tuple(each) for _, mine in reports for each in mine)
    storage = Storage.open(target)
    trials = storage.trials(storage.campaign("campaign").id).trials
    storage.close()
    assert [number for number, _ in told] == list(range(1, BUDGET + 1)), "every number once, none missing"
    assert sorted((trial.number, trial.value) for trial in trials) == told, "the record is what was told"
    assert {trial.state for trial in trials} == {"done"}
    assert len({tuple(sorted(trial.point.items())) for trial in trials}) == BUDGET, "no point was given to two"
    assert len(reports) == len({pid for pid, _ in reports}) == WORKERS
    assert sum(len(mine) > 0 for _, mine in reports) >= 2, "the work was shared"


def test_what_a_killed_worker_had_is_offered_again(start, target):
    child = start("hang", target, 0.5)
    ((number, point),) = child.lines(1)
    child.kill()
    storage = Storage.open(target)
    campaign = storage.campaign("campaign").id
    give_up = time.monotonic() + PATIENCE
    while not (claimed := storage.claim(campaign, "next", 60.0)):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    storage.close()
    assert [(trial.number, dict(trial.point)) for trial in claimed] == [(number, point)]


def test_a_writer_killed_at_any_moment_leaves_a_readable_record(start, target):
    acknowledged = {}
    for beats in (1, 4, 9):
        child = start("write", target)
        child.lines(beats)
        child.kill()
        acknowledged |= dict(child.lines(beats))
    storage = Storage.open(target)
    trials = {trial.number: trial for trial in storage.trials(storage.campaign("campaign").id).trials}
    storage.close()
    assert len(acknowledged) >= 14
    assert sorted(trials) == list(range(1, len(trials) + 1))
    assert {number: trials[number].value for number in acknowledged} == acknowledged, "what was told is there"
    assert len(trials) <= len(acknowledged) + 3 * 2, "at most what was just being written besides"
    if "://" not in target:
        connection = sqlite3.connect(target)
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        connection.close()


def test_clients_that_begin_at_once_make_one_campaign(start, target):
    children = [start("hang", target, 60.0) for _ in range(4)]
    asked = [child.lines(1)[0] for child in children]
    storage = Storage.open(target)
    assert [entry.name for entry in storage.campaigns()] == ["campaign"]
    storage.close()
    assert sorted(number for number, _ in asked) == [1, 2, 3, 4]
    assert len({json.dumps(point, sort_keys=True) for _, point in asked}) == 4
