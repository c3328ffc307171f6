"""Runs: reproducible, interruptible, convergent where they should be, and refused where they make no sense."""

import numpy as np
import pytest

import credo
from credo.decide.agents import (
    SARSA,
    TD,
    UCB,
    ConstantSchedule,
    DoubleQ,
    Dyna,
    EpsilonGreedy,
    ExpectedSARSA,
    ExponentialDecay,
    Harmonic,
    ModelBased,
    NStep,
    OptimisticQ,
    PolynomialDecay,
    PosteriorSampling,
    QLearning,
    RMax,
    SoftmaxExploration,
    Trajectory,
    WorldBelief,
    collect,
    estimate,
    hoeffding_count,
)
from credo.decide.agents.environments import open_source
from credo.decide.agents.planning import best_values
from credo.decide.mdp import MDP, solve
from credo.errors import DataError, NotConvergedWarning, RepairedWarning

ALL = [
    QLearning(),
    SARSA(),
    ExpectedSARSA(),
    DoubleQ(),
    NStep(3),
    Dyna(3),
    OptimisticQ(),
    RMax(known=5),
    ModelBased(),
    ModelBased(UCB(0.5)),
    PosteriorSampling(),
]


def name(agent):
    return type(agent).__name__


@pytest.mark.parametrize("agent", ALL, ids=name)
def test_a_run_that_was_saved_goes_on_as_if_uninterrupted(agent, world, tmp_path):
    whole = agent.learn(world, 700, seeds=2, seed=3, horizon=9, evaluate_every=350)
    half = agent.learn(world, 350, seeds=2, seed=3, horizon=9, evaluate_every=350)
    path = credo.save(half, tmp_path / "half")
    both = credo.load(path).resume(world, 350, evaluate_every=350)
    np.testing.assert_array_equal(both.q, whole.q)
    for field in ("steps", "scores", "returns", "episodes", "rewards", "visits"):
        np.testing.assert_array_equal(getattr(both, field), getattr(whole, field))
    assert both.optimum == whole.optimum and both.done == 700
    assert not np.array_equal(whole.q[0], whole.q[1])
    other = agent.learn(world, 350, seeds=2, seed=4, horizon=9)
    assert not np.array_equal(other.q, half.q)
    assert (whole.scores <= whole.optimum + 1e-9).all()
    assert agent.on_policy == isinstance(agent, SARSA | ExpectedSARSA) and agent.setting == "episodic and continuing"


def test_many_seeds_run_in_two_blocks(world):
    run = QLearning().learn(world, 5000, seeds=17, seed=1)
    assert run.q.shape == (17, 6, 3) and run.policy.shape == (17, 6)
    np.testing.assert_array_equal(run.visits.sum((1, 2)), 5000)
    np.testing.assert_array_equal(QLearning().learn(world, 5000, seeds=17, seed=1).q, run.q)
    assert len(np.unique(run.q[:, 0, 0])) == 17
    assert "17 × 5,000 steps" in str(run)


def test_scores_are_the_values_of_the_policies(world):
    run = SARSA().learn(world, 300, seeds=2, evaluate_every=100)
    np.testing.assert_array_equal(run.steps, [100, 200, 300])
    want = [world.start @ world.evaluate(policy) for policy in run.policy]
    np.testing.assert_allclose(run.scores[:, -1], want, rtol=1e-10)
    assert run.optimum == pytest.approx(solve(world).start_value(), rel=1e-9)
    np.testing.assert_allclose(run.shortfall, run.optimum - run.scores)
    np.testing.assert_allclose(run.regret, run.episodes * run.optimum - run.returns)


def test_schedules_know_their_sums():
    for power, grows, falls in ((0.4, True, False), (0.5, True, False), (0.51, True, True), (1.0, True, True)):
        assert PolynomialDecay(power).check()[:2] == (grows, falls)
    assert not PolynomialDecay(1.2).check().holds and "finite" in PolynomialDecay(1.2).check().says
    assert Harmonic().check().holds and not ConstantSchedule(0.1).check().holds and not ExponentialDecay().check().holds
    assert "does not fall" in ExponentialDecay(least=0.1).check().says
    t = np.arange(5.0)
    np.testing.assert_allclose(PolynomialDecay(0.8, 0.5, 10.0)(t), 0.5 / (1 + t / 10) ** 0.8)
    np.testing.assert_allclose(ExponentialDecay(1.0, 2.0, 0.2)(t), 0.2 + 0.8 * 0.5 ** (t / 2))
    for schedule in (PolynomialDecay(0.7), Harmonic(0.5, 3.0), ConstantSchedule(0.2), ExponentialDecay(0.9, 7.0)):
        plain = schedule.function()
        np.testing.assert_allclose([plain(k) for k in range(5)], schedule(t), rtol=1e-15)


