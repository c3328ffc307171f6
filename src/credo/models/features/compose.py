"""Features made from other features, or from a function."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Num

from credo.core.arrays import Array, host, namespace
from credo.core.errors import DataError
from credo.core.padding import by_bucket
from credo.core.pytrees import changed
from credo.kernels.base import Kernel
from credo.kernels.random_fourier import RandomFeatures
from credo.models.features.base import Features, whole
from credo.models.features.scaling import Affine


class Joint(Features):
    """Several features used together."""

    parts: tuple[Features, ...]

    def __check_init__(self) -> None:
        if not self.parts or not all(isinstance(part, Features) for part in self.parts):
            raise DataError(f"{type(self).__name__} needs one or more features, found {self.parts!r}")

    @classmethod
    def terms(cls, features: Features) -> tuple[Features, ...]:
        """The parts of features that are already this kind of composition, so that none are nested."""
        return features.parts if isinstance(features, Joint) and type(features) is cls else (features,)

    @property
    def ready(self) -> bool:
        """Whether all parts are."""
        return all(part.ready for part in self.parts)

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "Joint":
        """Each part adapted to what it sees of x."""
        return changed(self, parts=tuple(part.adapt(x[:, shown]) for part, shown in self._views(x.shape[1])))

    def _views(self, d: int) -> list[tuple[Features, slice]]:
        """Each part, and which of d inputs it sees."""
        return [(part, slice(None)) for part in self.parts]


class Concatenate(Joint):
    """The columns of all parts side by side, φ = (φ₁, φ₂, ...); written f + g."""

    def __init__(self, *parts: Features):
        self.parts = parts

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The columns of each part in turn."""
        columns = [part(x) for part in self.parts]
        return namespace(columns).concatenate(columns, axis=1)

    def size(self, d: int) -> int:
        """The sum of the parts' sizes."""
        return sum(part.size(d) for part in self.parts)

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The names of each part in turn."""
        return [name for part in self.parts for name in part.names(inputs)]

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in self.parts)


class Product(Joint):
    """All products of one column of each part, φ = φ₁ ⊗ φ₂ ⊗ ... (the last fastest); written f * g."""

    def __init__(self, *parts: Features):
        self.parts = parts

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """Row by row the Kronecker product of the parts' columns."""

        def pair(a: Array, b: Array) -> Array:
            return (a[:, :, None] * b[:, None, :]).reshape(a.shape[0], a.shape[1] * b.shape[1])

        return functools.reduce(pair, [part(x[:, shown]) for part, shown in self._views(x.shape[1])])

    def size(self, d: int) -> int:
        """The product of the parts' sizes."""
        return math.prod(part.size(len(range(d)[shown])) for part, shown in self._views(d))

    def names(self, inputs: Sequence[str]) -> list[str]:
        """Such as bmi~spline3·age."""
        each = [part.names(inputs[shown]) for part, shown in self._views(len(inputs))]
        return ["·".join(names) for names in itertools.product(*each)]

    def __repr__(self) -> str:
        return " * ".join(_bracketed(part, Concatenate) for part in self.parts)


class Tensor(Product):
    """The tensor product φ₀(x₀) ⊗ φ₁(x₁) ⊗ ... of features of one input each: the i-th part sees input i."""

    def __init__(self, *parts: Features):
        self.parts = parts

    def _views(self, d: int) -> list[tuple[Features, slice]]:
        if d != len(self.parts):
            raise DataError(
                f"Tensor has features for {len(self.parts)} inputs, found {d}; "
                f"give one for each input, or choose the inputs with .on(...)"
            )
        return [(part, slice(i, i + 1)) for i, part in enumerate(self.parts)]

    def __repr__(self) -> str:
        return f"Tensor({', '.join(repr(part) for part in self.parts)})"


class Wrapped(Features):
    """Other features, and some columns of what goes into them or comes out."""

    features: Features
    columns: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, features: Features, columns: Sequence[int]):
        self.features = features
        self.columns = tuple(whole(type(self).__name__, "each column", column, least=0) for column in columns)

    def __check_init__(self) -> None:
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise DataError(f"{type(self).__name__} needs one or more different columns, found {self.columns}")

    @property
    def ready(self) -> bool:
        """Whether the inner features are."""
        return self.features.ready


