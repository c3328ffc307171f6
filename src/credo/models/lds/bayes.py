"""Variational Bayes of linear dynamical systems: q(states) q(F B, Q) q(H D d, R), the product nearest to the posterior.

    y = Cw + e, e ~ N(0, Σ):   Σ ~ IW(ν₀, S₀),   C | Σ ~ MN(M₀, Σ, diag(α)⁻¹),   αⱼ ~ Gamma(a₀, b₀)       (both regressions)

    q(C, Σ)   MN(M, Σ, V⁻¹) IW(ν, S) from expected sums over the states, V = diag(E[α]) + Σ E[wwᵀ]
    q(αⱼ)     Gamma(a₀ + k/2, b₀ + ½ E[cⱼᵀΣ⁻¹cⱼ]): a column that is not needed gets a large αⱼ and goes to 0 (relevance)
    q(z)      ∝ exp E[log p(x, z | C, Σ)]: with Σ̃ = S/ν the law of a system (M, Σ̃), but for E[C ᵀΣ⁻¹C] = MᵀΣ̃⁻¹M + kV⁻¹

Not to know C is a penalty ½k wᵀV⁻¹w on the states. With V⁻¹ = LLᵀ/k it reads as an outcome 0 = Lᵀw + N(0, I), so that the
Kalman filter and smoother for a few more outcomes do the rest, and their log p(x) is most of the bound. The law of the
first state is taken as known. Beal (2003), "Variational algorithms for approximate Bayesian inference", chapter 5;
Barber & Chiappa (2006), "Unified inference for variational Bayesian linear Gaussian state-space models".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from credo.core import params
from credo.core.arrays import Array, special
from credo.core.errors import DataError
from credo.core.linalg import symmetric_part
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.infer.variational_bayes import VariationalBayes, VariationalClimb
from credo.models.conjugate.matrix import (
    MatrixNormalInverseWishart,
    draw_root,
    log_determinants,
    roots,
    solve_each,
    wishart_divergence,
)
from credo.models.lds import passes
from credo.models.lds.batched_matrices import root_semidefinite
from credo.models.lds.belief import LDS, REGRESSIONS
from credo.models.lds.checks import is_singular
from credo.models.lds.gibbs import MatrixPrior, weak_priors
from credo.models.lds.kalman import FilterInputs
from credo.models.lds.learning import Expected, Regression, driven_by, expect, with_columns
from credo.models.sequences import Sequences

SHAPE = RATE = 1e-3
"""a₀ and b₀ of the precision of a column, in units of the noise: next to nothing is known of its size."""


class Unknown(eqx.Module):
    """The prior of a regression, and what of it is unknown."""

    prior: MatrixPrior
    covariance: Float[Array, "k k"]
    """Σ, where that is held."""
    free: tuple[bool, ...] = eqx.field(static=True)
    """Which columns of C are unknown."""
    relevant: tuple[bool, ...] = eqx.field(static=True)
    """Of which of these the precision α is unknown."""
    loose: bool = eqx.field(static=True)
    """Whether Σ is unknown."""

    @property
    def first_precision(self) -> Float[Array, " f"]:
        """E[α] of the free columns to begin with."""
        return self.prior.precision[np.flatnonzero(self.free)]


class RegressionLaw(NamedTuple):
    """q(C, Σ) q(α)."""

    mean: Float[Array, "k m"]
    """M, the columns that are held included."""
    precision: Float[Array, "f f"]
    """V, of the free columns."""
    df: Float[Array, ""]
    scale: Float[Array, "k k"]
    """ν and S; Σ itself, with ν = 1, where it is held."""
    alpha: Float[Array, " f"]
    """E[α] of the free columns."""

    @property
    def noise(self) -> Float[Array, "k k"]:
        """Σ̃ = E[Σ⁻¹]⁻¹."""
        return self.scale / self.df


class SumsOfStates(NamedTuple):
    """What one turn hands to the next: expected sums, about which matrices they are, E[α]; and what is unknown."""

    sums: Expected
    about: dict[str, Float[Array, "k m"]]
    alpha: dict[str, Float[Array, " f"]]
    unknown: dict[str, Unknown]


class Believed(NamedTuple):
    """q of both regressions, and what it was made of."""

    laws: dict[str, RegressionLaw]
    expected: SumsOfStates


@dataclass(frozen=True)
class StateVariationalBayes(VariationalBayes):
    """`VariationalBayes` of an `LDS`, with something held, or with priors of its own.

    Args:
        starts, max_steps, tolerance, members, progress: see `VariationalBayes`.
        fixed: paths that are held, e.g. ("emission",); the start always is.
        dynamics: the prior of (F B) and Q; None is that of `StateGibbs`, around what the belief has.
        outcomes: the prior of (H D d) and R.
        relevance: whether the precision of each column of F, B, H and D is learned, so that what is not needed goes to
            zero; else it is that of the priors.
    """

    needs: ClassVar[type] = LDS

    fixed: tuple[str, ...] = ()
    dynamics: MatrixPrior | None = None
    outcomes: MatrixPrior | None = None
    relevance: bool = True

    def _first(self, belief: LDS, statistics: Sequences) -> SumsOfStates:
        given = weak_priors(belief)
        priors = {"dynamics": self.dynamics or given["dynamics"], "outcomes": self.outcomes or given["outcomes"]}
        return first_sums(belief, super()._first(belief, statistics), priors, self.fixed, self.relevance)

    def _best(
        self, belief: LDS, statistics: Sequences, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> tuple[VariationalClimb, list[VariationalClimb]]:
        held = replace(self, fixed=tuple(params.expand_paths(belief, (*self.fixed, *fixed))))
        return VariationalBayes._best(held, belief, statistics, (), priors, seed)


def first_sums(
    lds: LDS, sums: Expected, priors: dict[str, MatrixPrior], fixed: tuple[str, ...] = (), relevance: bool = True
) -> SumsOfStates:
    """Where the first turn begins: sums about the matrices that the system has."""
    unknown, about = {}, {}
    for which, prior in priors.items():
        c, free, loose = lds.coefficients(which, fixed)
        covariance = getattr(lds, REGRESSIONS[which][1])
        if any(free) and (is_singular(prior.scale) if loose else is_singular(covariance)):
            raise DataError(
                f"the noise of the {which} is singular: what it leaves has no law to average over; add a little to its "
                "diagonal, or hold it and the matrices beside it (StateVariationalBayes(fixed=…))"
            )
        constant = which == "outcomes" and lds.offset is not None and "offset" not in fixed
        relevant = tuple(relevance and not (constant and i == sum(free) - 1) for i in range(sum(free)))
        unknown[which], about[which] = Unknown(prior, covariance, free, relevant, loose), c
    alpha = {which: each.first_precision for which, each in unknown.items()}
    return SumsOfStates(sums, about, alpha, unknown)


def improve(
    lds: LDS, expected: Expected | SumsOfStates, data: Sequences
) -> tuple[Believed, SumsOfStates, Float[Array, ""]]:
    """q of the matrices from expected sums, those under the q of the states that follows, and the bound."""
    if isinstance(expected, Expected):
        expected = first_sums(lds, expected, weak_priors(lds))
    return _improve(lds, expected, data)


@eqx.filter_jit
def _improve(
    lds: LDS, last: SumsOfStates, data: Sequences
) -> tuple[Believed, SumsOfStates, Float[Array, ""]]:
    laws: dict[str, RegressionLaw] = {}
    bound, matrices = np.zeros(()), dict[str, Array]()
    for which, unknown in last.unknown.items():
        sums = getattr(last.sums, which)
        laws[which] = law = updated(unknown, sums, last.about[which], last.alpha[which])
        bound = bound + 0.5 * sums.rows * _log_excess(unknown, law) - divergence(unknown, law)
        matrices |= lds.matrices_of(which, law.mean, law.noise)
    given = passes.filter_inputs(changed(lds, **matrices), data)
    told_by, constant = with_doubt(given, laws, last.unknown, data)
    sums, log_p = expect(given, data, told_by)
    about = {which: law.mean for which, law in laws.items()}
    alpha = {which: law.alpha for which, law in laws.items()}
    after = SumsOfStates(sums, about, alpha, last.unknown)
    return Believed(laws, last), after, bound + constant + log_p


# -- q of a regression -------------------------------------------------------------------------------------------------


def updated(unknown: Unknown, sums: Regression, about: Float[Array, "k m"], alpha: Float[Array, " f"]) -> RegressionLaw:
    """q(C, Σ) from sums of what `about` leaves of y, and q(α) after it."""
    k, chosen, prior = len(about), np.flatnonzero(unknown.free), unknown.prior
    scale, mean, df, precision = sums.yy, about, prior.df + sums.rows, jnp.zeros((0, 0))
    step = origin = jnp.zeros((k, 0))
    if len(chosen):
        origin = prior.mean[:, chosen] - about[:, chosen]
        precision = jnp.diag(alpha) + sums.ww[np.ix_(chosen, chosen)]
        mixed = origin * alpha + sums.yw[:, chosen]
        step = solve_each(roots(precision), mixed.T).T
        scale = scale + (origin * alpha) @ origin.T - step @ mixed.T
        mean = with_columns(about, about[:, chosen] + step, unknown.free)
    scale, df = (prior.scale + symmetric_part(scale), df) if unknown.loose else (unknown.covariance, jnp.ones(()))
    law = RegressionLaw(mean, precision, df, scale, alpha)
    return law._replace(alpha=_relevances(unknown, _energies(unknown, law))) if len(chosen) else law


def _energies(unknown: Unknown, law: RegressionLaw) -> Float[Array, " f"]:
    """E[(cⱼ - mⱼ)ᵀ Σ⁻¹ (cⱼ - mⱼ)] of each free column, about the prior's mean."""
    chosen = np.flatnonzero(unknown.free)
    apart, inverse = law.mean[:, chosen] - unknown.prior.mean[:, chosen], _inverse(law.precision)
    return (apart * solve_each(roots(law.noise), apart)).sum(0) + len(law.scale) * jnp.diagonal(inverse)


