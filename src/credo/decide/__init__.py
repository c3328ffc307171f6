"""What to do: losses, decisions, the value of information, and experiments. The package itself is the verb.

credo.decide(prediction, Asymmetric(under=5, over=1))

The public names are listed in `__init__.pyi` and load on first use.
"""

import sys
from types import ModuleType
from typing import Any

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)


class _Verb(ModuleType):
    """A module that can be called."""

    def __call__(self, prediction: Any, loss: Any) -> Any:
        """The action that minimizes the expected loss, for each query; see `credo.decide.bayes.decide`."""
        from credo.decide.bayes import decide

        return decide(prediction, loss)


sys.modules[__name__].__class__ = _Verb
