"""The values of a policy from experience: TD(0) and TD(λ).

    δ = r + γV(s') - V(s),    e ← γλe + 1ₛ,    V ← V + rate · δ e

λ = 0 looks one step ahead, λ = 1 to the end of the episode. Sutton (1988); Sutton & Barto (2018), sections 6.1, 12.2.
"""

import warnings
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from credo.core.checks import ArrayLike, check_count, check_real
from credo.core.errors import DataError, NotConvergedWarning
from credo.decide.agents.alias_tables import Compiled, alias, tabulate
from credo.decide.agents.control import Number, Rate, check_discount
from credo.decide.agents.engine import Limit, chunk_length, numbers, stream
from credo.decide.agents.environments import open_source
from credo.decide.agents.trajectories import Trajectory, collect, policy_probabilities
from credo.decide.mdp.model import DISCOUNT
from credo.infer.schedules import PolynomialDecay, Schedule, as_schedule

Pair = tuple[Array, Array]
Ratios = Float[np.ndarray, " t"] | None
Now = tuple[Array, Array, Array, Array, Array, Array]
"""Values, visits, rates and traces (g, s); states and ages (g,)."""


class Estimates(eqx.Module):
    """Values of a policy from each of several experiments."""

    values: Float[np.ndarray, "g s"]
    visits: Float[np.ndarray, "g s"]
    steps: int

    @property
    def mean(self) -> Float[np.ndarray, " s"]:
        """Over the experiments."""
        return self.values.mean(axis=0)

    @property
    def std(self) -> Float[np.ndarray, " s"]:
        """Between the experiments."""
        return self.values.std(axis=0, ddof=1) if len(self.values) > 1 else np.full(self.values.shape[1], np.nan)


