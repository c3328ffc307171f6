"""Gaussian processes of many rows: plain `credo.fit(GP(), X, y)` on the large UCI tables, split 0, y standardized.

`OPENBLAS_NUM_THREADS=1 python -m benchmarks.large_gp [--method=NAME ...] [name ...]`, with the data in $CREDO_DATA; or
`python -m benchmarks.large_gp classes`, which needs none and has the bars of 60 CPU s and 0.005 above the truth.
Prints what was chosen, the mean negative log density, the error, the coverage of 95 % intervals, and CPU seconds of the
fit and of the prediction; rows are added to results/large_gp.csv. Bars: kin40k ≤ -0.7 in 40 CPU s, elevators ≤ 0.425,
protein ≤ 0.60.
"""

import sys
import time
from typing import Any

import numpy as np

from benchmarks.harness import append_row
from benchmarks.uci import DATA, splits

NAMES = ("elevators", "kin40k", "protein", "pumadyn32nm")
COLUMNS = ("table", "method", "rows", "nlpd", "rmse", "coverage", "fit", "predict")


def methods() -> dict[str, Any]:
    """By name; None is what credo chooses."""
    from credo.models.gp import Inducing, Neighbours, RandomFeatures

    return {
        "chosen": None,
        "neighbours": Neighbours(),
        "inducing": Inducing(500),
        "random": RandomFeatures(300),
    }


def measure(name: str, method: Any) -> dict[str, Any]:
    """One fit and one prediction."""
    import credo

    x, y, x_test, y_test = next(splits(name))
    before = time.process_time()
    gp = credo.fit(credo.GP(), x, y, using=method)
    between = time.process_time()
    p = gp.predict(x_test)
    after = time.process_time()
    inside = np.abs(y_test - p.mean) < 1.96 * p.std
    return {
        "table": name,
        "method": str(gp.method),
        "rows": len(y),
        "nlpd": round(-float(np.mean(p.log_prob(y_test))), 4),
        "rmse": round(float(np.sqrt(np.mean((p.mean - y_test) ** 2))), 4),
        "coverage": round(float(np.mean(inside)), 3),
        "fit": round(between - before, 1),
        "predict": round(after - between, 1),
    }


def classes(n: int = 100_000) -> None:
    """`LatentGP` through inducing points: simulated classes, the log loss beside that of the true probabilities."""
    import credo

    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(n + 5000, 2))
    p = 1 / (1 + np.exp(-2 * np.sin(2 * x[:, 0]) * np.cos(1.5 * x[:, 1])))
    y = (rng.random(len(p)) < p).astype(int)
    before = time.process_time()
    found = credo.fit(credo.LatentGP(), x[:n], y[:n])
    seconds = time.process_time() - before
    losses = [-np.mean(np.log(np.where(y[n:] == 1, q, 1 - q))) for q in (np.asarray(found.predict(x[n:]).mean), p[n:])]
    print(f"classes, {n:,} rows: {seconds:.1f} CPU s, log loss {losses[0]:.4f}, of the truth {losses[1]:.4f}")


def main(arguments: list[str]) -> None:
    """Measures and prints."""
    if arguments == ["classes"]:
        return classes()
    if not DATA.is_dir():
        raise SystemExit(f"there are no tables in {DATA}; set CREDO_DATA")
    asked = [a.removeprefix("--method=") for a in arguments if a.startswith("--method=")] or ["chosen"]
    for name in [a for a in arguments if not a.startswith("--")] or NAMES:
        for method in asked:
            row = measure(name, methods()[method])
            append_row("large_gp", COLUMNS, row)


if __name__ == "__main__":
    main(sys.argv[1:])
