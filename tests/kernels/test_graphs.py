"""Types of edges, graphs embedded in ℝⁿ, and which kernels are isotropic."""

from collections import Counter

import numpy as np
import pytest

import credo
from credo.errors import DataError
from credo.kernels import (
    RBF,
    Constant,
    Cosine,
    Exponential,
    InputScales,
    Laplacian,
    Linear,
    Matern,
    Matern52,
    Periodic,
    SpectralEmbedding,
    WeisfeilerLehman,
    White,
    check_kernel,
)

RNG = np.random.default_rng(8)
PATH = [(i, i + 1) for i in range(8)]
RING = [(i, (i + 1) % 8) for i in range(8)]


def random_molecule(n):
    a = np.triu(RNG.integers(0, 4, size=(n, n)) * (RNG.random((n, n)) < 0.5), 1)
    return a + a.T, RNG.integers(0, 2, n)


def relabelled(graphs, rounds):
    """By text that spells out a node's whole neighbourhood, with the types of its edges."""
    labels = [[str(v) for v in own] for _, own in graphs]
    total = np.zeros((len(graphs), len(graphs)))
    for _ in range(rounds + 1):
        bags = [Counter(own) for own in labels]
        total += [[sum(a[v] * b[v] for v in a) for b in bags] for a in bags]
        labels = [
            [own[v] + str(sorted((a[v, u], own[u]) for u in np.flatnonzero(a[v]))) for v in range(len(a))]
            for (a, _), own in zip(graphs, labels, strict=True)
        ]
    return total


def test_edges_have_types():
    graphs = []
    for n in (3, 5, 6, 4):
        a, own = random_molecule(n)
        order = RNG.permutation(n)
        graphs += [(a, own), (a[np.ix_(order, order)], own[order])]
    kernel = WeisfeilerLehman(2, normalized=False, width=6, bonds=True)
    found = kernel([(a, own.tolist()) for a, own in graphs])
    np.testing.assert_array_equal(found, relabelled(graphs, 2))
    np.testing.assert_array_equal(found[::2], found[1::2])  # whatever the order of the nodes
    plain = WeisfeilerLehman(2, normalized=False, width=6)
    np.testing.assert_array_equal(
        plain([(a, own.tolist()) for a, own in graphs]), relabelled([((a > 0) * 1, own) for a, own in graphs], 2)
    )


def test_types_of_edges_by_name():
    single, double = [["", "s"], ["s", None]], [["", "d"], ["d", ""]]
    kernel = WeisfeilerLehman(1, width=2, bonds=("s", "d"), normalized=False)
    np.testing.assert_array_equal(kernel([single, double]), [[8, 4], [4, 8]])
    with pytest.raises(DataError, match="'t', which is not in the bonds"):
        kernel([[["", "t"], ["t", ""]]])
    with pytest.raises(DataError, match=r"whole numbers as types of edges, found 1\.5"):
        WeisfeilerLehman(1, width=2, bonds=True)([[[0, 1.5], [1.5, 0]]])


def test_neighbours_are_close_in_the_embedding():
    path = Laplacian.of(PATH)
    line = path.embedding(1)[:, 0]
    assert np.all(np.diff(line) > 0) or np.all(np.diff(line) < 0)  # a path is laid out in its order
    np.testing.assert_allclose(path.embedding(3).T @ path.embedding(3) / 9, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(path.embedding(3).mean(0), 0.0, atol=1e-12)
    ring = Laplacian.of(RING).embedding(2)
    np.testing.assert_allclose(np.linalg.norm(ring, axis=1), np.sqrt(2), rtol=1e-9)  # and a ring as one
    with pytest.raises(DataError, match="1 dimensions are not determined: waves 2 and 3 .* take 2"):
        Laplacian.of(RING).embedding(1)
    with pytest.raises(DataError, match="less than the 9 nodes of the graph, found 9"):
        path.embedding(9)


def test_a_gaussian_process_on_embedded_nodes():
    graph = [(f"{i}-{j}", f"{i + 1}-{j}") for i in range(4) for j in range(4)]
    graph += [(f"{i}-{j}", f"{i}-{j + 1}") for i in range(5) for j in range(3)]
    kernel = SpectralEmbedding(RBF(), graph, 2)
    check_kernel(SpectralEmbedding(RBF(0.7), graph, 2), np.arange(20.0)[:, None])
    points = kernel.laplacian.embedding(2)
    names = list(kernel.laplacian.nodes)
    np.testing.assert_allclose(kernel(names), RBF()(points), rtol=1e-12)
    y = np.array([float(name.split("-")[0]) for name in names])
    seen = np.arange(0, 20, 2)
    adapted = kernel.adapt(InputScales.of(np.arange(20.0)[:, None], 4.0))
    np.testing.assert_allclose(adapted.kernel.lengthscale, RBF().adapt(InputScales.of(points, 4.0)).lengthscale)
    gp = credo.GP(adapted, noise=0.01).condition([names[i] for i in seen], y[seen])
    rest = np.arange(1, 20, 2)
    assert credo.evaluate.rmse(gp.predict([names[i] for i in rest]), y[rest]) < 0.5 * y.std()
    assert "embedding(2)" in repr(kernel)


ISOTROPIC = [RBF(0.5), Matern52(), Exponential(2.0), Matern(0.5, smoothness=1.2), RBF([0.7, 0.7]), Constant(), White()]
ISOTROPIC += [2.0 * RBF() + Matern52(3.0) * Constant(2.0), (RBF() + 1.0) ** 2, RBF().exp()]
NOT = [RBF([0.5, 2.0]), RBF(projection=[[1.0, -1.0]]), Linear(), Periodic(), Cosine([1.0, 2.0]), RBF().on(0)]
NOT += [RBF() + Linear(), RBF() * Periodic(), RBF().warp(lambda x: x**2)]


@pytest.mark.parametrize("kernel", ISOTROPIC + NOT, ids=repr)
def test_isotropic_kernels_see_distances_alone(kernel):
    x = RNG.normal(size=(6, 2))
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    same = np.allclose(kernel(x), kernel(x @ turn.T + [3.0, -1.0]), rtol=1e-9, atol=1e-12)
    assert kernel.is_isotropic == same == (kernel in ISOTROPIC)
    assert kernel.is_stationary or not kernel.is_isotropic
