"""What is believed of a world that is only known from experience: counts, and Dirichlet distributions over them."""

import warnings
from typing import SupportsFloat as Real

import equinox as eqx
import numpy as np
import scipy.sparse as sp

from credo.core.checks import ArrayLike, check_count, check_real
from credo.core.errors import DataError, RepairedWarning
from credo.core.pytrees import changed
from credo.decide.agents.trajectories import Counts, Sums, Trajectory
from credo.decide.mdp.model import DISCOUNT, MDP
from credo.models.conjugate import DirichletCategorical


def estimate(trajectory: Trajectory, discount: Real = DISCOUNT, start: ArrayLike = None) -> MDP:
    """The most likely world: P̂(s' | s, a) = n(s, a, s')/n(s, a), and mean rewards.

    The data say nothing of pairs that were never met: they lead anywhere and pay nothing, and a `RepairedWarning` says
    how many. A belief that does not need to invent them is `WorldBelief`.
    """
    _check(trajectory)
    counts, visits = trajectory.counts(), trajectory.counts().sum(axis=2)
    unseen = visits == 0
    if unseen.any():
        s, a = (int(i) for i in np.argwhere(unseen)[0])
        warnings.warn(
            f"{int(unseen.sum())} of {unseen.size} pairs of state and action were never met, such as action {a} in "
            f"state {s}: they are taken to lead anywhere and to pay nothing; WorldBelief says how uncertain they are",
            RepairedWarning,
            stacklevel=2,
        )
    n = np.maximum(visits, 1)
    prob = counts / n[:, :, None]
    prob[unseen, :-1] = 1 / trajectory.sizes[0]
    return _world(prob, trajectory.rewards_summed() / n, discount, start)


class WorldBelief(eqx.Module):
    """P(· | s, a) ~ Dirichlet(α), with the end of the episode as last outcome; E r(s, a) ~ N(mean, noise/strength).

    Conditioning on a trajectory adds its counts. Rewards are taken to be normal with the variance `noise`, in their
    units; `strength` counts them. Strens (2000), "A Bayesian framework for reinforcement learning".
    """

    alpha: Counts
    mean: Sums
    strength: Sums
    noise: float

    def __init__(
        self,
        states: int,
        actions: int,
        prior: Real | None = None,
        ends: bool = True,
        reward: Real = 0.0,
        strength: Real = 1.0,
        noise: Real = 1.0,
    ) -> None:
        check_count(states, "states")
        check_count(actions, "actions")
        if not isinstance(ends, bool | np.bool_):
            raise DataError(f"ends must be True or False, found {ends!r}")
        outcomes = states + bool(ends)
        weight = 1 / outcomes if prior is None else check_real(prior, "prior")
        reward, strength, noise = (
            check_real(reward, "reward"),
            check_real(strength, "strength"),
            check_real(noise, "noise"),
        )
        if not 0 < weight < np.inf:
            raise DataError(f"prior must be a positive number for each successor, found {prior!r}")
        if not (strength > 0 and noise > 0):
            raise DataError(f"strength and noise must be positive, found {strength!r} and {noise!r}")
        self.alpha = np.full((states, actions, states + 1), weight)
        if not ends:
            self.alpha[:, :, -1] = 0.0
        self.mean = np.full((states, actions), reward)
        self.strength = np.full((states, actions), strength)
        self.noise = noise

    def condition(self, trajectory: Trajectory) -> "WorldBelief":
        """Bayes' rule."""
        _check(trajectory)
        if trajectory.sizes != self.mean.shape:
            raise DataError(
                f"the belief is about {self.mean.shape[0]} states and {self.mean.shape[1]} actions, the trajectory has "
                f"{trajectory.sizes[0]} and {trajectory.sizes[1]}"
            )
        if trajectory.done.any() and not self.alpha[:, :, -1].any():
            raise DataError("the trajectory has ends, which the belief holds impossible; make it with ends=True")
        return self.add(trajectory.counts(), trajectory.rewards_summed())

    def add(self, counts: Counts, rewards: Sums) -> "WorldBelief":
        """Bayes' rule from counts and sums of rewards."""
        strength = self.strength + counts.sum(axis=2)
        mean = (self.strength * self.mean + rewards) / strength
        return changed(self, alpha=self.alpha + counts, mean=mean, strength=strength)

    def transition(self, state: int, action: int) -> DirichletCategorical:
        """The belief about where an action leads: probabilities of the states, and of the end where there are any."""
        alpha = self.alpha[state, action]
        return DirichletCategorical(alpha if alpha[-1] > 0 else alpha[:-1])

    def expected(self, discount: Real = DISCOUNT, start: ArrayLike = None) -> MDP:
        """The world of the posterior means."""
        return _world(self.alpha / self.alpha.sum(axis=2, keepdims=True), self.mean, discount, start)

    def draw(self, rng: np.random.Generator) -> tuple[Counts, Sums]:
        """Probabilities and rewards of one world from the posterior."""
        weights = rng.standard_gamma(self.alpha)
        total = weights.sum(axis=2, keepdims=True)
        # All weights of a row can be below the smallest number where α is tiny.
        expected = self.alpha / self.alpha.sum(axis=2, keepdims=True)
        prob = np.where(total > 0, weights / np.where(total > 0, total, 1), expected)
        return prob, self.mean + np.sqrt(self.noise / self.strength) * rng.standard_normal(self.mean.shape)

    def sample(self, n: int = 1, *, discount: Real = DISCOUNT, start: ArrayLike = None, seed: int = 0) -> list[MDP]:
        """Worlds from the posterior."""
        check_count(n, "n")
        check_count(seed, "seed", 0)
        rng = np.random.default_rng(seed)
        return [_world(*self.draw(rng), discount, start) for _ in range(n)]


def _check(trajectory: object) -> None:
    if not isinstance(trajectory, Trajectory):
        raise DataError(f"experience is a Trajectory, such as collect(world, policy, steps), found {trajectory!r}")


def _world(prob: Counts, rewards: Sums, discount: Real, start: ArrayLike) -> MDP:
    s, a = rewards.shape
    matrix = sp.csr_array(prob[:, :, :-1].reshape(s * a, s))
    return MDP(matrix, rewards, discount, ends=np.clip(prob[:, :, -1], 0.0, 1.0), start=start)
