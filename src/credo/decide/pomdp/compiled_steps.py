"""The steps of trials compiled by numba: records of arrays, and the functions that work on them.

Nodes, vectors and states are records of arrays that grow; lists are linked, the newest first, so that a node walks only
over what came since it last looked. Beliefs are sparse. It compiles faster the fewer arrays a function is given. All
compiled functions stand in this one file: numba keeps them on disk, and notices only changes of a function's own file.
"""

from functools import partial
from inspect import unwrap
from typing import Any, NamedTuple

import numba
import numpy as np
from jaxtyping import Float, Int

from credo.decide.pomdp.trials import ALIKE, DEEPEST, LEAST, Draws, Vector


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
            kept = 0.0
            for g in range(places[o] - lengths[o], places[o]):
                if joint[g] < LEAST * sums[o]:
                    joint[g] = 0.0
                kept += joint[g]
            if 2 * lengths[o] >= m.states[k].size:  # nearly all of the block: zeros, too
                end += m.states[k].size
                for e in range(start, end):
                    m.where[e] = k + e - start
                    m.weight[e] = 0.0
                for g in range(places[o] - lengths[o], places[o]):
                    m.weight[start + after[g] - k] = joint[g] / kept
            else:
                for g in range(places[o] - lengths[o], places[o]):
                    if joint[g] > 0:
                        m.where[end] = after[g]
                        m.weight[end] = joint[g] / kept
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
