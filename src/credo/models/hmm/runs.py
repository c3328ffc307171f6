"""The passes of an HMM over its data, compiled: one program for each shape of data, whatever the numbers.

Models come as `Any`: with `start`, `transition`, `emission`, and `_law` and `_log_b` of the data.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int

from credo.models.hmm import passes
from credo.models.sequences import Sequences


def _forward(hmm: Any, data: Sequences) -> tuple[Array, Any]:
    log_b = hmm._log_b(data)
    return log_b, passes.filter_states(hmm._law(data), hmm.transition, log_b, data.first)


@eqx.filter_jit
def latest(hmm: Any, data: Sequences) -> Float[Array, " k"]:
    """p(z | x) at the last row."""
    probs = _forward(hmm, data)[1].probs
    return probs[jnp.sum(data.real) - 1]


@eqx.filter_jit
def filtered(hmm: Any, data: Sequences) -> tuple[Array, Array]:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁)."""
    _, filtered = _forward(hmm, data)
    return filtered.probs, filtered.increments


@eqx.filter_jit
def smoothed(hmm: Any, data: Sequences) -> Float[Array, "t k"]:
    """p(zₜ | x₁…x_T)."""
    return passes.smooth_states(hmm.transition, _forward(hmm, data)[1].probs, data.first)


@eqx.filter_jit
def lagged(hmm: Any, data: Sequences, lag: Int[Array, ""]) -> Float[Array, "t k"]:
    """p(zₜ | x₁…xₜ₊lag)."""
    log_b, filtered = _forward(hmm, data)
    return passes.smooth_lagged(hmm.transition, log_b, filtered.probs, data.first, lag)


@eqx.filter_jit
def best(hmm: Any, data: Sequences) -> Int[Array, " t"]:
    """The most probable path."""
    return passes.most_likely_states(hmm._law(data), hmm.transition, hmm._log_b(data), data.first)


@eqx.filter_jit
def pairs(hmm: Any, data: Sequences) -> Float[Array, "s k k"]:
    """p(zₜ, zₜ₊₁ | x₁…x_T), as if all rows were of one sequence."""
    probs = _forward(hmm, data)[1].probs
    return passes.pair_probs(hmm.transition, probs, passes.smooth_states(hmm.transition, probs, data.first))


@eqx.filter_jit
def paths(key: Any, hmm: Any, data: Sequences, n: int) -> Int[Array, "n t"]:
    """n paths from p(z₁…z_T | x₁…x_T)."""
    return passes.sample_states(key, hmm.transition, _forward(hmm, data)[1].probs, data.first, n)


@eqx.filter_jit
def pushed(law: Float[Array, " k"], transition: Float[Array, "k k"], steps: int) -> Float[Array, "m k"]:
    """law, law P, law P², …"""
    return jax.lax.scan(lambda p, _: (p @ transition, p), law, None, length=steps)[1]


@eqx.filter_jit
def simulated(key: Any, hmm: Any, law: Float[Array, " k"], n: int, inputs: Any) -> tuple[Array, Array]:
    """n states from a law of the first one, and what they show."""
    k_first, k_rest, k_shown = jr.split(key, 3)
    log_p = jnp.log(hmm.transition)

    def step(z: Array, key: Any) -> tuple[Array, Array]:
        return jr.categorical(key, log_p[z]), z

    _, path = jax.lax.scan(step, jr.categorical(k_first, jnp.log(law)), jr.split(k_rest, n))
    return path, hmm.emission.sample(k_shown, path, inputs)
