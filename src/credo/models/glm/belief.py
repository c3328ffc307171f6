"""`GLM`: outcomes that follow from a linear predictor through a likelihood, y ~ p(y | η = b + φ(x)ᵀw).

Conditioning is Laplace's approximation at the mode, found by Newton's method (`newton`):

    u | data ≈ N(û, H⁻¹),    log p(data) ≈ log p(data, û) + k/2 log 2π - ½ log|H|

with u the weights and the likelihood's own numbers, unconstrained. The next data meet that normal law as their prior
(assumed density filtering: Opper 1998), so conditioning in two halves is close to conditioning at once, not the same.
`using=` takes any method of `credo.infer`; predictions integrate over what it found (`predictions`).
Bishop (2006) §4.3-4.5; MacKay (1992), "The evidence framework applied to classification networks".
"""

import warnings
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params, predictive
from credo.core.abilities import DrawsMeans, HasLogDensity, HasPointEstimates, HasRows
from credo.core.arrays import Array, host, is_traced, namespace
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_positive, check_table, input_names
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.gaussian import Gaussian
from credo.core.linalg import cholesky, demand, factorize, inverse, log_determinant
from credo.core.params import constant
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.infer.laplace import normal_at
from credo.infer.posterior import NormalApproximation, Posterior
from credo.infer.priors import LogScalePenalty, Prior, Priors
from credo.infer.rows import RowDensity
from credo.infer.target import ParameterSpace, Target
from credo.models.features import Features
from credo.models.features.compose import as_features
from credo.models.glm import predictions
from credo.models.glm.evidence import LaplaceEvidence, LaplaceObjective, evidence
from credo.models.glm.log_joint import LogPrior, RowLogLikelihood, log_joint
from credo.models.glm.newton import GaussianPrior, Rows, climb, start
from credo.models.glm.predictions import DRAWS, WeightLaw
from credo.models.likelihoods import Classes, Likelihood
from credo.models.likelihoods.classes import Label
from credo.models.linear.posterior import NOT_DEFINITE
from credo.models.linear.priors import ARD, Intercept, Isotropic, LaplacePrior, as_intercept, prior_root
from credo.models.linear.statistics import design

SPREAD = 2.0
"""Of the logarithm of the precision of the weights before data."""

WeightPrior = Isotropic | ARD | LaplacePrior | Gaussian


