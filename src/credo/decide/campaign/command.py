"""A trial by command: the values go into its arguments, the outcome is read from what it prints.

    Command("python train.py --lr {lr} --momentum {momentum}", names=("lr", "momentum"))

There is no shell. The template is split into arguments first and the values are put in afterwards, so that a value
is never split, expanded or executed, whatever it holds. An argument that needs a parameter which does not exist at
the point is left out, together with an option right before it (`--momentum {momentum}`). `{trial}` is the number of
the trial, `{point}` the whole point as JSON; both are in the environment as well: CREDO_TRIAL, CREDO_POINT.

The outcome is, with a pattern, its last match; otherwise the last `name=value`, `name: value`, `name value` or line of
JSON for each outcome; otherwise, if only one outcome is asked for, the last line if that is a number, or `label number`
if it is the only one. What stands there must be a number from its first character to its last: nothing is guessed.
"""

import contextlib
import json
import math
import os
import re
import shlex
import shutil
import signal
import string
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from credo.core.errors import CredoError, DataError
from credo.decide.campaign.problem import as_float
from credo.decide.space.parameters import Point

_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[nN]a[nN]|[iI]nf(?:inity)?)"
_LABELLED = re.compile(rf"[^\d\s=:]*\s*[=:]?\s*({_NUMBER})")
_LINES, _CHARACTERS = 5, 500
"""How much of the standard error a failure quotes."""


class CommandFailed(CredoError, RuntimeError):
    """A command ended badly, took too long, or printed no usable number; the trial failed, the campaign goes on."""


