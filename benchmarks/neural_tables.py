"""How well networks predict: published splits, large tables beside boosting, digits.

`python -m benchmarks.neural_tables [published] [tables] [digits] [--only=NAME]`, with the tables of $CREDO_DATA (uci,
and uci-bnn beside it); what is measured is printed as Markdown.
"""

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(os.environ.get("CREDO_DATA", Path(__file__).parents[2] / "shared" / "data" / "uci")).parent
PUBLISHED = {  # the bar of the mean log density, and the best RMSE published
    "boston": (2.38, 2.97),
    "concrete": (2.98, 5.23),
    "energy": (0.80, 1.66),
    "wine": (0.93, 0.62),
    "yacht": (0.20, 1.02),
}
LARGE = ("elevators", "protein", "kin40k")


def table(folder: str, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, outcomes, and a column for each split, true for test rows."""
    rows = np.loadtxt(DATA / folder / name / "data.csv.gz", delimiter=",")
    mask = np.loadtxt(DATA / folder / name / "test_mask.csv.gz", delimiter=",")
    return rows[:, :-1], rows[:, -1], mask.astype(bool)


def mean_and_error(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}"


def published(only: list[str]) -> None:
    """`credo.fit(credo.Neural(), X, y)` on the twenty splits of five tables, in original units."""
    import credo

    print("| data | NLL | bar | RMSE | best published | NLL without twins | CPU s a split | first |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (bar, best) in PUBLISHED.items():
        if only and name not in only:
            continue
        x, y, mask = table("uci-bnn", name)
        nll, rmse, apart, seconds = [], [], [], []
        for test in mask.T:
            begin = time.process_time()
            p = credo.fit(credo.Neural(), x[~test], y[~test]).predict(x[test])
            seconds.append(time.process_time() - begin)
            each, seen = -np.asarray(p.log_prob(y[test])), {tuple(row) for row in x[~test]}
            nll.append(each.mean())
            rmse.append(np.sqrt(np.mean((np.asarray(p.mean) - y[test]) ** 2)))
            apart.append(each[[tuple(row) not in seen for row in x[test]]].mean())
        scores = f"{mean_and_error(nll)} | {bar} | {mean_and_error(rmse)} | {best} | {mean_and_error(apart)}"
        print(f"| {name} | {scores} | {np.mean(seconds[1:]):.1f} | {seconds[0]:.1f} |", flush=True)


# -- large tables -----------------------------------------------------------------------------------------------------

Answer = tuple[np.ndarray, np.ndarray]
"""-log p of the test rows, and what was expected of them."""


def normal(mean: np.ndarray, variance: np.ndarray, y: np.ndarray) -> Answer:
    return 0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance), mean


def credo_fit(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> Answer:
    import credo

    p = credo.fit(credo.Neural(), x, y).predict(x_test)
    return -np.asarray(p.log_prob(y_test)), np.asarray(p.mean)


def ngboost_fit(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> Answer:
    """500 trees for each of the two numbers, its defaults."""
    from ngboost import NGBRegressor

    law = NGBRegressor(n_estimators=500, verbose=False, random_state=0).fit(x, y).pred_dist(x_test)
    return normal(law.loc, law.scale**2, y_test)


def lightgbm_fit(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> Answer:
    """A mean, and a variance head learned from its out-of-fold errors."""
    from lightgbm import LGBMRegressor
    from sklearn.model_selection import cross_val_predict

    options: dict[str, Any] = {"learning_rate": 0.05, "num_leaves": 63, "n_jobs": 1, "verbose": -1, "random_state": 0}
    model = LGBMRegressor(n_estimators=500, **options)
    squares = (y - cross_val_predict(model, x, y, cv=5)) ** 2
    head = LGBMRegressor(n_estimators=200, **options).fit(x, np.log(squares + 1e-8))
    factor = np.mean(squares / np.exp(head.predict(x)))
    return normal(model.fit(x, y).predict(x_test), factor * np.exp(head.predict(x_test)), y_test)


CONTESTANTS: dict[str, Callable[..., Answer]] = {
    "credo": credo_fit,
    "NGBoost": ngboost_fit,
    "LightGBM, variance head": lightgbm_fit,
}


def tables(only: list[str]) -> None:
    """Split 0 of three tables of many rows, inputs and outcomes standardized."""
    print("| data | | NLPD | RMSE | CPU s |\n| --- | --- | --- | --- | --- |")
    for name in LARGE:
        x, y, mask = table("uci", name)
        test = mask[:, 0]
        x = (x - x[~test].mean(0)) / np.maximum(x[~test].std(0), 1e-12)
        y = (y - y[~test].mean()) / y[~test].std()
        for who, function in CONTESTANTS.items():
            if only and who not in only:
                continue
            begin = time.process_time()
            nlpd, mean = function(x[~test], y[~test], x[test], y[test])
            seconds = time.process_time() - begin
            rmse = np.sqrt(np.mean((mean - y[test]) ** 2))
            print(f"| {name} | {who} | {nlpd.mean():.3f} | {rmse:.3f} | {seconds:.0f} |", flush=True)


# -- digits -----------------------------------------------------------------------------------------------------------


def digit_networks(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Ten convolutional networks of scikit-learn's digits."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import credo
    from credo.models.neural import Ensemble, Image

    first, second = jax.random.split(jax.random.key(seed))
    network = eqx.nn.Sequential(
        [
            Image((1, 8, 8)),
            eqx.nn.Conv2d(1, 16, 3, key=first),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(16 * 36, 10, key=second),
        ]
    )
    belief = credo.Neural(network=network, outcome="classes", precision=1.0, steps=1000, batch=64, seed=seed)
    return belief.condition(x, y, using=Ensemble(10))


def digits(seeds: int = 5) -> None:
    """Accuracy and calibration on a fifth held out, after recalibration on another fifth; and turned digits."""
    from scipy.ndimage import rotate
    from sklearn.datasets import load_digits

    import credo
    from credo import evaluate

    x, y = load_digits(return_X_y=True)
    x, angles = x / 16, np.arange(0, 91, 15)
    accuracy, before, after, turned = [], [], [], []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        train, calibrate, test = order[:1077], order[1077:1437], order[1437:]
        found = digit_networks(x[train], y[train], seed)
        fixed = credo.recalibrated(found, x[calibrate], y[calibrate])
        p, q = found.predict(x[test]), fixed.predict(x[test])
        accuracy.append(float(np.mean(np.argmax(q.probs, axis=1) == y[test])))
        before.append(float(evaluate.expected_calibration_error(p, y[test])))
        after.append(float(evaluate.expected_calibration_error(q, y[test])))
        images = x[test].reshape(-1, 8, 8)
        pictures = [rotate(images, a, axes=(1, 2), reshape=False, order=1).reshape(-1, 64) for a in angles]
        turned.append([float(np.mean(found.predict(each).epistemic)) for each in pictures])
    said = f"accuracy {np.mean(accuracy):.2%}, ECE {np.mean(before):.2%}, recalibrated {np.mean(after):.2%}"
    print(f"{seeds} splits: {said}; of each {np.round(accuracy, 4)}, {np.round(after, 4)}")
    means, errors = np.mean(turned, axis=0), np.std(turned, axis=0, ddof=1) / np.sqrt(seeds)
    for angle, mean, error in zip(angles, means, errors, strict=True):
        print(f"turned by {angle}°: ignorance {mean:.3f} ± {error:.3f} nats")


def main() -> None:
    chosen = [a for a in sys.argv[1:] if not a.startswith("--")] or ["published", "tables", "digits"]
    only = [a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--only=")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in chosen:
            {"published": lambda: published(only), "tables": lambda: tables(only), "digits": digits}[name]()


if __name__ == "__main__":
    main()
