import numpy as np
import pandas as pd
import pytest

from credo.app.table.columns import DAYS, Schema
from credo.app.table.detect import find_periods
from credo.app.table.prepare import prepare
from credo.app.table.read import Table
from credo.errors import DataError


def as_text(frame):
    """The frame as it comes out of a CSV."""
    return Table(frame.astype(object).where(frame.notna(), "").astype(str).astype(object), "t.csv")


def prepared(frame, target="y", **options):
    return prepare(as_text(frame), target, **options)


def numbers_frame(n=40, **columns):
    rng = np.random.default_rng(1)
    return pd.DataFrame({"a": rng.normal(size=n), **columns, "y": rng.normal(size=n)})


def test_every_kind_of_column_is_found_and_encoded(mixed):
    frame = mixed
    found = prepared(frame, "cost")
    kinds = {c.name: c.kind for c in found.schema.columns}
    assert kinds == {"size": "category", "weight": "number", "express": "yes/no", "shipped": "date"}
    assert {s.name: s.role for s in found.summaries}["order_id"] == "left out"
    assert any("identifier" in n for n in found.notes) and any("'unit' is constant" in n for n in found.notes)
    assert found.schema.names == ["size=small", "size=medium, boxed", "size=large", "weight", "express", "shipped"]
    for level in ("small", "large", "medium, boxed"):
        np.testing.assert_array_equal(found.x[f"size={level}"], (frame["size"] == level).astype(float))
    np.testing.assert_array_equal(found.x["express"], (frame["express"] == "yes").astype(float))
    days = (pd.to_datetime(frame["shipped"]) - pd.Timestamp("2020-01-01")).dt.days
    np.testing.assert_allclose(found.x["shipped"], days / DAYS, rtol=1e-12)
    np.testing.assert_array_equal(found.y, frame["cost"])


def test_typed_and_text_tables_encode_alike(mixed):
    frame = mixed
    found = prepared(frame, "cost")
    typed = frame.assign(shipped=pd.to_datetime(frame["shipped"]), express=frame["express"])
    np.testing.assert_allclose(found.schema.encode(typed).x, found.x, rtol=1e-12)
    flags = prepared(frame.assign(express=frame["express"] == "yes"), "cost")
    np.testing.assert_array_equal(flags.schema.encode(frame.assign(express=frame["express"] == "yes")).x, flags.x)


def test_two_levels_are_one_column():
    found = prepared(numbers_frame(color=["red", "blue", "red", "red"] * 10))
    assert found.schema.names == ["a", "color=blue"]


def test_unknown_levels_are_zeros_and_counted(mixed):
    frame = mixed
    found = prepared(frame, "cost")
    new = frame.head(3).assign(size=["small", "huge", "tiny"])
    encoded = found.schema.encode(new)
    assert encoded.unknown == {"size": 2}
    assert encoded.x.iloc[1, :3].tolist() == [0, 0, 0] and encoded.complete.all()


def test_missing_column_is_refused_with_the_nearest_name(mixed):
    found = prepared(mixed, "cost")
    with pytest.raises(DataError, match="lacks the column 'weight'; did you mean 'Weight'"):
        found.schema.encode(mixed.rename(columns={"weight": "Weight"}))


def test_few_rows_with_gaps_are_dropped_and_counted():
    frame = numbers_frame(40)
    frame.loc[[2, 7], "a"] = np.nan
    frame.loc[4, "y"] = np.nan
    found = prepared(frame)
    assert len(found.y) == 37 and not np.isnan(found.x).any().any()
    assert "1 row without a value of 'y' was dropped." in found.notes
    assert any(n.startswith("2 rows (5.1%) with missing inputs ('a') were dropped") for n in found.notes)


def test_many_gaps_are_filled_with_the_median_and_marked():
    frame = numbers_frame(40, kind=["u", "v", "w", "u"] * 10)
    frame.loc[:9, "a"] = np.nan
    frame.loc[10:14, "kind"] = np.nan
    found = prepared(frame)
    assert len(found.y) == 40
    assert set(found.schema.names) == {"a", "a missing", "kind=u", "kind=v", "kind=w", "kind missing"}
    assert np.all(found.x["a"][:10] == frame["a"].median()) and found.x["a missing"].sum() == 10
    assert found.x.filter(like="kind=").iloc[10:15].to_numpy().sum() == 0 and found.x["kind missing"].sum() == 5
    assert any("filled with the column's median" in n for n in found.notes)


