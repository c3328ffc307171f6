"""The record of campaigns: what was asked, by whom, and what came of it. It is the only truth; clients only remember.

Every change begins by counting it in the row of the campaign, which makes those who write to one campaign wait for
each other, in SQLite and in PostgreSQL alike. So the numbers of trials have no gaps, a client that asks for what
changed since count c misses nothing, and the pending points that a writer sees are all there are.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from credo.decide.campaign import statements as sql
from credo.decide.campaign.database import MEMORY, Database
from credo.decide.campaign.prepared import run
from credo.decide.campaign.schema import StorageError
from credo.decide.campaign.trial import ABANDONED, PENDING, Offer, Outcome, Trial, TrialError, digest


@dataclass(frozen=True)
class Entry:
    """A campaign on record."""

    id: int
    name: str
    space: dict[str, Any]
    settings: dict[str, Any]
    created: float


class Changes(NamedTuple):
    """Trials that changed, in the order of their last change, and the count to ask from the next time."""

    trials: list[Trial]
    reached: int


class Storage:
    """Campaigns in an SQLite file, in PostgreSQL, or in memory."""

    def __init__(self, database: Database):
        self.database = database

    @classmethod
    def open(cls, target: str | Path | None = None, patience: float = 30.0) -> "Storage":
        """The record at a path (SQLite, made if it is not there), at a postgresql:// URL, or in memory (None).

        `patience` is for how many seconds a writer waits for others.
        """
        return cls(Database(MEMORY if target is None else target, patience))

    @property
    def where(self) -> str:
        """The database, without a password."""
        return self.database.where

    def close(self) -> None:
        """Give the connections back."""
        self.database.close()

    # -- campaigns -----------------------------------------------------------------------------------------------------

    def create(self, name: str, space: dict[str, Any], settings: dict[str, Any]) -> tuple[Entry, bool]:
        """The campaign of that name and whether it is new: one that is there already is left as it is."""
        with self.database.write() as connection:
            self.database.lock(connection)
            found = _entry(connection, name)
            if found is not None:
                return found, False
            row = {"name": name, "space": space, "settings": settings, "created": self.database.now()}
            connection.execute(sql.NEW_CAMPAIGN, row)
            made = _entry(connection, name)
            assert made is not None
            return made, True

    def campaign(self, name: str) -> Entry:
        """The campaign of that name; `StorageError` where there is none."""
        with self.database.read() as connection:
            found = _entry(connection, name)
        if found is None:
            names = ", ".join(entry.name for entry in self.campaigns()) or "none"
            raise StorageError(f"there is no campaign {name!r} in {self.where}; there are: {names}")
        return found

    def campaigns(self) -> list[Entry]:
        """All campaigns, oldest first."""
        with self.database.read() as connection:
            return [Entry(*row) for row in connection.execute(sql.ENTRIES)]

    # -- giving points out ---------------------------------------------------------------------------------------------

    def reserve(
        self,
        campaign: int,
        offers: Sequence[Offer],
        worker: str,
        lease: float,
        most: int | None = None,
        since: int | None = None,
    ) -> list[Trial]:
        """Make the offers pending trials, leased for so many seconds, except points that are pending already.

        With `most`, no more than so many trials are pending or told in the end (abandoned ones and results from
        elsewhere do not count). `since` is the count of changes that the offers were made at: a point that somebody
        else was given after that is left out even if its result is there already.
        """
        marks = [digest(offer.point) for offer in offers]
        here = {"in_campaign": campaign}
        with self._change(campaign) as (connection, count):
            now = self.database.now()
            stands = run(connection, sql.STANDING, {**here, "in_since": count if since is None else since})
            number = next(last for mark, last in stands if mark is None)
            taken = {mark for mark, _ in stands}
            room = len(offers)
            if most is not None and most - number < room:  # else there is room even if all numbers count
                room = most - connection.execute(sql.USED, here).scalar_one()
            made: list[Trial] = []
            for mark, offer in zip(marks, offers, strict=True):
                if mark in taken or len(made) >= room:
                    continue
                taken.add(mark)
                number += 1
                row = {**_offered(offer), "number": number, "state": PENDING, "worker": worker, "created": now}
                key = {"campaign": campaign, "digest": mark, "changed": count, "lease_until": now + lease}
                run(connection, sql.NEW_TRIAL, {**row, **key})
                made.append(Trial(**row))
            return made

    def claim(self, campaign: int, worker: str, lease: float, n: int = 1) -> list[Trial]:
        """Up to n pending trials whose lease ran out, oldest first, now leased to this worker."""
        now = self.database.now()
        expired = {"in_campaign": campaign, "in_now": now}
        with self.database.read() as connection:
            if not run(connection, sql.EXPIRED, {**expired, "in_most": 1}):
                return []
        with self._change(campaign) as (connection, count):
            numbers = list(connection.scalars(sql.EXPIRED, {**expired, "in_most": n}))
            mine = {"worker": worker, "lease_until": now + lease, "changed": count}
            connection.execute(sql.LEASED, {**expired, "in_numbers": numbers, **mine})
            return _found(connection, campaign, numbers)

    def heartbeat(self, campaign: int, numbers: Sequence[int], worker: str, lease: float) -> list[int]:
        """Extend the leases of these trials; those that are still pending and this worker's are returned."""
        held = {"in_campaign": campaign, "in_numbers": list(numbers), "in_worker": worker}
        with self.database.write() as connection:
            longer = {"lease_until": self.database.now() + lease}
            return sorted(connection.scalars(sql.EXTENDED, {**held, **longer}))

    def abandon(self, campaign: int, number: int) -> Trial:
        """Give up a pending trial: its point may be suggested again. Nothing happens if it is abandoned already."""
        with self._change(campaign) as (connection, count):
            connection.execute(sql.GIVEN_UP, {"in_campaign": campaign, "in_number": number, "changed": count})
            trial = _one(connection, campaign, number)
            if trial.state != ABANDONED:
                raise TrialError(f"trial {number} is already finished with {trial.outcome}; it cannot be abandoned")
            return trial

    # -- results -------------------------------------------------------------------------------------------------------

    def finish(self, campaign: int, number: int, outcome: Outcome) -> Trial:
        """Record what came of a trial; the same again changes nothing, `TrialError` for something else."""
        with self._change(campaign) as (connection, count):
            told = {**_told(outcome), "finished": self.database.now(), "changed": count}
            rows = run(connection, sql.TOLD, {"in_campaign": campaign, "in_number": number, **told})
            if rows:
                return _with_steps(connection, campaign, rows)[0]
            trial = _one(connection, campaign, number)
            if not outcome.repeats(trial.outcome):
                raise TrialError(
                    f"trial {number} is already finished with {trial.outcome}, and was now told {outcome}; "
                    "add a repeated measurement as a result of its own"
                )
            return trial

    def partial(self, campaign: int, number: int, step: float, value: float, lease: float) -> Trial:
        """Record a result on the way; it also extends the lease, since the trial is alive."""
        with self._change(campaign) as (connection, count):
            trial = _one(connection, campaign, number)
            known = dict(trial.partials)
            if known.get(step, value) != value:
                raise TrialError(f"trial {number} already has {known[step]} at step {step:g}, and was now told {value}")
            if step in known:
                return trial
            if trial.state != PENDING:
                raise TrialError(f"trial {number} is {trial.state}; only a pending trial has results on the way")
            row = {"campaign": campaign, "trial": number, "step": step, "value": value}
            connection.execute(sql.NEW_PARTIAL, row)
            alive = {"lease_until": self.database.now() + lease, "changed": count}
            connection.execute(sql.ALIVE, {"in_campaign": campaign, "in_number": number, **alive})
            return _one(connection, campaign, number)

    def add(self, campaign: int, results: Sequence[tuple[Offer, Outcome]], source: str) -> list[Trial]:
        """Record results that nobody asked for, all or none, in the order given."""
        with self._change(campaign) as (connection, count):
            last = connection.execute(sql.LAST_NUMBER, {"in_campaign": campaign}).scalar_one()
            now = self.database.now()
            made: list[Trial] = []
            for number, (offer, outcome) in enumerate(results, last + 1):
                row = {**_offered(offer), **_told(outcome), "number": number, "source": source}
                row |= {"created": now, "finished": now}
                key = {"campaign": campaign, "digest": digest(offer.point), "changed": count}
                run(connection, sql.NEW_TRIAL, {**row, **key})
                made.append(Trial(**row))
            return made

    # -- reading -------------------------------------------------------------------------------------------------------

    def trials(self, campaign: int, after: int = 0) -> Changes:
        """The trials that changed after that count of changes: all of them after 0."""
        later = {"in_campaign": campaign, "in_after": after}
        with self.database.read() as connection:
            rows = run(connection, sql.CHANGED, later)
            if not rows:
                return Changes([], after)
            stepped = any(row[sql.HAS_STEPS] for row in rows)
            steps = _by_trial(connection.execute(sql.STEPS_CHANGED, later)) if stepped else {}
        return Changes([_to_trial(row, steps) for row in rows], rows[-1][-1])

    @contextmanager
    def _change(self, campaign: int) -> Iterator[tuple[sa.Connection, int]]:
        """A transaction that changes the campaign, and the number of the change."""
        with self.database.write() as connection:
            counted = run(connection, sql.COUNTED, {"in_campaign": campaign})
            if not counted:
                raise StorageError(f"the campaign is no longer in {self.where}")
            yield connection, counted[0][0]


