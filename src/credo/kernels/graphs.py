"""Kernels on graphs: between the nodes of one graph, and between whole graphs.

    GraphMatern([("a", "b"), ("b", "c")])(["a", "c"])           nodes, by name
    SpectralEmbedding(RBF(), graph, 2)                          nodes, as points of the plane
    WeisfeilerLehman(3)([(adjacency, labels), …])               graphs with labelled nodes

A kernel between nodes is a function of the Laplacian L = D - A, whose eigenvectors are waves on the graph, slow
ones first; it is computed once, when the kernel is made.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Bool, Float, UInt64

from credo.core.arrays import Array, held, is_traced, namespace
from credo.core.checks import check_count, check_table
from credo.core.errors import DataError
from credo.core.params import positive
from credo.core.pytrees import changed
from credo.kernels.base import Amplitude, InputScales, Kernel, Wrapped
from credo.kernels.discrete import Coded, Counting, as_items, encode_members, is_table, look_up
from credo.kernels.strings import count_common, mix


class Laplacian(eqx.Module):
    """The eigenvalues and eigenvectors of a graph's Laplacian, with the names of its nodes where they have any."""

    eigenvalues: Float[Array, " k"]
    eigenvectors: Float[Array, "k k"]
    nodes: tuple[Hashable, ...] | None = eqx.field(default=None, static=True)

    @classmethod
    def of(cls, graph: Any, nodes: Iterable[Hashable] | None = None, normalized: bool = False) -> "Laplacian":
        """L = D - A of a graph without directions, or I - D^-½ A D^-½ if `normalized`.

        Args:
            graph: the matrix A of weights ≥ 0 (dense or sparse); or edges, a list of tuples (node, node) or
                (node, node, weight); or an object that has `nodes` and `edges`, as those of networkx.
            nodes: the names of the nodes, in the order of A; for edges the default is the order of appearance.
            normalized: whether each node counts alike, however many neighbours it has.
        """
        names = None if nodes is None else tuple(nodes)
        if hasattr(graph, "nodes") and hasattr(graph, "edges"):
            names = tuple(graph.nodes) if names is None else names
            edges = graph.edges(data="weight", default=1.0) if callable(graph.edges) else graph.edges
            graph = [tuple(edge) for edge in edges]
        if isinstance(graph, list | tuple | set) and all(isinstance(e, tuple) for e in graph):
            weights, names = _from_edges(graph, names)
        else:
            weights = check_adjacency(graph.toarray() if hasattr(graph, "toarray") else graph, "graph")
        if names is not None and (len(set(names)) != len(names) or len(names) != len(weights)):
            raise DataError(f"nodes must have a name of its own for each of {len(weights)} nodes, found {len(names)}")
        degree = weights.sum(1)
        matrix = np.diag(degree) - weights
        if normalized:
            root = np.sqrt(np.where(degree > 0, degree, 1.0))
            matrix = matrix / np.outer(root, root)
        values, vectors = np.linalg.eigh(matrix)
        return cls(np.maximum(values, 0.0), vectors, names)

    def embedding(self, dimensions: int = 2) -> Float[np.ndarray, "k n"]:
        """The nodes as points of ℝⁿ: √k φ₂ … √k φₙ₊₁, the slowest waves but the constant one.

        Neighbours are close: of all coordinates with mean zero and variance one that are uncorrelated these have the
        smallest Σ wᵢⱼ ‖xᵢ - xⱼ‖². Belkin & Niyogi (2003), "Laplacian eigenmaps for dimensionality reduction".
        """
        k, values = len(self.eigenvalues), np.asarray(self.eigenvalues)
        check_count(dimensions, "dimensions")
        if dimensions >= k:
            raise DataError(f"dimensions must be less than the {k} nodes of the graph, found {dimensions}")
        ends = np.flatnonzero(np.diff(values) > 1e-9 * max(values[-1], 1e-300))  # of waves that are equally slow
        if dimensions + 1 < k and dimensions not in ends:
            enough = next(int(d) for d in (*ends, k - 1) if d > dimensions)
            raise DataError(
                f"{dimensions} dimensions are not determined: waves {dimensions + 1} and {dimensions + 2} of the graph "
                f"are equally slow; take {enough}"
            )
        return np.sqrt(k) * np.asarray(self.eigenvectors)[:, 1 : dimensions + 1]


