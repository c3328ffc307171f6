"""Records that were copied are learned from once, whatever the method."""

import numpy as np
import pytest

import credo
from credo.infer import Evidence
from credo.kernels import RBF, Matern32
from credo.models.gp import SKI, Fourier, Independent, Inducing, Neighbours, RandomFeatures, StateSpace
from credo.models.gp.data import Rows

N, COPIES = 200, 30
RNG = np.random.default_rng(5)
X = RNG.uniform(0, 10, (N, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=N)
X2, Y2 = (np.concatenate([v, v[:COPIES]]) for v in (X, Y))


def rows(y):
    return Rows(X2, y, *np.ones((2, len(y))), None)


@pytest.mark.parametrize(
    "using",
    [None, Evidence(starts=1), Inducing(20, rounds=1), RandomFeatures(20), SKI(12), Neighbours(5, terms=100)],
    ids=lambda using: type(using).__name__,
)
def test_copies_change_no_noise_that_is_learned(using):
    gp = credo.GP(Matern32(ard=True))
    once, twice = (credo.fit(gp, x, y, using=using, report=True) for x, y in ((X, Y), (X2, Y2)))
    np.testing.assert_allclose(twice.belief.noise_variance(), once.belief.noise_variance(), rtol=0.02)
    assert any(f"{COPIES} rows are copies" in note for note in twice.notes)
    assert not any("copies" in note for note in once.notes)


def test_copies_in_time_of_several_outputs_and_of_smooth_functions():
    for belief, x, y, using in (
        (credo.GP(Matern32()), X2[:, :1], Y2, StateSpace()),
        (credo.GP(RBF()), X2[:, :1], Y2, Fourier()),
        (Independent([credo.GP(Matern32())]), X2, Y2[:, None], None),
    ):
        learned = credo.learn(belief, x, y, using=using, report=True)
        assert any(f"{COPIES} rows are copies" in note for note in learned.notes)


def test_without_end_copies_want_less_noise():
    x, y = (np.concatenate([v, v, v[:60]]) for v in (X, Y))
    assert 0.06 < credo.fit(credo.GP(), x, y, using=Neighbours(10, predict=50, terms=200)).noise_variance() < 0.13


def test_what_agrees_by_chance_is_no_copy():
    assert rows(np.round(Y2)).without_copies().n == N + COPIES  # outcomes of few values
    assert rows(Y2 + 0.01 * (np.arange(N + COPIES) >= N)).without_copies().n == N + COPIES  # measured twice
    few = np.r_[0:20, 0:3]  # of few rows, too, two that agree are rare
    assert Rows(X[few], Y[few], *np.ones((2, 23)), None).without_copies().n == 20
    classes = credo.learn(credo.LatentGP(), X2[150:], (Y2[150:] > 0).astype(int), report=True)
    assert not any("copies" in note for note in classes.notes)
