"""How a posterior is computed, and hyperparameters chosen, knowing only densities."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
