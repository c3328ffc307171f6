"""How good a belief is: scores, calibration, validation, comparison by evidence, curves."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
