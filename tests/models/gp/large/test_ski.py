"""Kernel interpolation against dense matrices."""

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

import credo
import credo.models.gp.large.ski as ski
from credo.core import params
from credo.errors import DataError, NotConvergedWarning
from credo.kernels import RBF, Matern32, Matern52, White
from credo.models.gp import GP, SKI, Basis
from credo.models.gp.large.iterative import conjugate_gradients, log_determinant_parts

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=60)
QUERIES = RNG.uniform(-1.8, 1.8, size=(7, 2))
GP0 = GP(RBF([1.2, 2.0], 1.5), 0.3, 0.04)
SCALE = RNG.uniform(0.5, 2.0, size=60)


def keys(s):
    """Keys (1981), eq. 15."""
    s = abs(s)
    if s <= 1:
        return 1.5 * s**3 - 2.5 * s**2 + 1
    return -0.5 * s**3 + 2.5 * s**2 - 4 * s + 2 if s < 2 else 0.0


def hat(s):
    return max(1 - abs(s), 0.0)


def weights(lattice, x):
    """W, an entry at a time."""
    shape = keys if lattice.cubic else hat
    return np.asarray([[np.prod([shape(v) for v in (row - u) / lattice.step]) for u in lattice.nodes] for row in x])


def interpolated(gp, lattice, x, y, queries, noise):
    """The n × n formula of the interpolated kernel."""
    w, v, k = weights(lattice, x), weights(lattice, queries), np.asarray(gp.kernel(lattice.nodes))
    rows = cho_factor(w @ k @ w.T + np.diag(noise))
    r = y - np.asarray(gp.mean.at(x))
    cross = v @ k @ w.T
    mean = np.asarray(gp.mean.at(queries)) + cross @ cho_solve(rows, r)
    log_det = 2 * np.log(np.diag(rows[0])).sum()
    evidence = -0.5 * (len(y) * np.log(2 * np.pi) + log_det + r @ cho_solve(rows, r))
    return mean, v @ k @ v.T - cross @ cho_solve(rows, cross.T), evidence


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("interpolation", ["cubic", "linear"])
def test_it_is_the_dense_formula(interpolation, exact, monkeypatch):
    monkeypatch.setattr(ski, "EXACT_NODES", 1000 if exact else 10)
    method = SKI((9, 10), interpolation, tolerance=1e-10)
    after = GP0.condition(X, Y, weights=1 / SCALE, using=method)
    mean, covariance, evidence = interpolated(GP0, after.lattice, X, Y, QUERIES, 0.04 * SCALE)
    p = after.predict(QUERIES, joint=True)
    np.testing.assert_allclose(p.mean, mean, atol=1e-6)
    np.testing.assert_allclose(p.latent_covariance, covariance, atol=1e-6)
    np.testing.assert_allclose(after.predict(QUERIES).epistemic, np.diag(covariance), atol=1e-6)
    np.testing.assert_allclose(after.covariance(QUERIES[:3], QUERIES), covariance[:3], atol=1e-6)
    if exact:
        np.testing.assert_allclose(after.unconditioned().log_evidence(X, Y, weights=1 / SCALE), evidence, rtol=1e-6)


def test_white_noise_in_the_kernel_is_not_interpolated():
    with pytest.raises(DataError, match="add its variance to the noise"):
        GP(RBF(1.0, 1.0) + White(0.1), 0.0, 0.1).condition(X, Y, using=SKI(10))


def test_many_variances_are_those_of_few(monkeypatch):
    """Of many nodes: few queries by conjugate gradients, many by the covariance of all nodes."""
    monkeypatch.setattr(ski, "EXACT_NODES", 10)
    after = GP0.condition(X, Y, using=SKI((9, 10), tolerance=1e-12))
    few = after.predict(QUERIES)
    monkeypatch.setattr(ski, "WORTH", 9e9)
    monkeypatch.setattr(ski, "conjugate_gradients", None)
    many = after.predict(QUERIES)
    np.testing.assert_allclose(many.mean, few.mean)
    np.testing.assert_allclose(many.epistemic, few.epistemic, rtol=1e-6)


