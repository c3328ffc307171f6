"""Tabular reinforcement learning: agents that learn by doing, in known worlds and in gymnasium's environments.

run = QLearning(explore=EpsilonGreedy(0.1)).learn(world, steps=200_000, seeds=64, evaluate_every=10_000)
run.policy, run.scores, run.regret
"""

from credo.decide.agents.belief import WorldBelief, estimate
from credo.decide.agents.control import SARSA, Agent, DoubleQ, ExpectedSARSA, OptimisticQ, QLearning
from credo.decide.agents.exploration import UCB, EpsilonGreedy, Greedy, SoftmaxExploration
from credo.decide.agents.nstep_dyna import Dyna, NStep
from credo.decide.agents.planning import ModelBased, PosteriorSampling, RMax
from credo.decide.agents.run import Run
from credo.decide.agents.schedules import (
    ConstantSchedule,
    ExponentialDecay,
    Harmonic,
    PolynomialDecay,
    RobbinsMonro,
    Schedule,
)
from credo.decide.agents.td import TD, Estimates
from credo.decide.agents.trajectories import Trajectory, collect

__all__ = [
    "SARSA",
    "TD",
    "UCB",
    "Agent",
    "ConstantSchedule",
    "DoubleQ",
    "Dyna",
    "EpsilonGreedy",
    "Estimates",
    "ExpectedSARSA",
    "ExponentialDecay",
    "Greedy",
    "Harmonic",
    "ModelBased",
    "NStep",
    "OptimisticQ",
    "PolynomialDecay",
    "PosteriorSampling",
    "QLearning",
    "RMax",
    "RobbinsMonro",
    "Run",
    "Schedule",
    "SoftmaxExploration",
    "Trajectory",
    "WorldBelief",
    "collect",
    "estimate",
]
