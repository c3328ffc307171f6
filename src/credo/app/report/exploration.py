"""The report of `credo explore`: what is in a table, in the order in which it is asked."""

from typing import TYPE_CHECKING

import numpy as np

from credo.app.plots import exploration as draw
from credo.app.plots.factors import MOST as MOST_FACTORS
from credo.app.plots.factors import loadings as draw_loadings
from credo.app.plots.style import data_uri
from credo.app.report.page import Block, Code, Figure, Page, Row, Section, Table, Text, Tiles
from credo.app.report.words import count, number, percent

if TYPE_CHECKING:
    from credo.app.explore.exploration import Exploration
    from credo.app.explore.features import Feature

APART = 0.4
"""Standard deviations, or a difference of shares, from which on a cluster is said to differ from all rows."""
SMALL = 0.03
"""Clusters with less of the rows are perhaps not kinds but oddities."""
SURE = 0.9
LOADS, WHOLE = 0.4, 0.999
"""Loadings that are named, and the share of a column's variance that is all of it."""
MOST_OPEN = 14


def page(found: "Exploration", *, command: str = "") -> Page:
    """The report."""
    sections = [
        _headline(found),
        _clusters(found),
        _odd(found),
        _factors(found),
        _missing(found),
        _data(found),
        _use(found),
    ]
    made = f"seed {found.seed}, {found.seconds:.0f} s."
    return Page(f"What is in {found.source}", tuple(s for s in sections if s is not None), command, made)


def summary(found: "Exploration") -> list[str]:
    """What was found, a sentence for each question."""
    clusters, n = found.clusters, len(found.table)
    sure = float((clusters.probability >= SURE).mean())
    said = [
        "The rows are of one kind: no split into clusters describes them better."
        if clusters.k == 1
        else f"The rows fall into {clusters.k} clusters; for {percent(sure)} of them the cluster is sure "
        f"(at least {percent(SURE)})."
    ]
    odd = int(found.oddness.odd.sum())
    said.append(
        f"{count(odd, 'row')} {'is' if odd == 1 else 'are'} odd: improbable in every cluster."
        if odd
        else "No row is odder than chance explains."
    )
    if found.factors is not None:
        l = found.factors.values.shape[1]
        share = percent(float(found.factors.share.sum()))
        said.append(
            f"{count(l, 'factor')} {'explains' if l == 1 else 'explain'} {share} of the variance of the numbers."
        )
    gaps = sum(found.gaps.columns.values())
    said.append(
        f"{count(gaps, 'cell')} in {count(len(found.gaps.columns), 'column')} {'is' if gaps == 1 else 'are'} missing; "
        f"{percent(found.gaps.complete / n)} of the rows are complete."
        if gaps
        else "No cell is missing."
    )
    return said


def _headline(found: "Exploration") -> Section:
    clusters = found.clusters
    tiles = (
        ("rows", f"{len(found.table):,}", count(len(found.features.summaries), "column")),
        (
            "clusters",
            str(clusters.k),
            f"largest {percent(float(np.bincount(clusters.labels).max() / len(clusters.labels)))}",
        ),
        ("odd rows", f"{int(found.oddness.odd.sum()):,}", "of which 1 in 20 may be chance"),
        ("factors", "–" if found.factors is None else str(found.factors.values.shape[1]), "of the columns of numbers"),
        ("cells missing", f"{sum(found.gaps.columns.values()):,}", f"in {count(len(found.gaps.columns), 'column')}"),
    )
    return Section("headline", "", (Text(tuple(summary(found)), "lead"), Tiles(tiles)))


# -- clusters ------------------------------------------------------------------------------------------------------


