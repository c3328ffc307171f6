"""`FactorAnalysis` and `PPCA`: the columns of a row covary because they show the same few hidden factors.

    z ~ N(0, I_l),    x = μ + Wz + ε,  ε ~ N(0, Ψ),        p(x) = N(μ, WWᵀ + Ψ)

Ψ is diagonal in factor analysis, σ²I in probabilistic principal component analysis. `credo.fit` finds μ, W and Ψ;
given those what rows do not say of others is noise, so predictions have no epistemic part: the doubt about μ, W and Ψ
themselves is in `loadings(draws=…)`. Entries that were not seen are integrated out, in learning and in questions.
Bishop (2006), sections 12.2 and 12.4; Tipping & Bishop (1999), "Probabilistic principal component analysis".
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.abilities import HasExpectations
from credo.core.arrays import Array, as_float, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_count, check_table, input_names
from credo.core.errors import DataError
from credo.core.params import positive, real
from credo.core.predictive import Normal
from credo.core.pytrees import changed
from credo.core.text import counted, plain, rounded
from credo.infer.method import Learner
from credo.models.factor import expectations
from credo.models.factor.covariance_fit import Fitted
from credo.models.factor.expectations import Expected
from credo.models.factor.loadings import Loadings, loadings_of
from credo.models.factor.low_rank import OfRows, Parameters, blocks, log_likelihood, look
from credo.models.factor.statistics import Rows, read, seen_of

F = TypeVar("F", bound="FactorModel")
PRIORS = (None, "ard")


class FactorModel(Belief[Rows], HasExpectations[Rows, Expected]):
    """What factor analysis and PPCA share.

    Data are a table (n, d), or chunks of one, with `weights`; NaN is an entry that was not observed where
    `missing=True`. `condition` keeps what was seen (statistics add); `credo.fit` learns from that and from the rows it
    is given, or from that alone: `credo.fit(belief)`.
    """

    from_data: ClassVar[tuple[str, ...]] = ("seen",)
    isotropic: ClassVar[bool]

    l: int | str = eqx.field(static=True)
    """How many factors; "auto" until data have told."""
    prior: str | None = eqx.field(static=True)
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    """The names of the columns."""
    seen: Rows | None
    """What was seen; None before any."""
    mean: Float[Array, " d"] | None = real()
    w: Float[Array, "d l"] | None = real()
    """W: a column for each factor."""
    noise: Float[Array, "*d"] | None = positive()
    """The noise variance of each column; of PPCA the one of all."""

    def __init__(
        self,
        l: int | str = "auto",
        *,
        prior: str | None = None,
        mean: ArrayLike | None = None,
        w: ArrayLike | None = None,
        noise: ArrayLike | None = None,
    ) -> None:
        if not isinstance(l, str):
            check_count(l, "l", 0)
        elif l != "auto":
            raise DataError(f'l must be the number of factors, or "auto", found {l!r}')
        if prior not in PRIORS:
            raise DataError(f'prior must be None (maximum likelihood) or "ard", found {prior!r}')
        self.l, self.prior, self.inputs, self.seen = l if isinstance(l, str) else int(l), prior, None, None
        given = [None if each is None else as_float(each) for each in (mean, w, noise)]
        self.mean, self.w, self.noise = given
        if any(each is not None for each in given):
            self.l = _check_given(type(self).__name__, self.l, given, () if self.isotropic else None)

    # -- what every belief does -----------------------------------------------------------------------------

    def told(self, *data: Any) -> Any:
        """The belief that knows the names of its columns."""
        table = bool(data) and (hasattr(data[0], "shape") or hasattr(data[0], "columns") or isinstance(data[0], list))
        if not table or is_traced(data[0]):
            return self
        return changed(self, inputs=tuple(input_names(data[0], self.inputs)) or None)

    def statistics(self, x: ArrayLike, *, weights: ArrayLike | None = None, missing: bool = False) -> Rows:
        """Moments of the rows seen in full, and the rows seen in part."""
        return read(x, weights, missing, self._columns)

    def condition_on(self: F, statistics: Rows) -> F:
        """Keeps what was seen, for learning: given μ, W and Ψ rows say nothing of each other."""
        return changed(self, seen=statistics if self.seen is None else self.seen + statistics)

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log p(x | μ, W, Ψ), what was not seen integrated out."""
        return log_likelihood(self.parameters, statistics)

    def log_evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """`evidence_of`, in NumPy."""
        return self.evidence_of(statistics)

    def prepare(self, *data: ArrayLike, **options: Any) -> tuple[Any, Rows]:
        """With l chosen, and starting values, where they were not given, from a closed form."""
        from credo.models.factor.learning import started

        if not data and self.seen is None:
            raise DataError(f"there is nothing to learn from: call credo.fit({type(self).__name__}(l), x)")
        rows = self.statistics(*data, **options) if data else self.seen
        assert rows is not None
        if data and self.seen is not None:
            rows = self.seen + rows
        return started(self.unconditioned(), rows), rows

    def predict(self, x: ArrayLike | None = None, *, columns: Sequence[str | int] | None = None) -> Normal:
        """The next row; or of rows x what they do not show, NaN or the `columns` named, given what they show.

        Args:
            x: rows with NaN where they were not seen, shape (m, d); None asks for the next row, shape (d,).
            columns: which to predict, by name or place, from all others: shape (m, number of columns). Without them the
                shape is (m, d), and an entry that was seen is what it is, with no variance.
        """
        p = self.parameters
        xp = namespace(p)
        if x is None:
            if columns is not None:
                raise DataError("columns are predicted from the others: pass the rows, predict(x, columns=…)")
            variance = (p.w**2).sum(1) + p.noise
            return Normal(p.mean, variance, xp.zeros_like(variance))
        table = self._table(x)
        which = None if columns is None else [self._place(each) for each in columns]
        if which is not None:
            table = np.where(np.isin(np.arange(table.shape[1]), which), np.nan, table)
        seen, found = ~np.isnan(table), self._look(table)
        spread = xp.einsum("dl,nlk,dk->nd", p.w, found.covariance, p.w)
        mean = np.where(seen, table, p.mean + found.mean @ p.w.T)
        variance = np.where(seen, 0.0, spread + p.noise)
        if which is not None:
            mean, variance = mean[:, which], variance[:, which]
        return Normal(mean, variance, np.zeros_like(variance))

    # -- questions about rows ---------------------------------------------------------------------------------

    def factors(self, x: ArrayLike) -> Normal:
        """p(z | x) of each row, shape (m, l): its doubt is ignorance, which more columns of the row would lessen."""
        table = self._table(x)
        found = self._look(table)
        variance = np.broadcast_to(np.diagonal(found.covariance, axis1=1, axis2=2), found.mean.shape)
        return Normal(found.mean, np.zeros(found.mean.shape), variance)

    def log_density(self, x: ArrayLike) -> Float[Array, " n"]:
        """log p of what each row shows; 0 where it shows nothing."""
        return self._look(self._table(x)).log_prob

    def anomaly(self, x: ArrayLike) -> Float[Array, " n"]:
        """The probability of a row as odd as this one, or odder: small is an anomaly.

        P(χ² ≥ distance), the distance that of Mahalanobis in the columns that were seen. Rows like those that were
        learned from have uniform scores; 1 where a row shows nothing.
        """
        table = self._table(x)
        degrees = (~np.isnan(table)).sum(1)
        distance = self._look(table).distance
        return np.where(degrees > 0, special(distance).chdtrc(np.maximum(degrees, 1), distance), 1.0)

    def impute(self, x: ArrayLike, draws: int | None = None, *, seed: int = 0) -> Float[np.ndarray, "..."]:
        """The rows with their mean where they were not seen; with `draws` so many joint completions, (draws, n, d)."""
        if draws is None:
            return np.asarray(self.predict(x).mean)
        check_count(draws, "draws")
        table, p, rng = self._table(x), self.parameters, np.random.default_rng(seed)
        found, seen = self._look(table), ~np.isnan(table)
        root = np.linalg.cholesky(found.covariance)
        out = np.empty((draws, *table.shape))
        for i in range(draws):
            z = found.mean + (root @ rng.normal(size=found.mean.shape)[:, :, None])[:, :, 0]
            out[i] = np.where(seen, table, p.mean + z @ p.w.T + np.sqrt(p.noise) * rng.normal(size=table.shape))
        return out

    def sample(self, n: int = 1, *, seed: int = 0) -> Float[np.ndarray, "n d"]:
        """n new rows."""
        check_count(n, "n")
        p, rng = self.parameters, np.random.default_rng(seed)
        z, noise = rng.normal(size=(n, p.w.shape[1])), rng.normal(size=(n, len(p.mean)))
        return np.asarray(p.mean + z @ p.w.T + np.sqrt(p.noise) * noise)

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """WWᵀ + Ψ."""
        return self.parameters.covariance

    def loadings(
        self, rotation: str | None = None, *, standardize: bool = False, draws: int = 0, seed: int = 0
    ) -> Loadings:
        """W, to be read: how much of each factor each column shows.

        Args:
            rotation: None has orthogonal columns, the factor that shows most first; "varimax" turns them so that each
                shows in few columns. The likelihood is the same.
            standardize: in units of the standard deviation of each column.
            draws: of tables like the one that was seen, of which W is learned again: standard errors (parametric
                bootstrap, on d × d matrices).
            seed: of those.
        """
        return loadings_of(self, rotation, standardize, draws, seed)

    # -- learning -------------------------------------------------------------------------------------------

    def learner(self, priors: Mapping[str, object]) -> Learner | None:
        """The closed form or the profiled likelihood; EM where entries are missing, or with `prior="ard"`."""
        from credo.models.factor.learning import _ByCovariance

        return None if priors else _ByCovariance()

    def expect(self, statistics: Rows) -> tuple[Expected, Float[Array, ""]]:
        """The moments of the factors given the rows."""
        return expectations.expect(self.parameters, statistics)

    def expect_side_by_side(
        self, beliefs: Sequence[Any], statistics: Rows
    ) -> list[tuple[Expected, Float[Array, ""]]] | None:
        """`expect` of each in NumPy: products of large matrices, for which nothing need be compiled."""
        return None if is_traced(beliefs, statistics) else [each.expect(statistics) for each in beliefs]

    def maximize(self: F, expected: Expected, fixed: tuple[str, ...] = ()) -> F:
        """The M-step, with parameter expansion."""
        found = expectations.maximize(self.parameters, expected, self.isotropic, self.prior == "ard", tuple(fixed))
        return self.with_parameters(found)

    def log_prior_of_parameters(self) -> Any:
        """log p(W | Ψ) of `prior="ard"`."""
        return expectations.log_prior(self.parameters) if self.prior == "ard" else 0.0

    def restart(self, statistics: Rows, seed: int) -> None:
        """None: the start is a closed form."""
        return

    @abstractmethod
    def fit_covariance(self, covariance: Float[np.ndarray, "d d"], start: Float[np.ndarray, " d"] | None) -> Fitted:
        """W and Ψ of the highest likelihood of a covariance matrix."""

    # -- parts ----------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> Parameters:
        """μ, W and the diagonal of Ψ; an error where they are not known."""
        if self.mean is None or self.w is None or self.noise is None:
            raise DataError(
                f"the factors of the {type(self).__name__} are not known yet; learn them with credo.fit(belief, x), or "
                "give mean=, w= and noise="
            )
        xp = namespace(self.mean, self.w, self.noise)
        return Parameters(self.mean, self.w, xp.broadcast_to(self.noise, self.mean.shape))

    def with_parameters(self: F, p: Parameters) -> F:
        """The belief with other numbers."""
        noise = namespace(p).asarray(p.noise.mean()) if self.isotropic else p.noise
        return changed(self, mean=p.mean, w=p.w, noise=noise, l=p.w.shape[1])

    @property
    def _columns(self) -> int | tuple[str, ...] | None:
        return self.inputs or (None if self.mean is None else self.mean.shape[0])

    def _table(self, x: ArrayLike) -> Float[Array, "n d"]:
        """Rows that are asked about, NaN where they were not seen."""
        self.parameters  # noqa: B018 (says what is missing)
        table = check_table(x, "x", self._columns, finite=False)
        seen_of(table)
        return table

    def _look(self, table: Float[Array, "n d"]) -> OfRows:
        """The posterior of the factors of each row, a block at a time."""
        p, seen = self.parameters, ~np.isnan(table)
        if seen.all():
            return look(p, table)
        filled = np.where(seen, table, 0.0)
        parts = [look(p, filled[cut], seen[cut]) for cut in blocks(len(table), True)]
        return OfRows(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _place(self, column: str | int) -> int:
        """The place of a column that is named."""
        names = self.inputs or tuple(f"x{i}" for i in range(len(self.parameters.mean)))
        if isinstance(column, str) and column in names:
            return names.index(column)
        if isinstance(column, int) and -len(names) <= column < len(names):
            return column % len(names)
        raise DataError(f"columns must be of {', '.join(names[:12])}, found {column!r}")

    def __repr__(self) -> str:
        """`FactorAnalysis(3 factors of 12 columns; explain 0.71 of the variance)`."""
        said = "factors to be chosen" if isinstance(self.l, str) else counted(self.l, "factor")
        w, noise = plain(self.w, 2), None if self.noise is None else plain(self.noise, np.ndim(self.noise))
        if w is None or noise is None:
            return f"{type(self).__name__}({said}; not known yet)"
        each = (w**2).sum(1)
        share = (each / (each + noise)).mean() if not self.isotropic else each.sum() / (each + noise).sum()
        return f"{type(self).__name__}({said} of {counted(len(w), 'column')}; explain {rounded(share)} of the variance)"


class FactorAnalysis(FactorModel):
    """Factor analysis: x = μ + Wz + ε with a noise variance of its own for each column.

    Args:
        l: how many factors, fewer than columns; "auto" chooses (`how_many`).
        prior: None for maximum likelihood, "ard" for a precision of each column of W: those not needed vanish.
        mean, w, noise: the parameters, shapes (d,), (d, l) and (d,), where they are known.

    The units of the columns change nothing. A column that the factors explain without remainder (a Heywood case) keeps
    a millionth of its variance as noise, and is warned of.
    """

    isotropic: ClassVar[bool] = False

    def fit_covariance(self, covariance: Float[np.ndarray, "d d"], start: Float[np.ndarray, " d"] | None) -> Fitted:
        """The maximum of the likelihood profiled over W."""
        from credo.models.factor.covariance_fit import fit_diagonal

        assert isinstance(self.l, int)
        return fit_diagonal(covariance, self.l, start)


class PPCA(FactorModel):
    """Probabilistic principal component analysis: x = μ + Wz + ε with the same noise variance σ² in all columns.

    Args:
        l: how many factors, fewer than columns; "auto" chooses by Minka's evidence (`how_many`).
        prior: None for maximum likelihood, "ard" for a precision of each column of W (Bayesian PCA).
        mean, w, noise: the parameters, shapes (d,), (d, l) and (), where they are known.

    As in all principal component analysis the columns must be in comparable units.
    """

    isotropic: ClassVar[bool] = True

    def fit_covariance(self, covariance: Float[np.ndarray, "d d"], start: Float[np.ndarray, " d"] | None) -> Fitted:
        """The closed form."""
        from credo.models.factor.covariance_fit import fit_isotropic

        assert isinstance(self.l, int)
        return fit_isotropic(covariance, self.l)


def _check_given(name: str, l: int | str, given: list[Any], shape: tuple[int, ...] | None) -> int:
    """How many factors parameters that were given have; they come together, and fit each other."""
    mean, w, noise = given
    if mean is None or w is None or noise is None:
        raise DataError(f"{name} takes mean, w and noise together, or none of them")
    if mean.ndim != 1 or w.ndim != 2 or len(w) != len(mean) or noise.shape != (mean.shape if shape is None else shape):
        wanted = "(d,)" if shape is None else "()"
        raise DataError(
            f"mean, w and noise must have shapes (d,), (d, l) and {wanted}, found {mean.shape}, {w.shape} and "
            f"{noise.shape}"
        )
    if not is_traced(given):
        if not all(np.isfinite(each).all() for each in given) or not np.all(noise > 0):
            raise DataError("mean, w and noise must be finite, and noise positive")
        if isinstance(l, int) and w.shape[1] != l:
            raise DataError(f"w must have {l} columns, one for each factor, found {w.shape[1]}")
    return int(w.shape[1])
