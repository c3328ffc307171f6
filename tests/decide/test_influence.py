"""Influence diagrams: textbook answers, and all policies by enumeration."""

from itertools import product

import numpy as np
import pytest

import credo
from credo.decide import Choice, InfluenceDiagram, Utility
from credo.errors import DataError


def umbrella() -> InfluenceDiagram:
    return InfluenceDiagram(
        {
            "weather": {"sun": 0.7, "rain": 0.3},
            "forecast": ("weather", {"sun": [0.7, 0.2, 0.1], "rain": [0.15, 0.25, 0.6]}),
            "umbrella": Choice(["take", "leave"], sees=["forecast"]),
            "comfort": Utility(["weather", "umbrella"], [[20, 100], [70, 0]]),
        },
        states={"forecast": ("sunny", "cloudy", "rainy")},
    )


def wildcatter(sees: tuple[str, ...] = ("test", "report")) -> InfluenceDiagram:
    seismic = np.array([[0.1, 0.3, 0.6], [0.3, 0.4, 0.3], [0.5, 0.4, 0.1]])
    report = np.stack([np.column_stack([seismic, np.zeros(3)]), np.tile([0.0, 0, 0, 1], (3, 1))])
    return InfluenceDiagram(
        {
            "oil": {"dry": 0.5, "wet": 0.3, "soaking": 0.2},
            "test": Choice(["yes", "no"]),
            "report": (["test", "oil"], report),
            "drill": Choice(["yes", "no"], sees=sees),
            "cost of test": Utility("test", [-10, 0]),
            "profit": Utility(["oil", "drill"], [[-70, 0], [50, 0], [200, 0]]),
        },
        states={"report": ("closed", "open", "diffuse", "none")},
    )


def test_umbrella() -> None:
    best = credo.decide(umbrella())
    assert best.expected_utility == pytest.approx(77.0)
    assert best["umbrella"].actions == {("sunny",): "leave", ("cloudy",): "leave", ("rainy",): "take"}
    assert best["umbrella"][{"forecast": "rainy"}] == best["umbrella"]["rainy"] == "take"
    assert best.network.predict("umbrella")["take"] == pytest.approx(0.7 * 0.1 + 0.3 * 0.6)
    assert umbrella().value_of_perfect_information() == pytest.approx(91 - 77)
    assert umbrella().value_of_information("weather", cost=2.0) == pytest.approx(91 - 77 - 2)
    blind = umbrella().condition({"forecast": "rainy"}).solve()
    assert blind["umbrella"].actions == {(): "take"} and blind.expected_utility == pytest.approx(14 / 0.25)
    assert "forecast = rainy: take" in str(best) and "expected utility 77" in str(best)
    assert umbrella().expected_utility({"umbrella": "leave"}) == pytest.approx(70.0)


def test_wildcatter() -> None:
    """Raiffa (1968), as in Shenoy (1992): test; drill unless the report is diffuse; 22.5."""
    best = credo.decide(wildcatter())
    assert best.expected_utility == pytest.approx(22.5)
    assert best["test"].actions == {(): "yes"}
    drill = best["drill"]
    assert [drill[{"test": "yes", "report": r}] for r in ("closed", "open", "diffuse")] == ["yes", "yes", "no"]
    assert drill[{"test": "no", "report": "none"}] == "yes" and len(drill.actions) == 4
    with pytest.raises(DataError, match="never sees"):
        drill[{"test": "no", "report": "closed"}]
    assert wildcatter().value_of_perfect_information("drill") == pytest.approx(0.3 * 50 + 0.2 * 200 - 22.5)
    # without the report the test is not worth its price
    assert credo.decide(wildcatter(sees=("test",))).expected_utility == pytest.approx(20.0)


