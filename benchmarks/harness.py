"""Timing credo beside its peers: the same data, the same process, the same run.

A benchmark is a module of this folder with a `TASKS` list:

    TASKS = [
        Task("ridge", data=make, contestants={"credo": fit_credo, "scikit-learn": fit_peer}, least=5.0),
        Memory("streaming", target="benchmarks.linear:stream", most=1500.0),
    ]

The first call of a contestant (which compiles) is timed apart from the steady state, which is the best of
several repeats, in an order that alternates between repeats so that no one always runs on a warm cache. Times
on a shared machine wander; their ratio in one run wanders much less, and that is what the tables are for.
"""

import csv
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "credo",
    "jax",
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "gpytorch",
    "gpjax",
    "tinygp",
    "numpyro",
    "blackjax",
)


@dataclass(frozen=True)
class Task:
    """One question that several contestants answer on the same data; the first of them is credo."""

    name: str
    data: Callable[[], Any]
    contestants: Mapping[str, Callable[[Any], Any]]
    scores: Mapping[str, Callable[[Any, Any], float]] = field(default_factory=dict)
    """Columns of quality: score(answer, data)."""
    least: float | None = None
    """The bar: every peer takes at least so many times as long as credo."""
    exempt: Sequence[str] = ()
    """Contestants that the bar does not count."""
    most: Mapping[str, float] = field(default_factory=dict)
    """Another bar: credo takes at most so many times as long as these."""
    repeats: int = 5
    """How often after the first call; 0 takes the first call for the steady state."""
    note: str = ""

    def run(self) -> str:
        """The task's section of the report."""
        return _table(self, measure(self))


@dataclass(frozen=True)
class Memory:
    """The peak memory of a function in a process of its own."""

    name: str
    target: str
    """"module:function"."""
    most: float | None = None
    """The bar, in MB."""
    note: str = ""

    def run(self) -> str:
        """The task's section of the report."""
        idle, _ = peak_memory("benchmarks.harness:nothing")
        peak, seconds = peak_memory(self.target)
        rows = [["Python alone", f"{idle:.0f} MB", ""], [self.target.split(":")[1], f"{peak:.0f} MB", _time(seconds)]]
        bar = "" if self.most is None else f"Bar: at most {self.most:.0f} MB: {_verdict(peak <= self.most)}."
        return _section(self.name, self.note, ["process", "peak memory", "time"], rows, bar)


@dataclass(frozen=True)
class Rate:
    """Contestants that make as much as they can (effective draws, say): the most per second counts."""

    name: str
    contestants: Mapping[str, Callable[[int], Any]]
    """Functions of a seed."""
    made: Callable[[Any], float]
    """How much an answer is; counted when the clock has stopped."""
    unit: str
    least: float = 1.0
    """The bar: credo makes at least so many times as much per second as the best peer."""
    repeats: int = 3
    note: str = ""

    def run(self) -> str:
        """The task's section of the report."""
        first: dict[str, float] = {}
        rates: dict[str, list[float]] = {name: [] for name in self.contestants}
        for repeat in range(self.repeats + 1):
            names = list(self.contestants)
            for name in names if repeat % 2 == 0 else reversed(names):
                start = time.perf_counter()
                answer = self.contestants[name](repeat)
                seconds = time.perf_counter() - start
                if repeat:
                    rates[name].append(self.made(answer) / seconds)
                else:
                    first[name] = seconds
        best = {name: max(found) for name, found in rates.items()}
        ours, *peers = best.values()
        rows = [[name, _time(first[name]), f"{best[name]:.0f}", f"{best[name] / ours:.2f}×"] for name in best]
        worst = ours / max(peers)
        bar = f"Bar: at least {self.least:g}× the best peer: {_verdict(worst >= self.least)} ({worst:.2f}×)."
        return _section(self.name, self.note, ["", "first call", f"{self.unit} per second", "of credo's"], rows, bar)


@dataclass(frozen=True)
class Call:
    """Contestants that time themselves (in a process of their own, say): best of two after one that fills caches."""

    name: str
    contestants: Mapping[str, Callable[[], float]]
    least: float | None = None
    note: str = ""

    def run(self) -> str:
        """The task's section of the report."""
        best: dict[str, float] = {}
        for repeat in range(3):  # the first fills the cache
            for name, function in self.contestants.items():
                seconds = function()
                best[name] = min(best.get(name, float("inf")), seconds) if repeat else float("inf")
        ours = next(iter(best.values()))
        rows = [[name, _time(seconds), f"{seconds / ours:.2f}×"] for name, seconds in best.items()]
        bar = ""
        if self.least is not None:
            worst = min(list(best.values())[1:]) / ours
            bar = f"Bar: every peer takes at least {self.least:g}× credo's time: {_verdict(worst >= self.least)}."
        return _section(self.name, self.note, ["", "time", "against credo"], rows, bar)


@dataclass(frozen=True)
class Count:
    """Something that is counted, not timed."""

    name: str
    function: Callable[[], int]
    most: int
    note: str = ""

    def run(self) -> str:
        """The task's section of the report."""
        found = self.function()
        bar = f"Bar: at most {self.most}: {_verdict(found <= self.most)}."
        return _section(self.name, self.note, ["", "count"], [["credo", str(found)]], bar)


