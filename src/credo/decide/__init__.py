"""What to do: losses, decisions, the value of information, and experiments. The package itself is the verb.

credo.decide(prediction, Asymmetric(under=5, over=1))

The public names are listed in `__init__.pyi` and load on first use.
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)

from credo.decide import verb as _verb  # noqa: E402, F401  (makes the package callable)
