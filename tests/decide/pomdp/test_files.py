"""Files of problems: every form of the formats, written and read again, and what is said of bad ones."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import credo
from credo.decide.pomdp import POMDP
from credo.decide.pomdp.cassandra import parse
from credo.errors import CredoError, DataError

DATA = Path(os.environ.get("CREDO_DATA", "no data")) / "pomdp"
HEAD = "discount: 0.9\nvalues: reward\nstates: a b c\nactions: 2\nobservations: x y\n"
REST = "T: * identity\nO: * uniform\n"


def same(one: POMDP, other: POMDP) -> None:
    np.testing.assert_allclose(one.start, other.start)
    np.testing.assert_allclose(one.rewards, other.rewards)
    assert one.discount == other.discount
    for a in range(one.shape[1]):
        np.testing.assert_allclose(one.transitions[a].toarray(), other.transitions[a].toarray())
        np.testing.assert_allclose(one.observations[a].toarray(), other.observations[a].toarray())


def test_tiger(tiger):
    assert tiger.shape == (2, 3, 2)
    assert tiger.action_names == ("listen", "open-left", "open-right")
    np.testing.assert_array_equal(tiger.rewards, [[-1, -100, 10], [-1, 10, -100]])
    np.testing.assert_array_equal(tiger.observations[0].toarray(), [[0.85, 0.15], [0.15, 0.85]])
    np.testing.assert_array_equal(tiger.transitions[1].toarray(), np.full((2, 2), 0.5))


def test_later_lines_count():
    text = (
        HEAD + "T: * identity\nT: 0 : a 0.5 0.5 0\nT: 0 : b : b 0\nT: 0 : b : c 1.0\nT:1:*\nuniform\nT: 1 : c reset\n"
    )
    p = parse(text.replace("T: *", "start: b\nT: *", 1) + "O: * : * : x 1\nO: 1 : c\n0.25 0.75\n")
    np.testing.assert_array_equal(p.transitions[0].toarray(), [[0.5, 0.5, 0], [0, 0, 1], [0, 0, 1]])
    np.testing.assert_allclose(p.transitions[1].toarray(), [[1 / 3] * 3, [1 / 3] * 3, [0, 1, 0]])
    np.testing.assert_array_equal(p.observations[1].toarray(), [[1, 0], [1, 0], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("", [1 / 3, 1 / 3, 1 / 3]),
        ("start: uniform", [1 / 3, 1 / 3, 1 / 3]),
        ("start:\n0.5 0.5 0", [0.5, 0.5, 0]),
        ("start: c", [0, 0, 1]),
        ("start: 1", [0, 1, 0]),
        ("start include: a 2", [0.5, 0, 0.5]),
        ("start exclude: a", [0, 0.5, 0.5]),
        ("start: a b", [0.5, 0.5, 0]),
    ],
)
def test_starts(line, start):
    np.testing.assert_allclose(parse(f"{HEAD}{line}\n{REST}").start, start)


def test_rewards_in_every_form():
    """Against the same assignments made in a dense table (a, s, s', o)."""
    random = np.random.default_rng(0)
    moves, shows = random.dirichlet(np.ones(3), (2, 3)).round(3), random.dirichlet(np.ones(2), (2, 3)).round(3)
    moves[..., -1] = 1 - moves[..., :-1].sum(-1)
    shows[..., -1] = 1 - shows[..., :-1].sum(-1)
    text = HEAD.replace("reward", "cost")
    for a in range(2):
        text += f"T: {a}\n" + "\n".join(" ".join(f"{v:.6f}" for v in row) for row in moves[a]) + "\n"
        text += f"O : {a}\n" + "\n".join(" ".join(f"{v:.6f}" for v in row) for row in shows[a]) + "\n"
    full = np.zeros((2, 3, 3, 2))
    text += "R: * : a : * : * 2\n"
    full[:, 0] = 2
    text += "R: 1 : * : b : * -3\n"
    full[1, :, 1] = -3
    text += "R: 0 : c : a\n1 7.5\n"
    full[0, 2, 0] = [1, 7.5]
    text += "R: 0 : b\n1 2\n3 4\n5 6\n"
    full[0, 1] = [[1, 2], [3, 4], [5, 6]]
    text += "R: * : * : * : y 0.5\nR: 1 : 2 : 1 : x 9\nR: 0 : a\n4 4 4 4 4 4\n"
    full[..., 1] = 0.5
    full[1, 2, 1, 0] = 9
    full[0, 0] = 4
    want = -np.einsum("ast,ato,asto->sa", moves, shows, full)
    np.testing.assert_allclose(parse(text).rewards, want, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_statements_in_any_order(seed):
    """Lines of every form, wildcards and names or numbers, beside the same assignments in dense tables."""
    random = np.random.default_rng(seed)
    s, a, o = 4, 3, 3
    names = {"s": ["up", "down", "T", "a-b"], "a": ["R", "uniform_", "x1"], "o": ["0", "1", "2"]}
    moves, shows, full = np.tile(np.eye(s), (a, 1, 1)), np.full((a, s, o), 1 / o), np.zeros((a, s, s, o))
    start = random.dirichlet(np.ones(s)).round(3)
    start[-1] = 1 - start[:-1].sum()
    text = "\ufeffdiscount : 0.5\r\nvalues:\tcost#:\r\n" + "".join(
        f"{kind} : {' '.join(names[kind[0]])}\r\n" for kind in ("states", "actions", "observations")
    )
    text += f"start:{' '.join(map(str, start))}\r\nT:*identity\r\nO: * uniform\r\n"

    def pick(kind):
        k = int(random.integers(-1, len(names[kind])))
        return ("*", slice(None)) if k < 0 else (random.choice([names[kind][k], str(k)]), k)

    def row(n):
        return random.permutation(np.append([0.25, 0.75], np.zeros(n - 2)))

    for _ in range(60):
        which, (act, i), (where, j) = random.choice(list("TOR")), pick("a"), pick("s")
        table, n = (moves, s) if which == "T" else (shows, o)
        if which == "R":
            (to, k), (seen, e) = pick("s"), pick("o")
            values, depth = random.integers(-9, 9, (s, o)), random.integers(3)
            if depth == 0:
                full[i, j] = values
                text += f"R: {act}:{where} {' '.join(map(str, values.ravel()))}\r\n"
            elif depth == 1:
                full[i, j, k] = values[0]
                text += f"R:{act} : {where} : {to}\t{' '.join(map(str, values[0]))}\n"
            else:
                full[i, j, k, e] = values[0, 0]
                text += f"R : {act} : {where} : {to} : {seen} # 7\n {values[0, 0]}.0e0\n"
            continue
        word = random.choice(["uniform", "row", "matrix", "cells", *["identity", "reset"] * (which == "T")])
        if word == "uniform":
            table[i, j] = 1 / n
            text += f"{which}: {act} : {where} uniform\n"
        elif word == "row":
            table[i, j] = given = row(n)
            text += f"{which}: {act} : {where}\n{' '.join(map(str, given))}\n"
        elif word == "matrix":
            table[i] = given = np.array([row(n) for _ in range(s)])
            text += f"{which}: {act}\n" + "\n".join(" ".join(map(str, each)) for each in given) + "\n"
        elif word == "cells":
            table[i, j] = np.eye(n)[0]
            text += f"{which}: {act} : {where} : * 0\n{which}: {act}: {where} : 0 1.\n"
        elif word == "identity":
            table[i] = np.eye(s)
            text += f"T: {act} identity\n"
        else:
            table[i, j] = start
            text += f"T: {act} : {where} reset\n"
    p = parse(text.removeprefix("\ufeff"))
    np.testing.assert_allclose([m.toarray() for m in p.transitions], moves, atol=1e-12)
    np.testing.assert_allclose([m.toarray() for m in p.observations], shows, atol=1e-12)
    np.testing.assert_allclose(p.rewards, -np.einsum("ast,ato,asto->sa", moves, shows, full), atol=1e-12)
    np.testing.assert_allclose(p.start, start)


def test_byte_order_mark_and_line_ends(tmp_path, tiger, tiger_text):
    path = tmp_path / "windows.pomdp"
    path.write_bytes(b"\xef\xbb\xbf" + tiger_text.replace("\n", "\r\n").encode())
    same(tiger, POMDP.read(path))


@pytest.mark.parametrize("ending", ["pomdp", "pomdpx"])
def test_broken_files_are_refused_in_a_sentence(ending, tmp_path, tiger_text):
    """Pieces cut off, swapped, doubled, and strange words put in: a sound problem, or a sentence."""
    random = np.random.default_rng(0)
    path, refused = tmp_path / f"p.{ending}", 0
    strange = [
        "nan",
        "1e400",
        "-0.5",
        "1_0",
        "²",
        "٣",
        "*",
        "*-",
        ":",
        "identity",
        "99999999999",
        "\x00",
        "null",
        "reset",
    ]
    for _ in range(300):
        pieces = re.findall(r"<[^>]*>|[^<>\s]+|\s+", tiger_text if ending == "pomdp" else FACTORED)
        i, j = random.integers(len(pieces), size=2)
        how = random.integers(5)
        if how == 0:
            pieces = pieces[:i]
        elif how == 1:
            pieces[i], pieces[j] = pieces[j], pieces[i]
        elif how == 2:
            del pieces[i]
        else:
            pieces.insert(i, pieces[j] if how == 3 else f" {random.choice(strange)} ")
        path.write_text("".join(pieces), encoding="utf-8")
        said = ""
        try:
            p = POMDP.read(path)
        except DataError as error:
            said = str(error)
            refused += 1
        assert "\n" not in said
        if not said:
            assert np.isfinite(p.rewards).all()
            for matrix in (*(m.toarray() for m in (*p.transitions, *p.observations)), p.start[None]):
                assert (matrix >= 0).all()
                np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert refused > 100


def test_written_and_read_again(tmp_path, tiger, random_pomdp):
    for p in (tiger, random_pomdp(0, 4, 3, 3)):
        for ending in ("pomdp", "pomdpx"):
            back = POMDP.read(p.write(tmp_path / f"p.{ending}"))
            same(p, back)
            assert [str(n) for n in p.action_names] == list(back.action_names)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("# only words\n", "is empty"),
        (HEAD + "T: 2 identity", r"line 6: expected one of the 2 actions, found '2'"),
        (HEAD + "T: 0 : a : d 1", r"line 6: expected one of the 3 states, found 'd'"),
        (HEAD + "T: 0 : a : b one", r"line 6: expected a probability, found 'one'"),
        (HEAD + "T: 0\n1 0 0\n0 1 zero\n", r"line 8: expected 9 numbers of a matrix, found 'zero'"),
        (HEAD + "T: 0\n1 0 0\n", r"expected 9 numbers .* of which there are 3, found the end of the file"),
        (HEAD + "T: 0 : a identity", r"identity takes the place of a square matrix, found 'identity'"),
        (HEAD + "O: 0 : a reset", "reset is for transitions"),
        (HEAD + "R: 0 5", r"line 6: expected ':' and a state after the action of a reward, found '5'"),
        (HEAD + "start: 0.5 0.5 0.5\n", r"line 6: the start must be probabilities that sum to 1, their sum is 1.5"),
        (HEAD + "start exclude: a b c\n", "excludes all states"),
        (HEAD + "colour: red", r"line 6: expected one of discount, .*, found 'colour'"),
        ("values: profit", r"line 1: values must be reward or cost, found 'profit'"),
        ("states: a a", r"line 1: expected states that differ, found 'a'"),
        ("T: 0 identity", r"line 1: expected the section states first"),
        (HEAD[14:] + REST, "has no discount"),
        ("discount: 1_0", r"line 1: expected the discount, a number, found '1_0'"),
        ("discount: 1.5\n" + HEAD[14:] + REST, "discount"),
        (HEAD + "start: 0.5 nan 0.5\n", r"line 6: expected one of the 3 states, found '0.5'"),
        (HEAD + REST + "R: * : * : * : * 1e400", r"line 8: expected a reward, found '1e400'"),
        (HEAD + "T: ² identity", r"line 6: expected one of the 2 actions, found '²'"),
        ("states: a * b\n", r"line 1: expected names of states, or how many there are, found '\*'"),
        ("states: -3\n", r"line 1: expected names of states, or how many there are, found '-3'"),
        ("states: 99999999999\n", r"line 1: expected at most 5,000,000 states"),
        (
            "states: 100000\nactions: 9\nobservations: 2\nT: * uniform",
            r"line 4: expected at most .* 90,000,000,000 are",
        ),
        (HEAD + REST + "states: d\n", r"line 8: expected the section states once, found 'states'"),
        (HEAD + "T: 0 reset\nstart: a\n", r"line 7: expected the start before the first reset, found 'start'"),
        (HEAD + REST + "T: 0 : b : b 0.7", r"found 0.7 \(off by -0.3\) for action '0' from state 'b'; 1 rows"),
        (HEAD + "T: * identity\nO: 0 uniform", r"observation .* found 0 .* for action '1' in state 'a'; 3 rows"),
    ],
)
def test_bad_files(text, sentence, tmp_path):
    path = tmp_path / "bad.pomdp"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence) as caught:
        POMDP.read(path)
    assert "bad.pomdp" in str(caught.value)


