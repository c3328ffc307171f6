"""Draws of functions of time: draws of the prior, each conditioned on its own outcomes by filtering.

    f(x) = m(x) + g₀(x) + E[g(x) | y - m - g₀ - ε],   g₀ ~ GP(0, k),  ε ~ N(0, noise)

Matheron's rule: exact but for the random features of g₀, in O(n) for each function. Durbin & Koopman (2002), "A simple
and efficient simulation smoother for state space time series analysis".
"""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.pytrees import changed
from credo.models.gp.belief import GP
from credo.models.gp.state_space.belief import StateSpaceGP


class SmoothedDraws(eqx.Module):
    """n functions: call them with times (m, 1) for their values (n, m)."""

    members: tuple[StateSpaceGP, ...]
    """After the outcomes that each function is conditioned on."""
    prior: Any
    """g₀."""

    @property
    def n(self) -> int:
        """How many functions these are."""
        return len(self.members)

    def __call__(self, x: object) -> Float[Array, "n m"]:
        """The values of each function at the times x."""
        table = self.members[0].queries(x)
        known = np.stack([np.asarray(member.predict(table).mean) for member in self.members])
        return np.asarray(self.prior(table)) + known


def draw(belief: StateSpaceGP, n: int, features: int, seed: int) -> Any:
    """n functions of the belief; of the prior, where nothing was seen."""
    if belief.seen is None:
        return belief.as_gp().sample_functions(n, features=features, seed=seed, columns=1)
    x, _, scale, extra = belief.seen.cut()
    prior = GP(belief.prior.kernel, 0.0, 1.0).sample_functions(n, features=features, seed=seed, columns=1)
    noise = np.sqrt(float(belief.noise_variance()) * scale + extra)
    left = np.asarray(prior(x)) + noise * np.random.default_rng(seed).normal(size=(n, len(x)))
    y = np.asarray(belief.seen.y)
    whole = np.zeros((n, len(y)))
    whole[:, : len(x)] = left
    members = (belief.unconditioned().condition_on(changed(belief.seen, y=y - each)) for each in whole)
    return SmoothedDraws(tuple(members), prior)
