"""Climbing the ELBO with a few rows at a time.

    log p(u) ≈ log π(u) + L(c) + L'(c)(u - c) + n/b Σ_{i in batch} [ℓ_i(u) - ℓ_i(c) - ℓ_i'(c)(u - c)],    L = Σ_i ℓ_i

with c the center of the law when the window began, and L, L' summed over all rows then: only how the curvature differs
from row to row is left to chance (the stochastic variance-reduced gradient). The ELBO is E_q[log p(u) - log q(u)] with
log q held still: where q is the posterior, its gradient has no noise either. Adam takes the steps; a window of them
that gains less than the noise of its ELBOs has come as far as the step size allows, which then shrinks.
Johnson & Zhang (2013); Roeder, Wu & Duvenaud (2017), "Sticking the landing"; Kucukelbir et al. (2017), "ADVI".
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from credo.core.arrays import Array, host
from credo.core.errors import DataError
from credo.core.linalg import log_determinant, solve_lower
from credo.infer.normal_families import Family, Standardization
from credo.infer.rows import Columns, RowDensity, RowSource
from credo.infer.target import Target

State = tuple[Array, PyTree]
"""The free numbers of the law, and the momentum of Adam."""

PAIRS = 4
"""Antithetic pairs of draws of a step."""
STEPS = 50
"""Steps of one call of the compiled program: so many minibatches are in memory."""
LEAST_WINDOW = 100
FIRST_STEP, LAST_STEP, SHRINK = 0.1, 1e-3, 0.3
PART = 8
"""The first guess comes from so many minibatches."""


class Minibatches(NamedTuple):
    """The density of rows, the rows, and how many of them are looked at in a step."""

    density: RowDensity
    source: RowSource
    batch: int

    @classmethod
    def of(cls, density: RowDensity, source: RowSource, batch: int) -> "Minibatches":
        """Checked: one log density for each row."""
        batch = min(batch, source.n)
        rows = source.take(np.arange(batch))
        each = jax.eval_shape(lambda t: density.log_likelihood(t, *rows), density.space.template)
        if each.shape != (batch,):
            raise DataError(
                f"log_likelihood must return one number for each row: for {batch} rows it returned an array of shape "
                f"{each.shape}"
            )
        return cls(density, source, batch)

    def part(self, rng: np.random.Generator) -> Target:
        """The density with some of the rows standing for all."""
        n = self.source.n
        m = min(n, PART * self.batch)
        rows = self.source.take(np.sort(rng.choice(n, m, replace=False)))
        return Target(self.density.space, self.density.scaled, (np.asarray(n / m), *rows))

    def window(self, steps: int, rng: np.random.Generator) -> Iterator[Columns]:
        """Minibatches for so many steps, `STEPS` at a time, each row once before any comes again."""
        size = STEPS * self.batch
        blocks = self.source.blocks(size, -(-steps * self.batch // self.source.n), rng)
        for columns, _ in islice(blocks, steps // STEPS):
            yield tuple(c.reshape(STEPS, self.batch, *c.shape[1:]) for c in columns)


class Anchor(NamedTuple):
    """Where the window began, and the log likelihood of all rows with its slope there."""

    u: Float[Array, " k"]
    value: Float[Array, ""]
    slope: Float[Array, " k"]


def climb_by_rows(
    rows: Minibatches, family: Family, frame: Standardization, free: np.ndarray, passes: int, rng: np.random.Generator
) -> tuple[np.ndarray, float, list[str]]:
    """The free numbers of the law at the top, averaged over the last window; the ELBO, and notes."""
    import optax

    n = rows.source.n
    window = STEPS * (-(-max(n // rows.batch, LEAST_WINDOW) // STEPS))
    now: Array = free
    momentum = host(optax.scale_by_adam(b2=0.99).init(free))
    step, notes = FIRST_STEP, []
    width = family.law(frame, free)[1].shape[1]
    earlier, noise_earlier, seen = -np.inf, 0.0, 0
    while True:
        anchor = _anchor(rows, family, frame, now)
        heights, places = [], []
        for batches in rows.window(window, rng):
            law, sizes = (family, frame, anchor), (np.asarray(float(n)), np.asarray(step))
            z = rng.standard_normal((STEPS, PAIRS, width))
            now, momentum, elbos, place = _steps(rows.density, *law, (now, momentum), batches, *sizes, z)
            heights.append(np.asarray(elbos))
            places.append(np.asarray(place))
        seen += window * rows.batch + n
        later = np.concatenate(heights)[window // 2 :]
        elbo, noise = float(later.mean()), float(later.std(ddof=1) / np.sqrt(len(later)))
        gains = elbo - earlier > 2.0 * np.hypot(noise, noise_earlier) or not np.isfinite(elbo)
        mean_place = np.mean(places[len(places) // 2 :], axis=0)
        if not gains and step <= LAST_STEP:
            break
        if seen > passes * n:
            notes.append(f"The ELBO was still settling after {passes} passes over the rows: raise passes.")
            break
        if not gains:
            step = max(SHRINK * step, LAST_STEP)
            now = mean_place
        earlier, noise_earlier = elbo, noise
    if not np.isfinite(elbo):
        notes.append("The ELBO is not finite: the density is not finite where the law has mass.")
    return mean_place, elbo, notes


def _anchor(rows: Minibatches, family: Family, frame: Standardization, free: Array) -> Anchor:
    """One pass over all rows."""
    u = family.law(frame, free)[0]
    value, slope, n = 0.0, np.zeros(u.shape), rows.source.n
    for first in range(0, n, rows.batch):
        index = np.arange(first, min(first + rows.batch, n))
        weights = (np.arange(rows.batch) < len(index)).astype(float)
        v, s = _total(rows.density, u, weights, rows.source.take(np.resize(index, rows.batch)))
        value, slope = value + float(v), slope + np.asarray(s)
    return Anchor(u, np.asarray(value), slope)


@eqx.filter_jit
def _total(density: RowDensity, u: Array, weights: Float[Array, " m"], rows: tuple[Array, ...]) -> tuple[Array, Array]:
    """Σ wᵢ ℓᵢ(u) and its slope."""
    return jax.value_and_grad(lambda v: weights @ density.log_likelihood(density.space.tree(v), *rows))(u)


@eqx.filter_jit
def _steps(
    density: RowDensity,
    family: Family,
    frame: Standardization,
    anchor: Anchor,
    state: State,
    batches: tuple[Array, ...],
    n: Float[Array, ""],
    step_size: Float[Array, ""],
    z: Float[Array, "s pairs q"],
) -> tuple[Array, PyTree, Float[Array, " s"], Float[Array, " p"]]:
    """A step of Adam for each minibatch: the numbers after it, all ELBOs, and the mean of the numbers on the way."""
    import optax

    adam = optax.scale_by_adam(b2=0.99)

    def elbo(free: Array, rows: tuple[Array, ...], z: Float[Array, "pairs q"]) -> Array:
        center, matrix, _ = family.law(frame, free)
        still, root = jax.lax.stop_gradient((center, family.root(matrix)))
        whiten = solve_lower(root, jnp.eye(len(root)))
        constant = 0.5 * log_determinant(root) + 0.5 * len(root) * jnp.log(2 * jnp.pi)

        def chosen(u: Array) -> Array:
            return (n / rows[0].shape[0]) * density.log_likelihood(density.space.tree(u), *rows).sum()

        known, slope = jax.value_and_grad(chosen)(anchor.u)

        def height(u: Array) -> Array:
            rest = chosen(u) - known + anchor.value + (anchor.slope - slope) @ (u - anchor.u)
            log_q = -0.5 * jnp.square(whiten @ (u - still)).sum() - constant
            return density.prior(u) + rest - log_q

        return jax.vmap(height)(center + jnp.concatenate([z, -z]) @ matrix.T).mean()

    def step(state: State, given: tuple[tuple[Array, ...], Array]) -> tuple[State, tuple[Array, Array]]:
        free, momentum = state
        value, slope = jax.value_and_grad(elbo)(free, *given)
        direction, momentum = adam.update(jnp.where(jnp.isfinite(slope), slope, 0.0), momentum)
        return (free + step_size * direction, momentum), (value, free)

    (free, momentum), (elbos, places) = jax.lax.scan(step, state, (batches, z))
    return free, momentum, elbos, places.mean(0)
