"""Gibbs sampling: conjugate draws against their closed form, and calibration by simulation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import credo
from credo.core.pytrees import changed
from credo.errors import DataError
from credo.infer.mcmc.stacked import gibbs_chain
from credo.infer.priors import LogNormal
from credo.models.lds import LDS, MatrixPrior, StateGibbs
from credo.models.lds.gibbs import StateSweep
from credo.models.lds.learning import Regression


@eqx.filter_jit
def many(key, prior, sums, c, covariance, free, n):
    return jax.vmap(lambda k: prior.draw(k, sums, c, covariance, free, True))(jr.split(key, n))


def test_conjugate_draws_have_the_moments_of_their_law(rng):
    """One of three columns is held: the regression is of what it leaves."""
    n, k = 4000, 2
    w, y = rng.normal(size=(30, 3)), rng.normal(size=(30, k))
    sums = Regression(*(jnp.asarray(a) for a in (30.0, y.T @ y, y.T @ w, w.T @ w)))
    prior = MatrixPrior(*(jnp.asarray(a) for a in (np.full((k, 3), 0.3), np.array([2.0, 1.0, 3.0]), np.eye(k), 5.0)))
    held = jnp.zeros((k, 3)).at[:, 1].set(0.7)
    c, covariance = (np.asarray(a) for a in many(jr.key(0), prior, sums, held, jnp.eye(k), (True, False, True), n))
    rest, free = y - 0.7 * w[:, [1]], w[:, [0, 2]]
    v0, m0 = np.diag([2.0, 3.0]), np.full((k, 2), 0.3)
    v = v0 + free.T @ free
    m = (m0 @ v0 + rest.T @ free) @ np.linalg.inv(v)
    s = np.eye(k) + rest.T @ rest + m0 @ v0 @ m0.T - m @ v @ m.T
    assert np.all(np.abs(c[:, :, [0, 2]].mean(axis=0) - m) < 4.5 * c[:, :, [0, 2]].std(axis=0) / np.sqrt(n))
    np.testing.assert_array_equal(c[:, :, 1], 0.7)
    want = s / (5 + 30 - k - 1)
    assert np.all(np.abs(covariance.mean(axis=0) - want) < 4.5 * covariance.std(axis=0) / np.sqrt(n))
    spread = np.linalg.inv(v)[0, 0] * want[0, 0]
    assert abs(c[:, 0, 0].var() / spread - 1) < 4.5 * np.sqrt(3 / n)


@pytest.mark.filterwarnings("ignore:do not trust:credo.errors.NotConvergedWarning")
def test_a_belief_known_by_draws_averages():
    truth = LDS([[0.8]], [[0.5]], [[1.0], [0.5]], 0.2 * np.eye(2), [0.0], [[1.0]])
    x = np.asarray(truth.simulate(60, seed=4)[1]).copy()
    x[5, 0] = x[9] = np.nan
    method = StateGibbs(chains=2, draws=40, warmup=20, members=8, fixed=("emission",))
    after = truth.condition(x, using=method, seed=1, missing=True)
    assert len(after.beliefs) == 8
    assert "transition" in "".join(after.posterior.space.names)
    assert not any("emission" in name or "start" in name for name in after.posterior.space.names)
    ahead = after.predict(2)
    np.testing.assert_allclose(ahead.variance, ahead.aleatoric + ahead.epistemic)
    exact = truth.condition(x, missing=True).predict(2)
    assert np.all(np.abs(ahead.mean - exact.mean) < 3 * exact.std)
    again = truth.condition(x, using=method, seed=1, missing=True)
    np.testing.assert_array_equal(again.predict(2).mean, ahead.mean)
    with pytest.raises(DataError, match="priors of its own"):
        credo.learn(truth, x, using=method, missing=True, priors={"process_noise": LogNormal(1.0)})


@pytest.mark.slow
def test_calibration_by_simulation():
    """Where parameters come from the prior, their ranks among the draws are uniform (Talts et al., 2018)."""
    runs, draws, t = 200, 31, 16
    rng = np.random.default_rng(0)
    df = 8.0
    q, r = (6.0 / rng.chisquare(df, size=runs) for _ in range(2))  # IW(8, 6) in one dimension
    f = 0.3 + np.sqrt(q / 4.0) * rng.normal(size=runs)
    z = np.zeros((runs, t))
    z[:, 0] = rng.normal(size=runs)
    for i in range(1, t):
        z[:, i] = f * z[:, i - 1] + np.sqrt(q) * rng.normal(size=runs)
    x = z + np.sqrt(r)[:, None] * rng.normal(size=(runs, t))
    dynamics = MatrixPrior(jnp.full((1, 1), 0.3), jnp.array([4.0]), jnp.full((1, 1), 6.0), jnp.asarray(df))
    outcomes = MatrixPrior(jnp.zeros((1, 2)), jnp.ones(2), jnp.full((1, 1), 6.0), jnp.asarray(df))
    lds = LDS([[0.3]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]])
    data = lds.statistics(x[0])
    held = ("start_mean", "start_covariance", "emission")
    sweep = StateSweep(dynamics, outcomes, held)

    @eqx.filter_jit
    def chains(keys, x):
        def one(key, x):
            return gibbs_chain(key, lds, changed(data, x=x[:, None]), sweep, held, (50, draws, 8))[0]

        return jax.vmap(one)(keys, x)

    found = chains(jr.split(jr.key(1), runs), jnp.asarray(x))
    for path, true in (("transition", f), ("process_noise", q), ("observation_noise", r)):
        ranks = np.sum(np.asarray(found[path])[:, :, 0, 0] < true[:, None], axis=1)
        counts = np.bincount(ranks // 4, minlength=8)
        assert stats.chisquare(counts).pvalue > 1e-3, path
