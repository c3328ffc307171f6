"""Experts that follow a likelihood: brute-force optima, predictions by hand, Laplace and bootstrap by asymptotics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit, logsumexp, softmax

import credo
from credo.core.abilities import HasWeightedRows
from credo.core.pytrees import changed
from credo.errors import DataError
from credo.infer import EM, BayesianBootstrap, Integrated
from credo.models.densities import FactorAnalyser
from credo.models.experts import Experts, GeneralizedRegression
from credo.models.likelihoods import Bernoulli, Categorical, NegativeBinomial, Ordinal, Poisson, StudentT
from credo.models.mixture import Mixture

QUERIES = np.array([[-2.0], [-0.4], [0.3], [1.0], [2.4]])


def rates(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Counts that fall and then rise, around zero of either kind."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, n)
    eta = np.where(rng.random(n) < expit(4 * x), 0.8 * x - 0.3, 0.3 - 0.6 * x)
    return x[:, None], rng.poisson(np.exp(eta)).astype(float)


def log_joint(theta, z, y, kind, center):
    """log p(y, θ) as the docstrings have it: two experts (b, w), a gate (b, w), standardized inputs."""
    (b, w), (gb, gw) = theta[:4].reshape(2, 2).T, theta[4:]
    eta, gate = b + w * z[:, None], gb + gw * z
    if kind == "Poisson":
        each = y[:, None] * eta - jnp.exp(eta) - jax.scipy.special.gammaln(y + 1)[:, None]
    else:
        each = -jnp.logaddexp(0.0, (1 - 2 * y[:, None]) * eta)
    logits = jnp.stack([gate - jnp.logaddexp(gate, 0.0), -jnp.logaddexp(gate, 0.0)], axis=1)
    total = (jnp.logaddexp(*(each + logits).T)).sum()
    prior = 0.25 * (w**2).sum() + 0.025 * ((b - center) ** 2).sum() + 0.5 * (0.001 * gb**2 + 0.01 * gw**2)
    return total - 0.5 * prior


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Poisson", "Bernoulli"])
def test_the_optimum_is_that_of_a_brute_force_search(kind):
    x, y = rates(30)
    y = y if kind == "Poisson" else (y > 1).astype(float)
    likelihood = Poisson() if kind == "Poisson" else Bernoulli()
    report = credo.fit(Experts(2, likelihood=likelihood), x, y, using=EM(12, tolerance=1e-10), report=True)
    z = (x[:, 0] - x.mean()) / x.std()
    center = np.log(y.mean()) if kind == "Poisson" else 0.0
    value = jax.jit(jax.value_and_grad(lambda u: -log_joint(u, z, y, kind, center)))

    def climb(start):
        return optimize.minimize(lambda u: [np.asarray(v) for v in value(jnp.asarray(u))], start, jac=True)

    found = report.belief
    here = np.concatenate([found._family.numbers.ravel(), found._gate.ravel()])
    np.testing.assert_allclose(-value(jnp.asarray(here))[0], report.log_evidence, rtol=1e-9)
    rng = np.random.default_rng(0)
    best = min(climb(rng.normal(0, 2, 6)).fun for _ in range(20))
    assert -best <= report.log_evidence + 1e-4
    assert abs(-climb(here).fun - report.log_evidence) < 1e-5


@pytest.mark.parametrize(
    "likelihood",
    [NegativeBinomial(), Categorical((0, 1, 2)), StudentT()],
    ids=["NegativeBinomial", "Categorical", "StudentT"],
)
def test_climbs_never_fall(likelihood):
    x, y = rates(60)
    y = np.minimum(y, 2).astype(int) if isinstance(likelihood, Categorical) else y
    prepared, rows = Experts(3, likelihood=likelihood).prepare(x, y)
    climb = EM(1, 25, 0.0, accelerate=False).climb(prepared, rows)
    assert np.all(np.diff(climb.objectives) >= 0) and climb.objectives[-1] > climb.objectives[0] + 1


GATE = [[0.2], [1.5]]
REGIONS = softmax(np.column_stack([0.2 + 1.5 * QUERIES[:, 0], np.zeros(5)]), axis=1)
LINES = np.array([[0.1, 0.7], [0.4, -0.5]])
ETA = LINES[:, 0] + QUERIES * LINES[:, 1]


def given(likelihood, weights=LINES, own=None) -> Experts:
    return Experts(2, experts=GeneralizedRegression(likelihood, weights=weights, own=own), gate_weights=GATE)


@pytest.mark.parametrize(
    ("likelihood", "own", "law"),
    [
        (Poisson(), None, lambda eta, psi: stats.poisson(np.exp(eta))),
        (NegativeBinomial(), [[-1.0], [0.5]], lambda eta, psi: stats.nbinom(np.exp(-psi), 1 / (1 + np.exp(psi + eta)))),
        (StudentT(5.0), [[-1.0], [0.2]], lambda eta, psi: stats.t(5.0, eta, np.exp(psi))),
    ],
    ids=["Poisson", "NegativeBinomial", "StudentT"],
)
def test_predictions_of_known_numbers_are_the_mixture_by_hand(likelihood, own, law):
    belief, psi = given(likelihood, own=own), np.zeros(2) if own is None else np.ravel(own)
    parts, p = law(ETA, psi), belief.predict(QUERIES)
    y = np.array([0.0, 1.0, 2.0, 3.0, 1.0])
    density = parts.logpmf if hasattr(parts.dist, "pmf") else parts.logpdf
    each = np.stack([(density(np.full(ETA.shape, v)))[i] for i, v in enumerate(y)])
    want = logsumexp(each + np.log(REGIONS), axis=1)
    np.testing.assert_allclose(p.log_prob(y), want, rtol=1e-9)
    np.testing.assert_allclose(belief.log_evidence(QUERIES, y), want.sum(), rtol=1e-9)
    mean = (REGIONS * parts.mean()).sum(1)
    spread = (REGIONS * (parts.var() + (parts.mean() - mean[:, None]) ** 2)).sum(1)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(p.aleatoric, spread, rtol=1e-9)
    np.testing.assert_allclose(p.epistemic, 0, atol=1e-12)
    np.testing.assert_allclose(belief.answers(QUERIES), np.broadcast_to(parts.mean(), ETA.shape), atol=1e-12)


def test_classes_of_known_numbers():
    p = given(Bernoulli(("no", "yes"))).predict(QUERIES)
    np.testing.assert_allclose(p.prob, (REGIONS * expit(ETA)).sum(1), rtol=1e-9)
    np.testing.assert_allclose(p.epistemic, 0, atol=1e-12)
    weights = np.random.default_rng(0).normal(size=(2, 2, 2))
    eta = np.einsum("mq,kqc->mkc", np.column_stack([np.ones(5), QUERIES]), weights)
    each = softmax(np.concatenate([eta, np.zeros((5, 2, 1))], axis=2), axis=2)
    p = given(Categorical(("a", "b", "c")), weights).predict(QUERIES)
    np.testing.assert_allclose(p.probs, np.einsum("mk,mkc->mc", REGIONS, each), rtol=1e-9)
    ordered = given(Ordinal((1, 2, 3)), LINES[:, 1:], own=[[-1.0, 0.3], [0.0, -0.2]])
    cuts = np.array([[-1.0, -1 + np.exp(0.3)], [0.0, np.exp(-0.2)]])
    below = expit(cuts - (QUERIES * LINES[:, 1])[..., None])
    each = np.diff(np.concatenate([np.zeros((5, 2, 1)), below, np.ones((5, 2, 1))], axis=2), axis=2)
    np.testing.assert_allclose(ordered.predict(QUERIES).probs, np.einsum("mk,mkc->mc", REGIONS, each), rtol=1e-9)


def test_labels_are_learned_and_doubt_is_split():
    x, y = rates(150)
    labels = np.where(y > 1, "many", "few")
    belief = credo.fit(Experts(2, likelihood=Bernoulli()), x, labels, using=EM(3))
    p = belief.predict(QUERIES)
    assert belief.classes == ("few", "many") and p.prob[1] < 0.4 < min(p.prob[0], p.prob[-1])
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)
    assert np.all(p.epistemic > 0)
    weights = np.random.default_rng(0).integers(1, 3, size=150)
    known = belief.held()
    twice = known.log_evidence(np.repeat(x, weights, axis=0), np.repeat(labels, weights))
    np.testing.assert_allclose(known.log_evidence(x, labels, weights=weights), twice, rtol=1e-10)
    with pytest.raises(DataError, match="y has 'none' at row 0"):
        belief.condition(x[:1], ["none"])


def mean_of(theta, x):
    """E[y | x] of two Poisson experts."""
    b, w = theta[:4].reshape(2, 2).T
    gate = jax.nn.sigmoid(theta[4] + theta[5] * x)
    rate = jnp.exp(b + w * x[:, None])
    return gate * rate[:, 0] + (1 - gate) * rate[:, 1]


def asymptotic_variance() -> np.ndarray:
    """n · Var[E[y | x]] at the truth: the gradient of the mean, and the information of a row, by many rows."""
    truth = jnp.array([-0.3, 0.8, 0.3, -0.6, 0.0, 4.0])  # the rising expert first
    x, y = rates(20_000, seed=9)

    def log_lik(theta):
        return log_joint(theta, x[:, 0], y, "Poisson", 0.0)

    information = -np.asarray(jax.hessian(log_lik)(truth)) / len(y)
    slope = np.asarray(jax.jacobian(lambda u: mean_of(u, jnp.asarray(QUERIES[:, 0])))(truth))
    return np.einsum("mi,ij,mj->m", slope, np.linalg.inv(information), slope)


@pytest.mark.slow
def test_ignorance_shrinks_as_the_asymptotic_variance_says_by_laplace_and_by_bootstrap():
    """16 pairs of draws know a variance to 35 %, 48 members to 20 %; the rows' own sampling adds as much again."""
    want, found = asymptotic_variance(), {}
    for n in (200, 800):
        x, y = rates(n, seed=3)
        found[n] = credo.fit(Experts(2, likelihood=Poisson()), x, y, using=EM(3))
    laplace = np.asarray(found[800].predict(QUERIES).epistemic)
    shrunk = np.asarray(found[200].predict(QUERIES).epistemic) / laplace
    assert 2 < np.exp(np.log(shrunk).mean()) < 8  # four times as many rows, the same draws
    assert 0.5 < np.exp(np.log(800 * laplace / want).mean()) < 2
    again = credo.fit(Experts(2, likelihood=Poisson()), x, y, using=BayesianBootstrap(48, starts=3))
    bootstrap = np.asarray(again.predict(QUERIES).epistemic)
    assert 0.6 < np.exp(np.log(bootstrap / laplace).mean()) < 1.7
    assert np.all(bootstrap / laplace < 4) and np.all(laplace / bootstrap < 4)
    np.testing.assert_allclose(again.predict(QUERIES).mean, found[800].predict(QUERIES).mean, rtol=0.15)


