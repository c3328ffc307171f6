"""What the commands share: refusals in a line, progress, files that appear whole or not at all.

Only typer and the standard library are imported before a command runs.
"""

import contextlib
import os
import re
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import typer

from credo.interrupts import kept_interrupts

ARGUMENTS = (
    "cells|costs|decimal|error|exact|exposure|group|horizon|ignore|kind|level|log|loss|most|seconds|seed|target|test|"
    "threshold|time|trend|value"
)
"""Arguments of the library that are options here."""
EXTRAS = {"sqlalchemy": "campaign", "psycopg": "postgres"}
"""The extra that brings a library, where it is not that of the command line."""


def refuse(message: str) -> NoReturn:
    """One line on stderr and exit code 2."""
    typer.echo(f"credo: {' '.join(str(message).split())}", err=True)
    raise typer.Exit(2)


def refuse_existing(paths: list[Path], force: bool) -> None:
    """Refuse to replace a file, unless asked to."""
    there = [path for path in paths if path.exists()]
    if there and not force:
        refuse(f"{there[0]} exists already; pass --force to replace it, or another --out")


_pressed: list[int] = []
"""The signals that came."""


def press(number: int, frame: object) -> NoReturn:
    """A signal as `KeyboardInterrupt`."""
    _pressed.append(number)
    raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends the command inside, wherever it comes: in a callback that drops it, or in an import."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, press)
    with kept_interrupts():
        yield


def _interrupted() -> NoReturn:
    typer.echo("credo: interrupted; nothing was written", err=True)
    raise typer.Exit(130) from None


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Refusals, and what the operating system refuses, in one line without a traceback."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        _interrupted()
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; silence Python's complaint at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        refuse(f"{where}{error.strerror or error}")
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(str(error.name), "cli")
        with_what = "its command line" if extra == "cli" else "campaigns"
        refuse(f"{error.name} is not installed; install credo with {with_what}: credo[{extra}]")
    except Exception as error:
        if _pressed:  # inside of an import, which then fails in its own words
            _interrupted()
        # Only credo's own errors are expected; importing them costs nothing once something has failed.
        from credo.core.errors import CredoError

        if not isinstance(error, CredoError):
            raise
        refuse(as_options(str(error)))


def as_options(message: str) -> str:
    """A message of the library about its arguments, `test` or kind="count", as one about options."""
    message = re.sub(rf"(?<![\w'\"])({ARGUMENTS})=(?:\"([^\"]*)\"|([\w.-]*[\w]))", r"--\1 \2\3", message)
    return re.sub(rf"`({ARGUMENTS})`", r"--\1", message)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[float, str], None]]:
    """A bar on a terminal; nothing elsewhere."""
    from credo.infer.progress import Progress

    with Progress(sys.stderr.isatty()) as say:
        say(0.0, "reading")
        yield say


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM, which schedulers send before they kill, ends the work inside as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def echo_table(
    rows: Sequence[Sequence[str]], left: Sequence[int] = (0,), indent: str = "", bold: int | None = None
) -> None:
    """Rows of cells under each other, the first one underlined, one `bold`; columns in `left` begin at their left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for i, row in enumerate(rows):
        cells = [
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.secho(indent + "  ".join(cells).rstrip(), underline=i == 0, bold=i == bold)


def command_line() -> str:
    """What was typed."""
    return shlex.join(["credo", *sys.argv[1:]])


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """Writes beside the target and renames: an error leaves what was there."""
    from credo.core.files import replacing

    with replacing(target) as path:
        write(path)


def write_together(folder: Path, writers: Mapping[str, Callable[[Path], object]]) -> None:
    """Files of these names in a folder: all are complete before any is put in its place."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".credo-", dir=folder) as workshop:
            for name, write in writers.items():
                write(Path(workshop) / name)
            for name in writers:
                os.replace(Path(workshop) / name, folder / name)
    except BaseException:
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
