"""Where Laplace's approximation of a generalized linear model fails, it is seen, and a better normal law takes over.

    E[u] - û ≈ -½ H⁻¹ ∂log|H|/∂u

is how far the mean of the posterior is from its mode, to first order: Tierney & Kadane (1986), "Accurate approximations
for posterior moments and marginal densities". Where classes are nearly separable it is several standard deviations:
the likelihood is flat on one side of the mode and steep on the other, the curvature at the mode tells the flat side
only, and predictions become far too unsure. The law of the highest ELBO (`Variational`) then fits much better.
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from credo.core.errors import NotConvergedWarning
from credo.infer.variational import Variational
from credo.models.glm.evidence import log_det_gradient
from credo.models.glm.newton import Rows

SKEWED = 0.7
"""How many standard deviations the mean of a number may be from its mode."""
MOST = 256
"""The most numbers whose law is sought by optimization without being asked for."""
METHOD = Variational(tolerance=0.2, draws=256, max_draws=512, max_steps=150)


def skewness(belief: Any, conditioned: Any, rows: Rows) -> Float[np.ndarray, " k"]:
    """(E[u] - û)/sd of every number, to first order."""
    root, mode = np.asarray(conditioned.law.root), np.asarray(conditioned.law.center)
    covariance = root @ root.T
    shift = -0.5 * covariance @ log_det_gradient(belief.before(rows), rows.on_host(), mode, covariance)
    return shift / np.sqrt(np.diagonal(covariance))


def refined(belief: Any, conditioned: Any, rows: Rows) -> Any:
    """`conditioned`, `belief` after the rows by Laplace's approximation; or a better one where that is poor."""
    worst = float(np.abs(skewness(belief, conditioned, rows)).max())
    if not worst > SKEWED:
        return conditioned
    if conditioned.law.center.shape[0] > MOST:
        warnings.warn(
            f"the posterior is skewed (its mean is about {worst:.1f} standard deviations from its mode; classes "
            "that are nearly separable, perhaps): Laplace's approximation is too unsure. Give a tighter prior, or "
            "condition with using=credo.infer.Variational('lowrank') or NUTS()",
            NotConvergedWarning,
            stacklevel=4,
        )
        return conditioned
    return conditioned._with(law=None).given(METHOD.run(belief.target(rows)))
