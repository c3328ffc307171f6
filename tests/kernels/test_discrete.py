"""Kernels on sets, categories, strings and graphs, each against a brute-force oracle."""

import itertools
import math
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import credo
from credo.core.errors import DataError, NotPositiveDefinite, RepairedWarning
from credo.core.params import learnable
from credo.kernels.base import InputScales
from credo.kernels.check import check_kernel
from credo.kernels.discrete import Categorical, SetKernel, Tanimoto
from credo.kernels.graphs import GraphDiffusion, GraphMatern, Laplacian, WeisfeilerLehman
from credo.kernels.strings import EditDistance, Spectrum, Subsequence
from credo.kernels.tabulated import Tabulated, nearest_psd, tabulate

WORDS = ["gattaca", "attac", "tacatact", "", "ga", "cccc", "gattaca", "héé"]
SETS = [{"a", "b"}, {"b", "c", "d"}, set(), {"a", "b", "c", "d"}, {"d"}, {"a", "b"}]
UNIVERSE = ("a", "b", "c", "d")
NOT_PSD = ["b", "aa", "ab", "ba", "bab"]
TRIANGLE = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
STAR = np.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
GRAPHS = [(TRIANGLE, [0, 1, 1]), (PATH, [0, 1, 1, 0]), (STAR, [1, 0, 0, 1]), (PATH[::-1, ::-1], [0, 1, 1, 0]), STAR]
WEIGHTS = np.array([[0, 1, 0, 2.0, 0], [1, 0, 0.5, 0, 0], [0, 0.5, 0, 1, 0], [2, 0, 1, 0, 0], [0, 0, 0, 0, 0]])
FINGERPRINTS = np.array([[1, 0, 2, 0.0], [0, 0, 0, 0], [1, 1, 0, 3], [0, 0, 0, 0], [1, 0, 2, 0], [0, 5, 0, 0]])
CODES = np.array([[0, 1.0], [0, 2], [1, 2], [0, 1], [3, 0]])

KERNELS = {
    "sets": (SetKernel(UNIVERSE), SETS),
    "sets counted": (SetKernel(UNIVERSE, normalized=False, variance=2.0), SETS),
    "tanimoto": (Tanimoto(variance=0.5), FINGERPRINTS),
    "categorical": (Categorical([0.5, 2.0]), CODES),
    "overlap": (Categorical(overlap=True), CODES),
    "spectrum": (Spectrum(2, width=8), WORDS),
    "spectrum counted": (Spectrum(2, normalized=False, width=8), WORDS),
    "subsequence": (Subsequence(2, 0.4, width=8), WORDS),
    "subsequence counted": (Subsequence(3, 0.4, normalized=False, width=8), WORDS),
    "edit distance, steep": (EditDistance(2.0, width=8), WORDS),
    "tabulated": (tabulate(Spectrum(2, width=8), WORDS[:5]), WORDS[:5]),
    "diffusion": (GraphDiffusion(WEIGHTS, 0.7), [0, 1, 2, 3, 4, 0]),
    "matern": (GraphMatern(WEIGHTS), [0, 1, 2, 3, 4, 0]),
    "graphs": (WeisfeilerLehman(2, width=4), GRAPHS),
    "graphs counted": (WeisfeilerLehman(2, width=4, normalized=False), GRAPHS),
}


def matrix_of(function, items):
    return np.array([[function(a, b) for b in items] for a in items], dtype=float)


def normalized(matrix):
    own = np.sqrt(np.diag(matrix))
    out = np.divide(matrix, np.outer(own, own), out=np.zeros_like(matrix), where=np.outer(own, own) > 0)
    return out + np.outer(own == 0, own == 0)


def close(a, b, rtol=1e-12):
    np.testing.assert_allclose(np.asarray(a), b, rtol=rtol, atol=1e-14)


# ---- every kernel


@pytest.mark.parametrize("name", KERNELS)
def test_keeps_the_promises_of_a_kernel(name):
    kernel, items = KERNELS[name]
    check_kernel(kernel, x=items)