@dataclass
class Measured:
    """What was measured of a contestant: seconds, and its scores."""

    first: float = float("nan")
    best: float = float("inf")
    scores: dict[str, float] = field(default_factory=dict)


def measure(task: Task) -> dict[str, Measured]:
    """First call and best repeat of every contestant."""
    data = task.data()
    out = {name: Measured() for name in task.contestants}
    for name, function in task.contestants.items():
        out[name].first, answer = _clock(function, data)
        out[name].scores = {column: score(answer, data) for column, score in task.scores.items()}
    names = list(task.contestants)
    for repeat in range(task.repeats):
        for name in names if repeat % 2 == 0 else reversed(names):
            seconds, _ = _clock(task.contestants[name], data)
            out[name].best = min(out[name].best, seconds)
    if not task.repeats:  # too long to do twice
        for measured in out.values():
            measured.best = measured.first
    return out


def _clock(function: Callable[[Any], Any], data: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    answer = function(data)
    import jax

    jax.block_until_ready(answer)  # JAX answers before it has finished; other answers pass through
    return time.perf_counter() - start, answer


def peak_memory(target: str) -> tuple[float, float]:
    """Peak resident memory in MB of a fresh process that calls `target`, and the seconds that the call took."""
    code = f"from benchmarks.harness import _report_memory; _report_memory({target!r})"
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{target} failed:\n{done.stderr}")
    peak, seconds = done.stdout.split()[-2:]
    return float(peak), float(seconds)


def in_fresh_process(code: str) -> float:
    """The number that the code prints last, in a process of its own with compiled programs on disk."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def _report_memory(target: str) -> None:
    from importlib import import_module

    module, name = target.split(":")
    function = getattr(import_module(module), name)
    start = time.perf_counter()
    function()
    print(_peak(), time.perf_counter() - start)


def _peak() -> float:
    # On Linux ru_maxrss is inherited from the parent through exec; the kernel's own high-water mark is not.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The programs that JAX compiles inside."""
    from jax._src import monitoring

    compiled: list[str] = []
    inside = True

    def listen(name: str, *_: Any, **__: Any) -> None:
        if inside and name == "/jax/core/compile/backend_compile_duration":
            compiled.append(name)

    monitoring.register_event_duration_secs_listener(listen)
    yield compiled
    inside = False


def append_row(name: str, columns: Sequence[str], row: Mapping[str, Any]) -> None:
    """Prints a row, and adds it to results/NAME.csv."""
    print(row, flush=True)
    file = RESULTS / f"{name}.csv"
    new = not file.exists()
    with file.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, columns)
        if new:
            writer.writeheader()
        writer.writerow(row)


def nothing() -> None:
    """The memory of the interpreter and this module."""


def _table(task: Task, measured: Mapping[str, Measured]) -> str:
    ours = next(iter(measured.values()))
    rows, ratios = [], []
    for name, m in measured.items():
        ratio = m.best / ours.best
        ratios.append(ratio)
        rows.append(
            [name, _time(m.first), _time(m.best), f"{ratio:.2f}×", *(f"{m.scores[c]:.5f}" for c in task.scores)]
        )
    bar = ""
    if task.least is not None:
        worst = min(r for name, r in list(zip(measured, ratios, strict=True))[1:] if name not in task.exempt)
        verdict = _verdict(worst >= task.least)
        bar = f"Bar: every peer takes at least {task.least:g}× credo's time: {verdict} ({worst:.2f}×)."
    for name, most in task.most.items():
        times = ours.best / measured[name].best
        bar += f" Bar: at most {most:g}× {name}: {_verdict(times <= most)} ({times:.2f}×)."
    return _section(task.name, task.note, ["", "first call", "steady state", "against credo", *task.scores], rows, bar)


def _section(name: str, note: str, head: Sequence[str], rows: Sequence[Sequence[str]], bar: str) -> str:
    table = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    lines = ["| " + " | ".join(row) + " |" for row in table]
    return "\n\n".join(part for part in (f"## {name}", note, "\n".join(lines), bar) if part)


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _verdict(met: bool) -> str:
    return "met" if met else "**not met**"


def machine() -> str:
    """What the numbers depend on, without saying whose machine it is."""
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30 if hasattr(os, "sysconf") else 0.0
    threads = max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=0)
    return (
        f"{os.cpu_count()} cores, {threads} BLAS threads, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, {', '.join(versions)}; {time.strftime('%Y-%m-%d')}."
    )


def report(name: str, title: str, tasks: Sequence[Task | Rate | Call | Count | Memory], only: str = "") -> str:
    """Runs the tasks, prints their tables and writes them to results/<name>.md.

    With `only`, a regular expression, those whose name has it are run and replace their sections in the file.
    """
    file = RESULTS / f"{name}.md"
    old = file.read_text(encoding="utf-8").split("\n\n## ") if only and file.exists() else []
    sections = {section.split("\n", 1)[0]: f"## {section.rstrip()}" for section in old[1:]}
    print(f"# {title}\n\n{machine()}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    text = ""
    for task in (task for task in tasks if re.search(only, task.name)):
        sections[task.name] = task.run()
        print(f"\n{sections[task.name]}", flush=True)
        order = [each.name for each in tasks if each.name in sections]
        text = "\n\n".join([f"# {title}", machine(), *(sections[key] for key in order)]) + "\n"
        file.write_text(text, encoding="utf-8")  # after each: what was measured is kept if the next is interrupted
    return text
