import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.errors import DataError
from credo.core.predictive import Normal
from credo.decide.acquisition.hypervolume import (
    BatchExpectedHypervolumeImprovement,
    ExpectedHypervolumeImprovement,
    objectives,
)
from credo.decide.pareto import hypervolume, reference_point
from credo.kernels import RBF, Matern52
from credo.models.gp import Independent, MultiGP
from credo.models.gp.base import padded

RNG = np.random.default_rng(7)
X = RNG.uniform(size=(12, 2))
Y = np.stack([np.sin(3 * X[:, 0]) + X[:, 1], np.cos(4 * X[:, 1]) - X[:, 0], X[:, 0] * X[:, 1]], axis=1)
AT = jnp.asarray(RNG.uniform(size=(5, 2)))
SETS = jnp.asarray(RNG.uniform(size=(3, 2, 2)))


def learned(n: int = 12, k: int = 2) -> tuple[credo.GP, ...]:
    return tuple(credo.GP(Matern52(0.4, 1.5), 0.0, 0.01).condition(X[:n], Y[:n, j]) for j in range(k))


class Fixed(eqx.Module):
    """A belief whose prediction at x is N(x₀, x₁²), so that x says what is believed."""

    def predict(self, x):
        return Normal(x[:, 0], jnp.zeros(len(x)), x[:, 1] ** 2)


