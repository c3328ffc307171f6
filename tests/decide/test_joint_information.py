import itertools
import math

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

import credo
from credo.core.errors import DataError
from credo.decide.joint_information import (
    DIGITS,
    SHARE,
    choose,
    gain_bound,
    greedy_design,
    greedy_gain,
    information_gain,
    joint_doubt,
)
from credo.kernels import RBF, Exponential, Linear, Matern, Matern32, Matern52, Periodic, White
from credo.models.linear import InverseGamma, Isotropic
from credo.models.noise import KnownNoise

RNG = np.random.default_rng(5)
X, Y = RNG.uniform(size=(7, 2)), RNG.normal(size=7)
POOL = RNG.uniform(size=(12, 2))
PRIOR = credo.GP(RBF(0.4, 2.0), mean=0.0, noise=0.3)
GP = PRIOR.condition(X, Y)
COVARIANCE, NOISE = joint_doubt(GP, POOL)


def brute_gain(covariance, noise, index):
    """½ log|I + N⁻¹Σ| of a set, by NumPy."""
    s = list(index)
    return 0.5 * np.linalg.slogdet(np.eye(len(s)) + covariance[np.ix_(s, s)] / noise[s][:, None])[1]


def test_the_gain_is_the_entropy_that_outcomes_take_away():
    """H[f] - H[f | y] with the posterior from conditioning: its covariance does not depend on y."""
    after = GP.condition(POOL, np.zeros(12))
    at = np.concatenate([POOL, [[0.3, 0.7]]])
    before_, after_ = (np.asarray(b.predict(at, joint=True).latent_covariance) for b in (GP, after))
    lost = 0.5 * (np.linalg.slogdet(before_)[1] - np.linalg.slogdet(after_)[1])
    np.testing.assert_allclose(information_gain(GP, POOL), lost, rtol=1e-6)
    np.testing.assert_allclose(information_gain(GP, POOL), brute_gain(COVARIANCE, NOISE, range(12)), rtol=1e-10)


def test_the_gain_of_one_input_is_that_of_its_ratio():
    p = GP.predict(POOL[:1])
    want = 0.5 * np.log1p(np.asarray(p.epistemic / p.aleatoric))[0]
    np.testing.assert_allclose(information_gain(GP, POOL[:1]), want, rtol=1e-12)


def test_an_input_twice_is_observed_twice():
    p = GP.predict(POOL[:1])
    want = 0.5 * np.log1p(2 * np.asarray(p.epistemic / p.aleatoric))[0]
    np.testing.assert_allclose(information_gain(GP, np.repeat(POOL[:1], 2, axis=0)), want, rtol=1e-10)


def test_noise_of_each_row():
    noise = RNG.uniform(0.1, 2.0, size=12)
    np.testing.assert_allclose(
        information_gain(GP, POOL, noise=noise), brute_gain(COVARIANCE, noise, range(12)), rtol=1e-10
    )
    known = credo.GP(RBF(0.4, 2.0), mean=0.0, noise=KnownNoise(jnp.asarray(0.3)))
    known = known.condition(X, Y, noise=np.full(7, 0.3))
    np.testing.assert_allclose(information_gain(known, POOL), information_gain(GP, POOL), rtol=1e-8)


def test_heteroscedastic_noise_is_the_belief_s_own():
    x = np.linspace(0, 1, 30)[:, None]
    y = np.sin(6 * x[:, 0]) + RNG.normal(size=30) * np.where(x[:, 0] < 0.5, 0.02, 0.6)
    belief = credo.HeteroscedasticGP(credo.GP(RBF(0.3), mean=0.0), credo.GP(RBF(0.5, 2.0), mean=-3.0)).condition(x, y)
    at = np.linspace(0.02, 0.98, 12)[:, None]
    p = belief.predict(at, joint=True)
    want = brute_gain(np.asarray(p.latent_covariance), np.asarray(p.aleatoric), range(12))
    np.testing.assert_allclose(information_gain(belief, at), want, rtol=1e-8)
    with pytest.raises(DataError, match="knows its own"):
        information_gain(belief, at, noise=np.ones(12))


def test_linear_models_whatever_they_know_of_the_noise():
    known = credo.Linear(prior=Isotropic(0.5), noise=0.3)
    inner = np.asarray(known.covariance(POOL, POOL))
    np.testing.assert_allclose(
        information_gain(known, POOL), 0.5 * np.linalg.slogdet(np.eye(12) + inner / 0.3)[1], rtol=1e-8
    )
    unknown = credo.Linear(prior=Isotropic(0.5), noise=InverseGamma(3.0, 2.0)).condition(X, Y)
    inner = np.asarray(unknown.covariance(POOL, POOL))  # in units of σ²
    np.testing.assert_allclose(
        information_gain(unknown, POOL), 0.5 * np.linalg.slogdet(np.eye(12) + inner)[1], rtol=1e-8
    )


