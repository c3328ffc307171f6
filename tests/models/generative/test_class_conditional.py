"""Sequences told apart by a belief about them for each class."""

import numpy as np
import pytest

import credo
from credo.core.errors import DataError
from credo.models.densities import Gaussian, Regression
from credo.models.generative import ClassConditional


def sequences(rng, per_class=6, steps=40):
    """Two states that stay, and two that change at every step: the outcomes of one time look alike."""
    out, labels = [], []
    for label, stay in (("calm", 0.95), ("restless", 0.1)):
        for _ in range(per_class):
            turns = rng.random(steps) > stay
            out.append(3.0 * (np.cumsum(turns) % 2) + 0.3 * rng.normal(size=steps))
            labels.append(label)
    return out, labels


def test_hidden_markov_models_of_two_classes(rng, tmp_path):
    x, y = sequences(rng)
    found = credo.fit(ClassConditional(credo.HMM(2)), x, y)
    assert found.classes == ("calm", "restless")
    new, wanted = sequences(rng, 4)
    p = found.predict(new)
    assert [found.classes[k] for k in np.asarray(p.mode).astype(int)] == wanted
    np.testing.assert_allclose(p.epistemic, 0.0, atol=1e-12)
    # Bayes' rule by hand
    logs = np.array([[float(m.log_evidence(s)) for m in found.members] for s in new])
    np.testing.assert_allclose(p.mean, 1 / (1 + np.exp(logs[:, 0] - logs[:, 1])), rtol=1e-9, atol=1e-300)
    again = credo.load(credo.save(found, tmp_path / "belief"))
    np.testing.assert_array_equal(again.predict(new).mean, p.mean)


def test_shares_of_classes_and_the_evidence(rng):
    x, y = sequences(rng, 3, 20)
    found = credo.fit(ClassConditional(credo.HMM(2)), x, y)
    more = found.condition(x[:2], y[:2])
    np.testing.assert_array_equal(more.counts, [5, 3])
    own = sum(float(found.members[0].log_evidence(s)) for s in x[:2])
    np.testing.assert_allclose(found.log_evidence(x[:2], y[:2]), own + np.log(4 / 8 * 5 / 9), rtol=1e-9)
    ratio = lambda b: np.asarray(b.predict(x[:1]).mean) / (1 - np.asarray(b.predict(x[:1]).mean))  # noqa: E731
    np.testing.assert_allclose(ratio(more) / ratio(found), (4 / 6) / (4 / 4), rtol=1e-6)


def test_symbols_of_three_classes(rng):
    kinds = {"up": [0.8, 0.1, 0.1], "down": [0.1, 0.8, 0.1], "round": [0.1, 0.1, 0.8]}
    x = [rng.choice(3, size=30, p=p) for p in kinds.values() for _ in range(3)]
    y = [name for name in kinds for _ in range(3)]
    belief = ClassConditional(credo.MarkovSequence([0, 1, 2]))
    found = credo.fit(belief, x, y)
    p = found.predict(x)
    assert p.mean.shape == (9, 3)
    np.testing.assert_allclose(np.asarray(p.mean).sum(1), 1.0)


def test_bad_input(rng):
    x, y = sequences(rng, 2, 10)
    belief = ClassConditional(credo.HMM(2))
    with pytest.raises(DataError, match="takes a belief about sequences, found int"):
        ClassConditional(3)
    with pytest.raises(DataError, match="sequences must be a list of arrays"):
        credo.fit(belief, x[0], y)
    with pytest.raises(DataError, match="a label for each of the 4 sequences, found 3"):
        credo.fit(belief, x, y[:3])
    with pytest.raises(DataError, match="is not learned yet"):
        belief.condition(x, y)


def test_gaps_and_inputs_go_with_the_sequences():
    truth = [credo.HMM(1, Gaussian(np.ones((1, 1)), mean=[m]), [1.0], [[1.0]]) for m in (-1.5, 1.5)]
    sequences = [np.asarray(hmm.simulate(n, seed=n)[1]).copy() for hmm in truth for n in (4, 5, 6, 7)]
    sequences[0][2] = np.nan
    labels = ["low"] * 4 + ["high"] * 4
    found = credo.fit(ClassConditional(credo.HMM(1)), iter(sequences), labels, missing=True)
    p = found.predict(sequences, missing=True)
    members = dict(zip(found.classes, found.members, strict=True))
    logs = [float(members[name].log_evidence(sequences[0], missing=True)) for name in ("high", "low")]
    shares = dict(zip(found.classes, p.probs[0], strict=True))
    assert shares["low"] == pytest.approx(1 / (1 + np.exp(logs[0] - logs[1])), rel=1e-8)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(len(x), 1)) for x in sequences]
    driven = [s * u + 0.3 * rng.normal(size=u.shape) for s, u in zip([1.0] * 4 + [-1.0] * 4, inputs, strict=True)]
    slopes = credo.fit(ClassConditional(credo.HMM(1, Regression())), driven, labels, inputs=inputs)
    assert np.all(slopes.predict(driven, inputs=inputs).probs.argmax(axis=1) == [1] * 4 + [0] * 4)
    with pytest.raises(DataError, match="a table for each of the 8 sequences, found 3"):
        slopes.predict(driven, inputs=inputs[:3])
    with pytest.raises(DataError, match="nothing here depends on inputs"):
        credo.fit(ClassConditional(credo.HMM(1)), driven, labels, inputs=inputs)
