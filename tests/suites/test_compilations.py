"""Families in closed form compile nothing: fit, predict, interval and all that users ask of numbers that are known."""

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.gaussian import Gaussian
from credo.infer import MAP, ML, PlugIn
from credo.models import features as f
from credo.models.linear import ARD, InverseGamma, LaplaceNoise, LaplacePrior, Linear, StudentTNoise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(23, 2))  # a shape that no other test has compiled for
Y = X @ np.ones(2) + 0.3 * RNG.normal(size=23)

LINEAR = {
    "isotropic": Linear(),
    "ard": Linear(prior=ARD()),
    "gaussian": Linear(prior=Gaussian(np.zeros(2), np.eye(2))),
    "unknown noise": Linear(noise=InverseGamma()),
    "student": Linear(noise=StudentTNoise()),
    "laplace": Linear(noise=LaplaceNoise()),
    "polynomial": Linear(f.Polynomial(2).after(f.Affine())),
    "splines": Linear(f.BSpline(5) + f.Fourier(2)),
    "wavelets": Linear(f.Haar(2) + f.Daubechies(2).on(0)),
    "bumps": Linear(f.Bumps(4) * f.Affine()),
}

CONJUGATE = {
    "coin": (credo.BetaBernoulli(), ([0, 1, 1, 0, 1, 1, 1],)),
    "binomial": (credo.BetaBinomial(), ([3, 4], [5, 9])),
    "die": (credo.DirichletCategorical([2.0, 2.0, 2.0]), ([0, 1, 1, 2],)),
    "multinomial": (credo.DirichletMultinomial([2.0, 2.0]), ([[3, 4], [1, 0]],)),
    "rate": (credo.GammaPoisson(2.0, 1.0), ([3, 1, 4],)),
    "mean": (credo.NormalKnownVariance(), (Y,)),
    "mean and variance": (credo.NormalInverseGamma(), (Y,)),
    "vector": (credo.NormalInverseWishart([0.0, 0.0]), (X,)),
    "hypotheses": (credo.Hypotheses([[0.7, 0.2], [0.3, 0.8]]), ([0, 1, 1],)),
    "chain": (credo.MarkovSequence(3, concentration=2.0), ([0, 1, 2, 0, 1, 1, 2],)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_compile_nothing(name, compilations):
    with compilations() as compiled:
        belief = credo.fit(LINEAR[name], X, Y)
        prediction = belief.predict(X[:5])
        assert np.all(np.isfinite(prediction.mean)) and np.all(prediction.epistemic >= 0)
        prediction.interval(0.9)
        belief.condition(X[:3], Y[:3]).log_evidence(X[3:], Y[3:])
        belief.coefficients().interval()
    assert not compiled


@pytest.mark.parametrize("method", [ML(), MAP(), PlugIn()])
@pytest.mark.parametrize("name", ["isotropic", "unknown noise", "student"])
def test_point_estimates_compile_nothing(name, method, compilations):
    with compilations() as compiled:
        LINEAR[name].condition(X, Y, using=method).predict(X[:5]).interval()
        Linear(prior=LaplacePrior()).condition(X, Y, using=MAP()).predict(X[:5]).interval()
    assert not compiled


@pytest.mark.parametrize("name", CONJUGATE)
def test_conjugate_beliefs_compile_nothing(name, compilations):
    prior, data = CONJUGATE[name]
    with compilations() as compiled:
        belief = prior.condition(*data)
        prediction = belief.predict()
        assert np.all(np.isfinite(prediction.aleatoric))
        assert np.isfinite(prior.log_evidence(*data))
        belief.mode()
        if isinstance(belief, credo.Hypotheses):
            belief.credible_set()
        else:
            belief.credible_interval()
        for method in (ML(), MAP(), PlugIn()):
            prior.condition(*data, using=method).predict()
    assert not compiled


def test_populations_and_the_long_run_compile_nothing(compilations):
    with compilations() as compiled:
        belief = credo.HierarchicalBernoulli().condition([1, 5, 9], [10, 12, 11])
        belief.predict()
        belief.credible_interval()
        chain = credo.MarkovChain.fit([0, 1, 2, 0, 1, 1, 2, 0])
        chain.stationary()
        chain.mixing_time()
        chain.hitting_times(2)
    assert not compiled


def test_programs_are_counted(compilations):
    with compilations() as compiled:
        jnp.sin(jnp.ones((3, 1, 23)))
    assert compiled
