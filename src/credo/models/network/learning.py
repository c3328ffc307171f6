"""Tables from rows: `credo.fit(net, frame)` and `credo.learn(net, frame)`, the arrows being known.

    Bayes (default)   Dirichlet(prior + counts) in every row of a table, so that answers know what they do not know
    ML                counts/Σ counts;  `MAP` the mode and `PlugIn` the mean of that Dirichlet, taken for the truth
    EM                where cells are missing: counts are expected ones, and no step lowers the likelihood × prior

The prior is the table's own `concentration` where it has one; else `strength` rows spread evenly over its cells, under
which equivalent graphs are equally probable (BDeu). A number's regression has it in as many rows in which its parents
say nothing of it. EM counts a prior of α as α rows: it climbs to the mode in the softmax basis, which is the mean.

Where cells are missing, the Dirichlet has the counts expected at the top of the climb: it takes what the other cells of
a row say of a missing one for known. Spiegelhalter & Lauritzen (1990), "Sequential updating of conditional
probabilities on directed graphical structures"; Heckerman (1998), "A tutorial on learning with Bayesian networks".
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core import linalg
from credo.core.abilities import HasExpectations, HasPointEstimates
from credo.core.arrays import Array, special
from credo.core.belief import Belief
from credo.core.checks import check_real
from credo.core.errors import DataError, NotConvergedWarning
from credo.core.params import Prior, simplex
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.core.special import log_rising
from credo.infer.em import EM
from credo.infer.optimize import CONVERGED
from credo.models.network import counting
from credo.models.network.counting import Rows
from credo.models.network.nodes import LinearGaussian, Node, Table

if TYPE_CHECKING:
    from credo.models.network.belief import Network

STRENGTH = 1.0
"""Rows that a prior is worth where nothing was said."""
Counts = dict[str, np.ndarray]
"""A table of counts, or second moments, for each variable."""


class RowsOfTable(eqx.Module):
    """P(x | parents), as numbers that can be learned."""

    values: Float[Array, "*p k"] = simplex()


class TableLearning(Belief[Rows], HasExpectations[Rows, Counts], HasPointEstimates):
    """A network whose tables are to be learned from rows: what `Network.told(frame)` becomes.

    After Bayes' rule, and after `learn`, it is a `Network` again.
    """

    network: Any = eqx.field(metadata={"constant": True})
    tables: tuple[RowsOfTable, ...]
    prior: Counts = eqx.field(metadata={"constant": True})
    latent: bool = eqx.field(static=True, default=False)
    """Whether a variable is missing in every row."""

    @classmethod
    def of(cls, network: "Network") -> "TableLearning":
        """The network, to be learned."""
        tables = tuple(RowsOfTable(law.values) for law in network.laws if isinstance(law, Table))
        return cls(network, tables, {})

    @property
    def laws(self) -> dict[str, Node]:
        """The law of each variable at the tables that there are now."""
        rest = iter(self.tables)
        return {
            name: changed(law, values=next(rest).values) if isinstance(law, Table) else law
            for name, law in self.network.nodes.items()
        }

    @property
    def now(self) -> "Network":
        """The network at the tables that there are now."""
        return _with(self.network, self.laws)

    def statistics(self, frame: Any, *, strength: float | int = STRENGTH) -> Rows:
        """Counts of families, and the rows with missing cells; `strength` is of `prepare`."""
        return counting.read_rows(self.network, frame)

    def prepare(self, frame: Any, *, strength: float | int = STRENGTH) -> tuple["TableLearning", Rows]:
        """With the prior, worth `strength` rows where a table has none of its own."""
        check_real(strength, "strength", 0.0)
        rows = self.statistics(frame)
        return self.under(rows, strength), rows

    def under(self, rows: Rows, strength: float | int) -> "TableLearning":
        """With the prior for these rows."""
        whole = {name for name in self.network.states if not rows.counts[name].any()}
        return changed(self._begun(rows), prior=priors_of(self.network, rows, float(strength)), latent=bool(whole))

    def _begun(self, rows: Rows) -> "TableLearning":
        """Where numbers are missing, regressions on the rows that have them, from which the climb begins."""
        missing = {name for hidden in rows.hidden for name in hidden.names}
        prior = priors_of(self.network, rows, STRENGTH)
        laws: dict[str, Node] = {
            name: changed(regression(name, law, rows.counts[name] + prior[name]), moments=law.moments)
            for name, law in self.network.nodes.items()
            if isinstance(law, LinearGaussian) and missing & {name, *law.parents}
        }
        return changed(self, network=_with(self.network, laws))

    def learner(self, priors: dict[str, Prior]) -> EM:
        """EM; of one start where no variable is hidden altogether."""
        return EM(starts=4 if self.latent else 1)

    def expect(self, statistics: Rows) -> tuple[Counts, Array]:
        """Expected counts, and log p(rows)."""
        return counting.expected(self.now, statistics), self.evidence_of(statistics)

    def expect_side_by_side(self, beliefs: Sequence[Any], statistics: Rows) -> list[tuple[Counts, Array]]:
        """In NumPy, each."""
        return [each.expect(statistics) for each in beliefs]

    def maximize(self, expected: Counts, fixed: tuple[str, ...] = ()) -> "TableLearning":
        """(counts + prior)/Σ; a row of which nothing is known stays as it was. Regressions from the moments."""
        tables, laws = [], {}
        for name, law in self.laws.items():
            total = expected[name] + self.prior[name] if self.prior else expected[name]
            if isinstance(law, Table):
                sums = total.sum(-1, keepdims=True)
                tables.append(RowsOfTable(np.where(sums > 0, total / np.where(sums > 0, sums, 1.0), law.values)))
            else:
                laws[name] = regression(name, law, total)
        return changed(self, tables=tuple(tables), network=_with(self.network, laws))

    def restart(self, statistics: Rows, seed: int) -> "TableLearning | None":
        """Tables drawn at random, where a variable is hidden altogether."""
        if not self.latent:
            return None
        rng = np.random.default_rng(seed)
        drawn = [rng.dirichlet(np.ones(t.values.shape[-1]), t.values.shape[:-1]) for t in self.tables]
        return changed(self, tables=tuple(map(RowsOfTable, drawn)))

    def log_prior_of_parameters(self) -> Array:
        """Σ α log θ, and the pseudo-rows' log density of numbers."""
        total: Any = np.zeros(())
        for name, law in self.laws.items() if self.prior else ():
            if isinstance(law, Table):
                total = total + special(law.values).xlogy(self.prior[name], law.values).sum()
            else:
                total = total + counting.gaussian_score(law, self.prior[name])
        return total

    def evidence_of(self, statistics: Rows) -> Array:
        """log p(rows | tables); traceable."""
        return counting.log_likelihood(self.now, statistics)

    def log_evidence_of(self, statistics: Rows) -> Array:
        """log p(rows) under the tables if they are known; under their Dirichlet laws where they were learned."""
        if all(getattr(law, "concentration", None) is None for law in self.network.laws):
            return self.evidence_of(statistics)
        if not statistics.whole:
            raise DataError(
                "the evidence of tables that were learned has a closed form where no cell is missing; take the "
                "likelihood of their mean: fit with using=PlugIn()"
            )
        total: Any = np.zeros(())
        for name, law in self.network.nodes.items():
            counts = statistics.counts[name]
            if isinstance(law, Table) and law.concentration is not None:
                rising = log_rising(law.concentration.sum(-1), counts.sum(-1)).sum()
                total = total + log_rising(law.concentration, counts).sum() - rising
            else:
                part = special(law.values).xlogy(counts, law.values).sum() if isinstance(law, Table) else None
                total = total + (counting.gaussian_score(law, counts) if part is None else part)
        return total

    def condition_on(self, statistics: Rows) -> "Network":
        """Dirichlet(prior + counts) in every row of every table, expected counts where cells are missing."""
        prior = self.prior or priors_of(self.network, statistics, STRENGTH)
        start = changed(self._begun(statistics), prior=prior)
        top = start if statistics.whole else self._climbed(start, statistics)
        counts = counting.expected(top.now, statistics)
        laws: dict[str, Node] = {}
        for name, law in top.laws.items():
            total = counts[name] + prior[name]
            if isinstance(law, LinearGaussian):
                laws[name] = changed(regression(name, law, total), moments=total)
                continue
            if not total.sum(-1).all():
                raise DataError(
                    f"a row of the table of {name!r} was never seen, and its prior is nothing; raise strength"
                )
            laws[name] = Table(law.states, law.parents, concentration=np.maximum(total, np.finfo(float).tiny))
        return _with(self.network, laws)

    def returned(self) -> "Network":
        """The network with the tables as they are."""
        return _with(self.network, {name: _known(law) for name, law in self.laws.items()})

    @staticmethod
    def _climbed(belief: "TableLearning", rows: Rows) -> "TableLearning":
        """The top of likelihood × prior from here."""
        climb = EM().climb(belief, rows)
        if climb.status != CONVERGED:
            warnings.warn(
                f"EM over the missing cells {climb.status} after {climb.steps} steps: learn first with "
                "credo.learn(net, frame, using=EM(max_steps=1000))",
                NotConvergedWarning,
                stacklevel=4,
            )
        found: Any = climb.belief
        return found

    def maximum_likelihood(self, frame: Any, **options: Any) -> "Network":
        """counts/Σ; a row of a table that was never seen becomes uniform, with a warning."""
        if options:
            raise DataError(f"maximum likelihood has no prior, found {', '.join(options)}=; use MAP() or PlugIn()")
        rows = self.statistics(frame)
        found = self._climbed(changed(self._begun(rows), prior={}), rows)
        counts = counting.expected(found.now, rows)
        laws: dict[str, Node] = {}
        unseen = []
        for name, law in found.laws.items():
            laws[name] = _known(law)
            if isinstance(law, Table) and not counts[name].sum(-1).all():
                unseen.append(name)
                never = counts[name].sum(-1, keepdims=True) == 0
                laws[name] = Table(law.states, law.parents, np.where(never, 1 / len(law.states), law.values))
        if unseen:
            warnings.warn(
                f"some states of the parents of {', '.join(unseen[:5])} never occur, their rows are taken as uniform; "
                "use a prior: MAP(), PlugIn(), or credo.fit without using=",
                NotConvergedWarning,
                stacklevel=4,
            )
        return _with(self.network, laws)

    def maximum_a_posteriori(self, frame: Any, *, strength: float | int = STRENGTH) -> "Network":
        """(counts + α - 1)/Σ; without a prior of its own a table has α = 1 + strength/cells."""
        prepared, rows = self.prepare(frame, strength=strength)
        prior = dict(prepared.prior)
        for name, law in self.network.nodes.items():
            if isinstance(law, Table) and law.concentration is not None:
                prior[name] = np.asarray(law.concentration) - 1.0
                if (prior[name] < 0).any():
                    raise DataError(
                        f"the Dirichlet of {name!r} has no mode: it needs every concentration ≥ 1, found "
                        f"{float(np.min(law.concentration)):g}; use PlugIn(), the mean"
                    )
        return self._climbed(changed(prepared, prior=prior), rows).returned()

    def plug_in(self, frame: Any, *, strength: float | int = STRENGTH) -> "Network":
        """(counts + α)/Σ, taken for known."""
        prepared, rows = self.prepare(frame, strength=strength)
        return self._climbed(prepared, rows).returned()

    def predict(self, *x: Any, **options: Any) -> Predictive:
        """What the network at these tables says."""
        return self.returned().predict(*x, **options)


