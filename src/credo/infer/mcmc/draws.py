"""What Markov chains leave behind: `Draws` with their diagnostics, or pooled moments where draws would not fit."""

import inspect
from collections.abc import Sequence
from functools import reduce
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from credo.core.arrays import Array
from credo.core.linalg import cholesky
from credo.infer.diagnostics import Diagnostics, diagnose, in_words
from credo.infer.mcmc.adaptation import RunningMoments
from credo.infer.posterior import NormalApproximation, Posterior
from credo.infer.target import ParameterSpace


class Draws(Posterior):
    """Draws of the unconstrained vector from several chains."""

    space: ParameterSpace
    chains: Float[Array, "c n k"]
    acceptance: Float[Array, "c n"]
    divergent: Bool[Array, "c n"]
    energy: Float[Array, "c n"]
    at_depth: Bool[Array, "c n"]
    notes: tuple[str, ...] = eqx.field(static=True, default=())
    caution: str = eqx.field(static=True, default="")

    @classmethod
    def of(
        cls,
        space: ParameterSpace,
        vectors: Float[np.ndarray, "c n k"],
        info: Sequence[np.ndarray],
        notes: Sequence[str] = (),
        caution: str = "",
    ) -> "Draws":
        """From what was recorded, with a verdict."""
        said = (*notes, *in_words(diagnose(vectors, *info), space.names, *vectors.shape[:2]))
        acceptance, divergent, energy, at_depth = info
        return cls(space, vectors, acceptance, divergent, energy, at_depth, said, caution)

    @property
    def diagnostics(self) -> Diagnostics:
        """R-hat, effective draws, divergences and more."""
        recorded = (self.acceptance, self.divergent, self.energy, self.at_depth)
        return diagnose(np.asarray(self.chains), *(np.asarray(v) for v in recorded))

    def kept(self) -> Float[Array, "n k"]:
        """All draws, chain after chain."""
        return self.chains.reshape(-1, self.space.size)

    def vectors(self, n: int, rng: np.random.Generator) -> Float[Array, "n k"]:
        """n of the draws, each at most once where there are enough."""
        every = self.kept()
        return every[rng.choice(len(every), n, replace=n > len(every))]

    def to_arviz(self) -> Any:
        """As arviz's InferenceData (from arviz 1 on, xarray's DataTree), by path; needs credo[arviz]."""
        import arviz

        c, n, _ = self.chains.shape
        named = self.space.by_path(self.values)
        posterior = {path or "theta": np.asarray(v).reshape(c, n, *v.shape[1:]) for path, v in named.items()}
        names = ("acceptance_rate", "diverging", "energy", "reached_max_treedepth")
        recorded = (self.acceptance, self.divergent, self.energy, self.at_depth)
        groups = {"posterior": posterior, "sample_stats": dict(zip(names, map(np.asarray, recorded), strict=True))}
        # Arviz 0 takes a keyword for each group, arviz 1 a dict of them.
        by_keyword = "sample_stats" in inspect.signature(arviz.from_dict).parameters
        return arviz.from_dict(**groups) if by_keyword else arviz.from_dict(groups)


def pooled(space: ParameterSpace, parts: Sequence[RunningMoments], notes: Sequence[str] = ()) -> NormalApproximation:
    """The normal law with the pooled moments of chains whose draws were not kept."""
    every = reduce(RunningMoments.merge, parts)
    root = cholesky(every.scatter / every.number, "the covariance of the draws")
    return NormalApproximation(space, every.mean, root, np.asarray(np.nan), tuple(notes))
