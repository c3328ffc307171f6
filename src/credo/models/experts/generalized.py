"""Generalized linear experts, y ~ p(y | ηⱼ) with ηⱼ = bⱼ + wⱼᵀφ: counts, classes, heavy tails.

    M    uⱼ ← argmax Σₙ rⱼ(xₙ) log p(yₙ | ηⱼ, ψⱼ) + log p(uⱼ),    uⱼ = (ψⱼ, bⱼ, wⱼ)

by Newton's method from where the expert is: no step loses. Each expert has its own numbers ψ of the likelihood (a
dispersion, a scale, cutpoints). Jordan & Jacobs (1994), section 3; McCullagh & Nelder (1989).
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credo.core import predictive
from credo.core.arrays import Array, namespace
from credo.core.checks import ArrayLike, check_array, check_real
from credo.core.errors import DataError
from credo.core.params import constant, real
from credo.core.predictive import Predictive
from credo.core.pytrees import changed, plain_methods
from credo.models import likelihoods
from credo.models.experts.family import ExpertFamily, ExpertRows, mixed_weights
from credo.models.glm.newton import GaussianPrior, Rows, ascend, height, start
from credo.models.glm.predictions import of_numbers
from credo.models.likelihoods import Likelihood
from credo.models.likelihoods.classes import Label

SHORT = 1e-3
"""An expert has arrived with a step of so few standard deviations: the next E-step moves it by more."""
BROAD = 0.1
"""The precision of the constant term, as a share of that of the weights."""


class Shared(NamedTuple):
    """Rows under the design of the experts, and their shares for each."""

    rows: Rows
    shares: Float[Array, "n k"]


class GeneralizedRegression(ExpertFamily[Shared]):
    """k generalized linear models of one likelihood.

    Args:
        likelihood: how outcomes follow from the linear predictor, one of `credo.models.likelihoods`.
        precision: of the weights before data, for features in units of their standard deviation and η in its own
            (`Likelihood.unit`); the constant term has a tenth of it.
        weights: the constants first, shape (k, 1 + size of φ), with a last axis of predictors for several classes;
            None is learned. Likelihoods with cutpoints have no constant.
        own: the likelihood's numbers ψ for each expert, unconstrained (log α, log scale), shape (k, s); None is what
            the likelihood has.
    """

    k: int | None = eqx.field(static=True)
    precision: float = eqx.field(static=True)
    likelihood: Likelihood = constant()
    weights: Float[Array, "k q c"] | None = real()
    own: Float[Array, "k s"] | None = real()
    prior: GaussianPrior | None = constant()

    __getattribute__ = plain_methods

    def __init__(
        self,
        likelihood: object,
        *,
        precision: float | int = 0.25,
        weights: ArrayLike | None = None,
        own: ArrayLike | None = None,
    ) -> None:
        if not isinstance(likelihood, Likelihood):
            raise DataError(f"likelihood must be one of credo.models.likelihoods, found {type(likelihood).__name__}")
        ready = isinstance(likelihood, likelihoods.Classes) and likelihood.classes is not None
        self.likelihood = likelihood.adapt(None) if ready else likelihood
        self.precision = check_real(precision, "precision", 1e-12)
        self.k, self.weights, self.own, self.prior = None, None, None, None
        if weights is not None:
            table = np.asarray(check_array(weights, "weights"), float)
            self.weights = table[..., None] if table.ndim == 2 else table
            if self.weights.ndim != 3 or self.weights.shape[2] != self.likelihood.width:
                raise DataError(
                    f"weights must have shape (experts, inputs + 1) and {self.likelihood.width} predictors, found "
                    f"{table.shape}"
                )
            self.k, s = len(table), self.likelihood.size
            if s:
                begun = np.tile(self.likelihood.psi, (self.k, 1)) if own is None else np.asarray(own, float)
                self.own = begun.reshape(self.k, s)

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The labels, where there are some."""
        return self.likelihood.classes if isinstance(self.likelihood, likelihoods.Classes) else None

    # -- learning -------------------------------------------------------------------------------------------

    @property
    def experts(self) -> "GeneralizedRegression":
        """Themselves."""
        return self

    @property
    def known(self) -> bool:
        """Whether there are weights."""
        return self.weights is not None

    def resized(self, k: int) -> "GeneralizedRegression":
        """The same experts, k of them."""
        if self.k not in (None, k):
            raise DataError(f"experts have weights for {self.k}, but there are {k}; give weights of shape ({k}, …)")
        return changed(self, k=k)

    def told(self, y: ArrayLike) -> "GeneralizedRegression":
        """With the classes, or the range, of y."""
        return self if self.known else changed(self, likelihood=self.likelihood.adapt(y))

    def encode(self, y: ArrayLike, n: int) -> Float[Array, " n"]:
        """Outcomes as the likelihood has them."""
        found = self.told(y).likelihood.encode(y)
        if len(found) != n:
            raise DataError(f"y must have one value per row: {n} are expected, found {len(found)}")
        return found

    def marks(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Counts by their logarithm."""
        return np.log(y + 0.5) if self.likelihood.counts else y

    def adapt(self, rows: ExpertRows, seed: int) -> "GeneralizedRegression":
        """The model of all rows, tilted at random for each expert."""
        data, likelihood, s = self._rows(rows), self.likelihood, self.likelihood.size
        q, c = data.design.shape[1], likelihood.width
        begun = start(data, likelihood.shifts, np.zeros(s + q * c))
        unit = float(likelihood.unit(data.y, data.weights))
        each = np.full(q, self.precision / unit**2)
        each[: int(likelihood.shifts)] *= BROAD
        # Rates have no zero of their own: the constant is around where the outcomes alone put it.
        center = np.where(np.arange(len(begun)) < s, 0.0, 0.0 if isinstance(likelihood, likelihoods.Classes) else begun)
        precision = np.pad(np.kron(np.diag(each), likelihood.coupling), (s, 0))
        prior = GaussianPrior(center, precision, np.zeros(()))
        if self.weights is not None:
            return changed(self, prior=prior)
        assert self.k is not None
        top = ascend(partial(height, prior, data), begun, SHORT).u
        tilt = unit / np.sqrt(q) * np.random.default_rng(seed).normal(size=(self.k, q, c))
        return changed(
            self, weights=top[s:].reshape(q, c) + tilt, own=np.tile(top[:s], (self.k, 1)) if s else None, prior=prior
        )

    def expected_statistics(self, rows: ExpertRows, shares: Float[Array, "n k"]) -> Shared:
        """The rows and their shares."""
        return Shared(self._rows(rows), shares)

    def maximize(self, statistics: Shared) -> "GeneralizedRegression":
        """Newton's method for each expert."""
        prior, found = self._known_prior(), []
        for j, u in enumerate(np.asarray(self.numbers)):
            rows = statistics.rows._replace(weights=np.asarray(statistics.shares)[:, j])
            found.append(np.asarray(ascend(partial(height, prior, rows), u, SHORT).u))
        return self._with(np.stack(found))

    def log_prior(self) -> Float[Array, ""]:
        """Normal laws of the weights, and the likelihood's own of its numbers; 0 for numbers that were given."""
        return self.log_priors(self.numbers[None])[0]

    def log_prob(self, rows: ExpertRows) -> Float[Array, "n k"]:
        """log p(y | ηⱼ, ψⱼ)."""
        return self.log_probs(self.numbers, rows)

    def reordered(self, order: Int[np.ndarray, " k"]) -> "GeneralizedRegression":
        """The same experts in another order."""
        return self._with(self.numbers[order])

    @property
    def constants(self) -> Float[Array, " k"]:
        """The constant term, or the first cutpoint turned round."""
        return self._weights[:, 0, 0] if self.likelihood.shifts else -self.numbers[:, 0]

    # -- their numbers as vectors ---------------------------------------------------------------------------

    @property
    def numbers(self) -> Float[Array, "k a"]:
        """uⱼ = (ψⱼ, vec Wⱼ)."""
        xp = namespace(self.own, self._weights)
        flat = self._weights.reshape(len(self._weights), -1)
        return flat if self.own is None else xp.concatenate([self.own, flat], axis=1)

    def _with(self, numbers: Float[Array, "k a"]) -> "GeneralizedRegression":
        s = self.likelihood.size
        return changed(self, own=numbers[:, :s] if s else None, weights=numbers[:, s:].reshape(self._weights.shape))

    def log_probs(self, numbers: Float[Array, "b a"], rows: ExpertRows) -> Float[Array, "n b"]:
        """log p(y | η, ψ)."""
        eta = self._eta(numbers, rows.phi)
        return self._at(numbers[:, : self.likelihood.size]).log_prob(eta, rows.y[:, None])

    def log_priors(self, numbers: Float[Array, "b k a"]) -> Float[Array, " b"]:
        """Of all uⱼ; 0 where they were given."""
        xp, s = namespace(numbers), self.likelihood.size
        if self.prior is None:
            return xp.zeros(len(numbers))
        gap = numbers - self.prior.mean
        value = -0.5 * xp.einsum("bka,ac,bkc->bk", gap, self.prior.precision, gap)
        return (value + self.likelihood.own_terms(numbers[..., :s])[0] if s else value).sum(1)

    def scores(self, rows: ExpertRows) -> Float[Array, "n k a"]:
        """(gradient by ψ, φ ⊗ gradient by η)."""
        data, s = self._rows(rows), self.likelihood.size
        each = []
        for u in np.asarray(self.numbers):
            gradient = self.likelihood.terms(data.z(u), data.y)[1]
            by_weights = (data.design[:, :, None] * gradient[:, None, s:]).reshape(len(data.y), -1)
            each.append(np.concatenate([gradient[:, :s], by_weights], axis=1))
        return np.stack(each, axis=1)

    def curvature(self, rows: ExpertRows, shares: Float[Array, "n k"]) -> Float[np.ndarray, "k a a"]:
        """As Newton's method has it."""
        data, prior = self._rows(rows), self._known_prior()
        each = [(u, data._replace(weights=shares[:, j])) for j, u in enumerate(np.asarray(self.numbers))]
        return np.stack([np.asarray(height(prior, own, u)[2]) for u, own in each])

    def predict(
        self, numbers: Float[Array, "s k a"], regions: Float[Array, "s m k"], phi: Float[Array, "m p"]
    ) -> Predictive:
        """A mixture of the likelihood's predictions; of classes, their probabilities averaged."""
        xp, own = namespace(numbers, phi), self.likelihood.size
        s, k, a = numbers.shape
        each = numbers.reshape(s * k, a)
        eta = self._eta(each, phi)
        if not isinstance(self.likelihood, likelihoods.Classes):
            found: Any = of_numbers(self.likelihood, mixed_weights(regions), each[:, :own], eta)
            return predictive.Mixture(found.weights, found.parts, k)
        probs = self._at(each[:, :own]).mean(eta)
        probs = probs.reshape(len(phi), s, k, *probs.shape[2:])
        known = xp.einsum("smk,msk...->sm...", regions, probs)
        kind = predictive.Bernoulli if isinstance(self.likelihood, likelihoods.Bernoulli) else predictive.Categorical
        return kind.average(np.full(s, 1 / s), known)

    def answers(self, phi: Float[Array, "m p"]) -> Float[Array, "m k *c"]:
        """E[y | x, j]."""
        return self._at(self.numbers[:, : self.likelihood.size]).mean(self._eta(self.numbers, phi))

    # -- parts ----------------------------------------------------------------------------------------------

    @property
    def _weights(self) -> Float[Array, "k q c"]:
        if self.weights is None:
            raise DataError("the experts are not known yet; learn from data with credo.fit(experts, X, y)")
        return self.weights

    def _known_prior(self) -> GaussianPrior:
        return GaussianPrior.nothing(self.numbers.shape[1]) if self.prior is None else self.prior

    def _at(self, psi: Float[Array, "b s"]) -> Likelihood:
        return self.likelihood.at(psi) if self.likelihood.size else self.likelihood

    def _design(self, phi: Float[Array, "m p"]) -> Float[Array, "m q"]:
        xp = namespace(phi)
        return xp.concatenate([xp.ones((len(phi), 1)), phi], axis=1) if self.likelihood.shifts else phi

    def _rows(self, rows: ExpertRows) -> Rows:
        return Rows(self._design(rows.phi), rows.y, rows.weights, 0 * rows.y, self.likelihood)

    def _eta(self, numbers: Float[Array, "b a"], phi: Float[Array, "m p"]) -> Float[Array, "m b *c"]:
        """The predictors of every row at every setting of an expert's numbers."""
        design, c = self._design(phi), self.likelihood.width
        weights = numbers[:, self.likelihood.size :].reshape(len(numbers), design.shape[1], c)
        eta = namespace(design, weights).einsum("mq,bqc->mbc", design, weights)
        return eta if self.likelihood.vector else eta[..., 0]

    def __repr__(self) -> str:
        return type(self.likelihood).__name__
