"""Generalized linear models: classes, counts and outliers from a linear predictor."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
