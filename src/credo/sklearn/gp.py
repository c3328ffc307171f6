"""`GPRegressor` and `GPClassifier`: Gaussian processes behind fit and predict."""

import numpy as np
from sklearn.utils.validation import validate_data

from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.kernels import Kernel
from credo.models.gp import GP, LatentGP, Staged
from credo.models.likelihoods import Bernoulli, Categorical
from credo.sklearn.base import BeliefClassifier, BeliefRegressor, Option


class GPRegressor(BeliefRegressor):
    """Gaussian process regression, exact, with its hyperparameters learned.

    Hyperparameters are those of the highest evidence under weakly informative hyperpriors, in the units of the
    data: nothing needs to be standardized.

    Args:
        kernel: any of `credo.kernels`; None is Matérn 5/2 with a lengthscale for each column.
        mean: what is expected before data, as `credo.GP` takes it; None is a constant, integrated out.
        noise: its variance, the start of the search; None lets the data choose it.
        learn: whether hyperparameters are learned; otherwise they stay as given.
        priors: hyperpriors by path that replace the defaults, or False for none.
        fixed: paths of hyperparameters that stay as given.
        starts: starting points of the search.
        random_state: of the starting points.

    Attributes:
        belief_: the posterior, a `credo.GP`.
        kernel_: its kernel, with the learned numbers.
        noise_variance_: the learned noise variance.
        log_evidence_: log p(y | X) plus the log density of the hyperpriors; absent without learning.
    """

    def __init__(
        self,
        kernel: Option = None,
        mean: Option = None,
        noise: Option = None,
        learn: Option = True,
        priors: Option = None,
        fixed: Option = (),
        starts: Option = 4,
        random_state: Option = 0,
    ):
        self.kernel, self.mean, self.noise = kernel, mean, noise
        self.learn, self.priors, self.fixed = learn, priors, fixed
        self.starts, self.random_state = starts, random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> "GPRegressor":
        """Learns the hyperparameters and conditions on the data."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise DataError(f"kernel must be None or one of credo.kernels, found {type(self.kernel).__name__}")
        belief = GP(self.kernel, self.mean, self.noise)
        if self.learn:
            self._fit_belief(belief, X, y, using=Staged(self.starts), fixed=self.fixed, priors=self.priors)
        else:
            self._keep(belief.condition(X, y))
        self.kernel_ = self.belief_.kernel
        self.noise_variance_ = float(self.belief_.noise_variance())
        return self


class GPClassifier(BeliefClassifier):
    """Gaussian process classification, of two classes by expectation propagation, of more by their log-odds.

    Hyperparameters are those of the highest approximate evidence under weakly informative hyperpriors; inputs need not
    be standardized.

    Args:
        kernel: any of `credo.kernels`; None is Matérn 5/2 of inputs in units of their spread.
        mean: of the latent function before data, as `credo.GP` takes it; None is a constant, integrated out.
        learn: whether hyperparameters are learned; otherwise they stay as given.
        fixed: paths of hyperparameters that stay as given.
        random_state: of the starting points of the search.

    Attributes:
        belief_: the posterior, a `credo.LatentGP`.
        classes_: the labels, in order.
        kernel_: its kernel, with the learned numbers.
        log_evidence_: log p(y | X), approximately; absent without learning.
    """

    def __init__(
        self,
        kernel: Option = None,
        mean: Option = None,
        learn: Option = True,
        fixed: Option = (),
        random_state: Option = 0,
    ):
        self.kernel, self.mean, self.learn = kernel, mean, learn
        self.fixed, self.random_state = fixed, random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> "GPClassifier":
        """Learns the hyperparameters and conditions on the data."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        codes = self._codes(y)
        self._require_two(codes)
        names = tuple(range(len(self.classes_)))
        belief = LatentGP(Bernoulli(names) if len(names) == 2 else Categorical(names), self.kernel, self.mean)
        if self.learn:
            self._fit_belief(belief, X, codes, fixed=self.fixed)
        else:
            self._keep(belief.condition(X, codes))
        self.kernel_ = self.belief_.kernel
        return self
