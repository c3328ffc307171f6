"""Kernels of inner products: linear functions, polynomials, and networks with one infinite hidden layer.

    k(x, z) = f(uᵀw),    u = (x - c)/ℓ,    w = (z - c)/ℓ

with a center c, the mean of the data unless it is given, that is not learned: functions are linear around the data,
not around an arbitrary zero. Rasmussen & Williams (2006), §4.2.2 and §4.2.3.
"""

from typing import TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float

from credo.core.arrays import Array, is_traced, namespace
from credo.core.errors import DataError
from credo.core.params import ABSENT, given, is_absent, positive, positive_definite
from credo.core.pytrees import changed
from credo.kernels.base import Amplified, Amplitude, InputScales, Kernel, show_call, start
from credo.kernels.periodic import per_column
from credo.kernels.stationary import Metric

D = TypeVar("D", bound="DotProduct")


class DotProduct(Amplified):
    """A kernel of uᵀw. Without lengthscales ℓ = 1, since the amplitude says the same."""

    lengthscale: eqx.AbstractVar[Float[Array, "*d"] | None]
    center: eqx.AbstractVar[Float[Array, "*c"] | None]
    ard: eqx.AbstractVar[bool]

    def embed(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """u = (x - c)/ℓ."""
        moved = x - per_column(self, "center", x)
        return moved if self.lengthscale is None else moved / per_column(self, "lengthscale", x)

    def _prepare(self: D, scales: InputScales) -> tuple[D, float]:
        """With center and lengthscales, and the typical uᵀu.

        Where there are lengthscales they carry the amplitude: a variance that nobody has set is left out.
        """
        out = start(self, center=scales.center)
        d = len(scales.spread)
        if self.ard:
            length = scales.spread * np.sqrt(d) if self.lengthscale is None else self.lengthscale
            out = changed(out, lengthscale=np.broadcast_to(length, (d,)))
        if out.lengthscale is not None and out.variance is None:
            out = changed(out, variance=ABSENT)
        scale = 1.0 if out.lengthscale is None else np.asarray(out.lengthscale)
        return out, float(np.square(scales.spread / scale).sum())


class Linear(DotProduct):
    """k = s² Σₖ (xₖ - cₖ)(zₖ - cₖ)/ℓₖ²: linear functions through zero at c.  Rasmussen & Williams (2006), §4.2.2.

    Add a `Constant` for a line with an unknown height. `ard=True` gives each column an ℓ, and a weight, of its own.
    """

    variance: Amplitude = positive(None, unset=1.0)
    lengthscale: Float[Array, "*d"] | None = positive(None)
    center: Float[Array, "*c"] | None = given(unset=0.0)
    ard: bool = eqx.field(default=False, static=True, kw_only=True)
    symbols = (("ℓ", "lengthscale"),)

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² U Wᵀ."""
        return self.amplitude() * (self.embed(x) @ self.embed(z).T)

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """s² uᵀu."""
        return self.amplitude() * (self.embed(x) ** 2).sum(1)

    def adapt(self, scales: InputScales) -> "Linear":
        """c = the mean; a typical point has the variance of the outcomes."""
        out, size = self._prepare(scales)
        if self.lengthscale is None and self.ard and is_absent(out.variance):
            return changed(out, lengthscale=out.lengthscale * np.sqrt(size / scales.variance))
        return start(out, variance=scales.variance / size)


class Bilinear(Kernel):
    """k = (x - c)ᵀ A (z - c), A positive definite: linear functions with correlated weights.

    A = LLᵀ is learned with all its correlations; where it is not given, it is the identity until `adapt`.
    """

    matrix: Float[Array, "d d"] | None = positive_definite(None)
    center: Float[Array, "*c"] | None = given(unset=0.0)

    def __check_init__(self) -> None:
        if self.matrix is None:
            return
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise DataError(f"Bilinear needs a square matrix, found shape {self.matrix.shape}")
        if not is_traced(self.matrix):
            matrix = np.asarray(self.matrix)
            if not np.allclose(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] <= 0:
                raise DataError("Bilinear needs a symmetric positive definite matrix; for one from B use B @ B.T + εI")

    def _apply(self, x: Float[Array, "n d"]) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        moved = x - per_column(self, "center", x)
        if self.matrix is None:
            return moved, moved
        if self.matrix.shape[0] != x.shape[1]:
            raise DataError(
                f"Bilinear has a matrix for {self.matrix.shape[0]} columns, found inputs with {x.shape[1]}; "
                "give one for all columns, or use .on(columns)"
            )
        return moved, moved @ self.matrix

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """(X - c) A (Z - c)ᵀ."""
        return self._apply(x)[1] @ self._apply(z)[0].T

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """(x - c)ᵀ A (x - c)."""
        moved, applied = self._apply(x)
        return (moved * applied).sum(1)

    def adapt(self, scales: InputScales) -> "Bilinear":
        """c = the mean; A diagonal, and a typical point has the variance of the outcomes."""
        matrix = np.diag(scales.variance / len(scales.spread) / np.square(scales.spread))
        return start(self, center=scales.center, matrix=matrix)

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · A."""
        return super().scaled(factor) if self.matrix is None else changed(self, matrix=self.matrix * factor)

    def formula(self) -> str:
        """Bilinear(A=…)."""
        return show_call("Bilinear", A=self.matrix)


class Polynomial(DotProduct):
    """k = s² (uᵀw + o)^p, o = `offset`: polynomials of degree p.  Rasmussen & Williams (2006), §4.2.2.

    The larger the offset, the smaller the part of the high powers.
    """

    degree: int = eqx.field(default=2, static=True)
    offset: Float[Array, ""] | None = positive(None, unset=1.0)
    variance: Amplitude = positive(None, unset=1.0)
    lengthscale: Float[Array, "*d"] | None = positive(None)
    center: Float[Array, "*c"] | None = given(unset=0.0)
    ard: bool = eqx.field(default=False, static=True, kw_only=True)
    symbols = (("p", "degree"), ("o", "offset"), ("ℓ", "lengthscale"))

    def __check_init__(self) -> None:
        if not isinstance(self.degree, int) or self.degree < 1:
            raise DataError(f"the degree of Polynomial must be a whole number of at least 1, found {self.degree!r}")

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² (U Wᵀ + o)^p."""
        return self._power(self.embed(x) @ self.embed(z).T)

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """s² (uᵀu + o)^p."""
        return self._power((self.embed(x) ** 2).sum(1))

    def _power(self, inner: Array) -> Array:
        return self.amplitude() * (inner + self.number("offset")) ** self.degree

    def adapt(self, scales: InputScales) -> "Polynomial":
        """c = the mean; a typical point has o = uᵀu and the variance of the outcomes."""
        out, size = self._prepare(scales)
        if self.lengthscale is None and self.ard and is_absent(out.variance) and self.offset is None:
            half = 0.5 * scales.variance ** (1.0 / self.degree)
            out = changed(out, lengthscale=out.lengthscale * np.sqrt(size / half))
            return start(out, offset=half)
        out = start(out, offset=size)
        return start(out, variance=scales.variance / (size + float(out.number("offset"))) ** self.degree)


class NeuralNetwork(Metric):
    """κ = (2/π) asin(2x̃ᵀΣz̃ / √((1 + 2x̃ᵀΣx̃)(1 + 2z̃ᵀΣz̃))), x̃ᵀΣz̃ = b + uᵀw, b = `bias`.

    A network with one layer of infinitely many error functions, whose weights have variances 1/ℓ² and biases b:
    functions that bend near the center and level off far away. Williams (1998), "Computation with infinite neural
    networks"; Rasmussen & Williams (2006), eq. 4.29.
    """

    bias: Float[Array, ""] = positive(1.0)
    center: Float[Array, "*c"] | None = given(unset=0.0)
    symbols = (*Metric.symbols, ("b", "bias"))

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """s² κ for all pairs."""
        u, w = self._rows(x), self._rows(z)
        return self._angle(u @ w.T, (u * u).sum(1)[:, None], (w * w).sum(1)[None, :])

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """s² (2/π) asin(2a/(1 + 2a)), a = x̃ᵀΣx̃."""
        size = (self._rows(x) ** 2).sum(1)
        return self._angle(size, size, size)

    def _rows(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        return self.embed(x - per_column(self, "center", x))

    def _angle(self, inner: Array, left: Array, right: Array) -> Array:
        """asin N/√D as atan N/√(D - N²): no slope is infinite, since D - N² ≥ 1."""
        inner, left, right = inner + self.bias, left + self.bias, right + self.bias
        xp = namespace(inner, left, right)
        rest = 1.0 + 2.0 * (left + right) + 4.0 * xp.maximum(left * right - inner * inner, 0.0)
        return self.amplitude() * (2.0 / np.pi) * xp.arctan2(2.0 * inner, xp.sqrt(rest))

    def adapt(self, scales: InputScales) -> "NeuralNetwork":
        """As every kernel with lengthscales, and c = the mean."""
        return start(super().adapt(scales), center=scales.center)
