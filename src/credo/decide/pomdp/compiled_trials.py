"""The trials of `trials.py` compiled by numba, for problems where they take seconds: the same steps over flat arrays.

Nodes, vectors and blocks are records of arrays that grow by doubling; lists are linked, the newest first, so that a
node walks only over what came since it last looked. Beliefs are sparse. numba is imported with this module alone, and
keeps what it compiles on disk.
"""

from functools import partial
from inspect import unwrap
from typing import Any, NamedTuple

import numba
import numpy as np
from jaxtyping import Float, Int

from credo.decide.pomdp.mixed_observability import Blocks
from credo.decide.pomdp.trials import ALIKE, DEEPEST, TINY, Draws, Vector

BLOCK = np.dtype([("first", "i8"), ("size", "i8"), ("vector", "i8"), ("free", "i8"), ("point", "i8"), ("moved", "i8")])
NODE = np.dtype(
    [
        ("block", "i8"),
        ("begin", "i8"),
        ("end", "i8"),
        ("lower", "f8"),
        ("upper", "f8"),
        ("vector", "i8"),
        ("seen_vector", "i8"),
        ("seen_point", "i8"),
        ("noted", "i8"),  # when it became a point; 0: it is none
        ("drop", "f8"),  # how far the point lies below the plane through the corners
        ("older", "i8"),  # the points of the block around this one
        ("newer", "i8"),
        ("bucket", "i8"),  # the first node whose hash is this number
        ("chain", "i8"),  # the next node of the same hash
    ]
)
BRANCH = np.dtype([("q", "f8"), ("reward", "f8"), ("begin", "i8"), ("end", "i8")])
VECTOR = np.dtype([("born", "i8"), ("older", "i8"), ("begin", "i8"), ("action", "i8")])
CLOCK, NODES, POOL, VECTORS, VALUES, FULL = range(6)
SCALE = 10.0**ALIKE


def _compile(function: Any, **options: Any) -> Any:
    """Kept on disk; a type checker around the function, as in the tests, is taken off."""
    compiler: Any = numba.njit
    return compiler(cache=True, error_model="numpy", no_cfunc_wrapper=True, **options)(unwrap(function))


outer = _compile
inner = partial(_compile, no_cpython_wrapper=True)
reordered = partial(_compile, no_cpython_wrapper=True, fastmath={"reassoc", "contract"})


class Arrays(NamedTuple):
    """All that the compiled functions work on."""

    rows: Int[np.ndarray, " r"]
    """Where sparse rows begin: transitions at a n + s, then observations at (a_count + a) n + s'."""
    columns: Int[np.ndarray, " e"]
    entries: Float[np.ndarray, " e"]
    tables: Float[np.ndarray, "2 n a"]
    """Rewards, and informed bounds of Q(s, a)."""
    corners: Float[np.ndarray, " n"]
    block_of: Int[np.ndarray, " n"]
    scratch: Float[np.ndarray, " n"]
    """NaN but while a function uses it."""
    blocks: np.ndarray
    nodes: np.ndarray
    branches: np.ndarray
    """Of node i and action a: row i, column a."""
    where: Int[np.ndarray, " p"]
    """Beliefs and children: the states of a belief; the children of a branch, then their observations."""
    weight: Float[np.ndarray, " p"]
    """Their probabilities."""
    vectors: np.ndarray
    values: Float[np.ndarray, " v"]
    counts: Int[np.ndarray, " 6"]
    symbols: int
    discount: float
    tiny: float


@inner
def plane_at(m: Any, i: int) -> float:
    """The plane through the corners, at a node's belief."""
    value = 0.0
    for e in range(m.nodes[i].begin, m.nodes[i].end):
        value += m.weight[e] * m.corners[m.where[e]]
    return value


@reordered
def dot(x: Vector, y: Vector) -> float:
    """Σ x y, in any order."""
    total = 0.0
    for e in range(x.size):
        total += x[e] * y[e]
    return total


