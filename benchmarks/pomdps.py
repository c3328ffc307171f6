"""POMDPs beside SARSOP in C++: both bounds after the same CPU seconds, and what the plans earn when simulated.

    CREDO_DATA=… python -m benchmarks.pomdps [name …]

reads the problems and `reference.json` (SARSOP's bounds, its CPU seconds and their limit) from the folder `pomdp` of
CREDO_DATA. Every problem is solved in a process of its own, in CPU time, after a first call that loads what numba has
compiled. A column says whether the lower bound is at least SARSOP's minus 1 %, the upper one at most its plus 1 %, and
how many standard errors the simulated return is from the lower bound, where it is below.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

EPISODES = 1000


def measure(path: Path, seconds: float) -> dict[str, float]:
    """Bounds and returns of one problem."""
    import resource

    import numpy as np

    import credo
    from credo.decide.pomdp import point_based

    point_based.clock = time.process_time
    pomdp = credo.POMDP.read(path)
    stay, anywhere, hint = np.eye(2), np.full((2, 2), 0.5), np.array([[0.8, 0.2], [0.2, 0.8]])
    small = credo.POMDP([stay, anywhere], [hint, anywhere], [[-1.0, 10.0], [-1.0, -20.0]], 0.9)
    point_based.SMALL, kept = 0, point_based.SMALL
    credo.solve(small, seconds=600)  # compiles, or loads what was compiled
    point_based.SMALL = kept
    begun = time.process_time()
    plan = credo.solve(pomdp, seconds=seconds)
    used = time.process_time() - begun
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    earned = plan.simulate(EPISODES)
    found = {"lower": plan.lower, "upper": plan.upper, "cpu": used, "vectors": len(plan.vectors), "mb": size}
    return found | {"earned": earned.mean, "error": earned.standard_error}


def main(names: list[str]) -> None:
    """One line for each problem."""
    folder = Path(os.environ["CREDO_DATA"]) / "pomdp"
    reference = json.loads((folder / "reference.json").read_text())
    for name in names or [name for name, row in reference.items() if isinstance(row, dict) and "sarsop" in row]:
        peer = reference[name]["sarsop"]
        command = [sys.executable, "-m", "benchmarks.pomdps", "--one", str(folder / name), str(peer["cpu_limit_s"])]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode:
            print(f"| {name} | failed: {answer.stderr.strip()[-200:]} |", flush=True)
            continue
        one = json.loads(answer.stdout.splitlines()[-1])
        below = one["lower"] >= peer["lower"] - 0.01 * abs(peer["lower"])
        above = one["upper"] <= peer["upper"] + 0.01 * abs(peer["upper"]) + 1e-9
        short = max(0.0, one["lower"] - one["earned"]) / max(one["error"], 1e-12)
        print(
            f"| {name} | [{one['lower']:.5g}, {one['upper']:.5g}] | [{peer['lower']:.5g}, {peer['upper']:.5g}] "
            f"| {one['cpu']:.2f} | {peer['cpu_s']:.3g} | {'yes' if below else 'NO'} | {'yes' if above else 'NO'} "
            f"| {one['earned']:.5g} ± {one['error']:.2g} ({short:.1f}) | {one['vectors']:.0f} | {one['mb']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(Path(sys.argv[2]), float(sys.argv[3]))))
    else:
        main(sys.argv[1:])