def _relevances(unknown: Unknown, energies: Float[Array, " f"]) -> Float[Array, " f"]:
    """E[α]: of q where it is unknown, else the prior's."""
    k = unknown.covariance.shape[0]
    return jnp.where(
        np.array(unknown.relevant), (SHAPE + 0.5 * k) / (RATE + 0.5 * energies), unknown.first_precision
    )


def _inverse(precision: Float[Array, "f f"]) -> Float[Array, "f f"]:
    return solve_each(roots(precision), jnp.eye(len(precision)))


def divergence(unknown: Unknown, law: RegressionLaw) -> Float[Array, ""]:
    """KL(q(C, Σ) q(α) ‖ p(C, Σ, α))."""
    prior, k, total = unknown.prior, len(law.scale), jnp.zeros(())
    if unknown.loose:
        total = wishart_divergence(law.df[None], law.scale[None], jnp.asarray(prior.df)[None], prior.scale[None]).sum()
    if not any(unknown.free):
        return total
    energies, f = _energies(unknown, law), len(law.alpha)
    shape, rate, by = SHAPE + 0.5 * k, RATE + 0.5 * energies, special(energies)
    log_alpha = jnp.where(np.array(unknown.relevant), by.digamma(shape) - jnp.log(rate), jnp.log(law.alpha))
    log_det = log_determinants(roots(law.precision))
    total = total + 0.5 * (k * (log_det - log_alpha.sum() - f) + (law.alpha * energies).sum())
    gammas = SHAPE * jnp.log(rate / RATE) - by.gammaln(shape) + by.gammaln(SHAPE)
    gammas = gammas + (shape - SHAPE) * by.digamma(shape) - (rate - RATE) * shape / rate
    return total + jnp.where(np.array(unknown.relevant), gammas, 0.0).sum()