@outer
def see(m: Any, i: int) -> None:
    """Takes notice of the vectors and points that came since the node was last looked at."""
    node = m.nodes[i]
    block = m.blocks[node.block]
    index, weight = m.where[node.begin : node.end], m.weight[node.begin : node.end]
    v, best = block.vector, -np.inf
    while v >= 0 and m.vectors[v].born > node.seen_vector:
        begin = m.vectors[v].begin
        if weight.size == block.size:
            value = dot(weight, m.values[begin : begin + block.size])
        else:
            value, begin = 0.0, begin - block.first
            for e in range(weight.size):
                value += weight[e] * m.values[begin + index[e]]
        if value > best and value > node.lower - m.tiny:
            # Within rounding the newer one: what it made useless may be gone.
            best, node.vector = value, v
        v = m.vectors[v].older
    node.lower = max(node.lower, best)
    if block.vector >= 0:
        node.seen_vector = m.vectors[block.vector].born
    j = block.point
    newest = block.moved if j < 0 else max(block.moved, m.nodes[j].noted)
    if newest <= node.seen_point:
        return
    plane = plane_at(m, i)
    node.upper = min(node.upper, plane)
    best = node.upper - plane
    if node.seen_point < block.moved:
        node.seen_point = 0
    while j >= 0 and m.nodes[j].noted > node.seen_point:
        if m.nodes[j].drop < best:
            least = best / m.nodes[j].drop
            point = m.nodes[j]
            share = share_of(index, weight, m.where[point.begin : point.end], m.weight[point.begin : point.end], least)
            if share > least:
                best = m.nodes[j].drop * share
        j = m.nodes[j].older
    node.upper = min(node.upper, plane + best)
    node.seen_point = newest


@inner
def share_of(index: Any, weight: Any, point_index: Any, point_weight: Any, least: float) -> float:
    """minₛ b(s) / b_i(s): how much of the belief is the point; given up where it is not above the least."""
    share = np.inf
    e = 0
    for f in range(point_index.size):
        if point_weight[f] > 0:
            while e < index.size and index[e] < point_index[f]:
                e += 1
            if e == index.size or index[e] != point_index[f]:
                return 0.0
            share = min(share, weight[e] / point_weight[f])
            if share <= least:
                return share
    return share


@inner
def hashed(m: Any, block: int, begin: int, end: int) -> Any:
    """The bucket of a belief (Fowler-Noll-Vo)."""
    prime = np.uint64(1099511628211)
    code = np.uint64(block + 1)
    for e in range(begin, end):
        code = (code ^ np.uint64(m.where[e])) * prime
        code = (code ^ np.uint64(np.round(m.weight[e] * SCALE))) * prime
        code ^= code >> np.uint64(29)
    return np.int64(code % np.uint64(m.nodes.size))


@outer
def rehash(m: Any) -> None:
    """Buckets anew, when there are more."""
    for i in range(m.nodes.size):
        m.nodes[i].bucket = -1
    for i in range(m.counts[NODES]):
        home = hashed(m, m.nodes[i].block, m.nodes[i].begin, m.nodes[i].end)
        m.nodes[i].chain = m.nodes[home].bucket
        m.nodes[home].bucket = i


@outer
def add_node(m: Any, block: int, begin: int, end: int) -> int:
    """The node of the belief at begin:end of the pool, new or known; what is not needed of the pool is given back."""
    home = hashed(m, block, begin, end)
    j = m.nodes[home].bucket
    while j >= 0:
        other = m.nodes[j]
        if other.block == block and other.end - other.begin == end - begin:
            same = True
            for e in range(end - begin):
                one, two = begin + e, other.begin + e
                if m.where[one] != m.where[two] or np.round(m.weight[one] * SCALE) != np.round(m.weight[two] * SCALE):
                    same = False
                    break
            if same:
                m.counts[POOL] = begin
                return j
        j = other.chain
    i = m.counts[NODES]
    m.counts[NODES] = i + 1
    m.counts[POOL] = end
    node = m.nodes[i]
    node.chain = m.nodes[home].bucket
    m.nodes[home].bucket = i
    node.block, node.begin, node.end = block, begin, end
    node.lower, node.upper, node.vector = -np.inf, -np.inf, -1
    node.seen_vector, node.seen_point, node.noted = -1, -1, 0
    node.older = node.newer = -1
    for a in range(m.branches.shape[1]):
        q = 0.0
        for e in range(begin, end):
            q += m.weight[e] * m.tables[1, m.where[e], a]
        m.branches[i, a].q = q
        m.branches[i, a].begin = -1
        node.upper = max(node.upper, q)
    return i


