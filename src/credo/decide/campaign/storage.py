"""The record of campaigns: what was asked, by whom, and what came of it. It is the only truth; clients only remember.

Every change begins by counting it in the row of the campaign, which makes those who write to one campaign wait for
each other, in SQLite and in PostgreSQL alike. So the numbers of trials have no gaps, a client that asks for what
changed since count c misses nothing, and the pending points that a writer sees are all there are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import sqlalchemy as sa

from credo.decide.campaign import schema
from credo.decide.campaign.database import MEMORY, PATIENCE, Database
from credo.decide.campaign.schema import StorageError
from credo.decide.campaign.trial import ABANDONED, PENDING, Outcome, Suggestion, Trial, TrialError, digest
from credo.decide.space.as_json import JSON
from credo.decide.space.parameters import Point

P = ParamSpec("P")
T = TypeVar("T")
_campaigns, _trials, _partials = schema.campaigns.c, schema.trials.c, schema.partials.c
_ENTRY = sa.select(_campaigns.id, _campaigns.name, _campaigns.space, _campaigns.settings, _campaigns.created)
_FIELDS = tuple(field.name for field in fields(Trial) if field.name != "partials")
_HAS_STEPS = (
    sa.exists()
    .where(_partials.campaign == _trials.campaign, _partials.trial == _trials.number)
    .correlate(schema.trials)
    .label("has_steps")
)
_READ = sa.select(*(_trials[name] for name in _FIELDS), _HAS_STEPS).order_by(_trials.changed, _trials.number)
"""What a `Trial` is made of, and whether it has results on the way, in the order of their last change."""
_WAY = sa.select(_partials.trial, _partials.step, _partials.value).order_by(_partials.trial, _partials.step)
_LAST_NUMBER = sa.select(sa.func.coalesce(sa.func.max(_trials.number), 0))
_INSERT, _UPDATE = schema.trials.insert(), schema.trials.update()
CLOCKS = 60.0
"""Seconds by which clocks of machines may differ."""


def _again(method: Callable[P, T]) -> Callable[P, T]:
    """What changes nothing when it is done twice is done again where the database went away in the middle."""

    @wraps(method)
    def patiently(*args: P.args, **options: P.kwargs) -> T:
        storage: Any = args[0]
        return storage.database.patiently(lambda: method(*args, **options))

    return patiently


@dataclass(frozen=True)
class Entry:
    """A campaign on record."""

    id: int
    name: str
    space: JSON
    settings: JSON
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
    def open(cls, target: str | Path | None = None, patience: float = PATIENCE) -> "Storage":
        """The record at a path (SQLite, made if it is not there), at a postgresql:// URL, or in memory (None).

        `patience` is for how many seconds a writer waits for others, and everybody for a database that is away.
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

    def create(self, name: str, space: JSON, settings: JSON) -> tuple[Entry, bool]:
        """The campaign of that name and whether it is new: one that is there already is left as it is."""
        with self.database.write() as connection:
            self.database.lock(connection)
            found = _entry(connection, name)
            if found is not None:
                return found, False
            row = {"name": name, "space": space, "settings": settings, "created": self.database.now()}
            connection.execute(schema.campaigns.insert(), row)
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
            return [Entry(*row) for row in connection.execute(_ENTRY.order_by(_campaigns.id))]

    # -- giving points out ---------------------------------------------------------------------------------------------

    def reserve(
        self,
        campaign: int,
        suggestions: Sequence[Suggestion],
        worker: str,
        lease: float,
        most: int | None = None,
        since: int | None = None,
    ) -> list[Trial]:
        """Make the points pending trials, leased for so many seconds, except those that are pending already.

        With `most`, no more than so many trials are pending or told in the end (abandoned ones and results from
        elsewhere do not count). `since` is the count of changes that the suggestions were made at: a point that
        somebody else was given after that is left out even if its result is there already.
        """
        with self._change(campaign) as (connection, count):
            here, now = _trials.campaign == campaign, self.database.now()
            later = _trials.changed > (count if since is None else since)
            given = sa.select(_trials.digest).where(here, sa.or_(_trials.state == PENDING, later))
            taken = set(connection.scalars(given))
            number, room = _last_number(connection, campaign), len(suggestions)
            if most is not None and most - number < room:  # else there is room even if all numbers count
                counts = (here, _trials.state != ABANDONED, _trials.source.is_(None))
                room = most - connection.execute(sa.select(sa.func.count()).where(*counts)).scalar_one()
            made: list[Trial] = []
            for each in suggestions:
                mark = digest(each.point)
                if mark in taken or len(made) >= room:
                    continue
                taken.add(mark)
                number += 1
                trial = Trial(number, dict(each.point), PENDING, why=each.why(), worker=worker, created=now)
                _insert(connection, campaign, trial, count, now + lease, lease)
                made.append(trial)
            return made

    def claim(self, campaign: int, worker: str, lease: float, n: int = 1) -> list[Trial]:
        """Up to n pending trials whose lease ran out, oldest first, now leased to this worker."""
        now = self.database.now()
        # A lease that has longer to go than it ever had: the clock was set back.
        ended = sa.or_(_trials.lease_until < now, _trials.lease_until > now + _trials.lease + CLOCKS)
        over = (_trials.campaign == campaign, _trials.state == PENDING, ended)
        expired = sa.select(_trials.number).where(*over).order_by(_trials.number)
        with self.database.read() as connection:
            if connection.execute(expired.limit(1)).first() is None:
                return []
        with self._change(campaign) as (connection, count):
            numbers = list(connection.scalars(expired.limit(n)))
            these = (_trials.campaign == campaign, _trials.number.in_(numbers))
            mine = {"worker": worker, "lease_until": now + lease, "lease": lease, "changed": count}
            connection.execute(_UPDATE.where(*these).values(mine))
            return _read(connection, these)

    @_again
    def heartbeat(self, campaign: int, numbers: Sequence[int], worker: str, lease: float) -> list[int]:
        """Extend the leases of these trials; those that are still pending and this worker's are returned."""
        these = (_trials.campaign == campaign, _trials.number.in_(numbers))
        held = (*these, _trials.state == PENDING, _trials.worker == worker)
        with self.database.write() as connection:
            longer = _UPDATE.where(*held).values(lease_until=self.database.now() + lease, lease=lease)
            return sorted(connection.scalars(longer.returning(_trials.number)))

    @_again
    def abandon(self, campaign: int, number: int) -> Trial:
        """Give up a pending trial: its point may be suggested again. Nothing happens if it is abandoned already."""
        with self._change(campaign) as (connection, count):
            gone = {"state": ABANDONED, "lease_until": None, "changed": count}
            _update(connection, campaign, number, (PENDING,), gone)
            trial = _one(connection, campaign, number)
            if trial.state != ABANDONED:
                raise TrialError(f"trial {number} is already finished with {trial.outcome}; it cannot be abandoned")
            return trial

    # -- results -------------------------------------------------------------------------------------------------------

    @_again
    def finish(self, campaign: int, number: int, outcome: Outcome) -> Trial:
        """Record what came of a trial; the same again changes nothing, `TrialError` for something else."""
        with self._change(campaign) as (connection, count):
            told = {**_told(outcome), "finished": self.database.now(), "lease_until": None, "changed": count}
            is_new = _update(connection, campaign, number, (PENDING, ABANDONED), told)
            trial = _one(connection, campaign, number)
            if not is_new and not outcome.repeats(trial.outcome):
                raise TrialError(
                    f"trial {number} is already finished with {trial.outcome}, and was now told {outcome}; "
                    "add a repeated measurement as a result of its own"
                )
            return trial

    @_again
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
            connection.execute(schema.partials.insert(), row)
            alive = {"lease_until": self.database.now() + lease, "lease": lease, "changed": count}
            _update(connection, campaign, number, (PENDING,), alive)
            return _one(connection, campaign, number)

    def add(self, campaign: int, results: Sequence[tuple[Point, Outcome]], source: str) -> list[Trial]:
        """Record results that nobody asked for, all or none, in the order given."""
        with self._change(campaign) as (connection, count):
            now, made = self.database.now(), []
            for number, (point, outcome) in enumerate(results, _last_number(connection, campaign) + 1):
                trial = Trial(number, dict(point), **_told(outcome), source=source, created=now, finished=now)
                _insert(connection, campaign, trial, count)
                made.append(trial)
            return made

    # -- reading -------------------------------------------------------------------------------------------------------

    @_again
    def trials(self, campaign: int, after: int = 0) -> Changes:
        """The trials that changed after that count of changes, in the order of change: all of them after 0."""
        later = (_trials.campaign == campaign, _trials.changed > after)
        with self.database.read() as connection:
            # The count first: whatever it counts is there when the trials are read.
            count = connection.execute(sa.select(_campaigns.changes).where(_campaigns.id == campaign)).scalar()
            return Changes([], after) if count in (None, after) else Changes(_read(connection, later), count)

    @contextmanager
    def _change(self, campaign: int) -> Iterator[tuple[sa.Connection, int]]:
        """A transaction that changes the campaign, and the number of the change."""
        counted = schema.campaigns.update().where(_campaigns.id == campaign).values(changes=_campaigns.changes + 1)
        with self.database.write() as connection:
            count = connection.execute(counted.returning(_campaigns.changes)).scalar()
            if count is None:
                raise StorageError(f"the campaign is no longer in {self.where}")
            yield connection, count


