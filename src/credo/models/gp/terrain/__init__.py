"""Terrain: the ground under a robot from clouds of points, maps of it, and where two maps show the same place."""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
