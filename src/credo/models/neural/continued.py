"""Training that goes on: more steps from where networks are, and rows that are read from disk as they are reached.

    belief = belief.condition(X, y, using=Further(2000))                           the networks it has, trained on
    belief = credo.Neural().condition(chunks("big.parquet", target="y"), using=Streamed(passes=5))

Both leave a belief that can be saved and gone on with: a long training is a loop over `Further` with a save in it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from credo.core.arrays import host
from credo.core.belief import warned
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.infer.method import Solver
from credo.infer.rows import RowSource
from credo.models.neural.belief import Neural, Rows
from credo.models.neural.methods import Training
from credo.models.neural.scaling import Scaling
from credo.models.neural.training import CHUNK, OPTIMIZERS, Trained, advance, exploded, schedules, train


@dataclass(frozen=True)
class Further(Training):
    """So many more steps of the networks that the belief has, on all rows seen, and new ones.

    Inputs stay scaled as they were; the step begins at its full size again, and what is climbed is the log joint.
    """

    steps: int = 1000

    def __post_init__(self) -> None:
        check_count(self.steps, "steps")

    def serves(self, subject: object, verb: str) -> bool:
        """`condition` of networks."""
        return verb == "condition" and isinstance(subject, Neural)

    def trained(self, belief: Neural, statistics: Rows) -> Neural:
        """The belief with its networks trained on."""
        scaling, members = belief.scaling, belief.members
        if members is None or scaling is None or belief.root is not None:
            raise DataError("there are no networks to go on with; condition on rows first, e.g. using=Ensemble(5)")
        seen, k = belief.all_rows(statistics), len(members)
        x, t = scaling.rows(seen.x, seen.y)
        settings = belief.settings._replace(steps=self.steps, start=np.asarray(members))
        own, precision = [np.arange(len(t))] * k, belief.precision * np.ones(k)
        found = train(belief.network(x.shape[1]), belief.law, x, t, own, precision, settings)
        said = changed(belief, steps=self.steps).complaints(found)
        return changed(belief, seen=seen, members=found.last, said=said)


@dataclass(frozen=True)
class Streamed(Solver):
    """Networks trained on chunks of rows, each read once a pass: for tables that do not fit in memory.

    Data are an iterable of (X, y), e.g. of `credo.core.chunks.chunks`, that can be gone through several times, its rows
    in random order. Inputs are scaled by the first chunk; no rows are kept.

    Args:
        members: networks, from different initial values, side by side.
        passes: over the rows.
    """

    needs: ClassVar[type] = Neural
    learns: ClassVar[bool] = False

    members: int = 5
    passes: int = 10

    def __post_init__(self) -> None:
        for name in ("members", "passes"):
            check_count(getattr(self, name), name)

    def condition(self, belief: Any, *data: object, **options: Any) -> Any:
        """The belief with networks trained on the chunks."""
        (chunks,) = data if len(data) == 1 else (None,)
        if not isinstance(chunks, Iterable) or hasattr(chunks, "shape") or iter(chunks) is chunks:
            raise DataError(
                "Streamed takes one iterable of (X, y) that can be gone through again, e.g. a list or "
                "credo.core.chunks.chunks(…); for arrays use Ensemble(m)"
            )
        return self._trained(belief, chunks)

    def conclude(self, belief: Any, statistics: Any, data: tuple[object, ...], options: Mapping[str, object]) -> Any:
        """Refused: rows that were read for `fit` are in memory."""
        raise DataError("Streamed conditions on chunks; call belief.condition(chunks, using=Streamed(…))")

    def serves(self, subject: object, verb: str) -> bool:
        """`condition` of networks."""
        return verb == "condition" and isinstance(subject, Neural)

    def _trained(self, belief: Neural, chunks: Iterable[Any]) -> Neural:
        read = _Checked(belief, chunks)
        n, first = 0, None
        for x, y in read:
            n, first = n + len(y), first or Rows(x, y)
        if first is None:
            raise DataError("there are no rows to learn from: the chunks are empty")
        belief = belief.sized(n)
        scaling = Scaling.of(first.x, first.y, belief.law.continuous, belief.own is not None)
        network, settings, k = belief.network(first.x.shape[1]), belief.settings, self.members
        batch, rng = min(belief.batch, n), np.random.default_rng(belief.seed)
        size = min(CHUNK, -(-n // batch)) * batch
        blocks = -(-n * self.passes // size)
        steps = blocks * (size // batch)
        rates, betas = schedules(settings, steps)
        theta = network.start(k, rng)
        state: Any = (theta, OPTIMIZERS[settings.optimizer].init(jnp.asarray(theta)))
        decay, clip = belief.precision * np.ones(k) / n, None if settings.clip is None else np.asarray(settings.clip)
        log_last: Any = np.zeros(())
        for b, block in enumerate(RowSource.of(read, n, self.passes).blocks(size, self.passes, rng)):
            x, t = scaling.inputs(block.columns[0]), scaling.outcomes(block.columns[1])
            order = np.stack([rng.permutation(size).reshape(-1, batch) for _ in range(k)], axis=1).astype(np.int32)
            part = slice(b * (size // batch), (b + 1) * (size // batch))
            pace = (rates[part], betas[part])
            state, log_last = advance(
                state, network, belief.law, x, t, order, None, decay, *pace, settings.optimizer, clip
            )
        last, log_last = host(state[0]), host(log_last)
        if not np.all(np.isfinite(log_last)):
            raise exploded()
        said = changed(belief, steps=steps).complaints(Trained(last, last, log_last, log_last, 1.0, steps))
        shares = np.full(k, 1 / k)
        after = changed(belief, seen=None, scaling=scaling, members=last, shares=shares, said=said, root=None)
        return warned(after)


class _Checked:
    """Chunks as checked arrays, each time that one goes through them."""

    def __init__(self, belief: Neural, chunks: Iterable[Any]):
        self.belief, self.chunks = belief, chunks

    def __iter__(self) -> Any:
        for chunk in self.chunks:
            if not isinstance(chunk, tuple | list) or len(chunk) != 2:
                raise DataError(f"a chunk must be a pair (X, y), found {type(chunk).__name__}")
            rows = self.belief.statistics(*chunk)
            yield np.asarray(rows.x), np.asarray(rows.y)