def test_mostly_missing_free_text_and_many_levels_are_left_out():
    n = 80
    frame = numbers_frame(n, empty=[1.0] + [np.nan] * (n - 1), note=[f"text {i}" for i in range(n)])
    frame["many"] = [f"level {i % 35}" for i in range(n)]
    found = prepared(frame)
    assert [c.name for c in found.schema.columns] == ["a"]
    said = " ".join(found.notes)
    assert "missing in 99% of the rows" in said and "differs in every row" in said and "35 different values" in said


def test_a_few_cells_that_are_not_numbers_count_as_missing():
    frame = numbers_frame(60).astype(object)
    frame.loc[5, "a"] = "broken"
    found = prepared(frame)
    assert len(found.y) == 59 and any("'broken'" in n for n in found.notes)


def test_a_series_is_recognized_and_a_time_column_can_be_named():
    month = pd.date_range("2000-01-01", periods=48, freq="MS").strftime("%Y-%m-%d")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"month": month, "y": rng.normal(size=48), "year": np.arange(48) + 1900.0})
    found = prepared(frame)
    assert found.schema.time == "month" and [p[0] for p in found.schema.columns[0].periods] == ["year"]
    assert prepared(frame, time="year").schema.time == "year"
    with pytest.raises(DataError, match="must hold dates or numbers, found: category"):
        prepared(frame.assign(kind=["a", "b"] * 24), time="kind")


def test_periods_need_length_and_resolution():
    day = 1 / DAYS
    names = lambda years: [p.name for p in find_periods(years)]  # noqa: E731
    assert names(np.arange(0, 3, 1 / 12)) == ["year"]
    assert names(np.arange(0, 800) * day) == ["year", "week"]
    assert names(np.arange(0, 24 * 40) * day / 24) == ["week", "day"]
    assert names(np.arange(0, 30.0)) == [] and names(np.arange(5) * day) == []


def test_duplicates_and_class_like_targets_are_remarked_on():
    frame = numbers_frame(60)
    frame["y"] = np.arange(60) % 3
    frame.loc[59] = frame.loc[56]
    said = " ".join(prepared(frame).notes)
    assert "only 3 different values" in said and "use kind classes" in said and "1 row repeats an earlier one" in said


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"y": 1.0}, {}, "is constant"),
        ({"y": np.nan}, {}, "0 usable rows"),
        ({"y": ["1", "2", "3", "a"] * 10}, {}, "must hold numbers, found text: 'a' in row 4"),
        ({"y": ["a", "b"] * 20}, {"kind": "number"}, "must hold numbers, found text: 'a' in row 1"),
        ({"y": ["2020-01-01", "2020-01-02"] * 20}, {}, "found dates"),
        ({"a": 1.0}, {}, "no column to predict"),
        ({}, {"ignore": ["a"]}, "no column to predict"),
        ({}, {"ignore": ["y"]}, "cannot be ignored"),
        ({}, {"ignore": ["b"]}, "no column 'b' for `ignore`"),
        ({}, {"time": "y"}, "cannot be the target"),
    ],
)
def test_tables_that_cannot_be_learned_from(change, options, message):
    with pytest.raises(DataError, match=message):
        prepared(numbers_frame(40).assign(**change), **options)


def test_too_few_rows():
    with pytest.raises(DataError, match="3 usable rows; at least 6"):
        prepared(numbers_frame(3))


def test_typed_boolean_target_holds_classes_and_no_numbers():
    frame = numbers_frame(20)
    frame["y"] = [True, False] * 10
    found = prepare(Table(frame, "t.parquet"), "y")
    assert found.kind == "classes" and found.levels == ("False", "True") and list(found.labels[:2]) == ["True", "False"]
    with pytest.raises(DataError, match='yes/no values, not numbers; use kind="classes"'):
        prepare(Table(frame, "t.parquet"), "y", kind="number")


def test_schema_survives_a_file(tmp_path, mixed):
    from credo.core.files import load, save

    schema = prepared(mixed, "cost").schema
    again = load(save(schema, tmp_path / "s.credo"))
    assert isinstance(again, Schema) and again == schema


def test_each_cell_is_parsed_once(mixed, monkeypatch):
    from credo.app.table import cells

    counts = {}
    real = cells.Cells._parsed

    def counted(self):
        counts[self.name] = counts.get(self.name, 0) + 1
        return real(self)

    monkeypatch.setattr(cells.Cells, "_parsed", counted)
    prepared(mixed.assign(weight=mixed["weight"].where(mixed.index > 20)), "cost")
    assert set(counts.values()) == {1} and {"cost", "weight", "size"} <= set(counts)
