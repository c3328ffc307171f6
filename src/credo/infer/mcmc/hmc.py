"""`HMC`: trajectories that follow the gradient, and what all Hamiltonian samplers have in common.

    H(u, p) = -log p(u) + ½ pᵀM⁻¹p,    leapfrog steps of length ε along u' = M⁻¹p, p' = ∇log p(u)

The inverse mass matrix M⁻¹ = LLᵀ is the covariance of u, as far as it is known: one, or Pathfinder's, at first, from
the draws of widening windows of the warm-up then; dense where that is affordable. ε is tuned for the acceptance that is
asked for. The posterior is walked in coordinates x, u = u₀ + Lx, in which its covariance is about the identity:

    H(x, q) = -log p(u₀ + Lx) + ½ qᵀq,    q ← q + ε/2 ∇,    x ← x + ε q,    q ← q + ε/2 ∇

Neal (2011), "MCMC using Hamiltonian dynamics"; Betancourt (2017), "A conceptual introduction to HMC".
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Bool, Float, Int

from credo.core.arrays import Array
from credo.core.errors import DataError
from credo.infer.mcmc.adaptation import StepSizeAndMetric
from credo.infer.mcmc.chains import Info, Prepared, Sampler, Vector
from credo.infer.target import Target

DENSE_UP_TO = 64
"""The largest dimension in which the metric is dense unless the user says otherwise."""
SHALLOW = 6
"""The depth of trees in the first window."""
DIVERGED = 1000.0
"""An error of the energy that no stable trajectory makes."""

Density = Callable[[Array], Array]
Slope = Callable[[Array], tuple[Array, Array]]
"""The log density with its gradient, as functions of x."""
T = TypeVar("T")


class State(NamedTuple):
    """Where a chain is: u, log p(u) and its gradient by x."""

    position: Float[Array, " k"]
    log_density: Float[Array, ""]
    gradient: Float[Array, " k"]

    @classmethod
    def at(cls, density: Density, u: Float[Array, " k"], tuning: StepSizeAndMetric) -> "State":
        """The state at u."""
        return cls(u, *tuning.slope(density, u))

    def first_point(self, density: Density, tuning: StepSizeAndMetric, q: Vector) -> tuple["Point", Slope]:
        """The first point of a trajectory, with this momentum, and its `Slope`."""
        first = Point(jnp.zeros_like(q), q, self.gradient, self.log_density)
        return first, lambda x: tuning.slope(density, self.position + tuning.out(x))

    def moved(self, tuning: StepSizeAndMetric, chosen: "Place") -> "State":
        """The state at the chosen place of a trajectory from here."""
        return State(self.position + tuning.out(chosen.x), chosen.log_density, chosen.gradient)


class Trajectory(NamedTuple):
    """How a trajectory went: the mean acceptance probability of its points, its energy, and why it ended."""

    acceptance: Float[Array, ""]
    energy: Float[Array, ""]
    divergent: Bool[Array, ""]
    depth: Int[Array, ""]
    leapfrogs: Array


Moved = tuple[State, Trajectory]


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

    def gain(self, energy: Array) -> Array:
        """-ΔH to another energy; minus infinity where it is not a number."""
        gain = energy - self.energy
        return jnp.where(jnp.isnan(gain), -jnp.inf, gain)


class Place(NamedTuple):
    """A point without its momentum."""

    x: Float[Array, " k"]
    gradient: Float[Array, " k"]
    log_density: Float[Array, ""]

    @classmethod
    def of(cls, point: Point) -> "Place":
        """Where the point is."""
        return cls(point.x, point.gradient, point.log_density)


class RandomNumbers(NamedTuple):
    """The random numbers of a step: normal ones (a momentum), and uniform ones, three for each doubling of a tree."""

    q: Float[Array, "*n k"]
    uniform: Float[Array, "*n d 3"]
    deepest: Int[Array, "*n"] = np.asarray(62)
    """The doublings after which a tree ends, if they are fewer than there are numbers for."""

    @classmethod
    def draw(
        cls, rng: np.random.Generator, n: int | tuple[int, ...], k: int, room: int = 1, deepest: int = 62
    ) -> "RandomNumbers":
        """Those of n steps, for trees of up to 2^room points."""
        n = (n,) if isinstance(n, int) else n
        return cls(rng.standard_normal((*n, k)), rng.random((*n, room, 3)), np.full(n, deepest))


def hmc(density: Density, state: State, tuning: StepSizeAndMetric, random: RandomNumbers, number: int) -> Moved:
    """A trajectory of `number` steps; its end is accepted with probability min(1, exp(-ΔH))."""
    first, slope = state.first_point(density, tuning, random.q)
    last = jax.lax.fori_loop(0, number, lambda _, point: leapfrog(slope, point, tuning.step_size), first)
    gain = last.gain(first.energy)
    chosen = pick(jnp.log(random.uniform[0, 0]) < gain, Place.of(last), Place.of(first))
    acceptance = jnp.exp(jnp.minimum(gain, 0.0))
    about = Trajectory(acceptance, first.energy, gain < -DIVERGED, jnp.asarray(0), jnp.asarray(number))
    return state.moved(tuning, chosen), about


def leapfrog(slope: Slope, point: Point, step: ArrayLike) -> Point:
    """One step of the leapfrog."""
    q = point.q + 0.5 * step * point.gradient
    x = point.x + step * q
    value, gradient = slope(x)
    return Point(x, q + 0.5 * step * gradient, gradient, value)


def pick(take: Bool[Array, ""], new: T, old: T) -> T:
    """The new one, or the old."""
    return jax.tree.map(lambda a, b: jnp.where(take, a, b), new, old)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hamiltonian(Sampler[State, RandomNumbers]):
    """A sampler of trajectories; heirs say which."""

    target_acceptance: float = 0.8
    metric: Literal["auto", "dense", "diagonal"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric not in ("auto", "dense", "diagonal"):
            raise DataError(f"metric must be 'auto', 'dense' or 'diagonal', found {self.metric!r}")

    def _dense(self, k: int) -> bool:
        return self.metric == "dense" or (self.metric == "auto" and k <= DENSE_UP_TO)

    def prepare(self, target: Target, u: np.ndarray, seed: int) -> Prepared:
        """Starting points, and the root of the covariance with which the metric begins."""
        k = target.space.size
        dense = self._dense(k)
        starts, law = self.starts(target, u, seed)
        root = np.eye(k) if law is None else np.asarray(law.root)
        step = 0.1 if self.warmup == 0 else self._first_step(k)
        tuning = StepSizeAndMetric(np.asarray(step), root if dense else np.sqrt(np.square(root).sum(1)))
        return Prepared(starts, tuning, float(self.target_acceptance))

    def random_numbers(self, rng: np.random.Generator, n: int, k: int, exploring: bool = False) -> RandomNumbers:
        """Those of trajectories; a metric that is still a guess deserves no long ones."""
        return RandomNumbers.draw(rng, n, k, self._room(), SHALLOW if exploring else self._room())

    def begin(self, target: Target, u: Vector, tuning: StepSizeAndMetric) -> State:
        """Position, density and gradient."""
        return State.at(target, u, tuning)

    def step(
        self, target: Target, random: RandomNumbers, state: State, tuning: StepSizeAndMetric
    ) -> tuple[State, Info]:
        """One trajectory."""
        state, about = self._trajectory(target, state, tuning, random)
        return state, Info(about.acceptance, about.divergent, about.energy, about.depth >= self._room())

    def _first_step(self, k: int) -> float:
        """ε for a target of unit scale, before it is tuned."""
        return 1.0

    def _room(self) -> int:
        """The depth at which a trajectory is as long as it may be."""
        return 1

    @abstractmethod
    def _trajectory(self, target: Target, state: State, tuning: StepSizeAndMetric, random: RandomNumbers) -> Moved: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class HMC(Hamiltonian):
    """Hamiltonian Monte Carlo: trajectories of a fixed number of steps, of a length that varies by ± `jitter`.

    With trajectories of one length a chain can return to where it was, for ever. Neal (2011), §5.4.2.2.

    Args:
        steps: of a trajectory.
        jitter: the largest relative change of the step length, drawn anew for every trajectory.
        target_acceptance, metric: see `NUTS`.
        chains, draws, warmup, thin, keep, memory, start, spread, cores, progress: see `Sampler`.
    """

    compiled: ClassVar[tuple[str, ...]] = ("steps", "jitter")
    steps: int = 10
    jitter: float | int = 0.2

    def _trajectory(self, target: Target, state: State, tuning: StepSizeAndMetric, random: RandomNumbers) -> Moved:
        jitter = 1 + self.jitter * (2 * random.uniform[0, 1] - 1)
        return hmc(target, state, tuning._replace(step_size=jitter * tuning.step_size), random, self.steps)
