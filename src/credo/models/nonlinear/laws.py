"""What is known of a state by weighted particles: a cloud of them, and those of each row."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray, UInt32

from credo.core.arrays import Array, host, namespace
from credo.core.checks import check_count
from credo.models.state_laws import FilteredStates


class Cloud(eqx.Module):
    """p(z) ≈ Σᵢ wᵢ δ(z - zᵢ): particles with weights that sum to one, and where their random numbers go on."""

    particles: Float[Array, "k n"]
    log_weights: Float[Array, " k"]
    key_data: UInt32[Array, "..."]

    @property
    def weights(self) -> Float[Array, " k"]:
        """wᵢ."""
        return namespace(self.log_weights).exp(self.log_weights)

    @property
    def mean(self) -> Float[Array, " n"]:
        """Σ wᵢ zᵢ."""
        return moments(self.particles, self.log_weights)[0]

    @property
    def covariance(self) -> Float[Array, "n n"]:
        """Σ wᵢ (zᵢ - mean)(zᵢ - mean)ᵀ."""
        return moments(self.particles, self.log_weights)[1]

    @property
    def ess(self) -> Float[Array, ""]:
        """1/Σ wᵢ²: how many equally weighted particles these are worth."""
        return effective(self.log_weights)

    @property
    def key(self) -> PRNGKeyArray:
        """The key of the next random numbers."""
        return jr.wrap_key_data(jnp.asarray(self.key_data))

    def sample(self, n: int = 1, *, seed: int = 0) -> Float[Array, "m n"]:
        """n of the particles, by their weights."""
        check_count(n, "n")
        return self.particles[host(jr.categorical(jr.key(seed), self.log_weights, shape=(n,)))]


class ParticleFiltered(FilteredStates):
    """The particles of every row, their weights and where each came from."""

    particles: Float[Array, "t k n"]
    log_weights: Float[Array, "t k"]
    ancestors: Int[Array, "t k"]
    """ancestors[t, i]: which particle of row t - 1 the i-th of row t descends from; its own index in a first row."""
    ess: Float[Array, " t"]
    """1/Σ wᵢ² of each row, before resampling."""
    first: Bool[Array, " t"]
    """Where a sequence begins."""

    @property
    def weights(self) -> Float[Array, "t k"]:
        """The weights of each row, which sum to one."""
        return namespace(self.log_weights).exp(self.log_weights)

    def paths(self, n: int = 1, *, seed: int = 0) -> Float[Array, "m t n"]:
        """n whole paths of the state from p(z₁…z_T | x₁…x_T): particles of the last row and their ancestors.

        Far back in time few ancestors are left (`families`); raise the number of particles where that matters.
        """
        check_count(n, "n")
        rng = np.random.default_rng(seed)
        log_weights, parents, particles = (np.asarray(v) for v in (self.log_weights, self.ancestors, self.particles))
        rows = len(parents)
        out = np.empty((n, rows, particles.shape[2]))
        index = np.zeros(n, dtype=int)
        for t in reversed(range(rows)):
            if t == rows - 1 or self.first[t + 1]:  # the end of a sequence
                weights = np.exp(log_weights[t])
                index = rng.choice(len(weights), size=n, p=weights / weights.sum())
            else:
                index = parents[t + 1][index]
            out[:, t] = particles[t, index]
        return out

    def families(self) -> Int[Array, " t"]:
        """How many particles of each row have a descendant at the end of their sequence."""
        parents = np.asarray(self.ancestors)
        alive = np.arange(parents.shape[1])
        out = np.empty(len(parents), dtype=int)
        for t in reversed(range(len(parents))):
            ends = t == len(parents) - 1 or self.first[t + 1]
            alive = np.arange(parents.shape[1]) if ends else np.unique(parents[t + 1][alive])
            out[t] = len(alive)
        return out


def moments(
    particles: Float[Array, "k n"], log_weights: Float[Array, " k"]
) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """The weighted mean and covariance of particles."""
    weights = namespace(log_weights).exp(log_weights)
    mean = weights @ particles
    apart = particles - mean
    return mean, (weights[:, None] * apart).T @ apart


def effective(log_weights: Float[Array, " k"]) -> Float[Array, ""]:
    """1/Σ wᵢ² of normalized weights. Kong, Liu & Wong (1994)."""
    return 1.0 / namespace(log_weights).exp(2 * log_weights).sum()
