"""Hidden Markov models, linear systems and functions of time beside hmmlearn, statsmodels, dynamax and tinygp.

All answers are compared before the steady state is measured: one that differs by more than 1e-6 stops the benchmark.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import series
from benchmarks.harness import Task, _clock, _peak, _section, _time, _verdict, in_fresh_process

TITLE = "Time series"
LARGEST_ERROR = 1e-6
HMM_TASKS = {"filter": "filter", "smooth": "smoother", "viterbi": "Viterbi"}
KALMAN_TASKS = {"filter": "filter", "smooth": "smoother"}


def checked(error: float) -> float:
    """The error × 10⁹; one that is too large stops the benchmark."""
    if not error <= LARGEST_ERROR:
        raise RuntimeError(f"the answers differ by {error:.3g}: there is nothing to time")
    return 1e9 * error


def height(answer: Any, data: Any) -> float:
    """log p(x) per row of what was learned; one far from credo's (further than by weak priors) stops the benchmark."""
    found = data.height(answer)
    if abs(found - data.answers.setdefault("height", found)) > 1e-3 + 10 / len(data.x):
        raise RuntimeError(f"what was learned differs: log p(x) per row {found} and {data.answers['height']}")
    return found


# -- hidden Markov models ----------------------------------------------------------------------------------------------


def look(kind: str, k: int, t: int, what: str) -> Task:
    """Filter, smoother or Viterbi of a sequence."""
    size = f"{kind}, K = {k}, T = {t:,}"
    return Task(
        f"HMM {HMM_TASKS[what]}, {size}",
        partial(series.hidden, kind, k, t),
        {name: partial(_run, library=name, what=what) for name in ("credo", "hmmlearn", "dynamax")},
        {"difference × 10⁹": lambda answer, data: checked(data.error(what, answer))},
        least=2.0 if t >= 10**6 else 1.0,
        repeats=5 if t >= 10**6 else 9,
        note="hmmlearn (scaling) returns the log likelihood alone." if what == "filter" else "",
    )


def _run(data: Any, library: str, what: str) -> Any:
    return data.run(library, what)


def _learn(data: Any, library: str) -> Any:
    return data.learn(library)


def baum_welch(k: int, t: int) -> Task:
    return Task(
        f"Baum-Welch, {series.ITERATIONS} iterations, K = {k}, T = {t:,}",
        partial(series.hidden, "gaussian", k, t, True),
        {name: partial(_learn, library=name) for name in ("credo", "hmmlearn", "dynamax")},
        {"log p(x) per row": height},
        least=1.5,
        repeats=3,
        note="From the same start. dynamax has weak priors; credo makes one pass more, to know where it ended.",
    )


def fresh_hmm(library: str, what: str, t: int) -> float:
    """Seconds of the first call in a process of its own, with the model and without the imports."""
    package = {"credo": "credo.models.densities", "dynamax": "dynamax.hidden_markov_model"}[library]
    return in_fresh_process(
        f"import time, credo.models.hmm, {package}; import jax; from benchmarks import series\n"
        f"data = series.hidden('gaussian', 16, {t})\n"
        "start = time.perf_counter()\n"
        f"jax.block_until_ready(data.run({library!r}, {what!r}))\n"
        "print(time.perf_counter() - start)"
    )


# -- linear systems ----------------------------------------------------------------------------------------------------


def kalman(t: int, what: str) -> Task:
    names = ["credo", "statsmodels", "dynamax"]
    lean = "statsmodels, states only"
    if what == "smooth":
        names.insert(2, lean)
    return Task(
        f"Kalman {KALMAN_TASKS[what]}, {series.STATES} states, {series.OUTPUTS} outputs, T = {t:,}",
        partial(series.system, t),
        {name: partial(_run, library=name, what=what) for name in names},
        {"difference × 10⁹": lambda answer, data: checked(data.error(what, answer))},
        least=2.0,
        exempt=(lean,),
        repeats=3 if t >= 10**6 else 7,
        note="The bar is statsmodels with its defaults, not asked for less." if what == "smooth" else "",
    )


