"""`Linear`: y = b + φ(x)ᵀw + ε, the workhorse, with everything in closed form.

Known noise σ², prior θ ~ N(m₀, P₀⁻¹) on θ = (b, w), design rows φ̃ = (1, φ(x)):

    P₁ = P₀ + Φ̃ᵀWΦ̃/σ²,    m₁ = P₁⁻¹(P₀m₀ + Φ̃ᵀWy/σ²)
    y* ~ N(φ̃*ᵀm₁, σ² + φ̃*ᵀP₁⁻¹φ̃*)            aleatoric + epistemic

Unknown noise σ² ~ IG(a₀, b₀) with θ | σ² ~ N(m₀, σ²P₀⁻¹):

    P₁ = P₀ + Φ̃ᵀWΦ̃,   a₁ = a₀ + n/2,   b₁ = b₀ + ½(‖y - Φ̃m₁‖²_W + ‖m₁ - m₀‖²_{P₀})
    y* ~ t_{2a₁}(φ̃*ᵀm₁, (b₁/a₁)(1 + φ̃*ᵀP₁⁻¹φ̃*))

Bishop (2006) §3.3-3.5; Murphy (2012) §7.6. Noise with heavy tails is in `robust`.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special
from jaxtyping import Array, Float

from credo.core.arrays import by_bucket, check_positive, check_table, column_names, is_traced, padded
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.linalg import cholesky, factorize, inverse, log_determinant, solve, solve_lower, update
from credo.core.params import positive
from credo.core.predictive import Laplace, Mixture, Normal, Predictive, StudentT
from credo.models.features import Affine, Features
from credo.models.linear.priors import (
    ARD,
    Intercept,
    InverseGamma,
    Isotropic,
    KnownNoise,
    LaplaceNoise,
    LaplacePrior,
    StudentTNoise,
    prior_moments,
)
from credo.models.linear.robust import robust_evidence, robust_posterior
from credo.models.linear.statistics import Chunk, Rows, Statistics, collect, collect_standardized, design, read_chunks

QUADRATURE = 24


class Weights(eqx.Module):
    """The belief about θ = (b - reference, w): a Gaussian by its mean and the Cholesky root of its precision.

    With unknown noise the precision is in units of the noise, whose own belief is (shape, scale). Without a
    root the weights are a point estimate.
    """

    mean: Float[Array, " q"]
    root: Float[Array, "q q"] | None
    shape: Float[Array, ""] | None = None
    scale: Float[Array, ""] | None = None


class Linear(Belief):
    """A Bayesian linear model of real outcomes.

    Args:
        features: the basis φ; None is the inputs themselves, which `learn` standardizes.
        prior: of the weights: `Isotropic`, `ARD`, any `Gaussian`, or `LaplacePrior` (mode only).
        noise: its variance, or `InverseGamma` (unknown, integrated out), `StudentTNoise`, `LaplaceNoise`
            (outliers), `KnownNoise` (a variance for each row, given with the data).
        intercept: the belief about the constant term; None leaves it out.
    """

    features: Features
    prior: Isotropic | ARD | LaplacePrior | Gaussian
    noise: Any = positive(1.0)
    intercept: Intercept | None
    seen: Statistics | Rows | None
    weights: Weights | None
    inputs: tuple[str, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        features: Features | None = None,
        prior: Isotropic | ARD | LaplacePrior | Gaussian | None = None,
        noise: Any = 1.0,
        intercept: Intercept | bool | None = True,
    ):
        self.features = Affine() if features is None else features
        self.prior = Isotropic() if prior is None else prior
        if isinstance(noise, int | float) and not noise > 0:
            raise DataError(f"noise is a variance and must be positive, found {noise}")
        self.noise = noise
        self.intercept = Intercept() if intercept is True else (intercept or None)
        self.seen = None
        self.weights = None
        self.inputs = None

    # -- data ------------------------------------------------------------------------------------------------

    @property
    def is_robust(self) -> bool:
        """Whether the noise has heavy tails: then the posterior is a Laplace approximation."""
        return isinstance(self.noise, StudentTNoise | LaplaceNoise)

    @property
    def reference(self) -> Float[Array, ""]:
        """What outcomes are measured from: the intercept's prior mean."""
        return jnp.zeros(()) if self.intercept is None else self.intercept.mean

    def statistics(self, *data: Any, weights: Any = None, noise: Any = None) -> Statistics | Rows:
        """The sums of `statistics.py` for X and y, or for an iterable of (X, y) chunks.

        A row's noise variance is the model's divided by its weight; `noise` gives it outright.
        """
        self._check_ready()
        chunks = self._chunks(data, weights, noise)
        if self.is_robust:
            return self._rows(list(chunks))
        return collect(self.features, chunks, self.reference, self.intercept is not None)

    def _chunks(self, data: tuple[Any, ...], weights: Any, noise: Any) -> Any:
        if noise is not None:
            if weights is not None:
                raise DataError(
                    "give weights or noise for the rows, not both: a weight divides the model's noise variance"
                )
            if not isinstance(self.noise, KnownNoise) and not hasattr(self.noise, "ndim"):
                raise DataError(
                    "the noise of each row can be given only where the model's own noise is a known variance"
                )
            own = self.noise.variance if isinstance(self.noise, KnownNoise) else self.noise
            weights = own / jnp.asarray(check_positive(noise, "noise"))
            weights = weights if is_traced(weights) else np.asarray(weights)
        elif isinstance(self.noise, KnownNoise):
            raise DataError(
                "this model has KnownNoise: give the variance of each row, condition(X, y, noise=variances)"
            )
        return read_chunks(data, weights, None if self.inputs is None else len(self.inputs))

    def _rows(self, chunks: list[Chunk]) -> Rows:
        x = np.concatenate([c.x for c in chunks]) if len(chunks) > 1 else chunks[0].x
        y = np.concatenate([c.y for c in chunks]) if len(chunks) > 1 else chunks[0].y
        w = jnp.concatenate([jnp.ones(c.x.shape[0]) if c.weights is None else jnp.asarray(c.weights) for c in chunks])
        rows = (design(self.features, x, self.intercept is not None), y - self.reference, w)
        if is_traced(rows):
            return Rows(*rows)
        *full, _ = padded(*(np.asarray(r) for r in rows))
        return Rows(*(jnp.asarray(r) for r in full))

    def _check_ready(self) -> None:
        if not self.features.ready:
            raise DataError(
                f"{type(self.features).__name__} still has numbers to choose from the data; use credo.fit or "
                "credo.learn, call features.adapt(X), or give them (e.g. domain=)"
            )

    def prepare(self, *data: Any, weights: Any = None, noise: Any = None) -> tuple["Linear", Any]:
        """Standardized features, an intercept worth one observation, sensible starts; and the statistics.

        A belief that has seen data keeps its scales and learns from all it has seen.
        """
        names = column_names(data[0]) if len(data) == 2 else None
        if self.seen is not None:
            fresh = eqx.tree_at(lambda b: (b.seen, b.weights), self, (None, None))
            return fresh, self.seen + self.statistics(*data, weights=weights, noise=noise)
        belief = self
        if noise is not None:
            belief = eqx.tree_at(lambda b: b.noise, belief, KnownNoise())
        chunks = belief._chunks(data, weights, noise)
        if isinstance(belief.features, Affine) and belief.features.shift is None and not belief.is_robust:
            features, center, spread, statistics = collect_standardized(chunks, belief.intercept is not None)
            return belief._started(features, center, spread, features.size(len(features.shift)), names), statistics
        everything = list(chunks)
        x = everything[0].x if len(everything) == 1 else np.concatenate([c.x for c in everything])
        y = np.concatenate([c.y for c in everything])
        features = belief.features.adapt(x)
        center, spread = (
            (float(y.mean()), float(y.var())) if belief.intercept is not None else (0.0, float(y @ y / len(y)))
        )
        started = belief._started(features, center, spread, features.size(x.shape[1]), names)
        if started.is_robust:
            return started, started._rows(everything)
        return started, collect(features, everything, started.reference, started.intercept is not None)

    def _started(self, features: Features, center: float, spread: float, p: int, names: list[str] | None) -> "Linear":
        """Half of the variance of y to the noise, half to the features, as a start."""
        if spread <= 0:
            raise DataError(
                "y is constant: there is nothing to learn from it; drop the target or give it some variation"
            )
        half = spread / 2
        noise: Any = self.noise
        relative = isinstance(noise, InverseGamma)
        if isinstance(noise, InverseGamma):
            noise = InverseGamma(noise.shape, half)
        elif isinstance(noise, StudentTNoise):
            noise = StudentTNoise(noise.df, np.sqrt(half / 2))
        elif isinstance(noise, LaplaceNoise):
            noise = LaplaceNoise(np.sqrt(half / 2))
        elif not isinstance(noise, KnownNoise):
            noise = jnp.asarray(half)
        prior = self.prior
        precision = 1.0 if relative else max(p, 1) / half
        if isinstance(prior, Isotropic):
            prior = Isotropic(precision)
        elif isinstance(prior, ARD):
            prior = ARD(jnp.full(p, precision))
        elif isinstance(prior, LaplacePrior):
            prior = LaplacePrior(np.sqrt(half / max(p, 1)))
        # In units of the noise where the noise is unknown: half of the variance is noise.
        intercept = None if self.intercept is None else Intercept(center, 2.0 if relative else spread)
        out = eqx.tree_at(
            lambda b: (b.features, b.prior, b.noise, b.intercept),
            self,
            (features, prior, noise, intercept),
            is_leaf=lambda v: v is None,
        )
        return out._named(names)

    def _named(self, names: list[str] | None) -> "Linear":
        if names is None:
            return self
        out = jax.tree.map(lambda v: v, self)
        object.__setattr__(out, "inputs", tuple(names))
        return out

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition(self, *data: Any, using: Any = None, **options: Any) -> Any:
        """The posterior after X and y (or an iterable of chunks), see the module's formulas.

        A few rows added to a posterior update its root in O(q²) a row; more are added through their sums.
        """
        if using is not None or not data:
            return super().condition(*data, using=using, **options)
        belief = self if self.inputs is not None or len(data) != 2 else self._named(column_names(data[0]))
        if belief.weights is None or belief.is_robust or len(data) != 2 or belief.weights.root is None:
            return belief.condition_on(belief.statistics(*data, **options))
        x = check_table(data[0], "X")
        if x.shape[0] > max(1, belief.weights.mean.shape[0] // 8):
            return belief.condition_on(belief.statistics(*data, **options))
        return belief._append(data, options)

    def _append(self, data: tuple[Any, ...], options: dict[str, Any]) -> "Linear":
        (chunk,) = self._chunks(data, options.get("weights"), options.get("noise"))
        n = chunk.x.shape[0]
        w = np.ones(n) if chunk.weights is None else chunk.weights
        phi = design(self.features, chunk.x, self.intercept is not None)
        y = chunk.y - (self.reference if is_traced(chunk) else np.asarray(self.reference))
        log_weight = jnp.log(jnp.asarray(w)).sum()
        rows = (phi, y, w) if is_traced(chunk) else padded(phi, y, w)[:3]
        weights, added = _update_rows(self, *(jnp.asarray(r) for r in rows), jnp.asarray(float(n)), log_weight)
        return eqx.tree_at(lambda b: (b.weights, b.seen), self, (weights, self.seen + added))

    def condition_on(self, statistics: Statistics | Rows) -> "Linear":
        """The posterior from sums."""
        if isinstance(statistics, Statistics):
            weights = _posterior(self, statistics)
        else:
            weights = Weights(*robust_posterior(*self._prior_of(statistics.design.shape[1]), self.noise, statistics))
        _check_root(weights)
        seen = statistics if self.seen is None else self.seen + statistics
        return eqx.tree_at(lambda b: (b.weights, b.seen), self, (weights, seen), is_leaf=lambda v: v is None)

    def forget(self, *data: Any, **options: Any) -> "Linear":
        """The belief as if a batch that it has seen had not been there."""
        if not isinstance(self.seen, Statistics):
            raise DataError("there is nothing to forget: this belief has seen no data, or its noise is not Gaussian")
        removed = self.statistics(*data, **options)
        if not is_traced(removed) and float(removed.n) > float(self.seen.n):
            raise DataError(f"cannot forget {float(removed.n):g} rows: the belief has seen {float(self.seen.n):g}")
        left = self.seen - removed
        prior = eqx.tree_at(lambda b: (b.seen, b.weights), self, (None, None))
        return prior.condition_on(left)

    def evidence_of(self, statistics: Statistics | Rows) -> Float[Array, ""]:
        """log p(y | X): closed form; for heavy-tailed noise Laplace's approximation."""
        if isinstance(statistics, Rows):
            return robust_evidence(*self._prior_of(statistics.design.shape[1]), self.noise, statistics)
        return _evidence(self, statistics)

    def _prior_of(self, q: int) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
        """Mean and precision of θ as it is believed now."""
        if self.weights is not None:
            if self.weights.root is None:
                raise DataError("a point estimate has no posterior to go on from; condition the model without using=")
            return self.weights.mean, self.weights.root @ self.weights.root.T
        return prior_moments(self.prior, self.intercept, q - (self.intercept is not None))

    def learner(self, priors: dict[str, Any]) -> Any:
        """MacKay's fixed point where it applies."""
        from credo.models.linear.learning import FixedPoint

        return FixedPoint() if FixedPoint.serves(self, priors) else None

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: Any, *, joint: bool = False, noise: Any = None) -> Predictive:
        """p(y* | x*, data): Normal, Student-t where the noise is unknown, a mixture where it has heavy tails.

        Args:
            x: queries, shape (m, d).
            joint: also keep the m × m covariance of the latent function.
            noise: the noise variance of each query, where it is known.
        """
        self._check_ready()
        table = check_table(x, "X", None if self.inputs is None else len(self.inputs))
        phi = design(self.features, table, self.intercept is not None)
        belief = self if self.weights is not None else self._prior_as_weights(phi.shape[1])
        expected = belief.weights.mean.shape[0]
        if phi.shape[1] != expected:
            raise DataError(f"X must have the {expected} features the belief was conditioned on, found {phi.shape[1]}")
        mean, latent = by_bucket(lambda rows: _latent(belief.weights, rows), phi)
        covariance = _latent_covariance(belief.weights, jnp.asarray(phi)) if joint else None
        return belief._outcome(mean + self.reference, latent, covariance, noise)

    def _outcome(self, mean: Array, latent: Array, covariance: Array | None, noise: Any) -> Predictive:
        weights = self.weights
        assert weights is not None
        if noise is not None:
            given = jnp.asarray(check_positive(noise, "noise", mean.shape[0]))
        if weights.shape is not None and weights.scale is not None:
            if noise is not None:
                raise DataError("this model's noise is unknown and integrated out; it cannot be given for a query")
            s2 = weights.scale / weights.shape
            scaled = None if covariance is None else s2 * covariance
            return StudentT(
                jnp.broadcast_to(2 * weights.shape, mean.shape),
                mean,
                jnp.broadcast_to(s2, mean.shape),
                s2 * latent,
                scaled,
            )
        if isinstance(self.noise, StudentTNoise | LaplaceNoise):
            return _robust_mixture(self.noise, mean, latent)
        own = self.noise.variance if isinstance(self.noise, KnownNoise) else self.noise
        return Normal(mean, jnp.broadcast_to(own, mean.shape) if noise is None else given, latent, covariance)

    def _prior_as_weights(self, q: int) -> "Linear":
        mean, precision = self._prior_of(q)
        root = cholesky(precision, "the prior precision")
        shape, scale = (self.noise.shape, self.noise.scale) if isinstance(self.noise, InverseGamma) else (None, None)
        return eqx.tree_at(lambda b: b.weights, self, Weights(mean, root, shape, scale), is_leaf=lambda v: v is None)

    def coefficients(self) -> Predictive:
        """The belief about (b, w), each on its own: Normal, or Student-t where the noise is unknown."""
        w = self._conditioned()
        mean = w.mean if self.intercept is None else w.mean.at[0].add(self.reference)
        spread = jnp.zeros_like(mean) if w.root is None else jnp.diag(inverse(w.root))
        zeros = jnp.zeros_like(mean)
        if w.shape is not None and w.scale is not None:
            return StudentT(jnp.broadcast_to(2 * w.shape, mean.shape), mean, zeros, w.scale / w.shape * spread)
        return Normal(mean, zeros, spread)

    def coefficient_names(self) -> list[str]:
        """The names that go with `coefficients`."""
        q = self._conditioned().mean.shape[0] - (self.intercept is not None)
        d = len(self.inputs) if self.inputs else next(d for d in range(1, q + 2) if self.features.size(d) == q)
        inputs = list(self.inputs or [f"x{i}" for i in range(d)])
        return (["intercept"] if self.intercept is not None else []) + self.features.names(inputs)

    def noise_variance(self) -> Float[Array, ""]:
        """E[σ²]: the variance of the noise as it is believed now."""
        if isinstance(self.noise, InverseGamma):
            shape, scale = (self.noise.shape, self.noise.scale)
            if self.weights is not None and self.weights.shape is not None and self.weights.scale is not None:
                shape, scale = self.weights.shape, self.weights.scale
            return jnp.where(shape > 1, scale / jnp.where(shape > 1, shape - 1, 1.0), jnp.inf)
        if isinstance(self.noise, StudentTNoise):
            df = self.noise.df
            return jnp.where(df > 2, self.noise.scale**2 * df / jnp.where(df > 2, df - 2, 1.0), jnp.inf)
        if isinstance(self.noise, LaplaceNoise):
            return 2 * self.noise.scale**2
        return self.noise.variance if isinstance(self.noise, KnownNoise) else self.noise

    def _conditioned(self) -> Weights:
        if self.weights is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        return self.weights

    def covariance(self, x: Any, z: Any) -> Float[Array, "n m"]:
        """k(x, z) = φ̃(x)ᵀ P⁻¹ φ̃(z): the function-space view, the kernel of the prior or of the posterior."""
        phi = design(self.features, check_table(x, "x"), self.intercept is not None)
        psi = design(self.features, check_table(z, "z"), self.intercept is not None)
        belief = self if self.weights is not None else self._prior_as_weights(phi.shape[1])
        root = belief._conditioned().root
        if root is None:
            return jnp.zeros((phi.shape[0], psi.shape[0]))
        return solve_lower(root, jnp.asarray(phi).T).T @ solve_lower(root, jnp.asarray(psi).T)

    def leave_one_out(self, x: Any, y: Any, *, weights: Any = None, noise: Any = None) -> Predictive:
        """The prediction of each row of the data from all the others, in closed form.

        With leverage hᵢ = wᵢ φ̃ᵢᵀP₁⁻¹φ̃ᵢ/σ²:  mean yᵢ - rᵢ/(1 - hᵢ), latent variance vᵢ/(1 - hᵢ).
        `self` is the belief before the data.
        """
        if self.is_robust:
            raise DataError("leave-one-out in closed form needs Gaussian noise; use evaluate.cross_validate")
        (chunk,) = self._chunks((x, y), weights, noise)
        posterior = self.condition_on(self.statistics(x, y, weights=weights, noise=noise))
        phi = jnp.asarray(design(self.features, chunk.x, self.intercept is not None))
        row_weights = jnp.ones(phi.shape[0]) if chunk.weights is None else jnp.asarray(chunk.weights)
        return _leave_one_out(self, posterior._conditioned(), phi, jnp.asarray(chunk.y) - self.reference, row_weights)

    # -- point estimates, see estimators.py ------------------------------------------------------------------

    def maximum_likelihood(self, *data: Any, **options: Any) -> "Linear":
        """Least squares by SVD, with the noise variance RSS/n; what `using=ML()` calls."""
        from credo.models.linear.estimators import least_squares

        return least_squares(self, *data, **options)

    def maximum_a_posteriori(self, *data: Any, **options: Any) -> "Linear":
        """Ridge, lasso or the robust mode, as a point; what `using=MAP()` calls."""
        from credo.models.linear.estimators import posterior_mode

        return posterior_mode(self, *data, **options)

    def maximum_log_likelihood(self, x: Any, y: Any, **options: Any) -> tuple[float, int]:
        """The highest log likelihood that the model can give to the data, and its number of parameters."""
        from credo.models.linear.estimators import maximum_log_likelihood

        return maximum_log_likelihood(self, x, y, **options)


