"""Likelihoods: SciPy's densities, finite differences, labels and their errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from credo.core import params
from credo.errors import DataError
from credo.models.likelihoods import (
    Bernoulli,
    Categorical,
    Likelihood,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    find_classes,
)

ETA = np.array([-35.0, -8.0, -1.3, 0.0, 0.4, 2.5, 9.0])
CUTS = np.array([-1.0, 0.5, 2.0])


def ordinal_mass(eta, k):
    edges = np.concatenate([[-np.inf], CUTS, [np.inf]])
    upper, lower = edges[k + 1] - eta, edges[k] - eta
    # From whichever side does not cancel.
    return np.where(
        lower > 0, special.expit(-lower) - special.expit(-upper), special.expit(upper) - special.expit(lower)
    )


@eqx.filter_jit
def log_prob(likelihood, eta, y):
    return likelihood.log_prob(eta, y)


@eqx.filter_jit
def slopes(likelihood, eta, y):
    """The gradient and the curvature by η."""
    s, eta = likelihood.size, eta if likelihood.vector else eta[:, None]
    _, gradient, curvature = likelihood.terms(jnp.concatenate([jnp.tile(likelihood.psi, (len(y), 1)), eta], 1), y)
    return (gradient[:, s:], curvature[:, s:, s:]) if likelihood.vector else (gradient[:, s], curvature[:, s, s])


CASES = {
    "logit": (Bernoulli((0, 1)), [0, 1], lambda e, y: stats.bernoulli.logpmf(y, special.expit(e)), special.expit),
    "probit": (Probit((0, 1)), [0, 1], lambda e, y: special.log_ndtr((2 * y - 1) * e), special.ndtr),
    "poisson": (Poisson(), [0, 1, 7], lambda e, y: stats.poisson.logpmf(y, np.exp(e)), np.exp),
    "negative binomial": (
        NegativeBinomial(0.7),
        [0, 1, 7],
        lambda e, y: stats.nbinom.logpmf(y, 1 / 0.7, 1 / (1 + 0.7 * np.exp(e))),
        np.exp,
    ),
    "student": (StudentT(4.0, 0.6), [-1.0, 2.0], lambda e, y: stats.t.logpdf(y, 4.0, e, 0.6), lambda e: e),
    "ordinal": (Ordinal((0, 1, 2, 3), jnp.asarray(CUTS)), [0, 1, 2, 3], lambda e, y: np.log(ordinal_mass(e, y)), None),
}


@pytest.mark.parametrize("name", CASES)
def test_densities_and_means_are_scipys(name):
    likelihood, outcomes, density, mean = CASES[name]
    middle = ETA[1:-1] if name in ("ordinal", "negative binomial") else ETA
    for y in outcomes:
        want = density(middle, y)
        got = log_prob(likelihood, jnp.asarray(middle), jnp.full(middle.shape, float(y)))
        sane = np.isfinite(want)  # SciPy's Bernoulli underflows where ours does not
        np.testing.assert_allclose(np.asarray(got)[sane], want[sane], rtol=1e-8, atol=1e-15)
        assert np.all(np.isfinite(got))
    if mean is not None:
        np.testing.assert_allclose(likelihood.mean(jnp.asarray(ETA)), mean(ETA), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_slopes_are_finite_differences(name):
    likelihood, outcomes, _, _ = CASES[name]
    eta = jnp.asarray([-3.0, -0.4, 0.7, 2.1])
    for y in outcomes:
        ys = jnp.full(eta.shape, float(y))
        gradient, curvature = slopes(likelihood, eta, ys)
        h = 1e-4
        up, here, down = (np.asarray(log_prob(likelihood, eta + s, ys)) for s in (h, 0.0, -h))
        np.testing.assert_allclose(gradient, (up - down) / (2 * h), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(curvature, -(up - 2 * here + down) / h**2, rtol=1e-5, atol=1e-6)


def test_tails_are_stable():
    far = jnp.asarray([-300.0, -40.0, 40.0, 300.0])
    for likelihood in (Bernoulli((0, 1)), Probit((0, 1))):
        for y in (0.0, 1.0):
            gradient, curvature = slopes(likelihood, far, jnp.full(4, y))
            assert np.all(np.isfinite(gradient)) and np.all(np.asarray(curvature) >= 0)
    # log Φ(-x) ≈ -x²/2 - log x - ½ log 2π, curvature → 1
    np.testing.assert_allclose(
        Probit((0, 1)).log_prob(far[:1], jnp.ones(1)), -0.5 * 300**2 - np.log(300 * np.sqrt(2 * np.pi)), rtol=1e-8
    )
    np.testing.assert_allclose(slopes(Probit((0, 1)), far[1:2], jnp.ones(1))[1], [1.0], rtol=2e-3)


def test_softmax_has_its_last_class_as_reference(rng):
    likelihood = Categorical(("a", "b", "c"))
    eta = rng.normal(size=(5, 2)) * 3
    logits = np.column_stack([eta, np.zeros(5)])
    np.testing.assert_allclose(likelihood.mean(jnp.asarray(eta)), special.softmax(logits, axis=1), rtol=1e-12)
    y = np.array([0, 1, 2, 0, 2])
    want = special.log_softmax(logits, axis=1)[np.arange(5), y]
    np.testing.assert_allclose(likelihood.log_prob(jnp.asarray(eta), jnp.asarray(y, float)), want, rtol=1e-10)
    p = special.softmax(logits, axis=1)[:, :2]
    gradient, curvature = slopes(likelihood, jnp.asarray(eta), jnp.asarray(y, float))
    np.testing.assert_allclose(gradient, np.eye(3)[y][:, :2] - p, rtol=1e-8, atol=1e-12)
    want = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    np.testing.assert_allclose(curvature, want, rtol=1e-8, atol=1e-12)


def test_ordinal_probabilities_sum_to_one():
    p = CASES["ordinal"][0].mean(jnp.asarray(ETA))
    np.testing.assert_allclose(np.asarray(p).sum(-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(p[:, 1], [ordinal_mass(e, 1) for e in ETA], rtol=1e-8, atol=1e-17)


CLOSED = [
    (Bernoulli((0, 1)), [0, 1]),
    (Probit((0, 1)), [0, 1]),
    (Categorical((0, 1, 2, 3)), [0, 1, 2, 3]),
    (Ordinal((0, 1, 2, 3), CUTS), [0, 1, 2, 3]),
    (Poisson(), [0, 1, 7]),
    (NegativeBinomial(0.7), [0, 1, 7, 200]),
    (StudentT(4.0, 0.6, 3.0), [-1.0, 2.0]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "outcomes"), CLOSED, ids=lambda v: type(v).__name__)
def test_derivatives_are_those_of_automatic_differentiation(likelihood, outcomes):
    rng, n = np.random.default_rng(1), 60
    s = likelihood.size
    psi = likelihood.psi + 0.3 * rng.normal(size=(n, s))
    z = np.concatenate([psi, 2 * rng.normal(size=(n, likelihood.width))], axis=1)
    y = rng.choice(outcomes, size=n).astype(float)
    spread = rng.normal(size=(n, z.shape[1], z.shape[1]))
    spread = spread + spread.swapaxes(1, 2)

    def terms(own, z, y, spread):
        return *own.terms(z, y), own.curvature_slope(z, y, spread)

    by_hand = terms(likelihood, z, y, spread)
    assert all(isinstance(found, np.ndarray) for found in by_hand)
    automatic = (*Likelihood.terms(likelihood, z, y), Likelihood.curvature_slope(likelihood, z, y, spread))
    traced = eqx.filter_jit(terms)(likelihood, z, y, spread)
    for found, want, other in zip(by_hand, automatic, traced, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-9)
    if not s:
        return
    own = (*likelihood.own_terms(psi), likelihood.own_curvature_slope(psi, spread[:, :s, :s]))
    want = (*Likelihood.own_terms(likelihood, psi), Likelihood.own_curvature_slope(likelihood, psi, spread[:, :s, :s]))
    for found, other in zip(own, want, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("likelihood", "outcomes"), CLOSED, ids=lambda v: type(v).__name__)
def test_three_derivatives_by_one_predictor(likelihood, outcomes):
    if likelihood.vector:
        return
    y = np.resize(np.asarray(outcomes, float), 7)
    found = likelihood.eta_derivatives(ETA / 3, y)
    function = likelihood.log_prob
    for derivative in found:
        np.testing.assert_allclose(derivative, jax.vmap(function)(ETA / 3, y), rtol=1e-9, atol=1e-12)
        function = jax.grad(function)


def test_a_likelihood_of_ones_own_is_differentiated():
    class Laplacian(Likelihood):
        """log p = -log cosh(y - η) and a scale that is believed in."""

        scale: jax.Array = params.positive(1.5)

        def log_prob(self, eta, y):
            return -jnp.log(jnp.cosh((y - eta) / self.scale)) - jnp.log(self.scale)

        def mean(self, eta):
            return eta

        def encode(self, y):
            return np.asarray(y, float)

        def log_prior(self):
            return -self.scale

    own, eta = Laplacian(), np.array([0.3, -1.0])
    _, first, second, third = own.eta_derivatives(eta, np.array([0.5, 2.0]))
    t = np.tanh((np.array([0.5, 2.0]) - eta) / 1.5)
    np.testing.assert_allclose(first, t / 1.5, rtol=1e-10)
    np.testing.assert_allclose(second, -(1 - t**2) / 1.5**2, rtol=1e-10)
    np.testing.assert_allclose(third, -2 * t * (1 - t**2) / 1.5**3, rtol=1e-10)
    psi = np.log([1.5])
    np.testing.assert_allclose(own.own_terms(psi)[0], psi[0] - 1.5)
    np.testing.assert_allclose(own.own_terms(psi)[1], 1 - np.exp(psi))


def test_labels_by_name():
    assert find_classes(["b", "a", "b"]) == ("a", "b")
    assert find_classes(np.array([1.0, 2.0, 1.0])) == (1, 2)
    assert find_classes([True, False]) == (False, True)
    assert find_classes(pd.Series(["x", "y"], dtype="object")) == ("x", "y")
    np.testing.assert_array_equal(Bernoulli(("no", "yes")).encode(["yes", "no"]), [1.0, 0.0])
    np.testing.assert_array_equal(Categorical((3, 1, 2)).encode([1, 2, 3]), [1.0, 2.0, 0.0])


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (Bernoulli(), [1, 1, 1], "y has one class only, 1"),
        (Bernoulli(), [0.1, 0.7, 0.3], "Bernoulli tells two classes apart, but y has 3 distinct values"),
        (Bernoulli(), [0.0, np.nan], "y has a missing label at row 1"),
        (Bernoulli(), ["a", None], "y has a missing label at row 1"),
        (Bernoulli(), np.array(["a", 1], dtype=object), "y mixes text and numbers"),
        (Bernoulli(), [[0, 1], [1, 0]], "y must be a vector of labels"),
        (Ordinal(), ["low", "mid", "high"], "text has no order of its own: give classes="),
        (Ordinal(), [0, 1, 1], "Ordinal needs at least 3 classes"),
    ],
)
def test_labels_that_cannot_be_used(likelihood, y, message):
    with pytest.raises(DataError, match=message):
        likelihood.adapt(y)


def test_outcomes_that_cannot_be_used():
    with pytest.raises(DataError, match="y has 'maybe' at row 1, but the classes are 'no', 'yes'"):
        Bernoulli(("no", "yes")).encode(["no", "maybe"])
    with pytest.raises(DataError, match="y must hold whole numbers ≥ 0, found -1 at row 1"):
        Poisson().encode([0, -1])
    with pytest.raises(DataError, match="y must hold whole numbers ≥ 0, found 0.5 at row 0"):
        NegativeBinomial().encode([0.5, 1])
    with pytest.raises(DataError, match="has two classes, found"):
        Bernoulli(("a", "b", "c"))
    with pytest.raises(DataError, match="the classes are not known yet"):
        _ = Categorical().width