def _log_excess(unknown: Unknown, law: RegressionLaw) -> Float[Array, ""]:
    """E[log|Σ⁻¹|] - log|E[Σ⁻¹]|."""
    if not unknown.loose:
        return jnp.zeros(())
    k = len(law.scale)
    return special(law.df).digamma(0.5 * (law.df - np.arange(k))).sum() - k * jnp.log(0.5 * law.df)


# -- q of the states ---------------------------------------------------------------------------------------------------


def with_doubt(
    given: FilterInputs, laws: dict[str, RegressionLaw], unknown: dict[str, Unknown], data: Sequences
) -> tuple[FilterInputs, Float[Array, ""]]:
    """What the filter is given, with 0 = Lᵀw + N(0, I) for both regressions; and what the bound has besides."""
    system, n = given.system, given.start.mean.shape[0]
    t, (p, r) = len(data.x), (system.offset.shape[-1], system.observation_noise)
    fresh, ones = given.begins & data.real, np.ones((t, 1))
    ahead = jnp.roll(driven_by(data), -1, axis=0)  # the last leads nowhere
    leads = jnp.concatenate([(data.real & ~fresh)[1:], np.zeros(1, bool)])
    known = {"dynamics": ahead, "outcomes": jnp.concatenate([driven_by(data), ones], axis=1)}
    where = {"dynamics": leads, "outcomes": jnp.any(data.seen, axis=1)}
    maps, levels, marks, constant = [system.emission], [jnp.broadcast_to(system.offset, (t, p))], [data.seen], 0.0
    for which, law in laws.items():
        up = _root_of_doubt(unknown[which], law).T
        maps.append(up[:n, :n])
        levels.append(known[which] @ up[:n, n:].T)
        marks.append(jnp.broadcast_to(where[which][:, None], (t, n)))
        rest = jnp.sum((known[which] @ up[n:, n:].T) ** 2, axis=1)
        constant = constant + 0.5 * (where[which] @ (n * LOG_2PI - rest))
    noise = jnp.eye(p + 2 * n).at[:p, :p].set(r)
    wide = system._replace(
        emission=jnp.concatenate(maps), observation_noise=noise, offset=jnp.concatenate(levels, axis=1)
    )
    x = jnp.concatenate([data.x, np.zeros((t, 2 * n))], axis=1)
    return given._replace(system=wide, x=x, seen=jnp.concatenate(marks, axis=1)), constant


