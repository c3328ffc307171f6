"""Kernels on things that are not vectors: sets, fingerprints, categories, a finite list of anything.

`kernel.encode(items)` turns what users have into rows of codes, once, at the boundary; the kernel proper is a
function of two rows. A table of numbers is taken as rows that are encoded already.

    SetKernel(universe=("a", "b", "c"))([{"a", "b"}, {"c"}])

Gärtner (2003), "A survey of kernels for structured data".
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import KW_ONLY
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, as_float, is_traced, namespace
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.params import ABSENT, positive
from credo.kernels.base import Amplified, Amplitude, InputScales, start, with_one_each

C = TypeVar("C", bound="Coded")

LARGEST_SET = 1000
"""2^|A| is finite up to 1023 elements; from here on a set needs the normalized kernel."""


class Coded(Amplified):
    """k(x, z) = s² c(x, z) of a similarity c of rows of codes."""

    _: KW_ONLY
    variance: Amplitude = positive(None, unset=1.0)

    @abstractmethod
    def similarities(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """The matrix of c(xᵢ, zⱼ)."""

    def own(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """c(xᵢ, xᵢ): one, unless a member says otherwise."""
        return namespace(x).ones(x.shape[0])

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² c for all pairs."""
        return self.amplitude() * self.similarities(x, z)

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """s² c(x, x)."""
        return self.amplitude() * self.own(x)

    def adapt(self: C, scales: InputScales) -> C:
        """s² = the variance of the outcomes."""
        return start(self, variance=scales.variance)


