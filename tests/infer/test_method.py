"""What every method owes its user: settings refused when it is made, and a warning where its verdict is bad."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

import credo
from credo.errors import DataError, NotConvergedWarning
from credo.infer import (
    EM,
    HMC,
    MALA,
    NUTS,
    SGLD,
    SMC,
    ULA,
    ComponentWise,
    Evidence,
    Gibbs,
    HyperGrid,
    HyperImportance,
    HyperQuadrature,
    Laplace,
    MetropolisHastings,
    ParameterSpace,
    Pathfinder,
    RandomWalk,
    Target,
    Variational,
)
from credo.models.hmm import PathGibbs, VariationalBayes
from credo.models.lds import StateGibbs

MAKERS = {
    **{cls.__name__: cls for cls in (NUTS, HMC, MALA, RandomWalk, ComponentWise, Laplace, Variational, Pathfinder)},
    **{cls.__name__: cls for cls in (SMC, EM, Evidence, HyperGrid, HyperImportance, HyperQuadrature)},
    **{cls.__name__: cls for cls in (PathGibbs, StateGibbs, VariationalBayes)},
    "ULA": lambda **settings: ULA(**({"step_size": 0.1} | settings)),
    "SGLD": lambda **settings: SGLD(**({"step_size": 0.1} | settings)),
    "MetropolisHastings": lambda **settings: MetropolisHastings(lambda key, u: u, **settings),
    "Gibbs": lambda **settings: Gibbs({}, **settings),
}
COUNTS = [
    "chains",
    "draws",
    "thin",
    "members",
    "starts",
    "max_steps",
    "particles",
    "moves",
    "paths",
    "points",
    "passes",
]
COUNTS += ["history", "batch", "rank", "steps", "max_depth", "max_draws"]
NUMBERS = {
    "step_size": (0.0, -1.0, np.nan, np.inf),
    "tolerance": (-1.0, np.nan),
    "spread": (-1.0, np.nan, np.inf),
    "ess": (0.0, 1.0, np.nan),
    "target_acceptance": (0.0, 1.0, np.nan),
    "burn": (-0.1, 1.0),
    "jitter": (1.5, np.nan),
    "negligible": (-1.0, 1.0),
    "width": (0.0, np.nan),
}
TEXTS = {"keep": "all", "metric": "round", "move": "jump", "family": "wide", "direction": "up", "curvature": "some"}


def hostile(make):
    names = set(vars(make()))
    yield from ((name, value) for name in COUNTS if name in names for value in (0, -1, 1.5, "a", np.nan))
    yield from ((name, value) for name in ["warmup"] if name in names for value in (-1, 0.5, "a"))
    yield from ((name, value) for name in NUMBERS if name in names for value in (*NUMBERS[name], "a"))
    yield from ((name, value) for name, value in TEXTS.items() if name in names)


@pytest.mark.parametrize("name", MAKERS)
def test_settings_that_make_no_sense_are_refused_when_the_method_is_made(name):
    for setting, value in hostile(MAKERS[name]):
        # Tests check types at run time, which is earlier still.
        with pytest.raises((DataError, TypeCheckError), match=setting):
            MAKERS[name](**{setting: value})


def bimodal(u):
    return jnp.logaddexp(-0.5 * (u + 20.0) ** 2, -0.5 * (u - 20.0) ** 2)


SHORT = {"chains": 2, "draws": 40, "warmup": 40, "progress": False}


def test_a_bad_verdict_is_a_warning_and_a_good_one_is_not():
    with pytest.warns(NotConvergedWarning, match=r"do not trust .*R-hat .* run them longer"):
        credo.condition(bimodal, 0.0, using=NUTS(chains=4, draws=50, warmup=50, spread=20.0, progress=False))
    x = np.random.default_rng(0).normal(size=(20, 2))
    y = (x[:, 0] > 0).astype(int)
    with pytest.warns(NotConvergedWarning, match="do not trust .* effective draws"):
        credo.Logistic().condition(x, y, using=NUTS(**SHORT))
    with pytest.warns(NotConvergedWarning, match="do not trust these draws of the hyperparameters"):
        credo.fit(credo.Linear(), x, y + 0.1 * x[:, 1], using=RandomWalk(**SHORT))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = credo.condition(lambda u: -0.5 * u**2, 0.0, using=Laplace())
    assert good.verdict == "No sign of trouble."


def test_smc_sees_a_density_without_an_end_and_says_what_it_cannot_see():
    with pytest.warns(NotConvergedWarning, match="still spread: .* may have no end .* raise moves"):
        credo.condition(lambda u: 0.0 * u, 0.0, using=SMC(particles=256))
    found = SMC(particles=256).run(Target(ParameterSpace.of(0.0), lambda u: -0.5 * u**2))
    assert not found.notes
    assert "No sign of trouble. What no particle has reached" in found.verdict
