"""credo's exceptions and warnings, see `credo.core.errors`."""

from typing import TYPE_CHECKING, Any

from credo.core.errors import (
    CredoError,
    DataError,
    FileError,
    MisfitWarning,
    NotConverged,
    NotConvergedWarning,
    NotMonotone,
    NotPositiveDefinite,
    NoveltyWarning,
    RepairedWarning,
)

if TYPE_CHECKING:
    from credo.decide.campaign import CommandFailed, StorageError, TrialError

__all__ = [
    "CommandFailed",
    "CredoError",
    "DataError",
    "FileError",
    "MisfitWarning",
    "NotConverged",
    "NotConvergedWarning",
    "NotMonotone",
    "NotPositiveDefinite",
    "NoveltyWarning",
    "RepairedWarning",
    "StorageError",
    "TrialError",
]


def __getattr__(name: str) -> Any:
    """The errors of campaigns, which load with them."""
    if name not in ("CommandFailed", "StorageError", "TrialError"):
        raise AttributeError(f"module 'credo.errors' has no attribute {name!r}")
    from credo.decide import campaign

    return getattr(campaign, name)
