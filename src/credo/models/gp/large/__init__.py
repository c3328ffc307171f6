"""Gaussian processes without a limit on rows: one module for each approximation, and the choice between them."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
