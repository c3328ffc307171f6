"""Whole experiments in one compiled loop: many seeds step through a known world at once.

Uniform numbers are drawn by NumPy for a chunk of steps at a time; chunk i belongs to steps i·c … (i + 1)·c - 1 whatever
happened before, so that a run that was interrupted goes on as if it had not been. Two halves of the seeds run in two
threads: XLA holds no lock.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from credo.core.errors import DataError
from credo.decide.agents.alias_tables import Compiled, Tables
from credo.decide.agents.control import Tabular
from credo.decide.agents.value_table import Move, TableShape

A = TypeVar("A")
APART = 16
"""So many seeds are worth a second thread."""
CHUNK = 2**17
"""Uniform numbers drawn at a time: they should stay in the cache."""
State = dict[str, np.ndarray]
"""What experiments need to go on; the first axis is the experiment."""
Now = dict[str, Array]
"""The same inside a compiled program."""
Limit = Array | None
COUNTERS = ("return_now", "weight", "returns", "episodes", "rewards")


def chunk_length(uniforms: int, experiments: int) -> int:
    """Steps of a chunk, a power of two."""
    return max(64, min(4096, 2 ** ((CHUNK // (uniforms * experiments)).bit_length() - 1)))


def stream(seed: int, block: int, chunk: int, first: bool = False) -> np.random.Generator:
    """The generator of one chunk; `first` is the one from which experiments begin."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, block, chunk, int(first)])))


class Experiments:
    """All experiments of a tabular agent in a known world."""

    def __init__(self, agent: Tabular, tables: Tables, gamma: float, horizon: int | None, seeds: int, seed: int):
        self.agent, self.tables, self.gamma, self.seeds, self.seed = agent, tables, gamma, seeds, seed
        self.limit = None if horizon is None else jnp.asarray(min(horizon, 2**31 - 1), jnp.int32)
        self.world, self.description = Compiled.of(tables), numbers(agent)
        # Two blocks of many seeds, whatever the machine: the draws depend on it.
        half = (seeds + 1) // 2
        self.blocks = [slice(0, half), slice(half, seeds)] if seeds >= APART else [slice(0, seeds)]

    def _shape(self, block: slice) -> TableShape:
        return TableShape(block.stop - block.start, self.tables.states, self.tables.actions, self.agent.tables)

    def begin(self) -> State:
        """The state before the first step."""
        one = self._shape(slice(0, 1))
        if self.seeds * one.states * one.width >= 2**31:
            raise DataError(
                f"{self.seeds} seeds of {one.states:,} states and {one.actions} actions are too many for one table; "
                f"take fewer seeds, at most {2**31 // (one.states * one.width)}"
            )
        parts = []
        for number, block in enumerate(self.blocks):
            shape = self._shape(block)
            u = jnp.asarray(stream(self.seed, number, 0, first=True).random((2, shape.experiments)))
            parts.append(jax.tree.map(np.asarray, _begin(self.description, self.world, shape, u)))
        return _joined(parts)

    def enter(self, state: State, t: int) -> None:
        """Everything is in the state."""

    def advance(self, state: State, begin: int, end: int) -> State:
        """Steps begin … end - 1 of all experiments."""

        def half(number: int, block: slice) -> State:
            shape, k = self._shape(block), self.agent.uniforms
            now = {name: jnp.asarray(values[block]) for name, values in state.items()}
            c = chunk_length(k, shape.experiments)
            for chunk in range(begin // c, -(-end // c)):
                u = jnp.asarray(stream(self.seed, number, chunk).random((c, k, shape.experiments)))
                # As arrays: numbers of Python would be part of the program, and each another one.
                span = jnp.asarray([max(begin - chunk * c, 0), min(end - chunk * c, c), chunk * c])
                now = _steps(self.description, self.world, shape, now, u, span, jnp.asarray(self.gamma), self.limit)
            return jax.tree.map(np.asarray, now)

        if len(self.blocks) == 1:
            return half(0, self.blocks[0])
        with ThreadPoolExecutor(len(self.blocks)) as pool:
            return _joined(list(pool.map(half, range(len(self.blocks)), self.blocks)))


def _joined(parts: list[State]) -> State:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def numbers(agent: A) -> A:
    """The description with its numbers as arrays, so that other numbers are the same program."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) else leaf, agent)


@eqx.filter_jit
def _begin(agent: Tabular, world: Compiled, shape: TableShape, u: Array) -> Now:
    g = shape.experiments
    row = jnp.concatenate([jnp.full(shape.tables * shape.actions, agent.initial), jnp.zeros(shape.actions)])
    table = jnp.broadcast_to(row, (g, shape.states, shape.width))
    s = world.begin(u[0])
    at = shape.row(table.reshape(-1), s)
    a = agent.explore.choose(shape.values(at), shape.visits(at), u[1], jnp.asarray(0), s)
    counters = {name: jnp.full(g, float(name == "weight")) for name in COUNTERS}
    extra = {f"own_{name}": value for name, value in agent.memory(shape).items()}
    return {"table": table, "s": s, "a": a, "age": jnp.zeros(g, jnp.int32), **counters, **extra}


@eqx.filter_jit
def _steps(
    agent: Tabular, world: Compiled, shape: TableShape, state: Now, u: Array, span: Array, gamma: Array, horizon: Limit
) -> Now:
    """Steps low … high - 1 of the chunk that begins at time `base`, for span = (low, high, base)."""
    low, high, base = span
    slots = world.slots.shape[0] // (shape.states * shape.actions)

    def act(table: Array, s: Array, level: Array, t: Array) -> Array:
        row = shape.row(table, s)
        return agent.explore.choose(shape.values(row), shape.visits(row), level, t, s)

    def step(i: Array, now: Now) -> Now:
        table, s, t, draw = now["table"], now["s"], base + i, u[i]
        a = now["a"] if agent.follows else act(table, s, draw[0], t)
        code, r = world.outcome(s * shape.actions + a, slots, draw[1])
        done = code < 0
        s2 = jnp.maximum(code, 0)
        age = now["age"] + 1
        cut = jnp.zeros_like(done) if horizon is None else (age >= horizon) & ~done
        over = done if horizon is None else done | cut
        following = jnp.where(over, world.begin(draw[2]), s2)
        a2 = then = a
        if agent.follows:
            a2 = then = act(table, following, draw[0], t + 1)
            if horizon is not None:
                a2 = act(table, s2, draw[0], t + 1)
        move = Move(s, a, r, s2, done, cut, a2, draw, t)
        own = {name[4:]: value for name, value in now.items() if name.startswith("own_")}
        table, own = agent.update(shape, table, own, move, gamma)
        paid = now["return_now"] + now["weight"] * r
        return {
            "table": table,
            "s": following,
            "a": then,
            "age": jnp.where(over, 0, age),
            "return_now": jnp.where(over, 0.0, paid),
            "weight": jnp.where(over, 1.0, now["weight"] * gamma),
            "returns": now["returns"] + jnp.where(over, paid, 0.0),
            "episodes": now["episodes"] + over,
            "rewards": now["rewards"] + r,
            **{f"own_{name}": value for name, value in own.items()},
        }

    flat = {**state, "table": state["table"].reshape(-1)}
    out = jax.lax.fori_loop(low, high, step, flat)
    return {**out, "table": out["table"].reshape(state["table"].shape)}
