"""Training many networks at once: Adam, or another optimizer, on minibatches, side by side in one compiled program.

    θ ← θ - ηₜ Adam(∇[1/m Σ_batch loss(f(xᵢ; θ), yᵢ) + α/2n ‖θ‖²]),    ηₜ = η ½(1 + cos(πt/T))

The mean over a batch of m rows stands for that over all n; n times it is the log joint with the prior N(0, 1/α) of each
weight (weight decay). The β of the loss falls from 1 to 0 in the first half, so that the end is the MAP objective.
A network has its own rows to learn from, its own decay and its own initial values; steps come in chunks, with the
horizon T as a number, so that data of one size share a program. A step size that is a `Schedule` takes the place of
the cosine, and is held against Robbins & Monro's conditions. Kingma & Ba (2015); Loshchilov & Hutter (2017).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from credo.core.arrays import Array, host, is_traced
from credo.core.errors import NotConverged
from credo.core.padding import bucket, pad_rows
from credo.infer.progress import Progress, Show
from credo.infer.schedules import Schedule
from credo.models.neural.network import Architecture
from credo.models.neural.outcomes import Outcome

CHUNK = 100
"""Steps between two looks at the rows that were held out."""
LOOKS = 12
"""How often held-out rows are looked at where rows are many."""
PASSES, VISITS = 40, 2_000_000
"""Over many rows, and the most rows that a network is shown, again and again."""
MANY = 5000
"""From so many rows on networks are larger, batches too, and numbers have single precision."""
HALVINGS = 3
"""How often the step is halved where training explodes."""

OPTIMIZERS = {"adam": optax.scale_by_adam(), "momentum": optax.trace(0.9), "sgd": optax.identity()}
"""What makes a step, but for its size, of a gradient."""


class Size(NamedTuple):
    """What is not given to a belief: layers and training for so many rows."""

    layers: tuple[int, ...]
    steps: int
    batch: int
    step_size: float

    @classmethod
    def of(cls, n: int) -> "Size":
        """Fifty units and 3,000 steps; of many rows two layers, and some forty passes."""
        if n <= MANY:
            return cls((50,), 3000, 32, 0.02)
        return cls((128, 128), -(-min(PASSES * n, VISITS) // 256), 256, 0.01)


class Settings(NamedTuple):
    """How networks are trained."""

    steps: int
    batch: int
    step_size: float | Schedule
    seed: int
    optimizer: str = "adam"
    clip: float | None = None
    """The longest gradient of a network: longer ones are shortened to it. Pascanu, Mikolov & Bengio (2013)."""
    start: Float[np.ndarray, "k p"] | None = None
    """Where networks begin that were trained before."""
    floors: Float[np.ndarray, " k"] | None = None
    """Where the β of each network ends; zero where nothing is said."""


class Trained(NamedTuple):
    """Networks at the end, and where held-out rows were most probable; with the log density of every row."""

    last: Float[Array, "k p"]
    best: Float[Array, "k p"]
    log_last: Float[Array, "k n"]
    log_best: Float[Array, "k n"]
    shrunk: float
    """What the step was multiplied by where training exploded; 1 where it did not."""
    steps: int
    """How many were made: fewer than asked for where the user stopped them."""


@eqx.filter_jit
def advance(
    state: Any,
    network: Architecture,
    outcome: Outcome,
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    index: Int[Array, "s k b"],
    masks: Float[Array, "s k p"] | None,
    decay: Float[Array, " k"],
    rates: Float[Array, " s"],
    betas: Float[Array, "s *k"],
    optimizer: str = "adam",
    clip: Array | None = None,
) -> Any:
    """So many steps; the new state, and the log density of every row under every network."""

    def loss(theta: Array, rows: Array, mask: Array | None, beta: Array) -> Array:
        own = theta if mask is None else theta * mask
        each = outcome.loss(network(own, x[rows]), y[rows], beta)
        return jnp.sum(each.mean(-1) + 0.5 * decay * (theta**2).sum(-1))

    def step(carry: Any, at: Any) -> Any:
        (theta, moments), (rate, beta, rows, mask) = carry, at
        slope = jax.grad(loss)(theta, rows, mask, beta)
        if clip is not None:
            slope = slope * jnp.minimum(1.0, clip / (jnp.linalg.norm(slope, axis=-1, keepdims=True) + 1e-300))
        update, moments = OPTIMIZERS[optimizer].update(slope, moments)
        return (theta - rate * update, moments), None

    state, _ = jax.lax.scan(step, state, (rates, betas, index, masks))
    return state, outcome.log_prob(network(state[0], x), y)


def train(
    network: Architecture,
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
    all are trained again with half the step; what does not help is refused.
    """
    shrunk = 1.0
    for _ in range(HALVINGS + 1):
        with Progress(None, "training networks") as say:
            found = _train(network, outcome, x, y, rows, precision, settings, masks, shrunk, say)
        if is_traced(found) or np.all(np.isfinite(found.log_last)):
            return found
        shrunk /= 2
    raise exploded(2 * shrunk)


