"""Training that goes on: from where networks are, after an interruption, and on chunks of rows."""

import numpy as np
import pytest

from credo.core.chunks import chunks
from credo.core.errors import DataError, NotConvergedWarning
from credo.models.neural import Ensemble, Further, LastLayer, Neural, Streamed, training

RNG = np.random.default_rng(1)
X = RNG.normal(size=(200, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=200)
BELIEF = Neural((4,), steps=100, batch=16)


def log_joint(belief, x, y):
    """Of each network, as training sees it."""
    z, t = belief.scaling.rows(x, y)
    f = belief.network(2)(belief.members, z)
    return belief.law.log_prob(f, t).sum(-1) - 0.5 * float(belief.precision) * (belief.members**2).sum(-1)


def test_more_steps_climb_on():
    first = BELIEF.condition(X[:150], Y[:150], using=Ensemble(2))
    more = first.condition(X[150:], Y[150:], using=Further(300))
    assert len(more.seen.y) == 200 and more.members.shape == first.members.shape
    assert np.all(log_joint(more, X, Y) > log_joint(first, X, Y))
    assert more.steps == BELIEF.steps and more.doubts() == ()


def test_an_interruption_leaves_what_there_is(monkeypatch):
    real, calls = training.advance, []

    def interrupted(*given):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(training, "advance", interrupted)
    with pytest.warns(NotConvergedWarning, match="stopped after 100 of 300 steps"):
        found = Neural((4,), steps=300, batch=16).condition(X, Y)
    assert np.all(np.isfinite(found.members))


def test_chunks_are_enough():
    """Of chunks of a table networks learn what they learn of it, and keep none of its rows."""
    found = BELIEF.condition(chunks(X, Y, rows=64), using=Streamed(members=2, passes=40))
    assert found.seen is None and found.members.shape[0] == 2
    assert np.std(Y - found.predict(X).mean) < 0.35 * np.std(Y)
    again = BELIEF.condition([(X[:64], Y[:64]), (X[64:], Y[64:])], using=Streamed(members=2, passes=2))
    assert np.all(np.isfinite(again.predict(X).std))


def test_what_cannot_be_is_refused():
    closed = BELIEF.condition(X, Y, using=LastLayer())
    for ask, words in (
        (lambda: BELIEF.condition(X, Y, using=Further(10)), "there are no networks to go on with"),
        (lambda: closed.condition(X, Y, using=Further(10)), "there are no networks to go on with"),
        (lambda: BELIEF.condition(X, Y, using=Streamed()), "takes one iterable"),
        (lambda: BELIEF.condition(iter([(X, Y)]), using=Streamed()), "can be gone through again"),
        (lambda: BELIEF.condition([], using=Streamed()), "the chunks are empty"),
        (lambda: BELIEF.condition([(X,)], using=Streamed()), "must be a pair"),
        (lambda: Further(0), "steps must be"),
    ):
        with pytest.raises(DataError, match=words):
            ask()