@pytest.mark.parametrize("old", ["T: * : * : * 0\n", "T: 0 : a : b 0.7\n", ""])
def test_zeros_for_all_take_back_what_was_said(old):
    p = parse(f"{HEAD}{old}T: * : * : * 0.0\nT: * : a : c 1\nT: * : b : b : 1\nT: * : c : a 1\nO: * uniform")
    for table in p.transitions:
        np.testing.assert_array_equal(table.toarray(), np.eye(3)[[2, 1, 0]])


def test_rewards_of_patterns_that_alternate():
    """The last line counts, whichever coordinates it names."""
    text = HEAD + REST + "".join(f"R: * : {s} : * : * {s}\nR: 0 : {s} : {s} : x {9 - s}\n" for s in range(3))
    np.testing.assert_allclose(parse(text + "R: * : b : * : y -4").rewards[:, 0], [4.5, (8 - 4) / 2, (7 + 2) / 2])


def test_the_world_of_an_mdp_file(tmp_path):
    """Rewards over next states, as a matrix or a row, are for those."""
    path = tmp_path / "w.mdp"
    path.write_text("discount: 0.9 values: cost states: 2 actions: 2 start: 1 T: * uniform R: 0 1 2 3 4 R: 1 : 0 5 7")
    world = credo.MDP.read(path)
    np.testing.assert_array_equal(world.rewards, [[-1.5, -6], [-3.5, 0]])
    np.testing.assert_array_equal(world.start, [0, 1])


