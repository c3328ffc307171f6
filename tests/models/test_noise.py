import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from credo.errors import DataError
from credo.models.noise import GaussianNoise, InverseGamma, KnownNoise, LaplaceNoise, StudentTNoise, noise_of

ORACLES = {
    "number": (noise_of(0.7), stats.norm(0, np.sqrt(0.7))),
    "known": (KnownNoise(0.7), stats.norm(0, np.sqrt(0.7))),
    "inverse gamma": (InverseGamma(3.0, 2.0), stats.t(6, 0, np.sqrt(2 / 3))),
    "Student-t": (StudentTNoise(5.0, 0.6), stats.t(5, 0, 0.6)),
    "Laplace": (LaplaceNoise(0.6), stats.laplace(0, 0.6)),
}
R = np.array([-2.0, -0.3, 0.1, 4.0])


@pytest.mark.parametrize("name", ORACLES)
def test_the_law_of_the_noise(name):
    noise, want = ORACLES[name]
    np.testing.assert_allclose(noise.log_prob(jnp.asarray(R)), want.logpdf(R), rtol=1e-10)
    np.testing.assert_allclose(noise.variance, want.var(), rtol=1e-10)
    np.testing.assert_allclose(noise.around(jnp.asarray(R)).cdf(R + 0.2), want.cdf(0.2), rtol=1e-8)


@pytest.mark.parametrize("name", ["number", "Student-t", "Laplace"])
def test_a_prediction_is_the_noise_around_a_normal_function(name):
    noise, want = ORACLES[name]
    mean, latent, y = 0.4, 0.09, 2.5
    both = lambda f: want.pdf(y - f) * stats.norm.pdf(f, mean, np.sqrt(latent))  # noqa: E731
    density = integrate.quad(both, mean - 3, mean + 3, points=[y], epsabs=1e-12)[0]
    got = noise.predict(jnp.array([mean]), jnp.array([latent]))
    np.testing.assert_allclose(np.exp(got.log_prob(jnp.array([y]))), density, rtol=2e-3)
    np.testing.assert_allclose(got.aleatoric, noise.variance, rtol=1e-8)
    np.testing.assert_allclose(got.epistemic, latent, rtol=1e-8)


@pytest.mark.parametrize("name", ["Student-t", "Laplace"])
def test_rows_are_weighed_by_the_slope_of_their_density(name):
    noise, want = ORACLES[name]
    slope = jax.vmap(jax.grad(lambda r: noise.log_prob(r[None])[0]))(jnp.asarray(R))
    np.testing.assert_allclose(noise.row_precision(jnp.asarray(R)), -slope / R, rtol=1e-8)
    score = lambda r: float(jax.grad(lambda v: noise.log_prob(v[None])[0])(jnp.asarray(r)))  # noqa: E731
    fisher = 2 * integrate.quad(lambda r: score(r) ** 2 * want.pdf(r), 1e-9, 12, limit=60)[0]
    np.testing.assert_allclose(noise.information, fisher, rtol=1e-3)


def test_unknown_noise_is_integrated_out():
    noise, y = InverseGamma(2.0, 1.5), np.array([0.3, -1.0, 0.7])
    want = stats.multivariate_t(np.zeros(3), np.eye(3) * 0.75, df=4.0).logpdf(y)
    np.testing.assert_allclose(noise.log_evidence(jnp.asarray(3.0), jnp.asarray(y @ y)), want, rtol=1e-10)
    np.testing.assert_allclose(noise.log_prior(jnp.asarray(0.8)), stats.invgamma(2, scale=1.5).logpdf(0.8), rtol=1e-10)
    after = noise.updated(jnp.asarray(3.0), jnp.asarray(y @ y))
    np.testing.assert_allclose([after.shape, after.scale], [3.5, 1.5 + y @ y / 2])


def test_a_variance_for_each_row_needs_noise_of_known_variance():
    np.testing.assert_allclose(GaussianNoise(2.0).for_rows([0.1, 0.2]).variance, [0.1, 0.2])
    for noise in (InverseGamma(), StudentTNoise(), LaplaceNoise()):
        with pytest.raises(DataError, match="is a known variance"):
            noise.for_rows([0.1])
