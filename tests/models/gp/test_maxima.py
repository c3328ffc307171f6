"""Which of two maxima of the evidence is taken, and where a climb on more rows begins."""

import numpy as np
import pytest
from scipy import stats

from credo.infer.learning import Learned
from credo.kernels import RBF
from credo.models.gp import GP
from credo.models.gp.staged import _better, _noise_of_more

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(0, 6, size=(60, 1)), axis=0)
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=60)
FINE, COARSE = GP(RBF(0.8), 0.0, 0.01), GP(RBF(30.0), 0.0, 0.6)


def learned(belief, log_evidence):
    return Learned(belief, "converged", log_evidence, [], {}, ["as found"])


def left_out(belief):
    """log p(yᵢ | all others) by conditioning on all others."""
    out = []
    for i in range(len(Y)):
        p = belief.condition(np.delete(X, i, 0), np.delete(Y, i)).predict(X[i : i + 1])
        out.append(stats.norm.logpdf(Y[i], float(p.mean[0]), float(p.std[0])))
    return np.array(out)


@pytest.fixture(scope="module")
def rows():
    return FINE.statistics(X, Y)


def test_a_lower_maximum_that_predicts_what_is_left_out_clearly_better_is_taken(rows):
    gain = left_out(FINE) - left_out(COARSE)
    assert gain.sum() > 4 * np.sqrt(len(gain)) * gain.std(ddof=1)
    for pair in ((learned(FINE, -20.0), learned(COARSE, -10.0)), (learned(COARSE, -10.0), learned(FINE, -20.0))):
        taken = _better(*pair, rows)
        assert taken.belief is FINE and taken.log_evidence == -20.0
        assert taken.notes[0] == "as found" and f"by {gain.sum():.4g} in log density" in taken.notes[1]


def test_otherwise_the_higher_is(rows):
    assert _better(learned(FINE, -10.0), learned(COARSE, -20.0), rows).belief is FINE
    alike = GP(RBF(0.81), 0.0, 0.0101)  # predicts about as well
    assert _better(learned(FINE, -20.0), learned(alike, -10.0), rows).belief is alike
    assert _better(learned(FINE, -10.05), learned(COARSE, -10.0), rows).belief is COARSE  # taken for the same maximum


def test_twins_that_disagree_among_more_rows_bring_the_noise_back():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    y = np.sin(x[:, 0])
    sure = GP(RBF(1.0), noise=1e-15)
    agreed = sure.statistics(x, y)
    again = _noise_of_more(sure, agreed, (), {})
    assert again.log_evidence(x, y) >= sure.log_evidence(x, y)
    more = sure.statistics(np.concatenate([x, x[:5]]), np.append(y, y[:5] + 0.1))
    assert 1e-4 < float(_noise_of_more(sure, more, (), {}).noise) < 0.1
    usual = GP(RBF(1.0), noise=0.01)
    assert _noise_of_more(usual, more, (), {}) is usual
