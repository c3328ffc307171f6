"""What `learn` does before it climbs: features adapted to the data, and a sensible place to start from.

Features are standardized, and the constant term gets a prior around where the outcomes alone put it: log-rates have a
scale of their own, real outcomes are measured in their standard deviations. One row's curvature would not do for the
variance: a count of a thousand tells the rate at its x well, but not the constant of a line. Log-odds have a zero of
their own, even odds: a prior around the share of a class would count the labels twice, which of eight rows is a loss
of 0.01 nats a prediction.
"""

import numpy as np

from credo.core.arrays import Array, namespace
from credo.core.checks import ArrayLike, check_positive, check_table, input_names
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.models.glm.belief import GLM
from credo.models.glm.newton import Rows, start
from credo.models.likelihoods import Classes
from credo.models.linear.preparation import standardized, starting_prior
from credo.models.linear.priors import Intercept

VARIANCE = 4.0
"""Of the constant term, and of φ(x)ᵀw where the search for the prior's precision starts, in units of η."""


def prepare(belief: GLM, data: tuple[ArrayLike, ...], options: dict[str, ArrayLike]) -> tuple[GLM, Rows]:
    """The belief ready to learn, and the rows under its features."""
    if belief.law is not None:
        raise DataError(
            "a generalized linear model keeps its posterior, not its rows: learn from the unconditioned belief with "
            "all the data, or condition this one"
        )
    if len(data) != 2:
        raise DataError(f"a {type(belief).__name__} learns from X and y, found {len(data)} arguments")
    x = check_table(data[0], "X", belief.inputs)
    features = standardized(belief.features, belief.intercept is not None or not belief.likelihood.shifts)
    weights = options.get("weights")
    features = features.adapt(x, None if weights is None else check_positive(weights, "weights", len(x)))
    p = features.size(x.shape[1])
    ready = changed(belief, features=features, inputs=tuple(input_names(data[0], belief.inputs)))
    rows = ready.statistics(*data, **options)
    variance = VARIANCE * rows.likelihood.unit(rows.y, rows.weights) ** 2
    prior = starting_prior(belief.prior, max(p, 1) / variance, p)
    ready = changed(ready, likelihood=rows.likelihood, prior=prior)
    if belief.intercept is not None and not rows.likelihood.vector:
        center = np.zeros(()) if isinstance(rows.likelihood, Classes) else _constant(rows)
        ready = changed(ready, intercept=Intercept(center, variance))
    return ready, rows


def _constant(rows: Rows) -> Array:
    """η where the outcomes alone put it."""
    xp, s = namespace(rows), rows.likelihood.size
    return start(rows._replace(design=xp.ones((len(rows.y), 1))), True, xp.zeros(s + 1))[s]
