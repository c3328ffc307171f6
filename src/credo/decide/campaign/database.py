"""Opening a database, its transactions, and what can go wrong with one in plain words.

SQLite keeps its file in write-ahead mode: readers never wait, writers wait for one another, and a writer that is
killed leaves the file as it was before its transaction. Every writer begins with BEGIN IMMEDIATE, so that two of
them never wait for each other. A database that is locked, or a server that restarts, is tried again, after longer and
longer pauses, for as long as there is patience.
A file must be on a disk of this machine; workers on many machines share PostgreSQL.
"""

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from credo.decide.campaign.schema import VERSION, StorageAway, StorageError, found_version, prepare, refuse_newer

T = TypeVar("T")
MEMORY = ":memory:"
PATIENCE = 120.0
"""For how many seconds a writer waits for others, and everybody for a database that is away: a server may restart."""
_HEADER = b"SQLite format 3\x00"
_LOCK = 0x6372_6564
"""The number of the lock in PostgreSQL under which tables and campaigns are made."""

_TROUBLES = {
    "disk is full": "the disk is full; free some space and do it again",
    "disk full": "the disk is full; free some space and do it again",
    "no space left": "the disk is full; free some space and do it again",
    "readonly": "it may only be read; check the permissions of the file and its folder",
    "read-only": "it may only be read; check the permissions",
    "is locked": "another process kept it locked for too long; look for a stuck worker or use PostgreSQL",
    "not a database": "it is not an SQLite database; choose another path",
    "malformed": "the file is damaged; restore a copy",
    "unable to open": "it cannot be opened; check that the folder exists and may be written",
    "disk i/o error": "the disk reports an error; SQLite needs a disk of this machine",
    "password authentication": "the user or the password is wrong",
    "connection": "the server cannot be reached; check that it runs, the host and the port",
}
_PASSING = ("is locked", "connection", "starting up", "shutting down", "terminating", "recovery", "timeout")
"""Signs of troubles that may pass."""
_LASTING = ("authentication", "does not exist", "no pg_hba")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
"""Seconds between two tries; each pause is twice the one before."""


