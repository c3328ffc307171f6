import gzip

import numpy as np
import pandas as pd
import pytest

from credo.app.tables import dates, numbers, read_table, sniff_separator
from credo.errors import DataError


def write(tmp_path, text, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def column(table, name):
    return numbers(table.frame[name], table.decimal)[0]


def test_semicolons_decimal_commas_and_byte_order_mark(tmp_path):
    table = read_table(write(tmp_path, "\ufeffgröße;preis\r\n1,5;1.234,50\r\n2,25;99,00\r\n", encoding="utf-8"))
    assert list(table.frame.columns) == ["größe", "preis"]
    assert (table.separator, table.decimal) == (";", ",")
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


def test_numbers_know_missing_thousands_and_nonsense():
    values, wrong = numbers(pd.Series(["1", " 2.5 ", "NA", "", "?", "1e3", "inf", "abc"], dtype=object))
    np.testing.assert_array_equal(values, [1, 2.5, np.nan, np.nan, np.nan, 1000, np.nan, np.nan])
    assert list(np.flatnonzero(wrong)) == [6, 7]
    np.testing.assert_array_equal(numbers(pd.Series(["1,234.5", "12"], dtype=object))[0], [1234.5, 12])


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        (["2021-03-04", "2021-03-05"], "2021-03-04"),
        (["2021-03", "2021-04"], "2021-03-01"),
        (["2021-03-04T10:00:00Z", "2021-03-05 11:00"], "2021-03-04 10:00"),
        (["31.12.2020", "1.1.2021"], "2020-12-31"),
        (["12/31/2020", "01/01/2021"], "2020-12-31"),
        (["31/12/2020 08:30", "01/01/2021 09:00"], "2020-12-31 08:30"),
        (["Mar 4, 2021", "Apr 5, 2021"], "2021-03-04"),
        (["4-Mar-2021", "", "5-Apr-2021"], "2021-03-04"),
    ],
)
def test_dates(cells, first):
    found = dates(pd.Series(cells, dtype=object))
    assert found is not None and found[0].iloc[0] == pd.Timestamp(first) and not found[2]


def test_two_readings_of_a_date_are_settled_by_order_or_flagged():
    in_order = dates(pd.Series(["01/02/2020", "01/03/2020", "02/01/2020"], dtype=object))
    assert in_order[0].iloc[0] == pd.Timestamp("2020-01-02") and not in_order[2]
    assert dates(pd.Series(["05/04/2020", "04/05/2020", "06/04/2020"], dtype=object))[2]
    assert dates(pd.Series(["high", "low"], dtype=object)) is None


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
