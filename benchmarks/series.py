"""Time series and models for `benchmarks.time`: each model as credo and as its peers hold it, with the same numbers.

Models are built when they are asked for, so that a process in which one library runs need not hold the others. credo
turns on float64, so dynamax computes in it too; its functions are compiled as a whole with `jax.jit`.
"""

from bisect import bisect
from functools import cache, cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

COLUMNS, SYMBOLS = 2, 16
"""Of Gaussian outcomes (diagonal covariances), and of categorical ones."""
STATES, OUTPUTS = 4, 2
"""Of the linear system."""
ITERATIONS = 20


class Numbers(NamedTuple):
    """The parameters of a hidden Markov model."""

    start: np.ndarray
    transition: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    probs: np.ndarray
    """Of symbols, where outcomes are categorical."""


class Hidden:
    """A sequence of a hidden Markov model whose states last about ten steps, and the model."""

    def __init__(self, kind: str, k: int, t: int, learning: bool = False):
        rng = np.random.default_rng(k)
        self.kind, self.k, self.t = kind, k, t
        self.answers: dict[str, Any] = {}  # of hmmlearn, against which all are judged
        transition = 0.9 * np.eye(k) + 0.1 * rng.dirichlet(np.ones(k), size=k)
        mean, variance = 2 * rng.normal(size=(k, COLUMNS)), rng.uniform(0.3, 2.0, size=(k, COLUMNS))
        probs = rng.dirichlet(np.full(SYMBOLS, 0.5), size=k)
        self.numbers = Numbers(rng.dirichlet(np.ones(k)), transition, mean, variance, probs)
        z = _chain(rng, transition, t)
        if kind == "categorical":
            ends = probs.cumsum(axis=1)
            ends[:, -1] = 1.0
            self.x = (rng.uniform(size=t)[:, None] > ends[z]).sum(axis=1)[:, None]
        else:
            self.x = mean[z] + np.sqrt(variance[z]) * rng.normal(size=(t, COLUMNS))
        if learning:  # a start away from the truth
            flat = 0.5 * np.eye(k) + 0.5 / k
            away = mean + 0.5 * rng.normal(size=mean.shape)
            self.numbers = Numbers(np.full(k, 1 / k), flat, away, np.ones_like(variance), probs)

    @cached_property
    def credo(self) -> Any:
        from credo.models.densities import CategoricalDensity, Gaussian
        from credo.models.hmm import HMM

        start, transition, mean, variance, probs = self.numbers
        gaussian = self.kind == "gaussian"
        emission = (
            Gaussian(variance, mean=mean, prior=None) if gaussian else CategoricalDensity(probs=probs, prior=None)
        )
        return HMM(self.k, emission, start, transition)

    @cached_property
    def hmmlearn(self) -> Any:
        """Without priors."""
        return _hmmlearn(self.kind, self.numbers)

    @cached_property
    def dynamax(self) -> dict[str, Any]:
        """The compiled functions of its parameters and the data, and those parameters."""
        import jax
        from dynamax.hidden_markov_model import DiagonalGaussianHMM

        import credo  # noqa: F401  # float64

        start, transition, mean, variance, probs = self.numbers
        chain = {"initial_probs": jax.numpy.asarray(start), "transition_matrix": jax.numpy.asarray(transition)}
        if self.kind == "gaussian":
            model = DiagonalGaussianHMM(self.k, COLUMNS)
            shown = {"emission_means": jax.numpy.asarray(mean), "emission_scale_diags": jax.numpy.sqrt(variance)}
        else:
            model = CategoricalHMM(self.k, 1, SYMBOLS)
            shown = {"emission_probs": jax.numpy.asarray(probs[:, None])}
        params, props = model.initialize(**chain, **shown)
        return {
            "parameters": params,
            "filter": jax.jit(model.filter),
            "smooth": jax.jit(lambda p, x: model.smoother(p, x).smoothed_probs),
            "viterbi": jax.jit(model.most_likely_states),
            "learn": jax.jit(lambda p, x: model.fit_em(p, props, x, num_iters=ITERATIONS, verbose=False)[0]),
        }

    def run(self, library: str, task: str) -> Any:
        """An answer of a library: to filter, smooth or find the most probable path."""
        if library == "credo":
            return getattr(self.credo, task)(self.x)
        if library == "dynamax":
            return self.dynamax[task](self.dynamax["parameters"], self.x)
        # hmmlearn shows its forward pass only as the log likelihood.
        name = {"filter": "score", "smooth": "predict_proba", "viterbi": "predict"}[task]
        return getattr(self.hmmlearn, name)(self.x)

    def error(self, task: str, answer: Any) -> float:
        """The difference from hmmlearn's answer: largest of the probabilities, relative of log p(x) and log p(x, z)."""
        if task not in self.answers:
            self.answers[task] = self.run("hmmlearn", task)
        want = self.answers[task]
        if task == "smooth":
            return float(np.abs(np.asarray(answer) - want).max())
        value = self.log_joint if task == "viterbi" else log_likelihood
        return abs(value(answer) / value(want) - 1)

    def log_joint(self, path: Any) -> float:
        """log p(x, z): two paths may be equally probable."""
        z = np.asarray(path)
        start, transition, mean, variance, probs = self.numbers
        if self.kind == "categorical":
            shown = np.log(probs[z, self.x[:, 0]]).sum()
        else:
            shown = -0.5 * (np.square(self.x - mean[z]) / variance[z] + np.log(2 * np.pi * variance[z])).sum()
        return float(np.log(start[z[0]]) + np.log(transition[z[:-1], z[1:]]).sum() + shown)

    def learn(self, library: str) -> Numbers:
        """The numbers after so many iterations of Baum-Welch."""
        probs = self.numbers.probs
        if library == "credo":
            hmm = learned(self.credo, self.x)
            found = (hmm.start, hmm.transition, hmm.emission.mean, hmm.emission.variance)
        elif library == "dynamax":
            p = self.dynamax["learn"](self.dynamax["parameters"], self.x)
            spread = np.square(np.asarray(p.emissions.scale_diags))
            found = (p.initial.probs, p.transitions.transition_matrix, p.emissions.means, spread)
        else:
            # Its monitor keeps the n_iter and tol it was made with; setting the attributes later is not enough.
            model = _hmmlearn(self.kind, self.numbers, n_iter=ITERATIONS, tol=-np.inf, init_params="")
            model.fit(self.x)
            variance = np.diagonal(model.covars_, axis1=1, axis2=2)
            found = (model.startprob_, model.transmat_, model.means_, variance)
        return Numbers(*(np.asarray(v) for v in found), probs)

    def height(self, numbers: Numbers) -> float:
        """log p(x) of learned numbers, by hmmlearn, per row."""
        return _hmmlearn(self.kind, numbers).score(self.x) / self.t