@inner
def expand(m: Any, i: int, a: int) -> bool:
    """Makes the children of a node by an action; False where the arrays are too short."""
    branch = m.branches[i, a]
    if branch.begin >= 0:
        return True
    n, actions = m.scratch.size, m.branches.shape[1]
    reward, low, high = 0.0, n, 0
    for e in range(m.nodes[i].begin, m.nodes[i].end):
        s, p = m.where[e], m.weight[e]
        if p > 0:
            reward += p * m.tables[0, s, a]
            for f in range(m.rows[a * n + s], m.rows[a * n + s + 1]):
                t = m.columns[f]
                if np.isnan(m.scratch[t]):
                    m.scratch[t] = 0.0
                    low, high = min(low, t), max(high, t + 1)
                m.scratch[t] += p * m.entries[f]
    lengths, sums = np.zeros(m.symbols, dtype=np.int64), np.zeros(m.symbols)
    for t in range(low, high):
        if not np.isnan(m.scratch[t]):
            row = (actions + a) * n + t
            for f in range(m.rows[row], m.rows[row + 1]):
                lengths[m.columns[f]] += 1
                sums[m.columns[f]] += m.scratch[t] * m.entries[f]
    total, shown = 0, 0
    places = np.empty(m.symbols, dtype=np.int64)
    for o in range(m.symbols):
        shown += sums[o] > 0
        places[o] = total
        total += lengths[o]
    after = np.empty(total, dtype=np.int64)  # the states after each observation, and their probabilities
    joint = np.empty(total)
    for t in range(low, high):
        if not np.isnan(m.scratch[t]):
            row = (actions + a) * n + t
            for f in range(m.rows[row], m.rows[row + 1]):
                o = m.columns[f]
                joint[places[o]] = m.scratch[t] * m.entries[f]
                after[places[o]] = t
                places[o] += 1
            m.scratch[t] = np.nan
    begin = m.counts[POOL]
    if begin + 2 * shown + 2 * total > m.where.size or m.counts[NODES] + shown > m.nodes.size:
        m.counts[FULL] = 1
        return False
    branch.begin, branch.end, branch.reward = begin, begin + shown, reward
    m.counts[POOL] += 2 * shown
    child = begin
    for o in range(m.symbols):
        if sums[o] > 0:
            k = m.block_of[after[places[o] - lengths[o]]]
            start = m.counts[POOL]
            end = start
            if 2 * lengths[o] >= m.blocks[k].size:  # nearly all of the block: zeros, too
                end += m.blocks[k].size
                for e in range(start, end):
                    m.where[e] = m.blocks[k].first + e - start
                    m.weight[e] = 0.0
                for g in range(places[o] - lengths[o], places[o]):
                    m.weight[start + after[g] - m.blocks[k].first] = joint[g] / sums[o]
            else:
                for g in range(places[o] - lengths[o], places[o]):
                    m.where[end] = after[g]
                    m.weight[end] = joint[g] / sums[o]
                    end += 1
            m.where[child] = add_node(m, k, start, end)
            m.where[child + shown] = o
            m.weight[child] = sums[o]
            child += 1
    return True


@inner
def best(m: Any, i: int) -> Any:
    """The action whose upper bound is best, refreshed until it stays the best; -1 where the arrays are too short."""
    branches = m.branches[i]
    fresh = np.zeros(branches.size, dtype=np.bool_)
    while True:
        a: Any = np.int64(0)
        for c in range(1, branches.size):
            if branches[c].q > branches[a].q:
                a = c
        if fresh[a]:
            return a
        if not expand(m, i, a):
            return -1
        value = 0.0
        for e in range(branches[a].begin, branches[a].end):
            see(m, np.int64(m.where[e]))
            value += m.weight[e] * m.nodes[m.where[e]].upper
        branches[a].q = min(branches[a].q, branches[a].reward + m.discount * value)
        fresh[a] = True


@inner
def corner_of(m: Any, i: int) -> int:
    """The one state that a belief is sure of; -1 where there are more."""
    found = -1
    for e in range(m.nodes[i].begin, m.nodes[i].end):
        if m.weight[e] > 0:
            if found >= 0:
                return -1
            found = m.where[e]
    return found


@outer
def add_point(m: Any, i: int) -> None:
    """Notes the upper bound of a node, as the newest point of its block or as a corner of it."""
    node = m.nodes[i]
    block = m.blocks[node.block]
    if corner_of(m, i) >= 0:
        m.corners[corner_of(m, i)] = node.upper
        block.moved = m.counts[CLOCK]
        j = block.point
        while j >= 0:
            m.nodes[j].drop = m.nodes[j].upper - plane_at(m, j)
            j = m.nodes[j].older
        return
    if node.noted > 0:
        if node.newer >= 0:
            m.nodes[node.newer].older = node.older
        else:
            block.point = node.older
        if node.older >= 0:
            m.nodes[node.older].newer = node.newer
    node.noted = m.counts[CLOCK]
    node.drop = node.upper - plane_at(m, i)
    node.older, node.newer = block.point, -1
    if block.point >= 0:
        m.nodes[block.point].newer = i
    block.point = i


