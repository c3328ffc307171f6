"""`explore`: clusters, factors, missing cells and odd rows of a table, found in one go; what `credo explore` does."""

import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from credo.app.explore.clusters import Clusters, Say, find_clusters
from credo.app.explore.features import Features, read_features
from credo.app.explore.gaps import Gaps, find_gaps
from credo.app.explore.oddness import Oddness, find_oddness
from credo.app.table.read import Table, as_table
from credo.core.checks import check_count
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.text import counted
from credo.infer.learning import fit
from credo.infer.progress import Progress, Show
from credo.models.factor import FactorAnalysis
from credo.models.factor.loadings import Loadings

if TYPE_CHECKING:
    from credo.app.report.page import Page

FACTOR_ROWS, GAPPED_ROWS = 100_000, 1_000
"""Rows that factors are learned from: all that count where none has gaps, fewer where some have."""
FEWEST_NUMBERS = 3
"""Columns of numbers, without which there is no factor to be found."""
ADDED = ("cluster", "cluster_probability", "anomaly", "odd")


class Exploration(NamedTuple):
    """What was found in a table."""

    source: str
    table: Table
    features: Features
    clusters: Clusters
    oddness: Oddness
    gaps: Gaps
    factors: Loadings | None
    """None where there are fewer than three columns of numbers."""
    seed: int
    seconds: float

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns that `frame` adds."""
        taken = set(self.table.columns)
        return tuple(name if name not in taken else f"credo_{name}" for name in ADDED)

    @property
    def frame(self) -> pd.DataFrame:
        """The table with each row's cluster, how sure that is, its anomaly score, and whether it is odd."""
        found = self.clusters
        labels, score = pd.Series(found.labels + 1), self.oddness.score
        values = (labels, found.probability.round(6), score, np.where(self.oddness.odd, "yes", "no"))
        frame = self.table.frame.reset_index(drop=True)
        return frame.assign(**dict(zip(self.added, values, strict=True)))

    def describe(self) -> list[str]:
        """What was found, in a few sentences."""
        from credo.app.report.exploration import summary

        return summary(self)

    def page(self, *, command: str = "") -> "Page":
        """The report, as a page of sections."""
        from credo.app.report.exploration import page

        return page(self, command=command)

    def report(self, path: str | Path | None = None, *, command: str = "") -> "Page | Path":
        """Writes the report as one HTML file; without a path, what a notebook shows."""
        page = self.page(command=command)
        return page if path is None else page.write(path)

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()

    def __repr__(self) -> str:
        """`Exploration(flats.csv: 300 rows, 3 clusters, 2 factors, 4 odd rows)`."""
        factors = 0 if self.factors is None else self.factors.values.shape[1]
        said = [
            counted(len(self.table), "row"),
            counted(self.clusters.k, "cluster"),
            counted(factors, "factor"),
            counted(int(self.oddness.odd.sum()), "odd row"),
        ]
        return f"Exploration({self.source}: {', '.join(said)})"


def explore(
    frame: Any,
    *,
    ignore: Iterable[str] = (),
    most: int = 8,
    seed: int = 0,
    decimal: str = "",
    progress: Show | bool = False,
) -> Exploration:
    """What is in a table of which no column is to be predicted.

        found = credo.explore(frame)
        found.frame                     # the table with cluster, cluster_probability, anomaly and odd
        found.report("report.html")     # found.report() shows it in a notebook
        found.clusters.mixture          # the `credo.Mixture` itself

    Args:
        frame: a pandas or polars frame, or the path of a CSV, TSV or Parquet file. Numbers, categories, yes/no and
            dates are used as they are, with their gaps; identifiers, constants and free text are left out.
        ignore: columns to leave out besides.
        most: clusters that are tried.
        seed: of the starting points.
        decimal: the decimal mark of numbers in text, where the cells do not tell.
        progress: whether to show a bar, or a function to call.
    """
    begun = time.perf_counter()
    check_count(most, "most")
    if isinstance(ignore, str):
        raise DataError(f"`ignore` lists names of columns, found the text {ignore!r}; write [{ignore!r}]")
    table = as_table(frame, decimal)
    features = read_features(table, ignore)
    with Progress(progress) as show:
        clusters = find_clusters(features, most=most, seed=seed, say=_part(show, 0.0, 0.8))
        show(0.8, "odd rows")
        oddness = find_oddness(features, clusters)
        show(0.85, "factors")
        factors = find_factors(features, seed)
        show(0.95, "missing cells")
        gaps = find_gaps(features)
    seconds = time.perf_counter() - begun
    return Exploration(table.name, table, features, clusters, oddness, gaps, factors, seed, seconds)


def find_factors(features: Features, seed: int) -> Loadings | None:
    """What columns of numbers have in common, each standardized: loadings turned by varimax."""
    places = [i for i, part in enumerate(features.parts) if part.is_number and "=" not in part.name]
    if len(places) < FEWEST_NUMBERS:
        return None
    x = features.x[:, places]
    x = x[(~np.isnan(x)).any(1)]
    gapped = bool(np.isnan(x).any())
    most = GAPPED_ROWS if gapped else FACTOR_ROWS
    if len(x) > most:
        x = x[np.sort(np.random.default_rng(seed).choice(len(x), most, replace=False))]
    names = [features.parts[i].name for i in places]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Heywood", NotConvergedWarning)  # the report says so
        blank: Any = FactorAnalysis  # mypy takes the constructor of its base for a dataclass's
        belief = fit(blank("auto"), pd.DataFrame(x, columns=names), missing=True)
    draws = 0 if len(x) <= 2 * len(places) or belief.l == 0 else 50
    return belief.loadings("varimax", standardize=True, draws=draws, seed=seed) if belief.l else None


def _part(show: Say, begin: float, end: float) -> Say:
    return lambda share, text: show(begin + (end - begin) * share, text)
