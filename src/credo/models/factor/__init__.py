"""Factor analysis: many columns explained by a few hidden factors."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