@pytest.mark.parametrize("name", KERNELS)
def test_encoding_is_float64_and_encoding_again_changes_nothing(name):
    kernel, items = KERNELS[name]
    rows = kernel.encode(items)
    assert rows.dtype == np.float64 and rows.ndim == 2 and len(rows) == len(items)
    np.testing.assert_array_equal(kernel.encode(rows), rows)
    np.testing.assert_array_equal(kernel.encode(rows, "X", rows.shape[1]), rows)


@pytest.mark.parametrize("name", KERNELS)
def test_survives_jit_and_a_file(name, tmp_path):
    kernel, items = KERNELS[name]
    rows = jnp.asarray(kernel.encode(items))
    want = np.asarray(kernel.gram(rows, rows))
    close(eqx.filter_jit(lambda k, x: k.gram(x, x))(kernel, rows), want)
    again = credo.load(credo.save(kernel, tmp_path / "kernel"))
    assert again.formula() == kernel.formula()
    close(again(items), want)


@pytest.mark.parametrize("name", KERNELS)
def test_amplitude_is_scaled_split_and_adapted(name):
    kernel, items = KERNELS[name]
    want = np.asarray(kernel(items))
    close((3.0 * kernel)(items), 3.0 * want)
    variance, bare = kernel.split_variance()
    assert "variance" not in learnable(bare)
    close((1.0 if variance is None else float(variance)) * bare(items), want)
    scales = InputScales.of(np.asarray(kernel.encode(items)), 7.0)
    adapted = kernel.adapt(scales)
    assert float(adapted.variance) == (7.0 if variance is None else float(variance))


def test_formulas():
    assert Spectrum(3, variance=4.0).formula() == "2² · Spectrum(k=3)"
    assert Subsequence(2, 0.25).formula() == "Subsequence(k=2, λ=0.25)"
    assert repr(GraphMatern(WEIGHTS)) == "GraphMatern(κ=1, ν=1.5)"
    assert sorted(learnable(GraphMatern(WEIGHTS))) == ["lengthscale", "smoothness", "variance"]
    assert sorted(learnable(Categorical(overlap=True))) == ["variance"]
    assert sorted(learnable(tabulate(Spectrum(2), WORDS[:3]))) == ["variance"]


# ---- sets, fingerprints, categories


def subsets(s):
    return {frozenset(c) for r in range(len(s) + 1) for c in itertools.combinations(sorted(s), r)}


def test_sets_count_their_common_subsets():
    want = matrix_of(lambda a, b: len(subsets(a) & subsets(b)), SETS)
    close(SetKernel(UNIVERSE, normalized=False)(SETS), want)
    close(SetKernel(UNIVERSE)(SETS), normalized(want))
    close(SetKernel(UNIVERSE)([list(s) for s in SETS]), normalized(want))
    close(SetKernel()(SetKernel(UNIVERSE).encode(SETS)), normalized(want))


def test_large_sets_do_not_overflow():
    table = np.ones((2, 1500))
    table[1, :2] = 0.0
    close(SetKernel()(table), [[1.0, 0.5], [0.5, 1.0]])
    with pytest.raises(DataError, match="1500 elements.*overflow.*normalized=True"):
        SetKernel(normalized=False)(table)


def test_tanimoto_is_jaccard_on_sets_and_empty_rows_are_alike():
    rows = SetKernel(UNIVERSE).encode(SETS)
    close(Tanimoto()(rows), matrix_of(lambda a, b: len(a & b) / len(a | b) if a | b else 1.0, SETS))
    want = matrix_of(lambda a, b: a @ b / (a @ a + b @ b - a @ b) if a.any() or b.any() else 1.0, FINGERPRINTS)
    close(Tanimoto()(FINGERPRINTS), want)


def test_categorical_product_and_overlap():
    ell = np.array([0.5, 2.0])
    want = matrix_of(lambda a, b: math.exp(-sum((x != z) / l for x, z, l in zip(a, b, ell, strict=True))), CODES)
    close(Categorical(ell)(CODES), want)
    close(Categorical(overlap=True, variance=3.0)(CODES), 3.0 * matrix_of(lambda a, b: np.mean(a == b), CODES))
    close(Categorical(2.0)(CODES), matrix_of(lambda a, b: math.exp(-np.sum(a != b) / 2.0), CODES))


