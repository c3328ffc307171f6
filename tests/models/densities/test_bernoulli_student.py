"""Yes/no columns and Student-t components against SciPy, alone and as components of mixtures."""

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.errors import DataError
from credo.infer import VariationalBayes
from credo.models.densities import Bernoulli, Columns, Gaussian, Observed, Student
from credo.models.densities.bernoulli import Betas

PROBS = np.array([[0.9, 0.8, 0.1, 0.2, 0.9], [0.1, 0.3, 0.9, 0.7, 0.2]])
SCALE = np.array([[1.0, 0.4], [0.4, 0.5]])


def bits(n, seed=0):
    rng = np.random.default_rng(seed)
    kind = (rng.random(n) < 0.4).astype(int)
    return kind, (rng.random((n, 5)) < PROBS[kind]).astype(float)


def test_bernoulli_against_scipy():
    x = np.array([[1.0, 0, 1, 1, 0], [0, 0, 0, 1, 1]])
    seen = np.array([[True] * 5, [True, False, True, True, False]])
    density = Bernoulli(PROBS)
    want = [[stats.bernoulli.logpmf(row[s], p[s]).sum() for p in PROBS] for row, s in zip(x, seen, strict=True)]
    data = Observed(np.where(seen, x, 0.0), seen)
    np.testing.assert_allclose(density.log_prob(data), want, rtol=1e-12)
    traced = eqx.filter_jit(lambda d, x, s: d.log_prob(Observed(x, s)))(density, data.x, data.seen)
    np.testing.assert_allclose(traced, want, rtol=1e-12)
    weight = np.array([[0.25, 0.75], [1.0, 0.5]])
    counts = density.expected_statistics(data, weight)
    np.testing.assert_allclose(counts.ones[:, 0], [0.25, 0.75])
    np.testing.assert_allclose(counts.zeros[:, 1], [0.25, 0.75])
    best = Bernoulli(PROBS, prior=(2.0, 3.0)).resized(2, 5).maximize(counts)
    np.testing.assert_allclose(best.probs[:, 0], [(1 + 0.25) / (3 + 1.25), (1 + 0.75) / (3 + 1.25)])


def test_the_evidence_of_bernoulli_is_that_of_beta_laws():
    _, x = bits(30)
    density = Bernoulli(prior=(1.5, 2.0)).resized(1, 5)
    before = density.prior
    after = density.variational_posterior(density.expected_statistics(Observed(x, x == x), np.ones((30, 1))))
    ones = x.sum(0)
    want = sum(np.log(stats.betabinom.pmf(m, 30, 1.5, 2.0) / stats.binom.pmf(m, 30, 0.5) * 0.5**30) for m in ones)
    assert float(density.log_marginal(before, after)) == pytest.approx(want, rel=1e-9)


def test_latent_classes_are_recovered_and_spare_ones_switched_off():
    kind, x = bits(600)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    found = credo.fit(credo.Mixture(2, Bernoulli()), x, missing=True)
    labels = found.labels(x, missing=True)
    assert np.mean(labels == kind) > 0.93
    error = np.sqrt(PROBS * (1 - PROBS) / (0.9 * 600 * np.array([[0.6], [0.4]])))
    assert np.all(np.abs(found.density.probs - PROBS) < 6 * error)
    p = found.predict([[np.nan, 1, 0, 0, 1]])
    assert float(p.mean[0]) > 0.8 and float(p.epistemic[0]) == pytest.approx(0.0, abs=1e-9)
    spare = credo.learn(credo.Mixture(4, Bernoulli()), x, missing=True, using=VariationalBayes(starts=1))
    assert np.sum(spare.weights > 0.02) == 2


def test_draws_of_bernoulli_are_of_its_beta_law():
    density = Bernoulli(prior=(1.5, 2.0)).resized(1, 1)
    counts = Betas(np.array([[3.0]]), np.array([[9.0]]))
    drawn = jax.vmap(lambda key: density.draw(key, counts).probs)(jr.split(jr.key(0), 2000)).ravel()
    assert stats.kstest(np.asarray(drawn), stats.beta(4.5, 11.0).cdf).pvalue > 1e-3
    several = density.several(density.variational_posterior(counts), 2000, 1).probs.ravel()
    assert stats.kstest(several, stats.beta(4.5, 11.0).cdf).pvalue > 1e-3


