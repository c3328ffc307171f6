"""What can be believed: the models, a folder for each family, loaded on first use."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
