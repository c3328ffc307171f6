"""`GPRegressor`: `credo.GP` behind fit and predict."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from credo.core.errors import DataError
from credo.infer.learning import prepare_and_learn
from credo.kernels import Kernel
from credo.models.gp import GP, Staged
from credo.sklearn.base import BeliefRegressor, seed_of, speak_up


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
        kernel: Any = None,
        mean: Any = None,
        noise: Any = None,
        learn: Any = True,
        priors: Any = None,
        fixed: Any = (),
        starts: Any = 4,
        random_state: Any = 0,
    ):
        self.kernel = kernel
        self.mean = mean
        self.noise = noise
        self.learn = learn
        self.priors = priors
        self.fixed = fixed
        self.starts = starts
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "GPRegressor":
        """Learns the hyperparameters and conditions on the data."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise DataError(f"kernel must be None or one of credo.kernels, found {type(self.kernel).__name__}")
        belief = GP(self.kernel, self.mean, 1.0 if self.noise is None else self.noise)
        if self.learn:
            learned, rows = prepare_and_learn(
                belief, (X, y), Staged(self.starts), self.fixed, self.priors, seed_of(self.random_state), {}, speak_up
            )
            self.belief_, self.log_evidence_ = learned.belief.condition_on(rows), learned.log_evidence
        else:
            self.belief_ = belief.condition(X, y)
        if hasattr(self, "feature_names_in_"):
            self.belief_ = self.belief_.named(list(self.feature_names_in_))
        self.kernel_ = self.belief_.kernel
        self.noise_variance_ = float(self.belief_.noise_variance())
        return self
