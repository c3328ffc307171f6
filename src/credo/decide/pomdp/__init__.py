"""Partially observable Markov decision processes: worlds whose state is hidden, and the best way to act in them.

pomdp = POMDP.read("tiger.pomdp")
plan = solve(pomdp, seconds=60)
plan.lower, plan.upper, plan.act(pomdp.belief())
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
