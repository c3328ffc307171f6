"""Sequence models are printed in one line, whatever state they are in."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credo.models.densities import CategoricalDensity, Gaussian
from credo.models.hmm import HMM
from credo.models.lds import LDS

PROBS = np.array([[0.9, 0.1], [0.2, 0.8]])
CHAIN = np.array([[0.95, 0.05], [0.12, 0.88]])


def test_an_hmm_says_what_it_knows():
    assert repr(HMM(3)) == "HMM(3 states, Gaussian emission; start, transition, emission not known yet)"
    assert (
        repr(HMM(1, Gaussian(), [1.0], [[1.0]]))
        == "HMM(1 state, Gaussian emission; emission not known yet; stays 1.00)"
    )
    hmm = HMM(["fair", "loaded"], CategoricalDensity(probs=PROBS), [0.5, 0.5], CHAIN)
    assert str(hmm) == "HMM(2 states, CategoricalDensity emission in 1 column; stays 0.95 0.88)"
    after = hmm.condition([1, 1, 1, 1])
    assert str(after) == f"{str(hmm)[:-1]}; now state loaded with {float(after.state[1]):.2f})"
    assert repr(hmm.emission) == "CategoricalDensity(2 components, 1 column)"
    many = HMM(12, transition=np.full((12, 12), 1 / 12))
    assert "stays 0.08 to 0.08" in repr(many)


def test_an_lds_says_how_long_it_remembers():
    assert repr(LDS.with_states(2, 3, 1)) == "LDS(2 states, 3 outputs, 1 input; matrices not known yet)"
    turn = np.array([[0.0, 0.9], [-0.9, 0.0]])
    lds = LDS(turn, np.eye(2), [[1.0, 0.0]], [[1.0]], np.zeros(2), np.eye(2))
    assert repr(lds) == "LDS(2 states, 1 output; spectral radius 0.9)"
    assert str(lds.condition([0.1, 0.2, 0.3])) == "LDS(2 states, 1 output; spectral radius 0.9; after 3 outcomes)"
    varying = LDS(np.stack([turn] * 4), np.eye(2), [[1.0, 0.0]], [[1.0]], np.zeros(2), np.eye(2))
    assert repr(varying) == "LDS(2 states, 1 output; transition given for each time)"


def test_traced_stacked_and_emptied_models_can_be_printed():
    lds = LDS([[0.5]], [[1.0]], [[1.0]], [[1.0]], [0.0], [[1.0]]).condition([0.3])
    hmm = HMM(2, CategoricalDensity(probs=PROBS), [0.5, 0.5], CHAIN).condition([1, 0])
    seen = []

    @eqx.filter_jit
    def look(model):
        seen.append(repr(model))
        return jnp.zeros(())

    for model, want in (
        (lds, "LDS(1 state, 1 output)"),
        (hmm, "HMM(2 states, CategoricalDensity emission in 1 column)"),
    ):
        look(model)
        assert seen[-1] == want
        assert repr(jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), model)) == want
    assert repr(jax.tree.map(lambda leaf: True, lds)).startswith("LDS(1 state")
