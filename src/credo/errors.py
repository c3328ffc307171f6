"""credo's exceptions and warnings, see `credo.core.errors`."""

from credo.core.errors import (
    CredoError,
    DataError,
    FileError,
    NotConverged,
    NotConvergedWarning,
    NotPositiveDefinite,
    RepairedWarning,
)

__all__ = [
    "CredoError",
    "DataError",
    "FileError",
    "NotConverged",
    "NotConvergedWarning",
    "NotPositiveDefinite",
    "RepairedWarning",
]