def _entry(connection: sa.Connection, name: str) -> Entry | None:
    row = connection.execute(_ENTRY.where(_campaigns.name == name)).first()
    return None if row is None else Entry(*row)


def _told(outcome: Outcome) -> JSON:
    values = None if outcome.values is None else dict(outcome.values)
    told = {"state": outcome.state, "values": values, "reason": outcome.reason}
    return {**told, "noise": outcome.noise, "cost": outcome.cost}


def _insert(
    connection: sa.Connection,
    campaign: int,
    trial: Trial,
    count: int,
    lease_until: float | None = None,
    lease: float | None = None,
) -> None:
    row = {name: getattr(trial, name) for name in _FIELDS}
    key = {"campaign": campaign, "digest": digest(trial.point), "changed": count}
    connection.execute(_INSERT, {**row, **key, "lease_until": lease_until, "lease": lease})


def _update(
    connection: sa.Connection, campaign: int, number: int, states: Sequence[str], values: Mapping[str, object]
) -> bool:
    """Whether there is such a trial in one of the states: it then has the values."""
    this = (_trials.campaign == campaign, _trials.number == number, _trials.state.in_(states))
    return connection.execute(_UPDATE.where(*this).values(values)).rowcount > 0


def _last_number(connection: sa.Connection, campaign: int) -> int:
    return connection.execute(_LAST_NUMBER.where(_trials.campaign == campaign)).scalar_one()


def _one(connection: sa.Connection, campaign: int, number: int) -> Trial:
    found = _read(connection, (_trials.campaign == campaign, _trials.number == number))
    if not found:
        most = _last_number(connection, campaign)
        known = f"they go from 1 to {most}" if most else "none was asked yet"
        raise TrialError(f"there is no trial {number}; {known}")
    return found[0]


def _read(connection: sa.Connection, which: Sequence[sa.ColumnElement[bool]]) -> list[Trial]:
    """Trials in the order of their last change, with their results on the way."""
    rows = connection.execute(_READ.where(*which)).all()
    steps: dict[int, list[tuple[float, float]]] = {}
    if any(row.has_steps for row in rows):
        joined = sa.and_(_partials.campaign == _trials.campaign, _partials.trial == _trials.number)
        way = _WAY.join_from(schema.partials, schema.trials, joined)
        for number, step, value in connection.execute(way.where(*which)):
            steps.setdefault(number, []).append((step, value))
    named = (dict(zip(_FIELDS, row, strict=False)) for row in rows)
    return [Trial(**each, partials=tuple(steps.get(each["number"], ()))) for each in named]
