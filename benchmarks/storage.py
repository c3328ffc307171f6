"""What a campaign's record costs, without a model: points are drawn at random.

One client, then eight processes that do nothing but ask and tell, then eight whose trials take 50 ms, on one SQLite
file (and on PostgreSQL, where CREDO_TEST_POSTGRES has a URL: `.ci/postgres python -m benchmarks storage`).
"""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import _section, _time, _verdict
from credo.decide.campaign.campaign import Campaign
from credo.decide.campaign.trial import Suggestion
from credo.decide.space import Real, Space

TITLE = "The record of a campaign"
TRIALS, WORKERS = 1000, 8
NAMES = ("a", "b", "c", "d", "e", "f")
CROWDS = {"one client": (1, 0.0), "eight processes": (WORKERS, 0.0), "eight processes with trials": (WORKERS, 0.05)}
"""How many processes ask and tell, and the seconds that a trial takes each of them."""


class Plain(Campaign):
    """Asks no model."""

    def _suggest(self, memory: Any, n: int, seed: int) -> list[Suggestion]:
        memory.observations()  # what the model would be given
        rng = np.random.default_rng()
        return [Suggestion(dict(zip(NAMES, row, strict=True)), "random") for row in rng.random((n, 6)).tolist()]


def work(campaign: Plain, trial: float, queue: Any) -> None:
    """Until the budget is used up; queues what was told and the seconds of each ask and tell, the trial's apart."""
    told, seconds = [], []
    while True:
        start = time.perf_counter()
        trials = campaign.ask_within(1, TRIALS)
        if not trials:
            break
        asked = time.perf_counter()
        time.sleep(trial)
        told_from = time.perf_counter()
        campaign.tell(trials[0], trials[0].point["a"])
        seconds.append(time.perf_counter() - told_from + asked - start)
        told.append((trials[0].number, trials[0].point["a"]))
    queue.put((told, seconds))


def crowd(target: str, workers: int, trial: float) -> dict[str, Any]:
    """What `workers` processes did, compared with what is on record."""
    name = uuid.uuid4().hex
    campaign = Plain(Space({each: Real(0.0, 1.0) for each in NAMES}), storage=target, name=name)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    start = time.perf_counter()
    processes = [context.Process(target=work, args=(campaign, trial, queue)) for _ in range(workers)]
    for process in processes:
        process.start()
    reports = [queue.get() for _ in processes]
    for process in processes:
        process.join()
    whole = time.perf_counter() - start
    told = [tuple(each) for mine, _ in reports for each in mine]
    record = {trial.number: trial.value for trial in campaign.trials if trial.state == "done"}
    seconds = np.concatenate([np.array(each, float) for _, each in reports])
    return {
        "trials": len(record),
        "lost": sum(record.get(number) != value for number, value in told) + TRIALS - len(told),
        "twice": len(told) - len({number for number, _ in told}),
        "median": float(np.median(seconds)),
        "p95": float(np.quantile(seconds, 0.95)),
        "seconds": whole,
    }


@dataclass(frozen=True)
class Crowd:
    """1000 trials asked and told."""

    name: str
    postgres: bool = False
    note: str = "Seconds are those of one ask and one tell together."

    def run(self) -> str:
        """The task's section of the report."""
        head = ["processes", "trials", "lost", "given twice", "median", "p95", "in all"]
        with tempfile.TemporaryDirectory() as folder:
            target = os.environ.get("CREDO_TEST_POSTGRES") if self.postgres else str(Path(folder) / "campaign.db")
            if target is None:
                return _section(self.name, "Not measured: CREDO_TEST_POSTGRES has no URL.", head, [], "")
            found = {who: in_its_own_process(target, *crowd) for who, crowd in CROWDS.items()}
        rows = [
            [f"{CROWDS[who][0]}, trials of {1e3 * CROWDS[who][1]:g} ms"]
            + [str(each[key]) for key in ("trials", "lost", "twice")]
            + [_time(each[key]) for key in ("median", "p95", "seconds")]
            for who, each in found.items()
        ]
        right = all(each["lost"] == each["twice"] == 0 for each in found.values())
        bar = f"Bar: none lost, none given twice: {_verdict(right)}."
        if not self.postgres:
            bar += "".join(f" p95 of {who} below 20 ms: {_verdict(each['p95'] < 0.02)}." for who, each in found.items())
        return _section(self.name, self.note, head, rows, bar)


def in_its_own_process(target: str, workers: int, trial: float) -> dict[str, Any]:
    """Where nothing has started threads yet, so that forking is safe."""
    command = [sys.executable, "-m", "benchmarks.storage", target, str(workers), str(trial)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


TASKS = [Crowd("SQLite"), Crowd("PostgreSQL", postgres=True)]

if __name__ == "__main__":
    print(json.dumps(crowd(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
