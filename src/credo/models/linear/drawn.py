"""`LinearDraws`: a linear model known by draws, whatever method of `credo.infer` made them.

    p(y* | data) = 1/s Σⱼ p(y* | θⱼ, noiseⱼ),    θⱼ, noiseⱼ ~ p(θ, noise | data)

New data weigh the draws by their likelihood, as particles, which is exact as long as enough of them count; `using=`
draws anew, from all the data. The density that methods see is in `log_joint`.
"""

import warnings
from collections import OrderedDict
from collections.abc import Mapping

import jax.random as jr
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import HasLogDensity
from credo.core.arrays import Array, host, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_table
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.params import constant
from credo.core.predictive import Mixture, Normal, Predictive
from credo.core.pytrees import changed
from credo.infer.importance_sampling import WeightedDraws
from credo.infer.posterior import Posterior
from credo.infer.priors import Prior
from credo.infer.target import ParameterSpace, Target
from credo.models.linear.belief import Linear
from credo.models.linear.log_joint import Unknowns, log_likelihood, settled
from credo.models.linear.shrinkage import ScaleMixture
from credo.models.linear.statistics import Seen, Statistics

COMPONENTS = 1024
"""Draws that a prediction averages over; more are thinned to so many."""
FEW = 100.0
"""Effective draws below which new data should have been drawn for."""


def given(belief: Linear, posterior: Posterior, statistics: Seen | None = None) -> "LinearDraws":
    """The model with what a method found; `statistics` are what it was conditioned on, for those that come next."""
    numbers = posterior.values
    seen = belief.seen if statistics is None else belief._with(statistics)
    collapsed = isinstance(belief.prior, ScaleMixture) and "prior.z" not in numbers
    if collapsed and seen is None:
        raise DataError("the weights had been integrated out; to draw them give the data, or condition(X, y, using=…)")
    unknowns = Unknowns(belief.prior, belief.intercept, belief.noise)
    theta, noise = host(
        settled(jr.key(0), unknowns, numbers, seen if collapsed and isinstance(seen, Statistics) else None)
    )
    model = changed(belief, seen=seen, weights=None)
    return LinearDraws(theta, noise, np.full(len(noise), -np.log(len(noise))), model, posterior)


