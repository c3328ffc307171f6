"""Long sequences on all cores: the passes of an HMM in parts that run side by side (`core.parts`).

Each piece reads its rows, computes their likelihoods and writes its share of the answer, so that nothing as long as the
data is held twice.
"""

from functools import partial
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from credo.core.arrays import put, put_all
from credo.core.device import aligned
from credo.core.parts import WARM_UP, follow
from credo.core.pytrees import changed
from credo.models.hmm import passes
from credo.models.sequences import Sequences

one_thread: Any = partial(eqx.filter_jit, compiler_options={"xla_cpu_multi_thread_eigen": False})
"""Compiles for one thread: each part has its own."""


def filtered(hmm: Any, data: Sequences) -> tuple[Float[np.ndarray, "t k"], Float[np.ndarray, " t"]]:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁)."""
    t, law = len(data.first), hmm._law(data)
    probs, increments = aligned((t, law.shape[0])), aligned((t,))

    def run(before: Array, piece: slice) -> Array:
        found = _filter(hmm, law, before, _rows(data, piece))
        probs[piece], increments[piece] = np.asarray(found.probs), np.asarray(found.increments)
        return _row(probs, piece.stop - 1)

    def warm(piece: slice) -> Array:
        return _row(_filter(hmm, law, law, _rows(data, _before(piece))).probs, -1)

    follow(run, law, t, warm, passes.RELATIVE)
    return probs, increments


def smoothed(hmm: Any, data: Sequences) -> Float[np.ndarray, "t k"]:
    """p(zₜ | x₁…x_T); the filter's answer is overwritten by the smoother's."""
    probs, _ = filtered(hmm, data)
    first = np.asarray(data.first)

    def run(later: Array, piece: slice) -> Array:
        out[piece] = np.asarray(_smooth(hmm.transition, put(probs[piece]), _first_and_next(first, piece), later))
        return _row(out, piece.start)

    def warm(piece: slice) -> Array:
        ahead = slice(piece.stop, piece.stop + WARM_UP)
        end = _row(probs, ahead.stop - 1)
        return _row(_smooth(hmm.transition, put(probs[ahead]), _first_and_next(first, ahead), end), 0)

    out = aligned(probs.shape)
    follow(run, _row(probs, -1), len(first), warm, passes.RELATIVE, reverse=True)
    return out


def best(hmm: Any, data: Sequences) -> Int[np.ndarray, " t"]:
    """The most probable path."""
    t, law, first = len(data.first), hmm._law(data), np.asarray(data.first)
    scores, path = aligned((t, law.shape[0])), np.empty(t, np.int32)

    def forth(before: Array, piece: slice) -> Array:
        scores[piece] = np.asarray(_score(hmm, law, before, _rows(data, piece)))
        return _row(scores, piece.stop - 1)

    def warm_forth(piece: slice) -> Array:
        return _row(_score(hmm, law, put(np.zeros(law.shape)), _rows(data, _before(piece))), -1)

    def back(later: Array, piece: slice) -> Array:
        path[piece] = np.asarray(_trace(hmm.transition, put(scores[piece]), _first_and_next(first, piece), later))
        return _row(path, piece.start)

    def warm_back(piece: slice) -> Array:
        ahead = slice(piece.stop, piece.stop + WARM_UP)
        end = put(np.asarray(np.argmax(scores[ahead.stop - 1]), np.int32))
        return _row(_trace(hmm.transition, put(scores[ahead]), _first_and_next(first, ahead), end), 0)

    follow(forth, law, t, warm_forth)  # the first row begins a sequence: nothing depends on what came before
    follow(back, put(np.zeros((), np.int32)), t, warm_back, reverse=True)
    return path


def _rows(data: Sequences, piece: slice) -> Sequences:
    """Some rows of the data, as views."""
    names = [name for name in ("x", "seen", "first", "real", "inputs") if getattr(data, name) is not None]
    arrays = put_all(*(np.asarray(getattr(data, name))[piece] for name in names))
    return changed(data, **dict(zip(names, arrays, strict=True)), origin=None)


def _row(values: Any, at: int) -> Array:
    """One row, copied by NumPy, which compiles nothing."""
    return put(np.asarray(values)[at].copy())


def _before(part: slice) -> slice:
    return slice(part.start - WARM_UP, part.start)


def _first_and_next(first: np.ndarray, part: slice) -> Array:
    """Where sequences begin among the rows of a part and the one that follows it; nothing follows the last."""
    return put(np.append(first[part], first[part.stop] if part.stop < len(first) else True))


@one_thread
def _filter(hmm: Any, law: Float[Array, " k"], before: Float[Array, " k"], data: Sequences) -> passes.Filtered:
    return passes.filter_states(law, hmm.transition, hmm._log_b(data), data.first, before)


@one_thread
def _smooth(transition: Array, probs: Float[Array, "t k"], first: Array, later: Float[Array, " k"]) -> Array:
    return passes.smooth_states(transition, probs, first, later)


@one_thread
def _score(hmm: Any, law: Float[Array, " k"], before: Float[Array, " k"], data: Sequences) -> Float[Array, "t k"]:
    return passes.path_scores(law, hmm.transition, hmm._log_b(data), data.first, before)


@one_thread
def _trace(transition: Array, scores: Float[Array, "t k"], first: Array, later: Int[Array, ""]) -> Int[Array, " t"]:
    return passes.best_path(transition, scores, first, later)
