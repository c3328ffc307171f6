"""Rows in the order of time."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, is_traced
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.models.gp.data import Rows, from_columns
from credo.models.gp.state_space.sde import APART


class Series(Rows):
    """Rows with one input, sorted by it, and how long after its predecessor each comes."""

    mask: Bool[Array, " c"]
    gap: Float[Array, " c"]
    """Zero for times that are equal, and `APART` for the first row and for padding."""

    @property
    def origin(self) -> Float[Array, ""]:
        """The first time."""
        return self.x[0, 0]

    def subset(self, index: np.ndarray) -> "Series":
        """Some of the rows, in order."""
        return in_order(super().subset(index))

    def __add__(self, other: Rows) -> "Series":
        """Both, in order."""
        return in_order(super().__add__(other))


def in_order(rows: Rows) -> Series:
    """The rows sorted by time; those of equal times stay in their order."""
    if isinstance(rows, Series):
        return rows
    if rows.x.shape[1] != 1:
        raise DataError(
            f"StateSpace is for functions of one input, found X with {rows.x.shape[1]} columns; condition exactly "
            "(without using=), or on one column"
        )
    if is_traced(rows):
        return _traced_in_order(rows)
    x, y, scale, extra = rows.cut()
    n = len(x)
    if np.any(x[1:, 0] < x[:-1, 0]):
        order = np.argsort(x[:, 0], kind="stable")
        x, y, scale, extra = (v[order] for v in (x, y, scale, extra))
    size = bucket(n)
    gap = np.full(size, APART)
    gap[1:n] = np.diff(x[:, 0])
    padded = from_columns(pad_rows(v, size) for v in (x, y, scale, extra))
    return Series(*padded.columns(), np.arange(size) < n, gap)


def _traced_in_order(rows: Rows) -> Series:
    order = jnp.argsort(jnp.where(rows.real, rows.x[:, 0], jnp.inf), stable=True)
    x, y, scale, extra, mask = (v[order] for v in (*rows.columns(), rows.real))
    gap = jnp.diff(x[:, 0], prepend=x[:1, 0])
    first = jnp.arange(len(gap)) == 0
    return Series(x, y, scale, extra, mask, jnp.where(first | ~mask, APART, gap))
