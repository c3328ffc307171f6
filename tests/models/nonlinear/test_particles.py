"""The particle filter: within Monte Carlo error of exact answers, of a linear model and on a grid."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from credo.core.gaussian import Gaussian
from credo.core.predictive import Mixture, Normal
from credo.errors import DataError, NotConverged, NotPositiveDefinite
from credo.models.nonlinear import Cloud, Extended, ParticleFiltered, Particles, StateSpaceModel
from credo.models.nonlinear.particle import SCHEMES

N, SEEDS = 400, 24


def growth_sample(key, z, u):
    return z / 2 + 5 * z / (1 + z**2) + u + jnp.sqrt(1.5) * jr.normal(key, z.shape)


def growth_likelihood(x, z, u):
    mean = z[0] ** 2 / 20 + z[0] / 4
    return -0.5 * ((x[0] - mean) ** 2 / 0.5 + jnp.log(2 * jnp.pi * 0.5))


def many(model, method, x, **options):
    """The filter for many seeds at once: increments and means."""
    law, rows = (belief := model.by(method))._begin(belief.statistics(x, **options))

    @eqx.filter_jit
    def run(keys):
        def one(key):
            cloud = Cloud(law.particles, law.log_weights, jr.key_data(key))
            found, status = method.filter(belief._dynamics(), cloud, rows)
            return found.increments, found.mean, status

        return jax.vmap(one)(keys)

    increments, means, status = run(jr.split(jr.key(3), SEEDS))
    assert not np.any(status)
    return np.asarray(increments)[:, : len(x)], np.asarray(means)[:, : len(x)]


def assert_agree(draws, want):
    """The mean over seeds is what is wanted, within 4.5 standard errors."""
    error = draws.std(0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(0) - want) < 4.5 * error + 1e-12)


@pytest.fixture(scope="module")
def watched(linear, data):
    x, u = data
    return linear.filter(x, using=Particles(N, seed=5), inputs=u, missing=True)


def test_the_likelihood_of_a_linear_model_is_unbiased_and_the_means_are_right(linear, data, dense):
    x, u = data
    increments, means = many(linear, Particles(N), x, inputs=u, missing=True)
    exact = np.array([dense.given(t + 1)[2] for t in range(len(x))])
    ratios = np.exp(increments.cumsum(1) - exact)
    assert_agree(ratios, 1.0)
    assert ratios[:, -1].std() < 0.4
    assert_agree(means, np.array([dense.law(t, t + 1)[0] for t in range(len(x))]))
    np.testing.assert_allclose(increments[:, 5], 0.0, atol=1e-12)  # a row with nothing seen


def grid_filter(x, u):
    """The growth model on a grid of 2001 states: increments and means."""
    z = np.linspace(-25, 25, 2001)
    law = stats.norm.pdf(z, 0.3, np.sqrt(2.0))
    out = []
    for t in range(len(x)):
        if t:
            move = stats.norm.pdf(z[:, None], z / 2 + 5 * z / (1 + z**2) + u[t], np.sqrt(1.5))
            law = move @ law * (z[1] - z[0])
        law = law * stats.norm.pdf(x[t], z**2 / 20 + z / 4, np.sqrt(0.5))
        total = law.sum() * (z[1] - z[0])
        law = law / total
        out.append((np.log(total), law @ z * (z[1] - z[0])))
    return np.array(out).T


def test_a_non_linear_model_agrees_with_a_grid(grown):
    x, u = grown
    model = StateSpaceModel(
        log_likelihood=growth_likelihood, transition_sample=growth_sample, start_mean=0.3, start_covariance=2.0
    )
    increments, means = many(model, Particles(N, "stratified"), x, inputs=u)
    exact, mean = grid_filter(x, u)
    assert_agree(np.exp(increments.cumsum(1) - exact.cumsum()), 1.0)
    # A ratio of estimates has a bias of the order 1/N, of which the standard deviation over seeds is √N times as large.
    error = means[..., 0].std(0, ddof=1) / np.sqrt(SEEDS)
    assert np.all(np.abs(means[..., 0].mean(0) - mean) < 4.5 * error + 3 / N)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_resampling_keeps_each_as_often_as_it_weighs(scheme):
    weights = np.array([0.3, 0.05, 0.0, 0.21, 0.04, 0.25, 0.1, 0.05])
    k = len(weights)

    @eqx.filter_jit
    def counts(keys):
        with np.errstate(divide="ignore"):
            log_weights = jnp.asarray(np.log(weights))
        return jax.vmap(lambda key: jnp.zeros(k).at[SCHEMES[scheme](key, jnp.exp(log_weights))].add(1))(keys)

    found = np.asarray(counts(jr.split(jr.key(0), 4000)))
    assert_agree(found, k * weights)
    assert np.all(found[:, 2] == 0) and np.all(found.sum(1) == k)
    apart = np.abs(found - k * weights).max()
    assert (apart < 1) == (scheme == "systematic")  # as near as whole numbers can be


def test_ancestors_and_the_effective_number(watched):
    assert isinstance(watched, ParticleFiltered)
    w = np.asarray(watched.weights)
    np.testing.assert_allclose(w.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(watched.ess, 1 / (w**2).sum(1), rtol=1e-10)
    mean = np.einsum("tk,tkn->tn", w, watched.particles)
    np.testing.assert_allclose(watched.mean, mean, rtol=1e-10)
    apart = np.asarray(watched.particles) - mean[:, None]
    np.testing.assert_allclose(watched.covariance, np.einsum("tk,tkn,tkm->tnm", w, apart, apart), rtol=1e-8, atol=1e-12)
    same = np.arange(N)
    kept = np.all(np.asarray(watched.ancestors) == same, axis=1)
    np.testing.assert_array_equal(kept[1:], np.asarray(watched.ess)[:-1] >= 0.5 * N)
    assert kept[0] and 0 < kept[1:].sum() < len(kept) - 1
    # Where nothing was seen, the weights are those before, or even ones after resampling.
    np.testing.assert_allclose(w[5], w[4] if kept[5] else 1 / N, rtol=1e-10)


def test_paths_descend_from_their_ancestors(watched, dense, data):
    paths = np.asarray(watched.paths(3000, seed=1))
    particles, ancestors = np.asarray(watched.particles), np.asarray(watched.ancestors)
    index = np.array([np.flatnonzero(particles[-1, :, 0] == z)[0] for z in paths[:50, -1, 0]])
    for t in reversed(range(len(ancestors) - 1)):
        index = ancestors[t + 1, index]
        np.testing.assert_array_equal(paths[:50, t], particles[t, index])
    families = np.asarray(watched.families())
    assert families[-1] == N and np.all(np.diff(families) >= 0) and families[0] > 20
    for t in range(len(ancestors)):
        mean, covariance = dense.law(t, len(ancestors))
        assert np.all(np.abs(paths[:, t].mean(0) - mean) < 4.5 * np.sqrt(np.diag(covariance) / (families[t] / 2)))
    np.testing.assert_array_equal(paths, watched.paths(3000, seed=1))


def test_paths_of_several_sequences(linear, data, watched):
    x, u = data
    both = linear.filter([x, x[:4]], using=Particles(N, seed=5), inputs=[u, u[:4]], missing=True)
    np.testing.assert_allclose(both.particles[:10], watched.particles, rtol=1e-12)
    paths, w = np.asarray(both.paths(3000)), np.asarray(both.weights)
    for t in (9, 13):  # each sequence ends with draws by its own weights
        error = np.sqrt(np.diag(both.covariance[t]) / 3000)
        assert np.all(np.abs(paths[:, t].mean(0) - both.mean[t]) < 4.5 * error)
    families = np.asarray(both.families())
    assert families[9] == families[13] == N and families[10] < N
    assert np.all(np.asarray(both.ancestors)[10] == np.arange(N)) and w.shape == (14, N)


def test_rows_one_by_one_are_all_rows_and_seeds_repeat(linear, data):
    x, u = data
    method = Particles(N, seed=5)
    whole = linear.condition(x, using=method, inputs=u, missing=True)
    again = linear.condition(x, using=method, inputs=u, missing=True)
    other = linear.condition(x, using=Particles(N, seed=6), inputs=u, missing=True)
    belief = linear.by(method)
    total = 0.0
    for t in range(len(x)):
        total += float(belief.log_evidence(x[t : t + 1], inputs=u[t : t + 1], missing=True))
        belief = belief.condition(x[t : t + 1], inputs=u[t : t + 1], missing=True)
    assert eqx.tree_equal(whole, again)
    np.testing.assert_allclose(belief.state.particles, whole.state.particles, rtol=1e-12)
    np.testing.assert_allclose(belief.state.log_weights, whole.state.log_weights, rtol=1e-10)
    np.testing.assert_allclose(total, linear.log_evidence(x, using=method, inputs=u, missing=True), rtol=1e-10)
    assert not np.allclose(whole.state.mean, other.state.mean, rtol=1e-6)
    filtered = linear.filter(x, using=method, inputs=u, missing=True)
    np.testing.assert_allclose(filtered.mean[-1], whole.state.mean, rtol=1e-10)


def test_forecasts_are_mixtures_near_the_exact_ones(linear, data):
    x, u = data
    options = {"inputs": u[:6], "missing": True}
    exact = linear.condition(x[:6], **options).predict(3, inputs=u[6:9])
    belief = linear.condition(x[:6], using=Particles(N), **options)
    found = belief.predict(3, inputs=u[6:9])
    assert isinstance(found, Mixture) and found.mean.shape == (3, 2)
    assert np.all(np.abs(found.mean - exact.mean) < 4.5 * exact.std / np.sqrt(belief.state.ess))
    np.testing.assert_allclose(found.aleatoric, exact.aleatoric, rtol=1e-10)
    np.testing.assert_allclose(found.epistemic, exact.epistemic, rtol=0.35)
    np.testing.assert_allclose(found.total, found.variance, rtol=1e-10)


def test_beliefs_change_their_method(linear, data):
    x, u = data
    options = {"missing": True}
    gaussian = linear.condition(x[:6], inputs=u[:6], **options)
    cloud = gaussian.by(Particles(N))
    deviation = np.sqrt(np.diag(gaussian.state.covariance))
    assert np.all(np.abs(cloud.state.mean - gaussian.state.mean) < 4.5 * deviation / np.sqrt(N))
    np.testing.assert_allclose(cloud.state.ess, N)
    back = cloud.by(Extended())
    assert isinstance(back.state, Gaussian)
    np.testing.assert_allclose(back.state.covariance, np.cov(cloud.state.particles.T, bias=True), rtol=1e-8)
    assert cloud.by(Particles(N, seed=9)).state is cloud.state
    assert cloud.by(Particles(50)).state.sample(7, seed=2).shape == (7, 2)


def volatile(z, u):
    return Normal(jnp.zeros(1), jnp.exp(z), jnp.zeros(1))


def volatility_likelihood(x, z, u):
    return -0.5 * (x[0] ** 2 / jnp.exp(z[0]) + z[0] + jnp.log(2 * jnp.pi))


def quiet(z, u):
    return 0.9 * z


def test_outcomes_that_are_not_gaussian():
    """Stochastic volatility: `observe` says which law an outcome has."""
    x = np.array([0.3, -1.2, np.nan, 2.5, 0.1])
    method = Particles(100)
    model = StateSpaceModel(quiet, volatile, 0.3, start_mean=0.0, start_covariance=1.0)
    other = StateSpaceModel(quiet, None, 0.3, None, 0.0, 1.0, log_likelihood=volatility_likelihood)
    one, two = (m.log_evidence(x, using=method, missing=True) for m in (model, other))
    np.testing.assert_allclose(one, two, rtol=1e-10)
    ahead = model.condition(x, using=method, missing=True).predict(2)
    np.testing.assert_allclose(ahead.epistemic, 0.0, atol=1e-12)
    assert np.all(ahead.aleatoric > 0) and ahead.mean.shape == (2, 1)
    with pytest.raises(DataError, match="use Particles"):
        model.condition(x, using=Extended(), missing=True)
    assert isinstance(model.using, Particles) and isinstance(other.using, Particles)
    with pytest.raises(DataError, match="the model has no observe"):
        other.by(method).predict(2)


def near(x, z, u):
    return jnp.where(jnp.abs(x[0] - z[0]) < 5, 0.0, -jnp.inf) + 0.0 * jnp.sqrt(50.0 - z[0])


def test_particles_that_cannot_explain_a_row_are_an_error_that_names_it():
    model = StateSpaceModel(quiet, None, 0.3, None, 0.0, 1.0, log_likelihood=near)
    method = Particles(100)
    good = model.filter([0.1, 0.2, 0.3], using=method)
    assert np.all(good.increments <= 0) and np.all(np.isfinite(good.increments))
    with pytest.raises(NotConverged, match="all particles have weight 0 at row 2"):
        model.filter([0.1, 0.2, 30.0, 0.1], using=method)
    with pytest.raises(DataError, match=r"observe \(or log_likelihood\) is not finite at row 0"):
        StateSpaceModel(quiet, None, 0.3, None, 60.0, 1.0, log_likelihood=near).filter([60.0, 1.0], using=method)
    with pytest.raises(DataError, match="not finite, on the way to row 1"):
        StateSpaceModel(lambda z, u: z * jnp.inf, None, 0.3, None, 0.0, 1.0, log_likelihood=near).filter(
            [0.1, 0.2, 0.3], using=method
        )
    with pytest.raises(DataError, match="log_likelihood takes whole rows"):
        model.filter([[0.1, np.nan]], using=method, missing=True)


def test_noise_that_allows_no_density(linear, data):
    x, u = data
    singular = StateSpaceModel(
        linear.step, linear.observe, linear.process_noise, np.zeros((2, 2)), [0.0, 0.0], np.eye(2)
    )
    with pytest.raises(NotPositiveDefinite, match="row 0: observation_noise is singular"):
        singular.condition(x, using=Particles(N), inputs=u, missing=True)


def test_bad_methods_are_refused():
    for options, message in (
        ({"n": 1}, "n must be a whole number of at least 2"),
        ({"resample": "residual"}, "resample must be one of systematic, stratified, multinomial"),
        ({"threshold": 1.5}, "threshold must be a share between 0 and 1"),
    ):
        with pytest.raises(DataError, match=message):
            Particles(**options)