def test_q_learning_converges_under_robbins_and_monro_and_not_otherwise(world):
    best = solve(world).q
    explore = EpsilonGreedy(1.0)
    good = QLearning(explore, PolynomialDecay(0.8)).learn(world, 40_000, seeds=8)
    with pytest.warns(NotConvergedWarning, match="does not fall"):
        noisy = QLearning(explore, ConstantSchedule(0.5)).learn(world, 40_000, seeds=8)
    with pytest.warns(NotConvergedWarning, match="finite"):
        short = QLearning(explore, PolynomialDecay(3.0)).learn(world, 40_000, seeds=8)
    error = [np.sqrt(np.mean((run.q - best) ** 2)) for run in (good, noisy, short)]
    assert error[0] < 0.2 and error[1] > 6 * error[0] and error[2] > 6 * error[0]
    assert (good.shortfall[:, -1] < 1e-9).mean() >= 0.75


def test_exploration_that_ends_too_soon_is_said(world):
    with pytest.warns(NotConvergedWarning, match="epsilon falls so fast"):
        QLearning(EpsilonGreedy(ExponentialDecay(half=10.0))).learn(world, 10, seeds=8)


def test_td_converges_under_robbins_and_monro_and_not_otherwise(world):
    value = world.evaluate(np.full((6, 3), 1 / 3))
    good = TD(rate=PolynomialDecay(0.8)).evaluate(world, None, 10_000, seeds=8)
    traced = TD(0.8, rate=PolynomialDecay(0.8)).evaluate(world, None, 10_000, seeds=8)
    with pytest.warns(NotConvergedWarning, match="does not fall"):
        noisy = TD(rate=ConstantSchedule(0.5)).evaluate(world, None, 10_000, seeds=8)
    error = [np.sqrt(np.mean((found.values - value) ** 2)) for found in (good, traced, noisy)]
    assert error[0] < 0.06 and error[1] < 0.1 and error[2] > 6 * error[0]
    se = good.std / np.sqrt(8)
    assert (np.abs(good.mean - value) < 4.5 * se + 0.01).all()


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_td_tells_the_values_of_another_policy_than_the_one_that_acted(lam, world):
    wanted, acted = np.random.default_rng(1).dirichlet(np.ones(3), 6), np.full((6, 3), 1 / 3)
    path = collect(world, acted, 20_000, seed=2)
    td = TD(lam, rate=PolynomialDecay(0.8))
    truth, other = world.evaluate(wanted), world.evaluate(acted)
    found = td.evaluate(path, wanted).mean
    assert np.abs(found - truth).max() < 0.35 < 0.5 < np.abs(other - truth).max()
    np.testing.assert_allclose(td.evaluate(path).mean, td.evaluate(path, acted).mean, rtol=1e-9)
    assert np.abs(td.evaluate(path).mean - other).max() < 0.35, "the discount is the world's"


def test_td_refuses_what_a_trajectory_cannot_tell(world):
    path = collect(world, np.zeros(6, int), 300)
    with pytest.warns(NotConvergedWarning, match="never does, such as action 1 in state 0"):
        TD().evaluate(path, np.ones(6, int))
    plain = Trajectory(*columns(path), sizes=(6, 3))
    with pytest.raises(DataError, match="does not say how likely its actions were"):
        TD().evaluate(plain, np.zeros(6, int))
    assert np.isfinite(TD().evaluate(plain).values).all()
    with pytest.raises(DataError, match="propensity must be 300 probabilities"):
        Trajectory(*columns(path), sizes=(6, 3), propensity=np.zeros(300))


@pytest.mark.parametrize("agent", [SARSA, ExpectedSARSA], ids=lambda kind: kind.__name__)
def test_the_values_of_a_given_policy_are_learned(agent, world):
    """On policy, and off policy from actions at random: Q^π = r + γ P V^π."""
    policy = np.random.default_rng(3).dirichlet(np.ones(3), 6)
    value = world.evaluate(policy)
    rate = PolynomialDecay(0.8)
    made = agent(policy, rate) if agent is SARSA else agent(EpsilonGreedy(1.0), rate, target=policy)
    run = made.learn(world, 20_000, seeds=8)
    assert np.sqrt(np.mean((run.q - world.backup(value)) ** 2)) < 0.1
    with pytest.raises(DataError, match="policy must be 6 actions"):
        SARSA(np.zeros(4, int)).learn(world, 10)
    with pytest.raises(DataError, match="probabilities"):
        SARSA(np.full((6, 3), 0.5))


