"""Von Mises emissions: angles around a direction that depends on the state."""

from typing import Any, NamedTuple, NoReturn

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from credo.core.arrays import put
from credo.core.errors import DataError
from credo.core.params import known, positive, real
from credo.core.pytrees import changed
from credo.models.densities.base import ALMOST_NONE, Emission, check_entries, check_weak, needed, sizes
from credo.models.densities.directions import (
    LEAST,
    MOST,
    Directions,
    concentration_of,
    draw_angles,
    log_density,
    log_i0,
    wrapped,
)
from credo.models.densities.moments import add_columns, weighted_sums

STRENGTH = 0.01
NODES = 2049


class Resultants(NamedTuple):
    """Σ w, Σ w cos x and Σ w sin x over the seen entries, for each state and column."""

    mass: Float[Array, "k d"]
    cosine: Float[Array, "k d"]
    sine: Float[Array, "k d"]


class VonMises(Emission):
    """xₜⱼ | zₜ = k ~ VonMises(directionₖⱼ, concentrationₖⱼ), angles in radians.

    The conjugate prior is p(μ, κ) ∝ I₀(κ)^(-c), the likelihood of `prior` = c observations that point nowhere
    (Guttorp & Lockhart, 1988): the mode is A(κ) = R/(n + c), the direction is that of the resultant. It cannot
    be averaged in closed form, so there is no variational Bayes for it; Gibbs draws κ by inversion on a grid.

    Args:
        direction: (k, d), or (k,) for one column; None to begin with clusters on the circle.
        concentration: κ of the same shape.
        prior: "weak" (c = 0.01), None, or c > 0.
    """

    states: int | None = eqx.field(static=True)
    columns: int | None = eqx.field(static=True)
    direction: Float[Array, "k d"] | None = real()
    concentration: Float[Array, "k d"] | None = positive(low=LEAST, high=MOST)
    prior: Float[Array, ""] | None = known()

    def __init__(self, direction: Any = None, concentration: Any = None, *, prior: Any = "weak") -> None:
        check_weak(prior, int, float)
        self.prior = None if prior is None else put(np.asarray(STRENGTH if isinstance(prior, str) else prior, float))
        if self.prior is not None and not float(self.prior) > 0:
            raise DataError(f"prior must be a positive number of observations, found {prior!r}")
        self.states = self.columns = self.direction = self.concentration = None
        for name, given in (("direction", direction), ("concentration", concentration)):
            if given is not None:
                table = np.asarray(given, dtype=float)
                table = table[:, None] if table.ndim == 1 else table
                if table.ndim != 2 or not np.isfinite(table).all() or (self.states or len(table)) != len(table):
                    raise DataError(f"{name} must be a table of finite numbers (states, columns), found {given!r}")
                setattr(self, name, put(table))
                self.states, self.columns = table.shape
        if self.concentration is not None and not bool(jnp.all(self.concentration > 0)):
            raise DataError(f"concentration must be positive, found {concentration!r}")

    def check(self, x: np.ndarray, seen: np.ndarray) -> None:
        """Angles are in radians, within one turn to either side of zero."""
        check_entries(seen & (np.abs(x) > 2 * np.pi), x, "angles in radians from -2π to 2π (are these degrees?)")

    def prepare(self, x: np.ndarray, seen: np.ndarray, inputs: np.ndarray | None, seed: int) -> "VonMises":
        """Directions of clusters of (cos x, sin x), concentrations from the spread within them."""
        from credo.models.densities.gaussian import clusters

        k, d = sizes(self)
        changes: dict[str, Any] = {}
        rows = np.where(seen, x, 0.0)[seen.any(1)]
        flat = np.concatenate([np.cos(rows), np.sin(rows)], axis=1)
        centers, within = clusters(flat, k, np.zeros(2 * d), np.ones(2 * d), seed)
        if self.direction is None:
            changes["direction"] = put(np.arctan2(centers[:, d:], centers[:, :d]))
        if self.concentration is None:
            spread = np.minimum(within[:d] + within[d:], 0.99)  # 1 - R²
            changes["concentration"] = put(np.broadcast_to(1 / spread, (k, d)).copy())
        return changed(self, **changes)

    def log_prob(
        self,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Float[Array, "t k"]:
        """Σⱼ κ cos(x - μ) - log 2πI₀(κ)."""

        # cos(x - μ) = cos x cos μ + sin x sin μ would be faster and, for κ > 1e4, wrong in the sixth digit.
        def term(mean: Array, kappa: Array, x: Array, s: Array) -> Array:
            return jnp.where(s[:, None], log_density(x[:, None], mean, kappa), 0.0)

        return add_columns(term, x.shape[1], *self._parameters, x, seen)

    def expect(
        self,
        x: Float[Array, "t d"],
        seen: Bool[Array, "t d"],
        weight: Float[Array, "t k"],
        inputs: Float[Array, "t c"] | None = None,
        *,
        complete: bool = False,
    ) -> Resultants:
        """The resultant vectors."""

        def features(x: Array, seen: Array) -> Array:
            s = seen.astype(x.dtype)
            return jnp.concatenate([s, s * jnp.cos(x), s * jnp.sin(x)], axis=1)

        return Resultants(*jnp.split(weighted_sums(weight, features, x, seen), 3, axis=1))

    def maximize(self, statistics: Resultants) -> "VonMises":
        """The direction of the resultant, and A(κ) = R/(n + c)."""
        direction, concentration = self._parameters
        visited = statistics.mass > ALMOST_NONE
        total = statistics.mass + (0.0 if self.prior is None else self.prior)
        length = jnp.hypot(statistics.cosine, statistics.sine)
        found = concentration_of(length / jnp.where(total > 0, total, 1.0))
        angle = jnp.arctan2(statistics.sine, statistics.cosine)
        return changed(
            self,
            direction=jnp.where(visited & (length > 0), angle, direction),
            concentration=found if self.prior is not None else jnp.where(visited, found, concentration),
        )

    def log_prior(self) -> Float[Array, ""]:
        """-c Σ log I₀(κ)."""
        return jnp.zeros(()) if self.prior is None else -self.prior * log_i0(self._parameters[1]).sum()

    def draw(self, key: PRNGKeyArray, statistics: Resultants) -> "VonMises":
        """κ from p(κ) ∝ I₀(κR) I₀(κ)^(-n-c) by inversion on a grid, then μ | κ ~ VonMises(direction of R, κR)."""
        k_kappa, k_angle = jr.split(key)
        n = statistics.mass + needed(self.prior, "a draw of the parameters")
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

    def believe(self, statistics: Resultants) -> NoReturn:
        """There is no conjugate q: `DataError`."""
        _no_variational_bayes()

    def expected_log_prob(self, q: Any, x: Any, seen: Any, inputs: Any = None, *, complete: bool = False) -> NoReturn:
        """There is no conjugate q: `DataError`."""
        _no_variational_bayes()

    def divergence(self, q: Any) -> NoReturn:
        """There is no conjugate q: `DataError`."""
        _no_variational_bayes()

    def center(self, q: Any) -> NoReturn:
        """There is no conjugate q: `DataError`."""
        _no_variational_bayes()

    def sample(
        self, key: PRNGKeyArray, states: Int[Array, " t"], inputs: Float[Array, "t c"] | None = None
    ) -> Float[Array, "t d"]:
        """Angles in (-π, π]."""
        direction, concentration = self._parameters
        return draw_angles(key, direction[states], concentration[states])

    def predictive(self, probs: Float[Array, "m k"], inputs: Float[Array, "m c"] | None = None) -> Directions:
        """A mixture of von Mises distributions at each time; for d > 1 one for each column, of shape (m, d)."""
        direction, concentration = (p[:, 0] if p.shape[1] == 1 else p.T for p in self._parameters)
        shape = (probs.shape[0], *direction.shape)
        return Directions(probs, jnp.broadcast_to(wrapped(direction), shape), jnp.broadcast_to(concentration, shape))

    @property
    def _parameters(self) -> tuple[Float[Array, "k d"], Float[Array, "k d"]]:
        if self.direction is None or self.concentration is None:
            raise DataError("the emission VonMises lacks parameters; give them, or prepare it with data")
        return self.direction, self.concentration


def _no_variational_bayes() -> NoReturn:
    raise DataError("von Mises emissions have no conjugate posterior to average over; choose EM, gradient or Gibbs")
