"""Series as people have them, checked: outcomes at equal steps of time, gaps where nothing was observed, inputs."""

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.arrays import Array, is_traced
from credo.core.checks import ArrayLike, as_numpy, by_name, check_table, input_names
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.core.pytrees import changed
from credo.models.structural.base import SeriesScales


class Series(eqx.Module):
    """Outcomes in the order of time, padded to a bucket with rows that nobody saw."""

    y: Float[Array, " t"]
    seen: Bool[Array, " t"]
    inputs: Float[Array, "t d"]
    scales: SeriesScales
    length: Int[Array, ""]
    """How many times there are."""
    jacobian: Float[Array, ""]
    """log |dz/dy| of the outcomes, of which z is kept here: -Σ log y for logarithms, 0 where they are as given."""

    def cut(self, *, seen: bool = False) -> "Series":
        """Without padding; with `seen` up to the last outcome."""
        rows = int(self.length)
        rows = int(np.flatnonzero(self.seen)[-1:].sum()) + 1 if seen else rows
        return changed(self, y=self.y[:rows], seen=self.seen[:rows], inputs=self.inputs[:rows])

    def unpadded(self) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, "t d"]]:
        """The outcomes, NaN where there are none, and the inputs."""
        rows = self.cut()
        return np.where(rows.seen, rows.y, np.nan), np.asarray(rows.inputs)


def read_outcomes(y: ArrayLike, missing: bool) -> Float[np.ndarray, " t"]:
    """The outcomes as a vector, NaN where they are missing and that is allowed."""
    if is_traced(y):
        raise DataError("a structural model reads its data outside jit; use evidence_of inside")
    raw = np.atleast_1d(as_numpy(y, "y"))
    if raw.dtype.kind == "O":
        raw = np.asarray([np.nan if v is None else v for v in raw.ravel()]).reshape(raw.shape)
    if raw.dtype.kind not in "biuf":
        raise DataError(
            f"y must hold numbers, one for each time, found {raw.ravel()[0]!r}; read the column as numbers first"
        )
    gap = np.isnan(raw) if raw.dtype.kind == "f" else np.zeros(raw.shape, bool)
    if gap.any() and not missing:
        where = int(np.argwhere(gap)[0][0])
        raise DataError(f"y has NaN at row {where}; pass missing=True to treat NaN as not observed")
    filled = np.where(gap, 0.0, raw) if gap.any() else raw
    table = check_table(filled[:, None] if raw.ndim == 1 else filled, "y")
    if table.shape[1] != 1:
        raise DataError(f"y must be one series, a vector of shape (t,), found shape {raw.shape}; fit one at a time")
    return np.where(gap.reshape(-1), np.nan, table[:, 0])


def logarithms(y: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """log y, NaN where it is missing; `DataError` unless all are positive."""
    low = np.flatnonzero(y <= 0)
    if len(low):
        raise DataError(
            f"y must be positive to be taken in logarithms, found {y[low[0]]:g} at row {low[0]}; model it as it is, "
            "or add a constant first"
        )
    return np.log(y)


def read_inputs(
    inputs: ArrayLike | None, length: int, names: tuple[str, ...] | None
) -> tuple[Float[np.ndarray, "t d"], tuple]:
    """The inputs of `length` times, and their names; `names` are those known already, () where none are taken."""
    if names == () or (names is None and inputs is None):
        if inputs is not None:
            raise DataError("inputs were given, but the model has no Regression() to use them; add one")
        if names is None:
            raise DataError("Regression() needs inputs: pass inputs=X with a row for every time")
        return np.zeros((length, 0)), ()
    if inputs is None:
        raise DataError(f"the model has a regression on {', '.join(names or ())}: pass inputs= for every time")
    inputs = by_name(inputs, names, "inputs")
    raw = np.asarray(inputs) if getattr(inputs, "ndim", None) is None else inputs
    table = check_table(raw[:, None] if raw.ndim == 1 else raw, "inputs", None if names is None else len(names))
    if len(table) != length:
        raise DataError(f"inputs must have a row for every time: {length} are expected, found {len(table)}")
    found = tuple(input_names(inputs if getattr(inputs, "ndim", 0) == 2 else table))
    return np.asarray(table), found if names is None else names


def series_of(
    y: Float[np.ndarray, " t"], inputs: Float[np.ndarray, "t d"], log: bool = False, scales: SeriesScales | None = None
) -> Series:
    """Padded, with its own scales unless others are given; `log` says that y are logarithms of the outcomes."""
    seen = ~np.isnan(y)
    filled, mask, table = (pad_rows(a, bucket(len(y))) for a in (np.where(seen, y, 0.0), seen, inputs))
    jacobian = np.asarray(-np.nansum(y) if log else 0.0)
    return Series(filled, mask, table, scales or SeriesScales.of(y, inputs), np.asarray(len(y)), jacobian)
