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
from credo.models.glm.newton import row_terms
from credo.models.likelihoods import (
    Bernoulli,
    Categorical,
    ClosedForm,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    StudentT,
    find_classes,
)
from credo.models.likelihoods.numbers import _bend, _slope, _twist

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
    if isinstance(likelihood, ClosedForm):
        return likelihood.terms(eta, y)[1:]
    eta = eta if likelihood.vector else eta[:, None]
    psi = params.to_vector(likelihood, params.layout(likelihood)) if params.layout(likelihood) else jnp.zeros(0)
    _, gradient, curvature = row_terms(likelihood, psi, eta, y, jnp.ones(len(y)))
    s = len(psi)
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


@pytest.mark.parametrize("likelihood", [Bernoulli((0, 1)), Probit((0, 1)), Poisson()])
def test_derivatives_are_written_out(likelihood):
    y, eta = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]), ETA / 3
    by_hand = (*likelihood.terms(eta, y), likelihood.curvature_slope(eta, y))
    function = likelihood.log_prob
    for order, found in enumerate(by_hand):
        want = jax.vmap(function)(jnp.asarray(eta), jnp.asarray(y))
        np.testing.assert_allclose(found, want if order < 2 else -want, rtol=1e-9, atol=1e-16)
        function = jax.grad(function)
    for found, want in zip(likelihood.terms(jnp.asarray(ETA), jnp.asarray(y)), likelihood.terms(ETA, y), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-25)


def test_derivatives_of_the_rising_factorial_are_polygammas():
    a, y = np.meshgrid([0.05, 0.7, 3.0, 40.0], [0.0, 1.0, 6.0, 200.0])
    for order, function in enumerate((_slope, _bend, _twist)):
        want = special.polygamma(order, a + y) - special.polygamma(order, a)
        np.testing.assert_allclose(function(jnp.asarray(a), jnp.asarray(y)), want, rtol=1e-9, atol=1e-14)


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
