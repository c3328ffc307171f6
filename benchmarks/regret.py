"""Simple regret of Bayesian optimizers: the same initial designs, the same noise, each library's own way.

`python -m benchmarks.regret [--contestants botorch …] [--tasks branin …] [--seeds 0-9] [--quiet] [--again] [--table]`

A row goes to results/regret.csv as a run finishes; runs that are on file are skipped unless `--again`, and of a run
done twice the last counts. Regret does not depend on the clock but seconds do: only those of `--quiet` runs, on a
machine with nothing else to do, enter the table results/regret.md, which `--table` writes from the rows on file.
"""

import argparse
import csv
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.harness import RESULTS, machine
from benchmarks.objectives import ACKLEY, BRANIN, HARTMANN, INITIAL, LEVY, Objective
from benchmarks.optimizers import CONTESTANTS, OURS, PEERS, TITLES, Run, play

FILE = RESULTS / "regret.csv"
COLUMNS = ("task", "contestant", "seed", "quiet", "regret", "median", "p95", "date")
FASTER = {"botorch": 10.0, "optuna": 5.0, "bayesopt": 5.0}
"""The bars of speed, on Branin and Hartmann-6: how many times credo's time each peer takes at least."""
SLOWEST = 0.1
"""The bar for the 95 % quantile of credo's seconds per suggestion."""


@dataclass(frozen=True)
class Task:
    """`steps` suggestions of `batch` points after the initial design."""

    title: str
    objective: Objective
    steps: int
    noisy: bool = False
    batch: int = 1

    def admits(self, contestant: str) -> bool:
        """Batches are between credo and BoTorch; with noise nobody is told that there is none."""
        if self.batch > 1:
            return contestant in (OURS, "botorch")
        return not (self.noisy and contestant == "botorch-told")


SINGLE = {
    "branin": Task("Branin", BRANIN, 40),
    "levy": Task("Levy-4", LEVY, 40),
    "hartmann": Task("Hartmann-6", HARTMANN, 90),
    "ackley": Task("Ackley-10", ACKLEY, 90),
}
NOISY = {
    f"{name}-noisy": Task(f"{t.title} with noise of sd {t.objective.noise}", t.objective, t.steps, noisy=True)
    for name, t in SINGLE.items()
}
BATCH = {"hartmann-batch": Task("Hartmann-6 in batches of 4", HARTMANN, 22, batch=4)}
TASKS = SINGLE | NOISY | BATCH


# -- rows ------------------------------------------------------------------------------------------------------------


def pack(task: Task, regret: Iterable[float]) -> str:
    """The words evaluations:regret, wherever the regret changes."""
    words = [f"{INITIAL + i * task.batch}:{r:.6g}" for i, r in enumerate(regret)]
    values = [word.split(":")[1] for word in words]
    return " ".join(w for i, w in enumerate(words) if i == 0 or values[i] != values[i - 1])


def unpack(task: Task, packed: str) -> np.ndarray:
    """The regret after the initial design and after each batch."""
    changes = [word.split(":") for word in packed.split()]
    at = [(int(n) - INITIAL) // task.batch for n, _ in changes]
    return np.repeat([float(r) for _, r in changes], np.diff([*at, task.steps + 1]))


def rows(file: Path = FILE) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def append(values: Sequence[object], file: Path = FILE) -> None:
    file.parent.mkdir(exist_ok=True)
    new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        writer.writerow(values)


# -- runs ------------------------------------------------------------------------------------------------------------


def plan(tasks: Sequence[str], contestants: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, str, int]]:
    """Noise-free, noisy, batches; within each seed by seed, so that all tasks have some seeds early."""
    for group in (SINGLE, NOISY, BATCH):
        for seed in seeds:
            for name in (name for name in group if name in tasks):
                yield from ((name, c, seed) for c in contestants if TASKS[name].admits(c))


def run(tasks: Sequence[str], contestants: Sequence[str], seeds: Sequence[int], quiet: bool, again: bool) -> None:
    """All runs of the plan that are not on file; a contestant that fails is printed and leaves no row."""
    kept = {(r["task"], r["contestant"], int(r["seed"])) for r in rows() if r["quiet"] == "1" or not quiet}
    warm: set[str] = set()
    for key in plan(tasks, contestants, seeds):
        if key in kept and not again:
            continue
        name, contestant, seed = key
        start = time.perf_counter()
        try:
            if quiet and contestant == OURS and name not in warm:
                once(name, contestant, seed)  # compiles
                warm.add(name)
            done = once(name, contestant, seed)
        except Exception:
            print(f"{name} {contestant} {seed} failed:\n{traceback.format_exc()}", flush=True)
            continue
        median, p95 = np.quantile(done.seconds, [0.5, 0.95])
        packed = pack(TASKS[name], done.regret)
        append([*key, int(quiet), packed, f"{median:.4g}", f"{p95:.4g}", time.strftime("%Y-%m-%d")])
        took = time.perf_counter() - start
        print(f"{name} {contestant} {seed}: {done.regret[-1]:.3g}, {took:.0f} s", flush=True)


def once(name: str, contestant: str, seed: int) -> Run:
    task = TASKS[name]
    return play(CONTESTANTS[contestant], task.objective, task.steps, seed, task.noisy, task.batch)


# -- table -----------------------------------------------------------------------------------------------------------


