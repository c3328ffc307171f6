"""What no belief may do: answer another question when the same question is put in other words.

A metamorphic suite needs no oracle. The data are changed in a way of which the change of the answer is known (other
units, another zero, rows or columns in another order, classes under other names, another container), and the answer
must change just so: means by at most 1e-5 of a standard deviation, standard deviations by at most 1e-5 of themselves.
Or the question is refused, or a warning says what is wrong; silence is no answer. A new belief is added to a table.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

import credo
from credo.errors import CredoError
from credo.kernels import RBF, Matern52
from credo.models.features import Polynomial
from credo.models.gp import (
    GP,
    SKI,
    SKIGP,
    HeteroscedasticGP,
    Independent,
    Inducing,
    InducingGP,
    MultiGP,
    Neighbours,
    NeighboursGP,
    RobustGP,
    WarpedGP,
)
from credo.models.likelihoods import Categorical, Poisson
from credo.models.linear import ARD, Covariance, InverseGamma, LaplaceNoise, Linear, StudentTNoise
from credo.models.structural import AR, Level, Seasonal, Trend

RNG = np.random.default_rng(11)
N = 16
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -0.5] + 0.5 * np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=N)
QUERIES = RNG.normal(size=(4, 2))
NAMES = ["speed", "weight"]
SERIES = np.cumsum(0.3 * RNG.normal(size=24)) + np.tile([0.0, 1.0, 0.5, -1.5], 6) + 0.2 * RNG.normal(size=24)
RTOL = 1e-5


class Silent(AssertionError):
    """Another answer, without a word."""


class Answer(NamedTuple):
    """The moments of a prediction."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, prediction: credo.Predictive) -> "Answer":
        return cls(np.asarray(prediction.mean, float), np.asarray(prediction.std, float))