def test_the_bootstrap_is_an_average_that_more_rows_weigh(tmp_path):
    x, y = rates(60)
    belief = Experts(2).condition(x, np.log1p(y), using=BayesianBootstrap(6, starts=2))
    assert isinstance(belief, Integrated) and len(belief.beliefs) == 6 and np.ptp(belief.log_weights) == 0
    p = belief.predict(QUERIES)
    np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic)
    assert np.all(p.epistemic > 0) and belief.regions(QUERIES).shape == (5, 2)
    again = Experts(2).condition(x, np.log1p(y), using=BayesianBootstrap(6, starts=2))
    np.testing.assert_array_equal(again.predict(QUERIES).mean, p.mean)
    more = belief.condition(x[:20], np.log1p(y[:20]))
    assert np.ptp(more.log_weights) > 0
    for before, after in zip(belief.beliefs, more.beliefs, strict=True):
        np.testing.assert_array_equal(before.gate_weights, after.gate_weights)
    credo.save(belief, tmp_path / "b.credo")
    np.testing.assert_allclose(credo.load(tmp_path / "b.credo").predict(QUERIES).mean, p.mean)


def test_the_bootstrap_of_a_mean_has_its_standard_error():
    """One component: the mean of a column, whose standard error is s/√n; 80 members know it to 8 %."""
    x = np.random.default_rng(0).gamma(2.0, size=(80, 1))
    belief = credo.fit(Mixture(1), x, using=BayesianBootstrap(80, starts=1))
    means = np.array([each.density.mean[0, 0] for each in belief.beliefs])
    np.testing.assert_allclose(means.std(), x.std() / np.sqrt(81), rtol=4.5 / np.sqrt(160))
    weights = np.full(80, 4.0)  # a row of weight 4 is four rows
    heavy = credo.fit(Mixture(1), x, weights=weights, using=BayesianBootstrap(80, starts=1))
    means = np.array([each.density.mean[0, 0] for each in heavy.beliefs])
    np.testing.assert_allclose(means.std(), x.std() / np.sqrt(321), rtol=4.5 / np.sqrt(160))


