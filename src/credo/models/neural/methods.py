"""What `Neural` takes as `using=` beside the methods of `credo.infer`: stacking, ensembles, dropout, a last layer."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from credo.core.checks import check_count, check_real
from credo.core.errors import DataError
from credo.core.params import replace
from credo.core.pytrees import changed
from credo.infer.averaging import stacking_weights
from credo.infer.learning import Learned
from credo.infer.method import Learner, Solver
from credo.infer.optimize import CONVERGED
from credo.infer.priors import Priors
from credo.models.neural.around import around_one
from credo.models.neural.belief import Neural, Rows
from credo.models.neural.network import Network
from credo.models.neural.training import MANY, train

DECAYS = (0.01, 0.1, 1.0, 5.0, 25.0)
"""Precisions of the weights."""
FLOORS = (0.0, 0.5)
"""Where β ends. Both ranges were set on simulated tables and airfoil, autompg, servo, stock and diabetes."""
HELD_OUT = 10
"""Of many rows one in so many judges."""


@dataclass(frozen=True)
class Stacked(Learner):
    """Folds times candidates, all trained at once, and weighed by how well they predict rows that they have not seen.

    A candidate is a decay and where β of the loss ends (0: the log joint; ½: the mean is learned more evenly), at the
    end of training or where its held-out rows were most probable; its networks, one for each fold, share its weight.
    argmax_w Σᵢ log Σ_c w_c p_c(yᵢ | other folds): choosing one decay is worse. Yao et al. (2018). Rows with the same
    inputs are in the same fold. Where rows are many, a tenth of them judges networks that learn from the others.
    """

    integrates: ClassVar[bool] = True
    needs: ClassVar[type] = Neural

    folds: int = 5
    decays: tuple[float, ...] = DECAYS
    floors: tuple[float, ...] = FLOORS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.folds, "folds", 2)
        for name, least, most in (("decays", 0.0, np.inf), ("floors", 0.0, 1.0)):
            if not getattr(self, name):
                raise DataError(f"{name} must hold at least one number, found none")
            for value in getattr(self, name):
                check_real(value, name, least, most)

    def learn(self, belief: Any, statistics: Any, fixed: Any, priors: Priors, seed: int) -> Learned:
        """The stacked networks; the precision shown is that of the heaviest candidate."""
        if priors:
            raise DataError("Stacked weighs decays by rows that are left out; it takes no priors=")
        seen = belief.all_rows(statistics)
        belief, (scaling, x, t) = belief.sized(len(seen.y)), belief.scaled(seen)
        n = x.shape[0]
        if n < 2:
            raise DataError("a network needs at least two rows to learn from and be judged by, found one; add rows")
        decays = (float(belief.precision),) if "precision" in fixed else self.decays
        candidates = [(decay, floor) for floor in (self.floors if belief.law.weighs else (0.0,)) for decay in decays]
        fold, folds = self.divided(x, np.random.default_rng(seed + belief.seed))
        rows = [np.flatnonzero(fold != j) for _ in candidates for j in range(folds)]
        precision, floors = np.repeat(candidates, folds, axis=0).T
        settings = belief.settings._replace(seed=seed + belief.seed, floors=floors if floors.any() else None)
        found = train(belief.network(x.shape[1]), belief.law, x, t, rows, precision, settings)
        said = belief.complaints(found)
        # (candidate, row): each row by the network that has not seen it.
        judges = np.flatnonzero(fold < folds)
        tables = [np.reshape(each, (len(candidates), folds, n)) for each in (found.log_last, found.log_best)]
        left_out = np.concatenate([each[:, fold[judges], judges] for each in tables])
        weights = stacking_weights(np.nan_to_num(left_out, nan=-1e300, neginf=-1e300))
        members = np.concatenate([found.last, found.best])
        shares = np.repeat(weights / folds, folds)
        kept = shares > 1e-6 / len(shares)
        after = belief.having(seen, scaling, members[kept], shares[kept] / shares[kept].sum(), said)
        by_decay = weights.reshape(-1, len(decays)).sum(0)
        after = replace(after, {"precision": decays[int(np.argmax(by_decay))]})
        jacobian = len(judges) * np.log(np.abs(float(scaling.scale)))
        value = float(np.sum(np.logaddexp.reduce(left_out + np.log(np.maximum(weights, 1e-300))[:, None]))) - jacobian
        listed = ", ".join(f"{d:g}: {w:.2f}" for d, w in zip(decays, by_decay, strict=True))
        notes = [f"weights of the decays {listed}; log density of the rows left out {value:.6g}"]
        return Learned(replace(belief, {"precision": after.precision}), CONVERGED, value, [], {}, notes, after)

    def divided(self, x: Float[np.ndarray, "n d"], rng: np.random.Generator) -> tuple[Int[np.ndarray, " n"], int]:
        """Which fold leaves each row out, and how many folds there are; of many rows most are never left out.

        Rows with the same inputs go together: a network that has seen the twin of a row does not predict it. Not where
        most rows have twins, as with inputs of a few levels.
        """
        n, (_, twin) = len(x), np.unique(x, axis=0, return_inverse=True)
        groups = np.ravel(twin) if 2 * (twin.max() + 1) >= n else np.arange(n)
        order = rng.permutation(groups.max() + 1)[groups]
        if n > MANY:
            return (order % HELD_OUT > 0).astype(int), 1
        folds = min(self.folds, int(groups.max()) + 1)
        return order % folds, folds


@dataclass(frozen=True)
class AroundOne(Learner):
    """One network with doubt around it, at the prior precision under which the data are most probable."""

    integrates: ClassVar[bool] = True
    needs: ClassVar[type] = Neural

    def serves(self, subject: object, verb: str) -> bool:
        """Networks that have been told which weights are in doubt."""
        return isinstance(subject, Neural) and bool(subject.form)

    def learn(self, belief: Any, statistics: Any, fixed: Any, priors: Priors, seed: int) -> Learned:
        """Laplace's approximation, or a last layer in closed form."""
        if priors:
            raise DataError("the evidence chooses the precision of the weights; it takes no priors=")
        after, value = around_one(belief, statistics, choose="precision" not in fixed)
        notes = [f"precision {float(after.precision):.3g} by the evidence of the weights around one network"]
        return Learned(replace(belief, {"precision": after.precision}), CONVERGED, value, [], {}, notes, after)


