import numpy as np
import pandas as pd
import pytest

from credo.app.table.cells import Cells
from credo.app.table.read import Table, read_table
from credo.errors import DataError


def cells(*texts, **options):
    return Cells(pd.Series(list(texts), dtype=object), "c", **options)


def values(*texts, **options):
    return cells(*texts, **options).numbers.values


def test_numbers_know_missing_thousands_and_nonsense():
    found, wrong = cells("1", " 2.5 ", "NA", "", "?", "1e3", "inf", "abc").numbers
    np.testing.assert_array_equal(found, [1, 2.5, np.nan, np.nan, np.nan, 1000, np.nan, np.nan])
    assert list(np.flatnonzero(wrong)) == [6, 7]
    np.testing.assert_array_equal(values("1,234.5", "12"), [1234.5, 12])


@pytest.mark.parametrize(
    ("texts", "first"),
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
def test_dates(texts, first):
    found = cells(*texts).dates
    assert found is not None and found.values.iloc[0] == pd.Timestamp(first) and not found.ambiguous


def test_two_readings_of_a_date_are_settled_by_order_or_flagged():
    in_order = cells("01/02/2020", "01/03/2020", "02/01/2020").dates
    assert in_order[0].iloc[0] == pd.Timestamp("2020-01-02") and not in_order[2]
    assert cells("05/04/2020", "04/05/2020", "06/04/2020").dates[2]
    assert cells("high", "low").dates is None


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        (["3,14", "2,5"], [3.14, 2.5]),
        (["1.234,5", "2,25", "7"], [1234.5, 2.25, 7]),
        (["1,234,567", "4,117"], [1234567, 4117]),
        (["1,234.5", "4,117"], [1234.5, 4117]),
        (["0,117", "4,117"], [0.117, 4.117]),
        (["1234,567", "4,117"], [1234.567, 4.117]),
        (["4.117", "5.250"], [4.117, 5.25]),
        (["1.5e3", "-2.5E-1", ".5", "5."], [1500, -0.25, 0.5, 5]),
        (["1,5e3"], [1500]),
    ],
)
def test_the_decimal_mark_is_decided_by_all_cells_of_a_column(texts, want):
    np.testing.assert_allclose(values(*texts), want, rtol=1e-15)


def test_cells_in_the_other_writing_are_not_read():
    found, unread = cells("3,14", "2,50", "1,75", "2.5").numbers
    assert unread.tolist() == [False, False, False, True] and found[0] == 3.14


def test_a_mark_that_nobody_can_know_is_asked_for(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('city,people\na,"4,117"\nb,"12,300"\nc,"9,001"\n')
    with pytest.raises(DataError, match="'people' can be read in two ways: '9,001' is 9001 or 9.001"):
        read_table(path).cells("people").numbers  # noqa: B018
    np.testing.assert_array_equal(read_table(path, ".").cells("people").numbers.values, [4117, 12300, 9001])
    np.testing.assert_array_equal(read_table(path, ",").cells("people").numbers.values, [4.117, 12.3, 9.001])
    with pytest.raises(DataError, match="a point or a comma, found ';'"):
        read_table(path, ";")


def test_other_columns_tell_the_mark():
    points = Table(pd.DataFrame({"a": ["4,117", "9,001"], "b": ["0.5", "1.25"]}, dtype=object), "t")
    np.testing.assert_array_equal(points.cells("a").numbers.values, [4117, 9001])
    commas = Table(pd.DataFrame({"a": ["4,117", "9.001"], "b": ["0,5", "1,25"]}, dtype=object), "t")
    np.testing.assert_array_equal(commas.cells("a").numbers.values, [4.117, 9001])


def test_text_with_commas_and_dates_with_points_are_no_question():
    assert cells("Doe, J", "4,117").numbers.unread[0]
    when = cells("31.12.2020", "01.02.2021")
    assert when.numbers.unread.all() and when.marks.decided == "" and when.dates.style == "%d.%m.%Y"


def test_some_cells_are_not_read_again(monkeypatch):
    whole = cells("1", "2", "x", "4")
    whole.numbers  # noqa: B018
    monkeypatch.setattr(Cells, "_parsed", lambda self: pytest.fail("read again"))
    part = whole.some(np.asarray([True, False, True, True]))
    np.testing.assert_array_equal(part.numbers.values, [1, np.nan, 4])
    assert part.numbers.unread.tolist() == [False, True, False] and len(part) == 3
