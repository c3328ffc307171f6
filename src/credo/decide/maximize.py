"""Maximizing an acquisition: where its score is highest, over a box or a `Space`.

Quasi-random points, and some around what is promising already, are screened; the best of them and a few others begin
climbs (`batched_lbfgs`) that move the real coordinates and leave the discrete ones. Screening and climbing are one
compiled program, the same as data grow. Discrete parts are then searched through neighbours: one choice, level or whole
number changed at a time, as long as that helps, with a new climb after each round.

In one or two real coordinates `method="lipschitz"` divides the box instead: where no slope is steeper than L, no point
of a part with center c and half diagonal r scores more than a(c) + L r. Parts that may hold more than the best so far
are cut in three, until none does. Piyavskii (1972); Shubert (1972); Horst & Tuy (1996), "Global optimization".
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core.arrays import Array, Numeric
from credo.core.checks import check_count, check_real, check_table
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.padding import bucket, pad_rows
from credo.decide.acquisition.base import Acquisition
from credo.decide.acquisition.checks import Beliefs, Predicts, check_acquisition, is_nothing
from credo.decide.batched_lbfgs import ascend
from credo.decide.space import Space
from credo.infer.quasi_random import sobol
from credo.models.gp.base import padded

Row = Float[Array, " d"]
Rows = Float[Array, "s d"]
Over = Space | tuple[Numeric, Numeric]
Near = np.ndarray | None
"""Rows, or none."""
Part = tuple[np.ndarray, np.ndarray] | None
Violation = Callable[[Array], Array] | None
SCREENED = 512
"""Points that are screened."""
BEST, OTHERS = 4, 4
"""Climbs from the best of them, and from others, drawn the likelier the higher they score."""
TURNS = 100
"""Evaluations of a climb."""
REACHES = (0.3, 0.1, 0.02, 0.002)
"""How far around promising points is screened too, in units of the range: as many points at each."""
AROUND = 192
"""How many points around promising ones."""
WALL = 1e4
"""The penalty of violating a linear constraint, per squared unit."""
ROUNDS = 10
"""Rounds of changing discrete values."""
PARTS, MOST_PARTS = 512, 100_000
"""Parts of a box that are cut at a time, and in all."""
SAFETY, NUDGE = 1.5, 1e-4
"""Slopes are taken to be up to so many times the steepest that was seen, in steps of so much of the box."""


class Found(NamedTuple):
    """The point of the highest score that was found."""

    x: Float[np.ndarray, " d"]
    """The row; an encoded one for a space."""
    value: float
    """What was climbed there: see `Acquisition.climb`."""
    mean: Float[np.ndarray, " b"]
    std: Float[np.ndarray, " b"]
    """The function there as it is believed now; one for each belief that the acquisition looks at."""
    certificate: float | None = None
    """By how much the score may be larger elsewhere, where no slope is steeper than `lipschitz`; None after climbs."""
    lipschitz: float | None = None
    """The largest slope of the score that is reckoned with, in units of the box."""


class Box(NamedTuple):
    """Where to look: a box whose coordinates all are real."""

    lower: np.ndarray
    upper: np.ndarray

    def sample_rows(self, n: int, *, seed: int) -> np.ndarray:
        """Quasi-random rows."""
        return self.lower + sobol(n, len(self.lower), seed) * (self.upper - self.lower)


def maximize(
    acquisition: Acquisition,
    belief: Beliefs,
    over: Over,
    *,
    near: Near = None,
    within: Part = None,
    avoid: Near = None,
    seed: int = 0,
    method: str = "climb",
    lipschitz: float | None = None,
    tolerance: float | None = None,
) -> Found:
    """The point that an acquisition scores highest.

    Args:
        acquisition: prepared already where it needs to be (`Acquisition.prepared`).
        belief: the belief, or the tuple of beliefs, that it looks at.
        over: a `Space`, or a box as a pair (lower, upper) of vectors.
        near: promising rows, around which is screened more closely.
        within: a part of the encoded space, as a pair of vectors: a trust region.
        avoid: rows that must not be found again, where the space is finite.
        seed: of the points that are screened.
        method: "climb", or "lipschitz" for one or two real coordinates without constraints.
        lipschitz: of the latter, the largest slope there is, in units of the box; None: 1.5 times the largest seen.
        tolerance: of the latter, by how much the score may be larger elsewhere; None: a hundredth of its range.
    """
    check_acquisition(acquisition)
    check_count(seed, "seed", 0)
    if within is not None:
        within = as_box(within)
    if not is_nothing(near):
        near = check_table(near, "near")
    if not isinstance(method, str) or method not in ("climb", "lipschitz"):
        raise DataError(f'method must be "climb" or "lipschitz", found {method!r}')
    if method == "lipschitz":
        return _divided(acquisition, belief, _small_box(over, within, avoid), lipschitz, tolerance, seed)
    acquisition, belief = padded((acquisition, belief))
    if isinstance(over, Space):
        return _over_space(acquisition, belief, over, near, within, avoid, seed)
    box = as_box(over) if within is None else Box(*within)
    movable = np.ones(len(box.lower), bool)
    rows = np.concatenate([box.sample_rows(SCREENED, seed=seed), _around(near, box, movable, seed)])
    return _over_box(acquisition, belief, box, rows, seed)


def as_box(over: object) -> Box:
    """A box from a pair of vectors."""
    try:
        lower, upper = (np.asarray(v, dtype=float).ravel() for v in over)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise DataError(f"a box is a pair (lower, upper) of vectors, found {over!r}") from None
    if lower.shape != upper.shape or not lower.size or not np.all((lower < upper) & np.isfinite(upper - lower)):
        raise DataError(f"a box is a pair (lower, upper) with lower < upper, found {lower} and {upper}")
    return Box(lower, upper)


def _small_box(over: Over, within: Part, avoid: Near) -> Box:
    fits = not isinstance(over, Space) or (over.is_continuous and not over.constraints)
    box = Box(*within) if within is not None else None if isinstance(over, Space) else as_box(over)
    if isinstance(over, Space) and box is None:
        box = Box(np.zeros(over.width), np.ones(over.width))
    if not fits or box is None or len(box.lower) > 2 or avoid is not None:
        raise DataError(
            'method="lipschitz" is for one or two real coordinates without constraints and rows to avoid; use "climb"'
        )
    return box


def _divided(
    acquisition: Acquisition, belief: Beliefs, box: Box, lipschitz: float | None, tolerance: float | None, seed: int
) -> Found:
    """Branch and bound with the bound a(c) + L r of each part, in the units of the box."""
    d, span = len(box.lower), box.upper - box.lower

    def score(u: np.ndarray) -> np.ndarray:
        found = np.asarray(acquisition(belief, box.lower + u * span), dtype=float)
        if not np.isfinite(found).all():
            raise DataError("the score is not finite everywhere: it has no largest slope; use method='climb'")
        return found

    seen = sobol(SCREENED, d, seed)
    heights = score(seen)
    inside = np.clip(seen, NUDGE, 1 - NUDGE)
    steps = [score(inside + NUDGE * axis) - score(inside - NUDGE * axis) for axis in np.eye(d)]
    steepest = float(np.linalg.norm(steps, axis=0).max()) / (2 * NUDGE)
    slope = SAFETY * steepest if lipschitz is None else check_real(lipschitz, "lipschitz", 0)
    goal = 1e-2 * float(np.ptp(heights)) if tolerance is None else check_real(tolerance, "tolerance", 0)
    centers, sides = np.full((1, d), 0.5), np.ones((1, d))
    values = score(centers)
    while True:
        bounds = values + slope * np.linalg.norm(sides, axis=1) / 2
        top = int(np.argmax(values))
        gap = float(bounds.max() - values[top])
        if gap <= goal or len(values) > MOST_PARTS:
            break
        order = np.argsort(-bounds, kind="stable")[:PARTS]
        cut = order[bounds[order] > values[top] + goal]
        axis = np.eye(d)[np.argmax(sides[cut], axis=1)]
        third = sides[cut] * axis / 3
        narrow = sides[cut] - 2 * third
        ends = np.concatenate([centers[cut] - third, centers[cut] + third])
        found = score(ends)
        steepest = max(steepest, float((np.abs(found - np.tile(values[cut], 2)) / np.tile(third.max(axis=1), 2)).max()))
        sides[cut] = narrow
        centers, sides = np.concatenate([centers, ends]), np.concatenate([sides, np.tile(narrow, (2, 1))])
        values = np.concatenate([values, found])
        slope = max(slope, SAFETY * steepest) if lipschitz is None else slope
    if lipschitz is not None and steepest > slope * (1 + 1e-6):
        raise DataError(f"a slope of {steepest:.4g} was seen, which is steeper than lipschitz={slope:g}")
    if gap > goal:
        says = f"after {len(values):,} scores the largest may still be {gap:.2g} higher than the one found"
        warnings.warn(f"{says}, which is more than the tolerance {goal:.2g}", NotConvergedWarning, stacklevel=3)
    best = _checked(_describe(*padded((acquisition, belief)), box.lower + centers[top] * span))
    return best._replace(certificate=max(gap, 0.0), lipschitz=slope)


def _over_box(acquisition: Acquisition, belief: Beliefs, box: Box, rows: np.ndarray, seed: int) -> Found:
    return _checked(_screen_and_climb(acquisition, belief, rows, box.lower, box.upper, np.uint32(seed)))


def _around(near: Near, box: Box, movable: np.ndarray, seed: int) -> np.ndarray:
    """Rows around the promising ones, a third of the movable coordinates changed (at least about one)."""
    d = len(box.lower)
    if near is None or is_nothing(near):
        return box.sample_rows(AROUND, seed=seed + 1)
    rng = np.random.default_rng(seed)
    centers = check_table(near, "near", d)[rng.integers(len(near), size=AROUND)]
    reach = np.resize(REACHES, AROUND)[:, None] * (box.upper - box.lower)
    chosen = (rng.uniform(size=(AROUND, d)) < max(1 / 3, 1 / d)) & movable
    return np.clip(centers + chosen * reach * rng.normal(size=(AROUND, d)), box.lower, box.upper)


def _checked(found: tuple[Array, ...]) -> Found:
    x, value, mean, std = map(np.asarray, found)
    if not np.isfinite(value):
        raise DataError("the acquisition is not finite anywhere: check the data that the belief was conditioned on")
    return Found(x, float(value), mean, std)


def _described(acquisition: Acquisition, belief: Beliefs, x: Float[Array, " d"]) -> tuple[Array, ...]:
    """What `Found` says of a point."""
    beliefs = (belief,) if isinstance(belief, Predicts) else belief
    there = [each.predict(x[None]) for each in beliefs]
    mean, variance = (jnp.stack([getattr(p, name)[0] for p in there]) for name in ("mean", "epistemic"))
    return x, acquisition.climb(belief, x[None])[0], mean, jnp.sqrt(variance)


_describe = eqx.filter_jit(_described)


@eqx.filter_jit
def _screen_and_climb(
    acquisition: Acquisition, belief: Beliefs, rows: Rows, lower: Row, upper: Row, seed: Array | np.uint32
) -> tuple[Array, ...]:
    values = acquisition.climb(belief, rows)
    values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
    starts = rows[_promising(values, jr.key(seed))]
    tops = ascend(lambda x: acquisition.climb(belief, x), starts, lower, upper, TURNS)
    return _described(acquisition, belief, tops.x[jnp.argmax(tops.value)])


def _promising(values: Float[Array, " s"], key: PRNGKeyArray) -> Array:
    """The best, and others drawn without replacement with probabilities ∝ exp(2 value/deviation)."""
    finite = jnp.isfinite(values)
    spread = jnp.std(values, where=finite)
    tempered = 2.0 * values / jnp.where(spread > 0, spread, 1.0) + jr.gumbel(key, values.shape)
    best = jax.lax.top_k(values, BEST)[1]
    others = jax.lax.top_k(jnp.where(finite, tempered, -jnp.inf), OTHERS)[1]
    return jnp.concatenate([best, others])


_scores = eqx.filter_jit(lambda acquisition, belief, rows: acquisition.climb(belief, rows))


@eqx.filter_jit
def _climb_from(
    acquisition: Acquisition, belief: Beliefs, starts: Rows, lower: Rows, upper: Rows, violation: Violation
) -> Rows:
    def height(x: Array) -> Array:
        walls = 0.0 if violation is None else WALL * jnp.square(violation(x))
        return acquisition.climb(belief, x) - walls

    return ascend(height, starts, lower, upper, TURNS).x


def _over_space(
    acquisition: Acquisition, belief: Beliefs, space: Space, near: Near, within: Part, avoid: Near, seed: int
) -> Found:
    real = np.asarray([kind == "real" for kind in space.kinds])
    whole = Box(np.zeros(space.width), np.ones(space.width))
    box = whole if within is None else Box(*(np.where(real, w, v) for w, v in zip(within, whole, strict=True)))
    if space.is_continuous and not space.constraints:
        rows = np.concatenate([box.sample_rows(SCREENED, seed=seed), _around(near, box, real, seed)])
        return _over_box(acquisition, belief, box, rows, seed)
    search = _Search(acquisition, belief, space, box, real, _digests(avoid))
    rows = space.sample_rows(SCREENED, seed=seed)
    if within is not None:
        rows = space.snap(np.where(real, box.lower + rows * (box.upper - box.lower), rows))
    closer = space.snap(_around(near, box, np.ones(space.width, bool), seed))
    rows = search.allowed(np.concatenate([rows, closer]))
    if not len(rows):
        raise DataError("every point of the space has been tried or is pending; widen the space, or stop")
    scores = search.scores(rows)
    order = np.argsort(-scores, kind="stable")
    rng = np.random.default_rng(seed)
    others = order[BEST:][rng.permutation(min(64, max(len(order) - BEST, 0)))[:OTHERS]]
    return search.improve(rows[np.concatenate([order[:BEST], others]).astype(int)])


def _digests(rows: Near) -> set[bytes]:
    return set() if rows is None else {np.round(row, 9).tobytes() for row in np.asarray(rows, dtype=float)}


class _Search(NamedTuple):
    """A search over a space with discrete parts or constraints."""

    acquisition: Acquisition
    belief: Beliefs
    space: Space
    box: Box
    real: np.ndarray
    avoid: set[bytes]

    def allowed(self, rows: np.ndarray) -> np.ndarray:
        """The rows that satisfy the constraints and are not to be avoided, each once."""
        rows = np.unique(rows, axis=0)
        keep = np.asarray([np.round(row, 9).tobytes() not in self.avoid for row in rows], dtype=bool)
        if self.space.constraints and len(rows):
            keep &= self.space.feasible_rows(rows)
        return rows[keep]

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """What is climbed, at each row; not finite counts as the lowest."""
        filled = pad_rows(rows, bucket(len(rows)))
        values = np.asarray(_scores(self.acquisition, self.belief, filled))[: len(rows)]
        return np.where(np.isfinite(values), values, -np.inf)

    def improve(self, rows: np.ndarray) -> Found:
        """The best row after climbs of the real coordinates and rounds of changing the discrete ones."""
        rows = self.climbed(rows)
        values = self.scores(rows)
        best = int(np.argmax(values))
        row, value = rows[best], float(values[best])
        for _ in range(ROUNDS if not self.real.all() else 0):
            beside = self.space.neighbours(self.space.decode(row[None])[0])
            more = self.allowed(np.atleast_2d(self.space.encode(beside))) if beside else np.zeros((0, len(row)))
            if not len(more):
                break
            order = np.argsort(-self.scores(more))[: BEST + OTHERS]
            more = self.climbed(more[order])
            values = self.scores(more)
            if values.max() <= value + 1e-9 * abs(value):
                break
            row, value = more[int(np.argmax(values))], float(values.max())
        return _checked(_describe(self.acquisition, self.belief, row))

    def climbed(self, rows: np.ndarray) -> np.ndarray:
        """Each row moved uphill along its real coordinates, and back to where the constraints hold."""
        if not self.real.any():
            return rows
        k = BEST + OTHERS
        starts = np.resize(rows, (k, rows.shape[1])) if len(rows) < k else rows
        active = self.real & self.space.exists(starts)
        lower, upper = (np.where(active, side, starts) for side in self.box)
        violation = self.space.linear if self.space.constraints else None
        tops = np.asarray(_climb_from(self.acquisition, self.belief, starts, lower, upper, violation))
        return self._back_inside(starts, tops)[: len(rows)]

    def _back_inside(self, starts: np.ndarray, tops: np.ndarray) -> np.ndarray:
        """Where a climb left the feasible set, the last allowed point on the way there; the start at worst."""
        if not self.space.constraints:
            return tops
        inside, outside = starts.copy(), tops.copy()
        good = self.space.feasible_rows(tops)
        for _ in range(30):
            if good.all():
                break
            middle = 0.5 * (inside + outside)
            fine = self.space.feasible_rows(middle)
            inside = np.where(fine[:, None], middle, inside)
            outside = np.where(fine[:, None], outside, middle)
        return np.where(good[:, None], tops, inside)
