"""The tables of a campaign database, and how an older database becomes a new one.

Layouts are numbered. A fresh database is made in the newest; an older one is upgraded step by step in one
transaction; a newer one is refused, because this credo cannot know what its columns mean.

    0   campaigns and trials
    1   noise, cost, fidelity and source of a trial; partial results; changes are counted
    2   without the fidelity, which the point says
    3   how long each lease is: one that a clock set back has made longer is over
"""

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from credo.core.errors import CredoError


class StorageError(CredoError, OSError):
    """The record of a campaign cannot be read or written; what it held before is intact."""


class StorageAway(StorageError):
    """The database is locked or its server away, and was so for as long as there was patience: it may come back."""


LAYOUT = sa.MetaData()
JSON = sa.JSON(none_as_null=True)

version = sa.Table("credo_version", LAYOUT, sa.Column("version", sa.Integer, nullable=False))

campaigns = sa.Table(
    "credo_campaigns",
    LAYOUT,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("space", JSON, nullable=False),
    sa.Column("settings", JSON, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("changes", sa.Integer, nullable=False, server_default="0"),  # written first by all who write: their lock
)

trials = sa.Table(
    "credo_trials",
    LAYOUT,
    sa.Column("campaign", sa.ForeignKey("credo_campaigns.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("point", JSON, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("state", sa.String(9), nullable=False),
    sa.Column("values", JSON),
    sa.Column("reason", sa.Text),
    sa.Column("why", JSON),
    sa.Column("worker", sa.Text),
    sa.Column("lease_until", sa.Double),
    sa.Column("lease", sa.Double),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("finished", sa.Double),
    sa.Column("noise", sa.Double),
    sa.Column("cost", sa.Double),
    sa.Column("source", sa.Text),
    sa.Column("changed", sa.Integer, nullable=False, server_default="0"),  # the campaign's count at its last change
)

_is_pending = trials.c.state == "pending"
sa.Index(
    "credo_pending_once",
    trials.c.campaign,
    trials.c.digest,
    unique=True,
    sqlite_where=_is_pending,
    postgresql_where=_is_pending,
)
sa.Index("credo_states", trials.c.campaign, trials.c.state, trials.c.number)
sa.Index("credo_changed", trials.c.campaign, trials.c.changed)

partials = sa.Table(
    "credo_partials",
    LAYOUT,
    sa.Column("campaign", sa.Integer, primary_key=True),
    sa.Column("trial", sa.Integer, primary_key=True),
    sa.Column("step", sa.Double, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.ForeignKeyConstraint(["campaign", "trial"], ["credo_trials.campaign", "credo_trials.number"]),
)

Upgrade = Callable[[sa.Connection], None]


def _counted(connection: sa.Connection) -> None:
    """From layout 0 to 1; statements are written out, since the tables above will move on."""
    for statement in (
        "ALTER TABLE credo_campaigns ADD COLUMN changes INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE credo_trials ADD COLUMN noise DOUBLE PRECISION",
        "ALTER TABLE credo_trials ADD COLUMN cost DOUBLE PRECISION",
        "ALTER TABLE credo_trials ADD COLUMN fidelity DOUBLE PRECISION",
        "ALTER TABLE credo_trials ADD COLUMN source TEXT",
        "ALTER TABLE credo_trials ADD COLUMN changed INTEGER NOT NULL DEFAULT 0",
        # Results were told in the order of `finished`; those that are pending come last.
        "UPDATE credo_trials SET changed = 1 + (SELECT count(*) FROM credo_trials AS other"
        " WHERE other.campaign = credo_trials.campaign AND"
        " (coalesce(other.finished, 1e18) < coalesce(credo_trials.finished, 1e18) OR"
        " (coalesce(other.finished, 1e18) = coalesce(credo_trials.finished, 1e18)"
        " AND other.number < credo_trials.number)))",
        "UPDATE credo_campaigns SET changes = (SELECT count(*) FROM credo_trials"
        " WHERE credo_trials.campaign = credo_campaigns.id)",
        "CREATE INDEX credo_states ON credo_trials (campaign, state, number)",
        "CREATE INDEX credo_changed ON credo_trials (campaign, changed)",
        "CREATE TABLE credo_partials (campaign INTEGER NOT NULL, trial INTEGER NOT NULL,"
        " step DOUBLE PRECISION NOT NULL, value DOUBLE PRECISION NOT NULL, PRIMARY KEY (campaign, trial, step),"
        " FOREIGN KEY (campaign, trial) REFERENCES credo_trials (campaign, number))",
    ):
        connection.exec_driver_sql(statement)


def _without_fidelity(connection: sa.Connection) -> None:
    """From layout 1 to 2."""
    connection.exec_driver_sql("ALTER TABLE credo_trials DROP COLUMN fidelity")


def _with_lengths(connection: sa.Connection) -> None:
    """From layout 2 to 3."""
    connection.exec_driver_sql("ALTER TABLE credo_trials ADD COLUMN lease DOUBLE PRECISION")


UPGRADES: Sequence[Upgrade] = (_counted, _without_fidelity, _with_lengths)
"""The step from layout i to i + 1 is the i-th."""

VERSION = len(UPGRADES)


def found_version(connection: sa.Connection) -> int | None:
    """The layout of the database, None where there are no tables of credo; tables without a number are of layout 0."""
    inspector = sa.inspect(connection)
    if inspector.has_table(version.name):
        return connection.execute(sa.select(sa.func.max(version.c.version))).scalar_one()
    return 0 if inspector.has_table(trials.name) else None


def prepare(connection: sa.Connection, where: str) -> None:
    """Make or upgrade the tables, in the transaction of the connection; `where` names the database in messages."""
    found = found_version(connection)
    if found is None:
        LAYOUT.create_all(connection)
    else:
        refuse_newer(found, where)
        version.create(connection, checkfirst=True)
        for upgrade in UPGRADES[found:]:
            upgrade(connection)
        connection.execute(version.delete())
    connection.execute(version.insert().values(version=VERSION))


def refuse_newer(found: int, where: str) -> None:
    """`StorageError` if the layout is one that only a later credo knows."""
    if found > VERSION:
        raise StorageError(
            f"{where} was written by a newer credo: its layout is {found} and this credo knows up to {VERSION}; "
            "upgrade credo to use it"
        )
