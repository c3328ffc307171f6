"""What to do: losses, decisions, the value of information, and experiments. The package itself is the verb.

credo.decide(prediction, Asymmetric(under=5, over=1))

What experiments need (`Space`, `Campaign`, acquisitions) loads on first use.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from credo.core.predictive import Predictive
from credo.decide import bayes
from credo.decide.bayes import Decision, expected_loss
from credo.decide.custom import Custom
from credo.decide.losses import (
    Absolute,
    Asymmetric,
    CostMatrix,
    IntervalLoss,
    Loss,
    Pinball,
    Squared,
    ZeroOne,
)
from credo.decide.voi import value_of_information, value_of_perfect_information

__all__ = [
    "MDP",
    "Absolute",
    "Asymmetric",
    "Boolean",
    "Campaign",
    "Categorical",
    "Check",
    "CostMatrix",
    "Custom",
    "Decision",
    "Integer",
    "IntervalLoss",
    "Loss",
    "Margin",
    "Ordinal",
    "Pinball",
    "Real",
    "Regret",
    "Space",
    "Squared",
    "Storage",
    "Trial",
    "Uncertainty",
    "ZeroOne",
    "acquire",
    "expected_loss",
    "gain_bound",
    "greedy_gain",
    "hypervolume",
    "information_gain",
    "learn_actively",
    "learning_curves",
    "non_dominated",
    "solve",
    "value_of_information",
    "value_of_perfect_information",
]


_LATER = {
    "acquire": "acquiring",
    "Margin": "acquiring",
    "Uncertainty": "acquiring",
    "learn_actively": "active_learning",
    "learning_curves": "active_learning",
    "greedy_gain": "joint_information",
    "gain_bound": "joint_information",
    "information_gain": "joint_information",
    "Regret": "regret",
    "hypervolume": "pareto",
    "non_dominated": "pareto",
    **dict.fromkeys(("Boolean", "Categorical", "Check", "Integer", "Ordinal", "Real", "Space"), "space"),
    **dict.fromkeys(("Campaign", "Storage", "Trial"), "campaign"),
    **dict.fromkeys(("MDP", "solve"), "mdp"),
}

if TYPE_CHECKING:
    from credo.decide.acquiring import Margin, Uncertainty, acquire
    from credo.decide.active_learning import learn_actively, learning_curves
    from credo.decide.campaign import Campaign, Storage, Trial
    from credo.decide.joint_information import gain_bound, greedy_gain, information_gain
    from credo.decide.mdp import MDP, solve
    from credo.decide.pareto import hypervolume, non_dominated
    from credo.decide.regret import Regret
    from credo.decide.space import Boolean, Categorical, Check, Integer, Ordinal, Real, Space


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'credo.decide' has no attribute {name!r}")
    return getattr(import_module(f"credo.decide.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Verb(ModuleType):
    """A module that can be called."""

    def __call__(self, prediction: Predictive, loss: Loss | Callable[[Any, Any], Any]) -> Decision:
        """The action that minimizes the expected loss, for each query; see `credo.decide.bayes.decide`."""
        return bayes.decide(prediction, loss)


sys.modules[__name__].__class__ = _Verb
