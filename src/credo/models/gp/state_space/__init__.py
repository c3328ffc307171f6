"""Gaussian processes of one input (time) as states that move: the exact posterior and evidence in O(n)."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
