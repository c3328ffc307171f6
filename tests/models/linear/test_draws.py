"""Linear models by draws: densities against SciPy, posteriors against closed forms and quadrature."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import credo
from credo.core.gaussian import Gaussian
from credo.core.predictive import Mixture
from credo.errors import DataError, NotConvergedWarning
from credo.infer import MAP, NUTS, Laplace, Variational
from credo.infer.diagnostics import diagnose
from credo.infer.laplace import hessian
from credo.models.linear import (
    ARD,
    Hierarchical,
    Horseshoe,
    Intercept,
    InverseGamma,
    Isotropic,
    KnownNoise,
    LaplaceNoise,
    LaplacePrior,
    Linear,
    StudentTPrior,
    collapsed,
)
from credo.models.linear import StudentTNoise as TNoise
from credo.models.noise import noise_of

RNG = np.random.default_rng(11)
N = 30
X = RNG.normal(size=(N, 2))
Y = 0.5 + X @ [1.0, -0.4] + 0.5 * RNG.normal(size=N)
W = RNG.uniform(0.5, 2.0, size=N)
INTERCEPT = Intercept(0.2, 4.0)
CHAINS = NUTS(chains=2, draws=1000, warmup=300)
PRIORS = {
    "Isotropic": (Isotropic(2.0), lambda w: stats.norm.logpdf(w, scale=np.sqrt(0.5))),
    "ARD": (ARD([2.0, 0.5]), lambda w: stats.norm.logpdf(w, scale=[np.sqrt(0.5), np.sqrt(2.0)])),
    "Laplace": (LaplacePrior(0.7), lambda w: stats.laplace.logpdf(w, scale=0.7)),
    "StudentT": (StudentTPrior(3.0, 0.4), lambda w: stats.t.logpdf(w, 3.0, scale=0.4)),
    "numpyro": (dist.Normal(0.5, 2.0), lambda w: stats.norm.logpdf(w, 0.5, 2.0)),
}
NOISES = {
    "known": (0.3, lambda r, w: stats.norm.logpdf(r, scale=np.sqrt(0.3 / w))),
    "StudentT": (TNoise(4.0, 0.5), lambda r, w: stats.t.logpdf(r, 4.0, scale=0.5 / np.sqrt(w))),
    "Laplace": (LaplaceNoise(0.5), lambda r, w: stats.laplace.logpdf(r, scale=0.5 / np.sqrt(w))),
}


def natural(target, seed=1):
    """Some numbers in natural units, and the log density of them that the target has."""
    u = jnp.asarray(np.random.default_rng(seed).normal(size=target.space.size))
    return {k: np.asarray(v) for k, v in target.space.tree(u).items()}, float(
        target(u) - target.space.log_volume - sum(u[s.start : s.stop].sum() for s in positives(target))
    )


def positives(target):
    return [s for s in target.space.slots if s.constraint.kind == "positive"]


def compare_moments(draws, mean, std, recorded):
    """Means and standard deviations within 4.5 standard errors of the chains."""
    c, n = recorded.acceptance.shape
    chains = np.asarray(draws).reshape(c, n, -1)
    info = [np.asarray(v) for v in (recorded.acceptance, recorded.divergent, recorded.energy, recorded.at_depth)]
    first = diagnose(chains, *info)
    second = diagnose((chains - mean) ** 2, *info)
    flat = chains.reshape(c * n, -1)
    assert np.all(np.abs(flat.mean(0) - mean) < 4.5 * std / np.sqrt(first.ess_bulk))
    square = (flat - mean) ** 2
    assert np.all(np.abs(square.mean(0) - std**2) < 4.5 * square.std(0) / np.sqrt(second.ess_bulk))


# -- the density ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", PRIORS)
def test_the_density_is_scipys(prior, noise):
    model = Linear(prior=PRIORS[prior][0], noise=NOISES[noise][0], intercept=INTERCEPT)
    numbers, value = natural(model.target(model.statistics(X, Y, weights=W)))
    b, w = numbers["intercept"], numbers["weights"]
    want = NOISES[noise][1](Y - b - X @ w, W).sum() + PRIORS[prior][1](w).sum() + stats.norm.logpdf(b, 0.2, 2.0)
    np.testing.assert_allclose(value, want, rtol=1e-9)


@pytest.mark.parametrize(
    "prior", [Isotropic(2.0), Gaussian(jnp.asarray([0.5, -1.0]), jnp.diag(jnp.asarray([0.5, 2.0])))]
)
def test_unknown_noise_scales_the_priors(prior):
    model = Linear(prior=prior, noise=InverseGamma(2.0, 0.6), intercept=INTERCEPT)
    numbers, value = natural(model.target(model.statistics(X, Y)))
    b, w, v = numbers["intercept"], numbers["weights"], numbers["noise"]
    mean, cov = (np.zeros(2), np.eye(2) / 2) if isinstance(prior, Isotropic) else (prior.mean, prior.covariance)
    want = stats.norm.logpdf(Y - b - X @ w, scale=np.sqrt(v)).sum() + stats.invgamma.logpdf(v, 2.0, scale=0.6)
    want += stats.multivariate_normal.logpdf(w, mean, v * np.asarray(cov)) + stats.norm.logpdf(b, 0.2, 2 * np.sqrt(v))
    np.testing.assert_allclose(value, want, rtol=1e-9)


def test_hyperparameters_with_priors_are_unknown_too():
    priors = {"noise": dist.HalfNormal(1.0), "prior.scale": dist.HalfCauchy(0.5)}
    model = Linear(prior=LaplacePrior(), intercept=False)
    numbers, value = natural(model.target(model.statistics(X, Y), priors))
    v, s, w = numbers["noise"], numbers["prior.scale"], numbers["weights"]
    want = stats.norm.logpdf(Y - X @ w, scale=np.sqrt(v)).sum() + stats.laplace.logpdf(w, scale=s).sum()
    want += stats.halfnorm.logpdf(v) + stats.halfcauchy.logpdf(s, scale=0.5)
    np.testing.assert_allclose(value, want, rtol=1e-9)


def horseshoe_density(numbers, scale, slab):
    want = stats.halfcauchy.logpdf(numbers["prior.local"]).sum()
    want += stats.halfcauchy.logpdf(numbers["prior.overall"], scale=scale)
    wide = (numbers["prior.overall"] * numbers["prior.local"]) ** 2
    square = numbers["prior.slab_square"]
    want += stats.invgamma.logpdf(square, 2.0, scale=2 * slab**2)
    return want, np.sqrt(square * wide / (square + wide))


@pytest.mark.parametrize("noise", [0.3, InverseGamma(2.0, 0.6)])
def test_the_horseshoe_integrates_the_weights_out(noise):
    model = Linear(prior=Horseshoe(0.2, 1.5), noise=noise, intercept=INTERCEPT)
    statistics = model.statistics(X, Y, weights=W)
    target = model.target(statistics)
    u = jnp.asarray(np.random.default_rng(3).normal(size=target.space.size))
    numbers = {k: np.asarray(v) for k, v in target.space.tree(u).items()}
    want, scales = horseshoe_density(numbers, 0.2, 1.5)
    exact = Linear(prior=ARD(1 / scales**2), noise=noise, intercept=INTERCEPT)
    want += float(exact.evidence_of(statistics))
    np.testing.assert_allclose(float(target(u)) - float(u.sum()), want, rtol=1e-9)


def test_the_horseshoe_with_outliers_moves_in_z():
    model = Linear(prior=Horseshoe(0.2, 1.5), noise=TNoise(4.0, 0.5), intercept=INTERCEPT)
    numbers, value = natural(model.target(model.statistics(X, Y)))
    want, scales = horseshoe_density(numbers, 0.2, 1.5)
    want += stats.norm.logpdf(numbers["prior.z"]).sum() + stats.norm.logpdf(numbers["intercept"], 0.2, 2.0)
    residual = Y - numbers["intercept"] - X @ (scales * numbers["prior.z"])
    np.testing.assert_allclose(value, want + stats.t.logpdf(residual, 4.0, scale=0.5).sum(), rtol=1e-9)


@pytest.mark.parametrize("noise", [0.3, InverseGamma(2.0, 0.6)])
def test_weights_given_their_scales_are_drawn_from_the_exact_law(noise):
    scales = jnp.asarray([2.0, 0.5, 0.1])
    exact = Linear(prior=ARD(1 / scales[1:] ** 2), noise=noise, intercept=Intercept(0.0, 4.0))
    statistics = exact.statistics(X, Y)
    n = 20_000
    draw = jax.jit(jax.vmap(lambda key: collapsed.draw(key, noise_of(noise), scales, statistics)))
    theta, variance = (np.asarray(v) for v in draw(jr.split(jr.key(0), n)))
    want = exact.condition_on(statistics).coefficients()
    assert np.all(np.abs(theta.mean(0) - want.mean) < 4.5 * want.std / np.sqrt(n))
    square = (theta - np.asarray(want.mean)) ** 2
    assert np.all(np.abs(square.mean(0) - want.variance) < 4.5 * square.std(0) / np.sqrt(n))
    assert abs(variance.mean() - exact.condition_on(statistics).noise_variance()) <= 4.5 * variance.std() / np.sqrt(n)


def test_coordinates_are_round_whatever_the_units():
    units = np.array([1e4, 1e-3])
    model = Linear(prior=ARD(1e-6 * units**2), noise=0.25)
    target = model.target(model.statistics(X * units, Y))
    curvature = hessian(target, jnp.zeros(3))
    np.testing.assert_allclose(curvature, np.eye(3), atol=0.05)
    numbers = target.space.tree(jnp.asarray([1.0, -2.0, 0.5]))
    np.testing.assert_allclose(target.space.vector(numbers), [1.0, -2.0, 0.5], rtol=1e-8)


# -- posteriors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.3, InverseGamma(2.0, 0.6)])
def test_nuts_agrees_with_the_closed_form(noise):
    model = Linear(prior=Isotropic(2.0), noise=noise)
    exact, drawn = model.condition(X, Y), model.condition(X, Y, using=CHAINS, seed=1)
    law = exact.coefficients()
    compare_moments(
        drawn.theta + drawn.model.shift(drawn.theta.shape[1]), np.asarray(law.mean), np.asarray(law.std), drawn.found
    )
    if isinstance(noise, InverseGamma):
        shape, scale = exact.weights.noise.shape, exact.weights.noise.scale
        mean, std = (float(v) for v in (scale / (shape - 1), scale / (shape - 1) / jnp.sqrt(shape - 2)))
        compare_moments(drawn.noise, np.array([mean]), np.array([std]), drawn.found)
    p, q = exact.predict(X[:4]), drawn.predict(X[:4])
    np.testing.assert_allclose(q.mean, p.mean, atol=0.05)
    np.testing.assert_allclose(q.variance, p.variance, rtol=0.1)
    assert drawn.verdict == "No sign of trouble."


def grid_moments(log_density, center, width, points=801):
    """Means and standard deviations of two numbers on a grid."""
    axes = [np.linspace(c - width, c + width, points) for c in center]
    first, second = np.meshgrid(*axes, indexing="ij")
    log_p = log_density(first, second)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = np.array([(p * first).sum(), (p * second).sum()])
    std = np.sqrt([(p * (first - mean[0]) ** 2).sum(), (p * (second - mean[1]) ** 2).sum()])
    return mean, std


def rows_on_grid(log_noise, log_prior):
    def log_density(a, b):
        total = log_prior(a) + log_prior(b)
        for x, y in zip(X, Y - 0.5, strict=True):
            total = total + log_noise(y - a * x[0] - b * x[1])
        return total

    return log_density


CASES = {
    "lasso": (LaplacePrior(0.3), 0.3, lambda r: stats.norm.logpdf(r, scale=np.sqrt(0.3)), lambda w: -abs(w) / 0.3),
    "outliers": (Isotropic(2.0), TNoise(4.0, 0.5), lambda r: stats.t.logpdf(r, 4.0, scale=0.5), lambda w: -(w**2)),
}


@pytest.mark.parametrize("case", CASES)
def test_nuts_agrees_with_quadrature(case):
    prior, noise, log_noise, log_prior = CASES[case]
    drawn = Linear(prior=prior, noise=noise, intercept=False).condition(X, Y - 0.5, using=CHAINS)
    mean, std = grid_moments(rows_on_grid(log_noise, log_prior), [1.0, -0.4], 1.2, 401)
    compare_moments(drawn.theta, mean, std, drawn.found)


def test_laplace_and_variational_serve_too():
    model = Linear(prior=StudentTPrior(4.0, 1.0), noise=0.3)
    exact = Linear(prior=Isotropic(2.0), noise=0.3)
    evidence = exact.condition(X, Y, using=Laplace()).found.log_evidence
    np.testing.assert_allclose(evidence, exact.log_evidence(X, Y), rtol=1e-8)  # a Gaussian is its own approximation
    one, two = model.condition(X, Y, using=Laplace()), model.condition(X, Y, using=Variational())
    np.testing.assert_allclose(one.coefficients().mean, two.coefficients().mean, atol=0.03)
    np.testing.assert_allclose(one.coefficients().std, two.coefficients().std, rtol=0.1)


SPARSE_X = RNG.normal(size=(60, 8))
SPARSE_Y = 2 * SPARSE_X[:, 1] - SPARSE_X[:, 4] + 0.5 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def sparse():
    model = Linear(prior=Horseshoe.expecting(2, 8, 60), noise=InverseGamma(1.0, 0.3))
    return model.condition(SPARSE_X, SPARSE_Y, using=NUTS(chains=2, draws=500, warmup=400))


def test_the_horseshoe_finds_what_matters(sparse):
    assert sparse.found.diagnostics.divergences == 0
    c = sparse.coefficients()
    matters = np.array([False, False, True, False, False, True, False, False, False])
    assert np.all(np.abs(c.mean)[matters] > 6 * np.asarray(c.std)[matters])
    useless = Linear(noise=InverseGamma(1.0, 0.3)).condition(SPARSE_X, SPARSE_Y).coefficients()
    quiet = ~matters & (np.arange(9) > 0)
    assert np.mean(np.abs(c.mean)[quiet]) < 0.6 * np.mean(np.abs(useless.mean)[quiet])
    assert np.mean(np.asarray(c.std)[quiet]) < np.mean(np.asarray(useless.std)[quiet])
    np.testing.assert_allclose(np.asarray(c.mean)[matters], [2.0, -1.0], atol=0.25)


def test_draws_have_names(sparse):
    names = ["intercept", *(f"x{i}" for i in range(8))]
    assert sparse.coefficient_names() == names
    assert list(sparse.posterior.mean) == [*names, "noise", "prior.overall", "prior.slab_square"]
    np.testing.assert_allclose(sparse.posterior.mean["x1"], sparse.coefficients().mean[2], rtol=1e-8)
    assert "prior.overall" in sparse.posterior.summary()
    assert sparse.posterior.sample(7)["noise"].shape == (7,)


def test_inputs_may_be_called_noise(sparse):
    named = ["noise", *(f"x{i}" for i in range(1, 8))]
    other = eqx.tree_at(lambda b: b.model, sparse, sparse.model._named(named))
    assert list(other.posterior.mean)[:3] == ["intercept", "weight of noise", "weight of x1"]


@pytest.fixture(scope="module")
def cloud():
    return Linear(prior=LaplacePrior(0.5), noise=0.3).condition(X[:15], Y[:15], using=CHAINS)


@pytest.mark.parametrize("noise", [InverseGamma(3.0, 0.6), TNoise(4.0, 0.5), LaplaceNoise(0.4), 0.3])
def test_doubt_is_noise_and_ignorance(noise, cloud):
    model = Linear(noise=noise)
    draws = eqx.tree_at(lambda b: (b.model, b.noise), cloud, (model, cloud.noise * 0 + 0.5))
    p = draws.predict(X[:3])
    assert isinstance(p, Mixture)
    np.testing.assert_allclose(p.variance, p.aleatoric + p.epistemic, rtol=1e-10)
    level = {TNoise: 0.25 * 2, LaplaceNoise: 2 * 0.25}.get(type(noise), 0.5)
    np.testing.assert_allclose(p.aleatoric, level, rtol=1e-8)
    f = np.asarray(draws.theta) @ np.vstack([np.ones(3), X[:3].T])
    np.testing.assert_allclose(p.mean, f.mean(0), atol=4.5 * f.std(0).max() / np.sqrt(500))
    np.testing.assert_allclose(p.epistemic, f.var(0), rtol=0.25)


def test_new_data_weigh_the_draws(cloud):
    more = cloud.condition(X[15:20], Y[15:20])
    exact = Linear(prior=Isotropic(2.0), noise=0.3)
    start = exact.condition(X[:15], Y[:15], using=CHAINS)
    after = start.condition(X[15:20], Y[15:20])
    want = exact.condition(X[:20], Y[:20]).coefficients()
    np.testing.assert_allclose(after.coefficients().mean, want.mean, atol=0.03)
    np.testing.assert_allclose(after.coefficients().std, want.std, rtol=0.12)
    chained = exact.condition(X[:15], Y[:15]).log_evidence(X[15:20], Y[15:20])
    np.testing.assert_allclose(start.log_evidence(X[15:20], Y[15:20]), chained, atol=0.05)
    assert more.posterior.kept().shape == (2000, 3)
    np.testing.assert_allclose(more.posterior.mean["x0"], more.coefficients().mean[1], atol=0.01)
    halves = cloud.condition(X[15:18], Y[15:18]).condition(X[18:20], Y[18:20])
    np.testing.assert_allclose(halves.log_weights, more.log_weights, rtol=1e-8)
    with pytest.warns(NotConvergedWarning, match="effective draws are left of 2000; draw anew"):
        cloud.condition(np.repeat(X[:5], 200, 0), np.repeat(Y[:5] + 2, 200))


def test_drawing_anew_takes_all_the_data(cloud):
    seen = cloud.model.target(cloud.statistics(X[15:], Y[15:])).data[1]
    whole = Linear(prior=LaplacePrior(0.5), noise=0.3).statistics(X, Y)
    np.testing.assert_allclose(seen.gram, whole.gram, rtol=1e-8)
    assert float(cloud.condition(X[15:], Y[15:], using=Laplace()).model.seen.n) == N


# -- priors of one's own -----------------------------------------------------------------------------------------


class Signed(eqx.Module):
    """Weights that are positive, more or less."""

    sharpness: float = 3.0

    def log_prob(self, weights):
        return jnp.sum(jax.nn.log_sigmoid(self.sharpness * weights) - 0.5 * weights**2)


class Shared(Hierarchical):
    """Weights around a mean of their own."""

    def latent(self, p):
        return {"mean": jnp.zeros(()), "width": jnp.ones(()), "raw": jnp.zeros(p)}

    @property
    def constraints(self):
        return {"width": "positive"}

    def log_prob(self, latent):
        return dist.Normal(0, 1).log_prob(latent["raw"]).sum() + dist.HalfNormal(1).log_prob(latent["width"])

    def weights(self, latent):
        return latent["mean"] + latent["width"] * latent["raw"]


def test_priors_of_ones_own():
    model = Linear(prior=Signed(), noise=0.3, intercept=False)
    drawn = model.condition(X, Y - 0.5, using=CHAINS)
    density = rows_on_grid(
        lambda r: stats.norm.logpdf(r, scale=np.sqrt(0.3)), lambda w: -np.log1p(np.exp(-3 * w)) - 0.5 * w**2
    )
    mean, std = grid_moments(density, [1.0, -0.2], 1.2, 401)
    compare_moments(drawn.theta, mean, std, drawn.found)
    shared = Linear(prior=Shared(), noise=0.3)
    numbers, value = natural(shared.target(shared.statistics(X, Y)))
    w = numbers["prior.mean"] + numbers["prior.width"] * numbers["prior.raw"]
    want = stats.norm.logpdf(Y - numbers["intercept"] - X @ w, scale=np.sqrt(0.3)).sum()
    want += stats.norm.logpdf(numbers["prior.raw"]).sum() + stats.halfnorm.logpdf(numbers["prior.width"])
    np.testing.assert_allclose(value, want + stats.norm.logpdf(numbers["intercept"], 0.0, 10.0), rtol=1e-9)


class Clashing(Shared):
    width: jax.Array = credo.core.params.positive(1.0)


@pytest.mark.filterwarnings("ignore:do not trust:credo.errors.NotConvergedWarning")
def test_what_cannot_be_done_is_said(cloud, sparse):
    with pytest.raises(DataError, match=r"prior must have log_prob\(weights\), found float"):
        Linear(prior=3.0)
    with pytest.raises(DataError, match=r"StudentTPrior has no Gaussian posterior; draw from it: condition\(X"):
        Linear(prior=StudentTPrior()).condition(X, Y)
    with pytest.raises(DataError, match="the prior has 3 precisions, but there are 2 features"):
        Linear(prior=ARD([1.0, 1.0, 1.0])).condition(X, Y, using=CHAINS)
    with pytest.raises(DataError, match="a point estimate has no posterior to go on from"):
        Linear().condition(X, Y, using=MAP()).condition(X, Y, using=CHAINS)
    with pytest.raises(DataError, match=r"a number of its own at 'prior\.width'; rename one"):
        Linear(prior=Clashing()).condition(X, Y, using=CHAINS)
    with pytest.raises(DataError, match="no learnable number at 'prior.width'"):
        Linear().condition(X, Y, using=CHAINS, priors={"prior.width": dist.HalfNormal(1.0)})
    with pytest.raises(DataError, match="own noise is a known variance"):
        sparse.predict(SPARSE_X[:2], noise=[0.1, 0.1])
    with pytest.raises(DataError, match="the weights had been integrated out"):
        eqx.tree_at(lambda b: b.seen, sparse.model, None).given(sparse.found)
    with pytest.raises(DataError, match="does not hold the data it has seen"):
        eqx.tree_at(lambda b: b.model.seen, cloud, None).condition(X, Y, using=CHAINS)
    with pytest.raises(DataError, match="relevant must be more than 0 and less than the 8 features, found 8"):
        Horseshoe.expecting(8, 8, 60)
    half = Linear().condition(X, Y, using=Laplace(), priors={"noise": dist.HalfNormal(1.0)})
    assert list(half.posterior.mean) == ["intercept", "x0", "x1", "noise"]
    with pytest.raises(DataError, match="'noise' is known by draws; to draw anew give its prior again"):
        half.condition(X, Y, using=Laplace())


def test_the_noise_of_each_row(cloud):
    variances = np.linspace(0.1, 0.6, N)
    model = Linear(noise=KnownNoise())
    drawn = model.condition(X, Y, using=Laplace(), noise=variances)
    want = model.condition(X, Y, noise=variances)
    np.testing.assert_allclose(drawn.coefficients().mean, want.coefficients().mean, atol=1e-6)
    np.testing.assert_allclose(drawn.predict(X[:2], noise=[0.1, 0.7]).aleatoric, [0.1, 0.7])
    with pytest.raises(DataError, match="X must have"):
        cloud.predict(np.zeros((2, 5)))