def test_bernoulli_refuses_what_is_neither_yes_nor_no():
    with pytest.raises(DataError, match="0 or 1 .*found 2 at row 1, column 0"):
        credo.fit(credo.Mixture(1, Bernoulli()), [[0.0, 1], [2, 0]])
    with pytest.raises(DataError, match="pair .a, b. of a Beta law"):
        Bernoulli(prior=(0.5, 1.0))
    with pytest.raises(DataError, match="between 0 and 1"):
        Bernoulli([[0.5, 1.2]])


def test_student_against_scipy():
    mean, df = np.array([[0.0, 1.0], [3.0, -1.0]]), 4.0
    density = Student(df, mean=mean, scale=np.stack([SCALE, 2 * SCALE]))
    x = np.random.default_rng(0).normal(size=(6, 2)) * 3
    want = np.stack(
        [stats.multivariate_t(m, s, df).logpdf(x) for m, s in zip(mean, (SCALE, 2 * SCALE), strict=True)], 1
    )
    seen = np.ones((6, 2), bool)
    for complete in (True, False):
        np.testing.assert_allclose(density.log_prob(Observed(x, seen, None, complete)), want, rtol=1e-10)
    seen[:, 1] = False
    marginal = stats.t.logpdf(x[:, :1], df, mean[:, 0], np.sqrt([1.0, 2.0]))
    np.testing.assert_allclose(density.log_prob(Observed(np.where(seen, x, 0), seen)), marginal, rtol=1e-10)
    p = density.resized(2, 2).predictive(np.array([[0.3, 0.7]]))
    np.testing.assert_allclose(p.mean, [[0.7 * 3, 0.3 - 0.7]], atol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_student_learns_what_made_the_rows(missing):
    rng = np.random.default_rng(3)
    x = stats.multivariate_t([5.0, -2.0], SCALE, 3.0).rvs(1500, random_state=rng)
    if missing:
        x[rng.random(x.shape) < 0.1] = np.nan
    found = credo.fit(credo.Mixture(1, Student(prior=None)), x, missing=missing).density
    assert np.all(np.abs(found.mean[0] - [5.0, -2.0]) < 5 * np.sqrt(2 * np.diag(SCALE) / 1500))
    assert np.abs(found.scale[0] - SCALE).max() < 0.15 and 2.3 < float(found.df[0]) < 4.0


def test_outliers_make_no_cluster_of_students():
    rng = np.random.default_rng(4)
    kind = rng.integers(2, size=300)
    x = np.array([[0.0, 0], [7, 7]])[kind] + rng.normal(size=(300, 2))
    x[:9] += rng.normal(size=(9, 2)) * 30
    robust = credo.fit(credo.Mixture(2, Student(4)), x)
    order = np.argsort(robust.density.mean[:, 0])
    np.testing.assert_allclose(robust.density.mean[order], [[0, 0], [7, 7]], atol=0.4)
    assert robust.log_evidence(x) > credo.fit(credo.Mixture(2), x).log_evidence(x) + 30
    assert np.all(robust.density.df == 4)
    assert robust.sample(5).shape == (5, 2)


def test_columns_of_every_kind_side_by_side_and_files(tmp_path):
    rng = np.random.default_rng(5)
    kind, flags = bits(200, seed=6)
    angles = np.where(kind == 0, 0.5, -2.0) + 0.3 * rng.normal(size=200)
    heavy = np.where(kind == 0, 0.0, 6.0) + rng.standard_t(3, 200)
    x = np.column_stack([flags, heavy, angles, rng.normal(size=200)])
    from credo.models.densities import VonMises

    both = Columns((Bernoulli(), range(5)), (Student(), 5), (VonMises(), 6), (Gaussian("diagonal"), 7))
    found = credo.fit(credo.Mixture(2, both), x)
    labels = found.labels(x)
    assert max(np.mean(labels == kind), np.mean(labels != kind)) > 0.99
    back = credo.load(credo.save(found, tmp_path / "m.credo"))
    np.testing.assert_array_equal(back.responsibilities(x), found.responsibilities(x))


def test_student_refuses_bad_numbers():
    with pytest.raises(DataError, match="df must lie between"):
        Student(0.1)
    with pytest.raises(DataError, match="mean and scale together"):
        Student(mean=[[0.0]])
    with pytest.raises(DataError, match="scale must have shape"):
        Student(mean=[[0.0, 1.0]], scale=SCALE)
