import numpy as np
import pytest

from credo.core.errors import DataError
from credo.decide import Campaign, Real, Space
from credo.decide.campaign.trust_region import Standing, TrustRegion, first_region, replay

HERE = TrustRegion((0.5, 0.5), best=1.0)


def history(n: int, d: int, seed: int, failing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    outcomes = rng.normal(size=n) + 0.02 * np.arange(n)
    return rng.uniform(size=(n, d)), np.where(rng.random(n) < failing, np.nan, outcomes)


def test_three_successes_in_a_row_double_the_length_up_to_a_bound():
    region = HERE
    for expected in ((0.8, 1), (0.8, 2), (1.6, 0), (1.6, 1), (1.6, 2), (1.6, 0)):
        region = region.update(True)
        assert (region.length, region.successes, region.failures) == (*expected, 0)
    region = HERE.update(True).update(True).update(False)
    assert (region.length, region.successes, region.failures) == (0.8, 0, 1)
    assert region.update(True).failures == 0


@pytest.mark.parametrize(("dimension", "failures"), [(2, 4), (10, 10)])
def test_failures_in_a_row_halve_it(dimension, failures):
    region = TrustRegion((0.5,) * dimension, best=1.0)
    for i in range(failures):
        assert (region.length, region.failures) == (0.8, i)
        region = region.update(False)
    assert (region.length, region.failures) == (0.4, 0)
    for _ in range(6 * failures):
        assert not region.is_spent
        region = region.update(False)
    assert region.length == 0.8 / 2**7 and region.is_spent


def test_the_best_outcome_is_the_center():
    rows = np.array([[0.1, 0.2], [0.3, 0.4], [0.6, 0.7]])
    assert HERE.after(rows[1], 2.0) == TrustRegion((0.3, 0.4), successes=1, best=2.0)
    # A gain of less than a thousandth moves the center and counts as a failure, as do trials that failed.
    assert HERE.after(rows[0], 1.0005) == TrustRegion((0.1, 0.2), failures=1, best=1.0005)
    assert HERE.after(rows[0], np.nan) == TrustRegion((0.5, 0.5), failures=1, best=1.0)
    assert first_region(rows, np.array([np.nan, 1.0, 3.0])) == TrustRegion((0.6, 0.7), best=3.0)
    assert first_region(rows, np.full(3, np.nan)) is None


def test_the_box_follows_the_lengthscales():
    region = TrustRegion((0.5, 0.5, 0.9), length=0.4)
    low, high = region.box()
    np.testing.assert_allclose((low, high), [[0.3, 0.3, 0.7], [0.7, 0.7, 1.0]])
    low, high = region.box([0.5, 1.0, 2.0])  # a geometric mean of one already
    np.testing.assert_allclose((low, high), [[0.4, 0.3, 0.5], [0.6, 0.7, 1.0]])
    np.testing.assert_allclose(region.box([5.0, 10.0, 20.0]), (low, high))
    inside = TrustRegion((0.5,) * 3, length=0.2).box([3.0, 1.0, 0.7])
    assert np.prod(inside[1] - inside[0]) == pytest.approx(0.2**3)
    with pytest.raises(DataError, match="lengthscales must be positive and finite"):
        region.box([1.0, 0.0, 1.0])


def by_hand(rows: np.ndarray, outcomes: np.ndarray, initial: int) -> Standing:
    """The loop of a campaign that keeps its state: ask, tell, update."""
    region, start, restarts, at = None, 0, 0, 0
    while at < len(rows):
        at += 1
        if region is None:
            if at - start >= initial:
                region = first_region(rows[start:at], outcomes[start:at])
                if region is None:
                    start, restarts = at, restarts + 1
        else:
            region = region.after(rows[at - 1], outcomes[at - 1])
            if region.is_spent:
                region, start, restarts = None, at, restarts + 1
    return Standing(region, start, 0 if region else initial - (at - start), restarts)


@pytest.mark.parametrize("failing", [0.0, 0.5])
def test_replay_equals_stepping(failing):
    rows, outcomes = history(150, 3, seed=1, failing=failing)
    told = range(0, 150, 6)
    standings = [replay(rows[:n], outcomes[:n], 6) for n in told]
    for n, got in zip(told, standings, strict=True):
        assert got == by_hand(rows[:n], outcomes[:n], 6)
    assert standings[-1].restarts >= 1 and any(s.region is None for s in standings[2:])


def test_a_search_that_is_spent_starts_anew():
    """4 trials of design, then 7 × 4 failures: the region is given up, and a new design is asked for."""
    rows = np.random.default_rng(0).uniform(size=(40, 2))
    outcomes = np.concatenate([[0.0, 3.0, 1.0, 2.0], np.full(36, -1.0)])
    assert replay(rows[:3], outcomes[:3], 4) == Standing(None, 0, 1, 0)
    assert replay(rows[:4], outcomes[:4], 4).region == TrustRegion(tuple(rows[1]), best=3.0)
    assert replay(rows[:31], outcomes[:31], 4).region.length == 0.8 / 2**6
    assert replay(rows[:32], outcomes[:32], 4) == Standing(None, 32, 4, 1)
    assert replay(rows[:34], outcomes[:34], 4) == Standing(None, 32, 2, 1)
    assert replay(rows[:36], outcomes[:36], 4) == Standing(TrustRegion(tuple(rows[32]), best=-1.0), 32, 0, 1)
    assert replay([], [], 4) == Standing(None, 0, 4, 0)
    assert replay(rows[:4], np.full(4, np.nan), 4) == Standing(None, 4, 4, 1)  # a design that failed throughout


def ackley(rows: np.ndarray) -> np.ndarray:
    """-Ackley on [-5, 10]^d, of rows in the unit cube: at most 0."""
    x = 15 * rows - 5
    return 20 * np.exp(-0.2 * np.sqrt((x**2).mean(axis=1))) + np.exp(np.cos(2 * np.pi * x).mean(axis=1)) - 20 - np.e


@pytest.mark.slow
def test_twenty_dimensions_against_sobol():
    """A campaign with a trust region on Ackley-20, eight points at a time."""
    from scipy.stats import qmc

    d, budget = 20, 60
    campaign = Campaign(Space({f"x{i}": Real(0.0, 1.0) for i in range(d)}), initial=20)
    while len(campaign.trials) < budget:
        for trial in campaign.ask(8):
            campaign.tell(trial, float(ackley(np.array([list(trial.point.values())]))[0]))
    blind = ackley(qmc.Sobol(d, rng=np.random.default_rng(0)).random(128))[:budget]
    assert campaign.observations().values.max() > blind.max() + 1.0


def test_bad_input():
    rows, outcomes = history(10, 2, 0)
    with pytest.raises(DataError, match="outcomes must hold a number, or NaN for a failure, for each of the 10 rows"):
        replay(rows, outcomes[:9], 4)
    with pytest.raises(DataError, match="outcomes must hold a number"):
        replay(rows, np.where(np.arange(10) == 3, np.inf, outcomes), 4)
    with pytest.raises(DataError, match="initial must be a whole number of at least 1, found 0"):
        replay(rows, outcomes, 0)
