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
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credo.core import params, predictive
from credo.core.abilities import HasLogDensity, HasPointEstimates, HasRows
from credo.core.arrays import Array, is_traced, put_all
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_positive, check_table, input_names
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.gaussian import Gaussian
from credo.core.linalg import cholesky, demand, factorize, inverse, log_determinant
from credo.core.padding import padded
from credo.core.params import constant
from credo.core.pytrees import changed
from credo.infer.laplace import normal_at
from credo.infer.learning import Evidence
from credo.infer.posterior import NormalApproximation, Posterior
from credo.infer.rows import RowDensity
from credo.infer.target import ParameterSpace, Target
from credo.models.features import Affine, Features
from credo.models.glm import predictions
from credo.models.glm.evidence import LaplaceObjective, evidence
from credo.models.glm.log_joint import LogPrior, RowLogLikelihood, log_joint
from credo.models.glm.newton import LARGE, GaussianPrior, Rows, climb, size_of, start
from credo.models.glm.predictions import DRAWS, WeightLaw
from credo.models.likelihoods import Classes, Likelihood
from credo.models.linear.posterior import NOT_DEFINITE
from credo.models.linear.priors import ARD, Intercept, Isotropic, LaplacePrior, prior_root
from credo.models.linear.statistics import design

WeightPrior = Isotropic | ARD | LaplacePrior | Gaussian


