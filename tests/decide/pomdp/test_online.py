"""Search at the moment of acting: Tiger played well, simulators alone, particles against exact beliefs; learning."""

import numpy as np
import pytest

import credo
from credo.core.errors import RepairedWarning
from credo.decide.pomdp import (
    DESPOT,
    POMCP,
    POMDP,
    BeliefWorld,
    GymWorld,
    POMDPBelief,
    StateSpaceWorld,
    World,
    act_and_learn,
)
from credo.decide.pomdp.sampling import Simulator
from credo.decide.pomdp.simulators import FiniteWorld
from credo.errors import DataError
from credo.models.densities import CategoricalDensity
from credo.models.hmm import InputHMM


class Doors(World):
    """The tiger as somebody writes it who knows no tables."""

    actions, discount, reward_max = ("listen", "left", "right"), 0.95, 10.0

    def begin(self, random):
        return int(random.integers(2))

    def step(self, state, action, random):
        if action == 0:
            return state, int(state if random.random() < 0.85 else 1 - state), -1.0, False
        return self.begin(random), int(random.integers(2)), -100.0 if action - 1 == state else 10.0, False


@pytest.mark.parametrize("method", [POMCP(simulations=600, depth=15), DESPOT(scenarios=100, trials=20, depth=6)])
def test_tiger(tiger, method):
    """What exact value iteration does: listen until three more have been heard on one side, then open the other."""
    agent = method.begin(tiger, seed=1)
    for seen in ("hear-left", "hear-right", "hear-left", "hear-left"):
        assert agent.act() == "listen"
        agent = agent.observed("listen", seen)
    assert agent.act() == "open-right"
    assert agent.observed("open-right", "hear-left").act() == "listen"


@pytest.mark.parametrize("method", [POMCP(simulations=1500, depth=30), DESPOT(scenarios=100, trials=20, depth=6)])
def test_tiger_as_a_simulator(method):
    """Of the optimal actions those that are clearly best: listen when nothing is known, open when (nearly) sure."""
    agent = method.begin(Doors(), seed=1)
    assert agent.act() == "listen"
    for _ in range(4):
        agent = agent.observed("listen", 0)
    assert agent.act() == "right"


def test_the_tree_is_kept(tiger):
    """What was searched below a history is there when it comes true, and is added to."""
    agent = POMCP(simulations=300, depth=10).begin(Doors())
    agent.act()
    after = agent.observed("listen", 1)
    kept = after.root.visits
    assert kept > 20
    after.act()
    assert after.root.visits == kept + 300
    assert agent.observed("left", 0).root.visits < kept  # hardly tried


def test_what_a_search_falls_back_on(tiger):
    """A plan is counted on at its word; a function is followed by states; of constant actions the best is taken."""
    plan = credo.solve(tiger, gap=0.01)
    agent = POMCP(rollout=plan).begin(tiger)
    assert agent.world.floor(agent.world.begin(np.random.default_rng(0)))[0] == pytest.approx(plan.lower)
    assert agent.act() == plan.act()
    assert len(POMCP(simulations=20, rollout=plan).play(tiger, 2, steps=3).returns) == 2
    followed = []

    def policy(state, random):
        followed.append(state)
        return "listen"

    assert POMCP(simulations=200, depth=10, rollout=policy).begin(tiger).act() == "listen"
    assert set(followed) == {0, 1}
    agent = POMCP().begin(Doors())
    best = agent.method.default(agent.world, agent.belief, np.random.default_rng(0))
    assert best is not None
    assert best(0, np.random.default_rng(0)) == "listen"
    with pytest.raises(DataError, match="rollout can be a plan only in a POMDP, found Doors"):
        POMCP(rollout=plan).begin(Doors())


