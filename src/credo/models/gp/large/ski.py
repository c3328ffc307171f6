"""`SKI`: structured kernel interpolation, a Gaussian process through its values on a grid.

    k(x, z) ≈ w(x)ᵀ K_UU w(z),   A = Σ wᵢwᵢᵀ/Dᵢ,  c = Σ wᵢrᵢ/Dᵢ:    u | y ~ N(Σc, Σ),  Σ = (K_UU⁻¹ + A)⁻¹
    log p = -½ [n log 2π + Σ log Dᵢ + log |I + AK_UU| + Σ rᵢ²/Dᵢ - cᵀΣc]

with w the weights of linear or cubic interpolation (`lattice.py`). What rows say are sums, so more rows are added to
them. Of up to 1,600 nodes the linear algebra is exact; of more, solves are by conjugate gradients, the determinant by
Lanczos' quadrature (`iterative.py`), and products with K_UU by FFT. Wilson & Nickisch (2015), "Kernel interpolation for
scalable structured Gaussian processes"; Yadav, Sheldon & Musco (2021), "Faster kernel interpolation for Gaussian
processes".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.errors import DataError, NotPositiveDefinite
from credo.core.linalg import demand, factorize, log_determinant, plus_diagonal, solve, solve_lower, solve_upper
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.models.gp import exact
from credo.models.gp.base import FunctionValues
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows, masked
from credo.models.gp.evidence import Priors
from credo.models.gp.large.base import LargeMethod, WeightSpaceGP, check_one_of, check_size, in_chunks
from credo.models.gp.large.iterative import conjugate_gradients, log_determinant_parts
from credo.models.gp.large.lattice import Lattice
from credo.models.gp.large.low_rank import Moments

COLUMNS, NODES = 3, {1: 400, 2: 40, 3: 11}
"""Inputs up to which there are grids, and their nodes along each input where no shape is given."""
EXACT_NODES = 1600
"""Of so many nodes the linear algebra is exact."""
MARGIN = 0.05
"""The share of the box by which the grid is wider on each side."""
PROBES, STEPS = 10, 60
"""Of the log determinant of more nodes."""
FEWEST = 8
"""Nodes along each input."""


class GridPosterior(eqx.Module):
    """The values on the grid after the rows: what they say, its mean, and the bands of its covariance."""

    moments: Moments
    """Of the weights of interpolation; `gram` is known by its bands."""
    mean: Float[Array, " m"]
    spread: Float[Array, "b m"] | None
    """None where nodes are many: a query then needs a solve."""


class DensePosterior(NamedTuple):
    """The same by dense matrices: LLᵀ = K_UU, RRᵀ = I + LᵀAL, Σ = HHᵀ."""

    mean: Float[Array, " m"]
    half: Float[Array, "m m"]
    log_determinant: Float[Array, ""]
    gram: Float[Array, "m m"]

    @property
    def covariance(self) -> Float[Array, "m m"]:
        """Σ."""
        return self.half @ self.half.T


class SKIGP(WeightSpaceGP):
    """A Gaussian process whose values are interpolated from those on a regular grid."""

    lattice: Any = None
    """Chosen from the first rows, or the box that the method names."""

    def __init__(self, gp: GP, method: "SKI"):
        super().__init__(gp, method)
        self.lattice = None
        if not self.prior.kernel.is_stationary:
            raise DataError(
                f"SKI takes a stationary kernel and a constant mean, found {self.prior.kernel.formula()}; use "
                "Neighbours or Inducing"
            )

    def placed(self, rows: Rows) -> "SKIGP":
        """With a grid over the box of the rows, where it has none."""
        if self.lattice is not None:
            return self
        if is_traced(self, rows):
            raise DataError("the grid is laid over known rows; condition outside jit first")
        return changed(self, lattice=self.method.lay(rows.cut()[0]))

    def queries(self, x: object) -> Array:
        """Queries as checked rows, inside the grid."""
        rows = super().queries(x)
        if self.lattice is not None:
            self.check_inside(rows)
        return rows

    def check_inside(self, x: Float[Array, "n d"]) -> None:
        """`DataError` where rows are outside the grid."""
        if is_traced(self, x):
            return
        low, high = self.lattice.box
        if np.any(x < low - 1e-9 * (high - low)) or np.any(x > high + 1e-9 * (high - low)):
            named = ", ".join(f"[{a:.4g}, {b:.4g}]" for a, b in zip(low, high, strict=True))
            raise DataError(
                f"rows or queries lie outside the grid, which reaches over {named}; name a wider one, SKI(box=[(low, "
                "high), …]), and condition anew, or use Neighbours"
            )

    def table(self) -> Float[Array, " t"]:
        """The kernel at the differences of nodes; traceable."""
        apart = jnp.asarray(self.lattice.differences)
        return self.prior.kernel.gram(apart, jnp.zeros((1, apart.shape[1])))[:, 0]

    def _table(self) -> Float[Array, " t"]:
        traced = is_traced(self.kernel, self.mean)
        return self.table() if traced else np.asarray(_compiled_table(self.unconditioned()))

    @property
    def exactly(self) -> bool:
        """Whether the linear algebra is exact."""
        return self.lattice.size <= EXACT_NODES

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def moments(self, rows: Rows) -> Moments:
        """The sums over the rows."""
        self.check_inside(rows.x)
        d = masked(rows.mask, self.noise_variance() * rows.scale + rows.extra, 1.0)
        real = masked(rows.mask, namespace(d).ones(len(d)))
        return sums(self.lattice, rows.x, real / d, masked(rows.mask, exact.residual(self.prior, rows)), d, real)

    def condition_on(self, statistics: Rows) -> "SKIGP":
        """The posterior after the rows: what they say is added to what was said before."""
        own = self.placed(statistics)
        moments = own.moments(statistics)
        if own.solved is not None:
            moments = own.solved.moments + moments
        return changed(own, seen=own.with_seen(statistics), solved=own._posterior(moments))

    def _posterior(self, moments: Moments) -> GridPosterior:
        table = self._table()
        if self.exactly:
            dense = dense_posterior(self.lattice, table, moments)
            return GridPosterior(moments, dense.mean, self.lattice.banded(dense.covariance))
        mean = self._solved(np.asarray(table), moments, np.asarray(moments.cross)[:, None])
        return GridPosterior(moments, mean[:, 0], None)

    def _solved(self, table: np.ndarray, moments: Moments, right: np.ndarray) -> Float[np.ndarray, "m q"]:
        """Σ of the columns, by conjugate gradients."""
        if is_traced(self, moments):
            raise DataError(f"a grid of more than {EXACT_NODES} nodes is not for jit; take a smaller shape")
        kernel, gram = self.lattice.convolve(table), self.lattice.multiply(np.asarray(moments.gram))
        return kernel(conjugate_gradients(kernel, gram, right, self.method.tolerance))

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | X) of the interpolated kernel, given what was seen before."""
        own = self.placed(statistics)
        if own.exactly:
            table, moments = own._table(), own.moments(statistics)
            if own.solved is None:
                return log_evidence(own.lattice, table, moments)
            after = log_evidence(own.lattice, table, own.solved.moments + moments)
            return after - log_evidence(own.lattice, table, own.solved.moments)
        prior = own.unconditioned()
        after = SKIObjective(prior, (), self.with_seen(statistics), {}).evidence(prior)[0]
        before = 0.0 if self.seen is None else SKIObjective(prior, (), self.seen, {}).evidence(prior)[0]
        return np.asarray(after - before)

    # -- predictions -----------------------------------------------------------------------------------------

    def function_at(self, rows: Array, joint: bool = False) -> FunctionValues:
        """The function at checked rows."""
        if self.solved is None:
            mean, variance = exact.predict(self.prior, None, None, rows)
            return FunctionValues(mean, variance, self.prior.kernel.between(rows, rows) if joint else None)
        xp = namespace(self, rows)
        lattice, solved = self.lattice, self.solved
        mean = self.prior.mean.at(rows) + lattice.interpolate(rows, solved.mean)
        covariance = self._between(rows, rows) if joint else None
        if covariance is not None:
            return FunctionValues(mean, xp.diagonal(covariance), covariance)
        if solved.spread is None:
            cuts = in_chunks(len(rows), 4 ** len(lattice.shape) * lattice.size)
            return FunctionValues(mean, np.concatenate([np.diag(self._between(rows[c], rows[c])) for c in cuts]), None)
        cuts = [slice(None)] if xp is not np else in_chunks(len(rows), lattice.stencil(rows[:1])[0].size ** 2)
        parts = [lattice.quadratic(rows[cut], solved.spread) for cut in cuts]
        variance = xp.concatenate(parts) if len(parts) > 1 else parts[0]
        return FunctionValues(mean, xp.maximum(variance, 0.0), None)

    def _between(self, x: Float[Array, "m d"], z: Float[Array, "q d"]) -> Float[Array, "m q"]:
        table, moments = self._table(), self.solved.moments
        if self.exactly:
            half = dense_posterior(self.lattice, table, moments).half
            return (self.lattice(x) @ half) @ (self.lattice(z) @ half).T
        left, right = self.lattice.sparse(np.asarray(x)), self.lattice.sparse(np.asarray(z)).toarray().T
        kernel, gram = self.lattice.convolve(table), self.lattice.multiply(np.asarray(moments.gram))
        known = kernel(right)
        return left @ (known - kernel(conjugate_gradients(kernel, gram, gram(known), self.method.tolerance)))

    def covariance(self, x: object, z: object = None) -> Float[Array, "m q"]:
        """The covariance of the function between two sets of queries, as it is believed now."""
        rows, columns = (self.queries(v) for v in (x, x if z is None else z))
        if self.solved is None:
            return self.prior.kernel.between(rows, columns)
        return self._between(rows, columns)

    def sample_functions(self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None) -> Any:
        """n draws as functions: interpolated from draws of the values on the grid.

        Of many nodes u = u₀ + Σ(c - Au₀ - Wᵀε/D), with u₀ drawn from the prior by random features.
        """
        from credo.models.gp.sampling import Functions, sample_functions

        d = columns if self.lattice is None else len(self.lattice.shape)
        if self.solved is None:
            return sample_functions(self.as_gp(), n, features=features, seed=seed, columns=d)
        lattice, moments, rng = self.lattice, self.solved.moments, np.random.default_rng(seed)
        if self.exactly:
            half = dense_posterior(lattice, self._table(), moments).half
            u = self.solved.mean + rng.normal(size=(n, lattice.size)) @ half.T
        else:
            drawn = sample_functions(self.as_gp(), n, features=features, seed=seed, columns=d)
            u = np.asarray(drawn(lattice.nodes)) - np.asarray(self.prior.mean.at(lattice.nodes))
            rows, noise = self.seen, np.asarray(self.noise_variance() * self.seen.scale + self.seen.extra)
            said = [lattice.spread(rows.x, rng.normal(size=rows.n) / np.sqrt(noise)) for _ in range(n)]
            right = np.asarray(moments.cross)[:, None] - lattice.multiply(np.asarray(moments.gram))(u.T)
            u = u + self._solved(self._table(), moments, right - np.stack(said, axis=1)).T
        return Functions(self.kernel, self.mean, (lattice,), (np.asarray(u),), None, None)

    # -- learning --------------------------------------------------------------------------------------------

    def objective(self, slots: params.Layout, statistics: Rows, priors: dict[str, Any]) -> "SKIObjective | None":  # type: ignore[override]
        """The evidence with its gradient, from sums that are computed once."""
        return None if is_traced(self, statistics) else SKIObjective(self.placed(statistics), slots, statistics, priors)


