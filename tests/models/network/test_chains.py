"""Message passing on a chain is what other beliefs do: the HMM, the Kalman smoother, regression row by row."""

import numpy as np
import pytest

import credo
from credo import Network
from credo.errors import DataError
from credo.models.densities import CategoricalDensity
from credo.models.linear import Isotropic
from credo.models.network import LinearGaussian

START, MOVE = np.array([0.6, 0.4]), np.array([[0.9, 0.1], [0.3, 0.7]])
SHOW = np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
SEEN = [0, 2, 2, 1, 0]


def weather():
    return Network({"z": START, "x": ("z", SHOW), "z'": ("z", MOVE), "x'": ("z'", SHOW)})


def test_an_unrolled_network_is_the_hidden_markov_model():
    hmm = credo.HMM(2, CategoricalDensity(3, probs=SHOW), START, MOVE)
    chain = weather().unrolled(5)
    seen = {f"x[{t}]": str(x) for t, x in enumerate(SEEN)}
    after = chain.condition(seen)
    smoothed = np.array([after.predict(f"z[{t}]").probs for t in range(5)])
    np.testing.assert_allclose(smoothed, hmm.smooth(SEEN), rtol=1e-10)
    np.testing.assert_allclose(chain.log_evidence(seen), hmm.log_evidence(SEEN), rtol=1e-10)
    path = after.explain()
    assert [int(path[f"z[{t}]"]) for t in range(5)] == hmm.viterbi(SEEN).tolist()
    filtered = chain
    for t, x in enumerate(SEEN):  # forward: one observation after the other
        filtered = filtered.condition({f"x[{t}]": str(x)})
        np.testing.assert_allclose(filtered.predict(f"z[{t}]").probs, hmm.filter(SEEN).probs[t], rtol=1e-10)


def test_an_unrolled_network_is_the_kalman_smoother():
    lds = credo.LDS([[0.9]], [[0.3]], [[1.5]], [[0.2]], [0.5], [[2.0]])
    observed = np.array([0.4, 1.2, -0.3, 0.8])
    net = Network(
        {
            "z": LinearGaussian([], 0.5, variance=2.0),
            "x": LinearGaussian(["z"], 0.0, [1.5], 0.2),
            "z'": LinearGaussian(["z"], 0.0, [0.9], 0.3),
            "x'": LinearGaussian(["z'"], 0.0, [1.5], 0.2),
        }
    ).unrolled(4)
    seen = {f"x[{t}]": x for t, x in enumerate(observed)}
    after, smoothed = net.condition(seen), lds.smooth(observed[:, None])
    laws = [after.predict(f"z[{t}]") for t in range(4)]
    np.testing.assert_allclose([law.mean for law in laws], smoothed.mean[:, 0], rtol=1e-9)
    np.testing.assert_allclose([law.variance for law in laws], smoothed.covariance[:, 0, 0], rtol=1e-9)
    np.testing.assert_allclose(net.log_evidence(seen), smoothed.log_likelihood, rtol=1e-9)


def test_regression_row_by_row_is_conditioning_the_weights():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    rows = {f"y{i}": LinearGaussian(["w0", "w1"], 0.0, row, 0.3) for i, row in enumerate(x)}
    net = Network({"w0": LinearGaussian([], variance=0.5), "w1": LinearGaussian([], variance=0.5), **rows})
    linear = credo.Linear(prior=Isotropic(2.0), noise=0.3, intercept=None)
    total = 0.0
    for i in range(6):
        total += float(net.log_evidence({f"y{i}": y[i]}))
        net, linear = net.condition({f"y{i}": y[i]}), linear.condition(x[i : i + 1], y[i : i + 1])
        for j in range(2):
            law, want = net.predict(f"w{j}"), linear.predict(np.eye(2)[j : j + 1])
            np.testing.assert_allclose([law.mean, law.variance], [want.mean[0], want.epistemic[0]], rtol=1e-9)
    whole = credo.Linear(prior=Isotropic(2.0), noise=0.3, intercept=None)
    np.testing.assert_allclose(total, whole.log_evidence(x, y), rtol=1e-9)


def test_slices_that_do_not_fit_are_refused():
    for nodes, message in [
        ({"a": [0.5, 0.5]}, "no variable has a prime"),
        ({"a'": [0.5, 0.5]}, "there is a' and no a"),
        ({"a": ("b'", [[1.0]]), "b": [1.0], "b'": [1.0], "a'": [1.0]}, "comes later"),
        ({"a": [1.0], "a'": ("a", [[1.0]]), "c": ("a", [[1.0]])}, "give it a twin c'"),
    ]:
        with pytest.raises(DataError, match=message):
            Network(nodes).unrolled(3)
    with pytest.raises(DataError, match="t must be a whole number"):
        weather().unrolled(0)
    assert weather().unrolled(1).names == ("z[0]", "x[0]")
