"""Causes: `do` against surgery by hand and the mutilated joint, doors against the enumeration of effects."""

from itertools import product

import numpy as np
import pytest

import credo
from credo.errors import DataError
from credo.models.network import LinearGaussian, Network

YES = ("yes", "no")


def kidney() -> Network:
    """Kidney stones: size is a cause of the treatment and of recovery. Charig et al. (1986)."""
    return Network(
        {
            "size": {"small": 0.51, "large": 0.49},
            "treatment": ("size", {"small": {"a": 0.24, "b": 0.76}, "large": {"a": 0.77, "b": 0.23}}),
            "recovery": (
                ["size", "treatment"],
                [[[0.93, 0.07], [0.87, 0.13]], [[0.73, 0.27], [0.69, 0.31]]],
            ),
        },
        states={"recovery": YES},
    )


def smoking() -> Network:
    """The front door: a gene that nobody sees drives smoking and cancer, tar is between them."""
    return Network(
        {
            "gene": [0.4, 0.6],
            "smoking": ("gene", [[0.8, 0.2], [0.3, 0.7]]),
            "tar": ("smoking", [[0.9, 0.1], [0.2, 0.8]]),
            "cancer": (["gene", "tar"], [[[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.5], [0.1, 0.9]]]),
        },
        states=YES,
    )


def joint_of(net: Network, cut: tuple[str, ...] = ()) -> dict[tuple[str, ...], float]:
    """The joint law by enumeration, without the tables of what is `cut`."""
    out = {}
    for states in product(*(net.states[n] for n in net.names)):
        at = dict(zip(net.names, states, strict=True))
        p = 1.0
        for name, law in net.nodes.items():
            if name not in cut:
                index = tuple(net.states[m].index(at[m]) for m in (*law.parents, name))
                p *= float(law.values[index])
        out[states] = p
    return out


def test_seeing_is_not_doing() -> None:
    net = kidney()
    see = [net.condition({"treatment": t}).predict("recovery")["yes"] for t in "ab"]
    do = [net.do(treatment=t).predict("recovery")["yes"] for t in "ab"]
    assert see[0] < see[1] and do[0] > do[1]  # Simpson's paradox
    np.testing.assert_allclose(do, [0.51 * 0.93 + 0.49 * 0.73, 0.51 * 0.87 + 0.49 * 0.69])


def test_do_with_evidence_is_the_mutilated_joint() -> None:
    net = smoking()
    after = net.do(smoking="yes").condition({"cancer": "no"})
    joint = {s: p for s, p in joint_of(net, ("smoking",)).items() if s[1] == "yes" and s[3] == "no"}
    total = sum(joint.values())
    assert float(net.do(smoking="yes").log_evidence({"cancer": "no"})) == pytest.approx(np.log(total))
    for name, place in (("gene", 0), ("tar", 2)):
        want = sum(p for s, p in joint.items() if s[place] == "yes") / total
        assert after.predict(name)["yes"] == pytest.approx(want)
    # evidence of before that does not depend on what is set
    before = net.condition({"gene": "yes"}).do(smoking="no").predict("cancer")["yes"]
    assert before == pytest.approx(0.2 * 0.7 + 0.8 * 0.4)


def test_do_is_surgery_and_a_policy_at_random_averages() -> None:
    net = kidney()
    by_hand = Network({**net.nodes, "treatment": {"a": 1.0, "b": 0.0}})
    assert net.do(treatment="a").edges == by_hand.edges == [("size", "recovery"), ("treatment", "recovery")]
    mixed = net.do({"treatment": [0.3, 0.7]}).predict("recovery")["yes"]
    each = [net.do(treatment=t).predict("recovery")["yes"] for t in "ab"]
    assert mixed == pytest.approx(0.3 * each[0] + 0.7 * each[1])


def test_doors() -> None:
    net = kidney()
    back = net.adjustment("treatment", "recovery")
    assert back.kind == "back door" and back.variables == ("size",)
    assert "Σ_{size} p(recovery | treatment, size) p(size)" in str(back)
    front = smoking().adjustment("smoking", "cancer", latent=["gene"])
    assert (front.kind, front.variables) == ("front door", ("tar",))
    with pytest.raises(DataError, match="size cannot be seen and drives both"):
        net.adjustment("treatment", "recovery", latent=["size"])
    assert net.adjustment("recovery", "treatment").formula.endswith("no arrow leads from recovery to treatment")


