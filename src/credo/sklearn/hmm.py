"""`HMM`: `credo.HMM` behind fit and predict, with hmmlearn's conventions (`lengths`)."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.infer.em import EM
from credo.infer.learning import Evidence, prepare_and_learn
from credo.infer.method import Learner
from credo.models import densities
from credo.models.densities import Density, HasStatistics
from credo.models.hmm import HMM as Belief
from credo.sklearn.base import Option, RandomSeed, seed_of, speak_up

States = Int[np.ndarray, " n"]
COVARIANCES = {"full": "full", "diag": "diagonal", "diagonal": "diagonal", "tied": "tied", "spherical": "spherical"}


class HMM(BaseEstimator):
    """A hidden Markov model, learned by Baum-Welch from several starts.

    X holds the rows of one sequence, or of several one after the other with their `lengths`.

    Args:
        n_components: hidden states.
        emission: "gaussian", "mixture" (of Gaussians), "categorical" (codes 0, 1, … in one column), "poisson",
            "vonmises", or any of `credo.models.densities`.
        covariance_type: of "gaussian" and "mixture": "full", "diag", "tied" or "spherical".
        n_mix: components of "mixture".
        prior: concentration of the Dirichlet laws of start and transitions; 1 is maximum likelihood.
        sticky: pseudo-transitions from each state to itself.
        missing: whether NaN is an outcome that was not observed; otherwise it is refused.
        starts: starting points of the search.
        n_iter: the most passes over the data from each.
        tol: relative gain of a step at which the search ends.
        random_state: of the starting points.

    Attributes:
        belief_: the model, a `credo.HMM`, at the beginning of a sequence.
        startprob_, transmat_: the law of the first state, and of the next given the one before.
        log_evidence_: log likelihood plus log prior.
    """

    def __init__(
        self,
        n_components: Option = 2,
        emission: Option = "gaussian",
        covariance_type: Option = "full",
        n_mix: Option = 2,
        prior: Option = 1.0,
        sticky: Option = 0.0,
        missing: Option = False,
        starts: Option = 4,
        n_iter: Option = 200,
        tol: Option = 1e-6,
        random_state: Option = 0,
    ):
        self.n_components, self.emission = n_components, emission
        self.covariance_type, self.n_mix = covariance_type, n_mix
        self.prior, self.sticky, self.missing = prior, sticky, missing
        self.starts, self.n_iter, self.tol, self.random_state = starts, n_iter, tol, random_state

    def fit(self, X: ArrayLike, lengths: ArrayLike = None) -> "HMM":
        """Learns from one sequence, or from several of the given lengths."""
        X = self._check(X, reset=True)
        belief = Belief(self.n_components, self._emission(), prior=self.prior, sticky=self.sticky)
        method: Learner = EM(self.starts, self.n_iter, self.tol)
        if not belief.emission.able(HasStatistics):
            method = Evidence(self.starts, max_steps=self.n_iter)
        seed, options = seed_of(self.random_state), {"missing": self.missing}
        learned, _ = prepare_and_learn(belief, (X, lengths), method, (), None, seed, options, speak_up)
        self.belief_, self.log_evidence_ = learned.belief, learned.log_evidence
        self.startprob_, self.transmat_ = np.array(self.belief_.start), np.array(self.belief_.transition)
        return self

    def predict(self, X: ArrayLike, lengths: ArrayLike = None) -> Int[np.ndarray, " n"]:
        """The most probable path of each sequence (Viterbi)."""
        X = self._check(X)
        return np.array(self.belief_.viterbi(X, lengths, missing=self.missing))

    def predict_proba(self, X: ArrayLike, lengths: ArrayLike = None) -> Float[np.ndarray, "n k"]:
        """The probability of each state at each row, given the whole sequence."""
        X = self._check(X)
        return np.array(self.belief_.smooth(X, lengths, missing=self.missing))

    def score(self, X: ArrayLike, lengths: ArrayLike = None) -> float:
        """log p(X)."""
        X = self._check(X)
        return float(self.belief_.log_evidence(X, lengths, missing=self.missing))

    def score_samples(self, X: ArrayLike, lengths: ArrayLike = None) -> tuple[float, Float[np.ndarray, "n k"]]:
        """log p(X), and the probability of each state at each row."""
        return self.score(X, lengths), self.predict_proba(X, lengths)

    def decode(self, X: ArrayLike, lengths: ArrayLike = None, algorithm: str = "viterbi") -> tuple[float, States]:
        """A path and its log score: "viterbi" the most probable one as a whole, with log p(X, path); "map" the most
        probable state of each row on its own, with the sum of log probabilities.
        """
        if algorithm not in ("viterbi", "map"):
            raise DataError(f"algorithm must be 'viterbi' or 'map', found {algorithm!r}")
        if algorithm == "map":
            probs = self.predict_proba(X, lengths)
            return float(np.log(probs.max(axis=1)).sum()), probs.argmax(axis=1)
        path = self.predict(X, lengths)
        data = self.belief_.statistics(self._check(X), lengths, missing=self.missing)
        rows, n = np.asarray(self.belief_._log_b(data)), data.rows
        first = np.asarray(data.first)[:n]
        with np.errstate(divide="ignore"):
            moved = np.log(self.transmat_)[np.roll(path, 1), path]
            begun = np.log(self.startprob_)[path]
        return float(rows[np.arange(n), path].sum() + np.where(first, begun, moved).sum()), path

    def sample(self, n_samples: int = 1, random_state: RandomSeed = 0) -> tuple[Float[np.ndarray, "n d"], States]:
        """Rows of a new sequence, and their hidden states."""
        check_is_fitted(self)
        states, x = self.belief_.simulate(n_samples, seed=seed_of(random_state))
        return np.array(x), np.array(states)

    def _check(self, X: ArrayLike, reset: bool = False) -> np.ndarray:
        if not reset:
            check_is_fitted(self)
        finite: bool | str = "allow-nan" if self.missing else True
        return validate_data(self, X, dtype=np.float64, ensure_all_finite=finite, reset=reset)

    def _emission(self) -> Density:
        if isinstance(self.emission, Density):
            return self.emission
        covariance = COVARIANCES.get(self.covariance_type)
        if covariance is None:
            raise DataError(f"covariance_type must be one of {', '.join(COVARIANCES)}, found {self.covariance_type!r}")
        families: dict[str, Callable[[], Density]] = {
            "gaussian": lambda: densities.Gaussian(covariance),
            "mixture": lambda: densities.GaussianMixture(self.n_mix, covariance),
            "categorical": densities.CategoricalDensity,
            "poisson": densities.Poisson,
            "vonmises": densities.VonMises,
        }
        if self.emission not in families:
            raise DataError(f"emission must be one of {', '.join(families)}, or a Density, found {self.emission!r}")
        return families[self.emission]()

    def __sklearn_tags__(self) -> Tags:
        """Rows follow each other in time; NaN may be allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.missing)
        tags.non_deterministic = False
        return tags
