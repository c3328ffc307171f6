"""Neural networks with both kinds of doubt: ensembles, dropout, and any method of `credo.infer` over their weights."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
