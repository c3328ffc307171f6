"""Scores of what to try next: each is a value that maps a belief and candidate points to numbers, larger is better."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
