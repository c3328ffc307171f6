"""Structure: scores against the evidence by hand, searches and edge probabilities against all 543 graphs on 4 nodes."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import gammaln

from credo.errors import DataError
from credo.models.network.edge_posterior import Bootstrap, EveryGraph, OrderMCMC
from credo.models.network.equivalence import completed, hamming
from credo.models.network.scores import BIC, BDeu, Columns, LocalScores
from credo.models.network.structure import Exact, HillClimb, StructureProblem, Tabu, reachability

NAMES = ("a", "b", "c", "d")
SIZES = np.array([2, 3, 2, 2])


def drawn(n: int, seed: int = 0) -> np.ndarray:
    """a → b → d ← c, weakly."""
    rng = np.random.default_rng(seed)
    a, c = rng.integers(2, size=n), rng.integers(2, size=n)
    b = np.where(rng.random(n) < 0.4, a, rng.integers(3, size=n))
    d = np.where(rng.random(n) < 0.5, (b > 0) ^ (c == 1), rng.integers(2, size=n)).astype(int)
    return np.stack([a, b, c, d], axis=1)


def every_graph() -> list[np.ndarray]:
    graphs = []
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    for kinds in product(range(3), repeat=6):
        adjacency = np.zeros((4, 4), dtype=bool)
        for (i, j), kind in zip(pairs, kinds, strict=True):
            adjacency[i, j], adjacency[j, i] = kind == 1, kind == 2
        if reachability(adjacency) is not None:
            graphs.append(adjacency)
    assert len(graphs) == 543
    return graphs


GRAPHS = every_graph()


def bdeu_by_hand(codes: np.ndarray, adjacency: np.ndarray, strength: float) -> float:
    total = 0.0
    for j in range(4):
        parents = np.flatnonzero(adjacency[:, j])
        q, r = int(np.prod(SIZES[parents])), int(SIZES[j])
        for state in product(*(range(SIZES[p]) for p in parents)):
            rows = codes[(codes[:, parents] == state).all(1)]
            counts = np.bincount(rows[:, j], minlength=r)
            total += gammaln(strength / q) - gammaln(strength / q + counts.sum())
            total += (gammaln(strength / (q * r) + counts) - gammaln(strength / (q * r))).sum()
    return total


def height(problem: StructureProblem, adjacency: np.ndarray) -> float:
    return sum(problem.score(j, sum(1 << int(i) for i in np.flatnonzero(adjacency[:, j]))) for j in range(4))


def test_bdeu_is_the_evidence_of_the_tables() -> None:
    codes = drawn(60)
    problem = StructureProblem(Columns(NAMES, codes, SIZES), BDeu(2.0))
    for adjacency in GRAPHS[::40]:
        assert height(problem, adjacency) == pytest.approx(bdeu_by_hand(codes, adjacency, 2.0), abs=1e-9)


def test_bic_of_categories_is_the_likelihood_less_its_free_numbers() -> None:
    codes = drawn(80)
    score = LocalScores(Columns(NAMES, codes, SIZES), BIC())
    want = 0.0
    for state in product(range(2), range(2)):
        counts = np.bincount(codes[(codes[:, [0, 2]] == state).all(1), 1], minlength=3)
        want += (counts[counts > 0] * np.log(counts[counts > 0] / counts.sum())).sum()
    assert score(1, 0b101) == pytest.approx(want - 0.5 * np.log(80) * 4 * 2)


def test_bic_of_numbers_is_that_of_the_regression() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3))
    x[:, 2] += 0.8 * x[:, 0] - 0.3 * x[:, 1]
    scale = x.std(0)
    score = LocalScores(Columns(("a", "b", "c"), np.zeros((100, 3), int), np.zeros(3, int), x), BIC())
    design = np.column_stack([np.ones(100), x[:, :2]])
    residual = x[:, 2] - design @ np.linalg.lstsq(design, x[:, 2])[0]
    want = -50 * (np.log(2 * np.pi * residual.var() / scale[2] ** 2) + 1) - 0.5 * np.log(100) * 4
    assert score(2, 0b011) == pytest.approx(want)


def test_equivalent_graphs_have_equal_scores_and_others_another_class() -> None:
    problem = StructureProblem(Columns(NAMES, drawn(200), SIZES), "bdeu")
    classes: dict[bytes, list[float]] = {}
    for adjacency in GRAPHS:
        classes.setdefault(completed(adjacency).tobytes(), []).append(height(problem, adjacency))
    assert len(classes) == 185  # Gillispie & Perlman (2001)
    assert max(max(each) - min(each) for each in classes.values()) < 1e-8


def test_distance_of_classes() -> None:
    chain, collider = np.zeros((3, 3), bool), np.zeros((3, 3), bool)
    chain[0, 1] = chain[1, 2] = True
    collider[0, 1] = collider[2, 1] = True
    assert hamming(completed(chain), completed(chain.T)) == 0
    assert hamming(completed(chain), completed(collider)) == 2
    assert hamming(completed(chain), completed(np.zeros((3, 3), bool))) == 2


@pytest.mark.parametrize("score", ["bdeu", "bic"])
def test_exact_is_the_best_of_all_graphs_and_searches_do_not_beat_it(score: str) -> None:
    for seed in range(3):
        problem = StructureProblem(Columns(NAMES, drawn(150, seed), SIZES), score)
        best = max(height(problem, adjacency) for adjacency in GRAPHS)
        assert Exact().search(problem).score == pytest.approx(best, abs=1e-9)
        climbed, beyond = HillClimb().search(problem), Tabu().search(problem)
        assert climbed.score <= beyond.score + 1e-9 <= best + 1e-8
        # no single change of the graph that was climbed to gains
        near = [g for g in GRAPHS if np.triu((g != climbed.adjacency) | (g != climbed.adjacency).T).sum() == 1]
        assert all(height(problem, g) <= climbed.score + 1e-6 for g in near)


def test_lists_are_kept() -> None:
    columns = Columns(NAMES, drawn(300), SIZES)
    for method in (HillClimb(), Tabu(), Exact()):
        problem = StructureProblem(columns, white=[("d", "a")], black=[("a", "b"), ("b", "a")], max_parents=1)
        found = method.search(problem).adjacency
        assert found[3, 0] and not found[0, 1] and not found[1, 0] and found.sum(0).max() <= 1
        allowed = [g for g in GRAPHS if g[3, 0] and not g[0, 1] and not g[1, 0] and g.sum(0).max() <= 1]
        if isinstance(method, Exact):
            assert height(problem, found) == pytest.approx(max(height(problem, g) for g in allowed))


def test_every_graph_sums_over_all_of_them() -> None:
    problem = StructureProblem(Columns(NAMES, drawn(40), SIZES), black=[("d", "c")])
    graphs = [g for g in GRAPHS if not g[3, 2]]
    weights = np.exp([height(problem, g) for g in graphs])
    want = np.tensordot(weights / weights.sum(), np.array(graphs, dtype=float), axes=1)
    np.testing.assert_allclose(EveryGraph().edges(problem).matrix, want, atol=1e-9)


def test_orders_weigh_a_graph_by_how_many_it_has() -> None:
    problem = StructureProblem(Columns(NAMES, drawn(40), SIZES))
    orders = [
        sum(all(o.index(i) < o.index(j) for i, j in np.argwhere(g)) for o in permutations(range(4))) for g in GRAPHS
    ]
    weights = np.exp([height(problem, g) for g in GRAPHS]) * orders
    want = np.tensordot(weights / weights.sum(), np.array(GRAPHS, dtype=float), axes=1)
    found = OrderMCMC(draws=400, warmup=200).edges(problem)
    assert np.all(np.abs(found.matrix - want) < 4.5 * found.error + 0.01)
    assert found.error.max() < 0.03


def test_bootstrap_finds_a_strong_arrow_each_time() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(2, size=300)
    b = np.where(rng.random(300) < 0.8, a, 1 - a)
    columns = Columns(("a", "b"), np.stack([a, b], 1), np.array([2, 2]))
    assert Bootstrap(draws=10).edges(StructureProblem(columns)).adjacent[0, 1] == 1


def test_numbers_and_categories_together() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=400)
    x = rng.normal(size=400) + 2 * group
    y = np.where(group == 1, 1.5 * x, -x) + 0.5 * rng.normal(size=400)
    columns = Columns(
        ("group", "x", "y"),
        np.stack([group, 0 * group, 0 * group], 1),
        np.array([2, 0, 0]),
        np.stack([0 * x, x, y], 1),
    )
    found = Exact().search(StructureProblem(columns)).adjacency
    assert not found[1:, 0].any() and found[0, 1] and found[0, 2] and (found[1, 2] or found[2, 1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": "aic"}, "score must be one of 'bdeu', 'bic'"),
        ({"white": [("a", "z")]}, "which is no column"),
        ({"white": ["ab"]}, "pairs"),
        ({"white": [("a", "b")], "black": [("a", "b")]}, "on the black list"),
        ({"white": [("a", "b"), ("b", "a")]}, "circle"),
        ({"white": [("a", "b"), ("c", "b")], "max_parents": 1}, "max_parents=1"),
    ],
)
def test_refusals(options: dict, words: str) -> None:
    with pytest.raises(DataError, match=words):
        StructureProblem(Columns(NAMES, drawn(20), SIZES), **options)


def test_what_is_too_large_is_said() -> None:
    names = tuple(f"v{i}" for i in range(16))
    problem = StructureProblem(Columns(names, np.zeros((5, 16), int), np.full(16, 2)))
    with pytest.raises(DataError, match="up to 15 variables, found 16"):
        Exact().search(problem)
    with pytest.raises(DataError, match="OrderMCMC"):
        EveryGraph().edges(problem)


def test_arrows_that_are_turned_round_lead_higher():
    """No walk ends lower for turning round, and the lists and the number of parents hold on the way."""
    rng = np.random.default_rng(3)
    codes = np.zeros((800, 12), dtype=int)
    for j in range(12):
        above = rng.permutation(j)[:2]
        p = rng.dirichlet(np.full(3, 0.4), size=(3, 3))
        pair = codes[:, above] if len(above) == 2 else np.zeros((800, 2), int)
        codes[:, j] = (p[pair[:, 0], pair[:, 1]].cumsum(1) < rng.random((800, 1))).sum(1).clip(0, 2)
    columns = Columns(tuple("abcdefghijkl"), codes, np.full(12, 3))
    lists = {"white": [("a", "l")], "black": [("c", "b")], "max_parents": 3}
    found = [Tabu(turns=turns).search(StructureProblem(columns, **lists)) for turns in (0, 4)]
    assert found[1].score >= found[0].score - 1e-6
    assert ("a", "l") in found[1].edges and ("c", "b") not in found[1].edges
    assert found[1].adjacency.sum(0).max() <= 3 and reachability(found[1].adjacency) is not None
