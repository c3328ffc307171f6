"""Losses for `credo.decide`, see `credo.decide.losses`."""

from credo.decide.losses import *  # noqa: F403
