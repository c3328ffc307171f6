"""Densities p(x | k) of k = 1 … K components, with priors: what hidden states, clusters and classes look like."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
