"""Hyperparameters by draws: the target is evidence times prior, and its numbers return to where they belong."""

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core import params
from credo.infer import NUTS
from credo.infer.hyper import HyperQuadrature, hyper_target, hyperparameters
from credo.infer.priors import LogNormal
from credo.kernels import RationalQuadratic
from credo.models.gp import Zero

X = np.linspace(0, 6, 15)[:, None]
Y = np.sin(X[:, 0]) + 0.2 * np.cos(7 * X[:, 0])
PRIORS = {
    "kernel.lengthscale": LogNormal(1.0, 0.4),
    "kernel.variance": LogNormal(0.1, 0.3),
    "kernel.alpha": LogNormal(20.0, 0.2),
    "noise": LogNormal(0.05, 0.5),
}


@pytest.fixture(scope="module")
def prepared():
    return credo.GP(RationalQuadratic(0.9, 0.3, alpha=2.0), Zero(), 0.05).prepare(X, Y)


def test_the_density_is_evidence_prior_and_jacobian(prepared):
    gp, rows = prepared
    for priors in (PRIORS, {"noise": PRIORS["noise"]}):  # without a prior a number is flat on the log scale
        target = hyper_target(gp, rows, ["kernel.variance"], priors)
        u = jnp.asarray(target.space.start()) + jnp.asarray([0.2, -0.3, 0.1])
        values = target.space.tree(u)
        prior = sum(float(priors[path].log_prob(v) + jnp.log(v)) for path, v in values.items() if path in priors)
        if "kernel.variance" in priors:
            prior += float(priors["kernel.variance"].log_prob(gp.kernel.variance))
        want = float(params.replace(gp, values).log_evidence_of(rows)) + prior
        assert float(target(u)) == pytest.approx(want, rel=1e-10)


@pytest.mark.slow
def test_numbers_whose_names_sort_otherwise_than_their_fields():
    """α is the last field of the kernel and the first by name; its prior is far from those of the others."""
    gp = credo.GP(RationalQuadratic(), Zero())
    draws = credo.fit(gp, X, Y, using=NUTS(chains=2, draws=600, warmup=300, members=100), priors=PRIORS)
    exact = credo.fit(gp, X, Y, using=HyperQuadrature(), priors=PRIORS)
    found, want = hyperparameters(draws), hyperparameters(exact)
    for path in PRIORS:
        assert abs(np.log(found[path].mean / want[path].mean)) < 0.25, path
    assert 12 < float(found["kernel.alpha"].mean) < 35
    np.testing.assert_allclose(draws.weights, 1 / 100, rtol=1e-6)
    a, b = (belief.predict([[2.3], [7.0]]) for belief in (draws, exact))
    np.testing.assert_allclose(a.mean, b.mean, atol=0.05)
    np.testing.assert_allclose(a.std, b.std, rtol=0.15)