@pytest.mark.parametrize("d", [1, 3])
def test_weights_bands_and_products(d):
    x, u, v = RNG.uniform(size=(20, d)), RNG.uniform(size=20), RNG.normal(size=(9 * 8 ** (d - 1), 2))
    lattice = SKI((9, 8, 8)[:d]).lay(x)
    w = weights(lattice, x)
    bands, gram = lattice.bands(x, u), w.T @ (u[:, None] * w)
    np.testing.assert_allclose(lattice(x), w, atol=1e-12)
    np.testing.assert_allclose(lattice.sparse(x).toarray(), w, atol=1e-12)
    np.testing.assert_allclose(lattice.dense(bands), gram, atol=1e-12)
    np.testing.assert_allclose(lattice.banded(gram), bands, atol=1e-12)
    np.testing.assert_allclose(lattice.multiply(bands)(v), gram @ v, atol=1e-12)
    np.testing.assert_allclose(lattice.quadratic(x, bands), np.diag(w @ gram @ w.T), atol=1e-12)
    kernel = Matern52(0.3)
    table, k = np.asarray(kernel(lattice.differences, np.zeros((1, d))))[:, 0], np.asarray(kernel(lattice.nodes))
    np.testing.assert_allclose(lattice.matrix(table), k, atol=1e-12)
    np.testing.assert_allclose(lattice.convolve(table)(v), k @ v, atol=1e-10)
    slope = v @ np.diag([2.0, -1.0]) @ v.T
    np.testing.assert_allclose(lattice.pull_products(v, np.asarray([2.0, -1.0])), lattice.pull_matrix(slope), atol=1e-9)


def test_krylov_methods():
    k, a = (m @ m.T / 30 for m in RNG.normal(size=(2, 30, 30)))
    c = RNG.normal(size=(30, 3))
    solved = conjugate_gradients(lambda v: k @ v, lambda v: a @ v, c, 1e-10)
    np.testing.assert_allclose(solved, np.linalg.solve(np.eye(30) + a @ k, c), atol=1e-7)
    parts = [part.value for part in log_determinant_parts(lambda v: k @ v, 30, 400, 30, 0)]
    wanted = np.linalg.slogdet(np.eye(30) + k)[1]
    assert abs(sum(parts) - wanted) < 4.5 * np.std(parts, ddof=1) * np.sqrt(400)


@pytest.mark.parametrize("errors", [None, np.linspace(0.1, 0.3, 60)])
@pytest.mark.parametrize("exact", [True, False])
def test_the_gradient_is_that_of_the_evidence(exact, errors, monkeypatch):
    monkeypatch.setattr(ski, "EXACT_NODES", 1000 if exact else 10)
    gp = GP(RBF([0.8, 1.5], 1.3), noise=0.07)
    options = {"weights": 1 / SCALE, "errors": errors}
    belief, rows = SKI((9, 10), tolerance=1e-12).adapt(*gp.prepare(X, Y, **options))
    belief = belief.placed(rows)
    slots, priors = params.layout(belief), belief.default_priors(rows)
    objective = belief.objective(slots, rows, priors)
    at = np.asarray(params.to_vector(belief, slots))
    value, slope = objective.value_and_grad(at)
    assert value == pytest.approx(float(belief.evidence_of(rows)) + float(params.log_prior(belief, priors)), rel=1e-10)
    for i, axis in enumerate(1e-4 * np.eye(len(at))):
        difference = (objective.value(at + axis) - objective.value(at - axis)) / 2e-4
        assert slope[i] == pytest.approx(difference, rel=1e-4, abs=1e-4)


