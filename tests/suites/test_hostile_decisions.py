"""What nobody should pass to the functions of `decide`: it is refused in a sentence, or it is right.

Each argument of each call is replaced by what is not meant: nothing, text, not a number, too large, negative, empty,
of another shape or kind. No other error may come out than credo's own.
"""

import warnings

import numpy as np
import pytest

import credo
from credo import losses
from credo.core.errors import CredoError
from credo.decide import (
    Categorical,
    Check,
    Integer,
    Ordinal,
    Real,
    Regret,
    Space,
    acquire,
    expected_loss,
    greedy_design,
    greedy_gain,
    hypervolume,
    information_gain,
    non_dominated,
)
from credo.decide import acquisition as scores
from credo.decide.agents import (
    TD,
    UCB,
    Dyna,
    EpsilonGreedy,
    ExpectedSARSA,
    FixedPolicy,
    NStep,
    OptimisticQ,
    PolynomialDecay,
    PosteriorSampling,
    QLearning,
    RMax,
    SoftmaxExploration,
    Trajectory,
    WorldBelief,
    collect,
    estimate,
    hoeffding_count,
)
from credo.decide.campaign import Campaign, Command
from credo.decide.maximize import maximize
from credo.decide.mdp import MDP, solve
from credo.decide.pareto import reference_point
from credo.kernels import Matern52

RNG = np.random.default_rng(0)
PRIOR = credo.GP(Matern52(np.full(2, 0.4), 1.0), mean=0.0, noise=0.1)
GP = PRIOR.condition(RNG.uniform(size=(6, 2)), RNG.normal(size=6))
PREDICTION, POOL = GP.predict(RNG.uniform(size=(3, 2))), RNG.uniform(size=(5, 2))
PROB = RNG.dirichlet(np.ones(4), (4, 2))
WORLD = MDP(PROB, RNG.normal(size=(4, 2)), 0.9, start=0)
PATH = collect(WORLD, steps=50)
SPACE = Space({"a": Real(0, 1), "k": Categorical(["x", "y"])})
HOSTILE = [
    *(None, "text", b"bytes", float("nan"), float("inf"), -1, -0.5, 0, True, 1e308, 10**30, 3.7),
    *([], (), {}, set(), object(), np.zeros((0, 2)), np.zeros((2, 2, 2)), np.full((3, 2), np.nan)),
    *(["a", "b"], [[1], [1, 2]], np.array([1 + 2j])),
]


def campaign(method, **usual):
    """A call of a fresh campaign."""

    def call(**given):
        made = Campaign(Space({"a": Real(0, 1)}))
        own = {"trial": made.ask()} if "trial" in usual else {}
        return getattr(made, method)(**{**usual, **own, **given})

    return call


