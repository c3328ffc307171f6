"""A Gaussian process behind a likelihood through inducing points: Laplace's method on their features."""

import numpy as np
import pytest

import credo
from credo.core.errors import DataError
from credo.infer import NUTS, Laplace
from credo.kernels import RBF, Matern52
from credo.models.gp import Inducing
from credo.models.gp.large.latent import InducingLatentGP
from credo.models.gp.large.latent_classes import InducingLatentClasses
from credo.models.likelihoods import Bernoulli, Categorical, Poisson


def classes(n, rng):
    x = rng.uniform(-2, 2, size=(n, 2))
    p = 1 / (1 + np.exp(-3 * np.sin(2 * x[:, 0]) * np.cos(x[:, 1])))
    return x, (rng.random(n) < p).astype(int), p


@pytest.mark.parametrize("likelihood", [Bernoulli((0, 1)), Poisson()], ids=["classes", "counts"])
def test_with_a_point_at_each_row_it_is_laplaces_approximation(likelihood, rng):
    x, y, _ = classes(40, rng)
    query = rng.uniform(-3, 3, size=(7, 2))
    prior = credo.LatentGP(likelihood, 2.0 * Matern52(0.8))
    wanted = prior.condition(x, y, using=Laplace())
    found = prior.condition(x, y, using=Inducing(40))
    assert isinstance(found, InducingLatentGP) and len(found.points) == 40
    f, g = wanted.function(query, joint=True), found.function(query, joint=True)
    np.testing.assert_allclose(g.mean, f.mean, atol=1e-5)
    np.testing.assert_allclose(g.epistemic, f.epistemic, atol=1e-5)
    np.testing.assert_allclose(found.covariance(query), wanted.covariance(query), atol=1e-5)
    np.testing.assert_allclose(found.leave_one_out().mean, wanted.leave_one_out().mean, atol=1e-5)
    own = InducingLatentGP(prior, Inducing(40))
    np.testing.assert_allclose(own.log_evidence(x, y), wanted.unconditioned().log_evidence(x, y), rtol=1e-6)


def test_few_points_are_nearly_as_good_and_say_what_they_do_not_know(rng):
    x, y, _ = classes(300, rng)
    query = rng.uniform(-2, 2, size=(50, 2))
    prior = credo.LatentGP(Bernoulli((0, 1)), 2.0 * RBF(1.0))
    wanted, found = (prior.condition(x, y, using=method) for method in (Laplace(), Inducing(60)))
    np.testing.assert_allclose(found.predict(query).mean, wanted.predict(query).mean, atol=0.01)
    far = found.function([[20.0, 20.0]])
    np.testing.assert_allclose(far.epistemic, prior.function([[20.0, 20.0]]).epistemic, rtol=0.05)


def test_rows_in_chunks_and_in_two_parts_are_all_rows(rng, monkeypatch, tmp_path):
    from credo.models.gp.large import base, latent

    x, y, _ = classes(200, rng)
    query = rng.uniform(-2, 2, size=(9, 2))
    prior = credo.LatentGP(Bernoulli((0, 1)), 2.0 * Matern52(0.8))
    whole = prior.condition(x, y, using=Inducing(30))
    monkeypatch.setattr(base, "CHUNK", 30 * 64)
    monkeypatch.setattr(latent, "HELD", 0)
    again = prior.condition(x, y, using=Inducing(30))
    np.testing.assert_allclose(again.predict(query).mean, whole.predict(query).mean, atol=1e-7)
    half = prior.condition(x[:100], y[:100], using=Inducing(30))
    both = half.condition(x[100:], y[100:])
    at_once = half.unconditioned().condition(x, y)  # the points stay
    np.testing.assert_array_equal(both.points, at_once.points)
    np.testing.assert_allclose(both.predict(query).mean, at_once.predict(query).mean, atol=1e-6)
    loaded = credo.load(credo.save(both, tmp_path / "belief"))
    np.testing.assert_array_equal(loaded.predict(query).mean, both.predict(query).mean)
    with pytest.raises(DataError, match="is an approximation; for draws condition"):
        both.condition(x[:2], y[:2], using=NUTS())


def test_counts_that_are_all_zero_are_refused_in_a_sentence(rng):
    x = rng.uniform(size=(30, 2))
    with pytest.raises(DataError, match="y is 0 in all rows"):
        credo.LatentGP(Poisson(), Matern52(0.8)).condition(x, np.zeros(30, int), using=Inducing(10))