@dataclass(frozen=True)
class Command:
    """A template of a command, and how to read what it prints."""

    template: str
    names: Sequence[str]
    """The parameters: each must be in the template, and nothing else may."""
    outcomes: Sequence[str] = ("value",)
    timeout: float | int | None = None
    pattern: str | None = None
    """A regular expression with one group for each outcome, in their order or named."""
    _running: "set[subprocess.Popen[str]]" = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.template, str) or not isinstance(self.pattern, str | None):
            raise DataError(f"a command and its pattern are text, found {self.template!r} and {self.pattern!r}")
        for listed in (self.names, self.outcomes):
            if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
                raise DataError(f"names and outcomes of a command are lists of text, found {listed!r}")
        if not self._parts():
            raise DataError("the command is empty; expected something like 'python train.py --lr {lr}'")
        used = {name for part in self._parts() for name in _placeholders(part)}
        unknown = sorted(used - {*self.names, "point", "trial"})
        if unknown:
            there = ", ".join(self.names)
            raise DataError(f"the command has {{{unknown[0]}}}, which is no parameter; there are {there}")
        unused = [name for name in self.names if name not in used]
        if unused and "point" not in used - set(self.names):
            what = f"{', '.join(unused)}; add {{{unused[0]}}}, or {{point}} for all as JSON"
            raise DataError(f"the command does not use {what}")
        program = self._parts()[0]
        if not _placeholders(program) and shutil.which(program) is None:
            raise DataError(f"there is no program {program!r} to run; check the name and the PATH")
        if self.pattern is not None:
            _check_pattern(self.pattern, self.outcomes)

    def arguments(self, point: Point, trial: int | None = None) -> list[str]:
        """The arguments at a point."""
        texts = {name: _text(value) for name, value in point.items()}
        texts = {"point": json.dumps(dict(point)), "trial": "" if trial is None else str(trial)} | texts
        arguments: list[str] = []
        for i, part in enumerate(self._parts()):
            if all(name in texts for name in _placeholders(part)):
                arguments.append(_filled(part, texts))
            elif i and arguments and arguments[-1].startswith("-") and arguments[-1] == self._parts()[i - 1]:
                arguments.pop()
        return arguments

    def run(self, point: Point, trial: int | None = None) -> dict[str, float]:
        """The outcomes at a point; `CommandFailed` if there are none."""
        number = "" if trial is None else str(trial)
        environment = {**os.environ, "CREDO_POINT": json.dumps(dict(point)), "CREDO_TRIAL": number}
        try:
            process = subprocess.Popen(
                self.arguments(point, trial),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C is for the campaign, which then stops the command
            )
        except (OSError, ValueError) as error:
            raise CommandFailed(f"the command cannot be run: {error}") from None
        self._running.add(process)
        try:
            output, errors = process.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            raise CommandFailed(f"the command took longer than {self.timeout:g} s and was stopped") from None
        finally:
            self._running.discard(process)
        if process.returncode:
            how = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
            raise CommandFailed(f"the command ended with {how}{_tail(errors)}")
        return self.read(output, errors)

    def __call__(self, point: Point) -> dict[str, float]:
        """The outcomes at a point."""
        return self.run(point)

    def stop(self) -> None:
        """End what is running, with all that it started."""
        for process in list(self._running):
            _kill(process)

    def read(self, output: str, errors: str = "") -> dict[str, float]:
        """The outcomes in what was printed."""
        output = output.replace("\N{MINUS SIGN}", "-")
        found = self._matched(output) if self.pattern is not None else self._named(output)
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        if not found and self.pattern is None and len(self.outcomes) == 1 and lines:
            alone = re.fullmatch(f"({_NUMBER})", lines[-1]) or (len(lines) == 1 and _LABELLED.fullmatch(lines[0]))
            found = {self.outcomes[0]: alone.group(1)} if alone else {}
        missing = [name for name in self.outcomes if name not in found]
        if missing:
            what = f"no {' and no '.join(missing)}: its last line is {lines[-1]!r}" if lines else "nothing"
            wanted = f"{missing[0]}=number, or a number alone in the last line"
            raise CommandFailed(f"the command printed {what}; expected {wanted}{_tail(errors)}")
        return {name: _finite(name, found[name], errors) for name in self.outcomes}

    def _matched(self, output: str) -> dict[str, object]:
        matches = list(re.finditer(self.pattern or "", output, re.MULTILINE))
        if not matches:
            return {}
        named = {name: text for name, text in matches[-1].groupdict().items() if text is not None}
        return named or dict(zip(self.outcomes, matches[-1].groups() or (matches[-1].group(),), strict=False))

    def _named(self, output: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for line in output.splitlines():
            with contextlib.suppress(ValueError):
                given = json.loads(line)
                if isinstance(given, dict):
                    found.update({name: given[name] for name in self.outcomes if name in given})
                    continue
            for name in self.outcomes:
                said = rf"(?<![\w.-]){re.escape(name)}(?:\s*[=:]\s*(?P<any>[^\s;]+)|\s+(?P<number>[-+.\d]\S*))"
                shown = [match.group("any") or match.group("number") for match in re.finditer(said, line)]
                found.update({name: shown[-1].rstrip(",;.)]}")} if shown else {})
        return found

    def _parts(self) -> list[str]:
        try:
            return shlex.split(self.template)
        except ValueError as error:
            raise DataError(f"the command {self.template!r} cannot be split into arguments: {error}") from None


def _fields(part: str) -> list[tuple[str, str | None]]:
    """(text before, name) of each placeholder; the name is None after the last."""
    try:
        fields = list(string.Formatter().parse(part))
    except ValueError as error:
        raise DataError(f"{part!r} in the command cannot be read: {error}; write {{{{ for a brace") from None
    if any(spec or conversion for _, _, spec, conversion in fields):
        raise DataError(f"{part!r} in the command has a format; values are written in full: leave it out")
    return [(text, name) for text, name, _, _ in fields]


def _placeholders(part: str) -> list[str]:
    return [name for _, name in _fields(part) if name is not None]


def _filled(part: str, texts: Mapping[str, str]) -> str:
    return "".join(text + ("" if name is None else texts[name]) for text, name in _fields(part))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _kill(process: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _check_pattern(pattern: str, outcomes: Sequence[str]) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise DataError(f"the pattern {pattern!r} is not a regular expression: {error}") from None
    if compiled.groupindex and set(outcomes) - set(compiled.groupindex):
        raise DataError(f"the pattern {pattern!r} needs groups named {', '.join(outcomes)}")
    if not compiled.groupindex and len(outcomes) not in (compiled.groups, compiled.groups + (compiled.groups == 0)):
        raise DataError(f"the pattern {pattern!r} needs a group for each of {', '.join(outcomes)}")


def _finite(name: str, text: object, errors: str) -> float:
    number = math.nan if isinstance(text, bool) else as_float(text)
    if not math.isfinite(number):
        raise CommandFailed(f"the command printed {name} = {text}, which is not a finite number{_tail(errors)}")
    return number


def _tail(errors: str) -> str:
    lines = errors.strip().splitlines()[-_LINES:]
    return ": " + "\n".join(lines)[-_CHARACTERS:] if lines else ""