@outer
def backup(m: Any, i: int) -> None:
    """Tightens both bounds at a node by looking one step ahead."""
    node = m.nodes[i]
    block = m.blocks[node.block]
    if m.counts[VECTORS] == m.vectors.size or m.counts[VALUES] + block.size > m.values.size:
        m.counts[FULL] = 1
        return
    m.counts[CLOCK] += 1
    a = best(m, i)
    if a < 0:
        return
    branches = m.branches[i]
    if branches[a].q < node.upper - m.tiny:
        node.upper = branches[a].q
        add_point(m, i)
    gained = improve(m, i)
    if not gained and node.upper - node.lower > m.tiny:
        # Nothing came of the actions that were tried: the most promising of the others is tried, too.
        other = np.int64(-1)
        for c in range(branches.size):
            if (
                branches[c].begin < 0
                and branches[c].q > node.lower
                and (other < 0 or branches[c].q > branches[other].q)
            ):
                other = np.int64(c)
        if other >= 0 and expand(m, i, other):
            for e in range(branches[other].begin, branches[other].end):
                see(m, np.int64(m.where[e]))
            improve(m, i)


@inner
def improve(m: Any, i: int) -> bool:
    """Adds the vector of the action that is best by the children's remembered values, if it gains something."""
    node, branches = m.nodes[i], m.branches[i]
    most, a = -np.inf, np.int64(0)
    for c in range(branches.size):
        if branches[c].begin >= 0:
            value = 0.0
            for e in range(branches[c].begin, branches[c].end):
                value += m.weight[e] * m.nodes[m.where[e]].lower
            value = branches[c].reward + m.discount * value
            if value > most:
                most, a = value, np.int64(c)
    alpha = vector(m, i, a)
    value, first = 0.0, m.blocks[node.block].first
    for e in range(node.begin, node.end):
        value += m.weight[e] * alpha[m.where[e] - first]
    see(m, i)
    if value > node.lower + m.tiny and add_vector(m, node.block, alpha, a):
        see(m, i)
        return True
    return False


@inner
def vector(m: Any, i: int, a: int) -> Vector:
    """The vector of an action and of the children's best vectors, summed over observations first."""
    n, actions = m.scratch.size, m.branches.shape[1]
    block = m.blocks[m.nodes[i].block]
    chosen = np.zeros(m.symbols, dtype=np.int64)
    begin, end = m.branches[i, a].begin, m.branches[i, a].end
    for e in range(begin, end):
        see(m, np.int64(m.where[e]))
        chosen[m.where[e + end - begin]] = m.nodes[m.where[e]].vector + 1
    alpha = np.empty(block.size)
    for s in range(block.first, block.first + block.size):
        total = 0.0
        for f in range(m.rows[a * n + s], m.rows[a * n + s + 1]):
            t = m.columns[f]
            if np.isnan(m.scratch[t]):
                ahead = 0.0
                target = m.blocks[m.block_of[t]]
                row = (actions + a) * n + t
                for g in range(m.rows[row], m.rows[row + 1]):
                    v = chosen[m.columns[g]] - 1
                    if v < 0:
                        v = target.vector  # not seen from here: any vector is a lower bound
                    ahead += m.entries[g] * m.values[m.vectors[v].begin + t - target.first]
                m.scratch[t] = ahead
            total += m.entries[f] * m.scratch[t]
        alpha[s - block.first] = m.tables[0, s, a] + m.discount * total
    for s in range(block.first, block.first + block.size):
        for f in range(m.rows[a * n + s], m.rows[a * n + s + 1]):
            m.scratch[m.columns[f]] = np.nan
    return alpha


