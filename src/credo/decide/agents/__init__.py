"""Tabular reinforcement learning: agents that learn by doing, in known worlds and in gymnasium's environments.

run = QLearning(explore=EpsilonGreedy(0.1)).learn(world, steps=200_000, seeds=64, evaluate_every=10_000)
run.policy, run.scores, run.regret
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
