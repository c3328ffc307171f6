"""Results that could not be recorded: kept in a file, until a later run of the campaign tells them."""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from credo.core.errors import DataError
from credo.decide.campaign.exchange import file_name
from credo.decide.campaign.schema import StorageError
from credo.decide.campaign.trial import Trial, TrialError

if TYPE_CHECKING:
    from credo.decide.campaign.campaign import Campaign


class Answer(NamedTuple):
    """What a worker says of a point."""

    value: object
    failed: str | None
    seconds: float


class Kept:
    """The results of a campaign that are told to nobody yet; those that could not be told are in a file too.

    The file is beside that of SQLite, or in the working directory: a line of JSON for each result.
    """

    def __init__(self, campaign: "Campaign"):
        self._campaign = campaign
        self._waiting: list[tuple[Trial | int, Answer]] = []
        where, name = campaign.storage.database.file, file_name(campaign.name)
        folder = Path.cwd() if where is None else where.parent
        self.path = folder / f"{'credo' if where is None else where.name}.{name}.untold.jsonl"

    def __len__(self) -> int:
        return len(self._waiting)

    def tell(self, trial: Trial | int, answer: Answer) -> None:
        """Record a result; where that cannot be, keep it."""
        try:
            _tell(self._campaign, trial, answer)
        except StorageError:
            self._waiting.append((trial, answer))
            self._write(trial, answer)

    def tell_again(self) -> None:
        """Record what was kept, in this run or by one before; `StorageError` while that cannot be."""
        while self._waiting:
            _tell(self._campaign, *self._waiting[0])
            self._waiting.pop(0)
        for path in (self.path, self._elsewhere):
            mine = path.with_suffix(f".{os.getpid()}")
            with contextlib.suppress(FileNotFoundError):
                path.rename(mine)  # so that nobody else tells them
                for line in mine.read_text(encoding="utf-8").splitlines():
                    number, *answer = json.loads(line)
                    with contextlib.suppress(DataError):
                        _tell(self._campaign, number, Answer(*answer))
                mine.unlink()

    @property
    def _elsewhere(self) -> Path:
        return Path(tempfile.gettempdir()) / self.path.name

    def _write(self, trial: Trial | int, answer: Answer) -> None:
        number = trial.number if isinstance(trial, Trial) else trial
        line = json.dumps([number, *answer], default=_plain)
        for path in (self.path, self._elsewhere):  # the trouble may be with the disk
            with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                self.path = path
                return


def _plain(value: object) -> object:
    """Numbers of NumPy as those of Python; what JSON cannot hold as text, which telling will refuse with a reason."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "size", 0) == 1 else repr(value)


def _tell(campaign: "Campaign", trial: Trial | int, answer: Answer) -> None:
    with contextlib.suppress(TrialError):  # the lease ran out and somebody else told first
        if answer.failed is None:
            try:
                campaign.tell(trial, answer.value, cost=answer.seconds)
                return
            except DataError as error:
                answer = answer._replace(failed=str(error))
        campaign.tell(trial, failed=answer.failed, cost=answer.seconds)
