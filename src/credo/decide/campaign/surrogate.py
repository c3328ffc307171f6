"""What a campaign believes about one outcome: a Gaussian process over encoded points, learned in milliseconds.

    z = (y - center)/scale ~ GP(c, s² Matérn-5/2(r; ℓ)) + noise,    c ~ N(0, 1),   ℓₖ ~ ¼√d within a factor of e

The priors say what holds for most responses to tuned parameters: each varies over something like the range of its
inputs, the more inputs the less each matters (Hvarfner, Hellsten & Nardi 2024), and there is little noise unless the
data show it. Hyperparameters are climbed to from where they were at the last suggestion, now and then from the
beginning too. Outcomes far below the rest (a diverged run) would make the good ones look alike: `squeezed`.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from credo.core import params
from credo.decide.campaign.trial import Hyper
from credo.infer.learning import Evidence, Learned
from credo.infer.priors import LogScalePenalty
from credo.kernels import Matern52
from credo.models.gp import GP, LatentGP
from credo.models.gp.data import Rows, pack
from credo.models.gp.latent_evidence import LatentEvidence
from credo.models.gp.means import Constant
from credo.models.likelihoods import Probit

N = TypeVar("N", float, np.ndarray)


class Typically(NamedTuple):
    """What hyperparameters usually are."""

    length: float
    """The lengthscale in one dimension, as a part of the range."""
    noise: float
    """The variance of the noise, as a part of that of the outcomes."""
    noise_spread: float = 3.0
    """The standard deviation of its logarithm."""


RESPONSES, NOISY = Typically(0.25, 1e-4), Typically(0.35, 1e-2, 2.0)
"""Of outcomes that may be noisy, and of outcomes that are said to be."""
REGIONS, CERTAIN = 1.5, 4.0
"""What fails usually fails in a whole region, not in spots, and there nearly always: the lengthscale in one dimension,
and the variance of the probit of success."""
SPREAD = 1.0
"""The standard deviation of the logarithms of other hyperparameters."""
LEAST_NOISE = 1e-12
"""Added to every variance, so that points next to each other do no harm."""
CLIMB = Evidence(starts=1, spread=SPREAD, tolerance=1e-3, gain=1e-7, flat=False)
FOLLOW = Evidence(starts=1, tolerance=1e-3, gain=1e-6, flat=False)
"""A climb from the beginning, and one from where another ended."""
MOST_STEPS, FEWEST_STEPS = 15, 6
"""Of the latter: the more rows there are, the less one more changes. What is missing, the next suggestions bring."""
AGAIN = 25
"""From the beginning, too, at every so many observations."""


class Surrogate(NamedTuple):
    """A belief about an outcome in standard units, large values good, and how to come back from them."""

    belief: GP
    center: float
    scale: float
    sign: float

    @property
    def hyper(self) -> dict[str, list[float]]:
        """Its hyperparameters by path, as JSON holds them."""
        return {path: np.ravel(value).tolist() for path, value in params.learnable(self.belief).items()}

    @property
    def lengthscales(self) -> Float[np.ndarray, " d"]:
        """One for each encoded column."""
        return np.asarray(params.learnable(self.belief)["kernel.lengthscale"])

    def fitted(self) -> Float[np.ndarray, " n"]:
        """The believed function at the rows that were seen, in standard units: z - noise·α."""
        rows, solved = self.belief.conditioned()
        _, z, scale, extra = rows.cut()
        return z - (float(self.belief.noise) * scale + extra) * np.asarray(solved.alpha)[: len(z)]

    def natural(self, z: N) -> N:
        """A value in the user's units and direction."""
        return self.sign * (self.center + self.scale * z)

    def standard(self, y: N) -> N:
        """A value of the user in standard units."""
        return (self.sign * y - self.center) / self.scale


def learn_surrogate(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    sign: float = 1.0,
    noise: Float[np.ndarray, " n"] | None = None,
    warm: Hyper | None = None,
    seed: int = 0,
    typical: Typically = RESPONSES,
) -> Surrogate:
    """The surrogate after the outcomes y of encoded points x.

    Args:
        x: encoded points.
        y: outcomes in the user's units.
        sign: 1 where large outcomes are good, else -1.
        noise: the variance of each outcome where it is known, else NaN.
        warm: `Surrogate.hyper` of an earlier one.
        seed: of the random starts.
        typical: the priors: `RESPONSES` or `NOISY`.
    """
    n, d = x.shape
    good = squeezed(sign * y)
    center, spread = float(np.mean(good)), float(np.std(good))
    scale = spread if spread > 1e-12 * abs(center) else abs(center) or 1.0
    known = np.isfinite(noise) if noise is not None else np.zeros(n, bool)
    extra = LEAST_NOISE + (np.where(known, noise, 0.0) / scale**2 if noise is not None else np.zeros(n))
    rows = pack(x, (good - center) / scale, np.where(known, 0.0, 1.0), extra)
    exact = bool(known.all())
    learned = learn(*prior_for(d, typical, exact), rows, warm, seed, exact)
    return Surrogate(learned.condition_on(rows), center, scale, sign)


