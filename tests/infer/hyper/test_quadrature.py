"""Hyperparameters integrated over, against a fine regular grid in NumPy."""

from itertools import combinations, product

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import credo
from credo.core import params
from credo.errors import DataError
from credo.evaluate.comparison import rank
from credo.infer.hyper import HyperQuadrature, hyperparameters
from credo.infer.hyper.quadrature import central_composite, gauss_hermite
from credo.infer.priors import LogNormal
from credo.kernels import RBF
from credo.kernels.dotproduct import Linear as LinearKernel

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-3, 3, (14, 1)), axis=0)
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=14)
QUERIES, OUTCOMES = np.array([[0.3], [2.0], [4.5]]), np.array([0.5, 0.2, 0.1])
PRIORS = {
    "kernel.lengthscale": LogNormal(1.0, 0.8),
    "kernel.variance": LogNormal(1.0, 0.6),
    "noise": LogNormal(0.1, 0.8),
}
VALUES = {"kernel.lengthscale": 0.8, "kernel.variance": 1.0, "noise": 0.1}


def oracle(x, y, queries, outcomes, priors, points, width=6.0):
    """log ∫ p(y|θ)p(θ)dθ, E[θ|y], E[y*|y], Var[f*|y] + …, and p(y*|y), by the rectangle rule over log θ.

    The columns of θ are the lengthscales, the variance and the noise; a LogNormal is a Gaussian over log θ.
    """
    names = list(priors)
    where = {k: np.log(np.atleast_1d(p.mode)) + float(p.spread) ** 2 for k, p in priors.items() if p is not None}
    axes, log_prior = [], []
    for name in names:
        if priors[name] is None:
            axes.append(np.log([VALUES[name]]))
            log_prior.append(np.zeros(1))
            continue
        s = float(priors[name].spread)
        for center in where[name]:
            u = np.linspace(center - width * s, center + width * s, points)
            axes.append(u)
            log_prior.append(stats.norm.logpdf(u, center, s) + np.log(u[1] - u[0]))
    theta = np.exp(np.array(list(product(*axes))))
    logp = np.array(list(product(*log_prior))).sum(1)
    d = x.shape[1]
    ell, var, noise = theta[:, : theta.shape[1] - 2], theta[:, -2], theta[:, -1]
    ell = np.broadcast_to(ell, (len(theta), d))

    def gram(a, b):
        square = (((a[None, :, None] - b[None, None]) / ell[:, None, None]) ** 2).sum(-1)
        return var[:, None, None] * np.exp(-0.5 * square)

    root = np.linalg.cholesky(gram(x, x) + noise[:, None, None] * np.eye(len(x)))
    white = np.linalg.solve(root, np.broadcast_to(y[:, None], (len(theta), len(y), 1)))[..., 0]
    half = np.linalg.solve(root, gram(x, queries))
    evidence = -0.5 * (white**2).sum(1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
    evidence -= 0.5 * len(y) * np.log(2 * np.pi)
    joint = evidence + logp
    total = special.logsumexp(joint)
    w = np.exp(joint - total)
    mean = (half * white[..., None]).sum(1)
    latent = var[:, None] - (half**2).sum(1)
    density = stats.norm.pdf(outcomes, mean, np.sqrt(latent + noise[:, None]))
    epistemic = w @ latent + w @ (mean - w @ mean) ** 2
    return total, w @ theta, w @ mean, epistemic, w @ density


def fitted(free, method):
    gp = credo.GP(RBF(0.8, 1.0), mean=0.0, noise=0.1)
    # The kernel's defaults would be replaced by starts from the data: what is held stays as given.
    fixed = [name for name in PRIORS if name not in free]
    return credo.fit(gp, X, Y, using=method, fixed=fixed, priors={k: PRIORS[k] for k in free}, report=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("free", "method", "points"),
    [
        (["kernel.lengthscale"], HyperQuadrature(points=21, negligible=1e-7, starts=2), 801),
        (["kernel.lengthscale", "noise"], HyperQuadrature(points=15, negligible=1e-7, starts=2), 101),
    ],
    ids=["one", "two"],
)
def test_gauss_hermite_is_the_integral(free, method, points):
    report = fitted(free, method)
    priors = {k: PRIORS[k] if k in free else None for k in PRIORS}
    total, theta, mean, epistemic, density = oracle(X, Y, QUERIES, OUTCOMES, priors, points)
    assert isinstance(report.belief, credo.Averaged)
    assert report.log_evidence == pytest.approx(total, abs=1e-3)
    found = hyperparameters(report.belief)
    np.testing.assert_allclose([found[k].mean for k in PRIORS], theta, rtol=1e-3)
    p = report.belief.predict(QUERIES)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(p.epistemic, epistemic, rtol=1e-3)
    np.testing.assert_allclose(np.exp(p.log_prob(OUTCOMES)), density, rtol=1e-3)


@pytest.mark.slow
def test_the_doubt_about_hyperparameters_is_ignorance_and_learn_then_condition_is_fit():
    free = ["kernel.lengthscale", "noise"]
    report = fitted(free, HyperQuadrature(starts=2))
    *_, epistemic, density = oracle(X, Y, QUERIES, OUTCOMES, PRIORS | {"kernel.variance": None}, 101)
    p = report.belief.predict(QUERIES)
    np.testing.assert_allclose(np.exp(p.log_prob(OUTCOMES)), density, rtol=1e-2)  # with the defaults
    np.testing.assert_allclose(p.epistemic, epistemic, rtol=1e-2)
    assert any("Gauss-Hermite points kept" in note for note in report.notes)
    gp = credo.GP(RBF(0.8, 1.0), mean=0.0, noise=0.1)
    priors = {k: PRIORS[k] for k in free}
    learned = credo.learn(gp, X, Y, using=HyperQuadrature(starts=2), fixed=["kernel.variance"], priors=priors)
    again = learned.condition(X, Y).predict(QUERIES)
    np.testing.assert_allclose(again.mean, p.mean, rtol=1e-10)
    np.testing.assert_allclose(again.epistemic, p.epistemic, rtol=1e-10)
    # More rows move the members and, by their evidence, the weights.
    longer = learned.condition(X[:10], Y[:10]).condition(X[10:], Y[10:]).predict(QUERIES)
    np.testing.assert_allclose(longer.mean, p.mean, rtol=1e-8)


def test_a_composite_design_is_close():
    """Four hyperparameters: the log evidence to 0.1, means of the prediction to 0.05 standard deviations."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, (14, 2))
    y = np.sin(2 * x[:, 0]) + 0.4 * x[:, 1] + 0.2 * rng.normal(size=14)
    queries, outcomes = np.array([[0.0, 0.5], [2.5, -1.0]]), np.array([0.2, -0.5])
    priors = {
        "kernel.lengthscale": LogNormal([1.0, 1.0], 0.5),
        "kernel.variance": LogNormal(1.0, 0.5),
        "noise": LogNormal(0.1, 0.5),
    }
    total, theta, mean, epistemic, density = oracle(x, y, queries, outcomes, priors, 13, width=4.0)
    gp = credo.GP(RBF([0.8, 0.9], 1.1), mean=0.0, noise=0.1)
    report = credo.fit(gp, x, y, using=HyperQuadrature(starts=1), priors=priors, report=True)
    assert any("central composite" in note for note in report.notes)
    p = report.belief.predict(queries)
    found = hyperparameters(report.belief)
    means = np.concatenate([np.atleast_1d(found[k].mean) for k in priors])
    assert report.log_evidence == pytest.approx(total, abs=0.1)
    np.testing.assert_allclose(means, theta, rtol=0.1)
    assert np.all(np.abs(p.mean - mean) < 0.05 * np.sqrt(epistemic))
    np.testing.assert_allclose(p.epistemic, epistemic, rtol=0.1)
    np.testing.assert_allclose(np.exp(p.log_prob(outcomes)), density, rtol=0.05)


def test_rules_have_the_moments_of_a_gaussian():
    for rule in (gauss_hermite(5, 2), central_composite(4), central_composite(7), central_composite(11)):
        k = rule.z.shape[1]
        np.testing.assert_allclose(rule.weight.sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose(rule.weight @ rule.z, np.zeros(k), atol=1e-12)
        np.testing.assert_allclose(rule.z.T @ (rule.weight[:, None] * rule.z), np.eye(k), atol=1e-12)
    z, w = gauss_hermite(5, 2)
    np.testing.assert_allclose(w @ (z[:, 0] ** 8 * z[:, 1] ** 6), 105 * 15, rtol=1e-10)


@pytest.mark.parametrize(("k", "runs"), [(4, 16), (5, 16), (6, 32), (8, 64), (11, 128)])
def test_the_design_has_resolution_five(k, runs):
    z = central_composite(k).z[1 + 2 * k :]
    assert z.shape == (runs, k)
    signs = np.sign(z)
    for size in (1, 2, 3, 4):
        for columns in combinations(range(k), size):
            assert signs[:, list(columns)].prod(axis=1).sum() == 0


def test_jacobians_are_those_of_numpyro():
    from numpyro.distributions import biject_to, constraints

    slots, start, u = [], 0, np.linspace(-1.0, 1.5, 8)
    kinds = {"positive": (2,), "unit_interval": (2,), "simplex": (3,), "real": (1,)}
    want = 0.0
    for kind, shape in kinds.items():
        stop = start + shape[0]
        slots.append(params.Slot(kind, params.Constraint(kind), shape, start, stop))
        transform = biject_to(getattr(constraints, kind))
        part = u[start:stop]
        if kind != "real":
            want += float(np.sum(transform.log_abs_det_jacobian(part, transform(part))))
        start = stop
    got = params.log_jacobian(tuple(slots), jnp.asarray(u), frozenset(kinds))
    np.testing.assert_allclose(got, want, rtol=1e-10)
    assert float(params.log_jacobian(tuple(slots), jnp.asarray(u), frozenset())) == 0.0


@pytest.mark.slow
def test_kernels_are_compared_by_the_evidence_after_learning_or_integrating():
    rng = np.random.default_rng(7)
    x = np.linspace(-3, 3, 28)[:, None]
    y = rng.multivariate_normal(np.zeros(28), np.exp(-0.5 * (x - x.T) ** 2 / 0.5**2) + 0.01 * np.eye(28))
    candidates = {
        "smooth": credo.GP(RBF(0.8, 1.1), mean=0.0, noise=0.1),
        "linear": credo.GP(LinearKernel(), mean=0.0, noise=0.1),
    }
    learned = {name: credo.learn(gp, x, y) for name, gp in candidates.items()}
    chosen = credo.compare(learned, x, y)
    assert chosen.best == "smooth" and chosen.rows[0].probability > 0.95
    reports = {name: credo.learn(gp, x, y, using=HyperQuadrature(starts=1), report=True)
               for name, gp in candidates.items()}  # fmt: skip
    beliefs = {name: report.belief for name, report in reports.items()}
    full = rank(beliefs, [report.log_evidence for report in reports.values()], (x, y))
    assert full.best == "smooth" and full.rows[0].probability > 0.95
    assert full.rows[0].log_evidence < chosen.rows[0].log_evidence  # what was learned is charged for
    p = chosen.average().predict(x)
    np.testing.assert_allclose(p.mean, learned["smooth"].condition(x, y).predict(x).mean, atol=1e-3)
    inside = full.beliefs["smooth"].condition(x, y).predict(x)
    assert np.all(np.abs(inside.mean - p.mean) < 4 * np.sqrt(inside.epistemic))


def test_too_many_hyperparameters():
    x = np.random.default_rng(1).normal(size=(30, 21))
    with pytest.raises(DataError, match="up to 20 hyperparameters, found 23"):
        credo.learn(credo.GP(RBF(ard=True)), x, x[:, 0], using=HyperQuadrature())
    different = credo.Averaged([0.0, 0.0], (credo.GP(RBF()), credo.GP(LinearKernel())))
    with pytest.raises(DataError, match="different hyperparameters"):
        hyperparameters(different)
