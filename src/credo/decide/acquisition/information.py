"""Where an outcome tells most: about the function, about the outcome, about the model, about the maximum.

MaxVariance            Var f(x)
MaxEntropy             H[y | x]
MutualInformation      H[y | x] - E H[y | x, θ], called BALD         Houlsby, Huszár, Ghahramani & Lengyel (2011)
MaxValueEntropySearch  I(f*; f(x)), f* = max f                       Wang & Jegelka (2017)
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

from credo.core.abilities import DrawsFunctions, able
from credo.core.arrays import Array, host, namespace, special
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical, Predictive
from credo.core.pytrees import changed
from credo.decide.acquisition.base import SMALLEST, Acquisition, Directed, Positive
from credo.decide.acquisition.checks import Beliefs, Points, around, maybe_array, single, table_or_none
from credo.decide.acquisition.normal_tails import log_information


class MaxVariance(Acquisition):
    """Var f(x): what is known least. For classes the mutual information of outcome and parameters."""

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The epistemic doubt."""
        return single(belief).predict(x).epistemic


class MaxEntropy(Acquisition):
    """H[y | x]: the outcome that is predicted with most doubt, noise included."""

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The entropy of the predictive outcome, in nats."""
        return single(belief).predict(x).entropy()


class MutualInformation(Acquisition):
    """H[y | x] - E H[y | x, θ]: the outcome about which the plausible functions disagree (BALD).

    For numbers ½ log(1 + σ²(x)/σₙ²(x)): doubt counts for less where noise hides it. For classes the epistemic part of
    the entropy.
    """

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The information, in nats."""
        prediction = single(belief).predict(x)
        return prediction.epistemic if isinstance(prediction, Bernoulli | Categorical) else information(prediction)


BALD = MutualInformation


def information(prediction: Predictive) -> Float[Array, " m"]:
    """½ log(1 + σ²/σₙ²), for each query."""
    doubt, noise = prediction.epistemic, prediction.aleatoric
    xp = namespace(doubt, noise)
    return 0.5 * xp.log1p(doubt / xp.maximum(noise, SMALLEST))


class KnowsMaxima(Directed):
    """A score that draws the maximum of the function.

    `maxima` may be given; None: `prepared` draws them over `at`, by default the rows that were seen and 1024
    quasi-random points of the smallest box that holds them.
    """

    draws: int = eqx.field(static=True, default=16)
    at: Float[Array, "p d"] | None = eqx.field(converter=lambda v: table_or_none(v, "at"), default=None)
    method: str = eqx.field(static=True, default="gumbel")
    maxima: Float[Array, " k"] | None = eqx.field(converter=maybe_array, default=None)

    def __check_init__(self) -> None:
        check_count(self.draws, "draws")
        if not isinstance(self.method, str) or self.method not in ("gumbel", "functions"):
            raise DataError(f'method must be "gumbel" or "functions", found {self.method!r}')

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "KnowsMaxima":
        """With draws of the maximum of ±f; they are kept in the sense in which large is good."""
        if self.maxima is not None:
            return self
        table = self.at
        if table is None:
            table = around(belief, 1024, seed, "say over which points the maximum is taken, at=")
        mean, std = host(self.moments(belief, table))
        if self.method == "functions":
            maxima = self.turned(drawn_functions(belief, self.draws, seed, table)).max(1)
        else:
            maxima = gumbel_maxima(mean, std, self.draws, seed)
        return changed(self, maxima=np.maximum(maxima, mean.max()))

    def drawn(self) -> Float[Array, " k"]:
        """The maxima, or an error that says how to get them."""
        if self.maxima is None:
            raise DataError(f"{type(self).__name__} has no draws of the maximum yet; call prepared(belief) first")
        return self.maxima


def drawn_functions(belief: Beliefs, draws: int, seed: int, x: Array) -> np.ndarray:
    """Joint draws of the function at the rows of x, shape (draws, m)."""
    if not able(belief, DrawsFunctions):
        raise DataError(
            f'method="functions" needs a belief with sample_functions, e.g. credo.GP, found {type(belief).__name__}; '
            'use method="gumbel"'
        )
    return np.asarray(belief.sample_functions(draws, seed=seed, columns=x.shape[1])(x))


def gumbel_maxima(mean: Array, std: Array, draws: int, seed: int) -> Array:
    """Draws of the maximum of independent N(mean, std²), through a Gumbel law with the same quartiles.

    P(max ≤ y) = Π Φ((y - μᵢ)/σᵢ) is inverted at ¼ and ¾; -log(-log u) is the Gumbel quantile. Dependence makes the
    true maximum smaller: the draws err on the side of exploration. Wang & Jegelka (2017), section 3.1.
    """

    def quantile(level: float) -> float:
        low, high = float(np.max(mean - 5 * std)), float(np.max(mean + 8 * std))
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = log_ndtr((middle - mean) / std).sum() < np.log(level)
            low, high = (middle, high) if below else (low, middle)
        return 0.5 * (low + high)

    def gumbel(u: Array | float) -> Array:
        return -np.log(-np.log(u))

    lower, upper = quantile(0.25), quantile(0.75)
    scale = (upper - lower) / (gumbel(0.75) - gumbel(0.25))
    # Stratified: one draw from each of equally likely pieces.
    levels = (np.arange(draws) + np.random.default_rng(seed).uniform(size=draws)) / draws
    return lower + scale * (gumbel(np.clip(levels, 1e-12, 1 - 1e-12)) - gumbel(0.25))


class MaxValueEntropySearch(KnowsMaxima, Positive):
    """I(f*; f(x)) ≈ mean over draws of f* of  γ φ(γ)/2Φ(γ) - log Φ(γ),  γ = (f* - μ(x))/σ(x).

    Args:
        draws: of the maximum f*.
        at: the points over which the maximum is taken, shape (p, d).
        method: `gumbel`, cheap and for any belief, or `functions`: maxima of drawn functions.
        maxima: of ±f, instead of draws.
        maximize: False where small outcomes are good.
    """

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """Its logarithm."""
        maxima = self.drawn()
        mean, std = self.moments(belief, x)
        each = log_information((maxima[:, None] - mean) / std)
        return special(each).logsumexp(each, axis=0) - np.log(len(maxima))
