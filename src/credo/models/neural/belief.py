"""`Neural`: outcomes from inputs through a network, with both kinds of doubt.

A belief about the weights is a weighted set of networks θ₁ … θₖ, each with its own noise:

    p(y | x) = Σₖ wₖ p(y | f(x; θₖ)),    log p(data) = log Σₖ wₖ Πᵢ p(yᵢ | f(xᵢ; θₖ))

What they disagree about is ignorance. `fit` trains folds times decays side by side and stacks them (`Stacked`);
`condition` trains five networks from different initial values at the precision of the weights that it was given (a deep
ensemble: Lakshminarayanan, Pritzel & Blundell 2017). `using=` takes `MAP()`, `Ensemble(…)`, `Dropout(…)`,
`DropConnect(…)`, `LastLayer()`, `Laplace("last-layer" | "full")`, and any approximation of the posterior of the
weights, e.g. `NUTS()` for small networks. Rows seen are kept, and more of them train anew; under `LastLayer()` they
move the last layer alone, in closed form.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.abilities import HasLogDensity, HasPointEstimates, HasRows
from credo.core.arrays import Array, is_traced, namespace, special
from credo.core.belief import Belief
from credo.core.checks import ArrayLike, check_count, check_counts, check_real, check_table, check_vector, input_names
from credo.core.errors import DataError
from credo.core.params import Prior, Priors, positive
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.infer.laplace import Laplace
from credo.infer.posterior import Posterior
from credo.infer.rows import RowDensity
from credo.infer.schedules import Schedule
from credo.infer.target import ParameterSpace, Target
from credo.models.likelihoods import Categorical as Labels
from credo.models.likelihoods import find_classes
from credo.models.likelihoods.classes import shown
from credo.models.neural.around import around_one, drawn_outputs, outputs_around, spread_points, updated
from credo.models.neural.density import Density, log_joint, log_likelihood, outputs
from credo.models.neural.network import Architecture, Network, OwnNetwork
from credo.models.neural.outcomes import ClassOutcome, CountOutcome, NumberOutcome, Outcome, StudentTOutcome
from credo.models.neural.scaling import Scaling
from credo.models.neural.training import OPTIMIZERS, Settings, Size, train

OUTCOMES = ("number", "student-t", "classes", "counts")
FORMS = ("last-layer", "full")
"""The curvatures of `Laplace` that have a form of their own here."""
MEMBERS = 5
"""Networks that `condition` trains."""
PRIOR_DRAWS = 32
"""Networks that stand for the belief before data."""
DRAWS = 100
"""Of an approximation so many draws are kept for predictions."""


class Rows(eqx.Module):
    """Inputs and encoded outcomes, in the user's units."""

    x: Float[Array, "n d"]
    y: Float[Array, " n"]


