"""What families of models say of their own: coefficients of lines, the structure of Gaussian processes, novelty."""

from typing import TYPE_CHECKING

import numpy as np

from credo.app.plots.classes import novelty as draw_novelty
from credo.app.plots.gp import components
from credo.app.plots.predictions import coefficients as draw_coefficients
from credo.app.plots.style import MOST_BARS, PAGE, data_uri, new_axes
from credo.app.report.page import Figure, Section, Text
from credo.app.report.words import count, percent
from credo.app.table.prepare import Prepared
from credo.core.abilities import SeesNovelty
from credo.models.gp import GP
from credo.models.gp.description import describe
from credo.models.linear import Linear

if TYPE_CHECKING:
    from credo.app.fit.search import Data

STRANGE, FEW = 0.01, 5
"""Novelty below which a row is named, and how many are."""


def coefficients(belief: Linear, prepared: Prepared) -> Section:
    """The weights of standardized inputs: the effect of one standard deviation more."""
    shown = min(len(belief.coefficient_names()) - 1, MOST_BARS)
    ax = draw_coefficients(belief, ax=new_axes(PAGE, 0.9 + 0.3 * shown))
    ax.set_xlabel(f"change of {prepared.schema.target} for one standard deviation more (95 % interval)")
    picture = Figure(
        data_uri(ax),
        "Posterior of each coefficient: mean and 95 % interval",
        "The coefficients of this straight-line model: the effect of one standard deviation more in each input.",
    )
    return Section("coefficients", "The coefficients", (picture,))


def structure(belief: GP, prepared: Prepared, name: str, chosen: bool) -> Section:
    """What the search for a kernel found, in sentences and panels."""
    columns = {c.name: c for c in prepared.schema.columns}
    units = {c.name: "years" for c in prepared.schema.columns if c.kind == "date"}
    only = columns.get((belief.inputs or ("",))[0]) if prepared.x.shape[1] == 1 else None
    to_axis = only.to_dates if only is not None and only.kind == "date" else None
    rows = "all rows" if chosen else "the training rows; it is not the model that was chosen"
    return Section(
        "structure",
        "What the function is made of",
        (
            Text(
                (
                    "A search over kernels took the function apart; the parts add up to the prediction of "
                    f"“{name}”, learned from {rows}.",
                )
            ),
            Text(tuple(describe(belief, units=units)), "list"),
            Figure(
                data_uri(components(belief, target=prepared.schema.target, units=units, to_axis=to_axis)),
                "The data with the fit and a forecast, and below each additive part with its doubt",
                "Top: the data and the whole function with its 95 % band. Below: each part with 95 % of the doubt "
                "about it; the first that does not repeat is shown with the level of the data.",
            ),
            Text((f"Kernel: {belief.kernel.formula()}",), "small"),
        ),
    )


def novelty(belief: SeesNovelty, data: "Data") -> Section:
    """Which of the rows held out are like nothing that was learned from."""
    rows = data.held_out()
    values = np.asarray(belief.novelty(data.prepared.x.iloc[rows]))
    strange = np.flatnonzero(values < STRANGE)
    said = (
        f"{count(len(strange), 'row')} of the {len(values):,} held out {'is' if len(strange) == 1 else 'are'} like "
        f"hardly anything seen (novelty below {percent(STRANGE)}; chance gives about {STRANGE * len(values):.1f})."
    )
    if len(strange):
        worst = strange[np.argsort(values[strange])][:FEW]
        said += " The strangest: " + ", ".join(f"row {rows[i]} ({values[i]:.2g})" for i in worst) + "."
    picture = Figure(
        data_uri(draw_novelty(values)),
        "Histogram of the novelty of the test rows",
        "The share of rows of the model's own that are as surprising as each test row, or more. Where inputs are like "
        "those learned from the bars are level; a pile on the left are inputs that a prediction should not be trusted "
        "for.",
        narrow=True,
    )
    return Section("novelty", "Inputs like nothing seen", (Text((said,)), picture))
