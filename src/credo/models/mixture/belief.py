"""`Mixture`: rows of k kinds, p(x) = Σⱼ wⱼ pⱼ(x), where nobody has written down which row is of which kind.

    rⱼ(x) = p(j | x) = wⱼ pⱼ(x)/Σᵢ wᵢ pᵢ(x)    responsibilities: Bayes' rule for the hidden component
    E    Σₙ rⱼ(xₙ), Σₙ rⱼ(xₙ) s(xₙ)              expected counts and sufficient statistics
    M    wⱼ ∝ α - 1 + Σₙ rⱼ(xₙ), and each density's own maximum

`learn` finds weights and densities by EM, `VariationalBayes()` and `MixtureGibbs()` integrate over them. Missing cells
are integrated out everywhere: of columns given others a mixture is a regression whose answer may have several peaks.
Components are ordered by weight, the largest first. Bishop (2006), chapter 9; Dempster, Laird & Rubin (1977).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from credo.core import params
from credo.core.abilities import HasConjugateLaws, HasWeightedRows
from credo.core.arrays import Array, is_traced, special
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, by_name, check_count, check_probabilities, check_table, column_names
from credo.core.errors import DataError
from credo.core.params import simplex
from credo.core.pytrees import changed, plain_methods
from credo.core.text import counted, plain, rounded
from credo.infer.em import EM
from credo.infer.learning import Evidence
from credo.infer.method import Learner
from credo.models.densities import Density, Gaussian, HasDraws, HasStatistics, IsConjugate, dirichlet
from credo.models.densities.base import ALMOST_NONE, require
from credo.models.densities.normal import JOINT, NormalDensity
from credo.models.mixture.questions import AsksOfRows
from credo.models.mixture.rows import Rows, Streamed, grouped, is_stream, read

Data = Rows | Streamed


class Expected(NamedTuple):
    """Expected statistics of rows and their components; those of two data sets add."""

    counts: Float[Array, " k"]
    density: Any


class Believed(NamedTuple):
    """q: pseudo-counts of the Dirichlet law of the weights, the density's law, and what they were made of."""

    counts: Float[Array, " k"]
    density: Any
    expected: Expected


