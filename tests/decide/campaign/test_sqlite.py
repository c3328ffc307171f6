"""What can happen to a file: full disk, no permission, another program's file, a lock, a fork."""

import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
import sqlalchemy as sa

from credo.decide.campaign.schema import StorageError
from credo.decide.campaign.storage import Storage
from credo.decide.campaign.trial import Outcome, Suggestion

LONG = 1000.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.db"


@pytest.fixture
def storage(path):
    opened = Storage.open(path, patience=0.2)
    yield opened
    opened.close()


@pytest.fixture
def campaign(storage):
    made = storage.create("c", {}, {})[0].id
    storage.reserve(made, [Suggestion({"x": 1.0}, "design")], "w", LONG)
    return made


def restricted(storage, pragma):
    """From now on every connection has the setting."""
    storage.close()
    listener = lambda raw, record: raw.execute(pragma).fetchall()  # noqa: E731
    sa.event.listen(storage.database.engine, "connect", listener)
    return lambda: (sa.event.remove(storage.database.engine, "connect", listener), storage.close())


def test_a_full_disk_is_said_and_the_campaign_is_intact(storage, path, campaign):
    with sqlite3.connect(path) as raw:
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
    raw.close()
    before = storage.trials(campaign)
    undo = restricted(storage, f"PRAGMA max_page_count = {pages}")
    big = Suggestion({"x": 2.0}, "design", "x" * 100_000)
    with pytest.raises(StorageError, match=r"campaign.db: the disk is full; free some space .* intact"):
        storage.reserve(campaign, [big], "w", LONG)
    with pytest.raises(StorageError, match="the disk is full"):
        storage.finish(campaign, 1, Outcome(None, "y" * 100_000))
    assert storage.trials(campaign) == before
    undo()
    assert storage.reserve(campaign, [big], "w", LONG)[0].number == 2
    assert storage.finish(campaign, 1, Outcome({"value": 1.0})).state == "done"


def test_a_file_that_may_only_be_read(storage, campaign):
    undo = restricted(storage, "PRAGMA query_only = 1")
    with pytest.raises(StorageError, match="it may only be read; check the permissions"):
        storage.finish(campaign, 1, Outcome({"value": 1.0}))
    assert storage.trials(campaign).trials[0].state == "pending"
    undo()


def test_a_stuck_writer_is_named_after_a_while(storage, path, campaign):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="another process kept it locked for too long"):
        storage.finish(campaign, 1, Outcome({"value": 1.0}))
    assert len(storage.trials(campaign).trials) == 1, "readers do not wait"
    other.execute("COMMIT")
    other.close()
    assert storage.finish(campaign, 1, Outcome({"value": 1.0})).state == "done"


def test_a_writer_waits_for_the_other_and_readers_wait_as_before(path, campaign):
    patient = Storage.open(path, patience=30.0)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    released = []

    def release():
        released.append(time.monotonic())
        other.execute("COMMIT")

    timer = threading.Timer(0.05, release)
    timer.start()
    assert patient.finish(campaign, 1, Outcome({"value": 1.0})).state == "done"
    assert time.monotonic() > released[0]
    timer.join()
    other.close()
    with patient.database.read() as connection:
        waits = connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one()
        assert waits == 5000, "then it is tried again: SQLite itself does not hear Ctrl-C"
    patient.close()


def test_a_database_that_was_away_is_tried_again(path, campaign, monkeypatch):
    """A server that restarts: connections fail for a while, one breaks in the middle of a change."""
    storage = Storage.open(path, patience=30.0)
    monkeypatch.setattr("credo.decide.campaign.database._FIRST_PAUSE", 0.001)
    troubles = ["server closed the connection unexpectedly", "the database system is starting up"]
    seen = []

    def broken(connection, cursor, statement, *rest):
        if troubles and "credo_trials" in statement:
            seen.append(statement)
            raise sqlite3.OperationalError(troubles.pop())

    sa.event.listen(storage.database.engine, "before_cursor_execute", broken)
    assert storage.finish(campaign, 1, Outcome({"value": 1.0})).values == {"value": 1.0}
    assert len(seen) == 2 and len(storage.trials(campaign).trials) == 1
    storage.close()


def test_a_file_that_was_deleted_takes_no_results(path, storage, campaign):
    path.rename(path.with_name("elsewhere.db"))
    with pytest.raises(StorageError, match="campaign.db was deleted or replaced while in use; put it back"):
        storage.finish(campaign, 1, Outcome({"value": 1.0}))
    Storage.open(path).close()
    with pytest.raises(StorageError, match="deleted or replaced"):
        storage.trials(campaign)


def test_a_killed_writer_keeps_nobody_waiting(path, campaign):
    code = (
        "import sqlite3, sys, time; raw = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "raw.execute('BEGIN IMMEDIATE'); raw.execute('UPDATE credo_trials SET worker = NULL');"
        "print('held', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    patient = Storage.open(path, patience=30.0)
    timer = threading.Timer(0.05, holder.kill)
    timer.start()
    told = patient.finish(campaign, 1, Outcome({"value": 1.0}))
    assert (told.state, told.worker) == ("done", "w"), "what the killed one had begun is not there"
    timer.join()
    holder.wait()
    holder.stdout.close()
    patient.close()


def test_files_that_are_something_else(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("temperature,yield\n1,2\n" * 100)
    with pytest.raises(StorageError, match=r"notes.txt is not an SQLite database; choose another path"):
        Storage.open(text)
    assert text.read_text().startswith("temperature"), "it is left alone"
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as raw:
        raw.execute("CREATE TABLE music (title TEXT)")
    raw.close()
    with pytest.raises(StorageError, match="SQLite file of another program"):
        Storage.open(foreign)
    with pytest.raises(StorageError, match="is a folder"):
        Storage.open(tmp_path)
    with pytest.raises(StorageError, match="there is no folder .*missing"):
        Storage.open(tmp_path / "missing" / "a.db")
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    with pytest.raises(StorageError, match="damaged|not an SQLite|malformed"):
        Storage.open(damaged)


def test_urls_that_are_something_else(tmp_path):
    with pytest.raises(StorageError, match=r"SQLite \(a path\) or PostgreSQL .* found mysql"):
        Storage.open("mysql://host/name")
    with pytest.raises(StorageError, match="not a URL that can be read"):
        Storage.open("postgresql://host:notaport/name")
    with pytest.raises(StorageError) as refused:
        Storage.open("postgresql://me:secret@127.0.0.1:1/name?connect_timeout=2")
    assert "server cannot be reached" in str(refused.value)
    assert "secret" not in str(refused.value), "no password in messages"
    Storage.open(f"sqlite:///{tmp_path}/by_url.db").close()
    assert (tmp_path / "by_url.db").exists()


def test_a_commit_is_in_write_ahead_mode_and_whole(storage, path, campaign):
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert raw.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    raw.close()

    def half():
        with storage._change(campaign) as (connection, _):
            connection.exec_driver_sql("UPDATE credo_trials SET state = 'done'")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        half()
    assert storage.trials(campaign).trials[0].state == "pending"


def test_memory_is_for_one_process():
    storage = Storage.open()
    campaign = storage.create("c", {}, {})[0].id
    assert storage.reserve(campaign, [Suggestion({"x": 1.0}, "design")], "w", LONG)[0].number == 1
    with pytest.raises(StorageError, match="a campaign in memory lives in one process; give storage= a path"):
        pickle.dumps(storage)
    storage.close()


def test_the_process_of_the_memory_is_checked(monkeypatch):
    storage = Storage.open(":memory:")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StorageError, match="lives in one process"):
        storage.campaigns()
