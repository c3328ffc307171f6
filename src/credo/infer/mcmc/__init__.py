"""Markov chain Monte Carlo: samplers, the chains that run them, and what they leave behind."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
