"""Structural time series: parts that add like kernels, and forecasts that come apart into them."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
