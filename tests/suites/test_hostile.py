"""Hostile calls: what nobody should ask is answered rightly, refused in a sentence of credo's own, or warned of.

Never a raw error of a library below, never an answer that is not a number.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import credo
from credo.errors import CredoError
from credo.kernels import RBF
from credo.models.gp import GP, MultiGP, WarpedGP
from credo.models.linear import ARD, InverseGamma, Linear, StudentTNoise
from credo.models.structural import Level, Seasonal

pytestmark = pytest.mark.usefixtures("unchecked")  # users have no run-time checks of types

RNG = np.random.default_rng(3)
X = RNG.normal(size=(10, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=10)
LABELS = np.where(Y > 0, "a", "b")
COUNTS = np.arange(10) % 4


def spoiled(x: np.ndarray, value: float) -> np.ndarray:
    out = np.array(x, dtype=float)
    out.flat[3] = value
    return out


TABLES: dict[str, Any] = {
    "nan": spoiled(X, np.nan),
    "inf": spoiled(X, np.inf),
    "huge": spoiled(X, 1e300),
    "empty": np.empty((0, 2)),
    "no columns": np.empty((10, 0)),
    "a vector": X[:, 0],
    "three axes": X[None],
    "a number": 3.0,
    "None": None,
    "text": "table",
    "texts": [["a", "b"]] * 10,
    "ragged": [[1.0, 2.0], [3.0]] * 5,
    "complex": X + 1j,
    "objects": np.array([[object(), 1]] * 10, dtype=object),
    "dates": pd.DataFrame({"a": pd.date_range("2020", periods=10), "b": 1.0}),
    "too few rows": X[:7],
    "a function": lambda: X,
    "a mapping": {"a": 1},
    "constant": np.ones((10, 2)),
    "one value twice": np.repeat(X[:, :1], 2, axis=1),
}
VECTORS: dict[str, Any] = {
    "nan": spoiled(Y, np.nan),
    "inf": spoiled(Y, -np.inf),
    "empty": [],
    "a table": X,
    "None": None,
    "text": "y",
    "texts": list("abcdefghij"),
    "ragged": [[1.0], [1.0, 2.0]] * 5,
    "complex": Y + 1j,
    "too long": np.append(Y, 1.0),
    "constant": np.ones(10),
    "zeros": np.zeros(10),
    "a number": 1.0,
    "huge": Y * 1e305,
    "tiny": Y * 1e-305,
    "missing": [None] * 10,
    "booleans": Y > 0,
}
REGRESSIONS: dict[str, Callable[[], Any]] = {
    "Linear": Linear,
    "Linear, ARD": lambda: Linear(prior=ARD()),
    "Linear, unknown noise": lambda: Linear(noise=InverseGamma()),
    "Linear, Student-t": lambda: Linear(noise=StudentTNoise()),
    "GP": GP,
    "WarpedGP": WarpedGP,
    "MultiGP": lambda: MultiGP(RBF(), outputs=2),
    "Logistic": credo.Logistic,
    "Softmax": credo.Softmax,
    "OrdinalRegression": lambda: credo.OrdinalRegression(classes=("a", "b")),
    "PoissonRegression": credo.PoissonRegression,
    "NegativeBinomialRegression": credo.NegativeBinomialRegression,
    "StudentTRegression": credo.StudentTRegression,
    "Neural": lambda: credo.Neural((2,), steps=20, batch=8),
}


def outcomes(name: str) -> Any:
    if name in ("Logistic", "Softmax", "OrdinalRegression"):
        return LABELS
    if name in ("PoissonRegression", "NegativeBinomialRegression"):
        return COUNTS
    return np.column_stack([Y, Y[::-1]]) if name == "MultiGP" else Y


def quietly(belief: Any, *data: Any) -> Any:
    """What is learned from sound data; a warning of it is not what is asked about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return credo.fit(belief, *data)