class LinearDraws(Belief, HasLogDensity):
    """A linear model whose weights, noise and whatever else was unknown are known by draws.

    `posterior` has them in natural units, `found` as the method left them, with its diagnostics.
    """

    theta: Float[Array, "s q"]
    """θ = (b - reference, w)."""
    noise: Float[Array, " s"]
    """σ², or the scale of noise with heavy tails."""
    log_weights: Float[Array, " s"]
    model: Linear = constant()
    """The model, with what it has seen."""
    found: Posterior = constant()

    def statistics(self, *data: ArrayLike, **options: ArrayLike) -> Seen:
        """What the model keeps of data."""
        return self.model.statistics(*data, **options)

    def target(self, statistics: Seen, priors: Mapping[str, Prior] | None = None) -> Target:
        """The density of the model after all its data: to draw anew."""
        if self.model.seen is None:
            raise DataError("this belief does not hold the data it has seen; condition the model on all of them")
        unknown = set(params.learnable(self.model)) & {slot.path for slot in self.found.space.slots}
        missing = sorted(unknown - set(priors or {}))
        if missing:
            raise DataError(f"{missing[0]!r} is known by draws; to draw anew give its prior again, priors={{…}}")
        return self.model.target(statistics, priors)

    def given(self, posterior: Posterior, statistics: Seen | None = None) -> "LinearDraws":
        """The model by new draws."""
        return self.model.given(posterior, statistics)

    def condition_on(self, statistics: Seen) -> "LinearDraws":
        """p(draw | data) ∝ p(draw) p(data | draw)."""
        joint = self.log_weights + _likelihoods(self, statistics)
        weights = joint - special(joint).logsumexp(joint)
        effective = namespace(weights).exp(-special(weights).logsumexp(2 * weights))
        if not is_traced(effective) and float(effective) < min(FEW, len(self.noise) / 2):
            warnings.warn(
                f"after these data {float(effective):.0f} effective draws are left of {len(self.noise)}; draw anew: "
                "condition(X, y, using=credo.infer.NUTS())",
                NotConvergedWarning,
                stacklevel=3,
            )
        return changed(self, log_weights=weights, model=changed(self.model, seen=self.model._with(statistics)))

    def evidence_of(self, statistics: Seen) -> Float[Array, ""]:
        """log p(new data | data), the mean likelihood of the draws."""
        joint = self.log_weights + _likelihoods(self, statistics)
        return special(joint).logsumexp(joint)

    def unconditioned(self) -> Linear:  # type: ignore[override]
        """The model before any data."""
        return self.model.unconditioned()

    def predict(self, x: ArrayLike, *, noise: ArrayLike = None) -> Predictive:
        """p(y* | x*, data), a mixture over draws: of Normal, Student-t or Laplace, as the noise is.

        Args:
            x: queries, shape (m, d).
            noise: the noise variance of each query, where it is known.
        """
        table = check_table(x, "X", self.model.inputs)
        phi = self.model._design(table)
        if phi.shape[1] != self.theta.shape[1]:
            raise DataError(f"X must have the {self.theta.shape[1]} features the belief knows, found {phi.shape[1]}")
        thin = np.linspace(0, len(self.noise) - 1, min(len(self.noise), COMPONENTS)).astype(int)
        centers = self.theta[thin] @ phi.T + self.model.reference
        levels = namespace(self.noise).broadcast_to(self.noise[thin, None], centers.shape)
        law = self.model.noise_law
        law = law.with_parameter(levels) if noise is None else law.for_rows(noise, phi.shape[0])
        return Mixture(special(self.log_weights).softmax(self.log_weights[thin]), (law.around(centers),))

    def coefficients(self) -> Normal:
        """The belief about (b, w), each on its own, by its mean and variance; `posterior` has all of it."""
        weights = namespace(self.log_weights).exp(self.log_weights)
        mean = weights @ self.theta
        variance = weights @ (self.theta - mean) ** 2
        return Normal(mean + self.model.shift(len(mean)), np.zeros(mean.shape), variance)

    def coefficient_names(self) -> list[str]:
        """The names that go with `coefficients`."""
        shifted = self.model.intercept is not None
        p = self.theta.shape[1] - shifted
        inputs = self.model.inputs
        names = [f"w{i}" for i in range(p)] if inputs is None else self.model.features.names(inputs)
        return ["intercept"] * shifted + list(names)

    @property
    def posterior(self) -> WeightedDraws:
        """The draws in natural units by name: coefficients, noise, and single numbers of the prior."""
        own = {path: v for path, v in self.found.space.by_path(self.found.values).items() if np.ndim(v) == 1}
        names, shifted = self.coefficient_names(), int(self.model.intercept is not None)
        if {"intercept", "noise", *own} & set(names[shifted:]):  # an input called "noise"
            names[shifted:] = [f"weight of {name}" for name in names[shifted:]]
        columns = OrderedDict(zip(names, (self.theta + self.model.shift(len(names))).T, strict=True))
        if self.model.noise_law.integrated or "noise" in own:
            columns["noise"] = self.noise
        columns |= {path: v for path, v in own.items() if path not in ("intercept", "noise", "weights")}
        start = OrderedDict((name, values[0]) for name, values in columns.items())
        vectors, unknown = namespace(columns).stack(list(columns.values()), axis=1), np.asarray(np.nan)
        return WeightedDraws(ParameterSpace.of(start), vectors, self.log_weights, unknown, unknown, self.found.notes)

    @property
    def verdict(self) -> str:
        """Whether to trust the draws, in words."""
        return self.found.verdict


def _likelihoods(belief: LinearDraws, statistics: Seen) -> Float[Array, " s"]:
    return log_likelihood(belief.model.noise_law, belief.theta, belief.noise, statistics)