@outer
def add_vector(m: Any, k: int, alpha: Vector, action: int) -> bool:
    """Adds a vector unless an old one is at least as good everywhere; drops those that it makes useless."""
    block = m.blocks[k]
    v = block.vector
    while v >= 0:
        begin = m.vectors[v].begin
        useless = True
        for s in range(block.size):
            if m.values[begin + s] < alpha[s]:
                useless = False
                break
        if useless:
            return False
        v = m.vectors[v].older
    v, newer = block.vector, -1
    while v >= 0:
        begin, older = m.vectors[v].begin, m.vectors[v].older
        useless = True
        for s in range(block.size):
            if m.values[begin + s] > alpha[s]:
                useless = False
                break
        if useless:
            if newer >= 0:
                m.vectors[newer].older = older
            else:
                block.vector = older
            m.vectors[v].older = block.free
            block.free = v
        else:
            newer = v
        v = older
    if block.free >= 0:
        v = block.free
        block.free = m.vectors[v].older
    else:
        v = m.counts[VECTORS]
        m.counts[VECTORS] += 1
        m.vectors[v].begin = m.counts[VALUES]
        m.counts[VALUES] += block.size
    m.vectors[v].born, m.vectors[v].action, m.vectors[v].older = m.counts[CLOCK], action, block.vector
    block.vector = v
    for s in range(block.size):
        m.values[m.vectors[v].begin + s] = alpha[s]
    return True


