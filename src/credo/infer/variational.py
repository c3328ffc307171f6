"""`Variational`: the normal law that is nearest to the posterior, by an optimization instead of a simulation.

    reverse   max_q ELBO(q) = E_q[log p(u)] + H[q] = log p(data) - KL(q ‖ p)      a bound on the evidence; too narrow
    forward   min_q KL(p ‖ q): the mean and covariance of the posterior           wide enough; needs good weights

Reverse: the expectation is a mean over a fixed set of draws u = m + Az (the reparametrization trick), which makes the
ELBO a smooth function that L-BFGS climbs with no step size to choose. The draws are quasi-random, antithetic and
whitened, so that normal targets come out exactly. What the choice of draws did is seen with fresh ones: where the
optimum would move by more than `tolerance` standard deviations, there are twice as many in the next round.
Giordano, Ingram & Broderick (2024), "Black box variational inference with a deterministic objective", JMLR 25.

Forward: moments of the posterior by smoothed importance weights from the current law, which then becomes the next.
"""

import dataclasses
from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.errors import DataError, NotConverged
from credo.core.linalg import cholesky, solve_lower
from credo.infer.importance_sampling import check_by_psis, log_densities, pareto_smooth, scores, sobol_points, students
from credo.infer.method import Approximation, RowApproximation
from credo.infer.minibatch import Minibatches, climb_by_rows
from credo.infer.normal_families import (
    Family,
    Standardization,
    check_family,
    factor_analysis,
    standardizations,
)
from credo.infer.optimize import maximize
from credo.infer.posterior import NormalApproximation
from credo.infer.quasi_random import normals
from credo.infer.rows import RowDensity, RowSource
from credo.infer.target import Constraints, ParameterSpace, Target

Guesses = list[Standardization]

SHRINK = 0.5
"""By how much a first guess is narrowed while the density is not finite at its draws."""
FREE, LOG_FREE, EDGES = 1e3, 7.0, 3
"""How far a climb may go in its frame, deviations by factors e^±7; a law that widens so three times has no end."""
ROUNDS = 30
"""The most rounds of moment matching."""


