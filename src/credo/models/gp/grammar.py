"""Kernel expressions as a language: sums of products of base kernels, and the steps from one to the next.

    S → S + B      another independent part
    T → T × B      a part that another modulates
    B → B'         another base kernel in its place
    S + T → S      a part less

S is a sum, T one of its terms, B a base kernel of one column. Every step comes with starting values: those already
learned for what was there, several from the data for what is new, since the evidence in a period is full of narrow
peaks. Duvenaud et al. (2013), "Structure discovery in nonparametric regression through compositional kernel search".
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from credo.core.arrays import as_float
from credo.core.params import ABSENT
from credo.core.pytrees import changed
from credo.kernels import RBF, Kernel, OnColumns, Sum
from credo.kernels.dotproduct import Linear
from credo.kernels.expression import Term, placed, terms_of
from credo.kernels.periodic import Periodic

MOST_FREQUENCIES = 4000
MOST_PERIODS = 3


class Facts(NamedTuple):
    """What the data say about starting values."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n"]
    gap: Float[np.ndarray, "d"]
    """The typical distance between neighbouring values of each column."""

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation of each column."""
        return np.maximum(self.x.std(0), 1e-300)

    @property
    def low(self) -> np.ndarray:
        """The least value of each column."""
        return self.x.min(0)

    @property
    def span(self) -> np.ndarray:
        """The range of each column."""
        return np.maximum(np.ptp(self.x, axis=0), 1e-300)


class Step(NamedTuple):
    """A kernel to try: where to start it, and how many choices besides its numbers were made for it."""

    starts: tuple[tuple[Kernel, int], ...]

    @property
    def key(self) -> str:
        """The structure, without numbers: the same for sums in any order."""
        return key_of(self.starts[0][0])


# -- reading and writing expressions ---------------------------------------------------------------------------------


def add(terms: Sequence[Kernel]) -> Kernel:
    """The sum of terms."""
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def inside(factor: Kernel) -> tuple[Kernel, int]:
    """A base kernel and the column that it is on."""
    base, columns = placed(factor)
    return base, columns[0] if columns else 0


def structure(kernel: Kernel, names: Sequence[str] | None = None) -> str:
    """The expression without its numbers, e.g. `Linear + Periodic × RBF`; with columns where there are several."""
    several = names is not None and len(names) > 1

    def one(factor: Kernel) -> str:
        base, column = inside(factor)
        return f"{type(base).__name__}[{names[column]}]" if several and names else type(base).__name__

    return " + ".join(" × ".join(sorted(one(f) for f in t.factors)) for t in terms_of(kernel))


def key_of(kernel: Kernel) -> str:
    """What two kernels of the same structure have in common."""
    terms = []
    for term in terms_of(kernel):
        pairs = map(inside, term.factors)
        terms.append("*".join(sorted(f"{type(base).__name__}{column}" for base, column in pairs)))
    return "+".join(sorted(terms))


def _allowed(factors: Sequence[Kernel]) -> bool:
    """RBF × RBF is an RBF: a product has one smooth and one periodic factor of a column, and at most a square."""
    kinds = [(_kind(base), column) for base, column in map(inside, factors)]
    return all(kinds.count(k) <= (2 if k[0] is Linear else 1) for k in kinds)


def _kind(base: Kernel) -> type:
    return Linear if isinstance(base, Linear) else Periodic if isinstance(base, Periodic) else RBF


# -- steps -----------------------------------------------------------------------------------------------------------


def first_steps(bases: Sequence[type], facts: Facts) -> list[Step]:
    """Each base kernel of each column, alone."""
    every = itertools.product(range(facts.x.shape[1]), bases)
    return [Step(tuple((k, 0) for k in _alone(base, column, facts, facts.y))) for column, base in every]


def next_steps(
    kernel: Kernel, choices: int, bases: Sequence[type], facts: Facts, residual: np.ndarray, noise: float
) -> Iterator[Step]:
    """One step from the kernel, those that most often help first; `residual` is what the kernel leaves of y."""
    terms, d = list(kernel.terms), facts.x.shape[1]
    ordered = sorted(bases, key=lambda b: not issubclass(b, Periodic))
    for base, column in itertools.product(ordered, range(d)):
        alike = [t for t in terms if key_of(t) == f"{base.__name__}{column}"]
        if not (alike and issubclass(base, Linear)):
            more = _alone(base, column, facts, residual, noise, _periods_of(kernel))
            starts = [(add([*terms, k]), choices) for k in more]
            if issubclass(base, Periodic):
                calm = [_calmed(t, 2.0 * float(facts.span[column] / 10), column) for t in terms]
                starts += [(add([*calm, k]), choices) for k in more[:1]]
            yield Step(tuple(starts))
    for i, term in enumerate(terms):
        others = terms[:i] + terms[i + 1 :]
        ((variance, factors),) = terms_of(term)
        grown = [
            _grown(others, variance, factors, base, column, facts, choices)
            for base, column in itertools.product(bases, range(d))
        ]
        for j, factor in enumerate(factors):
            (old, column), rest = inside(factor), (*factors[:j], *factors[j + 1 :])
            # Where a line is taken away or put in, the amplitude changes its unit.
            unit = float(facts.spread[column] ** 2) if isinstance(old, Linear) else 1.0
            for base in bases:
                if base is type(old):
                    continue
                if rest:
                    grown.append(_grown(others, variance * unit, rest, base, column, facts, choices))
                else:
                    grown.append([(add([*others, k]), choices) for k in _alone(base, column, facts, facts.y)])
        yield from (Step(tuple(found)) for found in grown if found)
        if others:
            yield Step(((add(others), choices),))


def _grown(
    others: list[Kernel],
    variance: Any,
    factors: tuple[Kernel, ...],
    base: type,
    column: int,
    facts: Facts,
    choices: int,
) -> list[tuple[Kernel, int]]:
    """Starts for a sum whose last term has one more factor."""
    return [
        (add([*others, Term(variance * scale, (*factors, leaf)).kernel]), choices + extra)
        for leaf, scale, extra in _modulating(base, column, facts)
        if _allowed([*factors, leaf])
    ]


def _on(leaf: Kernel, column: int, facts: Facts) -> Kernel:
    return leaf if facts.x.shape[1] == 1 else leaf.on(column)


def _alone(
    base: Any,
    column: int,
    facts: Facts,
    target: np.ndarray,
    noise: float | None = None,
    taken: Sequence[float] = (),
) -> list[Kernel]:
    """Starts for a base kernel as a part of its own, which is to explain `target`."""
    spread, total = float(facts.spread[column]), max(float(facts.y.var()), 1e-300)
    if issubclass(base, Linear):
        leaf = Linear(variance=as_float(total / spread**2), center=as_float([facts.x[:, column].mean()]))
        return [_on(leaf, column, facts)]
    if issubclass(base, Periodic):
        power = float(_without_trend(facts.x[:, column], facts.y).var())
        found = likely_periods(facts, column, target, taken)
        if noise is None:
            tries = [(p, power) for p in found]
        else:  # beside what is there already, from where it changes little
            tries = [(found[0], power), *((p, max(float(target.var()), noise)) for p in found)]
        return [_on(base(variance=as_float(v), period=as_float(p)), column, facts) for p, v in tries]
    small = total / 10 if noise is None else max(noise, 1e-3 * total)
    pairs = ((spread, total), (spread / 8, small), (facts.span[column], total * 4))
    return [_on(base(as_float(length), as_float(v)), column, facts) for length, v in pairs]


def _modulating(base: Any, column: int, facts: Facts) -> list[tuple[Kernel, float, int]]:
    """Starts for a base kernel as a factor: without amplitude, what it does to that of the term, choices made."""
    span, low = float(facts.span[column]), float(facts.low[column])
    if issubclass(base, Linear):
        places = ((low - 0.2 * span, 1), (low + 1.2 * span, 1), (float(facts.x[:, column].mean()), 0))
        leaves = []
        for place, extra in places:
            size = float(np.mean((facts.x[:, column] - place) ** 2))
            leaf = Linear(variance=ABSENT, center=as_float([place]))
            leaves.append((_on(leaf, column, facts), 1.0 / max(size, 1e-300), extra))
        return leaves
    if issubclass(base, Periodic):
        found = likely_periods(facts, column, facts.y, ())
        return [(_on(base(variance=ABSENT, period=as_float(p)), column, facts), 1.0, 0) for p in found]
    lengths = (span, span / 4)
    return [(_on(base(as_float(length), ABSENT), column, facts), 1.0, 0) for length in lengths]


def _calmed(term: Kernel, least: float, column: int) -> Kernel:
    """The term with its lengths at least this: what followed a wave before it had a kernel of its own may be smooth."""
    ((variance, factors),) = terms_of(term)
    out = []
    for factor in factors:
        base, own = inside(factor)
        if own == column and _kind(base) is RBF:
            base = changed(base, lengthscale=np.maximum(base.number("lengthscale"), least))
            factor = base.on(own) if isinstance(factor, OnColumns) else base
        out.append(factor)
    return Term(variance, tuple(out)).kernel


def _periods_of(kernel: Kernel) -> list[float]:
    leaves = (inside(f)[0] for t in terms_of(kernel) for f in t.factors)
    return [float(leaf.number("period")) for leaf in leaves if isinstance(leaf, Periodic)]


# -- periods ---------------------------------------------------------------------------------------------------------


def _without_trend(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    degree = min(3, max(len(np.unique(x)) - 1, 0))
    u = (x - x.mean()) / max(float(np.ptp(x)), 1e-300)
    return y - np.polynomial.polynomial.polyval(u, np.polynomial.polynomial.polyfit(u, y, degree))


def likely_periods(facts: Facts, column: int, target: np.ndarray, taken: Sequence[float]) -> list[float]:
    """The highest peaks of the periodogram of y without its trend, and of `target`, those `taken` aside.

    Lomb (1976), "Least-squares frequency analysis of unequally spaced data". At least two periods fit into the data.
    """
    from scipy.signal import lombscargle  # scipy.signal takes half a second to import

    x, span = facts.x[:, column], float(facts.span[column])
    highest = min(0.5 / float(facts.gap[column]), MOST_FREQUENCIES / (8 * span))
    frequency = np.arange(2.0 / span, max(highest, 4.0 / span), 1.0 / (8 * span))
    found: list[float] = []
    for curve, most in ((facts.y, 2), (target, MOST_PERIODS)):
        flat = _without_trend(x, curve)
        if not flat.any():
            continue
        power = lombscargle(x - x.mean(), flat, 2 * np.pi * frequency)
        peaks = np.flatnonzero((power >= np.roll(power, 1)) & (power >= np.roll(power, -1)))
        for i in peaks[np.argsort(-power[peaks])][: most + len(taken)]:
            period = _refined(frequency, power, int(i))
            if all(abs(np.log(period / other)) > 0.03 for other in [*found, *taken]):
                found.append(period)
    return found[:MOST_PERIODS] or [span / 5]


def _refined(frequency: np.ndarray, power: np.ndarray, i: int) -> float:
    """The top of the parabola through a peak and its neighbours, as a period."""
    if 0 < i < len(power) - 1:
        a, b, c = power[i - 1 : i + 2]
        curve = a - 2 * b + c
        shift = 0.5 * (a - c) / curve if curve < 0 else 0.0
        return 1.0 / float(frequency[i] + shift * (frequency[1] - frequency[0]))
    return 1.0 / float(frequency[i])
