"""The report of a map: the field and its doubt, how far to trust it, and where to measure next."""

import numpy as np
from scipy.special import ndtri

from credo.app.map.run import Mapping, Suggestion
from credo.app.plots import maps as draw
from credo.app.plots.predictions import observed_against_predicted
from credo.app.plots.style import RED, data_uri, panels, title
from credo.app.report.checks import Coverage, coverage
from credo.app.report.page import Block, Cell, Code, Figure, Page, Row, Section, Table, Text
from credo.app.report.tables import opening
from credo.app.report.words import count, coverage_verdict, number, percent

LEVEL = 0.95
SCORES = {"rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "nlpd": "NLPD"}


def page(result: Mapping, *, command: str = "") -> Page:
    """The report. `command` is shown for reproduction."""
    sections = [*opening(_headline(result), _tiles(result), _warnings(result)), _maps(result)]
    if result.threshold is not None:
        sections.append(_exceedance(result))
    if "slope" in result.map.layers:
        sections.append(_slopes(result))
    sections += [_variogram(result), _checks(result), _next(result), _data(result), _use(result)]
    made = f"seed {result.seed}, {result.field.belief.method}, {result.seconds:.0f} s."
    return Page(f"A map of {result.value} from {result.source}", tuple(sections), command, made)


def _unit(result: Mapping) -> str:
    return "km" if result.field.lonlat else ""


def _headline(result: Mapping) -> list[str]:
    mean, sd = result.map.mean, result.map.sd
    low, high = (np.unravel_index(at, mean.shape) for at in (np.argmin(mean), np.argmax(mean)))
    places = [result.named((result.map.grid.x[j], result.map.grid.y[i])) for i, j in (low, high)]
    said = (
        f"{result.value} is expected to lie between {number(mean[low])} (at {places[0]}) and {number(mean[high])} (at "
        f"{places[1]}), give or take {number(float(np.median(1.96 * sd)))} at a typical place."
    )
    if result.threshold is None:
        return [said, _most(result)]
    p = result.map.layers["exceeds"]
    surely, open_ = (float(result.map.areas[where].sum()) for where in (p > LEVEL, (p > 1 - LEVEL) & (p <= LEVEL)))
    above = (
        f"It is above {number(result.threshold)} with a probability of more than {percent(LEVEL)} on {percent(surely)} "
        f"of the map; on {percent(open_)} the measurements do not tell."
    )
    return [said, above, _most(result)]


def _most(result: Mapping) -> str:
    best = result.next[0]
    where = "the map" if result.threshold is None else "the map near the threshold"
    why = f": it would lower the variance of {where} by {percent(best.gain)}" if np.isfinite(best.gain) else ""
    return f"One more measurement would help most at {result.named(best.place)}{why}."


def _tiles(result: Mapping) -> tuple[tuple[str, str, str], ...]:
    scores = result.scores
    plain = scores["the mean everywhere"]["rmse"]
    held = _coverage(result)
    tiles = [
        (
            "measurements",
            f"{len(result.field.values):,}",
            f"{result.map.grid.shape[1]} × {result.map.grid.shape[0]} cells",
        ),
        ("error, each left out", number(scores["each alone"]["rmse"]), f"the mean everywhere: {number(plain)}"),
    ]
    if "whole blocks" in scores:
        tiles.append(("error, blocks left out", number(scores["whole blocks"]["rmse"]), "what gaps are like"))
    tiles.append(("95 % intervals held", percent(held.observed), "of measurements, each left out"))
    return tuple(tiles)


def _coverage(result: Mapping) -> Coverage:
    p = result.left_out
    return coverage(np.abs(result.field.values - p.mean) <= float(ndtri(0.5 + LEVEL / 2)) * p.std, LEVEL)


def _warnings(result: Mapping) -> list[str]:
    said, scores = list(result.notes), result.scores
    if scores["each alone"]["rmse"] >= 0.95 * scores["the mean everywhere"]["rmse"]:
        said.append("Measurements say next to nothing about their neighbours: one number everywhere is hardly worse.")
    if _coverage(result).off:
        said.append(
            f"{percent(_coverage(result).observed)} of 95 % intervals held{coverage_verdict(_coverage(result))}"
        )
    below = float(result.map.areas[result.map.mean < 1.96 * result.map.sd].sum())
    if result.field.values.min() >= 0 and below > 0.05:
        said.append(
            f"No measurement is negative, but on {percent(below)} of the map 95 % intervals reach below zero: "
            "a Gaussian field knows no bounds. Mapping the logarithm may serve better."
        )
    if len(result.field.values) < 30:
        said.append(f"{count(len(result.field.values), 'measurement')} are few to learn a variogram from.")
    return said


def _height(result: Mapping) -> float:
    """Of pictures of the map, whose cells are about square."""
    rows, columns = result.map.grid.shape
    return float(np.clip(3.7 * rows / columns + 0.6, 1.8, 3.9))


def _maps(result: Mapping) -> Section:
    figure, axes = panels(2, _height(result), across=2)
    for ax, layer, name in zip(axes, ("mean", "sd"), (result.value, "its standard deviation"), strict=True):
        draw.field_map(result.map, layer, result.field.points, ax=ax)
        title(ax, name)
    for each in result.next:
        axes[1].plot(*each.place, "+", color=RED, markersize=11, markeredgewidth=2)
    what = "the field with its variation between neighbours" if result.field.exact else "the field without the nugget"
    caption = (
        f"What is expected ({what}), and the doubt about it. Dots are measurements, crosses where to measure next."
    )
    return Section(
        "map", "The map", (Figure(data_uri(figure), "Maps of the mean and its standard deviation", caption),)
    )


def _exceedance(result: Mapping) -> Section:
    figure, axes = panels(1, _height(result), across=1, width=5.4)
    draw.field_map(result.map, "exceeds", result.field.points, ax=axes[0])
    assert result.threshold is not None
    picture = Figure(data_uri(figure), f"The probability of more than {number(result.threshold)}", narrow=True)
    said = (
        f"The probability that {result.value} is above {number(result.threshold)} at each place, on its own.",
        "Where it is pale the measurements do not tell.",
    )
    return Section("exceedance", f"Above {number(result.threshold)}", (picture, Text(said)))


def _slopes(result: Mapping) -> Section:
    figure, axes = panels(2, _height(result), across=2)
    for ax, layer, name in zip(axes, ("slope", "aspect"), ("slope", "aspect: where it falls"), strict=True):
        draw.field_map(result.map, layer, ax=ax)
        title(ax, name)
    per = "a kilometre" if result.field.lonlat else "a unit of distance"
    caption = (
        f"How much {result.value} changes over {per}, and downhill in degrees from north; the files have their doubt."
    )
    return Section("slope", "Slope and aspect", (Figure(data_uri(figure), "Maps of slope and aspect", caption),))


def _variogram(result: Mapping) -> Section:
    field, learned = result.field, result.variogram.learned
    assert learned is not None
    picture = Figure(
        data_uri(draw.variogram(result.variogram, _unit(result))),
        "The variogram of the measurements and the learned one",
        "How unlike two measurements are, by their distance. Large dots are of many pairs.",
        narrow=True,
    )
    share = field.nugget / float(learned[1][-1])
    what = "variation between neighbours" if field.exact else "noise of the measurements"
    said = [f"The field is {field.kernel.formula()}.", f"The nugget, {what}, is {percent(share)} of the variogram."]
    if field.groups:
        said.append(f"Groups differ by a standard deviation of {number(field.group_variance**0.5)}.")
    return Section("variogram", "How alike neighbours are", (picture, Text((*said, field.notes), "list")))


def _checks(result: Mapping) -> Section:
    figure, axes = panels(1, 3.6, across=1, width=5.0)
    observed_against_predicted(result.left_out, result.field.values, ax=axes[0])
    rows = []
    for name, scores in result.scores.items():
        cells = (number(scores[key]) for key in SCORES)
        rows.append(Row((name, *cells, percent(scores["coverage"])), "muted" if name.startswith("the mean") else ""))
    blocks: list[Block] = [
        Table(("left out", *SCORES.values(), "95 % held"), tuple(rows)),
        Figure(data_uri(figure), "Measurements against what the others say of them", narrow=True),
        Text(
            (
                f"{percent(_coverage(result).observed)} of 95 % intervals held{coverage_verdict(_coverage(result))}",
                "Each alone: a measurement is predicted from all others, its neighbours among them. Whole blocks: "
                "squares of a fifth of the longer side of all points, or less, are left out together, which is what "
                "gaps are like. The variogram was learned from all.",
            )
        ),
    ]
    return Section("checks", "How far to trust it", tuple(blocks))


def _next(result: Mapping) -> Section:
    def row(each: Suggestion, i: int) -> Row:
        gain = Cell(percent(each.gain)) if np.isfinite(each.gain) else Cell("–")
        return Row((f"{i}", result.named(each.place), number(each.sd), gain))

    goal = "the whole map is known best" if result.threshold is None else "the map is best told from the threshold"
    said = f"Places between the measurements, in the order in which to measure so that {goal}."
    table = Table(
        ("", "place", "standard deviation now", "lowers the variance by"),
        tuple(row(each, i) for i, each in enumerate(result.next, 1)),
        left=(0, 1),
    )
    return Section("next", "Where to measure next", (Text((said,)), table))


def _data(result: Mapping) -> Section:
    y = result.field.values
    x = result.field.points
    rows = [
        Row((name, number(float(v.min())), number(float(np.median(v))), number(float(v.max()))))
        for name, v in zip((*result.map.names, result.value), (*x.T[:2], y), strict=True)
    ]
    table = Table(("column", "least", "median", "most"), tuple(rows))
    return Section("data", "The data", (Text((f"{len(y):,} measurements were used.",)), table))


def _use(result: Mapping) -> Section:
    place = [round(float(v), 4) for v in np.median(result.field.points[:, :2], axis=0)]
    code = (
        "import credo",
        "",
        'field = credo.load("field.credo")',
        f"field.predict([{place}])                     # mean, interval, …",
        f"field.draw([{place}], 100)                   # draws of the field",
        "field.map((200, 150)).write('fine.csv')",
    )
    said = "map.csv has a row for each cell, map.npz the layers as arrays (and map.tif where rasterio is installed)."
    return Section("use", "Using the map", (Text((said,)), Text(("In Python:",)), Code("\n".join(code))))