@dataclasses.dataclass(frozen=True)
class Variational(Approximation, RowApproximation):
    """The nearest normal law of the unconstrained vector.

    Args:
        family: "fullrank" has any covariance; "meanfield" a diagonal one; "lowrank" a diagonal and `rank` factors.
        rank: of "lowrank".
        direction: "reverse" maximizes the ELBO; "forward" matches the mean and covariance of the posterior.
        draws: of the first round, at least twice as many as there are numbers where correlations are learned.
        max_draws: of the last one.
        tolerance: the Monte Carlo error of means and deviations that is sought, in posterior standard deviations.
        max_steps: of each climb.
        batch: rows of a minibatch, for `run_rows`.
        passes: the most passes over the rows, for `run_rows`.
    """

    family: str = "fullrank"
    rank: int = 5
    direction: str = "reverse"
    draws: int = 256
    max_draws: int = 16384
    tolerance: float | int = 0.01
    max_steps: int = 500
    batch: int = 512
    passes: int = 200

    def run(self, target: Target, seed: int = 0) -> NormalApproximation:
        """The approximation of a target; its `log_evidence` is the ELBO (forward: the mean importance weight)."""
        guesses = standardizations(target, target.check(), self.max_steps)
        climb = self._forward if self.direction == "forward" else self._reverse
        found = climb(target, guesses, seed)
        return dataclasses.replace(found, notes=(*found.notes, *check_by_psis(found, target, seed=seed)))

    def run_rows(
        self,
        log_prior: Callable[..., Array],
        log_likelihood: Callable[..., Array],
        init: object,
        data: object,
        constraints: Constraints | None = None,
        seed: int = 0,
    ) -> NormalApproximation:
        """The approximation (reverse) where the density is a prior and a sum over many rows, by minibatches.

        `log_prior(θ)` is a number, `log_likelihood(θ, *rows)` one for each row; `data` is an array, or several of the
        same length, in memory or mapped from a file. See `credo.infer.minibatch`.
        """
        return self.run_density(RowDensity(ParameterSpace.of(init, constraints), log_prior, log_likelihood), data, seed)

    def run_density(self, density: RowDensity, data: object, seed: int = 0) -> NormalApproximation:
        """`run_rows` of a density."""
        if self.direction != "reverse":
            raise DataError("run_rows climbs the ELBO; for direction='forward' use run with all rows in the target")
        source = RowSource.of(tuple(data) if isinstance(data, list) else data)
        rows = Minibatches.of(density, source, self.batch)
        rng = np.random.default_rng(seed)
        part = rows.part(rng)
        family = self._family(part.space.size)
        frame, free = self._begin(part, family, standardizations(part, part.check(), self.max_steps), seed)
        free, elbo, notes = climb_by_rows(rows, family, frame, free, self.passes, rng)
        return _approximation(part.space, family, frame, free, elbo, notes)

    # -- reverse --------------------------------------------------------------------------------------------

    def _reverse(self, target: Target, guesses: Guesses, seed: int) -> NormalApproximation:
        k = target.space.size
        family = self._family(k)
        frame, free = self._begin(target, family, guesses, seed)
        n, notes, at_edge = self._first(family, k), [], 0
        for attempt in range(64):
            z = normals(n, family.noises(k), [seed, 2 * attempt])
            objective = partial(_elbo, target, family, frame, z)
            low, high = free - FREE, free + FREE
            low[k : 2 * k], high[k : 2 * k] = -LOG_FREE, LOG_FREE
            free = maximize(objective, [free], low, high, self.max_steps, 0.1 * self.tolerance, 1e-10)[0].vector
            at_edge += bool(np.any(free[k : 2 * k] > 0.99 * LOG_FREE))
            frame, free = family.restandardize(frame, free)
            fresh = normals(n, family.noises(k), [seed, 2 * attempt + 1])
            elbo, slope = _elbo(target, family, frame, fresh, free)
            # In its frame the ELBO has a curvature of one or two: the slope is how far the optimum would move.
            move = float(np.abs(slope[: 2 * k]).max()) if np.isfinite(elbo) else np.inf
            if move < self.tolerance:
                break
            if at_edge == EDGES or 2 * n > self.max_draws:
                i = int(np.abs(slope[: 2 * k]).argmax()) % k
                notes.append(self._trouble(target.space.names[i] or "θ", move, at_edge == EDGES))
                break
            n *= 2
        return _approximation(target.space, family, frame, free, elbo, notes)

    def _trouble(self, name: str, move: float, endless: bool) -> str:
        if endless:
            return (
                f"The law of {name} widens without end: neither the data nor the prior determine it. Give it a prior."
            )
        if not np.isfinite(move):
            return "The log density is not finite at some draws of the law: declare constraints, or give a prior."
        return (
            f"The ELBO is noisy: with other draws the law of {name} would move by {move:.2g} standard deviations "
            f"(tolerance {self.tolerance}). Raise max_draws, or use NUTS()."
        )

    def _begin(self, target: Target, family: Family, guesses: Guesses, seed: int) -> tuple[Standardization, np.ndarray]:
        """The guess with the highest ELBO, narrowed until that is finite."""
        k = target.space.size
        z = normals(self._first(family, k), family.noises(k), [seed, 0])
        found: list[tuple[float, Standardization]] = []
        for frame in guesses:
            for _ in range(20):
                elbo = _elbo(target, family, frame, z, family.begin(frame))[0]
                if np.isfinite(elbo):
                    found.append((elbo, frame))
                    break
                frame = Standardization(frame.center, SHRINK * frame.root, SHRINK * frame.scale)
        if not found:
            raise NotConverged(
                "the log density is not finite around its mode: no normal law fits; declare the constraints of the "
                "numbers, or use NUTS()"
            )
        best = max(found, key=lambda pair: pair[0])[1]
        return best, family.begin(best)

    def _first(self, family: Family, k: int) -> int:
        """Draws of the first round: a power of two; with fewer than numbers, the fitted covariance would collapse."""
        least = self.draws if family.kind == "meanfield" else max(self.draws, 4 * family.noises(k))
        return int(2 ** np.ceil(np.log2(least)))

    def _family(self, k: int) -> Family:
        return Family(self.family, min(int(self.rank), k) if self.family == "lowrank" else 0)

    # -- forward --------------------------------------------------------------------------------------------

    def _forward(self, target: Target, guesses: Guesses, seed: int) -> NormalApproximation:
        """Moments by importance weights, from Student's t around the current law: its tails must be the wider ones."""
        k = target.space.size
        frame, _ = self._begin(target, Family("fullrank"), guesses, seed)
        center, root = frame.center, frame.root
        n, notes = max(self._first(Family("fullrank"), k), 1024), []
        for attempt in range(ROUNDS):
            z, log_q = students(sobol_points(n, k, [seed, attempt]))
            u = center + z @ root.T
            log_weights, _, evidence = pareto_smooth(log_densities(target, u) - log_q + np.log(np.diagonal(root)).sum())
            weights = np.exp(log_weights)
            ess = 1.0 / np.sum(weights**2)
            mean = weights @ u
            covariance = (weights[:, None] * (u - mean)).T @ (u - mean)
            trust = ess / (ess + 5 * k)  # few effective draws know little of a covariance
            new = center + trust * (mean - center)
            root_new = cholesky((1 - trust) * root @ root.T + trust * covariance, "the covariance")
            move = _distance(root, new - center, root_new)
            center, root = new, root_new
            if move < max(float(self.tolerance), 3.0 / np.sqrt(ess)):
                if ess > self.tolerance**-2 or 2 * n > self.max_draws:
                    break
                n *= 2
        else:
            notes.append(
                f"The moments still moved by {move:.2g} standard deviations after {ROUNDS} rounds: use NUTS()."
            )
        return NormalApproximation(target.space, center, self._project(root), np.asarray(evidence), tuple(notes))

    def _project(self, root: Float[Array, "k k"]) -> Float[Array, "k k"]:
        """The factor of the covariance in the family that is nearest by the forward divergence."""
        if self.family == "fullrank":
            return root
        covariance = root @ root.T
        if self.family == "meanfield":
            return np.diag(np.sqrt(np.diagonal(covariance)))
        return cholesky(factor_analysis(covariance, min(int(self.rank), len(root))), "the fitted covariance")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_family(self.family, self.rank)
        if self.direction not in ("reverse", "forward"):
            raise DataError(f"direction must be 'reverse' or 'forward', found {self.direction!r}")
        if not self.tolerance > 0:
            raise DataError(f"tolerance must be a number above 0, found {self.tolerance!r}")


