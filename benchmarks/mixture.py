"""Gaussian mixtures: EM from the same start to the same likelihood, missing cells, chunks from disk."""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Memory, Task

TITLE = "Gaussian mixtures"
K = 10
STEPS = 50


class Data(NamedTuple):
    """Rows of ten overlapping Gaussians, with and without holes, and where all begin."""

    x: np.ndarray
    holes: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def make(n: int = 100_000, d: int = 10) -> Data:
    rng = np.random.default_rng(0)
    mean, a = rng.normal(size=(K, d)), rng.normal(size=(K, d, d)) / np.sqrt(d)
    z = rng.integers(K, size=n)
    x = mean[z] + np.einsum("nij,nj->ni", a[z], rng.normal(size=(n, d))) + 0.3 * rng.normal(size=(n, d))
    holes = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    return Data(x, holes, x[rng.choice(n, K, replace=False)], np.broadcast_to(np.cov(x.T), (K, d, d)).copy())


def _begun(data: Data) -> Any:
    import credo
    from credo.models.densities import Gaussian

    return credo.Mixture(K, Gaussian(data.covariances, mean=data.means, prior=None), np.full(K, 1 / K))


def credo_em(data: Data, missing: bool = False, steps: int = STEPS) -> Any:
    from credo.infer import EM

    begun, rows = _begun(data).prepare(data.holes if missing else data.x, missing=missing)
    return EM(1, steps, 0.0, accelerate=False).climb(begun, rows).belief


def sklearn_em(data: Data) -> Any:
    import warnings

    from sklearn.mixture import GaussianMixture

    start = {"weights_init": np.full(K, 1 / K), "means_init": data.means}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(K, tol=0, max_iter=STEPS, reg_covar=0, **start)
        model.precisions_init = np.linalg.inv(data.covariances)
        return model.fit(data.x)


def log_likelihood(model: Any, data: Data) -> float:
    if hasattr(model, "score_samples"):
        return float(model.score_samples(data.x).sum())
    return float(model.log_evidence(data.x))


def expect(missing: bool) -> Any:
    """Ten E-steps; rows are read and ordered before."""

    def run(prepared: Any) -> Any:
        begun, whole, holes = prepared
        for _ in range(10):
            begun.expect(holes if missing else whole)

    return run


def prepared() -> Any:
    data = make()
    begun, whole = _begun(data).prepare(data.x)
    return begun, whole, _begun(data).prepare(data.holes, missing=True)[1]


def stream() -> None:
    """Three steps of EM over ten million rows of 10 columns that lie on disk (800 MB)."""
    from credo.infer import EM

    small = make(100_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.bin"
        with path.open("wb") as file:  # plain writes and reads: pages of a memory map would count as memory
            for _ in range(100):
                small.x.tofile(file)

        class Read:
            """Chunks of the file."""

            def __iter__(self) -> Any:
                with path.open("rb") as file:
                    while len(rows := np.fromfile(file, count=655_360)):
                        yield rows.reshape(-1, 10)

        begun, rows = _begun(small).prepare(Read())
        EM(1, 3, 0.0, accelerate=False).climb(begun, rows)


TASKS = [
    Task(
        "EM, n = 100 000, d = 10, K = 10, full covariances, 50 iterations from the same start",
        make,
        {"credo": credo_em, "scikit-learn GaussianMixture": sklearn_em},
        {"log likelihood": log_likelihood},
        least=5.0,
        repeats=2,
    ),
    Task(
        "Ten E-steps, n = 100 000, d = 10, K = 10: 20 % of the cells missing beside none",
        prepared,
        {"20 % missing": expect(True), "complete": expect(False)},
        least=1 / 3,
        repeats=3,
        note="1 024 patterns of missing cells, each of which costs d³ for every component.",
    ),
    Memory(
        "Three steps of EM over n = 10 000 000, d = 10 in chunks from disk",
        "benchmarks.mixture:stream",
        most=1000.0,
        note="800 MB of data, 5 MB at a time.",
    ),
]
