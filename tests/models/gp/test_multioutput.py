"""Several outputs: the coregionalized kernel, MultiGP and Independent against dense NumPy."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import credo
from credo.errors import DataError
from credo.kernels import RBF, InputScales, Matern52, check_kernel
from credo.kernels.coregion import Coregionalized
from credo.models.gp import GP
from credo.models.gp.independent import Independent
from credo.models.gp.multioutput import MultiGP, OutputMeans, start_loadings

RNG = np.random.default_rng(21)
X = RNG.normal(size=(14, 2))
Y = RNG.normal(size=(14, 3)) + X @ RNG.normal(size=(2, 3))
Y[RNG.uniform(size=Y.shape) < 0.25] = np.nan
QUERIES = RNG.normal(size=(4, 2))
LOADINGS = RNG.normal(size=(2, 3, 2))
KAPPA = RNG.uniform(0.2, 0.6, size=(2, 3))
NOISE = np.array([0.1, 0.3, 0.7])


def kernel() -> Coregionalized:
    return Coregionalized([RBF(0.9), Matern52(1.7)], LOADINGS, KAPPA)


def belief() -> MultiGP:
    return MultiGP(kernel(), noise=NOISE, mean=OutputMeans(np.array([0.5, -1.0, 2.0]), np.array([0.3, 0.2, 0.1])))


def dense(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The covariance of all outputs, (n, p, m, p), written out."""
    grams = [np.asarray(k(x, z)) for k in (RBF(0.9), Matern52(1.7))]
    out = np.zeros((len(x), 3, len(z), 3))
    for i in range(3):
        for j in range(3):
            for q in range(2):
                b = LOADINGS[q, i] @ LOADINGS[q, j] + (KAPPA[q, i] if i == j else 0.0)
                out[:, i, :, j] += b * grams[q]
            out[:, i, :, j] += [0.3, 0.2, 0.1][i] if i == j else 0.0
    return out


def oracle() -> tuple[np.ndarray, np.ndarray, float]:
    there = ~np.isnan(Y).ravel()
    k = dense(X, X).reshape(42, 42)[np.ix_(there, there)] + np.diag(np.tile(NOISE, 14)[there])
    r = (Y - [0.5, -1.0, 2.0]).ravel()[there]
    cross = dense(QUERIES, X).reshape(12, 42)[:, there]
    mean = np.tile([0.5, -1.0, 2.0], 4) + cross @ np.linalg.solve(k, r)
    covariance = dense(QUERIES, QUERIES).reshape(12, 12) - cross @ np.linalg.solve(k, cross.T)
    return mean.reshape(4, 3), covariance, float(stats.multivariate_normal.logpdf(r, np.zeros(len(r)), k))


def test_the_kernel_keeps_its_promises():
    check_kernel(kernel(), np.column_stack([RNG.normal(size=(12, 2)), np.arange(12) % 3]))
    x = np.column_stack([np.repeat(X[:5], 3, axis=0), np.tile(np.arange(3), 5)])
    mean_part = np.kron(np.ones((5, 5)), np.diag([0.3, 0.2, 0.1]))
    np.testing.assert_allclose(kernel()(x), dense(X[:5], X[:5]).reshape(15, 15) - mean_part, rtol=1e-10, atol=1e-12)


def test_amplitudes_move_into_the_loadings_and_sums_are_taken_apart():
    both = Coregionalized(2.0 * RBF(0.9) + 3.0 * Matern52(1.7), LOADINGS, KAPPA)
    assert len(both.kernels) == 2 and set(credo.core.params.learnable(both)) == {
        "kernels.0.lengthscale", "kernels.1.lengthscale", "loadings", "kappa",
    }  # fmt: skip
    x = np.column_stack([X, np.arange(14) % 3])
    parts = Coregionalized(RBF(0.9), LOADINGS[0], KAPPA[0])(x), Coregionalized(Matern52(1.7), LOADINGS[1], KAPPA[1])(x)
    np.testing.assert_allclose(both(x), 2 * parts[0] + 3 * parts[1], rtol=1e-10)


def test_a_gp_takes_the_kernel_on_stacked_rows():
    x = np.column_stack([np.repeat(X, 3, axis=0), np.tile(np.arange(3), 14)])
    gp = GP(kernel(), 0.0, 0.3).condition(x, Y.ravel())
    multi = MultiGP(kernel(), noise=0.3).condition(X, Y)
    np.testing.assert_allclose(gp.predict(x).std, multi.predict(X).std.ravel(), rtol=1e-8)
    adapted = kernel().adapt(InputScales.of(10 * x, 5.0))
    np.testing.assert_array_equal(adapted.loadings, kernel().loadings)


