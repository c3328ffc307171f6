"""What people pass: numbers of every kind are the same numbers, and what is no number is refused in a sentence."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import credo
from credo.kernels import RBF
from credo.models.gp import GP, RobustGP
from credo.models.linear import Linear, StudentTNoise
from credo.models.structural import Level

RNG = np.random.default_rng(11)
X = RNG.integers(-4, 5, size=(16, 2)).astype(float)
Y = np.round(X @ [2.0, -1.0] + RNG.normal(size=16))
QUERIES = X[:3] + 1
COUNTS, CLASSES = np.arange(16) % 4.0, (np.median(Y) < Y).astype(float)

CASES: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "Linear": (Linear(), (X, Y), (QUERIES,)),
    "Logistic": (credo.Logistic(), (X, CLASSES), (QUERIES,)),
    "Softmax": (credo.Softmax(), (X, COUNTS % 3), (QUERIES,)),
    "PoissonRegression": (credo.PoissonRegression(), (X, COUNTS), (QUERIES,)),
    "OrdinalRegression": (credo.OrdinalRegression(), (X, COUNTS % 3), (QUERIES,)),
    "StudentTRegression": (credo.StudentTRegression(), (X, Y), (QUERIES,)),
    "GP": (GP(RBF(2.0), noise=0.5), (X, Y), (QUERIES,)),
    "RobustGP": (RobustGP(RBF(2.0), noise=StudentTNoise(4.0, 0.5)), (X, Y), (QUERIES,)),
    "BetaBernoulli": (credo.BetaBernoulli(1.0, 1.0), (CLASSES,), ()),
    "GammaPoisson": (credo.GammaPoisson(1.0, 1.0), (COUNTS,), ()),
    "NormalInverseGamma": (credo.NormalInverseGamma(0.0, 1.0, 2.0, 1.0), (Y,), ()),
    "NormalInverseWishart": (credo.NormalInverseWishart(np.zeros(2), 1.0, 4.0, np.eye(2)), (X,), ()),
    "DirichletCategorical": (credo.DirichletCategorical([1.0, 1.0, 1.0, 1.0]), (COUNTS,), ()),
    "LDS": (credo.LDS([[0.9]], [[0.3]], [[1.0]], [[0.3]], [0.0], [[9.0]]), (Y,), (2,)),
    "Structural": (Level(), (Y,), (2,)),
}

KINDS = {
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(map(tuple, a.tolist())) if a.ndim == 2 else tuple(a.tolist()),
    "int": lambda a: a.astype(np.int64),
    "int8": lambda a: a.astype(np.int8),
    "float32": lambda a: a.astype(np.float32),
    "object": lambda a: a.astype(object),
    "fortran": np.asfortranarray,
    "pandas": lambda a: pd.DataFrame(a, columns=["a", "b"]) if a.ndim == 2 else pd.Series(a),
    "nullable": lambda a: pd.DataFrame(a).astype("Int64") if a.ndim == 2 else pd.Series(a).astype("Int64"),
    "polars": lambda a: pl.DataFrame(a, schema=["a", "b"]) if a.ndim == 2 else pl.Series(a),
    "bool": lambda a: a.astype(bool) if set(np.unique(a)) <= {0.0, 1.0} else a,
}


def said(belief: Any, data: tuple[Any, ...], query: tuple[Any, ...]) -> np.ndarray:
    prediction = belief.condition(*data).predict(*query)
    return np.concatenate([np.ravel(prediction.mean), np.ravel(prediction.std)])


@pytest.mark.filterwarnings("ignore::credo.errors.NotConvergedWarning")
@pytest.mark.parametrize("case", CASES)
def test_numbers_of_every_kind_are_the_same_numbers(case):
    belief, data, query = CASES[case]
    wanted = said(belief, data, query)
    for kind, converted in KINDS.items():
        given = tuple(converted(each) for each in data)
        asked = tuple(converted(each) if isinstance(each, np.ndarray) else each for each in query)
        np.testing.assert_allclose(said(belief, given, asked), wanted, rtol=1e-7, atol=1e-9, err_msg=kind)


HOSTILE = """
import warnings

import numpy as np