def test_factor_analysers_get_their_ignorance_by_bootstrap():
    x = np.random.default_rng(0).normal(size=(60, 4)) @ np.diag([3.0, 1, 1, 1])
    belief = credo.fit(Mixture(1, FactorAnalyser(1)), x, using=BayesianBootstrap(5, starts=1))
    p = belief.predict([[1.0, 0, 0, np.nan]])
    assert isinstance(Mixture(1), HasWeightedRows) and np.all(p.epistemic > 0)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Experts(2, likelihood="Poisson"), "likelihood must be one of"),
        (lambda: Experts(2, likelihood=Poisson(), experts=GeneralizedRegression(Poisson())), "not both"),
        (lambda: Experts(3, experts=GeneralizedRegression(Poisson(), weights=LINES)), "weights for 2"),
        (lambda: GeneralizedRegression(Poisson(), weights=np.ones((2, 2, 3))), "weights must have shape"),
        (lambda: GeneralizedRegression(Poisson(), precision=0), "precision must be"),
        (lambda: credo.fit(Experts(2, likelihood=Poisson()), QUERIES, [-1.0, 2, 3, 4, 5]), "whole numbers"),
        (lambda: credo.fit(Experts(2, likelihood=Bernoulli()), QUERIES, [1, 1, 1, 1, 1]), "one class only"),
        (lambda: credo.fit(Experts(2, likelihood=Poisson()), QUERIES, [1.0, 2.0]), "one value per row"),
        (lambda: Experts(2, likelihood=Poisson()).predict(QUERIES), "not known yet"),
        (lambda: given(Poisson()).predict(np.ones((2, 3))), "X must have"),
    ],
)
def test_what_is_wrong_is_said(wrong, sentence):
    with pytest.raises(DataError, match=sentence):
        wrong()


def test_names_of_numbers_that_are_fixed_stay():
    x, y = rates(60)
    start = given(Poisson())
    learned = credo.learn(start, x, y, fixed=["experts"])
    np.testing.assert_array_equal(learned.experts.weights, start.experts.weights)
    assert np.ptp(np.asarray(learned.gate_weights) - np.asarray(start.gate_weights)) > 0
    assert changed(learned, learned=False).condition(x, y).law is None
