"""Beliefs with Bayes' rule in closed form."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