def test_values_below_a_history_are_bounds(tiger):
    """Each is Bellman's backup of those below it, beyond the plan and below the upper bound; more search, no less."""
    world = BeliefWorld(tiger, 0.0)
    lower, upper = world.trials.bounds(world.trials.root)
    agent, floors = POMCP(simulations=200, depth=15).begin(world), [lower]
    for _ in range(3):
        agent.act()
        floors.append(agent.root.floor)
    assert floors == sorted(floors)
    assert lower + 1 < floors[-1] <= upper + 1e-9
    root, listen = agent.root, agent.root.actions.index(0)
    below = [root.children[0, seen].floor for seen in (0, 1)]
    assert root.means[listen] == pytest.approx(-1 + 0.95 * np.mean(below), abs=1e-9)
    assert root.floor == pytest.approx(max(lower, *(m for m, n in zip(root.means, root.counts, strict=True) if n)))
    state, seen, reward, _ = world.step(world.trials.root, 0, np.random.default_rng(0))
    assert (reward, seen in (0, 1)) == (-1.0, True)
    assert sorted(state.belief.tolist()) == pytest.approx([0.15, 0.85])


def test_it_earns_what_it_should(tiger):
    """In 25 steps 72 % of the optimum 19.37 is discounted to the present; a random policy loses hundreds."""
    found = POMCP(simulations=40, depth=10, beforehand=1.0).play(tiger, 20, steps=25, seed=0)
    assert abs(found.mean - 19.37 * (1 - 0.95**25)) < 4.5 * found.standard_error
    assert len(found.returns) == 20


def test_particles_that_are_few_are_joined_by_others():
    """A state that no particle has is found near those there are."""

    class Walk(World):
        actions, discount = ("stay",), 0.9

        def begin(self, random):
            return 0

        def step(self, state, action, random):
            return state, state, 0.0, False

        def nearby(self, state, random):
            return state + int(random.integers(-1, 2))

    found = Walk().updated([0] * 50, 0, 1, np.random.default_rng(0))
    assert found == [1] * 50


def test_particles_follow_bayes(tiger):
    random, world = np.random.default_rng(0), FiniteWorld(tiger)
    states = world.begin_many(4000, random)
    after = np.array(world.updated(states, 0, 1, random))
    assert abs(after.mean() - 0.85) < 4.5 * np.sqrt(0.85 * 0.15 / 4000)


def test_no_particle_agrees():
    random = np.random.default_rng(0)
    with pytest.warns(RepairedWarning, match="none of 10 particles agrees with the observation 7"):
        assert len(Doors().updated([0] * 10, 0, 7, random)) == 10


def test_a_state_space_model():
    """A point on a line with noisy sight: it is worth most at zero, so walk there."""
    model = credo.StateSpaceModel(
        step=lambda z, u: z + u,
        observe=lambda z, u: z,
        process_noise=[[0.01]],
        observation_noise=[[0.25]],
        start_mean=[3.0],
        start_covariance=[[0.1]],
    )
    world = StateSpaceWorld(model, [-1.0, 0.0, 1.0], lambda z, u: -np.abs(z[:, 0]), 0.9, width=1.0, reward_max=0.0)
    agent = DESPOT(scenarios=30, trials=10, depth=6, particles=200).begin(world)
    assert agent.act() == -1.0
    agent = agent.observed(-1.0, 2.1)
    assert abs(np.mean(agent.belief) - 2.0) < 0.3
    with pytest.raises(DataError, match="what is seen must be finite numbers, found nan"):
        agent.observed(-1.0, np.nan)
    plane = StateSpaceWorld(model, np.array([[0.0, 1.0], [1.0, 0.0]]), lambda z, u: z[:, 0])
    assert [plane.number(each) for each in (plane.actions[1], [0.0, 1.0], np.array([1.0, 0.0]))] == [1, 0, 1]
    for seen in (1.0, 0.1):
        agent = agent.observed(-1.0, seen)
    assert agent.act() == 0.0


def test_a_gymnasium_environment():
    gymnasium = pytest.importorskip("gymnasium")

    class Hidden(gymnasium.Env):
        """A coin under a cup; looking costs, a right guess pays."""

        action_space = gymnasium.spaces.Discrete(3)
        observation_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.coin = int(self.np_random.integers(2))
            return 2, {}

        def step(self, action):
            if action == 2:
                return self.coin, -0.1, False, False, {}
            return 2, 1.0 if action == self.coin else -1.0, True, False, {}

    agent = POMCP(simulations=300, depth=5, particles=50).begin(Hidden())
    assert agent.act() == 2
    assert agent.observed(2, 1).act() == 1


