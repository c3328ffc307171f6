"""Equispaced frequencies against the exact posterior, and sums of exponentials against loops."""

import numpy as np
import pytest

import credo
from credo.core import params
from credo.errors import DataError
from credo.kernels import RBF, Exponential, Linear, Matern52
from credo.models.gp import GP, Fourier
from credo.models.gp.large.fourier import FourierFeatures, Grid, wave_sums

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=60)
QUERIES = RNG.uniform(-2, 2, size=(7, 2))
GP0 = GP(RBF([1.2, 2.0], 1.5), 0.3, 0.04)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_sums_are_those_over_the_rows(d):
    grid = Grid(np.full(d, 0.3), np.linspace(0.5, 0.9, d), (3, 2, 2)[:d])
    x, u, r = RNG.normal(size=(20, d)), RNG.uniform(size=20), RNG.normal(size=20)
    sums = wave_sums(grid, x, u, r)
    waves = FourierFeatures(grid, np.ones(int(np.prod([2 * m + 1 for m in grid.m])))).at(x)
    np.testing.assert_allclose(sums.gram, waves.T @ (u[:, None] * waves), atol=1e-12)
    np.testing.assert_allclose(sums.cross, waves.T @ (u * r), atol=1e-12)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-8])
def test_it_comes_to_the_exact_posterior(tolerance):
    weights = RNG.uniform(0.5, 2.0, size=60)
    exact = GP0.condition(X, Y, weights=weights)
    after = GP0.condition(X, Y, weights=weights, using=Fourier(tolerance))
    p, wanted = after.predict(QUERIES, joint=True), exact.predict(QUERIES, joint=True)
    close = 300 * tolerance
    np.testing.assert_allclose(p.mean, wanted.mean, atol=close)
    np.testing.assert_allclose(p.latent_covariance, wanted.latent_covariance, atol=close)
    own, wanted = after.unconditioned().log_evidence(X, Y), GP0.log_evidence(X, Y)
    np.testing.assert_allclose(own, wanted, atol=1e4 * tolerance)


def test_kernels_without_a_spectrum_are_refused():
    with pytest.raises(DataError, match="stationary kernel, found Linear"):
        GP(Linear()).condition(X, Y, using=Fourier())


def test_an_input_that_does_not_matter_takes_few_frequencies():
    gp = GP(RBF([1.2, 1e6], 1.5), 0.3, 0.04)
    y = Y - X[:, 1]
    exact, after = gp.condition(X, y), gp.condition(X, y, using=Fourier(1e-6))
    np.testing.assert_allclose(after.predict(QUERIES).mean, exact.predict(QUERIES).mean, atol=1e-3)
    level = credo.fit(GP(RBF()), X, np.full(len(X), 3.0), using=Fourier(max_steps=200))
    np.testing.assert_allclose(level.predict(QUERIES).mean, 3.0, atol=1e-6)


@pytest.mark.parametrize("errors", [None, np.linspace(0.1, 0.3, 60)])
def test_the_gradient_is_that_of_the_evidence(errors):
    options = {"weights": np.linspace(0.5, 2.0, 60), "errors": errors}
    belief, rows = Fourier(1e-3).adapt(*GP(RBF([1.2, 2.0], 1.5), noise=0.04).prepare(X, Y, **options))
    belief = belief.placed(rows)
    slots, priors = params.layout(belief), belief.default_priors(rows)
    objective = belief.objective(slots, rows, priors)
    at = np.asarray(params.to_vector(belief, slots))
    value, slope = objective.value_and_grad(at)
    assert value == pytest.approx(float(belief.evidence_of(rows)) + float(params.log_prior(belief, priors)), rel=1e-8)
    for i, axis in enumerate(1e-5 * np.eye(len(at))):
        difference = (objective.value(at + axis) - objective.value(at - axis)) / 2e-5
        assert slope[i] == pytest.approx(difference, rel=1e-5, abs=1e-5)


def test_it_learns_what_exact_learning_does():
    report = credo.fit(GP(RBF()), X, Y, using=Fourier(1e-4), report=True)
    exact = credo.fit(GP(RBF()), X, Y, using=credo.infer.Evidence(starts=1))
    assert "equispaced frequencies" in report.notes[-1]
    np.testing.assert_allclose(report.belief.predict(QUERIES).mean, exact.predict(QUERIES).mean, atol=0.03)


@pytest.mark.parametrize("lengthscale", [1e-3, 1e3])
def test_a_start_that_is_far_off_is_left(lengthscale):
    x = RNG.uniform(size=(400, 2))
    y = np.sin(5 * x[:, 0]) + 0.2 * RNG.normal(size=400)
    report = credo.fit(GP(RBF(lengthscale, 1.0), noise=0.1), x, y, using=Fourier(1e-3), report=True)
    assert report.status == "converged" and 0.2 < float(report.belief.kernel.lengthscale) < 1.0


def test_what_it_cannot_do_is_said():
    with pytest.raises(DataError, match="up to 3 inputs"):
        GP(RBF()).condition(np.zeros((3, 4)), np.zeros(3), using=Fourier())
    with pytest.raises(DataError, match="more than 1500 frequencies"):
        GP(Exponential(0.1)).condition(X, Y, using=Fourier())
    with pytest.raises(DataError, match="spectral density is known, and that of .* is not; use Neighbours"):
        GP(RBF(1.0, 1.0) * Matern52(2.0)).condition(X, Y, using=Fourier())
    with pytest.raises(DataError, match="farther out than the waves reach"):
        GP(Matern52(2.0)).condition(X, Y, using=Fourier(1e-2)).predict([[500.0, 0.0]])