@pytest.mark.parametrize("agent", [QLearning(), DoubleQ(), Dyna(2), OptimisticQ()], ids=name)
def test_agents_learn_from_records_what_is_best(agent, world):
    path = collect(world, steps=8000, seed=4)
    run = agent.learn(path, 16_000)
    assert (solve(world).value - world.evaluate(run.policy[0])).max() < 0.5
    assert run.visits.sum() == 16_000 and run.gamma == world.discount and "16,000 steps of records" in str(run)
    np.testing.assert_array_equal(run.q, agent.learn(path, 16_000).q)


def test_a_target_is_learned_from_records(world):
    policy = np.random.default_rng(3).dirichlet(np.ones(3), 6)
    agent = ExpectedSARSA(rate=PolynomialDecay(0.8), target=policy)
    run = agent.learn(collect(world, steps=16_000, seed=4))
    assert np.sqrt(np.mean((run.q[0] - world.backup(world.evaluate(policy))) ** 2)) < 0.2


def test_records_that_say_too_little_are_refused(world):
    path = collect(world, np.zeros(6, int), 200)
    with pytest.warns(RepairedWarning, match="12 of 18 pairs of state and action are not in"):
        run = QLearning().learn(path)
    for call, says in (
        (lambda: SARSA().learn(path), "cannot learn from records; take ExpectedSARSA"),
        (lambda: RMax().learn(path), "take estimate"),
        (lambda: QLearning().learn(path, seeds=3), "leave out seeds"),
        (lambda: run.resume(path, 10), "does not go on"),
        (lambda: QLearning().learn(world), "steps is missing"),
        (lambda: ExpectedSARSA(target=np.zeros(4, int)).learn(path), "policy must be 6 actions"),
    ):
        with pytest.raises(DataError, match=says):
            call()


def test_double_q_is_not_fooled_by_noise():
    """A choice of eight gambles that lose 0.1: the largest of noisy means looks good. Sutton & Barto, example 6.7."""
    a = 8
    prob, rewards, ends = np.zeros((4, a, 4)), np.zeros((4, a)), np.zeros((4, a))
    prob[0, 0, 1], ends[0, 1:] = 1.0, 1.0
    prob[1, :, 2:] = 0.5
    rewards[2], rewards[3], ends[2:] = 1.0, -1.2, 1.0
    world = MDP(prob, rewards, 1.0, ends=ends, start=0)
    single, double = (kind(rate=PolynomialDecay(0.8)).learn(world, 1000, seeds=64) for kind in (QLearning, DoubleQ))
    worth = [run.q[:, 0, 0].mean() for run in (single, double)]
    assert worth[0] > -0.05 > -0.08 > worth[1]
    assert single.visits[:, 0, 0].mean() > 2 * double.visits[:, 0, 0].mean()
    assert single.optimum == 0


def test_imagined_steps_find_the_goal_of_a_grid_sooner():
    world = MDP.from_drawing("S....\n.###.\n...#G", slip=0.0, discount=0.9, step_reward=-0.01)
    assert world.terminal.sum() == 1
    plain, dyna = (agent.learn(world, 200, seeds=8) for agent in (QLearning(), Dyna(10)))
    assert (dyna.shortfall[:, -1] < 1e-9).all() and (plain.shortfall[:, -1] > 0.1).any()
    assert dyna.episodes[:, -1].mean() > 2 * plain.episodes[:, -1].mean()
    # Nothing is done in the final cell.
    assert dyna.visits[:, world.terminal].sum() == 0 and dyna.visits.sum() == 8 * 200


def test_optimism_begins_at_the_largest_value(world):
    agent = OptimisticQ().prepared(0.9, 2.0)
    assert agent.initial == pytest.approx(20.0)
    assert OptimisticQ(reward_max=1.0).prepared(0.5, 7.0).initial == 2.0
    with pytest.raises(DataError, match="reward_max is missing"):
        OptimisticQ().prepared(0.9, None)
    # After five visits that pay the least there is, the value still is the largest there can be.
    kept = OptimisticQ(rate=0.3, visits=5).prepared(0.5, 2.0, -1.0)
    value = kept.initial
    for _ in range(5):
        value += 0.3 * (-1.0 / (1 - 0.5) - value)
    assert value == pytest.approx(2.0 / (1 - 0.5)) and kept.initial > 4
    with pytest.raises(DataError, match="a rate of one forgets"):
        OptimisticQ(rate=1.0, visits=2)
    run = OptimisticQ().learn(world, 20_000, seeds=8)
    assert (run.visits > 0).all() and (run.shortfall[:, -1] < 0.04 * run.optimum).mean() >= 0.75