def ask(solve: Callable[[], Any]) -> tuple[Any, str]:
    """The answer, or None where it was refused; and what was said beside it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return solve(), "; ".join(str(w.message) for w in caught)
        except CredoError as error:
            return None, str(error)


def compare(wanted: Answer, found: tuple[Any, str], rtol: float = RTOL) -> None:
    """The same answer, or a word."""
    answer, said = found
    if said:
        return
    with np.errstate(all="ignore"):
        off = np.abs(answer.mean - wanted.mean) / wanted.std
        wide = np.abs(answer.std / wanted.std - 1)
    if not (np.all(off < rtol) and np.all(wide < rtol)):
        raise Silent(f"means off by {np.max(off):.2g} standard deviations, standard deviations by {np.max(wide):.2g}")


def fitted(belief: Any, x: Any, y: Any, queries: Any, **options: Any) -> Any:
    return credo.fit(belief, x, y, **options).predict(queries)


# -- numbers -----------------------------------------------------------------------------------------------------------

REGRESSIONS: dict[str, Callable[[], Any]] = {
    "Linear": Linear,
    "Linear, ARD": lambda: Linear(prior=ARD()),
    "Linear, squares": lambda: Linear(Polynomial(2)),
    "Linear, unknown noise": lambda: Linear(noise=InverseGamma()),
    "Linear, Student-t": lambda: Linear(noise=StudentTNoise()),
    "Linear, Laplace": lambda: Linear(noise=LaplaceNoise()),
    "GP": GP,
    "GP, Matern, relevance": lambda: GP(Matern52(ard=True)),
    "WarpedGP": WarpedGP,
    "RobustGP": RobustGP,
    "HeteroscedasticGP": HeteroscedasticGP,
    "MultiGP": lambda: MultiGP(RBF(), outputs=2),
    "Independent": lambda: Independent([GP(), GP()]),
    "NeighboursGP": lambda: NeighboursGP(GP(), Neighbours(20)),
    "InducingGP": lambda: InducingGP(GP(), Inducing(20)),
    "SKIGP": lambda: SKIGP(GP(), SKI(10)),
    "StudentTRegression": credo.StudentTRegression,
    "KernelNeighbours": lambda: credo.KernelNeighbours(outcomes="numbers"),
    "KernelRegression": credo.KernelRegression,
    "Experts": lambda: credo.Experts(1),
    "Neural": lambda: credo.Neural((2,), steps=20, batch=8),
}
DEAR = {
    "NeighboursGP",
    "InducingGP",
    "SKIGP",
    "HeteroscedasticGP",
    "RobustGP",
    "Linear, Laplace",
    "Linear, Student-t",
    "WarpedGP",
    "MultiGP",
}
POLYNOMIAL = {"Linear, squares"}
"""Squares of shifted inputs are other features: the belief is another one, and says nothing wrong."""
SEVERAL = {"MultiGP", "Independent"}
DRAWN = {"Experts": 0.05}
"""Ignorance by draws of the parameters, which are other ones where these stand in another order."""


def each(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow if name in DEAR else ()) for name in table]


def outcomes(name: str, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.column_stack([y, y[::-1]]) if name in SEVERAL else y


@cache
def plain(name: str) -> Answer:
    """The answer to the question as it is; asked once."""
    answer, _ = ask(lambda: Answer.of(fitted(REGRESSIONS[name](), X, outcomes(name, Y, X), QUERIES)))
    assert answer is not None
    return answer


UNITS = [(1e-12, 0.0), (1e-3, 0.0), (1e12, 0.0), (-1.0, 0.0), (1.0, 1e3), (1.0, 1e8), (1e-6, -1e4)]


@pytest.mark.parametrize("name", each(REGRESSIONS))
@pytest.mark.parametrize(("a", "b"), UNITS, ids=[f"{a:g}y{b:+g}" for a, b in UNITS])
def test_outcomes_in_other_units(name, a, b):
    """y → a (y + b sd)."""
    if name == "WarpedGP" and a < 0:
        pytest.skip("a warp of an upward kind is another one downward")
    shift = a * b * Y.std()
    wanted = plain(name)
    found = ask(
        lambda: Answer.of(fitted(REGRESSIONS[name](), X, outcomes(name, a * Y + shift, X), QUERIES)),
    )
    if found[0] is not None:
        found = Answer((found[0].mean - shift) / a, found[0].std / abs(a)), found[1]
    compare(wanted, found)


INPUTS = [((1e-6, 1e6), (0, 0)), ((1, 1), (37, -1e3)), ((1, 1), (1e8, -1e7)), ((-1e9, 1e-9), (1e10, 0))]


@pytest.mark.parametrize("name", each(REGRESSIONS))
@pytest.mark.parametrize(("a", "b"), INPUTS, ids=["scaled", "shifted", "far", "scaled and shifted"])
def test_inputs_in_other_units(name, a, b):
    """Columns x → a x + b, of data and queries alike."""
    if name in POLYNOMIAL:
        pytest.skip("squares of shifted inputs are other features")
    wanted = plain(name)
    # What rounding leaves of the inputs is what both see.
    x, queries = ((v * a + b - np.asarray(b)) / a for v in (X, QUERIES))
    if not np.allclose(x, X, rtol=1e-12, atol=0):
        wanted, _ = ask(lambda: Answer.of(fitted(REGRESSIONS[name](), x, outcomes(name, Y, X), queries)))
    found = ask(lambda: Answer.of(fitted(REGRESSIONS[name](), X * a + b, outcomes(name, Y, X), QUERIES * a + b)))
    compare(wanted, found, DRAWN.get(name, RTOL))


@pytest.mark.parametrize("name", each(REGRESSIONS))
def test_rows_in_another_order(name):
    order = RNG.permutation(N)
    y = outcomes(name, Y, X)
    compare(plain(name), ask(lambda: Answer.of(fitted(REGRESSIONS[name](), X[order], y[order], QUERIES))))


@pytest.mark.parametrize("name", each(REGRESSIONS))
def test_columns_in_another_order_with_their_names(name):
    frame, queries = pd.DataFrame(X, columns=NAMES), pd.DataFrame(QUERIES, columns=NAMES)
    y = outcomes(name, Y, X)
    belief = credo.fit(REGRESSIONS[name](), frame, y)
    compare(plain(name), (Answer.of(belief.predict(queries)), ""))
    compare(plain(name), ask(lambda: Answer.of(belief.predict(queries[NAMES[::-1]]))))
    turned = ask(lambda: Answer.of(fitted(REGRESSIONS[name](), frame[NAMES[::-1]], y, queries)))
    compare(plain(name), turned, DRAWN.get(name, RTOL))
    found, said = ask(lambda: belief.predict(queries.rename(columns={"speed": "mass"})))
    assert found is None and "mass" in said and "speed" in said


CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "list": lambda v: v.tolist(),
    "float32": lambda v: v.astype(np.float32),
    "integers": lambda v: v.astype(np.int64),
    "pandas": lambda v: pd.DataFrame(v) if v.ndim == 2 else pd.Series(v),
    "polars": lambda v: pl.DataFrame(v) if v.ndim == 2 else pl.Series(v),
    "Fortran": np.asfortranarray,
}


@pytest.mark.parametrize("name", ["Linear", "GP", "StudentTRegression"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_other_containers(name, container):
    """Whole numbers, which each container holds exactly."""
    x, y, queries = (np.round(8 * v) for v in (X, Y, QUERIES))
    wanted, _ = ask(lambda: Answer.of(fitted(REGRESSIONS[name](), x, y, queries)))
    made = CONTAINERS[container]
    compare(wanted, ask(lambda: Answer.of(fitted(REGRESSIONS[name](), made(x), made(y), made(queries)))))


@pytest.mark.parametrize("name", each(REGRESSIONS))
def test_a_row_asked_alone_and_among_others(name):
    belief = credo.fit(REGRESSIONS[name](), X, outcomes(name, Y, X))
    together, alone = (Answer.of(belief.predict(q)) for q in (np.vstack([X, QUERIES]), X[3:4]))
    compare(Answer(together.mean[3:4], together.std[3:4]), (alone, ""))


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), *UNITS], ids=["rows", *(f"{a:g}y{b:+g}" for a, b in UNITS)])
def test_noise_that_rows_share_in_other_units_and_orders(a, b):
    """y → a (y + b sd) with S → a²S, the rows and columns of S in the rows' order."""
    shared = 0.04 * np.exp(-np.abs(np.subtract.outer(np.arange(N), np.arange(N)))) + 0.01 * np.eye(N)
    order, shift = (np.arange(N)[::-1] if a == 1 and b == 0 else np.arange(N)), a * b * Y.std()

    def answer(y: np.ndarray, s: np.ndarray, rows: np.ndarray) -> Answer:
        noise = Covariance(s[np.ix_(rows, rows)])
        return Answer.of(fitted(Linear(noise=noise), X[rows], y[rows], QUERIES))

    wanted = answer(Y, shared, np.arange(N))
    found, said = ask(lambda: answer(a * Y + shift, a**2 * shared, order))
    compare(wanted, (found and Answer((found.mean - shift) / a, found.std / abs(a)), said))


