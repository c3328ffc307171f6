"""Training many networks at once: Adam on minibatches, side by side in one compiled program.

    θ ← θ - ηₜ Adam(∇[1/m Σ_batch loss(f(xᵢ; θ), yᵢ) + α/2n ‖θ‖²]),    ηₜ = η ½(1 + cos(πt/T))

The mean over a batch of m rows stands for that over all n; n times it is the log joint with the prior N(0, 1/α) of each
weight (weight decay). The β of the loss falls from 1 to 0 in the first half, so that the end is the MAP objective.
A network has its own rows to learn from, its own decay and its own initial values; steps come in chunks, with the
horizon T as a number, so that data of one size share a program. Kingma & Ba (2015); Loshchilov & Hutter (2017).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from credo.core.arrays import Array, host, is_traced
from credo.core.padding import bucket, pad_rows
from credo.models.neural.network import Network, Outcome

CHUNK = 100
"""Steps between two looks at the rows that were held out."""
HALVINGS = 3
"""How often the step is halved where training explodes."""

ADAM = optax.scale_by_adam()


class Settings(NamedTuple):
    """How networks are trained."""

    steps: int
    batch: int
    step_size: float
    seed: int


class Trained(NamedTuple):
    """Networks at the end, and where held-out rows were most probable; with the log density of every row."""

    last: Float[Array, "k p"]
    best: Float[Array, "k p"]
    log_last: Float[Array, "k n"]
    log_best: Float[Array, "k n"]
    step_size: float
    """With which it went well."""


@eqx.filter_jit
def advance(
    state: Any,
    network: Network,
    outcome: Outcome,
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    index: Int[Array, "s k b"],
    masks: Float[Array, "s k p"] | None,
    decay: Float[Array, " k"],
    first: Array,
    horizon: Array,
    step_size: Array,
) -> Any:
    """So many steps; the new state, and the log density of every row under every network."""

    def loss(theta: Array, rows: Array, mask: Array | None, beta: Array) -> Array:
        own = theta if mask is None else theta * mask
        each = outcome.loss(network(own, x[rows]), y[rows], beta)
        return jnp.sum(each.mean(-1) + 0.5 * decay * (theta**2).sum(-1))

    def step(carry: Any, at: Any) -> Any:
        (theta, moments), (t, rows, mask) = carry, at
        beta = jnp.clip(1 - 2 * t / horizon, 0.0, 1.0)
        update, moments = ADAM.update(jax.grad(loss)(theta, rows, mask, beta), moments)
        rate = 0.5 * step_size * (1 + jnp.cos(jnp.pi * jnp.minimum(t / horizon, 1.0)))
        return (theta - rate * update, moments), None

    times = first + jnp.arange(index.shape[0])
    state, _ = jax.lax.scan(step, state, (times, index, masks))
    return state, outcome.log_prob(network(state[0], x), y)


def train(
    network: Network,
    outcome: Outcome,
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    rows: list[np.ndarray],
    precision: Float[Array, " k"],
    settings: Settings,
    masks: Any = None,
) -> Trained:
    """Networks trained each on its own rows; others than these are held out.

    `masks(rng, s)` are multipliers (s, k, p) of the weights in each of s steps, for dropout. Where a network explodes
    all are trained again with half the step; what does not help is left as it is, for the caller to notice.
    """
    rate = settings.step_size
    for _ in range(HALVINGS + 1):
        found = _train(network, outcome, x, y, rows, precision, settings._replace(step_size=rate), masks)
        if is_traced(found) or np.all(np.isfinite(found.log_last)):
            return found
        rate /= 2
    return found


def _train(
    network: Network,
    outcome: Outcome,
    x: Array,
    y: Array,
    rows: list[np.ndarray],
    precision: Array,
    settings: Settings,
    masks: Any,
) -> Trained:
    rng, k, n = np.random.default_rng(settings.seed), len(rows), x.shape[0]
    batch = min(settings.batch, min(map(len, rows)))
    chunks = max(1, -(-settings.steps // CHUNK))
    chunk = min(CHUNK, settings.steps)
    index = np.stack([_batches(own, chunks * chunk, batch, rng) for own in rows], axis=1)
    decay = precision / np.asarray([len(own) for own in rows], dtype=float)
    theta = network.start(k, rng)
    state: Any = (theta, ADAM.init(jnp.asarray(theta)))
    length = bucket(n)
    x, y = pad_rows(x, length), pad_rows(y, length)
    held = np.ones((k, n), dtype=bool)
    for j, own in enumerate(rows):
        held[j, own] = False
    look = bool(held.any()) and not is_traced(x, y, precision)
    best, log_best, highest = theta, None, np.full(k, -np.inf)
    log_last: Any = None
    for c in range(chunks):
        part = slice(c * chunk, (c + 1) * chunk)
        mask = None if masks is None else masks(rng, chunk)
        numbers = (float(part.start), float(chunks * chunk), float(settings.step_size))
        first, horizon, rate = (np.asarray(v) for v in numbers)
        state, log_last = advance(state, network, outcome, x, y, index[part], mask, decay, first, horizon, rate)
        log_last = host(log_last)[:, :n]
        if look:
            score = np.where(held, log_last, 0.0).sum(1) / np.maximum(held.sum(1), 1)
            better = score > highest
            highest = np.where(better, score, highest)
            best = np.where(better[:, None], np.asarray(state[0]), best)
            log_best = log_last if log_best is None else np.where(better[:, None], log_last, log_best)
    last = host(state[0])
    return Trained(
        last, best if look else last, log_last, log_last if log_best is None else log_best, settings.step_size
    )


def _batches(rows: np.ndarray, steps: int, batch: int, rng: np.random.Generator) -> Int[np.ndarray, "s b"]:
    """Minibatches: every row once, in random order, again and again."""
    passes = -(-steps * batch // len(rows))
    stream = rng.permuted(np.tile(rows, (passes, 1)), axis=1)
    return stream.ravel()[: steps * batch].reshape(steps, batch).astype(np.int32)
