"""An equinox module as a function of one flat vector of its weights, so that many of one kind are the rows of a table.

Its JAX arrays of real numbers are weights; NumPy's arrays (edges of bins, centers) and everything else are constants.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.errors import DataError


def is_weight(leaf: object) -> bool:
    """Whether a leaf of a module is learned."""
    return isinstance(leaf, jax.Array) and bool(jnp.issubdtype(leaf.dtype, jnp.floating))


class FlatModule(eqx.Module):
    """What a module is beside its weights: f(x; θ) of a row x and the flat vector θ."""

    shapes: tuple[tuple[int, ...] | None, ...] = eqx.field(static=True)
    """Of each leaf that is a weight; None of the others."""
    tree: Any = eqx.field(static=True)
    others: tuple[Any, ...]
    """The leaves that are no weights."""

    @classmethod
    def of(cls, module: Any) -> tuple["FlatModule", Float[np.ndarray, " p"]]:
        """The module without its weights, and these."""
        if not callable(module):
            raise DataError(f"a network must be a module that maps a row to outputs, found {type(module).__name__}")
        leaves, tree = jax.tree.flatten(module)
        weights = [np.asarray(leaf, dtype=float) for leaf in leaves if is_weight(leaf)]
        if not weights:
            raise DataError(f"a network must have weights to learn, JAX arrays; found none in {type(module).__name__}")
        shapes = tuple(tuple(leaf.shape) if is_weight(leaf) else None for leaf in leaves)
        others = tuple(leaf for leaf in leaves if not is_weight(leaf))
        return cls(shapes, tree, others), np.concatenate([w.ravel() for w in weights])

    @property
    def size(self) -> int:
        """How many weights."""
        return sum(math.prod(shape) for shape in self.shapes if shape is not None)

    def places(self) -> Any:
        """The module with the place in the flat vector of every weight in its stead."""
        return self.module(np.arange(float(self.size)))

    def module(self, theta: Float[Array, " p"]) -> Any:
        """The module with these weights."""
        at, others, leaves = 0, iter(self.others), []
        for shape in self.shapes:
            if shape is None:
                leaves.append(next(others))
                continue
            size = math.prod(shape)
            leaves.append(theta[at : at + size].reshape(shape))
            at += size
        return jax.tree.unflatten(self.tree, leaves)

    def __call__(self, theta: Float[Array, " p"], x: Float[Array, "n d"]) -> Float[Array, "n o"]:
        """f(xᵢ; θ) of each row."""
        return jax.vmap(lambda row: jnp.atleast_1d(self.module(theta)(row)))(jnp.asarray(x))