def test_an_environment_seen_through_noise():
    """A wrapper's own generator is seeded anew for each copy; actions may begin at one; what is seen is rounded."""
    gymnasium = pytest.importorskip("gymnasium")

    class Walk(gymnasium.Env):
        """Left is 1, right is 2; at three steps to the right there is a prize."""

        action_space = gymnasium.spaces.Discrete(2, start=1)
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = 0
            return np.zeros(1), {}

        def step(self, action):
            self.at += 2 * action - 3
            return np.array([float(self.at)]), float(self.at == 3), self.at == 3, False, {}

    class Noisy(gymnasium.ObservationWrapper):
        noise = np.random.default_rng(0)

        def __init__(self, env):
            super().__init__(env)
            self.noise = np.random.default_rng(0)

        def observation(self, seen):
            return seen + 0.3 * self.noise.normal(size=1)

    world = GymWorld(Noisy(Walk()), 0.9, width=0.5)
    assert world.actions == (1, 2)
    random = np.random.default_rng(1)
    state = world.begin(random)
    assert len({world.step(state, 1, random)[1] for _ in range(20)}) > 1
    agent = POMCP(simulations=200, depth=6, particles=30).begin(world)
    assert agent.act() == 2
    after = agent.observed(2, np.array([1.05]))
    assert {each.unwrapped.at for each in after.belief} == {1}
    with pytest.raises(DataError, match="there is no action 0; there are 1, 2"):
        agent.observed(0, 1.0)


def test_what_it_does_not_take(tiger):
    with pytest.raises(DataError, match="a POMDP, a World or a gymnasium environment, found int"):
        POMCP().begin(3)
    with pytest.raises(DataError, match="no action 'sing'"):
        POMCP().begin(tiger).observed("sing", 0)
    blank = Doors()
    blank.reward_max = None
    with pytest.raises(DataError, match="DESPOT needs reward_max"):
        DESPOT().begin(blank).act()
    with pytest.raises(DataError, match="simulations"):
        POMCP(simulations=0)
    with pytest.raises(DataError, match="exploration must be"):
        POMCP(exploration=np.nan).begin(Doors()).act()
    with pytest.raises(DataError, match="seed must be"):
        POMCP().begin(Doors(), seed=-1)
    with pytest.raises(DataError, match="seed must be"):
        POMCP().play(Doors(), seed=-1)
    with pytest.raises(DataError, match="seconds must be"):
        DESPOT(seconds=-1.0)


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("actions", (), "Doors must have actions, a tuple of their names"),
        ("discount", 2.0, "discount of Doors must lie between 0 and 1"),
        ("actions", ([1], 2, 3), r"an action in Doors must be hashable, .* found \[1\]"),
        ("reward_max", np.nan, "reward_max of Doors must be a finite number"),
        ("step", lambda state, action, _: (0, 0, 1.0 if action < 2 else np.nan, False), "reward of Doors must be"),
        ("step", lambda *_: (0, 0, 1.0), "must return .state, seen, reward, over., found .0, 0, 1.0"),
        ("step", lambda *_: (0, 0, np.nan, False), "the reward of Doors must be a finite number, found nan"),
        ("step", lambda *_: (0, [1], 1.0, False), r"what is seen in Doors must be hashable, .* found \[1\]"),
    ],
)
def test_worlds_that_lack_something(part, value, sentence):
    world = Doors()
    setattr(world, part, value)
    with pytest.raises(DataError, match=sentence):
        POMCP().begin(world)


def test_a_world_that_changes_the_state_it_is_given():
    class Counts(Doors):
        def begin(self, random):
            return [0]

        def step(self, state, action, random):
            state[0] += 1
            return state, 0, 0.0, False

    with pytest.raises(DataError, match="must leave the state that it is given as it is"):
        POMCP().begin(Counts())


