"""How good a belief is: scores, calibration and its repair, conformal prediction, validation, comparison, curves."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
