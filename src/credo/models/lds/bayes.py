"""Variational Bayes of linear dynamical systems: q(states) q(F B, Q) q(H D d, R), the product nearest to the posterior.

    y = Cw + e, e ~ N(0, Σ):   Σ ~ IW(ν₀, S₀),   C | Σ ~ MN(M₀, Σ, diag(α)⁻¹),   αⱼ ~ Gamma(a₀, b₀)    (both)

    q(C, Σ)   MN(M, Σ, V⁻¹) IW(ν, S) from expected sums over the states, V = diag(E[α]) + Σ E[wwᵀ]
    q(αⱼ)     Gamma(a₀ + k/2, b₀ + ½ E[cⱼᵀΣ⁻¹cⱼ]): a column that is not needed gets a large αⱼ and goes to 0 (relevance)
    q(z)      ∝ exp E[log p(x, z | C, Σ)]: the law of the states of a system with C = M and Σ⁻¹ = E[Σ⁻¹] = νS⁻¹, and a
              term -½k wᵀV⁻¹w for each row, as E[CᵀΣ⁻¹C] = MᵀE[Σ⁻¹]M + kV⁻¹

The law of the first state is taken as known. Beal (2003), "Variational algorithms for approximate Bayesian inference",
chapter 5; Barber & Chiappa (2006), "Unified inference for variational Bayesian linear Gaussian state-space models".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float
from scipy.special import digamma, gammaln

from credo.core import params
from credo.core.arrays import Array
from credo.core.belief import Belief
from credo.core.errors import DataError
from credo.core.linalg import symmetric_part
from credo.core.pytrees import changed
from credo.infer.em import PLAIN
from credo.infer.mcmc.stacked import conditioned_one_by_one
from credo.infer.variational_bayes import VariationalBayes, VariationalClimb
from credo.models.conjugate.matrix import (
    MatrixNormalInverseWishart,
    log_determinants,
    roots,
    solve_each,
    wishart_divergence,
)
from credo.models.lds import passes
from credo.models.lds.banded_states import Quadratic, state_chain
from credo.models.lds.belief import LDS, REGRESSIONS
from credo.models.lds.checks import is_singular
from credo.models.lds.gibbs import DrawnLDS, MatrixPrior, weak_priors
from credo.models.lds.learning import (
    Expected,
    Moved,
    Regression,
    driven_by,
    expected_sums,
    following_rows,
    total,
    with_columns,
)
from credo.models.sequences import Sequences

SHAPE, RATE = 0.1, 1e-3
"""a₀ and b₀ of the precision of a column, in units of the noise: little is known of its size. A shape near 0 would cost
each column -log a₀ of the bound, needed or not."""

FARTHEST = 50.0
"""|log E[α]| of a guess is at most this."""
SKEW = 1e-12
"""Eigenvalues of a matrix of correlations above this, below zero, are rounding."""


class Unknown(eqx.Module):
    """The prior of a regression, and what of it is unknown."""

    prior: MatrixPrior
    covariance: Float[Array, "k k"]
    """Σ, where that is held."""
    free: tuple[bool, ...] = eqx.field(static=True)
    """Which columns of C are unknown."""
    relevant: tuple[bool, ...] = eqx.field(static=True)
    """Of which of these the precision α is unknown, too."""
    loose: bool = eqx.field(static=True)
    """Whether Σ is unknown."""

    @property
    def columns(self) -> np.ndarray:
        """The free columns."""
        return np.flatnonzero(self.free)


class RegressionLaw(NamedTuple):
    """q(C, Σ) q(α)."""

    mean: Float[Array, "k m"]
    """M, the columns that are held included."""
    precision: Float[Array, "f f"]
    """V, of the free columns."""
    df: Float[Array, ""]
    scale: Float[Array, "k k"]
    """ν and S; Σ itself and 1 where it is held."""
    alpha: Float[Array, " f"]
    """E[α] of the free columns."""

    @property
    def noise(self) -> Float[Array, "k k"]:
        """E[Σ⁻¹]⁻¹."""
        return self.scale / self.df

    @property
    def inverse(self) -> Float[Array, "f f"]:
        """V⁻¹."""
        return solve_each(roots(self.precision), np.eye(len(self.precision)))


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
    """`VariationalBayes` of an `LDS` of which something is held, or with priors of its own.

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
        weak = weak_priors(belief)
        priors = {"dynamics": self.dynamics or weak["dynamics"], "outcomes": self.outcomes or weak["outcomes"]}
        return begin(belief, statistics, priors, self.fixed, self.relevance)

    def _best(
        self, belief: LDS, statistics: Sequences, fixed: Sequence[str], priors: Mapping[str, object], seed: int
    ) -> tuple[VariationalClimb, list[VariationalClimb]]:
        held = replace(self, fixed=tuple(params.expand_paths(belief, (*self.fixed, *fixed))))
        return VariationalBayes._best(held, belief, statistics, (), priors, seed)


