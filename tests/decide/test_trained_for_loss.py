"""Networks trained for a loss: the quantile that it asks for, and less cost than with a wrong likelihood."""

import numpy as np
import pytest

import credo
from credo.core.errors import DataError
from credo.decide import end_to_end
from credo.losses import Asymmetric, ZeroOne

RNG = np.random.default_rng(4)
SMALL = credo.Neural((4,), steps=600, batch=32)


def test_without_a_signal_it_is_a_quantile():
    x, y = np.ones((400, 1)), RNG.gamma(2.0, 10.0, size=400)
    loss = Asymmetric(under=4, over=1)
    found = end_to_end(SMALL, x, y, loss=loss)
    action = found.decide(x[:1])
    np.testing.assert_allclose(np.mean(y < action), 0.8, atol=0.05)
    np.testing.assert_allclose(found.cost(x, y), loss(action, y))


def test_it_costs_less_than_a_likelihood_that_is_wrong():
    """Skewed noise: a normal law puts its quantile elsewhere."""
    x = RNG.uniform(-2, 2, size=(1500, 1))
    y = x[:, 0] + RNG.gamma(0.5, 1.0, size=1500)
    loss, train, test = Asymmetric(under=8, over=1), slice(0, 300), slice(300, None)
    found = end_to_end(SMALL, x[train], y[train], loss=loss)
    belief = SMALL.condition(x[train], y[train])
    decided = loss(credo.decide(belief.predict(x[test]), loss), y[test])
    assert np.mean(found.cost(x[test], y[test])) < np.mean(decided)


def test_what_cannot_be_is_refused():
    x, y = np.ones((5, 1)), np.ones(5)
    for ask, words in (
        (lambda: end_to_end(SMALL, x, y, loss=ZeroOne()), "loss must be one of real actions"),
        (lambda: end_to_end(credo.Neural(outcome="counts"), x, y, loss=Asymmetric(1, 2)), "takes a Neural with layers"),
    ):
        with pytest.raises(DataError, match=words):
            ask()
