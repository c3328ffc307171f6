"""Generalized linear models: statsmodels and scikit-learn for modes, quadrature for evidence and predictions."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import statsmodels.api as sm
from scipy import integrate, special, stats
from sklearn.linear_model import LogisticRegression
from statsmodels.miscmodels.ordinal_model import OrderedModel

import credo
from credo.core import params
from credo.core.gaussian import Gaussian
from credo.core.predictive import Bernoulli, Categorical, Mixture
from credo.errors import DataError, NotConvergedWarning
from credo.infer import MAP, ML
from credo.infer.laplace import Laplace
from credo.infer.learning import Objective
from credo.infer.mcmc.draws import Draws
from credo.infer.posterior import NormalApproximation
from credo.models import likelihoods
from credo.models.glm import (
    GLM,
    Logistic,
    NegativeBinomialRegression,
    OrdinalRegression,
    PoissonRegression,
    Probit,
    Softmax,
    StudentTRegression,
    newton,
)
from credo.models.glm.evidence import LaplaceObjective
from credo.models.linear import ARD, Intercept, Isotropic, LaplacePrior

RNG = np.random.default_rng(0)
N = 120
X = RNG.normal(size=(N, 2))
ETA = 0.3 + X @ [1.0, -0.5]
WITH_ONES = sm.add_constant(X)
BINARY = (RNG.random(N) < special.expit(ETA)).astype(int)
COUNTS = RNG.poisson(np.exp(ETA))
SPREAD = RNG.poisson(np.exp(ETA) * RNG.gamma(1.0, 1.0, size=N))
NAMES = np.array(["a", "b", "c"])[np.argmax(np.stack([ETA, -ETA, 0 * ETA], 1) + RNG.gumbel(size=(N, 3)), 1)]
RANKS = np.digitize(ETA + RNG.logistic(size=N), [-1.0, 0.5, 2.0])
REAL = ETA + 0.5 * RNG.standard_t(4, size=N)

MODELS = {
    "Logistic": (Logistic, BINARY),
    "Probit": (Probit, BINARY),
    "Softmax": (Softmax, NAMES),
    "Ordinal": (OrdinalRegression, RANKS),
    "Poisson": (PoissonRegression, COUNTS),
    "NegativeBinomial": (NegativeBinomialRegression, SPREAD),
    "StudentT": (StudentTRegression, REAL),
}


@pytest.fixture(scope="module")
def after():
    return {name: model().condition(X, y) for name, (model, y) in MODELS.items()}


# -- point estimates ---------------------------------------------------------------------------------------------


def most_likely(model, y, **options):
    fitted = model().condition(X, y, using=ML(), **options)
    return fitted, np.asarray(fitted.coefficients().mean)


def test_maximum_likelihood_is_statsmodels():
    tight = {"disp": 0, "tol": 1e-12}
    oracle = sm.Logit(BINARY, WITH_ONES).fit(**tight)
    np.testing.assert_allclose(most_likely(Logistic, BINARY)[1], oracle.params, rtol=1e-8)
    value, k = Logistic().maximum_log_likelihood(X, BINARY)
    np.testing.assert_allclose(value, oracle.llf, rtol=1e-10)
    assert k == 3
    np.testing.assert_allclose(
        most_likely(Probit, BINARY)[1], sm.Probit(BINARY, WITH_ONES).fit(**tight).params, rtol=1e-8
    )
    exposure = RNG.uniform(0.5, 3.0, size=N)
    oracle = sm.Poisson(COUNTS, WITH_ONES, exposure=exposure).fit(**tight)
    np.testing.assert_allclose(most_likely(PoissonRegression, COUNTS, exposure=exposure)[1], oracle.params, rtol=1e-8)
    codes = np.array([{"c": 0, "a": 1, "b": 2}[v] for v in NAMES])  # statsmodels has its reference first
    oracle = sm.MNLogit(codes, WITH_ONES).fit(**tight)
    np.testing.assert_allclose(most_likely(Softmax, NAMES)[1], oracle.params, rtol=1e-8)


def test_maximum_likelihood_of_likelihoods_with_numbers_is_statsmodels():
    fitted, weights = most_likely(NegativeBinomialRegression, SPREAD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # asked for more digits than its line search can give
        oracle = sm.NegativeBinomial(SPREAD, WITH_ONES).fit(disp=0, method="bfgs", maxiter=500, gtol=1e-9)
    np.testing.assert_allclose([*weights, fitted.likelihood.dispersion], oracle.params, rtol=1e-6)
    fitted, weights = most_likely(OrdinalRegression, RANKS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = OrderedModel(RANKS, X, distr="logit").fit(disp=0, method="bfgs", maxiter=500, gtol=1e-9)
    cuts = np.cumsum([oracle.params[2], *np.exp(oracle.params[3:])])
    np.testing.assert_allclose([*weights, *fitted.likelihood.cutpoints], [*oracle.params[:2], *cuts], rtol=1e-6)
    fitted, weights = most_likely(StudentTRegression, REAL)
    residual = (REAL - WITH_ONES @ weights) / float(fitted.likelihood.scale)
    pull = 5 * residual / (4 + residual**2)  # both scores vanish
    np.testing.assert_allclose(WITH_ONES.T @ pull, 0.0, atol=1e-6)
    np.testing.assert_allclose(np.sum(residual * pull), N, rtol=1e-6)


def test_mode_is_scikit_learns():
    belief = Logistic(prior=Isotropic(2.0), intercept=False)
    peer = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12, max_iter=1000).fit(X, BINARY)
    np.testing.assert_allclose(belief.condition(X, BINARY, using=MAP()).coefficients().mean, peer.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(belief.condition(X, BINARY).law.center, peer.coef_[0], rtol=1e-6)


def test_lasso_is_scikit_learns():
    belief = Logistic(prior=LaplacePrior(0.05), intercept=False)
    point = belief.condition(X, BINARY, using=MAP())
    options = {"C": 0.05, "fit_intercept": False, "tol": 1e-10, "max_iter": 10_000, "solver": "saga", "l1_ratio": 1.0}
    peer = LogisticRegression(**options).fit(X, BINARY)
    np.testing.assert_allclose(point.coefficients().mean, peer.coef_[0], rtol=1e-5, atol=1e-8)
    strong = Logistic(prior=LaplacePrior(0.02)).condition(X, BINARY, using=MAP())
    assert np.any(np.asarray(strong.coefficients().mean)[1:] == 0.0)
    with pytest.raises(DataError, match="a Laplace prior has no Gaussian posterior"):
        belief.condition(X, BINARY)


def test_separable_data_are_said_to_be():
    x = np.column_stack([np.linspace(-1, 1, 20), np.cos(np.arange(20.0))])
    y = (x[:, 0] > 0).astype(int)
    with pytest.warns(NotConvergedWarning, match=r"no maximum: it rises as \+x0 go to infinity"):
        Logistic().condition(x, y, using=ML())
    quasi = np.append(y, [0, 1]), np.vstack([x, [[0.0, 5.0], [0.0, 5.0]]])
    with pytest.warns(NotConvergedWarning, match="no maximum"):
        Logistic().condition(quasi[1], quasi[0], using=ML())
    with pytest.warns(NotConvergedWarning, match="features are collinear"):
        Logistic().condition(np.column_stack([X, X[:, 0]]), BINARY, using=ML())
    with pytest.warns(NotConvergedWarning, match="dispersion went to its bound"):
        NegativeBinomialRegression().condition(X[:, :1], np.full(N, 4), using=ML())
    assert np.all(np.isfinite(Logistic().condition(x, y).law.center))


# -- Laplace's approximation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_the_default_is_laplace_on_the_target(name, after):
    model, y = MODELS[name]
    belief = model()
    target = belief.target(belief.statistics(X, y))
    found = Laplace().run(target)
    law = after[name].law
    np.testing.assert_allclose(law.center, found.center, atol=1e-6)
    np.testing.assert_allclose(law.root @ law.root.T, found.covariance, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(law.log_evidence, found.log_evidence, rtol=1e-8)
    np.testing.assert_allclose(belief.log_evidence(X, y), found.log_evidence, rtol=1e-8)
    given = after[name].given(found)
    np.testing.assert_allclose(given.predict(X[:3]).mean, after[name].predict(X[:3]).mean, rtol=1e-5)
    assert isinstance(given.posterior, NormalApproximation) and "weights" in given.posterior.summary()
    np.testing.assert_allclose(after[name].posterior.center, law.center)


def test_the_evidence_is_nearly_the_integral():
    x, y = X[:40, :1], BINARY[:40]
    belief = Logistic(prior=Isotropic(1.0), intercept=False)

    def joint(w):
        return np.exp(np.sum(np.log(special.expit((2 * y - 1) * x[:, 0] * w))) + stats.norm.logpdf(w) + 20)

    exact = np.log(integrate.quad(joint, -10, 10, epsabs=1e-14)[0]) - 20
    np.testing.assert_allclose(belief.log_evidence(x, y), exact, atol=0.02)
    # With nearly all the information in the prior the approximation is exact.
    tight = Logistic(prior=Isotropic(1e6), intercept=False)
    np.testing.assert_allclose(tight.log_evidence(x, y), -40 * np.log(2), rtol=1e-5)


@pytest.mark.parametrize("name", ["Logistic", "Softmax", "NegativeBinomial"])
def test_the_gradient_of_the_evidence_is_exact(name):
    model, y = MODELS[name]
    belief = model(prior=ARD([0.7, 3.0]))
    rows = belief.statistics(X, y)
    slots = params.layout(belief)
    assert [s.path for s in slots] == ["prior.precision"]

    @eqx.filter_jit
    def value_and_grad(u, rows):
        return jax.value_and_grad(lambda v: params.from_vector(belief, slots, v).evidence_of(rows))(u)

    u = jnp.log(jnp.asarray([0.7, 3.0]))
    gradient = value_and_grad(u, rows)[1]
    for i in range(2):
        h = 1e-4 * jnp.eye(2)[i]
        numeric = (value_and_grad(u + h, rows)[0] - value_and_grad(u - h, rows)[0]) / 2e-4
        np.testing.assert_allclose(gradient[i], numeric, rtol=1e-5, atol=1e-7)


def test_learning_finds_the_relevant_feature():
    x = np.column_stack([X[:, 0], RNG.normal(size=N)])
    y = (RNG.random(N) < special.expit(2 * X[:, 0])).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # the other's precision runs to its bound, and is said to
        learned = credo.learn(Logistic(prior=ARD()), x, y)
    assert learned.prior.precision[1] > 20 * learned.prior.precision[0]
    better = credo.learn(Logistic(), X, BINARY, report=True)
    for factor in (0.5, 2.0):
        precision = better.belief.prior.precision * factor
        other = eqx.tree_at(lambda b: b.prior.precision, better.belief, precision)
        assert float(other.log_evidence(X, BINARY)) < better.log_evidence


@pytest.mark.parametrize("name", ["Logistic", "Poisson"])
def test_a_posterior_is_the_next_prior(name, after):
    model, y = MODELS[name]
    halves = model().condition(X[:60], y[:60]).condition(X[60:], y[60:])
    sd = np.sqrt(np.asarray(after[name].coefficients().epistemic))
    gap = np.abs(np.asarray(halves.coefficients().mean - after[name].coefficients().mean))
    assert np.all(gap < 0.3 * sd)  # assumed density: close to, not the same as, all at once
    first = model().condition(X[:60], y[:60])
    law = Gaussian(first.law.center, first.law.root @ first.law.root.T)
    same = model(prior=law, intercept=False).condition(WITH_ONES[60:], y[60:])
    np.testing.assert_allclose(halves.law.center, same.law.center, rtol=1e-6)
    with pytest.raises(DataError, match="a point estimate has no posterior"):
        model().condition(X, y, using=MAP()).condition(X, y)


def test_weights_count_rows():
    w = RNG.integers(1, 4, size=N)
    weighted = Logistic().condition(X, BINARY, weights=w)
    repeated = Logistic().condition(np.repeat(X, w, axis=0), np.repeat(BINARY, w))
    np.testing.assert_allclose(weighted.law.center, repeated.law.center, rtol=1e-8)
    np.testing.assert_allclose(weighted.law.log_evidence, repeated.law.log_evidence, rtol=1e-8)


@pytest.mark.parametrize("name", ["Logistic", "StudentT", "Softmax"])
def test_large_tables_give_the_same(name, after, monkeypatch):
    model, y = MODELS[name]
    for module, setting, value in (
        (newton, "LARGE", 1),
        (newton, "BLOCK", 50),
        (newton, "PILOT", 50),
        (newton, "ENOUGH", 1),
    ):
        monkeypatch.setattr(module, setting, value)
    rows = model().statistics(X, y)
    found = newton.climb(model().before(rows), rows, True)
    assert bool(found.converged)
    np.testing.assert_allclose(found.u, after[name].law.center, rtol=1e-5, atol=1e-7)
    covariance = np.linalg.inv(np.asarray(found.precision))
    np.testing.assert_allclose(covariance, after[name].law.root @ after[name].law.root.T, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("name", ["Logistic", "StudentT", "Softmax", "Ordinal"])
def test_the_evidence_of_large_tables_is_the_same(name, monkeypatch):
    model, y = MODELS[name]
    belief, rows = model().prepare(X, y)
    slots = params.layout(belief)
    want = Objective(belief, slots, rows, {})
    for module, setting, value in (
        (newton, "LARGE", 1),
        (newton, "BLOCK", 50),
        (newton, "PILOT", 50),
        (newton, "ENOUGH", 1),
    ):
        monkeypatch.setattr(module, setting, value)
    found = belief.objective(slots, rows, {})
    assert isinstance(found, LaplaceObjective)
    first = np.asarray(params.to_vector(belief, slots))
    for shift in (0.3, -1.0):
        value, slope = want.value_and_grad(first + shift)
        other, other_slope = found.value_and_grad(first + shift)
        assert other == pytest.approx(value, rel=1e-8)
        np.testing.assert_allclose(other_slope, slope, rtol=1e-6, atol=1e-7)


# -- predictions -------------------------------------------------------------------------------------------------


def eta_of(belief, x):
    phi = np.column_stack([np.ones(len(x)), x])
    covariance = np.asarray(belief.law.root @ belief.law.root.T)
    return phi @ np.asarray(belief.law.center), np.sqrt(np.einsum("ij,jk,ik->i", phi, covariance, phi))


QUERIES = np.array([[0.0, 0.0], [3.0, 2.0], [-6.0, 4.0]])


@pytest.mark.parametrize("name", ["Logistic", "Probit"])
def test_class_probabilities_integrate_over_the_weights(name, after):
    belief = after[name]
    link = special.expit if name == "Logistic" else special.ndtr
    p = belief.predict(QUERIES)
    assert isinstance(p, Bernoulli)
    for i, (m, s) in enumerate(zip(*eta_of(belief, QUERIES), strict=True)):
        exact = integrate.quad(lambda z, m=m, s=s: link(m + s * z) * stats.norm.pdf(z), -9, 9)[0]
        entropy = integrate.quad(
            lambda z, m=m, s=s: stats.bernoulli.entropy(link(m + s * z)) * stats.norm.pdf(z), -9, 9
        )[0]
        np.testing.assert_allclose(p.prob[i], exact, rtol=1e-6)
        np.testing.assert_allclose(p.aleatoric[i], entropy, rtol=1e-5)
    np.testing.assert_allclose(belief.predict(QUERIES, by="probit").prob, p.prob, atol=0.02)
    np.testing.assert_allclose(belief.predict(QUERIES, by="quadrature").prob, p.prob, atol=1e-7)
    np.testing.assert_allclose(belief.predict(QUERIES, by="sampling").prob, p.prob, atol=4.5 * 0.25 / np.sqrt(1024))
    np.testing.assert_allclose(p.total, p.entropy(), rtol=1e-10)
    assert np.all(np.asarray(p.epistemic) > 0)


def test_counts_integrate_over_the_weights(after):
    belief = after["Poisson"]
    m, s = eta_of(belief, QUERIES[:2])
    exposure = np.array([2.0, 0.5])
    p = belief.predict(QUERIES[:2], exposure=exposure)
    assert isinstance(p, Mixture)
    mean = exposure * np.exp(m + s**2 / 2)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(p.epistemic, mean**2 * np.expm1(s**2), rtol=1e-6)


@pytest.mark.parametrize("name", ["NegativeBinomial", "StudentT", "Ordinal", "Softmax"])
def test_other_predictions_are_those_of_draws(name, after):
    belief = after[name]
    p = belief.predict(QUERIES)
    likelihood = belief.likelihood
    draws = belief.posterior.sample(20_000, seed=1)
    phi = QUERIES if name == "Ordinal" else np.column_stack([np.ones(3), QUERIES])
    eta = np.einsum("mq,sq...->sm...", phi, np.asarray(draws.pop("weights")))

    def mean(own, eta):
        return params.replace(likelihood, own).mean(eta)

    each = np.asarray(jax.jit(jax.vmap(mean))(draws, jnp.asarray(eta)))
    se = each.std(0) * (1 / np.sqrt(20_000) + 1 / np.sqrt(1024))
    assert np.all(np.abs(np.asarray(p.mean) - each.mean(0)) < 4.5 * se)
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic, rtol=1e-12)
    if name in ("Ordinal", "Softmax"):
        assert isinstance(p, Categorical)
        np.testing.assert_allclose(p.total, p.entropy(), rtol=1e-10)
    else:
        assert isinstance(p, Mixture)
        np.testing.assert_allclose(p.epistemic, each.var(0), rtol=0.2)


def test_dispersion_is_noise(after):
    belief = after["NegativeBinomial"]
    p = belief.predict(QUERIES[:1])
    alpha, mu = float(belief.likelihood.dispersion), float(p.mean[0])
    assert float(p.aleatoric[0]) > mu + 0.5 * alpha * mu**2
    assert float(p.epistemic[0]) < float(p.aleatoric[0])
    np.testing.assert_allclose(np.exp(p.log_prob(0.0)), p.cdf(0.0), rtol=1e-6)


def test_point_estimates_have_no_ignorance():
    p = Logistic().condition(X, BINARY, using=MAP()).predict(QUERIES)
    np.testing.assert_allclose(p.epistemic, 0.0, atol=1e-12)


def test_draws_predict_by_their_average(after):
    belief = after["Logistic"]
    draws = belief.posterior.vectors(3000, np.random.default_rng(2))
    still = np.zeros((1, 3000))
    chains = Draws(belief.posterior.space, draws[None], *(jnp.asarray(v) for v in (still, still > 0, still, still > 0)))
    sampled = belief.given(chains)
    p, q = sampled.predict(QUERIES), belief.predict(QUERIES)
    np.testing.assert_allclose(p.prob, q.prob, atol=4.5 * 0.3 / np.sqrt(1024))
    sd = np.sqrt(belief.coefficients().epistemic)
    np.testing.assert_allclose(
        sampled.coefficients().mean, belief.coefficients().mean, atol=4.5 * sd.max() / np.sqrt(3000)
    )
    more = sampled.condition(X[:20], BINARY[:20])
    assert np.all(np.asarray(more.coefficients().epistemic) < np.asarray(sampled.coefficients().epistemic))


# -- a belief like any other -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Logistic", "Softmax", "Ordinal", "NegativeBinomial"])
def test_a_file_brings_it_back(name, after, tmp_path):
    again = credo.load(credo.save(after[name], tmp_path / "belief"))
    assert eqx.tree_equal(after[name], again)
    assert again.classes == after[name].classes
    np.testing.assert_array_equal(again.predict(QUERIES).mean, after[name].predict(QUERIES).mean)


@pytest.mark.parametrize("name", MODELS)
def test_data_lessen_ignorance(name, after):
    model, _ = MODELS[name]
    classes = {"Softmax": {"classes": ("a", "b", "c")}, "Ordinal": {"classes": (0, 1, 2, 3)}}.get(name, {})
    before = model(**classes).predict(QUERIES[1:2])
    assert float(after[name].predict(QUERIES[1:2]).epistemic[0]) < float(before.epistemic[0])


def test_jit_equals_eager(after):
    rows = Logistic().statistics(X, BINARY)

    @eqx.filter_jit
    def job(belief, rows):
        return belief.condition_on(rows).predict(jnp.asarray(QUERIES)).prob, belief.evidence_of(rows)

    prob, evidence = job(Logistic(classes=(0, 1)), rows)
    np.testing.assert_allclose(prob, after["Logistic"].predict(QUERIES).prob, rtol=1e-8)
    np.testing.assert_allclose(evidence, after["Logistic"].law.log_evidence, rtol=1e-8)


@pytest.mark.parametrize("name", [*MODELS, "Separable"])
def test_nothing_is_compiled(name):
    model, y = MODELS.get(name, (Logistic, (ETA > 0).astype(int)))
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            belief = credo.fit(model(), X[:101], y[:101])
            p = belief.predict(X[:7])
            np.asarray(p.mean), np.asarray(p.epistemic), belief.coefficients().mean
    finally:
        jax.monitoring.clear_event_listeners()
    assert not [event for event in compiled if "compile" in event]


def test_names_and_classes():
    belief = Softmax().condition(X, NAMES)
    assert belief.classes == ("a", "b", "c") and belief.coefficient_names() == ["intercept", "x0", "x1"]
    assert belief.coefficients().mean.shape == (3, 2)
    words = Logistic().condition(X, np.where(BINARY == 1, "sick", "healthy"))
    assert words.classes == ("healthy", "sick")
    np.testing.assert_allclose(words.predict(X).prob, Logistic().condition(X, BINARY).predict(X).prob, rtol=1e-12)
    ranked = OrdinalRegression(classes=("low", "mid", "high")).condition(X, np.array(["low", "mid", "high"])[RANKS % 3])
    assert ranked.predict(QUERIES).probs.shape == (3, 3)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (lambda: Logistic().condition(X, np.ones(N)), "y has one class only"),
        (lambda: Logistic().condition(X[:1], [1]), "y has one class only"),
        (lambda: Logistic().condition(X, ETA), "tells two classes apart"),
        (lambda: Logistic().condition(X, BINARY[:5]), "y must have one value per row: 120 are expected, found 5"),
        (lambda: PoissonRegression().condition(X, -COUNTS), "y must hold whole numbers ≥ 0"),
        (lambda: Logistic().condition(X, BINARY, exposure=np.ones(N)), "exposure is for counts"),
        (lambda: Logistic().condition(X), "is conditioned on X and y, found 1 arguments"),
        (lambda: GLM("logit"), "likelihood must be one of credo.models.likelihoods, found str"),
        (lambda: Softmax().predict(X), "the classes are not known yet"),
        (lambda: Logistic().coefficients(), "the belief has seen no data yet"),
        (lambda: Logistic().condition(X, BINARY).predict(X, by="magic"), "by must be one of 'quadrature'"),
        (lambda: Softmax().condition(X, NAMES).predict(X, by="probit"), "by='probit' is for two classes"),
        (lambda: PoissonRegression().condition(X, COUNTS).predict(X, by="probit"), "by='probit' is for two classes"),
        (lambda: Logistic().condition(X, BINARY).predict(X[:, :1]), "X must have 2 columns"),
        (lambda: credo.learn(Logistic().condition(X, BINARY), X, BINARY), "keeps its posterior, not its rows"),
    ],
)
def test_bad_input_is_refused_in_words(job, message):
    with pytest.raises(DataError, match=message):
        job()


def test_the_intercept_has_a_prior_of_its_own():
    held = Logistic(intercept=Intercept(-2.0, 1e-8)).condition(X, BINARY)
    np.testing.assert_allclose(held.coefficients().mean[0], -2.0, atol=1e-4)
    assert OrdinalRegression().intercept is None  # its cutpoints are constants
    prepared, _ = Logistic().prepare(X, BINARY)
    assert prepared.intercept.mean == 0.0  # even odds before data, whatever the shares
    assert isinstance(likelihoods.Bernoulli().started(jnp.ones(3), jnp.ones(3))[0], likelihoods.Bernoulli)


# -- the same problem in other words ----------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(1e12, 0.0), (1e-12, 0.0), (1.0, 1e6), (1e6, -1e13)])
def test_heavy_tails_do_not_depend_on_the_units_of_the_outcome(a, b):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3))
    y = x[:, 0] + 0.3 * rng.standard_t(4, size=60)
    want, found = (credo.fit(StudentTRegression(), x, v).predict(x[:5]) for v in (y, a * y + b))
    np.testing.assert_allclose((found.mean - b) / a, want.mean, atol=1e-5 * want.std.max())
    np.testing.assert_allclose(found.std / a, want.std, rtol=1e-5)


def test_ordered_classes_do_not_depend_on_the_origin_of_the_inputs():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100, 2))
    y = np.digitize(x[:, 0] + rng.logistic(size=100), [-1, 1])
    want, found = (credo.fit(OrdinalRegression(), v, y).predict(v[:5]).probs for v in (x, 3 * x + 37))
    np.testing.assert_allclose(found, want, atol=1e-6)


def test_classes_have_no_order():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    y = np.argmax(x @ rng.normal(size=(2, 3)) + rng.gumbel(size=(60, 3)), axis=1)
    new = np.array([2, 0, 1])  # what was class 0 is called 2, …
    for learned in (credo.fit, lambda belief, *data: belief.condition(*data)):
        want, found = (learned(Softmax(), x, labels).predict(x).probs for labels in (y, new[y]))
        np.testing.assert_allclose(found[:, new], want, atol=1e-6)


@pytest.mark.parametrize("model", [PoissonRegression, NegativeBinomialRegression])
def test_no_events_predict_few(model):
    x = np.random.default_rng(0).normal(size=(30, 2))
    p = credo.fit(model(), x, np.zeros(30)).predict(x)
    assert p.mean.mean() < 0.15 and p.mean.max() < 1.0 and p.std.max() < 20.0


def test_large_counts_on_a_line_are_covered():
    held = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x, new = rng.normal(size=(50, 1)), rng.normal(size=(100, 1))
        low, high = credo.fit(PoissonRegression(), x, rng.poisson(1000 * np.exp(x[:, 0]))).predict(new).interval(0.95)
        y = rng.poisson(1000 * np.exp(new[:, 0]))
        held.append(np.mean((low <= y) & (y <= high)))
    assert 0.92 < np.mean(held) < 0.99


# -- large tables ------------------------------------------------------------------------------------------------


def large(model, monkeypatch, n=6144):
    """A belief and rows that are climbed through 768 and through 128 of them, in four blocks at least."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(n, 3))
    eta = 0.2 + x @ [0.5, -0.3, 0.1]
    y = rng.poisson(np.exp(eta)) if model is PoissonRegression else (rng.random(n) < special.expit(eta)).astype(int)
    rows = model().statistics(x, y, weights=rng.uniform(0.5, 2.0, size=n))
    for setting, value in (("BLOCK", 256), ("PILOT", 100)):
        monkeypatch.setattr(newton, setting, value)
    return model().before(rows), rows


