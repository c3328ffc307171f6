"""Generative classifiers: a density for each class, so that inputs like nothing seen are noticed."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
