"""What credo's regressors share: asking a fitted belief in scikit-learn's words."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from credo.core.errors import NotConverged
from credo.core.predictive import Predictive
from credo.infer.learning import Learned


class BeliefRegressor(RegressorMixin, BaseEstimator):
    """A regressor whose `fit` leaves a belief in `belief_`."""

    belief_: Any

    def predict_distribution(self, X: Any, joint: bool = False) -> Predictive:
        """p(y* | x*, data) as credo gives it; `joint` keeps how the queries covary."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.belief_.predict(X, joint=joint)

    def predict(
        self, X: Any, return_std: bool = False
    ) -> Float[np.ndarray, " m"] | tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """E[y* | x*, data], and its standard deviation, noise included, if `return_std`."""
        p = self.predict_distribution(X)
        return (np.array(p.mean), np.array(p.std)) if return_std else np.array(p.mean)

    def predict_interval(self, X: Any, level: Any = 0.95) -> Float[np.ndarray, "m 2"]:
        """Lower and upper end of the central interval that holds y* with probability `level`."""
        return np.stack(self.predict_distribution(X).interval(level), axis=1)

    def sample(self, X: Any, n: int = 1, random_state: Any = 0) -> Float[np.ndarray, "n m"]:
        """n joint draws of the outcomes at the rows of X."""
        p = self.predict_distribution(X, joint=True)
        return np.array(p.sample(n, seed=seed_of(random_state)))


def seed_of(random_state: Any) -> int:
    """An integer from what scikit-learn takes as `random_state`."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def speak_up(learned: Learned) -> None:
    """What `learn` has to say, as the warnings that scikit-learn's users know."""
    if learned.status == "diverged":
        raise NotConverged("the evidence is not finite at any starting point; check the scale of the data")
    if learned.status == "stopped":
        warnings.warn("the search for hyperparameters stopped before it converged", ConvergenceWarning, stacklevel=4)
    for name, side in learned.at_bound.items():
        warnings.warn(
            f"{name} ran to its {side} bound: the data alone do not determine it", ConvergenceWarning, stacklevel=4
        )
