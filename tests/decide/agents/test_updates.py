"""Updates against NumPy on the same random numbers, and loops in Python against compiled ones."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from credo.decide.agents import (
    SARSA,
    TD,
    UCB,
    DoubleQ,
    Dyna,
    EpsilonGreedy,
    ExpectedSARSA,
    FixedPolicy,
    Greedy,
    NStep,
    PolynomialDecay,
    QLearning,
    SoftmaxExploration,
    Trajectory,
    collect,
)
from credo.decide.agents.alias_tables import alias, tabulate
from credo.decide.agents.engine import chunk_length, stream
from credo.decide.agents.environments import BLOCK

# ── each update in plain NumPy, for one experiment


def pick(q, u, eps):
    """ε-greedy: the action at which the cumulative probabilities pass u."""
    best = q == q.max()
    total = np.cumsum(eps / len(q) + (1 - eps) * best / best.sum())
    return min(int((total <= u * total[-1]).sum()), len(q) - 1)


class Path:
    """A walk through the tables of a world; `step` gives reward, successor, done, cut."""

    def __init__(self, tables, first, draws, horizon):
        self.outcome, self.begin, self.draws, self.horizon = tables.outcome(), tables.begin(), draws, horizon or np.inf
        self.s, self.age = self.begin(first), 0

    def step(self, t, a):
        code, r = self.outcome(self.s, a, self.draws[t, 1])
        self.age += 1
        done = code < 0
        cut = not done and self.age >= self.horizon
        if done or cut:
            self.s, self.age = self.begin(self.draws[t, 2]), 0
        else:
            self.s = code
        return r, max(code, 0), done, cut


def rate(n):
    return 1 / (1 + n) ** 0.8


def off_policy(kind, tables, first, draws, eps, gamma, horizon, initial, plan=0):
    """Q-learning, expected SARSA, double Q, Dyna."""
    path = Path(tables, first[0], draws, horizon)
    q = np.full((2 if kind == "double" else 1, tables.states, tables.actions), initial)
    n = np.zeros(q.shape[1:])
    model = {}
    for t in range(len(draws)):
        s = path.s
        a = pick(q.mean(0)[s], draws[t, 0], eps)
        r, s2, done, _ = path.step(t, a)
        w = int(kind == "double" and draws[t, 3] >= 0.5)
        if kind == "expected":
            v = (1 - eps) * q[0, s2].max() + eps * q[0, s2].mean()
        else:
            v = q[len(q) - 1 - w, s2, q[w, s2].argmax()]
        q[w, s, a] += rate(n[s, a]) * (r + gamma * (0 if done else v) - q[w, s, a])
        n[s, a] += 1
        # The last four outcomes of each pair, in the places that their turns give them.
        model.setdefault((s, a), {})[(n[s, a] - 1) % 4] = (r, s2, done)
        for u in draws[t, 3 : 3 + plan]:
            (i, k), outcomes = list(model.items())[int(u * len(model))]
            r, s2, done = outcomes[int(u * len(model) % 1 * len(outcomes))]
            q[0, i, k] += rate(n[i, k] - 1) * (r + gamma * (0 if done else q[0, s2].max()) - q[0, i, k])
    return q.mean(0), n


def on_policy(steps_ahead, tables, first, draws, eps, gamma, horizon, initial):
    """n-step SARSA with whole episodes kept, as in the book: when t is reached, τ = t - n + 1 is updated."""
    path = Path(tables, first[0], draws, horizon)
    q, n = np.full((tables.states, tables.actions), initial), np.zeros((tables.states, tables.actions))
    a = pick(q[path.s], first[1], eps)
    episode, tau = [], 0
    for t in range(len(draws)):
        s = path.s
        r, s2, done, cut = path.step(t, a)
        episode.append((s, a, r))
        then = pick(q[path.s], draws[t, 0], eps)
        a2 = pick(q[s2], draws[t, 0], eps) if cut else then
        v = 0.0 if done else q[s2, a2]
        last = len(episode)
        while tau < last and (done or cut or tau <= last - steps_ahead):
            target = sum(gamma**i * episode[tau + i][2] for i in range(last - tau)) + gamma ** (last - tau) * v
            i, k, _ = episode[tau]
            q[i, k] += rate(n[i, k]) * (target - q[i, k])
            n[i, k] += 1
            tau += 1
        if done or cut:
            episode, tau = [], 0
        a = then
    return q, n


def td_lambda(tables, policy, first, draws, gamma, lam, replacing):
    """Values, with a trace for every state."""
    path = Path(tables, first, draws, None)
    v, n, e, rates = (np.zeros(tables.states) for _ in range(4))
    share, other = policy
    for t in range(len(draws)):
        s = path.s
        x = draws[t, 0] * share.shape[1]
        a = int(x) if x - int(x) < share[s, int(x)] else other[s, int(x)]
        r, s2, done, _ = path.step(t, int(a))
        rates[s] = rate(n[s])
        n[s] += 1
        e *= gamma * lam
        e[s] = 1 if replacing else e[s] + 1
        v = v + rates * (r + gamma * (0 if done else v[s2]) - v[s]) * e
        if done:
            e[:] = 0
    return v, n


class TableEnv:
    """An MDP as an environment; step t uses the same uniform numbers as the compiled loop with one seed."""

    def __init__(self, world, uniforms, seed):
        tables = tabulate(world)
        self.outcome, self.begin = tables.outcome(), tables.begin()
        self.observation_space = SimpleNamespace(n=tables.states, start=0)
        self.action_space = SimpleNamespace(n=tables.actions, start=0)
        self.first = float(stream(seed, 0, 0, first=True).random(2)[0])
        self.draws = stream(seed, 0, 0).random((BLOCK, uniforms))
        self.t = 0

    def reset(self, seed=None):
        self.s = self.begin(self.first if seed is not None else self.draws[self.t - 1, 2])
        return self.s, {}

    def step(self, a):
        code, reward = self.outcome(self.s, a, self.draws[self.t, 1])
        self.t += 1
        self.s = max(code, 0)
        return self.s, reward, code < 0, False, {}


# ── the tests

STEPS, SEEDS, SEED, EPS, HORIZON = 300, 2, 5, 0.3, 9
AGENTS = {
    "q": (QLearning, {}, off_policy, {"kind": "q"}),
    "expected": (ExpectedSARSA, {}, off_policy, {"kind": "expected"}),
    "double": (DoubleQ, {}, off_policy, {"kind": "double"}),
    "dyna": (Dyna, {"plan": 3, "outcomes": 4}, off_policy, {"kind": "dyna", "plan": 3}),
    "sarsa": (SARSA, {}, on_policy, {"steps_ahead": 1}),
    "n-step": (NStep, {"n": 3}, on_policy, {"steps_ahead": 3}),
}


def make(name, discount=None):
    kind, options, *_ = AGENTS[name]
    return kind(explore=EpsilonGreedy(EPS), rate=PolynomialDecay(0.8), initial=0.5, discount=discount, **options)


@pytest.mark.parametrize("name", AGENTS)
def test_compiled_updates_are_those_of_numpy(name, world):
    _, _, reference, options = AGENTS[name]
    agent = make(name)
    run = agent.learn(world, STEPS, seeds=SEEDS, seed=SEED, horizon=HORIZON)
    tables = tabulate(world)
    k = agent.uniforms
    first = stream(SEED, 0, 0, first=True).random((2, SEEDS))
    draws = stream(SEED, 0, 0).random((chunk_length(k, SEEDS), k, SEEDS))[:STEPS]
    for g in range(SEEDS):
        q, n = reference(
            tables=tables,
            first=first[:, g],
            draws=draws[:, :, g],
            eps=EPS,
            gamma=world.discount,
            horizon=HORIZON,
            initial=0.5,
            **options,
        )
        np.testing.assert_allclose(run.q[g], q, rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(run.visits[g], n)
    assert run.visits.sum() <= SEEDS * STEPS
    assert (run.episodes[:, -1] > STEPS / HORIZON).all()


@pytest.mark.parametrize("name", AGENTS)
def test_loops_in_python_do_the_same_as_compiled_ones(name, world):
    agent = make(name)
    compiled = agent.learn(world, STEPS, seed=SEED, horizon=HORIZON)
    # An environment has no discount of its own.
    agent = make(name, discount=world.discount)
    looped = agent.learn(TableEnv(world, agent.uniforms, SEED), STEPS, seed=SEED, horizon=HORIZON, episodes=1)
    np.testing.assert_allclose(looped.q, compiled.q, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(looped.visits, compiled.visits)
    for counted in ("returns", "episodes", "rewards"):
        np.testing.assert_allclose(getattr(looped, counted), getattr(compiled, counted), rtol=1e-11, atol=1e-13)


def test_one_step_is_sarsa_and_a_greedy_target_is_q_learning(world):
    one = NStep(1, initial=0.5).learn(world, STEPS, seeds=SEEDS)
    np.testing.assert_allclose(one.q, SARSA(initial=0.5).learn(world, STEPS, seeds=SEEDS).q, rtol=1e-12)
    expected = ExpectedSARSA(target=Greedy()).learn(world, STEPS, seeds=SEEDS)
    np.testing.assert_allclose(expected.q, QLearning().learn(world, STEPS, seeds=SEEDS).q, rtol=1e-12)


@pytest.mark.parametrize(
    "rule",
    [
        SoftmaxExploration(0.7),
        UCB(0.5),
        Greedy(),
        EpsilonGreedy(PolynomialDecay(0.3)),
        FixedPolicy(np.arange(50) % 4),
        FixedPolicy(np.random.default_rng(0).dirichlet(np.ones(4), 50)),
    ],
    ids=lambda rule: f"{type(rule).__name__}",
)
def test_rules_choose_the_same_compiled_and_in_python(rule, rng):
    q, n = rng.normal(size=(50, 4)).round(1), rng.integers(0, 5, (50, 4)).astype(float)
    u = rng.random(50)
    tables, states = (jnp.asarray(q), jnp.asarray(n)), jnp.arange(50)
    compiled = np.asarray(rule.choose(*tables, jnp.asarray(u), 7, states))
    choose, expect = rule.chooser(), rule.expecter()
    rows = list(zip(q.tolist(), n.astype(int).tolist(), strict=True))
    np.testing.assert_array_equal(compiled, [choose(*row, u[s], 7, s) for s, row in enumerate(rows)])
    means = [expect(*row, 7, s) for s, row in enumerate(rows)]
    np.testing.assert_allclose(np.asarray(rule.expect(*tables, 7, states)), means, rtol=1e-12, atol=1e-14)


def test_frequencies_of_rules_are_their_probabilities():
    q, u = np.array([0.3, 1.0, 1.0, -0.5]), (jnp.arange(100_000) + 0.5) / 100_000
    rows, zeros, states = jnp.tile(q, (len(u), 1)), jnp.zeros((len(u), 4)), jnp.zeros(len(u), int)
    soft = np.bincount(np.asarray(SoftmaxExploration(0.5).choose(rows, zeros, u, 0, states)), minlength=4) / len(u)
    np.testing.assert_allclose(soft, np.exp(q / 0.5) / np.exp(q / 0.5).sum(), atol=2e-5)
    greedy = np.bincount(np.asarray(EpsilonGreedy(0.2).choose(rows, zeros, u, 0, states)), minlength=4) / len(u)
    # The two best share what is greedy.
    np.testing.assert_allclose(greedy, [0.05, 0.05 + 0.8 * 0.5, 0.05 + 0.8 * 0.5, 0.05], atol=2e-5)


@pytest.mark.parametrize(("lam", "replacing"), [(0.0, False), (0.8, False), (0.8, True)])
def test_td_is_that_of_numpy_compiled_and_replayed(lam, replacing, world, rng):
    policy = rng.dirichlet(np.ones(3), 6)
    td = TD(lam, replacing=replacing)
    found = td.evaluate(world, policy, STEPS, seeds=SEEDS, seed=SEED)
    first = stream(SEED, 0, 0, first=True).random(SEEDS)
    draws = stream(SEED, 0, 0).random((chunk_length(4, SEEDS), 3, SEEDS))[:STEPS]
    for g in range(SEEDS):
        v, n = td_lambda(tabulate(world), alias(policy), first[g], draws[:, :, g], 0.9, lam, replacing)
        np.testing.assert_allclose(found.values[g], v, rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(found.visits[g], n)


def test_td_from_a_trajectory():
    path = Trajectory(
        [0, 1, 0, 1], [0] * 4, [1.0, 2.0, 1.0, 4.0], [1, 0, 1, 0], [False, True, False, True], sizes=(2, 1)
    )
    one = TD(1.0, rate=PolynomialDecay(1.0), discount=0.5).evaluate(path)
    # With λ = 1 and rates 1/n values are means of returns: 1 + 2/2 and 1 + 4/2; 2 and 4.
    np.testing.assert_allclose(one.values[0], [2.5, 3.0], rtol=1e-12)
    zero = TD(0.0, rate=PolynomialDecay(1.0), discount=0.5).evaluate(path)
    np.testing.assert_allclose(zero.values[0], [1.5, 3.0], rtol=1e-12)


def test_alias_tables_hold_the_probabilities(rng):
    prob = np.concatenate([rng.dirichlet(np.full(7, 0.3), 20), np.eye(7)[:2], np.full((1, 7), 1 / 7)])
    share, other = alias(prob)
    again = share / 7
    np.add.at(again, (np.arange(len(prob))[:, None], other), (1 - share) / 7)
    np.testing.assert_allclose(again, prob, atol=1e-15)


def test_collected_frequencies_are_the_probabilities(world):
    path = collect(world, steps=20_000, seed=3)
    counts = path.counts()
    n = counts.sum(axis=2)
    prob = np.concatenate([world.matrix.toarray().reshape(6, 3, 6), world.ends[:, :, None]], axis=2)
    se = np.sqrt(prob * (1 - prob) / n[:, :, None])
    assert (np.abs(counts / n[:, :, None] - prob) <= 4.5 * se + 1e-12).all()
    np.testing.assert_allclose(path.rewards, world.rewards[path.states, path.actions])
    again = collect(world, steps=20_000, seed=3)
    np.testing.assert_array_equal(path.following, again.following)
    going = ~path.done[:-1]
    np.testing.assert_array_equal(path.following[:-1][going], path.states[1:][going])
