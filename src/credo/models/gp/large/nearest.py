"""The nearest rows in a kernel's own metric: those that it says most about.

Kernels of a distance have lengthscales: rows are divided by them (`embedding`), and nearest is a search in Euclidean
space: by a k-d tree in few columns, by a matrix product beyond. Other kernels are asked themselves, for the distance
k(x, x) - 2k(x, z) + k(z, z).
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from credo.core.arrays import Array, host, is_traced, namespace
from credo.kernels import Kernel, OnColumns, Product, Sum
from credo.kernels.base import Wrapped
from credo.kernels.inputs import Mapped
from credo.kernels.periodic import Periodic
from credo.kernels.stationary import Stationary, squared_distances

TREE = 8
"""Up to so many columns a k-d tree is quicker than a matrix product."""
THIN = 1e-3
"""A column that spreads over less than this share of the widest one changes no order."""
FEW_QUERIES = 32
"""So few look at all rows one by one, sooner than a tree is made."""
BLOCK = 2**23
"""The distances that exist at a time."""

Index = Int[np.ndarray, "m k"]


def embedding(kernel: Kernel, x: Float[Array, "n d"]) -> Float[Array, "n q"] | None:
    """Rows whose Euclidean distance says how far the kernel sees them apart; None where it has no distance.

    A sum sees all distances of its terms, each as much as its share of the variance.
    """
    match kernel:
        case Sum():
            found = [(embedding(k, x), k.diagonal(x[:1])[0]) for k in kernel.parts]
            known = [(e, s) for e, s in found if e is not None]
            if not known:
                return None
            total = sum((s for _, s in known[1:]), start=known[0][1])
            xp = namespace(known)
            return xp.concatenate([e * xp.sqrt(s / total) for e, s in known], axis=1)
        case Product():
            parts = [e for k in kernel.factors if (e := embedding(k, x)) is not None]
            return namespace(parts).concatenate(parts, axis=1) if parts else None
        case OnColumns():
            return embedding(kernel.kernel, kernel.cut(x))
        case Mapped():
            return embedding(kernel.kernel, kernel.map(x))
        case Wrapped():
            return embedding(kernel.kernel, x)
        case Stationary() | Periodic():
            return kernel.embed(x)
    return None


class Nearest:
    """Rows in an order, of which the nearest ones are asked for."""

    def __init__(self, kernel: Kernel, x: Float[np.ndarray, "n d"]):
        self._kernel, self._x = kernel, x
        rows = embedding(kernel, x)
        self._rows = None if rows is None else np.asarray(host(rows), dtype=float)
        if self._rows is not None:
            self._center = self._rows.mean(0)
            spread = self._rows.std(0)
            self._wide = spread > THIN * spread.max(initial=0.0)
            self._rows = self._cut(self._rows)

    @property
    def by_tree(self) -> bool:
        """Whether a k-d tree finds them."""
        return self._rows is not None and self._rows.shape[1] <= TREE

    def _cut(self, embedded: np.ndarray) -> np.ndarray:
        return (embedded - self._center)[:, self._wide] if self._wide.any() else np.zeros((len(embedded), 1))

    def _placed(self, queries: np.ndarray) -> np.ndarray:
        """Queries where the metric is Euclidean; as they are where there is none."""
        return queries if self._rows is None else self._cut(np.asarray(host(embedding(self._kernel, queries))))

    def to(self, queries: Float[np.ndarray, "m d"], k: int) -> Index:
        """The k rows nearest to each query."""
        return self._before(self._placed(queries), min(k, len(self._x)), np.full(len(queries), len(self._x)))

    def earlier(self, positions: Int[np.ndarray, " s"], k: int) -> Index:
        """The k rows nearest to each of these among those before it; -1 where there are fewer."""
        rows = self._x if self._rows is None else self._rows
        return self._before(rows[positions], min(k, max(int(positions.max(initial=0)), 1)), positions)

    def _before(self, asked: np.ndarray, k: int, before: np.ndarray) -> Index:
        """The nearest of the rows before a position, the nearest first; -1 where there are fewer."""
        if not self.by_tree:
            return np.where(np.arange(k) < before[:, None], self._by_distance(asked, k, before), -1)
        if len(asked) <= FEW_QUERIES:
            return self._one_by_one(asked, k, before)
        out = np.full((len(asked), k), -1)
        tops = np.minimum(2 ** np.ceil(np.log2(np.maximum(before, 1))).astype(int), len(self._x))
        for top in np.unique(tops):
            which = np.flatnonzero(tops == top)
            out[which] = self._in_tree(asked[which], before[which], k, int(top))
        return out

    def _one_by_one(self, asked: np.ndarray, k: int, before: np.ndarray) -> Index:
        """By all distances, a query at a time."""
        assert self._rows is not None
        out = np.full((len(asked), k), -1)
        for i, (query, n) in enumerate(zip(asked, before, strict=True)):
            distance = ((self._rows[:n] - query) ** 2).sum(1)
            near = np.argpartition(distance, k - 1)[:k] if k < n else np.arange(n)
            out[i, : len(near)] = near[np.argsort(distance[near], kind="stable")]
        return out

    def _in_tree(self, asked: np.ndarray, positions: np.ndarray, k: int, top: int) -> Index:
        """Of the first `top` rows, of which at least half are before each position."""
        from scipy.spatial import cKDTree

        assert self._rows is not None
        tree = cKDTree(self._rows[:top])
        if positions.min() >= top >= k:  # all of them are
            return np.asarray(tree.query(asked, k=k)[1]).reshape(len(asked), k)
        out, left, ask = np.full((len(positions), k), -1), np.arange(len(positions)), 2 * k + 16
        while len(left):
            ask = min(ask, top)
            place = positions[left]
            _, index = tree.query(asked[left], k=ask)
            index = np.asarray(index).reshape(len(left), ask)
            before = index < place[:, None]
            first = np.argsort(~before, axis=1, kind="stable")[:, :k]
            taken = np.take_along_axis(index, first, axis=1)
            taken[~np.take_along_axis(before, first, axis=1)] = -1
            out[left, : taken.shape[1]] = taken
            enough = before.sum(1) >= np.minimum(k, place)
            left, ask = left[~enough if ask < top else np.zeros(len(left), bool)], 2 * ask
        return out

    def _by_distance(self, asked: np.ndarray, k: int, before: np.ndarray) -> Index:
        """By all distances, in single precision."""
        n = len(self._x)
        out = np.zeros((len(asked), k), dtype=int)
        step = max(BLOCK // n, 1)
        if self._rows is not None:
            rows = self._rows.astype(np.float32)
            squares = np.einsum("ij,ij->i", rows, rows)
            asked = asked.astype(np.float32)
        else:
            own = np.asarray(self._kernel.variance_at(self._x))
        for i in range(0, len(asked), step):
            part = slice(i, i + step)
            distance: np.ndarray
            if self._rows is not None:
                distance = asked[part] @ rows.T
                distance *= -2.0
                distance += squares
            else:
                distance = own - 2.0 * np.asarray(self._kernel.between(asked[part], self._x))
            if before.min(initial=n) < n:
                distance[np.arange(n) >= before[part, None]] = np.inf
            index = np.argpartition(distance, k - 1, axis=1)[:, :k] if k < n else np.argsort(distance, axis=1)
            order = np.argsort(np.take_along_axis(distance, index, axis=1), axis=1)
            out[part] = np.take_along_axis(index, order, axis=1)
        return out


def traced_nearest(kernel: Kernel, x: Array, queries: Array, k: int, earlier: bool) -> Any:
    """`Nearest` under `jit`, by all distances; with `earlier` the queries are the last of the rows, in their order.

    Gives the index, and which of it there is.
    """
    n, m = len(x), len(queries)
    k = min(k, n)
    rows, asked = embedding(kernel, x), embedding(kernel, queries)
    if rows is None or asked is None:
        distance = kernel.diagonal(x) - 2.0 * kernel.gram(queries, x)
    else:
        distance = squared_distances(asked, rows)
    xp = namespace(distance)
    before = np.full(m, n) if not earlier else np.arange(n - m, n)
    distance = xp.where(np.arange(n) < before[:, None], distance, np.inf)
    _, index = jax.lax.top_k(-jax.lax.stop_gradient(distance), k)
    return index, np.arange(k) < before[:, None]


def nearest_of(kernel: Kernel, x: Array, queries: Array, k: int) -> tuple[Any, Any]:
    """The k rows nearest to each query, and which of them there are."""
    if is_traced(kernel, x, queries):
        return traced_nearest(kernel, x, queries, k, False)
    index = Nearest(kernel, np.asarray(x)).to(np.asarray(queries), k)
    return index, np.ones(index.shape, bool)


def earlier_of(kernel: Kernel, x: Array, positions: np.ndarray, k: int) -> tuple[Any, Any]:
    """The k rows nearest to each of these among those before it, and which of them there are."""
    if is_traced(kernel, x):
        return traced_nearest(kernel, x, x[positions], k, True)
    index = Nearest(kernel, np.asarray(x)).earlier(positions, k)
    return np.maximum(index, 0), index >= 0
