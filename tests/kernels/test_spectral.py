"""Spectral measures and random features against quadrature, SciPy's laws and exact standard errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from credo.core.errors import DataError
from credo.kernels import RBF, Constant, Exponential, Matern32, Matern52, RationalQuadratic, White
from credo.kernels.algebra import PolynomialOf
from credo.kernels.elementary import Custom
from credo.kernels.matern import Matern
from credo.kernels.periodic import CenteredPeriodic, Cosine, LocallyPeriodic, Periodic, SpectralMixture
from credo.kernels.random_fourier import (
    RandomFeatures,
    _log_beta,
    feature_error_probability,
    features_needed,
    random_features,
)
from credo.kernels.spectral import sample_frequencies, spectral_density, spectral_measure

LAMBDA = jnp.array([[0.6, -0.4], [0.3, 0.8]])
ARD = jnp.array([0.7, 1.4])
WEIGHTS, MEANS, VARIANCES = (
    jnp.array([0.6, 1.1]),
    jnp.array([[0.3, 0.1], [0.8, 0.5]]),
    jnp.array([[0.05, 0.1], [0.02, 0.2]]),
)
LINE = [
    RBF(0.7, 2.0),
    Exponential(0.8, 1.5),
    Matern32(0.6),
    Matern52(1.3),
    Matern(0.9, smoothness=0.8),
    RationalQuadratic(0.7, 1.2, alpha=0.4),
    RationalQuadratic(0.7, alpha=3.0),
    3.0 * SpectralMixture(WEIGHTS, MEANS[:, :1], VARIANCES[:, :1]),
    RBF(0.5) + 2.0 * Matern32(1.5),
    Constant(2.0) * RBF(0.7),
    (RBF(0.7, 2.0) * RBF(1.1)) ** 2,
]
PLANE = [
    RBF(ARD, 2.0),
    RBF(0.8, 1.0, LAMBDA),
    Matern52(ARD, 1.5, LAMBDA),
    RationalQuadratic(ARD, alpha=4.0),
    SpectralMixture(WEIGHTS, MEANS, VARIANCES),
    RBF(0.7).on(1) * Matern52(0.9).on(0),
    RBF(ARD) * RBF(0.8, 1.0, LAMBDA),
    RBF(ARD).on(1, 0),
]
SAMPLED = [
    *PLANE,
    Exponential(ARD, 2.0, LAMBDA),
    Matern32(0.9),
    Matern(0.9, smoothness=0.7),
    Cosine(1.5),
    Periodic(0.8, 1.5, period=2.0),
    Periodic(jnp.array([0.5, 1.5]), period=jnp.array([1.0, 2.0])),
    LocallyPeriodic(),
    Constant(2.0),
    Constant(0.5) + 2.0 * RBF(0.7),
    RBF(0.7).on(0) + Periodic(0.7).on(1),
    (RBF(0.9) + Matern32(0.8)) * Matern52(1.5),
    Matern32(0.8) ** 3,
    (2.0 * Matern32(0.8)).exp(),
    PolynomialOf(Matern52(1.0, 0.7), [0.5, 1.0, 2.0]),
]
BOUNDED = [k for k in SAMPLED if np.isfinite(float(spectral_measure(k, 2)[1].second_moment()))]


def along(kernel, tau):
    """k(τ, 0)."""
    return np.asarray(kernel.gram(jnp.asarray(tau), jnp.zeros((1, np.shape(tau)[1]))))[:, 0]


@pytest.mark.parametrize("kernel", LINE, ids=repr)
def test_the_density_on_a_line_transforms_to_the_kernel(kernel):
    """2∫₀^∞ S(ω) cos(ωτ) dω by SciPy: near zero, where S may have a pole, in log ω, and QAWF for the tail."""
    density = jax.jit(lambda w: spectral_density(kernel, w[None, None])[0])
    near_nodes, near_weights = np.polynomial.legendre.leggauss(400)
    t = 30.0 * near_nodes - 30.0  # ω from e⁻⁶⁰ to 1
    w = np.exp(t)
    near = np.asarray(spectral_density(kernel, w[:, None])) * w * 30.0 * near_weights
    for tau in (0.4, 1.7):
        far = integrate.quad(lambda u: float(density(u)), 1.0, np.inf, weight="cos", wvar=tau, epsabs=1e-8, limlst=90)[
            0
        ]
        np.testing.assert_allclose(2 * (near @ np.cos(w * tau) + far), along(kernel, [[tau]])[0], atol=1e-6)


@pytest.mark.parametrize("kernel", PLANE, ids=repr)
def test_the_density_on_a_plane_transforms_to_the_kernel(kernel):
    """h² Σ S(ω) cos(ωᵀτ) over a lattice is Σ_j k(τ + 2πj/h), where only j = 0 matters."""
    h, n = 0.12, 500 if "Matern" in repr(kernel) else 200  # a t law has a long tail
    axis = h * np.arange(-n, n + 1)
    lattice = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    density = np.asarray(spectral_density(kernel, lattice)).reshape(len(axis), -1)
    for tau in ([0.0, 0.0], [0.5, -0.3], [-1.0, 1.2]):
        a, b = np.exp(1j * axis * tau[0]), np.exp(1j * axis * tau[1])
        np.testing.assert_allclose(h * h * (a @ density @ b).real, along(kernel, [tau])[0], atol=1e-6)


def test_densities_are_those_of_scipy(rng):
    w = rng.normal(size=(20, 2)) * 2
    metric = np.diag(1 / np.asarray(ARD) ** 2) + np.asarray(LAMBDA).T @ np.asarray(LAMBDA)
    want = 2.0 * stats.multivariate_normal(np.zeros(2), metric).pdf(w)
    np.testing.assert_allclose(spectral_density(RBF(ARD, 2.0, LAMBDA), w), want, rtol=1e-9)
    for kernel, nu in [
        (Exponential(ARD, 2.0, LAMBDA), 0.5),
        (Matern32(ARD, 2.0, LAMBDA), 1.5),
        (Matern52(ARD, 2.0, LAMBDA), 2.5),
        (Matern(ARD, 2.0, LAMBDA, smoothness=3.7), 3.7),
    ]:
        want = 2.0 * stats.multivariate_t(np.zeros(2), metric, df=2 * nu).pdf(w)
        np.testing.assert_allclose(spectral_density(kernel, w), want, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0, 4.0, 80.0])
@pytest.mark.parametrize("d", [1, 3])
def test_the_rational_quadratic_is_a_bessel_function(alpha, d):
    w = np.geomspace(1e-6, 8.0, 25)[:, None] * np.eye(d)[0]
    r, order = w[:, 0], alpha - d / 2
    log_want = alpha * np.log(alpha) - special.gammaln(alpha) - d / 2 * np.log(2 * np.pi) + np.log(2)
    z = np.sqrt(2 * alpha) * r
    log_want = log_want + order / 2 * np.log(r**2 / (2 * alpha)) + np.log(special.kve(order, z)) - z
    got = np.asarray(spectral_density(RationalQuadratic(alpha=alpha), w))
    ok = np.isfinite(log_want)
    assert ok.sum() > 3
    np.testing.assert_allclose(got[ok], np.exp(log_want[ok]), rtol=1e-9)
    zero = float(spectral_density(RationalQuadratic(alpha=alpha), np.zeros((1, d)))[0])
    if order > 0:
        np.testing.assert_allclose(zero, got[0], rtol=1e-4 if order > 0.6 else 0.1)
    else:
        assert zero == np.inf


def test_a_large_alpha_is_the_rbf():
    w = np.linspace(0.1, 3, 7)[:, None]
    got = spectral_density(RationalQuadratic(alpha=1e5), w)
    np.testing.assert_allclose(got, spectral_density(RBF(), w), rtol=1e-4)


def test_a_periodic_kernel_is_a_fourier_series():
    """Atoms at 2πj/p with weights e^-λ I_j(λ), λ = ℓ⁻²."""
    m, base, rate = 20_000, 2 * np.pi / 2.5, 0.6**-2
    w = np.asarray(sample_frequencies(jr.key(1), Periodic(0.6, 3.0, period=2.5), m, 1))[:, 0]
    order = np.round(w / base)
    np.testing.assert_allclose(w, order * base, atol=1e-9)
    for j in range(-4, 5):
        want = special.ive(j, rate)
        assert abs((order == j).mean() - want) < 4.5 * np.sqrt(want * (1 - want) / m)


@pytest.mark.parametrize("kernel", SAMPLED, ids=repr)
@pytest.mark.parametrize("paired", [True, False], ids=["paired", "phases"])
def test_products_of_features_estimate_the_kernel(kernel, paired):
    """The variance of a term is s⁴(½ + ½κ(2τ) - κ(τ)²), with phases ½s⁴ more."""
    m, x = 8192, jnp.asarray(np.random.default_rng(3).normal(size=(6, 2)))
    features = random_features(kernel, m, 2, paired=paired, seed=5)
    phi = np.asarray(features(x))
    assert phi.shape == (6, features.size(2)) == (6, 2 * m if paired else m)
    k, doubled, s2 = np.asarray(kernel(x)), np.asarray(kernel(2 * x)), float(kernel.of(x[0], x[0]))
    np.testing.assert_allclose(features.amplitude, s2, rtol=1e-12)
    variance = s2**2 * (0.5 if paired else 1.0) + 0.5 * s2 * doubled - k**2
    se = np.sqrt(np.maximum(variance, 0) / m)
    assert np.all(np.abs(phi @ phi.T - k) <= 4.5 * se + 1e-9)
    if paired:
        np.testing.assert_allclose((phi**2).sum(1), s2, rtol=1e-10)


@pytest.mark.parametrize("kernel", BOUNDED, ids=repr)
def test_the_second_moment_is_the_curvature_at_zero(kernel):
    mass, law = spectral_measure(kernel, 2)
    curvature = jax.hessian(lambda t: kernel.of(t, jnp.zeros(2)))(jnp.zeros(2))
    np.testing.assert_allclose(law.second_moment(), -jnp.trace(curvature) / mass, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("kernel", SAMPLED, ids=repr)
def test_the_spread_bounds_the_variance_of_a_term(kernel):
    tau = np.random.default_rng(0).normal(size=(400, 2)) * np.geomspace(0.01, 5, 400)[:, None]
    mass, law = spectral_measure(kernel, 2)
    one, two = along(kernel, tau) / float(mass), along(kernel, 2 * tau) / float(mass)
    assert (0.5 + 0.5 * two - one**2).max() <= law.spread() + 1e-9


def test_pairs_beat_phases_with_as_many_columns():
    """Var is (1 + κ(2τ) - 2κ²)/D paired and (1 + ½κ(2τ) - κ²)/D with phases: less where κ(2τ) < 2κ(τ)²."""
    kernel, columns, times = RBF(1.0), 16, 4000
    x = jnp.array([[0.0], [0.8]])
    found = {}
    for paired, m in ((True, columns // 2), (False, columns)):
        all_of = random_features(kernel, m * times, 1, paired=paired, seed=2)

        def product(w, b):
            a, z = RandomFeatures(w, b, jnp.ones(()))(x)
            return a @ z

        phases = None if all_of.phases is None else all_of.phases.reshape(times, m)
        draws = np.asarray(jax.vmap(product)(all_of.frequencies.reshape(times, m, 1), phases))
        one, two = np.exp(-0.32), np.exp(-1.28)
        want = (1 + two - 2 * one**2 if paired else 1 + two / 2 - one**2) / columns
        squares = (draws - one) ** 2
        assert abs(squares.mean() - want) < 4.5 * squares.std() / np.sqrt(times)
        found[paired] = squares
    assert found[False].mean() - found[True].mean() > 4.5 * np.hypot(
        *(s.std() / np.sqrt(times) for s in found.values())
    )


@pytest.mark.parametrize("kernel", [RBF(2.0), Matern52(2.0), RationalQuadratic(2.0, alpha=2.0)], ids=repr)
def test_orthogonal_frequencies_have_the_same_law_and_less_error(kernel):
    d, blocks = 8, 5000
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, d)))
    want = float(kernel.of(x[0], x[1]))
    errors = {}
    for orthogonal in (True, False):
        w = np.asarray(random_features(kernel, d * blocks, d, orthogonal=orthogonal, seed=4).frequencies)
        draws = np.cos(w @ np.asarray(x[0] - x[1])).reshape(blocks, d).mean(1)
        assert abs(draws.mean() - want) < 4.5 * draws.std() / np.sqrt(blocks)
        errors[orthogonal] = (draws - want) ** 2
        if orthogonal:
            block = w[:d] @ w[:d].T
            np.testing.assert_allclose(block - np.diag(np.diag(block)), 0, atol=1e-10)
            radii = np.linalg.norm(w, axis=1)
        else:
            assert stats.ks_2samp(radii, np.linalg.norm(w, axis=1)).pvalue > 1e-3
    gap = errors[False].mean() - errors[True].mean()
    assert gap > 4.5 * np.hypot(*(e.std() / np.sqrt(blocks) for e in errors.values()))


def test_orthogonal_radii_are_chi_for_the_rbf():
    w = np.asarray(random_features(RBF(0.5).on(0, 2), 3001, 3, orthogonal=True).frequencies)
    assert np.all(w[:, 1] == 0) and w.shape == (3001, 3)
    assert stats.kstest(0.5 * np.linalg.norm(w, axis=1), stats.chi(2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "phases"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_bound_is_the_best_of_its_argument(d, paired):
    """Anchors on a net of radius r and a Lipschitz constant between them, minimised over r numerically."""
    kernel, e, m, sigma2, length = RBF(0.5), 0.3, 10_000, d * 4.0, 2.0
    if paired:  # a net of the differences; Bernstein with variance ½ and range 2
        anchor, balls, lipschitz = -m * e**2 / 8 / (0.5 + e / 3), d * np.log(4 * length), 1.0
    else:  # a net of the pairs; variance 1, range 4 and gradient 3σ² as published
        anchor, balls, lipschitz = -m * e**2 / 32 / (0.25 + e / 6), 2 * d * np.log(8**0.5 * length), 3.0
    dimension = d if paired else 2 * d

    def log_bound(u):
        return np.logaddexp(np.log(2) + anchor + balls - dimension * u, np.log(4 * lipschitz * sigma2 / e**2) + 2 * u)

    want = optimize.minimize_scalar(log_bound, bounds=(-100, 20), method="bounded", options={"xatol": 1e-10}).fun
    got = feature_error_probability(kernel, m, e, length, d, paired)
    assert 0 < got < 1
    np.testing.assert_allclose(np.log(got), want, rtol=1e-8)
    np.testing.assert_allclose(feature_error_probability(3.0 * kernel, m, 3 * e, length, d, paired), got, rtol=1e-8)


def test_the_constants_are_at_most_66_and_98():
    """The simplified right-hand sides of Sutherland & Schneider (2015), propositions 1 and 2."""
    paired, phases = ([np.exp(_log_beta(d, which)) for d in range(1, 3000)] for which in (True, False))
    np.testing.assert_allclose(max(paired), 66, rtol=1e-12)
    assert 97 < max(phases) < 98


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "phases"])
@pytest.mark.parametrize("kernel", [RBF(0.5, 2.0), Matern52(0.7), RBF(0.4) + Periodic(1.0)], ids=repr)
def test_simulated_errors_keep_to_the_bound(kernel, paired):
    times, grid = 60, jnp.linspace(0, 1, 41)[:, None]
    gram, s2 = kernel.gram(grid, grid), float(kernel.of(grid[0], grid[0]))
    m = features_needed(kernel, 0.5 * s2, 0.3, 1.0, 1, paired)
    all_of = random_features(kernel, m * times, 1, paired=paired, seed=1)
    phases = None if all_of.phases is None else all_of.phases.reshape(times, m)

    def worst(w, b):
        phi = RandomFeatures(w, b, all_of.amplitude)(grid)
        return jnp.abs(phi @ phi.T - gram).max()

    errors = np.asarray(jax.vmap(worst)(all_of.frequencies.reshape(times, m, 1), phases))
    bounded = 0
    for e in np.array([0.1, 0.3, 0.5, 0.8]) * s2:
        p = feature_error_probability(kernel, m, float(e), 1.0, 1, paired)
        assert (errors >= e).mean() <= p + 4.5 * np.sqrt(p * (1 - p) / times)
        bounded += p < 1
    assert bounded >= 2 and errors.min() > 0


@pytest.mark.parametrize("paired", [True, False], ids=["paired", "phases"])
@pytest.mark.parametrize("delta", [0.5, 0.01, 1e-8])
def test_features_needed_is_the_inverse(paired, delta):
    for kernel, e, d in [(RBF(0.3, 2.0), 0.2, 3), (Matern32(1.0), 0.1, 1), (Constant(1.0), 0.5, 2)]:
        m = features_needed(kernel, e, delta, 4.0, d, paired)
        assert feature_error_probability(kernel, m, e, 4.0, d, paired) <= delta
        assert m == 1 or feature_error_probability(kernel, m - 1, e, 4.0, d, paired) > delta


def test_the_bound_never_exceeds_one():
    assert feature_error_probability(RBF(), 1, 1e-3, 10.0, 2) == 1.0
    wide, close = (feature_error_probability(RBF(), 500, 1.0, length, 1) for length in (1.0, 1e-9))
    assert close == wide  # ε ≥ σℓ: no better than at ε = σℓ


def test_the_same_seed_gives_the_same_features():
    a, b, c = (random_features(RBF(), 8, 2, paired=False, seed=s) for s in (1, 1, 2))
    assert bool(eqx.tree_equal(a, b)) and not bool(eqx.tree_equal(a, c))
    assert np.all((a.phases >= 0) & (a.phases < 2 * np.pi))


def test_sampling_traces():
    def draw(key, length):
        return sample_frequencies(key, RBF(length) + Matern32(length), 4, 2)

    key = jr.key(0)
    np.testing.assert_allclose(jax.jit(draw)(key, 0.7), draw(key, jnp.asarray(0.7)), rtol=1e-10)


def test_bad_input_is_refused():
    w = np.zeros((1, 2))
    for kernel in (Constant() + RBF(), Cosine(), RBF().on(0), RBF() * Matern32()):
        with pytest.raises(DataError, match="has no density; sample"):
            spectral_density(kernel, w)
    with pytest.raises(DataError, match="White has no spectral measure.*noise"):
        random_features(RBF() + White(), 4, 2)
    with pytest.raises(DataError, match="is not stationary.*inducing points"):
        random_features(Custom(lambda x, z: x @ z), 4, 2)
    with pytest.raises(DataError, match="orthogonal=False"):
        random_features(RBF() + Matern32(), 4, 2, orthogonal=True)
    with pytest.raises(DataError, match="on column 2, found inputs with 2"):
        random_features(RBF().on(2), 4, 2)
    with pytest.raises(DataError, match="2 lengthscales for inputs with 3"):
        random_features(RBF(ARD), 4, 3)
    with pytest.raises(DataError, match="number of frequencies.*found 0"):
        random_features(RBF(), 0, 2)
    with pytest.raises(DataError, match="at least 1, found 0"):
        random_features(RBF(), 4, 0)
    with pytest.raises(DataError, match="features are of 2 columns, found inputs with 3"):
        random_features(RBF(), 4, 2)(jnp.zeros((1, 3)))
    with pytest.raises(DataError, match="features are of 2 columns, found 3"):
        random_features(RBF(), 4, 2).size(3)
    with pytest.raises(DataError, match="infinite variance"):
        features_needed(Exponential(), 0.1, 0.1, 1.0, 1)
    with pytest.raises(DataError, match="probability strictly between 0 and 1, found 1"):
        features_needed(RBF(), 0.1, 1.0, 1.0, 1)
    with pytest.raises(DataError, match="epsilon and diameter must be positive"):
        features_needed(RBF(), -0.1, 0.1, 1.0, 1)
    with pytest.raises(DataError, match="too long a series"):
        random_features(RBF(1.0, 100.0).exp(), 4, 1)


def test_a_periodic_kernel_without_its_level_has_no_measure_that_credo_knows():
    """It would be that of `Periodic` without the harmonic of frequency zero, and was taken for that of `Periodic`."""
    with pytest.raises(DataError, match="spectral measure of CenteredPeriodic.* is not known"):
        CenteredPeriodic().spectral_measure(1)