# -- the turns ---------------------------------------------------------------------------------------------------------


def begin(
    lds: LDS,
    data: Sequences,
    priors: Mapping[str, MatrixPrior] | None = None,
    fixed: tuple[str, ...] = (),
    relevance: bool = True,
) -> SumsOfStates:
    """Where the first turn begins: the states at the matrices that the system has."""
    if lds._varies():
        raise DataError("variational Bayes needs matrices that are the same at all times; use credo.infer.NUTS()")
    unknown, about, alpha = {}, {}, {}
    for which, prior in (weak_priors(lds) if priors is None else priors).items():
        c, free, loose = lds.coefficients(which, fixed)
        level = which == "outcomes" and lds.offset is not None and "offset" not in fixed
        relevant = tuple(relevance and not (level and i == sum(free) - 1) for i in range(sum(free)))
        unknown[which] = Unknown(prior, getattr(lds, REGRESSIONS[which][1]), free, relevant, loose)
        about[which], alpha[which] = c, prior.precision[np.flatnonzero(free)]
    _check_inverses(lds, unknown)
    sums, _ = _states(lds, data.trimmed(), ())
    return SumsOfStates(sums, about, alpha, unknown)


def _check_inverses(lds: LDS, unknown: Mapping[str, Unknown]) -> None:
    """`DataError` where something is known for certain: the law of the states is computed by precisions."""
    named = {"start_covariance": lds.start_covariance}
    for which, each in unknown.items():
        named |= {REGRESSIONS[which][1]: each.covariance}
        named |= {f"the scale of the prior of the {which}": each.prior.scale} if each.loose else {}
    for name, value in named.items():
        if is_singular(value):
            raise DataError(
                f"variational Bayes needs {name} to be positive definite, found a singular one; add a little to its "
                "diagonal, or use StateGibbs()"
            )


@np.errstate(all="ignore")  # a guess may have no law, which the bound says
def improve(lds: LDS, last: SumsOfStates, data: Sequences) -> tuple[Believed, SumsOfStates, Float[Array, ""]]:
    """q of the matrices from expected sums, those under the q of the states that follows, and the bound.

    The bound is -∞ for sums that have no such law.
    """
    data, laws = data.trimmed(), dict[str, RegressionLaw]()
    bound, matrices = 0.0, dict[str, Array]()
    for which, unknown in last.unknown.items():
        sums = getattr(last.sums, which)
        laws[which] = law = updated(unknown, sums, last.about[which], last.alpha[which])
        bound += 0.5 * sums.rows * _log_excess(unknown, law) - divergence(unknown, law)
        matrices |= lds.matrices_of(which, law.mean, law.noise)
    try:
        sums, log_z = _states(changed(lds, **matrices), data, _doubts(laws, last.unknown, data))
    except np.linalg.LinAlgError:
        return Believed(laws, last), last, np.asarray(-np.inf)
    about = {which: law.mean for which, law in laws.items()}
    alpha = {which: law.alpha for which, law in laws.items()}
    return Believed(laws, last), SumsOfStates(sums, about, alpha, last.unknown), np.asarray(bound + log_z)


def _states(lds: LDS, data: Sequences, doubts: tuple[Quadratic, ...]) -> tuple[Expected, float]:
    """The expected sums over the states, and the log of what p(x, z) integrates to."""
    given = passes.filter_inputs(lds, data)
    chain, f = state_chain(given.start, given.system, data, doubts), np.asarray(lds.transition)
    m, follows = chain.mean, following_rows(given, data)
    before, after = total(follows, chain.covariance[:-1]), total(follows, chain.covariance[1:])
    with_last = total(follows, chain.pairs) - f @ before
    own = after - f @ total(follows, chain.pairs).T - with_last @ f.T
    left = m[1:] - m[:-1] @ f.T - np.broadcast_to(given.system.drift, m.shape)[1:]
    return expected_sums(given, data, (m, chain.covariance), Moved(left, symmetric_part(own), with_last)), chain.log_z