def test_categorical_reads_names():
    kernel = Categorical(categories=[("red", "green"), ("s", "m", "l")])
    rows = [["red", "l"], ["green", "s"]]
    np.testing.assert_array_equal(kernel.encode(rows), [[0, 2], [1, 0]])
    np.testing.assert_array_equal(kernel.encode(pd.DataFrame(rows, columns=["colour", "size"])), [[0, 2], [1, 0]])
    np.testing.assert_array_equal(Categorical(categories=[("u", "v")]).encode(["v", "u"]), [[1], [0]])


def test_categorical_starts_and_ard():
    scales = InputScales.of(CODES, 2.0)
    assert float(Categorical().adapt(scales).lengthscale) == 2.0
    np.testing.assert_array_equal(Categorical(ard=True).adapt(scales).lengthscale, [2.0, 2.0])
    np.testing.assert_array_equal(Categorical(0.3, ard=True).adapt(scales).lengthscale, [0.3, 0.3])


def test_discrete_errors():
    with pytest.raises(DataError, match="'z', which is not in the universe; known are 'a', 'b', 'c', 'd'"):
        SetKernel(UNIVERSE)([{"a"}, {"z"}])
    with pytest.raises(DataError, match="give SetKernel\\(universe="):
        SetKernel()([{"a"}])
    with pytest.raises(DataError, match="must be a set, found 'ab'"):
        SetKernel(UNIVERSE)(["ab"])
    with pytest.raises(DataError, match="must hold 0 and 1.*found 2"):
        SetKernel()(np.array([[0.0, 2.0]]))
    with pytest.raises(DataError, match="'blue', which is not in the categories"):
        Categorical(categories=[("red", "green")])(["red", "blue"])
    with pytest.raises(DataError, match="the 1 columns of categories"):
        Categorical(categories=[("red", "green")])([["red", "red"]])
    with pytest.raises(DataError, match="has no lengthscale"):
        Categorical(1.0, overlap=True)
    with pytest.raises(DataError, match="3 lengthscales for inputs with 2 columns"):
        Categorical([1.0, 1.0, 1.0])(CODES)


# ---- strings


def kmers(s, k):
    return Counter(s[i : i + k] for i in range(len(s) - k + 1))


def spectrum(s, t, k):
    a, b = kmers(s, k), kmers(t, k)
    return sum(a[u] * b[u] for u in a)


def subsequence(s, t, k, decay):
    def features(text):
        out = Counter()
        for where in itertools.combinations(range(len(text)), k):
            out["".join(text[i] for i in where)] += decay ** (where[-1] - where[0] + 1)
        return out

    a, b = features(s), features(t)
    return sum(a[u] * b[u] for u in a)


def levenshtein(s, t):
    table = np.zeros((len(s) + 1, len(t) + 1), dtype=int)
    table[:, 0], table[0] = np.arange(len(s) + 1), np.arange(len(t) + 1)
    for i, j in itertools.product(range(1, len(s) + 1), range(1, len(t) + 1)):
        replaced = table[i - 1, j - 1] + (s[i - 1] != t[j - 1])
        table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, replaced)
    return table[-1, -1]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_spectrum_counts_common_pieces(k):
    want = matrix_of(lambda s, t: spectrum(s, t, k), WORDS)
    close(Spectrum(k, normalized=False)(WORDS), want)
    close(Spectrum(k, width=8)(WORDS), normalized(want))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_subsequence_sums_over_all_common_subsequences(k):
    want = matrix_of(lambda s, t: subsequence(s, t, k, 0.6), WORDS)
    close(Subsequence(k, 0.6, normalized=False, width=8)(WORDS), want)
    close(Subsequence(k, 0.6, width=8)(WORDS), normalized(want))


def test_subsequence_gradient_in_the_decay():
    rows = jnp.asarray(Subsequence(2, width=8).encode(WORDS))
    total = eqx.filter_jit(lambda decay: Subsequence(2, decay, width=8).gram(rows, rows)[0, 2])
    step = 1e-6
    want = (total(jnp.asarray(0.4 + step)) - total(jnp.asarray(0.4 - step))) / (2 * step)
    close(jax.grad(total)(jnp.asarray(0.4)), want, rtol=1e-7)


def test_edit_distance():
    close(EditDistance(0.3, width=8)(WORDS), np.exp(-0.3 * matrix_of(levenshtein, WORDS)))


