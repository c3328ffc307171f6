"""`SKI`: structured kernel interpolation, a Gaussian process through its values on a grid.

    k(x, z) ≈ w(x)ᵀ K_UU w(z),   A = Σ wᵢwᵢᵀ/Dᵢ,  c = Σ wᵢrᵢ/Dᵢ:    u | y ~ N(Σc, Σ),  Σ = (K_UU⁻¹ + A)⁻¹
    log p = -½ [n log 2π + Σ log Dᵢ + log |I + AK_UU| + Σ rᵢ²/Dᵢ - cᵀΣc]

with w the weights of linear or cubic interpolation (`lattice.py`). What rows say are sums, so more rows are added to
them. Of up to 1,600 nodes the linear algebra is exact; of more, solves are by conjugate gradients, the determinant by
Lanczos' quadrature (`iterative.py`), and products with K_UU by FFT; where many variances are asked for, Σ is made.
Wilson & Nickisch (2015), "Kernel interpolation for scalable structured Gaussian processes"; Yadav, Sheldon & Musco
(2021), "Faster kernel interpolation for Gaussian processes".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.checks import check_count
from credo.core.device import usable_memory
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.kernels import Kernel, White
from credo.models.gp import exact
from credo.models.gp.base import FunctionValues
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows, masked
from credo.models.gp.evidence import Priors
from credo.models.gp.large.base import LargeMethod, check_one_of, in_chunks
from credo.models.gp.large.grid_evidence import dense_posterior, dense_slopes, iterative_slopes, log_evidence
from credo.models.gp.large.iterative import conjugate_gradients
from credo.models.gp.large.kernel_numbers import Look, OfKernelNumbers, SumsObjective
from credo.models.gp.large.lattice import Lattice
from credo.models.gp.large.low_rank import Moments

COLUMNS, NODES = 3, {1: 400, 2: 40, 3: 11}
"""Inputs up to which there are grids, and their nodes along each input where no shape is given."""
EXACT_NODES = 1600
"""Of so many nodes the linear algebra is exact."""
WORTH = 60_000
"""Of m nodes, m²/60,000 solves by conjugate gradients take as long as the covariance of all nodes: 32 ms each and
6 CPU s at 60 × 60."""
DENSE = 8
"""The m × m matrices that exist then."""
MARGIN = 0.05
"""The share of the box by which the grid is wider on each side."""
CARRIED = 0.9
"""With less of the variance of the kernel midway between nodes there is a warning."""
FEWEST = 8
"""Nodes along each input."""


class GridPosterior(eqx.Module):
    """The values on the grid after the rows: what they say, its mean, and the bands of its covariance."""

    moments: Moments
    """Of the weights of interpolation; `gram` is known by its bands."""
    mean: Float[Array, " m"]
    spread: Float[Array, "b m"] | None
    """None where nodes are many: a query then needs a solve, many queries Σ."""


class SKIGP(OfKernelNumbers):
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
        if has_white(gp.kernel):
            raise DataError(
                f"SKI interpolates between nodes, which White noise in {gp.kernel.formula()} forbids; leave it out of "
                "the kernel and add its variance to the noise"
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

    def check_inside(self, x: Any) -> None:
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

    def kernel_numbers(self) -> Float[Array, " t"]:
        """The kernel at the differences of nodes; traceable."""
        apart = jnp.asarray(self.lattice.differences)
        return self.prior.kernel.gram(apart, jnp.zeros((1, apart.shape[1])))[:, 0]

    def doubts(self) -> tuple[str, ...]:
        """That the grid is too coarse for the kernel."""
        if self.solved is None or is_traced(self) or (kept := carried(host(self))) >= CARRIED:
            return ()
        nodes = " × ".join(str(m) for m in self.lattice.shape)
        return (
            f"midway between its {nodes} nodes there is {kept:.0%} of the kernel's variance, and it is that much too "
            f"sure; name more, SKI({2 * max(self.lattice.shape)}), or use Neighbours",
        )

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
        sums = self.sums(rows.x, real / d, exact.residual(self.prior, rows))
        return sums.of_rows(real.sum(), namespace(d).log(d).sum())

    def sums(self, x: Any, u: Any, r: Any) -> Moments:
        """The sums of weights of interpolation."""
        zero = 0.0 * u.sum()
        return Moments(self.lattice.bands(x, u), self.lattice.spread(x, u * r), (u * r * r).sum(), zero, zero, zero)

    def condition_on(self, statistics: Rows) -> "SKIGP":
        """The posterior after the rows: what they say is added to what was said before."""
        own = self.placed(statistics)
        moments = own.moments(statistics)
        if own.solved is not None:
            moments = own.solved.moments + moments
        return changed(own, seen=own.with_seen(statistics), solved=own._posterior(moments))

    def _posterior(self, moments: Moments) -> GridPosterior:
        if not self.exactly and is_traced(self, moments):
            raise DataError(f"a grid of more than {EXACT_NODES} nodes is not for jit; take a smaller shape")
        table = self.numbers_now()
        if self.exactly:
            dense = dense_posterior(self.lattice, table, moments)
            return GridPosterior(moments, dense.mean, self.lattice.banded(dense.covariance))
        mean = self._solved(np.asarray(table), moments, np.asarray(moments.cross)[:, None])
        return GridPosterior(moments, mean[:, 0], None)

    def _solved(self, table: np.ndarray, moments: Moments, right: np.ndarray) -> Float[np.ndarray, "m q"]:
        """Σ of the columns, by conjugate gradients."""
        kernel, gram = self.lattice.convolve(table), self.lattice.multiply(np.asarray(moments.gram))
        return kernel(conjugate_gradients(kernel, gram, right, self.method.tolerance))

    def _all_at_once(self, queries: int) -> Float[Array, "b m"] | None:
        """The bands of Σ by dense matrices, where queries are so many that this is quicker, and there is memory."""
        m = self.lattice.size
        if queries * WORTH < m * m or DENSE * 8.0 * m * m > usable_memory():
            return None
        dense = dense_posterior(self.lattice, self.numbers_now(), self.solved.moments)
        return self.lattice.banded(dense.covariance)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | X) of the interpolated kernel, given what was seen before."""
        own = self.placed(statistics)
        table = own.numbers_now()
        if own.exactly:
            moments = own.moments(statistics)
            stages = [moments] if own.solved is None else [own.solved.moments, own.solved.moments + moments]
            dense = [dense_posterior(own.lattice, table, each) for each in stages]
            values = [log_evidence(m, p.mean, p.log_determinant) for m, p in zip(stages, dense, strict=True)]
        else:
            rows = [statistics] if own.seen is None else [own.seen, own.with_seen(statistics)]
            about = np.asarray(table), float(own.noise_variance())
            values = [np.asarray(SumsObjective(own, (), each, {}).look(*about)[0]) for each in rows]
        return values[-1] - values[0] if len(values) > 1 else values[0]

    # -- predictions -----------------------------------------------------------------------------------------

    def posterior_at(self, rows: Array, joint: bool) -> FunctionValues:
        """The function at checked rows after data."""
        xp = namespace(self, rows)
        lattice, solved = self.lattice, self.solved
        mean = self.prior.mean.at(rows) + lattice.interpolate(rows, solved.mean)
        covariance = self.covariance_at(rows, rows) if joint else None
        spread = self._all_at_once(len(rows)) if solved.spread is None else solved.spread
        if covariance is not None:
            parts = [xp.diagonal(covariance)]
        elif spread is None:
            cuts = in_chunks(len(rows), 4 ** len(lattice.shape) * lattice.size)
            parts = [np.diag(self.covariance_at(rows[cut], rows[cut])) for cut in cuts]
        else:
            cuts = [slice(None)] if xp is not np else in_chunks(len(rows), lattice.stencil(rows[:1])[0].size ** 2)
            parts = [lattice.quadratic(rows[cut], spread) for cut in cuts]
        variance = xp.concatenate(parts) if len(parts) > 1 else parts[0]
        return FunctionValues(mean, xp.maximum(variance, 0.0), covariance)  # conjugate gradients may go below zero

    def covariance_at(self, x: Float[Array, "m d"], z: Float[Array, "q d"]) -> Float[Array, "m q"]:
        """The posterior covariance of the function between checked rows."""
        table, moments = self.numbers_now(), self.solved.moments
        if self.exactly:
            half = dense_posterior(self.lattice, table, moments).half
            return (self.lattice(x) @ half) @ (self.lattice(z) @ half).T
        left, right = self.lattice.sparse(np.asarray(x)), self.lattice.sparse(np.asarray(z)).toarray().T
        kernel, gram = self.lattice.convolve(table), self.lattice.multiply(np.asarray(moments.gram))
        known = kernel(right)
        return left @ (known - kernel(conjugate_gradients(kernel, gram, gram(known), self.method.tolerance)))

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
            half = dense_posterior(lattice, self.numbers_now(), moments).half
            u = self.solved.mean + rng.normal(size=(n, lattice.size)) @ half.T
        else:
            drawn = sample_functions(self.as_gp(), n, features=features, seed=seed, columns=d)
            u = np.asarray(drawn(lattice.nodes)) - np.asarray(self.prior.mean.at(lattice.nodes))
            rows, noise = self.seen, np.asarray(self.noise_variance() * self.seen.scale + self.seen.extra)
            said = [lattice.spread(rows.x, rng.normal(size=rows.n) / np.sqrt(noise)) for _ in range(n)]
            right = np.asarray(moments.cross)[:, None] - lattice.multiply(np.asarray(moments.gram))(u.T)
            u = u + self._solved(np.asarray(self.numbers_now()), moments, right - np.stack(said, axis=1)).T
        return Functions(self.kernel, self.mean, (lattice,), (np.asarray(u),), None, None)

    def evidence_and_slopes(self, numbers: Float[np.ndarray, " t"], look: Look) -> tuple[float, np.ndarray, float]:
        """By dense matrices, or by products with them."""
        if self.exactly:
            return dense_slopes(self.lattice, numbers, look)
        return iterative_slopes(self.lattice, numbers, look, self.method.tolerance)


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
            check_count(nodes, "shape", FEWEST)
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
        return learned._replace(
            notes=[*learned.notes, f"{note}; midway between them it has {kept:.1%} of its variance"]
        )


def carried(belief: SKIGP) -> float:
    """The share of the variance of the kernel that its interpolation has midway between nodes."""
    lattice = belief.lattice
    x = lattice.nodes[:1] + (lattice.reach // 2 + 0.5) * np.asarray(lattice.step)
    place, weight = (np.asarray(v)[0] for v in lattice.stencil(x))
    near, kernel = np.asarray(lattice.nodes)[place], belief.kernel
    return float(weight @ np.asarray(kernel.between(near, near)) @ weight / np.asarray(kernel.variance_at(x))[0])


def has_white(kernel: Kernel) -> bool:
    """Whether a part of the kernel has no extent."""
    return isinstance(kernel, White) or any(has_white(part) for part in kernel.inside.values())
