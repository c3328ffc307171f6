"""A network trained for a decision's own loss, in the place of a likelihood and a decision that follows from it.

    likelihood, then decision    a(x) = argmin_a E[L(a, Y) | x, data]          one belief, any loss
    end to end                   a(·) = argmin_θ 1/n Σᵢ L(a(xᵢ; θ), yᵢ)        one network for each loss

The second spends all its units on what the loss asks for, and needs no law of the noise; but it says nothing of doubt,
and another price is another training. Several networks are trained at once and their actions averaged: of a convex loss
the mean action costs at most the mean of their costs (Jensen).
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, Numeric, host
from credo.core.checks import check_table
from credo.core.errors import DataError
from credo.core.predictive import Predictive
from credo.decide.losses import CostMatrix, IntervalLoss, Loss, ZeroOne
from credo.models.neural import Neural
from credo.models.neural.network import Architecture, Network
from credo.models.neural.outcomes import Outcome
from credo.models.neural.scaling import Scaling
from credo.models.neural.training import train

MEMBERS = 5


class LossOutcome(Outcome):
    """A network's output as an action: what training makes small is its loss."""

    price: Loss
    shift: Float[Array, ""]
    scale: Float[Array, ""]
    unit: Float[Array, ""]
    """What the best single action for all rows costs."""

    @property
    def width(self) -> int:
        """The action."""
        return 1

    def log_prob(self, f: Float[Array, "*n o"], y: Float[Array, "..."]) -> Float[Array, "*n"]:
        """-L(a, y), in units of the loss without inputs."""
        return -self.price(self.shift + self.scale * f[..., 0], self.shift + self.scale * y) / self.unit

    def mixed(self, weights: Float[Array, " k"], f: Float[Array, "k m o"], shift: Array, scale: Array) -> Predictive:
        """Refused."""
        raise DataError("a network trained for a loss predicts no outcomes, it decides: call decide(X)")

    def information(self, f: Float[Array, "*n o"]) -> Float[Array, "*n o o"]:
        """Refused."""
        raise DataError("a network trained for a loss has no likelihood; credo.fit(credo.Neural(), X, y) has one")


class TrainedForLoss(eqx.Module):
    """Networks that map inputs to actions; see `end_to_end`."""

    loss: Loss
    network: Architecture
    members: Float[Array, "k p"]
    scaling: Scaling
    inputs: tuple[str, ...] | None = eqx.field(static=True)

    def decide(self, X: Numeric) -> Float[Array, " m"]:
        """The action for each row: the mean of the networks'."""
        f = self.network(self.members, self.scaling.inputs(check_table(X, "X", self.inputs)))
        return self.scaling.shift + self.scaling.scale * f[..., 0].mean(0)

    def cost(self, X: Numeric, y: Numeric) -> Float[Array, " m"]:
        """What the actions cost where y happened."""
        return self.loss(self.decide(X), np.asarray(y, dtype=float))


def end_to_end(belief: Neural, X: Numeric, y: Numeric, *, loss: Loss) -> TrainedForLoss:
    """Networks of a belief's shape (layers, precision, steps, …), trained so that their actions cost little.

    Args:
        belief: a `Neural` about numbers, of which the shape and the settings of training are taken.
        X: inputs.
        y: what happened.
        loss: of real actions, e.g. `credo.losses.Asymmetric(under=5, over=1)`.
    """
    if not isinstance(belief, Neural) or belief.outcome != "number" or belief.own is not None:
        raise DataError('end_to_end takes a Neural with layers and outcome="number", found something else')
    if not isinstance(loss, Loss) or isinstance(loss, CostMatrix | IntervalLoss | ZeroOne):
        raise DataError(f"loss must be one of real actions, e.g. Asymmetric(5, 1), found {type(loss).__name__}")
    told = belief.told(X, y)
    rows = told.statistics(X, y)
    told, (scaling, x, t) = told.sized(len(rows.y)), told.scaled(rows)
    # The best single action: the cheapest of the outcomes' quantiles and their mean.
    levels = np.append(np.quantile(rows.y, np.linspace(0, 1, 101)), np.mean(rows.y))
    unit = min(float(np.mean(loss(level, rows.y))) for level in levels)
    outcome = LossOutcome(loss, scaling.shift, scaling.scale, np.asarray(unit or 1.0))
    network = Network((x.shape[1], *told.layers, 1))
    own, precision = [np.arange(len(t))] * MEMBERS, told.precision * np.ones(MEMBERS)
    found = train(network, outcome, x, t, own, precision, told.settings)
    return TrainedForLoss(loss, network, host(found.last), scaling, told.inputs)
