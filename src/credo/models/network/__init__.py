"""Bayesian networks: a belief over many named variables and the arrows between them."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