import credo
from credo import evaluate
from credo.errors import CredoError
from credo.kernels import RBF
from credo.models.linear import ARD, Isotropic, StudentTNoise
from credo.models.structural import Level

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(12, 2))
y = X[:, 0] + 0.1 * rng.normal(size=12)
counts = np.arange(12) % 3
p = credo.Linear().condition(X, y).predict(X)
given = {
    "prior": lambda b: credo.Linear(prior=b).condition(X, y),
    "noise": lambda b: credo.Linear(noise=b).condition(X, y).predict(X).std,
    "features": lambda b: credo.Linear(b).condition(X, y),
    "intercept": lambda b: credo.Linear(intercept=b).condition(X, y),
    "logistic prior": lambda b: credo.Logistic(prior=b).condition(X, y > 0),
    "kernel": lambda b: credo.GP(b).condition(X, y),
    "gp noise": lambda b: credo.GP(noise=b).condition(X, y),
    "lengthscale": lambda b: credo.GP(RBF(b)).condition(X, y).predict(X).mean,
    "precision": lambda b: credo.Linear(prior=Isotropic(b)).condition(X, y).predict(X).mean,
    "precisions": lambda b: credo.Linear(prior=ARD(b)).condition(X, y).predict(X).mean,
    "degrees": lambda b: credo.Linear(noise=StudentTNoise(b)).condition(X, y).predict(X).mean,
    "weights": lambda b: credo.Linear().condition(X, y, weights=b),
    "row noise": lambda b: credo.GP().condition(X, y, noise=b),
    "exposure": lambda b: credo.PoissonRegression().condition(X, counts, exposure=b),
    "fit priors": lambda b: credo.fit(credo.GP(), X, y, priors=b),
    "fit fixed": lambda b: credo.fit(credo.GP(), X, y, fixed=b),
    "fit using": lambda b: credo.fit(credo.GP(), X, y, using=b),
}
required = {
    "a": lambda b: credo.BetaBernoulli(b, 1.0),
    "shape": lambda b: credo.GammaPoisson(b, 1.0),
    "mean": lambda b: credo.NormalKnownVariance(b, 1.0, 1.0),
    "inverse gamma": lambda b: credo.NormalInverseGamma(b, 1.0, 1.0, 1.0),
    "alpha": lambda b: credo.DirichletCategorical(b),
    "y": lambda b: credo.Linear().condition(X, b),
    "X": lambda b: credo.Linear().condition(b, y),
    "gp y": lambda b: credo.GP().condition(X, b),
    "gp X": lambda b: credo.GP().condition(b, y),
    "logistic y": lambda b: credo.Logistic().condition(X, b),
    "poisson y": lambda b: credo.PoissonRegression().condition(X, b),
    "hmm x": lambda b: credo.fit(credo.HMM(2), b),
    "lds x": lambda b: credo.fit(credo.LDS.with_states(1), b),
    "series": lambda b: credo.fit(Level(), b),
    "sequences": lambda b: credo.MarkovSequence(2, 1).condition(b),
    "queries": lambda b: credo.Linear().condition(X, y).predict(b),
    "gp queries": lambda b: credo.GP(noise=0.1).condition(X, y).predict(b),
    "level": lambda b: p.interval(b),
    "q": lambda b: p.quantile(b),
    "outcome": lambda b: p.log_prob(b),
    "n": lambda b: p.sample(b),
    "nlpd": lambda b: evaluate.nlpd(p, b),
    "pit": lambda b: evaluate.pit(p, b),
    "coverage": lambda b: evaluate.coverage(p, y, level=b),
    "loss": lambda b: credo.decide(p, b),
    "under": lambda b: credo.losses.Asymmetric(under=b, over=1),
    "beliefs": lambda b: credo.compare(b, X, y),
    "k": lambda b: evaluate.cross_validate(credo.Linear(), X, y, b),
    "test": lambda b: evaluate.select({"a": credo.Linear()}, X, y, test=b),
}
refused = 0
for name, ask in (required | given).items():
    for wrong in (None, "text", [[1, 2], [3]], ["a", "b"], b"1"):
        if wrong is None and name in given:
            continue
        try:
            ask(wrong)
        except CredoError as error:
            assert len(str(error)) > 20, (name, wrong, error)
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name} = {wrong!r}: {type(error).__name__}: {error}") from error
        else:
            raise AssertionError(f"{name} = {wrong!r} was taken")
print(refused)
"""


def test_what_is_no_number_is_refused_in_a_sentence():
    """In a process of its own, as users run it: the run-time type checks of the tests would speak first."""
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == 213
