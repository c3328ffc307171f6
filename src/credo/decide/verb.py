"""`credo.decide` is a package and a verb: `credo.decide(prediction, loss)`."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast, overload

if TYPE_CHECKING:
    from credo.core.predictive import Predictive
    from credo.decide.bayes import Decision
    from credo.decide.influence import BestPolicy, InfluenceDiagram
    from credo.decide.losses import Loss


class Verb(ModuleType):
    """A module that can be called."""

    @overload
    def __call__(self, prediction: "Predictive", loss: "Loss | Callable[[Any, Any], Any]") -> "Decision": ...

    @overload
    def __call__(self, prediction: "InfluenceDiagram", loss: None = None) -> "BestPolicy": ...

    def __call__(self, prediction: Any, loss: Any = None) -> Any:
        """The action that minimizes the expected loss, for each query; see `credo.decide.bayes.decide`.

        Of an influence diagram, which has utilities instead of a loss, the policy with the highest expected utility.
        """
        if loss is None and type(prediction).__name__ == "InfluenceDiagram":  # by name: what is not used is not loaded
            return prediction.solve()
        from credo.decide.bayes import decide

        return decide(prediction, loss)


sys.modules["credo.decide"].__class__ = Verb
decide = cast(Verb, sys.modules["credo.decide"])