def by_enumeration(diagram: InfluenceDiagram) -> float:
    """The best of all deterministic policies of all decisions, each knowing what it may, by the joint law."""
    net, choices = diagram.network, diagram.choices
    memory, known = {}, ()
    for name, choice in choices.items():
        known = tuple(dict.fromkeys((*known, *choice.sees)))
        memory[name], known = known, (*known, name)
    chance = [n for n in net.names if n not in choices]
    rules = []
    for name, choice in choices.items():
        cases = list(product(*(net.states[s] for s in memory[name])))
        rules.append([dict(zip(cases, acts, strict=True)) for acts in product(choice.options, repeat=len(cases))])
    best = -np.inf
    for rule in product(*rules):
        total = 0.0
        for states in product(*(net.states[n] for n in net.names)):
            at = dict(zip(net.names, states, strict=True))
            acts = zip(choices, rule, strict=True)
            if any(at[name] != does[tuple(at[s] for s in memory[name])] for name, does in acts):
                continue
            p = 1.0
            for n in chance:
                law = net.nodes[n]
                p *= float(law.values[tuple(net.states[m].index(at[m]) for m in (*law.parents, n))])
            for utility in diagram.utilities.values():
                total += p * utility.values[tuple(net.states[m].index(at[m]) for m in utility.parents)]
        best = max(best, total)
    return best


def test_against_all_policies() -> None:
    rng = np.random.default_rng(0)
    for _ in range(4):
        nodes = {
            "a": rng.dirichlet([1, 1]).tolist(),
            "first": Choice(["u", "v"], sees=["a"] if rng.random() < 0.5 else []),
            "b": (["a", "first"], rng.dirichlet([1, 1], size=(2, 2))),
            "c": (["b"], rng.dirichlet([1, 1], size=2)),
            "second": Choice(["u", "v"], sees=["c"]),
            "now": Utility(["first", "a"], rng.normal(size=(2, 2))),
            "later": Utility(["second", "b", "first"], rng.normal(size=(2, 2, 2))),
        }
        diagram = InfluenceDiagram(nodes, states=("0", "1"))
        assert credo.decide(diagram).expected_utility == pytest.approx(by_enumeration(diagram))
        assert diagram.value_of_information("b", at="second") >= -1e-12


def test_what_does_not_matter_is_left_out() -> None:
    diagram = InfluenceDiagram(
        {
            "coin": [0.5, 0.5],
            "state": [0.3, 0.7],
            "sign": (["state"], [[0.9, 0.1], [0.2, 0.8]]),
            "act": Choice(["a", "b"], sees=["coin", "sign", "state"]),
            "value": Utility(["state", "act"], [[1, 0], [0, 1]]),
        },
        states=("0", "1"),
    )
    best = credo.decide(diagram)
    assert best["act"].sees == ("state",) and best.expected_utility == pytest.approx(1.0)


def test_refusals() -> None:
    nodes = {
        "a": [0.5, 0.5],
        "act": Choice(["u", "v"]),
        "b": ("act", [[0.5, 0.5], [0.1, 0.9]]),
        "value": Utility(["b"], [0.0, 1.0]),
    }
    with pytest.raises(DataError, match="cannot see 'b'"):
        InfluenceDiagram({**nodes, "act": Choice(["u", "v"], sees=["b"])})
    with pytest.raises(DataError, match="an axis for each of a, act"):
        InfluenceDiagram({**nodes, "value": Utility(["a", "act"], [0.0, 1.0])})
    with pytest.raises(DataError, match="a Choice and a Utility"):
        InfluenceDiagram({"a": [0.5, 0.5]})
    with pytest.raises(DataError, match="at least two different options"):
        Choice(["only"])
    diagram = InfluenceDiagram(nodes)
    with pytest.raises(DataError, match="follows from a decision"):
        diagram.condition({"b": "0"})
    with pytest.raises(DataError, match="there is no decision"):
        diagram.value_of_information("a", at="now")
    with pytest.raises(DataError, match="must be one of u, v"):
        diagram.expected_utility({"act": "w"})
