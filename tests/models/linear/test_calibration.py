"""The probabilities of the linear models mean what they say: simulation-based calibration and coverage.

Talts et al. (2018): draw θ from the prior and data from θ; the rank of θ among posterior draws is uniform.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

import credo
from credo.models.features import Polynomial
from credo.models.linear import ARD, Intercept, InverseGamma, Isotropic, Linear

REPLICATIONS, DRAWS, BINS = 5_000, 99, 20


def uniform_p_value(ranks: np.ndarray) -> float:
    counts = np.histogram(ranks, bins=BINS, range=(0, DRAWS + 1))[0]
    return float(stats.chisquare(counts).pvalue)


@eqx.filter_jit
def ranks(key: jax.Array, belief: Linear, x: jax.Array) -> jax.Array:
    """Rank of every weight, of the noise, and of a new outcome, for one replication."""
    k_noise, k_weights, k_outcomes, k_new, k_draws, k_chi = jr.split(key, 6)
    unknown = isinstance(belief.noise, InverseGamma)
    phi = jnp.column_stack([jnp.ones(x.shape[0]), belief.features(x)])
    now = belief._now(phi.shape[1])
    noise = belief.noise.scale / jr.gamma(k_noise, belief.noise.shape) if unknown else belief.noise
    unit = noise if unknown else 1.0
    q = phi.shape[1]

    def from_root(z, root):
        return jax.scipy.linalg.solve_triangular(root.T, z, lower=False)

    theta = now.mean + jnp.sqrt(unit) * from_root(jr.normal(k_weights, (q,)), now.root)
    y = phi @ theta + belief.reference + jnp.sqrt(noise) * jr.normal(k_outcomes, (x.shape[0],))
    after = belief.condition(x[:-1], y[:-1])
    w = after.weights
    noise_draws = w.noise.scale / jr.gamma(k_chi, w.noise.shape, (DRAWS,)) if unknown else jnp.ones(DRAWS)
    z = jr.normal(k_draws, (DRAWS, q))
    thetas = w.mean + jnp.sqrt(noise_draws)[:, None] * jax.vmap(lambda v: from_root(v, w.root))(z)
    prediction = after.predict(x[-1:])
    new_rank = jnp.sum(prediction.draw(k_new, DRAWS)[:, 0] < y[-1])
    out = [jnp.sum(thetas < theta, axis=0), new_rank[None]]
    return jnp.concatenate([*out, jnp.sum(noise_draws < noise)[None]] if unknown else out)


@pytest.mark.slow
@pytest.mark.parametrize(
    "belief",
    [
        Linear(prior=Isotropic(2.0), noise=0.5, intercept=Intercept(1.0, 3.0)),
        Linear(Polynomial(2), ARD(jnp.array([0.5, 1.0, 2.0, 4.0, 8.0])), noise=0.3),
        Linear(prior=Isotropic(2.0), noise=InverseGamma(3.0, 2.0), intercept=Intercept(0.0, 2.0)),
    ],
    ids=["known noise", "polynomial ARD", "unknown noise"],
)
def test_ranks_are_uniform(belief):
    x = jr.normal(jr.key(1), (13, 2))
    keys = jr.split(jr.key(7), REPLICATIONS)
    found = np.asarray(jax.lax.map(lambda k: ranks(k, belief, x), keys, batch_size=100))
    p_values = [uniform_p_value(found[:, j]) for j in range(found.shape[1])]
    # Several quantities are looked at: the smallest p-value is held to the level of all of them together.
    assert min(p_values) > 0.01 / len(p_values), p_values


def test_the_rank_test_would_notice_overconfidence():
    belief = Linear(prior=Isotropic(2.0), noise=0.5, intercept=Intercept(1.0, 3.0))
    x = jr.normal(jr.key(1), (13, 2))
    z = jr.normal(jr.key(2), (REPLICATIONS, DRAWS))
    truth = 1.4 * jr.normal(jr.key(3), (REPLICATIONS,))
    assert uniform_p_value(np.asarray(jnp.sum(z < truth[:, None], axis=1))) < 1e-4
    assert ranks(jr.key(0), belief, x).shape == (4,)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1.0, InverseGamma()], ids=["learned noise", "unknown noise"])
def test_intervals_of_fitted_models_cover(noise, rng):
    """95 % intervals of new outcomes, hyperparameters learned from each data set, cover 93-97 %."""
    inside, total = 0, 0
    for _ in range(100):
        x = rng.normal(size=(60, 4))
        w = rng.normal(size=4)
        y = 3 + x @ w + 0.7 * rng.normal(size=60)
        x_new = rng.normal(size=(40, 4))
        y_new = 3 + x_new @ w + 0.7 * rng.normal(size=40)
        interval = credo.fit(Linear(noise=noise), x, y).predict(x_new).interval(0.95)
        inside += int(np.sum((y_new > interval.lower) & (y_new < interval.upper)))
        total += 40
    assert 0.93 < inside / total < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [8, 30])
def test_few_rows_are_covered_by_the_default_fit(n):
    """Log scales of weights and noise ~ N(0, 1): one best hyperparameter holds 78 % at n = 8."""
    held = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        weights, noise = rng.normal(size=5) * np.exp(rng.normal()) / np.sqrt(5), np.exp(0.5 * rng.normal())
        x, new = rng.normal(size=(n, 5)), rng.normal(size=(100, 5))
        low, high = credo.fit(Linear(), x, x @ weights + noise * rng.normal(size=n)).predict(new).interval(0.95)
        y = new @ weights + noise * rng.normal(size=100)
        held.append(np.mean((low <= y) & (y <= high)))
    assert 0.95 - 4.5 * np.std(held) / np.sqrt(len(held)) < np.mean(held) < 0.99
