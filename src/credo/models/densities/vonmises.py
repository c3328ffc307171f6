"""Von Mises densities: angles around a direction that depends on the component."""

from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, namespace
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.params import constant, positive, real
from credo.core.pytrees import changed
from credo.models.densities import base, directions
from credo.models.densities.base import HasDraws, Inputs, Observed, require_prior
from credo.models.densities.clusters import clusters
from credo.models.densities.directions import LEAST, MOST, Directions, concentration_of, draw_angles, log_i0
from credo.models.densities.moments import add_columns, weighted_sums

STRENGTH = 0.01
NODES = 2049


class Resultants(NamedTuple):
    """Σ w, Σ w cos x and Σ w sin x over the seen entries, for each component and column."""

    mass: Float[Array, "k d"]
    cosine: Float[Array, "k d"]
    sine: Float[Array, "k d"]


class VonMises(HasDraws[Resultants]):
    """xⱼ | k ~ VonMises(directionₖⱼ, concentrationₖⱼ), angles in radians.

    The conjugate prior is p(μ, κ) ∝ I₀(κ)^(-c), the likelihood of `prior` = c observations that point nowhere
    (Guttorp & Lockhart, 1988): the mode is A(κ) = R/(n + c), the direction is that of the resultant. It cannot
    be averaged in closed form, so there is no variational Bayes for it; Gibbs draws κ by inversion on a grid.

    Args:
        direction: (k, d), or (k,) for one column; None to begin with clusters on the circle.
        concentration: κ of the same shape.
        prior: "weak" (c = 0.01), None, or c > 0.
    """

    direction: Float[Array, "k d"] | None = real()
    concentration: Float[Array, "k d"] | None = positive(low=LEAST, high=MOST)
    prior: Float[Array, ""] | None = constant()

    def __init__(
        self, direction: ArrayLike | None = None, concentration: ArrayLike | None = None, *, prior: object = "weak"
    ) -> None:
        weak, given = base.read_prior(prior, int, float)
        if given is not None and not given > 0:
            raise DataError(f"prior must be a positive number of observations, found {prior!r}")
        self.prior = None if prior is None else np.asarray(STRENGTH if weak else given, float)
        self.k = self.columns = self.direction = self.concentration = None
        for name, values in (("direction", direction), ("concentration", concentration)):
            if values is not None:
                table = base.parameter_table(values, name, positive=name == "concentration")
                if (self.k or len(table)) != len(table):
                    raise DataError(f"{name} must have a row for each of {self.k} components, found {len(table)}")
                setattr(self, name, table)
                self.k, self.columns = table.shape

    def check(self, data: Observed) -> None:
        """Angles are in radians, within one turn to either side of zero."""
        data.refuse(lambda x: np.abs(x) > 2 * np.pi, "angles in radians from -2π to 2π (are these degrees?)")

    def adapt(self, data: Observed, *, seed: int = 0) -> "VonMises":
        """Directions of clusters of (cos x, sin x), concentrations from the spread within them."""
        (k, d), (x, seen) = self.sizes, data[:2]
        changes: dict[str, object] = {}
        rows = np.where(seen, x, 0.0)[seen.any(1)]
        flat = np.concatenate([np.cos(rows), np.sin(rows)], axis=1)
        centers, within = clusters(flat, k, np.zeros(2 * d), np.ones(2 * d), seed)
        if self.direction is None:
            changes["direction"] = np.arctan2(centers[:, d:], centers[:, :d])
        if self.concentration is None:
            spread = np.minimum(within[:d] + within[d:], 0.99)  # 1 - R²
            changes["concentration"] = np.broadcast_to(1 / spread, (k, d)).copy()
        return changed(self, **changes)

    def log_prob(self, data: Observed) -> Float[Array, "n k"]:
        """Σⱼ κ cos(x - μ) - log 2πI₀(κ)."""
        xp = namespace(self._parameters, data)

        # cos(x - μ) = cos x cos μ + sin x sin μ would be faster and, for κ > 1e4, wrong in the sixth digit.
        def term(mean: Array, kappa: Array, x: Array, s: Array) -> Array:
            return xp.where(s[:, None], directions.log_density(x[:, None], mean, kappa), 0.0)

        return add_columns(term, self.sizes[1], *self._parameters, data.x, data.seen)

    def expected_statistics(self, data: Observed, weight: Float[Array, "n k"]) -> Resultants:
        """The resultant vectors."""
        xp = namespace(weight, data)

        def features(x: Array, seen: Array) -> Array:
            s = seen.astype(x.dtype)
            return xp.concatenate([s, s * xp.cos(x), s * xp.sin(x)], axis=1)

        return Resultants(*xp.split(weighted_sums(weight, features, data.x, data.seen), 3, axis=1))

    def maximize(self, statistics: Resultants) -> "VonMises":
        """The direction of the resultant, and A(κ) = R/(n + c)."""
        direction, concentration = self._parameters
        xp, visited = namespace(statistics, direction, concentration), statistics.mass > base.ALMOST_NONE
        total = statistics.mass + (0.0 if self.prior is None else self.prior)
        length = xp.hypot(statistics.cosine, statistics.sine)
        found = concentration_of(length / xp.where(total > 0, total, 1.0))
        angle = xp.arctan2(statistics.sine, statistics.cosine)
        return changed(
            self,
            direction=xp.where(visited & (length > 0), angle, direction),
            concentration=found if self.prior is not None else xp.where(visited, found, concentration),
        )

    def log_prior(self) -> Float[Array, ""]:
        """-c Σ log I₀(κ)."""
        return np.zeros(()) if self.prior is None else -self.prior * log_i0(self._parameters[1]).sum()

    def draw(self, key: PRNGKeyArray, statistics: Resultants) -> "VonMises":
        """κ from p(κ) ∝ I₀(κR) I₀(κ)^(-n-c) by inversion on a grid, then μ | κ ~ VonMises(direction of R, κR)."""
        k_kappa, k_angle = jr.split(key)
        n = statistics.mass + require_prior(self.prior, "a draw of the parameters")
        length = jnp.hypot(statistics.cosine, statistics.sine)
        mode = jnp.maximum(concentration_of(length / n), 1e-3)
        # In u = log κ the density is about Gaussian with curvature n κ² A'(κ) ≥ n κ²/(1 + κ)² / 2.
        scale = (1 + mode) / mode / jnp.sqrt(0.5 * n + 0.5)
        reach = jnp.arcsinh(30 / scale)
        t = jnp.linspace(-1.0, 1.0, NODES)[:, None, None] * reach
        u = jnp.clip(jnp.log(mode) + scale * jnp.sinh(t), np.log(LEAST), np.log(MOST))
        kappa = jnp.exp(u)
        log_p = log_i0(kappa * length) - n * log_i0(kappa) + u
        density = jnp.exp(log_p - log_p.max(0))
        steps = 0.5 * (density[1:] + density[:-1]) * (u[1:] - u[:-1])
        cumulative = jnp.concatenate([jnp.zeros((1, *n.shape)), jnp.cumsum(steps, 0)])
        target = jr.uniform(k_kappa, n.shape) * cumulative[-1]
        at = jnp.clip((cumulative < target).sum(0), 1, NODES - 1)[None]
        low, high = (jnp.take_along_axis(cumulative, at - i, 0)[0] for i in (1, 0))
        left, right = (jnp.take_along_axis(u, at - i, 0)[0] for i in (1, 0))
        drawn = jnp.exp(left + (right - left) * (target - low) / jnp.where(high > low, high - low, 1.0))
        angle = jnp.arctan2(statistics.sine, statistics.cosine)
        direction = draw_angles(k_angle, angle, jnp.maximum(drawn * length, LEAST))
        return changed(self, direction=direction, concentration=drawn)

    def sample(self, key: PRNGKeyArray, which: Int[Array, " n"], inputs: Inputs = None) -> Float[Array, "n d"]:
        """Angles in (-π, π]."""
        direction, concentration = self._parameters
        return draw_angles(key, direction[which], concentration[which])

    def predictive(self, probs: Float[Array, "n k"], inputs: Inputs = None) -> Directions:
        """A mixture of von Mises distributions for each row; for d > 1 one for each column, of shape (n, d)."""
        each = [p[:, 0] if p.shape[1] == 1 else p.T for p in self._parameters]
        xp = namespace(each, probs)
        location, kappa = (xp.broadcast_to(p, (probs.shape[0], *p.shape)) for p in each)
        return Directions(probs, directions.wrapped(location), kappa)

    @property
    def _parameters(self) -> tuple[Float[Array, "k d"], Float[Array, "k d"]]:
        return self._known(self.direction), self._known(self.concentration)
