"""The model and its beliefs, against enumeration and against the filter of a hidden Markov model."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import credo
from credo.decide.pomdp import POMDP, AlphaVectors
from credo.errors import DataError
from credo.models.densities import CategoricalDensity

EYE = np.eye(2)
HALF = np.full((2, 2), 0.5)
HEAR = np.array([[0.85, 0.15], [0.15, 0.85]])
PAID = np.array([[-1.0, -100.0, 10.0], [-1.0, 10.0, -100.0]])


def small() -> POMDP:
    return POMDP([EYE, HALF, HALF], [HEAR, HALF, HALF], PAID, 0.95, actions=["listen", "left", "right"])


def test_forms_of_the_same_problem():
    lists = small()
    arrays = POMDP(np.stack([EYE, HALF, HALF], 1), np.stack([HEAR, HALF, HALF], 1), PAID, 0.95)
    sparse = POMDP([sp.csr_array(m) for m in (EYE, HALF, HALF)], [HEAR, sp.csr_array(HALF), HALF], PAID, 0.95)
    mixed = POMDP([EYE.tolist(), HALF, HALF], [HEAR.tolist(), HALF, HALF], PAID, 0.95)
    for other in (arrays, sparse, mixed):
        for a in range(3):
            np.testing.assert_array_equal(lists.transitions[a].toarray(), other.transitions[a].toarray())
            np.testing.assert_array_equal(lists.observations[a].toarray(), other.observations[a].toarray())
    one = POMDP([EYE, EYE], HEAR, [1.0, 2.0], 0.9)
    np.testing.assert_array_equal(one.observations[1].toarray(), HEAR)
    np.testing.assert_array_equal(one.rewards, [[1, 1], [2, 2]])


def test_rewards_are_averaged(random_pomdp):
    random = np.random.default_rng(0)
    p, full = random_pomdp(1), random.normal(size=(3, 2, 3, 2))
    moves, shows = [m.toarray() for m in p.transitions], [m.toarray() for m in p.observations]
    got = POMDP(moves, shows, full, 0.9).rewards
    for s, a in itertools.product(range(3), range(2)):
        each = [moves[a][s, t] * shows[a][t, o] * full[s, a, t, o] for t, o in itertools.product(range(3), range(2))]
        assert got[s, a] == pytest.approx(sum(each))


def test_terminal_states_stay_and_pay_nothing():
    p = POMDP([HALF], HEAR, [5.0, 7.0], 1, terminal=[1])
    np.testing.assert_array_equal(p.terminal, [False, True])
    np.testing.assert_array_equal(p.transitions[0].toarray(), [[0.5, 0.5], [0, 1]])
    np.testing.assert_array_equal(p.rewards, [[5], [0]])
    p.check_ending()


def test_belief_after_a_history_is_that_of_enumeration(random_pomdp):
    p = random_pomdp(2)
    history = [(0, 1), (1, 0), (1, 1), (0, 0)]
    belief, log_chance = p.belief(), 0.0
    for action, seen in history:
        log_chance += float(belief.log_evidence(action, seen))
        assert np.exp(belief.log_evidence(action, seen)) == pytest.approx(belief.predict(action).probs[seen])
        belief = belief.condition(action, seen)
    weights = np.zeros(3)
    for path in itertools.product(range(3), repeat=5):
        w = p.start[path[0]]
        for (action, seen), here, there in zip(history, path, path[1:], strict=False):
            w *= p.transitions[action].toarray()[here, there] * p.observations[action].toarray()[there, seen]
        weights[path[-1]] += w
    np.testing.assert_allclose(belief.probs, weights / weights.sum(), rtol=1e-12)
    assert np.exp(log_chance) == pytest.approx(weights.sum())
    assert belief.entropy == pytest.approx(-(belief.probs * np.log(belief.probs)).sum())


def test_with_one_action_it_is_the_filter_of_a_hidden_markov_model(random_pomdp):
    p = random_pomdp(3, s=2, a=1, o=3)
    moves, shows = p.transitions[0].toarray(), p.observations[0].toarray()
    hmm = credo.HMM(2, CategoricalDensity(probs=shows), p.start @ moves, moves)
    belief = p.belief()
    for each in (0, 2, 1, 1, 0):
        belief, hmm = belief.condition(0, each), hmm.condition(each)
        np.testing.assert_allclose(belief.probs, hmm.state)


def test_predictions_split_their_doubt():
    law = small().belief().predict("listen")
    np.testing.assert_allclose(law.probs, [0.5, 0.5])
    noise = -(0.85 * np.log(0.85) + 0.15 * np.log(0.15))
    assert law.aleatoric == pytest.approx(noise)
    assert law.epistemic == pytest.approx(np.log(2) - noise)


def test_names_or_numbers(tiger):
    p = tiger
    a = p.belief().condition("listen", "hear-left")
    np.testing.assert_array_equal(a.probs, p.belief().condition(0, 0).probs)
    assert a.mode == "tiger-left"
    assert a["tiger-left"] == pytest.approx(0.85)
    assert p.belief("tiger-right")[1] == 1
    assert a.reward("open-right") == pytest.approx(0.85 * 10 - 0.15 * 100)
    with pytest.raises(DataError, match="no action 'sing'; there are listen, open-left"):
        a.condition("sing", 0)
    with pytest.raises(DataError, match="no observation 7"):
        a.condition(0, 7)


def test_saved_and_loaded(tmp_path):
    p = small()
    back = credo.load(credo.save(p.belief().condition("listen", 0), tmp_path / "b"))
    np.testing.assert_allclose(back.probs, [0.85, 0.15])
    assert back.pomdp.action_names == p.action_names


def test_the_world_of_somebody_who_sees():
    plan = credo.solve(small().mdp)
    np.testing.assert_allclose(plan.value, 200.0)


def test_vectors_of_blocks():
    blocks = [np.array([0, 2]), np.array([1]), np.arange(3)]
    tables = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[5.0]]), np.full((1, 3), -1.0)]
    found = AlphaVectors.of_blocks(blocks, tables, [np.array([0, 1]), np.array([0]), np.array([2])], 3)
    beliefs = sp.csr_array([[0.3, 0, 0.7], [0, 1.0, 0], [0.5, 0.5, 0]])
    value, which = found.best(beliefs)
    np.testing.assert_allclose(value, [0.7, 5.0, -1.0])
    np.testing.assert_array_equal(which, [1, 2, 3])
    np.testing.assert_array_equal(found.table[2], [-np.inf, 5, -np.inf])
    lone = AlphaVectors.of_blocks(blocks[:2], tables[:2], [np.array([0, 1]), np.array([0])], 3)
    with pytest.raises(DataError, match="never possible together"):
        lone.best(beliefs)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"transition": [EYE, EYE * 0.9, HALF]},
            r"found 0.9 \(off by -0.1\) for action 1 from state 0; 2 rows are off",
        ),
        ({"observation": [HEAR, HALF + 0.1 * EYE, HALF]}, r"observation .* found 1.1 .* action 1 in state 0"),
        ({"transition": [EYE, HALF]}, "a matrix .* for each action"),
        ({"observation": [EYE * 2 - 1, HALF, HALF]}, "must hold probabilities, found -1"),
        ({"reward": np.ones((3, 3))}, r"reward must have the shape \(2,\)"),
        ({"reward": PAID * np.nan}, "finite"),
        ({"discount": 1.5}, "discount"),
        ({"start": [0.5, 0.6]}, "sum to 1, found the sum 1.1"),
        ({"start": "nowhere"}, "no state 'nowhere'"),
        ({"states": ["a", "a"]}, "differently"),
        ({"transition": "tiger"}, "must be an array"),
        ({"transition": [EYE.tolist(), HALF.tolist()]}, "could be an array or a list of matrices; use numpy.array"),
    ],
)
def test_bad_input(change, sentence):
    good = {"transition": [EYE, HALF, HALF], "observation": [HEAR, HALF, HALF], "reward": PAID, "discount": 0.95}
    with pytest.raises(DataError, match=sentence):
        POMDP(**{**good, **change})


def test_what_cannot_be():
    sees = POMDP([EYE], np.eye(2), [0.0, 0.0], 0.9, observations=["left", "right"], actions=["look"])
    known = sees.belief(0)
    with pytest.raises(DataError, match="'right' is impossible after the action 'look'"):
        known.condition("look", "right")
    with pytest.raises(DataError, match="a discount of 1 needs terminal states"):
        POMDP([HALF], HEAR, [1.0, 1.0], 1.0).check_ending()
