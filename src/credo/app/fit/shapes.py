"""How a prediction may depend on the inputs, whatever the outcomes are: lines, curves, pairs, trends, seasons.

Straight lines come first, then curves and interactions; those with automatic relevance determination, so that
features that do not help switch themselves off.
"""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import NamedTuple

from credo.app.table.columns import Schema
from credo.models.features import Affine, BSpline, Features, Fourier, Polynomial, Standardize

SPLINES = 8


class Shape(NamedTuple):
    """How the prediction may depend on the inputs."""

    name: str
    about: str
    features: Features | None
    """None is the inputs themselves."""
    relevance: bool
    """Whether each feature has a scale of its own (automatic relevance determination)."""
    refused: str = ""
    """Why it does not suit the table."""

    def size(self, d: int) -> int:
        """How many features of d inputs there are."""
        return d if self.features is None else self.features.size(d)


def shapes(schema: Schema, size: tuple[int, int], affordable: Callable[[int], bool]) -> list[Shape]:
    """The shapes that suit the columns of a table of n rows and d inputs; `affordable(p)`: with so many features."""
    n, d = size
    curved = [i for column in schema.columns if column.continuous for i in schema.where(column.name)[:1]]
    seasonal = _seasons(schema)
    if schema.time is not None:
        return _for_time(schema, n, d, curved, seasonal)
    lines = "each input adds a straight line"
    base = Standardize(reduce(add, seasonal, Affine())) if seasonal else None
    waves = ", dates also in waves" if seasonal else ""
    found = [
        Shape("lines", f"{lines}{waves}; all share one scale", base, False),
        Shape("lines, own relevance", f"{lines}{waves}; each has a scale of its own", base, True),
    ]
    pairs, bends = Polynomial(2).after(Affine()), [BSpline(SPLINES).on(*curved)] if curved else []
    curves: list[tuple[str, str, list[Features]]] = [
        ("curves", "each number adds a smooth curve", [Affine(), *bends] if bends else []),
        ("squares and pairs", "squares of inputs and products of pairs", [pairs] if d > 1 else []),
        (
            "curves and pairs",
            "smooth curves, and products of pairs of inputs",
            [pairs, *bends] if bends and d > 1 else [],
        ),
    ]
    for name, about, parts in curves:
        if not parts:
            continue
        whole = reduce(add, [*parts, *seasonal])
        p = whole.size(d)
        refused = "" if affordable(p) and p <= n else f"{p:,} features are too many for {n:,} rows"
        said = f"{about}{waves}; features that do not help are switched off"
        found.append(Shape(name, said, Standardize(whole), True, refused))
    return found


def _for_time(schema: Schema, n: int, d: int, curved: list[int], seasonal: list[Features]) -> list[Shape]:
    assert schema.time is not None
    at = schema.where(schema.time)[0]
    others = [i for i in range(d) if i != at]
    rest = [Affine().on(*others)] if others else []
    others_too = "; other inputs add straight lines" if others else ""
    season = f", what repeats every {' and '.join(p[0] for c in schema.columns for p in c.periods)}" if seasonal else ""
    found = [Shape("straight trend", f"a straight line in time{others_too}", None, False)]
    for degree, shape in ((1, "straight"), (2, "bending"), (3, "twice bending")):
        trend = Polynomial(degree, interactions=False).after(Affine().on(at))
        whole = reduce(add, [*seasonal, *rest], trend)
        name, about = f"{shape} trend{' + seasons' if seasonal else ''}", f"a {shape} trend in time{season}"
        if degree > 1 or seasonal:
            found.append(Shape(name, f"{about}{others_too}", Standardize(whole), True))
    bends = [i for i in curved if i != at]
    if bends and len(bends) * SPLINES < n // 2:
        whole = whole + BSpline(SPLINES).on(*bends)
        found.append(Shape(f"{name} + curves", f"{about}; other inputs add smooth curves", Standardize(whole), True))
    return found


def _seasons(schema: Schema) -> list[Features]:
    """Waves for every period of every date column."""
    return [
        Fourier(order, period=years).on(schema.where(column.name)[0])
        for column in schema.columns
        for _, years, order in column.periods
    ]
