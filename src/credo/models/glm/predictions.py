"""From a belief about the weights to a prediction: the weights are integrated out.

Under a normal law of u = (ψ, vec W) one row's predictor is normal too, η = m + λᵀz_ψ + σz₀ with z ~ N(0, I), so that

    p(y*) = ∫ p(y* | ψ, η) p(ψ, η) ≈ Σₛ ωₛ p(y* | ψₛ, ηₛ)

over the nodes of Gauss and Hermite (one or two dimensions) or of a Sobol sequence (more). Probit needs none,
E[Φ(η)] = Φ(m/√(1 + σ²)); for the logit MacKay (1992) approximates it so, σ(m/√(1 + πσ²/8)). Draws are their own nodes.
"""

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import special
from jaxtyping import Float

from credo.core import params, predictive
from credo.core.arrays import Array
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.padding import by_bucket
from credo.core.predictive import Mixture, Predictive
from credo.core.predictive.classes import entropy_of
from credo.infer.quasi_random import normals
from credo.models import likelihoods
from credo.models.glm.newton import size_of
from credo.models.likelihoods import Likelihood

ETA_NODES, PSI_NODES = 32, 8
SOBOL = 1024
DRAWS = 1024
"""Draws that predictions use, in pairs around the center; more that a method has kept are thinned to so many."""
ROWS = 512
"""Queries whose nodes are held in memory together."""
METHODS = ("quadrature", "probit", "sampling")


class WeightLaw(eqx.Module):
    """What is believed of u: N(center, root rootᵀ); or draws; or, without both, a point."""

    center: Float[Array, " k"]
    root: Float[Array, "k k"] | None
    draws: Float[Array, "n k"] | None = None
    log_evidence: Float[Array, ""] | None = None


class Nodes(NamedTuple):
    """Where u is looked at: standard normal coordinates of (ψ, η), or whole vectors u; with weights."""

    weights: Float[Array, " s"]
    z: Float[Array, "s a"] | None
    vectors: Float[Array, "s k"] | None


class Overdispersed(predictive.NegativeBinomial):
    """A negative binomial count whose spread is noise: with known numbers there is no ignorance in it."""

    @property
    def aleatoric(self) -> Array:
        """μ + αμ²."""
        return self.mean + self.exposure**2 * self.shape_ / self.rate**2

    @property
    def epistemic(self) -> Array:
        """None."""
        return jnp.zeros_like(self.rate)


def predict(law: WeightLaw, likelihood: Likelihood, phi: ArrayLike, offset: ArrayLike, by: str | None) -> Predictive:
    """p(y*) at design rows φ; `by` is one of `METHODS`, None the best there is."""
    if by is not None and by not in METHODS:
        raise DataError(f"by must be one of {', '.join(map(repr, METHODS))} or None, found {by!r}")
    nodes = _nodes(law, likelihood, by)
    rows = np.concatenate([phi, offset[:, None]], axis=1) if isinstance(phi, np.ndarray) else _beside(phi, offset)
    if isinstance(likelihood, likelihoods.Classes):
        probs, aleatoric = by_bucket(_classes, rows, law, likelihood, nodes)
        if isinstance(likelihood, likelihoods.Bernoulli):
            if law.root is not None and (by == "probit" or (isinstance(likelihood, likelihoods.Probit) and by is None)):
                probs = by_bucket(_closed, rows, law, likelihood)
                aleatoric = jnp.minimum(aleatoric, entropy_of(probs))
            return predictive.Bernoulli(probs[:, 1], aleatoric)
        return predictive.Categorical(probs, aleatoric)
    eta = by_bucket(_etas, rows, law, likelihood, nodes)
    return _numbers(likelihood, nodes.weights, _psi(law, likelihood, nodes), eta)


def _beside(phi: Array, offset: ArrayLike) -> Array:
    return jnp.concatenate([phi, jnp.asarray(offset)[:, None]], axis=1)