CALLS = {
    "acquire": (acquire, {"belief": GP, "candidates": POOL, "acquisition": None, "n": 1, "pending": None, "seed": 0}),
    "expected_loss": (expected_loss, {"prediction": PREDICTION, "action": 0.0, "+loss": losses.Squared()}),
    "Asymmetric": (losses.Asymmetric, {"under": 1, "over": 1}),
    "Pinball": (losses.Pinball, {"q": 0.5}),
    "IntervalLoss": (losses.IntervalLoss, {"level": 0.5}),
    "CostMatrix": (losses.CostMatrix, {"costs": [[0, 1], [1, 0]], "reject": None, "names": None}),
    "information_gain": (information_gain, {"belief": GP, "x": POOL, "noise": None}),
    "greedy_gain": (greedy_gain, {"belief": GP, "candidates": POOL, "n": 2, "repeats": False, "noise": None}),
    "greedy_design": (greedy_design, {"belief": GP, "candidates": POOL, "n": 2, "criterion": "E", "at": None}),
    "hypervolume": (hypervolume, {"front": POOL, "reference": [0, 0]}),
    "non_dominated": (non_dominated, {"values": POOL}),
    "reference_point": (reference_point, {"values": POOL, "margin": 0.1}),
    "Regret": (Regret(2.0).curves, {"values": [1.0], "recommended": None}),
    "maximize": (
        maximize,
        {"+acquisition": scores.MaxVariance(), "+belief": GP, "over": ([0, 0], [1, 1]), "within": None, "seed": 0}
        | {"+method": "lipschitz", "+tolerance": 10.0, "avoid": None},
    ),
    "MDP": (
        MDP,
        {"transitions": PROB, "rewards": np.zeros((4, 2)), "discount": 0.9, "terminal": None, "start": None}
        | {"states": None, "actions": None, "ends": None, "cells": None},
    ),
    "solve": (solve, {"problem": WORLD, "using": None, "tolerance": 1e-6, "criterion": "discounted"}),
    "evaluate": (WORLD.evaluate, {"policy": [0] * 4, "method": None, "tolerance": 1e-6}),
    "simulate": (WORLD.simulate, {"policy": [0] * 4, "+steps": 3, "start": 0, "seed": 0}),
    "log_prob": (WORLD.log_prob, {"paths": WORLD.simulate([0] * 4, 3), "policy": [0] * 4, "start": None}),
    "occupancy": (WORLD.occupancy, {"policy": [0] * 4, "start": 0}),
    "backup": (WORLD.backup, {"value": np.zeros(4)}),
    "from_function": (
        MDP.from_function,
        {"states": [0], "actions": [0], "step": lambda s, a: [(1.0, 0, 1.0)], "discount": 0.9},
    ),
    "from_drawing": (MDP.from_drawing, {"text": "S.G", "slip": 0.1, "step_reward": 0, "discount": 0.9, "goal": 1}),
    "QLearning": (QLearning, {"explore": None, "rate": None, "discount": None, "initial": 0.0}),
    "OptimisticQ": (OptimisticQ, {"reward_max": None, "visits": 0}),
    "ExpectedSARSA": (ExpectedSARSA, {"target": None}),
    "NStep": (NStep, {"n": 2}),
    "Dyna": (Dyna, {"plan": 2, "outcomes": 2}),
    "RMax": (RMax, {"epsilon": 0.1, "delta": 0.1, "known": None, "reward_max": None, "reward_min": None}),
    "PosteriorSampling": (PosteriorSampling, {"prior": None, "reward": 0.0, "strength": 1.0, "noise": 1.0}),
    "EpsilonGreedy": (EpsilonGreedy, {"epsilon": 0.1}),
    "SoftmaxExploration": (SoftmaxExploration, {"temperature": 1.0}),
    "UCB": (UCB, {"c": 1.0}),
    "FixedPolicy": (FixedPolicy, {"policy": [0, 1]}),
    "PolynomialDecay": (PolynomialDecay, {"power": 0.8, "scale": 1.0, "tau": 1.0}),
    "learn": (
        QLearning().learn,
        {"source": PATH, "seed": None, "seeds": None, "evaluate_every": None, "horizon": None, "resume": None},
    ),
    "TD": (TD, {"lam": 0.0, "rate": None, "discount": None, "initial": 0.0, "replacing": False}),
    "TD.evaluate": (TD().evaluate, {"+source": PATH, "policy": None}),
    "collect": (collect, {"source": WORLD, "policy": None, "+steps": 5, "horizon": None, "seed": 0}),
    "estimate": (estimate, {"trajectory": PATH, "discount": 0.9, "start": None}),
    "Trajectory": (
        Trajectory,
        {"states": [0, 1], "actions": [0, 0], "rewards": [1.0, 2.0], "following": [1, 0], "done": None, "cut": None}
        | {"sizes": (2, 1), "propensity": None, "discount": None},
    ),
    "WorldBelief": (WorldBelief, {"prior": None, "ends": True, "reward": 0, "strength": 1, "noise": 1, "+states": 2}),
    "hoeffding_count": (hoeffding_count, {"epsilon": 0.1, "delta": 0.1, "spread": 1.0}),
    "ExpectedImprovement": (scores.ExpectedImprovement, {"best": None, "xi": 0.0}),
    "UpperConfidenceBound": (scores.UpperConfidenceBound, {"beta": 2.0}),
    "schedule": (scores.UpperConfidenceBound.schedule, {"t": 2, "delta": 0.1, "size": 5, "width": 1.0}),
    "regret_bound": (scores.regret_bound, {"rounds": 3, "beta": 1.0, "gain": 1.0, "noise": 0.1}),
    "KnowledgeGradient": (scores.KnowledgeGradient, {"at": None, "rows": 4}),
    "MaxValueEntropySearch": (scores.MaxValueEntropySearch, {"draws": 4, "at": None, "method": "gumbel"}),
    "ExpectedVarianceReduction": (scores.ExpectedVarianceReduction, {"at": POOL, "weights": None}),
    "Feasibility": (scores.Feasibility, {"belief": GP, "threshold": 1.0}),
    "Constrained": (scores.Constrained, {"+acquisition": scores.ExpectedImprovement(), "feasibilities": ()}),
    "Real": (Real, {"low": 0, "high": 1, "log": False, "when": None}),
    "Integer": (Integer, {"low": 0, "high": 3, "log": False, "when": None}),
    "Categorical": (Categorical, {"choices": ["a"]}),
    "Ordinal": (Ordinal, {"levels": ["a"]}),
    "Check": (Check, {"function": print, "name": "x"}),
    "Space": (Space, {"parameters": {"a": Real(0, 1)}, "constraints": ()}),
    "box": (Space.box, {"low": 0, "high": 1, "names": None}),
    "encode": (SPACE.encode, {"points": []}),
    "decode": (SPACE.decode, {"rows": np.zeros((1, 3))}),
    "neighbours": (SPACE.neighbours, {"point": {"a": 0.5, "k": "x"}}),
    "Campaign": (
        Campaign,
        {"space": SPACE, "goal": "minimize", "name": "x", "seed": 0, "noise": None, "outcome_constraints": None}
        | {"fidelity": None, "initial": 5, "lease": 10.0, "warm_start": ()},
    ),
    "tell": (campaign("tell", trial=1, value=1.0), {"trial": 1, "value": 1.0, "partial": None, "noise": None}),
    "add": (campaign("add"), {"point": {"a": 0.5}, "value": 1.0, "noise": None, "cost": None}),
    "abandon": (campaign("abandon"), {"trial": 1}),
    "explain": (campaign("explain"), {"trial": 1}),
    "heartbeat": (campaign("heartbeat"), {"trials": []}),
    "export": (campaign("export"), {"path": "x"}),
    "Command": (
        Command,
        {"template": "true {x}", "names": ("x",), "outcomes": ("value",), "timeout": None, "pattern": None},
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", CALLS)
def test_what_is_not_meant_is_refused_in_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, usual = CALLS[name]
    plain = {key.removeprefix("+"): value for key, value in usual.items()}
    plain |= {"actions": 1} if name == "WorldBelief" else {}
    wrong = []
    for argument in (key for key in usual if not key.startswith("+")):
        for value in HOSTILE:
            given = {
                key: item for key, item in {**plain, argument: value}.items() if key == argument or item is not None
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(**given)
                except CredoError:
                    continue
                except Exception as error:
                    wrong.append(f"{argument}={value!r}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
