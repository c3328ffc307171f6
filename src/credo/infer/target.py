"""A log density over a pytree of numbers, as methods see it: a function of one unconstrained vector.

    θ = T(u),    log p(u) = log p(θ) + log |det ∂T/∂u|

`ParameterSpace` knows T: which numbers there are, under which constraints, and how they lie in u ∈ ℝᵏ. `Target` adds
the density, a function of the pytree and of data; the data are its leaves, so that new data reuse compiled code.
"""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, PyTree

from credo.core import params
from credo.core.arrays import Array, Numeric, as_float
from credo.core.bijectors import BIJECTORS
from credo.core.errors import DataError

Constraints = Mapping[str, object]


class ParameterSpace(eqx.Module):
    """Where a pytree of numbers lives: its leaves under constraints, as one unconstrained vector."""

    template: PyTree
    """A pytree with these leaves; the numbers are where a method starts."""
    slots: params.Layout = eqx.field(static=True)

    @classmethod
    def of(cls, init: PyTree, constraints: Constraints | None = None) -> "ParameterSpace":
        """The space around `init`; `constraints` by path ("scale" or "group.0.scale"), real where none is given.

        A constraint is one of "positive", "unit_interval", "simplex", "positive_definite", "ordered_vector".
        """
        found, tree = jax.tree_util.tree_flatten_with_path(init)
        leaves = [(jax.tree_util.keystr(path, simple=True, separator="."), _numbers(leaf)) for path, leaf in found]
        if not leaves or not sum(leaf.size for _, leaf in leaves):
            raise DataError(f"init must be numbers, or a dict, list or pytree of them, found none in {init!r}")
        named = dict(constraints or {})
        unknown = [path for path in named if path not in dict(leaves)]
        if unknown:
            known = ", ".join(path or "(a single number)" for path, _ in leaves)
            raise DataError(f"constraints name {unknown[0]!r}, but init has the numbers: {known}")
        slots = params.layout_of((path, _constraint(path, named.get(path, "real")), v.shape) for path, v in leaves)
        return cls(jax.tree.unflatten(tree, [leaf for _, leaf in leaves]), slots)

    @property
    def size(self) -> int:
        """k, the number of unconstrained coordinates."""
        return self.slots[-1].stop

    @property
    def names(self) -> list[str]:
        """The name of each coordinate of the vector."""
        return params.coordinate_names(self.slots)

    def tree(self, vector: Float[Array, "*n k"]) -> PyTree:
        """θ = T(u); of many vectors at once its leaves have their leading axes."""
        return jax.tree.unflatten(jax.tree.structure(self.template), params.unpack(self.slots, vector))

    def vector(self, tree: PyTree) -> Float[Array, "*n k"]:
        """u = T⁻¹(θ)."""
        return params.pack(self.slots, jax.tree.leaves(tree))

    def start(self) -> Float[np.ndarray, " k"]:
        """T⁻¹ of the template; `DataError` where it breaks a constraint."""
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.asarray(self.vector(self.template))
        for slot in self.slots:
            if not np.all(np.isfinite(u[slot.start : slot.stop])):
                value = dict(self.by_path(self.template))[slot.path]
                raise DataError(f"init breaks the constraint of {slot.path!r}: {slot.constraint.kind}, found {value}")
        return u

    def by_path(self, tree: PyTree) -> dict[str, Array]:
        """The leaves of a pytree of this structure by their paths."""
        return dict(zip((s.path for s in self.slots), jax.tree.leaves(tree), strict=True))


def _numbers(leaf: Numeric) -> Array:
    try:
        return as_float(leaf)
    except (TypeError, ValueError):
        raise DataError(f"init must hold numbers only, found {type(leaf).__name__}") from None


def _constraint(path: str, given: object) -> params.Constraint:
    constraint = given if isinstance(given, params.Constraint) else params.Constraint(str(given))
    if constraint.kind not in BIJECTORS:
        raise DataError(f"constraints[{path!r}] must be one of {', '.join(BIJECTORS)}, found {given!r}")
    return constraint


class Target(eqx.Module):
    """log p(u) over a space, from log p(θ, data) as a function of the pytree θ and the data."""

    space: ParameterSpace
    function: Callable[..., Array]
    data: tuple[PyTree, ...] = ()
    outputs: tuple[Callable[..., Array], Callable[..., Array]] | None = None
    """Where the density is likelihood(outputs(θ, data), data) + prior: those two functions, for Gauss-Newton."""

    def __call__(self, u: Float[Array, " k"]) -> Float[Array, "..."]:
        """The log density of the unconstrained vector."""
        return self.function(self.space.tree(u), *self.data) + params.log_jacobian(self.space.slots, u)

    def check(self) -> Float[np.ndarray, " k"]:
        """The start, where the density and its gradient are finite; or an error that says which are not."""
        u = self.space.start()
        value, gradient = value_and_grad(self, u)
        if np.shape(value) != ():
            raise DataError(f"the log density must return one number, found an array of shape {np.shape(value)}")
        if np.isfinite(value) and np.all(np.isfinite(gradient)):
            return u
        where = ", ".join(f"{name} = {short(v)}" for name, v in self.space.by_path(self.space.template).items())
        if not np.isfinite(value):
            raise DataError(f"the log density is {float(value)} at the start ({where}); start where it is finite")
        bad = [name for name, g in zip(self.space.names, np.asarray(gradient), strict=True) if not np.isfinite(g)]
        raise DataError(
            f"the gradient of the log density is not finite in {', '.join(bad[:5])} at the start ({where}); "
            "often √ or log at zero: start elsewhere, or guard both branches with jnp.where"
        )


@eqx.filter_jit
def value_and_grad(target: Target, u: Float[Array, " k"]) -> tuple[Float[Array, "..."], Float[Array, " k"]]:
    """log p(u) and its gradient, compiled."""
    value, pull = jax.vjp(target, u)
    return value, pull(jnp.ones_like(value))[0]


def short(value: ArrayLike) -> str:
    """A number, or the first few of an array, for a message."""
    flat = np.ravel(np.asarray(value))
    shown = ", ".join(f"{v:.4g}" for v in flat[:3])
    return shown if np.ndim(value) == 0 else f"[{shown}{', …' if flat.size > 3 else ''}]"
