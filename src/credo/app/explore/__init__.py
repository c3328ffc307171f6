"""What is in a table, when nobody has said what to predict: clusters, factors, gaps and odd rows."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