def test_it_comes_to_the_exact_posterior_as_the_grid_is_refined():
    wanted = GP0.condition(X, Y).predict(QUERIES)
    evidence = float(GP0.log_evidence(X, Y))
    off = []
    for m in (10, 20, 40):
        after = GP0.condition(X, Y, using=SKI(m))
        p = after.predict(QUERIES)
        told = float(after.unconditioned().log_evidence(X, Y))
        off.append([np.abs(p.mean - wanted.mean).max(), np.abs(p.epistemic - wanted.epistemic).max(), told - evidence])
    off = np.abs(off)
    assert np.all(off[:-1, :2] > 4 * off[1:, :2]) and np.all(off[2] < [3e-4, 3e-4, 0.03])


@pytest.mark.parametrize("exact", [True, False])
def test_more_rows_are_added_without_the_first(exact, monkeypatch):
    monkeypatch.setattr(ski, "EXACT_NODES", 1000 if exact else 10)
    method = SKI((9, 10), box=((-2, 2), (-2, 2)), tolerance=1e-9)
    whole = GP0.condition(X, Y, using=method)
    halves = GP0.condition(X[:35], Y[:35], using=method).condition(X[35:], Y[35:])
    np.testing.assert_allclose(halves.predict(QUERIES).mean, whole.predict(QUERIES).mean, atol=1e-6)
    assert halves.seen.n == 60
    added = GP0.condition(X[:35], Y[:35], using=method).log_evidence(X[35:], Y[35:])
    apart = [float(whole.unconditioned().log_evidence(X[:k], Y[:k])) for k in (35, 60)]
    np.testing.assert_allclose(added, apart[1] - apart[0], atol=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_functions_have_the_law_of_the_posterior(exact, monkeypatch):
    monkeypatch.setattr(ski, "EXACT_NODES", 1000 if exact else 10)
    after = GP0.condition(X, Y, using=SKI((12, 12)))
    draws = np.asarray(after.sample_functions(1000, features=4096, seed=2)(QUERIES))
    p = after.predict(QUERIES)
    assert np.all(np.abs(draws.mean(0) - p.mean) < 4.5 * draws.std(0, ddof=1) / np.sqrt(1000))
    np.testing.assert_allclose(draws.var(0), p.epistemic, rtol=0.25, atol=1e-3)


@pytest.mark.parametrize("exact", [True, False])
def test_it_learns_what_exact_learning_does(exact, monkeypatch):
    monkeypatch.setattr(ski, "EXACT_NODES", 1000 if exact else 10)
    report = credo.fit(GP(RBF()), X, Y, using=SKI(25, tolerance=1e-8), report=True)
    exact_one = credo.fit(GP(RBF()), X, Y, using=credo.infer.Evidence(starts=1))
    assert "25 × 25 nodes" in report.notes[-1]
    close = 0.03 if exact else 0.1
    np.testing.assert_allclose(report.belief.predict(QUERIES).mean, exact_one.predict(QUERIES).mean, atol=close)


def test_what_it_cannot_do_is_said():
    with pytest.raises(DataError, match="up to 3 inputs"):
        GP(RBF()).condition(np.zeros((3, 4)), np.zeros(3), using=SKI())
    with pytest.raises(DataError, match="stationary kernel and a constant mean"):
        GP(RBF(), Basis(covariance=2.0)).condition(X, Y, using=SKI())
    with pytest.raises(DataError, match="outside the grid, which reaches over"):
        GP(Matern32()).condition(X, Y, using=SKI()).predict([[5.0, 0.0]])
    with pytest.raises(DataError, match="an entry for each of 2 inputs"):
        GP(RBF()).condition(X, Y, using=SKI((10, 10, 10)))
    with pytest.raises(DataError, match="shape must be a whole number"):
        SKI(3)


def test_a_grid_that_is_too_coarse_says_so():
    x = np.linspace(0, 10, 50)[:, None]
    gp = credo.GP(RBF(0.3, 1.0), 0.0, noise=0.1)
    with pytest.warns(NotConvergedWarning, match=r"midway between its 12 nodes there is \d+% of the kernel's variance"):
        gp.condition(x, np.sin(x[:, 0]), using=SKI(12))
    gp.condition(x, np.sin(x[:, 0]), using=SKI(100))  # no warning
