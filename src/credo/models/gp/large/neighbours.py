"""`Neighbours`: a Gaussian process in which each row sees its nearest ones; O(nk³), for any number of rows.

Learning climbs the evidence of a random part of the conditionals (`vecchia.py`), with neighbours from all rows in the
metric of the kernel, which are found again as lengthscales move. The number of neighbours for predictions is another
one: it grows while rows that are predicted from the others are predicted better. What few neighbours have learned of
the variance is then put right on such rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from credo.core import params
from credo.core.abilities import DrawsFunctions
from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.checks import check_count
from credo.core.linalg import demand, solve_lower
from credo.core.padding import bucket, pad_rows
from credo.core.pytrees import changed
from credo.infer.learning import Evidence, Learned
from credo.infer.optimize import CONVERGED, STOPPED
from credo.kernels import Kernel
from credo.models.gp import exact
from credo.models.gp.base import FunctionValues
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.hyperpriors import variance_of
from credo.models.gp.large.base import LargeGP, LargeMethod, in_chunks, joined
from credo.models.gp.large.nearest import Nearest, earlier_of, nearest_of
from credo.models.gp.large.vecchia import (
    Neighbourhoods,
    Trend,
    conditionals,
    covariances,
    log_evidence,
    solutions,
    solved_covariances,
    split_mean,
    trend_columns,
)
from credo.models.gp.staged import STRIDE

NEAR_FEW, NEAR_MANY, FEW_COLUMNS = 20, 30, 3
"""Neighbours that hyperparameters are learned with, in up to three columns and in more."""
FEWEST_TERMS = 32
"""The conditionals that a trend is learned from when rows are added."""
ASKED = (50, 150, 400)
"""Neighbours that predictions are tried with."""
BETTER = 0.005
"""By how many nats a row more neighbours must predict better to be worth their cost."""
FIRST = 1000
"""The conditionals of the first climbs, which need not be exact."""
ROUNDS = {True: 4, False: 2}
"""How often neighbours are found again, at most: while conditionals are few, and with all of them."""
QUIETEST = 1e-8
"""The least noise that is learned, as a share of the variance of the outcomes: twins that agree want none at all."""
GAINED = 2e-3
"""Nats a row that a climb with new neighbours must gain for another one."""


class NeighboursGP(LargeGP, DrawsFunctions):
    """A Gaussian process in which each row, and each query, sees its nearest rows."""

    near: int = eqx.field(static=True, default=NEAR_MANY)
    """The neighbours of a row."""
    asked: int = eqx.field(static=True, default=ASKED[0])
    """The neighbours of a query."""

    def __init__(self, gp: GP, method: "Neighbours"):
        super().__init__(gp, method)
        self.near = method.k or NEAR_MANY
        self.asked = method.predict or max(self.near, ASKED[0])

    def parts(self) -> tuple[Kernel, Kernel | None]:
        """The kernel of the conditionals, and that of the trend."""
        return split_mean(self.kernel, self.mean)

    def _values(self, x: Array, y: Array) -> Float[Array, "n q"]:
        """y - m(x), and the columns of the trend."""
        columns = host(trend_columns(self.parts()[1], x))
        return namespace(x, y, columns).column_stack([y - self.mean.at(x), columns])

    def neighbourhoods(
        self, rows: Rows, values: Array, index: Any, real: Any, own: Any, noisy: bool = True
    ) -> Neighbourhoods:
        """The rows with those at `index`; `own` are the places of the rows, which come last."""
        xp = namespace(index, rows.x, self)
        both = xp.column_stack([index, own])
        noise = (self.noise_variance() * rows.scale + rows.extra)[both]
        noise = noise if noisy else noise * (np.arange(both.shape[1]) < both.shape[1] - 1)
        real = xp.column_stack([real, xp.ones((len(own), 1), bool)])
        return Neighbourhoods(rows.x[both], values[both], noise, real)

    def solved_in_chunks(
        self, rows: Rows, values: Array, index: Any, real: Any, own: Any, noisy: bool = True
    ) -> Iterator[tuple[slice, Neighbourhoods, Array, Array]]:
        """The neighbourhoods of some rows at a time, with `solved_covariances`."""
        whole = is_traced(self, rows, index)
        for cut in [slice(None)] if whole else in_chunks(len(own), (index.shape[1] + 1) ** 2):
            near = self.neighbourhoods(rows, values, index[cut], real[cut], own[cut], noisy)
            yield cut, near, *solved_covariances(self.parts()[0], near)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Rows) -> "NeighboursGP":
        """The posterior after the rows: they are kept, and the trend is learned from them.

        More rows are given those before them; of many a part counts for all, as large as it was of the first ones.
        """
        rows, seen = self.with_seen(statistics), 0 if self.seen is None else len(self.seen.x)
        n = len(rows.x)
        terms = max(self.method.terms * (n - seen) // n, min(FEWEST_TERMS, self.method.terms))
        return changed(self, seen=rows, solved=self._chain(rows, seen, terms)[1])

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | X) by Vecchia's approximation, given what was seen before."""
        seen = 0 if self.seen is None else len(self.seen.x)
        return self._chain(self.with_seen(statistics), seen, len(statistics.x))[0]

    def _chain(self, rows: Rows, seen: int, terms: int) -> tuple[Array, Trend]:
        """The evidence of the rows after the first ones, in a random order, and what is known of the trend then."""
        rows = _in_order(rows, seen)
        index, real, places, weight = self.some_conditionals(rows, seen, terms)
        before = self.solved if seen else Trend.unknown(trend_columns(self.parts()[1], rows.x[:1]).shape[1])
        residuals, d = self._conditionals(rows, index, real, places)
        ok = namespace(d).all(d > 0)
        return log_evidence(residuals, demand(d, ok, exact.NOT_DEFINITE), before, weight)

    def some_conditionals(self, rows: Rows, seen: int, terms: int) -> tuple[Any, Any, np.ndarray, float]:
        """Random rows after the first ones: neighbours, which of those there are, places; how many each stands for."""
        n = len(rows.x)
        places = np.arange(seen, n)
        if n - seen > terms:
            places = np.sort(np.random.default_rng(1).choice(places, terms, replace=False))
        return *earlier_of(self.parts()[0], rows.x, places, self.near), places, (n - seen) / len(places)

    def _conditionals(self, rows: Rows, index: Any, real: Any, own: Any, noisy: bool = True) -> tuple[Array, Array]:
        parts = self.solved_in_chunks(rows, self._values(rows.x, rows.y), index, real, own, noisy)
        return joined([conditionals(k, near, solved) for _, near, k, solved in parts])

    # -- predictions -----------------------------------------------------------------------------------------

    def posterior_at(self, rows: Array, joint: bool) -> FunctionValues:
        """The function at checked rows, each given its nearest ones."""
        groups = self.near_in_groups(rows)
        found = [self._given(rows[which], index, real) for which, index, real in groups]
        if len(found) == 1:
            return FunctionValues(*found[0], None)
        back = np.argsort(np.concatenate([np.arange(len(rows))[which] for which, *_ in groups]))
        mean, variance = joined(found)
        return FunctionValues(mean[back], variance[back], None)

    def near_in_groups(self, x: Array) -> list[tuple[Any, Any, Any]]:
        """Queries that see about as many rows: which they are, the rows that they see, and which of those there are."""
        return [(slice(None), *nearest_of(self.parts()[0], self.seen.x, x, self.asked))]

    def sample_functions(self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None) -> Any:
        """n draws as functions: draws of the prior, conditioned by kriging (`conditioned_draws.py`)."""
        from credo.models.gp.large.conditioned_draws import draw

        return draw(self, n, features, seed, columns)

    def _given(self, x: Array, index: Any, real: Any) -> tuple[Array, Array]:
        """Mean and variance of the function at rows that are given their neighbours."""
        xp = namespace(x, self.seen, self)
        zeros = xp.zeros(len(x))
        nothing = Rows(x, self.mean.at(x), zeros, zeros, None)  # r of an outcome at its mean is what neighbours say
        whole = self.seen + nothing
        residuals, d = self._conditionals(whole, index, real, self.seen.n + np.arange(len(x)), noisy=False)
        h = residuals[:, 1:]
        mean = self.mean.at(x) - residuals[:, 0] + h @ self.solved.mean
        if h.shape[1]:
            half = solve_lower(self.solved.root, h.T)
            d = d + (half * half).sum(0)
        return mean, d

    def left_out(self, places: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Outcomes of some rows that were seen, and the mean and variance of each given its k nearest others."""
        kernel = self.parts()[0]
        x, y, scale, extra = self.seen.cut()
        index = Nearest(kernel, x).to(x[places], k + 1)
        own = index == places[:, None]
        own[~own.any(1), -1] = True  # of many twins the row itself may be missing
        index = index[~own].reshape(len(places), -1)
        mean, variance = self._given(x[places], index, np.ones(index.shape, bool))
        variance = variance + float(self.noise_variance()) * scale[places] + extra[places]
        return y[places], np.asarray(mean), np.asarray(variance)

    # -- learning --------------------------------------------------------------------------------------------

    def objective(self, slots: params.Layout, statistics: Rows, priors: dict[str, Any]) -> "VecchiaObjective | None":  # type: ignore[override]
        """The evidence of a random part of the conditionals, with its gradient."""
        if is_traced(self, statistics):
            return None
        return VecchiaObjective(self.unconditioned(), slots, statistics, priors, self.method.terms)


def _in_order(rows: Rows, seen: int) -> Rows:
    """The rows after the first `seen` ones in a random order, in which near ones are seldom next to each other."""
    n = len(rows.x)
    order = np.append(np.arange(seen), seen + np.random.default_rng(0).permutation(n - seen))
    x, y, scale, extra = (v[order] for v in rows.columns())
    return Rows(x, y, scale, extra, None if rows.mask is None else rows.mask[order])


class VecchiaObjective:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector, with the neighbours that the belief has now."""

    def __init__(self, belief: NeighboursGP, slots: params.Layout, rows: Rows, priors: Priors, terms: int):
        self._about = belief, slots, dict(priors)
        rows = _in_order(rows, 0)
        index, real, places, weight = belief.some_conditionals(rows, 0, terms)
        both = np.column_stack([index, places])
        real = np.column_stack([real, np.ones(len(places), bool)])
        found = *(v[both] for v in rows.cut()), real, np.full(len(places), weight)
        # Rows of padding have no neighbours and count for nothing.
        self._data = Data(*(pad_rows(v, bucket(len(places))) for v in found))

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where it is not finite."""
        solved, ok = solutions(*host(_forward(vector, *self._about[:2], self._data)))
        if ok:
            found = _value_and_grad(vector, solved, *self._about, self._data)
            value, slope = float(found[0]), np.asarray(found[1])
            if np.isfinite(value) and np.all(np.isfinite(slope)):
                return value, slope
        return -np.inf, np.zeros_like(vector)


class Data(NamedTuple):
    """Neighbourhoods as they were observed."""

    x: Float[Array, "s c d"]
    y: Float[Array, "s c"]
    scale: Float[Array, "s c"]
    extra: Float[Array, "s c"]
    real: Bool[Array, "s c"]
    weight: Float[Array, " s"]


def _near(own: NeighboursGP, data: Data) -> tuple[Array, Neighbourhoods]:
    kernel, trend = own.parts()
    flat = data.x.reshape(-1, data.x.shape[-1])
    values = jnp.column_stack([data.y.reshape(-1) - own.mean(flat), trend_columns(trend, flat)])
    noise = own.noise_variance() * data.scale + data.extra
    near = Neighbourhoods(data.x, values.reshape(*data.x.shape[:2], -1), noise, data.real)
    return covariances(kernel, near), near


@eqx.filter_jit
def _forward(vector: Array, belief: NeighboursGP, slots: params.Layout, data: Data) -> tuple[Array, Neighbourhoods]:
    return _near(params.from_vector(belief, slots, jnp.asarray(vector)), data)


@eqx.filter_jit
def _value_and_grad(
    vector: Array, solved: Array, belief: NeighboursGP, slots: params.Layout, priors: Any, data: Data
) -> tuple[Array, Array]:
    def log_joint(u: Array) -> Array:
        own = params.from_vector(belief, slots, u)
        residuals, d = conditionals(*_near(own, data), solved)
        d = jnp.where(data.weight > 0, d, 1.0)
        found, _ = log_evidence(residuals, d, Trend.unknown(residuals.shape[1] - 1), data.weight)
        return found + params.log_prior(own, priors)

    return jax.value_and_grad(log_joint)(jnp.asarray(vector))


@dataclass(frozen=True)
class Neighbours(LargeMethod):
    """A `GP` in which each row sees its k nearest earlier ones: Vecchia's approximation, for any number of rows.

        gp.condition(X, y, using=Neighbours(20))         credo.fit(gp, X, y, using=Neighbours())

    The result is a `NeighboursGP`. More rows are taken in without learning anything again.
    """

    k: int | None = None
    """The neighbours of a row; None: 20 in up to three columns, else 30."""
    predict: int | None = None
    """The neighbours of a query; None: `fit` tries 50, 150 and 400 on rows left out, `condition` takes 50, or k."""
    terms: int = 4000
    """The conditionals that hyperparameters, and the trend, are learned from."""
    held: int = 1000
    """The rows that are predicted from the others to choose the neighbours of a query and to put the variance right."""
    max_steps: int = 20
    """Of a climb between two searches for neighbours."""

    belief: ClassVar[type] = NeighboursGP

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("k", "predict"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)
        check_count(self.terms, "terms")
        check_count(self.held, "held")

    def adapt(self, belief: Any, statistics: Rows) -> tuple[Any, Rows]:
        """The belief in this form, with as many neighbours as its columns ask for."""
        own, rows = super().adapt(belief, statistics)
        near = self.k or (NEAR_FEW if rows.x.shape[1] <= FEW_COLUMNS else NEAR_MANY)
        return changed(own, near=near, asked=self.predict or max(near, ASKED[0])), rows

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest evidence × prior found, and the neighbours of a query chosen."""
        belief = self.start(belief, statistics, fixed, priors, seed)
        slots = params.layout(belief, fixed)
        n = statistics.n
        for terms in [FIRST, self.terms] if min(self.terms, n) > 2 * FIRST else [self.terms]:
            learned, gained = self._climbs(belief, slots, statistics, priors, min(terms, n), seed)
            belief = learned.belief
        if learned.status == STOPPED and gained < GAINED:
            learned = learned._replace(status=CONVERGED)  # out of steps, on a plateau
        used = min(self.terms, n)
        notes = [f"Vecchia's approximation with {belief.near} neighbours; learned from {used} of {n} rows"]
        chosen, more = self.tuned(belief, statistics, fixed, seed)
        return learned._replace(belief=chosen, notes=[*learned.notes, *notes, *more])

    def _climbs(
        self, belief: NeighboursGP, slots: params.Layout, rows: Rows, priors: Priors, terms: int, seed: int
    ) -> tuple[Learned, float]:
        """Climbs with neighbours found anew, until that gains nothing; and what the last one gained, in nats a row."""
        least = {"noise": QUIETEST * variance_of(rows.cut()[1])}
        climber = Evidence(starts=1, tolerance=1e-2, gain=1e-3, flat=False, stride=STRIDE, max_steps=self.max_steps)
        for _ in range(ROUNDS[terms == FIRST]):
            objective = VecchiaObjective(belief.unconditioned(), slots, rows, priors, terms)
            before = objective.value(np.asarray(params.to_vector(belief, slots)))
            learned = climber.climb(objective, belief, slots, priors, seed, least)
            belief, gained = learned.belief, (learned.log_evidence - before) / rows.n
            if not gained > GAINED:
                break
        return learned, gained

    def tuned(
        self, belief: NeighboursGP, rows: Rows, fixed: Sequence[str], seed: int
    ) -> tuple[NeighboursGP, list[str]]:
        """With the neighbours of a query chosen, and the variance put right, on rows each left out in turn."""
        n = rows.n
        if n < 2:
            return belief, []
        after = belief.condition_on(rows)
        places = np.sort(np.random.default_rng(seed).choice(n, min(self.held, n), replace=False))
        best, found = np.inf, None
        for k in [self.predict] if self.predict else [k for k in ASKED if k <= max(n - 1, ASKED[0])]:
            y, mean, variance = after.left_out(places, min(k, n - 1))
            score = float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * (y - mean) ** 2 / variance))
            if score > best - BETTER:
                break
            best, found = score, (k, float(np.mean((y - mean) ** 2 / variance)))
        assert found is not None
        k, spread = found
        belief = changed(belief, asked=k)
        notes = [f"predictions from {k} neighbours: {best:.4g} nats a row on {len(places)} rows, each from the others"]
        numbers, free = (set(params.learnable(b)) for b in (belief.kernel, belief))
        same = numbers == set(params.learnable(belief.kernel.scaled(1.0)))
        if n > self.held and same and "noise" in free and not free & set(fixed):
            noise = float(belief.noise_variance())
            spread = max(spread, QUIETEST * variance_of(rows.cut()[1]) / noise)  # zero where all y are the same
            belief = changed(belief, kernel=host(belief.kernel.scaled(spread)), noise=np.asarray(noise * spread))
            notes.append(f"variances times {spread:.3g}, so that these rows are as far off as is said")
        return belief, notes
