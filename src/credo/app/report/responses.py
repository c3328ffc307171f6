"""What a generalized linear model expects, and how sure it is of that: expectations at draws of its weights."""

import numpy as np

from credo.core.checks import check_table
from credo.models.glm import GLM
from credo.models.linear.statistics import design

DRAWS = 1000


def responses(belief: GLM, x: np.ndarray, exposure: float = 1.0) -> np.ndarray:
    """E[y | u, x] at draws of u: (s, m) counts or probabilities of the second class; of more classes (s, m, k).

    The draws come in pairs around the center, the same for every call.
    """
    law, likelihood = belief.law, belief.likelihood
    assert law is not None and law.root is not None
    z = np.random.default_rng(0).normal(size=(DRAWS // 2, law.center.shape[0])) @ np.asarray(law.root).T
    u = (np.asarray(law.center) + np.concatenate([z, -z]))[:, likelihood.size :]
    phi = np.asarray(design(belief.features, check_table(x, "X"), belief.intercept is not None))
    weights = u.reshape(DRAWS, phi.shape[1], likelihood.width)
    eta = np.einsum("mq,sqc->smc", phi, weights)
    if likelihood.counts:
        eta = eta + np.log(exposure)
    return np.asarray(likelihood.mean(eta if likelihood.vector else eta[..., 0]))
