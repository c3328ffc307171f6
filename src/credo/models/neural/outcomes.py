"""What the outputs of a network say about outcomes: the parameters of a law.

    number      y ~ N(f₁, exp f₂): noise that depends on x. Nix & Weigend (1994)
    student-t   y ~ t_ν(f₁, exp f₂), ν = 2 + exp f₃: outliers are expected
    classes     P(y = k) = e^{fₖ}/Σⱼ e^{fⱼ}
    counts      y ~ Poisson(exp f₁)

Each has its Fisher information E[-∂² log p(y | f)], from which doubt about weights follows (Gauss-Newton curvature).
"""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, namespace, special
from credo.core.predictive import Bernoulli, Categorical, Mixture, Normal, Poisson, Predictive, StudentT
from credo.core.special import LOG_2PI

WIDEST = 14.0
"""Logarithms of variances and rates beyond ± this are taken for it."""
LEAST_DEGREES, TAILS = 2.1, 5.0
"""Degrees of freedom are more than this, and at most e^TAILS more."""


class Outcome(eqx.Module):
    """What the outputs of a network say about outcomes."""

    continuous: ClassVar[bool] = False
    """Whether outcomes are numbers, which are standardized."""
    weighs: ClassVar[bool] = False
    """Whether β weighs the loss of each row."""

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

    @abstractmethod
    def information(self, f: Float[Array, "*n o"]) -> Float[Array, "*n o o"]:
        """Fisher's information about the outputs in one outcome."""

    def loss(self, f: Float[Array, "*n o"], y: Float[Array, "..."], beta: Array | float) -> Float[Array, "*n"]:
        """What training makes small."""
        return -self.log_prob(f, y)


class NumberOutcome(Outcome):
    """y ~ N(f₁, exp f₂)."""

    continuous: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    @property
    def width(self) -> int:
        """Mean and log variance."""
        return 2

    def law(self, f: Float[Array, "*n o"]) -> tuple[Array, Array]:
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

    def information(self, f: Float[Array, "*n o"]) -> Float[Array, "*n o o"]:
        """diag(e^-f₂, ½)."""
        precision = namespace(f).exp(-self.law(f)[1])
        return _diagonal([precision, 0.5 + 0 * precision])


class StudentTOutcome(NumberOutcome):
    """y ~ t_ν(f₁, exp f₂), ν = 2.1 + exp f₃: a law whose variance is finite, however far its tails."""

    @property
    def width(self) -> int:
        """Mean, log squared scale and log degrees of freedom."""
        return 3

    def degrees(self, f: Float[Array, "*n o"]) -> Array:
        """ν."""
        xp = namespace(f)
        return LEAST_DEGREES + xp.exp(xp.clip(f[..., 2], -TAILS, TAILS))

    def log_prob(self, f: Float[Array, "*n o"], y: Float[Array, "..."]) -> Float[Array, "*n"]:
        """log Γ((ν+1)/2) - log Γ(ν/2) - ½ log πν - ½ f₂ - (ν+1)/2 log(1 + z²/ν)."""
        (mean, log_scale), df, xp = self.law(f), self.degrees(f), namespace(f)
        gammaln, half = special(f).gammaln, 0.5 * df
        square = (y - mean) ** 2 * xp.exp(-log_scale)
        height = gammaln(half + 0.5) - gammaln(half) - 0.5 * xp.log(np.pi * df)
        return height - 0.5 * log_scale - (half + 0.5) * xp.log1p(square / df)

    def mixed(self, weights: Float[Array, " k"], f: Float[Array, "k m o"], shift: Array, scale: Array) -> Predictive:
        """A mixture of Student's laws."""
        (mean, log_scale), xp = self.law(f), namespace(f, scale)
        noise = scale**2 * xp.exp(log_scale)
        return Mixture(weights, (StudentT(self.degrees(f), shift + scale * mean, noise, 0 * mean),))

    def information(self, f: Float[Array, "*n o"]) -> Float[Array, "*n o o"]:
        """Lange, Little & Taylor (1989), appendix B, by f₂ and f₃."""
        v, xp, polygamma = self.degrees(f), namespace(f), special(f).polygamma
        own = 0.25 * (polygamma(1, 0.5 * v) - polygamma(1, 0.5 * v + 0.5)) - (v + 5) / (2 * v * (v + 1) * (v + 3))
        chain = xp.where(xp.abs(f[..., 2]) < TAILS, v - LEAST_DEGREES, 0.0)
        mean = (v + 1) / (v + 3) * xp.exp(-self.law(f)[1])
        found = _diagonal([mean, v / (2 * (v + 3)), own * chain**2])
        cross = -chain / ((v + 1) * (v + 3))
        between = np.zeros((3, 3))
        between[1, 2] = between[2, 1] = 1.0
        return found + cross[..., None, None] * between


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

    def information(self, f: Float[Array, "*n o"]) -> Float[Array, "*n o o"]:
        """diag(p) - ppᵀ."""
        shares = namespace(f).exp(f - f.max(-1, keepdims=True))
        probs = shares / shares.sum(-1, keepdims=True)
        return probs[..., None] * np.eye(self.k) - probs[..., None] * probs[..., None, :]


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

    def information(self, f: Float[Array, "*n o"]) -> Float[Array, "*n o o"]:
        """e^f₁."""
        xp = namespace(f)
        return xp.exp(xp.clip(f, -WIDEST, WIDEST))[..., None]


def _diagonal(parts: list[Array]) -> Float[Array, "*n o o"]:
    """Diagonal matrices of these entries."""
    return namespace(parts).stack(parts, axis=-1)[..., None] * np.eye(len(parts))