def sums(lattice: Lattice, x: Array, u: Array, r: Array, d: Array, real: Array) -> Moments:
    """What rows say, each counting u times."""
    total = (u * r * r).sum(), namespace(d).log(d).sum(), 0.0 * real.sum(), real.sum()
    return Moments(lattice.bands(x, u), lattice.spread(x, u * r), *total)


def dense_posterior(lattice: Lattice, table: Float[Array, " t"], moments: Moments) -> DensePosterior:
    """The values on the grid after the rows."""
    found = factorize(lattice.matrix(table))
    root = demand(found.root, found.ok, exact.NOT_DEFINITE)
    gram = lattice.dense(moments.gram)
    inner = root.T @ (gram @ root)
    whole = factorize(plus_diagonal(0.5 * (inner + inner.T), namespace(inner).ones(len(inner))))
    factor = demand(whole.root, whole.ok, exact.NOT_DEFINITE)
    half = solve_lower(factor, root.T).T
    return DensePosterior(half @ (half.T @ moments.cross), half, log_determinant(factor), gram)


def log_evidence(lattice: Lattice, table: Float[Array, " t"], moments: Moments) -> Float[Array, ""]:
    """log p(y)."""
    return _log_evidence(moments, dense_posterior(lattice, table, moments))


def _log_evidence(moments: Moments, dense: DensePosterior) -> Float[Array, ""]:
    fit = moments.squares - moments.cross @ dense.mean
    return -0.5 * (moments.n * np.log(2 * np.pi) + moments.log_noise + dense.log_determinant + fit)


