"""NumPy's arrays and JAX's: which of them a value is, and the way from one to the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike


@runtime_checkable
class SupportsArray(Protocol):
    """What NumPy can read: pandas, polars, other libraries' arrays."""

    def __array__(self) -> np.ndarray:
        """The numbers."""


Numeric = ArrayLike | Sequence[Any] | SupportsArray
"""Numbers as users have them: one, nested lists, arrays, columns of tables."""

if TYPE_CHECKING:
    AnyArray: TypeAlias = jax.Array
else:
    AnyArray = jax.Array | np.ndarray
    """What a function takes that computes with either library; type checkers know it by JAX's methods."""


def is_traced(*values: object) -> bool:
    """Whether any leaf of the values is a JAX tracer: its numbers cannot be looked at."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def namespace(*values: object) -> Any:
    """The library to compute with: `jax.numpy` where any leaf is traced or a JAX array, else NumPy."""
    return jnp if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(values)) else np


def put(values: Any) -> jax.Array:
    """NumPy's numbers as a JAX array, without a copy where memory allows; the caller no longer writes to them.

    Unlike `jnp.asarray` it compiles nothing for a shape that is new.
    """
    return jax.device_put(np.asarray(values))


@jax.custom_jvp
def computed_once(a: jax.Array) -> jax.Array:
    """The same array, behind a loop of no steps, through which XLA does not look.

    What is cheap to write is otherwise computed anew within each of its uses, and for each of their elements.
    """
    first = a.ravel()[0]
    never = (first != first) & (first == 0)
    return jax.lax.fori_loop(0, never.astype(int), lambda _, v: -v, a)


@computed_once.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    return computed_once(*primals), tangents[0]


def put_all(*arrays: np.ndarray) -> list[jax.Array]:
    """`put` of several NumPy arrays at once, which costs as much as of one."""
    return jax.device_put(list(arrays))