def lds_em(t: int) -> Task:
    return Task(
        f"EM of a linear system, {series.ITERATIONS} iterations, T = {t:,}",
        partial(series.system, t, True),
        {name: partial(_learn, library=name) for name in ("credo", "dynamax", "dynamax, not compiled as a whole")},
        {"log p(x) per row": height},
        least=5.0,
        repeats=3,
        note="All matrices, from the same start. `fit_em` of dynamax compiles anew at each call outside a `jit`.",
    )


# -- bars of seconds and of memory -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """Contestants that time themselves; credo, the first, has a bar in seconds."""

    name: str
    contestants: Mapping[str, Callable[[], float]]
    most: float
    note: str = ""

    def run(self) -> str:
        """The task's section of the report: best of two after one that fills caches."""
        best: dict[str, float] = {}
        for repeat in range(3):
            names = list(self.contestants)
            for name in names if repeat % 2 == 0 else reversed(names):
                seconds = self.contestants[name]()
                best[name] = min(best.get(name, np.inf), seconds) if repeat else np.inf
        ours = best[next(iter(self.contestants))]
        rows = [[name, _short(best[name]), f"{best[name] / ours:.2f}×"] for name in self.contestants]
        bar = f"Bar: at most {_short(self.most)}: {_verdict(ours <= self.most)}."
        return _section(self.name, self.note, ["", "time", "against credo"], rows, bar)


def _short(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} µs" if seconds < 1e-3 else _time(seconds)


@dataclass(frozen=True)
class Footprint:
    """What a call adds at its peak to the memory of a process that holds data, model and imports."""

    name: str
    source: str
    """A call of a function of `benchmarks.series` that makes the data."""
    task: str
    libraries: Sequence[str]
    most: float
    """The bar for credo, in MB."""

    def run(self) -> str:
        """The task's section of the report."""
        rows, ours = [], np.inf
        for library in self.libraries:
            call = f"footprint(series.{self.source}, {library!r}, {self.task!r})"
            peak = in_fresh_process(f"from benchmarks import series, time\ntime.{call}")
            ours = peak if library == self.libraries[0] else ours
            rows.append([library, f"{peak:.0f} MB"])
        bar = f"Bar: at most {self.most:.0f} MB: {_verdict(ours <= self.most)}."
        return _section(self.name, "First call, compilation included.", ["", "memory"], rows, bar)


def footprint(data: Any, library: str, what: str) -> None:
    """Prints the peak of resident memory during a call, less what was resident before it, in MB."""
    import jax  # noqa: F401  # the clock uses it

    getattr(data, library.split(",")[0])  # builds the model, and imports
    before = _resident()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
    _clock(lambda _: data.run(library, what), None)
    print(_peak() - before)


def _resident() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


# -- one outcome at a time ---------------------------------------------------------------------------------------------


def online(make: Callable[[], Any], runs: int = 10, steps: int = 100) -> float:
    """Seconds of a step of `belief.condition(row)` from Python, the belief kept: the best of the means of some runs."""
    data = make()
    belief, rows = data.credo, iter(list(data.x))
    best = np.inf
    for _ in range(runs):
        start = time.perf_counter()
        for row in islice(rows, steps):
            belief = belief.condition(row)
        np.asarray(belief.state[0])  # waits for the last
        best = min(best, (time.perf_counter() - start) / steps)
    return best


