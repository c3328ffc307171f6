"""Agents that learn from several steps: n-step returns, and Dyna's imagined ones."""

import jax
import jax.numpy as jnp
from jax import Array

from credo.core.checks import check_count
from credo.decide.agents.control import SARSA, Lists, Memory, Number, QLearning, Rate, Rule, Update, Updated, Visits
from credo.decide.agents.value_table import Move, Table, TableShape


class NStep(SARSA):
    """n-step SARSA: the target is r₁ + γr₂ + … + γⁿ⁻¹rₙ + γⁿ Q(sₙ, aₙ), and fewer terms where the episode ends.

    On policy; episodic and continuing. Sutton & Barto (2018), section 7.2.
    """

    n: int

    def __init__(
        self, n: int = 4, explore: Rule = None, rate: Rate = None, discount: Number = None, initial: float = 0.0
    ):
        super().__init__(explore, rate, discount, initial)
        check_count(n, "n")
        self.n = int(n)

    def memory(self, shape: TableShape) -> Memory:
        """The last n steps, the newest in the last column, and how many of them belong to this episode."""
        g, none = shape.experiments, jnp.zeros((shape.experiments, self.n))
        whole = none.astype(jnp.int32)
        return {"past_s": whole, "past_a": whole, "past_r": none, "filled": jnp.zeros(g, jnp.int32)}

    def update(self, shape: TableShape, table: Table, memory: Memory, move: Move, gamma: Array) -> Updated:
        """Updates the oldest step when n are there, and all of them when the episode is over."""
        n, over = memory["past_s"].shape[1], move.done | move.cut

        def shift(past: Array, new: Array) -> Array:
            return jnp.concatenate([past[:, 1:], new[:, None]], axis=1)

        s, a = shift(memory["past_s"], move.s), shift(memory["past_a"], move.a)
        r = shift(memory["past_r"], move.r)
        filled = jnp.minimum(memory["filled"] + 1, n)
        value = jnp.where(move.done, 0.0, self.bootstrap(shape, shape.row(table, move.s2), move)[0])
        target, targets = value, []
        for j in reversed(range(n)):
            target = r[:, j] + gamma * target
            targets.append(target)
        for j, target in enumerate(reversed(targets)):
            on = (filled >= n - j) & (over if j else jnp.ones_like(over))
            table = shape.nudge(table, s[:, j], a[:, j], target, self.rate, on=on)
        return table, {"past_s": s, "past_a": a, "past_r": r, "filled": jnp.where(over, 0, filled)}

    def updater(self, tables: list[Lists], acting: Lists, counts: Visits, gamma: float) -> Update:
        """The same in plain Python."""
        q, rate, n = tables[0], self.rate.function(), self.n
        past: list[tuple[int, int, float]] = []

        def learn(target: float) -> None:
            for _, _, reward in reversed(past):
                target = reward + gamma * target
            s, a, _ = past.pop(0)
            k = counts[s][a]
            counts[s][a] = k + 1
            q[s][a] += rate(k) * (target - q[s][a])

        def update(s: int, a: int, r: float, s2: int, done: bool, cut: bool, a2: int, u: list[float], t: int) -> None:
            past.append((s, a, r))
            value = 0.0 if done else q[s2][a2]
            if len(past) == n:
                learn(value)
            while past and (done or cut):
                learn(value)

        return update


