"""Passes on several cores against the same passes on one, for chains that forget and for one that never does."""

import numpy as np
import pytest

from credo.core import parts
from credo.models.densities import Gaussian
from credo.models.hmm import HMM, long, runs

T = 6000
FORGETS = [[0.9, 0.1, 0.0], [0.05, 0.9, 0.05], [0.1, 0.0, 0.9]]
NEVER = [[0.9999, 0.0001, 0.0], [0.0, 0.9999, 0.0001], [0.0, 0.0, 1.0]]


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(parts, "LONGEST_ALONE", 1024)
    monkeypatch.setattr(parts, "PIECE", 2048)
    monkeypatch.setattr(parts, "cores", lambda: 4)


@pytest.mark.parametrize("transition", [FORGETS, NEVER], ids=["forgets", "never"])
def test_parts_equal_the_whole(transition):
    hmm = HMM(3, Gaussian(np.ones((3, 1)), mean=[[-0.3], [0.0], [0.3]]), start=[1.0, 0.0, 0.0], transition=transition)
    rng = np.random.default_rng(1)
    x = np.repeat(rng.normal(size=T // 20), 20) + 0.5 * rng.normal(size=T)
    data = hmm.statistics(x, lengths=[2500, 10, T - 2510])
    assert [len(part) for part in parts.cut(len(data.first), 3)] == [4] * 4
    for _ in range(2):  # in one thread, which compiles, then in four
        for got, want in zip(long.filtered(hmm, data), runs.filtered(hmm, data), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-14)
        np.testing.assert_allclose(long.smoothed(hmm, data), runs.smoothed(hmm, data), rtol=1e-8, atol=1e-14)
        np.testing.assert_array_equal(long.best(hmm, data), runs.best(hmm, data))
