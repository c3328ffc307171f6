"""Maps: the satellite temperatures of Heaton et al. (2019), a map of 6,200 points beside PyKrige, scans into terrain.

`OPENBLAS_NUM_THREADS=1 python -m benchmarks.maps [satellite] [kriging] [rough] [terrain]`, with data in $CREDO_DATA;
PyKrige where it is installed. Prints RMSE, CRPS, the coverage of 95 % intervals and CPU seconds; rows are added to
results/maps.csv. Bars: satellite RMSE ≤ 1.55, CRPS ≤ 0.80, 93-98 %; a twentieth of PyKrige's time, means within 1e-3
standard deviations; a compact scan of 1,000 points into terrain of 138,000 cells < 0.05 s (scans of three widths).
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import append_row

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


def kriging(rough: bool = False) -> list[dict[str, Any]]:
    """A field with known numbers, every point in every prediction of PyKrige's: mean and sd of 100 × 100 cells.

    A smooth one is by waves; a rough one (exponential) exact, and by neighbours, as it would be chosen.
    """
    from credo.kernels import RBF, Exponential
    from credo.models.gp import Exact, Fourier, Neighbours, spatial

    rng = np.random.default_rng(0)
    x = rng.uniform(size=(POINTS, 2))
    y = np.sin(6 * x[:, 0]) * np.cos(5 * x[:, 1]) + 0.3 * rng.normal(size=POINTS)
    axis = np.linspace(0.0, 1.0, CELLS)
    length, variance, nugget = 0.15, 0.8, 0.09
    kernel = (Exponential if rough else RBF)(np.asarray(length), np.asarray(variance))

    def field(using: Any) -> Any:
        return spatial.kriging(x, y, kernel=kernel, nugget=nugget, learn=False, using=using, trend="constant")

    def ours(using: Any) -> tuple[np.ndarray, np.ndarray]:
        made = field(using).map(spatial.Grid(axis, axis))
        return made.mean, made.sd

    def theirs() -> tuple[np.ndarray, np.ndarray]:
        from pykrige.ok import OrdinaryKriging

        # psill·(1 - exp(-(h/(4/7 range))²)), or psill·(1 - exp(-3h/range)); without exact_values the nugget is noise.
        reach = 3 * length if rough else length * np.sqrt(2) * 7 / 4
        numbers = {"psill": variance, "range": reach, "nugget": nugget}
        model = "exponential" if rough else "gaussian"
        known = OrdinaryKriging(
            x[:, 0], x[:, 1], y, variogram_model=model, variogram_parameters=numbers, exact_values=False
        )
        mean, square = known.execute("grid", axis, axis)
        return np.asarray(mean), np.sqrt(np.maximum(np.asarray(square), 0.0))

    methods = (Exact(), Neighbours(30, 150)) if rough else (Fourier(1e-6),)
    runs: dict[str, Any] = {f"credo, {type(m).__name__}": lambda m=m: ours(m) for m in methods}
    out, found = list[dict[str, Any]](), dict[str, Any]()
    for name, run in (runs | {"pykrige": theirs}).items():
        before = time.process_time()
        try:
            found[name] = run()
        except ModuleNotFoundError:
            print(f"{name} is not installed")
            continue
        task = "kriging, rough" if rough else "kriging"
        out.append({"task": task, "what": name, "fit": round(time.process_time() - before, 2)})
        print(out[-1], flush=True)
    few = rng.integers(0, CELLS, (200, 2))
    want = field(Exact()).predict(np.column_stack([axis[few[:, 1]], axis[few[:, 0]]]))
    for name, (mean, _) in found.items():
        off = np.abs(mean[few[:, 0], few[:, 1]] - want.mean) / np.sqrt(want.epistemic)
        print(f"{name}: at most {off.max():.2g} sd from the exact mean")
    if "pykrige" in found:
        print(", ".join(f"{row['what']} {out[-1]['fit'] / row['fit']:.1f} : 1" for row in out[:-1]))
    return out


def terrain() -> list[dict[str, Any]]:
    """Compact scans of 1,000 points into a map of 138,000 cells: elevation, slopes and variances are redone."""
    from credo import Terrain
    from credo.kernels import Matern32

    rng = np.random.default_rng(0)
    width, cells = 0.1, 138_000
    number = np.arange(cells)
    middles = (np.column_stack([number % 372, number // 372]) + 0.5) * width

    def cloud(xy: np.ndarray) -> np.ndarray:
        z = np.sin(xy[:, 0]) + 0.5 * np.cos(1.3 * xy[:, 1] + xy[:, 0])
        return np.column_stack([xy, z + 0.05 * rng.normal(size=len(xy))])

    before = time.process_time()
    ground = Terrain(width, Matern32(1.5, 1.0), mean=0.0, noise=0.0025).condition(cloud(middles))
    out = [{"task": "terrain", "what": "138,000 cells at once", "fit": round(time.process_time() - before, 2)}]
    for side in (1.0, 2.0, 3.0):
        taken = []
        for _ in range(10):
            scan = cloud(rng.uniform(4, 33, 2) + rng.uniform(-side / 2, side / 2, (1000, 2)))
            before = time.process_time()
            ground.condition(scan)
            taken.append(time.process_time() - before)
        what = f"update of 1,000 points on {side:g} m x {side:g} m"
        out.append({"task": "terrain", "what": what, "fit": round(float(np.median(taken)), 4)})
        print(what, f"median {1e3 * np.median(taken):.1f} ms, worst of 10 {1e3 * max(taken):.1f} ms", flush=True)
    return out


def main(arguments: list[str]) -> None:
    """Measures and prints."""
    tasks = {"satellite": satellite, "kriging": kriging, "rough": lambda: kriging(rough=True), "terrain": terrain}
    for name in arguments or tasks:
        for row in tasks[name]():
            append_row("maps", COLUMNS, row)


if __name__ == "__main__":
    main(sys.argv[1:])
