"""Hidden Markov models: what is seen of a chain that is not."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
