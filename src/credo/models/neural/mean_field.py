"""Bayes by backprop: a normal law of every weight, learned by gradient with local reparametrization.

    q(θ) = Πⱼ N(θⱼ | mⱼ, sⱼ²),    ELBO = Σᵢ E_q[log p(yᵢ | f(xᵢ; θ))] - KL(q ‖ N(0, 1/α))
    KL = ½ Σⱼ [α (mⱼ² + sⱼ²) - 1 - log α sⱼ²]

Not weights are drawn but what a layer makes of them, for each row anew, which has far less noise:

    h W + b ~ N(h M + m_b, h² S² + s_b²)    element by element

Blundell, Cornebise, Kavukcuoglu & Wierstra (2015), "Weight uncertainty in neural networks"; Kingma, Salimans & Welling
(2015), "Variational dropout and the local reparameterization trick". Doubt of this form is too narrow between clusters
of rows, for weights are taken as independent.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, Key, PRNGKeyArray

from credo.core.arrays import Array, host
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.models.neural.belief import Neural, Rows
from credo.models.neural.methods import Training
from credo.models.neural.network import Network
from credo.models.neural.outcomes import Outcome
from credo.models.neural.training import OPTIMIZERS, batches, exploded, schedules

START = 0.03
"""The deviation of each weight at the start."""


@dataclass(frozen=True)
class BayesByBackprop(Training):
    """Independent normal weights under which the evidence lower bound (ELBO) is highest.

    Args:
        members: networks drawn from the law, which stand for it in predictions.
    """

    members: int = 50

    def __post_init__(self) -> None:
        check_count(self.members, "members")

    def trained(self, belief: Neural, statistics: Rows) -> Neural:
        """The belief with draws of the law."""
        seen = belief.all_rows(statistics)
        belief, (scaling, x, t) = belief.sized(len(seen.y)), belief.scaled(seen)
        network = belief.network(x.shape[1])
        if not isinstance(network, Network):
            raise DataError(
                'BayesByBackprop is for layers=(…), found a network of your own; use Variational("meanfield")'
            )
        mean, deviation = climb(network, belief, x, t)
        z = np.random.default_rng(belief.seed + 1).normal(size=(self.members, network.size))
        return belief.having(seen, scaling, mean + deviation * z, np.full(self.members, 1 / self.members))


def climb(
    network: Network, belief: Neural, x: Float[Array, "n d"], t: Float[Array, " n"]
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """The means and deviations of the weights."""
    rng, settings, n = np.random.default_rng(belief.seed), belief.settings, len(t)
    law = np.stack([network.start(1, rng)[0], np.full(network.size, np.log(START))])
    rates, betas = schedules(settings, settings.steps)
    index = batches(np.arange(n), settings.steps, min(settings.batch, n), rng)
    keys = jr.split(jr.key(belief.seed), settings.steps)
    shares = (np.asarray(belief.precision), np.asarray(1.0 / n))
    found = host(_climb(law, network, belief.law, x, t, index, keys, rates, betas, *shares, settings.optimizer))
    if not np.all(np.isfinite(found)):
        raise exploded()
    return found[0], np.exp(found[1])


def drawn(key: PRNGKeyArray, network: Network, law: Float[Array, "2 p"], x: Float[Array, "n d"]) -> Float[Array, "n o"]:
    """f(x) with each row's pre-activations drawn."""
    h = x
    layers = zip(network.layers(law[0]), network.layers(jnp.exp(2 * law[1])), strict=True)
    for i, ((mean, bias), (variance, of_bias)) in enumerate(layers):
        z = jr.normal(jr.fold_in(key, i), (h.shape[0], mean.shape[1]))
        h = h @ mean + bias + jnp.sqrt(h**2 @ variance + of_bias) * z
        h = h if i == len(network.pairs) - 1 else jnp.tanh(h)
    return h


def divergence(law: Float[Array, "2 p"], precision: Float[Array, ""]) -> Float[Array, ""]:
    """KL(q ‖ N(0, 1/α))."""
    mean, log_deviation = law
    square = jnp.exp(2 * log_deviation)
    return 0.5 * jnp.sum(precision * (mean**2 + square) - 1 - jnp.log(precision) - 2 * log_deviation)


@eqx.filter_jit
def _climb(
    law: Float[Array, "2 p"],
    network: Network,
    outcome: Outcome,
    x: Float[Array, "n d"],
    t: Float[Array, " n"],
    index: Int[Array, "s b"],
    keys: Key[Array, " s"],
    rates: Float[Array, " s"],
    betas: Float[Array, " s"],
    precision: Float[Array, ""],
    share: Float[Array, ""],
    optimizer: str,
) -> Float[Array, "2 p"]:
    """Steps on minibatches."""

    def loss(law: Array, key: PRNGKeyArray, rows: Array, beta: Array) -> Array:
        f = drawn(key, network, law, x[rows])
        return outcome.loss(f, t[rows], beta).mean() + share * divergence(law, precision)

    def step(carry: Any, at: Any) -> Any:
        (law, moments), (key, rows, rate, beta) = carry, at
        update, moments = OPTIMIZERS[optimizer].update(jax.grad(loss)(law, key, rows, beta), moments)
        return (law - rate * update, moments), None

    start = jnp.asarray(law)
    (law, _), _ = jax.lax.scan(step, (start, OPTIMIZERS[optimizer].init(start)), (keys, index, rates, betas))
    return law
