"""`LatentClasses`: a Gaussian process for each of several classes, what `LatentGP(Categorical())` makes.

    f_c ~ GP(m, k),   P(y = c | f) = e^{f_c} / Σⱼ e^{fⱼ}

By default the classes are regressed on: a row of class y is a draw from the Dirichlet with αᵢ_c = ε + 1[yᵢ = c], whose
components are gamma variables, and their logarithms are taken for normal ones with the same moments,

    s²ᵢ_c = log(1 + 1/αᵢ_c),   zᵢ_c = log αᵢ_c - s²ᵢ_c/2,   z_c = f_c + noise

so that all is closed form. Milios, Camoriano, Michiardi, Rosasco & Filippone (2018), "Dirichlet-based Gaussian
processes for large-scale calibrated classification". ε is the one of a few that left-out rows are most probable with.

The noise has two values, those of a row's own class and of all others, which makes all classes together cost three
factorizations (`log_odds.py`). `using=Variational()` approximates the softmax itself (`softmax_sites.py`), `NUTS()`
draws the functions.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import params
from credo.core.abilities import DrawsMeans, in_blocks, normal_pairs
from credo.core.arrays import Array, as_float, host, is_traced, namespace
from credo.core.checks import ArrayLike
from credo.core.device import blas_threads
from credo.core.errors import DataError
from credo.core.linalg import factorize, gaussian_log_evidence, inverse, plus_diagonal, solve_lower
from credo.core.predictive import Categorical as CategoricalPrediction
from credo.core.predictive import Normal, Predictive
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.infer.laplace import Laplace
from credo.infer.posterior import Posterior
from credo.infer.target import ParameterSpace, Target
from credo.infer.variational import Variational
from credo.models.glm.predictions import DRAWS, class_nodes
from credo.models.gp import softmax_sites
from credo.models.gp.data import Rows, pack
from credo.models.gp.hyperpriors import default_priors, scales_of
from credo.models.gp.latent_base import BehindLikelihood, FunctionDraws
from credo.models.gp.log_odds import averaged_softmax, left_out, softmax, solve_classes
from credo.models.gp.sites import Problem
from credo.models.gp.softmax_sites import SoftmaxSites
from credo.models.likelihoods import Categorical, Likelihood

CONCENTRATION = 0.01


class LogOdds(eqx.Module):
    """What predictions need of the posterior: the root of A, W, and A_c⁻¹(z_c - m) of each class."""

    root: Float[Array, "n n"]
    more: Float[Array, "n n"]
    alpha: Float[Array, "n k"]


class LatentClasses(BehindLikelihood, DrawsMeans):
    """A belief about the log-odds of several classes, a function for each, with one kernel and one mean.

    Args:
        likelihood: `Categorical()`.
        kernel: as for `LatentGP`.
        mean: as for `LatentGP`.
        concentration: ε, how much a row says of the classes that it is not of; `fit` chooses it where it is None.
    """

    concentration: Float[Array, ""]
    chooses: bool = eqx.field(static=True)
    """Whether `fit` chooses the concentration."""

    def __init__(
        self, likelihood: object = None, kernel: object = None, mean: object = None, concentration: object = None
    ):
        likelihood = Categorical() if likelihood is None else likelihood
        if not isinstance(likelihood, Categorical):
            raise DataError(f"LatentClasses takes Categorical(), found {type(likelihood).__name__}; use LatentGP")
        self._begin(likelihood, kernel, mean)
        self.method = "dirichlet"
        self.chooses = concentration is None
        self.concentration = as_float(CONCENTRATION if concentration is None else concentration, "concentration")
        if not is_traced(self.concentration) and not float(self.concentration) > 0:
            raise DataError(f"concentration must be positive, found {concentration!r}; e.g. 0.01")

    @property
    def _own(self) -> Categorical:
        assert isinstance(self.likelihood, Categorical)
        return self.likelihood

    # -- hyperparameters ---------------------------------------------------------------------------------------

    def in_units(self, rows: Rows) -> "LatentClasses":
        """Starting values from the regressed log-odds of all classes."""
        scales, center = scales_of(self.kernel, self._working(rows))
        return changed(self, kernel=self.kernel.adapt(scales), mean=self.mean.adapt(rows.cut()[0], scales, center))

    def _working(self, rows: Rows) -> Rows:
        """Rows whose outcomes have the mean and the variance of the regressed log-odds."""
        x, y, *_ = rows.cut()
        z = np.asarray(self.regressed(y)[0])
        half = np.where(np.arange(len(x)) % 2, 1.0, -1.0) * z.std()
        return pack(x, z.mean() + half - half.mean(), np.ones(len(x)), np.zeros(len(x)))

    def default_priors(self, statistics: Rows) -> dict[str, Any]:
        """Weakly informative hyperpriors of the kernel, in the units of the log-odds."""
        return default_priors(self, self._working(statistics))

    def learner(self, priors: Mapping[str, Any]) -> Any:
        """One climb of the evidence, then the concentration by leave-one-out."""
        from credo.models.gp.latent_classes_evidence import ClassesEvidence

        return ClassesEvidence()

    def objective(self, slots: params.Layout, statistics: Rows, priors: Mapping[str, Any]) -> Any:
        """The evidence of the regression, or the bound of the softmax, with its gradient."""
        if is_traced(self, statistics):
            return None
        from credo.models.gp.latent_classes_evidence import LogOddsObjective

        kind = LogOddsObjective if self.method == "dirichlet" else softmax_sites.SoftmaxObjective
        return kind(self, slots, statistics, priors)

    # -- Bayes' rule -------------------------------------------------------------------------------------------

    def by(self, method: object) -> "LatentClasses | None":
        """The softmax itself, approximated variationally."""
        if isinstance(method, Laplace):
            raise DataError(
                "Laplace's approximation is far off for several classes: leave using= out, or use Variational() or "
                "NUTS()"
            )
        return changed(self, method="variational") if isinstance(method, Variational) else None

    def regressed(self, y: Float[Array, " n"]) -> tuple[Float[Array, "n k"], tuple[Array, Array]]:
        """z of every row and class, and the noise s² of a row's other classes and of its own."""
        xp = namespace(self.concentration, y)
        other, own = (xp.log1p(1 / (self.concentration + add)) for add in (0.0, 1.0))
        high = xp.log(self.concentration + 1) - own / 2
        low = xp.log(self.concentration) - other / 2
        return xp.where(self._is(y), high, low), (other, own)

    def _is(self, y: Float[Array, " n"]) -> Array:
        """Which class each row is of, one column for each class."""
        return y[:, None] == np.arange(self._own.width + 1)

    def condition_on(self, statistics: Rows) -> "LatentClasses":
        """The posterior after the rows, seen and new."""
        rows = self.with_seen(statistics)
        z, noise = self.regressed(rows.y)
        k, residual = self.prior.kernel.between(rows.x, rows.x), z - self.mean.at(rows.x)[:, None]
        if self.method == "variational":
            return changed(self, seen=rows, solved=softmax_sites.posterior_after(self.softmax_problem(rows)))
        with blas_threads(0 if is_traced(rows) else rows.n):
            found = solve_classes(k, residual, noise, rows.y, self._is(rows.y))
        return changed(self, seen=rows, solved=host(LogOdds(found.root, found.more, found.alpha)))

    def softmax_problem(self, rows: Rows) -> Problem:
        """p(y | f) and p(f) of the rows."""
        k = self.prior.kernel.between(rows.x, rows.x)
        return Problem(self.likelihood, rows.y, rows.extra, self.mean.at(rows.x), k)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(z | X) of the regressed log-odds, or the softmax's bound of log p(y | X); after data what is added."""
        whole = self._evidence(self.with_seen(statistics))
        return whole if self.seen is None else whole - self._evidence(self.seen)

    def _evidence(self, rows: Rows) -> Float[Array, ""]:
        if self.method == "variational":
            return softmax_sites.bound(self.softmax_problem(rows))
        z, (other, own) = self.regressed(rows.y)
        k, residual = self.prior.kernel.between(rows.x, rows.x), z - self.mean.at(rows.x)[:, None]
        xp, mine = namespace(k, residual), self._is(rows.y)
        each = range(self._own.width + 1)
        parts = [
            gaussian_log_evidence(plus_diagonal(k, xp.where(mine[:, c], own, other)), residual[:, c]) for c in each
        ]
        return sum(parts[1:], start=parts[0])

    def target(self, statistics: Rows, priors: Any = None) -> Target:
        """log p(y, v) of the whitened functions f_c = m + Lv_c at the rows, under the softmax."""
        if priors:
            raise DataError("LatentGP has its hyperparameters chosen by credo.fit, found priors= for them")
        rows = self.with_seen(statistics)
        root = factorize(self.prior.kernel.between(rows.x, rows.x)).root
        space = ParameterSpace.of({"whitened": np.zeros((self._own.width + 1) * len(rows.y))})
        return Target(space, _log_joint, (self.likelihood, rows.y, root))

    def given(self, posterior: Posterior, statistics: Rows) -> "LatentClasses":
        """The belief with draws of the functions; more than a thousand are thinned for predictions."""
        rows = self.with_seen(statistics)
        kept = np.asarray(posterior.kept())
        thin = kept[np.linspace(0, len(kept) - 1, min(len(kept), DRAWS)).astype(int)]
        root = factorize(self.prior.kernel.between(rows.x, rows.x)).root
        return changed(self, seen=rows, solved=FunctionDraws(root, thin))

    # -- predictions -------------------------------------------------------------------------------------------

    def predict(self, x: object) -> Predictive:
        """The probabilities of the classes with the functions integrated out; queries of shape (m, d)."""
        queries = self.queries(x)
        if isinstance(self.solved, FunctionDraws):
            return self._of_draws(queries)
        return averaged_softmax(*self._functions(queries))

    def function(self, x: object) -> Normal:
        """What is believed of the functions at the queries, shape (m, k), up to what they have in common."""
        mean, variance = self._functions(self.queries(x))
        return Normal(mean, 0 * mean, variance)

    def _functions(self, queries: Array) -> tuple[Float[Array, "m k"], Float[Array, "m k"]]:
        """Mean and variance of every class's function."""
        k = self._own.width + 1
        prior, mean = self.prior.kernel.variance_at(queries)[:, None], self.mean.at(queries)[:, None]
        xp = namespace(prior, mean, self.solved)
        if self.seen is None or self.solved is None:
            shape = (len(queries), k)
            return xp.broadcast_to(mean, shape), xp.broadcast_to(prior, shape)
        if isinstance(self.solved, FunctionDraws):
            f, left = self._drawn(queries)
            return f.mean(0), left[:, None] + f.var(0)
        cross = self.prior.kernel.between(self.seen.x, queries)
        if isinstance(self.solved, SoftmaxSites):
            return mean + (self.solved.alpha @ cross).T, xp.maximum(prior - self.solved.told(cross).T, 0.0)
        reach, more = solve_lower(self.solved.root, cross), self.solved.more.T @ cross
        told = (reach * reach).sum(0)[:, None] + (more * more).T @ self._is(self.seen.y)
        return mean + cross.T @ self.solved.alpha, xp.maximum(prior - told, 0.0)

    def mean_draws(self, x: ArrayLike, n: int = 1000, *, joint: bool = True, seed: int = 0) -> np.ndarray:
        """See `DrawsMeans`: probabilities at joint draws of the functions."""

        def drawn(groups: np.ndarray) -> np.ndarray:
            probs = np.asarray(softmax(self._joint_draws(self.queries(groups.reshape(-1, groups.shape[-1])), n, seed)))
            return probs.reshape(len(probs), *groups.shape[:2], -1).mean(axis=2)

        return in_blocks(x, joint, drawn)

    def _joint_draws(self, queries: Array, n: int, seed: int) -> Float[np.ndarray, "n m k"]:
        """The functions at all queries together."""
        if isinstance(self.solved, FunctionDraws):
            f, left = self._drawn(queries)
            rng = np.random.default_rng(seed)
            some = f[rng.integers(len(f), size=n)]
            return np.asarray(some + np.sqrt(left)[:, None] * rng.normal(size=some.shape))
        mean = np.asarray(self._functions(queries)[0])
        each = [normal_pairs(mean[:, c], np.asarray(v), n, seed + c) for c, v in enumerate(self._covariances(queries))]
        return np.stack(each, axis=-1)

    def _covariances(self, queries: Array) -> list[Float[Array, "m m"]]:
        """Of every class's function."""
        prior = self.prior.kernel.between(queries, queries)
        if self.seen is None or self.solved is None:
            return [prior] * (self._own.width + 1)
        cross = self.prior.kernel.between(self.seen.x, queries)
        if isinstance(self.solved, SoftmaxSites):
            return [prior - half.T @ half for half in self.solved.reach(cross)]
        reach, more = solve_lower(self.solved.root, cross), self.solved.more.T @ cross
        shared, mine = prior - reach.T @ reach, self._is(self.seen.y)
        return [shared - more[own].T @ more[own] for own in mine.T]

    def _drawn(self, queries: Array) -> tuple[Float[Array, "s m k"], Float[Array, " m"]]:
        """The means of the functions given each draw at the rows seen, and the variance that is left."""
        assert self.seen is not None and isinstance(self.solved, FunctionDraws)
        half = solve_lower(self.solved.root, self.prior.kernel.between(self.seen.x, queries))
        left = self.prior.kernel.variance_at(queries) - (half * half).sum(0)
        s, xp = len(self.solved.whitened), namespace(half, self.solved)
        v = self.solved.whitened.reshape(s, self._own.width + 1, -1)
        return self.mean.at(queries)[:, None] + (v @ half).swapaxes(1, 2), xp.maximum(left, 0.0)

    def _of_draws(self, queries: Array) -> Predictive:
        f, left = self._drawn(queries)
        s, _, k = f.shape
        _, z = class_nodes(s + s % 2, k)
        eta = f + namespace(left).sqrt(left)[:, None] * z[:s, None, :]
        return CategoricalPrediction.average(np.full(s, 1 / s), softmax(eta))

    def leave_one_out(self, *data: Any, **options: Any) -> Predictive:
        """The prediction of each row from all others: of rows that were seen, or of `data`."""
        if data:
            return self.condition(*data, **options).leave_one_out()
        rows, solved = self.conditioned()
        if isinstance(solved, SoftmaxSites):
            return averaged_softmax(*(v.T for v in softmax_sites.cavities_of(self.softmax_problem(rows), solved)))
        if isinstance(solved, FunctionDraws):
            raise DataError("draws leave no row out in closed form; condition without using= to leave rows out")
        z, (other, own) = self.regressed(rows.y)
        mine = self._is(rows.y)
        precision = (inverse(solved.root).diagonal())[:, None] + (solved.more**2) @ mine
        return averaged_softmax(*left_out(z, solved.alpha, precision, np.where(mine, own, other)))

    def __repr__(self) -> str:
        how = "draws" if isinstance(self.solved, FunctionDraws) else self.method
        return f"LatentGP(Categorical, {self.kernel!r}, by {how}, seen {self.seen_in_words()})"


def _log_joint(values: dict[str, Array], likelihood: Likelihood, y: Array, root: Array) -> Array:
    v = values["whitened"].reshape(-1, len(y))
    f = (v @ root.T).T
    return likelihood.log_prob(f[:, :-1] - f[:, -1:], y).sum() - 0.5 * (v**2 + LOG_2PI).sum()