def test_names_are_written_as_other_programs_read_them(tmp_path):
    p = POMDP(
        [np.eye(2)] * 2, np.eye(2), [1.0, 2.0], states=["a b", "c,d"], actions=["T", "go"], observations=["1st", "2nd"]
    )
    back = POMDP.read(p.write(tmp_path / "p.pomdp"))
    assert (back.state_names, back.action_names, back.observation_names) == (("a_b", "c_d"), ("0", "1"), ("0", "1"))
    same(p, back)


def test_no_file(tmp_path):
    for ending in ("pomdp", "pomdpx"):
        with pytest.raises(CredoError, match="cannot read"):
            POMDP.read(tmp_path / f"none.{ending}")


FACTORED = """<?xml version="1.0"?><pomdpx version="1.0" id="t">
<Discount>0.9</Discount>
<Variable>
 <StateVar vnamePrev="where_0" vnameCurr="where_1" fullyObs="true"><ValueEnum>west east</ValueEnum></StateVar>
 <StateVar vnamePrev="ore_0" vnameCurr="ore_1"><NumValues>3</NumValues></StateVar>
 <ObsVar vname="beep"><ValueEnum>no yes</ValueEnum></ObsVar>
 <ActionVar vname="act"><ValueEnum>go dig</ValueEnum></ActionVar>
 <RewardVar vname="pay"/><RewardVar vname="toil"/>
</Variable>
<InitialStateBelief>
 <CondProb><Var>where_0</Var><Parent>null</Parent><Parameter type="TBL">
  <Entry><Instance>west</Instance><ProbTable>1.0</ProbTable></Entry></Parameter></CondProb>
 <CondProb><Var>ore_0</Var><Parent>null</Parent><Parameter type="TBL">
  <Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry></Parameter></CondProb>
</InitialStateBelief>
<StateTransitionFunction>
 <CondProb><Var>ore_1</Var><Parent>act where_1 ore_0</Parent><Parameter type="TBL">
  <Entry><Instance>* * - -</Instance><ProbTable>identity</ProbTable></Entry>
  <Entry><Instance>dig east s2 -</Instance><ProbTable>0.5 0.25 0.25</ProbTable></Entry></Parameter></CondProb>
 <CondProb><Var>where_1</Var><Parent>act where_0</Parent><Parameter type="TBL">
  <Entry><Instance>go - -</Instance><ProbTable>0.1 0.9 0.9 0.1</ProbTable></Entry>
  <Entry><Instance>dig - -</Instance><ProbTable>identity</ProbTable></Entry></Parameter></CondProb>
</StateTransitionFunction>
<ObsFunction>
 <CondProb><Var>beep</Var><Parent>act ore_1</Parent><Parameter type="DD"><DAG><Node var="act">
  <Edge val="go"><Terminal>0.5</Terminal></Edge>
  <Edge val="dig"><Node var="ore_1">
   <Edge val="s0"><SubDAG type="deterministic" var="beep" val="no"/></Edge>
   <Edge val="s1"><SubDAG type="uniform" var="beep"/></Edge>
   <Edge val="s2"><SubDAG type="template" idref="much"/></Edge></Node></Edge></Node></DAG>
  <SubDAGTemplate id="much"><Node var="beep"><Edge val="no"><Terminal>0.2</Terminal></Edge>
   <Edge val="yes"><Terminal>0.8</Terminal></Edge></Node></SubDAGTemplate></Parameter></CondProb>
</ObsFunction>
<RewardFunction>
 <Func><Var>pay</Var><Parent>act ore_0 ore_1 beep</Parent><Parameter type="TBL">
  <Entry><Instance>dig s2 - -</Instance><ValueTable>10 20 1 2 0 3</ValueTable></Entry></Parameter></Func>
 <Func><Var>toil</Var><Parent>act</Parent><Parameter type="TBL">
  <Entry><Instance>*</Instance><ValueTable>-1</ValueTable></Entry></Parameter></Func>
</RewardFunction></pomdpx>"""


