"""`LatentGP`: a Gaussian process behind any likelihood, for classes, counts and numbers with outliers.

    f ~ GP(m, k),   y ~ p(y | f(x))

The posterior of f at the rows is approximated by a Gaussian (`sites.py`): by expectation propagation, by Laplace's
method or by variational inference; or it is drawn from, which is the reference. Hyperparameters maximize the same
approximation's evidence. Rasmussen & Williams (2006), chapter 3; Nickisch & Rasmussen (2008), "Approximations for
binary Gaussian process classification".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import HasCovariance, in_blocks, normal_pairs
from credo.core.arrays import Array, as_float, held, host, is_traced, namespace
from credo.core.checks import ArrayLike
from credo.core.device import blas_threads
from credo.core.errors import DataError
from credo.core.linalg import cholesky, factorize, inverse, plus_diagonal, solve_lower
from credo.core.predictive import Normal, Predictive
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.infer.importance_sampling import WeightedDraws, importance
from credo.infer.laplace import Laplace
from credo.infer.method import Solver
from credo.infer.posterior import NormalApproximation, Posterior
from credo.infer.quasi_random import normals
from credo.infer.target import ParameterSpace, Target
from credo.infer.variational import Variational
from credo.models.glm.predictions import DRAWS, LATENT_NODES, LATENT_WEIGHTS, of_predictor
from credo.models.gp import sites as gaussian_sites
from credo.models.gp.base import FunctionValues
from credo.models.gp.data import Rows, pack
from credo.models.gp.hyperpriors import default_priors, scales_of
from credo.models.gp.latent_base import BehindLikelihood, FunctionDraws
from credo.models.gp.sites import LEAST, Problem, Sites, Start, find_sites
from credo.models.likelihoods import Bernoulli, Categorical, Likelihood, StudentT

METHODS: Mapping[type, str] = {Laplace: "laplace", Variational: "variational"}


class OneOrSeveral(type(BehindLikelihood)):  # type: ignore[misc]
    """`LatentGP(Categorical())` has a function for each class, and makes a `LatentClasses`."""

    def __call__(cls, likelihood: object = None, *arguments: Any, **named: Any) -> Any:
        """The belief of one function, or of several."""
        if isinstance(likelihood, Categorical):
            from credo.models.gp.latent_classes import LatentClasses

            return LatentClasses(likelihood, *arguments, **named)
        return super().__call__(likelihood, *arguments, **named)


class LatentGP(BehindLikelihood, HasCovariance, metaclass=OneOrSeveral):
    """A belief about a function that is seen only through a likelihood.

    Args:
        likelihood: one of `credo.models.likelihoods` with one predictor: `Bernoulli` (the default), `Probit`,
            `Ordinal`, `Poisson`, `NegativeBinomial`, `StudentT`; `Categorical` has a function for each class and makes
            a `LatentClasses`.
        kernel: the covariance of function values; None is `Matern52()` of standardized inputs, with one lengthscale for
            all: with one for each the evidence of classes and counts is overfitted (not that of numbers: `StudentT` has
            one for each). Which of the two predicts better `leave_one_out` says.
        mean: what is expected before data, as for `GP`.

    `using=EP()` is the default (`Variational()` for `StudentT`, which is not log concave), `Laplace()` is quicker and
    less exact, `NUTS()` draws f.
    """

    def __init__(self, likelihood: object = None, kernel: object = None, mean: object = None):
        likelihood = Bernoulli() if likelihood is None else likelihood
        if not isinstance(likelihood, Likelihood):
            raise DataError(f"likelihood must be one of credo.models.likelihoods, found {type(likelihood).__name__}")
        self._begin(likelihood, kernel, mean)
        self.method = "variational" if isinstance(likelihood, StudentT) else "ep"

    # -- hyperparameters --------------------------------------------------------------------------------------

    def in_units(self, rows: Rows) -> "LatentGP":
        """Starting values from the working response of the rows."""
        likelihood, working = self._working(rows)
        scales, center = scales_of(self.kernel, working)
        mean = self.mean.adapt(rows.cut()[0], scales, center)
        return changed(self, likelihood=likelihood, kernel=self.kernel.adapt(scales), mean=mean)

    def _working(self, rows: Rows) -> tuple[Likelihood, Rows]:
        """The likelihood at its start, and η₀ + slope/curvature at the best constant: outcomes in the units of f."""
        x, y, scale, offset = rows.cut()
        likelihood, eta = self.likelihood.started(y, np.ones(len(y)))
        at = np.full(len(y), float(eta)) + offset - offset.mean()
        _, slope, bend, _ = likelihood.eta_derivatives(at, y)
        curved = np.maximum(-bend, 0.1 * np.abs(bend).mean() + 1e-12)
        far = 5.0 * float(likelihood.unit(y, np.ones(len(y))))
        return likelihood, pack(x, np.clip(slope / curved, -far, far) + float(eta), scale, np.zeros(len(y)))

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Weakly informative hyperpriors of the kernel, in the units of the working response."""
        return default_priors(self, self._working(statistics)[1])

    def learner(self, priors: Mapping[str, Any]) -> Any:
        """One climb of the approximate evidence."""
        from credo.models.gp.latent_evidence import LatentEvidence

        return LatentEvidence()

    def objective(self, slots: params.Layout, statistics: Rows, priors: Mapping[str, Any]) -> Any:
        """The approximate evidence with its gradient."""
        from credo.models.gp.latent_evidence import SitesObjective

        return None if is_traced(self, statistics) else SitesObjective(self, slots, statistics, priors)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def by(self, method: object) -> "LatentGP | None":
        """Laplace's and the variational approximation have a form of their own here."""
        name = METHODS.get(type(method))
        return None if name is None else changed(self, method=name)

    def problem(self, rows: Rows) -> Problem:
        """p(y | f) and p(f) of the rows."""
        k = self.prior.kernel.between(rows.x, rows.x)
        return Problem(self.likelihood, rows.y, rows.extra, self.mean.at(rows.x), k)

    def condition_on(self, statistics: Rows) -> "LatentGP":
        """The approximate posterior after the rows, seen and new."""
        return self.solved_from(self.with_seen(statistics), self._old_sites(statistics))

    def solved_from(self, rows: Rows, start: Start | None) -> "LatentGP":
        """The approximate posterior of all rows, whose sites are sought from `start`."""
        problem = self.problem(rows)
        with blas_threads(rows.n if not is_traced(rows) else 0):
            method, found = find_sites(self.method, problem, start)
        solved = Sites(*host((found.nu, found.tau, found.now.alpha, found.now.root)))
        return changed(self, seen=rows, solved=solved, method=method)

    def _old_sites(self, new: Rows) -> Start | None:
        """The sites of the rows that were seen, and of new ones that say nothing yet."""
        old = self.solved
        if not isinstance(old, Sites):
            return None
        xp, prior = namespace(old, new), self.prior.kernel.variance_at(new.x)
        nothing = xp.zeros(len(prior))
        more = (nothing, LEAST / prior, nothing)
        return Start(*(xp.concatenate(pair) for pair in zip((old.nu, old.tau, old.alpha), more, strict=True)))

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """The method's approximation of log p(y | X); after data, the difference with and without `statistics`."""
        whole = self._evidence(self.with_seen(statistics))
        return whole if self.seen is None else whole - self._evidence(self.seen)

    def _evidence(self, rows: Rows) -> Float[Array, ""]:
        """Its gradient is that at fixed sites; Laplace's move with the mode."""
        problem = self.problem(rows)
        method, found = find_sites(self.method, jax.tree.map(held, problem))
        if is_traced(problem):
            found = gaussian_sites.moving(method, problem, found)
        return gaussian_sites.log_evidence(method, problem, found)

    def target(self, statistics: Rows, priors: Any = None) -> Target:
        """log p(y, v) of the whitened f = m + Lv at the rows, seen and new."""
        if priors:
            raise DataError("LatentGP has its hyperparameters chosen by credo.fit, found priors= for them")
        rows = self.with_seen(statistics)
        problem = self.problem(rows)
        space = ParameterSpace.of({"whitened": np.zeros(len(problem.y))})
        return Target(space, _log_joint, (problem._replace(k=factorize(problem.k).root),))

    def given(self, posterior: Posterior, statistics: Rows) -> "LatentGP":
        """The belief with draws of f; more than a thousand are thinned for predictions."""
        rows = self.with_seen(statistics)
        kept = np.asarray(posterior.kept())
        thin = kept[np.linspace(0, len(kept) - 1, min(len(kept), DRAWS)).astype(int)]
        return changed(self, seen=rows, solved=FunctionDraws(factorize(self.problem(rows).k).root, thin))

    def check(self, draws: int = 4000, seed: int = 0) -> WeightedDraws:
        """How far the Gaussian can be trusted: draws of it weighed by the posterior density (Pareto smoothed).

        `khat` below 0.7 says that the weighted draws are usable, `ess` how many they are worth, `notes` the same in
        words, `log_evidence` is log p(y | X) by importance sampling. The more rows, the harder it is to pass: the
        weights compare all values of f at once, predictions need only a few of them.
        """
        rows, solved = self.conditioned()
        if not isinstance(solved, Sites):
            raise DataError("draws by NUTS are no approximation to check; condition without using=, or with EP()")
        target = self.unconditioned().target(rows)
        root = np.asarray(factorize(self.problem(rows).k).root)
        # v = L⁻¹(f - m) has the mean Lᵀα and the precision I + LᵀSL.
        covariance = inverse(factorize(plus_diagonal(root.T @ (solved.tau[:, None] * root), np.ones(rows.n))).root)
        law = NormalApproximation(target.space, root.T @ solved.alpha, cholesky(covariance), np.zeros(()))
        return importance(law, target, draws, seed)

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, x: object, *, exposure: Any = None) -> Predictive:
        """p(y* | x*, data) with the function integrated out.

        Args:
            x: queries, shape (m, d).
            exposure: of each query, for counts.
        """
        queries = self.queries(x)
        offset = as_float(self._offset(exposure, len(queries)))
        if isinstance(self.solved, FunctionDraws):
            mean, variance = self._drawn(queries)
            s = len(mean)
            eta = mean + np.sqrt(variance) * normals(s, 1, 0)
            return of_predictor(self.likelihood, np.full(s, 1 / s), eta.T + offset[:, None])
        f = self.function_at(queries)
        return self._of(f.mean + offset, f.variance)

    def _of(self, mean: Float[Array, " m"], variance: Float[Array, " m"]) -> Predictive:
        xp = namespace(mean, variance)
        eta = mean[:, None] + xp.sqrt(variance)[:, None] * LATENT_NODES
        return of_predictor(self.likelihood, LATENT_WEIGHTS, eta, (mean, variance))

    def function(self, x: object, *, joint: bool = False) -> Normal:
        """What is believed of f itself at the queries: its mean and variance, all of it ignorance."""
        f = self.function_at(self.queries(x), joint)
        return Normal(f.mean, 0 * f.mean, f.variance, f.covariance)

    def function_at(self, rows: Array, joint: bool = False) -> FunctionValues:
        """The function at checked rows."""
        kernel, mean = self.prior.kernel, self.mean.at(rows)
        if isinstance(self.solved, FunctionDraws):
            means, variance = self._drawn(rows)
            covariance = self._covariance(rows, rows) if joint else None
            return FunctionValues(means.mean(0), variance + means.var(0), covariance)
        if self.solved is None or self.seen is None:
            return FunctionValues(mean, kernel.variance_at(rows), kernel.between(rows, rows) if joint else None)
        cross, reach = self._reach(rows)
        variance = kernel.variance_at(rows) - (reach * reach).sum(0)
        covariance = self._covariance(rows, rows) if joint else None
        xp = namespace(variance)
        return FunctionValues(mean + cross.T @ self.solved.alpha, xp.maximum(variance, 0.0), covariance)

    def _reach(self, rows: Array) -> tuple[Float[Array, "n m"], Float[Array, "n m"]]:
        """k(X, x*) and L⁻¹S^½k(X, x*)."""
        assert self.seen is not None and isinstance(self.solved, Sites)
        cross = self.prior.kernel.between(self.seen.x, rows)
        half = namespace(self.solved.tau).sqrt(self.solved.tau)
        return cross, solve_lower(self.solved.root, half[:, None] * cross)

    def _drawn(self, rows: Array) -> tuple[Float[Array, "s m"], Float[Array, " m"]]:
        """The mean of f given each draw at the rows seen, and the variance that is left."""
        assert self.seen is not None and isinstance(self.solved, FunctionDraws)
        half = solve_lower(self.solved.root, self.prior.kernel.between(self.seen.x, rows))
        left = self.prior.kernel.variance_at(rows) - (half * half).sum(0)
        return self.mean.at(rows) + self.solved.whitened @ half, namespace(left).maximum(left, 0.0)

    def covariance(self, x: object, z: object = None) -> Float[Array, "m q"]:
        """The covariance of the function between two sets of queries, as it is believed now."""
        return self._covariance(*(self.queries(v) for v in (x, x if z is None else z)))

    def _covariance(self, x: Array, z: Array) -> Float[Array, "m q"]:
        k = self.prior.kernel.between(x, z)
        if self.solved is None or self.seen is None:
            return k
        if isinstance(self.solved, Sites):
            return k - self._reach(x)[1].T @ self._reach(z)[1]
        half = [solve_lower(self.solved.root, self.prior.kernel.between(self.seen.x, v)) for v in (x, z)]
        moved = [self.solved.whitened @ h for h in half]
        centred = [m - m.mean(0) for m in moved]
        return k - half[0].T @ half[1] + centred[0].T @ centred[1] / len(centred[0])

    def mean_draws(self, x: ArrayLike, n: int = 1000, *, joint: bool = True, seed: int = 0) -> np.ndarray:
        """See `DrawsMeans`: expectations at joint draws of f."""

        def drawn(groups: np.ndarray) -> np.ndarray:
            f = self.function_at(self.queries(groups.reshape(-1, groups.shape[-1])), joint=True)
            eta = normal_pairs(np.asarray(f.mean), np.asarray(f.covariance), n, seed)
            mean = np.asarray(self.likelihood.mean(eta))
            return mean.reshape(len(mean), *groups.shape[:2], *mean.shape[2:]).mean(axis=2)

        return in_blocks(x, joint, drawn)

    def row_precisions(self) -> Float[Array, " n"]:
        """How much of each row's precision is believed under Student-t noise: near zero for an outlier.

        λ̄ = (ν + 1)/(ν + E[(y - f)²]/s²), the mean of λ in ε | λ ~ N(0, s²/λ): Tipping & Lawrence (2005).
        """
        rows, _ = self.conditioned()
        own = self.likelihood
        if not isinstance(own, StudentT):
            raise DataError(f"rows have precisions of their own under StudentT(), found {type(own).__name__}")
        f = self.function_at(rows.x)
        return (own.df + 1) / (own.df + ((rows.y - f.mean) ** 2 + f.variance) / own.scale**2)

    def leave_one_out(self, *data: Any, **options: Any) -> Predictive:
        """The prediction of each row from all others, by its cavity: of rows that were seen, or of `data`."""
        if data:
            return self.condition(*data, **options).leave_one_out()
        rows, solved = self.conditioned()
        if not isinstance(solved, Sites):
            raise DataError("draws have no cavities; condition without using= to leave rows out")
        problem = self.problem(rows)
        now = gaussian_sites.posterior(problem, solved.nu, solved.tau)
        center, spread = gaussian_sites.cavities(now, solved.nu, solved.tau)
        return self._of(center + rows.extra, spread)

    def __repr__(self) -> str:
        how = "draws" if isinstance(self.solved, FunctionDraws) else self.method
        about = f"mean={type(self.mean).__name__}, by {how}, seen {self.seen_in_words()}"
        return f"LatentGP({type(self.likelihood).__name__}, {self.kernel!r}, {about})"


def _log_joint(values: dict[str, Array], problem: Problem) -> Array:
    likelihood, y, offset, mean, root = problem
    f = mean + root @ values["whitened"]
    return likelihood.log_prob(f + offset, y).sum() - 0.5 * (values["whitened"] ** 2 + LOG_2PI).sum()


@dataclass(frozen=True)
class EP(Solver):
    """Expectation propagation, in parallel and damped; where it does not settle, variational inference, and it says so.

    Minka (2001), "Expectation propagation for approximate Bayesian inference".
    """

    needs: ClassVar[type] = LatentGP

    def adapt(self, belief: LatentGP, statistics: Rows) -> tuple[LatentGP, Rows]:
        """The belief whose approximation is EP's."""
        return changed(belief, method="ep"), statistics