def survives(call: Callable[[], Any]) -> str:
    """How it ended: "refused", "warned" or "answered"; anything else fails."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = call()
        except CredoError as error:
            return "refused" if len(str(error)) > 20 else f"refused without a reason: {error}"
    said = [w for w in caught if issubclass(w.category, UserWarning)]
    if isinstance(answer, credo.Predictive):
        for value in (answer.mean, answer.std):
            assert np.all(np.isfinite(value)) or said, f"not a number, without a word: {value}"
    return "warned" if said else "answered"


MUST_BE_REFUSED = {
    *("nan", "inf", "empty", "no columns", "three axes", "a number", "None", "text", "texts", "ragged", "complex"),
    *("objects", "dates", "too few rows", "a function", "a mapping"),
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_inputs_nobody_should_give(name):
    for what, table in TABLES.items():
        ended = survives(lambda x=table: credo.fit(REGRESSIONS[name](), x, outcomes(name)).predict(X))
        assert ended == "refused" or what not in MUST_BE_REFUSED, what


@pytest.mark.parametrize("name", REGRESSIONS)
def test_outcomes_nobody_should_give(name):
    for what, vector in VECTORS.items():
        if what == "a table" and name == "MultiGP":
            continue
        ended = survives(lambda y=vector: credo.fit(REGRESSIONS[name](), X, y).predict(X))
        if what in ("empty", "None", "text", "too long", "ragged", "a number", "missing"):
            assert ended == "refused", what


@pytest.mark.parametrize("name", REGRESSIONS)
def test_queries_nobody_should_ask(name):
    belief = quietly(REGRESSIONS[name](), X, outcomes(name))
    for what, table in TABLES.items():
        ended = survives(lambda x=table: belief.predict(x))
        refused = MUST_BE_REFUSED - {"too few rows", "empty"}
        assert ended == "refused" or what not in refused, what
    survives(lambda: belief.predict(X[:, :1]))


SERIES: dict[str, Callable[[], Any]] = {
    "Structural": lambda: credo.Structural(Level(), Seasonal(4)),
    "LDS": lambda: credo.LDS.with_states(1),
    "HMM": lambda: credo.HMM(2),
}


@pytest.mark.parametrize("name", SERIES)
def test_series_nobody_should_give(name):
    for series in VECTORS.values():
        survives(lambda y=series: credo.fit(SERIES[name](), y).predict(2))
    belief = quietly(SERIES[name](), np.sin(np.arange(30.0)) + 0.1 * RNG.normal(size=30))
    for steps in (0, -1, 1.5, "3", None, np.nan, [1, 2]):
        survives(lambda s=steps: belief.predict(s))


CLOSED: dict[str, Callable[[], Any]] = {
    "BetaBernoulli": credo.BetaBernoulli,
    "GammaPoisson": credo.GammaPoisson,
    "NormalInverseGamma": credo.NormalInverseGamma,
    "DirichletCategorical": lambda: credo.DirichletCategorical([1.0, 1.0]),
    "MarkovSequence": lambda: credo.MarkovSequence(2, 1),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name):
    for values in (*VECTORS.values(), *TABLES.values()):
        survives(lambda v=values: CLOSED[name]().condition(v))
    for prior in (-1.0, 0.0, np.nan, np.inf, "a", None, [], [[1.0]]):
        survives(lambda p=prior: type(CLOSED[name]())(p))


@pytest.mark.parametrize("kind", [credo.FactorAnalysis, credo.PPCA])
def test_tables_nobody_should_give_to_factors(kind):
    for values in (*VECTORS.values(), *TABLES.values()):
        survives(lambda v=values: credo.fit(kind(1), v).predict(v))
        survives(lambda v=values: credo.fit(kind(1), v, missing=True).predict(v))
    belief = quietly(kind(1), X)
    for values in TABLES.values():
        for ask in (belief.predict, belief.factors, belief.anomaly, belief.log_density, belief.impute):
            survives(lambda v=values, ask=ask: ask(v))
    for l in (-1, 1.5, "3", None, np.nan, [1], True):
        survives(lambda l=l: credo.fit(kind(l), X))


LEVELS = (-0.1, 0.0, 1.0, 1.5, np.nan, "0.9", None, [0.9], True)


def test_levels_and_quantiles_nobody_should_ask():
    predictions = [
        credo.fit(Linear(), X, Y).predict(X),
        credo.fit(credo.Logistic(), X, LABELS).predict(X),
        credo.fit(credo.PoissonRegression(), X, COUNTS).predict(X),
        credo.NormalInverseGamma().condition(Y).predict(),
    ]
    for prediction in predictions:
        for level in LEVELS:
            survives(lambda p=prediction, at=level: p.interval(at))
            survives(lambda p=prediction, at=level: p.quantile(at))
        for n in (0, -1, 1.5, "2", None, np.nan):
            survives(lambda p=prediction, m=n: p.sample(m))
        for y in ("a", None, np.nan):
            survives(lambda p=prediction, v=y: p.log_prob(v))


def test_settings_nobody_should_give():
    for fixed in ("noise", ["nothing"], 3, [None]):
        survives(lambda f=fixed: credo.fit(Linear(), X, Y, fixed=f))
    for priors in ({"noise": 3}, {"nothing": None}, "noise", {"noise": "wide"}, [1]):
        survives(lambda p=priors: credo.fit(Linear(), X, Y, priors=p))
    for seed in (-1, 1.5, "a", None, 2**70):
        survives(lambda s=seed: credo.fit(GP(), X, Y, seed=s))
    for wrong in ({"weights": [-1.0] * 10}, {"weights": [np.nan] * 10}, {"noise": -1.0}):
        survives(lambda w=wrong: credo.fit(Linear(), X, Y, **w))
    for noise in (-1.0, 0.0, np.nan, "loud"):
        survives(lambda v=noise: Linear(noise=v).condition(X, Y))
        survives(lambda v=noise: GP(noise=v).condition(X, Y))
