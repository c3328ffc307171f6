"""What a campaign believes about one outcome: a Gaussian process over encoded points, learned in milliseconds.

    z = (y - center)/scale ~ GP(c, s² Matérn-5/2(r; ℓ)) + noise,    c ~ N(0, 1),   ℓₖ ~ ¼√d within a factor of e

The priors say what holds for most responses to tuned parameters: each varies over something like the range of its
inputs, the more inputs the less each matters (Hvarfner, Hellsten & Nardi 2024), and there is little noise unless the
data show it. Hyperparameters are climbed to from where they were at the last suggestion, now and then from the
beginning too. Outcomes far below the rest (a diverged run) would make the good ones look alike: `squeezed`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.linalg import block_diag

from credo.core import params
from credo.core.arrays import put
from credo.infer.optimize import Optimum, maximize
from credo.kernels import RBF, Kernel, Matern52
from credo.models.gp import GP
from credo.models.gp.hyperpriors import Alike, Typical
from credo.models.gp.means import Constant
from credo.models.gp.rows import Rows, pack


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
LABELS = Typically(1.5, 0.05)
"""What fails usually fails in a whole region, not in spots: few failures should say much."""
SPREAD = 1.0
"""The standard deviation of the logarithms of other hyperparameters."""
WIDE, AMONG = 8, 0.3
"""Columns from which on suggestions ask a smoother kernel, too, with lengthscales that are alike, and how much."""
LEAST_NOISE = 1e-12
"""Added to every variance, so that points next to each other do no harm."""
CLIMB, FOLLOW = (200, 1e-3, 1e-7), (1e-3, 1e-6)
"""Steps at most, the slope and the relative gain that end a climb from the beginning; and from where one ended."""
MOST_STEPS, FEWEST_STEPS = 15, 6
"""Of the latter: the more rows there are, the less one more changes. What is missing, the next suggestions bring."""
STEP = 1e-4
"""Of a difference of slopes."""
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

    def natural(self, z: Any) -> Any:
        """A value in the user's units and direction."""
        return self.sign * (self.center + self.scale * z)

    def standard(self, y: Any) -> Any:
        """A value of the user in standard units."""
        return (self.sign * y - self.center) / self.scale