class OnColumns(Wrapped):
    """Features of some of the inputs only; written f.on(0, 2)."""

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """φ of the chosen columns."""
        return self.features(x[:, self._chosen(x.shape[1])])

    def size(self, d: int) -> int:
        """The size of the inner features for as many inputs as were chosen."""
        return self.features.size(len(self._chosen(d)))

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The names of the inner features for the chosen inputs."""
        return self.features.names([inputs[column] for column in self._chosen(len(inputs))])

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "OnColumns":
        """The inner features adapted to the chosen columns of x."""
        return OnColumns(self.features.adapt(x[:, self._chosen(x.shape[1])]), self.columns)

    def __repr__(self) -> str:
        return f"{_bracketed(self.features, Concatenate, Product)}.on({', '.join(map(str, self.columns))})"

    def _chosen(self, d: int) -> np.ndarray:
        last = max(self.columns)
        if last >= d:
            raise DataError(f"column {last} needs at least {last + 1} inputs, found {d}; columns count from 0")
        return np.array(self.columns)


class Composed(Features):
    """φ(x) = outer(inner(x)), features of features, such as the powers of standardized inputs; written f.after(g)."""

    outer: Features
    inner: Features

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """outer(inner(x))."""
        return self.outer(self.inner(x))

    def size(self, d: int) -> int:
        """The size of the outer features on as many inputs as the inner ones have columns."""
        return self.outer.size(self.inner.size(d))

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The outer names of the inner names."""
        return self.outer.names(self.inner.names(inputs))

    @property
    def ready(self) -> bool:
        """Whether both are."""
        return self.outer.ready and self.inner.ready

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "Composed":
        """The inner features adapted to x, the outer ones to their columns."""
        inner = self.inner.adapt(x)
        return Composed(self.outer.adapt(inner(np.asarray(x, dtype=float))), inner)


class Chosen(Wrapped):
    """Some of the columns of other features; written f.keep(0, 2)."""

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The chosen columns of φ(x)."""
        self.size(x.shape[1])
        return self.features(x)[:, np.array(self.columns)]

    def size(self, d: int) -> int:
        """How many were chosen."""
        size = self.features.size(d)
        if max(self.columns) >= size:
            raise DataError(f"column {max(self.columns)} was chosen, but there are {size}; columns count from 0")
        return len(self.columns)

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The names of those chosen."""
        every = self.features.names(inputs)
        return [every[i] for i in self.columns]

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "Chosen":
        """The features chosen from adapted to x."""
        return Chosen(self.features.adapt(x), self.columns)


class Custom(Features):
    """The columns that a function of yours computes, (n, d) → (n, number), row by row and traceable by JAX.

    A function cannot be written to a `.credo` file, so neither can these features.
    """

    function: Callable[[Array], Array] = eqx.field(static=True)
    number: int = eqx.field(static=True)
    labels: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(self, function: Callable[[Array], Array], number: int, labels: Sequence[str] | None = None):
        self.function = function
        self.number = whole("Custom", "number", number, least=1)
        self.labels = None if labels is None else tuple(labels)

    def __check_init__(self) -> None:
        if not callable(self.function):
            raise DataError(f"Custom needs a function of x, found {self.function!r}")
        if self.labels is not None and len(self.labels) != self.number:
            raise DataError(f"Custom needs a label for each of {self.number} columns, found {self.labels}")

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """function(x)."""
        columns = host(by_bucket(_called, x, self.function))
        if columns.shape != (x.shape[0], self.number):
            raise DataError(
                f"the function of Custom must return shape {(x.shape[0], self.number)} "
                f"for x of shape {x.shape}, found {columns.shape}"
            )
        return columns

    def size(self, d: int) -> int:
        """`number`, for any number of inputs."""
        return self.number

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The labels, or custom1, custom2, ..."""
        return [f"custom{i + 1}" for i in range(self.number)] if self.labels is None else list(self.labels)


class OfKernel(Features):
    """The columns of random Fourier features (`credo.kernels.random_features`): φ(x)ᵀφ(z) ≈ k(x, z)."""

    map: RandomFeatures

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """cos ωᵀx and sin ωᵀx."""
        return self.map(x)

    def size(self, d: int) -> int:
        """m with phases, 2m paired."""
        return self.map.size(d)

    def names(self, inputs: Sequence[str]) -> list[str]:
        """wave1, wave2, …"""
        return [f"wave{i + 1}" for i in range(self.map.size(len(inputs)))]


def as_features(value: object, name: str) -> Features:
    """Features from what users write: None is the inputs themselves; random features of a kernel are features, too."""
    if value is None:
        return Affine()
    if isinstance(value, Features):
        return value
    if isinstance(value, RandomFeatures):
        return OfKernel(value)
    remedy = "e.g. Polynomial(2), or Custom(function, number) for a function of yours"
    if isinstance(value, Kernel):
        remedy = "for a kernel use credo.GP(kernel), or random_features(kernel, m, d) as features"
    raise DataError(f"{name} takes features first, found {type(value).__name__}; {remedy}")


@eqx.filter_jit
def _called(x: Array, function: Callable[[Array], Array]) -> Array:
    return jnp.atleast_1d(jnp.asarray(function(x), dtype=x.dtype))


def _bracketed(features: Features, *kinds: type[Features]) -> str:
    return f"({features!r})" if type(features) in kinds else repr(features)
