"""Recursions in blocks against `jax.lax.scan`, forgetting or not, forwards and backwards."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.core.scan import FEWEST_BLOCKS, blocks_of, of_blocks, scan

T = 512


@eqx.filter_jit
def both(decay, xs, reverse, blocks):
    """Leaky sums in blocks and one by one."""

    def step(carry, x):
        new = {"sum": decay * carry["sum"] + x, "count": carry["count"]}
        return new, {"sum": new["sum"], "twice": 2 * x[0]}

    def guess(x):
        return {"sum": jnp.zeros_like(x), "count": jnp.full(x.shape[1:], 7)}

    start = {"sum": jnp.array([3.0, -1.0]), "count": jnp.asarray(7)}
    fast = scan(step, start, xs, guess, reverse=reverse, blocks=blocks)
    return fast, jax.lax.scan(step, start, xs, reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("decay", [0.5, 0.99, 1.0, 1.02])
def test_blocks_equal_one_by_one(decay, reverse):
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(T, 2)))
    fast, slow = both(jnp.asarray(decay), xs, reverse, 8)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), fast, slow)


def test_a_bad_guess_is_corrected():
    """A start that echoes for hundreds of steps: the warm-up alone would be wrong in the third digit."""
    xs = jnp.zeros((T, 2))
    fast, slow = both(jnp.asarray(0.97), xs, False, 8)
    np.testing.assert_allclose(fast[1]["sum"], slow[1]["sum"], rtol=1e-10)
    assert abs(float(slow[1]["sum"][T // 8 - 1, 0])) > 0.1


def test_whole_numbers_must_agree_exactly():
    """Steps of a counter never come together: the blocks notice, and the answer is the sequential one."""

    @eqx.filter_jit
    def count(xs):
        return scan(lambda c, x: (c + x, c + x), jnp.asarray(5), xs, jnp.zeros_like, blocks=8)

    last, sums = count(jnp.ones(T, int))
    assert int(last) == T + 5
    np.testing.assert_array_equal(sums, np.arange(6, T + 6))


def test_not_a_number_is_passed_on():
    xs = jnp.zeros((T, 2)).at[100, 0].set(jnp.nan)
    fast, slow = both(jnp.asarray(0.5), xs, False, 8)
    np.testing.assert_array_equal(np.isnan(fast[1]["sum"]), np.isnan(slow[1]["sum"]))


def test_a_step_of_one_block_from_the_start_itself():
    step = lambda c, x: (0.5 * c + x.sum(), c)  # noqa: E731
    xs = jnp.asarray(np.random.default_rng(1).normal(size=(T, 2)))
    fast = eqx.filter_jit(lambda xs: scan(of_blocks(step), jnp.asarray(9.0), xs, blocks=8))(xs)
    slow = jax.lax.scan(step, jnp.asarray(9.0), xs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), fast, slow)


def test_how_many_blocks():
    assert blocks_of(4096, 4) == 1
    assert blocks_of(8192, 4) == 32
    assert blocks_of(2**20, 4) == 128
    assert blocks_of(2**20, 10_000) == FEWEST_BLOCKS
    assert blocks_of(2**12 * 3, 4) == 32
    assert blocks_of(8193, 4) == 1
