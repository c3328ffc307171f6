"""Dynamic networks: two slices, of which the second says how time goes on, unrolled over many steps.

A variable x' is the next step's x: its law gives p(x' | variables of both slices). A variable without a primed twin is
there once, for all steps. The HMM and the linear dynamical system are such networks. Murphy (2002), "Dynamic Bayesian
networks"; Koller & Friedman (2009), section 6.2.
"""

from collections.abc import Mapping

from credo.core.checks import check_count
from credo.core.errors import DataError
from credo.core.pytrees import changed
from credo.models.network.nodes import Node

PRIME = "'"


def unrolled(nodes: Mapping[str, Node], t: int) -> dict[str, Node]:
    """The laws of x[0], …, x[t - 1] for each x that has a twin x'."""
    check_count(t, "t")
    moving = [name.removesuffix(PRIME) for name in nodes if name.endswith(PRIME)]
    alone = [name for name in moving if name not in nodes]
    if not moving or alone:
        found = f"there is {alone[0]}{PRIME} and no {alone[0]}" if alone else "no variable has a prime"
        raise DataError(
            f"a dynamic network has for each variable x that moves one x{PRIME} of the next step, but {found}"
        )
    early = [(x, p) for x in moving for p in nodes[x].parents if p.endswith(PRIME)]
    if early:
        raise DataError(
            f"{early[0][0]!r} of the first slice depends on {early[0][1]!r}, which comes later; turn it round"
        )

    def at(name: str, step: int) -> str:
        if name.endswith(PRIME):
            return f"{name.removesuffix(PRIME)}[{step}]"
        return f"{name}[{max(step - 1, 0)}]" if name in moving else name

    made: dict[str, Node] = {
        name: law for name, law in nodes.items() if name not in moving and not name.endswith(PRIME)
    }
    for name, law in made.items():
        if any(p in moving or p.endswith(PRIME) for p in law.parents):
            raise DataError(
                f"{name!r} is there once and depends on {law.parents}, which move; give it a twin {name}{PRIME}"
            )
    for step in range(int(t)):
        for x in moving:
            law = nodes[x] if step == 0 else nodes[x + PRIME]
            parents = tuple(at(p, step) for p in law.parents)
            made[f"{x}[{step}]"] = changed(law, parents=parents)
    return made