def _from_edges(
    edges: Iterable[tuple[Any, ...]], names: tuple[Hashable, ...] | None
) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    listed = list(edges)
    if not listed and names is None:
        raise DataError("the graph has no edges and no nodes; give edges, or nodes=")
    for edge in listed:
        if len(edge) not in (2, 3):
            raise DataError(f"an edge must be (node, node) or (node, node, weight), found {edge!r}")
    names = tuple(dict.fromkeys(node for edge in listed for node in edge[:2])) if names is None else names
    places = {node: i for i, node in enumerate(names)}
    weights = np.zeros((len(names), len(names)))
    for edge in listed:
        i, j = (look_up(node, places, f"the edge {edge!r}", "the nodes") for node in edge[:2])
        weights[i, j] = weights[j, i] = float(edge[2]) if len(edge) == 3 else 1.0
    return check_adjacency(weights, "graph"), names


def check_adjacency(matrix: object, name: str) -> np.ndarray:
    """A square, symmetric matrix of weights ≥ 0."""
    a = np.asarray(check_table(matrix, name))
    if a.shape[0] != a.shape[1]:
        raise DataError(f"{name} must be a square matrix with a row for each node, found shape {a.shape}")
    if (a < 0).any():
        raise DataError(f"{name} must have weights ≥ 0, found {a.min():g}")
    if np.abs(a - a.T).max() > 1e-12 * a.max():
        raise DataError(
            f"{name} must be symmetric (edges without direction); pass np.maximum(A, A.T) for a directed one"
        )
    return 0.5 * (a + a.T)


