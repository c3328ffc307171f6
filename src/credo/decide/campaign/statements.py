"""The statements of `storage`, built once: building one costs SQLAlchemy several times what running it costs SQLite.

Parameters that conditions compare with are called `in_…`, so that they are not taken for new values of columns.
"""

from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from credo.decide.campaign import schema
from credo.decide.campaign.trial import ABANDONED, PENDING, Trial

_campaigns, _trials, _partials = schema.campaigns.c, schema.trials.c, schema.partials.c


def _bind(name: str, expanding: bool = False) -> Any:
    return sa.bindparam(f"in_{name}", expanding=expanding)


# -- campaigns ---------------------------------------------------------------------------------------------------------

ENTRY = sa.select(_campaigns.id, _campaigns.name, _campaigns.space, _campaigns.settings, _campaigns.created)
ENTRIES = ENTRY.order_by(_campaigns.id)
NAMED = ENTRY.where(_campaigns.name == _bind("name"))
NEW_CAMPAIGN = schema.campaigns.insert()
COUNTED = (
    schema.campaigns.update()
    .where(_campaigns.id == _bind("campaign"))
    .values(changes=_campaigns.changes + 1)
    .returning(_campaigns.changes)
)
"""Counts a change, and makes others who would change the campaign wait until it is there."""

# -- trials ------------------------------------------------------------------------------------------------------------

FIELDS = tuple(field.name for field in fields(Trial) if field.name != "partials")
"""The columns that a `Trial` is made of, in their order."""
HAS_STEPS = len(FIELDS)
"""The column after them: whether the trial has results on the way."""

_HAS_STEPS = (
    sa.exists()
    .where(_partials.campaign == _trials.campaign, _partials.trial == _trials.number)
    .correlate(schema.trials)
    .label("has_steps")
)
_COLUMNS = [*(_trials[name] for name in FIELDS), _HAS_STEPS]
_HERE = _trials.campaign == _bind("campaign")
_THIS = (_HERE, _trials.number == _bind("number"))
_THESE = (_HERE, _trials.number.in_(_bind("numbers", expanding=True)))
_IS_PENDING = _trials.state == PENDING
_EXPIRED = (_HERE, _IS_PENDING, _trials.lease_until < _bind("now"))

NEW_TRIAL = schema.trials.insert()
LAST_NUMBER = sa.select(sa.func.coalesce(sa.func.max(_trials.number), 0)).where(_HERE)
STANDING = sa.union_all(
    sa.select(sa.null().label("digest"), LAST_NUMBER.scalar_subquery().label("number")),
    sa.select(_trials.digest, _trials.number).where(_HERE, _IS_PENDING),
    sa.select(_trials.digest, _trials.number).where(_HERE, _trials.changed > _bind("since")),
)
"""The last number without a digest, and the digests that are pending, or were so after that count of changes."""
USED = sa.select(sa.func.count()).where(_HERE, _trials.state != ABANDONED, _trials.source.is_(None))
"""How many trials are pending or told, without results from elsewhere."""

TRIAL = sa.select(*_COLUMNS).where(*_THIS)
TRIALS = sa.select(*_COLUMNS).where(*_THESE).order_by(_trials.number)
CHANGED = (
    sa.select(*_COLUMNS, _trials.changed)
    .where(_HERE, _trials.changed > _bind("after"))
    .order_by(_trials.changed, _trials.number)
)
EXPIRED = sa.select(_trials.number).where(*_EXPIRED).order_by(_trials.number).limit(_bind("most"))
LEASED = (
    schema.trials.update()
    .where(*_EXPIRED, _trials.number.in_(_bind("numbers", expanding=True)))
    .values(worker=sa.bindparam("worker"), lease_until=sa.bindparam("lease_until"), changed=sa.bindparam("changed"))
)
EXTENDED = (
    schema.trials.update()
    .where(*_THESE, _trials.state == PENDING, _trials.worker == _bind("worker"))
    .values(lease_until=sa.bindparam("lease_until"))
    .returning(_trials.number)
)
ALIVE = (
    schema.trials.update()
    .where(*_THIS)
    .values(lease_until=sa.bindparam("lease_until"), changed=sa.bindparam("changed"))
)
GIVEN_UP = (
    schema.trials.update()
    .where(*_THIS, _trials.state == PENDING)
    .values(state=ABANDONED, lease_until=None, changed=sa.bindparam("changed"))
)
TOLD = (
    schema.trials.update()
    .where(*_THIS, sa.or_(_IS_PENDING, _trials.state == ABANDONED))
    .values(
        {name: sa.bindparam(name) for name in ("state", "values", "reason", "noise", "cost", "finished", "changed")}
    )
    .values(lease_until=None)
    .returning(*_COLUMNS)
)

# -- results on the way ------------------------------------------------------------------------------------------------

NEW_PARTIAL = schema.partials.insert()
_STEPS = sa.select(_partials.trial, _partials.step, _partials.value).order_by(_partials.trial, _partials.step)
STEPS = _STEPS.where(_partials.campaign == _bind("campaign"), _partials.trial.in_(_bind("numbers", expanding=True)))
STEPS_CHANGED = _STEPS.join_from(
    schema.partials,
    schema.trials,
    sa.and_(_partials.campaign == _trials.campaign, _partials.trial == _trials.number),
).where(_HERE, _trials.changed > _bind("after"))
