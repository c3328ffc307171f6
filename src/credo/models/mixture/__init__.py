"""Mixtures: rows of several kinds, of which nobody has written down which is which."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
