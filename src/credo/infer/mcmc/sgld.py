"""`SGLD`: Langevin steps on the gradient of a few rows, for data that do not fit in memory or in patience.

    u ← u + εₜ G (∇log p(u) + n/m Σᵢ ∇log p(rowᵢ | u)) + √(2 εₜ G) z,    εₜ = a (b + t)^(-γ)

over minibatches of m of the n rows, each read once a pass. With decaying steps the draws count in proportion to them
(Welling & Teh, 2011); here they are kept at equal distances of Σ εₜ, which is the same. G is 1, or by RMSprop
1/(λ + √V) with V a running mean of squared gradients (Li, Chen, Carlson & Carin, 2016).
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
from credo.infer.mcmc.draws import Draws
from credo.infer.method import RowApproximation
from credo.infer.rows import RowDensity, RowSource
from credo.infer.target import Constraints, ParameterSpace

ROWS = 32_768
"""About how many rows are gone through at a time."""
NUMBERS = 4_000_000
"""About how many coordinates of steps are."""
FORGETTING, FLOOR = 0.99, 1e-5
"""α and λ of RMSprop."""


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
    """

    step_size: Any
    batch: int = 100
    decay: float | int = 0.55
    offset: float | int = 1000.0
    passes: int = 1
    burn: float | int = 0.5
    draws: int = 1000
    precondition: bool = False

    def run_rows(
        self,
        log_prior: Callable[..., Array],
        log_likelihood: Callable[..., Array],
        init: object,
        data: object,
        constraints: Constraints | None = None,
        rows: int | None = None,
        seed: int = 0,
    ) -> Draws:
        """Draws of θ (one chain), with what there is to say about their bias.

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

    def run_density(self, model: RowDensity, data: object, seed: int = 0) -> Draws:
        """`run_rows` of a density, on a `RowSource` or what it is made of."""
        source = data if isinstance(data, RowSource) else RowSource.of(data, None, self.passes)
        schedule = self.schedule(-(-source.n * self.passes // self.batch))
        vectors, interrupted = self._walk(model, source, schedule, seed)
        notes = [f"Interrupted after {len(vectors):,} draws, which are all there are."] * interrupted
        for note in notes:
            warnings.warn(note, NotConvergedWarning, stacklevel=3)
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

    def _walk(self, model: RowDensity, source: RowSource, schedule: np.ndarray, seed: int) -> tuple[np.ndarray, bool]:
        """The vectors after the wanted steps, and whether the user stopped it."""
        u, wanted = model.space.start(), self._wanted(schedule)
        shuffling, moving = np.random.default_rng(seed).spawn(2)
        k = model.space.size
        per_block = int(np.clip(min(ROWS // self.batch, NUMBERS // k), 1, len(schedule)))
        squares, kept, done = np.zeros_like(u), [np.zeros((0, k))], 0
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
                    kept.append(_kept(*made, wanted))
                    made = None
                rows = tuple(c.reshape(per_block, -1, *c.shape[1:]) for c in columns)
                u, squares, steps = _steps(*parts, u, squares, rows, source.n, plan, noise, self.precondition)
                noise = moving.standard_normal((per_block, k))  # for the next, while these steps are made
                made = steps, done
                done += size
        except KeyboardInterrupt:
            interrupted = True
        if made:
            kept.append(_kept(*made, wanted))
        vectors = np.concatenate(kept)
        if interrupted and not len(vectors):
            raise KeyboardInterrupt
        if done < len(schedule) and not interrupted:
            found = source.n - (len(schedule) - done) * self.batch // self.passes
            raise DataError(f"data ended early: rows = {source.n} was promised, about {max(found, 0)} a pass came")
        return vectors, interrupted


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
