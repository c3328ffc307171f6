"""What to do: losses, decisions and the value of information. The package itself is the verb.

credo.decide(prediction, Asymmetric(under=5, over=1))
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from credo.core.predictive import Predictive
from credo.decide import bayes
from credo.decide.bayes import Decision, expected_loss
from credo.decide.custom import Custom
from credo.decide.information import value_of_information, value_of_perfect_information
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

__all__ = [
    "Absolute",
    "Asymmetric",
    "CostMatrix",
    "Custom",
    "Decision",
    "IntervalLoss",
    "Loss",
    "Pinball",
    "Squared",
    "ZeroOne",
    "expected_loss",
    "value_of_information",
    "value_of_perfect_information",
]


class _Verb(ModuleType):
    """A module that can be called."""

    def __call__(self, prediction: Predictive, loss: Loss | Callable[[Any, Any], Any]) -> Decision:
        """The action that minimizes the expected loss, for each query; see `credo.decide.bayes.decide`."""
        return bayes.decide(prediction, loss)


sys.modules[__name__].__class__ = _Verb
