"""What a method of `credo.infer` sees of a linear model: the log density of everything that is unknown.

    log p(y, θ, …) = log p(y | θ, σ²) + log p(w) + log p(b) + log p(σ²) + hyperpriors

Gaussian noise enters by its sums (`Statistics`): an evaluation costs O(q²), however many rows there were. θ = (b, w)
is measured from a ridge solution in units of its uncertainty, so that no method has to know the units of the inputs.
Where σ² is unknown (`InverseGamma`) the priors of b and w are in units of σ, as in `belief`.
"""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy import stats
from jaxtyping import Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import Array, is_traced, namespace
from credo.core.checks import ArrayLike
from credo.core.errors import DataError
from credo.core.gaussian import Gaussian
from credo.core.linalg import factorize, log_determinant, solve, solve_upper
from credo.core.padding import padded
from credo.core.params import positive
from credo.core.special import LOG_2PI
from credo.infer.priors import Prior
from credo.infer.target import ParameterSpace, Target
from credo.models.linear import collapsed
from credo.models.linear.belief import Linear
from credo.models.linear.priors import ARD, Intercept, Isotropic, prior_root
from credo.models.linear.shrinkage import Hierarchical, ScaleMixture
from credo.models.linear.statistics import Rows, Seen, Statistics
from credo.models.noise import Noise, noise_of

Priors = dict[str, Prior]


class Normals(eqx.Module):
    """N(mean, precision⁻¹), ready to be evaluated many times."""

    mean: Float[Array, " p"]
    precision: Float[Array, "p p"]
    log_scale: Float[Array, ""]

    def log_prob(self, weights: Float[Array, " p"]) -> Float[Array, ""]:
        """The log density."""
        gap = weights - self.mean
        return self.log_scale - 0.5 * gap @ self.precision @ gap


class Whitened(ParameterSpace):
    """A space in which the coordinates v of θ = (b, w) = center + spread v are round, as far as θ is Gaussian."""

    center: Float[Array, " r"] = eqx.field(kw_only=True)
    spread: Float[Array, "r r"] = eqx.field(kw_only=True)

    def tree(self, vector: Float[Array, "*n k"]) -> dict[str, Array]:
        """The numbers in natural units."""
        return self._with(super().tree(vector), lambda v: self.center + v @ self.spread.T)

    def vector(self, tree: dict[str, Array]) -> Float[Array, "*n k"]:
        """The coordinates of numbers in natural units."""
        return super().vector(self._with(tree, lambda theta: solve_upper(self.spread.T, (theta - self.center).T).T))

    def _with(self, numbers: dict[str, Array], change: Callable[[Array], Array]) -> dict[str, Array]:
        names = [name for name in ("intercept", "weights") if name in numbers]
        if not names:
            return numbers
        parts = [numbers[name][..., None] if name == "intercept" else numbers[name] for name in names]
        joined = change(namespace(parts).concatenate(parts, axis=-1))
        changed = {"intercept": joined[..., 0]} if "intercept" in names else {}
        if "weights" in names:
            changed["weights"] = joined[..., len(changed) :]
        return {**numbers, **changed}

    @property
    def log_volume(self) -> Float[Array, ""]:
        """log |∂θ/∂v|."""
        return namespace(self.spread).log(self.spread.diagonal()).sum()