@outer
def trial(m: Any, width: float, draws: Draws) -> Int[np.ndarray, " t"]:
    """One way down and back up; the gap allowed at depth t is width γ⁻ᵗ. With draws: a random walk, no backups."""
    random = draws.size > 0
    path = np.empty(draws.size // 2 if random else DEEPEST, dtype=np.int64)
    i: Any = np.int64(0)
    length, allowed = 0, width
    see(m, i)
    for t in range(path.size):
        path[t] = i
        length += 1
        allowed /= m.discount
        a = min(int(draws[2 * t] * m.branches.shape[1]), m.branches.shape[1] - 1) if random else best(m, i)
        if a < 0 or not expand(m, i, a):
            return path[:0]
        branch = m.branches[i, a]
        next_, most, passed = -1, 0.0, 0.0
        for e in range(branch.begin, branch.end):
            child = m.nodes[m.where[e]]
            if random:
                passed += m.weight[e]
                next_ = m.where[e]
                if passed >= draws[2 * t + 1]:
                    break
            else:
                excess = m.weight[e] * (child.upper - child.lower - allowed)
                if excess > most:
                    next_, most = m.where[e], excess
        if next_ < 0:
            break
        i = next_
        see(m, i)
    if not random:
        for t in range(length - 1, -1, -1):
            backup(m, path[t])
    return path[:length]


class CompiledTrials:
    """Both bounds of a POMDP, and the beliefs they were tightened at; see `trials.Trials`."""

    def __init__(self, blocks: Blocks, blind: list[tuple[Vector, int]], informed: Float[np.ndarray, "n a"]) -> None:
        n, actions = blocks.rewards.shape
        matrices = [*blocks.transitions, *blocks.observations]
        lengths = np.concatenate([np.diff(matrix.indptr) for matrix in matrices])
        records = np.full(len(blocks.sizes), -1, dtype=BLOCK)
        records["first"], records["size"], records["moved"] = blocks.first[:-1], blocks.sizes, 0
        nodes = np.zeros(1 << 12, dtype=NODE)
        nodes["bucket"] = -1
        self.m = Arrays(
            np.concatenate([[0], np.cumsum(lengths)]),
            np.concatenate([matrix.indices for matrix in matrices]).astype(np.int32),
            np.concatenate([matrix.data for matrix in matrices]),
            np.ascontiguousarray(np.stack([blocks.rewards, informed])),
            informed.max(axis=1),
            blocks.block,
            np.full(n, np.nan),
            records,
            nodes,
            np.zeros((len(nodes), actions), dtype=BRANCH),
            np.zeros(1 << 16, dtype=np.int32),
            np.zeros(1 << 16),
            np.zeros(1 << 10, dtype=VECTOR),
            np.zeros(max(1 << 16, 2 * len(blind) * n)),
            np.zeros(6, dtype=np.int64),
            blocks.observations[0].shape[1],
            float(blocks.discount),
            TINY * max(float(np.ptp(informed)), float(np.abs(informed).max()), 1e-300),
        )
        for alpha, action in blind:
            for k, first in enumerate(blocks.first[:-1]):
                self.adopt_vector(k, alpha[first : first + blocks.sizes[k]], action)
        self._node(blocks.home, blocks.start)
        see(self.m, 0)

    def trial(self, width: float, draws: Draws | None = None) -> Int[np.ndarray, " t"]:
        """One way down and back up, again with longer arrays where they were too short."""
        while True:
            path = trial(self.m, width, np.empty(0) if draws is None else draws)
            if not self._make_room():
                return path

    def backup(self, node: int) -> None:
        """Tightens both bounds at a node by looking one step ahead."""
        backup(self.m, node)
        while self._make_room():
            backup(self.m, node)

    def see(self, node: int) -> None:
        """Takes notice of what came since the node was last looked at."""
        see(self.m, node)

    def adopt_vector(self, k: int, alpha: Vector, action: int) -> None:
        """Takes over a vector that is a lower bound."""
        m = self.m
        self._make_room(bool(m.counts[VECTORS] == len(m.vectors) or m.counts[VALUES] + len(alpha) > len(m.values)))
        self.m.counts[CLOCK] += 1
        add_vector(self.m, k, np.ascontiguousarray(alpha), action)
        if self.m.counts[NODES]:
            see(self.m, 0)

    def adopt_point(self, k: int, belief: Vector, value: float) -> None:
        """Takes over an upper bound of a belief."""
        node = self._node(k, belief)
        self.m.counts[CLOCK] += 1
        if value < self.m.nodes[node]["upper"]:
            self.m.nodes["upper"][node] = value
            add_point(self.m, node)
        see(self.m, 0)

    def _node(self, k: int, belief: Vector) -> int:
        while self.m.counts[POOL] + len(belief) > len(self.m.where) or self.m.counts[NODES] == len(self.m.nodes):
            self._make_room(True)
        m, support = self.m, np.flatnonzero(belief)
        if 2 * len(support) >= len(belief):  # as `expand` keeps it
            support = np.arange(len(belief))
        begin = m.counts[POOL]
        m.where[begin : begin + len(support)] = m.blocks[k]["first"] + support
        m.weight[begin : begin + len(support)] = belief[support]
        return int(add_node(m, k, begin, begin + len(support)))

    def _make_room(self, need: bool = False) -> bool:
        """Doubles the arrays that are more than half full, if something did not fit."""
        m, counts = self.m, self.m.counts
        if not (counts[FULL] or need):
            return False
        counts[FULL] = 0
        full = {
            "nodes": 2 * counts[NODES] > len(m.nodes),
            "branches": 2 * counts[NODES] > len(m.nodes),
            "where": 2 * counts[POOL] > len(m.where),
            "weight": 2 * counts[POOL] > len(m.where),
            "vectors": 2 * counts[VECTORS] > len(m.vectors),
            "values": 2 * counts[VALUES] > len(m.values),
        }
        if not any(full.values()):
            full = dict.fromkeys(full, True)
        longer: dict[str, Any] = {
            name: np.concatenate([array, np.zeros_like(array)]) for name, array in m._asdict().items() if full.get(name)
        }
        self.m = m._replace(**longer)
        if full["nodes"]:
            rehash(self.m)
        return True

    def bounds(self, node: int) -> tuple[float, float]:
        """As a node remembers them."""
        return float(self.m.nodes[node]["lower"]), float(self.m.nodes[node]["upper"])

    @property
    def lower(self) -> float:
        """At the start."""
        return self.bounds(0)[0]

    @property
    def upper(self) -> float:
        """At the start."""
        return self.bounds(0)[1]

    @property
    def size(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.m if isinstance(array, np.ndarray))

    def vectors(self) -> list[tuple[Float[np.ndarray, "v m"], Int[np.ndarray, " v"]]]:
        """Of each block: the vectors over its states, and their actions."""
        out = []
        for block in self.m.blocks:
            v, alphas, actions = block["vector"], [], []
            while v >= 0:
                record = self.m.vectors[v]
                alphas.append(self.m.values[record["begin"] : record["begin"] + block["size"]])
                actions.append(record["action"])
                v = record["older"]
            out.append((np.array(alphas), np.array(actions)))
        return out

    @property
    def corners(self) -> Vector:
        """The upper bounds of beliefs that are sure of a state."""
        return self.m.corners.copy()

    def points(self) -> list[tuple[int, Vector, float]]:
        """The other beliefs whose upper bounds are kept: the block, the belief inside it, the bound."""
        out = []
        for k, block in enumerate(self.m.blocks):
            j = block["point"]
            while j >= 0:
                node = self.m.nodes[j]
                part = slice(node["begin"], node["end"])
                belief = np.zeros(block["size"])
                belief[self.m.where[part] - block["first"]] = self.m.weight[part]
                out.append((k, belief, float(node["upper"])))
                j = node["older"]
        return out