@pytest.mark.parametrize("belief", [Linear(noise=0.1), Linear(noise=0.1, prior=ARD([1.0, 2.0]))], ids=["plain", "ARD"])
def test_a_row_twice_is_a_row_of_weight_two(belief):
    """The noise of a row of weight w is noise/w; twice the same outcome has the same likelihood but for a constant."""
    weights = np.ones(N)
    weights[:3] = 2.0
    twice = belief.condition(np.vstack([X, X[:3]]), np.concatenate([Y, Y[:3]])).predict(QUERIES)
    compare(Answer.of(twice), ask(lambda: Answer.of(belief.condition(X, Y, weights=weights).predict(QUERIES))))


# -- classes and counts -----------------------------------------------------------------------------------------------

TWO = np.where(Y + 0.4 * RNG.normal(size=N) > 0, "yes", "no")
THREE = np.array(["low", "mid", "top"])[np.digitize(Y + 0.4 * RNG.normal(size=N), [-0.5, 0.6])]
COUNTS = RNG.poisson(np.exp(1.0 + 0.5 * X[:, 0]))

LABELLED: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "Logistic": (credo.Logistic, TWO),
    "Probit": (credo.Probit, TWO),
    "Softmax": (credo.Softmax, THREE),
    "OrdinalRegression": (lambda: credo.OrdinalRegression(classes=("low", "mid", "top")), THREE),
    "NaiveBayes": (credo.NaiveBayes, THREE),
    "Discriminant, full": (lambda: credo.Discriminant("full"), THREE),
    "Discriminant, tied": (lambda: credo.Discriminant("tied"), TWO),
    "Discriminant, between": (credo.Discriminant, THREE),
    "LatentGP": (credo.LatentGP, TWO),
    "LatentGP, counts": (lambda: credo.LatentGP(Poisson()), COUNTS),
    "KernelNeighbours": (credo.KernelNeighbours, THREE),
    "LatentGP, classes": (lambda: credo.LatentGP(Categorical()), THREE),
    "PoissonRegression": (credo.PoissonRegression, COUNTS),
    "NegativeBinomialRegression": (credo.NegativeBinomialRegression, COUNTS),
    "Neural, classes": (lambda: credo.Neural((2,), "classes", steps=20, batch=8), THREE),
    "Neural, counts": (lambda: credo.Neural((2,), "counts", steps=20, batch=8), COUNTS),
}


