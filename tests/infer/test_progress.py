"""Long work says so: unasked on a terminal and after a second only, and one work at a time."""

import io
import sys
import time

import pytest

from credo.infer import progress
from credo.infer.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def said(monkeypatch):
    """What bars are told."""
    seen = []
    monkeypatch.setattr(progress, "_bar", lambda: (lambda share, text: seen.append((share, text)), lambda: None))
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    return seen


def test_nothing_is_shown_where_nobody_looks(said):
    with Progress(None) as say:
        say(0.5, "half")
        time.sleep(0.1)
    assert said == []


def test_a_terminal_hears_of_long_work_only(said, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(None, "quick") as say:
        say(1.0, "done")
    with Progress(None, "slow") as say:
        time.sleep(0.2)  # no word from the work itself, which may be compiling
        say(0.5, "half")
    assert said == [(0.0, "slow"), (0.5, "half")]


def test_the_outermost_speaks(said):
    with Progress(True, "outer") as say, Progress(True, "inner") as whisper:
        whisper(0.1, "inner")
        say(0.2, "outer")
    assert said == [(0.0, "outer"), (0.2, "outer")]
    with Progress(True, "next"):
        pass
    assert said[-1] == (0.0, "next")


def test_a_function_is_told_everything():
    seen = []
    with Progress(lambda share, text: seen.append(share)) as say:
        say(0.3, "a third")
    assert seen == [0.3]