def _clusters(found: "Exploration") -> Section:
    clusters, features = found.clusters, found.features
    picture = Figure(
        data_uri(draw.sizes(clusters.trials)),
        "ICL for each number of clusters",
        "How many clusters: the ICL weighs the likelihood against how many numbers it takes, and how sure labels are. "
        "The ring is the choice; differences below 10 are not strong.",
    )
    limits = _limits(found)
    if clusters.k == 1:
        return Section("clusters", "Clusters", (Text(("One cluster describes the rows best.",)), picture))
    blocks: list[Block] = [Text(tuple(_of_cluster(found, j) for j in range(clusters.k)), "list")]
    tiny = [j + 1 for j, share in enumerate(clusters.shares.mean(0)) if share < SMALL]
    if tiny:
        listed = ", ".join(map(str, tiny))
        noun = "Cluster" if len(tiny) == 1 else "Clusters"
        said = f"{noun} {listed}: less than {percent(SMALL)} of the rows. Look at them as oddities before as a kind."
        blocks.append(Text((said,)))
    pair = _telling_pair(found)
    if pair is not None:
        first, second = (features.parts[i] for i in pair)
        ax = draw.scatter(
            first.natural(first.values),
            second.natural(second.values),
            clusters.labels,
            found.oddness.odd,
            (first.name, second.name),
        )
        for part, scale in ((first, ax.set_xscale), (second, ax.set_yscale)):
            if part.power == 0 and np.nanmin(part.natural(part.values)) > 0:
                scale("log")
        blocks.append(
            Figure(
                data_uri(ax),
                f"The rows over {first.name} and {second.name}, coloured by cluster",
                "The two columns of numbers in which the clusters differ most. Rings are odd rows, which may be odd in "
                "columns that are not shown.",
            )
        )
    values, names = differences(found)
    blocks += [
        Figure(
            data_uri(draw.profile(values, names)),
            "A table of clusters and columns: how far each cluster lies from all rows",
            "What sets clusters apart: the mean of each less that of all rows, in standard deviations; of levels the "
            "share less that of all rows, in the standard deviation of yes and no.",
        ),
        _table(found),
        picture,
        *limits,
    ]
    return Section("clusters", "Clusters", tuple(blocks))


def _limits(found: "Exploration") -> list[Block]:
    """Where the number of clusters says more of what was tried than of the rows."""
    clusters, said = found.clusters, []
    if 1 < clusters.k == clusters.most:
        said.append(f"The best number of clusters is the largest that was tried, {clusters.k}: try more by --most.")
    numbers = len(found.features.numbers)
    if numbers > 2 and all(trial.shape == "diagonal" for trial in clusters.trials):
        said.append(
            f"{count(len(clusters.labels), 'row')} are too few to learn how {numbers} columns covary within a cluster: "
            "columns that go together are then cut into several clusters along their common direction."
        )
    return [Text(tuple(said))] if said else []


def differences(found: "Exploration") -> tuple[np.ndarray, list[str]]:
    """(columns and levels, clusters): how far each cluster is from all rows; the most telling first."""
    rows, names = [], []
    for part in found.features.parts:
        levels = (
            [part.values]
            if part.is_number
            else [np.where(np.isnan(part.values), np.nan, part.values == i) for i in range(len(part.levels))]
        )
        shown = [part.name] if part.is_number else [f"{part.name}: {level}" for level in part.levels]
        if len(levels) == 2:
            levels, shown = levels[1:], shown[1:]
        for name, values in zip(shown, levels, strict=True):
            known = ~np.isnan(values)
            share = found.clusters.shares[known]
            mean = (share.T @ values[known]) / np.maximum(share.sum(0), 1e-12)
            spread = values[known].std()
            rows.append((mean - values[known].mean()) / (spread if spread > 0 else 1.0))
            names.append(name)
    table = np.array(rows)
    order = np.argsort(-np.abs(table).max(1), kind="stable")[: draw.MOST_COLUMNS]
    return table[order], [names[i] for i in order]


def _of_cluster(found: "Exploration", j: int) -> str:
    """The size of a cluster, and what sets it apart."""
    values, names = differences(found)
    share = float(found.clusters.shares[:, j].mean())
    apart = sorted(range(len(names)), key=lambda i: -abs(values[i, j]))
    told = [i for i in apart if abs(values[i, j]) >= APART][:4]
    words = []
    for i in told:
        size = abs(values[i, j])
        strong = "much " if size > 1.2 else ""
        words.append(f"{strong}{_compared(found, names[i], values[i, j] > 0)}")
    sets = "; ".join(words) if words else "near the average in every column"
    return f"Cluster {j + 1} ({count(int((found.clusters.labels == j).sum()), 'row')}, {percent(share)}): {sets}."