def _check_root(weights: Weights) -> None:
    if weights.root is not None and not is_traced(weights.root) and not bool(jnp.all(jnp.isfinite(weights.root))):
        raise DataError("the posterior precision is not finite; rescale the features or widen the prior")


@eqx.filter_jit
def _posterior(belief: Linear, statistics: Statistics) -> Weights:
    """P₁ = P₀ + G/σ², m₁ = m₀ + P₁⁻¹(c - G m₀)/σ²."""
    m0, p0 = belief._prior_of(statistics.gram.shape[0])
    unknown = isinstance(belief.noise, InverseGamma)
    noise = 1.0 if unknown else belief.noise_variance()
    root = cholesky(p0 + statistics.gram / noise, "the posterior precision")
    mean = m0 + solve(root, statistics.cross - statistics.gram @ m0) / noise
    if not unknown:
        return Weights(mean, root)
    shape, scale = _noise_belief(belief)
    change = mean - m0
    misfit = statistics.residual(mean) + change @ p0 @ change
    return Weights(mean, root, shape + statistics.n / 2, scale + jnp.maximum(misfit, 0.0) / 2)


def _noise_belief(belief: Linear) -> tuple[Array, Array]:
    if belief.weights is not None and belief.weights.shape is not None and belief.weights.scale is not None:
        return belief.weights.shape, belief.weights.scale
    return belief.noise.shape, belief.noise.scale


