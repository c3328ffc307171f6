"""Networks against enumeration of all joint states, `core.gaussian`, and each other."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import credo
from credo import Network
from credo.core.gaussian import Gaussian
from credo.errors import DataError
from credo.models.network import LinearGaussian, NoisyOr, Table

ASIA = {
    "asia": [0.01, 0.99],
    "smoke": [0.5, 0.5],
    "tub": ("asia", [[0.05, 0.95], [0.01, 0.99]]),
    "lung": ("smoke", [[0.1, 0.9], [0.01, 0.99]]),
    "bronc": ("smoke", [[0.6, 0.4], [0.3, 0.7]]),
    "either": (["lung", "tub"], [[[1, 0], [1, 0]], [[1, 0], [0, 1]]]),
    "xray": ("either", [[0.98, 0.02], [0.05, 0.95]]),
    "dysp": (["bronc", "either"], [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]]),
}


@pytest.fixture
def asia():
    return Network(ASIA, states=("yes", "no"))


def random_network(seed, n=6, zeros=0.2):
    """Tables at random over a random order, some cells zero."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=n)
    nodes = {}
    for i in range(n):
        parents = [j for j in range(i) if rng.random() < 0.45]
        values = rng.dirichlet(np.ones(sizes[i]), size=tuple(sizes[j] for j in parents))
        values = values * (rng.random(values.shape) > zeros)
        values[..., 0] += (values.sum(-1) == 0) * 1.0
        nodes[f"v{i}"] = ([f"v{j}" for j in parents], values / values.sum(-1, keepdims=True))
    return Network(nodes)