def test_front_door_formula_gives_the_effect() -> None:
    net = smoking()
    see = joint_of(net)
    p = lambda **at: sum(v for s, v in see.items() if all(s[net.names.index(k)] == w for k, w in at.items()))  # noqa: E731
    for x in YES:
        effect = sum(
            p(smoking=x, tar=m)
            / p(smoking=x)
            * sum(p(smoking=z, tar=m, cancer="yes") / p(smoking=z, tar=m) * p(smoking=z) for z in YES)
            for m in YES
        )
        assert net.do(smoking=x).predict("cancer")["yes"] == pytest.approx(effect)


def test_back_door_sets_give_the_effect_in_random_networks() -> None:
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(25):
        names = list("abcde")
        nodes = {}
        for i, name in enumerate(names):
            parents = [p for p in names[:i] if rng.random() < 0.5]
            nodes[name] = (parents, rng.dirichlet([1, 1], size=(2,) * len(parents)))
        net = Network(nodes, states=YES)
        latent = [n for n in "abc" if rng.random() < 0.3]
        if "d" in latent or "e" not in {c for _, c in net.edges}:
            continue
        try:
            adjust = net.adjustment("d", "e", latent=latent)
        except DataError:
            continue
        if adjust.kind != "back door" or "no arrow" in adjust.formula:
            continue
        found += 1
        for z in [adjust.variables, *adjust.also]:
            assert not set(z) & set(latent)
            effect = 0.0
            for at in product(*(YES for _ in z)):
                seen = dict(zip(z, at, strict=True))
                p = np.exp(float(net.log_evidence(seen))) if seen else 1.0
                effect += p * net.condition({**seen, "d": "yes"}).predict("e")["yes"]
            assert net.do(d="yes").predict("e")["yes"] == pytest.approx(effect)
    assert found >= 5


def test_numbers_are_set_without_noise() -> None:
    net = Network(
        {
            "z": LinearGaussian(mean=1.0, variance=2.0),
            "x": LinearGaussian(["z"], mean=0.5, weights=[2.0], variance=1.0),
            "y": LinearGaussian(["x", "z"], mean=0.0, weights=[3.0, -1.0], variance=0.5),
        }
    )
    law = net.do(x=2.0).predict("y")
    assert float(law.mean) == pytest.approx(3 * 2 - 1) and float(law.variance) == pytest.approx(0.5 + 2)
    assert net.do(x=2.0).probability_of_evidence == pytest.approx(1.0)
    seen = net.condition({"x": 2.0}).predict("y")
    assert abs(float(seen.mean) - float(law.mean)) > 0.1


def test_counterfactual_by_hand() -> None:
    """y = 2x + z + ε: with x = 1, z = 3 and y = 6 seen, ε = 1; had x been 4, y = 8 + 3 + 1."""
    net = Network(
        {
            "z": LinearGaussian(mean=0.0, variance=1.0),
            "x": LinearGaussian(["z"], weights=[1.0], variance=1.0),
            "y": LinearGaussian(["x", "z"], weights=[2.0, 1.0], variance=4.0),
        }
    )
    law = net.counterfactual("y", do={"x": 4.0}, seen={"x": 1.0, "z": 3.0, "y": 6.0})
    assert float(law.mean) == pytest.approx(12.0) and float(law.variance) == pytest.approx(0.0, abs=1e-9)
    # with z unseen: x = 1, y = 6. y' = y + 2·3 whatever z and ε are: only their sum matters.
    part = net.counterfactual("y", do={"x": 4.0}, seen={"x": 1.0, "y": 6.0})
    assert float(part.mean) == pytest.approx(12.0) and float(part.variance) == pytest.approx(0.0, abs=1e-9)
    # nothing seen: the effect of an action
    alone = net.counterfactual("y", do={"x": 4.0})
    action = net.do(x=4.0).predict("y")
    assert float(alone.mean) == pytest.approx(float(action.mean))
    assert float(alone.variance) == pytest.approx(float(action.variance))


def test_refusals() -> None:
    net = kidney()
    with pytest.raises(DataError, match="observed already"):
        net.condition({"treatment": "a"}).do(treatment="b")
    with pytest.raises(DataError, match="observed before treatment was set"):
        net.condition({"recovery": "yes"}).do(treatment="b")
    with pytest.raises(DataError, match="name at least one"):
        net.do()
    with pytest.raises(DataError, match="has the states a, b"):
        net.do(treatment="c")
    with pytest.raises(DataError, match="no variable 'dose'"):
        net.do(dose="c")
    with pytest.raises(DataError, match="is discrete"):
        net.counterfactual("recovery", do={"treatment": "a"}, seen={})
    assert isinstance(net, credo.Network)
