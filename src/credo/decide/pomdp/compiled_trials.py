"""The trials of `trials.py` compiled by numba, for problems where they take seconds: the same steps over flat arrays.

Nodes, vectors and states are records of arrays that grow by doubling; lists are linked, the newest first, so that a
node walks only over what came since it last looked. Beliefs are sparse. numba is imported with this module alone, and
keeps what it compiles on disk; it compiles faster the fewer arrays a function is given.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from inspect import unwrap
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from jaxtyping import Float, Int

from credo.decide.pomdp.mixed_observability import Blocks
from credo.decide.pomdp.trials import ALIKE, DEEPEST, TINY, Children, Draws, Point, Vector


def _record(floats: str, integers: str) -> np.dtype:
    return np.dtype([(name, "f8") for name in floats.split()] + [(name, "i8") for name in integers.split()])


STATE = _record("corner scratch", "block size vector free point moved")
"""The upper bound of a state, a place to sum in (NaN but while a function uses it), and its block: the number of the
block's first state, whose record has the size, the newest vector, vectors not used any more, the newest point, and when
a corner moved."""
PAIR = _record("reward informed", "moves shows")
"""Of a state and an action: r(s, a), the informed bound of Q(s, a), and where the rows of P(s' | s, a) and P(o | a, s)
begin."""
NODE = _record("lower upper drop", "block begin end vector seen_vector seen_point noted older newer code bucket chain")
"""Its belief is begin:end of the pool; `noted` is when it became a point (0: it is none), which lies `drop` below the
plane through the corners; older and newer are the points around it, `bucket` is the first node whose hash is this
number, `chain` the next node of the same hash."""
ENTRY = _record("p", "to")
BRANCH = _record("q reward", "begin end")
VECTOR = _record("", "born older begin action")
CLOCK, NODES, POOL, VECTORS, VALUES, FULL = range(6)
SCALE = 10.0**ALIKE
GROWING = {NODES: ("nodes", "branches"), POOL: ("where", "weight"), VECTORS: ("vectors",), VALUES: ("values",)}
"""The arrays that a count says how full they are; those of one count are of one length."""
LARGE = 1e8
"""Bytes of an array that does not grow by doubling any more."""


def _compile(function: Any, **options: Any) -> Any:
    """Kept on disk; a type checker around the function, as in the tests, is taken off."""
    compiler: Any = numba.njit
    return compiler(cache=True, error_model="numpy", no_cfunc_wrapper=True, **options)(unwrap(function))


outer = _compile
inner = partial(_compile, no_cpython_wrapper=True)
reordered = partial(_compile, no_cpython_wrapper=True, fastmath={"reassoc", "contract"})


class Arrays(NamedTuple):
    """All that the compiled functions work on."""

    states: np.ndarray
    pairs: np.ndarray
    """Of state s and action a: row s, column a; a last row of ends."""
    entries: np.ndarray
    """Columns and probabilities of sparse rows: transitions, then observations."""
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
        value += m.weight[e] * m.states[m.where[e]].corner
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
    block = m.states[node.block]
    index, weight = m.where[node.begin : node.end], m.weight[node.begin : node.end]
    v, best = block.vector, -np.inf
    while v >= 0 and m.vectors[v].born > node.seen_vector:
        begin = m.vectors[v].begin
        if weight.size == block.size:
            value = dot(weight, m.values[begin : begin + block.size])
        else:
            value, begin = 0.0, begin - node.block
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
    """A number for a belief (Fowler-Noll-Vo)."""
    prime = np.uint64(1099511628211)
    code = np.uint64(block + 1)
    for e in range(begin, end):
        code = (code ^ np.uint64(m.where[e])) * prime
        code = (code ^ np.uint64(np.round(m.weight[e] * SCALE))) * prime
        code ^= code >> np.uint64(29)
    return np.int64(code >> np.uint64(1))


@outer
def rehash(m: Any) -> None:
    """Buckets anew, when there are more."""
    for i in range(m.nodes.size):
        m.nodes[i].bucket = -1
    for i in range(m.counts[NODES]):
        home = m.nodes[i].code % m.nodes.size
        m.nodes[i].chain = m.nodes[home].bucket
        m.nodes[home].bucket = i


@outer
def forget(m: Any) -> None:
    """Leaves the root and the points; their beliefs move to the front of the pool, and they have no children."""
    now = np.full(m.counts[NODES] + 1, -1)  # -1, which is no node, stays -1
    kept, end = 0, 0
    for i in range(m.counts[NODES]):
        if i == 0 or m.nodes[i].noted > 0:
            begin, length = m.nodes[i].begin, m.nodes[i].end - m.nodes[i].begin
            for e in range(length):
                m.where[end + e], m.weight[end + e] = m.where[begin + e], m.weight[begin + e]
            m.nodes[kept], m.branches[kept] = m.nodes[i], m.branches[i]
            m.nodes[kept].begin, m.nodes[kept].end = end, end + length
            for a in range(m.branches.shape[1]):
                m.branches[kept, a].begin = -1
            now[i] = kept
            kept, end = kept + 1, end + length
    for i in range(kept):
        m.nodes[i].older, m.nodes[i].newer = now[m.nodes[i].older], now[m.nodes[i].newer]
    for s in range(m.states.size):
        m.states[s].point = now[m.states[s].point]
    m.counts[NODES], m.counts[POOL] = kept, end
    rehash(m)


@outer
def add_node(m: Any, block: int, begin: int, end: int) -> int:
    """The node of the belief at begin:end of the pool, new or known; what is not needed of the pool is given back."""
    code = hashed(m, block, begin, end)
    home = code % m.nodes.size
    j = m.nodes[home].bucket
    while j >= 0:
        other = m.nodes[j]
        if other.code == code and other.block == block and other.end - other.begin == end - begin:
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
    node.block, node.begin, node.end, node.code = block, begin, end, code
    node.lower, node.upper, node.vector = -np.inf, -np.inf, -1
    node.seen_vector, node.seen_point, node.noted = -1, -1, 0
    node.older = node.newer = -1
    for a in range(m.branches.shape[1]):
        q = 0.0
        for e in range(begin, end):
            q += m.weight[e] * m.pairs[m.where[e], a].informed
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
    reward, low, high = 0.0, m.states.size, 0
    for e in range(m.nodes[i].begin, m.nodes[i].end):
        s, p = m.where[e], m.weight[e]
        if p > 0:
            reward += p * m.pairs[s, a].reward
            for f in range(m.pairs[s, a].moves, m.pairs[s + 1, a].moves):
                t = m.entries[f].to
                if np.isnan(m.states[t].scratch):
                    m.states[t].scratch = 0.0
                    low, high = min(low, t), max(high, t + 1)
                m.states[t].scratch += p * m.entries[f].p
    lengths, sums = np.zeros(m.symbols, dtype=np.int64), np.zeros(m.symbols)
    for t in range(low, high):
        if not np.isnan(m.states[t].scratch):
            for f in range(m.pairs[t, a].shows, m.pairs[t + 1, a].shows):
                lengths[m.entries[f].to] += 1
                sums[m.entries[f].to] += m.states[t].scratch * m.entries[f].p
    total, shown = 0, 0
    places = np.empty(m.symbols, dtype=np.int64)
    for o in range(m.symbols):
        shown += sums[o] > 0
        places[o] = total
        total += lengths[o]
    after = np.empty(total, dtype=np.int64)  # the states after each observation, and their probabilities
    joint = np.empty(total)
    for t in range(low, high):
        if not np.isnan(m.states[t].scratch):
            for f in range(m.pairs[t, a].shows, m.pairs[t + 1, a].shows):
                o = m.entries[f].to
                joint[places[o]] = m.states[t].scratch * m.entries[f].p
                after[places[o]] = t
                places[o] += 1
            m.states[t].scratch = np.nan
    begin = m.counts[POOL]
    if begin + 2 * shown + 2 * total > m.where.size or m.counts[NODES] + shown > m.nodes.size:
        m.counts[FULL] = 1
        return False
    branch.begin, branch.end, branch.reward = begin, begin + shown, reward
    m.counts[POOL] += 2 * shown
    child = begin
    for o in range(m.symbols):
        if sums[o] > 0:
            k = m.states[after[places[o] - lengths[o]]].block
            start = m.counts[POOL]
            end = start
            if 2 * lengths[o] >= m.states[k].size:  # nearly all of the block: zeros, too
                end += m.states[k].size
                for e in range(start, end):
                    m.where[e] = k + e - start
                    m.weight[e] = 0.0
                for g in range(places[o] - lengths[o], places[o]):
                    m.weight[start + after[g] - k] = joint[g] / sums[o]
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
    block = m.states[node.block]
    if corner_of(m, i) >= 0:
        m.states[corner_of(m, i)].corner = node.upper
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
    block = m.states[node.block]
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
    value = 0.0
    for e in range(node.begin, node.end):
        value += m.weight[e] * alpha[m.where[e] - node.block]
    see(m, i)
    if value > node.lower + m.tiny and add_vector(m, node.block, alpha, a):
        see(m, i)
        return True
    return False


@inner
def vector(m: Any, i: int, a: int) -> Vector:
    """The vector of an action and of the children's best vectors, summed over observations first."""
    k = m.nodes[i].block
    chosen = np.zeros(m.symbols, dtype=np.int64)
    begin, end = m.branches[i, a].begin, m.branches[i, a].end
    for e in range(begin, end):
        see(m, np.int64(m.where[e]))
        chosen[m.where[e + end - begin]] = m.nodes[m.where[e]].vector + 1
    alpha = np.empty(m.states[k].size)
    for s in range(k, k + alpha.size):
        total = 0.0
        for f in range(m.pairs[s, a].moves, m.pairs[s + 1, a].moves):
            t = m.entries[f].to
            target = m.states[t]
            if np.isnan(target.scratch):
                ahead = 0.0
                for g in range(m.pairs[t, a].shows, m.pairs[t + 1, a].shows):
                    v = chosen[m.entries[g].to] - 1
                    if v < 0:
                        v = m.states[target.block].vector  # not seen from here: any vector is a lower bound
                    ahead += m.entries[g].p * m.values[m.vectors[v].begin + t - target.block]
                target.scratch = ahead
            total += m.entries[f].p * target.scratch
        alpha[s - k] = m.pairs[s, a].reward + m.discount * total
    for s in range(k, k + alpha.size):
        for f in range(m.pairs[s, a].moves, m.pairs[s + 1, a].moves):
            m.states[m.entries[f].to].scratch = np.nan
    return alpha


@outer
def add_vector(m: Any, k: int, alpha: Vector, action: int) -> bool:
    """Adds a vector unless an old one is at least as good everywhere; drops those that it makes useless."""
    block = m.states[k]
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
def grow(m: Any, i: int, a: int) -> bool:
    """The children of a node by an action, with the bounds that are known now; False where the arrays are too short."""
    if not expand(m, i, a):
        return False
    for e in range(m.branches[i, a].begin, m.branches[i, a].end):
        see(m, np.int64(m.where[e]))
    return True


@outer
def trial(m: Any, width: float, draws: Draws) -> Int[np.ndarray, " t"]:
    """One way down and back up; see `trials.Trials.trial`."""
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

    root = 0

    def __init__(self, blocks: Blocks, blind: list[tuple[Vector, int]], informed: Float[np.ndarray, "n a"]) -> None:
        n, actions = blocks.rewards.shape
        matrices = [*blocks.transitions, *blocks.observations]
        states, nodes = np.full(n, -1, dtype=STATE), np.zeros(1 << 12, dtype=NODE)
        states["corner"], states["scratch"], states["moved"] = informed.max(axis=1), np.nan, 0
        states["block"], states["size"] = blocks.first[blocks.block], blocks.sizes[blocks.block]
        pairs = np.zeros((n + 1, actions), dtype=PAIR)
        pairs["reward"][:n], pairs["informed"][:n] = blocks.rewards, informed
        ends = np.cumsum([0] + [matrix.nnz for matrix in matrices])
        for k, matrix in enumerate(matrices):
            pairs["moves" if k < actions else "shows"][:, k % actions] = ends[k] + matrix.indptr
        entries = np.empty(ends[-1], dtype=ENTRY)
        entries["to"] = np.concatenate([matrix.indices for matrix in matrices])
        entries["p"] = np.concatenate([matrix.data for matrix in matrices])
        nodes["bucket"] = -1
        self.m = Arrays(
            states,
            pairs,
            entries,
            nodes,
            np.zeros((len(nodes), actions), dtype=BRANCH),
            np.zeros(1 << 16, dtype=np.int32),
            np.zeros(1 << 16),
            np.zeros(1 << 10, dtype=VECTOR),
            np.zeros(1 << 16),
            np.zeros(6, dtype=np.int64),
            blocks.observations[0].shape[1],
            float(blocks.discount),
            TINY * max(float(np.ptp(informed)), float(np.abs(informed).max()), 1e-300),
        )
        self.first = blocks.first
        for alpha, action in blind:
            for k, (first, end) in enumerate(pairwise(blocks.first)):
                self.adopt_vector(k, alpha[first:end], action)
        self.node(blocks.home, blocks.start)
        see(self.m, self.root)

    def trial(self, width: float, draws: Draws | None = None) -> Sequence[int]:
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

    def children(self, node: int, action: int) -> Children:
        """What follows an action, the bounds of the beliefs that it leads to up to date."""
        while not grow(self.m, node, action):
            self._make_room()
        m, branch = self.m, self.m.branches[node, action]
        begin, end = int(branch["begin"]), int(branch["end"])
        nodes, seen = m.where[begin:end].tolist(), m.where[end : 2 * end - begin].tolist()
        return Children(float(branch["reward"]), seen, m.weight[begin:end].copy(), nodes)

    def adopt_vector(self, k: int, alpha: Vector, action: int) -> None:
        """Takes over a vector that is a lower bound."""
        counts, m = self.m.counts, self.m
        while counts[VECTORS] == len(self.m.vectors) or counts[VALUES] + len(alpha) > len(self.m.values):
            self._make_room(True)
        counts[CLOCK] += 1
        add_vector(self.m, int(self.first[k]), np.ascontiguousarray(alpha), action)
        if m.counts[NODES]:
            see(self.m, self.root)

    def adopt_point(self, k: int, belief: Vector, value: float) -> None:
        """Takes over an upper bound of a belief."""
        node = self.node(k, belief)
        self.m.counts[CLOCK] += 1
        if value < self.m.nodes[node]["upper"]:
            self.m.nodes["upper"][node] = value
            add_point(self.m, node)
        see(self.m, self.root)

    def node(self, k: int, belief: Vector) -> int:
        """The node of a belief, new or known."""
        while self.m.counts[POOL] + len(belief) > len(self.m.where) or self.m.counts[NODES] == len(self.m.nodes):
            self._make_room(True)
        m, support, first = self.m, np.flatnonzero(belief), int(self.first[k])
        if 2 * len(support) >= len(belief):  # as `expand` keeps it
            support = np.arange(len(belief))
        begin = int(m.counts[POOL])
        m.where[begin : begin + len(support)] = first + support
        m.weight[begin : begin + len(support)] = belief[support]
        return int(add_node(m, first, begin, begin + len(support)))

    def _make_room(self, need: bool = False) -> bool:
        """Longer arrays where they are more than half full (or all, if none is), if something did not fit."""
        m = self.m
        if not (m.counts[FULL] or need):
            return False
        m.counts[FULL] = 0
        lengths = {count: len(getattr(m, names[0])) for count, names in GROWING.items()}
        full = [count for count, length in lengths.items() if 2 * m.counts[count] > length] or list(GROWING)
        for count in full:
            arrays = [getattr(m, name) for name in GROWING[count]]
            # In place: no moment at which memory holds both; large arrays by less, as all of it is touched.
            longer = 2 if max(array.nbytes for array in arrays) < LARGE else 1.25
            for array in arrays:
                array.resize((int(lengths[count] * longer), *array.shape[1:]), refcheck=False)
        if NODES in full:
            rehash(m)
        return True

    def forget(self) -> None:
        """Leaves the vectors, the points and the root: other beliefs are found again when they are needed."""
        forget(self.m)

    def bounds(self, node: int) -> tuple[float, float]:
        """As a node remembers them."""
        return float(self.m.nodes[node]["lower"]), float(self.m.nodes[node]["upper"])

    def action(self, node: int) -> int:
        """Of the vector that is best at a node."""
        return int(self.m.vectors[self.m.nodes[node]["vector"]]["action"])

    def uppers(self, node: int) -> Float[np.ndarray, " a"]:
        """Upper bounds of the actions at a node, perhaps stale."""
        return self.m.branches["q"][node].copy()

    @property
    def lower(self) -> float:
        """At the start."""
        return self.bounds(self.root)[0]

    @property
    def upper(self) -> float:
        """At the start."""
        return self.bounds(self.root)[1]

    @property
    def size(self) -> int:
        """Bytes that are in use."""
        m = self.m
        each = {count: sum(getattr(m, name)[:1].nbytes for name in names) for count, names in GROWING.items()}
        used = sum(int(m.counts[count]) * size for count, size in each.items())
        return used + m.states.nbytes + m.pairs.nbytes + m.entries.nbytes

    def vectors(self) -> list[tuple[Float[np.ndarray, "v m"], Int[np.ndarray, " v"]]]:
        """Of each block: the vectors over its states, and their actions."""
        m, out = self.m, []
        for first, end in pairwise(self.first.tolist()):
            records = m.vectors[list(self._chain(int(m.states[first]["vector"]), m.vectors))]
            alphas = m.values[records["begin"][:, None] + np.arange(end - first)]
            out.append((alphas, records["action"].copy()))
        return out

    @property
    def corners(self) -> Vector:
        """The upper bounds of beliefs that are sure of a state."""
        return self.m.states["corner"].copy()

    def points(self) -> list[Point]:
        """The other beliefs whose upper bounds are kept: the block, the belief inside it, the bound."""
        m, out = self.m, []
        for k, (first, end) in enumerate(pairwise(self.first.tolist())):
            for j in self._chain(int(m.states[first]["point"]), m.nodes):
                part = slice(m.nodes[j]["begin"], m.nodes[j]["end"])
                belief = np.zeros(end - first)
                belief[m.where[part] - first] = m.weight[part]
                out.append((k, belief, float(m.nodes[j]["upper"])))
        return out

    def _chain(self, newest: int, records: np.ndarray) -> Iterator[int]:
        """A linked list, the newest first."""
        while newest >= 0:
            yield newest
            newest = int(records[newest]["older"])
