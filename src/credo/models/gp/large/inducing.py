"""`Inducing`: a Gaussian process that sees data through its values at m points U.

    a(x) = L⁻¹ k(U, x),  LLᵀ = k(U, U):    q(x, z) = k(x, U) k(U, U)⁻¹ k(U, z)

| kind | rows | prediction | evidence |
| --- | --- | --- | --- |
| "sor" (subset of regressors) | q + noise | q: too sure far from U | of these rows |
| "dtc" (deterministic training conditional) | q + noise | k | of these rows |
| "fitc" (fully independent training conditional) | q + diag(k - q) + noise | k | of these rows |
| "vfe" (variational free energy) | q + noise | k | a lower bound of the exact one |

Quiñonero-Candela & Rasmussen (2005); Titsias (2009); `low_rank.py` has the formulas. Points are rows of the data: at
random, the nearest to the centers of k-means, or greedily those that are least determined by the ones before, which is
Cholesky with pivots: Burt, Rasmussen & van der Wilk (2020), "Convergence of sparse variational inference in Gaussian
processes regression". "learned" points are moved from there, with the hyperparameters, up the evidence or its bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array, host, is_traced
from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.linalg import demand, factorize, solve, solve_lower, solve_upper
from credo.core.params import real
from credo.core.pytrees import changed
from credo.infer.learning import Learned
from credo.infer.optimize import CONVERGED, STOPPED
from credo.kernels import InputScales, Kernel
from credo.models.gp import exact
from credo.models.gp.belief import GP
from credo.models.gp.data import Rows
from credo.models.gp.evidence import Priors
from credo.models.gp.large.base import LargeGP, LargeMethod, check_one_of
from credo.models.gp.large.latent import InducingLatentGP, ThroughPoints, learn_latent
from credo.models.gp.large.latent_classes import InducingLatentClasses, learn_classes
from credo.models.gp.large.low_rank import LowRankGP
from credo.models.gp.latent import LatentGP
from credo.models.gp.latent_base import BehindLikelihood
from credo.models.gp.latent_classes import LatentClasses

KINDS, SELECTIONS = ("sor", "dtc", "fitc", "vfe"), ("greedy", "kmeans", "random", "learned")

CANDIDATES = 10_000
"""Of so many random rows points are chosen; more hardly change them."""
DETERMINED = 1e-10
"""A row whose variance given the points is this share of its own says nothing new."""
PLATEAU = 1e-4
"""A climb ends with a step that gains less than this share of the height: what follows is a ridge towards endless
lengthscales and amplitudes (kin40k: 0.003 nats a row in 30 steps, none of it on other rows)."""


class Whitened(NamedTuple):
    """a(x) = L⁻¹ k(U, x)."""

    kernel: Kernel
    points: Float[Array, "m d"]
    root: Float[Array, "m m"]

    @property
    def width(self) -> int:
        """m."""
        return len(self.points)

    def at(self, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """The features of rows."""
        return solve_lower(self.root, self.kernel.between(x, self.points).T).T


class InducingGP(LowRankGP):
    """A Gaussian process that sees data through m points."""

    points: Any = None
    """U, chosen from the first rows that it is conditioned on; or given."""

    def __init__(self, gp: GP, method: "Inducing", points: object = None):
        super().__init__(gp, method)
        self.points = None if points is None else host(gp.kernel.encode(points, "points"))

    @property
    def places(self) -> Float[Array, "m d"]:
        """Where the points are."""
        return self.points

    @property
    def leftover(self) -> str:
        """What k - q is."""
        return {"fitc": "noise", "vfe": "bound"}.get(self.method.kind, "nothing")

    @property
    def residual(self) -> bool:
        """All but "sor" know that they know little far from the points."""
        return self.method.kind != "sor"

    def frame(self) -> Whitened:
        """The factor of k(U, U)."""
        kernel, points = self.prior.kernel, self.places
        factor = factorize(kernel.between(points, points))
        return Whitened(kernel, points, demand(factor.root, factor.ok, exact.NOT_DEFINITE))

    def placed(self, rows: Rows) -> "InducingGP":
        """With points chosen from the rows, where it has none."""
        if self.points is not None:
            return self
        if is_traced(self, rows):
            raise DataError("inducing points are chosen from known rows; condition outside jit, or give points")
        return changed(self, points=self.method.choose(self.prior.kernel, rows.cut()[0]))

    def sample_functions(self, n: int = 1, *, features: int = 2048, seed: int = 0, columns: int | None = None) -> Any:
        """n draws as functions: f₀ + k(·, U) k(U, U)⁻¹ (u - f₀(U)) with u drawn from the posterior at U.

        f₀ is drawn from the prior (`gp.sampling`); of "sor" it is zero.
        """
        from credo.models.gp.sampling import Functions, _prior_values, sample_functions

        drawn: Functions = sample_functions(self.as_gp(), n, features=features, seed=seed, columns=columns or self._d())
        if self.solved is None:
            return drawn
        frame = self.frame()
        u = self.draw_weights(n, int(jr.randint(jr.key(seed), (), 0, 2**31 - 1))) @ frame.root.T
        if self.residual:
            known = np.asarray(_prior_values(self.prior.mean, drawn.bases, drawn.weights, jnp.asarray(self.points)))
            u = u - (known.T - np.asarray(self.prior.mean.at(self.points)))
        else:
            drawn = changed(drawn, weights=tuple(0.0 * w for w in drawn.weights))
        return changed(drawn, x=self.points, coefficients=solve(frame.root, u.T).T)

    def _d(self) -> int | None:
        return None if self.points is None else self.points.shape[1]

    # -- the gradient ----------------------------------------------------------------------------------------

    def table(self, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """k(x, U)."""
        return self.prior.kernel.gram(x, jnp.asarray(self.places))

    def pull_features(self, frame: Whitened, by_a: np.ndarray) -> np.ndarray:
        """L⁻ᵀ ∂/∂a."""
        return np.asarray(solve_upper(frame.root, by_a.T)).T

    def shared(self) -> Float[Array, "m m"]:
        """k(U, U)."""
        points = jnp.asarray(self.places)
        return self.prior.kernel.gram(points, points)

    def pull_shared(self, frame: Whitened, outer: np.ndarray) -> np.ndarray:
        """-½ L⁻ᵀ M L⁻¹, with M = Σ (∂/∂aᵢ) aᵢᵀ, which is symmetric: turned features are as good."""
        half = solve_upper(frame.root, outer)
        return -0.5 * np.asarray(solve_upper(frame.root, half.T)).T


class MovingInducingGP(InducingGP):
    """An `InducingGP` while its points are learned: by how much they move, in standard deviations of each input."""

    spread: Any = None
    shift: Any = real(0.0)

    def __init__(self, belief: InducingGP, x: Float[np.ndarray, "n d"]):
        super().__init__(belief.as_gp(), belief.method)
        deviation = x.std(0)
        self.points, self.inputs = belief.points, belief.inputs
        self.spread, self.shift = np.where(deviation > 0, deviation, 1.0), np.zeros(belief.points.shape)

    @property
    def places(self) -> Float[Array, "m d"]:
        """Where the points are now."""
        return self.points + self.spread * self.shift

    def settled(self) -> InducingGP:
        """With the points where they are."""
        return changed(InducingGP(self.as_gp(), self.method, np.asarray(self.places)), inputs=self.inputs)


@dataclass(frozen=True)
class Inducing(LargeMethod):
    """A `GP` through m inducing points: O(nm²) work, O(m²) memory beside the rows.

        gp.condition(X, y, using=Inducing(200))         credo.fit(gp, X, y, using=Inducing(200))

    The result is an `InducingGP`. More rows are added to it without looking at the first ones again, with the points
    that it has.
    """

    m: int = 300
    kind: str = "vfe"
    """"sor", "dtc", "fitc" or "vfe"."""
    select: str = "greedy"
    """"greedy", "kmeans", "random" or "learned": by `fit` moved from where "greedy" has them."""
    rounds: int = 2
    """How often `fit` chooses the points, each time with what it has learned."""
    max_steps: int = 100
    seed: int = 0
    """Of the choice of points."""

    needs: ClassVar[tuple[type, ...]] = (GP, LargeGP, LatentGP, LatentClasses)
    belief: ClassVar[type] = InducingGP

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m, "m")
        check_count(self.rounds, "rounds")
        check_one_of(self.kind, "kind", KINDS)
        check_one_of(self.select, "select", SELECTIONS)

    def choose(self, kernel: Kernel, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m d"]:
        """m rows, or fewer where the others are determined by them."""
        generator = np.random.default_rng(self.seed)
        rows = np.unique(x[generator.permutation(len(x))[:CANDIDATES]], axis=0)
        rows = rows[generator.permutation(len(rows))]
        if self.select == "kmeans" and len(rows) > self.m:
            rows = rows[_nearest_centers(rows, self.m, self.seed)]
        return rows[pivots(kernel, rows, self.m, self.select in ("greedy", "learned"))]

    def adapt(self, belief: Any, statistics: Rows) -> tuple[Any, Rows]:
        """The belief in this form; behind a likelihood it is an approximation on the features of the points."""
        if not isinstance(belief, BehindLikelihood):
            return super().adapt(belief, statistics)
        if isinstance(belief, ThroughPoints) and (belief.seen is None or belief.form == self):
            return changed(belief, form=self), statistics
        form: Any = InducingLatentClasses if isinstance(belief, LatentClasses) else InducingLatentGP
        own = form(belief.unconditioned(), self)
        return (own if belief.seen is None else own.condition_on(belief.seen)), statistics

    def learn(self, belief: Any, statistics: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief at the highest evidence (or bound) × prior found."""
        if isinstance(belief, InducingLatentGP):
            return learn_latent(belief, statistics, fixed, priors, seed)
        if isinstance(belief, InducingLatentClasses):
            return learn_classes(belief, statistics, fixed, priors, seed)
        belief = self.start(belief, statistics, fixed, priors, seed)
        given = belief.points is not None
        learned = None
        for _ in range(1 if given else self.rounds):
            own = belief if given else changed(belief, points=None).placed(statistics)
            found = self.climb(own, statistics, fixed, priors, seed, max_steps=self.max_steps, gain=PLATEAU)
            if learned is not None and found.log_evidence <= learned.log_evidence:
                break  # with smooth functions points of a later round may be worse, and so would those after them
            learned, belief = found, found.belief
        assert learned is not None  # there is a round
        if self.select == "learned" and not given:
            learned = self.moved(belief, statistics, fixed, priors, seed)
            belief = learned.belief
        m, how = len(belief.points), "given" if given else f"chosen by {self.select}"
        what = "a lower bound of the log evidence" if self.kind == "vfe" else f"the evidence of {self.kind.upper()}"
        return learned._replace(notes=[*learned.notes, f"{what}, with {m} inducing points, {how}"])

    def moved(self, belief: InducingGP, rows: Rows, fixed: Sequence[str], priors: Priors, seed: int) -> Learned:
        """The belief with points and hyperparameters uphill from where they are."""
        moving = MovingInducingGP(host(belief), rows.cut()[0])
        found = self.climb(moving, rows, fixed, priors, seed, max_steps=self.max_steps, gain=PLATEAU)
        if found.status == STOPPED:  # wherever points are, the bound is one, and above that of the first ones
            note = f"points were still moving after {self.max_steps} steps; max_steps says how many they may take"
            found = found._replace(status=CONVERGED, notes=[*found.notes, note])
        optima = [o._replace(values={k: v for k, v in o.values.items() if k != "shift"}) for o in found.optima]
        return found._replace(belief=host(found.belief).settled(), optima=optima)


