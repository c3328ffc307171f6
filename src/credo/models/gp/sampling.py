"""Functions drawn from a Gaussian process, at chosen points or as functions that can be asked anywhere.

`sample` draws the values at chosen points exactly. `sample_functions` draws functions, by Matheron's rule:

    f(·) = f₀(·) + k(·, X) K⁻¹ (y - f₀(X) - ε),    f₀ ~ GP(m, k),    ε ~ N(0, noise)

f₀ = m + φᵀw, w ~ N(0, I), is a finite sum: exact for terms of the kernel with finitely many degrees of freedom
(constants, linear functions, features), and of random Fourier features for stationary ones. The data enter through
the exact kernel, so that the mean is exact, and so are the functions where the data decide.

Wilson, Borovitskiy, Terenin, Mostowsky & Deisenroth (2021), "Pathwise conditioning of Gaussian processes".
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.linalg import cholesky, solve
from credo.core.padding import by_bucket
from credo.core.params import ABSENT
from credo.kernels import Constant, Kernel, OnColumns, Power, Product, Scaled, Sum
from credo.kernels.derivative import Differentiated, observed
from credo.kernels.dotproduct import Bilinear, DotProduct, Linear, Polynomial
from credo.kernels.elementary import FromFeatures
from credo.kernels.inputs import Mapped
from credo.kernels.measures import Elliptical
from credo.kernels.periodic import Cosine
from credo.kernels.random_fourier import RandomFeatures
from credo.kernels.spectral import spectral_measure
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows, masked
from credo.models.gp.exact import Cholesky, GPPrior
from credo.models.gp.means import Mean

LARGEST_BASIS = 2**16
"""Columns of φ for one term of the kernel; a product of bases can ask for more."""

Basis = Callable[[Array], Array]
Bases = tuple[Basis, ...]
Weights = tuple[Float[Array, "n _"], ...]

CHUNK = 2**24
"""The entries of φ(x) and k(x, X) that exist at a time."""
SMALL = 2**22
"""So many are computed at once and without compilation."""


# -- at chosen points --------------------------------------------------------------------------------------------


def sample(
    gp: GP,
    x: object,
    n: int,
    *,
    noise: bool = False,
    method: str = "cholesky",
    seed: int = 0,
) -> Float[Array, "n m"]:
    """n joint draws of the function at m queries, from the posterior, or the prior where no data were seen.

    Args:
        gp: the belief.
        x: queries, shape (m, d).
        n: how many draws.
        noise: whether noise is added, so that the draws are outcomes y and not values of f.
        method: `cholesky` of the covariance of all, or `forward`: a value is drawn, the belief conditioned on it,
            the next drawn, and so on. Both have the same law.
        seed: of the draws.
    """
    _count(n, "n", "draws")
    if method not in ("cholesky", "forward"):
        raise DataError(f'method must be "cholesky" or "forward", found {method!r}')
    k_function, k_noise = jr.split(jr.key(seed))
    prediction = gp.predict(x, joint=True)
    # The covariance is k minus what the data explain: its rounding is that of k, and what is below it is not known.
    size = prediction.mean.shape[0] + (0 if gp.seen is None else len(gp.seen.x))
    floor = size * np.finfo(float).eps * gp.prior.kernel.variance_at(gp.queries(x)).max()
    latent = prediction.latent_covariance
    assert latent is not None
    covariance = 0.5 * (latent + latent.T) + floor * np.eye(len(prediction.mean))
    law = Gaussian(*host((prediction.mean, covariance)))
    draws = law.draw(k_function, n) if method == "cholesky" else law.draw_forward(k_function, n)
    if not noise:
        return host(draws)
    return host(draws + jnp.sqrt(prediction.aleatoric) * jr.normal(k_noise, draws.shape))


# -- anywhere ----------------------------------------------------------------------------------------------------


class Functions(eqx.Module):
    """n functions drawn from a Gaussian process: call them with rows (m, d) for their values (n, m).

    They are functions: the same x has the same value whatever else is asked with it, and `jax.grad` gives slopes.
    """

    kernel: Kernel
    mean: Mean
    bases: Bases
    weights: tuple[Float[Array, "n _"], ...]
    x: Float[Array, "c d"] | None
    """The inputs that were seen; padding has coefficients of zero."""
    coefficients: Float[Array, "n c"] | None
    """K⁻¹ (y - f₀(X) - ε)."""

    @property
    def n(self) -> int:
        """How many functions these are."""
        return self.weights[0].shape[0]

    def __call__(self, x: object) -> Float[Array, "n m"]:
        """The values of each function at the rows of x."""
        table = self.kernel.encode(x, "x", None if self.x is None else self.x.shape[1])
        if is_traced(self, table):
            return _values(table, self).T
        columns = sum(w.shape[1] for w in self.weights) + (0 if self.x is None else self.x.shape[0])
        if len(table) * columns <= SMALL:
            return host(_values(table, self)).T
        size = max(16, CHUNK // columns)
        parts = [host(by_bucket(_compiled_values, table[i : i + size], self)) for i in range(0, table.shape[0], size)]
        return np.concatenate(parts).T


def _values(x: Float[Array, "m d"], functions: Functions) -> Float[Array, "m n"]:
    out = _prior_values(functions.mean, functions.bases, functions.weights, x)
    if functions.x is None or functions.coefficients is None:
        return out
    return out + functions.kernel.gram(x, functions.x) @ functions.coefficients.T


_compiled_values = eqx.filter_jit(_values)


def _prior_values(mean: Mean, bases: Bases, weights: Weights, x: Float[Array, "m d"]) -> Float[Array, "m n"]:
    total = mean(x)[:, None]
    for basis, weight in zip(bases, weights, strict=True):
        total = total + basis(x) @ weight.T
    return total


def sample_functions(gp: GP, n: int, *, features: int = 2048, seed: int = 0, columns: int | None = None) -> Functions:
    """n functions from the posterior, or from the prior where no data were seen.

    Args:
        gp: the belief; its kernel a sum of stationary kernels and of kernels with a finite basis (`Constant`,
            `Linear`, `Bilinear`, `Polynomial`, `FromFeatures`, `Cosine`), and of products of one with the other.
        n: how many functions.
        features: the random Fourier features (cosines and sines) of each stationary term. The error of the
            covariance, far from the data, falls with their square root.
        seed: of the draws.
        columns: the number of input columns, needed only where no data were seen.
    """
    _count(n, "n", "functions")
    _count(features, "features", "random features")
    gp = gp.padded()
    prior, seen, solved = gp.prior, gp.seen, gp.solved
    d = columns if seen is None else seen.x.shape[1]
    if d is None:
        raise DataError("the belief has seen no data yet: say how many input columns there are, columns=")
    terms = prior.kernel.terms
    keys = jr.split(jr.key(seed), len(terms))
    bases = host(tuple(basis_of(k, key, d, features) for k, key in zip(terms, keys, strict=True)))
    rng = np.random.default_rng(seed)
    weights = tuple(rng.normal(size=(n, _width(basis, d))) for basis in bases)
    if seen is None or solved is None:
        return Functions(prior.kernel, prior.mean, bases, weights, None, None)
    coefficients = host(_update(prior, seen, solved, bases, weights, rng.normal(size=(n, len(seen.x)))))
    return Functions(prior.kernel, prior.mean, bases, weights, seen.x, coefficients)


def _update(
    prior: GPPrior, seen: Rows, solved: Cholesky, bases: Bases, weights: Weights, z: Float[Array, "n c"]
) -> Float[Array, "n c"]:
    """K⁻¹ (y - f₀(X) - ε), zero on padding."""
    noise = namespace(prior, seen).sqrt(prior.noise * seen.scale + seen.extra) * z
    gap = seen.y[:, None] - _prior_values(prior.mean, bases, weights, seen.x) - noise.T
    return solve(solved.root, masked(seen.mask, gap)).T


# -- bases: k(x, z) = φ(x)ᵀφ(z) ----------------------------------------------------------------------------------


class Weighted(eqx.Module):
    """φ(x) = ψ(x) R for a matrix R, or columns times numbers."""

    columns: Basis
    root: Float[Array, "..."]

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows ψ(xᵢ) R."""
        psi = self.columns(x)
        return psi @ self.root if self.root.ndim == 2 else psi * self.root


