"""`kriging`: from scattered measurements to a `Field`, with hyperparameters by evidence.

What is given is checked first: coordinates, errors, groups, and whether a field that honours its measurements can.
"""

from typing import Any

import numpy as np

from credo.core.checks import check_real, check_table, column_names
from credo.core.errors import DataError
from credo.infer.learning import fit
from credo.kernels import Kernel, White
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.large.choice import EXACT_ROWS, Exact, choose_method
from credo.models.gp.spatial.field import PLAIN, Field
from credo.models.gp.spatial.longitudes import check_lonlat, unwrapped_longitudes
from credo.models.gp.spatial.priors import field_kernel, trend_mean
from credo.models.gp.staged import Staged

MOST_STEPS = 1000
"""Of a climb: two scales are a long ridge."""


def kriging(
    points: object,
    values: object,
    *,
    trend: Any = None,
    kernel: Kernel | None = None,
    anisotropic: bool = False,
    lonlat: bool = False,
    errors: Any = None,
    nugget: float | None = None,
    exact: bool = False,
    groups: Any = None,
    using: Any = None,
    learn: bool = True,
    seed: int = 0,
) -> Field:
    """A field from measurements at scattered points, its hyperparameters by evidence.

    Args:
        points: coordinates, shape (n, 2); more columns are further coordinates, such as depth or time.
        values: what was measured, shape (n,); NaN is missing.
        trend: "constant" (ordinary kriging), "linear" or "quadratic" (universal), features, or a number that is known
            (simple kriging). None is a constant, and a plane where points are so many that they are not all used at
            once: gaps between them are wide. With lonlat and points all around, planes are those of the space that
            the sphere lies in.
        kernel: of the coordinates; None is Exponential + Matérn-3/2, a long scale and a short one. Sums are nested
            models, `Matern(smoothness=…)` has any smoothness.
        anisotropic: whether the kernel that is chosen for None has scales that depend on the direction.
        lonlat: whether points are longitude and latitude in degrees; lengthscales are then kilometres.
        errors: the known standard error of each measurement, beside the nugget.
        nugget: its variance, where it is known; None learns it.
        exact: whether the nugget is variation of the field on the shortest scale, and not noise of the measurements.
        groups: the instrument, campaign, or region of each measurement: each has an effect of its own, which is no
            part of the field.
        using: a form of Bayes' rule such as `Neighbours()`; None chooses by the number of points.
        learn: False takes the kernel and the nugget as they are given.
        seed: of the search.
    """
    rows, present = _read(points, values, errors, lonlat)
    x, y, _, extra = rows.cut()
    d = x.shape[1]
    table, inner = x, field_kernel(kernel, x, y, anisotropic, lonlat)
    labels: tuple[str, ...] = ()
    if groups is not None:
        if exact:
            raise DataError("exact and groups do not go together: what is left at a place may be its group's")
        codes, labels = _codes(groups, len(present))
        table = np.column_stack([x, codes[present]])
        inner = inner.on(*range(d)) + White(np.asarray(0.1 * float(y.var()) or 1.0)).on(d)
    if exact:
        _check_twins(x, y, extra)
    if nugget is not None and not check_real(nugget, "nugget") > 0:
        raise DataError(
            f"nugget is a variance and must be positive, found {nugget!r}; exact=True makes the map go through the "
            "measurements, and a small nugget nearly so"
        )
    if not learn and (kernel is None or nugget is None):
        raise DataError("learn=False takes the kernel and the nugget as they are: give both")
    if trend is None:
        trend = "constant" if len(y) <= EXACT_ROWS else "linear"
    gp = GP(inner, trend_mean(trend, table, y, d, lonlat), nugget)
    options = {} if errors is None else {"errors": np.sqrt(extra)}
    form, notes = choose_method(gp, rows) if using is None else (using, "")
    if learn:
        method = Staged(max_steps=MOST_STEPS) if isinstance(form, Exact) else form
        fixed = [] if nugget is None else ["noise"]
        learned = fit(gp, table, y, using=method, fixed=fixed, seed=seed, report=True, **options)
        after, notes = learned.belief, "; ".join(note for note in (notes, *learned.notes) if note)
    else:
        after = gp.in_units(Rows(table, *rows.cut()[1:], None)).condition(table, y, using=form, **options)
    names = tuple(column_names(points) or (*PLAIN, *(f"x{i}" for i in range(2, d))))
    return Field(after, d, exact, lonlat, labels, names, notes)


def _read(points: object, values: object, errors: Any, lonlat: bool) -> tuple[Rows, np.ndarray]:
    """The measurements, checked, and which of them there are: NaN is missing."""
    x = np.asarray(check_table(points, "points"))
    if x.shape[1] < 2:
        raise DataError("points must have two coordinates or more, found 1; for a function of one input use credo.GP")
    if lonlat:
        check_lonlat(x, "points")
        x = unwrapped_longitudes(x)
    rows = GP().statistics(x, values, errors=errors)
    if rows.n < 3:
        raise DataError(f"a field needs three measurements or more, found {rows.n}")
    if not np.ptp(rows.x, axis=0).max() > 0:
        raise DataError("all measurements are at one place: there is no field to see")
    return rows, np.isfinite(np.asarray(values, dtype=float).reshape(-1))


def _codes(groups: object, n: int) -> tuple[np.ndarray, tuple[str, ...]]:
    given = np.asarray(groups, dtype=object).reshape(-1)
    if any(label is None or label != label for label in given):
        raise DataError("groups has missing labels; give these rows one, or leave them out")
    labels = given.astype(str)
    if len(labels) != n:
        raise DataError(f"groups must name a group for each of the {n} points, found {len(labels)}")
    found, codes = np.unique(labels, return_inverse=True)
    if len(found) < 2:
        raise DataError("groups must name two groups or more: the effect of one is the constant of the trend")
    return codes.astype(float), tuple(str(label) for label in found)


def _check_twins(x: np.ndarray, y: np.ndarray, extra: np.ndarray) -> None:
    """With `exact`, measurements without error at one place must agree."""
    _, first, same = np.unique(x, axis=0, return_index=True, return_inverse=True)
    before = y[first][same.reshape(-1)]
    apart = (y != before) & (extra == 0)
    if apart.any():
        i = int(np.argmax(apart))
        raise DataError(
            f"an exact field has one value at a place, but {y[i]:g} and {before[i]:g} were both measured at "
            f"{x[i].tolist()}; average them, give their errors, or leave exact out: then what differs is noise"
        )
