"""Planning beside QuantEcon: random sparse worlds, and gridworlds in which the one reward is far away.

Both solve the same sparse arrays to 1e-6; the column "error" is the largest difference from values certified to 1e-9.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import Memory, Task
from credo.decide.mdp import MDP, solve

TITLE = "Markov decision processes"
DISCOUNT = 0.99


class Arrays(NamedTuple):
    matrix: Any
    rewards: np.ndarray
    world: MDP
    peer: Any


def random_arrays(s: int, a: int = 4, m: int = 8) -> tuple[Any, np.ndarray]:
    """Every action leads to m states drawn at random."""
    rng = np.random.default_rng(0)
    index = rng.integers(0, s, s * a * m, dtype=np.int32)
    prob = rng.exponential(size=(s * a, m))
    prob /= prob.sum(axis=1, keepdims=True)
    matrix = sp.csr_array((prob.ravel(), index, np.arange(0, s * a * m + 1, m, dtype=np.int32)), shape=(s * a, s))
    return matrix, rng.random((s, a))


def grid_arrays(n: int) -> tuple[Any, np.ndarray]:
    """n × n cells, a goal in a corner that pays once and keeps the agent; moves slip to a side one time in five."""
    drawing = "\n".join(["." * n] * (n - 1) + ["." * (n - 1) + "G"])
    world = MDP.from_drawing(drawing, slip=0.2, discount=DISCOUNT)
    s, a = world.shape
    goal = s - 1  # QuantEcon has no terminal states: it stays there for nothing
    indptr = world.indptr.copy()
    indptr[goal * a :] += np.arange(a + 1)
    indices = np.concatenate([world.indices, np.full(a, goal, dtype=world.indices.dtype)])
    matrix = sp.csr_array((np.concatenate([world.probs, np.ones(a)]), indices, indptr), shape=(s * a, s))
    return matrix, world.rewards


@cache
def make(kind: str, n: int) -> Arrays:
    """The arrays, and the world as both libraries hold it: building it is not timed."""
    from quantecon.markov import DiscreteDP

    matrix, rewards = random_arrays(n) if kind == "random" else grid_arrays(n)
    s, a = rewards.shape
    pairs = np.repeat(np.arange(s), a), np.tile(np.arange(a), s)
    peer = DiscreteDP(rewards.ravel(), sp.csr_matrix(matrix), DISCOUNT, *pairs)
    return Arrays(matrix, rewards, MDP(matrix, rewards, DISCOUNT), peer)


@cache
def truth(kind: str, n: int) -> np.ndarray:
    plan = solve(make(kind, n).world, tolerance=1e-9)
    if plan.status != "converged":
        raise RuntimeError("the values to compare with are not certified")
    return plan.value


def credo(data: Arrays) -> np.ndarray:
    return solve(data.world, tolerance=1e-6).value


def quantecon(data: Arrays, method: str = "mpi") -> np.ndarray:
    return data.peer.solve(method=method, epsilon=1e-6, max_iter=100_000).v


def task(kind: str, n: int, least: float, repeats: int) -> Task:
    peers = {"QuantEcon (modified policy iteration)": quantecon}
    if kind == "random" and n <= 10_000:
        peers["QuantEcon (value iteration)"] = partial(quantecon, method="vi")
    name = f"random, {n:,} states" if kind == "random" else f"grid, {n} × {n}"
    return Task(
        name,
        data=partial(make, kind, n),
        contestants={"credo": credo, **peers},
        scores={"error × 10⁶": lambda answer, _: 1e6 * float(np.abs(answer - truth(kind, n)).max())},
        least=least,
        repeats=repeats,
        note=f"γ = {DISCOUNT}, to 1e-6 of the values.",
    )


def million() -> None:
    """Builds and solves the largest random world."""
    matrix, rewards = random_arrays(1_000_000)
    plan = solve(MDP(matrix, rewards, DISCOUNT))
    if plan.status != "converged":
        raise RuntimeError("not converged")


TASKS = [
    task("random", 10_000, 1.0, 5),
    task("random", 100_000, 1.0, 3),
    task("random", 1_000_000, 1.0, 1),
    task("grid", 100, 5.0, 5),
    task("grid", 300, 5.0, 3),
    task("grid", 1000, 5.0, 0),  # minutes for QuantEcon: once is enough
    Memory("random, a million states: memory", target="benchmarks.mdp:million", most=4096.0),
]
