"""Problems that are the same in other words have the same answer: no oracle is needed.

Campaigns with parameters in other units, names, orders, outcomes a·y + b, goals turned round; MDPs with states and
actions relabelled, rewards a·r + b, actions given twice; losses in other units; fronts and designs in another order.
"""

import warnings

import numpy as np
import pytest

import credo
from credo import losses
from credo.core.predictive import Normal
from credo.decide import Categorical, Integer, Real, Space, greedy_design, greedy_gain, hypervolume, non_dominated
from credo.decide.agents import TD, ExpectedSARSA, QLearning, WorldBelief, collect
from credo.decide.campaign import Campaign, engine
from credo.decide.campaign import advice as advising
from credo.decide.campaign.model import model_of
from credo.decide.campaign.problem import Observations, Problem
from credo.decide.campaign.trial import DONE, Trial
from credo.decide.campaign.trust_region import replay
from credo.decide.mdp import (
    MDP,
    GaussSeidel,
    LinearProgram,
    ModifiedPolicyIteration,
    PolicyIteration,
    ValueIteration,
    solve,
)
from credo.errors import DataError
from credo.kernels import Matern52

# ── campaigns: a pure function of problem and record

PLANE = {"a": Real(0.0, 1.0), "b": Real(0.0, 1.0)}


def bowl(a, b):
    return -((a - 0.3) ** 2) - 0.5 * (b - 0.7) ** 2


def trials(points, values):
    told = [{"value": float(value)} for value in values]
    return [Trial(i + 1, point, DONE, each) for i, (point, each) in enumerate(zip(points, told, strict=True))]


def answers(space, goal, points, values, seed=3):
    """The next point, the best trial with its belief, and the regret that is expected."""
    problem = Problem.of(space, goal, initial=5)
    seen = Observations.of(problem, trials(points, values))
    found = engine.suggest(problem, seen, [], 1, seed)[0]
    model = model_of(problem, seen)
    return found, advising.best(problem, seen, model), advising.advice(problem, model)


@pytest.fixture(scope="module")
def plain():
    space = Space(PLANE)
    points = space.sample(12, seed=4)
    values = [bowl(**point) for point in points]
    return points, values, answers(space, "maximize", points, values)


def same(found, want, scale=1.0, shift=0.0):
    """The transformed answer, within 1e-5 of the range of the outcomes."""
    (next_, best, regret), (next0, best0, regret0) = found, want
    assert best.trial == best0.trial
    assert best.mean == pytest.approx(scale * best0.mean + shift, abs=1e-5 * abs(scale) + 1e-12 * abs(shift))
    assert regret.expected_regret == pytest.approx(
        abs(scale) * regret0.expected_regret, rel=1e-3, abs=1e-7 * abs(scale)
    )
    assert next_.mean == pytest.approx(scale * next0.mean + shift, abs=1e-4 * abs(scale) + 1e-12 * abs(shift))


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 3.0, 1e6, 1e12])
@pytest.mark.parametrize("shift", [0.0, -7.0, 1e3])
def test_outcomes_in_other_units(plain, scale, shift):
    points, values, want = plain
    told = [scale * (value + shift) for value in values]
    found = answers(Space(PLANE), "maximize", points, told)
    same(found, want, scale, scale * shift)
    assert np.abs(np.subtract(list(found[0].point.values()), list(want[0].point.values()))).max() < 1e-3


def test_a_goal_turned_round(plain):
    points, values, want = plain
    found = answers(Space(PLANE), "minimize", points, [-value for value in values])
    same(found, want, -1.0)
    assert found[0].point == pytest.approx(want[0].point, abs=1e-6)


