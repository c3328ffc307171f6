"""Information gain: what outcomes at a set of inputs would say about the function.

    I(f; y_S) = ½ log|I + N^{-½} Σ_S N^{-½}|        Σ_S the covariance of f now, N = diag(noise variances)

It is monotone and submodular in S (each outcome helps, the later the less), so taking the most informative candidate
again and again comes within 1 - 1/e of the best set. Its largest value γ_T over sets of T inputs bounds the regret of
`UpperConfidenceBound`. Nemhauser, Wolsey & Fisher (1978); Krause, Singh & Guestrin (2008), "Near-optimal sensor
placements in Gaussian processes"; Srinivas et al. (2010), "Gaussian process optimization in the bandit setting".
"""

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from jaxtyping import Float, Int

from credo.core.abilities import HasCovariance, PredictsJointly, able
from credo.core.arrays import Array, is_traced, namespace
from credo.core.checks import ArrayLike, check_count, check_positive, check_table
from credo.core.errors import DataError
from credo.core.linalg import demand, factorize, log_determinant
from credo.core.predictive import Mixture, Normal, StudentT
from credo.kernels import RBF, Exponential, Kernel, Linear, Matern, Matern32, Matern52
from credo.kernels.algebra import Scaled

Indices = Sequence[SupportsIndex]
Doubt = tuple[Any, Any]
"""(Σ, N): the covariance of the function at some rows, and the noise variance of each."""
SMOOTHNESS = {Exponential: 0.5, Matern32: 1.5, Matern52: 2.5}
SHARE = 1 - 1 / math.e
"""The share of the largest gain that greedy choices are sure to reach."""
DIGITS = 12
"""Gains that agree to so many decimals are ties, and the candidate that comes first is taken."""


def information_gain(belief: Any, x: ArrayLike, noise: ArrayLike = None) -> Float[Array, ""]:
    """I(f; y_X) = ½ log|I + N^{-½} Σ N^{-½}| in nats, given what the belief has seen; traceable in x.

    Args:
        belief: one that knows how its function values covary: `GP`, `HeteroscedasticGP`, `Linear`. Where it does not
            know the variance of its noise, the gain is the one given that variance: it is the same for all.
        x: inputs, shape (m, d); one that is there twice is observed twice.
        noise: the noise variance of each row, instead of the belief's.
    """
    covariance, variance = joint_doubt(belief, x, noise)
    scale = 1 / namespace(variance).sqrt(variance)
    factor = factorize(np.eye(len(scale)) + scale[:, None] * covariance * scale)
    says = "the covariance of the function at x is not positive semi-definite; check the kernel"
    return demand(0.5 * log_determinant(factor.root), factor.ok, says)


def joint_doubt(belief: Any, x: ArrayLike, noise: ArrayLike = None) -> Doubt:
    """(Σ, N): the covariance of the function at the rows x and the noise variance of each, up to a common factor."""
    table = check_table(x, "x", getattr(belief, "inputs", None))
    options = {}
    if noise is not None:
        if not (able(belief, PredictsJointly) and belief.takes_noise):
            raise DataError(f"noise= cannot be given to {type(belief).__name__}, which knows its own; leave it out")
        options["noise"] = check_positive(noise, "noise", len(table))
    prediction = _jointly(belief, table, options)
    if prediction is None:
        raise DataError(
            f"information gain needs a belief that knows how its function values covary, found "
            f"{type(belief).__name__}; use GP, HeteroscedasticGP or Linear, or score candidates one by one"
        )
    covariance, variance = _latent(prediction)
    if not is_traced(variance) and not np.all(variance > 0):
        raise DataError(
            "information gain is infinite without noise: the belief's noise variance must be positive, found "
            f"{variance.min():g}; give noise= or learn it"
        )
    assert covariance is not None
    return covariance, variance


def knows_covariance(belief: Any, x: np.ndarray) -> bool:
    """Whether the belief can say how its function values at the rows x covary."""
    return _jointly(belief, x[:1], {}) is not None