@eqx.filter_jit
def _update_rows(
    belief: Linear, phi: Array, y: Array, weights: Array, n: Array, log_weight: Array
) -> tuple[Weights, Statistics]:
    """Rank-k update of the root, and the innovation form of the mean: O(k q²)."""
    old = belief._conditioned()
    assert old.root is not None
    unknown = old.shape is not None
    noise = 1.0 if unknown else belief.noise_variance()
    scaled = phi * jnp.sqrt(weights / noise)[:, None]
    root = update(old.root, scaled)
    innovation = y - phi @ old.mean
    mean = old.mean + solve(root, phi.T @ (weights * innovation)) / noise
    added = Statistics(n, log_weight, phi.T @ (weights[:, None] * phi), phi.T @ (weights * y), jnp.sum(weights * y**2))
    if not unknown:
        return Weights(mean, root), added
    assert old.shape is not None and old.scale is not None
    misfit = jnp.sum(weights * innovation * (y - phi @ mean))
    return Weights(mean, root, old.shape + n / 2, old.scale + misfit / 2), added


def _evidence(belief: Linear, statistics: Statistics) -> Array:
    """log N(y | Φ̃m₀, σ²W⁻¹ + Φ̃P₀⁻¹Φ̃ᵀ), or the Student-t that remains of it when σ² is integrated out."""
    m0, p0 = belief._prior_of(statistics.gram.shape[0])
    unknown = isinstance(belief.noise, InverseGamma)
    noise = jnp.asarray(1.0) if unknown else belief.noise_variance()
    root0, root1 = factorize(p0), factorize(p0 + statistics.gram / noise)
    mean = m0 + solve(root1.root, statistics.cross - statistics.gram @ m0) / noise
    change = mean - m0
    misfit = jnp.maximum(statistics.residual(mean), 0.0) / noise + change @ p0 @ change
    occam = 0.5 * (log_determinant(root0.root) - log_determinant(root1.root) + statistics.log_weight)
    half_n = statistics.n / 2
    if unknown:
        a0, b0 = _noise_belief(belief)
        a1, b1 = a0 + half_n, b0 + misfit / 2
        fit = a0 * jnp.log(b0) - a1 * jnp.log(b1) + special.gammaln(a1) - special.gammaln(a0)
        value = occam + fit - half_n * jnp.log(2 * jnp.pi)
    else:
        value = occam - 0.5 * misfit - half_n * jnp.log(2 * jnp.pi * noise)
    return jnp.where(root0.ok & root1.ok, value, -jnp.inf)


