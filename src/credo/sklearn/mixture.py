"""`GaussianMixture` and `BayesianMixture`: `credo.Mixture` under scikit-learn's names, for a changed import."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from credo.core.checks import ArrayLike
from credo.core.pytrees import changed
from credo.infer.em import EM
from credo.infer.learning import prepare_and_learn
from credo.infer.method import Learner
from credo.infer.variational_bayes import VariationalBayes
from credo.models.densities import Gaussian
from credo.models.mixture import Mixture
from credo.sklearn.base import Option, RandomSeed, choose, seed_of, speak_up

COVARIANCES = {"full": "full", "diag": "diagonal", "tied": "tied", "spherical": "spherical"}


class _GaussianMixture(DensityMixin, BaseEstimator):
    """What both share: a fitted `belief_`, and scikit-learn's questions to it."""

    belief_: Mixture

    def _learn(self, X: np.ndarray, density: Gaussian, method: Learner, sample_weight: Any, **options: Any) -> None:
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        given = {"missing": bool(self.missing), "weights": weights}
        belief = Mixture(self.n_components, density, **options)
        data, seed = (X,), seed_of(self.random_state)
        learned, rows = prepare_and_learn(belief, data, method, (), None, seed, given, speak_up)
        self._keep(learned.belief.condition_on(rows))
        self.converged_, self.lower_bound_ = learned.status == "converged", learned.log_evidence / len(X)
        self.n_iter_ = max(
            1, *(int(note.split(" after ")[1].split()[0]) for note in learned.notes if " after " in note)
        )

    def _keep(self, belief: Mixture) -> None:
        density = belief.density
        assert isinstance(density, Gaussian) and density.mean is not None and density.covariance is not None
        self.belief_, self.weights_ = belief, np.array(belief.weights)
        self.means_, self.covariances_ = np.array(density.mean), np.array(density.covariance)
        one = self.covariances_.ndim == 1 or density.structure == "diagonal"
        self.precisions_ = 1 / self.covariances_ if one else np.linalg.inv(self.covariances_)

    def _check(self, X: ArrayLike, reset: bool = False) -> np.ndarray:
        if not reset:
            check_is_fitted(self)
        finite: bool | str = "allow-nan" if self.missing else True
        return validate_data(self, X, dtype=np.float64, ensure_all_finite=finite, reset=reset)

    def predict(self, X: ArrayLike) -> Int[np.ndarray, " n"]:
        """The most probable component of each row; 0 is the one with the largest weight."""
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "n k"]:
        """The probability of each component for each row."""
        table = self._check(X)
        return np.array(self.belief_.responsibilities(table, missing=bool(self.missing)))

    def fit_predict(self, X: ArrayLike, y: object = None) -> Int[np.ndarray, " n"]:
        """`fit`, then `predict` of the same rows."""
        return self.fit(X, y).predict(X)

    def score_samples(self, X: ArrayLike) -> Float[np.ndarray, " n"]:
        """log p(x) of each row."""
        table = self._check(X)
        return np.array(self.belief_.log_density(table, missing=bool(self.missing)))

    def score(self, X: ArrayLike, y: object = None) -> float:
        """The mean log p(x) of the rows."""
        return float(self.score_samples(X).mean())

    def bic(self, X: ArrayLike) -> float:
        """p log n - 2 log p(X): less is better."""
        table = self._check(X)
        return self.belief_.information_criteria(table, missing=bool(self.missing))["bic"]

    def aic(self, X: ArrayLike) -> float:
        """2p - 2 log p(X): less is better."""
        table = self._check(X)
        return self.belief_.information_criteria(table, missing=bool(self.missing))["aic"]

    def sample(
        self, n_samples: int = 1, random_state: RandomSeed = 0
    ) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, " n"]]:
        """New rows, and their components."""
        check_is_fitted(self)
        labels, x = self.belief_.simulate(n_samples, seed=seed_of(random_state))
        return np.array(x), np.array(labels)

    def __sklearn_tags__(self) -> Tags:
        """NaN may be allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.missing)
        return tags


class GaussianMixture(_GaussianMixture):
    """A mixture of Gaussians by maximum likelihood: EM from several starts, components in the order of their weights.

    No `reg_covar` is needed: the scatter of a component has a floor of a millionth of one row.

    Args:
        n_components: how many.
        covariance_type: "full", "tied", "diag" or "spherical".
        tol: a search ends when a step gains less than this, relative to 100 + the gain of log p(X) so far.
        max_iter: the most passes over the data from each start.
        n_init: starting points, k-means++ first.
        weights_init, means_init, precisions_init: the start, where it is given.
        missing: whether NaN is a cell that was not seen; it is integrated out.
        random_state: of the starting points.

    Attributes:
        belief_: the `credo.Mixture`.
        weights_, means_, covariances_, precisions_: its numbers, in scikit-learn's shapes.
        converged_, n_iter_, lower_bound_: how the search ended.
    """

    def __init__(
        self,
        n_components: Option = 1,
        *,
        covariance_type: Option = "full",
        tol: Option = 1e-6,
        max_iter: Option = 500,
        n_init: Option = 4,
        weights_init: Option = None,
        means_init: Option = None,
        precisions_init: Option = None,
        missing: Option = False,
        random_state: Option = 0,
    ):
        self.n_components, self.covariance_type = n_components, covariance_type
        self.tol, self.max_iter, self.n_init = tol, max_iter, n_init
        self.weights_init, self.means_init, self.precisions_init = weights_init, means_init, precisions_init
        self.missing, self.random_state = missing, random_state

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike = None) -> "GaussianMixture":
        """Learns from the rows of X; a row of weight w counts as w rows."""
        X = self._check(X, reset=True)
        structure, given = choose("covariance_type", self.covariance_type, COVARIANCES), self.precisions_init
        covariance: Any = structure
        if given is not None:
            numbers = np.asarray(given, dtype=float)
            covariance = 1 / numbers if structure in ("diagonal", "spherical") else np.linalg.inv(numbers)
        density = Gaussian(covariance, mean=self.means_init, prior=None, structure=structure)
        method = EM(self.n_init, self.max_iter, self.tol)
        self._learn(X, density, method, sample_weight, weights=self.weights_init)
        return self


class BayesianMixture(_GaussianMixture):
    """A mixture of Gaussians by variational Bayes: components that are not needed get no weight.

    Args:
        n_components: the most there may be.
        covariance_type: "full", "tied", "diag" or "spherical".
        weight_concentration_prior: of the Dirichlet law of the weights; None is 1/n_components.
        tol: a search ends when a step gains less than this, relative to 100 + the gain of the bound so far.
        max_iter: the most passes over the data from each start.
        n_init: starting points, k-means++ first.
        missing: whether NaN is a cell that was not seen; it is integrated out.
        random_state: of the starting points.

    Attributes:
        belief_: the `credo.Mixture` at the mean of the law of its parameters.
        weights_, means_, covariances_, precisions_: its numbers, in scikit-learn's shapes.
        converged_, n_iter_, lower_bound_: how the search ended; the bound is on log p(X), divided by the rows.
    """

    def __init__(
        self,
        n_components: Option = 1,
        *,
        covariance_type: Option = "full",
        weight_concentration_prior: Option = None,
        tol: Option = 1e-7,
        max_iter: Option = 500,
        n_init: Option = 4,
        missing: Option = False,
        random_state: Option = 0,
    ):
        self.n_components, self.covariance_type = n_components, covariance_type
        self.weight_concentration_prior = weight_concentration_prior
        self.tol, self.max_iter, self.n_init = tol, max_iter, n_init
        self.missing, self.random_state = missing, random_state

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike = None) -> "BayesianMixture":
        """Learns from the rows of X; a row of weight w counts as w rows."""
        X = self._check(X, reset=True)
        density = Gaussian(choose("covariance_type", self.covariance_type, COVARIANCES))
        self._learn(X, density, self._method(), sample_weight, concentration=self.weight_concentration_prior)
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> "BayesianMixture":
        """Learns from more rows: the expected statistics of those before stay, and are prior to these."""
        if not hasattr(self, "belief_"):
            return self.fit(X)
        X = self._check(X)
        belief = self.belief_
        rows = belief.statistics(X, missing=bool(self.missing))
        q = self._method().climb(belief, rows).q
        self._keep(changed(belief.center_of(q), seen=q.expected))
        return self

    def _method(self) -> VariationalBayes:
        return VariationalBayes(self.n_init, self.max_iter, self.tol)