def test_the_threshold_of_r_max_is_its_formula():
    agent = RMax(0.2, 0.1, reward_max=1.0)
    s, a, gamma = 3, 2, 0.5
    far, off = 0.2 * 0.25 / (2 * 0.5), 0.2 * 0.5 / 4
    by_state = 2 / far**2 * np.log((2 ** (s + 1) - 2) * 2 * s * a / 0.1)
    by_reward = 1 / (2 * off**2) * np.log(4 * s * a / 0.1)
    assert agent.threshold(s, a, gamma) == int(np.ceil(max(by_state, by_reward)))
    assert RMax(known=7).threshold(3, 2, 0.5) == 7


def test_hoeffdings_count_keeps_its_promise(rng):
    n = hoeffding_count(0.1, 0.05, 2.0)
    assert n == np.ceil(4 / 0.02 * np.log(40)) == 738
    means = rng.choice([-1.0, 1.0], (400, n)).mean(axis=1)
    assert (np.abs(means) > 0.1).mean() <= 0.05
    with pytest.raises(DataError, match="delta a probability"):
        hoeffding_count(0.1, 2.0)


def test_agents_are_paid_at_random():
    def step(s, a):
        return [(0.5, 0, 1.0), (0.5, 0, 3.0)] if a else [(1.0, 0, 1.5)]

    world = MDP.from_function([0], [0, 1], step, 0.5)
    path = collect(world, steps=2000)
    paid = path.rewards[path.actions == 1]
    assert set(paid) == {1.0, 3.0} and abs(paid.mean() - 2.0) < 4.5 / np.sqrt(len(paid))
    agent = QLearning(EpsilonGreedy(1.0), PolynomialDecay(0.8))
    sums = agent.learn(world, 40, seeds=4, evaluate_every=1).rewards[0]
    assert set(np.diff(sums).round(9)) == {1.0, 1.5, 3.0}
    np.testing.assert_allclose(agent.learn(world, 2000, seeds=4).q.mean(axis=0), solve(world).q, atol=0.3)
    assert open_source(world).reward_max == 3.0 and open_source(world).reward_min == 1.0


def test_r_max_takes_the_least_reward_from_the_world():
    given = RMax(0.2, 0.1, reward_max=1.0, reward_min=-2.0)
    assert RMax(0.2, 0.1).prepared(0.5, 1.0, -2.0).threshold(3, 2, 0.5) == given.threshold(3, 2, 0.5)
    assert given.prepared(0.5, 1.0, -9.0).reward_min == -2.0
    above = RMax(0.2, 0.1).prepared(0.5, 1.0, 0.4)
    assert above.threshold(3, 2, 0.5) == RMax(0.2, 0.1, reward_max=1.0).threshold(3, 2, 0.5)
    lossy = MDP(np.full((2, 2, 2), 0.5), [[1.0, -2.0], [0.0, 0.5]], 0.5)
    assert open_source(lossy).reward_min == -2.0


def test_planning_with_a_model_is_solving_it(world):
    prob = np.concatenate([world.matrix.toarray().reshape(6, 3, 6), world.ends[:, :, None]], axis=2)
    plan = solve(world, tolerance=1e-10)
    np.testing.assert_allclose(best_values(prob, world.rewards, 0.9, np.zeros(6, int)), plan.q, rtol=1e-9)