@given(st.lists(st.text("abc", max_size=8), min_size=4, max_size=4))
def test_strings_of_any_kind(words):
    close(Spectrum(2, width=8, normalized=False)(words), matrix_of(lambda s, t: spectrum(s, t, 2), words))
    close(EditDistance(0.3, width=8)(words), np.exp(-0.3 * matrix_of(levenshtein, words)))
    want = matrix_of(lambda s, t: subsequence(s, t, 3, 0.5), words)
    close(Subsequence(3, 0.5, width=8, normalized=False)(words), want)


def test_more_strings_than_a_block():
    rng = np.random.default_rng(3)
    words = ["".join(rng.choice(list("ab"), rng.integers(0, 9))) for _ in range(41)]
    close(EditDistance(0.3, width=8)(words), np.exp(-0.3 * matrix_of(levenshtein, words)))


def test_strings_from_arrays_series_and_columns():
    kernel, words = Spectrum(2, width=8), ["abc", "cab"]
    want = kernel.encode(words)
    for given_as in (np.array(words), pd.Series(words), pd.DataFrame({"text": words}), tuple(words)):
        np.testing.assert_array_equal(kernel.encode(given_as), want)
    np.testing.assert_array_equal(want[0], [97, 98, 99, -1, -1, -1, -1, -1])


def test_string_errors():
    with pytest.raises(DataError, match="X\\[1\\] has 9 characters, the kernel reads up to 8; give it width=16"):
        Spectrum(2, width=8).encode(["a", "a" * 9])
    with pytest.raises(DataError, match="must be a list of strings, found str 'abc'"):
        Spectrum().encode("abc")
    with pytest.raises(DataError, match="found int 3 at 1"):
        Spectrum().encode(["a", 3])
    with pytest.raises(DataError, match="followed by nothing but -1"):
        Spectrum().encode(np.array([[97.0, -1.0, 98.0]]))
    with pytest.raises(DataError, match="followed by nothing but -1"):
        Spectrum().encode(np.array([[0.5, 1.0]]))
    with pytest.raises(DataError, match="empty"):
        Spectrum().encode([])
    with pytest.raises(DataError, match="length must be a whole number from 1 to the width 8, found 9"):
        Spectrum(9, width=8)
    with pytest.raises(DataError, match="decay must be between 0 and 1, found 1.5"):
        Subsequence(2, 1.5)


# ---- matrices that are not covariances


def test_edit_distance_is_not_a_kernel_and_a_table_of_it_is():
    kernel = EditDistance(0.1, width=8)
    raw = np.asarray(kernel(NOT_PSD))
    assert np.linalg.eigvalsh(raw)[0] == pytest.approx(-0.0258, abs=1e-4)
    with pytest.raises(DataError, match="not positive semi-definite.*smallest eigenvalue is -0.0258"):
        check_kernel(kernel, x=NOT_PSD)
    with pytest.raises(NotPositiveDefinite, match="smallest eigenvalue is -0.0258.*Spectrum or Subsequence"):
        tabulate(kernel, NOT_PSD, indefinite="refuse")
    with pytest.warns(RepairedWarning, match="smallest eigenvalue is -0.0258; repaired by a change of 0.0258"):
        table = tabulate(kernel, NOT_PSD)
    check_kernel(table, x=NOT_PSD)
    values, vectors = np.linalg.eigh(raw)
    close(table(NOT_PSD), (vectors * np.clip(values, 0, None)) @ vectors.T, rtol=1e-10)
    with pytest.raises(DataError, match="'zz', which is not in the list"):
        table(["zz"])


def test_tabulate_any_function_and_things_without_names():
    things = [{1, 2}, {2}, {3}]
    table = tabulate(lambda a, b: 2.0 ** len(a & b), things, indefinite="refuse")
    close(table([0, 2, 1]), [[4, 1, 2], [1, 2, 1], [2, 1, 2]])
    assert table.items is None
    with pytest.raises(DataError, match="whole numbers from 0 to 2, found 3"):
        table([3])
    with pytest.raises(DataError, match="square and symmetric"):
        tabulate(lambda a, b: float(len(a - b)), things)
    with pytest.raises(DataError, match="'repair' or 'refuse', found 'maybe'"):
        tabulate(Spectrum(2), WORDS, indefinite="maybe")