def test_factors_are_expanded(tmp_path):
    path = tmp_path / "f.pomdpx"
    path.write_text(FACTORED)
    p = POMDP.read(path)
    assert p.factors == (("where_1", ("west", "east")), ("ore_1", ("s0", "s1", "s2")))
    assert p.state_names == ("west,s0", "west,s1", "west,s2", "east,s0", "east,s1", "east,s2")
    assert p.observation_names == ("west,no", "west,yes", "east,no", "east,yes")
    np.testing.assert_allclose(p.start, [1 / 3] * 3 + [0] * 3)
    go, dig = (m.toarray() for m in p.transitions)
    np.testing.assert_allclose(go, np.kron([[0.1, 0.9], [0.9, 0.1]], np.eye(3)))
    np.testing.assert_allclose(dig[:5], np.eye(6)[:5])
    np.testing.assert_allclose(dig[5], [0, 0, 0, 0.5, 0.25, 0.25])
    seen = p.observations[1].toarray()
    np.testing.assert_allclose(seen[:3], [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.8, 0, 0]])
    np.testing.assert_allclose(seen[3:, 2:], seen[:3, :2])
    np.testing.assert_allclose(p.rewards[:, 0], -1)
    dug = 0.5 * 10 + 0.25 * (0.5 * 1 + 0.5 * 2) + 0.25 * (0.8 * 3)
    np.testing.assert_allclose(p.rewards[[0, 1, 2, 5], 1], [-1, -1, -1 + 0.8 * 3, -1 + dug])


