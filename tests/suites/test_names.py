"""Frames go by name: every belief that knows its inputs by name reads columns in any order, and refuses other ones."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import credo
from credo.errors import DataError
from credo.kernels import RBF, Matern32
from credo.models.features import Polynomial
from credo.models.gp import GP, HeteroscedasticGP, Independent, MultiGP, RobustGP, StateSpaceGP, WarpedGP
from credo.models.linear import ARD, FunctionSpace, LaplacePrior, Linear, StudentTNoise
from credo.models.structural import Level, Regression, Structural

RNG = np.random.default_rng(7)
X = RNG.normal(size=(20, 2)) * [1.0, 30.0] + [0.0, 100.0]
Y = X @ [1.0, -0.1] + 0.3 * RNG.normal(size=20)
CLASSES, COUNTS = (np.median(Y) < Y).astype(int), np.arange(20) % 4
QUERIES = X[:3] + 0.1
NAMES = ["weight", "power"]

BELIEFS: dict[str, tuple[Any, Any]] = {
    "Linear": (Linear(), Y),
    "Linear, polynomial, ARD": (Linear(Polynomial(2), ARD(np.ones(5))), Y),
    "Linear, Student-t": (Linear(noise=StudentTNoise(4.0, 0.3)), Y),
    "Logistic": (credo.Logistic(), CLASSES),
    "Probit": (credo.Probit(), CLASSES),
    "Softmax": (credo.Softmax(), COUNTS % 3),
    "PoissonRegression": (credo.PoissonRegression(), COUNTS),
    "NegativeBinomialRegression": (credo.NegativeBinomialRegression(), COUNTS),
    "OrdinalRegression": (credo.OrdinalRegression(), COUNTS % 3),
    "StudentTRegression": (credo.StudentTRegression(), Y),
    "Neural": (credo.Neural((2,), steps=20, batch=8), Y),
    "GP": (GP(RBF([1.0, 50.0]), noise=0.1), Y),
    "RobustGP": (RobustGP(RBF([1.0, 50.0]), noise=StudentTNoise(4.0, 0.3)), Y),
    "WarpedGP": (WarpedGP(RBF([1.0, 50.0]), noise=0.1), Y),
    "HeteroscedasticGP": (HeteroscedasticGP(GP(RBF([1.0, 50.0]), 0.0), GP(RBF([1.0, 50.0]), -2.0)), Y),
    "MultiGP": (MultiGP(RBF([1.0, 50.0]), outputs=2), np.column_stack([Y, X[:, 0]])),
    "Independent": (Independent([GP(RBF([1.0, 50.0]), noise=0.5)] * 2), np.column_stack([Y, X[:, 0]])),
    "KernelNeighbours": (credo.KernelNeighbours(3), CLASSES),
    "KernelRegression": (credo.KernelRegression(RBF([1.0, 50.0])), Y),
    "Averaged": (credo.Averaged([0.0, 0.0], (Linear(), Linear(Polynomial(2)))), Y),
}


def frame(kind: str, x: np.ndarray, names: list[str]) -> Any:
    columns = dict(zip(names, x.T, strict=True))
    return pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)


def said(prediction: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in (prediction.mean, prediction.aleatoric, prediction.epistemic)]


SLOW = {"HeteroscedasticGP"}  # its fixed point is a loop, dear under run-time type checks


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in BELIEFS])
def named(request) -> tuple[Any, Any]:
    return BELIEFS[request.param]


@pytest.mark.filterwarnings("ignore::credo.errors.NotConvergedWarning")
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_are_found_by_name(named, kind):
    belief, y = named
    swapped, back = NAMES[::-1], slice(None, None, -1)
    after = belief.condition(frame(kind, X[:12], NAMES), y[:12])
    wanted = after.predict(QUERIES)  # an array goes by place
    for table in (frame(kind, QUERIES, NAMES), frame(kind, QUERIES[:, back], swapped)):
        for a, b in zip(said(wanted), said(after.predict(table)), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
    more, otherwise = X[12:], frame(kind, X[12:, back], swapped)
    together, by_name = after.condition(more, y[12:]), after.condition(otherwise, y[12:])
    for a, b in zip(said(together.predict(QUERIES)), said(by_name.predict(QUERIES)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(after.log_evidence(more, y[12:]), after.log_evidence(otherwise, y[12:]), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::credo.errors.NotConvergedWarning")
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_other_columns_are_refused(named, kind):
    belief, y = named
    after = belief.condition(frame(kind, X, NAMES), y)
    other = frame(kind, QUERIES, ["weight", "torque"])
    with pytest.raises(DataError, match=r"'weight', 'power'.*missing 'power'; unknown 'torque'"):
        after.predict(other)
    with pytest.raises(DataError, match="missing 'power'; unknown 'torque'"):
        after.condition(frame(kind, X, ["weight", "torque"]), y)
    with pytest.raises(DataError, match="unknown 'torque'"):
        after.predict(frame(kind, np.column_stack([QUERIES, QUERIES[:, 0]]), [*NAMES, "torque"]))


@pytest.mark.parametrize("belief", [Linear(), credo.Logistic(), GP(noise=0.1)], ids=lambda b: type(b).__name__)
def test_learning_keeps_the_names_with_their_columns(belief):
    y = CLASSES if isinstance(belief, credo.Logistic) else Y
    fitted = credo.fit(belief, frame("pandas", X, NAMES), y)
    again = credo.fit(fitted.unconditioned(), frame("pandas", X[:, ::-1], NAMES[::-1]), y)
    assert tuple(again.inputs) == tuple(fitted.inputs) == tuple(NAMES)
    swapped = frame("pandas", QUERIES[:, ::-1], NAMES[::-1])
    np.testing.assert_allclose(again.predict(swapped).mean, fitted.predict(QUERIES).mean, rtol=1e-2)


def test_what_was_learned_without_names_goes_by_place():
    after = Linear().condition(X, Y)
    for table in (frame("pandas", QUERIES, NAMES), pd.DataFrame(QUERIES), frame("polars", QUERIES, NAMES[::-1])):
        np.testing.assert_allclose(after.predict(table).mean, after.predict(QUERIES).mean)
    by_number = Linear().condition(pd.DataFrame(X), Y)
    np.testing.assert_allclose(by_number.predict(frame("pandas", QUERIES, NAMES)).mean, after.predict(QUERIES).mean)
    named = Linear().condition(frame("pandas", X, NAMES), Y)
    np.testing.assert_allclose(named.predict(pd.DataFrame(QUERIES)).mean, after.predict(QUERIES).mean)


def test_columns_of_one_name_are_refused_in_another_order():
    after = Linear().condition(frame("pandas", X, NAMES), Y)
    table = pd.DataFrame(np.column_stack([QUERIES, QUERIES[:, 0]]), columns=["power", "weight", "weight"])
    with pytest.raises(DataError, match="twice 'weight'"):
        after.predict(table)


@pytest.mark.filterwarnings("ignore::credo.errors.NotConvergedWarning")  # of fifty draws
def test_the_other_forms_go_by_name_too():
    table, swapped = frame("pandas", X, NAMES), frame("pandas", X[:, ::-1], NAMES[::-1])
    linear = Linear().condition(table, Y)
    lasso = Linear(prior=LaplacePrior(1.0), noise=0.3).condition(
        table, Y, using=credo.infer.NUTS(chains=1, draws=50, warmup=50)
    )
    space = linear.unconditioned().condition(swapped, Y, using=FunctionSpace())
    np.testing.assert_allclose(space.predict(table).mean, linear.predict(X).mean, rtol=1e-6)
    np.testing.assert_array_equal(lasso.predict(swapped).mean, lasso.predict(X).mean)
    np.testing.assert_array_equal(linear.covariance(swapped), linear.covariance(X))
    time = StateSpaceGP(GP(Matern32(), noise=0.1)).condition(pd.DataFrame({"year": X[:, 0]}), Y)
    with pytest.raises(DataError, match="missing 'year'; unknown 'month'"):
        time.predict(pd.DataFrame({"month": QUERIES[:, 0]}))
    series = Structural(Level(), Regression(("weight", "power")))
    a, b = series.condition(Y, inputs=table), series.condition(Y, inputs=swapped)
    np.testing.assert_array_equal(a.predict(3, inputs=table[:3]).mean, b.predict(3, inputs=swapped[:3]).mean)


def test_chunks_and_candidates_go_by_name():
    table, swapped = frame("pandas", X, NAMES), frame("pandas", X[:, ::-1], NAMES[::-1])
    whole = Linear().condition(table, Y)
    halves = Linear().condition([(table[:10], Y[:10]), (swapped[10:], Y[10:])])
    np.testing.assert_allclose(halves.predict(X).mean, whole.predict(X).mean, rtol=1e-9)
    gp = GP(RBF([1.0, 50.0]), noise=0.1).condition(table[:5], Y[:5])
    assert list(credo.acquire(gp, swapped, n=3).index) == list(credo.acquire(gp, X, n=3).index)
