"""Draws of a future: successive states, and what each of them shows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import Array
from credo.core.gaussian import Gaussian
from credo.core.predictive import Predictive
from credo.models.nonlinear.laws import Cloud
from credo.models.nonlinear.method import FINE, OBSERVE, STEP
from credo.models.nonlinear.model import Dynamics, noise_root


@eqx.filter_jit
def draw_future(
    key: PRNGKeyArray,
    model: Dynamics,
    before: Gaussian | Cloud | None,
    first: Bool[Array, " s"],
    inputs: Float[Array, "s c"] | None,
) -> tuple[Float[Array, "s n"], Float[Array, "s p"], Int[Array, " s"]]:
    """States, outcomes and what was wrong with each; the state of a `first` row is drawn from the start."""
    k_before, k_steps = jr.split(key)

    def step(z: Float[Array, " n"], row: tuple[Array, Array, Array | None]) -> tuple[Array, tuple[Array, Array, Array]]:
        own, fresh, u = row
        k_move, k_show = jr.split(own)
        z = jax.lax.cond(fresh, lambda: model.draw_start(k_move, 1, u)[0], lambda: model.move(k_move, z[None], u)[0])
        x = _outcome(k_show, model, z, u)
        status = jnp.where(~jnp.isfinite(z).all(), STEP, jnp.where(jnp.isfinite(x).all(), FINE, OBSERVE))
        return z, (z, x, status)

    origin = jnp.zeros(model.states) if before is None else _drawn(k_before, before)
    return jax.lax.scan(step, origin, (jr.split(k_steps, first.shape[0]), first, inputs))[1]


def _drawn(key: PRNGKeyArray, law: Gaussian | Cloud) -> Float[Array, " n"]:
    """A state from the law of the latest one."""
    if isinstance(law, Cloud):
        return law.particles[jr.categorical(key, law.log_weights)]
    return law.mean + noise_root(law.covariance) @ jr.normal(key, law.mean.shape)


def _outcome(key: PRNGKeyArray, model: Dynamics, z: Float[Array, " n"], u: Array | None) -> Float[Array, " p"]:
    """x ~ p(x | z, u)."""
    shown = model.shown(z, u)
    if isinstance(shown, Predictive):
        return jnp.atleast_1d(jnp.asarray(shown.draw(key, 1)[0], float))
    root, mean = noise_root(model.noise_for("simulate")), model.outcome(z, u)
    return mean + root @ jr.normal(key, mean.shape)