def test_nearest_psd_is_nearest(rng):
    a = rng.normal(size=(6, 6))
    a = a + a.T
    repaired, correction = nearest_psd(a)
    assert np.linalg.eigvalsh(repaired)[0] > -1e-12
    assert correction == pytest.approx(np.linalg.norm(a - repaired), rel=1e-10)
    for _ in range(50):  # no step towards another positive semi-definite matrix comes nearer
        b = rng.normal(size=(6, 6))
        other = repaired + 0.1 * (b @ b.T - repaired)
        assert np.linalg.norm(a - other) >= correction
    same, none = nearest_psd(a @ a.T)
    assert none == 0.0
    close(same, a @ a.T)
    with pytest.raises(DataError, match="square and symmetric"):
        nearest_psd(np.ones((2, 3)))


def test_repeated_items_are_known_by_number():
    table = tabulate(Spectrum(2, width=8), WORDS)  # "gattaca" is there twice
    assert isinstance(table, Tabulated) and table.items is None
    close(table(np.arange(len(WORDS), dtype=float)[:, None]), Spectrum(2, width=8)(WORDS))


# ---- nodes of a graph


def test_diffusion_is_the_matrix_exponential():
    laplacian = np.diag(WEIGHTS.sum(1)) - WEIGHTS
    want = scipy.linalg.expm(-0.7 * laplacian)
    close(GraphDiffusion(WEIGHTS, 0.7, variance=3.0)(range(5)), 3.0 * want / np.diag(want).mean(), rtol=1e-10)


@pytest.mark.parametrize("nu", [1, 2])
def test_matern_is_a_matrix_power(nu):
    laplacian = np.diag(WEIGHTS.sum(1)) - WEIGHTS
    want = np.linalg.matrix_power(np.linalg.inv(2 * nu / 1.5**2 * np.eye(5) + laplacian), nu)
    close(GraphMatern(WEIGHTS, 1.5, float(nu))(range(5)), want / np.diag(want).mean(), rtol=1e-10)


def test_normalized_laplacian():
    graph = WEIGHTS[:4, :4]
    root = np.diag(graph.sum(1) ** -0.5)
    want = scipy.linalg.expm(-0.7 * (np.eye(4) - root @ graph @ root))
    kernel = GraphDiffusion(Laplacian.of(graph, normalized=True), 0.7)
    close(kernel(range(4)), want / np.diag(want).mean(), rtol=1e-10)
    alone = Laplacian.of(WEIGHTS, normalized=True)  # the last node has no edges: nothing flows to or from it
    close(GraphDiffusion(alone, 0.7)([4, 0])[0, 1], 0.0)


class Network:
    """What networkx graphs offer."""

    nodes = ("w", "x", "y", "z", "alone")

    def edges(self, data=None, default=None):
        assert data == "weight"
        return [("w", "x", 1.0), ("w", "z", 2.0), ("x", "y", 0.5), ("y", "z", default)]


def test_every_way_to_give_a_graph():
    want = np.asarray(GraphMatern(WEIGHTS)(range(5)))
    edges = [("w", "x"), ("w", "z", 2.0), ("x", "y", 0.5), ("y", "z")]
    names = ["w", "x", "y", "z", "alone"]
    close(GraphMatern(scipy.sparse.csr_matrix(WEIGHTS))(range(5)), want)
    close(GraphMatern(WEIGHTS.tolist())(range(5)), want)
    close(GraphMatern(Laplacian.of(WEIGHTS, nodes=names))(names), want)
    close(GraphMatern(Laplacian.of(edges, nodes=names))(names), want)
    close(GraphMatern(Network())(names), want)
    close(GraphMatern(edges)(["z", "w"]), GraphMatern(WEIGHTS[:4, :4])([3, 0]))