def _compared(found: "Exploration", name: str, above: bool) -> str:
    """How a cluster with more, or less, of a column or level than all rows is said to be."""
    part = next(p for p in found.features.parts if name == p.name or name.startswith(f"{p.name}: "))
    if part.is_number:
        return f"{('later' if above else 'earlier') if part.origin else ('more' if above else 'less')} {name}"
    if above or len(part.levels) != 2:
        return f"{'more' if above else 'less'} often {name}"
    return f"more often {part.name}: {part.levels[0]}"


def _telling_pair(found: "Exploration") -> tuple[int, int] | None:
    """The two columns of numbers whose means differ most between clusters."""
    places = found.features.numbers
    if len(places) < 2:
        return None
    shares, scores = found.clusters.shares, []
    for i in places:
        values = found.features.parts[i].values
        known = ~np.isnan(values)
        weight = shares[known].sum(0)
        mean = (shares[known].T @ values[known]) / np.maximum(weight, 1e-12)
        scores.append(float((weight * (mean - values[known].mean()) ** 2).sum() / max(known.sum(), 1)))
    order = np.argsort(-np.array(scores), kind="stable")
    return places[int(order[0])], places[int(order[1])]


def _table(found: "Exploration") -> Table:
    """A row for each column: all rows, and each cluster, in the column's own units."""
    clusters = found.clusters

    def cell(part: "Feature", weight: np.ndarray) -> str:
        known = ~np.isnan(part.values)
        total = weight[known].sum()
        if total < 1e-9:
            return "–"
        if part.is_number:
            mean = float(part.natural(np.asarray((weight[known] @ part.values[known]) / total)))
            return number(mean) if not part.origin else f"{part.date(mean):%Y-%m-%d}"
        shares = np.array([weight[known] @ (part.values[known] == i) for i in range(len(part.levels))]) / total
        return f"{part.levels[int(shares.argmax())]} {percent(float(shares.max()))}"

    each = [np.ones(len(clusters.labels)), *clusters.shares.T]
    rows = tuple(Row((part.name, *(cell(part, weight) for weight in each))) for part in found.features.parts)
    columns = ("column", "all rows", *(f"cluster {j + 1}" for j in range(clusters.k)))
    about = "The clusters in numbers: means (of long tails, of their roots or logarithms), and the commonest levels"
    return Table(columns, rows, summary=about, open=len(rows) <= MOST_OPEN)


# -- odd rows, factors, gaps ---------------------------------------------------------------------------------------


def _odd(found: "Exploration") -> Section:
    oddness = found.oddness
    blocks: list[Block] = []
    many = int(oddness.odd.sum())
    if many:
        said = [
            "A row is odd if it is improbable in every cluster, more so than chance explains. It need not be wrong: "
            "look at it.",
        ]
        if many > 0.02 * len(oddness.odd):
            said.append(
                f"{percent(many / len(oddness.odd))} of the rows are odd: that many suggest columns whose shape is not "
                "that of the clusters (heavy tails, rounding) rather than errors. The order still tells where to look."
            )
        rows = []
        for each in oddness.rows:
            why = (
                "; ".join(f"{b.column} is {b.found}, expected {b.expected}" for b in each.blame if b.rarity < 0.05)
                or "no single cell: the combination"
            )
            rows.append(Row((f"{each.row + 1:,}", why, f"{each.score:.1e}")))
        blocks += [
            Text(tuple(said)),
            Table(
                ("row", "what is surprising, given the rest of the row (90 % intervals)", "probability"),
                tuple(rows),
                left=(1,),
            ),
        ]
        if many > len(oddness.rows):
            blocks.append(
                Text(
                    (f"The {len(oddness.rows)} oddest of {many:,}; all are marked in the table that was written.",),
                    "small",
                )
            )
    else:
        blocks.append(Text(("No row stands out: of so many rows chance makes some as odd as the oddest.",)))
    blocks.append(
        Figure(
            data_uri(draw.oddness(oddness.score, oddness.odd)),
            "Oddness of the rows against what chance would give",
            "Each point is a row: the probability of a row as improbable as it, against what as many rows of these "
            "clusters would show. Points above the line are odder than chance; a whole curve above it says that the "
            "clusters do not have the shape of the data.",
        )
    )
    return Section("odd", "Odd rows", tuple(blocks))


