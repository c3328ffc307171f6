"""A nursery of processes that ask and tell, for `test_crowd.py`: it imports once and forks what it is told to.

Reads lines of JSON, [output file, command, target, …], and answers each with the process it has forked.
Suggestions come from one Sobol sequence in order, the same for all: whoever asks at the same time wants the same point.
"""

import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings

from credo.decide.campaign.campaign import Campaign
from credo.decide.campaign.trial import Suggestion
from credo.decide.space import Real, Space


class Plain(Campaign):
    """Without the model."""

    def _suggest(self, memory, n, seed):
        points = self.problem.space.sample(n, seed=0, skip=len(memory))
        return [Suggestion(point, "design") for point in points]


def opened(target, lease=60.0):
    return Plain(Space({"x": Real(0.0, 1.0), "y": Real(0.0, 1.0)}), storage=target, lease=lease)


def work(campaign, budget, queue):
    """Until the budget is used up; the opened storage is the parent's, across a fork."""
    told = []
    while trials := campaign.ask_within(1, budget):
        campaign.tell(trials[0], trials[0].point["x"])
        campaign.tell(trials[0], trials[0].point["x"])  # a client that was not sure the first one arrived
        told.append((trials[0].number, trials[0].point["x"]))
    queue.put((os.getpid(), told))


def share(target, workers, budget):
    """Workers that share a campaign, and what each of them told."""
    campaign = opened(target)
    campaign.summary()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    crowd = [context.Process(target=work, args=(campaign, budget, queue)) for _ in range(workers)]
    for process in crowd:
        process.start()
    reports = [queue.get(timeout=300) for _ in crowd]
    for process in crowd:
        process.join()
    print(json.dumps(reports), flush=True)


def hang(target, lease):
    """Ask, and never tell."""
    trial = opened(target, lease).ask()
    print(json.dumps([trial.number, dict(trial.point)]), flush=True)
    time.sleep(600)


def write(target):
    """Ask and tell until killed."""
    campaign = opened(target)
    while True:
        trial = campaign.ask()
        campaign.tell(trial, trial.point["x"])
        print(json.dumps([trial.number, trial.point["x"]]), flush=True)


def main():
    warnings.filterwarnings("ignore", message="os.fork")
    for line in sys.stdin:
        output, command, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdout = sys.stderr = open(output, "w")  # noqa: SIM115
            try:
                {"share": share, "hang": hang, "write": write}[command](*arguments)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    main()
