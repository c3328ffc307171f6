"""Every belief × every method: declared pairs work, all others are refused in words that list what would do.

What a belief takes is derived from its abilities (`Belief.methods`). Learners and solvers are run with every belief
that declares them. Those that serve every belief, and all approximations, take one road into it: each of them is run
with one belief, and one of each with a belief of every family. `docs/methods.md` is written from the same walk: with
CREDO_WRITE=1 in the environment `test_the_page_of_what_works_with_what_is_up_to_date` writes it, without it looks
whether it is up to date.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import credo
from credo.core.method import Method, check_using, methods_of
from credo.errors import DataError, NotConverged, NotConvergedWarning
from credo.infer import (
    EM,
    HMC,
    MALA,
    MAP,
    ML,
    NUTS,
    SGLD,
    SMC,
    ULA,
    BayesianBootstrap,
    ComponentWise,
    Evidence,
    Gibbs,
    Laplace,
    MetropolisHastings,
    Pathfinder,
    PlugIn,
    RandomWalk,
    Variational,
)
from credo.infer.hyper import HyperGrid, HyperImportance, HyperQuadrature
from credo.infer.method import Approximation, RowApproximation
from credo.models.conjugate import EmpiricalBayes
from credo.models.gp import (
    EP,
    SKI,
    Exact,
    Fourier,
    Inducing,
    KernelSearch,
    KFold,
    LeaveOneOut,
    Local,
    Neighbours,
    RandomFeatures,
    Staged,
    StateSpace,
)
from credo.models.gp.terrain import Roughness
from credo.models.hmm import PathGibbs, StepwiseEM, VariationalBayes
from credo.models.lds import StateGibbs, StateVariationalBayes
from credo.models.linear import FixedPoint, FunctionSpace
from credo.models.mixture import HowMany, MixtureGibbs
from credo.models.network import LikelihoodWeighting, NetworkGibbs
from credo.models.neural import BayesByBackprop, DropConnect, Dropout, Ensemble, Further, LastLayer, Stacked, Streamed
from credo.models.nonlinear import Extended, Particles, Unscented
from credo.models.structural import Level

from .test_beliefs import BELIEFS as CONFORMING
from .test_beliefs import Case, Y

# Which methods a mixture takes depends on its density; those of factor analysers are EM and the gradient.
BELIEFS = {name: case for name, case in CONFORMING.items() if name != "Mixture, factor analysers"} | {
    "Structural": lambda: Case(credo.Structural(Level()), (Y,), (3,)),
    "StateSpaceModel": lambda: Case(
        credo.StateSpaceModel(
            lambda z, u: 0.9 * z, lambda z, u: z, [[0.1]], [[0.2]], start_mean=[0.0], start_covariance=[[1.0]]
        ),
        (Y,),
        (3,),
    ),
}

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"
SHORT: dict[str, Any] = {"chains": 1, "draws": 20, "warmup": 20, "members": 4}

SHORT_CHAINS: dict[str, Any] = {"chains": 4, "draws": 100, "warmup": 20}

METHODS: dict[str, Method] = {
    type(method).__name__: method
    for method in (
        Evidence(starts=1, max_steps=5),
        EM(starts=1, max_steps=5),
        HyperGrid(points=3),
        HyperImportance(points=4),
        HyperQuadrature(points=3, passes=1, starts=1),
        Staged(),
        LeaveOneOut(starts=1, max_steps=3),
        KFold(k=2, starts=1, max_steps=3),
        StateSpace(starts=1, max_steps=5),
        Exact(),
        Fourier(1e-2, max_steps=3),
        Inducing(8, rounds=1, max_steps=3),
        Neighbours(5, max_steps=3),
        Local(0.01, max_steps=3),
        RandomFeatures(8, max_steps=3),
        SKI(8, max_steps=3),
        KernelSearch(seconds=0.5, depth=1),
        Roughness(max_steps=3),
        EP(),
        FixedPoint(starts=1),
        VariationalBayes(starts=1, max_steps=5, members=4),
        PathGibbs(**SHORT),
        StepwiseEM(passes=2),
        BayesianBootstrap(members=3, starts=1, max_steps=5),
        MixtureGibbs(**SHORT),
        HowMany(most=2, starts=1, folds=2),
        StateGibbs(**SHORT),
        StateVariationalBayes(starts=1, max_steps=5, members=4),
        ML(),
        MAP(),
        PlugIn(),
        FunctionSpace(),
        EmpiricalBayes(),
        Extended(),
        Unscented(),
        Particles(50),
        LikelihoodWeighting(1000),
        NetworkGibbs(**SHORT_CHAINS),
        Stacked(folds=2, decays=(1.0,)),
        Ensemble(2),
        Dropout(members=4),
        BayesByBackprop(members=4),
        DropConnect(members=4),
        LastLayer(),
        Further(20),
        Streamed(members=2, passes=1),
        Laplace(),
        Variational(max_draws=256),
        Pathfinder(),
        SMC(particles=64),
        NUTS(**SHORT),
        HMC(**SHORT),
        MALA(**SHORT),
        ULA(0.01, **SHORT),
        RandomWalk(**SHORT),
        ComponentWise(**SHORT),
        MetropolisHastings(lambda key, u: u, **SHORT),
        Gibbs({}, **SHORT),
        SGLD(1e-4, batch=8, passes=4),
    )
}
VERBS = ("condition", "fit")
GENERAL = ("Evidence", "HyperGrid", "Laplace")
"""Of the methods that serve every belief those that each family is run with."""
FAMILIES = (
    "Linear",
    "Averaged",
    "BetaBernoulli",
    "GammaPoisson",
    "Logistic",
    "GP",
    "HMM",
    "Mixture",
    "Structural",
)
HOST = {"condition": "Logistic", "fit": "BetaBernoulli"}
"""The belief that every approximation is run with."""
ASKS_FOR_MORE = {
    "Gibbs": "conditional",
    "HyperGrid": "hyperparameters",
    "HyperQuadrature": "hyperparameters",
    "StateSpace": "StateSpace",
    "KernelSearch": "a constant mean and one noise variance",
    "Fourier": "use Neighbours",
    "RandomFeatures": "stationary",
    "SKI": "use Neighbours",
    "Laplace": "the data do not determine them",
    "PlugIn": "units may be swapped",
    "HowMany": "how many components",
    "Further": "no networks to go on with",
    "Streamed": "takes one iterable",
}
"""Methods whose settings, or whose reach, may not suit a belief that they serve, and what they then speak of."""


def run(verb: str, case: Any, method: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        if verb == "condition":
            return case.belief.condition(*case.data, using=method, **case.options)
        return credo.fit(case.belief, *case.data, using=method, **case.options)


def attempt(verb: str, case: Any, method: str) -> Any:
    """What came of it: a belief, or what was refused."""
    try:
        return run(verb, case, METHODS[method])
    except (DataError, NotConverged) as error:
        return error


def declared(belief: Any, verb: str) -> set[str]:
    return {cls.__name__ for cls in methods_of(belief, verb)}


def chosen(name: str, verb: str) -> list[str]:
    """The declared methods that a belief is run with."""
    belief = BELIEFS[name]().belief
    out = []
    for method in sorted(declared(belief, verb) & set(METHODS)):
        each = METHODS[method]
        general = isinstance(each, Approximation | RowApproximation) or getattr(each, "needs", None) is credo.Belief
        if not general or name == HOST[verb] or (method in GENERAL and name in FAMILIES and verb == "fit"):
            out.append(method)
    return out


def test_every_public_method_is_in_the_walk():
    everywhere = {m for name in BELIEFS for verb in VERBS for m in declared(BELIEFS[name]().belief, verb)}
    internal = {
        "WarpThenKernel",
        "PerOutput",
        "StructuralEvidence",
        "LaplaceEvidence",
        "LatentEvidence",
        "AroundOne",
        "NormalFirst",
        "ClassesEvidence",
        "SystemEM",
        "InOutputUnits",
        "Jitter",
        "NeighboursOrInducing",
    }
    assert everywhere - internal <= set(METHODS)


@pytest.mark.parametrize("name", BELIEFS)
def test_what_is_not_declared_is_refused_in_words(name):
    case = BELIEFS[name]()
    for verb in VERBS:
        for method in set(METHODS) - declared(case.belief, verb):
            with pytest.raises(
                DataError, match=f"{verb} cannot use {method} for .*: .*(leave using= out|takes using=)"
            ):
                run(verb, case, METHODS[method])


@pytest.mark.parametrize("wrong", ["NUTS", NUTS, 3, (), object()], ids=["text", "class", "number", "tuple", "object"])
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_method_is_refused_in_words(verb, wrong):
    for name in ("Linear", "GP", "HMM", "BetaBernoulli"):
        with pytest.raises(DataError, match="using must be a method, found"):
            run(verb, BELIEFS[name](), wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", BELIEFS)
def test_what_is_declared_works(name):
    case = BELIEFS[name]()
    for verb in VERBS:
        for method in chosen(name, verb):
            after = attempt(verb, case, method)
            if isinstance(after, Exception):
                assert ASKS_FOR_MORE.get(method, "nothing") in str(after), (verb, method, after)
            else:
                assert isinstance(after, credo.Belief), (verb, method)
                mean = np.asarray(after.predict(*case.query, **case.asked).mean)
                assert np.all(np.isfinite(mean)), (verb, method)


def test_a_method_is_hashable_equal_by_value_and_never_falsy():
    for method in METHODS.values():
        assert method, type(method)
        assert method == type(method)(**vars(method)) if not isinstance(method, Gibbs) else True
        if not isinstance(method, Gibbs | HyperGrid):
            hash(method)


def test_the_silent_cases_of_before(rng):
    x = rng.normal(size=(20, 2))
    y = x @ [1.0, -1.0] + 0.1 * rng.normal(size=20)
    ml = credo.fit(credo.Linear(), x, y, using=ML())
    np.testing.assert_allclose(ml.predict(x).epistemic, 0.0)
    least, *_ = np.linalg.lstsq(np.column_stack([np.ones(20), x]), y, rcond=None)
    np.testing.assert_allclose(ml.predict(x).mean, np.column_stack([np.ones(20), x]) @ least, rtol=1e-9)
    for method in (MAP(), PlugIn()):  # a point, not an average over hyperparameters that few rows ask for
        np.testing.assert_allclose(credo.fit(credo.Linear(), x, y, using=method).predict(x).epistemic, 0.0)
    with pytest.raises(DataError, match="a log density is conditioned using=Laplace"):
        credo.condition(lambda u: -(u**2), 0.0, using=Extended())
    assert check_using(NUTS(), credo.GP(), "fit") == NUTS()


# -- the page ------------------------------------------------------------------------------------------------------


def page() -> str:
    """What works with what, as a page of the documentation."""
    approximations = {name for name, method in METHODS.items() if isinstance(method, Approximation)}
    lines = [
        "# What works with what",
        "",
        "`condition(…, using=method)` and `fit(…, using=method)` take what a belief's abilities allow; anything else",
        "is refused in a sentence that lists what would do. This table is written by the test that tries every pair",
        "(`tests/suites/test_methods.py`). From Python: `belief.methods`.",
        "",
        f"*Any approximation* is one of {', '.join(f'`{name}`' for name in sorted(approximations))}. In `condition` it",
        "approximates the posterior of the parameters; in `fit` that of the hyperparameters, and the belief is",
        "averaged over its draws.",
        "",
    ]
    for verb in VERBS:
        lines += [f"## `{verb}`", "", "| belief | using |", "| --- | --- |"]
        groups: dict[str, list[str]] = {}
        for name in BELIEFS:
            names = declared(BELIEFS[name]().belief, verb) & set(METHODS)
            listed = ["any approximation"] if names >= approximations else []
            listed += [f"`{n}`" for n in sorted(names - approximations if listed else names)]
            groups.setdefault(", ".join(listed) or "(closed form only)", []).append(name)
        lines += [f"| {'; '.join(beliefs)} | {methods} |" for methods, beliefs in groups.items()]
        lines.append("")
    return "\n".join(lines)


def test_the_page_of_what_works_with_what_is_up_to_date():
    if os.environ.get("CREDO_WRITE") == "1":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
