"""Tables with labels as users have them: text for categories, gaps, rows without a label, chunks of a long table."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from credo.core.arrays import Array, is_traced, namespace
from credo.core.checks import ArrayLike, as_numpy, by_name, check_table, column_names
from credo.core.errors import DataError
from credo.models.densities import Observed
from credo.models.likelihoods.classes import Label, find_classes, shown

Categories = tuple[tuple[Label, ...] | None, ...]
"""The categories of each column of text, None for a column of numbers."""
UNLABELLED = -1
FEW = 16
"""Up to so many classes are told apart one by one, which is quicker than a search in each row."""


class Labelled(NamedTuple):
    """Rows, and the position of the class of each; `UNLABELLED` where it is not known."""

    rows: Observed
    codes: Int[Array, " n"]

    @property
    def hidden(self) -> bool:
        """Whether the class of some row is not known."""
        return not is_traced(self.codes) and bool((np.asarray(self.codes) < 0).any())

    def cut(self, where: Any) -> "Labelled":
        """Some of the rows."""
        x, seen = self.rows[:2]
        return Labelled(self.rows._replace(x=x[where], seen=seen[where]), self.codes[where])

    def weight(self, k: int) -> Float[Array, "n k"]:
        """One where the class is known to be that, 0 elsewhere."""
        return 1.0 * (self.codes[:, None] == np.arange(k))

    def __add__(self, other: Any) -> "Labelled":
        x, seen = (np.concatenate(pair) for pair in zip(self.rows[:2], other.rows[:2], strict=True))
        complete = self.rows.complete and other.rows.complete
        return Labelled(Observed(x, seen, None, complete), np.concatenate([self.codes, other.codes]))


class Peeked:
    """A stream of chunks of which the first has been looked at; it can be gone through once."""

    def __init__(self, stream: Iterator[Any]):
        self.first, self.rest = next(stream, None), stream

    def __iter__(self) -> Iterator[Any]:
        if self.first is not None:
            yield self.first
        yield from self.rest


def first_chunk(data: tuple[Any, ...]) -> tuple[Any, Any]:
    """X and y, or those of the first chunk, which is looked at without using up the stream."""
    if len(data) == 2:
        return data
    if len(data) != 1 or not isinstance(data[0], Iterable) or hasattr(data[0], "shape") or hasattr(data[0], "columns"):
        raise DataError(f"give X and y, or one iterable of (X, y) chunks; found {len(data)} argument(s)")
    if isinstance(data[0], Iterator):
        raise DataError(
            "a generator can be gone through only once, and its first chunk is needed to get ready; call "
            "belief.condition with it, or pass a list or credo.core.chunks.chunks(…)"
        )
    first = data[0].first if isinstance(data[0], Peeked) else next(iter(data[0]), None)
    if not isinstance(first, tuple) or len(first) != 2:
        found = "nothing" if first is None else f"a {type(first).__name__}"
        raise DataError(f"chunks must be tuples (X, y), found {found}; a generator can be used only once")
    return first


def every_chunk(data: tuple[Any, ...]) -> Iterator[tuple[Any, Any, str]]:
    """X and y of each chunk, and how to call it in a message."""
    if len(data) == 2:
        yield (*data, "")
        return
    first_chunk(data)
    for i, chunk in enumerate(data[0]):
        if not isinstance(chunk, tuple) or len(chunk) != 2:
            raise DataError(f"chunk {i} must be a tuple (X, y), found a {type(chunk).__name__}")
        yield (*chunk, f" of chunk {i}")


def find_categories(x: ArrayLike) -> Categories | None:
    """The categories of the columns that hold text, in their order; None where all are numbers."""
    if is_traced(x):
        return None
    raw = as_numpy(x, "X")
    if raw.dtype.kind not in "OUS" or raw.ndim != 2:
        return None
    found: list[tuple[Label, ...] | None] = []
    for j in range(raw.shape[1]):
        texts = sorted({str(v) for v in raw[:, j] if isinstance(v, str)})
        found.append(tuple(texts) or None)
    return tuple(found) if any(each is not None for each in found) else None


def read_table(
    x: ArrayLike,
    inputs: Sequence[str] | int | None,
    categories: Categories | None,
    missing: bool,
    name: str = "X",
    shows: bool = False,
) -> Observed:
    """Checked rows; NaN and None are entries that were not observed where `missing`, otherwise refused.

    `shows` leaves it to the caller to notice what is not finite, where sums will show it.
    """
    if is_traced(x):
        table = check_table(x, name, inputs)
        return Observed(table, np.broadcast_to(True, table.shape), None, complete=True)
    if categories is not None:
        x = _coded(x if isinstance(inputs, int) or inputs is None else by_name(x, inputs, name), categories, name)
        inputs = len(categories)
    elif missing:
        x = _without_none(x)
    table = check_table(x, name, inputs, finite=not (missing or shows))
    if not missing:
        return Observed(table, np.broadcast_to(True, table.shape), None, complete=True)
    seen = ~np.isnan(table)
    whole = bool(seen.all())
    table = table if whole else np.where(seen, table, 0.0)
    check_table(table, name)  # what is left must be finite
    return Observed(table, seen, None, complete=whole or bool(np.all(seen.all(1) | ~seen.any(1))))


def _without_none(x: ArrayLike) -> ArrayLike:
    """NaN for None and pandas' NA, in tables of objects."""
    raw = as_numpy(x, "X")
    if raw.dtype.kind != "O":
        return x
    gaps = np.frompyfunc(_is_gap, 1, 1)(raw).astype(bool)
    if not gaps.any():
        return x
    filled = raw.copy()
    filled[gaps] = np.nan
    return filled


