"""Bayesian linear models: `Linear`, its priors, its noise, and its other views."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
