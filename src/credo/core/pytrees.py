"""Small tools for equinox modules."""

from typing import TypeVar

M = TypeVar("M")


plain_methods = object.__getattribute__
"""For the `__getattribute__` of modules whose steps take microseconds: equinox makes a pytree of each bound method."""


def changed(module: M, **changes: object) -> M:
    """The module with some fields changed, without what its constructor would check or choose."""
    new = object.__new__(type(module))
    new.__dict__.update(module.__dict__, **changes)
    return new
