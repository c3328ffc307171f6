"""Maps: scattered measurements of a field, and what is believed of it everywhere."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
