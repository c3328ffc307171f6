"""POMDPs beside SARSOP in C++: both bounds after the same CPU seconds, and what the plans earn when simulated.

    CREDO_DATA=… python -m benchmarks.pomdps [name …]
    CREDO_DATA=… python -m benchmarks.pomdps online POMCP RockSample_7_8.pomdpx [seconds=1 episodes=60 simulator=0 …]

reads the problems and `reference.json` (SARSOP's bounds, its CPU seconds and their limit) from the folder `pomdp` of
CREDO_DATA. Every problem is solved in a process of its own, in CPU time, after a first call that loads what numba has
compiled. A column says whether the lower bound is at least SARSOP's minus 1 %, the upper one at most its plus 1 %, and
how many standard errors the simulated return is from the lower bound, where it is below.

`online` plays episodes by a method that searches at every step for so many CPU seconds. Published: POMCP 20.71 ± 0.21
on RockSample_7_8 (Silver & Veness 2010), -7.14 ± 0.28 on Tag; DESPOT 20.93 ± 0.30, -6.23 ± 0.26 (Ye et al. 2017).
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

EPISODES = 1000
STEPS = 100
"""Of an episode that is played online."""


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


def online(
    method: str, name: str, beforehand: float = 5.0, seconds: float = 1.0, episodes: float = 60, simulator: float = 0
) -> None:
    """Mean discounted return of episodes, with its standard error; a line for each, as they take minutes.

    With `simulator=1` the problem is but a simulator, with `simulator=2` one that says which actions are dear.
    """
    import numpy as np

    import credo
    from credo.decide import pomdp as planning
    from credo.decide.pomdp import point_based
    from credo.decide.pomdp.simulators import FiniteWorld

    point_based.clock = time.monotonic = time.process_time
    problem = credo.POMDP.read(Path(os.environ["CREDO_DATA"]) / "pomdp" / name)
    player = getattr(planning, method)(seconds=seconds, beforehand=beforehand)

    class Allowed(FiniteWorld):
        def worth(self, state: int) -> list[int]:
            return np.flatnonzero(self.pomdp.rewards[state] > -50).tolist()

    world, returns = (player.world_of, FiniteWorld, Allowed)[int(simulator)](problem), []
    for k in range(int(episodes)):
        returns.append(player.play(world, 1, steps=STEPS, seed=k).mean)
        error = np.std(returns, ddof=1) / np.sqrt(k + 1) if k else np.inf
        print(
            f"{method}, {name}, {seconds:g} s a step after {beforehand:g} s: {np.mean(returns):.3f} ± {error:.2g} "
            f"({k + 1} episodes, {time.process_time():.0f} CPU s)",
            flush=True,
        )


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
    elif sys.argv[1:2] == ["online"]:
        numbers = dict(setting.split("=") for setting in sys.argv[4:])
        online(sys.argv[2], sys.argv[3], **{key: float(value) for key, value in numbers.items()})
    else:
        main(sys.argv[1:])