class Mixture(AsksOfRows, HasConjugateLaws, HasWeightedRows):
    """A mixture of k components.

    Args:
        k: how many components; "auto" tries 1 … `most` and chooses (`how_many`).
        density: what a component's rows look like, any of `credo.models.densities`; what it does not know is learned,
            what it was given is where learning starts.
        weights: of the components, shape (k,); None is learned.
        concentration: of the Dirichlet law of the weights; None is 1 for EM (no prior) and 1/k for variational Bayes
            and Gibbs, under which components that are not needed get nothing.
        most: the most components that "auto" tries.

    Data are a table (n, d), a vector for one column, or `credo.core.chunks.tables(…)` for what does not fit in
    memory. `missing=True`: NaN is a cell that was not seen. `weights=`: a row of weight w counts as w rows. `noise=`:
    variances (n, d) or covariances (n, d, d) of each row's own measurement, for Gaussian components with full or tied
    covariance, which then are of what was measured (extreme deconvolution). `responsibilities=`: (n, k) to start from.

    A mixture that was learned keeps the expected statistics of its rows (`seen`): `condition` on more rows adds theirs
    and moves the parameters, a step of incremental EM (Neal & Hinton 1998). Parameters that were given stay.
    """

    from_data: ClassVar[tuple[str, ...]] = ("seen",)

    density: Density
    seen: Expected | None
    """Expected statistics of the rows it was learned from."""
    k: int | None = eqx.field(static=True)
    most: int = eqx.field(static=True)
    concentration: float | None = eqx.field(static=True)
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    learned: bool = eqx.field(static=True)
    """Whether the parameters come from data, and follow more of them."""
    weights: Float[Array, " k"] | None = simplex()

    __getattribute__ = plain_methods

    def __init__(
        self,
        k: object,
        density: object = None,
        weights: ArrayLike | None = None,
        *,
        concentration: float | int | None = None,
        most: int = 10,
    ) -> None:
        density = Gaussian() if density is None else density
        if not isinstance(density, Density):
            raise DataError(f"density must be one of credo.models.densities, found {type(density).__name__}")
        check_count(most, "most")
        automatic = isinstance(k, str) and k == "auto"
        if not automatic:
            if isinstance(k, str):
                raise DataError(f'k must be a number of components or "auto", found {k!r}')
            check_count(k, "k")
        self.k, self.most = None if automatic else int(k), int(most)  # type: ignore[call-overload]
        if automatic and (weights is not None or density.k is not None):
            raise DataError('k="auto" chooses how many components there are: leave their numbers out')
        self.density = (
            density if density.k is None or density.columns is None else density.resized(self._k, density.columns)
        )
        self.weights = None if weights is None else check_probabilities(weights, "weights", (self._k,))
        self.concentration = None if concentration is None else float(concentration)
        if self.concentration is not None and not (np.isfinite(self.concentration) and self.concentration > 0):
            raise DataError(f"concentration must be a positive number, found {concentration!r}")
        self.seen, self.inputs, self.learned = None, None, False

    # -- what every belief does -----------------------------------------------------------------------------

    def told(self, *data: ArrayLike) -> "Mixture":
        """The mixture that knows its columns by name."""
        names = column_names(data[0]) if data and self.inputs is None else None
        return self if names is None else changed(self, inputs=tuple(names))

    def statistics(
        self,
        x: ArrayLike,
        *,
        missing: bool = False,
        weights: ArrayLike | None = None,
        noise: ArrayLike | None = None,
        responsibilities: ArrayLike | None = None,
    ) -> Data:
        """The rows, checked; of a stream only where they are."""
        if is_stream(x):
            if any(each is not None for each in (weights, noise, responsibilities)):
                raise DataError("a stream gives (table, weights) itself, and takes no noise or responsibilities")
            return Streamed(x, bool(missing), self.density.columns)
        if responsibilities is not None:
            raise DataError("responsibilities are where learning starts: pass them to credo.fit or credo.learn")
        return self._read(x, missing, weights, noise)

    def _read(self, x: ArrayLike, missing: bool, weights: Any = None, noise: Any = None, **options: Any) -> Rows:
        columns = None if self.density.columns is None else int(self.density.columns)
        rows = read(by_name(x, self.inputs, "x"), columns, missing, weights, noise, **options)
        joint = isinstance(self.density, NormalDensity) and self.density.structure in JOINT
        if noise is not None and not joint:
            raise DataError(
                f"noise of rows is for Gaussian components with full or tied covariance, found {self.density!r}"
            )
        if not is_traced(rows.x):
            self.density.check(rows.observed)
        return rows

    def prepare(self, *data: ArrayLike, **options: Any) -> tuple["Mixture", Data]:
        """With a starting point from the data where there is none; what is learned is learned from all of them."""
        start = options.pop("responsibilities", None)
        found = self.statistics(*data, **options)
        some = found.some()
        if not np.any(some.seen):
            raise DataError("x has no cell that was seen: there is nothing to learn from")
        k = 1 if self.k is None else self.k
        blank = changed(self, seen=None, learned=True, density=self.density.resized(k, some.x.shape[1]))
        found = changed(found, origin=blank if self.k is not None else self)
        begun = blank._started(some, 0)
        if start is None:
            return begun, found
        share = np.asarray(check_table(start, "responsibilities"))
        if share.shape != (len(data[0]), k):
            raise DataError(f"responsibilities must have shape {(len(data[0]), k)}, found {share.shape}")
        share = check_probabilities(share, "responsibilities")
        in_order = self._read(data[0], bool(options.get("missing")), in_order=True)
        share = share if in_order.seen.all() else share[grouped(np.asarray(in_order.seen))]
        return begun._from(some, share), changed(found, origin=None)

    def _started(self, rows: Rows, seed: int) -> "Mixture":
        density = self.density.adapt(rows.cut(np.asarray(rows.weights) > 0).observed, seed=seed)
        k = 1 if self.k is None else self.k
        weights = self.weights if self.weights is not None else np.full(k, 1 / k)
        return changed(self, density=density, weights=weights)

    def _from(self, rows: Rows, share: Float[np.ndarray, "n k"]) -> "Mixture":
        """The M-step for responsibilities that are given."""
        share = share * rows.weights[:, None]
        able = require(self.density, HasStatistics)
        return self.maximize(Expected(share.sum(0), able.expected_statistics(rows.observed, share)))

    def condition_on(self, statistics: Data) -> "Mixture":
        """The expected statistics of the rows are added to those it was learned from, and the parameters follow."""
        self.require_parameters()
        if not self.learned or not self.density.able(HasStatistics) or is_traced((self, statistics)):
            return self
        expected = self.expect(statistics)[0]
        if self.seen is None:
            return changed(self, seen=expected)
        total = jax.tree.map(np.add, self.seen, expected)
        return changed(self.maximize(total), seen=total)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(x) = Σₙ log Σⱼ wⱼ pⱼ(xₙ)."""
        logs = self._logs(statistics.observed)
        return statistics.weights @ special(logs).logsumexp(logs, axis=1)

    def log_evidence_of(self, statistics: Data) -> Float[Array, ""]:
        """`evidence_of`; nothing is compiled for it."""
        self.require_parameters()
        return np.asarray(sum(part.weights @ self._log_density(part) for part in statistics.parts()))

    # -- learning -------------------------------------------------------------------------------------------

    def learner(self, priors: Mapping[str, object]) -> Learner:
        """EM; the gradient where there are priors of another kind, or a density without an M-step."""
        if self.k is None:
            from credo.models.mixture.choosing import HowMany  # which needs `Mixture`

            return HowMany(self.most)
        return Evidence(flat=False) if priors or not self.density.able(HasStatistics) else EM()

    def expect(self, statistics: Data) -> tuple[Expected, Float[Array, ""]]:
        """The E-step, of all parts of the data."""
        able, logs = require(self.density, HasStatistics), self._log_weights[: self._k]
        each = [able.expectation(part.observed, logs, part.weights) for part in statistics.parts()]
        counts, found, height = jax.tree.map(lambda *parts: sum(parts[1:], start=parts[0]), *each)
        return Expected(counts, found), height

    def expect_side_by_side(
        self, beliefs: Sequence["Mixture"], statistics: Data
    ) -> list[tuple[Expected, Float[Array, ""]]] | None:
        """`expect` of each, with nothing compiled."""
        return None if is_traced((list(beliefs), statistics)) else [each.expect(statistics) for each in beliefs]

    def maximize(self, expected: Expected, fixed: tuple[str, ...] = ()) -> "Mixture":
        """The M-step: shares of the counts, and the density's own."""
        alpha = 1.0 if self.concentration is None else self.concentration
        if alpha < 1:
            raise DataError(
                f"EM needs concentration ≥ 1, where the Dirichlet law has a mode, found {alpha:g}; use "
                "VariationalBayes() or MixtureGibbs() for smaller ones"
            )
        raised = expected.counts + (alpha - 1)
        below = [f"density.{path}" for path in params.learnable(self.density)]
        held = [path for path in below if path in fixed]
        if held and len(held) < len(below):
            raise DataError(
                f"EM learns a density as a whole, found {', '.join(held)} fixed; fix 'density', or learn with "
                "using=credo.infer.Evidence()"
            )
        able = require(self.density, HasStatistics)
        return changed(
            self,
            weights=self.weights if "weights" in fixed else raised / raised.sum(),
            density=self.density if held else able.maximize(expected.density),
        )

    def log_prior_of_parameters(self) -> Float[Array, ""]:
        """log p(weights) + log p(θ) up to a constant."""
        alpha = 1.0 if self.concentration is None else self.concentration
        own = require(self.density, HasStatistics).log_prior() if self.density.able(HasStatistics) else 0.0
        return special(self._weights).xlogy(alpha - 1, self._weights).sum() + own

    def restart(self, statistics: Data, seed: int) -> "Mixture | None":
        """Another starting point for what was not given; None where all was."""
        self._k  # noqa: B018 - which is known, or refused
        origin = statistics.origin
        if origin is None or set(params.learnable(origin)) == set(params.learnable(self)):
            return None
        return origin._started(statistics.some(), seed)

    def canonical(self) -> "Mixture":
        """With its components by weight, the largest first, where their order means nothing."""
        if self.weights is None or is_traced(self.weights) or not self.density.exchangeable:
            return self
        return self.reordered(np.argsort(-np.asarray(self.weights), kind="stable"))

    def reordered(self, order: Int[np.ndarray, " k"]) -> "Mixture":
        """The same mixture with its components in another order."""
        return changed(self, weights=self._weights[order], density=self.density.reordered(order), seen=None)

    def row_weights(self, statistics: Data) -> Float[Array, " n"]:
        """What each row counts for."""
        if not isinstance(statistics, Rows):
            raise DataError("the bootstrap needs all rows in memory; learn a stream by EM() or VariationalBayes()")
        return statistics.weights

    def reweighted(self, statistics: Rows, weights: Float[np.ndarray, " n"]) -> Rows:
        """The same rows with other weights."""
        return changed(statistics, weights=weights)

    def held(self) -> "Mixture":
        """As if its numbers had been given."""
        return changed(self, learned=False, seen=None)

    # -- variational Bayes ----------------------------------------------------------------------------------

    def improve(self, expected: Expected, statistics: Data) -> tuple[Believed, Expected, Float[Array, ""]]:
        """q of weights and densities from expected statistics, those under q of the components, and the bound."""
        density, before = require(self.density, IsConjugate), self.seen
        if isinstance(statistics, Rows) and statistics.noise is not None:
            raise DataError("variational Bayes does not take noise of rows; learn by EM()")
        total = expected if before is None else jax.tree.map(np.add, before, expected)
        prior = np.full(len(expected.counts), self._alpha)
        counts = prior + total.counts
        law, logs = density.variational_posterior(total.density), dirichlet.expected_log(counts)
        bound = -dirichlet.divergence(counts, prior) - density.kl_to_prior(law)
        found: Expected | None = None
        for part in statistics.parts():
            data, w = part.observed, part.weights
            joint = density.expected_log_prob(law, data) + logs
            height = special(joint).logsumexp(joint, axis=1)
            share = np.exp(joint - height[:, None]) * w[:, None]
            # A row with nothing seen is no row: E[log weights] is not a log probability.
            shows = data.any_seen[:, 0]
            bound = bound + w[shows] @ height[shows]
            each = Expected(share[shows].sum(0), density.expected_statistics_under(law, data, share))
            found = each if found is None else jax.tree.map(np.add, found, each)
        assert found is not None
        return Believed(counts, law, total), found, bound

    def merged(self, expected: Expected) -> list[Expected]:
        """The rows of two components as those of one, and the other without rows; of all pairs with rows."""
        if self.seen is not None:  # rows of before are in the statistics, whose components stay as they are
            return []
        some = np.flatnonzero(np.asarray(expected.counts) > ALMOST_NONE)

        def together(i: int, j: int, leaf: Array) -> Array:
            out = np.array(leaf)
            out[i] += out[j]
            out[j] = 0.0
            return out

        return [
            jax.tree.map(lambda leaf, i=i, j=j: together(i, j, leaf), expected)
            for at, i in enumerate(some)
            for j in some[at + 1 :]
        ]

    def center_of(self, q: Believed) -> "Mixture":
        """The mixture at the mean of q, which keeps the statistics that q was made of."""
        density = require(self.density, IsConjugate).posterior_mean(q.density)
        return changed(self, weights=q.counts / q.counts.sum(), density=density)

    def drawn_from(self, keys: jax.Array, q: Believed) -> "Mixture":
        """Mixtures drawn from q."""
        return _drawn_from(keys, changed(self, learned=False, seen=None), q)

    def averaged(self, drawn: "Mixture", statistics: Data) -> Belief:
        """The average over drawn mixtures."""
        from credo.models.mixture.bayes import averaged  # which needs `Mixture`

        return averaged(drawn)

    # -- parts ----------------------------------------------------------------------------------------------

    @property
    def _k(self) -> int:
        if self.k is None:
            raise DataError('k="auto" is learned by credo.fit(mixture, x) with using= left out, or HowMany()')
        return self.k

    @property
    def _alpha(self) -> float:
        """The concentration where it is integrated over."""
        return 1 / self._k if self.concentration is None else self.concentration

    @property
    def _weights(self) -> Float[Array, " k"]:
        self.require_parameters()
        assert self.weights is not None
        return self.weights

    def require_parameters(self) -> "Mixture":
        """Itself, if its numbers are known; otherwise an error that says which are not."""
        unknown = self._unknown()
        if unknown:
            raise DataError(
                f"the {' and '.join(unknown)} of the mixture {'are' if len(unknown) > 1 else 'is'} not known yet; "
                "learn from data with credo.fit(mixture, x), or give the numbers"
            )
        return self

    def _unknown(self) -> list[str]:
        unknown = ["weights"] * (self.weights is None)
        return unknown + ["density"] * (self.density.k is None or not params.learnable(self.density))

    def __repr__(self) -> str:
        """`Mixture(3 components, Gaussian in 2 columns; weights 0.5 0.3 0.2)`."""
        columns = self.density.columns
        shown = type(self.density).__name__ + ("" if columns is None else f" in {counted(columns, 'column')}")
        said = ["as many components as data show" if self.k is None else counted(self.k, "component")]
        weights = plain(self.weights, 1)
        rest = f"weights {rounded(weights)}" if weights is not None else "not learned yet"
        return f"{type(self).__name__}({said[0]}, {shown}; {rest})"


@eqx.filter_jit
def _drawn_from(keys: jax.Array, mixture: Mixture, q: Believed) -> Mixture:
    def one(key: PRNGKeyArray) -> dict[str, Array]:
        k_weights, k_density = jr.split(key)
        density = require(mixture.density, HasDraws).draw(k_density, q.expected.density)
        return params.learnable(changed(mixture, weights=dirichlet.draw(k_weights, q.counts), density=density))

    return jax.vmap(lambda values: params.replace(mixture, values))(jax.vmap(one)(keys))
