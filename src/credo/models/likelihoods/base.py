"""What a likelihood is: the density of an outcome given its linear predictor, and the density's derivatives."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.checks import ArrayLike
from credo.core.padding import bucket, pad_rows

L = TypeVar("L", bound="Likelihood")
R = TypeVar("R")

Terms = tuple[Array, Array, Array]
"""A log density, its gradient, and its curvature, the negative Hessian."""


class Likelihood(eqx.Module):
    """p(y | η) of one row; `eta` has a last axis of `width` where that is more than one.

    All of it broadcasts over rows, and so do its own numbers ψ (`at`). Derivatives are by z = (ψ, η), with ψ
    unconstrained: automatic here, in closed form where a member writes them out.
    """

    counts: ClassVar[bool] = False
    """Whether outcomes are counts, which may have an exposure."""
    shifts: ClassVar[bool] = True
    """Whether a constant term adds anything; cutpoints are constants themselves."""

    @property
    def vector(self) -> bool:
        """Whether a row has several linear predictors."""
        return False

    @property
    def width(self) -> int:
        """How many linear predictors a row has."""
        return 1

    @property
    def coupling(self) -> Float[np.ndarray, "c c"]:
        """The precision among the predictors' weights of one feature, in units of the prior's."""
        return np.eye(self.width)

    def unit(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> Float[Array, ""]:
        """What η is measured in, for priors to be the same in all units of y: 1 for log-odds and log-rates."""
        return np.ones(())

    @property
    def size(self) -> int:
        """How many unconstrained numbers it has of its own."""
        slots = params.layout(self)
        return slots[-1].stop if slots else 0

    @property
    def psi(self) -> Float[Array, " s"]:
        """These numbers."""
        return params.to_vector(self, params.layout(self))

    def at(self: L, psi: Float[Array, "*b s"]) -> L:
        """The likelihood with these numbers, whose leading axes its own then have."""
        return params.replace(self, params.natural_values(params.layout(self), psi))

    @abstractmethod
    def log_prob(self, eta: Float[Array, "..."], y: Float[Array, "*n"]) -> Float[Array, "..."]:
        """log p(y | η)."""

    @abstractmethod
    def mean(self, eta: Float[Array, "..."]) -> Float[Array, "..."]:
        """E[y | η]; for more than two classes their probabilities."""

    def adapt(self, y: ArrayLike) -> "Likelihood":
        """The likelihood that knows the classes in y; others stay as they are."""
        return self

    @abstractmethod
    def encode(self, y: ArrayLike) -> Array:
        """Outcomes as numbers, checked."""

    def started(self, y: Float[Array, " n"], w: Float[Array, " n"]) -> tuple["Likelihood", Float[Array, ""]]:
        """Its numbers, and the constant η, from which a climb starts; traceable. w are the weights of the rows."""
        return self, namespace(y, w).zeros(())

    def log_prior(self) -> Float[Array, "*b"]:
        """log p of its own numbers, in natural units."""
        return np.zeros(())

    # -- derivatives -----------------------------------------------------------------------------------------

    def terms(self, z: Float[Array, "*n a"], y: Float[Array, "*m"]) -> Terms:
        """log p(y | z), its gradient and its curvature, of shapes (n,), (n, a) and (n, a, a)."""
        return _automatic(partial(_terms, _log_prob_of_row), self, z, y)

    def expected_terms(self, weights: Float[Array, " s"], z: Float[Array, "n s a"], y: Float[Array, " n"]) -> Terms:
        """The mean of `terms` over weighted nodes of each row."""
        value, gradient, curvature = (np.einsum("s,ns...->n...", weights, v) for v in self.terms(z, y[:, None]))
        return value, gradient, curvature

    def curvature_slope(self, z: Float[Array, "*n a"], y: Float[Array, "*m"], spread: Float[Array, "*n a a"]) -> Array:
        """∂⟨spread, curvature⟩/∂z: the third derivative, negative, against a symmetric matrix for each row."""
        return _automatic(partial(_slope, _log_prob_of_row), self, z, y, spread)

    def own_terms(self, psi: Float[Array, "*n s"]) -> Terms:
        """log p(ψ), its gradient and its curvature."""
        return _automatic(partial(_terms, _log_prior_at), self, psi, np.zeros(psi.shape[:-1]))

    def own_curvature_slope(self, psi: Float[Array, "*n s"], spread: Float[Array, "*n s s"]) -> Float[Array, "*n s"]:
        """∂⟨spread, curvature of log p(ψ)⟩/∂ψ."""
        return _automatic(partial(_slope, _log_prior_at), self, psi, np.zeros(psi.shape[:-1]), spread)

    def eta_terms(self) -> "EtaTerms":
        """log p(y | η) and its first two derivatives by η as a function of η and y, for one predictor and known ψ."""
        terms, with_psi = type(self).terms, self._with_psi()  # methods of Equinox take longer than a hundred rows

        def of(eta: Array, y: Array) -> Terms:
            value, gradient, curvature = terms(self, with_psi(eta), y)
            return value, gradient[..., -1], -curvature[..., -1, -1]

        return of

    def eta_derivatives(self, eta: Float[Array, "*n"], y: Float[Array, "*n"]) -> tuple[Array, Array, Array, Array]:
        """The same at η and y, and the third derivative."""
        z = self._with_psi()(eta)
        a = z.shape[-1]
        along = namespace(z).broadcast_to(np.diag(np.arange(a) == a - 1) * 1.0, (*z.shape, a))
        return *self.eta_terms()(eta, y), -self.curvature_slope(z, y, along)[..., -1]

    def _with_psi(self) -> Callable[[Array], Array]:
        """From η to z = (ψ, η)."""
        size, psi = self.size, self.psi if self.size else None
        if psi is None:
            return lambda eta: eta[..., None]

        def stacked(eta: Array) -> Array:
            xp = namespace(psi, eta)
            return xp.concatenate([xp.broadcast_to(psi, (*eta.shape, size)), eta[..., None]], axis=-1)

        return stacked


EtaTerms = Callable[[Array, Array], Terms]
RowDensity = Callable[[Likelihood, jax.Array, jax.Array], jax.Array]


def _log_prob_of_row(likelihood: Likelihood, z: jax.Array, y: jax.Array) -> jax.Array:
    s = likelihood.size
    own = likelihood.at(z[:s]) if s else likelihood
    return jnp.asarray(own.log_prob(z[s:] if own.vector else z[s], y))


def _log_prior_at(likelihood: Likelihood, psi: jax.Array, _: jax.Array) -> jax.Array:
    return jnp.asarray(likelihood.at(psi).log_prior() + params.log_jacobian(params.layout(likelihood), psi))


def _terms(density: RowDensity, likelihood: Likelihood, z: jax.Array, y: jax.Array) -> Terms:
    of = partial(density, likelihood)
    return of(z, y), jax.grad(of)(z, y), -jax.hessian(of)(z, y)


def _slope(density: RowDensity, likelihood: Likelihood, z: jax.Array, y: jax.Array, spread: jax.Array) -> jax.Array:
    return jax.grad(lambda v: jnp.sum(spread * _terms(density, likelihood, v, y)[2]))(z)


@eqx.filter_jit
def _by_rows(function: Callable[..., R], likelihood: Likelihood, *arrays: Array) -> R:
    return jax.vmap(partial(function, likelihood))(*arrays)


def _automatic(function: Callable[..., R], likelihood: Likelihood, z: Array, y: Array, *more: Array) -> R:
    """A function of single rows, compiled for a bucket of them where they are known."""
    batch = z.shape[:-1]
    y = namespace(z, y).broadcast_to(y, batch)
    flat = [v.reshape(-1, *v.shape[len(batch) :]) for v in (z, y, *more)]
    n = len(flat[0])
    if not is_traced(likelihood, flat):
        flat = [pad_rows(np.asarray(v), bucket(n)) for v in flat]
    out = host(_by_rows(function, likelihood, *flat))
    return jax.tree.map(lambda v: v[:n].reshape((*batch, *v.shape[1:])), out)


def average(y: Array, w: Array) -> Array:
    """Σwy/Σw."""
    xp = namespace(y, w)
    return xp.sum(w * y) / xp.maximum(xp.sum(w), 1e-300)
