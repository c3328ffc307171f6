"""Draws of the mean: what changing the rows' inputs would do, for every family that can say it."""

import numpy as np
import pytest

import credo
from credo.core.abilities import BLOCK, DrawsMeans
from credo.infer.averaging import Integrated
from credo.models.gp import Inducing, Neighbours
from credo.models.likelihoods import Categorical, Poisson
from credo.models.linear import InverseGamma

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X @ [1.0, -2.0] + 0.3 * RNG.normal(size=40)
STEP = np.asarray([1.0, 0.0])
BELIEFS = {
    "linear": (credo.Linear(noise=0.09), Y),
    "gp": (credo.GP(noise=0.09), Y),
    "logistic": (credo.Logistic(), Y > 0),
    "softmax": (credo.Softmax(), np.digitize(Y, [-1.0, 1.0])),
    "poisson": (credo.PoissonRegression(), RNG.poisson(np.exp(0.3 * X[:, 0]))),
    "latent": (credo.LatentGP(), Y > 0),
    "latent counts": (credo.LatentGP(Poisson()), RNG.poisson(np.exp(0.3 * X[:, 0]))),
    "latent classes": (credo.LatentGP(Categorical()), np.digitize(Y, [-1.0, 1.0])),
    "generative": (credo.Discriminant("tied"), Y > 0),
}
LOOSE = {"generative": 0.02}
"""Draws of the parameters before the rows' inputs are known, which say something about them, too."""


@pytest.mark.parametrize("name", BELIEFS)
def test_the_mean_of_the_draws_is_the_mean_of_the_predictions(name):
    belief, outcomes = BELIEFS[name]
    belief = belief.condition(X, outcomes)
    assert isinstance(belief, DrawsMeans)
    groups = np.stack([X, X + STEP])
    draws = belief.mean_draws(groups, 2000)
    for group, found in zip(groups, np.moveaxis(draws, 1, 0), strict=True):
        p = belief.predict(group)
        want = np.asarray(p.mean)
        se = found.std(axis=0) / np.sqrt(2000)
        assert np.all(np.abs(found.mean(axis=0) - want.mean(axis=0)) < 4.5 * se + LOOSE.get(name, 2e-3))


@pytest.mark.parametrize("noise", [1.0, InverseGamma()], ids=["known", "unknown"])
def test_the_doubt_about_a_difference_is_that_of_the_weights(noise):
    belief = credo.fit(credo.Linear(noise=noise), X, Y, using=credo.infer.Evidence())
    draws = belief.mean_draws(np.stack([X, X + STEP]), 40000)
    change, scale = draws[:, 1] - draws[:, 0], np.asarray(belief.features.scale)[0]
    weight = belief.coefficients()
    assert change.mean() == pytest.approx(float(weight.mean[1]) / scale, rel=1e-6)
    variance = float(weight.epistemic[1])
    if isinstance(noise, InverseGamma):
        df = float(weight.df[1])
        variance *= (df - 2) / df
    assert change.std() == pytest.approx(np.sqrt(variance) / scale, rel=4.5 / np.sqrt(2 * 20000))


@pytest.mark.parametrize("using", [None, Neighbours(5), Inducing(10)])
def test_a_sampler_draws_functions_once_for_all_its_calls(using, monkeypatch):
    belief, drawn = credo.GP(noise=0.09).condition(X, Y, using=using), []
    groups, original = np.stack([X[:5], X[:5] + STEP]), type(belief).sample_functions
    monkeypatch.setattr(
        type(belief), "sample_functions", lambda self, *a, **o: drawn.append(1) or original(self, *a, **o)
    )
    sampler = belief.mean_sampler(40, seed=3)
    found = [sampler(part) for part in (groups, groups[:1])]
    assert len(drawn) == (1 if isinstance(using, Neighbours) else 0)
    for draws, part in zip(found, (groups, groups[:1]), strict=True):
        np.testing.assert_array_equal(draws, belief.mean_draws(part, 40, seed=3))


def test_groups_alone_have_the_spread_they_have_together():
    belief = credo.GP(noise=0.09).condition(X, Y)
    groups = np.stack([X + u * STEP for u in np.linspace(-1, 1, 1 + BLOCK // 20)])
    alone, some = belief.mean_draws(groups, joint=False), slice(0, 3)
    together = belief.mean_draws(groups[some])
    np.testing.assert_allclose(alone[:, some].mean(axis=0), together.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(alone[:, some].std(axis=0), together.std(axis=0), rtol=0.15)


def test_an_average_draws_from_its_members():
    members = [credo.GP(noise=v).condition(X, Y) for v in (0.01, 4.0)]
    mixed = Integrated(np.log([0.25, 0.75]), tuple(members), members[1])
    draws = mixed.mean_draws(X[None, :5], 4000)[:, 0]
    each = [b.mean_draws(X[None, :5], 4000)[:, 0] for b in members]
    want = 0.25 * each[0].mean() + 0.75 * each[1].mean()
    assert len(draws) == 4000
    assert draws.mean() == pytest.approx(want, abs=4.5 * draws.std() / np.sqrt(4000))


@pytest.mark.parametrize(("name", "together"), [("logistic", False), ("poisson", True)])
def test_equal_rows_share_their_draws_of_the_mean(name, together):
    """Outcomes of counts are mixtures over the same weights, and covary; of classes each row is a law of its own."""
    belief, outcomes = BELIEFS[name]
    belief = belief.condition(X[:5], np.asarray(outcomes)[:5])
    twice = np.stack([X[7:8] + 2, X[7:8] + 2])
    means = belief.mean_draws(twice, 2000)
    np.testing.assert_array_equal(means[:, 0], means[:, 1])
    assert means[:, 0].std() > 0.1
    drawn = np.asarray(belief.predict(twice[:, 0]).sample(4000, seed=1), float)
    correlation = np.corrcoef(np.sqrt(drawn).T)[0, 1]
    assert correlation > 0.3 if together else abs(correlation) < 4.5 / np.sqrt(4000)
