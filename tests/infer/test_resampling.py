"""Resampling: each particle on average as often as it weighs, and for systematic resampling nearly always."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from credo.infer.resampling import SCHEMES, systematic

WEIGHTS = np.random.default_rng(0).dirichlet(np.full(50, 3.0))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_comes_as_often_as_it_weighs(scheme):
    draws = jax.vmap(lambda key: SCHEMES[scheme](key, jnp.asarray(WEIGHTS)))(jr.split(jr.key(1), 2000))
    counts = np.stack([np.bincount(row, minlength=50) for row in np.asarray(draws)])
    error = np.sqrt(50 * WEIGHTS * (1 - WEIGHTS) / 2000)  # of multinomial counts; the others vary less
    assert np.all(np.abs(counts.mean(0) - 50 * WEIGHTS) < 4.5 * error + 1e-9)


def test_systematic_counts_are_the_nearest_whole_numbers():
    counts = np.bincount(np.asarray(systematic(jr.key(1), jnp.asarray(WEIGHTS))), minlength=50)
    assert np.all(np.abs(counts - 50 * WEIGHTS) < 1)
