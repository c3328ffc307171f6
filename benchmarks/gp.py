"""Exact Gaussian processes beside GPyTorch, GPJax, tinygp and scikit-learn: the same model, the same data.

The model is a Matérn 5/2 kernel with a lengthscale for each of 8 columns, zero mean and Gaussian noise, in float64;
each library's own parametrization and its own optimizer, to type-II maximum likelihood.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Call, Count, Memory, Task, compilations, in_fresh_process
from benchmarks.peers import Exact

TITLE = "Gaussian processes"
D = 8


class Data(NamedTuple):
    """Rows of a function of two of the 8 inputs and a little of a third, standardized, with noise."""

    x: np.ndarray
    y: np.ndarray


def make(n: int) -> Data:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, D))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + 0.2 * x[:, 2] + 0.3 * rng.normal(size=n)
    return Data(x, (y - y.mean()) / y.std())


# -- evidence and gradient at one point: s² = 1, ℓ = 3, noise 0.1 ----------------------------------------------------


def belief(lengthscale: float = 3.0, noise: float = 0.1) -> Any:
    import credo
    from credo.kernels import Matern52

    return credo.GP(Matern52(np.full(D, lengthscale), 1.0), 0.0, noise)


@cache
def credo_objective(n: int) -> Any:
    from credo.core import params

    gp, data = belief(), make(n)
    slots = params.layout(gp)
    return gp.objective(slots, gp.statistics(data.x, data.y), {}), np.asarray(params.to_vector(gp, slots))


def credo_evidence(data: Data) -> float:
    objective, u = credo_objective(len(data.y))
    return objective.value_and_grad(u)[0]


def dpotrf(data: Data) -> float:
    from scipy.linalg.lapack import dpotrf as factor

    matrix = covariance(len(data.y))
    np.copyto(matrix.work, matrix.value)
    factor(matrix.work.T, lower=0, clean=0, overwrite_a=1)
    return float("nan")


class Covariance(NamedTuple):
    value: np.ndarray
    work: np.ndarray


@cache
def covariance(n: int) -> Covariance:
    gp, data = belief(), make(n)
    value = np.array(gp.kernel(data.x)) + 0.1 * np.eye(n)
    return Covariance(value, value.copy())


@cache
def gpytorch_model(n: int) -> Exact:
    data = make(n)
    return Exact(data.x, data.y, "zero")


def gpytorch_evidence(data: Data) -> float:
    peer = gpytorch_model(len(data.y))
    peer.begin(3.0, 0.1)
    return peer.evidence()


@cache
def tinygp_objective(n: int) -> Any:
    import jax
    import jax.numpy as jnp
    import tinygp

    data = make(n)
    x, y = jnp.asarray(data.x), jnp.asarray(data.y)

    def log_evidence(u: Any) -> Any:
        inside = tinygp.kernels.Matern52(distance=tinygp.kernels.distance.L2Distance())
        kernel = jnp.exp(u[0]) * tinygp.transforms.Linear(jnp.exp(-u[1 : D + 1]), inside)
        return tinygp.GaussianProcess(kernel, x, diag=jnp.exp(u[D + 1])).log_probability(y)

    return jax.jit(jax.value_and_grad(log_evidence))


def vector(lengthscale: float = 3.0, noise: float = 0.1) -> np.ndarray:
    return np.log(np.array([1.0, *[lengthscale] * D, noise]))


def tinygp_evidence(data: Data) -> float:
    value, gradient = tinygp_objective(len(data.y))(vector())
    gradient.block_until_ready()
    return float(value)


@cache
def sklearn_model(n: int) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    wide = (1e-5, 1e6)
    kernel = ConstantKernel(1.0, wide) * Matern(np.full(D, 3.0), wide, nu=2.5) + WhiteKernel(0.1, wide)
    data = make(n)
    return GaussianProcessRegressor(kernel, alpha=1e-10, optimizer=None).fit(data.x, data.y)


def sklearn_evidence(data: Data) -> float:
    model = sklearn_model(len(data.y))
    return float(model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)[0])


@cache
def gpjax_objective(n: int) -> Any:
    import gpjax as gpx
    import jax
    import jax.numpy as jnp

    data = make(n)
    rows = gpx.Dataset(jnp.asarray(data.x), jnp.asarray(data.y)[:, None])

    def log_evidence(u: Any) -> Any:
        kernel = gpx.kernels.Matern52(
            active_dims=list(range(D)), lengthscale=jnp.exp(u[1 : D + 1]), variance=jnp.exp(u[0])
        )
        prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=kernel)
        likelihood = gpx.likelihoods.Gaussian(obs_stddev=jnp.sqrt(jnp.exp(u[D + 1])))
        return gpx.objectives.conjugate_mll(prior * likelihood, rows)

    return jax.jit(jax.value_and_grad(log_evidence))


def gpjax_evidence(data: Data) -> float:
    value, gradient = gpjax_objective(len(data.y))(vector())
    gradient.block_until_ready()
    return float(value)


# -- full fits -----------------------------------------------------------------------------------------------------


def credo_fit(data: Data) -> float:
    """By credo's own start and several climbs; without hyperpriors, as the peers."""
    import credo
    from credo.kernels import Matern52
    from credo.models.gp import Zero

    return credo.fit(credo.GP(Matern52(ard=True), Zero()), data.x, data.y, priors=False, report=True).log_evidence


