"""Hidden states that move and show themselves through non-linear functions: three ways to follow them."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