@pytest.mark.parametrize(("low", "width"), [(-5.0, 1e-9), (1e6, 3.0), (0.0, 1e12)])
def test_parameters_in_other_units(plain, low, width):
    points, values, want = plain
    space = Space({name: Real(low, low + width) for name in PLANE})
    moved = [{name: low + width * value for name, value in point.items()} for point in points]
    found = answers(space, "maximize", moved, values)
    tolerance = 1e-5 + 10 * np.finfo(float).eps * max(abs(low), 1) / width
    back = [(value - low) / width for value in found[0].point.values()]
    assert np.abs(np.subtract(back, list(want[0].point.values()))).max() < 1e-2 + tolerance
    assert found[1].trial == want[1].trial


def test_parameters_in_logarithms(plain):
    points, values, want = plain
    space = Space({name: Real(1e-3, 1e2, log=True) for name in PLANE})
    moved = [{name: float(1e-3 * 1e5**value) for name, value in point.items()} for point in points]
    found = answers(space, "maximize", moved, values)
    back = [np.log10(value / 1e-3) / 5 for value in found[0].point.values()]
    assert np.abs(np.subtract(back, list(want[0].point.values()))).max() < 1e-4
    same(found, want)


def test_parameters_with_other_names_and_in_another_order(plain):
    points, values, want = plain
    renamed = answers(
        Space({"p q": Real(0, 1), "_": Real(0, 1)}),
        "maximize",
        [{"p q": point["a"], "_": point["b"]} for point in points],
        values,
    )
    assert list(renamed[0].point.values()) == pytest.approx(list(want[0].point.values()), abs=1e-9)
    turned = Space({"b": Real(0, 1), "a": Real(0, 1)})
    found = answers(turned, "maximize", [{"b": p["b"], "a": p["a"]} for p in points], values)
    # The search draws its points in the order of columns: the belief is the same, the point nearly.
    assert found[1].trial == want[1].trial and found[1].mean == pytest.approx(want[1].mean, abs=1e-6)
    assert np.abs(found[0].mean - want[0].mean) < 1e-3


def test_results_told_in_another_order(plain):
    points, values, want = plain
    order = np.random.default_rng(0).permutation(12)
    found = answers(Space(PLANE), "maximize", [points[i] for i in order], [values[i] for i in order])
    assert order[found[1].trial - 1] == want[1].trial - 1
    assert found[1].mean == pytest.approx(want[1].mean, abs=1e-6)
    assert found[0].point == pytest.approx(want[0].point, abs=1e-2)


@pytest.mark.parametrize(("scale", "shift"), [(1e-9, 0.0), (2.0, 1e6), (1e9, -3.0)])
def test_trust_regions_in_other_units(scale, shift):
    rng = np.random.default_rng(2)
    rows = rng.uniform(size=(60, 12))
    outcomes = -((rows - 0.4) ** 2).sum(axis=1) + np.linspace(0, 2, 60)
    outcomes[::7] = np.nan
    plain, moved = (replay(rows, a * outcomes + b, 10) for a, b in ((1.0, 0.0), (scale, shift)))
    assert moved.region.center == plain.region.center and moved.region.length == plain.region.length
    assert (moved.start, moved.missing, moved.restarts) == (plain.start, plain.missing, plain.restarts)


def test_choices_called_otherwise():
    def answer(names):
        space = Space({"kind": Categorical(names), "n": Integer(0, 9)})
        points = [{"kind": names[i % 3], "n": n} for i, n in enumerate((0, 3, 9, 5, 7, 2, 1, 8))]
        values = [(names.index(p["kind"]) == 1) - 0.1 * abs(p["n"] - 4) for p in points]
        found, best, _ = answers(space, "maximize", points, values)
        return names.index(found.point["kind"]), found.point["n"], best.trial, found.mean

    assert answer(["x", "y", "z"]) == pytest.approx(answer(["adam", "sgd", "none"]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, None, "0.5", [1.0], True])
def test_an_outcome_that_is_no_number_is_refused(bad):
    campaign = Campaign(Space(PLANE))
    with pytest.raises(DataError):
        campaign.add({"a": 0.1, "b": 0.2}, bad)


