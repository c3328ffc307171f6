"""Kernels: what is believed about a function before it is seen."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
