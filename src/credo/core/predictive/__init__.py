"""Predictions: distributions over outcomes that know how much of their doubt is noise and how much ignorance."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