def _factors(found: "Exploration") -> Section:
    loadings = found.factors
    if loadings is None:
        said = "There is no factor: the columns of numbers have nothing in common, or are fewer than three."
        return Section("factors", "Factors", (Text((said,)),))
    words, alone = [], []
    for k in range(loadings.values.shape[1]):
        if not np.any(np.abs(loadings.values[:, k]) >= LOADS):
            alone.append(k)
            continue
        column = loadings.values[:, k]
        order = [i for i in np.argsort(-np.abs(column)) if abs(column[i]) >= LOADS][:6]
        sides = [[loadings.columns[i] for i in order if sign * column[i] > 0] for sign in (1, -1)]
        told = [f"{way} {', '.join(side)}" for way, side in zip(("more", "less"), sides, strict=True) if side]
        words.append(
            f"Factor {k + 1} ({percent(float(loadings.share[k]))} of the variance): {' goes with '.join(told)}."
        )
    if alone:
        share = percent(float(loadings.share[alone].sum()))
        words.append(f"{count(len(alone), 'further factor')} ({share} together): a little of many columns.")
    blocks: list[Block] = [
        Text(
            ("Columns that rise and fall together show something in common that is not in the table itself.", *words),
            "list",
        )
    ]
    if loadings.values.shape[1] <= MOST_FACTORS:
        doubt = " with 95 % intervals" if loadings.std is not None else ""
        blocks.append(
            Figure(
                data_uri(draw_loadings(loadings)),
                f"Loadings of the columns on the factors{doubt}",
                f"How much of each factor a column shows, in standard deviations{doubt}; turned so that each shows in "
                "few columns (varimax).",
            )
        )
    return Section("factors", "Factors", tuple(blocks))


def _missing(found: "Exploration") -> Section:
    gaps, rows = found.gaps, len(found.table)
    if not gaps.columns:
        return Section("missing", "Missing cells", (Text(("No cell is missing.",)),))
    said = [f"{percent(gaps.complete / rows)} of the rows ({gaps.complete:,}) are complete."]
    said += [f"{a} and {b} are missing together." for a, b in gaps.together]
    said += [f"{r.column} is missing more often where {r.where} (p = {r.p_value:.1g})." for r in gaps.relations]
    if gaps.relations:
        said.append("Cells that are missing in some rows rather than others make averages of what is there misleading.")
    else:
        said.append("Nothing says that cells are missing in some rows rather than others.")
    return Section(
        "missing",
        "Missing cells",
        (
            Text(tuple(said), "list"),
            Figure(
                data_uri(draw.gaps(gaps, rows)),
                "The share of missing cells of each column, and which are missing together",
                "Clusters, odd rows and factors use the cells that are there: nothing was filled in, no row left out.",
            ),
        ),
    )


def _data(found: "Exploration") -> Section:
    summaries = found.features.summaries
    blocks: list[Block] = []
    if found.features.notes:
        blocks += [Text(("Decisions made on the way",), "heading"), Text(found.features.notes, "list")]
    rows = tuple(
        Row((s.name, s.role, s.kind or "–", str(s.missing or "–"), s.detail), "muted" if s.role == "left out" else "")
        for s in summaries
    )
    names = ("column", "role", "kind", "missing", "what it holds")
    about = f"All {len(rows)} columns"
    return Section("data", "The data", (*blocks, Table(names, rows, (0, 1, 2, 4), about, len(rows) <= MOST_OPEN)))


def _use(found: "Exploration") -> Section:
    names = ", ".join(found.added)
    python = [
        "import credo",
        "",
        f'found = credo.explore("{found.source}")',
        f"found.frame                # the table with {names}",
        "found.clusters.mixture     # the mixture: sample(), log_density(), predict() of missing columns",
    ]
    return Section("use", "In Python", (Code("\n".join(python)),))
