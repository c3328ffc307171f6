"""Draws against exact answers within their own standard errors, and a verdict where they are not to be trusted."""

import numpy as np
import pytest

import credo
from credo import Network
from credo.errors import DataError, NotConverged, NotConvergedWarning
from credo.models.network import LikelihoodWeighting, LinearGaussian, NetworkGibbs


def mixed():
    return Network(
        {
            "kind": {"u": 0.3, "v": 0.7},
            "broken": ("kind", {"u": {"yes": 0.2, "no": 0.8}, "v": {"yes": 0.4, "no": 0.6}}),
            "x": LinearGaussian(["kind", "broken"], [[0.0, 1.0], [2.0, 3.0]], variance=[[1.0, 0.5], [2.0, 0.7]]),
            "y": LinearGaussian(["x", "kind"], [1.0, -1.0], [[0.5], [1.5]], 0.8),
            "alarm": ("broken", [[0.9, 0.1], [0.2, 0.8]]),
        }
    )


OBSERVED = {"alarm": "0", "y": 1.7, "broken": [0.5, 1.0]}


@pytest.mark.parametrize("method", [LikelihoodWeighting(20_000), NetworkGibbs(draws=300, chains=20, warmup=30)])
def test_draws_agree_with_the_exact_answer(method):
    exact, drawn = mixed().condition(OBSERVED), mixed().condition(OBSERVED, using=method, seed=1)
    truth, found = exact.marginals(), drawn.marginals()
    for name in ("kind", "broken"):
        for state, error in drawn.standard_errors(name).items():
            assert 0 < error < 0.05
            assert abs(found[name][state] - truth[name][state]) < 4.5 * error
            assert float(drawn.predict(name)[state]) == pytest.approx(found[name][state])
    error = drawn.standard_errors("x")["mean"]
    assert abs(found["x"]["mean"] - truth["x"]["mean"]) < 4.5 * error
    law, want = drawn.predict("x"), exact.predict("x")
    assert float(law.cdf(1.0)) == pytest.approx(float(want.cdf(1.0)), abs=0.06)
    assert drawn.ess > 200 and drawn.rhat < 1.05 and not drawn.doubts()
    if drawn.log_total is not None:
        assert float(drawn.log_total) == pytest.approx(float(mixed().log_evidence(OBSERVED)), abs=0.1)
    more = drawn.condition({"kind": "u"})
    assert more.predict("kind")["u"] == pytest.approx(1.0)
    assert drawn.log_evidence({"kind": "u"}) == pytest.approx(np.log(found["kind"]["u"]))


def test_a_verdict_is_given():
    rare = Network(
        {"a": [0.999, 0.001], "b": ("a", [[1.0, 0.0], [0.0, 1.0]]), "c": ("b", [[0.999, 0.001], [0.1, 0.9]])}
    )
    with pytest.warns(NotConvergedWarning, match="independent ones, not 200"):
        rare.condition({"c": "1"}, using=LikelihoodWeighting(200), seed=3)
    stuck = Network({"a": [0.5, 0.5], "b": ("a", [[1.0, 0.0], [0.0, 1.0]])})
    with (
        pytest.warns(NotConvergedWarning, match="tables with zeros keep a chain"),
        pytest.warns(NotConvergedWarning, match="the draws are worth 0"),
    ):
        stuck.condition({"a": [0.5, 0.5]}, using=NetworkGibbs(draws=50, chains=6), seed=0)
    never = Network({"a": [1.0, 0.0], "b": ("a", [[1.0, 0.0], [0.0, 1.0]])})
    with pytest.raises(NotConverged, match="impossible, or rare"):
        never.condition({"b": "1"}, using=LikelihoodWeighting(50))
    with pytest.raises(DataError, match="draws must be a whole number"):
        LikelihoodWeighting(0)
    drawn = mixed().condition({"alarm": "0"}, using=LikelihoodWeighting(1000))
    with pytest.raises(DataError, match="no draw of 'x' has a given number"):
        drawn.condition({"x": 1.0})
    with pytest.raises(DataError, match="it draws given evidence"):
        credo.fit(mixed(), {"alarm": "0"}, using=LikelihoodWeighting())
