"""`SGLD`: Langevin steps on the gradient of a few rows, for data that do not fit in memory or in patience.

    u ← u + εₜ G (∇log p(u) + n/m Σᵢ ∇log p(rowᵢ | u)) + √(2 εₜ G) z,    εₜ = a (b + t)^(-γ)

over minibatches of m of the n rows, each read once a pass. With decaying steps the draws count in proportion to them
(Welling & Teh, 2011); here they are kept at equal distances of Σ εₜ, which is the same. G is 1, or by RMSprop
1/(λ + √V) with V a running mean of squared gradients (Li, Chen, Carlson & Carin, 2016). Draws are kept, or their
running moments alone: a normal law, of many numbers with the diagonal of their covariance and its last directions.
"""

import dataclasses
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from credo.core.arrays import Array
from credo.core.errors import DataError, NotConverged, NotConvergedWarning
from credo.infer.mcmc.adaptation import RunningMoments
from credo.infer.mcmc.draws import Draws, pooled
from credo.infer.method import RowApproximation
from credo.infer.posterior import LowRankNormal, Posterior
from credo.infer.rows import RowDensity, RowSource
from credo.infer.target import Constraints, ParameterSpace

ROWS = 32_768
"""About how many rows are gone through at a time."""
NUMBERS = 4_000_000
"""About how many coordinates of steps are."""
FORGETTING, FLOOR = 0.99, 1e-5
"""α and λ of RMSprop."""
DENSE = 1000
"""Numbers of which a whole covariance matrix is kept."""


