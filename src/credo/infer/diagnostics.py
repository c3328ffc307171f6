"""Whether Markov chains can be trusted: numbers, and what they mean in words.

    R̂            split and rank-normalized; 1 where the chains agree with each other and with themselves
    ESS          how many independent draws the chains are worth, in the bulk and in the tails
    divergences  trajectories that left the typical set: there the posterior is not explored
    BFMI         how well the momentum of HMC moves between energies; low where tails are heavy

Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and localization".
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from credo.infer.effective import rank_statistics

LARGEST_RHAT = 1.01
LEAST_ESS_PER_CHAIN = 100
LEAST_BFMI = 0.3
MOST_AT_DEPTH = 0.05


class Diagnostics(NamedTuple):
    """What the chains say about themselves; arrays have one number for each coordinate of the unconstrained vector."""

    rhat: Float[np.ndarray, " k"]
    ess_bulk: Float[np.ndarray, " k"]
    ess_tail: Float[np.ndarray, " k"]
    acceptance: float
    """The mean acceptance probability."""
    divergences: int
    bfmi: float
    """The lowest of the chains; NaN for methods without an energy."""
    at_depth: float
    """The share of trajectories that were cut at the largest depth."""


def diagnose(
    chains: Float[np.ndarray, "c n k"],
    acceptance: Float[np.ndarray, "c n"],
    divergent: Bool[np.ndarray, "c n"],
    energy: Float[np.ndarray, "c n"],
    at_depth: Bool[np.ndarray, "c n"],
) -> Diagnostics:
    """The diagnostics of chains, with what was recorded at each draw."""
    k = chains.shape[2]
    if chains.shape[1] < 4:
        nothing = np.full(k, np.nan)
        rhat, bulk, tail = nothing, nothing, nothing
    else:
        rhat, bulk, tail = rank_statistics(chains)
    still = np.ptp(chains.reshape(-1, k), axis=0) == 0  # a coordinate that never moved tells nothing
    rhat = np.where(still, np.nan, rhat)
    return Diagnostics(
        rhat=rhat,
        ess_bulk=np.where(still, np.nan, bulk),
        ess_tail=np.where(still, np.nan, tail),
        acceptance=float(acceptance.mean()),
        divergences=int(divergent.sum()),
        bfmi=_bfmi(energy),
        at_depth=float(at_depth.mean()),
    )


def _bfmi(energy: Float[np.ndarray, "c n"]) -> float:
    """The least over chains of E[(Eₜ - Eₜ₋₁)²] / Var[E].

    Betancourt (2016), "Diagnosing suboptimal cotangent disintegrations with the energy distribution".
    """
    if energy.shape[1] < 4 or not np.all(np.isfinite(energy)):
        return float("nan")
    spread = energy.var(1)
    return float(np.min(np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.where(spread > 0, spread, np.inf)))


def in_words(found: Diagnostics, names: Sequence[str], chains: int, draws: int) -> list[str]:
    """What there is to say against the chains; nothing where all is well."""
    notes = []
    worst = int(np.nanargmax(found.rhat)) if np.any(np.isfinite(found.rhat)) else -1
    if worst >= 0 and found.rhat[worst] > LARGEST_RHAT and chains > 1:
        notes.append(
            f"The chains disagree about {names[worst]} (R-hat {found.rhat[worst]:.3f}, not below {LARGEST_RHAT}): "
            "run them longer, or look for several modes."
        )
    least = np.fmin(found.ess_bulk, found.ess_tail)
    if np.any(np.isfinite(least)):
        i = int(np.nanargmin(least))
        if least[i] < LEAST_ESS_PER_CHAIN * chains:
            notes.append(
                f"{names[i]} has only {least[i]:.0f} effective draws; {LEAST_ESS_PER_CHAIN * chains} are needed for "
                "stable quantiles: raise draws."
            )
    if np.any(np.isnan(found.rhat)) and draws >= 4:
        still = [name for name, r in zip(names, found.rhat, strict=True) if np.isnan(r)]
        notes.append(f"{', '.join(still[:3])} never moved: no proposal was accepted.")
    if found.divergences:
        notes.append(
            f"{found.divergences} of {chains * draws} trajectories diverged: part of the posterior was not explored. "
            "Raise target_acceptance (e.g. 0.95), or reparametrize (non-centered hierarchies)."
        )
    if np.isfinite(found.bfmi) and found.bfmi < LEAST_BFMI:
        notes.append(f"The energy mixes slowly (BFMI {found.bfmi:.2f}): heavy tails; reparametrize.")
    if found.at_depth > MOST_AT_DEPTH:
        notes.append(
            f"{found.at_depth:.0%} of the trajectories were cut at the largest depth: raise max_depth, or rescale."
        )
    return notes
