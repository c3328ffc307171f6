"""Small tools for equinox modules: copies with changes, and methods that are quick to look up."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M")


def changed(module: M, **changes: Any) -> M:
    """The module with some fields changed, without what its constructor would check or choose."""
    new = object.__new__(type(module))
    new.__dict__.update(module.__dict__, **changes)
    return new


class _Direct:
    def __init__(self, function: Callable[..., Any]):
        self.__doc__, self.__name__, self.function = function.__doc__, function.__name__, function

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.function(*args, **options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.function if instance is None else partial(self.function, instance)


def direct(method: F) -> F:
    """A method that is bound without equinox's wrapper, for what is called every few microseconds.

    The wrapper makes a bound method a pytree, and takes as long as a small computation each time it is looked up.
    """
    return cast(F, _Direct(method))
