"""Expected hypervolume improvement: which point would push the Pareto front furthest out.

With disjoint boxes [l, u] beyond the front (`improvement_boxes`) and outcomes that are believed independent,

    EHVI(x) = Σ_boxes Π_j (ψ_j(l_j) - ψ_j(u_j)),   ψ_j(a) = E[(f_j(x) - a)₊],   ψ_j(∞) = 0.

Here `belief` is a tuple of beliefs, one for each objective, or one belief with several outputs. Emmerich,
Giannakoglou & Naujoks (2006), "Single- and multiobjective evolutionary optimization assisted by Gaussian random field
metamodels"; Yang, Emmerich, Deutz & Bäck (2019), "Efficient computation of expected hypervolume improvement".
"""

import itertools

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.abilities import PredictsJointly
from credo.core.arrays import Array, Numeric, host, namespace, special
from credo.core.checks import check_count, check_table, check_vector
from credo.core.errors import DataError
from credo.core.padding import bucket, pad_rows
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.decide.acquisition.base import Positive, deviation
from credo.decide.acquisition.checks import (
    Beliefs,
    Points,
    Predicts,
    check_draws,
    demand_covariance,
    demand_inputs,
    maybe_array,
    table_or_none,
)
from credo.decide.acquisition.joint_draws import root_of, stacked
from credo.decide.acquisition.normal_tails import log_improvement
from credo.decide.acquisition.pending import believing
from credo.decide.pareto import improvement_boxes, reference_point
from credo.infer.quasi_random import normals
from credo.models.gp.independent import Independent
from credo.models.gp.multioutput import MultiGP, stack

Draws = Float[Array, "s q k"]
FEWEST = 32
"""Boxes, and edges of them, that there is room for at least."""
TAIL = 1e-3
"""The weight of single points in what a batch climbs."""
MOST_TOGETHER = 6
Goals = bool | tuple[bool, ...]


class Beyond(eqx.Module):
    """The boxes beyond a front, padded so that a growing front reuses compiled code.

    Many boxes share a side: `edges` has the values of each objective, padded with ∞, and the sides are numbers of them.
    """

    edges: Float[Array, "e k"]
    low: Int[Array, "b k"]
    high: Int[Array, "b k"]
    mask: Bool[Array, " b"]

    @property
    def lower(self) -> Float[Array, "b k"]:
        """The lower corners."""
        return namespace(self).take_along_axis(self.edges, self.low, axis=0)

    @property
    def upper(self) -> Float[Array, "b k"]:
        """The upper corners."""
        return namespace(self).take_along_axis(self.edges, self.high, axis=0)


def beyond(values: Float[Array, "n k"], reference: Float[np.ndarray, " k"]) -> Beyond:
    """The boxes beyond the front of the rows, above the reference."""
    boxes = improvement_boxes(values, reference)
    b, k = boxes.lower.shape
    columns = [np.unique(np.concatenate([side[:, j] for side in boxes])) for j in range(k)]
    length = max(FEWEST, bucket(max(len(column) for column in columns)))
    edges = np.stack([pad_rows(column, length, np.inf) for column in columns], axis=1)
    low, high = (np.stack(list(map(np.searchsorted, columns, side.T)), axis=1) for side in boxes)
    size = max(FEWEST, bucket(b))
    return Beyond(edges, pad_rows(low, size), pad_rows(high, size), np.arange(size) < b)


