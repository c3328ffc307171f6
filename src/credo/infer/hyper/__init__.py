"""Hyperparameters integrated over: weighted points on their posterior density, by a grid, quadrature or draws."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
