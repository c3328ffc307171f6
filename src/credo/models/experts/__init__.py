"""Mixtures of experts: several regressions, and a gate that says where each is to be asked."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