def learn_success(x: Float[np.ndarray, "n d"], ok: Bool[np.ndarray, " n"], warm: Hyper | None = None) -> Surrogate:
    """What is believed of where trials succeed: a `LatentGP` behind a probit, as the `GP` of its sites.

    Expectation propagation leaves p(ok | f) as a normal outcome ν/τ with variance 1/τ for each row, and
    P(success) = P(f + ε > 0) with ε ~ N(0, 1): 0.5 in the units of success is 0 in those of f, and the noise is 1.
    """
    d, likelihood = x.shape[1], Probit((0, 1))
    start = np.full(d, REGIONS * np.sqrt(d)), np.asarray(CERTAIN)
    paths = ("kernel.lengthscale", "kernel.variance")
    priors = {path: LogScalePenalty(typical, SPREAD) for path, typical in zip(paths, start, strict=True)}
    if warm is not None and all(np.size(warm.get(p, ())) == np.size(v) for p, v in zip(paths, start, strict=True)):
        start = np.asarray(warm[paths[0]]), np.reshape(warm[paths[1]], ())
    latent = LatentGP(likelihood, Matern52(*start), Constant(np.zeros(()), np.ones(())))
    learned = LatentEvidence(max_steps=MOST_STEPS).learn(latent, latent.statistics(x, ok.astype(int)), (), priors, 0)
    found = learned.conditioned
    assert isinstance(found, LatentGP)
    tau = np.maximum(np.asarray(found.solved.tau), LEAST_NOISE)
    sites = pack(x, np.asarray(found.solved.nu) / tau, np.zeros(len(x)), 1 / tau)
    return Surrogate(GP(found.kernel, found.mean, np.ones(())).condition_on(sites), 0.5, 1.0, 1.0)


@lru_cache(maxsize=64)
def prior_for(d: int, usual: Typically, known: bool) -> tuple[GP, dict[str, LogScalePenalty]]:
    """The belief before any outcome of d columns, and where its hyperparameters usually are; `known` is the noise."""
    lengths = np.full(d, usual.length * np.sqrt(d))
    priors = {
        "kernel.lengthscale": LogScalePenalty(lengths, SPREAD),
        "kernel.variance": LogScalePenalty(1.0, SPREAD),
        "noise": LogScalePenalty(usual.noise, usual.noise_spread),
    }
    one, noise = np.ones(()), LEAST_NOISE if known else usual.noise
    return GP(Matern52(lengths, one), Constant(np.zeros(()), one), np.asarray(noise)), priors


def learn(gp: GP, priors: Mapping[str, LogScalePenalty], rows: Rows, warm: Hyper | None, seed: int, known: bool) -> GP:
    """The prior belief with the likeliest hyperparameters for the rows, climbed to from those of an earlier one."""
    fixed = ("noise",) if known else ()
    free = {path: prior for path, prior in priors.items() if path not in fixed}

    def climb(start: GP, using: Evidence) -> Learned:
        return using.learn(start, rows, fixed, free, seed)

    found = []
    if warm is not None and all(np.size(warm.get(path, ())) == np.size(params.learnable(gp)[path]) for path in free):
        there = {path: np.reshape(warm[path], np.shape(params.learnable(gp)[path])) for path in free}
        steps = max(FEWEST_STEPS, MOST_STEPS - rows.n // 10)
        found.append(climb(params.replace(gp, there), replace(FOLLOW, max_steps=steps)))
    if not found:  # nothing to fall back on: shorter and longer lengthscales, too
        found.append(climb(gp, replace(CLIMB, starts=3)))
    elif rows.n % AGAIN == 0:
        found.append(climb(gp, CLIMB))
    learned = max(found, key=lambda each: each.log_evidence).belief
    # Where all noise is known, outcomes to come are expected to have as much.
    return params.replace(learned, {"noise": rows.cut()[3].mean()}) if known else learned


def squeezed(y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Outcomes, of which those far below the median m are pulled in: m - s - s log(1 + (m - s - v)/s) below m - s.

    s is 5 robust deviations of the half above the median. Where the bulk lies nothing changes.
    """
    middle = float(np.median(y))
    reach = 5.0 * 1.4826 * float(np.median(y[y >= middle] - middle))
    if reach <= 0:
        return y
    edge = middle - reach
    return np.where(y < edge, edge - reach * np.log1p(np.maximum(edge - y, 0.0) / reach), y)
