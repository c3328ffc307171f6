"""Trajectories of Hamiltonian dynamics: the leapfrog, and the tree of leapfrog steps that NUTS draws from.

With M⁻¹ = LLᵀ the posterior is walked in coordinates x, u = u₀ + Lx, in which its covariance is about the identity:

    H(x, q) = -log p(u₀ + Lx) + ½ qᵀq,    q ← q + ε/2 ∇,    x ← x + ε q,    q ← q + ε/2 ∇

A tree doubles, forwards or backwards in time at random, until its ends would approach each other:
(Σq - (q₋ + q₊)/2) · q₋ ≤ 0 or the same with q₊, for it or for a subtree of a power of two. A draw is one of its points,
with probabilities ∝ exp(-H). Hoffman & Gelman (2014); Betancourt (2017), appendix A; the subtrees are checked without
recursion as in Phan, Pradhan & Jankowiak (2019).

Written for little work between two gradients, which is what takes the time on small models: `benchmarks/mcmc.py`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Density = Callable[[Array], Array]
DIVERGED = 1000.0
"""An error of the energy that no stable trajectory makes."""


class Steps(NamedTuple):
    """How trajectories move: the step length ε and L, lower triangular, or its diagonal."""

    length: Float[Array, ""]
    root: Float[Array, "k *k"]

    def out(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        """Lx."""
        return self.root * x if self.root.ndim == 1 else self.root @ x

    def slope(self, density: Density, u: Float[Array, " k"]) -> tuple[Array, Array]:
        """log p(u) and its gradient by x, Lᵀ∂log p(u)."""
        value, gradient = jax.value_and_grad(density)(u)
        return value, self.root * gradient if self.root.ndim == 1 else gradient @ self.root


class State(NamedTuple):
    """Where a chain is: u, log p(u) and its gradient by x."""

    position: Float[Array, " k"]
    log_density: Float[Array, ""]
    gradient: Float[Array, " k"]

    @classmethod
    def at(cls, density: Density, u: Float[Array, " k"], steps: Steps) -> "State":
        """The state at u."""
        return cls(u, *steps.slope(density, u))


class Trajectory(NamedTuple):
    """How a trajectory went: the mean acceptance probability of its points, its energy, and why it ended."""

    acceptance: Float[Array, ""]
    energy: Float[Array, ""]
    divergent: Bool[Array, ""]
    depth: Int[Array, ""]
    leapfrogs: Array


class Point(NamedTuple):
    """A point of the trajectory, in the coordinates x; `gradient` is that of the log density by x."""

    x: Float[Array, " k"]
    q: Float[Array, " k"]
    gradient: Float[Array, " k"]
    log_density: Float[Array, ""]

    @property
    def energy(self) -> Array:
        """H."""
        return 0.5 * self.q @ self.q - self.log_density


class Place(NamedTuple):
    """A point without its momentum."""

    x: Float[Array, " k"]
    gradient: Float[Array, " k"]
    log_density: Float[Array, ""]

    @classmethod
    def of(cls, point: Point) -> "Place":
        """Where the point is."""
        return cls(point.x, point.gradient, point.log_density)


class Branch(NamedTuple):
    """A subtree that grows: its last point, what was chosen, and what it needs to see whether it turns."""

    point: Point
    chosen: Place
    log_weight: Float[Array, ""]
    """log Σ exp(-ΔH) of its points."""
    total: Float[Array, " k"]
    """Σq."""
    corners: Float[Array, "d 2 k"]
    """q and Σq where subtrees began, of each size that is still growing."""
    luck: Float[Array, ""]
    accepted: Float[Array, ""]
    size: Int[Array, ""]
    turns: Bool[Array, ""]
    diverges: Bool[Array, ""]


class Tree(NamedTuple):
    """The trajectory so far; `ends` are the last points backwards and forwards in time."""

    ends: tuple[Point, Point]
    chosen: Place
    log_weight: Float[Array, ""]
    total: Float[Array, " k"]
    corners: Float[Array, "d 2 k"]
    accepted: Float[Array, ""]
    leapfrogs: Array
    depth: Int[Array, ""]
    done: Bool[Array, ""]
    diverges: Bool[Array, ""]


class Chance(NamedTuple):
    """The random numbers of a trajectory: its first momentum, and uniform ones, three for each doubling of a tree."""

    q: Float[Array, " k"]
    uniform: Float[Array, "d 3"]

    @classmethod
    def draw(cls, key: PRNGKeyArray, k: int, room: int = 1) -> "Chance":
        """For trees of up to 2^room points; many at once (`vmap`) cost little more than one."""
        k_momentum, k_uniform = jr.split(key)
        return cls(jr.normal(k_momentum, (k,)), jr.uniform(k_uniform, (room, 3)))


def hmc(density: Density, state: State, steps: Steps, chance: Chance, number: int) -> tuple[State, Trajectory]:
    """A trajectory of `number` steps; its end is accepted with probability min(1, exp(-ΔH))."""
    first, slope = _begin(density, state, steps, chance.q)
    last = jax.lax.fori_loop(0, number, lambda _, point: _leapfrog(slope, point, steps.length), first)
    gain = _gain(first.energy, last)
    take = jnp.log(chance.uniform[0, 0]) < gain
    chosen = _pick(take, Place.of(last), Place.of(first))
    about = Trajectory(_probability(gain), first.energy, gain < -DIVERGED, jnp.asarray(0), jnp.asarray(number))
    return _arrived(state, steps, chosen), about


def nuts(
    density: Density, state: State, steps: Steps, chance: Chance, deepest: Any = jnp.inf
) -> tuple[State, Trajectory]:
    """A tree of at most 2^deepest points, and the point of it that is drawn."""
    first, slope = _begin(density, state, steps, chance.q)
    energy, luck, room = first.energy, chance.uniform, chance.uniform.shape[0]

    def double(tree: Tree) -> Tree:
        forwards = luck[tree.depth, 0] < 0.5
        edge = _pick(forwards, tree.ends[1], tree.ends[0])
        step = jnp.where(forwards, steps.length, -steps.length)
        branch = _grow(slope, edge, step, energy, tree.depth, tree.corners, luck[tree.depth, 1])
        good = ~(branch.turns | branch.diverges)
        take = good & (jnp.log(luck[tree.depth, 2]) < branch.log_weight - tree.log_weight)
        ends = (_pick(forwards, tree.ends[0], branch.point), _pick(forwards, branch.point, tree.ends[1]))
        total = tree.total + branch.total
        turned = _turned(ends[0].q, ends[1].q, total)
        return Tree(
            ends=ends,
            chosen=_pick(take, branch.chosen, tree.chosen),
            log_weight=jnp.logaddexp(tree.log_weight, branch.log_weight),
            total=total,
            corners=branch.corners,
            accepted=tree.accepted + branch.accepted,
            leapfrogs=tree.leapfrogs + branch.size,
            depth=tree.depth + 1,
            done=~good | turned,
            diverges=branch.diverges,
        )

    none, zero, nothing = jnp.asarray(False), jnp.asarray(0), jnp.zeros(())
    corners = jnp.zeros((room + 1, 2, first.q.shape[0]))
    alone = Tree((first, first), Place.of(first), nothing, first.q, corners, nothing, zero, zero, none, none)
    tree = jax.lax.while_loop(lambda t: ~t.done & (t.depth < jnp.minimum(deepest, room)), double, alone)
    acceptance = tree.accepted / jnp.maximum(tree.leapfrogs, 1)
    return _arrived(state, steps, tree.chosen), Trajectory(
        acceptance, energy, tree.diverges, tree.depth, tree.leapfrogs
    )


def _grow(
    slope: Callable[[Array], tuple[Array, Array]],
    edge: Point,
    step: Array,
    energy: Array,
    depth: Array,
    corners: Float[Array, "d 2 k"],
    luck: Array,
) -> Branch:
    """The 2^depth points that follow the edge, or fewer where they turn back or diverge.

    One uniform number makes all choices: after an event of probability π, either luck/π or (luck - π)/(1 - π) is
    uniform again.
    """
    rows = jnp.arange(corners.shape[0])

    def add(branch: Branch) -> Branch:
        point = _leapfrog(slope, branch.point, step)
        gain = _gain(energy, point)
        total = branch.total + point.q
        weight = jnp.logaddexp(branch.log_weight, gain)
        share = jnp.where(gain > -jnp.inf, jnp.exp(gain - weight), 0.0)
        take = branch.luck < share
        luck = jnp.where(take, branch.luck / share, (branch.luck - share) / (1 - share))
        # Point n of the branch begins a subtree where n is even; where it is odd it ends one for each of its last ones.
        n = branch.size
        row, ended = jax.lax.population_count(n >> 1), jax.lax.population_count(n ^ (n + 1)) - 1
        here = jnp.where(n % 2 == 0, row, corners.shape[0] - 1)
        corners_ = jax.lax.dynamic_update_index_in_dim(branch.corners, jnp.stack([point.q, total]), here, 0)
        checked = (rows <= row) & (rows > row - ended)
        turned = _turned(corners_[:, 0], point.q, total - corners_[:, 1] + corners_[:, 0])
        return Branch(
            point=point,
            chosen=_pick(take, Place.of(point), branch.chosen),
            log_weight=weight,
            total=total,
            corners=corners_,
            luck=luck,
            accepted=branch.accepted + _probability(gain),
            size=n + 1,
            turns=jnp.any(checked & turned),
            diverges=gain < -DIVERGED,
        )

    def unfinished(branch: Branch) -> Array:
        return ~branch.turns & ~branch.diverges & (branch.size < 2**depth)

    none, zero, nothing = jnp.asarray(False), jnp.asarray(0), jnp.asarray(-jnp.inf)
    total = jnp.zeros_like(edge.q)
    empty = Branch(edge, Place.of(edge), nothing, total, corners, luck, jnp.zeros(()), zero, none, none)
    return jax.lax.while_loop(unfinished, add, empty)


def _begin(
    density: Density, state: State, steps: Steps, q: Float[Array, " k"]
) -> tuple[Point, Callable[[Array], tuple[Array, Array]]]:
    """The first point, with this momentum, and the log density with its gradient as a function of x."""
    first = Point(jnp.zeros_like(q), q, state.gradient, state.log_density)
    return first, lambda x: steps.slope(density, state.position + steps.out(x))


def _leapfrog(slope: Callable[[Array], tuple[Array, Array]], point: Point, step: Any) -> Point:
    q = point.q + 0.5 * step * point.gradient
    x = point.x + step * q
    value, gradient = slope(x)
    return Point(x, q + 0.5 * step * gradient, gradient, value)


def _pick(take: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(take, a, b), new, old)


def _gain(energy: Array, point: Point) -> Array:
    """-ΔH; minus infinity where it is not a number."""
    gain = energy - point.energy
    return jnp.where(jnp.isnan(gain), -jnp.inf, gain)


def _probability(gain: Array) -> Array:
    return jnp.exp(jnp.minimum(gain, 0.0))


def _turned(first: Float[Array, "*d k"], last: Float[Array, " k"], total: Float[Array, "*d k"]) -> Bool[Array, "*d"]:
    """Whether a stretch of a trajectory with these end momenta and sum of momenta turns back."""
    rho = total - 0.5 * (first + last)
    return (jnp.sum(rho * first, axis=-1) <= 0) | (jnp.sum(rho * last, axis=-1) <= 0)


def _arrived(state: State, steps: Steps, chosen: Place) -> State:
    return State(state.position + steps.out(chosen.x), chosen.log_density, chosen.gradient)
