"""Gaussian processes of finitely many features: one formula, its evidence and gradient, a chunk of rows at a time.

    f(x) = a(x)ᵀw + g(x),  w ~ N(0, I),    q(x) = a(x)ᵀa(x) ≤ k(x, x)
    B = I + Σ aᵢaᵢᵀ/Dᵢ,   c = Σ aᵢrᵢ/Dᵢ,   w | y ~ N(B⁻¹c, B⁻¹)
    log p = -½ [n log 2π + Σ log Dᵢ + log |B| + Σ rᵢ²/Dᵢ - cᵀB⁻¹c] - ½ Σ tᵢ (kᵢᵢ - qᵢ)

D is the noise of a row; with `leftover="noise"` (FITC) it has kᵢᵢ - qᵢ, too; with `leftover="bound"` (VFE) t = 1/D,
else t = 0. Predictions add g, of variance k - q, or not (`residual`: SoR and random features have none). O(np²) work
and O(p²) memory. Quiñonero-Candela & Rasmussen (2005), "A unifying view of sparse approximate Gaussian process
regression"; Titsias (2009), "Variational learning of inducing variables in sparse Gaussian processes".
"""

from abc import abstractmethod
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.errors import NotPositiveDefinite
from credo.core.linalg import (
    demand,
    factorize,
    inverse,
    log_determinant,
    plus_diagonal,
    solve,
    solve_lower,
    solve_upper,
)
from credo.core.padding import bucket, pad_rows
from credo.core.pytrees import changed
from credo.models.gp import exact
from credo.models.gp.base import FunctionValues
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows, masked
from credo.models.gp.large.base import WeightSpaceGP, in_chunks, joined

KEPT = 2**25
"""The entries of the features of all rows that are kept between the two passes over them; more are computed twice."""


class Moments(eqx.Module):
    """What rows say about the weights: sums over them."""

    gram: Float[Array, "b p"]
    """Σ aᵢaᵢᵀ/Dᵢ, or its diagonals (`lattice.py`)."""
    cross: Float[Array, " p"]
    """Σ aᵢrᵢ/Dᵢ."""
    squares: Float[Array, ""]
    """Σ rᵢ²/Dᵢ."""
    log_noise: Float[Array, ""]
    """Σ log Dᵢ."""
    trace: Float[Array, ""]
    """Σ tᵢ (kᵢᵢ - qᵢ)."""
    n: Float[Array, ""]

    def __add__(self, other: "Moments") -> "Moments":
        return jax.tree.map(lambda a, b: a + b, self, other)

    def of_rows(self, n: Any, log_noise: Any) -> "Moments":
        """The same sums of so many rows."""
        return changed(self, n=np.asarray(n, float) if isinstance(n, int) else n, log_noise=log_noise)


class Weights(eqx.Module):
    """The weights after the rows: LLᵀ = B, and B⁻¹c."""

    root: Float[Array, "p p"]
    mean: Float[Array, " p"]
    moments: Moments


class Features(NamedTuple):
    """Rows as features: a, and k - q, never below zero."""

    a: Float[Array, "n p"]
    rest: Float[Array, " n"]


