"""A regular grid of nodes: interpolation from it, and a stationary kernel on it.

    f(x) = w(x)ᵀu,   wⱼ(x) = Πₐ κ((xₐ - uⱼₐ)/δₐ),   κ linear, or Keys' cubic convolution

w has 2ᵈ or 4ᵈ entries that are not zero, so Σ wwᵀ/D has as many diagonals as there are differences of neighbours: it is
kept as those (`bands`). A stationary kernel on the nodes is a Toeplitz matrix of Toeplitz matrices, told by its values
at the differences of nodes (`table`); it is a part of a circulant matrix, which the FFT multiplies with in O(M log M).
Keys (1981), "Cubic convolution interpolation for digital image processing"; Wilson & Nickisch (2015), §4-5.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int
from scipy import fft

from credo.core.arrays import Array, namespace
from credo.models.gp.large.base import in_chunks


class Lattice(eqx.Module):
    """M nodes low + δ∘i, i < shape; called with rows it gives their weights as a matrix."""

    low: Float[Array, " d"]
    step: Float[Array, " d"]
    shape: tuple[int, ...] = eqx.field(static=True)
    cubic: bool = eqx.field(static=True)

    @property
    def size(self) -> int:
        """M."""
        return int(np.prod(self.shape))

    @property
    def reach(self) -> int:
        """How many nodes apart two of a row's nodes may be."""
        return 3 if self.cubic else 1

    @property
    def strides(self) -> np.ndarray:
        """The places by which a step along each axis moves."""
        return np.cumprod([1, *self.shape[:0:-1]])[::-1].astype(int)

    @property
    def nodes(self) -> Float[Array, "m d"]:
        """u."""
        index = np.stack(np.meshgrid(*(np.arange(m) for m in self.shape), indexing="ij"), axis=-1)
        return self.low + index.reshape(-1, len(self.shape)) * self.step

    @property
    def box(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """The lowest and the highest row that has all its nodes."""
        low, step, margin = np.asarray(self.low), np.asarray(self.step), 1 if self.cubic else 0
        return low + margin * step, low + (np.asarray(self.shape) - 1 - margin) * step

    def stencil(self, x: Float[Array, "n d"]) -> tuple[Int[Array, "n s"], Float[Array, "n s"]]:
        """The places of the nodes of each row, and their weights."""
        xp = namespace(x, self.low)
        at = (x - self.low) / self.step
        margin = 1 if self.cubic else 0
        first = xp.clip(xp.floor(at), margin, np.asarray(self.shape) - 2 - margin)
        t = at - first
        parts = keys_weights(t) if self.cubic else (1.0 - t, t)
        each = xp.stack(parts, axis=-1)
        index = first.astype(int)[:, :, None] + np.arange(-margin, 2 + margin)
        place, weight = xp.zeros((len(x), 1), int), xp.ones((len(x), 1))
        for a, stride in enumerate(self.strides):
            place = (place[:, :, None] + stride * index[:, a, None, :]).reshape(len(x), -1)
            weight = (weight[:, :, None] * each[:, a, None, :]).reshape(len(x), -1)
        return place, weight

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """W; traceable."""
        place, weight = self.stencil(x)
        return scattered((len(x), self.size), np.arange(len(x))[:, None] + 0 * place, place, weight)

    def interpolate(self, x: Float[Array, "n d"], values: Float[Array, " m"]) -> Float[Array, " n"]:
        """Wu."""
        place, weight = self.stencil(x)
        return (weight * values[place]).sum(1)

    def sparse(self, x: Float[np.ndarray, "n d"]) -> Any:
        """W, of which only the entries that are not zero are held."""
        from scipy.sparse import csr_array

        place, weight = self.stencil(x)
        starts = np.arange(len(x) + 1) * place.shape[1]
        return csr_array((weight.ravel(), place.ravel(), starts), shape=(len(x), self.size))

    # -- sums over rows ----------------------------------------------------------------------------------------

    @property
    def offsets(self) -> Int[np.ndarray, "b d"]:
        """The differences of two nodes of a row."""
        sides = [np.arange(-self.reach, self.reach + 1)] * len(self.shape)
        return np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, len(self.shape))

    def _pairs(self) -> Int[np.ndarray, "s s"]:
        """Which of the offsets two nodes of a stencil are apart."""
        d = len(self.shape)
        at = np.stack(np.meshgrid(*[np.arange(self.reach + 1)] * d, indexing="ij"), axis=-1).reshape(-1, d)
        apart = at[None, :, :] - at[:, None, :] + self.reach
        return np.asarray(apart @ (2 * self.reach + 1) ** np.arange(d)[::-1])

    def bands(self, x: Float[Array, "n d"], u: Float[Array, " n"]) -> Float[Array, "b m"]:
        """Σ u w wᵀ: entry [o, p] is that of the nodes p and p + o."""
        xp = namespace(x, u, self.low)
        pairs, size = self._pairs(), len(self.offsets) * self.size
        total: Array = xp.zeros(size)
        for cut in in_chunks(len(x), pairs.size) if xp is np else [slice(None)]:
            place, weight = self.stencil(x[cut])
            at = pairs[None] * self.size + place[:, :, None]
            value = u[cut][:, None, None] * weight[:, :, None] * weight[:, None, :]
            total = total + _counted(at.reshape(-1), value.reshape(-1), size)
        return total.reshape(len(self.offsets), self.size)

    def spread(self, x: Float[Array, "n d"], u: Float[Array, " n"]) -> Float[Array, " m"]:
        """Σ u w."""
        place, weight = self.stencil(x)
        return _counted(place.reshape(-1), (weight * u[:, None]).reshape(-1), self.size)

    def dense(self, bands: Float[Array, "b m"]) -> Float[Array, "m m"]:
        """The matrix of the bands."""
        o, p, q = self._entries()
        return scattered((self.size, self.size), p, q, bands[o, p])

    def banded(self, matrix: Float[Array, "m m"]) -> Float[Array, "b m"]:
        """The bands of a matrix."""
        o, p, q = self._entries()
        return scattered((len(self.offsets), self.size), o, p, matrix[p, q])

    def _entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of the offsets and nodes whose sum is a node, and which it is."""
        index = np.stack(np.unravel_index(np.arange(self.size), self.shape), axis=-1)
        other = index[None] + self.offsets[:, None]
        o, p = np.nonzero(np.all((other >= 0) & (other < np.asarray(self.shape)), axis=-1))
        return o, p, other[o, p] @ self.strides

    def multiply(self, bands: Float[np.ndarray, "b m"]) -> Callable[[np.ndarray], np.ndarray]:
        """What multiplies with the matrix of the bands."""
        from scipy.sparse import dia_array

        sparse = dia_array((bands[::-1], self.offsets @ self.strides), shape=(self.size, self.size)).tocsr()
        return lambda v: sparse @ v

    def quadratic(self, x: Float[Array, "n d"], bands: Float[Array, "b m"]) -> Float[Array, " n"]:
        """wᵀBw of each row, with B known by its bands."""
        place, weight = self.stencil(x)
        values = bands[self._pairs()[None], place[:, :, None]]
        return (values * weight[:, :, None] * weight[:, None, :]).sum((1, 2))

    # -- a stationary kernel -----------------------------------------------------------------------------------

    @property
    def differences(self) -> Float[Array, "t d"]:
        """Of nodes: all of them, in order."""
        sides = [np.arange(1 - m, m) for m in self.shape]
        return np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, len(self.shape)) * self.step

    def _apart(self) -> Int[np.ndarray, "m m"]:
        """Which difference two nodes have."""
        index = np.stack(np.unravel_index(np.arange(self.size), self.shape), axis=-1)
        wide = np.asarray([2 * m - 1 for m in self.shape])
        strides = np.cumprod([1, *wide[:0:-1]])[::-1]
        return (index @ strides)[:, None] - (index @ strides)[None, :] + (np.asarray(self.shape) - 1) @ strides

    def matrix(self, table: Float[Array, " t"]) -> Float[Array, "m m"]:
        """K of the nodes."""
        return table[self._apart()]

    def pull_matrix(self, slope: Float[np.ndarray, "m m"]) -> Float[np.ndarray, " t"]:
        """∂/∂table from ∂/∂K."""
        return np.bincount(self._apart().ravel(), slope.ravel(), int(np.prod([2 * m - 1 for m in self.shape])))

    def convolve(self, table: Float[np.ndarray, " t"]) -> Callable[[np.ndarray], np.ndarray]:
        """What multiplies columns with K, by FFT."""
        wide, axes = self._wide(), tuple(range(len(self.shape)))
        placed = np.zeros(wide)
        at = np.ix_(*(np.arange(1 - m, m) % w for m, w in zip(self.shape, wide, strict=True)))
        placed[at] = table.reshape([2 * m - 1 for m in self.shape])
        spectrum, own = fft.rfftn(placed), tuple(slice(m) for m in self.shape)

        def times(v: np.ndarray) -> np.ndarray:
            columns = fft.rfftn(v.reshape(*self.shape, -1), wide, axes=axes)
            out = fft.irfftn(columns * spectrum[..., None], wide, axes=axes)[own]
            return out.reshape(v.shape)

        return times

    def pull_products(self, v: Float[np.ndarray, "m k"], by: Float[np.ndarray, " k"]) -> Float[np.ndarray, " t"]:
        """∂/∂table of Σ byₖ vₖᵀKvₖ, by FFT."""
        wide, axes = self._wide(), tuple(range(len(self.shape)))
        columns = fft.rfftn(v.reshape(*self.shape, -1), wide, axes=axes)
        whole = fft.irfftn((np.abs(columns) ** 2) @ by, wide)
        at = np.ix_(*(np.arange(1 - m, m) % w for m, w in zip(self.shape, wide, strict=True)))
        return whole[at].ravel()

    def _wide(self) -> tuple[int, ...]:
        return tuple(fft.next_fast_len(2 * m - 1, real=True) for m in self.shape)


def keys_weights(t: Float[Array, "..."]) -> tuple[Array, Array, Array, Array]:
    """The weights of the nodes at -1, 0, 1 and 2 for a place t between 0 and 1: exact for parabolas."""
    return (
        ((-0.5 * t + 1.0) * t - 0.5) * t,
        (1.5 * t - 2.5) * t * t + 1.0,
        ((-1.5 * t + 2.0) * t + 0.5) * t,
        (0.5 * t - 0.5) * t * t,
    )


def scattered(shape: tuple[int, int], rows: Array, columns: Array, values: Array) -> Float[Array, "a b"]:
    """A matrix with these entries, each named once."""
    xp = namespace(values, columns)
    out = xp.zeros(shape)
    if xp is not np:
        return out.at[rows, columns].set(values)
    out[rows, columns] = values
    return out


def _counted(at: Array, values: Array, size: int) -> Float[Array, " s"]:
    xp = namespace(at, values)
    return np.bincount(at, values, size) if xp is np else xp.zeros(size).at[at].add(values)
