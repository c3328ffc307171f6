"""Linear dynamical systems: `LDS`, and the Kalman filters and smoothers that it is made of."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