@dataclasses.dataclass(frozen=True)
class SGLD(RowApproximation):
    """Stochastic gradient Langevin dynamics.

    Its draws are too wide by the noise of the gradient and by the length of the step; both vanish with ε.

    Args:
        step_size: ε of the first step, in squared unconstrained units; of the order of a tenth of the smallest
            posterior variance. With `precondition` it is relative to the root mean square of a row's gradient.
        batch: m, rows in a minibatch.
        decay: γ; between 0.5 and 1 the bias vanishes as the run goes on, 0 keeps the step.
        offset: b, steps after which the decay begins to tell.
        passes: over the data.
        burn: the share of Σ εₜ before the first draw that is kept.
        draws: kept, at most.
        precondition: whether to scale by RMSprop.
        keep: "draws", or "moments" for their running mean and covariance only, a normal law in the end.
        rank: of more numbers than a covariance matrix is kept of, or than draws determine, the last so many deviations
            from the mean are kept beside the diagonal.
    """

    step_size: Any
    batch: int = 100
    decay: float | int = 0.55
    offset: float | int = 1000.0
    passes: int = 1
    burn: float | int = 0.5
    draws: int = 1000
    precondition: bool = False
    keep: str = "draws"
    rank: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep not in ("draws", "moments"):
            raise DataError(f"keep must be 'draws' or 'moments', found {self.keep!r}")

    def run_rows(
        self,
        log_prior: Callable[..., Array],
        log_likelihood: Callable[..., Array],
        init: object,
        data: object,
        constraints: Constraints | None = None,
        rows: int | None = None,
        seed: int = 0,
    ) -> Posterior:
        """Draws of θ (one chain), or the normal law of their moments, with what there is to say about their bias.

        Args:
            log_prior: log p(θ), of the pytree in natural units.
            log_likelihood: log_likelihood(θ, *columns) -> one number for each row.
            init: the pytree at which to start.
            data: an array or a tuple of arrays with the same rows (memory-mapped ones are read as they are reached), or
                an iterable of such tuples, a chunk at a time, whose rows should come in random order.
            constraints: by path; see `credo.condition`.
            rows: n, needed where `data` is an iterable.
            seed: of everything random.
        """
        density = RowDensity(ParameterSpace.of(init, constraints), log_prior, log_likelihood)
        return self.run_density(density, RowSource.of(data, rows, self.passes), seed)

    def run_density(self, model: RowDensity, data: object, seed: int = 0) -> Posterior:
        """`run_rows` of a density, on a `RowSource` or what it is made of."""
        source = data if isinstance(data, RowSource) else RowSource.of(data, None, self.passes)
        schedule = self.schedule(-(-source.n * self.passes // self.batch))
        kept, interrupted = self._walk(model, source, schedule, seed)
        notes = [f"Interrupted after {kept.number:,} draws, which are all there are."] * interrupted
        for note in notes:
            warnings.warn(note, NotConvergedWarning, stacklevel=3)
        if isinstance(kept, Moments):
            return kept.law(model.space, notes)
        vectors = np.concatenate(kept.parts)
        caution = (
            "SGLD: these draws have a bias that shrinks with the step: rerun with half of step_size, or a larger "
            "batch, and compare."
        )
        every = np.ones((1, len(vectors)))
        return Draws.of(model.space, vectors[None], (every, every == 0, np.nan * every, every == 0), notes, caution)

    def schedule(self, steps: int) -> Float[np.ndarray, " t"]:
        """εₜ = a (b + t)^(-γ), with a such that ε₀ is `step_size`."""
        return float(self.step_size) * (1 + np.arange(steps) / float(self.offset)) ** -float(self.decay)

    def _wanted(self, schedule: Float[np.ndarray, " t"]) -> np.ndarray:
        """The steps after which a draw is kept: equally far apart in Σ εₜ."""
        clock = np.cumsum(schedule)
        first = clock[-1] * float(self.burn)
        n = max(1, min(self.draws, int((clock > first).sum())))
        return np.searchsorted(clock, np.linspace(first, clock[-1], n + 1)[1:] * (1 - 1e-12))

    def _walk(
        self, model: RowDensity, source: RowSource, schedule: np.ndarray, seed: int
    ) -> "tuple[Snapshots | Moments, bool]":
        """What is kept of the vectors after the wanted steps, and whether the user stopped it."""
        u, wanted = model.space.start(), self._wanted(schedule)
        shuffling, moving = np.random.default_rng(seed).spawn(2)
        k = model.space.size
        per_block = int(np.clip(min(ROWS // self.batch, NUMBERS // k), 1, len(schedule)))
        squares, done = np.zeros_like(u), 0
        dense = k <= DENSE and len(wanted) > 2 * k
        kept = Snapshots([np.zeros((0, k))]) if self.keep == "draws" else Moments(dense, self.rank)
        parts, noise = _parts(model), moving.standard_normal((per_block, k))
        made: tuple[Array, int] | None = None
        interrupted = False
        try:
            for columns, count in source.blocks(per_block * self.batch, self.passes, shuffling):
                size = min(per_block, len(schedule) - done)
                if size == 0:
                    raise DataError(f"data have more rows than were promised, rows = {source.n}")
                plan = np.zeros((2, per_block))
                plan[0, :size] = schedule[done : done + size]
                plan[1] = np.clip(count - self.batch * np.arange(per_block), 1, self.batch)
                if made:  # while these rows were awaited
                    kept.add(_kept(*made, wanted))
                    made = None
                rows = tuple(c.reshape(per_block, -1, *c.shape[1:]) for c in columns)
                u, squares, steps = _steps(*parts, u, squares, rows, source.n, plan, noise, self.precondition)
                noise = moving.standard_normal((per_block, k))  # for the next, while these steps are made
                made = steps, done
                done += size
        except KeyboardInterrupt:
            interrupted = True
        if made:
            kept.add(_kept(*made, wanted))
        if interrupted and not kept.number:
            raise KeyboardInterrupt
        if done < len(schedule) and not interrupted:
            found = source.n - (len(schedule) - done) * self.batch // self.passes
            raise DataError(f"data ended early: rows = {source.n} was promised, about {max(found, 0)} a pass came")
        return kept, interrupted


@dataclasses.dataclass
class Snapshots:
    """All draws, block by block."""

    parts: list[Float[np.ndarray, "m k"]]

    @property
    def number(self) -> int:
        """How many draws."""
        return sum(map(len, self.parts))

    def add(self, draws: Float[np.ndarray, "m k"]) -> None:
        """More of them."""
        self.parts.append(draws)


@dataclasses.dataclass
class Moments:
    """The running mean of draws, with their covariance, or its diagonal and the last deviations from the mean so far.

    Maddox et al. (2019), "A simple baseline for Bayesian uncertainty in deep learning".
    """

    dense: bool
    rank: int
    moments: RunningMoments | None = None
    last: list[Float[np.ndarray, " k"]] = dataclasses.field(default_factory=list)

    @property
    def number(self) -> int:
        """How many draws."""
        return 0 if self.moments is None else self.moments.number

    def add(self, draws: Float[np.ndarray, "m k"]) -> None:
        """More of them."""
        parts = [draws] if self.dense and len(draws) else list(draws[:, None])
        for part in parts:
            block = RunningMoments.of(part, self.dense)
            self.moments = block if self.moments is None else self.moments.merge(block)
            if not self.dense:
                self.last = [*self.last, part[0] - self.moments.mean][-self.rank :]

    def law(self, space: ParameterSpace, notes: list[str]) -> Posterior:
        """The normal law with these moments."""
        assert self.moments is not None
        if self.dense:
            return pooled(space, [self.moments], notes)
        n, mean, scatter = self.moments
        factor = np.stack(self.last, axis=1) / np.sqrt(2 * max(len(self.last) - 1, 1))
        return LowRankNormal(space, mean, np.sqrt(0.5 * scatter / n), factor, tuple(notes))


def _parts(model: RowDensity) -> tuple[tuple[Any, ...], RowDensity]:
    """What is no array, hashable, and what is: `jax.jit` starts in a fifth of the time that `eqx.filter_jit` takes."""
    numbers, rest = eqx.partition(model, eqx.is_array)
    leaves, tree = jax.tree.flatten(rest)
    return (tree, tuple(leaves)), numbers


@partial(jax.jit, static_argnames=("functions", "precondition"))
def _steps(
    functions: tuple[Any, ...],
    numbers: RowDensity,
    u: Float[Array, " k"],
    squares: Float[Array, " k"],
    rows: tuple[Array, ...],
    n: Int[Array, ""],
    plan: Float[Array, "2 s"],
    noise: Float[Array, "s k"],
    precondition: bool,
) -> tuple[Array, Array, Float[Array, "s k"]]:
    """One step for each minibatch; `plan` are the size (zero stays) and the rows of each.

    The model comes in its two parts; arrays may be NumPy's, which compiled code reads where they lie.
    """
    model = eqx.combine(jax.tree.unflatten(*functions), numbers)
    sizes, counts = plan[0], plan[1][:, None]
    # For all steps at once what does not depend on u: in the loop a lone number costs as much as a vector.
    weights = jnp.where(jnp.arange(rows[0].shape[1]) < counts, n / counts, 0.0)
    kicks = jnp.sqrt(2 * sizes)[:, None] * noise

    def one(state: tuple[Array, Array], inputs: Any) -> tuple[tuple[Array, Array], Array]:
        """The step of one minibatch."""
        u, squares = state
        rows, weights, size, kick = inputs
        gradient = jax.grad(model)(u, rows, weights)
        if not precondition:
            u = u + size * gradient + kick
            return (u, squares), u
        average = gradient / n
        squares = jnp.where(size > 0, FORGETTING * squares + (1 - FORGETTING) * average**2, squares)
        metric = 1 / (FLOOR + jnp.sqrt(squares))
        u = u + size * metric * gradient + jnp.sqrt(metric) * kick
        return (u, squares), u

    (u, squares), path = jax.lax.scan(one, (u, squares), (rows, weights, sizes, kicks))
    return u, squares, path


def _kept(steps: Float[Array, "s k"], first: int, wanted: Int[np.ndarray, " n"]) -> Float[np.ndarray, "m k"]:
    """The vectors after those of the steps first, first + 1, … that are wanted."""
    path = np.asarray(steps)
    if not np.all(np.isfinite(path[-1])):
        bad = first + int(np.argmin(np.isfinite(path).all(1)))
        raise NotConverged(f"SGLD left the finite numbers at step {bad}: lower step_size; check the rows")
    return path[wanted[(wanted >= first) & (wanted < first + len(path))] - first]