def trees(n, rng):
    x = rng.normal(size=(n, 2))
    logits = np.stack([2 * np.sin(2 * x[:, 0]), 2 * x[:, 1], -x[:, 0] * x[:, 1]], axis=1)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return x, np.array(["ash", "birch", "cedar"])[(logits + rng.gumbel(size=logits.shape)).argmax(1)], shares


def test_with_a_point_at_each_row_several_classes_are_exact(rng, monkeypatch, tmp_path):
    from credo.models.gp.large import base

    x, y, _ = trees(45, rng)
    query = rng.normal(size=(8, 2))
    prior = credo.LatentGP(Categorical(("ash", "birch", "cedar")), Matern52(1.5, 4.0), 0.3, concentration=0.05)
    wanted = prior.condition(x, y)
    monkeypatch.setattr(base, "CHUNK", 45 * 16)
    found = prior.condition(x, y, using=Inducing(45))
    assert isinstance(found, InducingLatentClasses) and len(found.points) == 45
    f, g = wanted.function(query), found.function(query)
    np.testing.assert_allclose(g.mean, f.mean, atol=1e-9)
    np.testing.assert_allclose(g.variance, f.variance, atol=1e-9)
    np.testing.assert_allclose(found.leave_one_out().probs, wanted.leave_one_out().probs, atol=1e-9)
    draws = [np.asarray(belief.mean_draws(query[:, None], 40)) for belief in (wanted, found)]
    np.testing.assert_allclose(*draws, atol=1e-7)
    np.testing.assert_allclose(found.unconditioned().log_evidence(x, y), prior.log_evidence(x, y), rtol=1e-9)
    half = prior.condition(x[:20], y[:20], using=Inducing(20))
    both = half.condition(x[20:], y[20:])
    np.testing.assert_allclose(both.predict(query).probs, half.unconditioned().condition(x, y).predict(query).probs)
    loaded = credo.load(credo.save(both, tmp_path / "belief"))
    np.testing.assert_array_equal(loaded.predict(query).probs, both.predict(query).probs)
    far = found.function([[30.0, 30.0]])
    np.testing.assert_allclose(far.variance, 4.0, rtol=1e-6)


def test_several_classes_are_learned_from_many_rows(rng, monkeypatch):
    from credo.models.gp.large import latent, latent_classes

    for module in (latent, latent_classes):
        monkeypatch.setattr(module, "FIRST_ROWS", 150)
    x, y, shares = trees(1500, rng)
    learned = credo.fit(credo.LatentGP(Categorical()), x[:1000], y[:1000], using=Inducing(40), report=True)
    names = list(learned.belief.classes)
    at = np.arange(500), [names.index(name) for name in y[1000:]]
    scores = [-np.log(p[at]).mean() for p in (learned.belief.predict(x[1000:]).probs, shares[1000:])]
    assert scores[0] < scores[1] + 0.03
    assert "by leaving 1,000 rows out of 1,000" in learned.notes[-2] and "concentration" in learned.notes[-3]
    assert learned.log_evidence == float(learned.belief.solved.log_evidence)


@pytest.mark.slow
def test_it_learns_from_many_rows(rng, monkeypatch):
    from credo.models.gp.large import latent

    monkeypatch.setattr(latent, "FIRST_ROWS", 200)
    x, y, p = classes(2500, rng)
    found = credo.fit(credo.LatentGP(), x[:2000], y[:2000], using=Inducing(60))
    q = np.asarray(found.predict(x[2000:]).mean)
    scores = [-np.mean(np.log(np.where(y[2000:] == 1, v, 1 - v))) for v in (q, p[2000:])]
    assert scores[0] < scores[1] + 0.03


def test_fit_chooses_it_for_many_rows(rng):
    x, y, _ = classes(3100, rng)
    prior = credo.LatentGP(Bernoulli((0, 1)), RBF(0.5))
    method, why = prior.choose(prior.statistics(x, y))
    assert method == Inducing(300) and "3,100 rows, more than 3,000" in why
    assert prior.choose(prior.statistics(x[:50], y[:50])) is None
    several = credo.LatentGP(Categorical((0, 1)))
    assert several.choose(several.statistics(x, y))[0] == Inducing(300)
    assert InducingLatentClasses(several, Inducing(5)).choose(several.statistics(x, y)) is None