class Counting(Coded):
    """A similarity that counts common parts: c(x, z) = #(x, z), or #(x, z) / √(#(x, x) #(z, z)) if `normalized`.

    Normalized, two things without any part are alike (1) and unlike all others (0), so c(x, x) = 1 always.
    """

    _: KW_ONLY
    normalized: bool = eqx.field(default=True, static=True)
    compiled = True

    @abstractmethod
    def counts(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """The matrix of #(xᵢ, zⱼ), the number (or weight) of the parts that two things have in common."""

    def similarities(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """The matrix of c(xᵢ, zⱼ)."""
        common = self.counts(x, z)
        if not self.normalized:
            return common
        return _normalize(common, self.own_counts(x)[:, None], self.own_counts(z)[None, :])

    def own_counts(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """#(xᵢ, xᵢ)."""
        return jax.vmap(lambda a: self.counts(a[None], a[None])[0, 0])(x)

    def own(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """1 if normalized, #(x, x) if not."""
        return super().own(x) if self.normalized else self.own_counts(x)


def _normalize(common: Array, x: Array, z: Array) -> Array:
    both, none = (x > 0) & (z > 0), (x <= 0) & (z <= 0)
    # √x √z, not √(xz): the product of two large counts may overflow. Guarded: √ has no derivative at zero.
    size = jnp.sqrt(jnp.where(both, x, 1.0)) * jnp.sqrt(jnp.where(both, z, 1.0))
    return jnp.where(both, common / size, jnp.where(none, 1.0, 0.0))


class SetKernel(Coded):
    """k(A, B) = s² 2^|A∩B|, the number of subsets that two sets have in common.

    Normalized (the default, because 2^|A| soon overflows) it is s² 2^(-|A△B|/2): each element that only one of
    the sets has costs a factor 1/√2. A row has a 1 for each member; `encode` reads sets (or other iterables) of
    elements of `universe`. Shawe-Taylor & Cristianini (2004), Kernel Methods for Pattern Analysis, chapter 9.
    """

    universe: tuple[Hashable, ...] | None = eqx.field(default=None, static=True, converter=lambda u: u and tuple(u))
    normalized: bool = eqx.field(default=True, static=True, kw_only=True)

    def similarities(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """2^|A∩B|, divided by 2^((|A|+|B|)/2) if normalized."""
        excess = 0.5 * (x.sum(1)[:, None] + z.sum(1)[None, :]) if self.normalized else 0.0
        return namespace(x, z).exp2(x @ z.T - excess)

    def own(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """1 if normalized, 2^|A| if not."""
        return super().own(x) if self.normalized else namespace(x).exp2(x.sum(1))

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """Sets of elements of the universe, or a table of 0 and 1, as rows of 0 and 1."""
        if self.universe is not None and not is_table(x):
            places = {element: i for i, element in enumerate(self.universe)}
            items = as_items(x, name, "sets")
            x = np.zeros((len(items), len(places)))
            for row, members in enumerate(items):
                if isinstance(members, str) or not isinstance(members, Iterable):
                    raise DataError(f"{name}[{row}] must be a set, found {members!r}; pass e.g. {{'a', 'b'}}")
                for element in members:
                    x[row, look_up(element, places, f"{name}[{row}]", "the universe")] = 1.0
        elif not is_table(x) and any(isinstance(item, set | frozenset) for item in x):  # type: ignore[attr-defined]
            raise DataError(f"{name} holds sets, but which elements there are is not known; give SetKernel(universe=…)")
        table = check_table(x, name, columns)
        if not is_traced(table):
            if not np.isin(table, (0.0, 1.0)).all():
                stranger = table[~np.isin(table, (0.0, 1.0))][0]
                raise DataError(f"{name} must hold 0 and 1 (is the element in the set?), found {stranger:g}")
            if not self.normalized and table.sum(1).max() > LARGEST_SET:
                raise DataError(
                    f"{name} has a set of {int(table.sum(1).max())} elements, whose 2^n subsets overflow; "
                    "use SetKernel(normalized=True)"
                )
        return table


class Tanimoto(Coded):
    """k(x, z) = s² xᵀz / (xᵀx + zᵀz - xᵀz), for fingerprints: the Jaccard similarity where they are binary.

    Positive semi-definite for counts and any real vectors too; two rows of zeros are alike (1).
    Ralaivola, Swamidass, Saigo & Baldi (2005), "Graph kernels for chemical informatics".
    """

    def similarities(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """xᵀz / (xᵀx + zᵀz - xᵀz)."""
        common, xp = x @ z.T, namespace(x, z)
        union = (x * x).sum(1)[:, None] + (z * z).sum(1)[None, :] - common
        return xp.where(union > 0, common / xp.where(union > 0, union, 1.0), 1.0)


class Categorical(Coded):
    """k(x, z) = s² Πₖ exp(-[xₖ ≠ zₖ] / ℓₖ): a category that differs multiplies the correlation by exp(-1/ℓₖ).

    With `overlap=True` it is s² times the share of columns that agree, without lengthscales. Columns hold codes,
    or strings if `categories` has a tuple of names for each column. `ard=True` lets `learn` give each column a
    lengthscale of its own. The weighted Hamming kernel of Hutter, Hoos & Leyton-Brown (2011), "Sequential
    model-based optimization for general algorithm configuration".
    """

    lengthscale: Float[Array, "*d"] | tuple[()] | None = positive(None, low=1e-2, high=1e4, unset=1.0)
    categories: tuple[tuple[str, ...], ...] | None = eqx.field(default=None, static=True)
    overlap: bool = eqx.field(default=False, static=True)
    ard: bool = eqx.field(default=False, static=True)
    symbols = (("ℓ", "lengthscale"),)

    def __init__(
        self,
        lengthscale: Numeric | None = None,
        *,
        variance: Numeric | None = None,
        categories: Iterable[Iterable[str]] | None = None,
        overlap: bool = False,
        ard: bool = False,
    ):
        if overlap and (ard or lengthscale is not None):
            raise DataError("Categorical(overlap=True) has no lengthscale; leave lengthscale and ard out")
        self.lengthscale = ABSENT if overlap else None if lengthscale is None else as_float(lengthscale)
        self.variance = None if variance is None else as_float(variance)
        self.categories = None if categories is None else tuple(tuple(names) for names in categories)
        self.overlap, self.ard = overlap, ard

    def similarities(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Π exp(-[x ≠ z]/ℓ), or the share of columns that agree."""
        d, xp = x.shape[1], namespace(self, x, z)
        price = np.full(d, 1.0 / d) if self.overlap else 1.0 / self.number("lengthscale")
        if np.shape(price) not in ((), (d,)):
            raise DataError(f"Categorical has {len(price)} lengthscales for inputs with {d} columns")
        price, paid = xp.broadcast_to(price, (d,)), xp.zeros((x.shape[0], z.shape[0]))
        for k in range(d):
            paid = paid + xp.where(x[:, k, None] != z[None, :, k], price[k], 0.0)
        return 1.0 - paid if self.overlap else xp.exp(-paid)

    def adapt(self, scales: InputScales) -> "Categorical":
        """ℓ = d: where all d columns differ, the correlation is 1/e."""
        d, out = len(scales.spread), super().adapt(scales)
        if self.overlap:
            return out
        out = start(out, lengthscale=float(d))
        return with_one_each(out, d) if self.ard else out

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """A table of codes, or of strings among the `categories` of their columns, as codes."""
        if self.categories is None or is_table(x):
            return check_table(x, name, columns)
        raw = np.asarray(x, dtype=object)
        raw = raw[:, None] if raw.ndim == 1 else raw
        if raw.ndim != 2 or raw.shape[1] != len(self.categories):
            raise DataError(f"{name} must have the {len(self.categories)} columns of categories, found {raw.shape}")
        places = [{c: i for i, c in enumerate(names)} for names in self.categories]
        codes = [[look_up(v, p, f"{name}[{i}]") for v, p in zip(r, places, strict=True)] for i, r in enumerate(raw)]
        return check_table(codes, name, columns)


def is_table(x: object) -> bool:
    """Whether x is an array or a data frame of numbers in rows: things that are encoded already."""
    if is_traced(x):
        return True
    if not hasattr(x, "__array__"):
        return False
    array = np.asarray(x)
    return array.ndim == 2 and array.dtype.kind in "biuf"


def as_items(x: object, name: str, what: str) -> list[object]:
    """The things that a list, a tuple, a vector or a single column holds."""
    column = np.asarray(x) if hasattr(x, "__array__") else None
    if column is not None and column.ndim == 2 and column.shape[1] == 1:
        x = column[:, 0]
    if isinstance(x, str | bytes | dict) or not isinstance(x, Iterable):
        raise DataError(f"{name} must be a list of {what}, found {type(x).__name__} {x!r}")
    items = x.tolist() if isinstance(x, np.ndarray) else list(x)
    if not items:
        raise DataError(f"{name} is empty; at least one of the {what} is needed")
    return items


def look_up(thing: object, places: Mapping[Any, int], name: str, where: str = "the categories") -> int:
    """The place of a thing that must be known."""
    if isinstance(thing, Hashable) and thing in places:
        return places[thing]
    known = ", ".join(repr(k) for k in list(places)[:8]) + (", …" if len(places) > 8 else "")
    raise DataError(f"{name} has {thing!r}, which is not in {where}; known are {known}")


def encode_members(x: object, names: tuple[Hashable, ...] | None, size: int, name: str, columns: int | None) -> Array:
    """Members of a list of known length, by name (where there are names) or by number, as a column of numbers."""
    if not is_table(x):
        items = as_items(x, name, "members")
        if names is not None:
            places = {member: i for i, member in enumerate(names)}
            items = [look_up(item, places, f"{name}[{i}]", "the list") for i, item in enumerate(items)]
        x = [item if isinstance(item, list | tuple) else [item] for item in items]
    table = check_table(x, name, 1 if columns is None else columns)
    if not is_traced(table):
        wrong = (table != np.round(table)) | (table < 0) | (table >= size)
        if wrong.any():
            raise DataError(f"{name} must hold whole numbers from 0 to {size - 1}, found {table[wrong][0]:g}")
    return table