class TD(eqx.Module):
    """TD(λ) with accumulating traces, or replacing ones; on policy; episodic and continuing.

    The rate of a state falls with its own visits.
    """

    lam: float
    rate: Schedule
    discount: float | None
    initial: float
    replacing: bool = eqx.field(static=True)

    on_policy: ClassVar[bool] = True
    setting: ClassVar[str] = "episodic and continuing"

    def __init__(
        self,
        lam: float = 0.0,
        rate: Rate = None,
        discount: Number = None,
        initial: float = 0.0,
        replacing: bool = False,
    ) -> None:
        self.lam = check_real(lam, "lam", 0, 1)
        self.rate = PolynomialDecay(0.8) if rate is None else as_schedule(rate, "rate")
        self.discount = check_discount(discount)
        self.initial = check_real(initial, "initial")
        if not isinstance(replacing, bool | np.bool_):
            raise DataError(f"replacing must be True or False, found {replacing!r}")
        self.replacing = bool(replacing)

    def evaluate(
        self,
        source: Any,
        policy: ArrayLike = None,
        steps: int = 100_000,
        *,
        seeds: int = 1,
        seed: int = 0,
        horizon: int | None = None,
    ) -> Estimates:
        """V of a policy: actions (s,), probabilities (s, a), or None for actions at random.

        `source` is an MDP (compiled, all experiments at once), a discrete environment, or a `Trajectory`, which is gone
        through once, in its order: without a policy its values are those of the policy that acted; with one, steps are
        weighted by ρ = π(a | s)/propensity, e ← ρ(γλe + 1ₛ) (Precup, Sutton & Singh 2000; Sutton & Barto (2018),
        section 12.9). The discount is the agent's own, else the world's or the trajectory's, else 0.99.
        """
        found = self.rate.check()
        if not found.holds:
            says = f"the learning rate breaks Robbins and Monro's conditions: {found.says}"
            warnings.warn(says, NotConvergedWarning, stacklevel=2)
        if isinstance(source, Trajectory):
            known = next((g for g in (self.discount, source.discount) if g is not None), DISCOUNT)
            return self._replay([source], known, _ratios(source, policy))
        check_count(seed, "seed", 0)
        for name, value in (("steps", steps), ("seeds", seeds), ("horizon", 1 if horizon is None else horizon)):
            check_count(value, name)
        place = open_source(source)
        if place.env is not None or place.world is None:
            gamma = DISCOUNT if self.discount is None else self.discount
            each = (collect(source, policy, steps, horizon=horizon, seed=seed + j) for j in range(seeds))
            return self._replay(list(each), gamma, None)
        gamma = place.world.discount if self.discount is None else self.discount
        tables = tabulate(place.world)
        share, other = alias(policy_probabilities(policy, place.states, place.actions))
        c = chunk_length(4, seeds)
        world, rule = Compiled.of(tables), (jnp.asarray(share), jnp.asarray(other, jnp.int32))
        description = numbers(self)
        first = stream(seed, 0, 0, first=True).random(seeds)
        blank = jnp.zeros((seeds, tables.states))
        now = (blank + self.initial, blank, blank, blank, world.begin(jnp.asarray(first)), jnp.zeros(seeds, jnp.int32))
        limit = None if horizon is None else jnp.asarray(min(horizon, 2**31 - 1), jnp.int32)
        for chunk in range(-(-steps // c)):
            u = jnp.asarray(stream(seed, 0, chunk).random((c, 3, seeds)))
            span = jnp.asarray(min(steps - chunk * c, c))
            now = _steps(description, self.lam > 0, world, rule, now, u, span, jnp.asarray(gamma), limit)
        return Estimates(np.asarray(now[0]), np.asarray(now[1]), int(steps))

    def _replay(self, trajectories: list[Trajectory], gamma: float, ratios: Ratios) -> Estimates:
        """Goes through experience in plain Python; traces below 1e-12 are forgotten."""
        rate, decay = self.rate.function(), gamma * self.lam
        values, visits = [], []
        for path in trajectories:
            s = path.sizes[0]
            v, n, rates, traces = [self.initial] * s, [0] * s, [0.0] * s, dict[int, float]()
            weights = np.ones(len(path)) if ratios is None else ratios
            columns = (path.states, path.rewards, path.following, path.done, path.cut, weights)
            for at, reward, following, done, cut, rho in zip(*(column.tolist() for column in columns), strict=True):
                rates[at] = rate(n[at])
                n[at] += 1
                error = reward + (0.0 if done else gamma * v[following]) - v[at]
                traces = {i: decay * e for i, e in traces.items() if decay * e > 1e-12}
                traces[at] = 1.0 if self.replacing else traces.get(at, 0.0) + 1.0
                traces = {i: rho * e for i, e in traces.items()} if rho != 1 else traces
                for i, e in traces.items():
                    v[i] += rates[i] * error * e
                if done or cut:
                    traces = {}
            values.append(v)
            visits.append(n)
        return Estimates(np.asarray(values), np.asarray(visits, dtype=float), len(trajectories[0]))


def _ratios(path: Trajectory, policy: ArrayLike) -> Ratios:
    """ρ = π(a | s)/propensity of each step; None where the policy that acted is asked about."""
    if policy is None:
        return None
    wanted = policy_probabilities(policy, *path.sizes)
    if path.propensity is None:
        raise DataError(
            "the trajectory does not say how likely its actions were, so nothing can be said of another policy; give "
            "Trajectory(…, propensity=probabilities), or leave the policy out for the values of the one that acted"
        )
    tried = path.counts().sum(axis=2) > 0
    missed = (wanted > 0) & ~tried & tried.any(axis=1, keepdims=True)
    if missed.any():
        s, a = (int(i) for i in np.argwhere(missed)[0])
        says = f"the policy takes actions that the trajectory never does, such as action {a} in state {s}"
        warnings.warn(f"{says}: values that depend on them are not known", NotConvergedWarning, stacklevel=3)
    return wanted[path.states, path.actions] / path.propensity


@eqx.filter_jit
def _steps(
    td: TD, traced: bool, world: Compiled, rule: Pair, state: Now, u: Array, high: Array, gamma: Array, horizon: Limit
) -> Now:
    """Steps 0 … high - 1 of a chunk, for all experiments."""
    g, states = state[0].shape
    share, other = rule
    actions = share.shape[1]
    slots = world.slots.shape[0] // (states * actions)
    base = jnp.arange(g, dtype=jnp.int32) * states

    def get(values: Array, at: Array) -> Array:
        return values.reshape(-1).at[base + at].get(mode="promise_in_bounds")

    def put(values: Array, at: Array, new: Array) -> Array:
        flat = values.reshape(-1).at[base + at].set(new, unique_indices=True, mode="promise_in_bounds")
        return flat.reshape(g, states)

    def step(i: Array, now: Now) -> Now:
        v, n, rates, traces, s, age = now
        x = u[i, 0] * actions
        slot = jnp.minimum(x.astype(jnp.int32), actions - 1)
        a = jnp.where(x - slot < share[s, slot], slot, other[s, slot])
        code, r = world.outcome(s * actions + a, slots, u[i, 1])
        done, s2 = code < 0, jnp.maximum(code, 0)
        over = done if horizon is None else done | (age + 1 >= horizon)
        seen = get(n, s)
        old, rate = get(v, s), td.rate(seen)
        error = r + gamma * jnp.where(done, 0.0, get(v, s2)) - old
        if traced:
            rates = put(rates, s, rate)
            traces = gamma * td.lam * traces
            traces = put(traces, s, jnp.ones(g) if td.replacing else get(traces, s) + 1)
            v = v + rates * error[:, None] * traces
            traces = jnp.where(over[:, None], 0.0, traces)
        else:
            v = put(v, s, old + rate * error)
        following = jnp.where(over, world.begin(u[i, 2]), s2)
        return v, put(n, s, seen + 1), rates, traces, following, jnp.where(over, 0, age + 1)

    return jax.lax.fori_loop(0, high, step, state)
