"""Maps: the satellite temperatures of Heaton et al. (2019), and a map of 6,200 points beside PyKrige.

`OPENBLAS_NUM_THREADS=1 python -m benchmarks.maps [satellite] [kriging]`, with the data in $CREDO_DATA; PyKrige where it
is installed. Prints RMSE, CRPS, the coverage of 95 % intervals and CPU seconds; rows are added to results/maps.csv.
Bars: satellite RMSE ≤ 1.55, CRPS ≤ 0.80, 93-98 %; a twentieth of PyKrige's time, means within 1e-3 standard deviations.
"""

import csv
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS

COLUMNS = ("task", "what", "rmse", "crps", "coverage", "fit", "predict")
POINTS, CELLS = 6200, 100


def satellite() -> list[dict[str, Any]]:
    """Learned by default, predicted at the held-out pixels."""
    from credo import evaluate
    from credo.models.gp import spatial

    file = Path(os.environ["CREDO_DATA"]) / "spatial" / "satellite" / "data.npz"
    with np.load(file, allow_pickle=False) as data:
        x, y, x_test, y_test = (data[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    there = np.isfinite(y_test)
    before = time.process_time()
    field = spatial.kriging(x, y)
    between = time.process_time()
    p = field.predict(x_test[there])
    after = time.process_time()
    print(field, field.notes)
    return [
        {
            "task": "satellite",
            "what": "default",
            "rmse": round(evaluate.rmse(p, y_test[there]), 4),
            "crps": round(evaluate.crps(p, y_test[there]), 4),
            "coverage": round(evaluate.coverage(p, y_test[there]), 4),
            "fit": round(between - before, 1),
            "predict": round(after - between, 1),
        }
    ]


def kriging() -> list[dict[str, Any]]:
    """An exponential variogram with known numbers, every point in every prediction."""
    from credo.kernels import Exponential
    from credo.models.gp import Exact, spatial

    rng = np.random.default_rng(0)
    x = rng.uniform(size=(POINTS, 2))
    y = np.sin(6 * x[:, 0]) * np.cos(5 * x[:, 1]) + 0.3 * rng.normal(size=POINTS)
    axis = np.linspace(0.0, 1.0, CELLS)
    length, variance, nugget = 0.3, 0.8, 0.09
    out, found = [], {}
    kernel = Exponential(np.asarray(length), np.asarray(variance))

    def ours() -> tuple[np.ndarray, np.ndarray]:
        field = spatial.kriging(x, y, kernel=kernel, nugget=nugget, learn=False, using=Exact())
        made = field.map(spatial.Grid(axis, axis))
        return made.mean, made.sd

    def theirs() -> tuple[np.ndarray, np.ndarray]:
        from pykrige.ok import OrdinaryKriging

        # Its range is where 95 % of the sill is reached, three lengthscales; without exact_values the nugget is noise.
        numbers = {"psill": variance, "range": 3 * length, "nugget": nugget}
        known = OrdinaryKriging(
            x[:, 0], x[:, 1], y, variogram_model="exponential", variogram_parameters=numbers, exact_values=False
        )
        mean, square = known.execute("grid", axis, axis)
        return np.asarray(mean), np.sqrt(np.maximum(np.asarray(square) - nugget, 0.0))

    for name, run in {"credo": ours, "pykrige": theirs}.items():
        before = time.process_time()
        try:
            found[name] = run()
        except ModuleNotFoundError:
            print(f"{name} is not installed")
            continue
        out.append({"task": "kriging", "what": name, "fit": round(time.process_time() - before, 1)})
    if len(found) == 2:
        (mean, sd), (other, _) = found["credo"], found["pykrige"]
        print(f"means differ by at most {np.abs((mean - other) / sd).max():.2g} sd; ", end="")
        print(f"time {out[1]['fit'] / out[0]['fit']:.1f} : 1")
    return out


def main(arguments: list[str]) -> None:
    """Measures and prints."""
    tasks = {"satellite": satellite, "kriging": kriging}
    file = RESULTS / "maps.csv"
    for name in arguments or tasks:
        for row in tasks[name]():
            print(row, flush=True)
            new = not file.exists()
            with file.open("a", newline="") as stream:
                writer = csv.DictWriter(stream, COLUMNS)
                if new:
                    writer.writeheader()
                writer.writerow(row)


if __name__ == "__main__":
    main(sys.argv[1:])