def test_predictions_and_evidence_are_those_of_the_dense_formula():
    mean, covariance, log_evidence = oracle()
    np.testing.assert_allclose(belief().log_evidence(X, Y), log_evidence, rtol=1e-8)
    p = belief().condition(X, Y).predict(QUERIES, joint=True)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(p.latent_covariance, covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(p.epistemic, np.diag(covariance).reshape(4, 3), rtol=1e-8)
    np.testing.assert_allclose(p.std, np.sqrt(np.diag(covariance).reshape(4, 3) + NOISE), rtol=1e-8)
    prior = belief().predict(QUERIES)
    np.testing.assert_allclose(prior.epistemic.ravel(), np.diag(dense(QUERIES, QUERIES).reshape(12, 12)), rtol=1e-8)


def test_twice_is_once():
    whole = belief().condition(X, Y)
    parts = belief().condition(X[:9], Y[:9]).condition(X[9:], Y[9:])
    for a, b in zip((whole, parts), (parts, whole), strict=True):
        np.testing.assert_allclose(a.predict(QUERIES).mean, b.predict(QUERIES).mean, rtol=1e-8)
        np.testing.assert_allclose(a.predict(QUERIES).std, b.predict(QUERIES).std, rtol=1e-8)
    assert parts.seen.n == whole.seen.n == (~np.isnan(Y)).sum()
    again = parts.condition(X[:1] + 0.5, Y[:1] * 0 + 1.0)  # the rows of an extended belief can be extended
    direct = belief().condition(np.vstack([X, X[:1] + 0.5]), np.vstack([Y, Y[:1] * 0 + 1.0]))
    np.testing.assert_allclose(again.predict(QUERIES).mean, direct.predict(QUERIES).mean, rtol=1e-8)


def test_weights_divide_the_noise():
    a = belief().condition(X[:2], np.ones((2, 3)), weights=[1.0, 2.0])
    b = belief().condition(X[[0, 1, 1]], np.ones((3, 3)))  # the same outcome twice is one with half the noise
    np.testing.assert_allclose(a.predict(QUERIES).mean, b.predict(QUERIES).mean, rtol=1e-7)


def test_independent_outputs_are_single_gps():
    gps = [GP(RBF(0.9, 1.5), 0.0, 0.1), GP(Matern52(1.7), 0.0, 0.3), GP(RBF(0.5), 1.0, 0.7)]
    both = Independent(gps)
    after = both.condition(X, Y)
    p = after.predict(QUERIES, joint=True)
    total = 0.0
    for j, gp in enumerate(gps):
        there = ~np.isnan(Y[:, j])
        single = gp.condition(X[there], Y[there, j]).predict(QUERIES, joint=True)
        np.testing.assert_allclose(p.mean[:, j], single.mean, rtol=1e-10)
        np.testing.assert_allclose(p.std[:, j], single.std, rtol=1e-10)
        np.testing.assert_allclose(
            p.latent_covariance.reshape(4, 3, 4, 3)[:, j, :, j], single.latent_covariance, atol=1e-12
        )
        total += float(gp.log_evidence(X[there], Y[there, j]))
    np.testing.assert_allclose(p.latent_covariance.reshape(4, 3, 4, 3)[:, 0, :, 1], 0.0)
    np.testing.assert_allclose(both.log_evidence(X, Y), total, rtol=1e-10)
    more = after.condition(X[:2], np.array([[1.0, np.nan, 2.0], [0.0, np.nan, 1.0]]))
    np.testing.assert_array_equal(more.predict(QUERIES).mean[:, 1], p.mean[:, 1])


def test_without_shared_functions_multigp_is_independent():
    kappa = np.array([1.0, 2.0])
    multi = MultiGP(Coregionalized(RBF(0.9), np.zeros((2, 1)), kappa), noise=[0.1, 0.3])
    single = Independent([GP(RBF(0.9, k), 0.0, v) for k, v in zip(kappa, [0.1, 0.3], strict=True)])
    np.testing.assert_allclose(multi.log_evidence(X, Y[:, :2]), single.log_evidence(X, Y[:, :2]), rtol=1e-8)
    a, b = (each.condition(X, Y[:, :2]).predict(QUERIES) for each in (multi, single))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-8)
    np.testing.assert_allclose(a.std, b.std, rtol=1e-8)