class Training(Solver):
    """Another way to train networks at the precision that the belief has."""

    needs: ClassVar[type] = Neural
    learns: ClassVar[bool] = False

    def condition(self, belief: Any, *data: object, **options: Any) -> Any:
        """The belief with its networks trained so."""
        return self.trained(belief, belief.statistics(*data, **options))

    def conclude(self, belief: Any, statistics: Any, data: tuple[object, ...], options: Mapping[str, object]) -> Any:
        """The same, at the end of `fit`."""
        return self.trained(belief, statistics)

    @abstractmethod
    def trained(self, belief: Neural, statistics: Rows) -> Neural:
        """The belief with its networks trained so."""


@dataclass(frozen=True)
class Ensemble(Training):
    """Networks from different initial values, each a MAP estimate, with equal shares.

    Args:
        members: how many.
        bootstrap: whether each is trained on rows drawn with replacement, as the documents have it; without it
            initial values alone make the difference, which predicts better. Lakshminarayanan et al. (2017).
    """

    members: int = 5
    bootstrap: bool = False

    def __post_init__(self) -> None:
        check_count(self.members, "members")

    def trained(self, belief: Neural, statistics: Rows) -> Neural:
        """The belief with so many networks."""
        n, rows = belief.all_rows(statistics).y.shape[0], None
        if self.bootstrap:
            rng = np.random.default_rng(belief.seed)
            rows = [np.sort(rng.integers(0, n, n)) for _ in range(self.members)]
        return belief.trained(statistics, self.members, belief.precision, rows)


@dataclass(frozen=True)
class Dropout(Training):
    """One network, hidden units of which are dropped at random: in training, and for each prediction anew.

    A network without a unit is one whose outgoing weights are zero, those of the others 1/(1 - rate) times as large:
    the belief is the set of `members` such networks. Gal & Ghahramani (2016), "Dropout as a Bayesian approximation".
    """

    rate: float = 0.1
    members: int = 50

    def __post_init__(self) -> None:
        check_count(self.members, "members")
        check_real(self.rate, "rate", 0.0, 0.99)

    def masks(self, network: Any, rng: np.random.Generator, many: int) -> Float[np.ndarray, "many p"]:
        """Multipliers of the weights."""
        if not isinstance(network, Network):
            raise DataError("which units a network of your own has is not known; use DropConnect(…)")
        return network.outgoing((rng.uniform(size=(many, network.hidden)) >= self.rate) / (1 - self.rate))

    def trained(self, belief: Neural, statistics: Rows) -> Neural:
        """The belief with draws of the masked network."""
        network = belief.network(statistics.x.shape[1])
        after = belief.trained(
            statistics, 1, belief.precision, masks=lambda rng, s: self.masks(network, rng, s)[:, None, :]
        )
        rng = np.random.default_rng(belief.seed + 1)
        assert after.members is not None and after.seen is not None and after.scaling is not None
        members = after.members * self.masks(network, rng, self.members)
        return after.having(after.seen, after.scaling, members, np.full(self.members, 1 / self.members), after.doubts())


@dataclass(frozen=True)
class DropConnect(Dropout):
    """The same with single connections dropped, not units: q(θⱼ) = rate δ₀ + (1 - rate) δ_λ. Wan et al. (2013).

    λ, too, is 1/(1 - rate) times what was trained: the mean of a weight stays.
    """

    def masks(self, network: Any, rng: np.random.Generator, many: int) -> Float[np.ndarray, "many p"]:
        """Multipliers of the weights; biases stay."""
        keep = (rng.uniform(size=(many, network.size)) >= self.rate) / (1 - self.rate)
        return np.where(network.matrices > 0, keep, 1.0)


@dataclass(frozen=True)
class LastLayer(Training):
    """The last layer in closed form: its weights are normal, and `condition` on more rows is Bayes' rule in it.

    The network is trained once; its features and its noise exp f₂(x) then stay as they are, and f₁ is linear in the
    weights of its last layer. `fit` chooses their prior precision by the evidence. Harrison, Willes & Snoek (2024).
    """

    def trained(self, belief: Neural, statistics: Rows, choose: bool = False) -> Neural:
        """The belief with the law of its last layer."""
        if belief.outcome != "number":
            raise DataError(
                f'the last layer has a closed form for outcome="number", found {belief.outcome!r}; use '
                'Laplace("last-layer")'
            )
        if belief.form == "closed" and belief.root is not None:
            return belief.condition_on(statistics)
        return around_one(changed(belief, form="closed"), statistics, choose)[0]

    def conclude(self, belief: Any, statistics: Any, data: tuple[object, ...], options: Mapping[str, object]) -> Any:
        """At the end of `fit` the evidence chooses the precision."""
        return self.trained(belief, statistics, choose=True)
