"""Running a campaign here: workers that evaluate, and the loop that asks for them and tells what they found.

A worker is a thread, or a process that can be stopped and may crash; either waits at its end of a pipe for points.
Only the loop talks to the storage, so a worker has nothing to lose.
"""

import contextlib
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from credo.core.checks import check_count
from credo.core.errors import CredoError, DataError
from credo.decide.campaign.command import Command
from credo.decide.campaign.kept_results import Answer, Kept
from credo.decide.campaign.problem import check_amount
from credo.decide.campaign.schema import StorageError
from credo.decide.campaign.trial import Trial, TrialError
from credo.decide.space.parameters import Value
from credo.infer.progress import Progress, Show

if TYPE_CHECKING:
    from credo.decide.campaign.campaign import Campaign

READY = "ready"
_BEATS = 4
"""Leases are extended so many times before they would run out."""


def serve(pipe: Connection, function: Callable[..., object], alone: bool) -> None:
    """A worker: point after point, until the other end of the pipe is closed. `alone` in its process, or a thread."""
    if alone:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the loop, which then ends this process
    with contextlib.suppress(EOFError, OSError):
        pipe.send(READY)
        while True:
            number, point = pipe.recv()
            answer = _tried(function, number, point)
            try:
                pipe.send(answer)
            except OSError:
                raise
            except Exception as error:  # what cannot be pickled
                pipe.send(Answer(None, f"the value cannot be sent back: {error}", answer.seconds))


def _tried(function: Callable[..., object], number: int, point: dict[str, Value]) -> Answer:
    start = time.perf_counter()
    value, failed = None, None
    try:
        value = function.run(point, number) if isinstance(function, Command) else function(point)
    except CredoError as error:
        failed = str(error)
    except (Exception, SystemExit) as error:
        failed = f"{type(error).__name__}: {error}"
    return Answer(value, failed, time.perf_counter() - start)