class Neural(Belief, HasLogDensity, HasRows, HasPointEstimates):
    """A belief about a network.

    Args:
        layers: the number of units of each hidden layer. What is not given of these, steps, batch and step_size follows
            from the number of rows: 50 units, and of more than 5,000 rows two layers of 128 and 40 passes.
        outcome: "number" (noise depends on x), "student-t" (outliers are expected, too), "classes" or "counts".
        precision: of each weight before data, N(0, 1/precision), in units in which inputs and outcomes are of order
            one: weight decay. `fit` averages over several.
        classes: the labels, where they should not be found in y.
        steps: of training, each on a minibatch.
        batch: rows of a minibatch.
        step_size: of the optimizer at the start; it falls to zero along a cosine. Or a schedule of steps, e.g.
            `credo.infer.schedules.PolynomialDecay(0.6, 0.1, 100)`.
        seed: of initial values, minibatches and folds.
        network: an equinox module of your own in the place of `layers`: it maps a row, in your units, to the outputs
            (2 for a number, 3 for "student-t", 1 for counts, one for each class). Its JAX arrays are learned.
        optimizer: "adam", "momentum" or "sgd".
        clip: the longest gradient; longer ones are shortened to it.
    """

    from_data: ClassVar[tuple[str, ...]] = ("members", "shares", "seen", "scaling", "said", "root")

    layers: tuple[int, ...] = eqx.field(static=True)
    outcome: str = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    step_size: float | Schedule = eqx.field(static=True)
    seed: int = eqx.field(static=True)
    optimizer: str = eqx.field(static=True)
    clip: float | None = eqx.field(static=True)
    free: tuple[str, ...] = eqx.field(static=True)
    """The settings that follow from the number of rows."""
    form: str = eqx.field(static=True)
    """How weights are in doubt around one network: "last-layer", "full" or "closed"; "" where networks are many."""
    own: OwnNetwork | None
    """The network of the user's own."""
    inputs: tuple[str, ...] | None = eqx.field(static=True)
    classes: tuple[Any, ...] | None = eqx.field(static=True)
    """The labels in the order of the predicted probabilities; None for numbers, or before any were seen."""
    said: tuple[str, ...] | None = eqx.field(static=True)
    """What went wrong in training, in words."""
    members: Float[Array, "k p"] | None
    """The networks, one flat vector each."""
    shares: Float[Array, " k"] | None
    """How probable each is."""
    seen: Rows | None
    scaling: Scaling | None
    root: Float[Array, "q q"] | None
    """The Cholesky factor of the precision matrix of the weights in doubt, where there is one network."""
    precision: Float[Array, ""] = positive(1.0)

    def __init__(
        self,
        layers: int | Sequence[int] | None = None,
        outcome: str = "number",
        precision: Any = 1.0,
        classes: Sequence[Any] | None = None,
        *,
        steps: int | None = None,
        batch: int | None = None,
        step_size: float | Schedule | None = None,
        seed: int = 0,
        network: Any = None,
        optimizer: str = "adam",
        clip: float | None = None,
    ):
        if network is not None and layers is not None:
            raise DataError(f"give layers or a network of your own, found both: layers={layers}")
        given = {"layers": layers if network is None else (), "steps": steps, "batch": batch, "step_size": step_size}
        self.free = tuple(name for name, value in given.items() if value is None)
        usual = Size.of(0)
        units: Any = given["layers"] if given["layers"] is not None else usual.layers
        sizes = (units,) if isinstance(units, int) else tuple(units)
        steps, batch = usual.steps if steps is None else steps, usual.batch if batch is None else batch
        pace = usual.step_size if step_size is None else step_size
        for size in sizes:
            check_count(size, "layers, the number of units of each,")
        if outcome not in OUTCOMES:
            raise DataError(f"outcome must be one of {', '.join(OUTCOMES)}, found {outcome!r}")
        if classes is not None and outcome != "classes":
            raise DataError(f'classes are for outcome="classes", found them with {outcome!r}')
        for name, value in (("steps", steps), ("batch", batch)):
            check_count(value, name)
        check_count(seed, "seed", 0)
        self.layers, self.outcome = tuple(int(size) for size in sizes), outcome
        self.steps, self.batch, self.seed = int(steps), int(batch), int(seed)
        self.step_size = pace if isinstance(pace, Schedule) else check_real(pace, "step_size", 1e-12)
        if optimizer not in OPTIMIZERS:
            raise DataError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, found {optimizer!r}")
        self.optimizer, self.clip = optimizer, None if clip is None else check_real(clip, "clip", 1e-12)
        self.own, self.form = None if network is None else OwnNetwork.of(network), ""
        self.precision = precision
        self.classes = None if classes is None else tuple(classes)
        self.inputs = self.said = self.members = self.shares = self.seen = self.scaling = self.root = None

    # -- data ------------------------------------------------------------------------------------------------

    def told(self, *data: ArrayLike) -> "Neural":
        """The belief that knows its inputs' names and its classes."""
        if len(data) != 2 or is_traced(data):
            return self
        told = changed(self, inputs=tuple(input_names(data[0], self.inputs)))
        if self.outcome != "classes" or self.classes is not None:
            return told
        found = find_classes(data[1])
        if len(found) < 2:
            raise DataError(
                f"y has one class only, {shown(found)}: there is nothing to tell apart; add rows of another"
            )
        return changed(told, classes=found)

    def statistics(self, *data: ArrayLike) -> Rows:
        """The rows of X and y, checked."""
        if len(data) != 2:
            raise DataError(f"a Neural belief is conditioned on X and y, found {len(data)} arguments")
        x = check_table(data[0], "X", self.inputs)
        if self.outcome == "classes":
            known = self.told(*data).classes
            if known is None:
                raise DataError("the classes cannot be found in traced labels; give classes=(...)")
            y = Labels(known).encode(data[1])
        else:
            y = check_counts(data[1], "y") if self.outcome == "counts" else check_vector(data[1], "y")
        if y.shape[0] != x.shape[0]:
            raise DataError(f"y must have one value per row: {x.shape[0]} are expected, found {y.shape[0]}")
        return Rows(x, y)

    def all_rows(self, statistics: Rows) -> Rows:
        """With those that were seen before."""
        if self.seen is None:
            return statistics
        xp = namespace(self.seen, statistics)
        return Rows(xp.concatenate([self.seen.x, statistics.x]), xp.concatenate([self.seen.y, statistics.y]))

    @property
    def law(self) -> Outcome:
        """What outputs say about outcomes."""
        if self.outcome == "classes":
            if self.classes is None:
                raise DataError("the classes are not known yet; condition on data first, or give classes=(...)")
            return ClassOutcome(len(self.classes))
        laws: dict[str, type[Outcome]] = {"number": NumberOutcome, "student-t": StudentTOutcome, "counts": CountOutcome}
        return laws[self.outcome]()

    def network(self, d: int) -> Architecture:
        """The network for d inputs, but for its weights."""
        if self.own is None:
            return Network((d, *self.layers, self.law.width))
        self.own.check(d, self.law.width)
        return self.own

    def prior_draws(self, d: int) -> Float[Array, "k p"]:
        """Networks of before data, N(0, 1/precision): the same ones at every precision, but for their scale."""
        z = np.random.default_rng(self.seed).normal(size=(PRIOR_DRAWS, self.network(d).size))
        return z / namespace(self).sqrt(self.precision)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def learner(self, priors: dict[str, Prior]) -> Any:
        """Folds times decays, stacked; around one network the evidence chooses the precision."""
        from credo.models.neural.methods import AroundOne, Stacked  # which need `Neural`

        return AroundOne() if self.form else Stacked()

    def by(self, method: object) -> "Neural | None":
        """Laplace's approximation of all weights, or of the last layer's, has a form of its own here."""
        own = isinstance(method, Laplace) and method.curvature in FORMS
        return changed(self, form=method.curvature) if own else None  # type: ignore[attr-defined]

    def condition_on(self, statistics: Rows) -> "Neural":
        """Five networks from different initial values; or one, with doubt around it."""
        if self.form == "closed" and self.root is not None:
            return updated(self, statistics)
        return around_one(self, statistics)[0] if self.form else self.trained(statistics, MEMBERS, self.precision)

    def trained(
        self, statistics: Rows, k: int, precision: Any, rows: list[np.ndarray] | None = None, masks: Any = None
    ) -> "Neural":
        """k networks with equal shares, each trained on all rows or its own."""
        seen = self.all_rows(statistics)
        scaling, x, t = self.scaled(seen)
        belief, own = self.sized(x.shape[0]), rows or [np.arange(x.shape[0])] * k
        network = belief.network(x.shape[1])
        found = train(network, self.law, x, t, own, precision * np.ones(k), belief.settings, masks)
        return belief.having(seen, scaling, found.last, np.full(k, 1 / k), belief.complaints(found))

    def sized(self, n: int) -> "Neural":
        """The belief with the settings that follow from the number of rows."""
        return changed(self, **{name: getattr(Size.of(n), name) for name in self.free})

    @property
    def settings(self) -> Settings:
        """How it is trained."""
        return Settings(self.steps, self.batch, self.step_size, self.seed, self.optimizer, self.clip)

    def scaled(self, rows: Rows) -> tuple[Scaling, Array, Array]:
        """The scaling of the rows, and the rows as networks see them."""
        scaling = Scaling.of(rows.x, rows.y, self.law.continuous, self.own is not None)
        return scaling, *scaling.rows(rows.x, rows.y)

    def complaints(self, found: Any) -> tuple[str, ...]:
        """What went wrong in training, in words."""
        if is_traced(found):
            return ()
        said, remedy = [], "a smaller step_size"
        if not isinstance(self.step_size, Schedule):
            remedy = f"step_size={self.step_size * found.shrunk:g}"
        elif not (check := self.step_size.check()).holds:
            said.append(f"the steps break Robbins and Monro's conditions: {check.says}")
        if found.shrunk < 1:
            said.append(f"training exploded, and was repeated with {found.shrunk:g} times the step; give {remedy}")
        if found.steps < self.steps:
            said.append(f"training was stopped after {found.steps} of {self.steps} steps; go on with using=Further(…)")
        return tuple(said)

    def having(
        self, seen: Rows, scaling: Scaling, members: Array, shares: Array, said: tuple[str, ...] = ()
    ) -> "Neural":
        """The belief with these networks."""
        return changed(self, seen=seen, scaling=scaling, members=members, shares=shares, said=said, root=None)

    def doubts(self) -> tuple[str, ...]:
        """What went wrong in training."""
        return self.said or ()

    def networks(self, d: int) -> tuple[Architecture, Float[Array, "k p"], Float[Array, " k"], Scaling]:
        """The shape, the networks, their shares and the scaling; before data those of the prior."""
        if self.members is None or self.shares is None or self.scaling is None:
            draws = self.prior_draws(d)
            return self.network(d), draws, np.full(len(draws), 1 / len(draws)), Scaling.unit(d)
        return self.network(d), self.members, self.shares, self.scaling

    def evidence_of(self, statistics: Rows) -> Float[Array, ""]:
        """log Σₖ wₖ Πᵢ p(yᵢ | xᵢ, θₖ): of rows that were held out, where the belief has seen others."""
        network, members, shares, scaling = self.networks(statistics.x.shape[1])
        if self.root is not None:
            f = drawn_outputs(self, scaling.inputs(statistics.x), DRAWS, self.seed)
            shares = np.full(DRAWS, 1 / DRAWS)
        else:
            f = network(members, scaling.inputs(statistics.x))
        each = self.law.log_prob(f, scaling.outcomes(statistics.y)).sum(-1)
        jacobian = statistics.y.shape[0] * namespace(scaling.scale).log(namespace(scaling.scale).abs(scaling.scale))
        return special(each, shares).logsumexp(each, b=shares) - jacobian

    def predict(self, x: ArrayLike) -> Predictive:
        """Σₖ wₖ p(y | x, θₖ): a mixture of normals, of Poisson laws, or averaged probabilities.

        Around one network the θₖ are a quadrature of the outputs' normal law.
        """
        table = self._queries(x)
        network, members, shares, scaling = self.networks(table.shape[1])
        if self.root is not None:
            shares, f = spread_points(*outputs_around(self, scaling.inputs(table)))
        else:
            f = network(members, scaling.inputs(table))
        return self.law.mixed(shares, f, scaling.shift, scaling.scale)

    def outputs(self, x: ArrayLike) -> tuple[Float[Array, "m o"], Float[Array, "m o o"]]:
        """Mean and covariance of the network's outputs, in its own units, over the belief about its weights."""
        table = self._queries(x)
        network, members, shares, scaling = self.networks(table.shape[1])
        if self.root is not None:
            return outputs_around(self, scaling.inputs(table))
        f = network(members, scaling.inputs(table))
        xp = namespace(f, shares)
        mean = xp.tensordot(shares, f, 1)
        return mean, xp.einsum("k,kmo,kmr->mor", shares, f - mean, f - mean)

    def _queries(self, x: ArrayLike) -> Float[Array, "m d"]:
        table = check_table(x, "X", self.inputs)
        if self.scaling is not None and table.shape[1] != len(self.scaling.center):
            raise DataError(f"X must have {len(self.scaling.center)} columns, as the data seen, found {table.shape[1]}")
        return table

    # -- methods of credo.infer ------------------------------------------------------------------------------

    def target(self, statistics: Rows, priors: Priors | None = None) -> Target:
        """log p(y, θ) over {"weights": θ}."""
        space, density, (x, t) = self._density(statistics, priors)
        return Target(space, log_joint, (density, x, t), (outputs, log_likelihood))

    def row_density(self, statistics: Rows) -> tuple[RowDensity, tuple[np.ndarray, ...]]:
        """log p(θ) and the log likelihood of each row."""
        space, density, columns = self._density(statistics, None)
        return RowDensity(space, density.log_prior, density), tuple(np.asarray(c) for c in columns)

    def _density(self, statistics: Rows, priors: Priors | None) -> tuple[ParameterSpace, Density, tuple[Array, Array]]:
        if priors:
            raise DataError("Neural has its precision chosen by credo.fit, found priors= for it")
        _, x, t = self.scaled(self.all_rows(statistics))
        network = self.network(x.shape[1])
        start = network.start(1, np.random.default_rng(self.seed))[0]
        space = ParameterSpace.of({"weights": start})
        return space, Density(self.precision, network, self.law), (x, t)

    def given(self, posterior: Posterior, statistics: Rows) -> "Neural":
        """The belief with draws of what a method found."""
        seen = self.all_rows(statistics)
        kept = np.asarray(posterior.kept())
        members = kept[np.linspace(0, len(kept) - 1, min(len(kept), DRAWS)).astype(int)]
        return self.having(seen, self.scaled(seen)[0], members, np.full(len(members), 1 / len(members)))

    # -- point estimates -------------------------------------------------------------------------------------

    def maximum_likelihood(self, *data: ArrayLike) -> "Neural":
        """One network without decay; what `using=ML()` calls."""
        return self.trained(self.statistics(*data), 1, 0.0)

    def maximum_a_posteriori(self, *data: ArrayLike) -> "Neural":
        """One network; what `using=MAP()` calls."""
        return self.trained(self.statistics(*data), 1, self.precision)

    def plug_in(self, *data: ArrayLike) -> "Neural":
        """Refused: hidden units may be swapped, and the mean of two equal networks is none."""
        raise DataError("the mean of the weights is no network, for units may be swapped; use MAP() or Ensemble(m)")
