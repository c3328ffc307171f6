"""What a basis expansion φ: ℝᵈ → ℝᵖ is, and the checks that its families share.

A linear model believes E[y | x, w] = w₀ + wᵀφ(x); the intercept w₀ is the model's, so a basis has no constant
column unless it contains one by nature. Sizes are static; numbers that may come from the data (a domain, a
period) are array fields that are None until they are given or `adapt` fills them in.
"""

import abc
import dataclasses
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Float, Num

from credo.core.arrays import Array, Numeric, as_float, is_traced
from credo.core.errors import DataError
from credo.models import features  # whose classes load on use: these are made of `Features`


class Features(eqx.Module):
    """A basis expansion: n rows of d inputs become n rows of p columns, each row on its own.

    `f + g` puts the columns of both side by side, `f * g` takes all products of a column of f and one of g,
    `f.on(0, 2)` shows f only the inputs 0 and 2, `f.keep(0, 2)` keeps its columns 0 and 2, `f.after(g)` is f of g.
    """

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows φ(xᵢ)."""

    @abc.abstractmethod
    def size(self, d: int) -> int:
        """The number of columns p for d inputs."""

    @abc.abstractmethod
    def names(self, inputs: Sequence[str]) -> list[str]:
        """What each column is called when the inputs have these names."""

    @property
    def ready(self) -> bool:
        """Whether φ can be computed, or `adapt` must choose a number first."""
        return True

    def adapt(self, x: Num[Array | np.ndarray, "n d"]) -> "Features":
        """The same features with every number that is still None chosen from x; numbers already set stay."""
        return self

    def on(self, *columns: int) -> "Features":
        """These features of the given input columns only."""
        return features.OnColumns(self, columns)

    def keep(self, *columns: int) -> "Features":
        """Some of the columns of these features only."""
        return features.Chosen(self, columns)

    def after(self, inner: "Features") -> "Features":
        """These features of the columns of others: φ(x) = self(inner(x))."""
        return features.Composed(self, inner)

    def __add__(self, other: "Features") -> "Features":
        return features.Concatenate(*features.Concatenate.terms(self), *features.Concatenate.terms(other))

    def __mul__(self, other: "Features") -> "Features":
        return features.Product(*features.Product.terms(self), *features.Product.terms(other))

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        shown = [f"{name}={_show(value)}" for name, value in values.items() if value is not None]
        return f"{type(self).__name__}({', '.join(shown)})"


def _show(value: object) -> str:
    """Small arrays by their numbers, large or traced ones by their shape."""
    if not isinstance(value, Array):
        return getattr(value, "__name__", None) or repr(value)
    if is_traced(value) or value.size > 6:
        return f"{value.dtype}{list(value.shape)}"
    text = np.array2string(np.asarray(value), separator=", ", formatter={"all": lambda v: f"{v:g}"})
    return text.replace("\n", "")


def whole(owner: str, name: str, value: object, least: int, most: int | None = None) -> int:
    """The static size `value`, refused unless it is an integer in least..most."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= (most or np.inf):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise DataError(f"{owner} needs {name} to be a whole number {allowed}, found {value!r}")
    return int(value)


def numbers(
    owner: str, name: str, value: Numeric | None, dimensions: tuple[int, ...] = (0, 1), positive: bool = False
) -> Array | None:
    """A user's numbers as a float array, finite, of one of these ranks and, when asked, positive; None stays None."""
    if value is None:
        return None
    try:
        array = as_float(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"{owner} needs {name} to be numbers, found {value!r}") from error
    if array.ndim not in dimensions:
        allowed = " or ".join(str(k) for k in dimensions)
        raise DataError(f"{owner} needs {name} with {allowed} dimensions, found shape {array.shape}")
    if not is_traced(array) and not np.all(np.isfinite(array)):
        raise DataError(f"{owner} needs finite {name}, found {_show(array)}; remove NaN and infinity")
    if positive and not is_traced(array) and not np.all(array > 0):
        raise DataError(f"{owner} needs {name} > 0, found {_show(array)}")
    return array


def given(owner: str, name: str, value: Array | None, remedy: str) -> Array:
    """The number, refused while it is None."""
    if value is None:
        raise DataError(
            f"{owner} has no {name} yet; give {remedy} or use credo.learn / credo.fit, which read it from the data"
        )
    return value


def check_columns(owner: str, name: str, value: Array, shared: int, d: int) -> None:
    """Refuse numbers given column by column when x has another number d of columns.

    An array with `shared` dimensions serves all columns; one more leading dimension has an entry per column.
    """
    if value.ndim > shared and value.shape[0] != d:
        raise DataError(
            f"{owner} has {name} for {value.shape[0]} columns, found {d}; "
            f"give as many columns as before, or one {name} for all of them"
        )


def table(owner: str, x: Num[Array | np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The data that `adapt` reads, refused when there is none."""
    rows = np.asarray(x, dtype=float)
    if rows.shape[0] == 0:
        raise DataError(f"{owner} cannot adapt to 0 rows; pass at least one")
    return rows


def span(owner: str, x: Num[Array | np.ndarray, "n d"]) -> Float[np.ndarray, "d 2"]:
    """The smallest and largest value of each column; a constant column c gets (c - ½, c + ½)."""
    rows = table(owner, x)
    low, high = rows.min(0), rows.max(0)
    # The second term keeps low < high where ½ is lost to rounding.
    half = np.where(high > low, 0.0, np.maximum(0.5, 4 * np.spacing(np.abs(low))))
    return np.stack([low - half, high + half], axis=1)