class ExpectedHypervolumeImprovement(Positive):
    """The volume that the outcome at x is expected to add to what the front dominates, in closed form.

    `climb` is its logarithm, finite where the score underflows. The outputs of a belief with several are taken as
    independent; `BatchExpectedHypervolumeImprovement` keeps their correlation.

    Args:
        front: outcomes known so far, shape (n, k); None takes the means at the rows that were seen.
        reference: the least outcome of each objective that is of interest, shape (k,); None chooses one
            (`reference_point`).
        maximize: whether outcomes are to be large: for all objectives, or for each.
    """

    front: Float[Array, "n k"] | None = eqx.field(converter=maybe_array, default=None)
    reference: Float[Array, " k"] | None = eqx.field(converter=maybe_array, default=None)
    maximize: Goals = eqx.field(static=True, default=True, kw_only=True)
    boxes: Beyond | None = eqx.field(default=None, kw_only=True)
    believed: tuple[Predicts, ...] | None = eqx.field(default=None, kw_only=True)
    """The beliefs after the outcomes that are awaited, each taken to be its mean; None where none are."""

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "ExpectedHypervolumeImprovement":
        """With the boxes beyond the front; pending rows count as if their means had been observed."""
        boxes, believed = self._facing(belief, pending)
        return changed(self, front=None, boxes=boxes, believed=believed)

    def climb(self, belief: Beliefs, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        """log EHVI of each row."""
        mean, variance = _moments(self._after(belief), x)
        return _log_volume(self._ready(), mean * self.signs(mean.shape[1]), deviation(variance))

    def signs(self, k: int) -> Float[np.ndarray, " k"]:
        """+1 for each objective to be made large, -1 for those to be made small."""
        chosen = (self.maximize,) * k if isinstance(self.maximize, bool) else self.maximize
        if len(chosen) != k:
            raise DataError(f"maximize has {len(chosen)} entries, one for each of the {k} objectives is expected")
        return np.where(chosen, 1.0, -1.0)

    def _ready(self) -> Beyond:
        if self.boxes is None:
            raise DataError(
                "the boxes beyond the front are not known yet; call acquisition.prepared(beliefs) before scoring"
            )
        return self.boxes

    def _after(self, belief: Beliefs) -> tuple[Predicts, ...]:
        return objectives(belief) if self.believed is None else self.believed

    def _facing(self, belief: Beliefs, pending: Points) -> tuple[Beyond, tuple[Predicts, ...] | None]:
        """The boxes, and the beliefs after what is pending."""
        beliefs, believed = objectives(belief), None
        rows = table_or_none(pending, "pending")
        if rows is not None:
            believed = tuple(believing(one, rows) for one in beliefs)
        if self.front is None:
            values = host(_moments(believed or beliefs, _inputs(believed or beliefs))[0])
        else:
            values = check_table(self.front, "front")
            if rows is not None and believed is not None:
                values = np.concatenate([values, host(_moments(believed, rows)[0])])
        signs = self.signs(values.shape[1])
        if self.reference is None:
            origin = reference_point(values * signs)
        else:
            origin = check_vector(self.reference, "reference", values.shape[1]) * signs
        return beyond(values * signs, origin), believed


class BatchExpectedHypervolumeImprovement(ExpectedHypervolumeImprovement):
    """The volume that the outcomes at q points together are expected to add, over quasi-random joint draws.

        EHVI(x₁ … x_q) ≈ mean over draws y of Σ_boxes Σ_S (-1)^(|S|+1) Π_j (min(u_j, min_{i∈S} y_ij) - l_j)₊

    S runs over the sets of points: 2^q - 1 of them, so q is at most 6. Correlation between points, and between the
    outputs of one belief, is kept. `climb` is the logarithm of the score plus a thousandth of the mean EHVI of the
    points alone, which leads the way where no draw improves. Daulton, Balandat & Bakshy (2020), "Differentiable
    expected hypervolume improvement for parallel multi-objective Bayesian optimization".

    Args:
        q: the number of points of a set.
        front: outcomes known so far, shape (n, k); None takes the means at the rows that were seen.
        reference: the least outcome of each objective that is of interest, shape (k,); None chooses one.
        draws: how many outcomes are drawn, an even number.
        maximize: whether outcomes are to be large: for all objectives, or for each.
    """

    q: int = eqx.field(static=True, default=1, kw_only=True)
    draws: int = eqx.field(static=True, default=128, kw_only=True)
    base: Draws | None = eqx.field(default=None, kw_only=True)

    def __init__(
        self,
        q: int,
        front: Numeric | None = None,
        reference: Numeric | None = None,
        *,
        draws: int = 128,
        maximize: Goals = True,
    ):
        self.q, self.draws, self.maximize = q, draws, maximize
        self.reference, self.front = maybe_array(reference), maybe_array(front)
        self.boxes, self.believed, self.base = None, None, None

    def __check_init__(self) -> None:
        check_count(self.q, "q")
        check_draws(self.draws)
        if self.q > MOST_TOGETHER:
            raise DataError(
                f"q must be at most {MOST_TOGETHER}, found {self.q}: the work doubles with each point; "
                "choose them one after the other, with those chosen as pending"
            )

    def prepared(self, belief: Beliefs, *, seed: int = 0, pending: Points = None) -> "ExpectedHypervolumeImprovement":
        """With the boxes beyond the front and the draws."""
        for one in objectives(belief):
            if not isinstance(one, MultiGP):
                demand_covariance(one, type(self).__name__)
        ready = super().prepared(belief, seed=seed, pending=pending)
        k = ready._ready().edges.shape[1]
        return changed(ready, base=normals(self.draws, self.q * k, seed).reshape(self.draws, self.q, k))

    def __call__(self, belief: Beliefs, x: Float[Array, "n q d"]) -> Float[Array, " n"]:
        """EHVI of each set of q points."""
        return stacked(lambda points: self._volume(self._after(belief), points), x)

    def climb(self, belief: Beliefs, x: Float[Array, "n q d"]) -> Float[Array, " n"]:
        """log(EHVI of the set + mean EHVI of its points/1000)."""
        n, q, d = x.shape
        value = self(belief, x)
        xp = namespace(value)
        together = xp.where(value > 0, xp.log(xp.where(value > 0, value, 1.0)), -np.inf)
        alone = ExpectedHypervolumeImprovement.climb(self, belief, x.reshape(n * q, d)).reshape(n, q)
        return xp.logaddexp(together, special(alone).logsumexp(alone, axis=1) + np.log(TAIL / q))

    def _volume(self, beliefs: tuple[Predicts, ...], x: Float[Array, "q d"]) -> Float[Array, ""]:
        boxes = self._ready()
        if self.base is None or x.shape[0] != self.q:
            raise DataError(f"sets of q = {self.q} points are expected, found {x.shape[0]} points")
        y = _joint_draws(beliefs, x, self.base) * self.signs(self.base.shape[2])
        xp, total = namespace(y, boxes), np.zeros((y.shape[0], len(boxes.mask)))
        for size in range(1, self.q + 1):
            for chosen in itertools.combinations(range(self.q), size):
                least = y[:, chosen, :].min(1)
                sides = xp.minimum(least[:, None, :], boxes.upper) - boxes.lower
                total = total - (-1) ** size * xp.maximum(sides, 0.0).prod(2)
        return xp.where(boxes.mask, total, 0.0).sum(1).mean()


def objectives(belief: Beliefs) -> tuple[Predicts, ...]:
    """The beliefs of a tuple, a list or `Independent`; a belief with several outputs is the only one."""
    if isinstance(belief, Independent):
        return belief.gps
    return (belief,) if isinstance(belief, Predicts) else tuple(belief)


def _inputs(beliefs: tuple[Predicts, ...]) -> Float[np.ndarray, "n d"]:
    """The rows that any of the beliefs has seen, each once."""
    seen = []
    for one in beliefs:
        rows = demand_inputs(one, "give the outcomes known so far, front=values of shape (n, k)")
        seen.append(rows[:, :-1] if isinstance(one, MultiGP) else rows)
    return np.unique(np.concatenate(seen), axis=0)


def _moments(beliefs: tuple[Predicts, ...], x: Float[Array, "m d"]) -> tuple[Float[Array, "m k"], Float[Array, "m k"]]:
    """The mean and the variance of every objective at each row."""
    each = [one.predict(x) for one in beliefs]
    mean, variance = ([getattr(p, name).reshape(x.shape[0], -1) for p in each] for name in ("mean", "epistemic"))
    xp = namespace(mean, variance)
    return xp.concatenate(mean, axis=1), xp.concatenate(variance, axis=1)


def _joint_draws(beliefs: tuple[Predicts, ...], x: Float[Array, "q d"], base: Draws) -> Draws:
    """Draws of every objective at the rows together: mean + L·base with LLᵀ their covariance."""
    parts, start = [], 0
    for one in beliefs:
        assert isinstance(one, PredictsJointly | MultiGP)
        prediction = one.predict(x, joint=True)
        mean = prediction.mean.reshape(x.shape[0], -1)
        outputs = mean.shape[1]
        rows = stack(x, outputs) if isinstance(one, MultiGP) else x
        assert isinstance(prediction, Normal) and prediction.latent_covariance is not None
        root = root_of(one, rows, prediction.latent_covariance)
        own = base[:, :, start : start + outputs].reshape(-1, mean.size)
        parts.append(mean + (own @ root.T).reshape(-1, *mean.shape))
        start += outputs
    return namespace(parts).concatenate(parts, axis=2)


def _log_volume(boxes: Beyond, mean: Float[Array, "m k"], std: Float[Array, "m k"]) -> Float[Array, " m"]:
    """log Σ_boxes Π_j (ψ_j(l_j) - ψ_j(u_j)), ψ(a) = σ h((μ - a)/σ).

    In a narrow box the difference cancels, which does no harm: nothing above l is dominated, so the sum is at least
    Π_j ψ_j(l_j), beside which the rounding of the box is small.
    """
    xp = namespace(boxes, mean, std)
    last = xp.isinf(boxes.edges)
    z = (mean[:, None, :] - xp.where(last, 0.0, boxes.edges)) / std[:, None, :]
    excess = xp.where(last, -np.inf, log_improvement(z) + xp.log(std)[:, None, :])
    lower, upper = (xp.take_along_axis(excess, side[None], axis=1) for side in (boxes.low, boxes.high))
    ratio = xp.minimum(upper - lower, -np.finfo(float).eps)
    sides = (lower + xp.log(-xp.expm1(ratio))).sum(2)
    return special(sides).logsumexp(xp.where(boxes.mask, sides, -np.inf), axis=1)
