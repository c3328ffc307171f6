"""Both bounds of point-based planning: against value iteration on a fine grid of beliefs, and known values."""

import warnings

import numpy as np
import pytest

import credo
from credo.decide.pomdp import FIB, HSVI, PBVI, POMDP, QMDP, SARSOP, Perseus, ValueIteration, point_based
from credo.decide.pomdp.long_horizon import above, below
from credo.decide.pomdp.methods import Limits
from credo.errors import DataError, NotConvergedWarning


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    monkeypatch.setattr(point_based, "PATIENCE", np.inf)


def grid_value(pomdp, n=400, sweeps=200):
    """The value of the start of a problem with two states, and how far a grid may be off: V between its neighbours.

    V is convex, so linear interpolation on a grid iterates to an upper bound; a fine grid is close to it.
    """
    s, actions, symbols = pomdp.shape
    assert s == 2
    beliefs = np.stack([np.linspace(0, 1, n + 1), 1 - np.linspace(0, 1, n + 1)], axis=1)
    moves, shows = [m.toarray() for m in pomdp.transitions], [m.toarray() for m in pomdp.observations]
    value = np.full(n + 1, pomdp.rewards.max() / (1 - pomdp.discount))
    for _ in range(sweeps):
        q = np.empty((actions, n + 1))
        for a in range(actions):
            q[a] = beliefs @ pomdp.rewards[:, a]
            for o in range(symbols):
                joint = (beliefs @ moves[a]) * shows[a][:, o]
                p = joint.sum(axis=1)
                share = np.divide(joint[:, 0], p, out=np.zeros(n + 1), where=p > 0)
                q[a] += pomdp.discount * p * np.interp(share, beliefs[:, 0], value)
        value = q.max(axis=0)
    return float(np.interp(pomdp.start[0], beliefs[:, 0], value))