class Embedded(eqx.Module):
    """φ(x) = u, what a kernel of inner products sees of x."""

    kernel: DotProduct

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The rows u."""
        return self.kernel.embed(x)


class Inside(eqx.Module):
    """φ of other inputs: of some columns, of a function of the row, or of a row that may ask for a derivative."""

    basis: Basis
    kernel: OnColumns | Mapped | Differentiated

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows of φ as the kernel around it sees the inputs."""
        if isinstance(self.kernel, Differentiated):
            return observed(self.basis, x)
        return self.basis(self.kernel.cut(x) if isinstance(self.kernel, OnColumns) else self.kernel.map(x))


class Together(eqx.Module):
    """Bases side by side, for a sum of kernels; or all products of their columns, for a product."""

    bases: Bases
    multiply: bool = eqx.field(static=True)

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The rows of both."""
        parts = [basis(x) for basis in self.bases]
        if not self.multiply:
            return namespace(parts).concatenate(parts, axis=1)
        out = parts[0]
        for more in parts[1:]:
            out = (out[:, :, None] * more[:, None, :]).reshape(x.shape[0], -1)
        return out


def _ones(x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
    return namespace(x).ones((x.shape[0], 1))


def _width(basis: Basis, d: int) -> int:
    p = jax.eval_shape(basis, jax.ShapeDtypeStruct((1, d), jnp.zeros(()).dtype)).shape[1]
    if p > LARGEST_BASIS:
        raise DataError(
            f"a term of the kernel needs {p} basis functions, more than {LARGEST_BASIS}; "
            "lower features=, or use sample(gp, x, n) at the points where values are wanted"
        )
    return p


def basis_of(kernel: Kernel, key: PRNGKeyArray, d: int, features: int) -> Basis:
    """φ with φ(x)ᵀφ(z) = k(x, z), exactly where that takes finitely many columns, else in expectation."""

    def of(part: Kernel, key: PRNGKeyArray = key, columns: int = d) -> Basis:
        return basis_of(part, key, columns, features)

    def of_all(parts: Sequence[Kernel], multiply: bool) -> Together:
        return Together(tuple(of(k, own) for k, own in zip(parts, jr.split(key, len(parts)), strict=True)), multiply)

    match kernel:
        case Constant():
            return Weighted(_ones, jnp.sqrt(kernel.number("variance")))
        case Linear():
            return Weighted(Embedded(kernel), jnp.sqrt(kernel.amplitude()))
        case Bilinear():
            root = jnp.ones(()) if kernel.matrix is None else cholesky(kernel.matrix, "the matrix of Bilinear")
            return Weighted(Embedded(Linear(center=kernel.center)), root)
        case Polynomial():
            line = Together((Embedded(kernel), Weighted(_ones, jnp.sqrt(kernel.number("offset")))), False)
            return Weighted(Together((line,) * kernel.degree, True), jnp.sqrt(kernel.amplitude()))
        case FromFeatures(features=columns, covariance=s):
            return Weighted(columns, cholesky(s, "the covariance of the weights") if s.ndim == 2 else jnp.sqrt(s))
        case Cosine():
            _, law = spectral_measure(kernel, d)
            return RandomFeatures(law.sample(key, 1), None, kernel.amplitude())  # ± one frequency: exact
        case Scaled():
            return Weighted(of(kernel.kernel), jnp.sqrt(kernel.variance))
        case OnColumns():
            return Inside(of(kernel.kernel, columns=len(kernel.columns)), kernel)
        case Mapped():
            row = jax.ShapeDtypeStruct((1, d), jnp.zeros(()).dtype)
            return Inside(of(kernel.kernel, columns=jax.eval_shape(kernel.map, row).shape[1]), kernel)
        case Differentiated():
            return Inside(of(kernel.kernel, columns=d - 1), kernel)
        case Sum():
            return of_all(kernel.parts, False)
        case Power() if not kernel.is_stationary:  # independent random features: the square of one set is biased
            return of_all([kernel.kernel] * kernel.exponent, True)
        case Product() if not kernel.is_stationary:
            # Stationary factors have one spectral measure together; the others multiply their basis.
            together = tuple(k for k in kernel.factors if k.is_stationary)
            parts = [k for k in kernel.factors if not k.is_stationary]
            if together:
                parts.append(together[0] if len(together) == 1 else Product(together, ABSENT))
            return Weighted(of_all(parts, True), jnp.sqrt(kernel.amplitude()))
    try:
        mass, law = spectral_measure(kernel, d)
    except DataError as error:
        raise DataError(
            f"functions cannot be drawn from {kernel.formula()}: {error}. "
            "To draw the values at chosen points use sample(gp, x, n), which takes every kernel"
        ) from None
    draw = law.sample_orthogonal if isinstance(law, Elliptical) else law.sample
    return RandomFeatures(draw(key, max(1, features // 2)), None, mass)


def _count(value: int, name: str, what: str) -> None:
    if isinstance(value, bool) or value < 1:
        raise DataError(f"{name}, the number of {what}, must be a whole number of at least 1, found {value!r}")
