"""`Linear`: y = b + φ(x)ᵀw + ε, the workhorse, with everything in closed form.

Known noise σ², prior θ ~ N(m₀, P₀⁻¹) on θ = (b, w), design rows φ̃ = (1, φ(x)):

    P₁ = P₀ + Φ̃ᵀWΦ̃/σ²,    m₁ = P₁⁻¹(P₀m₀ + Φ̃ᵀWy/σ²)
    y* ~ N(φ̃*ᵀm₁, σ² + φ̃*ᵀP₁⁻¹φ̃*)            aleatoric + epistemic

Unknown noise σ² ~ IG(a₀, b₀) with θ | σ² ~ N(m₀, σ²P₀⁻¹):

    P₁ = P₀ + Φ̃ᵀWΦ̃,   a₁ = a₀ + n/2,   b₁ = b₀ + ½(‖y - Φ̃m₁‖²_W + ‖m₁ - m₀‖²_{P₀})
    y* ~ t_{2a₁}(φ̃*ᵀm₁, (b₁/a₁)(1 + φ̃*ᵀP₁⁻¹φ̃*))

Bishop (2006) §3.3-3.5; Murphy (2012) §7.6. Noise with heavy tails is in `robust`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import HasCovariance, HasLogDensity, HasPointEstimates, LeavesOneOut, PredictsJointly
from credo.core.arrays import Array, is_traced, namespace
from credo.core.belief import Belief, Integration
from credo.core.checks import ArrayLike, check_table, input_names
from credo.core.errors import DataError
from credo.core.linalg import demand, inverse
from credo.core.params import Layout, positive
from credo.core.predictive import Normal, Predictive, StudentT
from credo.core.pytrees import changed
from credo.infer.priors import LogScalePenalty, Prior
from credo.models.features import Affine, Features
from credo.models.features.compose import as_features
from credo.models.linear import posterior
from credo.models.linear.posterior import Weights
from credo.models.linear.priors import Intercept, Isotropic, as_intercept, prior_root
from credo.models.linear.robust import robust_evidence, robust_posterior
from credo.models.linear.statistics import Chunk, Rows, Seen, Statistics, collect, design, read_chunks
from credo.models.noise import Covariance, InverseGamma, Noise, noise_of, warn_of_misfit

if TYPE_CHECKING:
    from credo.infer.posterior import Posterior
    from credo.infer.target import Target
    from credo.models.linear.drawn import LinearDraws
    from credo.models.linear.learning import EvidenceObjective, FixedPoint

Data = tuple[ArrayLike, ...]

SPREAD = 2.0
"""Of the logarithm of a hyperparameter before data, where it is integrated over."""


class Linear(Belief, HasLogDensity, HasPointEstimates, HasCovariance, LeavesOneOut, PredictsJointly):
    """A Bayesian linear model of real outcomes.

    Args:
        features: the basis φ; None is the inputs themselves. `learn` and `fit` standardize its columns.
        prior: of the weights: `Isotropic`, `ARD` or any `Gaussian`; by draws (`using=NUTS()`) also `LaplacePrior`,
            `StudentTPrior`, `Horseshoe`, or anything with `log_prob(weights)`.
        noise: its variance, or `InverseGamma` (unknown, integrated out), `StudentTNoise`, `LaplaceNoise`
            (outliers), `KnownNoise` (a variance for each row, given with the data), `Covariance` (of all rows).
        intercept: the belief about the constant term; None leaves it out.
    """

    from_data: ClassVar[tuple[str, ...]] = ("seen", "weights")
    takes_noise: ClassVar[bool] = True

    features: Features
    prior: Prior
    intercept: Intercept | None
    seen: Seen | None
    """The sums of what was seen (`Statistics`, or `Rows` where the noise has heavy tails), or None."""
    weights: Weights | None
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    noise: ArrayLike = positive()

    def __init__(
        self,
        features: object = None,
        prior: object = None,
        noise: ArrayLike = 1.0,
        intercept: object = True,
    ):
        self.features = as_features(features, "Linear")
        weight_prior = Isotropic() if prior is None else prior
        if not isinstance(weight_prior, Prior):
            raise DataError(
                f"prior must have log_prob(weights), found {type(prior).__name__}; e.g. Isotropic(), LaplacePrior(), "
                "Horseshoe(), a numpyro distribution, or an equinox.Module of your own"
            )
        self.prior = weight_prior
        if isinstance(noise, int | float) and not noise > 0:
            raise DataError(f"noise is a variance and must be positive, found {noise}")
        self.noise = noise
        self.intercept = as_intercept(intercept)
        self.seen = self.weights = self.inputs = None

    # -- data ------------------------------------------------------------------------------------------------

    @property
    def is_robust(self) -> bool:
        """Whether the noise has heavy tails: then the posterior is a Laplace approximation."""
        return self.noise_law.heavy_tailed

    @property
    def noise_law(self) -> Noise:
        """The noise as an object that knows itself; where it is unknown, as it is believed now."""
        own = noise_of(self.noise)
        return own if self.weights is None or self.weights.noise is None else self.weights.noise

    @property
    def reference(self) -> Float[Array, ""]:
        """What outcomes are measured from: the intercept's prior mean."""
        return np.zeros(()) if self.intercept is None else self.intercept.mean

    def statistics(self, *data: ArrayLike, weights: ArrayLike = None, noise: ArrayLike = None) -> Seen:
        """The sums of `statistics.py` for X and y, or for an iterable of (X, y) chunks.

        A row's noise variance is the model's divided by its weight; `noise` gives it outright.
        """
        self._check_ready()
        chunks = self._chunks(data, weights, noise, summed=True)
        if self.is_robust or self.noise_law.joint:
            return self._from_rows(list(chunks))
        return collect(self.features, chunks, self.reference, self.intercept is not None)

    def _design(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        return design(self.features, x, self.intercept is not None)

    def _chunks(
        self, data: Data, weights: ArrayLike = None, noise: ArrayLike = None, summed: bool = False
    ) -> Iterator[Chunk]:
        if self.noise_law.joint and not (summed and noise is None and weights is None):
            raise DataError(
                "with noise=Covariance(S) rows are not independent: there are no weights or noise of single ones, no "
                "leaving one out, and no ML or MAP; condition(X, y) and fit have the posterior"
            )
        if noise is not None:
            if weights is not None:
                raise DataError(
                    "give weights or noise for the rows, not both: a weight divides the model's noise variance"
                )
            weights = self.noise_law.variance / self.noise_law.for_rows(noise).variance
        elif self.noise_law.by_row:
            raise DataError(
                "this model has KnownNoise: give the variance of each row, condition(X, y, noise=variances)"
            )
        # Where the inputs are summed as they are, the sums show what is not finite: one pass less.
        shows = summed and isinstance(self.features, Affine) and self.features.is_identity and not self.is_robust
        return read_chunks(data, weights, self.inputs, finite=not shows)

    def _from_rows(self, chunks: list[Chunk]) -> Seen:
        """What noise with heavy tails keeps: the rows; of noise that rows share, the sums of whitened ones."""
        rows, law = self._rows(chunks), self.noise_law
        if not isinstance(law, Covariance):
            return rows
        xp = namespace(rows)
        white, log_det = law.whitened(xp.concatenate([rows.design, rows.y[:, None]], axis=1))
        return changed(Rows(white[:, :-1], white[:, -1], rows.weights).summed(), log_weight=-log_det)

    def _rows(self, chunks: list[Chunk]) -> Rows:
        xp = namespace(*(chunk[:3] for chunk in chunks))
        x, y = (xp.concatenate(part) for part in zip(*(chunk[:2] for chunk in chunks), strict=True))
        w = xp.concatenate([xp.ones(len(chunk.y)) if chunk.weights is None else chunk.weights for chunk in chunks])
        return Rows(self._design(x), y - self.reference, w)

    def _check_ready(self) -> None:
        if not self.features.ready:
            raise DataError(
                f"{type(self.features).__name__} still has numbers to choose from the data; use credo.fit or "
                "credo.learn, call features.adapt(X), or give them (e.g. domain=)"
            )

    def prepare(self, *data: ArrayLike, weights: ArrayLike = None, noise: ArrayLike = None) -> tuple["Linear", Seen]:
        """Standardized features, an intercept worth one observation, sensible starts; and the statistics.

        A belief that has seen data keeps its scales and learns from all it has seen.
        """
        from credo.models.linear.preparation import prepare

        return prepare(self, data, weights, noise)

    def _named(self, names: Sequence[str]) -> "Linear":
        return changed(self, inputs=tuple(names))

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition(self, *data: ArrayLike, using: object = None, **options: ArrayLike) -> Belief:
        """Bayes' rule; says so where the residuals contradict the noise, which is taken as it is given.

        Args:
            data: X and y, or an iterable of (X, y) chunks.
            using: a method of `credo.infer`; None is the closed form, for noise with heavy tails Laplace's.
            options: `weights` or `noise` of the rows.
        """
        after = super().condition(*data, using=using, **options)
        known = using is None and not (self.is_robust or self.noise_law.integrated)
        if known and not is_traced(after.seen) and isinstance(after.seen, Statistics):
            misfit = float(after.seen.residual(after.weights.mean)) / float(self.noise_law.unit)
            warn_of_misfit(misfit, int(after.seen.n))
        return after

    def told(self, *data: ArrayLike) -> "Linear":
        """The belief that knows the names of its inputs."""
        return self._named(input_names(data[0], self.inputs)) if len(data) == 2 else self

    def target(self, statistics: Seen, priors: Mapping[str, Prior] | None = None) -> "Target":
        """log p(y, θ, …), for the methods of `credo.infer`; `priors` by path make hyperparameters unknown, too."""
        from credo.models.linear.log_joint import target

        return target(self, statistics, priors)

    def given(self, posterior: "Posterior", statistics: Seen | None = None) -> "LinearDraws":
        """The belief by draws of what a method found about `statistics`: a `LinearDraws`."""
        from credo.models.linear.drawn import given

        return given(self, posterior, statistics)

    def condition_on(self, statistics: Seen) -> "Linear":
        """The posterior from sums."""
        now = self._now(statistics.width)
        if isinstance(statistics, Rows):
            weights, ok = robust_posterior(now, self.noise, statistics)
        else:
            weights, _, factor = posterior.condition(now, self.noise_law.unit, statistics)
            ok = factor.ok
        return changed(self, weights=demand(weights, ok, posterior.NOT_DEFINITE), seen=self._with(statistics))

    def _with(self, statistics: Seen) -> Seen:
        """All that was seen, these too."""
        return statistics if self.seen is None else self.seen + statistics  # type: ignore[operator]

    def forget(self, *data: ArrayLike, **options: ArrayLike) -> "Linear":
        """The belief as if a batch that it has seen had not been there."""
        removed = self.statistics(*data, **options)
        if not isinstance(self.seen, Statistics) or not isinstance(removed, Statistics):
            raise DataError("there is nothing to forget: this belief has seen no data, or its noise is not Gaussian")
        if not is_traced(removed) and float(removed.n) > float(self.seen.n):
            raise DataError(f"cannot forget {float(removed.n):g} rows: the belief has seen {float(self.seen.n):g}")
        return self.unconditioned().condition_on(self.seen - removed)

    def evidence_of(self, statistics: Seen) -> Float[Array, ""]:
        """log p(y | X): closed form; for heavy-tailed noise Laplace's approximation."""
        now = self._now(statistics.width)
        if isinstance(statistics, Rows):
            return robust_evidence(now, self.noise, statistics)
        return posterior.condition(now, self.noise_law.unit, statistics).log_evidence

    def log_evidence_of(self, statistics: Seen) -> Float[Array, ""]:
        """`evidence_of`, which needs no compilation."""
        return self.evidence_of(statistics)

    def _now(self, q: int | None = None) -> Weights:
        """What is believed of the weights now: the posterior, or the prior over q of them."""
        if self.weights is not None:
            if self.weights.root is None:
                raise DataError("a point estimate has no posterior to go on from; condition the model without using=")
            return self.weights
        if q is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        mean, root = prior_root(self.prior, self.intercept, q - (self.intercept is not None))
        return Weights(mean, root, self.noise if isinstance(self.noise, InverseGamma) else None)

    def learner(self, priors: Mapping[str, Prior]) -> "FixedPoint | None":
        """MacKay's fixed point where it applies."""
        from credo.models.linear.learning import FixedPoint

        return FixedPoint() if FixedPoint.applies(self, priors) else None

    def objective(self, slots: Layout, statistics: Seen, priors: Mapping[str, Prior]) -> "EvidenceObjective | None":
        """The evidence with its gradient in closed form, where it has one."""
        from credo.models.linear.learning import EvidenceObjective

        return EvidenceObjective(self, slots, statistics) if EvidenceObjective.applies(self, slots, priors) else None

    def integration(self, statistics: Seen) -> Integration | None:
        """Of one precision for all weights, and of the noise: both are of the scale of the data."""
        if not isinstance(self.prior, Isotropic) or self.noise_law.by_row or self.noise_law.integrated:
            return None
        sums = statistics.summed() if isinstance(statistics, Rows) else statistics
        spread, p = sums.square / sums.n, sums.width - (self.intercept is not None)
        own = {path: value for path, value in params.learnable(self).items() if path.startswith("noise")}
        scales = {path: (0.5 * spread) ** (1.0 if path == "noise" else 0.5) for path in own}
        modes = {"prior.precision": max(p, 1) / spread, **scales}
        return Integration(int(sums.n), {path: LogScalePenalty(mode, SPREAD) for path, mode in modes.items()})

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: ArrayLike, *, joint: bool = False, noise: ArrayLike = None) -> Predictive:
        """p(y* | x*, data): Normal, Student-t where the noise is unknown, a mixture where it has heavy tails.

        Args:
            x: queries, shape (m, d).
            joint: also keep the m × m covariance of the latent function.
            noise: the noise variance of each query, where it is known.
        """
        self._check_ready()
        table = check_table(x, "X", self.inputs)
        phi = self._design(table)
        weights = self.weights or self._now(phi.shape[1])
        expected = weights.mean.shape[0]
        if phi.shape[1] != expected:
            raise DataError(f"X must have the {expected} features the belief was conditioned on, found {phi.shape[1]}")
        mean, variance = posterior.latent(weights, phi)
        covariance = posterior.latent_covariance(weights, phi, phi) if joint else None
        law = self.noise_law if noise is None else self.noise_law.for_rows(noise, phi.shape[0])
        return law.predict(mean + self.reference, variance, covariance)

    def coefficients(self) -> Predictive:
        """The belief about (b, w), each on its own: Normal, or Student-t where the noise is unknown."""
        w = self._conditioned()
        mean, zeros = w.mean + self.shift(len(w.mean)), np.zeros(w.mean.shape)
        spread = zeros if w.root is None else inverse(w.root).diagonal()
        if w.noise is not None:
            return StudentT(2 * w.noise.shape + zeros, mean, zeros, w.noise.parameter * spread)
        return Normal(mean, zeros, spread)

    def shift(self, q: int) -> Float[Array, " q"]:
        """What has to be added to θ = (b - reference, w) for (b, w)."""
        return np.eye(1, q)[0] * self.reference

    def coefficient_names(self) -> list[str]:
        """The names that go with `coefficients`."""
        self._conditioned()
        if self.inputs is None:
            raise DataError("the inputs have no names: the belief was conditioned on chunks only; use credo.fit")
        return (["intercept"] if self.intercept is not None else []) + self.features.names(self.inputs)

    def noise_variance(self) -> Float[Array, ""]:
        """E[σ²]: the variance of the noise as it is believed now."""
        return self.noise_law.variance

    def _conditioned(self) -> Weights:
        if self.weights is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        return self.weights

    def covariance(self, x: ArrayLike, z: ArrayLike = None) -> Float[Array, "n m"]:
        """k(x, z) = φ̃(x)ᵀ P⁻¹ φ̃(z): the function-space view, the kernel of the prior or of the posterior."""
        phi = self._design(check_table(x, "x", self.inputs))
        psi = phi if z is None else self._design(check_table(z, "z", self.inputs))
        return posterior.latent_covariance(self.weights or self._now(phi.shape[1]), phi, psi)

    def scale_of_covariance(self) -> float:
        """1, or the noise variance that is expected where it is unknown: weights then are in units of it."""
        noise = None if self.weights is None else self.weights.noise
        return 1.0 if noise is None else float(noise.parameter)

    def leave_one_out(self, x: ArrayLike, y: ArrayLike, **options: ArrayLike) -> Predictive:
        """The prediction of each row of the data from all the others, in closed form.

        With leverage hᵢ = wᵢ φ̃ᵢᵀP₁⁻¹φ̃ᵢ/σ²:  mean yᵢ - rᵢ/(1 - hᵢ), latent variance vᵢ/(1 - hᵢ).
        `self` is the belief before the data.
        """
        if self.is_robust:
            raise DataError("leave-one-out in closed form needs Gaussian noise; use evaluate.cross_validate")
        (chunk,) = self._chunks((x, y), **options)
        after = self.condition_on(self.statistics(x, y, **options))._now()
        return posterior.leave_one_out(after, self.noise_law.unit, self._rows([chunk]), self.reference)

    # -- point estimates, see estimators.py ------------------------------------------------------------------

    def maximum_likelihood(self, *data: ArrayLike, **options: ArrayLike) -> "Linear":
        """Least squares by SVD, with the noise variance RSS/n; what `using=ML()` calls."""
        from credo.models.linear.estimators import least_squares

        return least_squares(self, *data, **options)

    def maximum_a_posteriori(self, *data: ArrayLike, **options: ArrayLike) -> "Linear":
        """Ridge, lasso or the robust mode, as a point; what `using=MAP()` calls."""
        from credo.models.linear.estimators import posterior_mode

        return posterior_mode(self, *data, **options)

    def plug_in(self, *data: ArrayLike, **options: ArrayLike) -> "Linear":
        """The posterior means of weights and noise, as a point; what `using=PlugIn()` calls."""
        from credo.models.linear.estimators import posterior_mean

        return posterior_mean(self, *data, **options)

    def maximum_log_likelihood(self, x: ArrayLike, y: ArrayLike, **options: ArrayLike) -> tuple[float, int]:
        """The highest log likelihood that the model can give to the data, and its number of parameters."""
        from credo.models.linear.estimators import maximum_log_likelihood

        return maximum_log_likelihood(self, x, y, **options)
