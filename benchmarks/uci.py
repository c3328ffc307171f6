"""Accuracy of exact Gaussian processes on UCI tables: the same ten splits, the same kernel, each library's own fit.

`python -m benchmarks.uci [--method=NAME ...] [name ...]` (all methods, all tables), with the data in $CREDO_DATA
(default ../shared/data). Inputs and outcomes are standardized by the training rows for everyone; credo does not need
it, the peers do. Density and interval are the prediction's own: Normal, but for warped outcomes. Rows go to
results/uci.csv as they are finished; results/uci.md is the table of their means.
"""

import csv
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from benchmarks.harness import RESULTS, machine
from benchmarks.peers import Exact

NAMES = ("yacht", "autompg", "stock", "energy", "concrete", "airfoil", "wine")
DATA = Path(os.environ.get("CREDO_DATA", Path(__file__).parents[2] / "shared" / "data")) / "uci"
FILE = RESULTS / "uci.csv"


def read(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, outcomes, and ten columns that mark the test rows."""
    tables = [np.loadtxt(DATA / name / f, delimiter=",") for f in ("data.csv.gz", "test_mask.csv.gz")]
    return tables[0][:, :-1], tables[0][:, -1], tables[1].astype(bool)


def splits(name: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Standardized (x, y, x_test, y_test) of every split."""
    x, y, masks = read(name)
    for mask in masks.T:
        center, spread = x[~mask].mean(0), x[~mask].std(0)
        z = (x - center) / np.where(spread > 0, spread, 1.0)
        t = (y - y[~mask].mean()) / y[~mask].std()
        yield z[~mask], t[~mask], z[mask], t[mask]


class Prediction(NamedTuple):
    """What is scored: the mean, the log density, and the 95 % interval."""

    mean: np.ndarray
    log_prob: Callable[[np.ndarray], Any]
    low: np.ndarray
    high: np.ndarray


def normal(mean: np.ndarray, std: np.ndarray) -> Prediction:
    """The prediction of a library that tells mean and standard deviation."""
    law = stats.norm(mean, std)
    return Prediction(mean, law.logpdf, *law.interval(0.95))


def credo_gp(kind: str, priors: Any = None) -> Callable[..., Prediction]:
    def run(x: np.ndarray, y: np.ndarray, x_test: np.ndarray) -> Prediction:
        import credo

        return predicted(credo.fit(getattr(credo, kind)(), x, y, priors=priors), x_test)

    return run


def credo_pool(x: np.ndarray, y: np.ndarray, x_test: np.ndarray) -> Prediction:
    """The mean of three beliefs: two smoothnesses, and warped outcomes."""
    import credo
    from credo.kernels import Matern32

    return predicted(credo.pool([credo.GP(), credo.GP(Matern32(ard=True)), credo.WarpedGP()], x, y), x_test)


def predicted(belief: Any, x_test: np.ndarray) -> Prediction:
    p = belief.predict(x_test)
    low, high = p.interval(0.95)
    return Prediction(np.asarray(p.mean), p.log_prob, np.asarray(low), np.asarray(high))


def sklearn_gp(x: np.ndarray, y: np.ndarray, x_test: np.ndarray) -> Prediction:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    wide = (1e-5, 1e5)
    kernel = ConstantKernel(1.0, wide) * Matern(np.ones(x.shape[1]), wide, nu=2.5) + WhiteKernel(0.1, (1e-8, 10.0))
    return normal(*GaussianProcessRegressor(kernel).fit(x, y).predict(x_test, return_std=True))


def gpytorch_gp(x: np.ndarray, y: np.ndarray, x_test: np.ndarray) -> Prediction:
    """From GPyTorch's own starting values."""
    peer = Exact(x, y, "constant")
    peer.climb(max_iter=100)
    return normal(*peer.predict(x_test))


OURS = {
    "credo, three pooled": credo_pool,
    "credo": credo_gp("GP"),
    "credo, no hyperpriors": credo_gp("GP", priors=False),
    "credo, warped outcomes": credo_gp("WarpedGP"),
}
PEERS = {"GPyTorch": gpytorch_gp, "scikit-learn": sklearn_gp}


def run(name: str, method: str, function: Callable[..., Prediction]) -> Iterator[list[Any]]:
    """A row of scores for each split."""
    for i, (x, y, x_test, y_test) in enumerate(splits(name)):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                p = function(x, y, x_test)
            except Exception as error:  # a peer that gives up is a result, too
                print(f"{method} failed on split {i} of {name}: {error}", flush=True)
                p = normal(np.full(len(y_test), np.nan), np.ones(len(y_test)))
        seconds = time.perf_counter() - start
        rmse = float(np.sqrt(np.mean((p.mean - y_test) ** 2)))
        nlpd = float(-np.mean(np.asarray(p.log_prob(y_test))))
        inside = float(np.mean((p.low < y_test) & (y_test < p.high)))
        yield [name, method, i, rmse, nlpd, inside, seconds]


def table() -> str:
    """Means over the splits, from the rows on file; of a split done twice the last counts."""
    with FILE.open() as stream:
        rows = {tuple(row[:3]): [float(v) for v in row[3:]] for row in csv.reader(stream)}
    lines = ["| data | method | splits | test RMSE | test NLPD | in 95 % intervals | seconds a fit |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in NAMES:
        for method in (*OURS, *PEERS):
            scores = np.array([v for (n, m, _), v in rows.items() if (n, m) == (name, method)])
            if len(scores):
                done = np.isfinite(scores[:, 0])
                rmse, nlpd, inside, seconds = scores[done].mean(0)
                scored = f"{rmse:.4f} | {nlpd:.4f} | {inside:.1%} | {seconds:.2g}"
                lines.append(f"| {name} | {method} | {done.sum()} of {len(scores)} | {scored} |")
    return "\n".join(lines)


def main() -> None:
    chosen = [a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--method=")] or [*OURS, *PEERS]
    names = [a for a in sys.argv[1:] if not a.startswith("--")] or list(NAMES)
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        for method in chosen:
            function = (OURS | PEERS)[method]
            for row in run(name, method, function):
                with FILE.open("a") as stream:
                    csv.writer(stream).writerow(row)
            print(name, method, flush=True)
    text = f"# Exact Gaussian processes on UCI tables\n\n{machine()}\n\n{table()}\n"
    (RESULTS / "uci.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
