"""Densities under Gibbs and variational Bayes: posteriors against conjugate beliefs, marginals and Monte Carlo."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import integrate, special, stats

from credo.core.errors import DataError
from credo.models.conjugate import DirichletCategorical, GammaPoisson, NormalInverseGamma, NormalInverseWishart
from credo.models.densities import (
    CategoricalDensity,
    Gaussian,
    GaussianMixture,
    IsConjugate,
    Observed,
    Poisson,
    Regression,
    VonMises,
)
from credo.models.densities.base import require
from credo.models.densities.directions import concentration_of, turned_cdf
from credo.models.densities.vonmises import Resultants

T, K, DRAWS = 30, 2, 2000
STATES = np.arange(T) % K
HARD = np.eye(K)[STATES]


@eqx.filter_jit
def bound(emission, x, seen, weight, inputs=None):
    """E_q[log p(x | θ)] - KL(q ‖ prior) at the posterior q: the log evidence, where the weights are 0 and 1."""
    rows = Observed(x, seen, inputs)
    q = emission.variational_posterior(emission.expected_statistics(rows, weight))
    return (weight * emission.expected_log_prob(q, rows)).sum() - emission.kl_to_prior(q)


@eqx.filter_jit
def posterior_draws(emission, keys, x, seen, weight, inputs=None):
    """What draws of θ say of the data, and what q says; draws of the parameters, and their mean under q."""
    rows = Observed(x, seen, inputs)
    statistics = emission.expected_statistics(rows, weight)
    q = emission.variational_posterior(statistics)
    drawn = jax.vmap(lambda key: emission.draw(key, statistics))(keys)
    each = jax.vmap(lambda e: e.log_prob(rows))(drawn)
    return each, emission.expected_log_prob(q, rows), drawn, emission.posterior_mean(q)


@eqx.filter_jit
def drawn_statistics(emission, keys, x, seen, states, inputs=None):
    return jax.vmap(lambda key: emission.draw_statistics(key, Observed(x, seen, inputs), states))(keys)


@eqx.filter_jit
def expect(emission, x, seen, weight, inputs=None):
    return emission.expected_statistics(Observed(x, seen, inputs), weight)


def close(draws, want, slack=0.0):
    """The mean of the draws within 4.5 standard errors."""
    error = np.asarray(draws).std(0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(np.asarray(draws).mean(0) - want) <= 4.5 * error + slack + 1e-9 * np.abs(want))


def table(rng, missing=True):
    x = rng.normal(size=(T, 2)) @ np.array([[1.0, 0.7], [0.0, 1.5]]) + [30.0, -3.0]
    seen = rng.random(x.shape) < 0.8 if missing else np.ones((T, 2), bool)
    seen[3] = not missing
    return np.where(seen, x, 0.0), seen


def ready(emission, x, seen, inputs=None):
    return emission.resized(K, x.shape[1]).adapt(Observed(x, seen, inputs))


def test_evidence_of_gaussians(rng):
    x, seen = table(rng, missing=False)
    wishart = NormalInverseWishart([28.0, -2.0], 0.5, 5.0, [[2.0, 0.5], [0.5, 1.0]])
    want = sum(float(wishart.log_evidence(x[k == STATES])) for k in range(K))
    np.testing.assert_allclose(bound(ready(Gaussian("full", prior=wishart), x, seen), x, seen, HARD), want, rtol=1e-9)
    x, seen = table(rng)
    gamma = NormalInverseGamma(5.0, 0.2, 2.0, 0.7)
    columns = [(k, j) for k in range(K) for j in range(2)]
    want = sum(float(gamma.log_evidence(x[(k == STATES) & seen[:, j], j])) for k, j in columns)
    emission = ready(Gaussian("diagonal", prior=gamma), x, seen)
    np.testing.assert_allclose(bound(emission, x, seen, HARD), want, rtol=1e-9)
    # One variance for both columns of a state: all its seen entries are one vector of a multivariate t.
    want = 0.0
    for k in range(K):
        blocks = [x[(k == STATES) & seen[:, j], j] for j in range(2)]
        shape = [np.eye(len(b)) + 1 / 0.2 for b in blocks]
        full = np.block(
            [
                [shape[0], np.zeros((len(blocks[0]), len(blocks[1])))],
                [np.zeros((len(blocks[1]), len(blocks[0]))), shape[1]],
            ]
        )
        y = np.concatenate(blocks)
        want += stats.multivariate_t.logpdf(y, np.full(len(y), 5.0), 0.7 / 2.0 * full, 4.0)
    emission = ready(Gaussian("spherical", prior=gamma), x, seen)
    np.testing.assert_allclose(bound(emission, x, seen, HARD), want, rtol=1e-9)


def test_evidence_of_a_tied_gaussian(rng):
    x, seen = table(rng)
    x, seen = x[:, :1], seen[:, :1]
    prior = NormalInverseWishart([28.0], 0.5, 4.0, [[2.0]])
    emission = ready(Gaussian("tied", prior=prior), x, seen)
    blocks = [x[(k == STATES) & seen[:, 0], 0] for k in range(K)]
    size = [len(b) for b in blocks]
    full = np.eye(sum(size))
    full[: size[0], : size[0]] += 2.0
    full[size[0] :, size[0] :] += 2.0
    want = stats.multivariate_t.logpdf(np.concatenate(blocks), np.full(sum(size), 28.0), 2.0 / 4.0 * full, 4.0)
    np.testing.assert_allclose(bound(emission, x, seen, HARD), want, rtol=1e-9)


def test_evidence_of_counts_and_classes(rng):
    x = rng.poisson([2.0, 7.0], (T, 2)).astype(float)
    seen = rng.random(x.shape) < 0.8
    gamma = GammaPoisson(1.5, 0.3)
    want = sum(float(gamma.log_evidence(x[(k == STATES) & seen[:, j], j])) for k in range(K) for j in range(2))
    emission = ready(Poisson(prior=gamma), x, seen)
    np.testing.assert_allclose(bound(emission, np.where(seen, x, 0.0), seen, HARD), want, rtol=1e-9)
    codes, seen = x[:, :1] % 3, seen[:, :1]
    die = DirichletCategorical([1.0, 2.0, 1.5])
    want = sum(float(die.log_evidence(codes[(k == STATES) & seen[:, 0], 0])) for k in range(K))
    emission = ready(CategoricalDensity(3, prior=[1.0, 2.0, 1.5]), codes, seen)
    np.testing.assert_allclose(bound(emission, codes, seen, HARD), want, rtol=1e-9)


@pytest.mark.parametrize("structure", ["diagonal", "full"])
def test_evidence_of_a_regression(structure, rng):
    u = rng.normal(size=(T, 2))
    x, seen = table(rng)
    x, seen = x[:, 1:], seen[:, 1:]
    emission = ready(Regression(covariance=structure), x, seen, u)
    prior = emission.prior
    want = 0.0
    for k in range(K):
        rows = (k == STATES) & seen[:, 0]
        v = np.column_stack([u - emission.center, np.ones(T)])[rows]
        precision = np.asarray(prior.precision[k] if structure == "full" else prior.precision[k, 0])
        shape = np.eye(rows.sum()) + v @ np.linalg.solve(precision, v.T)
        if structure == "full":
            df, scale = float(prior.df[k]), float(prior.scale[k, 0, 0]) / float(prior.df[k])
        else:
            df, scale = 2 * float(prior.shape[k, 0]), float(prior.scale[k, 0] / prior.shape[k, 0])
        mean = v @ np.asarray(prior.mean[k, 0])
        want += stats.multivariate_t.logpdf(x[rows, 0], mean, scale * shape, df)
    np.testing.assert_allclose(bound(emission, x, seen, HARD, u), want, rtol=1e-9)


@pytest.mark.parametrize("structure", ["full", "diagonal", "tied", "spherical"])
@pytest.mark.usefixtures("unchecked")
def test_draws_of_gaussians(structure, rng):
    x, seen = table(rng)
    emission = ready(Gaussian(structure), x, seen)
    each, want, drawn, center = posterior_draws(emission, jr.split(jr.key(1), DRAWS), x, seen, HARD)
    close(each, want)
    close(drawn.mean, center.mean)
    close(drawn.covariance, center.covariance)
    assert np.all(np.asarray(want)[3] == 0)


@pytest.mark.usefixtures("unchecked")
def test_draws_of_a_regression(rng):
    x, seen = table(rng)
    u = rng.normal(size=(T, 2))
    emission = ready(Regression(covariance="full"), x, seen, u)
    each, want, drawn, center = posterior_draws(emission, jr.split(jr.key(1), DRAWS), x, seen, HARD, u)
    close(each, want)
    close(drawn.weights, center.weights)
    # The spread of the coefficients: Var[W] = E[Σ] ⊗ K⁻¹.
    q = emission.variational_posterior(expect(emission, x, seen, HARD, u))
    spread = np.einsum(
        "kd,kp->kdp",
        np.diagonal(center.covariance, axis1=1, axis2=2),
        np.diagonal(np.linalg.inv(q.precision), axis1=1, axis2=2),
    )
    close((np.asarray(drawn.weights) - np.asarray(center.weights)) ** 2, spread[:, :, :-1])


@pytest.mark.usefixtures("unchecked")
def test_draws_of_counts_and_classes(rng):
    x = rng.poisson([2.0, 7.0], (T, 2)).astype(float)
    seen = rng.random(x.shape) < 0.8
    each, want, drawn, center = posterior_draws(
        ready(Poisson(), x, seen), jr.split(jr.key(1), DRAWS), np.where(seen, x, 0.0), seen, HARD
    )
    close(each, want)
    close(drawn.rate, center.rate)
    codes, seen = x[:, :1] % 3, seen[:, :1]
    each, want, drawn, center = posterior_draws(
        ready(CategoricalDensity(3), codes, seen), jr.split(jr.key(1), DRAWS), codes, seen, HARD
    )
    close(each, want)
    close(drawn.probs, center.probs)


@pytest.mark.parametrize("emission", [Gaussian("full"), GaussianMixture(2, "full")], ids=["full", "mixture"])
@pytest.mark.usefixtures("unchecked")
def test_drawn_statistics_average_to_the_expected_ones(emission, rng):
    x, seen = table(rng)
    emission = ready(emission, x, seen)
    drawn = drawn_statistics(emission, jr.split(jr.key(2), DRAWS), x, seen, STATES)
    want = expect(emission, x, seen, HARD)
    for a, b in zip(jax.tree.leaves(drawn), jax.tree.leaves(want), strict=True):
        close(a, b, slack=1e-9)


@pytest.mark.parametrize("structure", ["diagonal", "full"])
@pytest.mark.usefixtures("unchecked")
def test_the_bound_of_a_mixture_climbs(structure, rng):
    x, seen = table(rng, missing=structure == "diagonal")
    emission = ready(GaussianMixture(2, structure), x, seen)

    @eqx.filter_jit
    def climb(emission, x, seen, weight):
        rows = Observed(x, seen)

        def step(q, _):
            new = emission.variational_posterior(emission.expected_statistics_under(q, rows, weight))
            value = (weight * emission.expected_log_prob(new, rows)).sum() - emission.kl_to_prior(new)
            return new, value

        start = emission.variational_posterior(emission.expected_statistics(rows, weight))
        return jax.lax.scan(step, start, None, 30)[1]

    trace = np.asarray(climb(emission, x, seen, HARD))
    assert np.all(np.diff(trace) > -1e-9 * np.abs(trace[:-1])) and trace[-1] > trace[0]


def test_concentration_solves_its_equation():
    kappa = np.array([1e-6, 0.01, 0.5, 2.0, 30.0, 1e3, 1e5])
    found = np.asarray(concentration_of(jnp.asarray(special.i1e(kappa) / special.i0e(kappa))))
    np.testing.assert_allclose(found, kappa, rtol=1e-7)
    assert 0 < concentration_of(jnp.zeros(())) < 1e-7
    assert np.isfinite(concentration_of(jnp.ones(())))


@pytest.mark.usefixtures("unchecked")
def test_draws_of_a_von_mises_posterior():
    statistics = Resultants(*(jnp.asarray(v) for v in ([[8.0], [0.0]], [[5.0], [0.0]], [[3.0], [0.0]])))
    emission = VonMises([0.0, 0.0], [1.0, 1.0], prior=2.0)
    drawn = eqx.filter_jit(lambda keys: jax.vmap(lambda key: emission.draw(key, statistics))(keys))(
        jr.split(jr.key(0), 4000)
    )
    for k, (n, length) in enumerate([(10.0, np.hypot(5, 3)), (2.0, 0.0)]):

        def density(kappa, n=n, length=length):
            return np.exp(
                np.log(special.i0e(kappa * length)) + kappa * length - n * (np.log(special.i0e(kappa)) + kappa)
            )

        norm = integrate.quad(density, 0, 60, limit=200)[0]
        mean = integrate.quad(lambda kappa: kappa * density(kappa), 0, 60, limit=200)[0] / norm
        close(drawn.concentration[:, k, 0], mean, slack=1e-4)
        ratio = integrate.quad(lambda r, l=length: density(r) * special.i1e(r * l) / special.i0e(r * l), 0, 60)[0]
        close(np.cos(np.asarray(drawn.direction)[:, k, 0] - np.arctan2(3.0, 5.0)), ratio / norm)
    with pytest.raises(DataError, match=r"no conjugate posterior.*learn it by gradient .*, EM, Gibbs sampling$"):
        require(emission, IsConjugate)


def test_predictions_of_gaussians(rng):
    mean, variance = np.array([[0.0, 5.0], [3.0, 5.5]]), np.array([[1.0, 0.25], [0.5, 2.0]])
    emission = Gaussian(mean=mean, covariance=variance).resized(K, 2)
    probs = np.array([[0.3, 0.7], [1.0, 0.0], [0.5, 0.5]])
    p = emission.predictive(jnp.asarray(probs))
    assert p.shape == (3, 2) and len(p) == 3
    y = rng.normal(size=(3, 2)) + 2
    density = (probs[:, None] * stats.norm.pdf(y[..., None], mean.T, np.sqrt(variance.T))).sum(-1)
    np.testing.assert_allclose(p.log_prob(y), np.log(density), rtol=1e-10)
    np.testing.assert_allclose(p.mean, probs @ mean, rtol=1e-12)
    np.testing.assert_allclose(p.aleatoric, probs @ variance, rtol=1e-10)
    np.testing.assert_allclose(p.variance, probs @ (variance + mean**2) - (probs @ mean) ** 2, rtol=1e-10)
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic, rtol=1e-12)
    np.testing.assert_allclose(p.cdf(p.quantile(0.3)), 0.3, rtol=1e-8)
    close(p.sample(DRAWS, seed=1), p.mean)
    grid = np.linspace(-10, 14, 8001)
    density = probs[0] @ stats.norm.pdf(grid, mean[:, :1], np.sqrt(variance[:, :1]))
    np.testing.assert_allclose(p.entropy()[0, 0], integrate.trapezoid(special.entr(density), grid), rtol=1e-8)
    np.testing.assert_allclose(p[1].mean, mean[0])
    np.testing.assert_allclose(p[:, 1].variance, p.variance[:, 1], rtol=1e-12)
    one = Gaussian(mean=[0.0, 3.0], covariance=[1.0, 2.0]).resized(K, 1).predictive(jnp.asarray(probs))
    assert one.shape == (3,)


def test_predictions_of_mixtures_call_the_spread_within_a_state_noise():
    emission = GaussianMixture(
        2, np.ones((2, 2, 1)), mean=[[[-1.0], [1.0]], [[9.0], [11.0]]], mixing=[[0.5, 0.5], [0.5, 0.5]]
    ).resized(K, 1)
    p = emission.predictive(jnp.asarray([[1.0, 0.0], [0.5, 0.5]]))
    np.testing.assert_allclose(p.aleatoric, [2.0, 2.0], rtol=1e-12)
    np.testing.assert_allclose(p.epistemic, [0.0, 25.0], atol=1e-12)


def test_predictions_of_counts_and_classes():
    probs = jnp.asarray([[0.3, 0.7], [1.0, 0.0]])
    p = Poisson([2.0, 9.0]).resized(K, 1).predictive(probs)
    y = np.arange(60.0)
    mass = np.exp(p.log_prob(y[:, None]))
    np.testing.assert_allclose(mass.T, np.asarray(probs) @ stats.poisson.pmf(y, [[2.0], [9.0]]), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(p.cdf(jnp.full(2, 5.0)), mass[:6].sum(0), rtol=1e-9)
    np.testing.assert_allclose(p.entropy(), -(mass * np.log(mass)).sum(0), rtol=1e-8)
    assert np.all(np.asarray(p.cdf(p.quantile(0.8))) >= 0.8 - 1e-9)
    assert np.all(np.asarray(p.cdf(p.quantile(0.8) - 1)) < 0.8)
    die = CategoricalDensity(probs=[[0.9, 0.1], [0.2, 0.8]]).resized(K, 1).predictive(probs)
    np.testing.assert_allclose(die.probs, [[0.41, 0.59], [0.9, 0.1]], rtol=1e-12)
    np.testing.assert_allclose(die.epistemic[1], 0.0, atol=1e-12)


def test_predictions_of_angles():
    kappa = np.array([0.3, 4.0, 49.0, 400.0])
    angle = np.linspace(-3.1, 3.1, 9)
    found = turned_cdf(jnp.asarray(angle)[:, None], jnp.asarray(kappa))
    np.testing.assert_allclose(found, stats.vonmises.cdf(angle[:, None], kappa), atol=1e-10)
    np.testing.assert_allclose(
        turned_cdf(jnp.asarray(angle + 2 * np.pi)[:, None], jnp.asarray(kappa)), found + 1, atol=1e-10
    )
    probs = np.array([[0.3, 0.7], [1.0, 0.0]])
    p = VonMises([3.0, -2.5], [2.0, 8.0]).resized(K, 1).predictive(jnp.asarray(probs))
    y = np.linspace(-np.pi, np.pi, 4001)[:-1]
    density = probs @ stats.vonmises.pdf(y, [[2.0], [8.0]], [[3.0], [-2.5]])
    step = y[1] - y[0]
    np.testing.assert_allclose(np.exp(p.log_prob(y[::500, None])), density[:, ::500].T, rtol=1e-9)
    moment = (density * np.exp(1j * y)).sum(1) * step
    np.testing.assert_allclose(p.mean, np.angle(moment), rtol=1e-8)
    np.testing.assert_allclose(p.variance, 1 - np.abs(moment), rtol=1e-8)
    np.testing.assert_allclose(p.entropy(), -(density * np.log(density)).sum(1) * step, rtol=1e-8)
    np.testing.assert_allclose(p.cdf(p.quantile(0.2)), 0.2, rtol=1e-8)
    low, high = p.interval(0.5)
    assert np.all((low < p.mean) & (p.mean < high))
    inside = np.abs(np.exp(1j * (y - np.asarray(low + high)[:, None] / 2)) - 1) < 2 * np.sin((high - low)[:, None] / 4)
    np.testing.assert_allclose((density * inside).sum(1) * step, 0.5, atol=3e-3)
    close(np.exp(1j * np.asarray(p.sample(DRAWS))).real, moment.real)
    np.testing.assert_allclose(p[0].mean, p.mean[0], rtol=1e-12)
