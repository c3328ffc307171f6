"""What a client remembers of a record, so that it reads only what has changed."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from credo.decide.campaign.problem import Observations, Problem
from credo.decide.campaign.storage import Storage
from credo.decide.campaign.trial import ABANDONED, PENDING, Hyper, Trial, TrialError

if TYPE_CHECKING:
    from credo.decide.campaign.model import Model


class Memory:
    """The trials of a campaign as they were at the last `refresh`; threads may share it."""

    def __init__(self, storage: Storage, campaign: int, problem: Problem):
        self._storage, self._campaign, self._problem = storage, campaign, problem
        self._guard = threading.RLock()
        self._trials: dict[int, Trial] = {}
        self._pending: dict[int, Trial] = {}
        self._fresh: list[Trial] = []
        self._seen = Observations.of(problem, [])
        self._others = 0
        self._hyper: tuple[int, Sequence[Hyper] | None] = (0, None)
        self._model: tuple[int, Model] | None = None
        self.count = 0
        """Of the changes that it knows."""

    def refresh(self) -> "Memory":
        """Itself, with what has changed since the last time."""
        with self._guard:
            changes = self._storage.trials(self._campaign, self.count)
            for trial in changes.trials:
                self._learn(trial)
            self.count = changes.reached
        return self

    def _learn(self, trial: Trial) -> None:
        known = self._trials.get(trial.number)
        self._trials[trial.number] = trial
        if trial.state == PENDING:
            self._pending[trial.number] = trial
        else:
            self._pending.pop(trial.number, None)
        if trial.told and not (known and known.told):
            self._fresh.append(trial)
        self._others += _is_other(trial) - (known is not None and _is_other(known))
        if trial.why and trial.number > self._hyper[0] and "hyper" in trial.why:
            self._hyper = (trial.number, trial.why["hyper"])

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, number: int) -> Trial:
        if number not in self._trials:
            known = f"they go from 1 to {len(self)}" if len(self) else "none was asked yet"
            raise TrialError(f"there is no trial {number}; {known}")
        return self._trials[number]

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order of their numbers."""
        with self._guard:
            return [self._trials[number] for number in sorted(self._trials)]

    @property
    def pending(self) -> list[Trial]:
        """The trials that are being worked on, in the order of their numbers."""
        with self._guard:
            return [self._pending[number] for number in sorted(self._pending)]

    @property
    def used(self) -> int:
        """How many trials are told or pending, without results from elsewhere."""
        return len(self._trials) - self._others

    @property
    def hyper(self) -> Sequence[Hyper] | None:
        """The hyperparameters behind the last suggestion."""
        return self._hyper[1]

    def model(self) -> "Model":
        """What is believed after `observations`: learned anew only where something has changed."""
        from credo.decide.campaign.model import model_of

        with self._guard:
            if self._model is None or self._model[0] != self.count:
                self._model = self.count, model_of(self._problem, self.observations(), self.hyper)
            return self._model[1]

    def observations(self) -> Observations:
        """What was told, in the order of telling."""
        with self._guard:
            if self._fresh:
                self._seen += Observations.of(self._problem, self._fresh)
                self._fresh = []
            return self._seen


def _is_other(trial: Trial) -> bool:
    return trial.state == ABANDONED or trial.source is not None