def test_attributes_that_xml_forbids(tmp_path, tiger):
    """Files of POMDPs.jl have `xmlns:=`; SARSOP reads them, and tables without a type."""
    path = tiger.write(tmp_path / "p.pomdpx")
    strange = "<pomdpx id='t'\n xmlns:='http://w' xsi:noNamespaceSchemaLocation='pomdpx.xsd'>"
    path.write_text(re.sub("<pomdpx[^>]*>", strange, path.read_text()).replace(' type="TBL"', ""))
    same(tiger, POMDP.read(path))


def test_a_state_of_many_values_is_read_sparsely(tmp_path, tiger):
    """A table of 8000 x 8000 would be 512 MB."""
    text = tiger.write(tmp_path / "p.pomdpx").read_text()
    for tag, table in {"State": "* - -", "Obs": "* * -"}.items():
        word = "identity" if tag == "State" else "0.25 0.75"
        one = f"<Entry><Instance>{table}</Instance><ProbTable>{word}</ProbTable></Entry></Parameter></CondProb></{tag}"
        text = re.sub(f"(<{tag}[a-zA-Z]*Function>.*?)<Entry>.*</{tag}", rf"\1{one}", text, flags=re.DOTALL)
    text = re.sub("<ValueEnum>tiger.*?</ValueEnum>", "<NumValues>8000</NumValues>", text)
    text = (
        re.sub("<ProbTable>0.5 0.5<", "<ProbTable>uniform<", text)
        .replace("tiger-left", "s0")
        .replace("tiger-right", "s1")
    )
    (tmp_path / "p.pomdpx").write_text(text)
    p = POMDP.read(tmp_path / "p.pomdpx")
    assert p.shape == (8000, 3, 2)
    assert all((m != sp.eye_array(8000)).nnz == 0 for m in p.transitions)
    np.testing.assert_array_equal(p.rewards[:3, 1], [-100, 10, 0])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (FACTORED, "", "is empty"),
        ("</pomdpx>", "", "not well-formed XML: .*line"),
        ("<Discount>0.9", "<Discount>much", "Discount must be a number, found 'much'"),
        ("dig east s2 -", "dig north s2 -", "'where_1' has no value 'north'; it has west, east"),
        ("dig east s2 -", "dig east s2", r"needs 4 words \(act where_1 ore_0 ore_1\)"),
        ("0.5 0.25 0.25", "0.5 0.25", "needs 3 numbers, found 2"),
        ("0.5 0.25 0.25", "0.5 0.25 0.5", r"found 1.25 \(off by \+0.25\) for action 'dig' from state 'east,s2'"),
        ("act where_1 ore_0<", "act where_1 ore_9<", "the table of 'ore_1' names 'ore_9', which is no variable"),
        ("<ProbTable>uniform", "<ProbTable>0.5 0.5 0.5", "InitialStateBelief must sum to 1, found the sum 1.5"),
        ("<NumValues>3</NumValues>", "", "a StateVar needs"),
        ("act where_1 ore_0<", "act where_1 ore_1<", "the table of 'ore_1' names 'ore_1', twice"),
        (
            '<Var>ore_0</Var><Parent>null</Parent><Parameter type="TBL">\n  <Entry><Instance>-<',
            '<Var>ore_0</Var><Parent>act</Parent><Parameter type="TBL">\n  <Entry><Instance>* -<',
            "the tables of ore_0 depend on each other, or on what is not known yet",
        ),
        (
            "<Var>ore_0<",
            "<Var>where_0<",
            "Belief must have one table of each of where_0, ore_0, found where_0, where_0",
        ),
        (
            "<Var>ore_0<",
            "<Var>act<",
            "InitialStateBelief must have one table of each of where_0, ore_0, found where_0, act",
        ),
        ("0.5 0.25 0.25", "-0.5 0.75 0.75", "'ore_1' must hold probabilities, found -0.5"),
        ("0.5 0.25 0.25", "0.5 0.5 nan", "must be 3 numbers, found '0.5 0.5 nan'"),
        ("<NumValues>3<", "<NumValues>99999999999<", "'?ore_1'? must have at most"),
        ('vname="beep"', 'vname="act"', "variables must have names that differ"),
        ("no yes", "no no", "the values of 'beep' must differ"),
        (">0.2<", ">much<", "a Terminal in the table of 'beep' must be a number, found 'much'"),
        ("<Terminal>0.5</Terminal>", "", "a Edge with 0 elements inside"),
        (
            '<SubDAG type="uniform" var="beep"/>',
            '<SubDAG type="persistent" var="beep"/>',
            "a persistent SubDAG, which needs a state",
        ),
        (
            '<Node var="beep"><Edge val="no"><Terminal>0.2</Terminal></Edge>',
            '<Node var="beep"><Edge val="no"><SubDAG type="template" idref="much"/></Edge>',
            "refers to itself",
        ),
        ('<?xml version="1.0"?>', '<?xml version="1.0" encoding="klingon"?>', "unknown encoding"),
    ],
)
def test_bad_factors(old, new, sentence, tmp_path):
    path = tmp_path / "bad.pomdpx"
    path.write_text(FACTORED.replace(old, new, 1))
    with pytest.raises(DataError, match=sentence):
        POMDP.read(path)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the problems are in $CREDO_DATA")
def test_published_problems_lie_between_the_bounds():
    """What SARSOP found lies between blind policies and the fast informed bound, which is below QMDP."""
    from credo.decide.pomdp.bounds import blind, fib, qmdp

    reference = json.loads((DATA / "reference.json").read_text())
    for name, found in reference.items():
        if not isinstance(found, dict) or "sarsop" not in found or not (DATA / name).is_file():
            continue
        p = POMDP.read(DATA / name)
        low, mid, high = (float((table @ p.start).max()) for table in (blind(p), fib(p), qmdp(p)))
        assert low <= found["sarsop"]["upper"] + 1e-3, name
        assert found["sarsop"]["lower"] <= mid + 1e-6 <= high + 2e-6, name