# ── Markov decision processes

RNG = np.random.default_rng(7)
S, A, GAMMA = 5, 3, 0.8
PROB, PAID = 0.9 * RNG.dirichlet(np.ones(S), (S, A)), RNG.normal(size=(S, A))
ENDS = np.full((S, A), 0.1)
WORLD = MDP(PROB, PAID, GAMMA, ends=ENDS, start=0)
PLAN = solve(WORLD)
METHODS = [None, ValueIteration(), GaussSeidel(), PolicyIteration(), ModifiedPolicyIteration(), LinearProgram()]


def named(method):
    return type(method).__name__


@pytest.mark.parametrize("method", METHODS, ids=named)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_rewards_in_other_units(method, scale):
    plan = solve(MDP(PROB, scale * PAID, GAMMA, ends=ENDS), method, tolerance=1e-6 * scale)
    np.testing.assert_allclose(plan.value, scale * PLAN.value, atol=3e-6 * scale)
    np.testing.assert_array_equal(plan.policy, PLAN.policy)


@pytest.mark.parametrize("shift", [-100.0, 3.0, 1e6])
def test_a_constant_added_to_every_reward(shift):
    """b/(1 - γ) where nothing ends."""
    prob = PROB / 0.9
    plain, moved = (solve(MDP(prob, PAID + b, GAMMA)) for b in (0.0, shift))
    np.testing.assert_allclose(moved.value, plain.value + shift / (1 - GAMMA), atol=4e-6, rtol=1e-12)
    np.testing.assert_array_equal(moved.policy, plain.policy)
    gains = [solve(MDP(prob, PAID + b, GAMMA), criterion="average").gain for b in (0.0, shift)]
    assert gains[1] == pytest.approx(gains[0] + shift, abs=4e-6)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_states_and_actions_relabelled(method):
    s, a = RNG.permutation(S), RNG.permutation(A)
    world = MDP(PROB[s][:, a][:, :, s], PAID[s][:, a], GAMMA, ends=ENDS)
    plan = solve(world, method)
    np.testing.assert_allclose(plan.value, PLAN.value[s], atol=3e-6)
    np.testing.assert_array_equal(a[plan.policy], PLAN.policy[s])
    policy = RNG.dirichlet(np.ones(A), S)
    np.testing.assert_allclose(world.evaluate(policy[s][:, a]), WORLD.evaluate(policy)[s], rtol=1e-9)


def test_an_action_given_twice():
    twice = [0, 1, 2, 1]
    plan = solve(MDP(PROB[:, twice], PAID[:, twice], GAMMA, ends=ENDS[:, twice]))
    np.testing.assert_allclose(plan.value, PLAN.value, atol=3e-6)
    np.testing.assert_array_equal(np.array(twice)[plan.policy], PLAN.policy)


def test_a_state_given_twice():
    """Half of what goes to state 0 goes to its copy."""
    prob = np.concatenate([PROB, PROB[:1]])
    prob = np.concatenate([prob, prob[:, :, :1] / 2], axis=2)
    prob[:, :, 0] /= 2
    plan = solve(MDP(prob, np.concatenate([PAID, PAID[:1]]), GAMMA, ends=np.full((S + 1, A), 0.1)))
    np.testing.assert_allclose(plan.value, PLAN.value[[*range(S), 0]], atol=3e-6)


