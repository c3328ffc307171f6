"""What a network that was learned does not know: answers over draws of its tables.

The rows of tables are independent Dirichlet laws, and each joint state of the variables uses one row of every table, so
that P(x, observed) is that of the mean tables, exactly. How much of the doubt is ignorance is the mutual information of
x and the tables, by draws θ of them, each weighed by p(observed | θ):

    epistemic = H[Σ w P(x | observed, θ)] - Σ w H[P(x | observed, θ)],    aleatoric = H[P(x | observed)] - epistemic

For rows of a frame the draws have equal weights: one row says next to nothing of the tables. Of a number, the variance
is split: that of its mean over the draws is ignorance.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from credo.core.arrays import is_traced
from credo.core.linalg import factorize, solve_upper
from credo.core.predictive import Mixture, Normal, Predictive
from credo.core.predictive.classes import entropy_of
from credo.core.pytrees import changed
from credo.models.network import queries
from credo.models.network.nodes import LinearGaussian, Node, Table
from credo.models.network.predictions import States

if TYPE_CHECKING:
    from credo.models.network.belief import Network

DRAWS = 64
"""Networks drawn; the standard error of an epistemic part is about a tenth of it."""


def is_learned(law: Node) -> bool:
    """Whether a law was learned, and is not taken for the truth."""
    return (law.concentration if isinstance(law, Table) else law.moments) is not None


def with_ignorance(
    network: "Network", name: str, law: Predictive, columns: Mapping[str, np.ndarray] | None
) -> Predictive:
    """The prediction of a variable, its doubt split; as it is where nothing above it was learned."""
    observed = network.observed
    relevant = queries.relevant(network, {name, *(columns or ())}, observed)
    unsure = {n for n in relevant if is_learned(network.nodes[n])}
    if not unsure or is_traced(network.laws):
        return law
    rng = np.random.default_rng(0)
    found, logs = [], []
    for _ in range(DRAWS):
        drawn = drawn_from(network, rng, unsure)
        if columns is None:
            each, log = queries.predicted(drawn, name, observed)
        else:
            each, log = queries.predicted_rows(drawn, name, columns, observed), np.zeros(())
        found.append(each)
        logs.append(float(log))
    weights = np.exp(np.array(logs) - max(logs))
    return _split(law, found, weights / weights.sum())


def _split(law: Any, drawn: list[Any], weights: np.ndarray) -> Predictive:
    def mean(values: list[Any]) -> Any:
        return np.tensordot(weights, np.stack(values), axes=1)

    if isinstance(law, States):
        epistemic = entropy_of(mean([d.probs for d in drawn])) - mean([entropy_of(d.probs) for d in drawn])
        total = entropy_of(law.probs)
        return States(law.probs, total - np.clip(epistemic, 0.0, total), law.states)
    if isinstance(law, Mixture):
        parts = [d.parts[0] for d in drawn]
        inner = _split(law.parts[0], parts, weights)
        return Mixture(law.weights, (inner,), within=len(law.weights))
    centre = mean([d.mean for d in drawn])
    ignorance = mean([(d.mean - centre) ** 2 for d in drawn])
    return Normal(law.mean, mean([d.variance for d in drawn]), ignorance)


def drawn_from(network: "Network", rng: np.random.Generator, names: set[str]) -> "Network":
    """A network with the tables of some variables drawn from what is believed of them."""
    laws = [_drawn(law, rng) if name in names else law for name, law in network.nodes.items()]
    return changed(network, laws=tuple(laws))


def _drawn(law: Any, rng: np.random.Generator) -> Node:
    if isinstance(law, Table):
        gamma = np.maximum(rng.standard_gamma(np.asarray(law.concentration)), np.finfo(float).tiny * 1e20)
        return Table(law.states, law.parents, gamma / gamma.sum(-1, keepdims=True))
    return _drawn_regression(law, rng)


def _drawn_regression(law: LinearGaussian, rng: np.random.Generator) -> LinearGaussian:
    """variance ~ SSE/χ²(n), weights ~ N(ŵ, variance A⁻¹) with the moments A of (1, parents), in each state."""
    moments: Any = law.moments
    k = moments.shape[-1]
    mean, weights, variance = (np.array(v, dtype=float) for v in (law.mean, law.weights, law.variance))
    for at in np.ndindex(mean.shape):
        m = moments[at]
        variance[at] = variance[at] * m[0, 0] / rng.chisquare(m[0, 0])
        scale = np.sqrt(np.diagonal(m)[:-1])
        root = factorize(m[:-1, :-1] / np.outer(scale, scale)).root
        off = solve_upper(root, rng.normal(size=k - 1)) / scale * np.sqrt(variance[at])
        mean[at] += off[0]
        weights[at] += off[1:]
    return LinearGaussian(law.parents, mean, weights, variance)
