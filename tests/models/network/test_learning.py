"""Tables from rows: against counts, EM against numbers by hand, ignorance against its limits."""

import numpy as np
import pytest
from scipy.special import gammaln

import credo
from credo.core.predictive.classes import entropy_of
from credo.core.pytrees import changed
from credo.errors import DataError, NotConvergedWarning
from credo.infer import EM, MAP, ML, PlugIn
from credo.models.network import BDeu, Exact, HillClimb, LinearGaussian, Network, Table, counting, frames

YES = ("yes", "no")


def chain() -> Network:
    return Network(
        {"a": [0.3, 0.7], "b": ("a", [[0.8, 0.2], [0.2, 0.8]]), "c": ("b", [[0.9, 0.1], [0.3, 0.7]])}, states=YES
    )


def drawn(n: int, seed: int = 0, missing: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = (rng.random(n) > 0.3).astype(int)
    b = (rng.random(n) > np.array([0.8, 0.2])[a]).astype(int)
    c = (rng.random(n) > np.array([0.9, 0.3])[b]).astype(int)
    frame = {name: np.array(YES, object)[codes] for name, codes in zip("abc", (a, b, c), strict=True)}
    for column in frame.values():
        column[rng.random(n) < missing] = None
    return frame


def table(frame: dict[str, np.ndarray], parent: str, child: str) -> np.ndarray:
    return np.array([[((frame[parent] == p) & (frame[child] == k)).sum() for k in YES] for p in YES], dtype=float)


def test_tables_are_counts() -> None:
    frame = drawn(200)
    counts = table(frame, "a", "b")
    fitted = credo.fit(chain(), frame)
    np.testing.assert_allclose(fitted.nodes["b"].concentration, counts + 0.25)
    np.testing.assert_allclose(fitted.nodes["b"].values, (counts + 0.25) / (counts + 0.25).sum(1, keepdims=True))
    most = credo.fit(chain(), frame, using=ML())
    np.testing.assert_allclose(most.nodes["b"].values, counts / counts.sum(1, keepdims=True))
    assert most.nodes["b"].concentration is None
    mode = credo.fit(chain(), frame, using=MAP(), strength=8.0)
    np.testing.assert_allclose(mode.nodes["b"].values, (counts + 2) / (counts + 2).sum(1, keepdims=True))
    np.testing.assert_allclose(credo.learn(chain(), frame).nodes["b"].values, fitted.nodes["b"].values)
    mean = chain().condition(frame, using=PlugIn()).nodes["b"]
    np.testing.assert_allclose(mean.values, fitted.nodes["b"].values)


def test_rows_in_two_halves_are_rows_at_once_in_any_container() -> None:
    pd = pytest.importorskip("pandas")
    frame = drawn(100)
    halves = [{k: v[part] for k, v in frame.items()} for part in (slice(0, 60), slice(60, None))]
    twice = credo.fit(credo.fit(chain(), halves[0]), pd.DataFrame(halves[1])[["c", "a", "b"]])
    at_once = credo.fit(chain(), frame)
    for name in "abc":
        np.testing.assert_allclose(twice.nodes[name].concentration, at_once.nodes[name].concentration)


def test_evidence_of_rows_under_dirichlet_tables() -> None:
    frame = drawn(50)
    prior = Network(
        {name: Table(YES, law.parents, concentration=np.ones(law.values.shape)) for name, law in chain().nodes.items()}
    )
    want = 0.0
    for counts in (np.array([[(frame["a"] == s).sum() for s in YES]]), table(frame, "a", "b"), table(frame, "b", "c")):
        want += (gammaln(2) - gammaln(2 + counts.sum(1)) + gammaln(1 + counts).sum(1)).sum()
    assert float(prior.log_evidence(frame)) == pytest.approx(want)
    known = sum(
        np.log(float(np.exp(float(chain().log_evidence({k: v[i] for k, v in frame.items()}))))) for i in range(50)
    )
    assert float(chain().log_evidence(frame)) == pytest.approx(known)


def test_em_climbs_and_its_likelihood_is_that_of_the_rows() -> None:
    frame = drawn(150, seed=1, missing=0.25)
    told = chain().told(frame)
    prepared, rows = told.prepare(frame, strength=0.0)
    want = 0.0
    for i in range(150):
        seen = {k: v[i] for k, v in frame.items() if v[i] is not None}
        want += float(chain().log_evidence(seen)) if seen else 0.0
    assert float(prepared.evidence_of(rows)) == pytest.approx(want)
    climb = EM(accelerate=False, tolerance=1e-12, max_steps=500).climb(prepared, rows)
    assert np.all(np.diff(climb.objectives) >= 0) and climb.objectives[-1] > want
    # at the top expected counts give back the tables they were expected under
    counts = climb.belief.expect(rows)[0]["b"]
    np.testing.assert_allclose(counts / counts.sum(1, keepdims=True), climb.belief.laws["b"].values, atol=1e-5)


def test_expected_counts_against_enumeration() -> None:
    frame = drawn(30, seed=2, missing=0.4)
    net = chain()
    prepared, rows = net.told(frame).prepare(frame)
    found = prepared.expect(rows)[0]["b"]
    want = np.zeros((2, 2))
    for i in range(30):
        seen = {k: v[i] for k, v in frame.items() if v[i] is not None}
        total = np.exp(float(net.log_evidence(seen))) if seen else 1.0
        for p, a in enumerate(YES):
            for k, b in enumerate(YES):
                if seen.get("a", a) == a and seen.get("b", b) == b:
                    want[p, k] += np.exp(float(net.log_evidence({**seen, "a": a, "b": b}))) / total
    np.testing.assert_allclose(found, want)


def test_missing_cells_and_a_hidden_variable_are_learned() -> None:
    fitted = credo.fit(chain(), drawn(4000, seed=3, missing=0.2))
    for name in "abc":
        law = fitted.nodes[name]
        rows = law.concentration.sum(-1, keepdims=True)
        error = np.sqrt(law.values * (1 - law.values) / rows)
        assert np.all(np.abs(law.values - chain().nodes[name].values) < 4.5 * 1.5 * error)
    frame = drawn(300, seed=4)
    frame["b"][:] = None
    learned = credo.learn(chain(), frame, report=True)
    assert len(learned.notes) == 4 and isinstance(learned.belief, Network)


def test_gaussian_tables_are_regressions() -> None:
    rng = np.random.default_rng(0)
    n = 400
    group = rng.integers(2, size=n)
    x = rng.normal(size=n)
    y = np.where(group == 0, 1 + 2 * x, -1 - x) + 0.3 * rng.normal(size=n)
    net = Network(
        {
            "group": [0.5, 0.5],
            "x": LinearGaussian(),
            "y": LinearGaussian(["group", "x"], mean=[0.0, 0.0], weights=[[0.0], [0.0]], variance=[1.0, 1.0]),
        },
        states={"group": YES},
    )
    frame = {"group": np.array(YES)[group], "x": x, "y": y}
    law = credo.fit(net, frame, using=ML()).nodes["y"]
    for g in range(2):
        design = np.column_stack([np.ones((group == g).sum()), x[group == g]])
        weights, rest, *_ = np.linalg.lstsq(design, y[group == g])
        np.testing.assert_allclose([law.mean[g], law.weights[g, 0]], weights)
        assert law.variance[g] == pytest.approx(rest[0] / len(design))
    fitted = credo.fit(net, frame)
    np.testing.assert_allclose(fitted.nodes["y"].mean, law.mean, atol=0.05)
    # a group that is missing in some rows is told by the numbers
    cells = np.array(YES, object)[group]
    cells[rng.random(n) < 0.3] = None
    again = credo.fit(net.with_nodes({"y": fitted.nodes["y"]}), {**frame, "group": cells}, using=ML()).nodes["y"]
    np.testing.assert_allclose(again.mean, law.mean, atol=0.15)


def mixed() -> Network:
    return Network(
        {
            "g": [0.4, 0.6],
            "x": LinearGaussian(["g"], [0.0, 3.0], variance=[1.0, 0.5]),
            "y": LinearGaussian(["x", "g"], [1.0, -2.0], [[0.8], [-1.5]], 0.3),
            "z": LinearGaussian(["y"], 0.5, [2.0], 1.2),
            "h": ("g", [[0.9, 0.1], [0.3, 0.7]]),
        },
        states=YES,
    )


def with_gaps(net: Network, n: int, share: float, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = {name: column.astype(object) for name, column in net.sample(n, seed=seed).items()}
    for column in frame.values():
        column[rng.random(n) < share] = None
    return frame


def one_row(net: Network, frame: dict[str, np.ndarray], i: int) -> dict[str, object]:
    return {name: column[i] for name, column in frame.items() if column[i] is not None}


def test_numbers_may_be_missing() -> None:
    net, frame = mixed(), with_gaps(mixed(), 12, 0.35)
    prepared, rows = net.told(frame).prepare(frame)
    told = changed(prepared, network=net)  # at the tables that made the rows
    seen = [net.condition(one_row(net, frame, i)) for i in range(12)]
    assert float(told.evidence_of(rows)) == pytest.approx(
        sum(float(net.log_evidence(one_row(net, frame, i))) for i in range(12) if seen[i].evidence)
    )
    expected = told.expect(rows)[0]
    for name, k in (("x", 0), ("z", 0)):  # E[z] and E[z²] of every row, from the network itself
        laws = [each.predict(name) for each in seen]
        moments = expected[name].sum(0) if name == "x" else expected[name]
        np.testing.assert_allclose(moments[k, -1], sum(float(law.mean) for law in laws))
        np.testing.assert_allclose(moments[-1, -1], sum(float(law.mean) ** 2 + float(law.variance) for law in laws))
    np.testing.assert_allclose(expected["x"][0, 0, 0], sum(float(each.predict("g")["yes"]) for each in seen))
    climb = EM(accelerate=False, max_steps=6).climb(prepared, rows)
    assert np.all(np.diff(climb.objectives) >= 0)


@pytest.mark.slow
def test_networks_of_numbers_are_learned_from_rows_with_gaps() -> None:
    fitted = credo.fit(mixed(), with_gaps(mixed(), 1500, 0.15, seed=1))
    np.testing.assert_allclose(fitted.nodes["x"].mean, [0.0, 3.0], atol=4.5 * 1.3 * np.sqrt(1.0 / 600))
    np.testing.assert_allclose(fitted.nodes["y"].weights, [[0.8], [-1.5]], atol=4.5 * 1.4 * np.sqrt(0.6 / 600))
    np.testing.assert_allclose(fitted.nodes["z"].variance, 1.2, atol=4.5 * 1.3 * 1.2 * np.sqrt(2 / 1500))


@pytest.mark.slow
def test_arrows_are_learned_from_rows_with_gaps() -> None:
    """Structural EM finds the class that complete rows tell; what was filled in has the law of what is missing."""
    assert Network.learn_structure(drawn(1500, seed=5, missing=0.2)).distance(chain()) == 0
    edges = Network.edge_probabilities(drawn(1500, seed=5, missing=0.2))
    assert edges.adjacent[0, 1] > 0.99 and edges.adjacent[0, 2] < 0.5
    numbers = {name: column for name, column in with_gaps(mixed(), 400, 0.06, seed=2).items() if name != "h"}
    assert {frozenset(edge) for edge in Network.learn_structure(numbers).edges} == {
        frozenset(edge) for edge in (("g", "x"), ("g", "y"), ("x", "y"), ("y", "z"))
    }
    net = mixed()
    coded = frames.coded(
        net, {n: np.repeat(c, 4000) for n, c in {"g": [None], "x": [None], "y": [1.0], "z": [2.0], "h": [None]}.items()}
    )
    found = counting.filled(net, coded, np.random.default_rng(0))
    after = net.condition({"y": 1.0, "z": 2.0})
    p, law = float(after.predict("g")["no"]), after.predict("x")
    assert abs(found["g"].mean() - p) < 4.5 * np.sqrt(p * (1 - p) / 4000)
    assert abs(found["x"].mean() - law.mean) < 4.5 * np.sqrt(law.variance / 4000)


def test_ignorance_shrinks_with_rows_and_adds_up() -> None:
    shares = []
    for n in (10, 100, 2000):
        law = credo.fit(chain(), drawn(n)).condition({"c": "yes"}).predict("a")
        total = float(entropy_of(np.asarray(law.probs)))
        assert float(law.aleatoric + law.epistemic) == pytest.approx(total)
        shares.append(float(law.epistemic))
    assert shares[0] > 3 * shares[1] > 9 * shares[2] > 0
    assert float(chain().predict("a").epistemic) == pytest.approx(0.0, abs=1e-12)
    # of one table without evidence there is a closed form: that of the Dirichlet
    fitted = credo.fit(chain(), drawn(10))
    want = credo.DirichletCategorical(fitted.nodes["a"].concentration).predict()
    assert float(fitted.predict("a").epistemic) == pytest.approx(float(want.epistemic), rel=0.5)
    rows = fitted.predict("b", {"a": np.array(["yes", "no"])})
    np.testing.assert_allclose(rows.aleatoric + rows.epistemic, entropy_of(np.asarray(rows.probs)))
    assert np.all(np.asarray(rows.epistemic) > 0)


def test_structure_from_a_frame() -> None:
    frame = drawn(1000)
    net = Network.learn_structure(frame, using=Exact())
    assert net.distance(chain()) == 0
    assert net.equivalence_class().lines == (("a", "b"), ("b", "c")) and not net.equivalence_class().arrows
    known = Network.learn_structure(frame, BDeu(2.0), using=HillClimb(), white=[("a", "b")], black=[("c", "b")])
    assert set(known.edges) == {("a", "b"), ("b", "c")}
    np.testing.assert_allclose(known.nodes["c"].concentration, table(frame, "b", "c")[::-1, ::-1] + 0.5)
    edges = Network.edge_probabilities(frame)
    assert edges.adjacent[0, 1] > 0.99 and edges["a", "c"] < 0.2
    assert "→" in str(edges)


def test_refusals() -> None:
    frame = drawn(20)
    with pytest.raises(DataError, match="'x' is a number and missing in every row"):
        credo.fit(Network({"x": LinearGaussian()}), {"x": np.full(3, np.nan)})
    with pytest.raises(DataError, match="one value only"):
        Network.learn_structure({**frame, "z": ["u"] * 20})
    with pytest.raises(DataError, match="takes using=Exact, HillClimb, Tabu"):
        Network.learn_structure(frame, using=ML())
    with pytest.raises(DataError, match="takes using=Bootstrap, EveryGraph, OrderMCMC"):
        Network.edge_probabilities(frame, using=Exact())
    with pytest.raises(DataError, match="use score='bic'"):
        Network.learn_structure({**frame, "x": np.linspace(0, 1, 20)}, "bdeu")
    with pytest.raises(DataError, match="has no mode"):
        credo.fit(credo.fit(chain(), frame), frame, using=MAP())
    with pytest.raises(DataError, match="has no prior"):
        chain().condition(frame, using=ML(), strength=2.0)
    with pytest.raises(DataError, match="the same variables"):
        chain().distance(Network({"a": [0.5, 0.5]}))
    few = {k: v[:1] for k, v in frame.items()}
    with pytest.warns(NotConvergedWarning, match="taken as uniform"):
        credo.fit(chain(), few, using=ML())
