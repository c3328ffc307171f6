"""Coverage of split conformal prediction against its exact law: twenty data sets, fifty seeds each.

`python -m benchmarks.conformal`, with the tables of $CREDO_DATA (those of scikit-learn, and simulated ones, without).

Of n calibration rows and m new ones, all exchangeable and without ties, how many of the m are held follows
BetaBinomial(m, r, n + 1 - r) with r = ⌈(n + 1) level⌉, whatever the belief: also where rows are drawn without
replacement from a table. Sums over seeds are held against the exact law of the sum.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import stats

DATA = Path(os.environ.get("CREDO_DATA", Path(__file__).parents[2] / "shared" / "data" / "uci"))
LEVEL, LEARN, CALIBRATE, MOST, SEEDS = 0.9, 0.4, 0.3, 600, 50
WANTED, LEAST = 20, 100


def data_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Tables, the outcomes of which are jittered by nothing that shows, so that no two scores tie."""
    from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3

    found = [(name.name, *_read(name / "data.csv.gz")) for name in sorted(DATA.glob("*")) if name.is_dir()]
    found.append(("diabetes", *load_diabetes(return_X_y=True)))
    for make in (make_friedman1, make_friedman2, make_friedman3):
        found.append((make.__name__, *make(300, noise=1.0, random_state=0)))
    found = [each for each in found if len(each[2]) >= LEAST]
    rng = np.random.default_rng(0)
    while len(found) < WANTED:
        x, degrees = rng.normal(size=(300, 3)), 2 + len(found)
        found.append((f"simulated {len(found)}", x, np.exp(x[:, 0]) * rng.standard_t(degrees, size=300) + x[:, 1]))
    for name, x, y in found[:WANTED]:
        yield name, x, y + 1e-6 * y.std() * rng.normal(size=len(y))


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    rows = np.loadtxt(path, delimiter=",")
    return rows[:, :-1], rows[:, -1]


def interval(law: stats.rv_discrete, m: int) -> tuple[float, float]:
    """Of the coverage over all seeds: exact, and right for all data sets at once with probability 99 %."""
    size = m * SEEDS + 1
    mass = np.fft.irfft(np.fft.rfft(law.pmf(np.arange(m + 1)), 2 * size) ** SEEDS, 2 * size)[:size]
    cdf, share = np.cumsum(mass), 0.005 / WANTED
    return float(np.searchsorted(cdf, share) / (size - 1)), float(np.searchsorted(cdf, 1 - share) / (size - 1))


def main() -> None:
    import credo
    from credo.evaluate import conformal, coverage

    print(
        "| data | rows to calibrate | new | coverage | exact interval | in it |\n| --- | --- | --- | --- | --- | --- |"
    )
    held = 0
    for name, x, y in data_sets():
        n, found = min(len(y), MOST), []
        learn, calibrate = int(LEARN * n), int(CALIBRATE * n)
        m = n - learn - calibrate
        for seed in range(SEEDS):
            order = np.random.default_rng(seed).permutation(len(y))[:n]
            a, b, c = np.split(order, [learn, learn + calibrate])
            belief = credo.Linear(noise=float(np.var(y[a]))).condition(x[a], y[a])
            found.append(float(coverage(conformal(belief, x[b], y[b]).predict(x[c]), y[c], LEVEL)))
        r = int(np.ceil((calibrate + 1) * LEVEL - 1e-9))
        low, high = interval(stats.betabinom(m, r, calibrate + 1 - r), m)
        inside = low <= np.mean(found) <= high
        held += inside
        print(f"| {name} | {calibrate} | {m} | {np.mean(found):.4f} | {low:.4f} to {high:.4f} | {inside} |", flush=True)
    print(f"\n{held} of {WANTED} data sets within the interval, {SEEDS} seeds each.")


if __name__ == "__main__":
    main()
