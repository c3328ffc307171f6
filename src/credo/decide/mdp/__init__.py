"""Markov decision processes: worlds that are known, and the best way to act in them.

world = MDP.from_drawing("S..G", slip=0.2)
plan = solve(world)
plan.value, plan.policy, plan.certificate
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
