"""Networks as functions of one flat vector of weights: dense ones, and any equinox module.

    h₀ = x,    hₗ = tanh(hₗ₋₁Wₗ + bₗ),    f = h_L W + b

Many networks of one shape are the rows of a table, and are asked at once.
"""

import itertools
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.errors import DataError
from credo.core.modules import FlatModule


class Architecture(eqx.Module):
    """f(x; θ) of flat vectors θ."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many weights, biases among them."""

    @abstractmethod
    def __call__(self, theta: Float[Array, "*k p"], x: Float[Array, "*n d"]) -> Float[Array, "*m o"]:
        """f(x) of each network, for rows x that are the same for all of them or a table for each."""

    @abstractmethod
    def start(self, k: int, rng: np.random.Generator) -> Float[np.ndarray, "k p"]:
        """Initial values of k networks."""

    @abstractmethod
    def last(self, output: int | None = None) -> np.ndarray:
        """The places in θ of the last layer's weights and biases; of one output, or of all."""


class Network(Architecture):
    """The shape of a network: the numbers of units of its layers, inputs first, outputs last."""

    sizes: tuple[int, ...] = eqx.field(static=True)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Units before and after each layer of weights."""
        return list(itertools.pairwise(self.sizes))

    @property
    def size(self) -> int:
        """How many weights, biases among them."""
        return sum((a + 1) * b for a, b in self.pairs)

    def layers(self, theta: Float[Array, "*k p"]) -> list[tuple[Float[Array, "*k a b"], Float[Array, "*k b"]]]:
        """(W, b) of each layer."""
        out, at = [], 0
        for a, b in self.pairs:
            matrix = theta[..., at : at + a * b].reshape(*theta.shape[:-1], a, b)
            out.append((matrix, theta[..., at + a * b : at + (a + 1) * b]))
            at += (a + 1) * b
        return out

    def __call__(self, theta: Float[Array, "*k p"], x: Float[Array, "*n d"]) -> Float[Array, "*m o"]:
        """f(x) of each network, for rows x that are the same for all of them or a table for each."""
        xp, h = namespace(theta, x), x
        for i, (matrix, bias) in enumerate(self.layers(theta)):
            h = h @ matrix + bias[..., None, :]
            h = h if i == len(self.pairs) - 1 else xp.tanh(h)
        return h

    def start(self, k: int, rng: np.random.Generator) -> Float[np.ndarray, "k p"]:
        """Initial values of k networks: W ~ N(0, 1/a), Glorot & Bengio (2010); units bend at places b ~ N(0, 1)."""
        parts = []
        for a, b in self.pairs:
            parts += [rng.normal(size=(k, a * b)) / np.sqrt(a), rng.normal(size=(k, b))]
        parts[-1] = np.zeros_like(parts[-1])
        return np.concatenate(parts, axis=1)

    def outgoing(self, keep: Float[np.ndarray, "*k u"]) -> Float[np.ndarray, "*k p"]:
        """What multiplies each weight where hidden unit u is multiplied by `keep`: a unit's outgoing weights."""
        lead, at, parts = keep.shape[:-1], 0, []
        for i, (a, b) in enumerate(self.pairs):
            unit = np.ones((*lead, a)) if i == 0 else keep[..., at : at + a]
            at += a if i else 0
            parts += [np.repeat(unit, b, axis=-1), np.ones((*lead, b))]
        return np.concatenate(parts, axis=-1)

    @property
    def hidden(self) -> int:
        """How many hidden units."""
        return sum(self.sizes[1:-1])

    @property
    def matrices(self) -> Float[np.ndarray, " p"]:
        """One where a weight connects two units, zero where it is a bias."""
        return np.concatenate([np.repeat([1.0, 0.0], [a * b, b]) for a, b in self.pairs])

    def last(self, output: int | None = None) -> np.ndarray:
        """The places of the last W and b."""
        a, b = self.pairs[-1]
        places = np.arange(self.size - (a + 1) * b, self.size).reshape(a + 1, b)
        return np.ravel(places if output is None else places[:, output])


class OwnNetwork(Architecture):
    """An equinox module that maps a row to outputs."""

    flat: FlatModule
    first: Float[Array, " p"]
    """The weights that the module came with."""

    @classmethod
    def of(cls, module: Any) -> "OwnNetwork":
        """From the module."""
        return cls(*FlatModule.of(module))

    @property
    def size(self) -> int:
        """How many weights."""
        return self.flat.size

    def __call__(self, theta: Float[Array, "*k p"], x: Float[Array, "*n d"]) -> Float[Array, "*m o"]:
        """f(x) of each network, compiled."""
        return _asked(self.flat, theta, x) if is_traced(theta, x, self) else host(_asked_compiled(self.flat, theta, x))

    def start(self, k: int, rng: np.random.Generator) -> Float[np.ndarray, "k p"]:
        """The module's own values, then those of each of its arrays in another order: drawn alike, they stay alike."""
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self.flat.shapes if shape is not None)])
        parts = [self.first[a:b] for a, b in itertools.pairwise(ends)]
        return np.stack([self.first, *(np.concatenate([rng.permutation(p) for p in parts]) for _ in range(k - 1))])

    @property
    def matrices(self) -> Float[np.ndarray, " p"]:
        """One for the entries of arrays with two axes or more, zero for biases."""
        shapes = [shape for shape in self.flat.shapes if shape is not None]
        return np.concatenate([np.full(int(np.prod(shape)), float(len(shape) > 1)) for shape in shapes])

    def check(self, d: int, width: int) -> None:
        """`DataError` unless rows of d numbers give so many outputs."""
        try:
            found = jax.eval_shape(self.flat, self.first, np.zeros((1, d))).shape
        except Exception as error:
            raise DataError(
                f"the network must take a row of {d} numbers and nothing else, found {type(error).__name__}: {error}; "
                "in the place of layers with a key or a state there are LayerNorm, and using=DropConnect(…)"
            ) from None
        if found != (1, width):
            raise DataError(f"the network must have {width} outputs for this outcome, found shape {found[1:]}")

    def last(self, output: int | None = None) -> np.ndarray:
        """The places of the weights of the last `eqx.nn.Linear`."""
        places = jax.tree.leaves(self.flat.places(), is_leaf=lambda leaf: isinstance(leaf, eqx.nn.Linear))
        layers = [leaf for leaf in places if isinstance(leaf, eqx.nn.Linear)]
        if not layers:
            raise DataError("a last layer is an eqx.nn.Linear at the end, found none in the network; use 'full'")
        parts = [w for w in (layers[-1].weight, layers[-1].bias) if w is not None]
        return np.concatenate([np.ravel(w if output is None else w[output]) for w in parts]).astype(int)


def _asked(flat: FlatModule, theta: Array, x: Array) -> Array:
    """f(x) of each network."""
    if theta.ndim == 1:
        return flat(theta, x)
    return jax.vmap(flat, (0, 0 if x.ndim > 2 else None))(theta, x)


_asked_compiled = eqx.filter_jit(_asked)