def learn_surrogate(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    sign: float = 1.0,
    noise: Float[np.ndarray, " n"] | None = None,
    warm: Mapping[str, Any] | None = None,
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
        typical: the priors: `RESPONSES`, `NOISY`, or `LABELS` for success and failure.
    """
    n, d = x.shape
    good = squeezed(sign * y)
    center, spread = float(np.mean(good)), float(np.std(good))
    scale = spread if spread > 1e-12 * max(1.0, abs(center)) else max(abs(center), 1.0)
    known = np.isfinite(noise) if noise is not None else np.zeros(n, bool)
    extra = LEAST_NOISE + (np.where(known, noise, 0.0) / scale**2 if noise is not None else np.zeros(n))
    rows = pack(x, (good - center) / scale, np.where(known, 0.0, 1.0), extra)
    belief = _learn(rows, n, _plan(d, typical, bool(known.all()), Matern52), warm, seed)
    return Surrogate(belief.condition_on(rows), center, scale, sign)


def smoother_of(rough: Surrogate, seed: int = 0) -> Surrogate:
    """What was seen of a noisy outcome, if it is smoother than `rough` believes; see `log_evidence`."""
    rows, _ = rough.belief.conditioned()
    x, _, scale, _ = rows.cut()
    belief = _learn(rows, len(x), _plan(x.shape[1], NOISY, not scale.any(), RBF), rough.hyper, seed)
    return rough._replace(belief=belief.condition_on(rows))


def log_evidence(noisy: Surrogate) -> float:
    """log p(z | kernel) of a noisy outcome, its hyperparameters θ integrated out, up to a constant of the prior belief.

    With J(log θ) = log p(z | θ) + log p(θ) and S the covariance of the prior, Laplace's approximation at the maximum is
    J - ½ Σ log μᵢ, μᵢ ≥ 1 the eigenvalues of -S^½ ∇²J S^½: by how much data narrow the prior. MacKay (1992).
    """
    rows, _ = noisy.belief.conditioned()
    x, _, scale, _ = rows.cut()
    plan = _plan(x.shape[1], NOISY, not scale.any(), type(noisy.belief.kernel))
    objective = plan.gp.objective(plan.slots, rows, plan.priors)
    top = np.asarray(params.to_vector(noisy.belief, plan.slots))
    height, slope = objective.value_and_grad(top)
    bends = [slope - objective.value_and_grad(top + STEP * step)[1] for step in np.eye(len(top))]
    root = block_diag(*(np.linalg.cholesky(plan.priors[s.path].covariance(s.stop - s.start)) for s in plan.slots))
    narrowed = np.linalg.eigvalsh(root.T @ (np.stack(bends) / STEP) @ root)
    return height - 0.5 * float(np.log(np.maximum(narrowed, 1.0)).sum())


class Plan(NamedTuple):
    """What learning needs and data do not change: the prior belief, its free numbers, and where they usually are."""

    gp: GP
    slots: params.Layout
    priors: dict[str, Typical]
    start: Float[np.ndarray, " k"]
    lower: Float[np.ndarray, " k"]
    upper: Float[np.ndarray, " k"]


@lru_cache(maxsize=64)
def _plan(d: int, usual: Typically, known: bool, kernel: type[Kernel]) -> Plan:
    """For d columns; with `known` noise there is none to learn."""
    typical, one = usual.length * np.sqrt(d), put(np.ones(()))
    lengths = np.full(d, typical)
    alike = kernel is RBF and d >= WIDE
    priors = {
        "kernel.lengthscale": Alike(lengths, SPREAD, AMONG) if alike else Typical(lengths, SPREAD),
        "kernel.variance": Typical(1.0, SPREAD),
        "noise": Typical(usual.noise, usual.noise_spread),
    }
    noise = put(np.asarray(LEAST_NOISE if known else usual.noise))
    gp = GP(kernel(put(lengths), one), Constant(put(np.zeros(())), one), noise)
    slots = params.layout(gp, ("noise",) if known else ())
    start = np.asarray(params.to_vector(gp, slots))
    free = {s.path: priors[s.path] for s in slots}
    return Plan(gp, slots, free, start, *params.bounds(slots, start))


def _learn(rows: Rows, n: int, plan: Plan, warm: Mapping[str, Any] | None, seed: int) -> GP:
    objective = plan.gp.objective(plan.slots, rows, plan.priors)

    def climb(starts: list[np.ndarray], settings: tuple[int, float, float]) -> Optimum:
        return maximize(objective.value_and_grad, starts, plan.lower, plan.upper, *settings)[0]

    found = []
    if warm is not None and all(np.size(warm.get(s.path, ())) == s.stop - s.start for s in plan.slots):
        there = np.concatenate([np.log(np.ravel(warm[s.path])) for s in plan.slots])
        found.append(climb([there], (max(FEWEST_STEPS, MOST_STEPS - n // 10), *FOLLOW)))
    if not found:  # nothing to fall back on: shorter and longer lengthscales, too
        noise = np.random.default_rng(seed).normal(size=(2, len(plan.start)))
        found.append(climb([plan.start, *(plan.start + SPREAD * noise)], CLIMB))
    elif n % AGAIN == 0:
        found.append(climb([plan.start], CLIMB))
    learned = params.from_vector(plan.gp, plan.slots, max(found, key=lambda each: each.value).vector)
    _, _, scale, extra = rows.cut()
    if not scale.any():  # all noise is known: outcomes to come are expected to have as much
        learned = eqx.tree_at(lambda gp: gp.noise, learned, put(extra.mean()))
    return learned


def squeezed(y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Outcomes, of which those far below the median m are pulled in: m - s - s log(1 + (m - s - v)/s) below m - s.

    s is 5 robust deviations of the half above the median. Where the bulk lies nothing changes.
    """
    middle = float(np.median(y))
    reach = 5.0 * 1.4826 * float(np.median(y[y >= middle] - middle))
    far = middle - y - reach
    if reach <= 0 or not (far > 0).any():
        return y
    return np.where(far > 0, middle - reach - reach * np.log1p(np.maximum(far, 0.0) / reach), y)