def _root_of_doubt(unknown: Unknown, law: RegressionLaw) -> Float[Array, "m m"]:
    """Lower triangular L with LLᵀ = kV⁻¹, 0 for what is held."""
    m, chosen = law.mean.shape[1], np.flatnonzero(unknown.free)
    if not len(chosen):
        return jnp.zeros((m, m))
    wide = jnp.zeros((m, m)).at[np.ix_(chosen, chosen)].set(len(law.scale) * _inverse(law.precision))
    return root_semidefinite(wide)


# -- what comes of it --------------------------------------------------------------------------------------------------


def center(lds: LDS, q: Believed) -> LDS:
    """The system at the mean of q."""
    new = {}
    for which, law in q.laws.items():
        k, loose = len(law.scale), q.expected.unknown[which].loose
        new |= lds.matrices_of(which, law.mean, law.scale / (law.df - k - 1) if loose else law.scale)
    return changed(lds, **{name: np.asarray(value) for name, value in new.items()})


@eqx.filter_jit
def drawn_from(keys: jax.Array, lds: LDS, q: Believed) -> LDS:
    """Systems drawn from q."""

    def one(key: PRNGKeyArray) -> dict[str, Array]:
        new = dict[str, Array]()
        for own, (which, law) in zip(jr.split(key, len(q.laws)), q.laws.items(), strict=True):
            new |= lds.matrices_of(which, *_drawn(own, law, q.expected.unknown[which]))
        return params.learnable(changed(lds, **new))

    return jax.vmap(lambda values: params.replace(lds, values))(jax.vmap(one)(keys))


def _drawn(key: PRNGKeyArray, law: RegressionLaw, unknown: Unknown) -> tuple[Array, Array]:
    """(C, Σ)."""
    k_noise, k_maps = jr.split(key)
    half = draw_root(k_noise, law.df[None], law.scale[None]) if unknown.loose else root_semidefinite(law.scale)[None]
    mean, chosen = law.mean, np.flatnonzero(unknown.free)
    if len(chosen):
        own = MatrixNormalInverseWishart(mean[None][:, :, chosen], law.precision[None], law.df[None], law.scale[None])
        mean = with_columns(mean, own.draw_given(k_maps, half)[0], unknown.free)
    return mean, symmetric_part(half[0] @ half[0].T)
