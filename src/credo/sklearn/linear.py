"""`BayesianLinearRegressor`: `credo.Linear` behind fit and predict."""

import equinox as eqx
import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _check_sample_weight, validate_data

from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.infer import MAP, Evidence
from credo.infer.method import Learner
from credo.models import linear
from credo.models.linear import Linear, lasso_path
from credo.sklearn import base
from credo.sklearn.base import BeliefRegressor, Choices, Option, choose

PRIORS: Choices = {"ridge": linear.Isotropic, "ard": linear.ARD, "lasso": linear.LaplacePrior}
NOISES: Choices = {"learned": lambda: 1.0, "unknown": linear.InverseGamma}
NOISES |= {"student-t": linear.StudentTNoise, "laplace": linear.LaplaceNoise}


class BayesianLinearRegressor(BeliefRegressor):
    """Bayesian linear regression, y = b + φ(x)ᵀw + ε, with its hyperparameters learned.

    Hyperparameters are those of the highest evidence; inputs are standardized inside and `coef_` is in their
    own units. Under "lasso" the weights are the mode under a Laplace prior: the penalty is the one with the
    least squared error in cross-validation, and that error is the noise variance, since a point estimate has
    no doubt of its own.

    Args:
        prior: of the weights: "ridge" (one variance), "ard" (one for each feature: irrelevant ones are switched
            off) or "lasso".
        noise: "learned" (its variance by evidence), "unknown" (integrated out: Student-t predictions), or
            "student-t" and "laplace" (robust to outliers).
        features: None (the inputs themselves), "polynomial" (degree 2), "spline" (ten B-splines for each input),
            or any of `credo.models.features`.
        fit_intercept: whether there is a constant term.
        cv: the folds of the lasso: their number, a splitter, or an iterable of (train, test) rows.
        random_state: of the starting points of the search for hyperparameters.

    Attributes:
        belief_: the posterior, a `credo.Linear`.
        coef_: the mean weights; of the inputs in their own units, or of φ(x) where there are `features`.
        intercept_: the mean constant term.
        noise_variance_: E[σ²].
        log_evidence_: log p(y | X) at the hyperparameters; absent for the lasso.
    """

    def __init__(
        self,
        prior: Option = "ridge",
        noise: Option = "learned",
        features: Option = None,
        fit_intercept: Option = True,
        cv: Option = 5,
        random_state: Option = 0,
    ):
        self.prior, self.noise, self.features = prior, noise, features
        self.fit_intercept, self.cv, self.random_state = fit_intercept, cv, random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike = None) -> "BayesianLinearRegressor":
        """Learns the hyperparameters and conditions on the data.

        A row of weight w counts as w rows; with robust noise weights are whole numbers.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
        belief = self._prior_belief()
        if self.prior == "lasso":
            self._keep(self._fit_lasso(belief, X, y, _check_sample_weight(sample_weight, X, ensure_non_negative=True)))
        else:
            self._fit_evidence(belief, *base.counted(X, y, sample_weight))
        found: Linear = self.belief_
        assert found.weights is not None
        constant, w = base.unscaled(found, found.weights.mean)
        shift = 0.0 if found.intercept is None else float(found.reference)
        self.coef_, self.intercept_ = w[:, 0], float(constant[0]) + shift
        self.noise_variance_ = float(found.noise_variance())
        return self

    def _prior_belief(self) -> Linear:
        features = base.features_of(self.features)
        prior, noise = choose("prior", self.prior, PRIORS)(), choose("noise", self.noise, NOISES)()
        if self.prior == "lasso" and self.noise != "learned":
            raise DataError(f"the lasso is offered with noise='learned' only, found noise={self.noise!r}")
        return Linear(features, prior, noise, bool(self.fit_intercept))

    def _fit_evidence(self, belief: Linear, x: np.ndarray, y: np.ndarray, w: np.ndarray | None) -> None:
        if w is not None and belief.is_robust:
            if np.any(w != np.round(w)):
                raise DataError(f"with noise={self.noise!r} sample_weight counts rows, in whole numbers")
            rows = np.repeat(np.arange(len(w)), w.astype(int))
            x, y, w = x[rows], y[rows], None
        belief, statistics = belief.prepare(x, y, weights=w)
        if w is not None:
            # To credo a weight divides a row's noise; here it counts rows, which is the same but for n.
            statistics = eqx.tree_at(lambda s: (s.n, s.log_weight), statistics, (np.asarray(w.sum()), np.zeros(())))
        method: Learner = belief.learner({}) or Evidence()
        learned = method.learn(belief, statistics, (), {}, base.seed_of(self.random_state))
        base.speak_up(learned)
        self._keep(learned.belief.condition_on(statistics), learned.log_evidence)

    def _fit_lasso(self, belief: Linear, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> Linear:
        seen = w > 0
        belief, _ = belief.prepare(x[seen], y[seen], weights=w[seen])
        scales = lasso_path(belief, x[seen], y[seen], weights=w[seen]).scale
        folds = min(self.cv, len(y)) if isinstance(self.cv, int) else self.cv
        loss, tested = np.zeros(len(scales)), 0.0
        for train, test in check_cv(folds).split(x, y):
            train = train[seen[train]]
            path = lasso_path(belief, x[train], y[train], weights=w[train], scale=scales)
            phi = np.asarray(belief.features(x[test]))
            error = y[test, None] - phi @ path.coefficients.T - path.intercept
            loss += w[test] @ error**2
            tested += w[test].sum()
        best = int(np.argmin(loss))
        noise = max(loss[best] / tested, np.finfo(float).tiny)
        # The mode depends on noise/scale only, which stays.
        scale = scales[best] * noise / float(belief.noise)
        belief = eqx.tree_at(lambda b: (b.noise, b.prior.scale), belief, (np.asarray(noise), np.asarray(scale)))
        after = belief.condition(x[seen], y[seen], weights=w[seen], using=MAP())
        assert isinstance(after, Linear)
        return after