def _jointly(belief: Any, rows: Any, options: dict[str, Any]) -> Normal | StudentT | None:
    """The joint prediction of one function; None where the belief has none."""
    if not able(belief, PredictsJointly):
        return None
    prediction = belief.predict(rows, joint=True, **options)
    if isinstance(prediction, Mixture) and able(belief, HasCovariance):  # by its moments
        means = (prediction.mean, prediction.aleatoric, prediction.epistemic)
        prediction = Normal(*means, belief.covariance(rows))
    if not isinstance(prediction, Normal | StudentT) or _latent(prediction)[0] is None or prediction.mean.ndim != 1:
        return None
    return prediction


def _latent(prediction: Normal | StudentT) -> tuple[Array | None, Array]:
    """The covariance of the function at the queries and the variances of the noise, up to the factor of a Student-t."""
    if isinstance(prediction, StudentT):
        return prediction.latent_scale, prediction.noise
    return prediction.latent_covariance, prediction.aleatoric


class Greedy(NamedTuple):
    """Candidates in the order in which they were taken, and what each added."""

    chosen: Int[np.ndarray, " t"]
    gains: Float[np.ndarray, " t"]
    """I(f; y_i | those taken before), nats."""
    evaluations: int
    """How often the gain of a candidate was computed."""

    @property
    def gain(self) -> float:
        """I(f; y_S) of all of them together."""
        return float(self.gains.sum())

    @property
    def ceiling(self) -> float:
        """gain/(1 - 1/e): no set of as many candidates says more."""
        return self.gain / SHARE

    def __str__(self) -> str:
        found = f"{len(self.chosen)} inputs, {self.gain:.4g} nats"
        return f"{found}; no choice of as many has more than {self.ceiling:.4g} ({self.evaluations} evaluations)"


def greedy_gain(
    belief: Any, candidates: ArrayLike, n: int, *, repeats: bool = False, noise: ArrayLike = None
) -> Greedy:
    """n candidates, each the one that says most about the function after those before it.

    The gain of i after S is ½ log(1 + σ²_S(i)/n_i). Taking s with pivot p = √(σ²_S(s) + n_s) adds the row
    v = (Σ_s· - Σ_t v_t(s) v_t)/p and lowers every variance by v²: O(|S| m) each, no posterior is computed again.

    Args:
        belief: as for `information_gain`.
        candidates: shape (m, d).
        n: how many to take.
        repeats: whether a candidate may be taken more than once.
        noise: the noise variance of each candidate, instead of the belief's.
    """
    check_count(n, "n")
    _check_repeats(repeats)
    doubt = joint_doubt(belief, candidates, noise)
    m = len(doubt[1])
    if not repeats and m < n:
        raise DataError(f"n must be at most the number of candidates, {m}, found {n}; or allow repeats=True")
    return choose(doubt, int(n), repeats=repeats)


def choose(doubt: Doubt, n: int, *, repeats: bool = False, among: Indices | None = None, after: Indices = ()) -> Greedy:
    """`greedy_gain` from `joint_doubt`: n of the rows `among` (all), once those in `after` are observed."""
    covariance, noise = doubt
    conditioned = Conditioned(covariance, noise, len(after) + n)
    for i in after:
        conditioned.look(np.asarray([i]))
        conditioned.take(int(i))
    free = np.arange(len(noise)) if among is None else np.asarray(among, dtype=int)
    free = free if repeats else np.setdiff1d(free, np.asarray(after, dtype=int))
    return _lazily(conditioned, free, n, repeats)


def _check_repeats(repeats: object) -> None:
    if not isinstance(repeats, bool | np.bool_):
        raise DataError(f"repeats must be True or False, found {repeats!r}")