def _doubts(
    laws: Mapping[str, RegressionLaw], unknown: Mapping[str, Unknown], data: Sequences
) -> tuple[Quadratic, ...]:
    """The terms -½k wᵀV⁻¹w of the states that lead to another, and of those that show something."""
    fresh, inputs = np.asarray(data.first), np.asarray(driven_by(data))
    leads = np.append(~fresh[1:], False)
    known: dict[str, tuple[np.ndarray, np.ndarray]] = {
        "dynamics": (np.roll(inputs, -1, axis=0), leads),
        "outcomes": (np.column_stack([inputs, np.ones(len(inputs))]), np.asarray(np.any(data.seen, axis=1))),
    }
    out = []
    for which, law in laws.items():
        place = np.eye(law.mean.shape[1])[:, unknown[which].columns]
        fixed, rows = known[which]
        out.append(Quadratic(len(law.scale) * place @ law.inverse @ place.T, fixed, rows))
    return tuple(out)


# -- extrapolation -----------------------------------------------------------------------------------------------------


def extrapolated(
    turns: tuple[SumsOfStates, SumsOfStates, SumsOfStates], longest: float
) -> tuple[SumsOfStates, float] | None:
    """The sums, and log E[α], in the scheme of `EM`; None where they would not be sums of squares."""
    (u, middle, last), end = (_numbers(each, turns[-1].about) for each in turns), turns[-1]
    r = [b - a for a, b in zip(u, middle, strict=True)]
    v = [c - 2 * b + a for a, b, c in zip(u, middle, last, strict=True)]
    sizes = [max(np.abs(c).max(initial=0.0), np.finfo(float).tiny) for c in last]
    top, bottom = (np.sqrt(sum(((a / s) ** 2).sum() for a, s in zip(each, sizes, strict=True))) for each in (r, v))
    far = min(float(top / bottom), longest) if bottom > 0 else 0.0
    while far > PLAIN:
        numbers = iter([a + 2 * far * b + far**2 * c for a, b, c in zip(u, r, v, strict=True)])
        sums, alpha, fine = end.sums, dict[str, Float[Array, " f"]](), True
        for which in end.about:
            old = getattr(sums, which)
            new = Regression(old.rows, next(numbers), next(numbers), next(numbers))
            sums, alpha[which] = sums._replace(**{which: new}), np.exp(np.clip(next(numbers), -FARTHEST, FARTHEST))
            fine = fine and _are_squares(new)
        if fine:
            return end._replace(sums=sums, alpha=alpha), far
        far = 0.5 * (far + 1)
    return None


def _numbers(turn: SumsOfStates, about: Mapping[str, Float[Array, "k m"]]) -> list[np.ndarray]:
    """The sums of what other matrices leave, and log E[α]."""
    out = list[np.ndarray]()
    for which, c in turn.about.items():
        sums, apart = getattr(turn.sums, which), c - about[which]
        cross = apart @ sums.yw.T
        yy = sums.yy + cross + cross.T + apart @ sums.ww @ apart.T
        out += [yy, sums.yw + apart @ sums.ww, sums.ww, np.log(turn.alpha[which])]
    return out


def _are_squares(sums: Regression) -> bool:
    """Whether Σ (y, w)(y, w)ᵀ may be one."""
    whole = np.block([[sums.yy, sums.yw], [sums.yw.T, sums.ww]])
    variances = np.diagonal(whole)
    size = np.sqrt(np.where(variances > 0, variances, 1.0))
    return bool(np.all(variances >= 0)) and bool(np.linalg.eigvalsh(whole / np.outer(size, size))[0] > -SKEW)


# -- q of a regression -------------------------------------------------------------------------------------------------


def updated(unknown: Unknown, sums: Regression, about: Float[Array, "k m"], alpha: Float[Array, " f"]) -> RegressionLaw:
    """q(C, Σ) from sums of what `about` leaves of y, and q(α) after it."""
    prior, chosen = unknown.prior, unknown.columns
    origin = prior.mean[:, chosen] - about[:, chosen]
    precision = np.diag(alpha) + sums.ww[np.ix_(chosen, chosen)]
    mixed = origin * alpha + sums.yw[:, chosen]
    step = solve_each(roots(precision), mixed.T).T
    scatter = sums.yy + (origin * alpha) @ origin.T - step @ mixed.T
    scale, df = unknown.covariance, np.ones(())
    if unknown.loose:
        scale, df = prior.scale + symmetric_part(scatter), np.asarray(prior.df + sums.rows)
    mean = with_columns(about, about[:, chosen] + step, unknown.free) if len(chosen) else about
    law = RegressionLaw(mean, precision, df, scale, alpha)
    shape, rate = _relevances(unknown, law)
    return law._replace(alpha=np.where(unknown.relevant, shape / rate, alpha))


