"""HeteroscedasticGP against quadrature, NumPy and the Gaussian process it becomes when the noise is constant."""

import jax
import numpy as np
import pytest
from scipy import optimize, stats

import credo
from credo.core import params
from credo.kernels import RBF
from credo.models.gp import GP
from credo.models.gp.heteroscedastic import HeteroscedasticGP, infer

RNG = np.random.default_rng(11)
X = RNG.uniform(0, 6, size=(30, 1))
Y = np.sin(X[:, 0]) + np.exp(0.5 * (-4 + 0.8 * X[:, 0])) * RNG.normal(size=30)
QUERIES = np.linspace(0.5, 5.5, 7)[:, None]


def belief() -> HeteroscedasticGP:
    return HeteroscedasticGP(GP(RBF(1.0, 1.5), 0.2), GP(RBF(2.0, 0.8), -1.5))


def test_the_mode_is_the_one_that_scipy_finds():
    k, k_g = np.asarray(RBF(1.0, 1.5)(X)), np.asarray(RBF(2.0, 0.8)(X))
    root = np.linalg.cholesky(k_g + 1e-10 * np.eye(30))

    def negative(v: np.ndarray) -> float:
        g = -1.5 + root @ v
        return float(0.5 * v @ v - stats.multivariate_normal.logpdf(Y, np.full(30, 0.2), k + np.diag(np.exp(g))))

    found = optimize.minimize(negative, np.zeros(30), method="BFGS", options={"gtol": 1e-5})
    own = belief()
    got = infer(own.function.prior, own.log_noise.prior, own.statistics(X, Y))
    assert bool(got.ok) and float(got.change) < 1e-10
    np.testing.assert_allclose(np.asarray(got.log_noise)[:30], -1.5 + root @ found.x, atol=1e-4)


def test_the_posterior_is_the_formula():
    after = belief().condition(X, Y)
    k, k_g = np.asarray(RBF(1.0, 1.5)(X)), np.asarray(RBF(2.0, 0.8)(X))
    cross_g, cross = np.asarray(RBF(2.0, 0.8)(QUERIES, X)), np.asarray(RBF(1.0, 1.5)(QUERIES, X))
    at_data = after.predict_log_noise(X)
    d = np.exp(np.asarray(at_data.mean))
    b = np.linalg.inv(k + np.diag(d))
    alpha = b @ (Y - 0.2)
    slope, information = 0.5 * d * (alpha**2 - np.diag(b)), 0.5 * np.outer(d, d) * b**2
    g = after.predict_log_noise(QUERIES)
    np.testing.assert_allclose(g.mean, -1.5 + cross_g @ slope, rtol=1e-7)
    inner = np.linalg.inv(k_g + np.linalg.inv(information))
    np.testing.assert_allclose(g.epistemic, 0.8 - np.einsum("ij,jk,ik->i", cross_g, inner, cross_g), rtol=1e-7)
    p = after.predict(QUERIES, joint=True)
    np.testing.assert_allclose(p.mean, 0.2 + cross @ alpha, rtol=1e-7)
    np.testing.assert_allclose(p.latent_covariance, np.asarray(RBF(1.0, 1.5)(QUERIES)) - cross @ b @ cross.T, atol=1e-8)
    np.testing.assert_allclose(np.diag(p.latent_covariance), p.epistemic, rtol=1e-7)
    np.testing.assert_allclose(p.aleatoric, np.exp(np.asarray(g.mean) + 0.5 * np.asarray(g.epistemic)), rtol=1e-12)


def test_the_evidence_is_near_that_by_quadrature():
    own = HeteroscedasticGP(GP(RBF(1.0, 1.5), 0.2), GP(RBF(2.0, 0.5), -1.5))
    x, y = np.array([[0.0], [1.5]]), np.array([0.9, -0.4])
    k, root = np.asarray(RBF(1.0, 1.5)(x)), np.linalg.cholesky(np.asarray(RBF(2.0, 0.5)(x)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    total = 0.0
    for a, wa in zip(nodes, weights, strict=True):
        for b, wb in zip(nodes, weights, strict=True):
            noise = np.exp(-1.5 + root @ [a, b])
            total += wa * wb / (2 * np.pi) * stats.multivariate_normal.pdf(y, [0.2, 0.2], k + np.diag(noise))
    np.testing.assert_allclose(own.log_evidence(x, y), np.log(total), atol=0.02)


def test_the_gradient_follows_the_mode():
    own = belief()
    rows, slots = own.statistics(X, Y), params.layout(own)
    assert [s.path for s in slots] == [
        f"{part}.kernel.{n}" for part in ("function", "log_noise") for n in ("lengthscale", "variance")
    ]
    u = params.to_vector(own, slots)
    value = jax.jit(lambda v: params.from_vector(own, slots, v).evidence_of(rows))
    gradient = jax.jit(jax.grad(lambda v: params.from_vector(own, slots, v).evidence_of(rows)))(u)
    numeric = [(float(value(u + h)) - float(value(u - h))) / 2e-4 for h in 1e-4 * np.eye(len(u))]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_with_constant_noise_it_is_a_gp():
    own = HeteroscedasticGP(GP(RBF(1.2, 1.0), 0.0), GP(RBF(1.0, 1e-10), float(np.log(0.04))))
    gp = GP(RBF(1.2, 1.0), 0.0, 0.04)
    np.testing.assert_allclose(own.log_evidence(X, Y), gp.log_evidence(X, Y), rtol=1e-6)
    a, b = own.condition(X, Y).predict(QUERIES), gp.condition(X, Y).predict(QUERIES)
    for name in ("mean", "aleatoric", "epistemic"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_fit_recovers_the_noise_and_covers():
    rng = np.random.default_rng(4)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = rng.uniform(0, 6, size=(n, 1))
        log_noise = -4.0 + 4.0 / (1 + np.exp(-3 * (x[:, 0] - 3)))
        return x, 3 * np.sin(x[:, 0]) + np.exp(0.5 * log_noise) * rng.normal(size=n), log_noise

    x, y, _ = draw(120)
    report = credo.fit(HeteroscedasticGP(GP(RBF())), x, y, report=True)
    assert report.status == "converged"
    x_new, y_new, log_noise = draw(400)
    p = report.belief.predict(x_new)
    assert np.corrcoef(np.log(np.asarray(p.aleatoric)), log_noise)[0, 1] > 0.9
    lower, upper = p.interval(0.95)
    inside = (y_new >= np.asarray(lower)) & (y_new <= np.asarray(upper))
    for part in (x_new[:, 0] < 2, x_new[:, 0] > 4):
        # The noise level of a part is known from about 40 rows: ±0.22 in its log, some 3 % in coverage.
        se = np.hypot(np.sqrt(0.95 * 0.05 / part.sum()), 0.03)
        assert abs(inside[part].mean() - 0.95) < 3 * se
    gaussian = credo.fit(GP(RBF()), x, y)
    assert float(p.log_prob(y_new).mean()) > float(gaussian.predict(x_new).log_prob(y_new).mean()) + 0.2


def test_bad_input_is_refused():
    with pytest.raises(credo.errors.DataError, match="two GPs"):
        HeteroscedasticGP(GP(RBF()).condition(X, Y))
    with pytest.raises(credo.errors.DataError, match="X must have 1 columns"):
        belief().condition(X, Y).predict(np.zeros((2, 3)))