class Conditioned:
    """Candidates with what is left of their variances, brought up to date where one looks."""

    def __init__(self, covariance: np.ndarray, noise: np.ndarray, capacity: int):
        self.covariance, self.noise = covariance, noise
        self.variance = np.diag(covariance).copy()
        self.rows = np.zeros((capacity, len(noise)))
        self.pivots = np.zeros(capacity)
        self.taken: list[int] = []
        self.known = np.zeros(len(noise), dtype=int)
        """How many of those taken each candidate's variance accounts for."""

    def look(self, index: np.ndarray) -> np.ndarray:
        """The gains of some candidates."""
        for t in range(int(self.known[index].min()), len(self.taken)):
            s, behind = self.taken[t], index[self.known[index] <= t]
            row = (self.covariance[s, behind] - self.rows[:t, s] @ self.rows[:t, behind]) / self.pivots[t]
            self.rows[t, behind] = row
            self.variance[behind] -= row**2
        self.known[index] = len(self.taken)
        ratio = np.maximum(self.variance[index], 0.0) / self.noise[index]
        return np.round(0.5 * np.log1p(ratio), DIGITS)

    def take(self, i: int) -> float:
        """Observes candidate i, which has been looked at; returns its gain."""
        left = max(float(self.variance[i]), 0.0)
        self.pivots[len(self.taken)] = math.sqrt(left + self.noise[i])
        self.taken.append(i)
        return 0.5 * math.log1p(left / self.noise[i])


def _lazily(candidates: Conditioned, free: np.ndarray, n: int, repeats: bool) -> Greedy:
    """A queue of upper bounds: the one on top is computed again until it stays there.

    By submodularity the last gain of a candidate is an upper bound of what it would add now. Minoux (1978).
    """
    gains, evaluations, before = list[float](), len(free), len(candidates.taken)
    queue = [(-gain, int(i), before) for gain, i in zip(candidates.look(free), free, strict=True)]
    heapq.heapify(queue)
    while len(gains) < n:
        bound, i, known = heapq.heappop(queue)
        now = len(candidates.taken)
        if known < now:
            evaluations += 1
            heapq.heappush(queue, (-float(candidates.look(np.asarray([i]))[0]), i, now))
            continue
        gains.append(candidates.take(i))
        if repeats:
            heapq.heappush(queue, (bound, i, known))
    return Greedy(np.asarray(candidates.taken[before:], dtype=int), np.asarray(gains), evaluations)


class Design(NamedTuple):
    """Candidates in the order in which they were taken, and what is left of the doubt after each."""

    chosen: Int[np.ndarray, " t"]
    criterion: str
    left: Float[np.ndarray, " t"]
    """The largest eigenvalue (E), the trace (A) or the log-determinant (D) of the covariance that is to be small."""


CRITERIA: dict[str, Callable[[np.ndarray], float]] = {
    "A": lambda k: float(np.trace(k)),
    "D": lambda k: float(np.linalg.slogdet(k + 1e-14 * np.trace(k) * np.eye(len(k)))[1]),
    "E": lambda k: float(np.linalg.eigvalsh(k)[-1]),
}