def _known(law: Node) -> Node:
    """The law, taken for the truth."""
    return Table(law.states, law.parents, law.values) if isinstance(law, Table) else changed(law, moments=None)


def _with(network: "Network", laws: Mapping[str, Node]) -> "Network":
    return changed(network, laws=tuple(laws.get(name, law) for name, law in network.nodes.items()))


def priors_of(network: "Network", rows: Rows, strength: float) -> Counts:
    """What each law already counts: its own concentration or moments, or `strength` rows spread evenly."""
    found: Counts = {}
    for name, law in network.nodes.items():
        if isinstance(law, Table):
            even = np.full(law.values.shape, strength / law.values.size)
            found[name] = even if law.concentration is None else np.asarray(law.concentration)
        elif law.moments is not None:
            found[name] = np.asarray(law.moments)
        else:
            numbers = [*(p for p in law.parents if p in rows.moments), name]
            mean = np.array([1.0, *(rows.moments[m][0] for m in numbers)])
            spread = np.diag([0.0, *(rows.moments[m][1] for m in numbers)])
            even = (np.outer(mean, mean) + spread) * (strength / max(law.mean.size, 1))
            found[name] = np.broadcast_to(even, (*law.mean.shape, *even.shape))
    return found


def regression(name: str, law: LinearGaussian, moments: Float[Array, "*d k k"]) -> LinearGaussian:
    """mean, weights and variance from the second moments of (1, parents, x): least squares in each state."""
    shape, k = moments.shape[:-2], moments.shape[-1]
    found = []
    for m in np.asarray(moments).reshape(-1, k, k):
        if m[0, 0] == 0:
            raise DataError(
                f"{name!r} was never seen in some joint state of its discrete parents; raise strength, or merge states"
            )
        scale = np.sqrt(np.maximum(np.diagonal(m)[:-1], np.finfo(float).tiny))
        factor = linalg.factorize(m[:-1, :-1] / np.outer(scale, scale))
        if not factor.ok:
            raise DataError(
                f"the parents of {name!r} determine one another exactly; drop one of them, or raise strength"
            )
        weights = linalg.solve(factor.root, m[:-1, -1] / scale) / scale
        variance = (m[-1, -1] - m[:-1, -1] @ weights) / m[0, 0]
        if not variance > 1e-12 * m[-1, -1] / m[0, 0]:
            raise DataError(
                f"{name!r} is determined exactly by its parents: no noise is left; drop it, or raise strength"
            )
        found.append((weights[0], weights[1:], variance))
    return changed(
        law,
        mean=np.array([f[0] for f in found]).reshape(shape),
        weights=np.array([f[1] for f in found]).reshape(*shape, k - 2),
        variance=np.array([f[2] for f in found]).reshape(shape),
    )
