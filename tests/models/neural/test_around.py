"""Doubt around one network: dense Hessians by automatic differentiation, normal laws by NumPy."""

import numpy as np
import pytest
from scipy import special, stats

import credo
from credo.core.errors import DataError
from credo.infer import Laplace
from credo.models.neural import LastLayer, Neural
from credo.models.neural.around import Quadratic, places, quadratic, slopes, spread_points
from credo.models.neural.network import Network
from credo.models.neural.outcomes import ClassOutcome, NumberOutcome

from .test_neural import curvature

RNG = np.random.default_rng(8)
X = RNG.normal(size=(30, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=30)
CODES = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
TINY = {"layers": (3,), "steps": 100, "batch": 8}


@pytest.mark.parametrize("form", ["full", "last-layer"])
def test_curvature_is_a_dense_hessian(form):
    """Of the log likelihood of the linearized network: for classes that is Gauss and Newton's."""
    network, law = Network((2, 3, 3)), ClassOutcome(3)
    theta = RNG.normal(size=network.size)
    found, which = quadratic(network, law, theta, X, CODES, form), places(network, form)

    here, steps = network(theta, X), 1e-5 * np.eye(network.size)[which]
    slope = np.stack([(network(theta + u, X) - network(theta - u, X)) / 2e-5 for u in steps], axis=-1)

    def minus(weights):
        f = here + slope @ (weights - theta[which])
        return -special.log_softmax(f, axis=1)[np.arange(30), CODES.astype(int)].sum()

    np.testing.assert_allclose(found.curved, curvature(minus, theta[which]), atol=2e-4)
    np.testing.assert_allclose(found.height, law.log_prob(network(theta, X), CODES).sum())
    # log p(data, θ) + k/2 log 2π - ½ log|H|, with the prior N(0, 1/α) of the weights in doubt.
    alpha, q = 0.7, len(which)
    prior = stats.norm(0, alpha**-0.5).logpdf(theta[which]).sum()
    occam = 0.5 * q * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(found.curved + alpha * np.eye(q))[1]
    np.testing.assert_allclose(found.evidence(alpha), found.height + prior + occam)
    best, height = found.choose()
    assert height >= max(found.evidence(best * factor) for factor in (0.9, 0.99, 1.01, 1.1))


def test_the_last_layer_is_bayesian_linear_regression():
    """With the features and the noise of the network as known: the normal equations, and y ~ N(0, ΦΦᵀ/α + Σ)."""
    network, law, alpha = Network((2, 3, 2)), NumberOutcome(), 0.4
    theta = RNG.normal(size=network.size)
    (w1, b1), (w2, b2) = network.layers(theta)
    phi = np.column_stack([np.tanh(X @ w1 + b1), np.ones(30)])
    noise = np.exp(phi @ np.r_[w2[:, 1], b2[1]])
    found = quadratic(network, law, theta, X, Y, "closed")
    mean, root = found.law(np.asarray(alpha))
    precision = phi.T @ (phi / noise[:, None]) + alpha * np.eye(4)
    np.testing.assert_allclose(root @ root.T, precision)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, phi.T @ (Y / noise)))
    want = stats.multivariate_normal(np.zeros(30), phi @ phi.T / alpha + np.diag(noise)).logpdf(Y)
    np.testing.assert_allclose(found.evidence(alpha), want)


def test_more_rows_move_the_last_layer_exactly():
    belief = Neural(**TINY).condition(X[:20], Y[:20], using=LastLayer())
    twice = belief.condition(X[20:26], Y[20:26]).condition(X[26:], Y[26:])
    once = belief.condition(X[20:], Y[20:])
    np.testing.assert_allclose(twice.members, once.members, rtol=1e-8)
    np.testing.assert_allclose(twice.root, once.root, rtol=1e-8)
    z, t = belief.scaling.rows(X[20:], Y[20:])
    network = belief.network(2)
    which = places(network, "closed")
    f, j = slopes(network, belief.members[0], z, which)
    phi, noise = j[:, 0], np.exp(f[:, 1])
    before = belief.root @ belief.root.T
    precision = before + phi.T @ (phi / noise[:, None])
    want = np.linalg.solve(precision, before @ belief.members[0][which] + phi.T @ (t / noise))
    np.testing.assert_allclose(once.members[0][which], want, rtol=1e-8)
    assert np.all(np.asarray(once.predict(X).epistemic) < np.asarray(belief.predict(X).epistemic) + 1e-12)
    # What is predicted is what the law of the outputs says.
    p, (mean, covariance) = once.predict(X), once.outputs(X)
    scale = float(once.scaling.scale)
    np.testing.assert_allclose(p.mean, once.scaling.shift + scale * mean[:, 0])
    np.testing.assert_allclose(p.epistemic, scale**2 * covariance[:, 0, 0], rtol=1e-8)


@pytest.mark.parametrize("method", [Laplace("last-layer"), Laplace("full"), LastLayer()])
def test_fit_chooses_the_precision(method):
    found = credo.fit(Neural(**TINY), X, Y, using=method, report=True)
    after = found.belief
    assert after.precision != 1.0 and after.root is not None and len(after.members) == 1
    p = after.predict(np.concatenate([X, X + 20]))
    assert np.all(np.asarray(p.aleatoric) > 0) and np.all(np.asarray(p.epistemic) > 0)
    assert np.mean(p.epistemic[30:]) > np.mean(p.epistemic[:30])
    assert np.isfinite(after.log_evidence(X, Y))
    assert after.condition(X[:2], Y[:2]).form == after.form


def test_classes_around_one_network():
    labels = np.array(["a", "b", "c"])[CODES.astype(int)]
    after = Neural(outcome="classes", **TINY).condition(X, labels, using=Laplace("last-layer"))
    p = after.predict(X)
    np.testing.assert_allclose(np.asarray(p.probs).sum(-1), 1.0)
    assert np.mean(np.argmax(p.probs, axis=1) == CODES) > 0.6 and np.all(np.asarray(p.epistemic) > 0)
    mean, covariance = after.outputs(X[:2])
    assert mean.shape == (2, 3) and covariance.shape == (2, 3, 3)


def test_points_that_stand_for_a_normal_law():
    for o in (1, 2):
        root = RNG.normal(size=(4, o, o))
        mean, covariance = RNG.normal(size=(4, o)), root @ np.swapaxes(root, 1, 2)
        weights, points = spread_points(mean, covariance)
        np.testing.assert_allclose(np.tensordot(weights, points, 1), mean)
        gap = points - mean
        np.testing.assert_allclose(np.einsum("k,kmo,kmr->mor", weights, gap, gap), covariance, atol=1e-9)


def test_what_cannot_be_is_refused():
    with pytest.raises(DataError, match='closed form for outcome="number"'):
        Neural(outcome="counts", **TINY).condition(X, np.arange(30), using=LastLayer())
    with pytest.raises(DataError, match="is for at most 4,000 weights"):
        Neural((3000,), steps=1).condition(X, Y, using=Laplace("full"))
    with pytest.raises(DataError, match="is for networks"):
        Laplace("full").run(Neural((2,)).target(Neural((2,)).statistics(X, Y)))
    assert Quadratic(0.0, np.ones(1), np.eye(1)).evidence(1.0) < 0