def enumerated(net):
    """The joint table by brute force: every state of every variable."""
    names, states = net.names, net.states
    joint = np.ones([len(states[n]) for n in names])
    for index in itertools.product(*(range(len(states[n])) for n in names)):
        at = dict(zip(names, index, strict=True))
        for n in names:
            law = net.nodes[n]
            joint[index] *= law.values[(*(at[p] for p in law.parents), at[n])]
    return joint


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_marginals_evidence_and_explanations_are_those_of_the_joint_table(seed):
    net = random_network(seed)
    rng = np.random.default_rng(seed + 1)
    joint = enumerated(net)
    at = np.unravel_index(rng.choice(joint.size, p=joint.ravel() / joint.sum()), joint.shape)
    hard, soft = rng.permutation(len(net.names))[:2]
    vector = rng.random(joint.shape[soft]) + 0.01
    observed = {net.names[hard]: str(at[hard]), net.names[soft]: vector}
    likelihood = np.zeros(joint.shape[hard])
    likelihood[at[hard]] = 1.0
    for axis, values in ((hard, likelihood), (soft, vector)):
        joint = joint * values.reshape([-1 if i == axis else 1 for i in range(joint.ndim)])
    after = net.condition(observed)
    np.testing.assert_allclose(net.log_evidence(observed), np.log(joint.sum()), rtol=1e-10, atol=1e-12)
    marginals = after.marginals()
    for i, name in enumerate(net.names):
        want = joint.sum(tuple(a for a in range(joint.ndim) if a != i)) / joint.sum()
        np.testing.assert_allclose(list(marginals[name].values()), want, atol=1e-12)
        np.testing.assert_allclose(after.predict(name).probs, want, atol=1e-12)
    best = after.explain()
    index = tuple(net.states[n].index(best[n]) for n in net.names)
    assert joint[index] == pytest.approx(joint.max(), rel=1e-12)
    assert best.log_probability == pytest.approx(np.log(joint.max() / joint.sum()), abs=1e-10)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_rows_of_a_frame_are_answered_as_one_by_one(seed):
    net = random_network(seed, zeros=0.0)
    rng = np.random.default_rng(seed)
    draws = net.sample(12, seed=seed)
    query = net.names[rng.integers(len(net.names))]
    frame = {n: np.where(rng.random(12) < 0.4, None, v) for n, v in draws.items() if n != query}
    together = net.condition({query: np.linspace(1, 2, len(net.states[query]))}).predict(query, frame)
    for i in range(12):
        row = {n: v[i] for n, v in frame.items() if v[i] is not None}
        row[query] = np.linspace(1, 2, len(net.states[query]))
        np.testing.assert_allclose(together.probs[i], net.condition(row).predict(query).probs, atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_d_separation_is_independence_in_the_joint_table(seed):
    net = random_network(seed, n=5, zeros=0.0)
    joint, rng = enumerated(net), np.random.default_rng(seed)
    for x, y in itertools.combinations(range(5), 2):
        given_ = [i for i in range(5) if i not in (x, y) and rng.random() < 0.4]
        table = joint.sum(tuple(i for i in range(5) if i not in (x, y, *given_)), keepdims=True)
        product = table.sum(x, keepdims=True) * table.sum(y, keepdims=True)
        independent = np.allclose(table * table.sum((x, y), keepdims=True), product, atol=1e-12)
        found = net.d_separated(net.names[x], net.names[y], [net.names[i] for i in given_])
        # At random tables are faithful, except that a variable of one state depends on nothing.
        if bool(found):
            assert independent
        elif min(joint.shape) > 1:
            assert not independent
        assert all(trail.open != bool(found) for trail in found.trails)


def test_a_reason_names_the_trails(asia):
    assert asia.d_separated("smoke", "tub")
    apart = asia.d_separated("smoke", "tub", given=["dysp"])
    assert not apart
    text = str(apart)
    assert "smoke → bronc → dysp ← either ← tub  open: the collider dysp is given" in text
    assert "smoke → lung → either ← tub  open: below the collider either one is given" in text
    assert "blocked: the collider dysp is not given" in str(asia.d_separated("smoke", "tub"))
    assert str(asia.trails("asia", "xray")[0]).startswith("asia → tub → either → xray  open")
    assert asia.markov_blanket("either") == {"lung", "tub", "xray", "dysp", "bronc"}
    assert frozenset({"lung", "tub"}) in asia.moral_graph() and len(asia.moral_graph()) == 10
    assert asia.factorization.endswith("p(xray | either) p(dysp | bronc, either)")
    with pytest.raises(DataError, match="two variables that are not given"):
        asia.d_separated("smoke", "tub", given="tub")


def test_asking_asia(asia):
    after = asia.condition({"xray": "yes"})
    law = after.predict("dysp")
    assert law.states == ("yes", "no") and law.best == "yes"
    assert float(law["yes"]) == pytest.approx(0.6408, abs=5e-5)
    assert str(law).startswith("yes 0.64")
    assert after.condition({"dysp": "yes"}).marginals(["lung"])["lung"]["yes"] > after.marginals()["lung"]["yes"]
    assert asia.condition({"xray": [0.2, 0.8]}).predict("lung")["yes"] < asia.predict("lung")["yes"]
    assert after.unconditioned().evidence is None
    assert str(after) == "Network of 8 variables and 8 arrows, 1 observation"


def gaussian_network():
    return Network(
        {
            "c": LinearGaussian(["a", "b"], 0.5, [2.0, -1.0], 0.3),
            "a": LinearGaussian([], 1.0, variance=2.0),
            "b": LinearGaussian(["a"], -1.0, [0.7], 0.5),
            "d": LinearGaussian(["c"], 0.0, [1.5], 0.1),
        }
    )


def test_numbers_are_the_joint_gaussian():
    net = gaussian_network()
    weights = np.zeros((4, 4))  # order a, b, c, d
    weights[1, 0], weights[2, :2], weights[3, 2] = 0.7, [2.0, -1.0], 1.5
    inverse = np.linalg.inv(np.eye(4) - weights)
    joint = Gaussian(inverse @ [1.0, -1.0, 0.5, 0.0], inverse @ np.diag([2.0, 0.5, 0.3, 0.1]) @ inverse.T)
    want = joint.conditional([3, 1], np.array([2.0, 0.4]))
    after = net.condition({"d": 2.0, "b": 0.4})
    for i, name in enumerate("ac"):
        law = after.predict(name)
        np.testing.assert_allclose([law.mean, law.variance], [want.mean[i], want.variance[i]], rtol=1e-10)
    np.testing.assert_allclose(
        net.log_evidence({"d": 2.0, "b": 0.4}), joint.marginal([3, 1]).log_prob(np.array([2.0, 0.4]))
    )
    best = after.explain()
    np.testing.assert_allclose([best["a"], best["c"]], want.mean, rtol=1e-10)
    assert best.log_probability == pytest.approx(float(want.log_prob(want.mean)))
    frame = {"d": [2.0, 0.0, np.nan], "b": [0.4, np.nan, np.nan]}
    rows = net.predict("a", frame)
    np.testing.assert_allclose(rows.mean, [want.mean[0], joint.conditional([3], np.zeros(1)).mean[0], 1.0])
    np.testing.assert_allclose(after.marginals()["a"]["std"], np.sqrt(want.variance[0]))


def mixed_network():
    return Network(
        {
            "kind": {"u": 0.3, "v": 0.7},
            "broken": ("kind", {"u": {"yes": 0.1, "no": 0.9}, "v": {"yes": 0.4, "no": 0.6}}),
            "x": LinearGaussian(["kind", "broken"], [[0.0, 1.0], [2.0, 5.0]], variance=[[1.0, 0.5], [2.0, 0.7]]),
            "y": LinearGaussian(["x", "kind"], [1.0, -1.0], [[0.5], [2.0]], 0.4),
            "alarm": ("broken", [[0.9, 0.1], [0.2, 0.8]]),
        }
    )


def test_mixtures_of_gaussians_by_quadrature_over_states():
    net = mixed_network()
    weights, parts = [], []
    for kind, broken in itertools.product(range(2), range(2)):
        p = [0.3, 0.7][kind] * [[0.1, 0.9], [0.4, 0.6]][kind][broken] * [0.9, 0.2][broken]
        mean, variance = [[0.0, 1.0], [2.0, 5.0]][kind][broken], [[1.0, 0.5], [2.0, 0.7]][kind][broken]
        w, offset = [0.5, 2.0][kind], [1.0, -1.0][kind]
        law = Gaussian(
            np.array([mean, offset + w * mean]),
            np.array([[variance, w * variance], [w * variance, w**2 * variance + 0.4]]),
        )
        weights.append(p * np.exp(law.marginal([1]).log_prob(np.array([1.7]))))
        parts.append(law.conditional([1], np.array([1.7])))
    weights = np.array(weights)
    observed = {"alarm": "0", "y": 1.7}
    after = net.condition(observed)
    np.testing.assert_allclose(net.log_evidence(observed), np.log(weights.sum()))
    share = weights / weights.sum()
    law = after.predict("x")
    means, variances = np.array([p.mean[0] for p in parts]), np.array([p.variance[0] for p in parts])
    np.testing.assert_allclose(law.mean, share @ means)
    np.testing.assert_allclose(law.variance, share @ (variances + means**2) - (share @ means) ** 2)
    np.testing.assert_allclose(law.epistemic, 0, atol=1e-12)
    np.testing.assert_allclose(after.predict("kind").probs, share.reshape(2, 2).sum(1))
    np.testing.assert_allclose(after.marginals()["x"]["mean"], law.mean)
    peaks = weights * np.array([np.exp(p.log_prob(p.mean)) for p in parts])
    best = after.explain()
    kind, broken = np.unravel_index(np.argmax(peaks), (2, 2))
    assert (best["kind"], best["broken"]) == (("u", "v")[kind], ("yes", "no")[broken])
    np.testing.assert_allclose(best["x"], means[np.argmax(peaks)])
    frame = {"alarm": ["0", "1", None], "y": [1.7, None, 0.3], "kind": [None, "u", "v"]}
    rows = net.predict("x", frame)
    for i in range(3):
        row = {n: v[i] for n, v in frame.items() if v[i] is not None}
        one = net.condition(row).predict("x")
        np.testing.assert_allclose([rows.mean[i], rows.variance[i]], [one.mean, one.variance])
        if "kind" not in row:
            np.testing.assert_allclose(
                net.predict("kind", frame | {"kind": [None] * 3}).probs[i], net.condition(row).predict("kind").probs
            )


def test_numbers_that_were_observed_cut_a_component():
    """Thirty numbers in a chain with a discrete parent each: 2³⁰ joint states, of which those between observed numbers
    matter alone; against the same question to the part that is left."""
    nodes = {f"d{i}": [0.3, 0.7] for i in range(30)}
    nodes |= {
        f"x{i}": LinearGaussian([f"d{i}", *[f"x{i - 1}"][:i]], [0.0, 1.0], [[0.5]] * 2 if i else (), 1.0 + i / 30)
        for i in range(30)
    }
    net = Network(nodes)
    seen = {f"x{i}": 0.1 * i for i in range(30) if i not in (14, 15)}
    part = Network(
        {n: nodes[n] for i in range(13, 17) for n in (f"d{i}", f"x{i}") if n not in ("d13", "x13")}
        | {"d13": [0.3, 0.7], "x13": LinearGaussian((), 1.3, (), 1.0)}
    ).condition({"x13": 1.3, "x16": 1.6})
    after = net.condition(seen)
    for name in ("x14", "x15"):
        np.testing.assert_allclose(after.predict(name).mean, part.predict(name).mean)
        np.testing.assert_allclose(after.predict(name).variance, part.predict(name).variance)
    np.testing.assert_allclose(after.predict("d16").probs, part.predict("d16").probs)
    rows = net.predict("x3", {f"d{i}": ["0", "1"] for i in range(29)} | {"x5": [0.5, None]})  # known in each row
    one = net.condition({f"d{i}": "0" for i in range(29)} | {"x5": 0.5}).predict("x3")
    np.testing.assert_allclose([rows.mean[0], rows.variance[0]], [one.mean, one.variance])
    assert net.predict("x3").shape == ()
    with pytest.raises(DataError, match=r"30 discrete variables .*1,073,741,824 joint states.*LikelihoodWeighting"):
        net.predict("x29")


def test_noisy_or_is_its_table():
    net = Network(
        {
            "cold": {"no": 0.9, "yes": 0.1},
            "flu": {"yes": 0.2, "no": 0.8},
            "grade": [0.5, 0.3, 0.2],
            "fever": NoisyOr({"cold": 0.4, "flu": 0.8, "grade": [0, 0.1, 0.5]}, leak=0.01, states=("no", "yes")),
        }
    )
    values = net.nodes["fever"].values
    assert values[0, 1, 0, 1] == pytest.approx(0.01)
    assert values[1, 0, 2, 0] == pytest.approx(0.99 * 0.6 * 0.2 * 0.5)
    with pytest.raises(DataError, match="strength for each state of 'grade'"):
        Network({"grade": [0.5, 0.3, 0.2], "fever": NoisyOr({"grade": 0.4})})
    many = {f"c{i}": [0.5, 0.5] for i in range(40)}
    with pytest.raises(DataError, match="its 40 causes has a table of"):
        Network({**many, "fever": NoisyOr(dict.fromkeys(many, 0.1), states=("0", "1"))})


def test_draws_given_evidence_are_from_the_posterior():
    net = mixed_network().condition({"alarm": "0", "y": 1.7})
    draws = net.sample(4000, seed=1)
    p = float(net.predict("kind")["v"])
    assert abs(np.mean(draws["kind"] == "v") - p) < 4.5 * np.sqrt(p * (1 - p) / 4000)
    law = net.predict("x")
    assert abs(draws["x"].mean() - law.mean) < 4.5 * np.sqrt(law.variance / 4000)
    assert set(draws["alarm"]) == {"0"} and set(draws["y"]) == {1.7}
    forward = mixed_network().sample(4000, seed=2)
    assert abs(np.mean(forward["broken"] == "yes") - 0.31) < 4.5 * np.sqrt(0.31 * 0.69 / 4000)


def test_a_network_too_wide_is_refused_before_memory_runs_out():
    rng = np.random.default_rng(0)
    nodes = {f"a{i}": rng.dirichlet(np.ones(4)) for i in range(20)}
    for i, j in itertools.combinations(range(20), 2):
        nodes[f"b{i}_{j}"] = ([f"a{i}", f"a{j}"], rng.dirichlet(np.ones(2), size=(4, 4)))
    net = Network(nodes)
    with pytest.raises(DataError, match=r"needs 1.1e\+12 numbers .*20 variables.*using=LikelihoodWeighting"):
        net.marginals()
    assert float(net.predict("b3_7")["0"]) > 0  # what is barren does no harm


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({}, "must be the laws"),
        ({"a": [0.5, 0.6]}, r"'a' must hold probabilities.*sum of 1.1, off by \+0.1, in the row without parents"),
        ({"a": [0.5, 0.5], "b": ("a", [[0.5, 0.5], [0.2, 0.7]])}, r"off by -0.1, in the row a = 1"),
        ({"a": [1.5, -0.5]}, "probabilities ≥ 0"),
        ({"a": ("b", [[1.0]]), "b": ("c", [[1.0]]), "c": ("a", [[1.0]])}, "must not form a cycle, found a → c → b → a"),
        ({"a": ("z", [[0.5, 0.5]])}, "'a' has the parent 'z'"),
        ({"a": ("z", {"x": [0.5, 0.5]})}, "'a' has the parent 'z'"),
        ({"a": [0.5, 0.5], "b": ("a", {"0": [1, 0], "2": [1, 0]})}, r"a row for each of the 2 .*found \(2\)"),
        ({"a": [0.5, 0.5], "b": ("a", [0.5, 0.5])}, "an axis for each parent"),
        ({"a": [0.5, 0.5], "b": ("a", [[0.5, 0.5]] * 3)}, r"must have shape \(2, 2\).*found \(3, 2\)"),
        ({"a": Table(["x", "y"], [], [0.5, np.nan])}, "found a sum of nan"),
        ({"a": LinearGaussian([], variance=0.0)}, "variance of 'a' must be positive"),
        ({"a": LinearGaussian([]), "b": ("a", [[0.5, 0.5]])}, "its parent 'a' is a number"),
        ({"a": LinearGaussian([]), "b": LinearGaussian(["a"], 0.0, [1.0, 2.0])}, r"weights of 'b' must have shape"),
        ({"a": "text"}, "must be a number"),
    ],
)  # fmt: skip
def test_what_is_no_network_is_refused_in_a_sentence(nodes, message):
    with pytest.raises(DataError, match=message):
        Network(nodes)


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        ({"xray": "maybe"}, "'xray' has the states yes, no, found 'maybe'"),
        ({"x-ray": "yes"}, "no variable 'x-ray'"),
        ({"xray": [0.2, 0.3, 0.5]}, "a likelihood ≥ 0 of each state"),
        ({"xray": [0.0, 0.0]}, "not all zero"),
        ("xray", "found a str"),
        ({"either": "no", "tub": "yes"}, "probability zero"),
    ],
)
def test_evidence_that_makes_no_sense_is_refused(asia, observed, message):
    with pytest.raises(DataError, match=message):
        asia.condition(observed).predict("dysp")
    with pytest.raises(DataError, match=message):
        asia.condition(observed).marginals()


