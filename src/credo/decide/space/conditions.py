"""Conditions between parameters: which exist at a point, given the values of the others.

A parameter with `when={"optimizer": ["sgd"]}` is active where `optimizer` is active and is "sgd".
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from credo.core.arrays import Array, namespace
from credo.core.errors import DataError
from credo.decide.space.parameters import Parameter, Value


def resolve(parameters: Sequence[Parameter], place: Callable[[str], str]) -> tuple[Parameter, ...]:
    """The parameters with their conditions checked against the others.

    `place(name)` is how an error calls the condition of that parameter.
    """
    index = {parameter.name: i for i, parameter in enumerate(parameters)}
    resolved = []
    for parameter in parameters:
        pairs = []
        for other, values in parameter.when:
            where = place(parameter.name)
            if other not in index:
                raise DataError(f"{where} names {other!r}, which is not a parameter; there are {', '.join(index)}")
            if other == parameter.name:
                raise DataError(f"{where} names the parameter itself")
            parent = parameters[index[other]]
            if parent.count is None:
                raise DataError(f"{where} names {other!r}, a real number; conditions are on discrete parameters")
            try:
                pairs.append((other, tuple(dict.fromkeys(parent.check(value) for value in values))))
            except DataError as error:
                raise DataError(f"{where} has a value that cannot occur: {error}") from None
        resolved.append(replace(parameter, when=tuple(pairs)))
    _order(resolved, place)
    return tuple(resolved)


def _order(parameters: Sequence[Parameter], place: Callable[[str], str]) -> list[int]:
    index = {parameter.name: i for i, parameter in enumerate(parameters)}
    order: list[int] = []
    while len(order) < len(parameters):
        waiting = [(i, p) for i, p in enumerate(parameters) if i not in order]
        ready = [i for i, p in waiting if all(index[other] in order for other, _ in p.when)]
        if not ready:
            left = [p.name for _, p in waiting]
            raise DataError(f"{place(left[0])} is part of a cycle among {', '.join(map(repr, left))}; break it")
        order.extend(ready)
    return order


Rule = tuple[int, tuple[tuple[int, tuple[float, ...]], ...]]
"""The position of a parameter, and the positions of the others it depends on with their numbers that allow it."""


def rules(parameters: Sequence[Parameter]) -> tuple[Rule, ...]:
    """The conditions as positions and numbers, in an order in which they can be evaluated."""
    index = {parameter.name: i for i, parameter in enumerate(parameters)}

    def allowed(other: str, values: tuple[Value, ...]) -> tuple[int, tuple[float, ...]]:
        return index[other], tuple(parameters[index[other]].numbers(values).tolist())

    return tuple((i, tuple(allowed(*pair) for pair in parameters[i].when)) for i in _order(parameters, repr))


def active(given: Sequence[Rule], numbers: Sequence[Array]) -> list[Array]:
    """Whether each parameter exists, from the numbers of all (NumPy or JAX arrays of shape (n,))."""
    xp = namespace(*numbers)
    out: list[Array] = [xp.ones(numbers[0].shape, bool)] * len(numbers)
    for i, parents in given:
        for parent, allowed in parents:
            out[i] = out[i] & out[parent] & xp.isin(numbers[parent], np.asarray(allowed))
    return out