def _is_gap(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _coded(x: ArrayLike, categories: Categories, name: str) -> np.ndarray:
    """Numbers for categories: their position, NaN for a gap."""
    names, raw = column_names(x), as_numpy(x, name)
    if raw.ndim != 2 or raw.shape[1] != len(categories):
        check_table(raw if raw.dtype.kind != "O" else np.zeros(raw.shape), name, len(categories))
    columns = []
    for j, levels in enumerate(categories):
        column = raw[:, j]
        if levels is None:
            columns.append(check_table(_without_none(column[:, None]), name, finite=False)[:, 0])
            continue
        place = {level: float(i) for i, level in enumerate(levels)}
        codes = np.array([np.nan if _is_gap(v) else place.get(v if isinstance(v, str) else str(v), -1) for v in column])
        if (codes == -1).any():
            row, what = int(np.argmax(codes == -1)), repr(names[j]) if names else j
            raise DataError(
                f"{name} has {column[row]!r} at row {row}, column {what}, which was never seen: its categories are "
                f"{shown(levels)}; give all of them when fitting (categories=), or None with missing=True"
            )
        columns.append(codes)
    return np.stack(columns, axis=1)


def read_labels(y: ArrayLike, classes: Sequence[Label], n: int, missing: bool, of: str = "") -> Int[Array, " n"]:
    """The position of each label among the classes; `UNLABELLED` for None and NaN where `missing`."""
    if is_traced(y):
        return y.astype(int)
    raw = as_numpy(y, f"y{of}")
    raw = raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
    if raw.ndim != 1 or len(raw) != n:
        raise DataError(f"y{of} must have one label for each of the {n} rows of X, found shape {raw.shape}")
    if raw.dtype.kind not in "biufOU":
        raise DataError(f"y{of} must hold labels (text or numbers), found {raw.dtype}")
    gaps = _gaps(raw)
    if gaps.any() and not missing:
        raise DataError(
            f"y{of} has a missing label at row {int(np.argmax(gaps))}; drop such rows, or pass missing=True to learn "
            "from rows without a label, too"
        )
    codes = np.full(n, UNLABELLED)
    if len(classes) <= FEW or raw.dtype.kind == "O":
        for i, label in enumerate(classes):
            codes += (i + 1) * np.asarray(raw == label, dtype=bool)
    else:
        levels = np.asarray(classes)
        order = np.argsort(levels)
        found = np.searchsorted(levels, raw, sorter=order).clip(0, len(levels) - 1)
        codes = np.where(levels[order[found]] == raw, order[found], UNLABELLED)
    unknown = (codes < 0) & ~gaps
    if unknown.any():
        row = int(np.argmax(unknown))
        raise DataError(
            f"y{of} has {raw[row : row + 1].tolist()[0]!r} at row {row}, but the classes are {shown(tuple(classes))}; "
            "a belief that is to learn of more classes is told them in the beginning (classes=)"
        )
    return codes


def labels_of(y: ArrayLike, missing: bool) -> tuple[Label, ...]:
    """The distinct labels that were given."""
    raw = as_numpy(y, "y")
    if not missing or raw.ndim == 0:
        return find_classes(y)
    gaps = _gaps(raw.reshape(len(raw), -1)[:, 0])
    if gaps.all():
        raise DataError("y has no label at all: at least one row of each class must be labelled")
    return find_classes(np.array(raw[~gaps].tolist()) if raw.dtype.kind == "O" else raw[~gaps])


def _gaps(raw: np.ndarray) -> Bool[np.ndarray, " n"]:
    if raw.dtype.kind == "f":
        return np.isnan(raw)
    if raw.dtype.kind != "O":
        return np.zeros(len(raw), bool)
    return np.array([_is_gap(v) for v in raw], bool)


def decoded(table: Float[np.ndarray, "n d"], categories: Categories | None) -> np.ndarray:
    """The table with text in place of the codes of categories."""
    if categories is None:
        return table
    out = table.astype(object)
    for j, levels in enumerate(categories):
        if levels is not None:
            out[:, j] = np.asarray(levels, object)[table[:, j].astype(int)]
    return out


def softmax(logs: Float[Array, "*n k"]) -> tuple[Float[Array, "*n k"], Float[Array, "*n"]]:
    """Probabilities in proportion to exp(logs), and the logarithm of their sum."""
    xp = namespace(logs)
    top = logs.max(-1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    shares = xp.exp(logs - top)
    total = shares.sum(-1, keepdims=True)
    return shares / total, (xp.log(total) + top)[..., 0]


def thinned(x: ArrayLike, y: ArrayLike, most: int) -> tuple[ArrayLike, ArrayLike]:
    """Every so many rows of a long array, for what needs a look only; other tables as they are."""
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)) or len(x) != len(y) or len(x) <= most:
        return x, y
    step = -(-len(x) // most)
    return x[::step], y[::step]