def pivots(kernel: Kernel, x: Float[np.ndarray, "n d"], m: int, greedy: bool = True) -> np.ndarray:
    """The first m pivots of the Cholesky factorization of k(X, X): the largest, or in the order of the rows.

    Rows that are determined by the pivots before them are no pivots. O(nm²).
    """
    left = np.array(kernel.variance_at(x), dtype=float)
    enough = DETERMINED * left
    n = len(x)
    columns, chosen = np.empty((min(m, n), n)), list[int]()
    for _ in range(min(m, n)):
        free = left > enough
        if not free.any():
            break
        i = int(np.argmax(left)) if greedy else int(np.argmax(free))
        j = len(chosen)
        column = np.asarray(kernel.between(x, x[i : i + 1]))[:, 0] - columns[:j, i] @ columns[:j]
        columns[j] = column / np.sqrt(left[i])
        left -= columns[j] ** 2
        left[i] = 0.0
        chosen.append(i)
    return np.asarray(chosen)


def _nearest_centers(x: Float[np.ndarray, "n d"], m: int, seed: int) -> np.ndarray:
    """The rows that are nearest to m centers of k-means of the standardized inputs."""
    from scipy.spatial import cKDTree
    from sklearn.cluster import MiniBatchKMeans

    scales = InputScales.of(x, 1.0)
    z = (x - scales.center) / scales.spread
    centers = MiniBatchKMeans(m, n_init=1, random_state=seed, batch_size=4096).fit(z).cluster_centers_
    return np.unique(cKDTree(z).query(centers)[1])
