"""Climbing the ELBO with a few rows at a time.

    log p(u) ≈ log π(u) + L(c) + L'(c)(u - c) + n/b Σ_{i in batch} [ℓ_i(u) - ℓ_i(c) - ℓ_i'(c)(u - c)],    L = Σ_i ℓ_i

with c the center of the law when the window began, and L, L' summed over all rows then: only how the curvature differs
from row to row is left to chance (the stochastic variance-reduced gradient). The ELBO is E_q[log p(u) - log q(u)] with
log q held still: where q is the posterior, its gradient has no noise either. Adam takes the steps; a window of them
that gains less than the noise of its ELBOs has come as far as the step size allows, which then shrinks.
Johnson & Zhang (2013); Roeder, Wu & Duvenaud (2017), "Sticking the landing"; Kucukelbir et al. (2017), "ADVI".
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import put
from credo.core.errors import DataError
from credo.core.linalg import log_determinant, solve_lower
from credo.infer.normal_families import Family, Frame
from credo.infer.target import Space, Target

PAIRS = 4
"""Antithetic pairs of draws of a step."""
STEPS = 50
"""Steps of one call of the compiled program: so many minibatches are in memory."""
LEAST_WINDOW = 100
FIRST_STEP, LAST_STEP, SHRINK = 0.1, 1e-3, 0.3
PART = 8
"""The first guess comes from so many minibatches."""


class Rows(NamedTuple):
    """A prior and a likelihood of rows, and the rows."""

    space: Space
    log_prior: Callable[..., Any]
    log_likelihood: Callable[..., Any]
    data: tuple[Any, ...]
    batch: int

    @classmethod
    def of(
        cls,
        log_prior: Callable[..., Any],
        log_likelihood: Callable[..., Any],
        init: Any,
        data: Any,
        constraints: Any,
        batch: int,
    ) -> "Rows":
        """Checked: arrays of one length, and one log density for each row."""
        arrays = tuple(
            a if hasattr(a, "shape") else np.asarray(a) for a in (data if isinstance(data, tuple | list) else [data])
        )
        lengths = [a.shape[0] if len(a.shape) else 0 for a in arrays]
        if not arrays or min(lengths) < 1 or len(set(lengths)) != 1:
            raise DataError(f"data must be arrays with as many rows each, at least one, found {lengths} rows")
        out = cls(Space.of(init, constraints), log_prior, log_likelihood, arrays, min(batch, lengths[0]))
        each = jax.eval_shape(
            lambda t, rows: log_likelihood(t, *rows), out.space.template, out.take(np.arange(out.batch))
        )
        if each.shape != (out.batch,):
            raise DataError(
                "log_likelihood must return one number for each row: "
                f"for {out.batch} rows it returned an array of shape {each.shape}"
            )
        return out

    @property
    def n(self) -> int:
        """How many rows."""
        return int(self.data[0].shape[0])

    def take(self, index: np.ndarray) -> tuple[Array, ...]:
        """Some of the rows, as arrays of numbers."""
        return tuple(put(np.asarray(a[index], dtype=float)) for a in self.data)

    def part(self, rng: np.random.Generator) -> Target:
        """The density with some of the rows standing for all."""
        m = min(self.n, PART * self.batch)
        rows = self.take(np.sort(rng.choice(self.n, m, replace=False)))
        return Target(self.space, _Scaled(self.log_prior, self.log_likelihood), (put(np.asarray(self.n / m)), *rows))

    def shuffled(self, steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Indices of (STEPS, batch) rows, each row once before any comes again."""
        left = np.zeros(0, dtype=int)
        for _ in range(-(-steps // STEPS)):
            while len(left) < STEPS * self.batch:
                left = np.concatenate([left, rng.permutation(self.n)])
            yield left[: STEPS * self.batch].reshape(STEPS, self.batch)
            left = left[STEPS * self.batch :]


class _Scaled(eqx.Module):
    """log π(θ) + scale Σ ℓ_i(θ)."""

    log_prior: Callable[..., Any]
    log_likelihood: Callable[..., Any]

    def __call__(self, theta: Any, scale: Array, *rows: Array) -> Array:
        return self.log_prior(theta) + scale * self.log_likelihood(theta, *rows).sum()


class Anchor(NamedTuple):
    """Where the window began, and the log likelihood of all rows with its slope there."""

    u: Float[Array, " k"]
    value: Float[Array, ""]
    slope: Float[Array, " k"]


def climb(
    rows: Rows, family: Family, frame: Frame, free: np.ndarray, passes: int, rng: np.random.Generator
) -> tuple[np.ndarray, float, list[str]]:
    """The free numbers of the law at the top, averaged over the last window; the ELBO, and notes."""
    import optax

    window = STEPS * (-(-max(rows.n // rows.batch, LEAST_WINDOW) // STEPS))
    functions = (rows.log_prior, rows.log_likelihood)
    now, momentum = put(free), optax.scale_by_adam(b2=0.99).init(put(free))
    step, key, notes = FIRST_STEP, jr.key(int(rng.integers(2**31))), []
    earlier, noise_earlier, seen = -np.inf, 0.0, 0
    while True:
        anchor = _anchor(rows, family, frame, now)
        heights, places = [], []
        for index in rows.shuffled(window, rng):
            key, k_block = jr.split(key)
            batches = tuple(b.reshape(*index.shape, *b.shape[1:]) for b in rows.take(index.ravel()))
            now, momentum, elbos, place = _steps(
                functions,
                rows.space,
                family,
                frame,
                anchor,
                (now, momentum),
                batches,
                put(float(rows.n)),
                put(step),
                k_block,
            )
            heights.append(np.asarray(elbos))
            places.append(np.asarray(place))
        seen += window * rows.batch + rows.n
        later = np.concatenate(heights)[window // 2 :]
        elbo, noise = float(later.mean()), float(later.std(ddof=1) / np.sqrt(len(later)))
        gains = elbo - earlier > 2.0 * np.hypot(noise, noise_earlier) or not np.isfinite(elbo)
        mean_place = np.mean(places[len(places) // 2 :], axis=0)
        if not gains and step <= LAST_STEP:
            break
        if seen > passes * rows.n:
            notes.append(f"The ELBO was still settling after {passes} passes over the rows: raise passes.")
            break
        if not gains:
            step = max(SHRINK * step, LAST_STEP)
            now = put(mean_place)
        earlier, noise_earlier = elbo, noise
    if not np.isfinite(elbo):
        notes.append("The ELBO is not finite: the density is not finite where the law has mass.")
    return mean_place, elbo, notes


def _anchor(rows: Rows, family: Family, frame: Frame, free: Array) -> Anchor:
    """One pass over all rows."""
    u = _center(family, frame, free)
    value, slope = 0.0, np.zeros(u.shape)
    for first in range(0, rows.n, rows.batch):
        index = np.arange(first, min(first + rows.batch, rows.n))
        weight = np.zeros(rows.batch)
        weight[: len(index)] = 1.0
        index = np.concatenate([index, np.repeat(index[:1], rows.batch - len(index))])
        v, s = _total(rows.log_likelihood, rows.space, u, put(weight), rows.take(index))
        value, slope = value + float(v), slope + np.asarray(s)
    return Anchor(u, put(np.asarray(value)), put(slope))


@eqx.filter_jit
def _center(family: Family, frame: Frame, free: Float[Array, " p"]) -> Float[Array, " k"]:
    return family.law(frame, free)[0]


@eqx.filter_jit
def _total(function: Callable[..., Any], space: Space, u: Array, weight: Array, rows: tuple[Array, ...]) -> Any:
    """Σ wᵢ ℓᵢ(u) and its slope."""
    return jax.value_and_grad(lambda v: weight @ function(space.tree(v), *rows))(u)


@eqx.filter_jit
def _steps(
    functions: tuple[Callable[..., Any], Callable[..., Any]],
    space: Space,
    family: Family,
    frame: Frame,
    anchor: Anchor,
    state: tuple[Array, Any],
    batches: tuple[Array, ...],
    n: Float[Array, ""],
    step_size: Float[Array, ""],
    key: PRNGKeyArray,
) -> tuple[Array, Any, Float[Array, " s"], Float[Array, " p"]]:
    """A step of Adam for each minibatch: the numbers after it, all ELBOs, and the mean of the numbers on the way."""
    import optax

    log_prior, log_likelihood = functions
    adam = optax.scale_by_adam(b2=0.99)

    def elbo(free: Array, rows: tuple[Array, ...], key: PRNGKeyArray) -> Array:
        center, matrix, _ = family.law(frame, free)
        z = jr.normal(key, (PAIRS, matrix.shape[1]))
        still, root = jax.lax.stop_gradient((center, family.root(matrix)))
        whiten = solve_lower(root, jnp.eye(len(root)))
        constant = 0.5 * log_determinant(root) + 0.5 * len(root) * jnp.log(2 * jnp.pi)

        def chosen(u: Array) -> Array:
            return (n / rows[0].shape[0]) * log_likelihood(space.tree(u), *rows).sum()

        known, slope = jax.value_and_grad(chosen)(anchor.u)

        def height(u: Array) -> Array:
            rest = chosen(u) - known + anchor.value + (anchor.slope - slope) @ (u - anchor.u)
            log_q = -0.5 * jnp.square(whiten @ (u - still)).sum() - constant
            return log_prior(space.tree(u)) + params.log_jacobian(space.slots, u) + rest - log_q

        return jax.vmap(height)(center + jnp.concatenate([z, -z]) @ matrix.T).mean()

    def step(
        state: tuple[Array, Any], given: tuple[Any, PRNGKeyArray]
    ) -> tuple[tuple[Array, Any], tuple[Array, Array]]:
        free, momentum = state
        value, slope = jax.value_and_grad(elbo)(free, *given)
        direction, momentum = adam.update(jnp.where(jnp.isfinite(slope), slope, 0.0), momentum)
        return (free + step_size * direction, momentum), (value, free)

    count = batches[0].shape[0]
    (free, momentum), (elbos, places) = jax.lax.scan(step, state, (batches, jr.split(key, count)))
    return free, momentum, elbos, places.mean(0)