def test_graph_errors():
    with pytest.raises(DataError, match="must be symmetric"):
        GraphMatern(np.array([[0, 1.0], [0, 0]]))
    with pytest.raises(DataError, match="weights ≥ 0, found -1"):
        GraphMatern(np.array([[0, -1.0], [-1, 0]]))
    with pytest.raises(DataError, match="square matrix.*\\(2, 3\\)"):
        GraphMatern(np.ones((2, 3)))
    with pytest.raises(DataError, match="an edge must be"):
        GraphMatern([("a",)])
    with pytest.raises(DataError, match="no edges and no nodes"):
        GraphMatern([])
    with pytest.raises(DataError, match="'c', which is not in the nodes"):
        Laplacian.of([("a", "c")], nodes=["a", "b"])
    with pytest.raises(DataError, match="for each of 5 nodes, found 2"):
        Laplacian.of(WEIGHTS, nodes=["a", "b"])
    with pytest.raises(DataError, match="'q', which is not in the list; known are 'a', 'b'"):
        GraphMatern([("a", "b")])(["a", "q"])
    with pytest.raises(DataError, match="whole numbers from 0 to 4, found 5"):
        GraphMatern(WEIGHTS)([5])


# ---- whole graphs


def weisfeiler_lehman(graphs, rounds):
    """Relabelling by a dictionary shared by all graphs."""
    pairs = [(np.asarray(g[0]), list(g[1])) if isinstance(g, tuple) else (g, [0] * len(g)) for g in graphs]
    labels = [[("start", l) for l in own] for _, own in pairs]
    total = np.zeros((len(graphs), len(graphs)))
    for r in range(rounds + 1):
        bags = [Counter(own) for own in labels]
        total += matrix_of(lambda a, b: sum(a[l] * b[l] for l in a), bags)
        names = {}
        labels = [
            [
                names.setdefault(
                    (own[v], tuple(sorted(map(repr, (own[w] for w in np.flatnonzero(a[v])))))), (r, len(names))
                )
                for v in range(len(a))
            ]
            for (a, _), own in zip(pairs, labels, strict=True)
        ]
    return total


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_weisfeiler_lehman_is_relabelling(rounds):
    want = weisfeiler_lehman(GRAPHS, rounds)
    close(WeisfeilerLehman(rounds, normalized=False, width=6)(GRAPHS), want)
    close(WeisfeilerLehman(rounds, width=6)(GRAPHS), normalized(want))


def test_weisfeiler_lehman_on_random_graphs_and_their_permutations():
    rng = np.random.default_rng(5)
    graphs = []
    for _ in range(6):
        n = int(rng.integers(2, 7))
        a = np.triu(rng.random((n, n)) < 0.5, 1).astype(float)
        a, own, order = a + a.T, rng.integers(0, 2, n), rng.permutation(n)
        graphs += [(a, own.tolist()), (a[np.ix_(order, order)], own[order].tolist())]
    got = np.asarray(WeisfeilerLehman(2, normalized=False, width=6)(graphs))
    close(got, weisfeiler_lehman(graphs, 2))
    close(got[::2], got[1::2])


def test_weisfeiler_lehman_reads_text_labels_and_sparse_matrices():
    kernel = WeisfeilerLehman(1, width=4, labels=("C", "O"))
    named = [(scipy.sparse.csr_matrix(PATH), ["C", "O", "O", "C"]), (TRIANGLE, ["C", "O", "O"])]
    close(kernel(named), WeisfeilerLehman(1, width=4)([GRAPHS[1], GRAPHS[0]]))


def test_weisfeiler_lehman_errors():
    kernel = WeisfeilerLehman(1, width=3)
    with pytest.raises(DataError, match="X\\[1\\] has 4 nodes, the kernel reads up to 3"):
        kernel.encode([TRIANGLE, PATH])
    with pytest.raises(DataError, match="one label for each of its 3 nodes, found 2"):
        kernel.encode([(TRIANGLE, [0, 1])])
    with pytest.raises(DataError, match="whole numbers ≥ 0 as labels.*for text give labels="):
        kernel.encode([(TRIANGLE, ["C", "O", "O"])])
    with pytest.raises(DataError, match="rows of 3² \\+ 3 numbers, found rows of 5"):
        kernel.encode(np.zeros((2, 5)))
    with pytest.raises(DataError, match="must end with labels"):
        kernel.encode(np.full((1, 12), -2.0))
    with pytest.raises(DataError, match="'N', which is not in the labels"):
        WeisfeilerLehman(1, labels=("C", "O")).encode([(TRIANGLE, ["C", "N", "O"])])
    with pytest.raises(DataError, match="rounds must be ≥ 0"):
        WeisfeilerLehman(-1)
