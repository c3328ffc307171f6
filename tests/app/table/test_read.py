import gzip

import numpy as np
import pandas as pd
import pytest

from credo.app.table.read import Table, as_table, read_table, sniff_separator
from credo.errors import DataError


def write(tmp_path, text, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode("latin-1" if name.endswith(".gz") else encoding))
    return path


def column(table, name):
    return table.cells(name).numbers.values


def test_semicolons_decimal_commas_and_byte_order_mark(tmp_path):
    table = read_table(write(tmp_path, "\ufeffgröße;preis\r\n1,5;1.234,50\r\n2,25;99,00\r\n", encoding="utf-8"))
    assert list(table.frame.columns) == ["größe", "preis"]
    assert (table.separator, table.mark) == (";", ",")
    np.testing.assert_array_equal(column(table, "größe"), [1.5, 2.25])
    np.testing.assert_array_equal(column(table, "preis"), [1234.5, 99.0])


def test_excel_separator_line_and_windows_encoding(tmp_path):
    table = read_table(write(tmp_path, "sep=;\nStraße;y\nü;1\nä;2\n", encoding="cp1252"))
    assert list(table.frame["Straße"]) == ["ü", "ä"]
    assert any("cp1252" in note for note in table.notes)


def test_utf16(tmp_path):
    table = read_table(write(tmp_path, "a\tb\n1\t2\n", encoding="utf-16"))
    assert table.separator == "\t" and column(table, "b")[0] == 2


def test_quoted_commas_quotes_and_line_breaks_stay_as_they_are(tmp_path):
    table = read_table(write(tmp_path, 'name,y\n"Doe, ""J""",1\n"two\nlines",2\n007,3\n'))
    assert list(table.frame["name"]) == ['Doe, "J"', "two\nlines", "007"]


def test_tab_separated_gzip_and_parquet_read_the_same(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5, 3.5], "b": ["x", "y", "x"]})
    frame.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    for name in ("t.tsv", "t.parquet", "t.csv.gz"):
        table = read_table(tmp_path / name)
        np.testing.assert_array_equal(column(table, "a"), frame["a"])
        assert list(table.frame["b"]) == ["x", "y", "x"]


def test_a_file_of_numbers_has_no_header(tmp_path):
    table = read_table(write(tmp_path, "1,2,3\n4,5,6\n"))
    assert list(table.frame.columns) == ["column1", "column2", "column3"] and len(table.frame) == 2


def test_one_column_and_short_rows(tmp_path):
    assert list(read_table(write(tmp_path, "y\n1\n2\n")).frame.columns) == ["y"]
    short = read_table(write(tmp_path, "a,b\n1,2\n3\n"))
    assert np.isnan(column(short, "b")[1])


@pytest.mark.parametrize(
    ("text", "separator"),
    [("a,b\n1,2", ","), ("a;b\n1,5;2,5", ";"), ("a\tb\n1\t2", "\t"), ("a|b\n1|2", "|"), ("a\n1", ",")],
)
def test_separator(text, separator):
    assert sniff_separator(text) == separator


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("e.csv", "", "is empty"),
        ("e.csv", "\n\n", "is empty"),
        ("e.csv", "a,b\n", "has a header but no rows"),
        ("e.csv", "a,b,a\n1,2,3\n", "two columns named 'a'"),
        ("e.csv", "a,b\n1,2\n1,2,3\n", "line 3"),
        ("e.csv", "a,b\n1,2,3\n1,2,3\n", "more cells than the header"),
        ("e.csv", "\x00\x01\x02", "not a text table"),
        ("e.parquet", "not parquet", "as Parquet"),
        ("e.xlsx", "PK", "save it as CSV"),
        ("e.csv.gz", "not gzip", "cannot read"),
        ("e.csv.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03 but corrupt", "cannot read"),
    ],
)
def test_unreadable_files_say_why(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        read_table(write(tmp_path, text, name))


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_table(tmp_path)


def test_a_long_cell_is_read(tmp_path):
    long = "x" * 200_000
    table = read_table(write(tmp_path, f"note,y\n{long},1\nshort,2\n"))
    assert table.frame["note"].iloc[0] == long and column(table, "y").tolist() == [1, 2]


def test_frames_of_pandas_and_polars_and_paths_are_tables(tmp_path):
    polars = pytest.importorskip("polars")
    frame = pd.DataFrame({"a": [1.5, 2.5], 7: ["x", "y"]})
    for data in (frame, polars.DataFrame({"a": [1.5, 2.5], "7": ["x", "y"]})):
        table = as_table(data)
        assert table.columns == ["a", "7"] and column(table, "a").tolist() == [1.5, 2.5]
    assert as_table(str(write(tmp_path, "a,b\n1,2\n"))).columns == ["a", "b"]
    with pytest.raises(DataError, match="found list"):
        as_table([[1, 2]])


def test_a_column_that_is_not_there_is_refused_with_the_nearest_name():
    with pytest.raises(DataError, match="no column 'Prise' for `target`; did you mean 'price'"):
        Table(pd.DataFrame({"price": [1]}), "t").demand("Prise", "`target`")
