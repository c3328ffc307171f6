"""Kernel methods: neighbours, regression and densities by similarity to the rows seen."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
