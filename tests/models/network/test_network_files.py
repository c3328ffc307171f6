"""BIF and XMLBIF: what real files hold is read, what is wrong is named by line and token; opt-in against references."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from credo import Network
from credo.errors import DataError, FileError
from credo.models.network import LinearGaussian

DATA = Path(os.environ.get("CREDO_DATA", Path(__file__).parents[4] / "shared" / "data")) / "bif"

QUIRKS = """// a comment
network "a net" { property "made by = http://somebody" ; }
/* two
   lines */
variable Disease {
  type discrete [ 3 ] { Asy/Patch, <5, "12+ or so" };
  property position = (1, 2) ;
}
variable "a name" { type discrete[2]{yes,no}; }
variable c { type discrete [ 2 ] { 0-1, 1 }; }
probability ( Disease ) { table 1e-1, 2.0E-1, 0.7; }
probability ( "a name" | Disease ) {
  default 0.5, 0.5;
  (<5) 0.25, 0.75; // here too
}
probability ( c | "a name", Disease ) {
  ( no, Asy/Patch ) 0.1, 0.9;
  (yes, Asy/Patch) 0.3333333, 0.6666667;
  (yes, <5) 0.2, 0.8;
  (no, <5) 0.4, 0.6;
  (yes, "12+ or so") 0, 1;
  (no, "12+ or so") 1, 0;
}
"""


def write(tmp_path, text, name="net.bif"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_what_real_files_hold_is_read(tmp_path):
    net = Network.read(write(tmp_path, QUIRKS))
    assert net.names == ("Disease", "a name", "c")
    assert net.states["Disease"] == ("Asy/Patch", "<5", "12+ or so")
    np.testing.assert_allclose(net.nodes["Disease"].values, [0.1, 0.2, 0.7])
    np.testing.assert_allclose(net.nodes["a name"].values, [[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
    np.testing.assert_allclose(net.nodes["c"].values[:, 0], [[1 / 3, 2 / 3], [0.1, 0.9]], atol=1e-7)
    assert net.nodes["c"].parents == ("a name", "Disease")


@pytest.mark.parametrize("name", ["again.bif", "again.xmlbif"])
def test_what_is_written_is_read_again(tmp_path, name):
    net = Network.read(write(tmp_path, QUIRKS))
    again = Network.read(net.write(tmp_path / name))
    assert again.names == net.names and again.states == net.states and again.parents == net.parents
    for a, b in zip(net.laws, again.laws, strict=True):
        np.testing.assert_allclose(a.values, b.values, rtol=0, atol=1e-16)
    numbers = Network({"x": LinearGaussian([])})
    with pytest.raises(DataError, match="'x' is a number.*credo.save"):
        numbers.write(tmp_path / "numbers.bif")


def test_both_orders_of_a_table_with_parents(tmp_path):
    head = (
        "network n { }\nvariable a { type discrete [ 2 ] { x, y }; }\nvariable b { type discrete [ 3 ] { u, v, w }; }\n"
    )
    head += "probability ( a ) { table 0.5, 0.5; }\n"
    want = [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]
    for numbers in ("0.1, 0.3, 0.2, 0.3, 0.7, 0.4", "0.1, 0.2, 0.7, 0.3, 0.3, 0.4"):
        net = Network.read(write(tmp_path, head + f"probability ( b | a ) {{ table {numbers}; }}\n"))
        np.testing.assert_allclose(net.nodes["b"].values, want)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(no, <5) 0.4", "(no, <5) 0.4x", r"net.bif, line 20, at '0.4x': a number is expected"),
        ("(no, <5) 0.4, 0.6;", "(no, <5) 0.4;", r"line 20, .*'c' needs 2 numbers, found 1"),
        ("(no, <5)", "(no, >5)", "line 20, .*states that its parents do not have"),
        ("  (no, <5) 0.4, 0.6;\n", "", r"no row for \(no, <5\) and no default"),
        ("[ 3 ]", "[ 4 ]", "'Disease' declares 4 states and lists 3"),
        ("probability ( Disease )", "probability ( Diseases )", "line 11, .*'Diseases', which is not declared"),
        ("variable c {", "variables c {", r"line 10, at 'variables': a block must begin"),
        ("0.5, 0.5;", "0.5, 0.6;", r"'a name' must hold probabilities .* off by \+0.1, in the row Disease = Asy/Patch"),
        ('  (no, "12+ or so") 1, 0;\n}', "", "line 16, .*the block of this probability cannot be read"),
        ("1e-1, 2.0E-1, 0.7", "0.5, 0.5", "'Disease' needs 3 numbers, found 2"),
        ("probability ( Disease ) { table 1e-1, 2.0E-1, 0.7; }\n", "", "'Disease' is declared and has no probability"),
    ],
)
def test_what_is_wrong_is_named_by_line_and_token(tmp_path, old, new, message):
    assert old in QUIRKS
    with pytest.raises(DataError, match=message):
        Network.read(write(tmp_path, QUIRKS.replace(old, new)))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileError, match="cannot read"):
        Network.read(tmp_path / "none.bif")
    with pytest.raises(DataError, match="holds no variable"):
        Network.read(write(tmp_path, ""))
    with pytest.raises(DataError, match="not well-formed XML"):
        Network.read(write(tmp_path, "<BIF>"))
    xml = "<BIF><VARIABLE><NAME>a</NAME><OUTCOME>x</OUTCOME></VARIABLE><DEFINITION><FOR>a</FOR>{}</DEFINITION></BIF>"
    with pytest.raises(DataError, match="a DEFINITION has no TABLE"):
        Network.read(write(tmp_path, xml.format("")))
    with pytest.raises(DataError, match="the table of 'a', line 1, at '1.0q': a number is expected"):
        Network.read(write(tmp_path, xml.format("<TABLE>1.0q</TABLE>")))


@pytest.mark.skipif(not DATA.is_dir(), reason="the networks are not here; set CREDO_DATA")
@pytest.mark.parametrize("name", ["alarm", "asia", "cancer", "child", "insurance", "sachs", "survey", "win95pts"])
def test_networks_of_the_literature(name):
    net = Network.read(DATA / f"{name}.bif")
    wanted = json.loads((DATA / f"{name}.expected.json").read_text())
    prior, evidence = wanted["prior"], wanted["evidence"]
    after = net.condition(evidence["evidence"])
    assert after.probability_of_evidence == pytest.approx(evidence["probability_of_evidence"], rel=1e-9)
    for found, want in ((net.marginals(), prior.get("marginals", prior)), (after.marginals(), evidence["marginals"])):
        assert max(abs(found[n][s] - p) for n, law in want.items() for s, p in law.items()) < 1e-9
