"""What families of models say of their own: coefficients of lines, the found structure of Gaussian processes."""

from credo.app.plots.gp import components
from credo.app.plots.predictions import coefficients as draw_coefficients
from credo.app.plots.style import MOST_BARS, PAGE, data_uri, new_axes
from credo.app.report.page import Figure, Section, Text
from credo.app.table.prepare import Prepared
from credo.models.gp import GP
from credo.models.gp.description import describe
from credo.models.linear import Linear


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
