"""Which method many rows are given, and that it is said."""

import numpy as np
import pytest

import credo
import credo.models.gp.data as data
import credo.models.gp.large.choice as choice
from credo.errors import DataError
from credo.kernels import RBF, Matern52
from credo.models.gp import (
    GP,
    Exact,
    Fourier,
    Inducing,
    InducingGP,
    Neighbours,
    NeighboursGP,
    StateSpace,
    StateSpaceGP,
    choose_method,
)

RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("n", "d", "kernel", "method"),
    [
        (100, 2, RBF(), Exact()),
        (5001, 1, Matern52(), StateSpace()),
        (5001, 1, RBF(), Fourier()),
        (5001, 3, Matern52(), Neighbours(20)),
        (5001, 4, Matern52(), choice.NeighboursOrInducing(30)),
        (20_001, 4, Matern52(), Neighbours(30)),
    ],
)
def test_the_table(n, d, kernel, method):
    gp = GP(kernel)
    found = choose_method(gp, gp.statistics(np.zeros((n, d)), np.zeros(n)))
    assert found.method == method and f"{n:,} rows" in found.why
    assert ("Inducing(300)" in found.why) == isinstance(method, choice.NeighboursOrInducing)


def test_fit_chooses_and_says_so(monkeypatch):
    monkeypatch.setattr(choice, "EXACT_ROWS", 50)
    x = RNG.uniform(size=(80, 2))
    y = np.sin(6 * x[:, 0]) + 0.1 * RNG.normal(size=80)
    report = credo.fit(GP(Matern52()), x, y, report=True)
    assert isinstance(report.belief, NeighboursGP) and report.belief.method == Neighbours(20)
    assert "80 rows, more than 50: Neighbours(20)" in report.notes[0]
    assert np.mean((report.belief.predict(x).mean - y) ** 2) < 0.02
    exact = credo.fit(GP(Matern52()), x, y, using=credo.infer.Evidence(starts=1))
    assert type(exact) is GP and exact.method == Exact()


def test_one_input_is_a_state(monkeypatch):
    monkeypatch.setattr(choice, "EXACT_ROWS", 50)
    x = RNG.uniform(size=(80, 1))
    assert isinstance(credo.fit(GP(Matern52()), x, np.sin(6 * x[:, 0])), StateSpaceGP)


def test_exact_is_what_there_is():
    x = RNG.uniform(size=(20, 2))
    gp = GP(RBF(), noise=0.1)
    after = gp.condition(x, x[:, 0], using=Exact())
    np.testing.assert_array_equal(after.predict(x).mean, gp.condition(x, x[:, 0]).predict(x).mean)


def test_smooth_functions_of_few_inputs_are_waves(monkeypatch, rng):
    monkeypatch.setattr(choice, "EXACT_ROWS", 50)
    x = rng.uniform(size=(80, 2))
    y = np.sin(3 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=80)
    gp = GP(RBF()).in_units(GP(RBF()).statistics(x, y))
    assert isinstance(choose_method(gp, gp.statistics(x, y)).method, Fourier)
    rough = GP(RBF(0.003), noise=0.01)
    assert isinstance(choose_method(rough, rough.statistics(x, y)).method, Neighbours)


def test_rows_whose_covariance_does_not_fit_are_refused_in_a_sentence():
    x = np.zeros((1_000_000, 1))
    with pytest.raises(DataError, match="1,000,000 rows takes 8,000 GB.*using=Neighbours"):
        GP(RBF(), noise=0.1).condition(x, x[:, 0])


@pytest.mark.parametrize("wins", [True, False])
def test_inducing_points_go_on_where_they_predict_better(monkeypatch, rng, wins):
    monkeypatch.setattr(choice, "EXACT_ROWS", 50)
    monkeypatch.setattr(choice, "POINTS", 25)
    monkeypatch.setattr(choice, "BETTER", -np.inf if wins else np.inf)
    x = rng.uniform(size=(80, 4))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=80)
    report = credo.fit(GP(Matern52()), x, y, report=True)
    assert type(report.belief) is (InducingGP if wins else NeighboursGP)
    assert report.belief.method == (Inducing(25) if wins else Neighbours(30))
    assert "nats a row by 25 inducing points" in report.notes[-1]


@pytest.mark.parametrize("belief", [credo.GP(), credo.LatentGP()], ids=lambda b: type(b).__name__)
def test_rows_that_do_not_fit_are_refused_in_a_sentence(belief, monkeypatch):
    monkeypatch.setattr(data, "usable_memory", lambda: 1e4)
    with pytest.raises(DataError, match=r"300 rows of 2 columns .* take a part of them, X\[::5\]"):
        credo.fit(belief, np.zeros((300, 2)), np.arange(300) % 2)


def test_memory_that_ends_on_the_way_is_told_in_a_sentence(monkeypatch):
    def ends(*arguments):
        raise MemoryError

    monkeypatch.setattr(Neighbours, "learn", ends)
    with pytest.raises(DataError, match="memory ended while learning from these data by Neighbours"):
        credo.fit(credo.GP(), np.arange(20.0)[:, None], np.arange(20.0), using=Neighbours())


def test_exact_takes_all_rows_that_an_approximation_has_seen():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    gp = GP(RBF(1.0, 1.0), 0.0, 0.1)
    after = gp.condition(x[:20], y[:20], using=Neighbours(5)).condition(x[20:], y[20:], using=Exact())
    assert type(after) is GP and after.seen.n == 30
    np.testing.assert_allclose(after.predict(x).mean, gp.condition(x, y).predict(x).mean, rtol=1e-8)
