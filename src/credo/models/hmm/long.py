"""Long sequences on all cores: the passes of an HMM in parts that run side by side (`core.parts`).

Each part reads its rows, computes their likelihoods and writes its share of the answer, so that nothing as long as the
data is held twice.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credo.core.arrays import aligned, put
from credo.core.modules import changed
from credo.core.parts import WARM_UP, cut, follow
from credo.models.hmm import passes
from credo.models.sequences import Sequences


def filtered(hmm: Any, data: Sequences) -> tuple[Float[np.ndarray, "t k"], Float[np.ndarray, " t"]]:
    """p(zₜ | x₁…xₜ) and log p(xₜ | x₁…xₜ₋₁)."""
    t, law = len(data.first), hmm._law(data)
    probs, increments = aligned((t, law.shape[0])), aligned((t,))

    def run(before: Array, part: slice) -> tuple[Array, None]:
        found = _filter(hmm, law, before, _rows(data, part))
        probs[part], increments[part] = np.asarray(found.probs), np.asarray(found.increments)
        return found.probs[-1], None

    def warm(part: slice) -> Array:
        return _filter(hmm, law, law, _rows(data, _before(part))).probs[-1]

    follow(run, law, cut(t), warm, passes.RELATIVE)
    return probs, increments


def smoothed(hmm: Any, data: Sequences) -> Float[np.ndarray, "t k"]:
    """p(zₜ | x₁…x_T); the filter's answer is overwritten by the smoother's."""
    probs, _ = filtered(hmm, data)
    first = np.asarray(data.first)

    def run(later: Array, part: slice) -> tuple[Array, None]:
        gamma = _smooth(hmm.transition, put(probs[part]), _first_and_next(first, part), later)
        origin = gamma[0]
        out[part] = np.asarray(gamma)
        return origin, None

    def warm(part: slice) -> Array:
        ahead = slice(part.stop, part.stop + WARM_UP)
        return _smooth(hmm.transition, put(probs[ahead]), _first_and_next(first, ahead), put(probs[ahead.stop - 1]))[0]

    out = aligned(probs.shape)
    follow(run, put(probs[-1]), cut(len(first))[::-1], warm, passes.RELATIVE)
    return out


def best(hmm: Any, data: Sequences) -> Int[np.ndarray, " t"]:
    """The most probable path."""
    t, law, first = len(data.first), hmm._law(data), np.asarray(data.first)
    scores, path = aligned((t, law.shape[0])), np.empty(t, np.int32)

    def forth(before: Array, part: slice) -> tuple[Array, None]:
        found = _score(hmm, law, before, _rows(data, part))
        scores[part] = np.asarray(found)
        return found[-1], None

    def warm_forth(part: slice) -> Array:
        return _score(hmm, law, jnp.zeros_like(law), _rows(data, _before(part)))[-1]

    def back(later: Array, part: slice) -> tuple[Array, None]:
        found = _trace(hmm.transition, put(scores[part]), _first_and_next(first, part), later)
        path[part] = np.asarray(found)
        return found[0], None

    def warm_back(part: slice) -> Array:
        ahead = slice(part.stop, part.stop + WARM_UP)
        end = put(np.asarray(np.argmax(scores[ahead.stop - 1]), np.int32))
        return _trace(hmm.transition, put(scores[ahead]), _first_and_next(first, ahead), end)[0]

    parts = cut(t)
    follow(forth, jnp.log(law), parts, warm_forth)
    follow(back, put(np.zeros((), np.int32)), parts[::-1], warm_back)
    return path


def _rows(data: Sequences, part: slice) -> Sequences:
    """Some rows of the data, as views."""
    x, seen, first, real = (put(np.asarray(a)[part]) for a in (data.x, data.seen, data.first, data.real))
    driven = None if data.inputs is None else put(np.asarray(data.inputs)[part])
    return changed(data, x=x, seen=seen, first=first, real=real, inputs=driven, origin=None)


def _before(part: slice) -> slice:
    return slice(part.start - WARM_UP, part.start)


def _first_and_next(first: np.ndarray, part: slice) -> Array:
    """Where sequences begin among the rows of a part and the one that follows it; nothing follows the last."""
    return put(np.append(first[part], first[part.stop] if part.stop < len(first) else True))


@eqx.filter_jit
def _filter(hmm: Any, law: Float[Array, " k"], before: Float[Array, " k"], data: Sequences) -> passes.Filtered:
    return passes.filter_states(law, hmm.transition, hmm._log_b(data), data.first, before)


@eqx.filter_jit
def _smooth(transition: Array, probs: Float[Array, "t k"], first: Array, later: Float[Array, " k"]) -> Array:
    return passes.smooth_states(transition, probs, first, later)


@eqx.filter_jit
def _score(hmm: Any, law: Float[Array, " k"], before: Float[Array, " k"], data: Sequences) -> Float[Array, "t k"]:
    return passes.path_scores(law, hmm.transition, hmm._log_b(data), data.first, before)


@eqx.filter_jit
def _trace(transition: Array, scores: Float[Array, "t k"], first: Array, later: Int[Array, ""]) -> Int[Array, " t"]:
    return passes.best_path(transition, scores, first, later)
