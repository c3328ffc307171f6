"""log p(y, θ) of a generalized linear model over {"weights": …} and the likelihood's own numbers, in natural units.

log p(y, θ) = log p(θ) + Σᵢ wᵢ log p(yᵢ | ηᵢ, ψ),    ηᵢ = φ(xᵢ)ᵀW + offsetᵢ
"""

import equinox as eqx
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, namespace
from credo.models.glm.newton import GaussianPrior, Rows
from credo.models.likelihoods import Likelihood

Numbers = dict[str, Array]


class LogPrior(eqx.Module):
    """log p(θ): a normal law of u = (ψ, vec W), or Laplace's of the weights with the scale `lasso`."""

    likelihood: Likelihood
    before: GaussianPrior
    lasso: Float[Array, ""] | None
    intercept: bool = eqx.field(static=True)

    def __call__(self, numbers: Numbers) -> Float[Array, ""]:
        """log p(θ)."""
        own, weights, xp = params.layout(self.likelihood), numbers["weights"], namespace(self, numbers)
        psi = [params.bijector(slot.constraint).inverse(numbers[slot.path]).reshape(-1) for slot in own]
        u = xp.concatenate([*psi, weights.reshape(-1)])
        value = self.before.terms(self.likelihood, u)[0] - params.log_jacobian(own, u)
        if self.lasso is None:
            return value
        free = weights[int(self.intercept) :]
        return value - xp.abs(free).sum() / self.lasso - free.size * xp.log(2 * self.lasso)


class RowLogLikelihood(eqx.Module):
    """wᵢ log p(yᵢ | ηᵢ, ψ) of some rows."""

    likelihood: Likelihood

    def __call__(
        self,
        numbers: Numbers,
        design: Float[Array, "m q"],
        y: Float[Array, " m"],
        weights: Float[Array, " m"],
        offset: Float[Array, " m"],
    ) -> Float[Array, " m"]:
        """One number for each row."""
        own = params.layout(self.likelihood)
        likelihood = params.replace(self.likelihood, {slot.path: numbers[slot.path] for slot in own})
        eta = design @ numbers["weights"] + (offset[:, None] if likelihood.vector else offset)
        return weights * likelihood.log_prob(eta, y)


def log_joint(numbers: Numbers, log_prior: LogPrior, rows: Rows) -> Float[Array, ""]:
    """log p(y, θ)."""
    each = RowLogLikelihood(rows.likelihood)(numbers, rows.design, rows.y, rows.weights, rows.offset)
    return log_prior(numbers) + each.sum()