class Database:
    """An engine whose reads and writes are transactions, and whose errors are sentences."""

    def __init__(self, target: str | Path, patience: float = PATIENCE):
        self.target, self.patience = str(target), patience
        self._url = _url(self.target)
        self.where = MEMORY if self._in_memory else str(self._url.database)
        if self.is_postgres:
            self.where = self._url.render_as_string(hide_password=True)
        self.engine = self._opened()
        self._writing = self.engine.execution_options(credo_begin="BEGIN IMMEDIATE")
        # PostgreSQL's transactions see what others commit meanwhile anyway: two round trips less for a reader.
        self._reading = self.engine.execution_options(isolation_level="AUTOCOMMIT") if self.is_postgres else self.engine
        self._guard = threading.RLock()
        self._process = os.getpid()
        _open.add(self)
        with self._explained():
            self._prepare()
            self._ahead = self._server_ahead() if self.is_postgres else 0.0
        self._file = self._identity()

    @property
    def _in_memory(self) -> bool:
        return self._url.get_backend_name() == "sqlite" and self._url.database in (None, "", MEMORY)

    @property
    def is_postgres(self) -> bool:
        """Whether it is PostgreSQL rather than SQLite."""
        return self._url.get_backend_name() == "postgresql"

    @property
    def file(self) -> Path | None:
        """The file of SQLite; None for PostgreSQL and in memory."""
        return None if self.is_postgres or self._in_memory else Path(str(self._url.database)).absolute()

    def read(self) -> AbstractContextManager[sa.Connection]:
        """To look and change nothing; in SQLite all statements see the same state, in PostgreSQL each its own."""
        return self._transaction(self._reading)

    def write(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that is kept as a whole or not at all."""
        return self._transaction(self._writing)

    def now(self) -> float:
        """Seconds since 1970 on the clock that leases are measured by: the server's, or that of the one machine."""
        return time.time() + self._ahead

    def lock(self, connection: sa.Connection) -> None:
        """Until the transaction ends, others who ask for it wait; in SQLite writers wait for each other anyway."""
        if self.is_postgres:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._in_memory:
            raise _not_shared()
        return Database, (self.target, self.patience)

    @contextmanager
    def _transaction(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        if self._in_memory and os.getpid() != self._process:
            raise _not_shared()
        if self._identity() != self._file:
            raise StorageError(f"{self.where} was deleted or replaced while in use; put it back, or open it anew")
        guard = self._guard if self._in_memory else nullcontext()
        with guard, ExitStack() as stack:
            connection = self.patiently(lambda: self._begun(stack, engine))
            with self._explained():
                yield connection
                stack.close()

    def _begun(self, stack: ExitStack, engine: sa.Engine) -> sa.Connection:
        with self._explained():
            return stack.enter_context(engine.begin())

    def patiently(self, call: Callable[[], T]) -> T:
        """What the call returns, tried again while the database is away."""
        give_up, pause = time.monotonic() + self.patience, _FIRST_PAUSE
        while True:
            try:
                return call()
            except StorageAway:
                if time.monotonic() + pause > give_up:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _identity(self) -> tuple[int, int] | None:
        """Which file it is, for SQLite: one that was deleted goes on taking what is written, and nobody reads it."""
        if self.file is None:
            return None
        try:
            found = os.stat(self.file)
        except OSError:
            return (0, 0)
        return found.st_dev, found.st_ino

    @contextmanager
    def _explained(self) -> Iterator[None]:
        driver: Any = self.engine.dialect.loaded_dbapi
        try:
            yield
        except (sa.exc.DBAPIError, sa.exc.TimeoutError, driver.Error) as error:
            cause = getattr(error, "orig", None) or error
            said = str(cause).strip()
            if isinstance(cause, driver.IntegrityError | driver.ProgrammingError):
                raise StorageError(f"{self.where} refused the change: {said}") from error
            text = next((text for sign, text in _TROUBLES.items() if sign in said.lower()), said)
            passing = any(sign in said.lower() for sign in _PASSING) and not any(s in said.lower() for s in _LASTING)
            kind = StorageAway if passing else StorageError
            raise kind(f"{self.where}: {text}; what it held before is intact ({said})") from error

    def _opened(self) -> sa.Engine:
        if self.is_postgres:
            try:
                return sa.create_engine(self._url, pool_pre_ping=True)
            except ModuleNotFoundError as error:
                raise StorageError("PostgreSQL needs psycopg: pip install 'credo[postgres]'") from error
        wait = min(self.patience, _LONGEST_PAUSE)  # SQLite does not hear Ctrl-C while it waits
        options: dict[str, Any] = {"connect_args": {"timeout": wait, "check_same_thread": False}}
        if self._in_memory:
            options["poolclass"] = StaticPool
        else:
            _check_file(Path(str(self._url.database)))
        engine = sa.create_engine(self._url, **options)
        sa.event.listen(engine, "connect", _settle)
        sa.event.listen(engine, "begin", _begin)
        return engine

    def _prepare(self) -> None:
        with self._reading.begin() as connection:
            found = found_version(connection)
            foreign = found is None and not self.is_postgres and bool(sa.inspect(connection).get_table_names())
        if foreign:
            raise StorageError(f"{self.where} is an SQLite file of another program; choose another path")
        if found is not None:
            refuse_newer(found, self.where)
        if found == VERSION:
            return
        if not self.is_postgres and not self._in_memory:
            self._write_ahead()
        with self._writing.begin() as connection:
            self.lock(connection)
            prepare(connection, self.where)

    def _server_ahead(self) -> float:
        with self._reading.begin() as connection:
            clock = connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())").scalar_one()
            return float(clock) - time.time()

    def _write_ahead(self) -> None:
        """Switch to write-ahead mode, which needs the file for itself and does not wait for it."""
        give_up = time.monotonic() + self.patience
        with self.engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            while raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                try:
                    raw.execute("PRAGMA journal_mode = WAL")
                except Exception as error:
                    if "locked" not in str(error) or time.monotonic() > give_up:
                        raise StorageError(f"{self.where} cannot be put in write-ahead mode: {error}") from error
                    time.sleep(random.uniform(0.001, 0.01))


def _not_shared() -> StorageError:
    return StorageError(
        "a campaign in memory lives in one process; give storage= a path or a URL to share it with others"
    )


def _url(target: str) -> sa.URL:
    if "://" not in target:
        return sa.URL.create("sqlite", database=target)
    try:
        url = sa.make_url(target)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise StorageError("the storage is not a URL that can be read; expected postgresql://user@host/name") from error
    backend = url.drivername.split("+")[0]
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite":
        return url
    raise StorageError(f"storage is SQLite (a path) or PostgreSQL (postgresql://…), found {backend}://")


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise StorageError(f"{path} is a folder; give a file in it, such as {path / 'campaign.db'}")
    if not path.parent.is_dir():
        raise StorageError(f"there is no folder {path.parent} for the campaign's file; make it first")
    try:
        with path.open("rb") as file:
            head = file.read(len(_HEADER))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    if head not in (b"", _HEADER):
        raise StorageError(f"{path} is not an SQLite database; choose another path for the campaign")


def _settle(raw: Any, _record: Any) -> None:
    """A new connection to SQLite, whose transactions credo begins itself.

    A commit survives the end of any process. When power is lost the file stays whole, and may lack the last moments:
    waiting for the disk at every commit (FULL) takes 8 ms instead of 0.01 ms on a cloud machine's disk.
    """
    raw.isolation_level = None
    raw.execute("PRAGMA synchronous = NORMAL")
    raw.execute("PRAGMA foreign_keys = ON")


def _begin(connection: sa.Connection) -> None:
    """A transaction in SQLite; one that writes waits for its turn for as long as the connection has patience."""
    connection.exec_driver_sql(connection.get_execution_options().get("credo_begin", "BEGIN"))


_open: "weakref.WeakSet[Database]" = weakref.WeakSet()
_inherited: list[Any] = []


def _forget_connections() -> None:
    """After a fork the connections belong to the parent: the child neither uses nor closes them."""
    for database in _open:
        _inherited.append(database.engine.pool)
        if not database._in_memory:
            database.engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_connections)
