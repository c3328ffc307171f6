"""A dense network as a function of one flat vector of weights, and what its outputs say about outcomes.

    h₀ = x,    hₗ = tanh(hₗ₋₁Wₗ + bₗ),    f = h_L W + b

Many networks of one shape are the rows of a table, and are asked at once. The outputs are the parameters of a law:

    number    y ~ N(f₁, exp f₂): noise that depends on x. Nix & Weigend (1994)
    classes   P(y = k) = e^{fₖ}/Σⱼ e^{fⱼ}
    counts    y ~ Poisson(exp f₁)
"""

import itertools
from abc import abstractmethod

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace, special
from credo.core.predictive import Bernoulli, Categorical, Mixture, Normal, Poisson, Predictive
from credo.core.special import LOG_2PI

WIDEST = 14.0
"""Logarithms of variances and rates beyond ± this are taken for it."""


class Network(eqx.Module):
    """The shape of a network: the numbers of units of its layers, inputs first, outputs last."""

    sizes: tuple[int, ...] = eqx.field(static=True)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Units before and after each layer of weights."""
        return list(itertools.pairwise(self.sizes))

    @property
    def size(self) -> int:
        """How many weights, biases among them."""
        return sum((a + 1) * b for a, b in self.pairs)

    def layers(self, theta: Float[Array, "*k p"]) -> list[tuple[Float[Array, "*k a b"], Float[Array, "*k b"]]]:
        """(W, b) of each layer."""
        out, at = [], 0
        for a, b in self.pairs:
            matrix = theta[..., at : at + a * b].reshape(*theta.shape[:-1], a, b)
            out.append((matrix, theta[..., at + a * b : at + (a + 1) * b]))
            at += (a + 1) * b
        return out

    def __call__(self, theta: Float[Array, "*k p"], x: Float[Array, "*n d"]) -> Float[Array, "*m o"]:
        """f(x) of each network, for rows x that are the same for all of them or a table for each."""
        xp, h = namespace(theta, x), x
        for i, (matrix, bias) in enumerate(self.layers(theta)):
            h = h @ matrix + bias[..., None, :]
            h = h if i == len(self.pairs) - 1 else xp.tanh(h)
        return h

    def start(self, k: int, rng: np.random.Generator) -> Float[np.ndarray, "k p"]:
        """Initial values of k networks: W ~ N(0, 1/a), b = 0. Glorot & Bengio (2010)."""
        parts = []
        for a, b in self.pairs:
            parts += [rng.normal(size=(k, a * b)) / np.sqrt(a), np.zeros((k, b))]
        return np.concatenate(parts, axis=1)

    def outgoing(self, keep: Float[np.ndarray, "*k u"]) -> Float[np.ndarray, "*k p"]:
        """What multiplies each weight where hidden unit u is multiplied by `keep`: a unit's outgoing weights."""
        lead, at, parts = keep.shape[:-1], 0, []
        for i, (a, b) in enumerate(self.pairs):
            unit = np.ones((*lead, a)) if i == 0 else keep[..., at : at + a]
            at += a if i else 0
            parts += [np.repeat(unit, b, axis=-1), np.ones((*lead, b))]
        return np.concatenate(parts, axis=-1)

    @property
    def hidden(self) -> int:
        """How many hidden units."""
        return sum(self.sizes[1:-1])

    @property
    def matrices(self) -> Float[np.ndarray, " p"]:
        """One where a weight connects two units, zero where it is a bias."""
        return np.concatenate([np.repeat([1.0, 0.0], [a * b, b]) for a, b in self.pairs])


class Outcome(eqx.Module):
    """What the outputs of a network say about outcomes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many outputs."""

    @abstractmethod
    def log_prob(self, f: Float[Array, "*n o"], y: Float[Array, "..."]) -> Float[Array, "*n"]:
        """log p(y | f)."""

    @abstractmethod
    def mixed(self, weights: Float[Array, " k"], f: Float[Array, "k m o"], shift: Array, scale: Array) -> Predictive:
        """Σₖ wₖ p(y | fₖ), y in the user's units: shift + scale times those of the network."""

    def loss(self, f: Float[Array, "*n o"], y: Float[Array, "..."], beta: Array | float) -> Float[Array, "*n"]:
        """What training makes small."""
        return -self.log_prob(f, y)


