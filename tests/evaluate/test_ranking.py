"""ROC and precision-recall curves against scikit-learn and counting; maximum and classwise calibration errors."""

import numpy as np
import pytest
from sklearn import metrics

from credo import evaluate, plots
from credo.core.predictive import Bernoulli, Categorical
from credo.errors import DataError

RNG = np.random.default_rng(3)
P = RNG.beta(1.5, 2.0, size=200)
Y = (RNG.uniform(size=200) < P).astype(int)
PREDICTION = Bernoulli.certain(P)
THREE = RNG.dirichlet([1.0, 2.0, 0.7], size=150)
KIND = np.array([RNG.choice(3, p=row) for row in THREE])


def test_curves_are_scikit_learns_and_what_counting_gives():
    roc, recall = evaluate.roc_curve(PREDICTION, Y), evaluate.precision_recall_curve(PREDICTION, Y)
    assert roc.area == pytest.approx(metrics.roc_auc_score(Y, P), rel=1e-12)
    above = (P[Y == 1][:, None] > P[Y == 0][None, :]).mean()
    assert roc.area == pytest.approx(above, rel=1e-12)
    assert recall.area == pytest.approx(metrics.average_precision_score(Y, P), rel=1e-12)
    for x, y, t in zip(roc.x[1:], roc.y[1:], roc.thresholds[1:], strict=True):
        assert x == pytest.approx((P[Y == 0] >= t).mean()) and y == pytest.approx((P[Y == 1] >= t).mean())
    for x, y, t in list(zip(recall.x, recall.y, recall.thresholds, strict=True))[1:]:
        assert x == pytest.approx((P[Y == 1] >= t).mean()) and y == pytest.approx(Y[t <= P].mean())
    assert roc.share == recall.share == Y.mean()


@pytest.mark.parametrize("curve", [evaluate.roc_curve, evaluate.precision_recall_curve])
def test_bands_hold_the_curve_of_many_rows(curve):
    """The curve of the law that rows came from lies in 90 % bands at about 90 % of the places, and so its area."""
    rng = np.random.default_rng(0)
    p = rng.beta(1.5, 2.0, size=20_000)
    truth = curve(Bernoulli.certain(p), rng.uniform(size=len(p)) < p, draws=1)
    inside, areas = [], []
    for i in range(40):
        some = slice(150 * i, 150 * (i + 1))
        found = curve(Bernoulli.certain(p[some]), rng.uniform(size=150) < p[some], level=0.9, draws=100, seed=i)
        middle = slice(20, 80)  # at the ends there is one value only
        wanted = 0.5 * (truth.lower + truth.upper)[middle]
        inside.append(((found.lower[middle] <= wanted) & (wanted <= found.upper[middle])).mean())
        areas.append(found.area_lower <= truth.area <= found.area_upper)
    assert 0.8 < np.mean(inside) < 0.98
    assert np.mean(areas) > 0.9 - 4.5 * np.sqrt(0.09 / 40)


def test_of_several_classes_one_is_named():
    prediction = Categorical.certain(THREE)
    found = evaluate.roc_curve(prediction, KIND, label=2)
    assert found.area == pytest.approx(metrics.roc_auc_score(KIND == 2, THREE[:, 2]), rel=1e-12)
    with pytest.raises(DataError, match="there are 3, give label="):
        evaluate.roc_curve(prediction, KIND)
    with pytest.raises(DataError, match="from 0 to 2, found 7"):
        evaluate.precision_recall_curve(prediction, KIND, label=7)
    with pytest.raises(DataError, match="needs rows of class 1 and others, found 0 of 5"):
        evaluate.roc_curve(PREDICTION[:5], np.zeros(5))


def test_maximum_and_classwise_calibration_errors():
    prediction = Categorical.certain(THREE)
    found = evaluate.classwise_calibration(prediction, KIND, bins=5)
    for k, diagram in enumerate(found.diagrams):
        at = np.minimum((THREE[:, k] * 5).astype(int), 4)
        gaps = [(np.mean(KIND[at == b] == k) - THREE[at == b, k].mean(), (at == b).sum()) for b in np.unique(at)]
        assert diagram.largest == pytest.approx(max(abs(gap) for gap, _ in gaps))
        assert found.errors[k] == pytest.approx(sum(abs(gap) * n for gap, n in gaps) / 150)
    assert found.error == pytest.approx(np.mean(found.errors))
    assert found.largest == max(d.largest for d in found.diagrams)
    largest = evaluate.maximum_calibration_error(PREDICTION, Y, bins=4)
    rank = np.argsort(np.argsort(P)) * 4 // 200
    assert largest == pytest.approx(max(abs(Y[rank == b].mean() - P[rank == b].mean()) for b in range(4)))
    assert largest >= evaluate.expected_calibration_error(PREDICTION, Y, bins=4, equal="count")


def test_the_plots_show_curve_band_and_area():
    for draw in (plots.roc, plots.precision_recall):
        ax = draw(PREDICTION, Y)
        said = [text.get_text() for text in ax.get_legend().get_texts()]
        assert any("95 % band" in s for s in said) and any(" to " in s for s in said)
