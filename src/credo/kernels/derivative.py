"""Derivatives of a function are jointly Gaussian with its values.

    cov(f(x), ∂f(z)/∂zⱼ) = ∂k(x, z)/∂zⱼ,    cov(∂f(x)/∂xᵢ, ∂f(z)/∂zⱼ) = ∂²k(x, z)/∂xᵢ∂zⱼ

A row says what is observed in one more, last column: 0 the value, j ≥ 1 the derivative along column j (counted from
one). Derivatives of the kernel are taken of its two-point form, forward mode twice.  Rasmussen & Williams (2006), §9.4.
"""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float, Int

from credo.core.arrays import Array, is_traced, namespace
from credo.core.checks import check_table, check_vector
from credo.core.errors import DataError
from credo.kernels.base import Amplitude, InputScales, Kernel, Wrapped
from credo.kernels.discrete import Coded
from credo.kernels.elementary import White
from credo.kernels.matern import Matern
from credo.kernels.nonstationary import Brownian
from credo.kernels.stationary import Exponential


class Differentiated(Wrapped):
    """The covariance of the values and the partial derivatives of a function with covariance `kernel`.

    Rows are (x₁ … x_d, j): f(x) where j = 0, ∂f/∂xⱼ where j = 1 … d; see `with_gradients`. Learning is in reverse
    mode and works for every kernel but `Matern`, whose smoothness takes a loop.
    """

    kernel: Kernel
    is_stationary = False  # not in the column that says what is observed
    compiled = True

    def __check_init__(self) -> None:
        check_differentiable(self.kernel)

    def of(self, x: Float[Array, " d"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """k, ∂k/∂zⱼ, ∂k/∂xᵢ or ∂²k/∂xᵢ∂zⱼ."""
        (a, i, u), (b, j, v) = split_rows(x), split_rows(z)

        def right(a: Array) -> tuple[Array, Array]:
            return jax.jvp(lambda b: self.kernel.of(a, b), (b,), (v,))

        (k, k_right), (k_left, k_both) = jax.jvp(right, (a,), (u,))
        return jnp.where(i == 0, jnp.where(j == 0, k, k_right), jnp.where(j == 0, k_left, k_both))

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """A table whose last column says what is observed."""
        table = check_table(x, name, columns)
        d = table.shape[1] - 1
        if d < 1:
            raise DataError(f"{name} needs input columns and a last one that says what is observed, found one column")
        if not is_traced(table):
            kinds = np.asarray(table)[:, -1]
            wrong = ~np.isin(kinds, np.arange(d + 1))
            if wrong.any():
                raise DataError(
                    f"the last column of {name} says what is observed, 0 the value and 1 … {d} a derivative, "
                    f"found {kinds[wrong][0]:g} in row {int(np.argmax(wrong))}; build the rows with with_gradients"
                )
        return table

    def adapt(self, scales: InputScales) -> "Differentiated":
        """As the kernel inside, from the columns that are inputs."""
        return Differentiated(self.kernel.adapt(scales.on(tuple(range(len(scales.spread) - 1)))))

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · k."""
        return Differentiated(self.kernel.scaled(factor))

    def split_variance(self) -> tuple[Amplitude, Kernel]:
        """Of the kernel inside."""
        variance, bare = self.kernel.split_variance()
        return variance, Differentiated(bare)

    def formula(self) -> str:
        """∂(k)."""
        return f"∂({self.kernel.formula()})"


def split_rows(rows: Float[Array, "*n q"]) -> tuple[Float[Array, "*n d"], Int[Array, "*n"], Float[Array, "*n d"]]:
    """(x, j, u): the inputs, what is observed, and the direction u in which a derivative is taken, 0 for a value."""
    d = rows.shape[-1] - 1
    kind = jnp.round(rows[..., -1]).astype(int)
    return rows[..., :-1], kind, jax.nn.one_hot(kind - 1, d, dtype=rows.dtype)


def observed(function: Callable[[Array], Array], rows: Float[Array, "n q"]) -> Float[Array, "n *p"]:
    """Values or derivatives, as the rows say, of a function of rows (n, d) that treats each on its own."""
    x, kind, direction = split_rows(rows)
    value, slope = jax.jvp(function, (x,), (direction,))
    return jnp.where((kind == 0).reshape(-1, *(1,) * (value.ndim - 1)), value, slope)


def with_gradients(x: object, y: object, gradients: object, where: object = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows and outcomes for `Differentiated`: the values y at x, then the gradients, point by point.

    Args:
        x: inputs of the values, shape (n, d).
        y: the values, shape (n,).
        gradients: shape (q, d); a component that is NaN was not observed and is left out.
        where: inputs of the gradients, shape (q, d); None is x.
    """
    table = np.asarray(check_table(x, "x"))
    n, d = table.shape
    values = np.asarray(check_vector(y, "y", n))
    places = table if where is None else np.asarray(check_table(where, "where", d))
    slopes = np.asarray(check_table(gradients, "gradients", finite=False))
    if slopes.shape != places.shape:
        raise DataError(
            f"gradients must have a row for each point and a column for each input, shape {places.shape}, "
            f"found {slopes.shape}; if they were observed elsewhere than at x, give where="
        )
    flat = slopes.reshape(-1)
    there = ~np.isnan(flat)
    rows = np.concatenate([np.column_stack([table, np.zeros(n)]), np.asarray(derivative_rows(places))[there]])
    return rows, np.concatenate([values, flat[there]])


def derivative_rows(x: Float[Array, "m d"]) -> Float[Array, "md q"]:
    """The rows (x, 1) … (x, d) for each x in turn, shape (m·d, d + 1)."""
    xp = namespace(x)
    m, d = x.shape
    return xp.concatenate([xp.repeat(x, d, axis=0), xp.tile(xp.arange(1.0, d + 1), m)[:, None]], axis=1)


def check_differentiable(kernel: Kernel) -> None:
    """Raises `DataError` where a kernel is known to have functions without derivatives."""
    for part in _parts(kernel):
        rough = isinstance(part, Exponential | White | Brownian)
        if isinstance(part, Matern) and not is_traced(part.smoothness):
            rough = not bool(np.all(np.asarray(part.smoothness) > 1))
        if rough or isinstance(part, Coded):
            why = "of inputs that are not numbers" if isinstance(part, Coded) else "of functions that have none"
            raise DataError(
                f"{part.formula()} is a kernel {why}: there is no derivative to take; "
                "use a smooth kernel of numbers such as RBF, Matern52 or Matern32"
            )


def _parts(kernel: Kernel) -> Iterator[Kernel]:
    """The kernels that a kernel is made of, itself among them."""
    yield kernel
    for child in kernel.inside.values():
        yield from _parts(child)