def area(points: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The hypervolume of sets of points (s, n, 2): by falling first value, each adds what it is higher."""
    above = np.maximum(points - reference, 0.0)
    above = np.take_along_axis(above, np.argsort(-above[:, :, :1], axis=1), axis=1)
    highest = np.maximum.accumulate(above[:, :, 1], axis=1)
    return np.sum(above[:, :, 0] * np.diff(highest, axis=1, prepend=0.0), axis=1)


def added(front: np.ndarray, reference: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """What each set of outcomes (s, q, 2) adds to the hypervolume of the front."""
    every = np.concatenate([np.broadcast_to(front, (len(outcomes), *front.shape)), outcomes], axis=1)
    return area(every, reference) - area(front[None], reference)


@eqx.filter_jit
def scores(acquisition, beliefs, x):
    return acquisition(beliefs, x), acquisition.climb(beliefs, x)


@eqx.filter_jit
def slopes(acquisition, beliefs, x):
    return jax.grad(lambda v: acquisition.climb(beliefs, v).sum())(x)


def moments(beliefs, x) -> tuple[np.ndarray, np.ndarray]:
    each = [b.predict(x) for b in beliefs]
    return np.stack([p.mean for p in each], axis=1), np.stack([np.sqrt(p.epistemic) for p in each], axis=1)


def test_two_objectives_against_quadrature():
    """EHVI = ∫∫ HVI(y) p(y₁) p(y₂) dy, by Gauss-Legendre between the corners of the front."""
    front, reference = np.array([[0.0, 2.0], [1.0, 1.5], [2.5, 0.2]]), np.array([-1.0, -0.5])
    acquisition = ExpectedHypervolumeImprovement(front, reference).prepared((Fixed(), Fixed()))
    nodes, weights = np.polynomial.legendre.leggauss(60)

    def rule(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = np.diff(edges)[:, None] / 2
        return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()

    for mean, std in ((0.8, 0.7), (-2.0, 1.0), (3.0, 0.4)):
        ends = [mean - 9 * std, mean, mean + 9 * std]
        (a, wa), (b, wb) = (rule(np.unique([*ends, *front[:, j], reference[j]])) for j in (0, 1))
        grid = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 1, 2)
        density = np.outer(wa * stats.norm.pdf(a, mean, std), wb * stats.norm.pdf(b, mean, std))
        want = density.ravel() @ added(front, reference, grid)
        got = scores(acquisition, (Fixed(), Fixed()), jnp.array([[mean, std]]))[0]
        np.testing.assert_allclose(got, [want], rtol=1e-9)


def test_one_objective_is_expected_improvement():
    acquisition = ExpectedHypervolumeImprovement([[0.3], [-1.0]], [-10.0]).prepared((Fixed(),))
    x = np.array([[0.0, 1.0], [1.0, 0.2], [-3.0, 0.5]])
    z = (x[:, 0] - 0.3) / x[:, 1]
    want = x[:, 1] * (stats.norm.pdf(z) + z * stats.norm.cdf(z))
    np.testing.assert_allclose(scores(acquisition, (Fixed(),), jnp.asarray(x))[0], want, rtol=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_closed_form_against_monte_carlo(k):
    beliefs = learned(k=k)
    acquisition = ExpectedHypervolumeImprovement().prepared(beliefs)
    value, logarithm = scores(acquisition, beliefs, AT)
    np.testing.assert_allclose(np.exp(logarithm), value, rtol=1e-12)
    front = moments(beliefs, X)[0]
    reference = reference_point(front)
    mean, std = moments(beliefs, AT)
    boxes = acquisition.boxes
    for i in range(len(AT)):
        y = mean[i] + std[i] * np.random.default_rng(i).normal(size=(100_000, k))
        gain = np.zeros(len(y))
        for low, high in zip(np.asarray(boxes.lower), np.asarray(boxes.upper), strict=True):
            gain += np.prod(np.maximum(np.minimum(y, high) - low, 0.0), axis=1) * np.any(high > low)
        now = hypervolume(front, reference)
        want = [hypervolume(np.concatenate([front, row[None]]), reference) - now for row in y[:4]]
        np.testing.assert_allclose(gain[:4], want, atol=1e-10)
        assert abs(value[i] - gain.mean()) < 4.5 * gain.std() / np.sqrt(len(y))


def test_gradient_against_finite_differences():
    beliefs = learned()
    acquisition = ExpectedHypervolumeImprovement().prepared(beliefs)
    got, step = slopes(acquisition, beliefs, AT), 1e-6
    for j in range(2):
        move = np.zeros(2)
        move[j] = step
        up, down = (scores(acquisition, beliefs, AT + sign * move)[1] for sign in (1, -1))
        np.testing.assert_allclose(got[:, j], (up - down) / (2 * step), rtol=1e-5, atol=1e-6)


def test_the_logarithm_stays_finite_where_the_score_underflows():
    front = np.array([[0.0, 2.0], [1.0, 1.0], [1.0 + 1e-9, 1.0 - 1e-9], [2.0, 0.0]])
    acquisition = ExpectedHypervolumeImprovement(front, [-1.0, -1.0]).prepared((Fixed(), Fixed()))
    mean = -np.geomspace(1.0, 1e8, 30)
    x = jnp.asarray(np.stack([mean, np.ones(30)], axis=1))
    value, logarithm = scores(acquisition, (Fixed(), Fixed()), x)
    slope = slopes(acquisition, (Fixed(), Fixed()), x)
    assert value[-1] == 0 and np.isfinite(logarithm).all() and np.isfinite(slope).all()
    assert np.all(np.diff(logarithm) < 0) and np.all(slope > 0)
    far = np.asarray(mean) < -100  # the tail is that of both objectives above the nearest corner
    np.testing.assert_allclose(logarithm[far], -0.5 * ((mean[far] - 1.0) ** 2 * 2), rtol=0.1)
    sure = jnp.array([[3.0, 0.0], [-3.0, 0.0]])  # nothing left to learn: the volume itself, or none
    value, logarithm = scores(acquisition, (Fixed(), Fixed()), sure)
    want = added(front, np.array([-1.0, -1.0]), np.array([[[3.0, 3.0]], [[-3.0, -3.0]]]))
    np.testing.assert_allclose(value, want, atol=1e-12)
    assert np.isfinite(logarithm).all() and np.isfinite(slopes(acquisition, (Fixed(), Fixed()), sure)).all()


def test_narrow_boxes_lose_no_digits():
    """Boxes a billionth wide: the sum over many equals what few wide ones say of nearly the same front."""
    x = jnp.array([[0.4, 1.0], [-6.0, 0.5], [-40.0, 1.0]])
    wide = np.array([[0.0, 1.0], [1.0, 0.0]])
    steps = np.linspace(0, 1e-7, 20)[:, None] * [1.0, -1.0]
    narrow = np.concatenate([wide, wide[0] + steps])
    logs = [
        scores(ExpectedHypervolumeImprovement(f, [-1.0, -1.0]).prepared((Fixed(), Fixed())), (Fixed(), Fixed()), x)[1]
        for f in (wide, narrow)
    ]
    np.testing.assert_allclose(logs[1], logs[0], rtol=0, atol=1e-5)


def test_small_outcomes_wanted_is_the_mirror_image():
    beliefs = learned()
    mirrored = (beliefs[0], credo.GP(Matern52(0.4, 1.5), 0.0, 0.01).condition(X, -Y[:, 1]))
    want = scores(ExpectedHypervolumeImprovement(reference=[-1.0, -2.0]).prepared(beliefs), beliefs, AT)[0]
    other = ExpectedHypervolumeImprovement(reference=[-1.0, 2.0], maximize=(True, False)).prepared(mirrored)
    np.testing.assert_allclose(scores(other, mirrored, AT)[0], want, rtol=1e-8)


def test_several_outputs_in_one_belief():
    beliefs = learned()
    assert objectives(list(beliefs)) == objectives(Independent(beliefs)) == beliefs
    want = scores(ExpectedHypervolumeImprovement().prepared(beliefs), beliefs, AT)[0]
    both = Independent(beliefs)
    np.testing.assert_allclose(scores(ExpectedHypervolumeImprovement().prepared(both), both, AT)[0], want, rtol=1e-12)
    multi = MultiGP(RBF(0.4), outputs=2, noise=0.01).condition(X, Y[:, :2])
    value = scores(ExpectedHypervolumeImprovement().prepared(multi), multi, AT)[0]
    assert value.shape == (5,) and np.all(value >= 0) and np.any(value > 0)


def joint_monte_carlo(front, reference, mean, covariance, draws) -> tuple[float, float]:
    """The mean and standard error of what sets of outcomes add; mean (q, k), covariance (qk, qk)."""
    y = np.random.default_rng(1).multivariate_normal(mean.ravel(), covariance, size=draws)
    gain = added(front, reference, y.reshape(draws, *mean.shape))
    return gain.mean(), gain.std() * np.sqrt(1 / draws + 1 / 1024)  # of these draws, and of the score's own


def test_two_points_together_against_monte_carlo():
    beliefs = learned()
    acquisition = BatchExpectedHypervolumeImprovement(2, draws=1024).prepared(beliefs, seed=1)
    value, logarithm = scores(acquisition, beliefs, SETS)
    front = moments(beliefs, X)[0]
    for points, got in zip(SETS, value, strict=True):
        covariance = np.zeros((2, 2, 2, 2))
        for j, belief in enumerate(beliefs):
            covariance[:, j, :, j] = belief.covariance(points, points)
        mean = moments(beliefs, points)[0]
        want, se = joint_monte_carlo(front, reference_point(front), mean, covariance.reshape(4, 4), 100_000)
        assert abs(got - want) < 4.5 * se
    alone = scores(ExpectedHypervolumeImprovement().prepared(beliefs), beliefs, SETS.reshape(6, 2))[0].reshape(3, 2)
    assert np.all(value > 0.98 * alone.max(axis=1)) and np.all(value < 1.02 * alone.sum(axis=1))
    np.testing.assert_allclose(np.exp(logarithm), value + alone.mean(axis=1) / 1000, rtol=1e-8)
    assert np.isfinite(slopes(acquisition, beliefs, SETS)).all()


def test_correlated_outputs_against_monte_carlo():
    multi = MultiGP(RBF(0.4), outputs=2, noise=0.05).condition(X, Y[:, :2])
    acquisition = BatchExpectedHypervolumeImprovement(2, draws=1024).prepared(multi)
    front = np.asarray(multi.predict(X).mean)
    points = SETS[0]
    prediction = multi.predict(points, joint=True)
    covariance = np.asarray(prediction.latent_covariance)
    assert abs(covariance[0, 1]) > 0.05 * covariance[0, 0]
    want, se = joint_monte_carlo(front, reference_point(front), np.asarray(prediction.mean), covariance, 100_000)
    assert abs(scores(acquisition, multi, SETS)[0][0] - want) < 4.5 * se


def test_the_same_point_twice_adds_nothing():
    beliefs = learned()
    acquisition = BatchExpectedHypervolumeImprovement(2, draws=1024).prepared(beliefs)
    twice = jnp.broadcast_to(AT[:3, None], (3, 2, 2))
    alone = scores(ExpectedHypervolumeImprovement().prepared(beliefs), beliefs, AT)[0][:3]
    value = scores(acquisition, beliefs, twice)[0]
    np.testing.assert_allclose(value, alone, rtol=0.05, atol=1e-5)
    assert np.isfinite(slopes(acquisition, beliefs, twice)).all()
    hopeless = BatchExpectedHypervolumeImprovement(2, [[50.0, 50.0]], [0.0, 0.0], draws=1024).prepared(beliefs)
    value, logarithm = scores(hopeless, beliefs, SETS)
    assert np.all(value == 0) and np.isfinite(logarithm).all()
    assert np.any(slopes(hopeless, beliefs, SETS) != 0)


def test_pending_rows_count_as_their_means():
    beliefs = learned()
    after = tuple(b.condition(AT[:1], b.predict(AT[:1]).mean) for b in beliefs)
    want = scores(ExpectedHypervolumeImprovement().prepared(after), after, AT)[0]
    waiting = ExpectedHypervolumeImprovement().prepared(beliefs, pending=AT[:1])
    np.testing.assert_allclose(scores(waiting, beliefs, AT)[0], want, rtol=1e-8)
    plain = scores(ExpectedHypervolumeImprovement().prepared(beliefs), beliefs, AT)[0]
    assert want[0] < 0.5 * plain[0]
    given = ExpectedHypervolumeImprovement(Y[:, :2], [-1.0, -2.0]).prepared(beliefs, pending=AT[:1])
    front = np.concatenate([Y[:, :2], moments(beliefs, AT[:1])[0]])
    want = scores(ExpectedHypervolumeImprovement(front, [-1.0, -2.0]).prepared(after), after, AT)[0]
    np.testing.assert_allclose(scores(given, beliefs, AT)[0], want, rtol=1e-8)


def test_a_growing_front_reuses_the_program():
    traced = []

    @eqx.filter_jit
    def score(acquisition, beliefs, x):
        traced.append(1)
        return acquisition.climb(beliefs, x)

    for n in (6, 9, 12):
        beliefs = learned(n)
        ready = ExpectedHypervolumeImprovement().prepared(beliefs)
        assert score(*padded((ready, beliefs)), AT).shape == (5,)
    assert len(traced) == 1


def test_bad_input():
    beliefs = learned()
    with pytest.raises(DataError, match=r"not known yet; call acquisition.prepared"):
        ExpectedHypervolumeImprovement()(beliefs, AT)
    with pytest.raises(DataError, match="has seen no .*; give the outcomes known so far, front="):
        ExpectedHypervolumeImprovement().prepared((credo.GP(), credo.GP()))
    with pytest.raises(DataError, match="reference must have one value per row: 2 are expected, found 3"):
        ExpectedHypervolumeImprovement(reference=[0.0, 0.0, 0.0]).prepared(beliefs)
    with pytest.raises(DataError, match="maximize has 3 entries, one for each of the 2 objectives"):
        ExpectedHypervolumeImprovement(maximize=(True, True, False)).prepared(beliefs)
    with pytest.raises(DataError, match="q must be at most 6, found 7"):
        BatchExpectedHypervolumeImprovement(7)
    with pytest.raises(DataError, match="draws come in antithetic pairs"):
        BatchExpectedHypervolumeImprovement(2, draws=33)
    with pytest.raises(DataError, match="sets of q = 3 points are expected, found 2"):
        BatchExpectedHypervolumeImprovement(3).prepared(beliefs)(beliefs, SETS)
    with pytest.raises(DataError, match=r"needs a belief with covariance"):
        BatchExpectedHypervolumeImprovement(2, front=Y[:, :2]).prepared((Fixed(), Fixed()))
