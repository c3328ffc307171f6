from decimal import Decimal

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given

from credo.core import checks, padding
from credo.core.arrays import as_float
from credo.errors import DataError


@pytest.mark.parametrize(
    "table",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.array([[1, 2], [3, 4]], dtype=np.float32),
        pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
        pl.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
        jnp.array([[1.0, 2.0], [3.0, 4.0]]),
        np.array([[1, 2.0], [3, 4]], dtype=object),
        pd.DataFrame({"a": [True, True], "b": [2, 4]}).assign(a=[1, 3]),
    ],
    ids=["list", "int8", "float32", "pandas", "polars", "jax", "object", "mixed"],
)
def test_tables_become_float64(table):
    out = checks.check_table(table)
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out, [[1, 2], [3, 4]])


class Boxed:
    def __array__(self, dtype=None, copy=None):
        return np.arange(3, dtype=dtype)


@pytest.mark.parametrize(
    "vector", [[0, 1, 2], (0, 1, 2), pd.Series([0, 1, 2]), pl.Series([0, 1, 2]), Boxed(), [[0], [1], [2]], range(3)]
)
def test_vectors_become_float64(vector):
    np.testing.assert_array_equal(checks.check_vector(vector), [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([1.0, 2.0], ["X must be a table", "(2,)", "X[:, None]"]),
        (3.0, ["X must be a table", "()"]),
        (np.zeros((2, 2, 2)), ["(2, 2, 2)"]),
        (np.zeros((0, 3)), ["X is empty", "no rows"]),
        (np.zeros((3, 0)), ["X is empty", "no columns"]),
        ([[1, 2], [3]], ["ragged", "row 1"]),
        ([[1, np.nan], [3, np.inf]], ["NaN", "row 0, column 1", "2 such values", "impute"]),
        ([[1, 2], [np.inf, 3]], ["infinity", "row 1, column 0"]),
        (pd.DataFrame({"a": [1, 2], "city": ["Oslo", "Rome"]}), ["text", "row 0, column 'city'", "'Oslo'", "encode"]),
        (pl.DataFrame({"a": [1, 2], "b": [1, None]}), ["row 1, column 'b'"]),
        (pd.DataFrame({"a": [1, None]}, dtype="Int64"), ["missing", "row 1, column 'a'"]),
        (pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}), ["dates", "days since"]),
        (np.array([[2**53 + 1]]), ["too large", "row 0, column 0", "identifier"]),
        ([[10**30]], ["too large", "row 0, column 0"]),
        (np.array([[1 + 2j]]), ["Complex"]),
        (None, ["missing", "None"]),
        ("abc", ["X must be numbers", "str"]),
        ({"a": [1]}, ["dict"]),
        (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), ["masked"]),
        ([[object(), 1]], ["row 0, column 0", "number is expected"]),
    ],
)
def test_bad_tables_are_refused_with_a_sentence(table, words):
    with pytest.raises(DataError) as error:
        checks.check_table(table)
    for word in words:
        assert word in str(error.value)


def test_sparse_matrices_are_refused_with_the_remedy():
    import scipy.sparse as sp

    with pytest.raises(DataError, match="toarray"):
        checks.check_table(sp.eye_array(3).tocsr())


def test_lengths_and_columns_must_match():
    with pytest.raises(DataError, match="3 are expected, found 2"):
        checks.check_vector([1, 2], "y", 3)
    with pytest.raises(DataError, match="must have 4 columns.*found 2"):
        checks.check_table([[1, 2]], columns=4)
    with pytest.raises(DataError, match=r"must be positive, found 0 at row 1"):
        checks.check_positive([1, 0], "weights")
    with pytest.raises(DataError, match=r"from 0 to 2, found 3 at row 1"):
        checks.check_counts([0, 3], below=3)
    with pytest.raises(DataError, match=r"whole numbers ≥ 0, found 0.5 at row 0"):
        checks.check_counts([0.5])


def test_values_too_large_to_be_squared_are_refused():
    big = np.full((4, 1), 1e150)
    np.testing.assert_array_equal(checks.check_table(big), big)
    with pytest.raises(DataError, match=r"1e\+308 at row 0, column 0, the square of which is no number"):
        checks.check_table(np.full((4, 1), 1e308))


def test_traced_arrays_pass_with_their_shape_checked():
    assert jax.jit(lambda x: checks.check_table(x).sum())(jnp.ones((2, 3))) == 6
    with pytest.raises(DataError, match="shape"):
        jax.jit(lambda x: checks.check_table(x))(jnp.ones(3))


@given(st.integers(1, 10**7))
def test_buckets_waste_at_most_half_and_are_few(n):
    size = padding.bucket(n)
    assert n <= size <= max(16, 1.5 * n + 1)


def test_a_growing_table_compiles_a_handful_of_times():
    traced = []

    @jax.jit
    def row_sum(x):
        traced.append(x.shape)
        return x.sum(1)

    for n in range(1, 200):
        x = np.ones((n, 2))
        assert padding.by_bucket(row_sum, x).shape == (n,)
    assert len(traced) == len({padding.bucket(n) for n in range(1, 200)}) == 9


def test_padding_masks_the_rows_that_are_not_there():
    x, y, mask = padding.padded(np.ones((5, 2)), np.ones(5))
    assert x.shape == (16, 2) and y.shape == (16,) and mask.sum() == 5
    assert x[5:].sum() == 0


@pytest.mark.parametrize(
    "value", [None, "3", b"3", [1, None], [1, "2"], [[1], [1, 2]], 1j, np.datetime64("2020-01-01"), {}]
)
def test_what_is_no_number_is_refused_in_a_sentence(value):
    with pytest.raises(DataError, match=r"level must be a number or an array of numbers, found "):
        as_float(value, "level")


@pytest.mark.parametrize(
    "value", [[1, 2], (True, 2), np.array([1, 2], np.float32), pd.Series([1, 2]), pl.Series([1, 2]), [Decimal(1), 2]]
)
def test_numbers_of_all_kinds_are_numbers(value):
    out = as_float(value)
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out, [1.0, 2.0])