def test_the_gain_can_be_climbed():
    gradient = eqx.filter_jit(jax.grad(lambda x: information_gain(GP, x)))(jnp.asarray(POOL[:3]))
    step = 1e-5
    for i, j in ((0, 0), (2, 1)):
        up, down = POOL[:3].copy(), POOL[:3].copy()
        up[i, j] += step
        down[i, j] -= step
        slope = (float(information_gain(GP, up)) - float(information_gain(GP, down))) / (2 * step)
        np.testing.assert_allclose(gradient[i, j], slope, rtol=1e-5)


@st.composite
def problems(draw):
    """A covariance, noises, and two nested sets with an element outside of both."""
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    m = draw(st.integers(3, 7))
    rank = draw(st.integers(1, m))
    a = rng.normal(size=(m, rank)) * 10 ** rng.uniform(-2, 1)
    noise = 10 ** rng.uniform(-2, 1, size=m)
    order = rng.permutation(m)
    small = draw(st.integers(0, m - 2))
    large = draw(st.integers(small, m - 2))
    return a @ a.T, noise, list(order[:small]), list(order[:large]), int(order[-1])


@given(problems())
def test_the_gain_is_monotone_and_submodular(problem):
    covariance, noise, small, large, x = problem
    gains = {
        n: choose((covariance, noise), 1, after=s, among=[x]).gain for n, s in (("small", small), ("large", large))
    }
    assert gains["large"] >= 0
    assert gains["small"] >= gains["large"] - 1e-9
    want = brute_gain(covariance, noise, [*large, x]) - brute_gain(covariance, noise, large)
    np.testing.assert_allclose(gains["large"], want, rtol=1e-6, atol=1e-8)


@given(problems(), st.integers(1, 3))
def test_greedy_is_within_its_certificate_of_the_best_subset(problem, t):
    covariance, noise, *_ = problem
    best = max(brute_gain(covariance, noise, s) for s in itertools.combinations(range(len(noise)), t))
    found = choose((covariance, noise), t)
    np.testing.assert_allclose(found.gain, brute_gain(covariance, noise, found.chosen), rtol=1e-6, atol=1e-8)
    assert SHARE * best - 1e-9 <= found.gain <= best + 1e-9
    assert found.ceiling >= best - 1e-9


def plain_greedy(covariance, noise, t, repeats):
    """Every set's determinant, computed anew."""
    chosen = []
    for _ in range(t):
        options = [i for i in range(len(noise)) if repeats or i not in chosen]
        chosen.append(max(options, key=lambda i: brute_gain(covariance, noise, [*chosen, i])))
    return chosen


@pytest.mark.parametrize("repeats", [False, True])
def test_greedy_choices_agree_with_brute_force(repeats):
    found = greedy_gain(GP, POOL, 8, repeats=repeats)
    np.testing.assert_array_equal(found.chosen, plain_greedy(COVARIANCE, NOISE, 8, repeats))
    np.testing.assert_allclose(found.gain, information_gain(GP, POOL[found.chosen]), rtol=1e-9)
    assert np.all(np.diff(found.gains) <= 1e-12)


def every_candidate(covariance, noise, t):
    """Greedy choices that look at all candidates every time; ties are broken in their order."""
    left, chosen = covariance.copy(), []
    for _ in range(t):
        gains = np.round(0.5 * np.log1p(np.maximum(np.diag(left), 0.0) / noise), DIGITS)
        gains[chosen] = -np.inf
        best = int(np.argmax(gains))
        left = left - np.outer(left[:, best], left[best]) / (left[best, best] + noise[best])
        chosen.append(best)
    return chosen


def test_lazy_evaluation_saves_most_of_the_work():
    pool = np.random.default_rng(0).uniform(size=(300, 2))
    gp = credo.GP(RBF(0.15), mean=0.0, noise=0.05)
    found = greedy_gain(gp, pool, 20)
    np.testing.assert_array_equal(found.chosen, every_candidate(*joint_doubt(gp, pool), 20))
    assert found.evaluations < sum(300 - k for k in range(20)) / 4
    assert str(found.evaluations) in str(found)


def test_ties_are_broken_in_the_order_of_the_candidates():
    grid = np.linspace(-1, 1, 9)[:, None]  # symmetric: every choice but the middle has a mirror image
    gp = credo.GP(Matern52(0.5), mean=0.0, noise=0.1)
    np.testing.assert_array_equal(greedy_gain(gp, grid, 6).chosen, every_candidate(*joint_doubt(gp, grid), 6))


