"""A kernel of other inputs: of some of the columns, of a function of the row, or of a network's features."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.core.modules import FlatModule
from credo.core.params import real, settled
from credo.kernels.base import Amplitude, InputScales, Kernel, Wrapped
from credo.kernels.measures import Placed, Spectrum


class OnColumns(Wrapped):
    """A kernel of some of the input columns: its active dimensions. Make it with `k.on(0, 2)`."""

    kernel: Kernel
    columns: tuple[int, ...] = eqx.field(static=True)
    is_isotropic = False  # it is blind to the distance along the other columns

    def __check_init__(self) -> None:
        ok = self.columns and all(isinstance(c, int) and c >= 0 for c in self.columns)
        if not ok or len(set(self.columns)) != len(self.columns):
            raise DataError(f".on(...) needs column numbers from 0, each once, found {self.columns}")

    def cut(self, x: Array) -> Array:
        """The columns of x."""
        if max(self.columns) >= x.shape[-1]:
            raise DataError(f"the kernel is on column {max(self.columns)}, found inputs with {x.shape[-1]} columns")
        return x[..., np.asarray(self.columns)]

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """K of the columns."""
        return self.kernel.gram(self.cut(x), self.cut(z))

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """k(x, x) of the columns."""
        return self.kernel.diagonal(self.cut(x))

    def spectral_measure(self, d: int) -> Spectrum:
        """That of the kernel inside, placed on its columns."""
        if max(self.columns) >= d:
            raise DataError(f"the kernel is on column {max(self.columns)}, found inputs with {d} columns")
        mass, law = self.kernel.spectral_measure(len(self.columns))
        return mass, Placed(law, self.columns, d)

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """A table: the kernel inside sees a part of it."""
        return Kernel.encode(self, x, name, columns)

    def adapt(self, scales: InputScales) -> "OnColumns":
        """From the columns that it sees."""
        return OnColumns(self.kernel.adapt(scales.on(self.columns)), self.columns)

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · k."""
        return OnColumns(self.kernel.scaled(factor), self.columns)

    def split_variance(self) -> tuple[Amplitude, Kernel]:
        """Of the kernel inside."""
        variance, bare = self.kernel.split_variance()
        return variance, OnColumns(bare, self.columns)

    @property
    def terms(self) -> tuple[Kernel, ...]:
        """The terms of the kernel inside, on the same columns."""
        return tuple(OnColumns(k, self.columns) for k in self.kernel.terms) if len(self.kernel.terms) > 1 else (self,)

    def formula(self) -> str:
        """k[x0, x2]."""
        return f"{self._inside()}[{', '.join(f'x{c}' for c in self.columns)}]"


class Mapped(Wrapped):
    """k(g(x), g(z)) for a map g of rows: positive semi-definite whatever g is."""

    @abstractmethod
    def map(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """The rows g(xᵢ)."""

    def mapped_scales(self, scales: InputScales) -> InputScales:
        """The scales of g(x), as far as they follow from those of x."""
        return scales

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """K of the mapped rows."""
        return self.kernel.gram(self.map(x), self.map(z))

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """k(g(x), g(x))."""
        return self.kernel.diagonal(self.map(x))

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """A table, which g maps."""
        return Kernel.encode(self, x, name, columns)


class OfFunction(Mapped):
    """k(g(x), g(z)) for a function g of a row. Make it with `k.warp(g)`."""

    kernel: Kernel
    function: Callable[[Array], Array] = eqx.field(static=True)
    is_stationary = False
    compiled = True

    def map(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """The rows g(xᵢ)."""
        return jax.vmap(lambda row: jnp.atleast_1d(self.function(row)))(x)

    def adapt(self, scales: InputScales) -> "OfFunction":
        """What g does to scales is not known: what nobody has given stays at what it means until then."""
        return settled(self)

    def formula(self) -> str:
        """k∘g."""
        return f"{self._inside()}∘{getattr(self.function, '__name__', 'g')}"


class OfNetwork(Mapped):
    """k(g(x; w), g(z; w)): a deep kernel. Make it with `k.after(network)`.

    The weights w of the network, an equinox module that maps a row to features, are hyperparameters like others, by
    default under N(0, 1): `learn` climbs the evidence in them, which many of them can overfit (Ober, Rasmussen & van
    der Wilk 2021). Wilson, Hu, Salakhutdinov & Xing (2016), "Deep kernel learning".
    """

    kernel: Kernel
    flat: FlatModule
    weights: Float[Array, " p"] = real()
    is_stationary = False
    compiled = True

    @classmethod
    def around(cls, kernel: Kernel, network: Any) -> "OfNetwork":
        """From the module."""
        return cls(kernel, *FlatModule.of(network))

    def map(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        """The features g(xᵢ; w)."""
        return self.flat(self.weights, x)

    def adapt(self, scales: InputScales) -> "OfNetwork":
        """Features have no scales before the network is known: what nobody has given stays at what it means."""
        return settled(self)

    def formula(self) -> str:
        """k∘network."""
        return f"{self._inside()}∘network"
