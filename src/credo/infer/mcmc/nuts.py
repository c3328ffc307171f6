"""`NUTS`, the No-U-Turn sampler: trajectories that end where they would turn back, and tune themselves.

A tree of leapfrog steps doubles, forwards or backwards in time at random, until its ends would approach each other:
(Σq - (q₋ + q₊)/2) · q₋ ≤ 0 or the same with q₊, for it or for a subtree of a power of two. A draw is one of its points,
with probabilities ∝ exp(-H). Hoffman & Gelman (2014), "The No-U-Turn sampler"; Betancourt (2017), appendix A; the
subtrees are checked without recursion as in Phan, Pradhan & Jankowiak (2019).

Written for little work between two gradients, which is what takes the time on small models: `benchmarks/mcmc.py`.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from credo.core.arrays import Array
from credo.infer.mcmc.adaptation import StepSizeAndMetric
from credo.infer.mcmc.hmc import (
    DIVERGED,
    Density,
    Hamiltonian,
    Moved,
    Place,
    Point,
    RandomNumbers,
    Slope,
    State,
    Trajectory,
    leapfrog,
    pick,
)
from credo.infer.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class NUTS(Hamiltonian):
    """The No-U-Turn sampler: trajectories that end where they would turn back.

    Args:
        target_acceptance: higher is slower and safer; raise it where trajectories diverge.
        metric: "dense" learns all correlations, "diagonal" scales only; "auto" is dense up to 64 numbers.
        max_depth: a trajectory has at most 2^max_depth steps.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    compiled: ClassVar[tuple[str, ...]] = ("max_depth",)
    max_depth: int = 10

    def _room(self) -> int:
        return self.max_depth

    def _trajectory(self, target: Target, state: State, tuning: StepSizeAndMetric, random: RandomNumbers) -> Moved:
        return nuts(target, state, tuning, random)


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


def nuts(density: Density, state: State, tuning: StepSizeAndMetric, random: RandomNumbers) -> Moved:
    """A tree of at most 2^deepest points, and the point of it that is drawn."""
    first, slope = state.first_point(density, tuning, random.q)
    energy, luck, room = first.energy, random.uniform, random.uniform.shape[0]

    def double(tree: Tree) -> Tree:
        forwards = luck[tree.depth, 0] < 0.5
        edge = pick(forwards, tree.ends[1], tree.ends[0])
        step = jnp.where(forwards, tuning.step_size, -tuning.step_size)
        branch = _grow(slope, edge, step, energy, tree.depth, tree.corners, luck[tree.depth, 1])
        good = ~(branch.turns | branch.diverges)
        take = good & (jnp.log(luck[tree.depth, 2]) < branch.log_weight - tree.log_weight)
        ends = (pick(forwards, tree.ends[0], branch.point), pick(forwards, branch.point, tree.ends[1]))
        total = tree.total + branch.total
        turned = _turned(ends[0].q, ends[1].q, total)
        return Tree(
            ends=ends,
            chosen=pick(take, branch.chosen, tree.chosen),
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
    tree = jax.lax.while_loop(lambda t: ~t.done & (t.depth < jnp.minimum(random.deepest, room)), double, alone)
    acceptance = tree.accepted / jnp.maximum(tree.leapfrogs, 1)
    about = Trajectory(acceptance, energy, tree.diverges, tree.depth, tree.leapfrogs)
    return state.moved(tuning, tree.chosen), about


def _grow(
    slope: Slope, edge: Point, step: Array, energy: Array, depth: Array, corners: Float[Array, "d 2 k"], luck: Array
) -> Branch:
    """The 2^depth points that follow the edge, or fewer where they turn back or diverge.

    One uniform number makes all choices: after an event of probability π, either luck/π or (luck - π)/(1 - π) is
    uniform again.
    """
    rows = jnp.arange(corners.shape[0])

    def add(branch: Branch) -> Branch:
        point = leapfrog(slope, branch.point, step)
        gain = point.gain(energy)
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
            chosen=pick(take, Place.of(point), branch.chosen),
            log_weight=weight,
            total=total,
            corners=corners_,
            luck=luck,
            accepted=branch.accepted + jnp.exp(jnp.minimum(gain, 0.0)),
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


def _turned(first: Float[Array, "*d k"], last: Float[Array, " k"], total: Float[Array, "*d k"]) -> Bool[Array, "*d"]:
    """Whether a stretch of a trajectory with these end momenta and sum of momenta turns back."""
    rho = total - 0.5 * (first + last)
    return (jnp.sum(rho * first, axis=-1) <= 0) | (jnp.sum(rho * last, axis=-1) <= 0)
