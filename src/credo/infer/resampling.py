"""Which particles go on: n of the numbers 0 … n - 1, each i on average n wᵢ times. Douc & Cappé (2005)."""

import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core.arrays import Array, namespace


def systematic(key: PRNGKeyArray, weights: Float[Array, " n"]) -> Int[Array, " n"]:
    """At points of one grid with a random start: each i ⌊n wᵢ⌋ or ⌈n wᵢ⌉ times. Carpenter et al. (1999)."""
    return chosen(weights, jr.uniform(key))


def stratified(key: PRNGKeyArray, weights: Float[Array, " n"]) -> Int[Array, " n"]:
    """At one random point of each of n equal parts. Kitagawa (1996)."""
    return chosen(weights, jr.uniform(key, weights.shape))


def multinomial(key: PRNGKeyArray, weights: Float[Array, " n"]) -> Int[Array, " n"]:
    """Independent of each other, in ascending order."""
    gaps = jr.exponential(key, (weights.shape[0] + 1,)).cumsum()
    return _at(weights, gaps[:-1] / gaps[-1])


def chosen(weights: Float[Array, " n"], within: Float[Array, "*n"]) -> Int[Array, " n"]:
    """At points of n equal parts, as far within each as the uniform numbers say; one for all is systematic."""
    n = weights.shape[0]
    return _at(weights, (np.arange(n) + within) / n)


def _at(weights: Float[Array, " n"], points: Float[Array, " n"]) -> Int[Array, " n"]:
    xp = namespace(weights, points)
    return xp.minimum(xp.searchsorted(weights.cumsum(), points), weights.shape[0] - 1)


SCHEMES = {"systematic": systematic, "stratified": stratified, "multinomial": multinomial}