def learned(belief: Any, x: np.ndarray) -> Any:
    """credo's belief after the iterations of EM, and one more pass that says how good it is."""
    import warnings

    from credo.infer.em import EM
    from credo.infer.learning import learn

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        return learn(belief, x, using=EM(starts=1, max_steps=ITERATIONS, accelerate=False, tolerance=0))


def log_likelihood(answer: Any) -> float:
    """What a filter says of log p(x)."""
    for name in ("log_likelihood", "marginal_loglik", "llf"):
        if hasattr(answer, name):
            return float(getattr(answer, name))
    return float(answer)


@lru_cache(2)  # they are large
def hidden(kind: str, k: int, t: int, learning: bool = False) -> Hidden:
    return Hidden(kind, k, t, learning)


def _hmmlearn(kind: str, numbers: Numbers, **options: Any) -> Any:
    from hmmlearn.hmm import GaussianHMM

    k = len(numbers.start)
    if kind == "gaussian":
        model = GaussianHMM(k, "diag", implementation="scaling", covars_prior=0.0, **options)
        model.means_, model.covars_ = numbers.mean, numbers.variance
    else:
        model = CategoricalHMM(k, implementation="scaling", **options)
        model.emissionprob_, model.n_features = numbers.probs, SYMBOLS
    model.startprob_, model.transmat_ = numbers.start, numbers.transition
    return model


def _chain(rng: np.random.Generator, transition: np.ndarray, t: int) -> np.ndarray:
    rows, last = [list(row) for row in transition.cumsum(axis=1)], len(transition) - 1
    z, out = 0, np.empty(t, dtype=int)
    for i, u in enumerate(rng.uniform(size=t).tolist()):
        out[i] = z = min(bisect(rows[z], u), last)
    return out


# -- linear systems ----------------------------------------------------------------------------------------------------


class Matrices(NamedTuple):
    """zₜ = Fzₜ₋₁ + qₜ, xₜ = Hzₜ + vₜ."""

    f: np.ndarray
    q: np.ndarray
    h: np.ndarray
    r: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray


