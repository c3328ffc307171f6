from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Mixture
from credo.infer.averaging import Averaged, average
from credo.infer.method import Solver
from credo.models.conjugate import BetaBernoulli
from credo.models.linear import InverseGamma, Isotropic, Linear

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(size=20)
Q = RNG.normal(size=(4, 2))
NEAR = Linear(prior=Isotropic(1.0), noise=1.0, intercept=None)
FAR = Linear(prior=Isotropic(0.01), noise=2.0, intercept=None)
OTHER = Linear(prior=Isotropic(1.0), noise=InverseGamma(2.0, 1.0), intercept=None)


@pytest.mark.parametrize("members", [(NEAR, FAR), (NEAR, OTHER, FAR)], ids=["alike", "different"])
def test_averaging_by_hand(members):
    evidence = np.array([float(b.log_evidence(X, Y)) for b in members])
    prior = np.arange(1.0, len(members) + 1)
    averaged = average([b.condition(X, Y) for b in members], evidence, prior)
    weights = special.softmax(evidence + np.log(prior))
    np.testing.assert_allclose(averaged.weights, weights, rtol=1e-9)
    each = [b.condition(X, Y).predict(Q) for b in members]
    got = averaged.predict(Q)
    mean = sum(w * np.asarray(p.mean) for w, p in zip(weights, each, strict=True))
    second = sum(w * np.asarray(p.variance + p.mean**2) for w, p in zip(weights, each, strict=True))
    np.testing.assert_allclose(got.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(got.variance, second - mean**2, rtol=1e-8)
    np.testing.assert_allclose(got.aleatoric + got.epistemic, got.total, rtol=1e-12)
    density = sum(w * np.exp(np.asarray(p.log_prob(Y[:4]))) for w, p in zip(weights, each, strict=True))
    np.testing.assert_allclose(got.log_prob(Y[:4]), np.log(density), rtol=1e-9)


def test_conditioning_moves_beliefs_and_weights():
    before = Averaged(jnp.log(jnp.asarray([0.25, 0.75])), (NEAR, FAR))
    after = before.condition(X, Y)
    evidence = np.array([float(b.log_evidence(X, Y)) for b in (NEAR, FAR)])
    np.testing.assert_allclose(after.weights, special.softmax(evidence + np.log([0.25, 0.75])), rtol=1e-9)
    want = special.logsumexp(evidence + np.log([0.25, 0.75]))
    np.testing.assert_allclose(before.log_evidence(X, Y), want, rtol=1e-12)
    np.testing.assert_allclose(after.beliefs[0].predict(Q).mean, NEAR.condition(X, Y).predict(Q).mean, rtol=1e-12)


def test_in_two_halves_as_at_once():
    before = average([NEAR, FAR, OTHER], [0.0, 0.0, 0.0])
    once = before.condition(X, Y)
    first = before.condition(X[:12], Y[:12])
    twice = first.condition(X[12:], Y[12:])
    np.testing.assert_allclose(twice.log_weights, once.log_weights, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(twice.predict(Q).mean, once.predict(Q).mean, rtol=1e-8)
    # The chain rule: p(all) = p(first) p(second | first).
    parts = before.log_evidence(X[:12], Y[:12]) + first.log_evidence(X[12:], Y[12:])
    np.testing.assert_allclose(parts, before.log_evidence(X, Y), rtol=1e-9)


def test_classes_mix_into_classes():
    coins = (BetaBernoulli(1.0, 1.0), BetaBernoulli(8.0, 2.0))
    averaged = average(coins, [0.0, 0.0]).condition([1, 1, 0])
    prediction = averaged.predict()
    assert isinstance(prediction, Bernoulli)
    evidence = np.array([float(c.log_evidence([1, 1, 0])) for c in coins])
    weights = special.softmax(evidence)
    np.testing.assert_allclose(prediction.prob, weights @ [3 / 5, 10 / 13], rtol=1e-9)
    np.testing.assert_allclose(prediction.total, prediction.entropy(), rtol=1e-12)


@dataclass(frozen=True)
class Jitter(Solver):
    """An inference method: conditions on data shifted by one."""

    def condition(self, belief, x, y):
        return belief.condition(x, y + 1)


def test_using_reaches_every_belief():
    averaged = average([NEAR, FAR], [0.0, 0.0]).condition(X, Y, using=Jitter())
    np.testing.assert_allclose(averaged.beliefs[1].predict(Q).mean, FAR.condition(X, Y + 1).predict(Q).mean)
    evidence = [float(b.log_evidence(X, Y)) for b in (NEAR, FAR)]
    np.testing.assert_allclose(averaged.weights, special.softmax(evidence), rtol=1e-9)


def test_a_grid_of_a_hundred_is_one_mixture_of_stacked_parts():
    grid = [
        Linear(prior=Isotropic(p), noise=v, intercept=None)
        for p in np.geomspace(0.01, 10, 10)
        for v in np.geomspace(0.1, 4, 10)
    ]
    posterior = average(grid, np.zeros(100)).condition(X, Y)
    prediction = posterior.predict(Q)
    assert isinstance(prediction, Mixture) and len(prediction.parts) == 1
    want = sum(w * np.asarray(b.predict(Q).mean) for w, b in zip(posterior.weights, posterior.beliefs, strict=True))
    np.testing.assert_allclose(prediction.mean, want, rtol=1e-9)


def test_jit_equals_eager_and_learning_reaches_inside():
    from credo.core.params import learnable

    averaged = average([NEAR, FAR], [0.0, -1.0]).condition(X, Y)
    jitted = eqx.filter_jit(lambda b, q: b.predict(q).mean)(averaged, jnp.asarray(Q))
    np.testing.assert_allclose(jitted, averaged.predict(Q).mean, rtol=1e-10)
    gradient = jax.grad(
        lambda noise: eqx.tree_at(lambda a: a.beliefs[0].noise, average([NEAR, FAR], [0.0, 0.0]), noise).evidence_of(
            average([NEAR, FAR], [0.0, 0.0]).statistics(X, Y)
        )
    )(jnp.asarray(1.0))
    assert np.isfinite(gradient) and gradient != 0
    assert "beliefs.1.noise" in learnable(averaged)
    prepared, statistics = average([NEAR, FAR], [0.0, 0.0]).prepare(X, Y)
    assert len(statistics) == 2 and np.isfinite(float(prepared.log_evidence_of(statistics)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: average([NEAR], [0.0, 1.0]), "1 are expected, found 2"),
        (lambda: Averaged(jnp.zeros(2), (NEAR,)), "one number per belief"),
        (lambda: average([NEAR, FAR], [0.0, 0.0], prior=[0.0, 0.0]), "not all zero"),
        (lambda: average([NEAR, FAR], [0.0, np.nan]), "NaN at row 1"),
        (lambda: Averaged(jnp.asarray([-jnp.inf, -jnp.inf]), (NEAR, FAR)), "cannot be normalized"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(DataError, match=message):
        call()