@pytest.mark.parametrize("model", [Logistic, PoissonRegression])
def test_large_tables_start_from_some_of_their_rows(model, monkeypatch):
    before, rows = large(model, monkeypatch)
    monkeypatch.setattr(newton, "LARGE", 1)
    passes, height = [], newton.height

    def counted(prior, rows, u):
        passes.append(len(rows.y))
        return height(prior, rows, u)

    monkeypatch.setattr(newton, "height", counted)
    found = newton.climb(before, rows, True)
    n = len(rows.y)
    assert set(passes) == {n, n // 8, 128} and passes.count(n) < 4
    assert bool(found.converged)
    want = eqx.filter_jit(newton.climb)(before, rows, True)
    deviation = np.sqrt(np.diagonal(np.linalg.inv(np.asarray(want.precision))))
    np.testing.assert_allclose(found.u / deviation, want.u / deviation, atol=1e-5)
    assert float(found.value) == pytest.approx(float(want.value), rel=1e-10)
    np.testing.assert_allclose(found.precision, want.precision, rtol=1e-4, atol=1e-2)


def test_a_fixed_point_at_infinity_is_not_the_scale_that_the_prior_favours():
    """MacKay's fixed point has no log p(α): here it runs away, and the climb that began there stayed."""
    rng = np.random.default_rng([5, 8])
    x = rng.normal(size=(8, 5))
    w = np.exp(rng.normal()) * rng.normal(size=5)
    y = (rng.uniform(size=8) < 1 / (1 + np.exp(-(rng.normal() + x @ w)))).astype(int)
    fitted = credo.fit(credo.Logistic(), x, y)
    assert 0.01 < float(fitted.prior.precision) < 100
    belief, _ = credo.Logistic().prepare(x, y)
    assert float(belief.intercept.mean) == 0.0


@pytest.mark.slow
def test_few_rows_of_two_classes_are_predicted_no_worse_than_by_ridge():
    ours, theirs = [], []
    for r in range(40):
        rng = np.random.default_rng([31, r])
        x, queries = rng.normal(size=(8, 3)), rng.normal(size=(200, 3))
        w, b = rng.normal(size=3), rng.normal()
        y = (rng.uniform(size=8) < 1 / (1 + np.exp(-(b + x @ w)))).astype(int)
        if y.min() == y.max():
            continue
        truth = 1 / (1 + np.exp(-(b + queries @ w)))

        def loss(p: np.ndarray, truth: np.ndarray = truth) -> float:
            return -float(np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p)))

        ours.append(loss(np.asarray(credo.fit(credo.Logistic(), x, y).predict(queries).mean)))
        theirs.append(loss(LogisticRegression().fit(x, y).predict_proba(queries)[:, 1]))
    assert np.mean(ours) <= np.mean(theirs)
