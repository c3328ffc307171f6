"""The space of an experiment: parameters, when they exist, and which combinations are allowed."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