def test_frames_that_make_no_sense_are_refused(asia):
    for frame, message in [
        ({"x-ray": ["yes"]}, "column 'x-ray'"),
        ({"xray": ["yes", "maybe"]}, "found 'maybe' at row 1"),
        ({"either": ["yes", "no"], "tub": ["no", "yes"]}, "row 1 of the frame has probability zero"),
        ({"dysp": ["yes"]}, "leave out the column that is asked"),
        ({}, "empty"),
        ([["yes"]], "columns by name"),
    ]:
        with pytest.raises(DataError, match=message):
            asia.predict("dysp", frame)
    with pytest.raises(DataError, match="says something else"):
        asia.condition({"xray": "yes"}).predict("dysp", {"xray": ["no"]})


def test_a_file_brings_it_back(tmp_path):
    net = mixed_network().condition({"alarm": "0"})
    again = credo.load(credo.save(net, tmp_path / "net"))
    assert again.names == net.names and again.predict("x").mean == net.predict("x").mean


def test_impossible_evidence_is_refused_even_where_it_says_nothing_of_the_question():
    net = Network({"a": [1.0, 0.0], "b": [0.5, 0.5], "x": LinearGaussian(["b"], [0.0, 1.0])})
    for name in ("b", "x"):
        with pytest.raises(DataError, match="what was observed has probability zero"):
            net.condition({"a": "1"}).predict(name)
    assert float(net.log_evidence({"a": "1"})) == -np.inf
    with pytest.raises(DataError, match="was observed to be 1 and cannot be 2 too"):
        net.condition({"x": 1.0}).condition({"x": 2.0})
    again = net.condition({"b": [0.5, 1.0]}).condition({"b": [0.5, 1.0]})
    np.testing.assert_allclose(again.predict("b").probs, [0.2, 0.8])