class SKIObjective:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector, with its gradient: of K_UU, with β = c - AΣc,

        ∂/∂K = ½ (ββᵀ - A + AΣA),    ∂/∂Dᵢ = -½ [1/Dᵢ - (wᵢᵀΣwᵢ + eᵢ²)/Dᵢ²],    e = r - Wu

    and from there JAX pulls back to θ through the kernel at the differences of nodes.
    """

    def __init__(self, belief: SKIGP, slots: Any, rows: Rows, priors: dict[str, Any]):
        x, _, self._scale, self._extra = rows.cut()
        self._about = belief.unconditioned(), slots, dict(priors)
        belief.check_inside(x)
        self._lattice, self._x, self._tolerance = belief.lattice, x, belief.method.tolerance
        self._r = np.asarray(exact.residual(belief.prior, rows))[: rows.n]
        self._once = None if np.any(self._extra) else self._sums(self._scale, 1.0 / self._scale)
        self._weights = None if belief.exactly else belief.lattice.sparse(x)

    def _sums(self, d: np.ndarray, u: np.ndarray) -> Moments:
        return sums(self._lattice, self._x, u, self._r, d, np.ones(len(d)))

    def _both(self, noise: float) -> tuple[Moments, Moments]:
        """The sums, and those in which each row counts scale/D², as the slopes of the first do."""
        if self._once is not None:
            one = self._once
            log_noise = one.log_noise + len(self._x) * np.log(noise)
            zero = np.zeros(())
            now = Moments(one.gram / noise, one.cross / noise, one.squares / noise, log_noise, zero, one.n)
            return now, jax.tree.map(lambda v: v / noise, now)
        d = noise * self._scale + self._extra
        return self._sums(d, 1.0 / d), self._sums(d, self._scale / d**2)

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self.value_and_grad(vector)[0]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where it is not finite."""
        table, noise, log_prior = (np.asarray(v) for v in _numbers(vector, *self._about))
        none = -np.inf, np.zeros_like(vector)
        try:
            value, by_table, by_noise = self._look(table, float(noise))
        except NotPositiveDefinite:
            return none
        slope = np.asarray(_pull(vector, *self._about, by_table, np.asarray(by_noise)))
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return none
        return value + float(log_prior), slope

    def evidence(self, belief: SKIGP) -> tuple[float, np.ndarray, float]:
        """log p(y | X) of the belief as it is, and its slopes."""
        return self._look(np.asarray(belief._table()), float(belief.noise_variance()))

    def _look(self, table: np.ndarray, noise: float) -> tuple[float, np.ndarray, float]:
        now, by = self._both(noise)
        by_log_noise = float((self._scale / (noise * self._scale + self._extra)).sum())
        if self._weights is not None:
            return self._iterative(table, noise, now, by, by_log_noise)
        dense = dense_posterior(self._lattice, table, now)
        u, gram, covariance = dense.mean, dense.gram, dense.covariance
        beta = now.cross - gram @ u
        slope = 0.5 * (np.outer(beta, beta) - gram + gram @ covariance @ gram)
        told = float((self._lattice.banded(covariance) * by.gram).sum())
        by_noise = -0.5 * (by_log_noise - told - self._errors(u, by))
        return float(_log_evidence(now, dense)), self._lattice.pull_matrix(slope), by_noise

    def _errors(self, u: np.ndarray, by: Moments) -> float:
        """Σ e² scale/D²."""
        return float(by.squares - 2.0 * by.cross @ u + u @ self._lattice.multiply(by.gram)(u))

    def _iterative(
        self, table: np.ndarray, noise: float, now: Moments, by: Moments, by_log_noise: float
    ) -> tuple[float, np.ndarray, float]:
        kernel, gram = self._lattice.convolve(table), self._lattice.multiply(np.asarray(now.gram))
        beta = conjugate_gradients(kernel, gram, np.asarray(now.cross)[:, None], self._tolerance)
        u = kernel(beta)[:, 0]
        d, w = noise * self._scale + self._extra, self._weights
        root = 1.0 / np.sqrt(d)
        slope, determinant, told = 0.5 * self._lattice.pull_products(beta, np.ones(1)), 0.0, 0.0

        def times(v: np.ndarray) -> np.ndarray:
            return root * (w @ kernel(w.T @ (root * v)))

        for part in log_determinant_parts(times, len(d), PROBES, STEPS, 0):
            determinant += part.value
            seen = w.T @ (root[:, None] * part.vectors)
            slope -= 0.5 * self._lattice.pull_products(seen, part.weights)
            back = root[:, None] * (w @ kernel(seen))
            told += float((part.weights * ((self._scale / d)[:, None] * part.vectors * back).sum(0)).sum())
        fit = now.squares - now.cross @ u
        value = -0.5 * (now.n * np.log(2 * np.pi) + now.log_noise + determinant + fit)
        return float(value), slope, -0.5 * (by_log_noise - told - self._errors(u, by))


