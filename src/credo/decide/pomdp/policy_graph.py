"""The policy as a graph: what to do, and after each observation, what to do then.

Kaelbling, Littman & Cassandra (1998), section 4.4. Nodes are the vectors that are best at the beliefs reached from the
start; where two beliefs with the same vector go on differently, the more probable one is followed.
"""

from typing import TYPE_CHECKING

import scipy.sparse as sp

from credo.decide.pomdp.belief import BeliefState

if TYPE_CHECKING:
    import networkx as nx

    from credo.decide.pomdp.plan import AlphaPlan

RARE = 1e-6
"""Observations that are less probable are left out."""


def policy_graph(plan: "AlphaPlan", depth: int) -> "nx.DiGraph":
    """Nodes are numbers of vectors, with `action`, `value` and `belief`; edges have `observations` and `probability`.

    The start is the graph's attribute `start`.
    """
    import networkx as nx

    world, graph = plan.world, nx.DiGraph()

    def node(belief: BeliefState) -> int:
        value, which = plan.vectors.best(sp.csr_array(belief.probs[None]))
        at = int(which[0])
        if at not in graph:
            action = world.action_names[int(plan.vectors.actions[at])]
            graph.add_node(at, action=action, value=float(value[0]), belief=belief.probs)
        return at

    first = world.belief()
    graph.graph["start"] = node(first)
    layer, done = [(graph.graph["start"], first)], {graph.graph["start"]}
    for _ in range(depth):
        ahead: dict[int, tuple[float, BeliefState]] = {}
        for at, belief in layer:
            action = world.action(graph.nodes[at]["action"])
            for o, chance in enumerate(belief.predict(action).probs):
                if chance <= RARE:
                    continue
                after = belief.condition(action, o)
                new = node(after)
                known = graph.edges[at, new]["observations"] if graph.has_edge(at, new) else ()
                total = (graph.edges[at, new]["probability"] if known else 0.0) + float(chance)
                graph.add_edge(at, new, observations=(*known, world.observation_names[o]), probability=total)
                if new not in done and chance > ahead.get(new, (0.0, after))[0]:
                    ahead[new] = (float(chance), after)
        layer = [(at, belief) for at, (_, belief) in ahead.items()]
        done |= ahead.keys()
    return graph
