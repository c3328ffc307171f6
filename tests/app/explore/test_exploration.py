"""`explore`: clusters are found, odd rows named with their cells, gaps described; and the command `credo explore`."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import credo
from credo.app.cli import app
from credo.app.explore.features import read_features
from credo.app.explore.gaps import find_gaps
from credo.app.explore.oddness import false_discovery
from credo.app.table.read import as_table
from credo.core.errors import DataError


def people(n=240, seed=0):
    """Three kinds of people in numbers with gaps, levels, a spike and an identifier; row 5 has an age of 150."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    city = np.array([[0.85, 0.1, 0.05], [0.1, 0.85, 0.05], [0.1, 0.1, 0.8]])
    frame = pd.DataFrame(
        {
            "id": np.arange(n) + 100,
            "age": np.array([30, 50, 70])[kind] + rng.normal(0, 4, n).round(2),
            "income": np.exp(np.array([10, 11, 10.5])[kind] + 0.3 * rng.normal(size=n)).round(1),
            "city": [["Rome", "Oslo", "Lima"][rng.choice(3, p=city[k])] for k in kind],
            "debt": np.where(rng.random(n) < 0.5, 0.0, rng.gamma(2, 1000, n).round(1)),
            "member": np.where(rng.random(n) < np.array([0.2, 0.8, 0.5])[kind], "yes", "no"),
            "unit": "kg",
        }
    )
    frame.loc[rng.random(n) < 0.15, "income"] = np.nan
    frame.loc[(kind == 2) & (rng.random(n) < 0.6), "debt"] = np.nan
    frame.loc[5, "age"] = 150.0
    return frame, kind


@pytest.fixture(scope="module")
def found():
    frame, kind = people()
    return credo.explore(frame, most=4), kind


def test_clusters_odd_rows_gaps_and_factors_are_found(found):
    result, kind = found
    assert result.clusters.k == 3
    table = pd.crosstab(kind, result.clusters.labels).to_numpy()
    assert table.max(axis=1).sum() >= 0.97 * len(kind)
    assert result.oddness.odd[5] and result.oddness.odd.sum() <= 3
    first = result.oddness.rows[0]
    assert first.row == 5 and first.blame[0].column == "age" and first.blame[0].found == "150"
    assert {"income", "debt"} == set(result.gaps.columns)
    assert any(r.column == "debt" and "age is high" in r.where for r in result.gaps.relations)
    assert not any(r.column == "income" for r in result.gaps.relations)
    assert "3 clusters" in repr(result) and "3 clusters" in result.describe()[0]


def test_the_table_comes_back_with_four_columns(found):
    frame = found[0].frame
    assert list(frame.columns[-4:]) == ["cluster", "cluster_probability", "anomaly", "odd"]
    assert frame["cluster"].between(1, 3).all() and frame["anomaly"].between(0, 1).all()
    assert frame.loc[5, "odd"] == "yes"
    again = credo.explore(frame[["age", "income", "cluster"]], most=1)
    assert again.added[0] == "credo_cluster"


def test_the_report_has_all_sections_and_pictures(found, tmp_path):
    path = found[0].report(tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    for title in ("Clusters", "Odd rows", "Factors", "Missing cells", "The data"):
        assert f"<h2>{title}</h2>" in text
    assert text.count("data:image/svg+xml") == 6
    assert "age is 150, expected" in text


def test_columns_become_numbers_codes_and_spikes():
    frame, _ = people()
    features = read_features(as_table(frame))
    parts = {part.name: part for part in features.parts}
    assert list(parts) == ["age", "income", "city", "debt = 0", "debt", "member"]
    assert parts["income"].power == 0 and parts["debt"].power < 1 and parts["age"].power == 1
    known = frame["income"].notna().to_numpy()
    np.testing.assert_allclose(parts["income"].natural(parts["income"].values[known]), frame["income"][known])
    shown = parts["debt"].values[~np.isnan(parts["debt"].values)]
    np.testing.assert_allclose(parts["debt"].natural(shown), frame["debt"][frame["debt"] > 0])
    assert np.array_equal(np.isnan(parts["debt = 0"].values), frame["debt"].isna())
    assert any("identifier" in note for note in features.notes)


def test_codes_for_missing_cells_are_missing_and_other_nines_are_numbers():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.normal(50, 5, (60, 3)).round(1), columns=["a", "b", "c"])
    frame.loc[[3, 7, 9], "a"] = -999
    frame["b"] = np.where(np.arange(60) < 3, 99.0, frame["b"] + np.linspace(0, 45, 60).round(1))  # amid the others
    frame.loc[4, "c"] = 9999  # once: it may be an error, which is to be seen
    features = read_features(as_table(frame))
    a, b, c = (part.values for part in features.parts)
    assert list(np.flatnonzero(np.isnan(a))) == [3, 7, 9] and not np.isnan(b).any() and not np.isnan(c).any()
    assert features.missing["a"].sum() == 3 and features.summaries[0].missing == 3
    assert any("3 cells of 'a' are -999, far from all others: taken as missing." in note for note in features.notes)