def test_rewards_that_cannot_be():
    """Seen late, as they are paid late: more than the largest reward, or no number."""

    class Late(Doors):
        paid = np.nan

        def begin(self, random):
            return 0

        def step(self, state, action, random):
            return state + 1, 0, self.paid if state == 2 else 0.0, state == 4

    with pytest.raises(DataError, match="the rewards of Late must be finite, found a return of nan"):
        POMCP(simulations=50).begin(Late()).act()
    too_good = Late()
    too_good.paid = 11.0
    with pytest.raises(DataError, match="must be finite and at most its reward_max, 10, found 11"):
        DESPOT(scenarios=20, trials=5).begin(too_good).act()
    costs = Doors()
    costs.reward_max = -1.0
    assert costs.upper([0], 90) == -1.0  # it may be over after a step


def test_a_reward_that_is_far_away_is_found():
    """While all returns are zero the search must go on exploring: the prize is four steps of the same action away."""

    class Ladder(World):
        actions, discount = ("down", "up"), 0.95

        def begin(self, random):
            return 0

        def step(self, state, action, random):
            after = state + 1 if action else 0
            return after, after, float(after == 4), after == 4

    agent = POMCP(simulations=300, depth=6, rollout=lambda state, random: "down").begin(Ladder())
    assert agent.act() == "up"
    assert agent.act() == POMCP(simulations=300, depth=6, rollout=agent.method.rollout).begin(Ladder()).act()


def test_one_rare_disaster_does_not_make_it_explore_for_ever():
    """The scale of exploration is that of most returns: with their range, the better action has half of the visits."""

    class Rare(World):
        actions, discount = ("good", "bad"), 0.9

        def begin(self, random):
            return 0

        def step(self, state, action, random):
            disaster = action and random.random() < 0.003
            return 0, 0, -1e4 if disaster else 1.0 - 2 * action + random.normal(), True

    agent = POMCP(simulations=2000).begin(Rare(), seed=2)
    assert agent.act() == "good"
    scaled = Rare()
    scaled.step = lambda *given: (*Rare.step(scaled, *given)[:2], 1e-6 * Rare.step(scaled, *given)[2], True)
    assert POMCP(simulations=2000).begin(scaled, seed=2).act() == "good"


@pytest.mark.parametrize("method", [POMCP(seconds=0.2, depth=500), DESPOT(seconds=0.2, depth=500)])
def test_the_time_of_a_step_is_kept(method, monkeypatch):
    """On a clock that moves with the world's own steps, 10 ms each: rollouts and expansions are cut short."""
    made = [0]

    class Slow(Doors):
        def step(self, state, action, random):
            made[0] += 1
            return super().step(state, action, random)

    monkeypatch.setattr("time.monotonic", lambda: made[0] * 1e-5)
    agent = method.begin(Slow())
    made[0] = 0
    agent.act()
    assert 15_000 < made[0] < 45_000


def test_particles_with_a_likelihood():
    """Those whose episode is over have no weight; where none agrees there is a warning."""

    class Ends(Doors):
        chance = 1.0

        def step(self, state, action, random):
            return state, 0, 0.0, state == 1

        def likelihood(self, seen, action, states):
            return np.full(len(states), self.chance)

    world, random = Ends(), np.random.default_rng(0)
    assert set(world.updated([0, 1] * 20, 0, 0, random)) == {0}
    world.chance = 0.0
    with pytest.warns(RepairedWarning, match="none of 4 particles agrees"):
        assert len(world.updated([0, 1, 0, 1], 0, 0, random)) == 4


# ── learning