def _nodes(law: WeightLaw, likelihood: Likelihood, by: str | None) -> Nodes:
    if law.draws is not None:
        n = law.draws.shape[0]
        return Nodes(jnp.full(n, 1 / n), None, law.draws)
    if law.root is None:
        return Nodes(jnp.ones(1), None, law.center[None])
    if likelihood.vector or by == "sampling":
        if by in ("quadrature", "probit"):
            raise DataError(f"by={by!r} is for one linear predictor a row; with several classes use by='sampling'")
        z = jr.normal(jr.key(0), (DRAWS // 2, law.center.shape[0])) @ law.root.T
        return Nodes(jnp.full(DRAWS, 1 / DRAWS), None, law.center + jnp.concatenate([z, -z]))
    if by == "probit" and not isinstance(likelihood, likelihoods.Bernoulli):
        raise DataError("by='probit' is for two classes; use by='quadrature'")
    grid, weights = _grid(size_of(likelihood))
    return Nodes(jnp.asarray(weights), jnp.asarray(grid), None)


@cache
def _grid(s: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes z of (ψ, η) and their weights, for s numbers ψ."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(ETA_NODES)
    weights = weights / weights.sum()
    if s == 0:
        return nodes[:, None], weights
    if s == 1:
        own, own_weights = np.polynomial.hermite_e.hermegauss(PSI_NODES)
        z = np.stack(np.meshgrid(own, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
        return z, np.outer(own_weights / own_weights.sum(), weights).ravel()
    return normals(SOBOL, s + 1, 0), np.full(SOBOL, 1 / SOBOL)


def _psi(law: WeightLaw, likelihood: Likelihood, nodes: Nodes) -> Float[Array, "s a"]:
    s = size_of(likelihood)
    if nodes.vectors is not None:
        return nodes.vectors[:, :s]
    assert nodes.z is not None and law.root is not None
    return law.center[:s] + nodes.z[:, :s] @ law.root[:s, :s].T


def moments(law: WeightLaw, likelihood: Likelihood, phi: Float[Array, " q"]) -> tuple[Array, Array, Array]:
    """m, λ and σ of one row's η under a normal law."""
    assert law.root is not None
    s = size_of(likelihood)
    spread = phi @ law.root[s:, s:]
    return phi @ law.center[s:], phi @ law.root[s:, :s], jnp.sqrt(jnp.sum(spread**2))


def _eta(law: WeightLaw, likelihood: Likelihood, nodes: Nodes, row: Float[Array, " b"]) -> Float[Array, "s *c"]:
    """One row's η at every node; the row ends with its offset."""
    phi, offset = row[:-1], row[-1]
    s = size_of(likelihood)
    if nodes.vectors is not None:
        each = nodes.vectors[:, s:].reshape(-1, phi.shape[0], likelihood.width)
        eta = jnp.einsum("q,sqc->sc", phi, each)
        return (eta if likelihood.vector else eta[:, 0]) + offset
    assert nodes.z is not None
    m, lean, spread = moments(law, likelihood, phi)
    return m + nodes.z[:, :s] @ lean + nodes.z[:, s] * spread + offset


@eqx.filter_jit
def _etas(rows: Float[Array, "m b"], law: WeightLaw, likelihood: Likelihood, nodes: Nodes) -> Float[Array, "m s"]:
    return jax.lax.map(lambda row: _eta(law, likelihood, nodes, row), rows, batch_size=ROWS)


@eqx.filter_jit
def _classes(
    rows: Float[Array, "m b"], law: WeightLaw, likelihood: Likelihood, nodes: Nodes
) -> tuple[Float[Array, "m k"], Float[Array, " m"]]:
    """Each row's class probabilities and its expected entropy."""
    slots = params.layout(likelihood)
    psi = _psi(law, likelihood, nodes)

    def at(psi: Array, eta: Array) -> Array:
        own = params.from_vector(likelihood, slots, psi) if slots else likelihood
        p = own.mean(eta)
        return jnp.stack([1 - p, p]) if isinstance(own, likelihoods.Bernoulli) else p

    def one(row: Array) -> tuple[Array, Array]:
        probs = jax.vmap(at)(psi, _eta(law, likelihood, nodes, row))
        return nodes.weights @ probs, nodes.weights @ entropy_of(probs)

    return jax.lax.map(one, rows, batch_size=ROWS)


@eqx.filter_jit
def _closed(rows: Float[Array, "m b"], law: WeightLaw, likelihood: Likelihood) -> Float[Array, "m 2"]:
    """Φ(m/√(1 + σ²)), and MacKay's approximation of it for the logit."""

    def one(row: Array) -> Array:
        m, _, spread = moments(law, likelihood, row[:-1])
        if isinstance(likelihood, likelihoods.Probit):
            p = special.ndtr(m / jnp.sqrt(1 + spread**2))
        else:
            p = jax.nn.sigmoid(m / jnp.sqrt(1 + jnp.pi * spread**2 / 8))
        return jnp.stack([1 - p, p])

    return jax.vmap(one)(rows)


def _numbers(likelihood: Likelihood, weights: Array, psi: Array, eta: Float[Array, "m s"]) -> Predictive:
    """The mixture over the nodes for counts and real numbers."""
    if isinstance(likelihood, likelihoods.Poisson):
        return Mixture(weights, (predictive.Poisson(jnp.exp(eta.T)),))
    slots = params.layout(likelihood)
    own: Any = eqx.filter_vmap(lambda p: params.from_vector(likelihood, slots, p))(psi)
    shape = eta.T.shape
    if isinstance(likelihood, likelihoods.NegativeBinomial):
        size = jnp.broadcast_to(1 / own.dispersion[:, None], shape)
        return Mixture(weights, (Overdispersed(size, size * jnp.exp(-eta.T), jnp.ones(shape)),))
    square = jnp.broadcast_to(own.scale[:, None] ** 2, shape)
    df = jnp.broadcast_to(likelihood.df, shape)  # type: ignore[attr-defined]
    return Mixture(weights, (predictive.StudentT(df, eta.T, square, jnp.zeros(shape)),))
