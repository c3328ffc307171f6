"""Long work says so within a second: a bar where rich is installed, lines of text where it is not.

Where nobody asks for it or against it (None), a bar appears on a terminal once the work has lasted a second, and never
in a pipe, a notebook or a test. Of works within works the outermost speaks. Ctrl-C ends all of them.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import ClassVar

from credo.interrupts import kept_interrupts

Show = Callable[[float, str], None]
"""Told the share that is done, from 0 to 1, and what is being done."""

PATIENCE = 1.0
"""Seconds of work before anything is shown unasked."""


class Progress(AbstractContextManager[Show]):
    """`with Progress(show) as say`: `say(share, text)` reaches the user's function, a bar (True) or nobody (False)."""

    _speaking: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, show: Show | bool | None, doing: str = ""):
        self._show, self._now, self._inside = show, (0.0, doing), threading.Lock()
        self._interrupts = kept_interrupts()
        self._speaks = False
        self._timer: threading.Timer | None = None
        self._update: Show | None = None
        self._stop: Callable[[], None] | None = None

    def __enter__(self) -> Show:
        self._interrupts.__enter__()
        if callable(self._show):
            return self._show
        wanted = sys.stderr.isatty() if self._show is None else self._show
        self._speaks = wanted and self._speaking.acquire(blocking=False)
        if not self._speaks:
            return lambda share, text: None
        if self._show:
            self._begin()
        else:
            self._timer = threading.Timer(PATIENCE, self._begin)
            self._timer.daemon = True
            self._timer.start()
        return self._say

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._interrupts.__exit__(kind, error, trace)
        finally:
            self._hush()

    def _hush(self) -> None:
        if not self._speaks:
            return
        if self._timer is not None:
            self._timer.cancel()
        with self._inside:
            self._speaks = False
            if self._stop is not None:
                self._stop()
        self._speaking.release()

    def _say(self, share: float, text: str) -> None:
        self._now = share, text
        if self._update is not None:
            self._update(share, text)

    def _begin(self) -> None:
        with self._inside:
            if self._speaks:
                self._update, self._stop = _bar()
                self._update(*self._now)


def _bar() -> tuple[Show, Callable[[], None]]:
    """What moves a bar on the terminal, and what takes it away."""
    try:
        from rich import console, progress
    except ModuleNotFoundError:
        return lambda share, text: print(f"{share:4.0%}  {text}", file=sys.stderr), lambda: None
    bar = progress.Progress(
        progress.BarColumn(24),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.description}"),
        progress.TextColumn("left:"),
        progress.TimeRemainingColumn(),
        console=console.Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=1.0)
    bar.start()
    return lambda share, text: bar.update(task, completed=share, description=text), bar.stop