def climb(objective: Any, start: np.ndarray) -> float:
    from scipy import optimize

    def negative(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(u)
        return -float(value), -np.asarray(gradient, dtype=float)

    return -float(
        optimize.minimize(negative, start, jac=True, method="L-BFGS-B", bounds=[(-12.0, 14.0)] * len(start)).fun
    )


def tinygp_fit(data: Data) -> float:
    return climb(tinygp_objective(len(data.y)), vector())


def gpjax_fit(data: Data) -> float:
    return climb(gpjax_objective(len(data.y)), vector())


def sklearn_fit(data: Data) -> float:
    from sklearn.base import clone

    model = clone(sklearn_model(len(data.y))).set_params(optimizer="fmin_l_bfgs_b")
    return float(model.fit(data.x, data.y).log_marginal_likelihood_value_)


def gpytorch_fit(data: Data) -> float:
    peer = gpytorch_model(len(data.y))
    peer.begin(3.0, 0.1)
    return peer.climb(max_iter=200, tolerance_change=1e-9, tolerance_grad=1e-6)


def fresh(function: str, n: int) -> float:
    """Seconds that a fit takes in a process of its own, imports apart, with compiled programs on disk."""
    return in_fresh_process(
        f"import time, benchmarks.gp as b; data = b.make({n}); warm = b.make(4)\n"
        f"import sklearn.gaussian_process, credo, credo.kernels, credo.models.gp.staged\n"
        f"start = time.perf_counter(); b.{function}(data); print(time.perf_counter() - start)"
    )


# -- prediction, more rows, memory -----------------------------------------------------------------------------------


@cache
def conditioned(n: int = 2000) -> Any:
    data = make(n)
    return belief().condition(data.x, data.y)


@cache
def queries(m: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(m, D))


def credo_predict(m: int) -> Any:
    p = conditioned().predict(queries(m))
    return np.asarray(p.mean), np.asarray(p.variance)


def sklearn_predict(m: int) -> Any:
    return sklearn_model(2000).predict(queries(m), return_std=True)


def predict_many() -> None:
    """Mean and variance at 100 000 points from 2000."""
    credo_predict(100_000)


def add_and_look(data: Data) -> Any:
    """One more row, then the mean and variance at 1000 points."""
    return conditioned().condition(data.x[:1] + 0.01, data.y[:1]).predict(queries(1000)).variance


@cache
def watched() -> Any:
    return conditioned().at(queries(1000))


def add_and_look_watched(data: Data) -> Any:
    """The same where the 1000 points are known in advance: `gp.at(candidates)`."""
    return watched().condition(data.x[:1] + 0.01, data.y[:1]).predict().variance


def from_scratch(data: Data) -> Any:
    more = np.concatenate([data.x, data.x[:1] + 0.01]), np.concatenate([data.y, data.y[:1]])
    return belief().condition(*more).predict(queries(1000)).variance


def count_compilations() -> int:
    """Programs compiled by 100 single-row updates from 10 rows, each followed by a prediction."""
    data = make(110)
    with compilations() as compiled:
        gp = belief().condition(data.x[:10], data.y[:10])
        gp.predict(data.x[:1])
        for i in range(10, 110):
            gp = gp.condition(data.x[i : i + 1], data.y[i : i + 1])
            gp.predict(data.x[:1])
    return len(compiled)


def largest() -> None:
    """Conditions on 20 000 rows and predicts at 1000."""
    data = make(20_000)
    p = belief().condition(data.x, data.y).predict(queries(1000))
    assert np.isfinite(p.variance).all()


PEERS = {
    "GPyTorch": gpytorch_evidence,
    "GPJax": gpjax_evidence,
    "scikit-learn": sklearn_evidence,
    "tinygp": tinygp_evidence,
}
FITS = {
    "GPyTorch, L-BFGS": gpytorch_fit,
    "scikit-learn": sklearn_fit,
    "tinygp, L-BFGS-B": tinygp_fit,
    "GPJax, L-BFGS-B": gpjax_fit,
}
VALUE = {"log evidence": lambda answer, _: answer}


def evidence_task(n: int, repeats: int) -> Task:
    return Task(
        f"Evidence and gradient, n = {n}",
        partial(make, n),
        {"credo": credo_evidence, **PEERS, "SciPy dpotrf alone": dpotrf},
        VALUE,
        repeats=repeats,
        least=2.0,
        exempt=("SciPy dpotrf alone",),
        most={"SciPy dpotrf alone": 5.0},
    )


def fit_task(n: int, repeats: int, peers: tuple[str, ...]) -> Task:
    return Task(
        f"Full fit, n = {n}",
        partial(make, n),
        {"credo": credo_fit, **{name: FITS[name] for name in peers}},
        VALUE,
        repeats=repeats,
        least=2.0,
    )


TASKS = [
    evidence_task(2000, 5),
    evidence_task(4000, 2),
    fit_task(200, 3, tuple(FITS)),
    fit_task(1000, 1, tuple(FITS)),
    fit_task(2000, 0, ("GPyTorch, L-BFGS", "scikit-learn")),
    fit_task(4000, 0, ("GPyTorch, L-BFGS",)),
    *(
        Call(
            f"Full fit in a fresh process with a warm cache, n = {n}",
            {"credo": partial(fresh, "credo_fit", n), "scikit-learn": partial(fresh, "sklearn_fit", n)},
            least=1.0,
        )
        for n in (200, 1000)
    ),
    Task(
        "Mean and variance at 100 000 points from n = 2000",
        lambda: 100_000,
        {"credo": credo_predict, "scikit-learn": sklearn_predict},
        repeats=1,
        least=2.0,
    ),
    Memory("Memory of that prediction", "benchmarks.gp:predict_many", most=1000.0),
    Task(
        "One more row for n = 2000, then mean and variance at 1000 points",
        partial(make, 2000),
        {
            "credo, at points known in advance": add_and_look_watched,
            "credo, condition again": add_and_look,
            "credo, from scratch": from_scratch,
        },
        least=20.0,
        exempt=("credo, condition again",),
    ),
    Count("Compilations of 100 single-row updates from n = 10", count_compilations, most=8),
    Memory("Largest exact fit, n = 20 000", "benchmarks.gp:largest", most=12_000.0),
]