class Unknowns(eqx.Module):
    """What a density needs of a model; the paths of its learnable numbers are the model's."""

    prior: Prior
    intercept: Intercept | None
    noise: ArrayLike = positive()

    @property
    def noise_law(self) -> Noise:
        """The noise as an object that knows itself."""
        return noise_of(self.noise)

    def at(self, numbers: Mapping[str, Array]) -> "Unknowns":
        """With the hyperparameters among the numbers in their places."""
        own = params.learnable(self)
        return params.replace(self, {path: value for path, value in numbers.items() if path in own})

    def settle(self, numbers: Mapping[str, Array]) -> tuple["Unknowns", Float[Array, " q"], Float[Array, ""]]:
        """With the numbers in their places: hyperparameters, θ = (b - reference, w), and σ² or the noise's scale."""
        now = self.at(numbers)
        noise = numbers["noise"] if now.noise_law.integrated else now.noise_law.parameter
        w = numbers.get("weights", np.zeros(0))
        if isinstance(now.prior, Hierarchical):
            w = now.unit(noise) * now.prior.weights(self.latent(numbers))
        if self.intercept is not None:
            w = jnp.concatenate([jnp.reshape(numbers["intercept"] - self.intercept.mean, (1,)), w])
        return now, w, noise

    def latent(self, numbers: Mapping[str, Array]) -> dict[str, Array]:
        """The prior's own numbers."""
        assert isinstance(self.prior, Hierarchical)
        names = [*self.prior.latent(1), *(["z"] if "prior.z" in numbers else [])]
        return {name: numbers[f"prior.{name}"] for name in names}

    def scales(self, numbers: Mapping[str, Array]) -> Float[Array, " q"]:
        """The standard deviations of θ under a scale mixture."""
        assert isinstance(self.prior, ScaleMixture)
        w = self.prior.scales(self.latent(numbers))
        return w if self.intercept is None else jnp.concatenate([jnp.sqrt(self.intercept.variance)[None], w])

    def unit(self, noise: Float[Array, ""]) -> Float[Array, ""]:
        """What the priors of b and w are measured in: σ where it is unknown, else 1."""
        return jnp.sqrt(noise) if self.noise_law.integrated else jnp.ones(())

    def log_prior(
        self, numbers: Mapping[str, Array], theta: Float[Array, " q"], noise: Float[Array, ""]
    ) -> Float[Array, ""]:
        """log p(b) + log p(w) + log p(σ²)."""
        unit, value = self.unit(noise), jnp.zeros(())
        w = theta if self.intercept is None else theta[1:]
        if self.intercept is not None:
            value = value + stats.norm.logpdf(theta[0], scale=unit * jnp.sqrt(self.intercept.variance))
        if isinstance(self.prior, Hierarchical):
            value = value + jnp.sum(self.prior.log_prob(self.latent(numbers)))
            value = value + jnp.sum(stats.norm.logpdf(numbers.get("prior.z", jnp.zeros(0))))
        else:
            center = self.prior.mean if isinstance(self.prior, Normals) else jnp.zeros(())
            scaled = center + (w - center) / unit
            value = value + jnp.sum(self.prior.log_prob(scaled)) - w.size * jnp.log(unit)
        return value + self.noise_law.log_prior(noise)


def log_likelihood(
    law: Noise, theta: Float[Array, "*s q"], noise: Float[Array, "*s"], statistics: Seen
) -> Float[Array, "*s"]:
    """log p(y | θ, noise) from sums, or from the rows where the noise has heavy tails."""
    xp = namespace(law, theta, noise, statistics)
    if isinstance(statistics, Statistics):
        misfit = xp.maximum(statistics.residual(theta), 0.0) / noise
        return 0.5 * (statistics.log_weight - statistics.n * xp.log(2 * np.pi * noise) - misfit)
    real = statistics.weights > 0
    w = xp.where(real, statistics.weights, 1.0)
    residual = xp.sqrt(w) * (statistics.y - theta @ statistics.design.T)
    log_rows = law.with_parameter(noise[..., None]).log_prob(residual) + 0.5 * xp.log(w)
    return xp.where(real, log_rows, 0.0).sum(-1)


def log_joint(
    numbers: dict[str, Array],
    unknowns: Unknowns,
    statistics: Seen,
    priors: Priors,
    log_volume: Float[Array, ""],
) -> Float[Array, ""]:
    """log p(y, θ, …) as a density of the round coordinates of θ."""
    now, theta, noise = unknowns.settle(numbers)
    value = log_likelihood(now.noise_law, theta, noise, statistics) + now.log_prior(numbers, theta, noise)
    return value + log_volume + params.log_prior(now, priors)


def log_collapsed(
    numbers: dict[str, Array], unknowns: Unknowns, statistics: Statistics, priors: Priors
) -> Float[Array, ""]:
    """log p(y, …) of the numbers of a scale mixture, with the weights and σ² integrated out."""
    now = unknowns.at(numbers)
    value = collapsed.given_scales(now.noise_law, now.scales(numbers), statistics).log_evidence
    assert isinstance(now.prior, Hierarchical)
    return value + jnp.sum(now.prior.log_prob(now.latent(numbers))) + params.log_prior(now, priors)


# -- from a model to a target, and back --------------------------------------------------------------------------


