"""Finite Markov chains: their analysis where they are known, and a belief about them where they are not."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
