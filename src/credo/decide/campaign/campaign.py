"""A campaign: a space, a goal, and a record that is shared and survives.

    campaign = Campaign(Space({"lr": Real(1e-5, 1e-1, log=True)}), goal="minimize", storage="tuning.db")
    trial = campaign.ask()
    campaign.tell(trial, loss(trial.point))
    campaign.best()

Many clients may ask and tell at once, on many machines with PostgreSQL. The model is computed by the client that
asks, outside of any lock; if another client has taken the point meanwhile, it asks the model again.
"""

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.decide.campaign import exchange
from credo.decide.campaign.problem import Best, Observations, Problem, as_float, check_amount
from credo.decide.campaign.record_cache import Memory
from credo.decide.campaign.storage import Entry, Storage
from credo.decide.campaign.trial import Suggestion, Trial, TrialError, digest
from credo.decide.space import Space
from credo.decide.space.as_json import Checks
from credo.infer.progress import Show

if TYPE_CHECKING:
    from credo.decide.acquisition import Acquisition
    from credo.decide.campaign.advice import Advice
    from credo.decide.campaign.model import Model

ANYWHERE = 1024
"""From how many points one that is not pending is then taken."""
TRIES = 8
"""How often a client that lost its point to another asks anew; the second half of them without the model."""


class Campaign:
    """Experiments towards a goal, on record."""

    problem: Problem
    storage: Storage
    name: str
    lease: float
    created: float
    """When it was begun: seconds since 1970."""

    def __init__(
        self,
        space: Space,
        goal: str | Mapping[str, str] = "maximize",
        storage: Storage | str | Path | None = None,
        name: str = "campaign",
        *,
        seed: int = 0,
        noise: object = None,
        outcome_constraints: Mapping[str, object] | None = None,
        fidelity: str | None = None,
        initial: int | None = None,
        lease: object = 3600.0,
        warm_start: Iterable[object] = (),
        acquisition: "Acquisition | str | None" = None,
    ):
        """Begin a campaign, or go on with the one of that name in the storage.

        Args:
            space: what can be varied.
            goal: "maximize", "minimize", or one of them for each objective by name.
            storage: a path for SQLite, a postgresql:// URL, or None to keep the record in memory.
            name: of the campaign in the storage. One that exists is resumed: space, goal, outcome constraints and
                fidelity must be as they were, the other arguments hold from now on for this client.
            seed: the same seed gives the same suggestions.
            noise: the variance of the outcomes, "learn", or None.
            outcome_constraints: {"temperature": "<= 80"}: what is told beside the objectives and must keep a limit.
            fidelity: the parameter that makes a trial cheap and rough at its low end.
            initial: how many points of a Sobol sequence come first; 2 for each parameter, 5 to 20, if not given.
            lease: after how many seconds without a sign of life a trial is offered to somebody else.
            warm_start: earlier campaigns, or tables with columns for parameters and objectives.
            acquisition: what decides where to look, an object or the name of its class; None for what suits the goal.
        """
        if not isinstance(name, str):
            raise DataError(f"the name of a campaign is text, found {name!r}")
        problem = Problem.of(space, goal, outcome_constraints, noise, fidelity, initial, acquisition, seed)
        kept = storage if isinstance(storage, Storage) else Storage.open(storage)
        entry, is_new = kept.create(name, space.to_json(), problem.to_json())
        differences = [] if is_new else problem.differences(entry.space, entry.settings)
        if differences:
            raise DataError(
                f"the campaign {name!r} exists and differs: {'; '.join(differences)}; "
                "give this one another name, or open the one on record with Campaign.open"
            )
        self._begin(problem, kept, entry, lease)
        exchange.warm_start(self, warm_start)

    @classmethod
    def open(
        cls,
        storage: Storage | str | Path,
        name: str | None = None,
        checks: Checks | None = None,
        lease: object = 3600.0,
    ) -> "Campaign":
        """The campaign of that name in the storage, as it was begun; without a name, the only one there is.

        `checks` gives the functions of black-box constraints by name, since a record cannot hold them.
        """
        kept = storage if isinstance(storage, Storage) else Storage.open(storage)
        if not isinstance(name, str | None):
            raise DataError(f"the name of a campaign is text, found {name!r}")
        if name is None:
            names = [entry.name for entry in kept.campaigns()]
            if len(names) != 1:
                raise DataError(f"{kept.where} has {len(names)} campaigns; give the name, one of: {', '.join(names)}")
            name = names[0]
        entry = kept.campaign(name)
        campaign = cls.__new__(cls)
        campaign._begin(Problem.of(Space.from_json(entry.space, checks), **entry.settings), kept, entry, lease)
        return campaign

    def _begin(self, problem: Problem, storage: Storage, entry: Entry, lease: object) -> None:
        seconds = check_amount(lease, "lease")
        if not seconds:
            raise DataError(f"lease must be a positive number of seconds, found {lease!r}")
        self.problem, self.storage, self.name, self.lease = problem, storage, entry.name, seconds
        self._id, self.created = entry.id, entry.created
        self._memory = Memory(storage, entry.id, problem)

    # -- asking --------------------------------------------------------------------------------------------------------

    @overload
    def ask(self, n: None = None) -> Trial: ...

    @overload
    def ask(self, n: int) -> list[Trial]: ...

    def ask(self, n: int | None = None) -> Trial | list[Trial]:
        """A trial to do next; a list of n of them if n is given. Trials whose lease ran out come first.

        A finite space may have fewer than n points that are not pending; `TrialError` if there is none.
        """
        check_count(1 if n is None else n, "n")
        trials = self.ask_within(1 if n is None else n)
        return trials[0] if n is None else trials

    def ask_within(self, n: int, budget: int | None = None) -> list[Trial]:
        """n trials to do next, or as many as fit into a budget of trials that are told or pending."""
        trials = self.storage.claim(self._id, self.worker, self.lease, n)
        for attempt in range(TRIES):
            wanted = n - len(trials)
            if not wanted:
                return trials
            memory = self._memory.refresh()
            since = memory.count
            if budget is not None and memory.used >= budget:
                return trials
            found = self._suggested(wanted, attempt)
            found = [replace(each, point=self.problem.space.check(each.point)) for each in found]
            trials += self.storage.reserve(self._id, found, self.worker, self.lease, budget, since)
        if not trials and (budget is None or self.used() < budget):
            raise TrialError(
                f"all points that were suggested are pending, {len(self.pending)} in all; "
                "tell or abandon some of them, or widen the space"
            )
        return trials

    def _suggested(self, n: int, attempt: int) -> list[Suggestion]:
        memory = self._memory
        if attempt < TRIES // 2:
            seed = np.random.SeedSequence([self.problem.seed, len(memory), attempt]).generate_state(1)[0]
            return self._suggest(memory, n, int(seed) >> 1)
        seed = np.random.SeedSequence().generate_state(1)[0]
        anywhere = self.problem.space.sample(max(n, ANYWHERE), seed=int(seed) >> 1)
        taken = {digest(trial.point) for trial in memory.pending}
        free = {digest(point): point for point in anywhere if digest(point) not in taken}
        reason = "Others were given what the model suggests: a point from anywhere."
        return [Suggestion(point, "random", reason) for point in list(free.values())[:n]]

    def _suggest(self, memory: Memory, n: int, seed: int) -> list[Suggestion]:
        from credo.decide.campaign import engine

        pending = [trial.point for trial in memory.pending]
        return engine.suggest(self.problem, memory.observations(), pending, n, seed, memory.hyper)

    # -- telling -------------------------------------------------------------------------------------------------------

    def tell(
        self,
        trial: Trial | int,
        value: object = None,
        *,
        failed: str | None = None,
        partial: Mapping[str, object] | None = None,
        noise: object = None,
        cost: object = None,
    ) -> Trial:
        """Record what came of a trial: a value (or a dict of them), the reason of a failure, or a step on the way.

        Args:
            trial: the trial or its number.
            value: the objective; a dict of objectives and constrained outcomes where there are several.
            failed: why there is no value.
            partial: {"step": 3, "value": 0.7}: a result on the way; the trial stays pending, its lease begins anew.
            noise: the variance of the value, if it is known.
            cost: what the trial cost.
        """
        number = _number(trial)
        if partial is not None:
            if value is not None or failed is not None:
                raise DataError("a partial result is told alone, without a value or failed=")
            step, reached = _step(partial, number)
            return self.storage.partial(self._id, number, step, reached, self.lease)
        outcome = self.problem.check_outcome(value, failed, noise, cost, f"trial {number}")
        return self.storage.finish(self._id, number, outcome)

    def add(
        self,
        point: Mapping[str, object],
        value: object = None,
        *,
        failed: str | None = None,
        noise: object = None,
        cost: object = None,
    ) -> Trial:
        """Record a result that was not asked for; it does not count towards a budget."""
        checked = self.problem.space.check(point)
        outcome = self.problem.check_outcome(value, failed, noise, cost)
        return self.storage.add(self._id, [(checked, outcome)], "added")[0]

    def abandon(self, trial: Trial | int) -> Trial:
        """Give up a pending trial: its point may be suggested again, and a late result is still welcome."""
        return self.storage.abandon(self._id, _number(trial))

    def heartbeat(self, trials: Iterable[Trial | int]) -> list[int]:
        """Extend the leases of trials that are being worked on here; the numbers of those that still are ours."""
        if not isinstance(trials, Iterable):
            raise DataError(f"trials must be a list of trials or their numbers, found {trials!r}")
        return self.storage.heartbeat(self._id, [_number(trial) for trial in trials], self.worker, self.lease)

    def run(
        self,
        function: Callable[..., object] | str,
        budget: int,
        workers: int = 1,
        timeout: object = None,
        progress: Show | bool = True,
        executor: str = "thread",
    ) -> "Campaign":
        """Ask, evaluate and tell until the campaign has `budget` trials, failures included; run again to go on.

        Args:
            function: of a point, giving a value or a dict of values; or a command such as "python train.py --lr {lr}",
                see `credo.decide.campaign.command`. What it raises is recorded as a failure.
            budget: how many trials the campaign has in the end, whoever did them; results that were added and
                abandoned trials do not count.
            workers: how many evaluations at a time.
            timeout: after how many seconds an evaluation has failed.
            progress: a bar, nothing, or a function of a share and a text.
            executor: "thread", or "process" for a function that keeps Python busy, may crash or must be stopped in
                time: it is then defined at the top of a module.

        Ctrl-C abandons what is pending here and loses nothing that was told.
        """
        from credo.decide.campaign import run_loop as crew

        crew.run(self, function, budget, workers, timeout, progress, executor)
        return self

    # -- looking -------------------------------------------------------------------------------------------------------

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order of their numbers."""
        return self._memory.refresh().trials

    @property
    def pending(self) -> list[Trial]:
        """The trials that are being worked on, by anybody."""
        return self._memory.refresh().pending

    @property
    def worker(self) -> str:
        """This client's name on its trials."""
        return f"{socket.gethostname()}-{os.getpid()}"

    def observations(self) -> Observations:
        """The results so far."""
        return self._memory.refresh().observations()

    def model(self) -> "Model":
        """What is believed after the results so far: learned once, until something changes."""
        return self._memory.refresh().model()

    def best(self) -> Best:
        """The trial believed best, with what was seen and what is believed of it."""
        from credo.decide.campaign import advice

        return advice.best(self.problem, self.observations(), self._memory.model())

    def advice(self, tolerance: float = 0.0) -> "Advice":
        """Whether to go on: how much better than the best trial the optimum is expected to be."""
        from credo.decide.campaign import advice

        return advice.advice(self.problem, self.model(), tolerance)

    def front(self) -> list[Trial]:
        """The trials that no other dominates, where there are several objectives."""
        from credo.decide.campaign import advice

        memory = self._memory.refresh()
        seen = memory.observations()
        return [memory[int(seen.numbers[i])] for i in advice.front(self.problem, seen)]

    def explain(self, trial: Trial | int) -> str:
        """Why the point of a trial was suggested."""
        found = self._memory.refresh()[_number(trial)]
        if found.source is not None:
            how = "added" if found.source == "added" else f"taken from {found.source}"
            return f"Nobody suggested it: it was {how}."
        return str((found.why or {}).get("reason", "No reason is on record."))

    def used(self) -> int:
        """How many trials are told or pending, without what was added."""
        return self._memory.refresh().used

    def summary(self) -> str:
        """The state in a line: done, failed, pending, best so far."""
        memory = self._memory.refresh()
        seen = memory.observations()
        failed, row = int(seen.failed.sum()), seen.incumbent(self.problem)
        best = "" if row is None or len(self.problem.signs) > 1 else f", best {seen.values[row, 0]:.6g}"
        return f"{len(seen) - failed} done, {failed} failed, {len(memory.pending)} pending{best}"

    def to_table(self) -> dict[str, list[object]]:
        """All trials as columns: numbers and states, parameters, outcomes, and the rest of the record."""
        return exchange.to_table(self)

    def export(self, path: str | Path) -> Path:
        """Write the table as CSV, or as Parquet if the path ends so."""
        return exchange.export(self, path)

    def close(self) -> None:
        """Give the connections to the storage back."""
        self.storage.close()

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_memory"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._memory = Memory(self.storage, self._id, self.problem)

    def __repr__(self) -> str:
        return f"Campaign({self.name!r} in {self.storage.where}: {self.summary()})"


def _number(trial: Trial | int) -> int:
    if isinstance(trial, Trial):
        return trial.number
    check_count(trial, "the number of a trial")
    return int(trial)


def _step(partial: Mapping[str, object], number: int) -> tuple[float, float]:
    if not isinstance(partial, Mapping) or set(partial) != {"step", "value"}:
        raise DataError(f'a partial result is {{"step": 3, "value": 0.7}}, found {partial!r}')
    step, value = as_float(partial["step"]), as_float(partial["value"])
    if not (np.isfinite(step) and np.isfinite(value)):
        what = f"step and value of a partial result of trial {number}"
        raise DataError(f"{what} must be finite numbers, found {partial!r}")
    return step, value