class Worker:
    """The loop's end of a pipe to a thread or a process."""

    def __init__(self, function: Callable[..., object], executor: str):
        self.pipe, theirs = multiprocessing.Pipe()
        self.ready, self.gone, self.since = False, False, 0.0
        self.trial: Trial | None = None
        self._process: BaseProcess | None = None
        if executor == "thread":
            threading.Thread(target=serve, args=(theirs, function, False), daemon=True).start()
            return
        # A forked process would have JAX's locks but not its threads.
        self._process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(theirs, function, True), daemon=True
        )
        try:
            self._process.start()
        except (AttributeError, TypeError, ValueError, multiprocessing.ProcessError, OSError, ImportError) as error:
            raise _cannot_send(error) from None
        except Exception as error:
            if "pickle" not in type(error).__name__.lower():
                raise
            raise _cannot_send(error) from None
        finally:
            theirs.close()

    def give(self, trial: Trial) -> None:
        """A point to evaluate."""
        self.trial, self.since = trial, time.monotonic()
        self.pipe.send((trial.number, dict(trial.point)))

    def take(self) -> Answer | None:
        """What it says, None if it is only ready to begin; a process that ended unasked has failed."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            if self._process is not None:
                self._process.join(5.0)
            code = getattr(self._process, "exitcode", None)
            if not self.ready:
                raise DataError(
                    "a worker process did not start: a script that runs a campaign with processes must do so under "
                    "if __name__ == '__main__':, and the function must be importable; or use executor='thread'"
                ) from None
            self.gone = True
            how = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
            return Answer(None, f"the worker process ended with {how}", time.monotonic() - self.since)
        if isinstance(said, str):
            self.ready = True
            return None
        return said

    def stop(self) -> None:
        """End it: a process at once, a thread when it is through with its point."""
        self.pipe.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()


class Crew:
    """Workers, and the trials that they hold."""

    def __init__(self, campaign: "Campaign", hire: Callable[[], Worker], size: int, timeout: float | None):
        self._campaign, self._hire, self._size, self._timeout = campaign, hire, size, timeout
        self._workers: list[Worker] = []
        self._held: dict[int, Trial] = {}
        self._results = Kept(campaign)
        self._beat = time.monotonic()

    def work(self, budget: int, say: Show) -> None:
        """Until nothing is left to do within the budget.

        Where the storage is away, what is being evaluated goes on, and its results are kept until they are recorded.
        """
        campaign = self._campaign
        while True:
            trouble = None
            try:
                self._results.tell_again()
                self._assign(budget)
                say(min(1.0, campaign.used() / budget), campaign.summary())
            except StorageError as error:
                trouble = error
            busy = [worker for worker in self._workers if worker.trial is not None]
            if not busy and trouble is not None:
                raise self._left(trouble)
            if not busy:
                return
            heard = wait([worker.pipe for worker in busy], self._pause(busy))
            for worker in busy:
                self._hear(worker, worker.pipe in heard)
            if time.monotonic() - self._beat > campaign.lease / _BEATS and trouble is None:
                with contextlib.suppress(StorageError):
                    campaign.heartbeat(self._held)
                self._beat = time.monotonic()

    def _left(self, trouble: StorageError) -> StorageError:
        if not len(self._results):
            return trouble
        n, path = len(self._results), self._results.path
        return StorageError(f"{trouble}; {n} finished result{'s' * (n > 1)} kept in {path}: the next run records them")

    def dismiss(self) -> None:
        """End the workers; what they have not finished may be asked for again."""
        for number in self._held:
            with contextlib.suppress(CredoError):
                self._campaign.abandon(number)
        for worker in self._workers:
            worker.stop()

    def _assign(self, budget: int) -> None:
        free = self._size - len(self._held)
        try:
            given = self._campaign.ask_within(free, budget) if free else []
        except TrialError:  # every point of a small space is pending
            if not self._held:
                raise
            given = []
        self._held.update({trial.number: trial for trial in given})
        idle = [worker for worker in self._workers if worker.trial is None]
        for trial in given:
            if not idle:
                idle.append(self._hire())
                self._workers.append(idle[0])
            idle.pop().give(trial)

    def _pause(self, busy: list[Worker]) -> float:
        pause = self._campaign.lease / _BEATS
        if self._timeout is not None:
            pause = min(pause, *(worker.since + self._timeout - time.monotonic() for worker in busy))
        return max(0.0, pause)

    def _hear(self, worker: Worker, spoke: bool) -> None:
        answer = worker.take() if spoke else None
        late = answer is None and self._timeout is not None and time.monotonic() - worker.since > self._timeout
        if late:
            answer = Answer(None, f"took longer than {self._timeout:g} s", time.monotonic() - worker.since)
        if answer is None:
            return
        assert worker.trial is not None
        self._results.tell(worker.trial, answer)
        del self._held[worker.trial.number]
        worker.trial = None
        if late or worker.gone:
            self._workers.remove(worker)
            worker.stop()


def run(
    campaign: "Campaign",
    function: Callable[..., object] | str,
    budget: int,
    workers: int = 1,
    timeout: object = None,
    progress: Show | bool = True,
    executor: str = "thread",
) -> None:
    """Until `budget` trials of the campaign are told or with somebody else: ask, evaluate, tell."""
    check_count(budget, "budget")
    check_count(workers, "workers")
    timeout = check_amount(timeout, "timeout")
    if not isinstance(executor, str) or executor not in ("thread", "process"):
        raise DataError(f'executor must be "thread" or "process", found {executor!r}')
    if isinstance(function, str):
        problem = campaign.problem
        function = Command(function, problem.space.names, problem.outcomes, timeout)
    if isinstance(function, Command):
        executor, timeout = "thread", None  # the command is a process and keeps time itself
    crew = Crew(campaign, lambda: Worker(function, executor), workers, timeout)
    with Progress(progress) as say:
        try:
            crew.work(budget, say)
        finally:
            if isinstance(function, Command):
                function.stop()
            crew.dismiss()


def _cannot_send(error: Exception) -> DataError:
    return DataError(
        f"the function cannot be sent to another process ({error}); define it at the top of a module, "
        "or use executor='thread'"
    )
