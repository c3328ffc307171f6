"""NumPy's arrays and JAX's: which of them a value is, and the way from one to the other."""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import scipy.special
from jaxtyping import ArrayLike

from credo.core.errors import DataError

T = TypeVar("T")

NOT_NUMBERS = (str, bytes, complex, np.datetime64, np.timedelta64)


@runtime_checkable
class SupportsArray(Protocol):
    """What NumPy can read: pandas, polars, other libraries' arrays."""

    def __array__(self) -> np.ndarray:
        """The numbers."""


Numeric = ArrayLike | Sequence[Any] | SupportsArray
"""Numbers as users have them: one, nested lists, arrays, columns of tables."""

if TYPE_CHECKING:
    Array: TypeAlias = jax.Array | np.ndarray
else:
    Array = jax.Array | np.ndarray | np.generic
    """An array of either library: NumPy's while its numbers are known, JAX's inside `jit`, `vmap` and `grad`."""


def is_traced(*values: object) -> bool:
    """Whether any leaf of the values is a JAX tracer: its numbers cannot be looked at."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def namespace(*values: object) -> Any:
    """The library to compute with: `jax.numpy` where any leaf is traced or a JAX array, else NumPy."""
    return jnp if _is_jax(*values) else np


def _is_jax(*values: object) -> bool:
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(values))


def special(*values: object) -> ModuleType:
    """The special functions of the library to compute with: `jax.scipy.special` or `scipy.special`."""
    return jax.scipy.special if _is_jax(*values) else scipy.special


def is_concrete(value: object) -> bool:
    """Whether a value is a JAX array whose numbers can be looked at (and not a random key)."""
    return (
        isinstance(value, jax.Array)
        and not isinstance(value, jax.core.Tracer)
        and not jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    )


def host(tree: T) -> T:
    """The tree with NumPy's arrays for JAX's, without a copy: what a compiled program leaves behind. Tracers stay."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if is_concrete(leaf) else leaf, tree)


def held(tree: T) -> T:
    """The same numbers, constants to derivatives."""
    return jax.lax.stop_gradient(tree) if is_traced(tree) else tree


def as_float(value: Any, name: str = "a number") -> Array:
    """Numbers as a float64 array: NumPy's while they are known, else the tracer; text and None are none."""
    if is_traced(value):
        return jnp.asarray(value, dtype=float)
    try:
        found = np.asarray(value)
        if found.dtype.kind in "OUScmM" and any(v is None or isinstance(v, NOT_NUMBERS) for v in found.flat):
            raise TypeError
        return found.astype(float, copy=False)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be a number or an array of numbers, found {value!r:.80}") from None


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