def _elbo(
    target: Target, family: Family, frame: Standardization, z: Float[np.ndarray, "n q"], free: Float[Array, " p"]
) -> tuple[float, Float[np.ndarray, " p"]]:
    """The ELBO over a fixed set of draws, and its gradient by a family's free numbers."""
    center, matrix, entropy = family.law(frame, free)
    with np.errstate(over="ignore", invalid="ignore"):
        values, slopes = scores(target, center + z @ matrix.T)
    if not (np.all(np.isfinite(values)) and np.all(np.isfinite(slopes))):
        return -np.inf, np.zeros_like(free)
    gradient = family.elbo_gradient(frame, free, slopes.mean(0), slopes.T @ z / len(z))
    return float(values.mean() + entropy), np.asarray(gradient)


def _approximation(
    space: ParameterSpace, family: Family, frame: Standardization, free: np.ndarray, elbo: float, notes: list[str]
) -> NormalApproximation:
    center, matrix, _ = family.law(frame, free)
    return NormalApproximation(space, center, family.root(matrix), np.asarray(elbo), tuple(notes))


def _distance(root: Array, shift: Array, other: Array) -> float:
    """How far a law moved: the largest change of a mean in standard deviations, or of a log deviation."""
    by_mean = np.abs(solve_lower(root, shift)).max()
    deviations = [np.sqrt((r**2).sum(1)) for r in (root, other)]
    return float(max(by_mean, np.abs(np.log(deviations[1] / deviations[0])).max()))