class Dyna(QLearning):
    """Dyna-Q: after each step, `plan` more updates of pairs met before, with something that followed them.

    Off policy; episodic and continuing. The model of a pair is its last `outcomes` outcomes, one of which is drawn; in
    a world without chance one is enough, elsewhere values would run after it. Sutton & Barto (2018), section 8.2. In an
    environment a run that goes on begins with an empty model.
    """

    plan: int
    outcomes: int

    def __init__(
        self,
        plan: int = 5,
        explore: Rule = None,
        rate: Rate = None,
        discount: Number = None,
        initial: float = 0.0,
        outcomes: int = 32,
    ) -> None:
        super().__init__(explore, rate, discount, initial)
        check_count(plan, "plan")
        check_count(outcomes, "outcomes")
        self.plan, self.outcomes = int(plan), int(outcomes)

    @property
    def uniforms(self) -> int:  # type: ignore[override]
        """One more for each imagined step."""
        return 3 + self.plan

    def memory(self, shape: TableShape) -> Memory:
        """What followed each pair (-1 for the end), and the pairs met so far."""
        g, pairs = shape.experiments, shape.states * shape.actions
        return {
            "next": jnp.zeros((g, pairs * self.outcomes), jnp.int32),
            "paid": jnp.zeros((g, pairs * self.outcomes)),
            "known": jnp.zeros((g, pairs), jnp.int32),
            "met": jnp.zeros(g, jnp.int32),
        }

    def update(self, shape: TableShape, table: Table, memory: Memory, move: Move, gamma: Array) -> Updated:
        """Q-learning on what happened, then on what is remembered."""
        a, most = shape.actions, self.outcomes
        seen = shape.get(table, move.s, a + move.a).astype(jnp.int32)
        table, _ = super().update(shape, table, memory, move, gamma)
        pair, new = move.s * a + move.a, seen == 0
        place = pair * most + seen % most
        following = _write(memory["next"], place, jnp.where(move.done, -1, move.s2))
        paid = _write(memory["paid"], place, move.r)
        last = jnp.minimum(memory["met"], shape.states * a - 1)
        known = _write(memory["known"], last, jnp.where(new, pair, _read(memory["known"], last)))
        met = memory["met"] + new.astype(jnp.int32)

        def imagine(j: Array, table: Array) -> Array:
            x = move.u[3 + j] * met
            chosen = jnp.minimum(x.astype(jnp.int32), met - 1)
            at = _read(known, chosen)
            s, k = at // a, at % a
            old, n = shape.get(table, s, k), shape.get(table, s, a + k)
            filled = jnp.minimum(n, most)
            # What is left of the uniform number says which outcome.
            slot = at * most + jnp.minimum((x - chosen) * filled, filled - 1).astype(jnp.int32)
            s2, reward = _read(following, slot), _read(paid, slot)
            value = jnp.max(shape.values(shape.row(table, jnp.maximum(s2, 0))), axis=1)
            target = reward + gamma * jnp.where(s2 < 0, 0.0, value)
            return shape.put(table, s, k, old + self.rate(n - 1) * (target - old))

        table = jax.lax.fori_loop(0, self.plan, imagine, table)
        return table, {"next": following, "paid": paid, "known": known, "met": met}

    def updater(self, tables: list[Lists], acting: Lists, counts: Visits, gamma: float) -> Update:
        """The same in plain Python."""
        q, rate, plan, most = tables[0], self.rate.function(), self.plan, self.outcomes
        learn = super().updater(tables, acting, counts, gamma)
        known: list[tuple[int, int]] = []
        model: dict[tuple[int, int], list[tuple[float, int]]] = {}

        def update(s: int, a: int, r: float, s2: int, done: bool, cut: bool, a2: int, u: list[float], t: int) -> None:
            seen = counts[s][a]
            learn(s, a, r, s2, done, cut, a2, u, t)
            if (s, a) not in model:
                known.append((s, a))
                model[s, a] = []
            outcomes = model[s, a]
            if len(outcomes) < most:
                outcomes.append((r, -1 if done else s2))
            else:
                outcomes[seen % most] = (r, -1 if done else s2)
            for level in u[3 : 3 + plan]:
                x = level * len(known)
                j = min(int(x), len(known) - 1)
                s, a = known[j]
                outcomes = model[s, a]
                r, s2 = outcomes[min(int((x - j) * len(outcomes)), len(outcomes) - 1)]
                target = r if s2 < 0 else r + gamma * max(q[s2])
                q[s][a] += rate(counts[s][a] - 1) * (target - q[s][a])

        return update


def _write(kept: Array, at: Array, value: Array) -> Array:
    """One entry of each row."""
    first = jnp.arange(len(kept), dtype=jnp.int32) * kept.shape[1]
    flat = kept.reshape(-1).at[first + at].set(value, unique_indices=True, mode="promise_in_bounds")
    return flat.reshape(kept.shape)


def _read(kept: Array, at: Array) -> Array:
    g, n = kept.shape
    return kept.reshape(-1).at[jnp.arange(g, dtype=jnp.int32) * n + at].get(mode="promise_in_bounds")
