"""Gaussian processes of many rows: plain `credo.fit(GP(), X, y)` on the large UCI tables, split 0, y standardized.

`OPENBLAS_NUM_THREADS=1 python -m benchmarks.large_gp [--method=NAME ...] [name ...]`, with the data in $CREDO_DATA.
Prints what was chosen, the mean negative log density, the error, the coverage of 95 % intervals, and CPU seconds of the
fit and of the prediction; rows are added to results/large_gp.csv. Bars: kin40k ≤ -0.7 in 40 CPU s, elevators ≤ 0.425,
protein ≤ 0.60, pumadyn32nm below GPyTorch's SGPR(500).

Three parts need no data: `classes` (bars: 60 CPU s, 0.005 above the truth), `updates` (1 % more rows; bar: a tenth of
the time of `fit`) and `coverage` of 95 % intervals on data from the model.
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
        "vfe": Inducing(300),
        "fitc": Inducing(300, "fitc"),
        "learned": Inducing(300, select="learned"),
        "random": RandomFeatures(150),
        "vfe-short": Inducing(300, rounds=1, max_steps=15),
        "fitc-short": Inducing(300, "fitc", rounds=1, max_steps=15),
        "learned-short": Inducing(300, select="learned", rounds=1, max_steps=15),
        "random-short": RandomFeatures(150, max_steps=15),
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


def drawn(n: int, d: int, seed: int, rough: bool = False) -> tuple[Any, np.ndarray, np.ndarray]:
    """A belief with its hyperparameters, and rows drawn from it by random features."""
    import credo
    from credo.kernels import RBF, Matern32

    kernel = (Matern32 if rough else RBF)(0.15 if d < 3 else 0.5, 1.0)
    gp = credo.GP(kernel, noise=0.05)
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, d))
    f = np.asarray(credo.GP(kernel, 0.0, 0.05).sample_functions(1, features=4096, seed=seed, columns=d)(x))[0]
    return gp, x, f + np.sqrt(0.05) * rng.normal(size=n)


def updates(n: int = 100_000) -> None:
    """1 % more rows beside conditioning on all of them anew with the same hyperparameters, and beside `fit`."""
    import credo
    from credo.models.gp import SKI, Fourier, Inducing, Neighbours

    gp, x, y = drawn(n + n // 100, 2, 0)
    for method in (Inducing(300, rounds=1, max_steps=15), Neighbours(20), SKI(30), Fourier()):
        first = gp.condition(x[:n], y[:n], using=method)
        first.condition(x[n:], y[n:])  # compiled
        begin = time.process_time()
        first.condition(x[n:], y[n:])
        between = time.process_time()
        gp.condition(x, y, using=method)
        conditioned = time.process_time()
        credo.fit(credo.GP(gp.kernel), x, y, using=method)
        more, scratch, learned = between - begin, conditioned - between, time.process_time() - conditioned
        print(
            f"updates, {n:,} rows, {method}: {more:.3f} CPU s, anew {scratch:.2f} s ({scratch / more:.0f} : 1), "
            f"fit {learned:.1f} s ({learned / more:.0f} : 1)",
            flush=True,
        )


def coverage(n: int = 4000, tests: int = 4000) -> None:
    """95 % intervals on data from the model, learned and with the true numbers: the share of rows inside."""
    import credo
    from credo.models.gp import SKI, Fourier, Inducing, Local, Neighbours, RandomFeatures

    for rough in (False, True):
        gp, x, y = drawn(n + tests, 2, 1, rough)
        smooth = () if rough else (Fourier(),)
        kinds = tuple(Inducing(300, kind) for kind in ("vfe", "fitc", "dtc", "sor"))
        for method in (Neighbours(), Local(0.6), *kinds, RandomFeatures(300), SKI(30), *smooth):
            shares = []
            for learned in (True, False):
                made = credo.fit(credo.GP(gp.kernel), x[:n], y[:n], using=method) if learned else None
                p = (made or gp.condition(x[:n], y[:n], using=method)).predict(x[n:])
                shares.append(float(np.mean(np.abs(y[n:] - p.mean) < 1.96 * p.std)))
            name = f"{type(method).__name__} {getattr(method, 'kind', '')}".strip()
            kernel = "Matérn-3/2" if rough else "RBF"
            print(f"coverage, {kernel}, {name}: {shares[0]:.1%} learned, {shares[1]:.1%} with the truth", flush=True)


def main(arguments: list[str]) -> None:
    """Measures and prints."""
    parts = {"classes": classes, "updates": updates, "coverage": coverage}
    if len(arguments) == 1 and arguments[0] in parts:
        return parts[arguments[0]]()
    if not DATA.is_dir():
        raise SystemExit(f"there are no tables in {DATA}; set CREDO_DATA")
    asked = [a.removeprefix("--method=") for a in arguments if a.startswith("--method=")] or ["chosen"]
    for name in [a for a in arguments if not a.startswith("--")] or NAMES:
        for method in asked:
            row = measure(name, methods()[method])
            append_row("large_gp", COLUMNS, row)


if __name__ == "__main__":
    main(sys.argv[1:])
