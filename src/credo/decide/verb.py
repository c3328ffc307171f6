"""`credo.decide` is a package and a verb: `credo.decide(prediction, loss)`."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from credo.core.predictive import Predictive
    from credo.decide.bayes import Decision
    from credo.decide.losses import Loss


class Verb(ModuleType):
    """A module that can be called."""

    def __call__(self, prediction: "Predictive", loss: "Loss | Callable[[Any, Any], Any]") -> "Decision":
        """The action that minimizes the expected loss, for each query; see `credo.decide.bayes.decide`."""
        from credo.decide.bayes import decide

        return decide(prediction, loss)


sys.modules["credo.decide"].__class__ = Verb
decide = cast(Verb, sys.modules["credo.decide"])
