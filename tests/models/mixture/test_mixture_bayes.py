"""Mixtures whose parameters are integrated over: against NUTS, simulation-based calibration, components that go."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import stats as jstats
from jax.scipy.special import logsumexp

import credo
from credo.errors import DataError
from credo.infer import NUTS, VariationalBayes
from credo.models.conjugate import NormalInverseGamma
from credo.models.densities import Gaussian
from credo.models.mixture import DrawnMixture, Mixture, MixtureGibbs

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(-2, 0.7, 18), RNG.normal(2, 1.0, 12)])
PRIOR = {"mean": 0.0, "strength": 0.2, "shape": 2.0, "scale": 1.0}
ALPHA = 2.0


def small() -> Mixture:
    return Mixture(2, Gaussian("diagonal", prior=NormalInverseGamma(**PRIOR)), concentration=ALPHA)


def log_joint(p, x):
    """The same mixture as a user would write it down."""
    w = jnp.stack([p["w"], 1 - p["w"]])
    prior = jstats.beta.logpdf(p["w"], ALPHA, ALPHA)
    prior += jstats.norm.logpdf(p["m"], 0.0, jnp.sqrt(p["v"] / PRIOR["strength"])).sum()
    prior += (-(PRIOR["shape"] + 1) * jnp.log(p["v"]) - PRIOR["scale"] / p["v"]).sum()
    return prior + logsumexp(jnp.log(w) + jstats.norm.logpdf(x[:, None], p["m"], jnp.sqrt(p["v"])), axis=1).sum()


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    init = {"w": 0.5, "m": np.array([-2.0, 2.0]), "v": np.ones(2)}
    constraints = {"w": "unit_interval", "v": "positive"}
    method = NUTS(chains=2, draws=500, warmup=300)
    draws = credo.infer.condition(log_joint, init, using=method, data=(X,), constraints=constraints)
    values = draws.samples if hasattr(draws, "samples") else draws.values
    values = values() if callable(values) else values
    return {name: np.asarray(v).reshape(-1, *np.shape(init[name])) for name, v in values.items()}


@pytest.mark.slow
def test_gibbs_and_variational_bayes_are_near_nuts(reference):
    """Ordered by mean; means of Gibbs within standard errors, spreads within a quarter."""
    found = small().condition(X, using=MixtureGibbs(chains=2, draws=600, warmup=100, members=300), seed=1)
    assert isinstance(found, DrawnMixture)
    means = np.stack([np.sort(b.density.mean[:, 0]) for b in found.beliefs])
    order = np.argsort(reference["m"], axis=1)
    want = np.take_along_axis(reference["m"], order, 1)
    se = want.std(0) * np.sqrt(1 / 150 + 1 / 300)
    assert np.all(np.abs(means.mean(0) - want.mean(0)) < 4.5 * se)
    np.testing.assert_allclose(means.std(0), want.std(0), rtol=0.25)
    learned = credo.learn(small(), X, using=VariationalBayes(), report=True)
    product = np.sort(learned.belief.density.mean[:, 0])
    assert np.all(np.abs(product - want.mean(0)) < 0.5 * want.std(0))


@pytest.mark.filterwarnings("ignore::credo.errors.NotConvergedWarning")  # few draws will do for names
def test_components_that_are_not_needed_switch_off_and_labels_hold():
    x = np.concatenate([RNG.normal(size=(60, 2)), RNG.normal(size=(40, 2)) + 8])
    learned = credo.learn(Mixture(3), x, using=VariationalBayes(starts=2), report=True)
    assert (learned.belief.weights > 0.02).sum() == 2 and np.isfinite(learned.log_evidence)
    found = Mixture(2).condition(x, using=MixtureGibbs(chains=2, draws=60, warmup=40, members=16), seed=2)
    means = np.stack([b.density.mean for b in found.beliefs])
    assert means.std(0).max() < 1.0  # no member has its components the other way round
    clusters = found.clusters(x)
    np.testing.assert_allclose(clusters.total, clusters.aleatoric + clusters.epistemic)
    assert np.all(clusters.epistemic >= -1e-12) and set(found.labels(x)) == {0, 1}
    assert found.sample(20, seed=1).shape == (20, 2) and np.all(np.isfinite(found.log_density(x)))
    p = found.predict([[0.0, np.nan], [8.0, np.nan]])
    assert np.all(p.epistemic > 0) and np.all(p.aleatoric > p.epistemic)
    more = found.condition(x[:10])
    assert isinstance(more, DrawnMixture) and np.ptp(more.log_weights) > 0


def test_the_bound_does_not_fall_and_lies_below_the_evidence():
    prepared, rows = small().prepare(X)
    bounds = VariationalBayes(tolerance=1e-9).climb(prepared, rows).bounds
    assert np.all(np.diff(bounds) >= -1e-9 * abs(bounds[0]))
    # log p(x) by importance sampling from the prior would take long; log p(x, θ) at the mean is above any bound on it.
    assert bounds[-1] < float(prepared.center_of(VariationalBayes().climb(prepared, rows).q).log_evidence_of(rows))


@pytest.mark.slow
def test_gibbs_is_calibrated():
    """Talts et al. (2018): the rank of the truth among thinned draws is uniform; χ² over 40 replications."""
    rng, ranks = np.random.default_rng(3), []
    method = MixtureGibbs(chains=1, draws=19, warmup=40, thin=8, members=19)
    for i in range(40):
        v = PRIOR["scale"] / rng.gamma(PRIOR["shape"], size=2)
        m, w = rng.normal(0, np.sqrt(v / PRIOR["strength"])), rng.dirichlet([ALPHA, ALPHA])
        z = rng.choice(2, size=25, p=w)
        prepared, rows = small().prepare(rng.normal(m[z], np.sqrt(v[z])))
        _, drawn = method.draw(prepared, rows, seed=i)
        ranks.append(int((np.asarray(drawn.density.mean)[:, :, 0].max(1) < m.max()).sum()))
    counts = np.bincount(np.array(ranks) // 5, minlength=4)
    assert ((counts - 10) ** 2 / 10).sum() < 16.3  # 0.1 % of χ² with 3 degrees of freedom


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(DataError, match="whole weights"):
        small().condition(X, using=MixtureGibbs(draws=2, warmup=0), weights=np.full(30, 0.5))
    with pytest.raises(DataError, match="needs a prior"):
        Mixture(2, Gaussian(prior=None)).condition(X, using=VariationalBayes(starts=1))