@eqx.filter_jit
def _latent(weights: Weights, phi: Array) -> tuple[Array, Array]:
    """φ̃ᵀm and φ̃ᵀP⁻¹φ̃."""
    mean = phi @ weights.mean
    if weights.root is None:
        return mean, jnp.zeros_like(mean)
    return mean, jnp.sum(solve_lower(weights.root, phi.T) ** 2, axis=0)


@eqx.filter_jit
def _latent_covariance(weights: Weights, phi: Array) -> Array:
    if weights.root is None:
        return jnp.zeros((phi.shape[0], phi.shape[0]))
    half = solve_lower(weights.root, phi.T)
    return half.T @ half


def _robust_mixture(noise: StudentTNoise | LaplaceNoise, mean: Array, latent: Array) -> Predictive:
    """∫ p(y | f) N(f | mean, latent) df by Gauss-Hermite quadrature: a mixture over its nodes."""
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(QUADRATURE)
    centers = mean + jnp.sqrt(latent) * jnp.asarray(nodes)[:, None]
    full = jnp.ones_like(centers)
    part: Predictive
    if isinstance(noise, StudentTNoise):
        part = StudentT(noise.df * full, centers, noise.scale**2 * full, 0 * full)
    else:
        part = Laplace(centers, noise.scale * full)
    return Mixture(node_weights / node_weights.sum(), (part,))


@eqx.filter_jit
def _leave_one_out(prior: Linear, posterior: Weights, phi: Array, y: Array, weights: Array) -> Predictive:
    mean, latent = _latent(posterior, phi)
    unknown = posterior.shape is not None
    noise = jnp.asarray(1.0) if unknown else prior.noise_variance()
    row_noise = noise / weights
    kept = 1 - latent / row_noise
    residual = y - mean
    without = y - residual / kept + prior.reference
    if not unknown:
        return Normal(without, row_noise, latent / kept)
    assert posterior.shape is not None and posterior.scale is not None
    shape = posterior.shape - 0.5
    scale = posterior.scale - 0.5 * weights * residual**2 / kept
    s2 = scale / shape
    return StudentT(jnp.broadcast_to(2 * shape, y.shape), without, s2 * row_noise, s2 * latent / kept)