def _entry(connection: sa.Connection, name: str) -> Entry | None:
    row = connection.execute(sql.NAMED, {"in_name": name}).first()
    return None if row is None else Entry(*row)


def _offered(offer: Offer) -> dict[str, Any]:
    why = None if offer.why is None else dict(offer.why)
    return {"point": dict(offer.point), "why": why, "fidelity": offer.fidelity}


def _told(outcome: Outcome) -> dict[str, Any]:
    values = None if outcome.values is None else dict(outcome.values)
    told = {"state": outcome.state, "values": values, "reason": outcome.reason}
    return {**told, "noise": outcome.noise, "cost": outcome.cost}


def _one(connection: sa.Connection, campaign: int, number: int) -> Trial:
    rows = run(connection, sql.TRIAL, {"in_campaign": campaign, "in_number": number})
    if not rows:
        most = connection.execute(sql.LAST_NUMBER, {"in_campaign": campaign}).scalar_one()
        known = f"they go from 1 to {most}" if most else "none was asked yet"
        raise TrialError(f"there is no trial {number}; {known}")
    return _with_steps(connection, campaign, rows)[0]


def _found(connection: sa.Connection, campaign: int, numbers: Sequence[int]) -> list[Trial]:
    """The trials of these numbers, in order."""
    rows = connection.execute(sql.TRIALS, {"in_campaign": campaign, "in_numbers": list(numbers)}).all()
    return _with_steps(connection, campaign, rows)


def _with_steps(connection: sa.Connection, campaign: int, rows: Sequence[Any]) -> list[Trial]:
    numbers = [row[0] for row in rows if row[sql.HAS_STEPS]]
    these = {"in_campaign": campaign, "in_numbers": numbers}
    steps = _by_trial(connection.execute(sql.STEPS, these)) if numbers else {}
    return [_to_trial(row, steps) for row in rows]


def _by_trial(rows: Any) -> dict[int, list[tuple[float, float]]]:
    steps: dict[int, list[tuple[float, float]]] = {}
    for trial, step, value in rows:
        steps.setdefault(trial, []).append((step, value))
    return steps


def _to_trial(row: Any, steps: dict[int, list[tuple[float, float]]]) -> Trial:
    return Trial(**dict(zip(sql.FIELDS, row, strict=False)), partials=tuple(steps.get(row[0], ())))
