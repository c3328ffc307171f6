"""Campaigns: experiments that run for weeks, by many hands, and survive what happens in weeks.

    campaign ─ask─▶ engine (a model of the record) ─▶ storage (reserved, leased) ─▶ a worker ─tell─▶ storage

The storage is the only truth. SQLAlchemy loads with the first campaign.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Best": "problem",
    "Bound": "problem",
    "Campaign": "campaign",
    "Command": "command",
    "CommandFailed": "command",
    "Observations": "problem",
    "Problem": "problem",
    "Storage": "storage",
    "StorageError": "schema",
    "Suggestion": "trial",
    "Trial": "trial",
    "TrialError": "trial",
}

if TYPE_CHECKING:
    from credo.decide.campaign.campaign import Campaign as Campaign
    from credo.decide.campaign.command import Command as Command
    from credo.decide.campaign.command import CommandFailed as CommandFailed
    from credo.decide.campaign.problem import Best as Best
    from credo.decide.campaign.problem import Bound as Bound
    from credo.decide.campaign.problem import Observations as Observations
    from credo.decide.campaign.problem import Problem as Problem
    from credo.decide.campaign.schema import StorageError as StorageError
    from credo.decide.campaign.storage import Storage as Storage
    from credo.decide.campaign.trial import Suggestion as Suggestion
    from credo.decide.campaign.trial import Trial as Trial
    from credo.decide.campaign.trial import TrialError as TrialError

__all__ = [
    "Best",
    "Bound",
    "Campaign",
    "Command",
    "CommandFailed",
    "Observations",
    "Problem",
    "Storage",
    "StorageError",
    "Suggestion",
    "Trial",
    "TrialError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