def test_candidates_that_are_pending_count_as_observed():
    found = choose((COVARIANCE, NOISE), 3, after=[4, 9])
    assert not {4, 9} & set(found.chosen.tolist())
    after = GP.condition(POOL[[4, 9]], [0.0, 0.0])
    np.testing.assert_array_equal(found.chosen, greedy_gain(after, POOL, 3).chosen)
    np.testing.assert_allclose(found.gains, greedy_gain(after, POOL, 3).gains, rtol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "d", "power", "log_power", "factor"),
    [
        (Linear(), 3, 0.0, 1.0, 3.0),
        (RBF(), 2, 0.0, 3.0, 1.0),
        (2.0 * RBF(), 1, 0.0, 2.0, 1.0),
        (Matern32(), 2, 2 / 5, 3 / 5, 1.0),
        (Matern52(), 3, 3 / 8, 5 / 8, 1.0),
        (Matern(smoothness=2.0), 2, 2 / 6, 4 / 6, 1.0),
    ],
)
def test_growth(kernel, d, power, log_power, factor):
    growth = gain_bound(kernel, d)
    t = np.asarray([10.0, 1000.0])
    np.testing.assert_allclose(growth(t), factor * t**power * np.log(t) ** log_power, rtol=1e-12)
    assert "γ_T" in str(growth)


def test_the_gain_of_a_line_grows_as_the_bound_says():
    """½ log(1 + Tv/σ²) for one slope observed at ±1: the ratio to log T goes to ½."""
    gp = credo.GP(Linear(), mean=0.0, noise=0.5)
    ends = np.asarray([[-1.0], [1.0]])
    bound = gain_bound(gp.kernel, 1)
    ratio = [greedy_gain(gp, ends, t, repeats=True).gain / bound(t) for t in (10, 100)]
    want = [
        0.5 * math.log1p(float(gp.kernel.diagonal(jnp.asarray(ends))[0]) * t / 0.5) / math.log(t) for t in (10, 100)
    ]
    np.testing.assert_allclose(ratio, want, rtol=1e-8)


def test_bad_input():
    with pytest.raises(DataError, match="at most the number of candidates, 12, found 13"):
        greedy_gain(GP, POOL, 13)
    with pytest.raises(DataError, match="n must be a whole number of at least 1, found 0"):
        greedy_gain(GP, POOL, 0)
    with pytest.raises(DataError, match="found RobustGP; use GP"):
        information_gain(credo.RobustGP(RBF(), mean=0.0).condition(X, Y), POOL)
    with pytest.raises(DataError, match="found BetaBernoulli"):
        information_gain(credo.BetaBernoulli(), POOL)
    silent = credo.GP(RBF(), mean=0.0, noise=KnownNoise(jnp.zeros(())))
    with pytest.raises(DataError, match="infinite without noise"):
        information_gain(silent, POOL)
    with pytest.raises(DataError, match="found Periodic; greedy_gain"):
        gain_bound(Periodic(), 1)
    with pytest.raises(DataError, match="found Sum"):
        gain_bound(RBF() + White(), 1)
    with pytest.raises(DataError, match="dimension must be a whole number"):
        gain_bound(RBF(), 0)
    for rough in (Exponential(), Matern(smoothness=0.5), 2.0 * Matern(smoothness=0.3)):
        with pytest.raises(DataError, match="smoother than ν = ½"):
            gain_bound(rough, 1)
    with pytest.raises(DataError, match="greater than 1, found 1"):
        gain_bound(RBF(), 2)(1)


@pytest.mark.parametrize("criterion", ["A", "D", "E"])
def test_designs_take_what_leaves_least(criterion):
    """Against posteriors computed anew for each candidate."""
    at = np.array([[0.2, 0.2], [0.8, 0.3], [0.5, 0.9]])
    found = greedy_design(GP, POOL, 3, criterion, at=at)
    measure = {"A": np.trace, "D": lambda k: np.linalg.slogdet(k)[1], "E": lambda k: np.linalg.eigvalsh(k)[-1]}[
        criterion
    ]
    now, left = GP, list(range(12))
    for i, value in zip(found.chosen, found.left, strict=True):
        after = [measure(now.condition(POOL[[j]], [0.0]).predict(at, joint=True).latent_covariance) for j in left]
        assert left[int(np.argmin(after))] == i and value == pytest.approx(min(after), rel=1e-8)
        now = now.condition(POOL[[i]], [0.0])
        left.remove(int(i))


def test_the_e_optimal_design_of_a_line_is_at_its_ends():
    """Slopes without an intercept: the weights are the function at the unit vectors."""
    line = credo.Linear(prior=Isotropic(1.0), noise=0.1, intercept=None)
    candidates = np.array([[1.0, 0.0], [0.3, 0.0], [0.0, 0.5], [0.0, 0.2], [0.1, 0.1]])
    found = greedy_design(line, candidates, 4, at=np.eye(2), repeats=True)
    assert set(found.chosen) <= {0, 2} and (np.diff(found.left) <= 1e-12).all()
    design = candidates[found.chosen]
    weights = np.linalg.inv(np.eye(2) + design.T @ design / 0.1)
    assert found.left[-1] == pytest.approx(np.linalg.eigvalsh(weights)[-1], rel=1e-9)
    with pytest.raises(DataError, match="criterion must be"):
        greedy_design(line, candidates, 1, "F")
    with pytest.raises(DataError, match="at most the number of candidates"):
        greedy_design(line, candidates, 6)