@pytest.mark.parametrize("seed", range(5))
def test_the_value_lies_between_the_bounds(seed, random_pomdp):
    pomdp = random_pomdp(seed, s=2, a=3, o=2, discount=0.85)
    plan = credo.solve(pomdp, gap=1e-2)
    truth = grid_value(pomdp)
    close = 1e-4 * max(1.0, abs(truth))
    assert plan.status == "converged"
    assert plan.gap <= 1e-2
    assert plan.lower <= truth + 1e-9  # the grid's value is an upper bound
    assert truth <= plan.upper + close
    assert plan.lower - 1e-12 <= plan.value() <= plan.upper + 1e-12
    assert plan.upper == pytest.approx(plan.above.value(pomdp.start), abs=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_long_horizons_by_linear_systems(seed, random_pomdp):
    """What they say of every vector, corner and point is a bound, and closer than what they were given."""
    pomdp = random_pomdp(seed, s=2, a=3, o=2, discount=0.95)
    search = point_based.Search(pomdp, SARSOP(), Limits())
    trials, blocks = search.trials, search.blocks
    for _ in range(3):
        trials.trial(0.5 * (trials.upper - trials.lower))
    points = [(blocks.home, blocks.start, 0.0), *trials.points()]
    gap = trials.upper - trials.lower
    after = above(blocks, trials.corners, trials.points(), gap), below(blocks, trials.vectors(), points)
    for belief in np.stack([np.linspace(0, 1, 5), 1 - np.linspace(0, 1, 5)], axis=1):
        there = POMDP(list(pomdp.transitions), list(pomdp.observations), pomdp.rewards, 0.95, belief)
        truth, inside = grid_value(there, sweeps=400), belief[blocks.state]
        assert max(alpha @ inside for _, alpha, _ in after[1]) <= truth + 1e-9
    for _, belief, value in after[0][:8]:
        start = np.zeros(2)
        start[blocks.state] = belief
        there = POMDP(list(pomdp.transitions), list(pomdp.observations), pomdp.rewards, 0.95, start)
        assert value >= grid_value(there, sweeps=400) - 1e-4
    for vector in after[1]:
        trials.adopt_vector(*vector)
    for point in after[0]:
        trials.adopt_point(*point)
    assert trials.upper - trials.lower < gap


def test_a_discount_near_one(monkeypatch):
    """What 300,000 backups would say of the machine that is examined (ejs2 of pomdp.org), by some hundred."""
    moves = [np.array([[0.8, 0.2], [0.5, 0.5]]), np.array([[0.2, 0.8], [0.8, 0.2]])]
    shows = [np.array([[0.8, 0.2], [0.6, 0.4]]), np.array([[0.7, 0.3], [0.4, 0.6]])]
    pomdp = POMDP(moves, shows, [[0.0, 0.0], [4.0, 3.0]], 0.99999)
    plan = credo.solve(pomdp, gap=1e-2)
    assert plan.status == "converged"
    assert plan.iterations < 100
    monkeypatch.setattr("credo.decide.pomdp.plan.LONGEST", 20)
    with pytest.warns(NotConvergedWarning, match="cut off after 20 steps, when a reward still counts 1 of its size"):
        plan.simulate(3)


def test_simulated_returns_are_followed_to_their_end(tiger):
    """What is paid whatever happens is paid in full: it would be missed beside a standard error of nothing."""
    paid = POMDP(list(tiger.transitions), list(tiger.observations), np.ones((2, 3)), 0.95)
    assert credo.solve(paid).simulate(3).mean == pytest.approx(20.0, rel=2e-8)


@pytest.mark.parametrize("seed", range(2))
def test_both_bounds_hold_at_other_beliefs(seed, random_pomdp):
    pomdp = random_pomdp(seed, s=3, a=2, o=2)
    plan = credo.solve(pomdp, gap=1e-2)
    for belief in np.random.default_rng(seed).dirichlet(np.ones(3), size=3):
        there = POMDP(list(pomdp.transitions), list(pomdp.observations), pomdp.rewards, pomdp.discount, belief)
        exact = credo.solve(there, gap=1e-2)
        assert plan.value(belief) <= exact.upper + 1e-9
        assert plan.above.value(belief) >= exact.lower - 1e-9


def test_tiger_has_its_published_value(tiger):
    plan = credo.solve(tiger)
    assert plan.lower <= 19.371368 + 1e-6 <= plan.upper + 1e-6  # pomdp-solve, exact
    assert plan.gap <= 1e-3
    assert plan.act() == "listen"
    assert plan.act([0.02, 0.98]) == "open-left"
    assert plan.act([0.98, 0.02]) == "open-right"
    earned = plan.simulate(2000, seed=1)
    assert abs(earned.mean - 19.3714) < 4.5 * earned.standard_error


def test_it_is_never_above_the_bounds_it_begins_with(tiger, random_pomdp):
    for pomdp in (tiger, random_pomdp(7, s=4, a=3, o=3)):
        plan = credo.solve(pomdp, gap=1e-2)
        assert (
            plan.upper <= credo.solve(pomdp, using=FIB()).upper + 1e-9 <= credo.solve(pomdp, using=QMDP()).upper + 2e-9
        )


def test_what_is_seen_of_the_state_makes_no_difference(random_pomdp):
    """A flag that is seen and changes nothing: twice the states, two blocks, the same value."""
    base = random_pomdp(3, s=2, a=2, o=2)
    flip = np.array([[0.7, 0.3], [0.4, 0.6]])
    moves = [np.kron(flip, m.toarray()) for m in base.transitions]
    shows = [np.kron(np.eye(2), m.toarray()) for m in base.observations]
    double = POMDP(moves, shows, np.tile(base.rewards, (2, 1)), base.discount, np.kron([0.5, 0.5], base.start))
    one, two = credo.solve(base, gap=1e-2), credo.solve(double, gap=1e-2)
    assert one.lower <= two.upper + 1e-9
    assert two.lower <= one.upper + 1e-9
    assert len(two.vectors.counts) == 3  # two flags, and the start on copies


@pytest.mark.parametrize("method", [HSVI(), PBVI(beliefs=20), Perseus(beliefs=20)])
def test_other_settings_of_the_kernel(method, tiger):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # sets of beliefs leave the upper bound where it is
        plan = credo.solve(tiger, gap=1e-2, using=method)
    assert plan.lower == pytest.approx(19.3714, rel=1e-2)
    assert plan.upper >= 19.3713
    assert plan.method == type(method).__name__


def test_a_plan_is_gone_on_from(tiger, tmp_path):
    rough = credo.solve(tiger, gap=0.3)
    path = credo.save(rough, tmp_path / "plan.credo")
    finer = credo.solve(tiger, start=credo.load(path), gap=1e-2)
    fresh = credo.solve(tiger, gap=1e-2)
    assert rough.lower <= finer.lower + 1e-9
    assert finer.upper <= rough.upper + 1e-9
    assert finer.gap <= 1e-2
    assert finer.iterations < fresh.iterations


def test_limits(tiger):
    stopped = credo.solve(tiger, seconds=1e-6)
    assert stopped.status == "stopped"
    assert "1e-06 seconds" in stopped.notes[0]
    with pytest.warns(NotConvergedWarning, match="memory limit"):
        assert credo.solve(tiger, memory=1.0).status == "stopped"


def test_it_goes_on_in_little_memory(tiger, monkeypatch):
    """Beliefs are forgotten before every trial; both bounds stay, and close."""
    monkeypatch.setattr(point_based, "ROOM", np.inf)
    few = credo.solve(tiger, gap=1e-2, memory=1000.0)
    assert few.status == "converged"
    assert few.lower <= 19.371368 + 1e-6 <= few.upper + 1e-6


def test_ctrl_c_gives_the_plan_so_far(tiger):
    import signal

    told = []

    def press(share, text):
        told.append(text)
        signal.raise_signal(signal.SIGINT)

    point_based_told = point_based.TOLD
    try:
        point_based.TOLD = 0.0
        with pytest.warns(NotConvergedWarning, match="interrupted"):
            plan = credo.solve(tiger, gap=1e-9, progress=press)
    finally:
        point_based.TOLD = point_based_told
    assert len(told) == 1
    assert "≤ V ≤" in told[0]
    assert plan.lower < plan.upper
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tolerance": 1e-3}, "does not take tolerance="),
        ({"gap": 0}, "gap must be positive"),
        ({"seconds": -1}, "seconds must be positive"),
        ({"criterion": "average"}, "criterion must be 'discounted'"),
        ({"using": SARSOP(), "horizon": 3}, "cannot use SARSOP"),
        ({"using": QMDP(), "seconds": 3}, "QMDP does not take seconds="),
        ({"using": ValueIteration(), "memory": 1e6}, "ValueIteration does not take memory="),
        ({"horizon": 3, "gap": 0.1}, "with a horizon does not take gap="),
    ],
)
def test_bad_questions(options, sentence, tiger):
    with pytest.raises(DataError, match=sentence):
        credo.solve(tiger, **options)