class GLM(Belief, HasLogDensity, HasRows, HasPointEstimates, DrawsMeans):
    """A generalized linear model.

    Args:
        likelihood: how outcomes follow from the linear predictor, one of `credo.models.likelihoods`.
        features: the basis φ; None is the inputs themselves. `learn` and `fit` standardize its columns.
        prior: of the weights: `Isotropic` (ridge), `ARD`, any `Gaussian`, or `LaplacePrior` (lasso: MAP or NUTS).
            The weights of all classes have the same prior; `coefficients` are differences to the last class. Under
            a `LaplacePrior` it is the differences that have it.
        intercept: the belief about the constant term; None or False leaves it out.
    """

    from_data: ClassVar[tuple[str, ...]] = ("law", "found")

    features: Features
    prior: WeightPrior
    intercept: Intercept | None
    law: WeightLaw | None
    found: Posterior | None
    """What a method of `credo.infer` returned, with its verdict; None where the default was used."""
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    likelihood: Likelihood = constant()

    def __init__(
        self,
        likelihood: ArrayLike,
        features: object = None,
        prior: WeightPrior | None = None,
        intercept: Intercept | bool | None = True,
    ):
        if not isinstance(likelihood, Likelihood):
            raise DataError(f"likelihood must be one of credo.models.likelihoods, found {type(likelihood).__name__}")
        # Labels that are given are all there are: numbers that depend on how many (cutpoints) can be laid out.
        ready = isinstance(likelihood, Classes) and likelihood.classes is not None
        self.likelihood = likelihood.adapt(None) if ready else likelihood
        self.features = as_features(features, type(self).__name__)
        self.prior = Isotropic() if prior is None else prior
        default = Intercept(variance=np.asarray(10.0)) if likelihood.counts else Intercept()
        self.intercept = as_intercept(intercept, default) if likelihood.shifts else None
        self.law, self.found, self.inputs = None, None, None

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The labels in the order of the predicted probabilities; None for numbers, or before any were seen."""
        return self.likelihood.classes if isinstance(self.likelihood, Classes) else None

    # -- data ------------------------------------------------------------------------------------------------

    def statistics(self, *data: ArrayLike, weights: ArrayLike = None, exposure: ArrayLike = None) -> Rows:
        """The rows of X and y, checked. A row of weight w counts as w rows; `exposure` multiplies expected counts."""
        if len(data) != 2:
            raise DataError(f"a {type(self).__name__} is conditioned on X and y, found {len(data)} arguments")
        if not self.features.ready:
            raise DataError(
                f"{type(self.features).__name__} still has numbers to choose from the data; use credo.fit or "
                "credo.learn, or call features.adapt(X)"
            )
        x = check_table(data[0], "X", self.inputs)
        likelihood = self.likelihood.adapt(data[1]) if self.law is None else self.likelihood
        y = likelihood.encode(data[1])
        n = x.shape[0]
        if y.shape[0] != n:
            raise DataError(f"y must have one value per row: {n} are expected, found {y.shape[0]}")
        w = np.ones(n) if weights is None else check_positive(weights, "weights", n)
        phi, offset = design(self.features, x, self.intercept is not None), self._offset(exposure, n)
        phi, y, w, offset = host((phi, y, w, offset))
        return Rows(phi, y, w, offset, likelihood)

    def _offset(self, exposure: ArrayLike, n: int) -> Float[Array, " n"]:
        if exposure is None:
            return np.zeros(n)
        if not self.likelihood.counts:
            raise DataError("exposure is for counts; for other outcomes put what is known into the features")
        t = check_positive(exposure, "exposure", n)
        return namespace(t).log(t)

    def told(self, *data: ArrayLike) -> "GLM":
        """The belief that knows its inputs' names and its classes."""
        if len(data) != 2 or is_traced(data):
            return self
        likelihood = self.likelihood.adapt(data[1]) if self.law is None else self.likelihood
        return changed(self, likelihood=likelihood, inputs=tuple(input_names(data[0], self.inputs)))

    def prepare(self, *data: ArrayLike, **options: ArrayLike) -> tuple["GLM", Rows]:
        """Standardized features, an intercept worth one observation, sensible starts; and the rows."""
        from credo.models.glm.preparation import prepare

        return prepare(self, data, options)

    def learner(self, priors: Priors) -> LaplaceEvidence:
        """A climb of the evidence; two with other numbers to infer. Of many scales the third digit changes nothing."""
        if isinstance(self.prior, ARD):
            return LaplaceEvidence(starts=1, tolerance=1e-2, flat=False)
        return LaplaceEvidence(starts=1 + (self.likelihood.size > 0), tolerance=1e-4)

    def default_priors(self, statistics: Rows) -> dict[str, Prior]:
        """One precision for all weights is of the order of one, log α ~ N(0, 2²), in units of η; others are free."""
        if not isinstance(self.prior, Isotropic):
            return {}
        unit = statistics.likelihood.unit(statistics.y, statistics.weights)
        return {"prior.precision": LogScalePenalty(1 / unit**2, SPREAD)}

    def objective(self, slots: params.Layout, statistics: Rows, priors: Priors) -> LaplaceObjective | None:
        """Laplace's evidence of the precision of the weights, each climb from the mode of the last."""
        learned = [slot.path for slot in slots] == ["prior.precision"] and isinstance(self.prior, Isotropic | ARD)
        return LaplaceObjective(self, slots, statistics, priors) if learned and not is_traced(statistics) else None

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Rows, near: Float[Array, " k"] | None = None) -> "GLM":
        """The normal law at the mode, sought `near` a place; a better one (`refine`) where the posterior is skewed."""
        found = self.at_mode(statistics, near)
        if is_traced(found.law) or statistics.is_large:  # a look at a large table takes as long as the climb
            return found
        from credo.models.glm.refine import refined

        return refined(self, found, statistics)

    def at_mode(self, statistics: Rows, near: Float[Array, " k"] | None = None) -> "GLM":
        """Laplace's approximation, good or not; the climb may start `near` the mode."""
        top = climb(self.before(statistics), statistics, self.intercept is not None, near)
        root, log_z, ok = normal_at(top.value, top.precision)
        root = demand(root, ok, NOT_DEFINITE)
        if not is_traced(top.stride) and not bool(top.converged):
            warnings.warn(
                f"the mode was not reached in {int(top.steps)} steps (the last was {float(top.stride):.2g} standard "
                "deviations); standardize the features (credo.fit does) or give a tighter prior",
                NotConvergedWarning,
                stacklevel=4,
            )
        return self.at(statistics.likelihood, WeightLaw(top.u, root, None, log_z))

    def at(self, likelihood: Likelihood, law: WeightLaw, found: Posterior | None = None) -> "GLM":
        """The belief with this law; the likelihood's numbers are shown at its center."""
        s = likelihood.size
        return changed(self, likelihood=likelihood.at(law.center[:s]) if s else likelihood, law=law, found=found)

    def doubts(self) -> tuple[str, ...]:
        """What importance weights have against the law."""
        return () if self.found is None else self.found.notes

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """Laplace's approximation of log p(y | X)."""
        return evidence(self.before(statistics), statistics, self.intercept is not None)

    def log_evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """The same, of numbers that are known."""
        return self.evidence_of(statistics)

    def before(self, statistics: Rows) -> GaussianPrior:
        """What is believed of u before the rows."""
        if self.law is None:
            return self._prior(statistics.design.shape[1], statistics.likelihood)
        center, root = self.normal_law()
        scale = -0.5 * (log_determinant(root) + len(center) * LOG_2PI)
        return GaussianPrior(center, inverse(root), scale, False)

    def _prior(self, q: int, likelihood: Likelihood, prior: WeightPrior | None = None) -> GaussianPrior:
        """The prior of u for q features."""
        s, c, xp = likelihood.size, likelihood.width, namespace(self)
        mean, root = prior_root(
            self.prior if prior is None else prior, self.intercept, q - (self.intercept is not None)
        )
        if self.intercept is not None:
            mean = xp.concatenate([xp.reshape(self.intercept.mean, (1,)), mean[1:]])
        if likelihood.vector:  # the same mean for all classes makes no difference between them
            mean = xp.zeros(q * c)
        precision = xp.pad(xp.kron(root @ root.T, likelihood.coupling), (s, 0))
        scale = 0.5 * (c * log_determinant(root) + q * _log_det(likelihood) - q * c * LOG_2PI)
        return GaussianPrior(xp.concatenate([np.zeros(s), mean]), precision, scale)

    def without(self, q: int, likelihood: Likelihood) -> GaussianPrior:
        """The prior of everything but the weights, which are flat."""
        unit = self._prior(q, likelihood, Isotropic())
        p, c = q - (self.intercept is not None), likelihood.width
        rest = np.arange(len(unit.mean)) < len(unit.mean) - p * c
        scale = unit.log_scale + 0.5 * p * (c * LOG_2PI - _log_det(likelihood))
        return GaussianPrior(unit.mean, unit.precision * rest, scale)

    def target(self, statistics: Rows, priors: Priors | None = None) -> Target:
        """log p(y, θ) over {"weights": …} and the likelihood's own numbers, for the methods of `credo.infer`."""
        space, log_prior = self._unknown(statistics, priors)
        return Target(space, log_joint, (log_prior, statistics.padded()))

    def row_density(self, statistics: Rows) -> tuple[RowDensity, tuple[np.ndarray, ...]]:
        """log p(θ) and the log likelihood of each row, for methods that look at some rows at a time."""
        space, log_prior = self._unknown(statistics, None)
        density = RowDensity(space, log_prior, RowLogLikelihood(statistics.likelihood))
        return density, tuple(np.asarray(column) for column in statistics[:4])

    def _unknown(self, statistics: Rows, priors: Priors | None) -> tuple[ParameterSpace, LogPrior]:
        if priors:
            raise DataError(
                f"{type(self).__name__} has its hyperparameters chosen by credo.fit, found priors= for them"
            )
        lasso = self.prior.scale if isinstance(self.prior, LaplacePrior) and self.law is None else None
        q = statistics.design.shape[1]
        before = self.before(statistics) if lasso is None else self.without(q, statistics.likelihood)
        space = self._space(statistics.likelihood, start(statistics, self.intercept is not None, before.mean), q)
        return space, LogPrior(statistics.likelihood, before, lasso, self.intercept is not None)

    def _space(self, likelihood: Likelihood, u: Float[Array, " k"], q: int) -> ParameterSpace:
        slots, s, c = params.layout(likelihood), likelihood.size, likelihood.width
        shown = params.learnable(likelihood.at(u[:s])) if slots else {}
        weights = u[s:].reshape((q, c) if likelihood.vector else (q,))
        space = ParameterSpace.of({**shown, "weights": weights}, {slot.path: slot.constraint for slot in slots})
        # u = (ψ, vec W), but a space sorts by name: those of ψ have to come before "weights", in their order.
        assert [slot.path for slot in space.slots] == [*(slot.path for slot in slots), "weights"]
        return space

    def given(self, posterior: Posterior, statistics: Rows | None = None) -> "GLM":
        """The belief with what a method found about u; more than a thousand draws are thinned for predictions."""
        if isinstance(self.likelihood, Classes) and self.classes is None:
            raise DataError("the classes are not known; use belief.condition(X, y, using=method)")
        if isinstance(posterior, NormalApproximation):
            law = WeightLaw(*host((posterior.center, posterior.root)), None, host(posterior.log_evidence))
        else:
            kept = np.asarray(posterior.kept())
            thin = kept[np.linspace(0, len(kept) - 1, min(len(kept), DRAWS)).astype(int)]
            law = WeightLaw(kept.mean(0), None, thin)
        return self.at(self.likelihood, law, posterior)

    @property
    def posterior(self) -> Posterior:
        """The belief about the weights and the likelihood's numbers, to draw from and to summarize."""
        law = self.weight_law()
        if self.found is not None:
            return self.found
        if law.root is None:
            raise DataError("a point estimate has no posterior; condition the model without using=")
        q = (law.center.shape[0] - self.likelihood.size) // self.likelihood.width
        space = self._space(self.likelihood, law.center, q)
        log_z = np.asarray(np.nan) if law.log_evidence is None else law.log_evidence
        return NormalApproximation(space=space, center=law.center, root=law.root, log_evidence=log_z)

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: ArrayLike, *, exposure: ArrayLike = None, by: str | None = None) -> predictive.Predictive:
        """p(y* | x*, data) with the weights integrated out.

        Args:
            x: queries, shape (m, d).
            exposure: of each query, for counts.
            by: "quadrature", "sampling", or for two classes "probit", the approximation in closed form; None is the
                best for the likelihood.
        """
        table = check_table(x, "X", self.inputs)
        phi = design(self.features, table, self.intercept is not None)
        likelihood = self.likelihood
        law = self.law or self._prior_law(phi.shape[1])
        expected = (law.center.shape[0] - likelihood.size) // likelihood.width
        if phi.shape[1] != expected:
            raise DataError(f"X must have the {expected} features the belief was conditioned on, found {phi.shape[1]}")
        return predictions.predict(law, likelihood, phi, self._offset(exposure, table.shape[0]), by)

    def mean_draws(self, x: ArrayLike, n: int = 1000, *, joint: bool = True, seed: int = 0) -> np.ndarray:
        """See `DrawsMeans`: expectations at draws of the weights."""
        groups, likelihood = np.asarray(x, dtype=float), self.likelihood
        phi = np.asarray(design(self.features, groups.reshape(-1, groups.shape[-1]), self.intercept is not None))
        law = self.law or self._prior_law(phi.shape[1])
        center = np.asarray(law.center)
        if law.draws is not None:
            u = np.random.default_rng(seed).choice(np.asarray(law.draws), n)
        elif law.root is None:
            u = np.tile(center, (n, 1))
        else:
            z = np.random.default_rng(seed).normal(size=(n // 2, len(center))) @ np.asarray(law.root).T
            u = center + np.concatenate([z, -z])
        weights = u[:, likelihood.size :].reshape(len(u), phi.shape[1], likelihood.width)
        eta = np.einsum("mq,sqc->smc", phi, weights, optimize=True)
        mean = np.asarray(likelihood.mean(eta if likelihood.vector else eta[..., 0]))
        return mean.reshape(len(u), *groups.shape[:2], *mean.shape[2:]).mean(axis=2)

    def _prior_law(self, q: int) -> WeightLaw:
        """The prior of the weights; the likelihood's own numbers as they are."""
        before, s = self._prior(q, self.likelihood), self.likelihood.size
        xp = namespace(self)
        covariance = factorize(inverse(factorize(before.precision[s:, s:]).root))
        return WeightLaw(xp.concatenate([self.likelihood.psi, before.mean[s:]]), xp.pad(covariance.root, (s, 0)))

    def coefficients(self) -> predictive.Normal:
        """The belief about (b, w), each on its own; with several classes a column for each but the last."""
        law = self.weight_law()
        variance = 0 * law.center
        if law.draws is not None:
            variance = law.draws.var(0)
        elif law.root is not None:
            variance = (law.root**2).sum(1)
        s, shape = self.likelihood.size, (-1, self.likelihood.width) if self.likelihood.vector else (-1,)
        mean = law.center[s:].reshape(shape)
        return predictive.Normal(mean, 0 * mean, variance[s:].reshape(shape))

    def coefficient_names(self) -> list[str]:
        """The names that go with `coefficients`."""
        self.weight_law()
        if self.inputs is None:
            raise DataError("the inputs have no names: the belief was conditioned on statistics; use credo.fit")
        return (["intercept"] if self.intercept is not None else []) + self.features.names(self.inputs)

    def _named(self, names: Sequence[str]) -> "GLM":
        return changed(self, inputs=tuple(names))

    def weight_law(self) -> WeightLaw:
        """What is believed of u, after data."""
        if self.law is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        return self.law

    def normal_law(self) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
        """Center and covariance root of u; of draws, the normal law with their moments."""
        law = self.weight_law()
        if law.root is not None:
            return law.center, law.root
        if law.draws is None:
            raise DataError("a point estimate has no posterior to go on from; condition the model without using=")
        covariance = namespace(law).cov(law.draws.T).reshape(law.draws.shape[1], -1)
        return law.center, cholesky(covariance, "the covariance of the draws")

    # -- point estimates, see estimators.py ------------------------------------------------------------------

    def maximum_likelihood(self, *data: ArrayLike, **options: ArrayLike) -> "GLM":
        """The most likely numbers as a point; what `using=ML()` calls."""
        from credo.models.glm.estimators import maximum_likelihood

        return maximum_likelihood(self, *data, **options)

    def maximum_a_posteriori(self, *data: ArrayLike, **options: ArrayLike) -> "GLM":
        """The mode of u as a point: ridge, or lasso; what `using=MAP()` calls."""
        from credo.models.glm.estimators import posterior_mode

        return posterior_mode(self, *data, **options)

    def plug_in(self, *data: ArrayLike, **options: ArrayLike) -> "GLM":
        """The mean of u as a point; what `using=PlugIn()` calls."""
        after = self.condition(*data, **options)
        return after.at(after.likelihood, WeightLaw(after.law.center, None))

    def maximum_log_likelihood(self, *data: ArrayLike, **options: ArrayLike) -> tuple[float, int]:
        """The highest log likelihood that the model can give to the data, and its number of parameters."""
        from credo.models.glm.estimators import maximum_log_likelihood

        return maximum_log_likelihood(self, *data, **options)


def _log_det(likelihood: Likelihood) -> float:
    """log |C| of the coupling C."""
    return float(np.linalg.slogdet(likelihood.coupling)[1])