def probabilities(prediction: Any) -> Answer:
    """Class probabilities as numbers of the size of their own doubt; counts by their moments."""
    probs = getattr(prediction, "probs", None)
    if probs is None:
        return Answer.of(prediction)
    return Answer(np.asarray(probs, float), np.ones_like(np.asarray(probs, float)))


@cache
def labelled(name: str) -> tuple[Any, np.ndarray, Answer]:
    """The belief, its outcomes, and the answer to the question as it is; asked once."""
    belief, y = LABELLED[name]
    answer, _ = ask(lambda: probabilities(fitted(belief(), X, y, QUERIES)))
    assert answer is not None
    return belief, y, answer


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize(("a", "b"), INPUTS, ids=["scaled", "shifted", "far", "scaled and shifted"])
def test_classes_and_counts_of_inputs_in_other_units(name, a, b):
    belief, y, wanted = labelled(name)
    compare(wanted, ask(lambda: probabilities(fitted(belief(), X * a + b, y, QUERIES * a + b))))


@pytest.mark.parametrize("name", LABELLED)
def test_classes_and_counts_of_rows_and_columns_in_another_order(name):
    belief, y, wanted = labelled(name)
    order = RNG.permutation(N)
    compare(wanted, ask(lambda: probabilities(fitted(belief(), X[order], y[order], QUERIES))))
    compare(wanted, ask(lambda: probabilities(fitted(belief(), X[:, ::-1], y, QUERIES[:, ::-1]))))


RELABELLED = (
    *("Logistic", "Probit", "Softmax", "NaiveBayes", "Discriminant, between"),
    *("LatentGP", "LatentGP, classes", "KernelNeighbours"),
)


@pytest.mark.parametrize("name", RELABELLED)
def test_classes_under_other_names(name):
    """Names in the opposite order of the alphabet: the same probabilities of the same rows."""
    belief, y, wanted = labelled(name)
    other = {level: f"{9 - i} {level}" for i, level in enumerate(sorted(set(y)))}
    renamed = np.array([other[v] for v in y])
    found, said = ask(lambda: probabilities(fitted(belief(), X, renamed, QUERIES)))
    flipped = found if found is None else Answer(found.mean[..., ::-1], found.std) if found.mean.ndim == 2 else found
    compare(wanted if wanted.mean.ndim == 2 else Answer(1 - wanted.mean, wanted.std), (flipped, said))


# -- rows as a whole ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [UNITS[0], UNITS[3], UNITS[4]], ids=["tiny", "mirrored", "shifted"])
def test_mixtures_in_other_units_and_orders(a, b):
    """EM ends near the maximum, not at it: its last step may be another one in other units."""
    table, shift = np.column_stack([X, Y]), a * b * Y.std()

    def petals(y: np.ndarray, order: np.ndarray) -> Answer:
        asked = np.column_stack([QUERIES, np.full(4, np.nan)])
        return Answer.of(credo.fit(credo.Mixture(2), np.column_stack([X, y])[order]).predict(asked))

    wanted, _ = ask(lambda: petals(table[:, 2], np.arange(N)))
    found, said = ask(lambda: petals(a * table[:, 2] + shift, np.arange(N)))
    compare(wanted, (found and Answer((found.mean - shift) / a, found.std / abs(a)), said), 1e-3)


# -- series -----------------------------------------------------------------------------------------------

SERIES_BELIEFS: dict[str, Callable[[], Any]] = {
    "Level": lambda: credo.Structural(Level()),
    "Trend": lambda: credo.Structural(Trend()),
    "Level and season": lambda: credo.Structural(Level(), Seasonal(4)),
    "AR": lambda: credo.Structural(Level(), AR(1)),
    "LDS": lambda: credo.LDS.with_states(1),
    "HMM": lambda: credo.HMM(2),
}


@cache
def forecast(name: str) -> tuple[Any, str]:
    """Of the series as it is; asked once."""
    return ask(lambda: Answer.of(credo.fit(SERIES_BELIEFS[name](), SERIES).predict(3)))


@pytest.mark.parametrize("name", SERIES_BELIEFS)
@pytest.mark.parametrize(("a", "b"), UNITS, ids=[f"{a:g}y{b:+g}" for a, b in UNITS])
def test_series_in_other_units(name, a, b):
    shift = a * b * SERIES.std()

    wanted, said = forecast(name)
    found = ask(lambda: Answer.of(credo.fit(SERIES_BELIEFS[name](), a * SERIES + shift).predict(3)))
    if said or found[0] is None:
        return
    # EM ends near the maximum, not at it: its last step may be another one in other units.
    rtol = 1e-3 if name == "HMM" else RTOL
    compare(wanted, (Answer((found[0].mean - shift) / a, found[0].std / abs(a)), found[1]), rtol)