class LowRankGP(WeightSpaceGP):
    """A Gaussian process of finitely many features, whose posterior is that of their weights.

    The features are the prior, k = q, unless a member says what is left over.
    """

    def __init__(self, gp: GP, method: Any):
        """The prior of a `GP`."""
        super().__init__(gp, method)

    @property
    def leftover(self) -> str:
        """What k - q is: "noise" of the rows (FITC), a part of the "bound" (VFE) or "nothing"."""
        return "nothing"

    @property
    def residual(self) -> bool:
        """Whether predictions have the variance k - q, too."""
        return False

    @abstractmethod
    def frame(self) -> Any:
        """What features are made of, with `width` and `at(x)`; called with rows it is traceable."""

    def features_at(self, frame: Any, x: Float[Array, "n d"]) -> Features:
        """The features of rows, and what they leave of the variance."""
        a = frame.at(x)
        xp = namespace(a)
        rest = self.prior.kernel.variance_at(x) - (a * a).sum(1)
        return Features(a, xp.maximum(rest, 0.0))

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def moments(self, frame: Any, rows: Rows) -> Moments:
        """The sums over the rows, a chunk at a time."""
        if is_traced(self, rows):
            return self._moments(self.features_at(frame, rows.x), rows)
        parts = (rows.subset(np.arange(rows.n)[cut]) for cut in in_chunks(rows.n, frame.width))
        return reduce(add, (self._moments(self.features_at(frame, part.x), part) for part in parts))

    def noise_of(self, features: Features, rows: Rows) -> Float[Array, " n"]:
        """D."""
        noise = self.prior.noise * rows.scale + rows.extra
        return noise + features.rest if self.leftover == "noise" else noise

    def _moments(self, features: Features, rows: Rows) -> Moments:
        d = masked(rows.mask, self.noise_of(features, rows), 1.0)
        r, (a, rest) = exact.residual(self.prior, rows), features
        real = masked(rows.mask, namespace(d).ones(len(d)))
        scaled = a * (real / d)[:, None]
        trace = (rest * real / d).sum() if self.leftover == "bound" else 0.0 * real.sum()
        return Moments(a.T @ scaled, scaled.T @ r, (r * r / d).sum(), namespace(d).log(d).sum(), trace, real.sum())

    def condition_on(self, statistics: Rows) -> Any:
        """The posterior after the rows: what they say is added to what was said before."""
        own = self.placed(statistics)
        moments = own.moments(own.frame(), statistics)
        if own.solved is not None:
            moments = own.solved.moments + moments
        return changed(own, seen=own.with_seen(statistics), solved=weights_of(moments))

    def placed(self, rows: Rows) -> Any:
        """With its features chosen, where they are chosen from the rows."""
        return self

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(y | X) of the approximation (for VFE a lower bound of the exact one), given what was seen before."""
        own = self.placed(statistics)
        moments = own.moments(own.frame(), statistics)
        if own.solved is None:
            return log_evidence(weights_of(moments))
        return log_evidence(weights_of(own.solved.moments + moments)) - log_evidence(own.solved)

    # -- predictions -----------------------------------------------------------------------------------------

    def posterior_at(self, rows: Array, joint: bool) -> FunctionValues:
        """The function at checked rows after data."""
        frame = self.frame()
        cuts = [slice(None)] if is_traced(self, rows) else in_chunks(len(rows), frame.width)
        parts = [self._values(frame, rows[cut]) for cut in cuts]
        return FunctionValues(*joined(parts), self.covariance_at(rows, rows) if joint else None)

    def _values(self, frame: Any, x: Float[Array, "m d"]) -> tuple[Array, Array]:
        a, rest = self.features_at(frame, x)
        half = solve_lower(self.solved.root, a.T)
        variance = (half * half).sum(0)
        return self.prior.mean.at(x) + a @ self.solved.mean, variance + rest if self.residual else variance

    def covariance_at(self, x: Float[Array, "m d"], z: Float[Array, "q d"]) -> Float[Array, "m q"]:
        """The posterior covariance of the function between checked rows."""
        frame = self.frame()
        left, right = frame.at(x), frame.at(z)
        known = left @ solve(self.solved.root, right.T)
        return known + self.prior.kernel.between(x, z) - left @ right.T if self.residual else known

    def sample_functions(self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None) -> Any:
        """n draws as functions: sums of the features; `features` of the prior only count before data."""
        from credo.models.gp.sampling import Functions, sample_functions

        if self.solved is None:
            return sample_functions(self.as_gp(), n, features=features, seed=seed, columns=columns)
        return Functions(self.kernel, self.mean, (self.frame(),), (self.draw_weights(n, seed),), None, None)

    def draw_weights(self, n: int, seed: int) -> Float[np.ndarray, "n p"]:
        """n draws of the weights."""
        self.conditioned()
        z = np.random.default_rng(seed).normal(size=(len(self.solved.mean), n))
        return self.solved.mean + solve_upper(self.solved.root, z).T

    # -- learning --------------------------------------------------------------------------------------------

    def objective(self, slots: params.Layout, statistics: Rows, priors: dict[str, Any]) -> Any:
        """The evidence with its gradient, in O(p²) memory."""
        if is_traced(self, statistics):
            return None
        return LowRankObjective(self.placed(statistics), slots, statistics, priors)

    def table(self, x: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """What features are made of, row by row, traceable: here the features themselves."""
        return self.frame().at(x)

    def pull_features(self, frame: Any, by_a: Float[np.ndarray, "n p"]) -> np.ndarray:
        """∂/∂table from ∂/∂a."""
        return by_a

    def shared(self) -> Float[Array, "p p"]:
        """What features are made of that is the same for all rows; traceable."""
        return jnp.zeros((0, 0))

    def pull_shared(self, frame: Any, outer: Float[np.ndarray, "p p"]) -> np.ndarray:
        """∂/∂shared from Σ (∂/∂aᵢ) aᵢᵀ."""
        return np.zeros((0, 0))


def weights_of(moments: Moments) -> Weights:
    """The posterior of the weights."""
    factor = factorize(plus_diagonal(moments.gram, namespace(moments).ones(len(moments.gram))))
    weights = Weights(factor.root, solve(factor.root, moments.cross), moments)
    return demand(weights, factor.ok, exact.NOT_DEFINITE)


def log_evidence(weights: Weights) -> Float[Array, ""]:
    """log p(y), or its bound."""
    moments = weights.moments
    fit = moments.squares - moments.cross @ weights.mean
    determinant = moments.log_noise + log_determinant(weights.root)
    return -0.5 * (moments.n * np.log(2 * np.pi) + determinant + fit + moments.trace)


class LowRankObjective:
    """log p(y | X, θ) + log p(θ) of the unconstrained vector, with its gradient by two passes over the rows.

        ∂/∂aᵢ = (u eᵢ - B⁻¹aᵢ/Dᵢ) + 2 sᵢ aᵢ,    u = B⁻¹c,  eᵢ = (rᵢ - aᵢᵀu)/Dᵢ
        ∂/∂Dᵢ = ½ (eᵢ² - 1/Dᵢ + aᵢᵀB⁻¹aᵢ/Dᵢ²)

    with s = ∂/∂q: ½t for the bound, -∂/∂D where k - q is noise. From there JAX pulls back to θ through the kernel.
    """

    def __init__(self, belief: LowRankGP, slots: params.Layout, rows: Rows, priors: dict[str, Any]):
        self._belief, self._slots, self._priors = belief, slots, dict(priors)
        width = belief.frame().width
        self._parts = [rows.subset(np.arange(rows.n)[cut]) for cut in in_chunks(rows.n, width)]
        self._keep = rows.n * width <= KEPT

    def value(self, vector: np.ndarray) -> float:
        """The objective."""
        return self._look(vector, False)[0]

    def value_and_grad(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient; (-inf, 0) where a covariance is not positive definite."""
        return self._look(vector, True)

    def _look(self, vector: np.ndarray, gradient: bool) -> tuple[float, np.ndarray]:
        none = np.zeros_like(vector)
        candidate = host(params.from_vector(self._belief, self._slots, np.asarray(vector)))
        try:
            frame = candidate.frame()
            kept: list[Features | None] = []
            total = None
            for part in self._parts:
                features = candidate.features_at(frame, part.x)
                own = candidate._moments(features, part)
                total = own if total is None else total + own
                kept.append(features if self._keep and gradient else None)
            assert total is not None
            weights = weights_of(total)
            value = float(log_evidence(weights))
        except NotPositiveDefinite:
            return -np.inf, none
        if not np.isfinite(value):
            return -np.inf, none
        slope, log_prior = none.copy(), float(params.log_prior(candidate, self._priors))
        if gradient:
            precision = np.asarray(inverse(np.asarray(weights.root)))
            outer = np.zeros_like(precision)
            mean = np.asarray(weights.mean)
            for part, known in zip(self._parts, kept, strict=True):
                found = known or candidate.features_at(frame, part.x)
                slope += self._pull(vector, candidate, frame, part, found, mean, precision, outer)
            shared = candidate.pull_shared(frame, outer)
            slope += np.asarray(_pull_shared(vector, self._belief, self._slots, self._priors, shared))
        return value + log_prior, slope

    def _pull(
        self,
        vector: np.ndarray,
        candidate: LowRankGP,
        frame: Any,
        rows: Rows,
        features: Features,
        u: np.ndarray,
        precision: np.ndarray,
        outer: np.ndarray,
    ) -> np.ndarray:
        """∂/∂θ of a chunk of rows; adds Σ (∂/∂aᵢ) aᵢᵀ to `outer`."""
        a, rest = (np.asarray(v) for v in features)
        d, r = candidate.noise_of(features, rows), exact.residual(candidate.prior, rows)
        e = (r - a @ u) / d
        known = a @ precision
        by_d = 0.5 * (e * e - 1.0 / d + (known * a).sum(1) / d**2)
        bound = candidate.leftover == "bound"
        by_noise = by_d + 0.5 * rest / d**2 if bound else by_d
        by_q = 0.5 / d if bound else -by_d if candidate.leftover == "noise" else np.zeros_like(d)
        by_a = e[:, None] * u - known / d[:, None]
        by_a += (2.0 * by_q)[:, None] * a
        outer += by_a.T @ a
        slopes = candidate.pull_features(frame, np.asarray(by_a)), -by_q, -e, by_noise
        size = bucket(rows.n)
        columns = [pad_rows(v, size) for v in (*rows.columns(), *slopes)]
        return np.asarray(_pull_rows(vector, self._belief, self._slots, *columns))


@eqx.filter_jit
def _pull_rows(
    vector: Array,
    belief: LowRankGP,
    slots: params.Layout,
    x: Array,
    y: Array,
    scale: Array,
    extra: Array,
    *slopes: Array,
) -> Float[Array, " k"]:
    def parts(u: Array) -> tuple[Array, ...]:
        candidate = params.from_vector(belief, slots, u)
        prior = candidate.prior
        noise = prior.noise * scale + extra
        return candidate.table(x), prior.kernel.diagonal(x), y - prior.mean(x), noise

    return jax.vjp(parts, jnp.asarray(vector))[1](slopes)[0]


@eqx.filter_jit
def _pull_shared(
    vector: Array, belief: LowRankGP, slots: params.Layout, priors: Any, slope: Float[Array, "p p"]
) -> Float[Array, " k"]:
    def parts(u: Array) -> tuple[Array, Array]:
        candidate = params.from_vector(belief, slots, u)
        return candidate.shared(), jnp.asarray(params.log_prior(candidate, priors), float)

    return jax.vjp(parts, jnp.asarray(vector))[1]((jnp.asarray(slope), jnp.ones(())))[0]
