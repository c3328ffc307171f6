"""The models that a table of numbers is tried with: `Linear` in different features, priors and noise, and Gaussian
processes. The features (`shapes`) serve classes and counts as well, see `glm_candidates`.

Straight lines come first, then curves and interactions; each with automatic relevance determination, so that
features that do not help switch themselves off. Gaussian processes follow where the rows are not too many: one of all
inputs and, for one or two inputs, one whose kernel is searched for. A robust version of the best `Linear` comes last.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Num

from credo.app.schema import Schema
from credo.core.params import layout
from credo.infer.learning import Learned
from credo.infer.optimize import CONVERGED, STOPPED
from credo.models.features import Affine, BSpline, Features, Fourier, Polynomial, Standardize
from credo.models.glm import GLM
from credo.models.gp import GP
from credo.models.gp.search import refine, search_kernel
from credo.models.linear import ARD, InverseGamma, Isotropic, Linear, StudentTNoise

SPLINES = 8
MOST_FEATURES = 400
MOST_WORK = 4e8
"""Features × rows that an expensive candidate may have."""
GP_ROWS, GP_INPUTS = 2000, 30
"""How many a Gaussian process may have here."""
SEARCH_INPUTS = 2
SEARCH_SECONDS, GP_SECONDS = 30.0, 30.0
"""The time that the search for a kernel, and learning one, may take."""
SMOOTH, SEARCHED = "smooth function", "found structure"
SWITCHED_OFF = 1e-3
"""A weight of a standardized feature below this many standard deviations of the outcome is nothing."""


class Candidate(NamedTuple):
    """A model to try."""

    name: str
    about: str
    """What it assumes, in a sentence."""
    belief: Linear | GP | GLM
    search: float = 0.0
    """The seconds for which a kernel is searched; 0 is not at all."""


class Shape(NamedTuple):
    """How the prediction may depend on the inputs, whatever the outcomes are."""

    name: str
    about: str
    features: Features | None
    """None is the inputs themselves."""
    relevance: bool
    """Whether each feature has a scale of its own (automatic relevance determination)."""


def gaussian_processes(x: Num[np.ndarray, "n d"], continuous: bool) -> list[Candidate]:
    """The Gaussian processes that suit the size of the table."""
    n, d = x.shape
    if n > GP_ROWS or n < 8 or d > GP_INPUTS:
        return []
    about = "a Gaussian process: any smooth function of all inputs, each with a length scale of its own"
    found = [Candidate(SMOOTH, about, GP())]
    if d <= SEARCH_INPUTS and continuous:
        searched = "a Gaussian process: trends, patterns that repeat and smooth functions, searched for and combined"
        found.append(Candidate(SEARCHED, searched, GP(), SEARCH_SECONDS))
    return found


def learn_gp(candidate: Candidate, belief: GP, x: pd.DataFrame, y: np.ndarray, seed: int) -> Learned:
    """A Gaussian process; its evidence pays ½ log n for each number that was learned (BIC), as many were tried."""
    if candidate.search:
        found = search_kernel(x, y, seconds=candidate.search, seed=seed)
        conditioned, value, k, finished = found.belief, found.log_evidence, found.parameters, found.finished
    else:
        ready, rows = belief.prepare(x, y)
        deadline = time.perf_counter() + GP_SECONDS
        learned, value = refine(ready, rows, deadline, seed)
        conditioned, k, finished = learned.condition_on(rows), len(layout(learned)), time.perf_counter() < deadline
    return Learned(conditioned, CONVERGED if finished else STOPPED, value - 0.5 * k * float(np.log(len(y))), [], {}, [])


def candidates(schema: Schema, x: Num[np.ndarray, "n d"]) -> tuple[list[Candidate], list[str]]:
    """The models that suit the columns and the size of the table, the simplest first; and what was left out, why."""
    tried, notes = shapes(schema, x, lambda size: size <= MOST_FEATURES and size * len(x) <= MOST_WORK)
    found = [Candidate(s.name, s.about, Linear(s.features, ARD() if s.relevance else None)) for s in tried]
    if schema.time is None:
        about = tried[0].about.replace("all share one scale", "the size of the noise is unknown and averaged over")
        unknown = Candidate("lines, unknown noise", about, Linear(tried[0].features, noise=InverseGamma()))
        found.insert(2, unknown)
    curved = schema.time is not None or any(column.continuous for column in schema.columns)
    return found + gaussian_processes(x, curved), notes


def shapes(
    schema: Schema, x: Num[np.ndarray, "n d"], affordable: Callable[[int], bool]
) -> tuple[list[Shape], list[str]]:
    """The shapes that suit the columns; `affordable(size)` says of how many features a shape may be."""
    d = x.shape[1]
    curved = [i for column in schema.columns if column.continuous for i in schema.where(column.name)[:1]]
    seasonal = _seasons(schema)
    if schema.time is not None:
        return _for_time(schema, d, curved, seasonal, len(x)), []
    lines = "each input adds a straight line"
    base = None if seasonal is None else Standardize(Affine() + seasonal)
    waves = "" if seasonal is None else ", dates also in waves"
    found = [
        Shape("lines", f"{lines}{waves}; all share one scale", base, False),
        Shape("lines, own relevance", f"{lines}{waves}; each has a scale of its own", base, True),
    ]
    notes: list[str] = []
    pairs, bends = Polynomial(2).after(Affine()), BSpline(SPLINES).on(*curved) if curved else None
    curves: list[tuple[str, str, Features | None]] = [
        ("curves", "each number adds a smooth curve", None if bends is None else Affine() + bends),
        ("squares and pairs", "squares of inputs and products of pairs", pairs),
        (
            "curves and pairs",
            "smooth curves, and products of pairs of inputs",
            None if bends is None else pairs + bends,
        ),
    ]
    for name, about, features in curves:
        if features is None:
            continue
        whole = features if seasonal is None else features + seasonal
        size = whole.size(d)
        if not affordable(size) or size > len(x) or (d == 1 and "pairs" in name):
            if d > 1:
                notes.append(f"{name!r} was not tried: {size:,} features are too many for {len(x):,} rows.")
            continue
        said = f"{about}{waves}; features that do not help are switched off"
        found.append(Shape(name, said, Standardize(whole), True))
    return found, notes


def _for_time(schema: Schema, d: int, curved: list[int], seasonal: Features | None, n: int) -> list[Shape]:
    assert schema.time is not None
    at = schema.where(schema.time)[0]
    others = [i for i in range(d) if i != at]
    rest = Affine().on(*others) if others else None
    periods = " and ".join(p[0] for c in schema.columns for p in c.periods)
    others_too = "; other inputs add straight lines" if others else ""
    found = [Shape("straight trend", f"a straight line in time{others_too}", None, False)]
    for degree, shape in ((1, "straight"), (2, "bending"), (3, "twice bending")):
        trend: Features = Polynomial(degree, interactions=False).after(Affine().on(at))
        parts = [trend, *([seasonal] if seasonal is not None else []), *([rest] if rest is not None else [])]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
        if degree == 1 and seasonal is None:
            continue
        season = f", what repeats every {periods}" if seasonal is not None else ""
        name = f"{shape} trend{' + seasons' if seasonal is not None else ''}"
        about = f"a {shape} trend in time{season}{others_too}"
        found.append(Shape(name, about, Standardize(whole), True))
    bends = [i for i in curved if i != at]
    if bends and len(bends) * SPLINES < n // 2:
        about = f"a {shape} trend{season}; other inputs add smooth curves"
        whole = whole + BSpline(SPLINES).on(*bends)
        found.append(Shape(f"{name} + curves", about, Standardize(whole), True))
    return found


def _seasons(schema: Schema) -> Features | None:
    """Waves for every period of every date column."""
    total: Features | None = None
    for column in schema.columns:
        for _, years, order in column.periods:
            waves = Fourier(order, period=years).on(schema.where(column.name)[0])
            total = waves if total is None else total + waves
    return total


def robust_version(name: str, about: str, learned: Linear, spread: float) -> Candidate:
    """The same model with Student-t noise: outliers are rare but expected.

    The prior is the one already learned; features whose weights it holds to nothing, compared with the standard
    deviation `spread` of the outcomes, are left out.
    """
    assert isinstance(learned.prior, Isotropic | ARD)
    features, precision = learned.features, np.asarray(learned.prior.precision)
    if isinstance(learned.noise, InverseGamma):
        # There precisions are in units of the noise.
        precision = precision / float(learned.noise_variance())
    prior: ARD | Isotropic = Isotropic(precision)
    if isinstance(learned.prior, ARD):
        alive = np.flatnonzero((1 / np.sqrt(precision) > SWITCHED_OFF * spread) | (precision == precision.min()))
        features, prior = features.keep(*(int(i) for i in alive)), ARD(precision[alive])
    return Candidate(
        f"{name}, robust", f"{about}; outliers are expected now and then", Linear(features, prior, StudentTNoise())
    )