def test_the_words_of_a_report_suit_dates_two_levels_and_limits():
    rng = np.random.default_rng(7)
    kind = rng.choice(2, 120)
    frame = pd.DataFrame(
        {
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(300 * kind + rng.integers(0, 40, 120), "D"),
            "sex": np.where(kind == 1, "male", "female"),
            "x": 5 * kind + rng.normal(size=120),
        }
    )
    said = " ".join(credo.explore(frame, most=2).page().sections[1].blocks[0].sentences)
    assert "earlier day" in said and "later day" in said
    assert "more often sex: male" in said and "more often sex: female" in said and "less often" not in said
    last = credo.explore(frame, most=2).page().sections[1].blocks[-1]
    assert "largest that was tried, 2" in last.sentences[0]


def test_gaps_that_come_together_are_said_to():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(120, 4)), columns=list("abcd"))
    gone = rng.random(120) < 0.3
    frame.loc[gone, ["a", "b"]] = np.nan
    gaps = find_gaps(read_features(as_table(frame)))
    assert gaps.together == (("a", "b"),) and gaps.complete == (~gone).sum()
    assert gaps.patterns == ((("a", "b"), int(gone.sum())),) and gaps.relations == ()


def test_false_discoveries_are_those_of_benjamini_and_hochberg():
    from scipy.stats import false_discovery_control

    rng = np.random.default_rng(2)
    p = np.concatenate([rng.random(200), rng.random(20) * 1e-3])
    assert np.array_equal(false_discovery(p, 0.05), false_discovery_control(p) <= 0.05)
    assert not false_discovery(np.ones(3), 0.05).any()


def test_rows_of_one_kind_are_one_cluster_without_odd_rows():
    x = np.random.default_rng(3).normal(size=(150, 2))
    result = credo.explore(pd.DataFrame(x, columns=["a", "b"]), most=3)
    assert result.clusters.k == 1 and result.factors is None and not result.oddness.rows
    page = result.report()
    assert any("one kind" in text for text in page.sections[0].blocks[0].sentences)


def test_levels_alone_have_clusters(tmp_path):
    rng = np.random.default_rng(4)
    kind = rng.choice(2, 200)
    flips = rng.random((200, 5)) < 0.08
    frame = pd.DataFrame({f"q{j}": np.where((kind == 1) ^ flips[:, j], "agree", "disagree") for j in range(5)})
    result = credo.explore(frame, most=3)
    assert result.clusters.k == 2 and result.report(tmp_path / "r.html").exists()
    agree = np.mean((result.clusters.labels == kind)[result.clusters.probability > 0.9])
    assert max(agree, 1 - agree) > 0.97


# -- the command ---------------------------------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(app, ["explore", *map(str, words)])


def test_the_command_writes_rows_and_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, _ = people(90, seed=1)
    frame.to_csv("people.csv", index=False, sep=";", decimal=",")
    done = run("people.csv", "--most", 2, "--ignore", "city")
    assert done.exit_code == 0, done.output
    assert "clusters" in done.output and "report  credo-people/report.html" in done.output
    back = pd.read_csv("credo-people/rows.csv", sep=";", decimal=",")
    assert len(back) == 90 and list(back.columns[-4:]) == ["cluster", "cluster_probability", "anomaly", "odd"]
    assert list(back["income"].notna()) == list(frame["income"].notna())
    again = run("people.csv")
    assert again.exit_code == 2 and "exists already" in again.output


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("a,b\n1,2\n2,3\n", [], "has 2 rows; at least 6 are needed"),
        ("a,b\n" + "1,x\n" * 8, [], "no column to explore"),
        (
            "a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)),
            ["--ignore", "c"],
            "has no column 'c' for --ignore",
        ),
        (None, [], "there is no file t.csv"),
    ],
)
def test_bad_tables_are_refused_in_a_line(tmp_path, monkeypatch, text, words, said):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "t.csv").write_text(text)
    done = run("t.csv", *words)
    assert done.exit_code == 2 and done.output.startswith("credo: ") and said in done.output
    assert not (tmp_path / "credo-t").exists()


def test_arguments_are_checked():
    with pytest.raises(DataError, match="lists names of columns"):
        credo.explore(pd.DataFrame({"a": np.arange(9.0)}), ignore="a")
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 61)))
    with pytest.raises(DataError, match="61 columns to explore, of at most 60"):
        credo.explore(wide)