# -- rows without outcomes -----------------------------------------------------------------------------------------

TABLE = RNG.normal(size=(60, 2)) @ RNG.normal(size=(2, 6)) + 0.8 * RNG.normal(size=(60, 6))
TABLE_QUERIES = np.where(RNG.random((4, 6)) < 0.4, np.nan, RNG.normal(size=(4, 6)))
FACTORS: dict[str, Callable[[], Any]] = {
    "FactorAnalysis": lambda: credo.FactorAnalysis(2),
    "PPCA": lambda: credo.PPCA(2),
}
COLUMN_UNITS = [(1e-6, 0.0), (1e6, 1e3), (-1.0, 1e8), (np.logspace(-5, 5, 6), np.linspace(-1e3, 1e3, 6))]


def filled(name: str, x: Any, queries: Any) -> Answer:
    """What is expected of the next row, and of what rows do not show."""
    belief = credo.fit(FACTORS[name](), x)
    gaps, following = belief.predict(queries), belief.predict()
    shown = np.asarray(gaps.std) == 0
    std = np.where(shown, np.asarray(following.std), gaps.std)  # what was seen is exact: in units of the column
    return Answer(np.vstack([gaps.mean, following.mean]), np.vstack([std, following.std]))


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize(("a", "b"), COLUMN_UNITS, ids=["small", "large", "far", "each its own"])
def test_tables_in_other_units(name, a, b):
    """Columns x → a x + b, one unit for all in PPCA."""
    if name == "PPCA" and np.ndim(a):
        pytest.skip("columns of PPCA must be in comparable units")
    wanted = filled(name, TABLE, TABLE_QUERIES)
    found, said = ask(lambda: filled(name, TABLE * a + b, TABLE_QUERIES * a + b))
    if found is not None:
        found = Answer((found.mean - b) / a, found.std / np.abs(a))
    compare(wanted, (found, said), 1e-4)  # a climb ends near the maximum, not at it


@pytest.mark.parametrize("name", FACTORS)
def test_tables_in_another_order_and_container(name):
    wanted = filled(name, TABLE, TABLE_QUERIES)
    order, columns = RNG.permutation(60), [3, 1, 0, 4, 5, 2]
    compare(wanted, ask(lambda: filled(name, TABLE[order], TABLE_QUERIES)), 1e-4)
    back = np.argsort(columns)
    found = filled(name, TABLE[:, columns], TABLE_QUERIES[:, columns])
    compare(wanted, (Answer(found.mean[:, back], found.std[:, back]), ""), 1e-4)
    names = list("abcdef")
    frame, queries = (pd.DataFrame(v, columns=names) for v in (TABLE, TABLE_QUERIES))
    compare(wanted, ask(lambda: filled(name, frame, queries[names[::-1]])), 1e-4)
    compare(wanted, ask(lambda: filled(name, TABLE.tolist(), TABLE_QUERIES.tolist())), 1e-4)
    compare(wanted, ask(lambda: filled(name, pl.DataFrame(TABLE), TABLE_QUERIES)), 1e-4)


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [dict, pd.DataFrame, lambda rows: pl.DataFrame(rows, strict=False)])
def test_a_network_with_variables_parents_and_states_in_another_order_answers_the_same(container):
    table = RNG.dirichlet(np.ones(3), size=(2, 3))
    first = credo.Network(
        {
            "a": {"no": 0.3, "yes": 0.7},
            "b": {"u": 0.2, "v": 0.5, "w": 0.3},
            "c": credo.models.network.Table(["r", "s", "t"], ["a", "b"], table),
        }
    )
    second = credo.Network(
        {
            "c": credo.models.network.Table(["t", "s", "r"], ["b", "a"], table.transpose(1, 0, 2)[::-1, ::-1, ::-1]),
            "b": {"w": 0.3, "v": 0.5, "u": 0.2},
            "a": {"yes": 0.7, "no": 0.3},
        }
    )
    rows = container({"c": ["r", "s", None, "t"], "b": ["u", None, "v", "w"]})
    one, other = first.predict("a", rows), second.predict("a", rows)
    np.testing.assert_allclose(one["yes"], other["yes"], rtol=1e-12)
    assert first.condition({"c": "t"}).explain() == second.condition({"c": "t"}).explain()
