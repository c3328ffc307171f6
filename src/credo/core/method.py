"""`Method`: what `using=` takes, checked once for every verb.

    condition(…, using=method)    Bayes' rule by the method
    fit(…, using=method)          hyperparameters by the method, or Bayes' rule by it after they were chosen

A method says which beliefs it serves (`serves`, from their abilities), so what a belief takes is derived, never listed.
The four kinds of methods of beliefs are in `infer.method`; planning has its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module
from inspect import isabstract
from typing import Any

from credo.core.errors import DataError


class Method(ABC):
    """A way to learn, to condition or to plan. A frozen dataclass: hashable, equal by value and never falsy."""

    @abstractmethod
    def serves(self, subject: object, verb: str) -> bool:
        """Whether a belief (or a problem) can be given to `verb` with this method."""

    @abstractmethod
    def needs_of(self, subject: object, verb: str) -> str:
        """What it would take, in words, where it does not serve."""


class TakesMethods:
    """What can be given to a verb with a method."""

    def recipients(self, verb: str) -> Sequence[object]:
        """Whom the method is handed to: itself, or its parts; "ability" asks whose abilities count."""
        return (self,)


def _serves(method: Method, subject: object, verb: str) -> bool:
    recipients = subject.recipients(verb) if isinstance(subject, TakesMethods) else (subject,)
    return all(method.serves(each, verb) for each in recipients)


def check_using(using: object, subject: object, verb: str) -> Any:
    """`using` itself, if it is a method that serves the subject; otherwise an error that lists what would do."""
    if isinstance(using, type) and issubclass(using, Method):
        raise DataError(f"using must be a method, found the class {using.__name__}; write using={using.__name__}(…)")
    if not isinstance(using, Method):
        found = f"the text {using!r}" if isinstance(using, str) else f"a {type(using).__name__}"
        raise DataError(f"using must be a method, found {found}; {what_serves(subject, verb)}")
    if not _serves(using, subject, verb):
        raise DataError(
            f"{verb} cannot use {type(using).__name__} for {type(subject).__name__}: {using.needs_of(subject, verb)}; "
            + what_serves(subject, verb)
        )
    return using


def what_serves(subject: object, verb: str) -> str:
    """The methods that would do, in words."""
    names = sorted({cls.__name__ for cls in methods_of(subject, verb)})
    others = " (or leave using= out)"
    return f"{verb} of {type(subject).__name__} takes using={', '.join(names)}{others}" if names else "leave using= out"


def methods_of(subject: object, verb: str) -> list[type[Method]]:
    """The public methods that serve the subject, of its own package and of `credo.infer`."""
    own = type(subject).__module__.rpartition(".")[0]
    for package in {"credo.infer", own if own.startswith("credo.") else "credo.infer"}:
        module = import_module(package)  # by name: what lies below it only lists what is there
        for name in getattr(module, "__all__", ()):
            getattr(module, name)
    return [cls for cls in dict.fromkeys(_descendants(Method)) if _serves(_blank(cls), subject, verb)]


def _descendants(cls: type) -> Iterator[type[Method]]:
    each: type
    for each in cls.__subclasses__():
        if not each.__name__.startswith("_") and "__dataclass_params__" in vars(each) and not isabstract(each):
            yield each
        yield from _descendants(each)


def _blank(cls: type[Method]) -> Method:
    """An instance without its settings: what a method serves follows from its class."""
    return object.__new__(cls)
