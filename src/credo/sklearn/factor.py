"""`FactorAnalysis` and `PPCA`: credo's beliefs behind fit and transform, with scikit-learn's names."""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from credo.core.checks import ArrayLike
from credo.infer.learning import prepare_and_learn
from credo.models import factor
from credo.models.factor import FactorModel
from credo.sklearn.base import Option, RandomSeed, seed_of, speak_up


class _Factors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the two share."""

    belief: ClassVar[type[FactorModel]]
    belief_: Any

    def __init__(self, n_components: Option = None, prior: Option = None, missing: Option = False):
        self.n_components, self.prior, self.missing = n_components, prior, missing

    def fit(self, X: ArrayLike, y: object = None) -> "_Factors":
        """Learns mean, loadings and noise by maximum likelihood."""
        X = self._check(X, reset=True)
        count = X.shape[1] - 1 if self.n_components is None else self.n_components
        belief, options = self.belief(count, prior=self.prior), {"missing": self.missing}
        learned, rows = prepare_and_learn(belief, (X,), None, (), None, 0, options, speak_up)
        self.belief_ = learned.belief.condition_on(rows)
        p = self.belief_.parameters
        self.mean_, self.components_ = np.array(p.mean), np.array(p.w.T)
        self.noise_variance_ = float(p.noise[0]) if self.belief.isotropic else np.array(p.noise)
        self.n_components_ = int(self.belief_.l)
        self.log_evidence_ = learned.log_evidence
        return self

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "n l"]:
        """E[z | x] of each row."""
        X = self._check(X)
        return np.array(self.belief_.factors(X).mean)

    def inverse_transform(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        """What is expected of rows whose factors are known."""
        check_is_fitted(self)
        return self.mean_ + np.asarray(X, dtype=float) @ self.components_

    def score_samples(self, X: ArrayLike) -> Float[np.ndarray, " n"]:
        """log p(x) of each row, of what it shows."""
        X = self._check(X)
        return np.array(self.belief_.log_density(X))

    def score(self, X: ArrayLike, y: object = None) -> float:
        """The mean of log p(x)."""
        rows = self.score_samples(X)
        return float(rows.mean())

    def get_covariance(self) -> Float[np.ndarray, "d d"]:
        """WWᵀ + Ψ."""
        check_is_fitted(self)
        return np.array(self.belief_.covariance)

    def get_precision(self) -> Float[np.ndarray, "d d"]:
        """(WWᵀ + Ψ)⁻¹."""
        check_is_fitted(self)
        scaled = self.belief_.parameters.scaled
        inner, _ = self.belief_.parameters.of_complete()
        return np.diag(1 / self.belief_.parameters.noise) - scaled @ inner @ scaled.T

    def impute(self, X: ArrayLike) -> Float[np.ndarray, "n d"]:
        """The rows with what is expected where they are NaN."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return np.array(self.belief_.impute(X))

    def sample(self, n_samples: int = 1, random_state: RandomSeed = 0) -> Float[np.ndarray, "n d"]:
        """New rows."""
        check_is_fitted(self)
        return np.array(self.belief_.sample(n_samples, seed=seed_of(random_state)))

    def _check(self, X: ArrayLike, reset: bool = False) -> np.ndarray:
        if not reset:
            check_is_fitted(self)
        finite: bool | str = "allow-nan" if self.missing else True
        least = {"ensure_min_samples": 2, "ensure_min_features": 2} if reset else {}
        return validate_data(self, X, dtype=np.float64, ensure_all_finite=finite, reset=reset, **least)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Tags:
        """NaN may be allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.missing)
        return tags


class FactorAnalysis(_Factors):
    """Factor analysis by maximum likelihood, from the covariance matrix.

    Args:
        n_components: factors; None is one fewer than columns, "auto" chooses by the BIC.
        prior: None, or "ard": factors that are not needed vanish.
        missing: whether NaN is an entry that was not observed; otherwise it is refused.

    Attributes:
        belief_: the model, a `credo.FactorAnalysis`.
        components_: Wᵀ, a row for each factor.
        mean_, noise_variance_: of each column.
        log_evidence_: the log likelihood.
    """

    belief: ClassVar[type[FactorModel]] = factor.FactorAnalysis


class PPCA(_Factors):
    """Probabilistic principal component analysis, in closed form (by EM where entries are missing).

    Args:
        n_components: factors; None is one fewer than columns, "auto" chooses by Minka's evidence.
        prior: None, or "ard": factors that are not needed vanish (Bayesian PCA).
        missing: whether NaN is an entry that was not observed; otherwise it is refused.

    Attributes:
        belief_: the model, a `credo.PPCA`.
        components_: Wᵀ, a row for each factor: of the length of what it explains, not 1.
        mean_: of each column.
        noise_variance_: of all columns.
        log_evidence_: the log likelihood.
    """

    belief: ClassVar[type[FactorModel]] = factor.PPCA