class NumberOutcome(Outcome):
    """y ~ N(f₁, exp f₂)."""

    @property
    def width(self) -> int:
        """Mean and log variance."""
        return 2

    def law(self, f: Float[Array, "*n 2"]) -> tuple[Array, Array]:
        """Mean and log variance."""
        return f[..., 0], namespace(f).clip(f[..., 1], -WIDEST, WIDEST)

    def log_prob(self, f: Float[Array, "*n o"], y: Float[Array, "..."]) -> Float[Array, "*n"]:
        """-½(log 2π + f₂ + (y - f₁)² e^-f₂)."""
        mean, log_variance = self.law(f)
        return -0.5 * (LOG_2PI + log_variance + (y - mean) ** 2 * namespace(f).exp(-log_variance))

    def loss(self, f: Float[Array, "*n o"], y: Float[Array, "..."], beta: Array | float) -> Float[Array, "*n"]:
        """-σ^2β log p(y), the factor held constant: at β = 1 the mean learns as in least squares.

        Without it a network that finds no mean soon explains all by noise, and stops looking. Seitzer et al. (2022),
        "On the pitfalls of heteroscedastic uncertainty estimation with probabilistic neural networks".
        """
        weight = jax.lax.stop_gradient(namespace(f).exp(beta * self.law(f)[1]))
        return -weight * self.log_prob(f, y)

    def mixed(self, weights: Float[Array, " k"], f: Float[Array, "k m o"], shift: Array, scale: Array) -> Predictive:
        """A mixture of normals."""
        mean, log_variance = self.law(f)
        xp = namespace(f, scale)
        return Mixture(weights, (Normal(shift + scale * mean, scale**2 * xp.exp(log_variance), 0 * mean),))


class ClassOutcome(Outcome):
    """P(y = k) = e^{fₖ}/Σⱼ e^{fⱼ}."""

    k: int = eqx.field(static=True)

    @property
    def width(self) -> int:
        """One for each class."""
        return self.k

    def log_prob(self, f: Float[Array, "*n o"], y: Float[Array, "..."]) -> Float[Array, "*n"]:
        """f_y - log Σⱼ e^{fⱼ}."""
        chosen = namespace(f).where(y[..., None] == np.arange(self.k), f, 0.0).sum(-1)
        return chosen - special(f).logsumexp(f, axis=-1)

    def mixed(self, weights: Float[Array, " k"], f: Float[Array, "k m o"], shift: Array, scale: Array) -> Predictive:
        """Probabilities averaged; what the networks disagree about is ignorance."""
        xp = namespace(f)
        shares = xp.exp(f - f.max(-1, keepdims=True))
        probs = shares / shares.sum(-1, keepdims=True)
        return Bernoulli.average(weights, probs[..., 1]) if self.k == 2 else Categorical.average(weights, probs)


class CountOutcome(Outcome):
    """y ~ Poisson(exp f₁); the shift is the logarithm of the mean count."""

    @property
    def width(self) -> int:
        """The log rate."""
        return 1

    def log_prob(self, f: Float[Array, "*n o"], y: Float[Array, "..."]) -> Float[Array, "*n"]:
        """y f₁ - e^f₁ - log y!."""
        xp = namespace(f)
        eta = xp.clip(f[..., 0], -WIDEST, WIDEST)
        return y * eta - xp.exp(eta) - special(f, y).gammaln(y + 1)

    def mixed(self, weights: Float[Array, " k"], f: Float[Array, "k m o"], shift: Array, scale: Array) -> Predictive:
        """A mixture of Poisson laws."""
        xp = namespace(f)
        return Mixture(weights, (Poisson(xp.exp(xp.clip(f[..., 0], -WIDEST, WIDEST))),))