def test_a_transition_given_as_two_outcomes():
    def step(s, a):
        for j in range(S):
            yield 0.5 * PROB[s, a, j], j, PAID[s, a]
            yield 0.5 * PROB[s, a, j], j, PAID[s, a]
        yield 0.1, 0, PAID[s, a], True

    world = MDP.from_function(range(S), range(A), step, GAMMA)
    np.testing.assert_allclose(solve(world).value, PLAN.value, atol=3e-6)
    assert world.gambles is None


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_agents_in_other_units(scale):
    """The same walk, values in other units."""
    plain, scaled = (MDP(PROB, unit * PAID, GAMMA, ends=ENDS, start=0) for unit in (1.0, scale))
    for agent in (QLearning(), ExpectedSARSA()):
        one, two = (agent.learn(world, 300, seeds=2) for world in (plain, scaled))
        np.testing.assert_allclose(two.q, scale * one.q, rtol=1e-9, atol=1e-9 * scale)
        np.testing.assert_array_equal(one.visits, two.visits)
        assert two.optimum == pytest.approx(scale * one.optimum)
    paths = [collect(world, steps=500, seed=1) for world in (plain, scaled)]
    policy = RNG.dirichlet(np.ones(A), S)
    one, two = (TD(0.3).evaluate(path, policy).mean for path in paths)
    np.testing.assert_allclose(two, scale * one, rtol=1e-9)
    beliefs = [
        WorldBelief(S, A, noise=unit**2).condition(path).expected(GAMMA).rewards
        for unit, path in zip((1.0, scale), paths, strict=True)
    ]
    np.testing.assert_allclose(beliefs[1], scale * beliefs[0], rtol=1e-9)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda p, r: (p * 1.01, r),
        lambda p, r: (np.where(p > 0.3, -p, p), r),
        lambda p, r: (p, np.where(r > 0, np.nan, r)),
        lambda p, r: (p[:, :, :-1], r),
        lambda p, r: (p, r[:-1]),
        lambda p, r: (np.moveaxis(p, 1, 0), r),
        lambda p, r: ("text", r),
        lambda p, r: (p, None),
        lambda p, r: (p[:0], r[:0]),
    ],
)
def test_a_world_that_is_none_is_refused(break_it):
    with pytest.raises(DataError):
        MDP(*break_it(PROB / 0.9, PAID), GAMMA)


# ── decisions, designs, fronts

PRIOR = credo.GP(Matern52(np.full(2, 0.4), 1.0), mean=0.0, noise=0.1)
GP = PRIOR.condition(RNG.uniform(size=(6, 2)), RNG.normal(size=6))
POOL = RNG.uniform(size=(9, 2))


def test_designs_in_another_order():
    order = RNG.permutation(9)
    for choose in (greedy_gain, greedy_design):
        one, two = choose(GP, POOL, 4), choose(GP, POOL[order], 4)
        np.testing.assert_array_equal(order[two.chosen], one.chosen)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_decisions_in_other_units(scale):
    prediction = GP.predict(POOL)
    parts = (prediction.mean, prediction.epistemic, prediction.aleatoric)
    moved = Normal(*(unit * part for unit, part in zip((scale, scale**2, scale**2), parts, strict=True)))
    for loss in (losses.Squared(), losses.Absolute(), losses.Asymmetric(3, 1), losses.Pinball(0.2)):
        one, two = credo.decide(prediction, loss), credo.decide(moved, loss)
        power = 2 if isinstance(loss, losses.Squared) else 1
        np.testing.assert_allclose(two.action, scale * np.asarray(one.action), rtol=1e-8)
        np.testing.assert_allclose(two.expected_loss, scale**power * np.asarray(one.expected_loss), rtol=1e-8)


def test_fronts_in_other_units_and_orders():
    values = RNG.normal(size=(20, 3))
    order, scale, shift = RNG.permutation(20), np.array([1e-6, 1.0, 1e9]), np.array([5.0, -3.0, 0.1])
    kept = non_dominated(values)
    np.testing.assert_array_equal(non_dominated(values[order] * scale + shift), kept[order])
    reference = values.min(axis=0) - 0.1
    moved = hypervolume(values[order][:, [2, 0, 1]] * scale[[2, 0, 1]], (reference * scale)[[2, 0, 1]])
    assert moved == pytest.approx(hypervolume(values, reference) * scale.prod(), rel=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hypervolume(np.concatenate([values, values]), reference) == pytest.approx(hypervolume(values, reference))
