"""Long work shows how far it is: a bar where rich is installed, lines of text where it is not."""

from collections.abc import Callable

Show = Callable[[float, str], None]
"""Told the share that is done, from 0 to 1, and what is being done."""


class Progress:
    """`with Progress(show) as say`: `say(share, text)` reaches the user's function, a bar (True) or nobody (False)."""

    def __init__(self, show: Show | bool | None):
        self._show, self._bar = show, None

    def __enter__(self) -> Show:
        if callable(self._show):
            return self._show
        return self._started() if self._show else lambda share, text: None

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _started(self) -> Show:
        try:
            from rich import console, progress
        except ModuleNotFoundError:
            return lambda share, text: print(f"{share:4.0%}  {text}")
        columns = (progress.BarColumn(24), progress.TimeElapsedColumn(), progress.TextColumn("{task.description}"))
        bar = progress.Progress(*columns, console=console.Console(stderr=True), transient=True)
        task = bar.add_task("", total=1.0)
        bar.start()
        self._bar = bar
        return lambda share, text: bar.update(task, completed=share, description=text)
