"""EM by batches of sequences against EM of all of them."""

import numpy as np
import pytest

import credo
from credo.errors import DataError, NotConvergedWarning
from credo.infer import EM
from credo.models.densities import Gaussian
from credo.models.hmm import StepwiseEM
from credo.models.hmm.stepwise import cut, gathered

TRUTH = credo.HMM(2, Gaussian(np.full((2, 1), 0.5), mean=[-1.0, 1.0]), [0.8, 0.2], [[0.9, 0.1], [0.3, 0.7]])
SEQUENCES = [np.asarray(TRUTH.simulate(n, seed=i)[1]) for i, n in enumerate([12, 20, 30] * 20)]


def test_it_ends_where_em_does():
    blank = credo.HMM(2, Gaussian("diagonal"))
    whole = credo.fit(blank, SEQUENCES, using=EM(starts=1), report=True)
    found = credo.fit(blank, SEQUENCES, using=StepwiseEM(batch=6, passes=12), report=True)
    assert found.status == "converged" and "M-steps" in found.notes[0]
    assert found.log_evidence > whole.log_evidence - 2.0  # nats, of some 1,700
    for name in ("mean", "variance"):
        one, other = (np.sort(np.ravel(getattr(each.belief.emission, name))) for each in (found, whole))
        np.testing.assert_allclose(one, other, atol=0.1)


def test_all_sequences_at_once_are_a_step_of_em():
    start, data = credo.HMM(2, Gaussian("diagonal")).prepare(SEQUENCES[:9])
    with pytest.warns(NotConvergedWarning):
        one = credo.learn(start, SEQUENCES[:9], using=StepwiseEM(batch=9, passes=1))
    expected, _ = start.expect(data)
    np.testing.assert_allclose(one.transition, start.maximize(expected).transition, rtol=1e-8)
    parts = cut(data)
    part = gathered(data, [parts[2], parts[0]])
    assert part.rows == 42 and np.flatnonzero(part.first[:42]).tolist() == [0, 30]
    np.testing.assert_array_equal(part.x[:30], SEQUENCES[2])


def test_what_is_fixed_stays_and_refusals():
    with pytest.warns(NotConvergedWarning):
        held = credo.learn(TRUTH, SEQUENCES[:9], fixed=["transition"], using=StepwiseEM(batch=3, passes=1))
    np.testing.assert_array_equal(held.transition, TRUTH.transition)
    with pytest.raises(DataError, match="decay"):
        credo.learn(TRUTH, SEQUENCES[:3], using=StepwiseEM(decay=0.4))