def test_a_plan_of_another_problem_is_refused(tiger, random_pomdp):
    with pytest.raises(DataError, match="for the same problem"):
        credo.solve(tiger, start=credo.solve(random_pomdp(0), gap=0.1))


def test_a_plan_of_other_numbers_is_refused(tiger):
    """As many states, actions and observations, but other rewards: the bounds would be wrong."""
    parts = list(tiger.transitions), list(tiger.observations)
    with pytest.raises(DataError, match="for the same problem"):
        credo.solve(POMDP(*parts, tiger.rewards / 10, 0.95), start=credo.solve(tiger, gap=0.1))
    seen = credo.solve(credo.MDP.from_drawing(".G", discount=0.9))
    with pytest.raises(DataError, match="must be a plan of a POMDP, found DiscountedPlan"):
        credo.solve(tiger, start=seen)
    with pytest.raises(DataError, match="FIB does not take start="):
        credo.solve(tiger, using=FIB(), start=seen)


def test_bad_settings():
    with pytest.raises(DataError, match="beliefs must be a whole number"):
        PBVI(beliefs=0)
    with pytest.raises(DataError, match="seed must be a whole number"):
        Perseus(seed=-1)


def test_beliefs_that_are_too_few(tiger):
    with pytest.warns(NotConvergedWarning, match="no more to gain: .* give PBVI more beliefs="):
        credo.solve(tiger, using=PBVI(beliefs=1))


def test_the_gap_does_not_depend_on_the_unit_of_rewards(random_pomdp):
    p = random_pomdp(3, s=2)
    plan = credo.solve(POMDP(list(p.transitions), list(p.observations), p.rewards * 1e-12, p.discount), gap=0.01)
    assert plan.status == "converged" and plan.gap <= 0.01


def test_an_mdp_takes_none_of_these():
    with pytest.raises(DataError, match="an MDP does not take seconds="):
        credo.solve(credo.MDP.from_drawing(".G", discount=0.9), seconds=1)
