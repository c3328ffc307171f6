"""Which rows are held out for the test."""

import numpy as np

from credo.app.prepare import Prepared
from credo.core.errors import DataError
from credo.evaluate.validation import holdout


def split(prepared: Prepared, test: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to learn from and those held out: the latest of a series, else some at random.

    Of every class about the same share is held out, and at least one row stays to learn from.
    """
    n = len(prepared.y)
    if prepared.time is not None:
        order = np.argsort(prepared.time, kind="stable")
        count = max(round(n * test), 1)
        train, held_out = order[: n - count], order[n - count :]
    elif prepared.kind == "classes":
        train, held_out = stratified(prepared.y, test, seed)
    else:
        parts = holdout(n, test=test, validation=0.0, seed=seed)
        train, held_out = parts.train, parts.test
    if len(train) < 4:
        raise DataError(f"--test {test:g} leaves {len(train)} of {n} rows to learn from; make it smaller")
    return train, held_out


def stratified(y: np.ndarray, test: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of their classes, at random within each; every 1/test-th of them is held out."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    count = max(round(len(y) * test), 1)
    places = ((np.arange(count) + rng.uniform()) * len(y) / count).astype(int)
    held_out = np.zeros(len(y), dtype=bool)
    held_out[order[places]] = True
    for label in np.unique(y):
        if held_out[y == label].all():
            held_out[np.flatnonzero(y == label)[0]] = False
    if not held_out.any():
        held_out[np.argmax(y == np.argmax(np.bincount(y.astype(int))))] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
