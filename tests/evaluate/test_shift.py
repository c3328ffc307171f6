"""Novelty and its area under the curve, against scikit-learn; held-out evidence against its definition."""

import numpy as np
import pytest
from scipy import special
from sklearn.metrics import roc_auc_score

import credo
from credo.core.errors import DataError
from credo.core.predictive import Mixture, Normal
from credo.evaluate import detect_shift, held_out_evidence, novelty
from credo.kernels import RBF

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=60)
GP = credo.GP(RBF(0.7), noise=0.02).condition(X[:40], Y[:40])


@pytest.mark.parametrize("by", ["epistemic", "share", "total"])
def test_shifted_rows_are_noticed(by):
    found = detect_shift(GP, X[40:], X[40:] + 4.0, by)
    label = np.repeat([0, 1], 20)
    want = roc_auc_score(label, np.concatenate([found.inside, found.shifted]))
    np.testing.assert_allclose(found.auroc, want)
    assert found.auroc > 0.95 and found.marked().mean() > 0.8
    same = detect_shift(GP, X[40:], X[40:], by)
    np.testing.assert_allclose(same.auroc, 0.5)


def test_novelty_is_ignorance():
    p = GP.predict(X[:3])
    np.testing.assert_array_equal(novelty(p), p.epistemic)
    np.testing.assert_allclose(novelty(p, "share"), np.asarray(p.epistemic / p.total))
    y = (Y > 0).astype(int)
    q = credo.Logistic().condition(X, y).predict(X[:3])
    np.testing.assert_allclose(novelty(q), q.epistemic)
    with pytest.raises(DataError, match="by must be one of epistemic, share, total"):
        novelty(p, "age")
    with pytest.raises(DataError, match="strictly between 0 and 1"):
        detect_shift(GP, X, X).marked(5.0)


def test_held_out_evidence_is_what_it_says():
    means, w = RNG.normal(size=(4, 6)), np.array([0.4, 0.3, 0.2, 0.1])
    y = RNG.normal(size=6)
    table = np.asarray(Normal(means, np.ones((4, 6)), np.zeros((4, 6))).log_prob(y))
    found = held_out_evidence(table)
    np.testing.assert_allclose(found.log_evidence, np.log(np.mean(np.exp(table.sum(1)))))
    np.testing.assert_allclose(found.bound, table.sum(1).mean())
    np.testing.assert_allclose(found.standard_error, table.sum(1).std(ddof=1) / 2)
    assert found.gap > 0
    each = [Normal(m, np.ones(6), np.zeros(6)) for m in means]
    assert held_out_evidence(each, y) == pytest.approx(found)
    mixed = held_out_evidence(Mixture(w, (Normal(means, np.ones((4, 6)), np.zeros((4, 6))),)), y)
    np.testing.assert_allclose(mixed.log_evidence, special.logsumexp(table.sum(1), b=w))
    np.testing.assert_allclose(mixed.bound, w @ table.sum(1))
    one = held_out_evidence(each[:1], y)
    assert one.gap == pytest.approx(0.0) and one.standard_error == np.inf


def test_evidence_that_has_no_draws_is_refused():
    with pytest.raises(DataError, match="does not show its draws"):
        held_out_evidence(GP.predict(X), Y)
    with pytest.raises(DataError, match="y is missing"):
        held_out_evidence([GP.predict(X)])
    with pytest.raises(DataError, match="has seen it already"):
        held_out_evidence(np.zeros((2, 3)), [0.0])
    with pytest.raises(DataError, match="table"):
        held_out_evidence(np.full((2, 2), np.nan))