_compiled_table = eqx.filter_jit(lambda belief: belief.table())


def _parts(u: Array, belief: SKIGP, slots: params.Layout, priors: Any) -> tuple[Array, Array, Array]:
    own = params.from_vector(belief, slots, u)
    return own.table(), jnp.asarray(own.noise_variance()), jnp.asarray(params.log_prior(own, priors), float)


@eqx.filter_jit
def _numbers(vector: Array, *about: Any) -> tuple[Array, Array, Array]:
    return _parts(jnp.asarray(vector), *about)


@eqx.filter_jit
def _pull(vector: Array, belief: SKIGP, slots: params.Layout, priors: Any, *slopes: Array) -> Float[Array, " k"]:
    _, pull = jax.vjp(lambda u: _parts(u, belief, slots, priors), jnp.asarray(vector))
    return pull((*slopes, jnp.ones(())))[0]


@dataclass(frozen=True)
class SKI(LargeMethod):
    """A `GP` of a stationary kernel of one to three inputs through its values on a regular grid.

        gp.condition(X, y, using=SKI((50, 50)))         credo.fit(gp, X, y, using=SKI())

    The result is a `SKIGP`. Rows outside its grid are refused; `box` names a wider one.
    """

    shape: int | tuple[int, ...] | None = None
    """The nodes along each input; None: 400, 40 × 40 or 11 × 11 × 11."""
    interpolation: str = "cubic"
    """"cubic" or "linear"."""
    box: tuple[tuple[float | int, float | int], ...] | None = None
    """The lowest and the highest value of each input; None: those of the first rows, and a twentieth beyond."""
    tolerance: float = 1e-6
    """Of conjugate gradients, for more than 1,600 nodes."""
    max_steps: int = 60

    belief: ClassVar[type] = SKIGP

    def __post_init__(self) -> None:
        super().__post_init__()
        for nodes in self.shape if isinstance(self.shape, tuple) else () if self.shape is None else (self.shape,):
            check_size(nodes, "shape", FEWEST)
        check_one_of(self.interpolation, "interpolation", ("cubic", "linear"))
        if self.box is not None:
            object.__setattr__(self, "box", tuple((float(a), float(b)) for a, b in self.box))
            if not all(a < b for a, b in self.box):
                raise DataError(f"box has the lowest and the highest value of each input, found {self.box}")

    def lay(self, x: Float[np.ndarray, "n d"]) -> Lattice:
        """The grid over the box, or that of the rows."""
        d = x.shape[1]
        if d > COLUMNS:
            raise DataError(f"SKI is for up to {COLUMNS} inputs, found {d}; use Neighbours or Inducing")
        shape = self.shape if isinstance(self.shape, tuple) else (self.shape or NODES[d],) * d
        if len(shape) != d or (self.box is not None and len(self.box) != d):
            raise DataError(f"shape and box must have an entry for each of {d} inputs, found {shape} and {self.box}")
        if self.box is None:
            low, high = x.min(0), x.max(0)
            span = np.where(high > low, high - low, 1.0)
            low, high = low - MARGIN * span, high + MARGIN * span
        else:
            low, high = np.asarray(self.box).T
        cubic = self.interpolation == "cubic"
        step = (high - low) / (np.asarray(shape) - (3 if cubic else 1))
        return Lattice(low - step if cubic else low, step, tuple(int(m) for m in shape), cubic)

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest evidence × prior found."""
        belief = self.start(belief, statistics, fixed, priors, seed).placed(statistics)
        learned = self.climb(belief, statistics, fixed, priors, seed, max_steps=self.max_steps)
        lattice = learned.belief.lattice
        shape = " × ".join(str(m) for m in lattice.shape)
        kept = carried(host(learned.belief))
        note = f"the evidence of a kernel that is interpolated from {shape} nodes"
        return learned._replace(notes=[*learned.notes, f"{note}; midway between them it has {kept:.1%} of its variance"])


def carried(belief: SKIGP) -> float:
    """The share of the variance of the kernel that its interpolation has midway between nodes."""
    lattice = belief.lattice
    x = lattice.nodes[:1] + (lattice.reach // 2 + 0.5) * np.asarray(lattice.step)
    place, weight = (np.asarray(v)[0] for v in lattice.stencil(x))
    near, kernel = np.asarray(lattice.nodes)[place], belief.kernel
    return float(weight @ np.asarray(kernel.between(near, near)) @ weight / np.asarray(kernel.variance_at(x))[0])
