"""Counts of events at an unknown rate: the Gamma distribution."""

import equinox as eqx
import jax.random as jr
import numpy as np
import scipy.special
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.checks import ArrayLike, check_counts, check_positive
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.predictive import Interval, NegativeBinomial, Poisson
from credo.core.special import log_rising
from credo.models.conjugate.base import Conjugate, Statistics, central_interval, check_parameter, check_parameters


class EventCounts(Statistics):
    """Events in all, exposure in all, and Σ yᵢ log tᵢ - log yᵢ!, the part of the likelihood without θ."""

    events: Float[Array, ""] = eqx.field(converter=as_float)
    exposure: Float[Array, ""] = eqx.field(converter=as_float)
    log_base: Float[Array, ""] = eqx.field(converter=as_float)


class GammaPoisson(Conjugate):
    """yᵢ ~ Poisson(θ tᵢ) over exposures tᵢ, θ ~ Gamma(shape, rate): `shape` events in `rate` units of exposure.

    p(θ) = rateˢʰᵃᵖᵉ θˢʰᵃᵖᵉ⁻¹ e^(-rate θ)/Γ(shape). Gelman et al. (2013), section 2.6.
    """

    shape: Float[Array, ""] = positive(1.0)
    rate: Float[Array, ""] = positive(1.0)

    def __check_init__(self) -> None:
        check_parameters(self, "shape", "rate")

    @property
    def estimate(self) -> Float[Array, ""]:
        """shape/rate."""
        return self.shape / self.rate

    @property
    def strength(self) -> Float[Array, ""]:
        """The exposure that the belief is worth: rate."""
        return self.rate

    def statistics(self, counts: ArrayLike, exposure: ArrayLike = None) -> EventCounts:
        """The totals of counts and exposures; every exposure is 1 unless given."""
        y = check_counts(counts, "counts")
        t = np.ones(y.shape) if exposure is None else check_positive(exposure, "exposure", y.shape[0])
        functions = special(y, t)
        return EventCounts(y.sum(), t.sum(), (functions.xlogy(y, t) - functions.gammaln(y + 1)).sum())

    def condition_on(self, statistics: EventCounts) -> "GammaPoisson":
        """Gamma(shape + events, rate + exposure)."""
        return GammaPoisson(self.shape + statistics.events, self.rate + statistics.exposure)

    def evidence_of(self, statistics: EventCounts) -> Array:
        """log Γ(a + Σy)/Γ(a) + a log b/(b + T) - Σy log(b + T) + Σ yᵢ log tᵢ - log yᵢ!."""
        events, exposure, xp = statistics.events, statistics.exposure, namespace(self, statistics)
        before = log_rising(self.shape, events) - self.shape * xp.log1p(exposure / self.rate)
        return before - events * xp.log(self.rate + exposure) + statistics.log_base

    def predict(self, exposure: ArrayLike = 1.0) -> NegativeBinomial:
        """The number of events over `exposure` (one number, or one per query)."""
        t, xp = as_float(exposure), namespace(self, exposure)
        check_parameter(t, "exposure")
        return NegativeBinomial(xp.broadcast_to(self.shape, t.shape), xp.broadcast_to(self.rate, t.shape), t)

    def predict_at(self, theta: Float[Array, ""], exposure: ArrayLike = 1.0) -> Poisson:
        """Poisson(θ · exposure)."""
        t = as_float(exposure)
        check_parameter(t, "exposure")
        return Poisson(theta * t)

    def mode(self) -> Array:
        """(shape - 1)/rate; there is no mode for shape < 1."""
        if not is_traced(self.shape) and self.shape < 1:
            raise DataError(
                f"Gamma(shape={float(self.shape):g}) has no mode: it needs shape ≥ 1; use .estimate (the mean)"
            )
        return (self.shape - 1) / self.rate

    def log_prob(self, theta: ArrayLike) -> Array:
        """log Gamma(θ | shape, rate)."""
        t = as_float(theta)
        xp, functions = namespace(self, t), special(self, t)
        inside = t >= 0
        density = functions.xlogy(self.shape - 1, xp.where(inside, t, 1.0)) - self.rate * t
        log_normalizer = functions.gammaln(self.shape) - self.shape * xp.log(self.rate)
        return xp.where(inside, density - log_normalizer, -np.inf)

    def credible_interval(self, level: ArrayLike = 0.95) -> Interval:
        """The central interval that holds the rate θ with probability `level`."""
        return central_interval(lambda q: scipy.special.gammaincinv(self.shape, q) / self.rate, level)

    def _most_likely(self, statistics: EventCounts) -> Array:
        return statistics.events / statistics.exposure

    def _draw_parameters(self, key: PRNGKeyArray) -> Array:
        return jr.gamma(key, self.shape) / self.rate