def test_beliefs_and_estimates_from_trajectories(world):
    path = collect(world, steps=4000, seed=1)
    found = estimate(path, discount=0.9)
    counts = path.counts()
    n = counts.sum(axis=2)
    np.testing.assert_allclose(found.matrix.toarray().reshape(6, 3, 6), counts[:, :, :-1] / n[:, :, None])
    np.testing.assert_allclose(found.rewards, world.rewards, rtol=1e-12)
    prior = WorldBelief(6, 3, prior=0.5, noise=0.25, reward=1.0, strength=2.0)
    belief = prior.condition(path)
    np.testing.assert_allclose(belief.alpha, 0.5 + counts)
    np.testing.assert_allclose(belief.mean, (2.0 + n * world.rewards) / (2.0 + n))
    halves = [
        Trajectory(*(column[part] for column in columns(path)), sizes=(6, 3)) for part in (slice(900), slice(900, None))
    ]
    np.testing.assert_allclose(prior.condition(halves[0]).condition(halves[1]).mean, belief.mean)
    np.testing.assert_allclose(belief.transition(2, 1).estimate, belief.alpha[2, 1] / belief.alpha[2, 1].sum())
    assert belief.transition(2, 1).alpha.shape == (7,)
    draws = belief.sample(400, seed=2)
    rewards = np.stack([draw.rewards for draw in draws])
    se = np.sqrt(0.25 / (2.0 + n))
    np.testing.assert_array_less(np.abs(rewards.mean(0) - belief.mean), 4.5 * se / np.sqrt(400))
    ends = np.stack([draw.ends for draw in draws]).mean(0)
    total = belief.alpha.sum(2)
    p = belief.alpha[:, :, -1] / total
    np.testing.assert_array_less(np.abs(ends - p), 4.5 * np.sqrt(p * (1 - p) / (total + 1) / 400))
    np.testing.assert_allclose(belief.expected(0.9).ends, p)
    with pytest.warns(RepairedWarning, match="were never met"):
        estimate(collect(world, np.zeros(6, int), 50), 0.9)


def columns(path):
    return path.states, path.actions, path.rewards, path.following, path.done, path.cut


def test_returns_of_episodes():
    path = Trajectory(
        [0, 0, 0, 0],
        [0] * 4,
        [1.0, 2.0, 4.0, 8.0],
        [0] * 4,
        [False, True, False, False],
        [False, False, True, False],
        sizes=(1, 1),
    )
    np.testing.assert_allclose(path.returns(0.5), [2.0, 4.0, 8.0])


@pytest.mark.slow
def test_r_max_keeps_its_promise():
    """ε = 0.4, δ = 0.1: among 20 seeds at most a few may be worse than ε; binomial(20, 0.1) exceeds 6 once in 400."""
    rng = np.random.default_rng(8)
    world = MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), 0.5, start=0)
    agent = RMax(0.4, 0.1)
    m = agent.prepared(0.5, float(world.rewards.max())).threshold(3, 2, 0.5)
    run = agent.learn(world, 12 * m, seeds=20)
    assert (run.visits >= m).all(axis=(1, 2)).mean() > 0.8
    assert (run.shortfall[:, -1] > 0.4).sum() <= 6


@pytest.mark.slow
def test_posterior_sampling_has_sublinear_regret_on_a_chain(river):
    run = PosteriorSampling(noise=0.1).learn(river, 8000, seeds=12, evaluate_every=1000)
    assert run.gain == pytest.approx(solve(river, criterion="average").gain)
    regret = run.regret.mean(axis=0)
    first, last = regret[1], regret[-1] - regret[-3]
    assert last < 0.35 * first
    assert (run.shortfall[:, -1] < 0.05 * run.optimum).mean() > 0.8
    greedy = QLearning(EpsilonGreedy(0.1), Harmonic()).learn(river, 8000, seeds=12)
    assert greedy.regret[:, -1].mean() > 2 * regret[-1]


@pytest.mark.slow
@pytest.mark.parametrize("agent", [RMax(known=40), ModelBased(UCB(0.3))], ids=name)
def test_optimists_find_the_end_of_the_river(agent, river):
    run = agent.learn(river, 6000, seeds=8)
    assert (run.shortfall[:, -1] < 0.05 * run.optimum).mean() >= 0.75


def test_softmax_and_upper_bounds_find_good_policies(world):
    for explore in (SoftmaxExploration(2.0), UCB(3.0)):
        run = QLearning(explore).learn(world, 20_000, seeds=8)
        assert (run.shortfall[:, -1] < 0.04 * run.optimum).mean() >= 0.75


def test_gymnasium_is_learned_nearly_to_the_optimum():
    pytest.importorskip("gymnasium")
    world = MDP.from_gymnasium("FrozenLake-v1", 0.99)
    run = QLearning(initial=1.0).learn(world, 100_000, seeds=8)
    assert run.optimum == pytest.approx(0.5420, abs=1e-4)
    assert (run.scores[:, -1] > 0.98 * run.optimum).mean() >= 0.75


@pytest.mark.slow
def test_an_environment_of_gymnasium_is_learned_nearly_to_the_optimum():
    gymnasium = pytest.importorskip("gymnasium")
    run = QLearning().learn("Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3", 150_000)
    assert run.optimum == pytest.approx(6.327, abs=1e-3)
    assert run.scores[0, -1] > 0.98 * run.optimum


