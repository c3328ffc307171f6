"""The rows that a Gaussian process has seen, padded so that growing data reuse compiled code."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array, is_traced, put_all
from credo.core.checks import check_positive, check_vector
from credo.core.errors import DataError
from credo.core.padding import pad_rows
from credo.kernels import Kernel


class Rows(eqx.Module):
    """Inputs, outcomes and noise of n rows; beyond n they are padding.

    The noise variance of row i is `scale[i]`·(the model's) + `extra[i]`.
    """

    x: Float[Array, "c d"]
    y: Float[Array, " c"]
    scale: Float[Array, " c"]
    extra: Float[Array, " c"]
    mask: Bool[Array, " c"]

    @property
    def n(self) -> int:
        """The number of rows that are not padding; the rows must not be traced."""
        return int(np.asarray(self.mask).sum())

    @property
    def capacity(self) -> int:
        """n and the padding."""
        return self.x.shape[0]

    def columns(self) -> tuple[Array, Array, Array, Array, Array]:
        """(x, y, scale, extra, mask)."""
        return self.x, self.y, self.scale, self.extra, self.mask

    def cut(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(x, y, scale, extra) without the padding, in NumPy."""
        x, y, scale, extra = (np.asarray(v)[: self.n] for v in self.columns()[:4])
        return x, y, scale, extra

    def subset(self, index: np.ndarray) -> "Rows":
        """Some of the rows."""
        return pack(*(v[index] for v in self.cut()))

    def at_most(self, n: int, seed: int) -> "Rows":
        """All rows, or n of them at random."""
        if self.n <= n:
            return self
        return self.subset(np.sort(np.random.default_rng(seed).choice(self.n, n, replace=False)))

    def __add__(self, other: "Rows") -> "Rows":
        """The rows of both, those of `self` first."""
        if is_traced(self, other):
            pairs = zip(self.columns(), other.columns(), strict=True)
            return Rows(*(jnp.concatenate(pair) for pair in pairs))
        return pack(*(np.concatenate(pair) for pair in zip(self.cut(), other.cut(), strict=True)))


def capacity(n: int) -> int:
    """The padded length for n rows: 32, 64, 128, then multiples of 32 up to 1024 and of 256 above.

    Coarse where padding is cheap, fine where work grows with its cube.
    """
    for size in (32, 64, 128):
        if n <= size:
            return size
    step = 32 if n <= 1024 else 256
    return -(-n // step) * step


def pack(x: Any, y: Any, scale: Any, extra: Any, *, size: int | None = None) -> Rows:
    """Rows padded to `size`, by default to their capacity."""
    n = x.shape[0]
    if is_traced(x, y, scale, extra):
        return Rows(jnp.asarray(x), jnp.asarray(y), jnp.asarray(scale), jnp.asarray(extra), jnp.ones(n, bool))
    size = capacity(n) if size is None else size

    padded = [pad_rows(np.asarray(v, dtype=float), size) for v in (x, y, scale, extra)]
    return Rows(*put_all(*padded, np.arange(size) < n))


def read(kernel: Kernel, data: tuple[Any, ...], columns: int | None, weights: Any, noise: Any) -> Rows:
    """The rows of X and y as users have them; rows whose y is NaN are missing and left out.

    Args:
        kernel: what reads the inputs.
        data: X and y.
        columns: the number of columns that is expected, if it is known already.
        weights: the model's noise variance is divided by them.
        noise: the noise variance of each row, instead of the model's.
    """
    if len(data) != 2:
        raise DataError(f"a Gaussian process is conditioned on X and y, found {len(data)} argument(s)")
    x = kernel.encode(data[0], "X", columns)
    n = x.shape[0]
    y, present = _outcomes(data[1], n)
    if weights is not None and noise is not None:
        raise DataError("give weights or noise for the rows, not both: a weight divides the model's noise variance")
    scale, extra = np.ones(n), np.zeros(n)
    if weights is not None:
        scale = 1.0 / check_positive(weights, "weights", n)
    if noise is not None:
        scale, extra = np.zeros(n), check_positive(noise, "noise", n)
    if present is None:
        return pack(x, y, scale, extra)
    return pack(*(np.asarray(v)[present] for v in (x, y, scale, extra)))


def _outcomes(y: Any, n: int) -> tuple[Any, np.ndarray | None]:
    """y as a checked vector and which of it is there (None: all)."""
    if is_traced(y):
        return check_vector(y, "y", n), None
    raw = y.to_numpy() if hasattr(y, "to_numpy") else y
    try:
        values = np.asarray(raw, dtype=float)
    except (TypeError, ValueError):
        return check_vector(y, "y", n), None  # which says what is wrong
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    missing = np.isnan(values) if values.ndim == 1 else np.zeros(0, bool)
    if not missing.any() or missing.all():
        return check_vector(y, "y", n), None
    filled = check_vector(np.where(missing, 0.0, values), "y", n)
    return filled, ~missing