class GLM(Belief, HasLogDensity, HasRows, HasPointEstimates):
    """A generalized linear model.

    Args:
        likelihood: how outcomes follow from the linear predictor, one of `credo.models.likelihoods`.
        features: the basis φ; None is the inputs themselves. `learn` and `fit` standardize its columns.
        prior: of the weights: `Isotropic` (ridge), `ARD`, any `Gaussian`, or `LaplacePrior` (lasso: MAP or NUTS).
            Several classes have the same prior for each of their weights, measured against the last class.
        intercept: the belief about the constant term; None or False leaves it out.
    """

    from_data: ClassVar[tuple[str, ...]] = ("law", "found")

    features: Features
    prior: WeightPrior
    intercept: Intercept | None
    law: WeightLaw | None
    found: Any
    """What a method of `credo.infer` returned, with its verdict; None where the default was used."""
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    likelihood: Likelihood = constant()

    def __init__(
        self,
        likelihood: ArrayLike,
        features: Features | None = None,
        prior: WeightPrior | None = None,
        intercept: Intercept | bool | None = True,
    ):
        if not isinstance(likelihood, Likelihood):
            raise DataError(f"likelihood must be one of credo.models.likelihoods, found {type(likelihood).__name__}")
        # Labels that are given are all there are: numbers that depend on how many (cutpoints) can be laid out.
        ready = isinstance(likelihood, Classes) and likelihood.classes is not None
        self.likelihood = likelihood.adapt(None) if ready else likelihood
        self.features = Affine() if features is None else features
        self.prior = Isotropic() if prior is None else prior
        default = Intercept(variance=jnp.asarray(10.0)) if likelihood.counts else Intercept()
        self.intercept = (default if intercept is True else (intercept or None)) if likelihood.shifts else None
        self.law, self.found, self.inputs = None, None, None

    def _with(self, **values: Any) -> Any:
        """A copy with other fields."""
        return changed(self, **values)

    @property
    def classes(self) -> tuple[Any, ...] | None:
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
        x = check_table(data[0], "X", None if self.inputs is None else len(self.inputs))
        likelihood = self.likelihood.adapt(data[1]) if self.law is None else self.likelihood
        y = likelihood.encode(data[1])
        n = x.shape[0]
        if y.shape[0] != n:
            raise DataError(f"y must have one value per row: {n} are expected, found {y.shape[0]}")
        w = np.ones(n) if weights is None else check_positive(weights, "weights", n)
        phi, offset = design(self.features, x, self.intercept is not None), self._offset(exposure, n)
        if is_traced(phi, y, w, offset):
            return Rows(jnp.asarray(phi), jnp.asarray(y), jnp.asarray(w), jnp.asarray(offset), likelihood)
        arrays = [np.asarray(v) for v in (phi, y, w, offset)]
        if phi.size < LARGE:
            arrays = list(padded(*arrays)[:4])
        phi, y, w, offset = put_all(*arrays)
        return Rows(phi, y, w, offset, likelihood)

    def _offset(self, exposure: ArrayLike, n: int) -> Any:
        if exposure is None:
            return np.zeros(n)
        if not self.likelihood.counts:
            raise DataError("exposure is for counts; for other outcomes put what is known into the features")
        t = check_positive(exposure, "exposure", n)
        return jnp.log(t) if is_traced(t) else np.log(t)

    def told(self, *data: ArrayLike) -> Any:
        """The belief that knows its inputs' names and its classes."""
        if len(data) != 2 or is_traced(data):
            return self
        likelihood = self.likelihood.adapt(data[1]) if self.law is None else self.likelihood
        return self._with(likelihood=likelihood, inputs=self.inputs or tuple(input_names(data[0])))

    def prepare(self, *data: ArrayLike, **options: ArrayLike) -> tuple[Any, Rows]:
        """Standardized features, an intercept worth one observation, sensible starts; and the rows."""
        from credo.models.glm.preparation import prepare

        return prepare(self, data, options)

    def learner(self, priors: dict[str, Any]) -> Any:
        """Two climbs of the evidence."""
        return Evidence(starts=2, tolerance=1e-4)

    def objective(self, slots: params.Layout, statistics: Rows, priors: dict[str, Any]) -> Any:
        """Laplace's evidence, each climb from the mode of the last."""
        if isinstance(self.prior, LaplacePrior) or is_traced(statistics):
            return None
        return LaplaceObjective(self, slots, statistics, priors)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def condition_on(self, statistics: Rows) -> Any:
        """The normal law at the mode; a better one (`refine`) where the posterior is skewed."""
        found = self.at_mode(statistics)
        if is_traced(found.law.root) or statistics.is_large:  # a look at a large table takes as long as the climb
            return found
        from credo.models.glm.refine import refined

        return refined(self, found, statistics)

    def at_mode(self, statistics: Rows) -> Any:
        """Laplace's approximation, good or not."""
        top = climb(self.before(statistics), statistics, self.intercept is not None)
        root, log_z, ok = normal_at(jnp.asarray(top.value), jnp.asarray(top.precision))
        root = demand(root, ok, NOT_DEFINITE)
        if not is_traced(top.stride) and not bool(top.converged):
            warnings.warn(
                f"the mode was not reached in {int(top.steps)} steps (the last was {float(top.stride):.2g} standard "
                "deviations); standardize the features (credo.fit does) or give a tighter prior",
                NotConvergedWarning,
                stacklevel=4,
            )
        return self.at(statistics.likelihood, WeightLaw(jnp.asarray(top.u), root, None, log_z))

    def at(self, likelihood: Likelihood, law: WeightLaw, found: Any = None) -> Any:
        """The belief with this law; the likelihood's numbers are shown at its center."""
        slots = params.layout(likelihood)
        shown = params.from_vector(likelihood, slots, law.center[: size_of(likelihood)]) if slots else likelihood
        return self._with(likelihood=shown, law=law, found=found)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """Laplace's approximation of log p(y | X)."""
        return evidence(self.before(statistics), statistics, self.intercept is not None)

    def before(self, statistics: Rows) -> GaussianPrior:
        """What is believed of u before the rows."""
        k = size_of(statistics.likelihood) + statistics.design.shape[1] * statistics.width
        if self.law is not None:
            center, root = _normal(self.law)
            precision, scale = inverse(root), -0.5 * (log_determinant(root) + k * jnp.log(2 * jnp.pi))
            return GaussianPrior(center, precision, scale, False)
        return self._prior(statistics.design.shape[1], statistics.likelihood)

    def _prior(self, q: int, likelihood: Likelihood, prior: WeightPrior | None = None) -> GaussianPrior:
        chosen = self.prior if prior is None else prior
        # What a covariance is checked for cannot be said from inside a compiled function.
        laid_out = _lay_out if isinstance(chosen, Gaussian) else _lay_out_compiled
        return laid_out(chosen, self.intercept, q, likelihood.width, size_of(likelihood))

    def target(self, statistics: Rows, priors: Any = None) -> Target:
        """log p(y, θ) over {"weights": …} and the likelihood's own numbers, for the methods of `credo.infer`."""
        space, log_prior = self._unknown(statistics, priors)
        return Target(space, log_joint, (log_prior, statistics))

    def row_density(self, statistics: Rows) -> tuple[RowDensity, tuple[np.ndarray, ...]]:
        """log p(θ) and the log likelihood of each row, for methods that look at some rows at a time."""
        space, log_prior = self._unknown(statistics, None)
        real = np.asarray(statistics.weights) > 0
        columns = (statistics.design, statistics.y, statistics.weights, statistics.offset)
        density = RowDensity(space, log_prior, RowLogLikelihood(statistics.likelihood))
        return density, tuple(np.asarray(column)[real] for column in columns)

    def _unknown(self, statistics: Rows, priors: Any) -> tuple[ParameterSpace, LogPrior]:
        if priors:
            raise DataError(
                f"{type(self).__name__} has its hyperparameters chosen by credo.fit, found priors= for them"
            )
        lasso = self.prior.scale if isinstance(self.prior, LaplacePrior) and self.law is None else None
        q = statistics.design.shape[1]
        before = self.before(statistics) if lasso is None else self._without(q, statistics.likelihood)
        space = self._space(statistics.likelihood, start(statistics, self.intercept is not None, before.mean), q)
        return space, LogPrior(statistics.likelihood, before, lasso, self.intercept is not None)

    def _without(self, q: int, likelihood: Likelihood) -> GaussianPrior:
        """The prior of everything but the weights, which are flat."""
        s, c = size_of(likelihood), likelihood.width
        unit = self._prior(q, likelihood, Isotropic())
        free = slice(s + (self.intercept is not None) * c, None)
        scale = unit.log_scale + 0.5 * unit.mean[free].shape[0] * jnp.log(2 * jnp.pi)
        return GaussianPrior(unit.mean, unit.precision.at[free, free].set(0.0), scale)

    def _space(self, likelihood: Likelihood, u: Float[Array, " k"], q: int) -> ParameterSpace:
        slots, s, c = params.layout(likelihood), size_of(likelihood), likelihood.width
        shown = params.learnable(params.from_vector(likelihood, slots, u[:s])) if slots else {}
        weights = u[s:].reshape((q, c) if likelihood.vector else (q,))
        space = ParameterSpace.of({**shown, "weights": weights}, {slot.path: slot.constraint for slot in slots})
        # u = (ψ, vec W), but a space sorts by name: those of ψ have to come before "weights", in their order.
        assert [slot.path for slot in space.slots] == [*(slot.path for slot in slots), "weights"]
        return space

    def given(self, posterior: Posterior, statistics: Rows | None = None) -> Any:
        """The belief with what a method found about u; more than a thousand draws are thinned for predictions."""
        if isinstance(self.likelihood, Classes) and self.classes is None:
            raise DataError("the classes are not known; use belief.condition(X, y, using=method)")
        if isinstance(posterior, NormalApproximation):
            law = WeightLaw(posterior.center, posterior.root, None, posterior.log_evidence)
        else:
            kept = np.asarray(posterior.kept())
            thin = kept[np.linspace(0, len(kept) - 1, min(len(kept), DRAWS)).astype(int)]
            law = WeightLaw(jnp.asarray(kept.mean(0)), None, jnp.asarray(thin))
        return self.at(self.likelihood, law, posterior)

    @property
    def posterior(self) -> Posterior:
        """The belief about the weights and the likelihood's numbers, to draw from and to summarize."""
        law = self._conditioned()
        if self.found is not None:
            return self.found
        if law.root is None:
            raise DataError("a point estimate has no posterior; condition the model without using=")
        s, c = size_of(self.likelihood), self.likelihood.width
        space = self._space(self.likelihood, law.center, (law.center.shape[0] - s) // c)
        log_z = jnp.asarray(jnp.nan) if law.log_evidence is None else law.log_evidence
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
        table = check_table(x, "X", None if self.inputs is None else len(self.inputs))
        phi = design(self.features, table, self.intercept is not None)
        likelihood = self.likelihood
        law = self.law or self._prior_law(phi.shape[1])
        expected = (law.center.shape[0] - size_of(likelihood)) // likelihood.width
        if phi.shape[1] != expected:
            raise DataError(f"X must have the {expected} features the belief was conditioned on, found {phi.shape[1]}")
        return predictions.predict(law, likelihood, phi, self._offset(exposure, table.shape[0]), by)

    def _prior_law(self, q: int) -> WeightLaw:
        """The prior of the weights; the likelihood's own numbers as they are."""
        before, s = self._prior(q, self.likelihood), size_of(self.likelihood)
        slots = params.layout(self.likelihood)
        center = before.mean.at[:s].set(params.to_vector(self.likelihood, slots)) if slots else before.mean
        precision = factorize(before.precision[s:, s:])
        covariance = factorize(inverse(precision.root))
        return WeightLaw(center, jnp.zeros_like(before.precision).at[s:, s:].set(covariance.root))

    def coefficients(self) -> predictive.Normal:
        """The belief about (b, w), each on its own; with several classes a column for each but the last."""
        law = self._conditioned()
        s, c = size_of(self.likelihood), self.likelihood.width
        variance = jnp.zeros_like(law.center)
        if law.draws is not None:
            variance = law.draws.var(0)
        elif law.root is not None:
            variance = jnp.sum(law.root**2, axis=1)
        shape = (-1, c) if self.likelihood.vector else (-1,)
        mean, spread = law.center[s:].reshape(shape), variance[s:].reshape(shape)
        return predictive.Normal(mean, jnp.zeros_like(mean), spread)

    def coefficient_names(self) -> list[str]:
        """The names that go with `coefficients`."""
        self._conditioned()
        if self.inputs is None:
            raise DataError("the inputs have no names: the belief was conditioned on statistics; use credo.fit")
        return (["intercept"] if self.intercept is not None else []) + self.features.names(self.inputs)

    def _named(self, names: Sequence[str]) -> Any:
        return self._with(inputs=tuple(names))

    def _conditioned(self) -> WeightLaw:
        if self.law is None:
            raise DataError("the belief has seen no data yet; condition it or use credo.fit")
        return self.law

    # -- point estimates, see estimators.py ------------------------------------------------------------------

    def maximum_likelihood(self, *data: ArrayLike, **options: ArrayLike) -> Any:
        """The most likely numbers as a point; what `using=ML()` calls."""
        from credo.models.glm.estimators import maximum_likelihood

        return maximum_likelihood(self, *data, **options)

    def maximum_a_posteriori(self, *data: ArrayLike, **options: ArrayLike) -> Any:
        """The mode of u as a point: ridge, or lasso; what `using=MAP()` calls."""
        from credo.models.glm.estimators import posterior_mode

        return posterior_mode(self, *data, **options)

    def plug_in(self, *data: ArrayLike, **options: ArrayLike) -> Any:
        """The mean of u as a point; what `using=PlugIn()` calls."""
        after = self.condition(*data, **options)
        return after.at(after.likelihood, WeightLaw(after.law.center, None))

    def maximum_log_likelihood(self, *data: ArrayLike, **options: ArrayLike) -> tuple[float, int]:
        """The highest log likelihood that the model can give to the data, and its number of parameters."""
        from credo.models.glm.estimators import maximum_log_likelihood

        return maximum_log_likelihood(self, *data, **options)


def _normal(law: WeightLaw) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
    """Center and covariance root; of draws, the normal law with their moments."""
    if law.root is not None:
        return law.center, law.root
    if law.draws is None:
        raise DataError("a point estimate has no posterior to go on from; condition the model without using=")
    covariance = jnp.cov(law.draws.T).reshape(law.draws.shape[1], -1)
    return law.center, cholesky(covariance, "the covariance of the draws")


def _lay_out(prior: WeightPrior, intercept: Intercept | None, q: int, c: int, s: int) -> GaussianPrior:
    """The prior of u for q features, c predictors and s numbers of the likelihood."""
    mean, root = prior_root(prior, intercept, q - (intercept is not None))
    if intercept is not None:
        mean = mean.at[0].set(intercept.mean)
    precision = jnp.kron(root @ root.T, jnp.eye(c))
    scale = 0.5 * c * (log_determinant(root) - q * jnp.log(2 * jnp.pi))
    full = jnp.zeros((s + q * c, s + q * c)).at[s:, s:].set(precision)
    return GaussianPrior(jnp.concatenate([jnp.zeros(s), jnp.repeat(mean, c)]), full, scale)


_lay_out_compiled = eqx.filter_jit(_lay_out)