def _energies(unknown: Unknown, law: RegressionLaw) -> Float[Array, " f"]:
    """E[(cⱼ - mⱼ)ᵀ Σ⁻¹ (cⱼ - mⱼ)] of each free column, about the prior's mean."""
    apart = law.mean[:, unknown.columns] - unknown.prior.mean[:, unknown.columns]
    return (apart * solve_each(roots(law.noise), apart)).sum(0) + len(law.scale) * np.diagonal(law.inverse)


def _relevances(unknown: Unknown, law: RegressionLaw) -> tuple[float, Float[Array, " f"]]:
    """Shape and rates of q(α)."""
    return SHAPE + 0.5 * len(law.scale), RATE + 0.5 * _energies(unknown, law)


def divergence(unknown: Unknown, law: RegressionLaw) -> float:
    """KL(q(C, Σ) q(α) ‖ p(C, Σ, α))."""
    prior, k, f = unknown.prior, len(law.scale), len(law.alpha)
    relevant, (shape, rate) = np.array(unknown.relevant, bool), _relevances(unknown, law)
    log_alpha = np.where(relevant, digamma(shape) - np.log(rate), np.log(law.alpha))
    own = k * (log_determinants(roots(law.precision)) - log_alpha.sum() - f) + law.alpha @ _energies(unknown, law)
    gammas = SHAPE * np.log(rate / RATE) - gammaln(shape) + gammaln(SHAPE)
    gammas = gammas + (shape - SHAPE) * digamma(shape) - (rate - RATE) * shape / rate
    divergence = 0.5 * own + gammas[relevant].sum()
    if unknown.loose:
        df = np.atleast_1d(np.asarray(prior.df, dtype=float))
        divergence += wishart_divergence(law.df[None], law.scale[None], df, prior.scale[None])[0]
    return float(divergence)


def _log_excess(unknown: Unknown, law: RegressionLaw) -> float:
    """E[log|Σ⁻¹|] - log|E[Σ⁻¹]|."""
    k = len(law.scale)
    return float(digamma(0.5 * (law.df - np.arange(k))).sum() - k * np.log(0.5 * law.df)) if unknown.loose else 0.0


# -- what comes of it --------------------------------------------------------------------------------------------------


def center(lds: LDS, q: Believed) -> LDS:
    """The system at the mean of q."""
    new = dict[str, Array]()
    for which, law in q.laws.items():
        excess = law.df - len(law.scale) - 1 if q.expected.unknown[which].loose else 1.0
        new |= lds.matrices_of(which, law.mean, law.scale / excess)
    return changed(lds, **new)


def drawn_from(keys: jax.Array, lds: LDS, q: Believed) -> LDS:
    """Systems drawn from q, along a leading axis."""
    seeds = np.random.default_rng(np.asarray(jr.key_data(keys)).ravel()).integers(2**31, size=len(q.laws))
    new = dict[str, Array]()
    for (which, law), seed in zip(q.laws.items(), seeds, strict=True):
        maps, noises = _drawn(law, q.expected.unknown[which], len(keys), int(seed))
        each = [lds.matrices_of(which, c, noise) for c, noise in zip(maps, noises, strict=True)]
        new |= {name: np.stack([matrices[name] for matrices in each]) for name in each[0]}
    every = jax.tree.map(lambda a: np.broadcast_to(a, (len(keys), *np.shape(a))), lds)
    return changed(every, **new)


def _drawn(law: RegressionLaw, unknown: Unknown, n: int, seed: int) -> tuple[Array, Array]:
    """n draws of C and Σ."""
    chosen, (k, m) = unknown.columns, law.mean.shape
    own = MatrixNormalInverseWishart(law.mean[None][:, :, chosen], law.precision[None], law.df[None], law.scale[None])
    if unknown.loose:
        maps, noises = own.several(n, seed)
        maps, noises = maps[:, 0], noises[:, 0]
    else:
        z = np.random.default_rng(seed).normal(size=(n, k, len(chosen)))
        spread = np.linalg.solve(roots(law.precision).T, z.swapaxes(1, 2)).swapaxes(1, 2)
        maps, noises = law.mean[:, chosen] + roots(law.scale) @ spread, np.broadcast_to(law.scale, (n, k, k))
    out = np.broadcast_to(law.mean, (n, k, m)).copy()
    out[:, :, chosen] = maps
    return out, noises


def averaged(drawn: LDS, data: Sequences) -> Belief:
    """The average over drawn systems, each after the data."""
    return conditioned_one_by_one(DrawnLDS, drawn, data)