class System:
    """A sequence of a linear system with two damped oscillations, and the system."""

    def __init__(self, t: int, learning: bool = False):
        rng = np.random.default_rng(4)
        n, p = STATES, OUTPUTS
        self.answers: dict[str, Any] = {}  # of statsmodels, against which all are judged
        f = np.zeros((n, n))
        for i, (damp, angle) in enumerate([(0.98, 0.1), (0.9, 0.6)]):
            turn = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
            f[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = damp * np.asarray(turn)
        mix = rng.normal(size=(n, n))
        f = mix @ f @ np.linalg.inv(mix)
        q, r = 0.1 * np.eye(n) + 0.02, 0.5 * np.eye(p) + 0.1
        self.matrices = Matrices(f, q, rng.normal(size=(p, n)), r, np.zeros(n), np.eye(n))
        noise = rng.normal(size=(t, n)) @ np.linalg.cholesky(q).T
        z, path = np.zeros(n), np.empty((t, n))
        for i in range(t):
            path[i] = z = f @ z + noise[i]
        self.x = path @ self.matrices.h.T + rng.normal(size=(t, p)) @ np.linalg.cholesky(r).T
        if learning:
            away = self.matrices.h + 0.3 * rng.normal(size=(p, n))
            self.matrices = Matrices(0.9 * f, np.eye(n), away, np.eye(p), np.zeros(n), np.eye(n))

    @cached_property
    def credo(self) -> Any:
        from credo.models.lds import LDS

        return LDS(*self.matrices)

    @cached_property
    def statsmodels(self) -> Any:
        return _statsmodels(self.matrices, self.x)

    @cached_property
    def dynamax(self) -> dict[str, Any]:
        """The compiled functions of its parameters and the data, and those parameters."""
        import jax
        from dynamax.linear_gaussian_ssm import LinearGaussianSSM, lgssm_filter, lgssm_smoother

        import credo  # noqa: F401  # float64

        f, q, h, r, mean, covariance = (jax.numpy.asarray(v) for v in self.matrices)
        model = LinearGaussianSSM(STATES, OUTPUTS, has_dynamics_bias=False, has_emissions_bias=False)
        given = {"dynamics_weights": f, "dynamics_covariance": q, "emission_weights": h, "emission_covariance": r}
        params, props = model.initialize(initial_mean=mean, initial_covariance=covariance, **given)

        def smooth(p: Any, x: Any) -> Any:
            found = lgssm_smoother(p, x)
            return found.smoothed_means, found.smoothed_covariances, found.marginal_loglik

        em = partial(model.fit_em, num_iters=ITERATIONS, verbose=False)
        return {
            "parameters": params,
            "filter": jax.jit(lgssm_filter),
            "smooth": jax.jit(smooth),
            "learn": jax.jit(lambda p, x: em(p, props, x)[0]),
            "learn, not compiled": lambda p, x: em(p, props, x)[0],
        }

    def run(self, library: str, task: str) -> Any:
        """An answer of a library: to filter or to smooth."""
        if library == "credo":
            return getattr(self.credo, task)(self.x)
        if library == "dynamax":
            return self.dynamax[task](self.dynamax["parameters"], self.x)
        if library == "statsmodels, states only":
            from statsmodels.tsa.statespace.kalman_smoother import SMOOTHER_STATE, SMOOTHER_STATE_COV

            return self.statsmodels.smooth(smoother_output=SMOOTHER_STATE | SMOOTHER_STATE_COV)
        return getattr(self.statsmodels, task)()

    def error(self, task: str, answer: Any) -> float:
        """The difference from statsmodels: of log p(x) per row, or the largest of smoothed means and variances."""
        if task not in self.answers:
            self.answers[task] = _kept(task, self.run("statsmodels", task), len(self.x))
        found = _kept(task, answer, len(self.x))
        return max(float(np.abs(a - b).max()) for a, b in zip(found, self.answers[task], strict=True))

    def learn(self, library: str) -> Matrices:
        """The matrices after so many iterations of EM."""
        if library == "credo":
            lds = learned(self.credo, self.x)
            names = ("transition", "process_noise", "emission", "observation_noise", "start_mean", "start_covariance")
            found = [getattr(lds, name) for name in names]
        else:
            name = "learn" if library == "dynamax" else "learn, not compiled"
            p = self.dynamax[name](self.dynamax["parameters"], self.x)
            found = [p.dynamics.weights, p.dynamics.cov, p.emissions.weights, p.emissions.cov, *p.initial]
        return Matrices(*(np.asarray(v) for v in found))

    def height(self, matrices: Matrices) -> float:
        """log p(x) of learned matrices, by statsmodels, per row."""
        return _statsmodels(matrices, self.x).loglike() / len(self.x)


@lru_cache(2)  # they are large
def system(t: int, learning: bool = False) -> System:
    return System(t, learning)


def _statsmodels(m: Matrices, x: np.ndarray) -> Any:
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

    model = KalmanSmoother(k_endog=OUTPUTS, k_states=STATES, k_posdef=STATES)
    model.bind(x)
    model["design"], model["obs_cov"], model["transition"] = m.h, m.r, m.f
    model["selection"], model["state_cov"] = np.eye(STATES), m.q
    model.initialize_known(m.mean, m.covariance)
    return model


def _kept(task: str, answer: Any, rows: int) -> tuple[np.ndarray, ...]:
    """What is compared: log p(x) per row, or smoothed means and variances."""
    if task == "filter":
        return (np.asarray(log_likelihood(answer) / rows),)
    if hasattr(answer, "smoothed_state"):  # statsmodels: time is the last axis
        mean, covariance = answer.smoothed_state.T, np.moveaxis(answer.smoothed_state_cov, -1, 0)
    else:
        laws = tuple(answer)[:2] if isinstance(answer, tuple) else (answer.mean, answer.covariance)
        mean, covariance = (np.asarray(v) for v in laws)
    return mean.copy(), np.diagonal(covariance, axis1=1, axis2=2).copy()


# -- a function of time ------------------------------------------------------------------------------------------------


class Curve:
    """A wave seen with noise at n irregular times, ten to a lengthscale, and a thousand times to predict."""

    def __init__(self, n: int):
        rng = np.random.default_rng(n)
        self.n, self.noise = n, 0.1
        self.x = np.sort(rng.uniform(0.0, n / 10, n))
        self.y = np.sin(self.x) + np.sqrt(self.noise) * rng.normal(size=n)
        self.queries = np.sort(rng.uniform(-1.0, n / 10 + 1, 1000))

    @cached_property
    def credo(self) -> Any:
        from credo.kernels import Matern52
        from credo.models.gp import GP

        return GP(Matern52(1.0, 1.0), 0.0, self.noise)

    def state_space(self) -> tuple[Any, Any]:
        """Mean and variance of the function at the queries, by credo in O(n)."""
        from credo.models.gp.state_space import StateSpace

        belief = self.credo.condition(self.x[:, None], self.y, using=StateSpace())
        found = belief.predict(self.queries[:, None])
        return found.mean, found.epistemic

    def dense(self) -> tuple[Any, Any]:
        """The same by credo in O(n³)."""
        found = self.credo.condition(self.x[:, None], self.y).predict(self.queries[:, None])
        return found.mean, found.epistemic

    def evidences(self) -> tuple[float, float]:
        """log p(y) in O(n) and in O(n³)."""
        from credo.models.gp.state_space import StateSpaceGP

        data = (self.x[:, None], self.y)
        return float(StateSpaceGP(self.credo).log_evidence(*data)), float(self.credo.log_evidence(*data))

    def tinygp(self) -> tuple[Any, Any]:
        """The same by tinygp in O(n): its covariances at other times are dense, so queries are rows without weight."""
        import credo  # noqa: F401  # float64

        order = np.argsort(np.concatenate([self.x, self.queries]))
        x = np.concatenate([self.x, self.queries])[order]
        y = np.concatenate([self.y, np.zeros(len(self.queries))])[order]
        noise = np.concatenate([np.full(self.n, self.noise), np.full(len(self.queries), 1e9)])[order]
        return tuple(np.asarray(v)[order >= self.n] for v in _tinygp()(x, y, noise))


@cache
def _tinygp() -> Any:
    import jax
    from tinygp import GaussianProcess
    from tinygp.kernels import quasisep

    @jax.jit
    def smooth(x: Any, y: Any, noise: Any) -> tuple[Any, Any]:
        found = GaussianProcess(quasisep.Matern52(1.0, 1.0), x, diag=noise).condition(y).gp
        return found.loc, found.variance

    return smooth


@lru_cache(2)  # they are large
def curve(n: int) -> Curve:
    return Curve(n)