def target(belief: Linear, statistics: Seen, priors: Mapping[str, Prior] | None = None) -> Target:
    """log p(y, …) of everything unknown; `priors` by path make hyperparameters unknown, too."""
    hyper = {path: p for path, p in params.check_priors(belief, priors).items() if p is not None}
    if belief.weights is not None and belief.seen is None:
        raise DataError("a point estimate has no posterior to go on from; condition the model without using=")
    seen = belief._with(statistics)
    if isinstance(seen, Rows) and not is_traced(seen):  # so that growing data do not recompile
        seen = Rows(*padded(seen.design, seen.y, seen.weights)[:3])
    shifted = int(belief.intercept is not None)
    p = seen.width - shifted
    unknowns = Unknowns(_ready(belief.prior, p), belief.intercept, belief.noise)
    values = {path: params.learnable(belief)[path] for path in hyper}
    constraints: dict[str, object] = {path: params.constraint_of(belief, path) for path in hyper}
    if isinstance(belief.prior, Hierarchical):
        own = {f"prior.{name}": value for name, value in belief.prior.latent(p).items()}
        taken = [path for path in own if path in params.learnable(belief)]
        if taken:
            raise DataError(f"the prior has a learnable field and a number of its own at {taken[0]!r}; rename one")
        values |= own
        constraints |= {f"prior.{name}": kind for name, kind in belief.prior.constraints.items()}
        if isinstance(belief.prior, ScaleMixture):
            if isinstance(seen, Statistics):
                return Target(ParameterSpace.of(values, constraints), log_collapsed, (unknowns, seen, hyper))
            values["prior.z"] = np.zeros(p)
    center, spread, noise = _ridge(seen, noise_of(belief.noise))
    if isinstance(belief.prior, Hierarchical):
        # The weights follow from other numbers: only the intercept has a coordinate of its own.
        norms = (spread[:shifted] ** 2).sum(1) ** 0.5
        center, spread = center[:shifted], namespace(norms).diag(norms)
    else:
        values["weights"] = center[shifted:]
    if shifted:
        center = center + belief.shift(len(center))
        values["intercept"] = center[0]
    if belief.noise_law.integrated:
        values["noise"], constraints["noise"] = noise, "positive"
    plain = ParameterSpace.of(values, constraints)
    space = Whitened(plain.template, plain.slots, center=center, spread=spread)
    return Target(space, log_joint, (unknowns, seen, hyper, space.log_volume))


@eqx.filter_jit
def settled(
    key: PRNGKeyArray, belief: Unknowns, numbers: dict[str, Array], statistics: Statistics | None
) -> tuple[Float[Array, "s q"], Float[Array, " s"]]:
    """θ and the noise of every draw of the numbers; `statistics` are needed where they had been integrated out."""

    def one(key: PRNGKeyArray, each: dict[str, Array]) -> tuple[Array, Array]:
        if statistics is None:
            return belief.settle(each)[1:]
        now = belief.at(each)
        return collapsed.draw(key, now.noise_law, now.scales(each), statistics)

    return jax.vmap(one)(jr.split(key, len(jax.tree.leaves(numbers)[0])), numbers)


def _ready(prior: Prior, p: int) -> Prior:
    """The prior, checked against the number of features; a Gaussian is factorized once and for all."""
    if not isinstance(prior, Isotropic | ARD | Gaussian):
        return prior
    mean, root = prior_root(prior, None, p)
    if not isinstance(prior, Gaussian):
        return prior
    return Normals(mean, root @ root.T, 0.5 * (log_determinant(root) - p * LOG_2PI))


def _ridge(statistics: Seen, law: Noise) -> tuple[Float[Array, " q"], Float[Array, "q q"], Float[Array, ""]]:
    """A weakly regularized least squares, the root of its covariance, and the noise variance that remains."""
    sums = statistics.summed() if isinstance(statistics, Rows) else statistics
    xp = namespace(sums, law)
    size = xp.sqrt(sums.gram.diagonal())
    size = xp.where(size > 0, size, 1.0)
    # In units in which every column has length one.
    unit = sums.scaled(1 / size)
    root = factorize(unit.gram + 1e-3 * np.eye(len(size))).root
    center = solve(root, unit.cross)
    noise = law.guess(sums.n, xp.maximum(unit.residual(center), 1e-6 * sums.square))
    return center / size, xp.sqrt(noise) * solve_upper(root, np.eye(len(size))) / size[:, None], noise
