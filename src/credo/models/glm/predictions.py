"""From a belief about the weights to a prediction: the weights are integrated out.

Under a normal law of u = (ψ, vec W) one row's predictor is normal too, η = m + λᵀz_ψ + σz₀ with z ~ N(0, I), so that

    p(y*) = ∫ p(y* | ψ, η) p(ψ, η) ≈ Σₛ ωₛ p(y* | ψₛ, ηₛ)

over the nodes of Gauss and Hermite (one or two dimensions) or of a Sobol sequence (more). Probit needs none,
E[Φ(η)] = Φ(m/√(1 + σ²)); for the logit MacKay (1992) approximates it so, σ(m/√(1 + πσ²/8)). Draws are their own nodes.
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
        return _numbers(likelihood, nodes.weights, _psi(law, likelihood, nodes), eta)
    probs, aleatoric = _by_rows(_classes, law, likelihood, nodes, rows)
    if not isinstance(likelihood, likelihoods.Bernoulli):
        return predictive.Categorical(probs, aleatoric)
    if law.root is not None and (by == "probit" or (isinstance(likelihood, likelihoods.Probit) and by is None)):
        probs = _closed(law, likelihood, phi)
        aleatoric = namespace(probs, aleatoric).minimum(aleatoric, entropy_of(probs))
    return predictive.Bernoulli(probs[:, 1], aleatoric)


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
    if likelihood.vector or by == "sampling":
        if by in ("quadrature", "probit"):
            raise DataError(f"by={by!r} is for one linear predictor a row; with several classes use by='sampling'")
        z = np.random.default_rng(0).standard_normal((DRAWS // 2, law.center.shape[0])) @ law.root.T
        vectors = law.center + namespace(z).concatenate([z, -z])
        return Nodes(np.full(DRAWS, 1 / DRAWS), None, vectors)
    if by == "probit" and not isinstance(likelihood, likelihoods.Bernoulli):
        raise DataError("by='probit' is for two classes; use by='quadrature'")
    weights, z = normal_nodes(likelihood.size + 1)
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
    assert nodes.z is not None
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


def _numbers(likelihood: Likelihood, weights: Array, psi: Float[Array, "s a"], eta: Float[Array, "m s"]) -> Predictive:
    """The mixture over the nodes for counts and real numbers."""
    xp, eta = namespace(psi, eta), eta.T
    if isinstance(likelihood, likelihoods.NegativeBinomial):
        size = xp.broadcast_to(1 / likelihood.at(psi).dispersion[:, None], eta.shape)
        return Mixture(weights, (Overdispersed(size, size * xp.exp(-eta), xp.ones(eta.shape)),))
    if isinstance(likelihood, likelihoods.StudentT):
        square, df = likelihood.at(psi).scale[:, None] ** 2, xp.broadcast_to(likelihood.df, eta.shape)
        return Mixture(weights, (predictive.StudentT(df, eta, xp.broadcast_to(square, eta.shape), 0 * eta),))
    return Mixture(weights, (predictive.Poisson(xp.exp(eta)),))