def test_environments_are_reproducible_and_go_on():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("FrozenLake-v1")
    agent = SARSA(initial=0.5)
    run = agent.learn(env, 600, seeds=2, seed=1, evaluate_every=300)
    np.testing.assert_array_equal(agent.learn("FrozenLake-v1", 600, seeds=2, seed=1).q, run.q)
    more = run.resume(env, 200)
    assert more.done == 800 and more.visits.sum() == 1600
    assert run.optimum == pytest.approx(0.5420, abs=1e-4)
    planned = RMax(known=3).learn(env, 300)
    assert planned.visits.sum() == 300
    path = collect(env, steps=200)
    assert len(path) == 200 and TD(0.5).evaluate(env, None, 200).values.shape == (1, 16)


def test_environments_without_a_table_are_evaluated_by_episodes():
    gymnasium = pytest.importorskip("gymnasium")
    run = QLearning(EpsilonGreedy(0.2), discount=1.0).learn(Corridor(gymnasium), 400, episodes=3)
    assert run.optimum is None and run.scores[0, -1] == pytest.approx(-2.0)
    with pytest.raises(DataError, match="no regret"):
        assert run.regret is None
    with pytest.raises(DataError, match="no shortfall"):
        assert run.shortfall is None
    with pytest.raises(DataError, match="reward_max is missing"):
        RMax().learn(Corridor(gymnasium), 10)


class Corridor:
    """Three cells; each step costs one, and the end is on the right."""

    spec = None

    def __init__(self, gymnasium):
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, seed=None):
        self.s = 1
        return self.s, {}

    def step(self, a):
        self.s = max(self.s + (1 if a else -1), 0)
        return min(self.s, 2), -1.0, self.s > 2, False, {}


def test_bad_input(world, unchecked):
    with pytest.raises(DataError, match="steps"):
        QLearning().learn(world, 0)
    with pytest.raises(DataError, match="seed must be a whole number"):
        QLearning().learn(world, 10, seed=-1)
    with pytest.raises(DataError, match="found list"):
        QLearning().learn([1], 10)
    with pytest.raises(DataError, match="rate must be at most 1"):
        QLearning(rate=2.0)
    with pytest.raises(DataError, match="number or a schedule"):
        QLearning(rate="fast")
    with pytest.raises(DataError, match="rule such as"):
        QLearning(explore=0.1)
    with pytest.raises(DataError, match="must be a probability"):
        EpsilonGreedy(1.5)
    with pytest.raises(DataError, match="temperature"):
        SoftmaxExploration(0.0)
    with pytest.raises(DataError, match="discount"):
        SARSA(discount=1.1)
    with pytest.raises(DataError, match="lam"):
        TD(1.5)
    with pytest.raises(DataError, match="discount below 1"):
        RMax(discount=1.0).learn(world, 10)
    with pytest.raises(DataError, match="known must be"):
        RMax(known=0)
    with pytest.raises(DataError, match="the run is of QLearning"):
        SARSA().learn(world, 10, resume=QLearning().learn(world, 10))
    with pytest.raises(DataError, match="cannot go on with 3"):
        QLearning().learn(world, 10, resume=QLearning().learn(world, 10), seeds=3)
    with pytest.raises(DataError, match="policy must be 6 actions"):
        collect(world, np.full(6, 7))
    with pytest.raises(DataError, match="actions must lie between 0 and 1"):
        Trajectory([0], [2], [0.0], [0], sizes=(1, 2))
    with pytest.raises(DataError, match="ends, which the belief holds impossible"):
        WorldBelief(6, 3, ends=False).condition(collect(world, steps=200))


def test_continuous_environments_are_refused():
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(DataError, match="not discrete"):
        QLearning().learn(gymnasium.make("CartPole-v1"), 10)
    with pytest.raises(DataError, match="cannot make"):
        QLearning().learn("NoSuchWorld-v0", 10)


def test_pictures(world):
    from credo.plots import learning_curves, regret

    runs = {"a": QLearning().learn(world, 300, seeds=2, evaluate_every=100), "b": SARSA().learn(world, 300, seeds=2)}
    ax = learning_curves(runs)
    median = np.median(runs["a"].scores, axis=0)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), median)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert regret(runs["a"]).get_legend() is None
    with pytest.raises(DataError, match="level"):
        regret(runs, level=1.0)
    with pytest.raises(DataError, match="runs is empty"):
        learning_curves({})