def half_observed() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two outputs of one function; the second is seen on the left half only. Means of 100 and scales 1 and 20."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 8, size=40))[:, None]
    f = np.sin(1.3 * x[:, 0]) + 0.5 * np.cos(2.9 * x[:, 0])
    truth = np.column_stack([f, 100 - 20 * f + 1.0 * np.sin(x[:, 0])])
    y = truth + [0.1, 2.0] * rng.normal(size=truth.shape)
    hidden = x[:, 0] > 4
    y[hidden, 1] = np.nan
    return x, y, truth, hidden


def test_correlated_outputs_borrow_strength():
    x, y, truth, hidden = half_observed()
    multi = credo.fit(MultiGP(RBF(), outputs=2), x, y, report=True)
    assert multi.status == "converged"
    single = credo.fit(Independent([GP(RBF()), GP(RBF())]), x, y)
    p, q = multi.belief.predict(x[hidden]), single.predict(x[hidden])
    wrong = [np.sqrt(np.mean((np.asarray(each.mean)[:, 1] - truth[hidden, 1]) ** 2)) for each in (p, q)]
    assert wrong[0] < 0.4 * wrong[1]
    assert float(np.asarray(multi.belief.correlation())[0, 1]) < -0.8
    assert np.mean(np.asarray(p.epistemic)[:, 1]) < np.mean(np.asarray(q.epistemic)[:, 1])
    assert np.abs((np.asarray(p.mean)[:, 1] - truth[hidden, 1]) / np.sqrt(np.asarray(p.epistemic)[:, 1])).max() < 4.5


def test_starting_loadings_are_the_correlation_in_the_units_of_the_outputs():
    x, y, _, _ = half_observed()
    a, kappa = start_loadings(y, 1, 2, 1)
    b = a[0] @ a[0].T + np.diag(kappa[0])
    np.testing.assert_allclose(np.diag(b), np.nanvar(y, axis=0), rtol=1e-10)
    assert b[0, 1] / np.sqrt(b[0, 0] * b[1, 1]) < -0.7
    prepared, _ = MultiGP(RBF(), outputs=2).prepare(x, y)
    np.testing.assert_allclose(prepared.kernel.loadings, a)
    given, _ = MultiGP(Coregionalized(RBF(), [[1.0], [2.0]], 0.4)).prepare(x, y)
    np.testing.assert_allclose(given.kernel.loadings, [[[1.0], [2.0]]])


def test_several_kernels_and_ranks_learn_and_names_are_kept():
    x, y, _, _ = half_observed()
    table = pd.DataFrame(x, columns=["depth"])
    climb = credo.infer.Evidence(starts=1, max_steps=500, gain=1e-7)
    after = credo.fit(MultiGP([RBF(), Matern52()], outputs=2, rank=2), table, y, using=climb)
    assert after.inputs == ("depth",) and after.kernel.loadings.shape == (2, 2, 2)
    assert np.all(np.isfinite(after.predict(table).std))


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (lambda: MultiGP(RBF()), "outputs"),
        (lambda: MultiGP(RBF(), outputs=2, noise=[1.0, -1.0]), "positive variance"),
        (lambda: MultiGP(kernel(), outputs=2), "3 outputs"),
        (lambda: Coregionalized(RBF(), np.zeros((2, 3, 1))), "loadings must have shape"),
        (lambda: Coregionalized(RBF(), np.zeros((3, 1)), -1.0), "kappa"),
        (lambda: Coregionalized([], np.zeros((3, 1))), "takes a kernel"),
        (lambda: kernel()(np.array([[0.0, 0.0, 3.0]])), "found 3 at row 0"),
        (lambda: kernel()(np.array([[0.0]])), "number of the output"),
        (lambda: belief().condition(X, Y[:, :2]), "shape (n, 3)"),
        (lambda: belief().condition(X[:3], Y), "one row for each row of X"),
        (lambda: belief().condition(X, Y * np.nan), "missing"),
        (lambda: belief().condition(X), "X and Y"),
        (lambda: Independent([]), "takes a GP"),
        (lambda: Independent([GP(), GP()]).condition(X), "X and Y"),
        (lambda: credo.fit(Independent([GP(), GP()]), X, Y[:, :2] * [1.0, np.nan]), "output 1 is missing"),
    ],
)
def test_bad_input_is_refused(job, says):
    with pytest.raises(DataError, match=re.escape(says)):
        job()