def exploded(shrunk: float = 1.0) -> NotConverged:
    """What is said where smaller steps do not help."""
    smaller = f", also with {shrunk:g} times the step" if shrunk < 1 else ""
    return NotConverged(f"training exploded{smaller}; give a smaller step_size, or clip the gradient, e.g. clip=1.0")


def _train(
    network: Architecture,
    outcome: Outcome,
    x: Array,
    y: Array,
    rows: list[np.ndarray],
    precision: Array,
    settings: Settings,
    masks: Any,
    shrunk: float,
    say: Show,
) -> Trained:
    rng, k, n = np.random.default_rng(settings.seed), len(rows), x.shape[0]
    batch = min(settings.batch, min(map(len, rows)))
    chunk = min(CHUNK if n <= MANY else -(-settings.steps // LOOKS), settings.steps)
    chunks = max(1, -(-settings.steps // chunk))
    index = np.stack([batches(own, chunks * chunk, batch, rng) for own in rows], axis=1)
    decay = precision / np.asarray([len(own) for own in rows], dtype=float)
    theta = network.start(k, rng) if settings.start is None else np.asarray(settings.start)
    state: Any = (theta, OPTIMIZERS[settings.optimizer].init(jnp.asarray(theta)))
    rates, betas = schedules(settings, chunks * chunk)
    if settings.floors is not None:
        betas = np.maximum(betas[:, None], settings.floors)[..., None]
    clip = None if settings.clip is None else np.asarray(settings.clip)
    length = bucket(n)
    x, y = pad_rows(x, length), pad_rows(y, length)
    if n > MANY and not is_traced(x, y, precision):
        x, y, state, decay, rates, betas, clip = jax.tree.map(_single, (x, y, state, decay, rates, betas, clip))
    held = np.ones((k, n), dtype=bool)
    for j, own in enumerate(rows):
        held[j, own] = False
    look = bool(held.any()) and not is_traced(x, y, precision)
    best, log_best, highest = theta, None, np.full(k, -np.inf)
    log_last: Any = None
    done = 0
    for c in range(chunks):
        part = slice(c * chunk, (c + 1) * chunk)
        mask = None if masks is None else masks(rng, chunk)
        mask = mask if mask is None or x.dtype == float else _single(mask)
        pace = (shrunk * rates[part], betas[part])
        try:
            state, log_last = advance(
                state, network, outcome, x, y, index[part], mask, decay, *pace, settings.optimizer, clip
            )
        except KeyboardInterrupt:
            if log_last is None:
                raise
            break
        done = (c + 1) * chunk
        say((c + 1) / chunks, "training networks")
        log_last = host(log_last)[:, :n]
        if look:
            score = np.where(held, log_last, 0.0).sum(1) / np.maximum(held.sum(1), 1)
            better = score > highest
            highest = np.where(better, score, highest)
            best = np.where(better[:, None], np.asarray(state[0]), best)
            log_best = log_last if log_best is None else np.where(better[:, None], log_last, log_best)
    last, best, log_last, log_best = (_double(v) for v in (host(state[0]), best, log_last, log_best))
    return Trained(last, best if look else last, log_last, log_last if log_best is None else log_best, shrunk, done)


def schedules(settings: Settings, steps: int) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, " s"]]:
    """The size of every step, and β: from 1 to 0 in the first half; 0 where training goes on."""
    t, horizon = np.arange(float(steps)), float(steps)
    if isinstance(settings.step_size, Schedule):
        rates = np.asarray(settings.step_size(t), dtype=float)
    else:
        rates = 0.5 * settings.step_size * (1 + np.cos(np.pi * t / horizon))
    return rates, np.clip(1 - 2 * t / horizon, 0.0, 1.0) * (settings.start is None)


def batches(rows: np.ndarray, steps: int, batch: int, rng: np.random.Generator) -> Int[np.ndarray, "s b"]:
    """Minibatches: every row once, in random order, again and again."""
    passes = -(-steps * batch // len(rows))
    stream = rng.permuted(np.tile(rows, (passes, 1)), axis=1)
    return stream.ravel()[: steps * batch].reshape(steps, batch).astype(np.int32)


def _single(numbers: Array) -> Array:
    """In single precision, but for whole numbers: half the time."""
    return numbers.astype(np.float32) if jnp.issubdtype(numbers.dtype, jnp.floating) else numbers


def _double(numbers: Any) -> Any:
    """Back in double precision, which all else counts on."""
    return numbers if numbers is None or is_traced(numbers) else np.asarray(numbers, dtype=float)