def greedy_design(
    belief: Any,
    candidates: ArrayLike,
    n: int,
    criterion: str = "E",
    *,
    at: ArrayLike = None,
    repeats: bool = False,
    noise: ArrayLike = None,
) -> Design:
    """n candidates, each the one after which the covariance K of the function at the points `at` is smallest.

    "E" is its largest eigenvalue, the doubt about what is known least of all combinations; "A" its trace, the sum of
    the variances; "D" its determinant, the volume of the doubt. Of a linear model without intercept the function at the
    unit vectors, `at=np.eye(d)`, is the weights: the classical criteria. Ehrenfeld (1955); Pukelsheim (2006), "Optimal
    design of experiments", chapter 6. Each step looks at all candidates, O(m k³) for E and D.

    Args:
        belief: as for `information_gain`.
        candidates: shape (m, d).
        n: how many to take.
        criterion: "A", "D" or "E".
        at: the points that matter, shape (k, d); None: the candidates.
        repeats: whether a candidate may be taken more than once.
        noise: the noise variance of each candidate, instead of the belief's.
    """
    check_count(n, "n")
    if not isinstance(criterion, str) or criterion not in CRITERIA:
        raise DataError(f'criterion must be "A", "D" or "E", found {criterion!r}')
    _check_repeats(repeats)
    table = check_table(candidates, "candidates")
    points = table if at is None else check_table(at, "at", table.shape[1])
    m, k = len(table), len(points)
    if not repeats and m < n:
        raise DataError(f"n must be at most the number of candidates, {m}, found {n}; or allow repeats=True")
    both = None if noise is None else np.concatenate([np.ones(k), check_positive(noise, "noise", m)])
    covariance, variance = joint_doubt(belief, np.concatenate([points, table]), both)
    # Of the points (k, k), between them and the candidates (k, m), among those (m, m).
    doubt, shared, own = covariance[:k, :k].copy(), covariance[:k, k:].copy(), covariance[k:, k:].copy()
    free, chosen, left = np.ones(m, bool), [], []
    for _ in range(n):
        scale = 1 / np.sqrt(np.maximum(np.diagonal(own), 0.0) + variance[k:])
        told = shared * scale
        pairs = zip(told.T, free, strict=True)
        after = np.array([CRITERIA[criterion](doubt - np.outer(g, g)) if ok else np.inf for g, ok in pairs])
        i = int(np.argmin(np.round(after, DIGITS)))
        chosen.append(i)
        left.append(after[i])
        other = own[i] * scale[i]
        doubt, shared, own = (
            doubt - np.outer(told[:, i], told[:, i]),
            shared - np.outer(told[:, i], other),
            own - np.outer(other, other),
        )
        free[i] &= repeats
    return Design(np.asarray(chosen), criterion, np.asarray(left))


class Growth(NamedTuple):
    """How the largest gain γ_T grows with the number of outcomes, up to a constant factor."""

    power: float
    """Of T."""
    log_power: float
    """Of log T."""
    factor: float
    sentence: str

    def __call__(self, T: Any) -> Float[np.ndarray, "*t"]:
        """factor · T^power · (log T)^log_power."""
        t = np.asarray(T, dtype=float)
        if not np.all(t > 1):
            raise DataError(f"T must be greater than 1, found {T}")
        return np.asarray(self.factor * t**self.power * np.log(t) ** self.log_power)

    def __str__(self) -> str:
        return self.sentence


def gain_bound(kernel: Kernel, dimension: int) -> Growth:
    """The growth of γ_T = max_{|S| = T} I(f; y_S) on a compact set, by kernel and dimension d.

        linear      d log T
        RBF         (log T)^{d+1}
        Matérn-ν    T^{d/(2ν+d)} (log T)^{2ν/(2ν+d)},   ν > ½

    Srinivas et al. (2010), theorem 5; Vakili, Khezeli & Picheny (2021), "On information gain and regret bounds in
    Gaussian process bandits", corollary 1, for the Matérn kernel.
    """
    check_count(dimension, "dimension")
    d = int(dimension)
    inner = kernel.kernel if isinstance(kernel, Scaled) else kernel
    if isinstance(inner, Linear):
        return Growth(0.0, 1.0, float(d), f"γ_T = O({d} log T): there are {d} slopes to learn.")
    if isinstance(inner, RBF):
        said = f"γ_T = O((log T)^{d + 1}): smooth functions are soon known, yet later in more dimensions."
        return Growth(0.0, d + 1.0, 1.0, said)
    known = (value for kind, value in SMOOTHNESS.items() if isinstance(inner, kind))
    nu = float(inner.smoothness) if isinstance(inner, Matern) else next(known, None)
    if nu is None:
        raise DataError(
            f"the growth of the information gain is known for the kernels Linear, RBF, Matern32, Matern52 and "
            f"Matern, found {type(inner).__name__}; greedy_gain(...).ceiling bounds it for given candidates"
        )
    if not nu > 0.5:
        raise DataError(
            f"the theorem for Matérn kernels is of functions smoother than ν = ½, found ν = {nu:g}; "
            "greedy_gain(...).ceiling bounds the gain for given candidates"
        )
    power = d / (2 * nu + d)
    said = f"γ_T = O(T^{power:.3g} (log T)^{1 - power:.3g}): the rougher (ν = {nu:g}), the more there is to learn."
    return Growth(power, 1 - power, 1.0, said)
