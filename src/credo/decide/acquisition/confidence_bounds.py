"""Optimism in the face of uncertainty: confidence bounds, how wide they must be, and the regret they promise.

    UCB(x) = μ(x) + β σ(x)

With β_t² growing like log t², the cumulative regret of a function from the prior stays below β_T √(C₁ T γ_T) with
probability 1 - δ, γ_T being the most that T observations can tell about f (`credo.decide.joint_information`).

Srinivas, Krause, Kakade & Seeger (2010), "Gaussian process optimization in the bandit setting", theorems 1 and 2;
their β is the square of the one here.
"""

import math

import equinox as eqx
from jaxtyping import Float

from credo.core.arrays import Array, as_float
from credo.core.checks import check_count, check_real, check_vector
from credo.core.errors import DataError
from credo.decide.acquisition.base import Directed
from credo.decide.acquisition.checks import Beliefs, check_number


class UpperConfidenceBound(Directed):
    """μ + β σ: what f(x) could plausibly be.

    Args:
        beta: the width of the bound in standard deviations.
        maximize: False where small outcomes are good; the score is then -(μ - β σ).
    """

    beta: Float[Array, ""] = eqx.field(converter=as_float, default=2.0)

    def __check_init__(self) -> None:
        check_number(self.beta, "beta", 0.0)

    def __call__(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The bound, in the units of the outcomes."""
        mean, std = self.moments(belief, x)
        return mean + self.beta * std

    @staticmethod
    def schedule(
        t: int,
        delta: float = 0.1,
        *,
        size: int | None = None,
        dimension: int | None = None,
        width: float = 1.0,
        slopes: tuple[float, float] = (1.0, 1.0),
    ) -> float:
        """β_t(δ): the bounds of all rounds hold together with probability 1 - δ.

        On `size` points,             β_t² = 2 log(size t² π²/6δ)
        on [0, r]^d, d = `dimension`, β_t² = 2 log(t² 2π²/3δ) + 2d log(t² d b r √log(4da/δ))

        with r = `width` and (a, b) = `slopes`: P(sup |∂f/∂xⱼ| > L) ≤ a exp(-(L/b)²) for every j.
        Srinivas et al. (2010), theorems 1 and 2.

        Args:
            t: the round, from 1 on.
            delta: the probability with which a bound may fail.
            size: the number of points of a finite set.
            dimension: of a box.
            width: of the box, in every dimension.
            slopes: (a, b) of the tail of the partial derivatives of f.
        """
        check_count(t, "t")
        width, (a, b) = (
            check_real(width, "width"),
            (check_real(slope, "slopes") for slope in check_vector(slopes, "slopes", 2)),
        )
        if not 0 < check_real(delta, "delta") < 1:
            raise DataError(f"delta is a probability and must lie strictly between 0 and 1, found {delta}")
        if size is not None and dimension is None:
            check_count(size, "size")
            return math.sqrt(2 * math.log(size * t**2 * math.pi**2 / (6 * delta)))
        if size is not None or dimension is None:
            raise DataError("say how many points there are (size=) or how many dimensions (dimension=), one of the two")
        check_count(dimension, "dimension")
        d = dimension
        if min(a, b, width) <= 0:
            raise DataError(f"width and slopes must be positive, found width={width}, slopes={slopes}")
        inside = 4 * d * a / delta
        if inside <= 1:
            raise DataError(f"4da/δ must be greater than 1, found {inside:g}; a larger a in slopes=(a, b) is safe")
        box = t**2 * d * b * width * math.sqrt(math.log(inside))
        return math.sqrt(max(2 * math.log(t**2 * 2 * math.pi**2 / (3 * delta)) + 2 * d * math.log(box), 0.0))


class LowerConfidenceBound(UpperConfidenceBound):
    """-(μ - β σ): the bound for outcomes that are to be small.

    Args:
        beta: the width of the bound in standard deviations.
    """

    maximize: bool = eqx.field(static=True, default=False, kw_only=True)


def regret_bound(rounds: int, beta: float, gain: float, noise: float) -> float:
    """β_T √(C₁ T γ_T), C₁ = 8/log(1 + 1/noise): what the regret of T rounds of UCB adds up to at most.

    It holds with probability 1 - δ for functions of the prior with k(x, x) ≤ 1. Srinivas et al. (2010), theorem 1.

    Args:
        rounds: T.
        beta: β_T, from `UpperConfidenceBound.schedule`.
        gain: γ_T, the largest information gain of T observations, in nats.
        noise: the variance of the noise.
    """
    check_count(rounds, "rounds")
    beta, gain, noise = check_real(beta, "beta", 0), check_real(gain, "gain", 0), check_real(noise, "noise", 0)
    if noise == 0:
        raise DataError("noise is a variance and must be positive for the bound to hold, found 0")
    return beta * math.sqrt(8 / math.log1p(1 / noise) * int(rounds) * gain)
