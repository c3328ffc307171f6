"""Layers that equinox lacks, for networks of one's own: `Neural(network=eqx.nn.Sequential([…]))`.

    Standardize.of(X)          (x - mean)/deviation of each column
    QuantileBins.of(X, b)      a number as how far it is through each of b bins with as many rows each
    Categories((c, …), …)      columns of codes as learned vectors
    Image((channels, h, w))    a row of pixels as an image, for `eqx.nn.Conv2d`
    Residual(inner)            x + inner(x). He et al. (2016)

Constants are NumPy's arrays and are not learned. Gorishniy, Rubachev & Babenko (2022), "On embeddings for numerical
features in tabular deep learning".
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.checks import ArrayLike, check_count, check_table
from credo.core.errors import DataError


class Standardize(eqx.Module):
    """Columns less their mean, over their standard deviation."""

    center: Float[Array, " d"]
    spread: Float[Array, " d"]

    @classmethod
    def of(cls, X: ArrayLike) -> "Standardize":
        """From the data; a constant column stays at zero."""
        x = np.asarray(check_table(X, "X"))
        spread = x.std(0)
        return cls(x.mean(0), np.where(spread > 0, spread, 1.0))

    def __call__(self, x: Any, *, key: Any = None) -> jax.Array:
        """Of a row."""
        return (jnp.asarray(x) - self.center) / self.spread


class QuantileBins(eqx.Module):
    """Each number as b numbers: 1 for the bins below it, 0 for those above, and how far it is through its own."""

    edges: Float[Array, "d e"]

    @classmethod
    def of(cls, X: ArrayLike, bins: int = 8) -> "QuantileBins":
        """Bins that hold as many rows of X each."""
        check_count(bins, "bins")
        x = np.asarray(check_table(X, "X"))
        return cls(np.quantile(x, np.linspace(0, 1, bins + 1), axis=0).T)

    def __call__(self, x: Any, *, key: Any = None) -> jax.Array:
        """Of a row: d columns give d · b numbers. A bin without width is a step."""
        low, width = self.edges[:, :-1], self.edges[:, 1:] - self.edges[:, :-1]
        away = jnp.asarray(x)[:, None] - low
        inside = jnp.clip(away / jnp.where(width > 0, width, 1.0), 0.0, 1.0)
        return jnp.where(width > 0, inside, (away >= 0).astype(float)).ravel()


class Categories(eqx.Module):
    """Columns of codes 0, 1, … as learned vectors behind the other columns; an unknown code is the zero vector."""

    columns: tuple[int, ...] = eqx.field(static=True)
    tables: tuple[jax.Array, ...]

    def __init__(self, columns: Sequence[int], levels: Sequence[int], size: int = 4, *, key: jax.Array):
        if len(columns) != len(levels):
            raise DataError(f"levels must say how many codes each of {len(columns)} columns has, found {len(levels)}")
        for value in (*levels, size):
            check_count(value, "the number of codes, and the size of their vectors,")
        self.columns = tuple(columns)
        keys = jax.random.split(key, len(levels))
        self.tables = tuple(0.3 * jax.random.normal(k, (n, size)) for k, n in zip(keys, levels, strict=True))

    def __call__(self, x: Any, *, key: Any = None) -> jax.Array:
        """Of a row."""
        x = jnp.asarray(x)
        rest = np.setdiff1d(np.arange(x.shape[0]), self.columns)
        vectors = [
            (x[c] == jnp.arange(len(table))).astype(float) @ table
            for c, table in zip(self.columns, self.tables, strict=True)
        ]
        return jnp.concatenate([x[rest], *vectors])


class Image(eqx.Module):
    """A row of pixels as an image (channels, height, width)."""

    shape: tuple[int, int, int] = eqx.field(static=True)

    def __call__(self, x: Any, *, key: Any = None) -> jax.Array:
        """Of a row."""
        return jnp.asarray(x).reshape(self.shape)


class Residual(eqx.Module):
    """x + inner(x)."""

    inner: Any

    def __call__(self, x: Any, *, key: Any = None) -> jax.Array:
        """Of a row."""
        return jnp.asarray(x) + self.inner(x)