def test_from_a_hidden_markov_model_with_inputs():
    """Two hidden rooms; the input says whether to change; the law of the chain at each input is that of the HMM."""
    random = np.random.default_rng(0)
    u = random.integers(2, size=1500)
    z = np.zeros(1500, dtype=int)
    for t in range(1, 1500):
        z[t] = z[t - 1] if random.random() < 0.1 + 0.8 * (u[t] == 0) else 1 - z[t - 1]
    x = np.where(random.random(1500) < 0.9, z, 1 - z)
    hmm = credo.fit(InputHMM(2, CategoricalDensity(2)), x, inputs=u.astype(float))
    p = POMDP.from_hmm(hmm, [[0.0], [1.0]], np.eye(2), 0.9, actions=["stay", "change"])
    assert p.shape == (2, 2, 2) and p.action_names == ("stay", "change")
    _, chains = hmm.chain_at(np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(p.transitions[1].toarray(), chains[1])
    assert (np.diag(p.transitions[0].toarray()) > 0.75).all()
    assert (np.diag(p.transitions[1].toarray()) < 0.25).all()
    with pytest.raises(DataError, match=r"takes an InputHMM .* found HMM"):
        POMDP.from_hmm(credo.HMM(2), [[0.0]], [0, 0])
    with pytest.raises(DataError, match="inputs must have 1 columns, .* found 2"):
        POMDP.from_hmm(hmm, np.eye(2), np.eye(2))


def test_counts_grow_by_an_episode(tiger):
    belief = POMDPBelief.around(tiger, 5.0)
    after = belief.condition([0, 0, 1], [0, 0, 1], seed=3)
    assert (after.moves - belief.moves).sum() == 3
    assert (after.shows - belief.shows).sum() == 3
    np.testing.assert_allclose(after.mean.transitions[0].toarray().sum(axis=1), 1)
    with pytest.raises(DataError, match="as many"):
        belief.condition([0], [0, 1])
    named = belief.condition(["listen", "listen", "open-left"], ["hear-left", "hear-left", "hear-right"], seed=3)
    np.testing.assert_array_equal(named.moves, after.moves)
    with pytest.raises(DataError, match="no action 0.5"):
        belief.condition([0.5], [0])
    with pytest.raises(DataError, match="must not both be zero"):
        POMDPBelief.around(tiger, 0.0, 0.0)
    with pytest.raises(DataError, match="floor must be"):
        POMDPBelief.around(tiger, 1.0, -0.1)


def test_small_counts():
    """Draws of which most are nearly zero are still laws."""
    p = POMDP(np.full((3, 1, 3), 1 / 3), np.full((3, 2), 0.5), np.ones(3))
    drawn = [POMDPBelief.around(p, 0.0, 0.002).sample(seed=k).transitions[0].toarray() for k in range(40)]
    assert abs(np.mean(drawn) - 1 / 3) < 1e-12 and np.max(drawn, axis=2).mean() > 0.99
    np.testing.assert_allclose(np.mean(drawn, axis=(0, 1)), 1 / 3, atol=4.5 * np.sqrt(2 / 9 / 120))


def test_where_it_ends_is_known():
    p = POMDP(np.full((3, 1, 3), 1 / 3), np.full((3, 2), 0.5), [1.0, 1.0, 0.0], terminal=[2])
    assert POMDPBelief.around(p).sample(seed=1).terminal.tolist() == [False, False, True]


@pytest.mark.slow
def test_acting_while_learning_finds_how_well_it_hears(tiger):
    """The belief begins with deaf ears (0.6) and comes near what is true (0.85)."""
    guess = POMDP(
        list(tiger.transitions),
        [np.array([[0.6, 0.4], [0.4, 0.6]]), tiger.observations[1], tiger.observations[2]],
        tiger.rewards,
        0.75,
    )
    belief = POMDPBelief.around(guess, 8.0, 0.01)
    belief, episodes = act_and_learn(tiger, belief, 8, steps=30, gap=0.1)
    assert len(episodes) == 8
    heard = belief.mean.observations[0].toarray()
    assert np.diag(heard).mean() > 0.7
    learned = earned(credo.solve(belief.mean, gap=0.1, seconds=5.0), tiger)
    only_listening = -(1 - 0.95**25) / 0.05
    assert learned.mean() - only_listening > 4.5 * learned.std() / np.sqrt(len(learned))


def earned(plan, world, n=40, steps=25):
    """Discounted returns in a world of a plan that was made for another one, whose beliefs it holds."""
    totals = np.zeros(n)
    for k in range(n):
        draws, belief = Simulator(world, k), plan.world.belief()
        state = draws.begin(1)
        for t in range(steps):
            action = plan.world.action(plan.act(belief))
            state, seen, paid = draws.step(state, np.array([action]))
            totals[k] += world.discount**t * paid[0]
            belief = belief.condition(action, int(seen[0]))
    return totals
