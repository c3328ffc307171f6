"""From a belief about the weights to a prediction: the weights are integrated out.

Under a normal law of u = (ψ, vec W) one row's predictor is normal too, η = m + λᵀz_ψ + σz₀ with z ~ N(0, I), so that

    p(y*) = ∫ p(y* | ψ, η) p(ψ, η) ≈ Σₛ ωₛ p(y* | ψₛ, ηₛ)

over the nodes of Gauss and Hermite (one or two dimensions) or of a Sobol sequence (more, and several classes). Probit
needs none, E[Φ(η)] = Φ(m/√(1 + σ²)); for the logit MacKay (1992) approximates it so, σ(m/√(1 + πσ²/8)). Draws are their
own nodes.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import predictive
from credo.core.arrays import Array, as_float, host, namespace, special
from credo.core.errors import DataError
from credo.core.padding import pad_rows
from credo.core.predictive import Mixture, Predictive
from credo.core.predictive.classes import entropy_of
from credo.infer.quasi_random import normals
from credo.models import likelihoods
from credo.models.likelihoods import Likelihood
from credo.models.likelihoods.expectations import class_probability

T = TypeVar("T")

NODES, OWN_NODES = 32, 8
"""Of Gauss and Hermite: of one number, and of a second."""
SOBOL = 1024
DRAWS = 1024
"""Draws that predictions use, in pairs around the center; more that a method has kept are thinned to so many."""
ROWS = 512
"""Queries whose nodes are held in memory together."""
COMPILED = 2**23
"""Nodes of all queries from which a compiled program gains more than it costs: three times the speed for 0.4 s."""
METHODS = ("quadrature", "probit", "sampling")
LATENT_NODES = np.linspace(-6.5, 6.5, 105)
"""Of a predictor whose doubt may be wide: evenly spaced, they see the bend of a class probability where it is."""
LATENT_WEIGHTS = np.exp(-0.5 * LATENT_NODES**2) / np.exp(-0.5 * LATENT_NODES**2).sum()


class WeightLaw(eqx.Module):
    """What is believed of u: N(center, root rootᵀ); or draws; or, without both, a point."""

    center: Float[Array, " k"]
    root: Float[Array, "k k"] | None
    draws: Float[Array, "n k"] | None = None
    log_evidence: Float[Array, ""] | None = eqx.field(default=None, converter=lambda v: v if v is None else as_float(v))


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
        return 0 * self.rate


def predict(law: WeightLaw, likelihood: Likelihood, phi: Array, offset: Array, by: str | None) -> Predictive:
    """p(y*) at design rows φ; `by` is one of `METHODS`, None the best there is."""
    if by is not None and by not in METHODS:
        raise DataError(f"by must be one of {', '.join(map(repr, METHODS))} or None, found {by!r}")
    nodes = _nodes(law, likelihood, by)
    rows = namespace(phi, offset).concatenate([phi, offset[:, None]], axis=1)
    if not isinstance(likelihood, likelihoods.Classes):
        eta = _by_rows(_eta, law, likelihood, nodes, rows)
        return of_numbers(likelihood, nodes.weights, _psi(law, likelihood, nodes), eta)
    probs, aleatoric = _by_rows(_classes, law, likelihood, nodes, rows)
    if not isinstance(likelihood, likelihoods.Bernoulli):
        return predictive.Categorical(probs, aleatoric)
    if law.root is not None and (by == "probit" or (isinstance(likelihood, likelihoods.Probit) and by is None)):
        probs = _closed(law, likelihood, phi)
        aleatoric = namespace(probs, aleatoric).minimum(aleatoric, entropy_of(probs))
    return predictive.Bernoulli(probs[:, 1], aleatoric)


def of_predictor(
    likelihood: Likelihood,
    weights: Float[Array, " s"],
    eta: Float[Array, "m s"],
    normal: tuple[Array, Array] | None = None,
) -> Predictive:
    """p(y*) where the predictor of each row is η at nodes with weights, for one predictor and known numbers ψ.

    Where η is known to be normal its mean and variance give the probability of two classes in closed form.
    """
    xp = namespace(likelihood, eta)
    if not isinstance(likelihood, likelihoods.Classes):
        psi = xp.broadcast_to(likelihood.psi, (len(weights), likelihood.size))
        return of_numbers(likelihood, weights, psi, eta)
    probs = likelihood.mean(eta)
    if not isinstance(likelihood, likelihoods.Bernoulli):
        return predictive.Categorical(xp.einsum("s,msk->mk", weights, probs), entropy_of(probs) @ weights)
    p = probs @ weights
    if normal is not None:
        exact = isinstance(likelihood, likelihoods.Probit)
        p = special(eta).ndtr(normal[0] / xp.sqrt(1 + normal[1])) if exact else class_probability(*normal)
    aleatoric = entropy_of(xp.stack([1 - probs, probs], axis=-1)) @ weights
    return predictive.Bernoulli(p, xp.minimum(aleatoric, entropy_of(xp.stack([1 - p, p], axis=-1))))


def _by_rows(function: Callable[..., T], law: WeightLaw, likelihood: Likelihood, nodes: Nodes, rows: Array) -> T:
    """function(…, rows), of so many rows at a time that their nodes fit into memory; compiled where they are many."""
    if namespace(law, nodes, rows) is jnp:
        one = partial(function, law, likelihood, nodes)
        return jax.lax.map(lambda row: jax.tree.map(lambda v: v[0], one(row[None])), rows, batch_size=ROWS)
    many = len(rows) * len(nodes.weights) * likelihood.width > COMPILED
    run = partial(_compiled, function) if many else function
    parts = [rows[i : i + ROWS] for i in range(0, len(rows), ROWS)]
    out = [host(run(law, likelihood, nodes, pad_rows(part, ROWS) if many else part)) for part in parts]
    return jax.tree.map(lambda *each: np.concatenate(each)[: len(rows)], *out)


@eqx.filter_jit
def _compiled(function: Callable[..., T], *arguments: object) -> T:
    return function(*arguments)


def _nodes(law: WeightLaw, likelihood: Likelihood, by: str | None) -> Nodes:
    if law.draws is not None:
        n = law.draws.shape[0]
        return Nodes(np.full(n, 1 / n), None, law.draws)
    if law.root is None:
        return Nodes(np.ones(1), None, law.center[None])
    if by == "sampling":
        z = np.random.default_rng(0).standard_normal((DRAWS // 2, law.center.shape[0])) @ law.root.T
        vectors = law.center + namespace(z).concatenate([z, -z])
        return Nodes(np.full(DRAWS, 1 / DRAWS), None, vectors)
    if by == "probit" and not isinstance(likelihood, likelihoods.Bernoulli):
        raise DataError("by='probit' is for two classes; use by='quadrature'")
    weights, z = class_nodes(SOBOL, likelihood.width + 1) if likelihood.vector else normal_nodes(likelihood.size + 1)
    return Nodes(weights, z, None)


@cache
def normal_nodes(a: int) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s a"]]:
    """Weights and nodes for expectations under N(0, I) in a dimensions: Gauss-Hermite up to two, Sobol beyond."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    if a == 1:
        return weights / weights.sum(), nodes[:, None]
    if a == 2:
        own, own_weights = np.polynomial.hermite_e.hermegauss(OWN_NODES)
        z = np.stack(np.meshgrid(own, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
        return np.outer(own_weights / own_weights.sum(), weights / weights.sum()).ravel(), z
    return np.full(SOBOL, 1 / SOBOL), normals(SOBOL, a, 0)


@cache
def class_nodes(n: int, k: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n k"]]:
    """Weights and nodes for the predictors of k classes (`around_classes`)."""
    return np.full(n, 1 / n), normals(n, k, 0)


def around_classes(
    mean: Float[Array, "m c"], covariance: Float[Array, "m c c"], nodes: Float[Array, "s k"]
) -> Float[Array, "m s c"]:
    """Nodes of each row's predictors η ~ N(mean, covariance), which do not depend on how the k classes are ordered.

    Measured from the mean over all classes, η is spread by the symmetric root of its covariance, and a row's likeliest
    class takes the last coordinate of the nodes, whichever class it is.
    """
    xp, k = namespace(mean, covariance), mean.shape[-1] + 1
    centred = np.eye(k, k - 1) - 1 / k
    values, vectors = xp.linalg.eigh(centred @ covariance @ centred.T)
    # A law that is nearly a point in some direction has eigenvalues that rounding may make negative.
    half = (vectors * xp.sqrt(xp.maximum(values, 0.0))[:, None, :]) @ vectors.swapaxes(-1, -2)
    center = mean @ centred.T
    rank = center.argsort(-1).argsort(-1)
    each = center[..., None] + half @ xp.asarray(nodes.T)[rank]
    return (each[:, :-1] - each[:, -1:]).swapaxes(-1, -2)


def _psi(law: WeightLaw, likelihood: Likelihood, nodes: Nodes) -> Float[Array, "s a"]:
    s = likelihood.size
    if nodes.vectors is not None:
        return nodes.vectors[:, :s]
    assert nodes.z is not None and law.root is not None
    return law.center[:s] + nodes.z[:, :s] @ law.root[:s, :s].T


def moments(law: WeightLaw, s: int, phi: Float[Array, "m q"]) -> tuple[Array, Array, Array]:
    """m, λ and σ of every row's η under a normal law, with s numbers ψ."""
    assert law.root is not None
    spread = phi @ law.root[s:, s:]
    return phi @ law.center[s:], phi @ law.root[s:, :s], namespace(spread).sqrt((spread**2).sum(-1))


def _eta(law: WeightLaw, likelihood: Likelihood, nodes: Nodes, rows: Float[Array, "m b"]) -> Float[Array, "m s *c"]:
    """Every row's η at every node; a row ends with its offset."""
    phi, offset, s = rows[:, :-1], rows[:, -1:], likelihood.size
    if nodes.vectors is not None:
        q, c = phi.shape[1], likelihood.width
        each = nodes.vectors[:, s:].reshape(-1, q, c).transpose(1, 0, 2)
        eta = (phi @ each.reshape(q, -1)).reshape(len(phi), -1, c)
        return eta + offset[..., None] if likelihood.vector else eta[..., 0] + offset
    assert nodes.z is not None and law.root is not None
    if likelihood.vector:
        q, c, xp = phi.shape[1], likelihood.width, namespace(law, phi)
        parts = xp.tensordot(phi, law.root.reshape(q, c, -1), 1)
        return (
            around_classes(phi @ law.center.reshape(q, c), parts @ parts.swapaxes(-1, -2), nodes.z) + offset[..., None]
        )
    m, lean, spread = moments(law, s, phi)
    return m[:, None] + lean @ nodes.z[:, :s].T + spread[:, None] * nodes.z[:, s] + offset


def _classes(
    law: WeightLaw, likelihood: Likelihood, nodes: Nodes, rows: Float[Array, "m b"]
) -> tuple[Float[Array, "m k"], Float[Array, " m"]]:
    """Each row's class probabilities and its expected entropy."""
    own = likelihood.at(_psi(law, likelihood, nodes)) if likelihood.size else likelihood
    probs = own.mean(_eta(law, likelihood, nodes, rows))
    xp = namespace(probs)
    probs = xp.stack([1 - probs, probs], axis=-1) if isinstance(own, likelihoods.Bernoulli) else probs
    return xp.einsum("s,msk->mk", nodes.weights, probs), entropy_of(probs) @ nodes.weights


def _closed(law: WeightLaw, likelihood: Likelihood, phi: Float[Array, "m q"]) -> Float[Array, "m 2"]:
    """Φ(m/√(1 + σ²)), and MacKay's approximation of it for the logit."""
    m, _, spread = moments(law, 0, phi)
    xp, functions = namespace(m, spread), special(m, spread)
    if isinstance(likelihood, likelihoods.Probit):
        p = functions.ndtr(m / xp.sqrt(1 + spread**2))
    else:
        p = functions.expit(m / xp.sqrt(1 + np.pi * spread**2 / 8))
    return xp.stack([1 - p, p], axis=-1)


def of_numbers(
    likelihood: Likelihood, weights: Array, psi: Float[Array, "s a"], eta: Float[Array, "m s"]
) -> Predictive:
    """The mixture over the nodes for counts and real numbers."""
    xp, eta = namespace(psi, eta), eta.T
    if isinstance(likelihood, likelihoods.NegativeBinomial):
        size = xp.broadcast_to(1 / likelihood.at(psi).dispersion[:, None], eta.shape)
        return Mixture(weights, (Overdispersed(size, size * xp.exp(-eta), xp.ones(eta.shape)),))
    if isinstance(likelihood, likelihoods.StudentT):
        square, df = likelihood.at(psi).scale[:, None] ** 2, xp.broadcast_to(likelihood.df, eta.shape)
        return Mixture(weights, (predictive.StudentT(df, eta, xp.broadcast_to(square, eta.shape), 0 * eta),))
    return Mixture(weights, (predictive.Poisson(xp.exp(eta)),))
