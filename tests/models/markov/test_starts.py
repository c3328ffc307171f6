"""How sequences begin, learned: products of predictions, relative frequencies, chains that begin so."""

import numpy as np
import pytest

import credo
from credo.errors import DataError

SEQUENCES = [list(s) for s in ("abba", "abab", "bbc", "a", "ca", "abc")]


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_the_evidence_is_the_product_of_predictions(order):
    """Each state predicted from all before it, one at a time."""
    belief = credo.MarkovSequence("abc", order, 0.7, start="learned")
    total, now = 0.0, belief
    for sequence in SEQUENCES:
        now = credo.core.pytrees.changed(now, last=np.full(order, -1))
        for i, state in enumerate(sequence):
            total += float(now.predict().log_prob("abc".index(state)))
            now = now.condition([state], continued=i > 0)
    assert float(belief.log_evidence(SEQUENCES)) == pytest.approx(total, rel=1e-10)
    np.testing.assert_array_equal(now.begun, belief.condition(SEQUENCES).begun)


@pytest.mark.filterwarnings("ignore::credo.errors.RepairedWarning")
def test_the_start_is_counted_and_the_chain_begins_there():
    belief = credo.MarkovSequence("abc", 2, 1.0, start="learned").condition(SEQUENCES)
    assert belief.begun[0].tolist() == [4, 1, 1] and belief.begun[1].tolist() == [0, 3, 0]  # first; after an a
    fresh = credo.core.pytrees.changed(belief, last=np.full(2, -1))
    np.testing.assert_allclose(fresh.predict().probs, np.array([5, 2, 2]) / 9)
    chain = belief.chain()
    assert chain.start.sum() == pytest.approx(1)
    assert chain.start[chain.states.index(("a", "b"))] == pytest.approx(5 / 9 * 4 / 6)
    blind = credo.MarkovSequence("abc", 2, 1.0).condition(SEQUENCES)
    assert blind.chain().start is None
    compared = [
        float(credo.MarkovSequence("ab", 1, start=s).log_evidence([["a", "b"]] * 9)) for s in ("learned", "uniform")
    ]
    assert compared[0] > compared[1]
    by_frequency = credo.MarkovChain.fit(SEQUENCES, learn_start=True)
    np.testing.assert_allclose(by_frequency.start, [4 / 6, 1 / 6, 1 / 6])
    pairs = credo.MarkovChain.fit(SEQUENCES[:3], 2, states="abc", learn_start=True)
    assert pairs.start[pairs.states.index(("a", "b"))] == pytest.approx(2 / 3)


@pytest.mark.filterwarnings("ignore::credo.errors.RepairedWarning")
def test_refusals():
    with pytest.raises(DataError, match="start must be"):
        credo.MarkovSequence(2, start="zero")
    with pytest.raises(DataError, match="choose a lower order"):
        credo.MarkovChain.fit([["a"], ["b"]], 2, learn_start=True)