def finals(found: Sequence[Mapping[str, str]], name: str) -> dict[str, dict[int, float]]:
    """contestant → seed → final regret."""
    out: dict[str, dict[int, float]] = {}
    for row in found:
        if row["task"] == name:
            out.setdefault(row["contestant"], {})[int(row["seed"])] = unpack(TASKS[name], row["regret"])[-1]
    return {c: out[c] for c in CONTESTANTS if c in out}


def seconds(found: Sequence[Mapping[str, str]], name: str) -> dict[str, tuple[float, float]]:
    """contestant → medians over the quiet runs of their median and 95 % quantile."""
    quiet: dict[str, dict[str, tuple[float, float]]] = {}
    for row in found:
        if row["task"] == name and row["quiet"] == "1":
            quiet.setdefault(row["contestant"], {})[row["seed"]] = float(row["median"]), float(row["p95"])
    return {c: tuple(np.median(list(runs.values()), 0).tolist()) for c, runs in quiet.items()}


def wins(regrets: Mapping[str, Mapping[int, float]]) -> dict[str, int]:
    """On how many of the seeds that credo and all peers have done each of them has the least regret."""
    counted = {c: r for c, r in regrets.items() if c == OURS or c in PEERS}
    common = set.intersection(*(set(r) for r in counted.values())) if counted else set()
    least = {seed: min(r[seed] for r in counted.values()) for seed in common}
    return {c: sum(r[seed] == least[seed] for seed in common) for c, r in counted.items()}


def verdict(met: bool) -> str:
    return "met" if met else "**not met**"


def bars(name: str, regrets: Mapping[str, Mapping[int, float]], times: Mapping[str, tuple[float, float]]) -> str:
    """What the task asks of credo, and whether it is met; peers are compared on the seeds they share with credo."""
    ours, lines = regrets.get(OURS, {}), []
    medians = {}
    for peer in (p for p in PEERS if p in regrets):
        shared = sorted(set(ours) & set(regrets[peer]))
        if shared:
            medians[peer] = [float(np.median([r[s] for s in shared])) for r in (ours, regrets[peer])]
    if medians:
        met = all(mine <= theirs for mine, theirs in medians.values())
        best = min(medians, key=lambda p: medians[p][1])
        lines.append(
            f"Bar: a median regret no larger than any peer's: {verdict(met)} "
            f"({medians[best][0]:.2g} against {medians[best][1]:.2g} of {TITLES[best]})."
        )
    if name in ("branin", "hartmann") and OURS in times:
        mine, p95 = times[OURS]
        for peer in (p for p in FASTER if p in times):
            ratio, least = times[peer][0] / mine, FASTER[peer]
            lines.append(f"Bar: {least:g}× faster than {TITLES[peer]}: {verdict(ratio >= least)} ({ratio:.1f}×).")
        lines.append(
            f"Bar: 95 % of suggestions within {1e3 * SLOWEST:g} ms: {verdict(p95 < SLOWEST)} ({1e3 * p95:.0f} ms)."
        )
    return " ".join(lines) or "Bar: credo has not run yet."


def section(name: str, found: Sequence[Mapping[str, str]]) -> str:
    task, regrets, times = TASKS[name], finals(found, name), seconds(found, name)
    won, mine = wins(regrets), times.get(OURS, (np.nan, np.nan))[0]
    lines = [
        f"## {task.title}, {INITIAL} + {task.steps * task.batch} evaluations\n",
        "|  | seeds | regret, median | quartiles | wins | per suggestion | 95 % within | against credo |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for contestant, of in regrets.items():
        low, middle, high = np.quantile(list(of.values()), [0.25, 0.5, 0.75])
        cells = [TITLES[contestant], f"{len(of)}", f"{middle:.2g}", f"{low:.2g} to {high:.2g}"]
        cells.append(f"{won[contestant]}" if contestant in won else "")
        if contestant in times:
            median, p95 = times[contestant]
            cells += [f"{1e3 * median:.3g} ms", f"{1e3 * p95:.3g} ms", f"{median / mine:.2g}×" if mine > 0 else ""]
        else:
            cells += [""] * 3
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\n{bars(name, regrets, times)}"


def table(found: Sequence[Mapping[str, str]]) -> str:
    packages = ("botorch", "optuna", "bayesian-optimization", "scikit-optimize")
    head = (
        f"# Regret of Bayesian optimization\n\n{machine()} {', '.join(f'{p} {version(p)}' for p in packages)}.\n\n"
        "The regret is that of the noise-free value at the recommended point: the best evaluated, or with noise the "
        "evaluated point with the largest posterior mean of the contestant's model (TPE, which has none: the largest "
        "outcome; credo: its `Campaign.best`, the largest mean less a standard deviation, under two models). Wins are "
        "seeds on which credo or a peer had the least regret. Seconds are of fit and maximization together, medians "
        "over the runs made on a quiet machine, after a run that compiles. Contestants with a star "
        "are for reference: bars and wins leave them out."
    )
    return (
        "\n\n".join([head, *(section(name, found) for name in TASKS if any(r["task"] == name for r in found))]) + "\n"
    )


def span(text: str) -> list[int]:
    """The numbers of 0-9, or of 3 alone."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=span, default=list(range(10)))
    parser.add_argument("--quiet", action="store_true", help="nothing else runs here: the seconds count")
    parser.add_argument("--again", action="store_true", help="also what is on file")
    parser.add_argument("--table", action="store_true", help="write the table and run nothing")
    asked = parser.parse_args()
    if not asked.table:
        run(asked.tasks, asked.contestants, asked.seeds, asked.quiet, asked.again)
        return
    text = table(rows())
    (RESULTS / "regret.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