class GraphKernel(Coded):
    """k(i, j) = s² Σₖ g(λₖ) φₖ(i) φₖ(j) / c over the eigenpairs of the Laplacian; c makes the mean variance s².

    A row is the number of a node; `encode` reads names too, where the graph has them.
    """

    laplacian: Laplacian = eqx.field(converter=lambda g: g if isinstance(g, Laplacian) else Laplacian.of(g))

    @abstractmethod
    def log_filter(self, eigenvalues: Float[Array, " k"]) -> Float[Array, " k"]:
        """log g(λ)."""

    def weights(self) -> Float[Array, " k"]:
        """g(λₖ) / c, where c = Σ g / (number of nodes)."""
        log_filter = self.log_filter(self.laplacian.eigenvalues)
        filtered = namespace(log_filter).exp(log_filter - held(log_filter.max()))
        return filtered / filtered.mean()

    def similarities(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Σₖ g(λₖ) φₖ(i) φₖ(j) / c, by one matrix product."""
        return (self._waves(x) * self.weights()) @ self._waves(z).T

    def own(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Σₖ g(λₖ) φₖ(i)² / c."""
        return (self._waves(x) ** 2) @ self.weights()

    def _waves(self, x: Float[Array, "n d"]) -> Float[Array, "n k"]:
        return namespace(self, x).asarray(self.laplacian.eigenvectors)[x[:, 0].astype(int)]

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """Names or numbers of nodes, as a column of numbers."""
        return encode_members(x, self.laplacian.nodes, len(self.laplacian.eigenvalues), name, columns)


class GraphDiffusion(GraphKernel):
    """K ∝ exp(-βL), β = `time`: heat that spreads along the edges.

    Kondor & Lafferty (2002), "Diffusion kernels on graphs and other discrete input spaces".
    """

    time: Float[Array, ""] = positive(1.0, low=1e-5, high=1e5)
    symbols = (("β", "time"),)

    def log_filter(self, eigenvalues: Float[Array, " k"]) -> Float[Array, " k"]:
        """-βλ."""
        return -self.time * eigenvalues


class GraphMatern(GraphKernel):
    """K ∝ (2ν/κ² I + L)^-ν, κ = `lengthscale` and ν = `smoothness`: the Matérn family on a graph.

    Borovitskiy, Azangulov, Terenin, Mostowsky, Deisenroth & Durrande (2021), "Matérn Gaussian processes on
    graphs".
    """

    lengthscale: Float[Array, ""] = positive(1.0, low=1e-3, high=1e4)
    smoothness: Float[Array, ""] = positive(1.5, low=0.1, high=50.0)
    symbols = (("κ", "lengthscale"), ("ν", "smoothness"))

    def log_filter(self, eigenvalues: Float[Array, " k"]) -> Float[Array, " k"]:
        """-ν log(2ν/κ² + λ)."""
        shifted = 2.0 * self.smoothness / self.lengthscale**2 + eigenvalues
        return -self.smoothness * namespace(shifted).log(shifted)


class SpectralEmbedding(Wrapped):
    """k(uᵢ, uⱼ) of a kernel on ℝⁿ, with the nodes of a graph embedded there (`Laplacian.embedding`).

    The other way to a Gaussian process on the nodes: any kernel will do, its lengthscale is in units of the embedding,
    and only `dimensions` waves are seen, where `GraphMatern` weighs all. A row is the number of a node; `encode` reads
    names too.
    """

    kernel: Kernel
    laplacian: Laplacian = eqx.field(converter=lambda g: g if isinstance(g, Laplacian) else Laplacian.of(g))
    dimensions: int = eqx.field(default=2, static=True)
    is_stationary = False  # not in the numbers of the nodes

    def __check_init__(self) -> None:
        if not is_traced(self.laplacian):
            self.laplacian.embedding(self.dimensions)

    def _points(self, x: Float[Array, "n d"]) -> Float[Array, "n q"]:
        xp, vectors = namespace(self, x), self.laplacian.eigenvectors
        return np.sqrt(len(vectors)) * xp.asarray(vectors)[:, 1 : self.dimensions + 1][x[:, 0].astype(int)]

    def gram(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """K of the embedded nodes."""
        return self.kernel.gram(self._points(x), self._points(z))

    def diagonal(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """k(u, u)."""
        return self.kernel.diagonal(self._points(x))

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """Names or numbers of nodes, as a column of numbers."""
        return encode_members(x, self.laplacian.nodes, len(self.laplacian.eigenvalues), name, columns)

    def adapt(self, scales: InputScales) -> "SpectralEmbedding":
        """From the scales of the embedding."""
        points = InputScales.of(self.laplacian.embedding(self.dimensions), scales.variance)
        return changed(self, kernel=self.kernel.adapt(points))

    def scaled(self, factor: ArrayLike) -> Kernel:
        """factor · k."""
        return changed(self, kernel=self.kernel.scaled(factor))

    def split_variance(self) -> tuple[Amplitude, Kernel]:
        """Of the kernel inside."""
        variance, bare = self.kernel.split_variance()
        return variance, changed(self, kernel=bare)

    def formula(self) -> str:
        """k∘embedding."""
        return f"{self._inside()}∘embedding({self.dimensions})"


class WeisfeilerLehman(Counting):
    """#(G, H) = Σᵣ (pairs of a node of G and a node of H with the same label after r = 0 … `rounds` refinements).

    A refinement gives each node a label that stands for its own and the multiset of its neighbours' labels, so
    after r rounds a label stands for the neighbourhood of radius r. Labels are 64-bit hashes: N different
    neighbourhoods collide with probability N²/2⁶⁵. Normalized by default.

    A graph is an adjacency matrix (what is not zero is an edge), or a pair of it and the labels of the nodes:
    whole numbers ≥ 0, or text among `labels`. With `bonds` edges have types, and a neighbour counts with the type of
    its edge: `bonds=True` reads what is not zero in the matrix as one, a whole number > 0; a tuple of text reads a
    matrix of such text, "" or None where there is no edge. A graph is encoded as a row of width² + width numbers: the
    matrix, then the labels, -1 where there is no node. Shervashidze, Schweitzer, van Leeuwen, Mehlhorn & Borgwardt
    (2011), "Weisfeiler-Lehman graph kernels".
    """

    rounds: int = eqx.field(default=3, static=True)
    width: int = eqx.field(default=32, static=True, kw_only=True)
    labels: tuple[str, ...] | None = eqx.field(default=None, static=True, kw_only=True)
    bonds: bool | tuple[str, ...] = eqx.field(
        default=False, static=True, kw_only=True, converter=lambda b: b if isinstance(b, bool) else tuple(b)
    )
    symbols = (("h", "rounds"),)

    def __check_init__(self) -> None:
        if self.rounds < 0 or self.width < 1:
            raise DataError(f"rounds must be ≥ 0 and width ≥ 1, found {self.rounds} and {self.width}")

    def counts(self, x: Float[Array, "n d"], z: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """#(G, H), each graph refined once."""
        return count_common(*jax.vmap(self._refined)(x), *jax.vmap(self._refined)(z))

    def _refined(self, x: Float[Array, " d"]) -> tuple[UInt64[Array, "r w"], Bool[Array, "r w"]]:
        """The labels of the nodes after each round, and which nodes are real."""
        square, own = x[: -self.width].reshape(self.width, self.width), x[-self.width :]
        real = own >= 0
        edges = (square != 0) & real[None, :]
        kinds = mix(jnp.asarray(square).astype(jnp.uint64)) if self.bonds else jnp.zeros((1, 1), jnp.uint64)
        label = jnp.maximum(own, 0.0).astype(jnp.uint64)
        history = [label]
        for _ in range(self.rounds):
            # Summed, so that the order of the neighbours does not matter; mixed first, so that a sum names its terms.
            each = mix(mix(label)[None, :] ^ kinds) if self.bonds else mix(label)[None, :]
            around = jnp.where(edges, each, jnp.uint64(0)).sum(1, dtype=jnp.uint64)
            label = mix(mix(label ^ jnp.uint64(0x5851F42D4C957F2D)) + around)
            history.append(label)
        return jnp.stack(history), jnp.broadcast_to(real, (self.rounds + 1, self.width))

    def encode(self, x: object, name: str = "X", columns: int | None = None) -> Array:
        """Graphs, or rows as `encode` makes them."""
        width = self.width
        if not is_table(x):
            x = np.stack([self._row(g, f"{name}[{i}]") for i, g in enumerate(as_items(x, name, "graphs"))])
        table = check_table(x, name, columns)
        if table.shape[1] != width * (width + 1):
            raise DataError(
                f"{name} must hold graphs, or rows of {width}² + {width} numbers, found rows of {table.shape[1]}; "
                "pass a list of (adjacency, labels)"
            )
        if not is_traced(table) and ((table[:, -width:] < -1) | (table[:, -width:] % 1 != 0)).any():
            raise DataError(f"{name} must end with labels of nodes: whole numbers ≥ 0, and -1 where there is no node")
        return table

    def _row(self, graph: Any, name: str) -> np.ndarray:
        adjacency, labels = graph if isinstance(graph, tuple) and len(graph) == 2 else (graph, None)
        dense = adjacency.toarray() if hasattr(adjacency, "toarray") else adjacency
        edges = check_adjacency(self._kinds(dense, name), f"the adjacency of {name}")
        if self.bonds and (edges % 1 != 0).any():
            raise DataError(f"{name} must have whole numbers as types of edges, found {edges[edges % 1 != 0][0]:g}")
        n = len(edges)
        if n > self.width:
            raise DataError(f"{name} has {n} nodes, the kernel reads up to {self.width}; give it width={n} or more")
        own = np.zeros(n) if labels is None else self._codes(labels, name)
        if own.shape != (n,):
            raise DataError(f"{name} must have one label for each of its {n} nodes, found {own.size}")
        square, padded = np.zeros((self.width, self.width)), np.full(self.width, -1.0)
        square[:n, :n], padded[:n] = edges if self.bonds else edges != 0, own
        return np.concatenate([square.ravel(), padded])

    def _kinds(self, matrix: Any, name: str) -> Any:
        """The matrix with numbers for the text of types of edges."""
        if isinstance(self.bonds, bool):
            return matrix
        places = {kind: i + 1 for i, kind in enumerate(self.bonds)} | {"": 0}
        rows = [["" if kind is None else kind for kind in row] for row in matrix]
        return [[look_up(kind, places, name, "the bonds") for kind in row] for row in rows]

    def _codes(self, labels: object, name: str) -> np.ndarray:
        listed = as_items(labels, f"the labels of {name}", "labels")
        if self.labels is not None:
            places = {label: i for i, label in enumerate(self.labels)}
            listed = [look_up(label, places, name, "the labels") for label in listed]
        if not all(isinstance(v, int | float) and v >= 0 and v % 1 == 0 for v in listed):
            raise DataError(f"{name} must have whole numbers ≥ 0 as labels, found {listed!r}; for text give labels=")
        return np.asarray(listed, dtype=float)