# -- functions of time -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """`StateSpace()`: conditioning on n irregular times and predicting a thousand, beside tinygp; and the dense GP."""

    name: str
    sizes: Sequence[int]
    most: float
    """The bar for the largest, in seconds."""
    repeats: int = 3

    def run(self) -> str:
        """The task's section of the report."""
        rows, best = [], {}
        for n in self.sizes:
            data = series.curve(n)
            calls = {"credo": lambda data: data.state_space(), "tinygp": lambda data: data.tinygp()}
            first, answers = {}, {}
            for name, call in calls.items():
                first[name], answers[name] = _clock(call, data)
            checked(max(_gap(a, b) for a, b in zip(*answers.values(), strict=True)))
            times = dict.fromkeys(calls, np.inf)
            for repeat in range(self.repeats):
                for name in list(calls)[:: 1 if repeat % 2 == 0 else -1]:
                    times[name] = min(times[name], _clock(calls[name], data)[0])
            best[n] = times["credo"]
            ratio = times["tinygp"] / best[n]
            each = f"{1e6 * best[n] / n:.2f} µs"
            rows.append(
                [f"{n:,}", _time(first["credo"]), _time(best[n]), each, _time(times["tinygp"]), f"{ratio:.2f}×"]
            )
        head = ["n", "first call", "steady state", "per row", "tinygp", "against credo"]
        return _section(self.name, self._note(), head, rows, self._bar(best))

    def _note(self) -> str:
        data = series.curve(500)
        fast, slow = data.state_space(), data.dense()
        evidence, dense = data.evidences()
        error = max(abs(evidence / dense - 1), *(_gap(a, b) for a, b in zip(fast, slow, strict=True)))
        return (
            "Matérn 5/2, three states; tinygp with its quasiseparable solver. At n = 500 mean, variance and "
            f"log evidence differ from the dense GP by {error:.1e} at most (bar: 1e-8: {_verdict(error <= 1e-8)})."
        )

    def _bar(self, best: Mapping[int, float]) -> str:
        before, last = sorted(best)[-2:]
        grown = (best[last] / best[before]) / (last / before)
        return (
            f"Bar: at most {self.most:g} s for {last:,}: {_verdict(best[last] <= self.most)}. Bar: linear, "
            f"from {before:,} to {last:,} the time per row grows at most 1.3×: {_verdict(grown <= 1.3)} ({grown:.2f}×)."
        )


def _gap(a: Any, b: Any) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


# -- all of them -------------------------------------------------------------------------------------------------------


def tasks(scale: float = 1.0) -> list[Task | Limit | Footprint | Growth]:
    """The table; with a scale below one, a quick look at whether it works."""

    def size(t: int) -> int:
        return max(int(t * scale), 100)

    cells = [("gaussian", k, size(t)) for t in (100_000, 1_000_000) for k in (4, 16)]
    cells.append(("categorical", 16, size(100_000)))
    many = size(1_000_000)
    return [
        *(look(*cell, what) for cell in cells for what in HMM_TASKS),
        *(
            Limit(
                f"HMM {name}, first call in a fresh process with a warm cache",
                {library: partial(fresh_hmm, library, what, size(100_000)) for library in ("credo", "dynamax")},
                most=1.0,
                note=f"Gaussian, K = 16, T = {size(100_000):,}; imports are not counted, both keep programs on disk.",
            )
            for what, name in HMM_TASKS.items()
        ),
        baum_welch(8, size(100_000)),
        *(kalman(size(t), what) for t in (100_000, 1_000_000) for what in KALMAN_TASKS),
        lds_em(size(10_000)),
        Growth("Gaussian process of time, StateSpace()", [size(n) for n in (10_000, 100_000, 1_000_000)], most=10.0),
        Limit(
            "Online step, HMM, K = 16",
            {"credo": partial(online, partial(series.hidden, "gaussian", 16, 1000))},
            most=50e-6,
        ),
        Limit(
            f"Online step, Kalman, {series.STATES} states, {series.OUTPUTS} outputs",
            {"credo": partial(online, partial(series.system, 1000))},
            most=50e-6,
        ),
        Footprint(
            f"Memory of an HMM smoother, K = 16, T = {many:,}",
            f"hidden('gaussian', 16, {many})",
            "smooth",
            ("credo", "hmmlearn", "dynamax"),
            most=1000.0,
        ),
        Footprint(
            f"Memory of a Kalman smoother, T = {many:,}",
            f"system({many})",
            "smooth",
            ("credo", "statsmodels", "statsmodels, states only", "dynamax"),
            most=1800.0,
        ),
    ]


TASKS = tasks()
