import json
import math
import pickle

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from scipy import stats

from credo.core.errors import DataError, FileError
from credo.decide.space import Boolean, Categorical, Check, Integer, LinearConstraint, Ordinal, Real, Space
from credo.decide.space.constraints import parse

MIXED = Space(
    {
        "rate": Real(1e-5, 1e-1, log=True),
        "momentum": Real(0, 1, when={"optimizer": "sgd"}),
        "optimizer": Categorical(["adam", "sgd", "rms"]),
        "nesterov": Boolean(when={"optimizer": ["sgd", "rms"]}),
        "decay": Real(-2, 3, when={"nesterov": True}),
        "layers": Integer(1, 30),
        "units": Integer(8, 1024, log=True),
        "size": Ordinal([1, 2.5, 10]),
        "grade": Ordinal(["low", "mid", "high"]),
    },
    [
        LinearConstraint({"momentum": 4, "decay": 1, "layers": 0.2}, at_most=6),
        "size + nesterov <= 10",
        "10*rate + size >= 1.2",
    ],
)
CONSTRAINED = [
    MIXED,
    Space({"a": Real(0, 1), "b": Real(0, 1)}, ["a + 2*b <= 2"]),
    Space({"a": Integer(-5, 20), "b": Real(-3, 8), "c": Boolean()}, ["0 <= a + b <= 7", "a - 3*c <= 4"]),
    Space({"a": Real(1e-3, 10, log=True), "b": Integer(1, 100, log=True)}, ["b/10 - a <= 2*3", "a + b >= 2"]),
]


@st.composite
def specs(draw):
    """JSON of spaces of up to six parameters, where later ones may depend on earlier discrete ones."""
    made, options = {}, {}
    for i in range(draw(st.integers(1, 6))):
        low, log, few = draw(st.floats(1e-3, 10)), draw(st.booleans()), draw(st.integers(1, 4))
        kinds = {
            "real": {"low": low if log else -low, "high": 7 * low, "log": log},
            "integer": {"low": 1, "high": 3 + int(9 * low), "log": log},
            "categorical": {"choices": ["p", 2, 0.5, True][:few]},
            "ordinal": {"levels": ["x", "y", 7, "z"][:few]},
            "boolean": {},
        }
        kind = draw(st.sampled_from(list(kinds)))
        spec = {"type": kind, **kinds[kind]}
        if options and draw(st.booleans()):
            other = draw(st.sampled_from(list(options)))
            spec["when"] = {other: draw(st.lists(st.sampled_from(options[other]), min_size=1, max_size=2, unique=True))}
        if kind != "real":
            options[f"p{i}"] = (
                spec.get("choices") or spec.get("levels") or ([2, 3] if kind == "integer" else [False, True])
            )
        made[f"p{i}"] = spec
    return {"parameters": made}


def dumb_exists(space, point):
    """The names of the parameters whose conditions hold, by asking until nothing changes."""
    names = {p.name for p in space.parameters}
    while True:
        left = {
            p.name
            for p in space.parameters
            if p.name in names and all(o in names and point.get(o) in vs for o, vs in p.when)
        }
        if left == names:
            return names
        names = left


def dumb_violation(space, point):
    total = 0.0
    for c in space.constraints:
        if isinstance(c, LinearConstraint):
            value = sum(a * float(point.get(name, 0.0)) for name, a in c.coefficients)
            total += max(0.0, value - (math.inf if c.at_most is None else c.at_most))
            total += max(0.0, (-math.inf if c.at_least is None else c.at_least) - value)
    return total


def close(a, b):
    return a.keys() == b.keys() and all(
        math.isclose(a[k], b[k], rel_tol=1e-12, abs_tol=1e-12) if isinstance(a[k], float) else a[k] == b[k] for k in a
    )


# ---------------------------------------------------------------- encoding


def test_the_encoding_of_one_point():
    point = {"rate": 1e-3, "optimizer": "rms", "nesterov": True, "decay": 0.5, "layers": 30, "units": 8, "size": 2.5}
    (row,) = MIXED.encode([point | {"grade": "low"}])
    np.testing.assert_allclose(row, [0.5, 0.5, 0, 0, 1, 1, 0.5, 1, 0, 0.5, 0], rtol=1e-12)
    assert MIXED.kinds == ("real", "real", *["choice"] * 3, "boolean", "real", "integer", "integer", *["ordinal"] * 2)
    assert MIXED.owners == (0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8)
    assert MIXED.width == 11 and not MIXED.is_continuous and not MIXED.is_finite


def test_absent_parameters_are_half_or_zero():
    space = Space({"on": Boolean(), "x": Real(0, 1, when={"on": True}), "c": Categorical(["ab", "z"])})
    space = Space([*space.parameters, Categorical(["u", "v"], when={"on": True}, name="d")])
    np.testing.assert_array_equal(space.encode([{"on": False, "c": "z"}]), [[0, 0.5, 0, 1, 0, 0]])
    assert space.decode([[0, 0.9, 0, 1, 0.4, 0.8]]) == [{"on": False, "c": "z"}]
    np.testing.assert_array_equal(space.snap([[0.2, 0.9, 0, 1, 0.4, 0.8]]), [[0, 0.5, 0, 1, 0, 0]])


@given(specs(), st.integers(0, 2**20))
def test_decode_and_encode_are_inverse_on_points_and_snap_is_idempotent(spec, seed):
    space = Space.from_json(spec)
    rows = np.random.default_rng(seed).uniform(-0.1, 1.1, size=(16, space.width))
    snapped = space.snap(rows)
    points = space.decode(rows)
    np.testing.assert_array_equal(space.snap(snapped), snapped)
    np.testing.assert_allclose(space.encode(points), snapped, rtol=0, atol=1e-14)
    for point, again in zip(points, space.decode(space.encode(points)), strict=True):
        assert close(point, again)
        assert point.keys() == dumb_exists(space, point)
        assert space.check(point) == point and list(space.check(point)) == [n for n in space.names if n in point]
        assert all(type(point[k]) is type(again[k]) for k in point)


def test_the_nearest_discrete_value_is_found():
    space = Space({"a": Integer(3, 9), "b": Ordinal([1, 5, 6]), "c": Categorical(["x", "y"]), "d": Boolean()})
    for u in np.linspace(0, 1, 41):
        (point,) = space.decode([[u, u, u, 0.5, u]])
        assert abs(point["a"] - (3 + 6 * u)) <= 0.5 + 1e-9
        assert abs(point["b"] - [1, 5, 6][round(2 * u)]) == 0
        assert point["c"] == ("x" if u >= 0.5 else "y") and point["d"] is bool(u > 0.5)


def test_bounds_come_back_exactly():
    space = Space({"a": Real(0.1, 0.7, log=True), "b": Real(-0.3, 0.1)})
    ends = [{"a": 0.1, "b": -0.3}, {"a": 0.7, "b": 0.1}]
    np.testing.assert_array_equal(space.encode(ends), [[0, 0], [1, 1]])
    assert space.decode(space.encode(ends)) == ends


def test_numpy_scalars_and_whole_floats_are_taken():
    point = {"rate": np.float32(0.01), "optimizer": np.str_("adam"), "layers": 3.0, "units": np.int8(9), "size": 10.0}
    checked = MIXED.check(point | {"grade": "mid"})
    assert checked["layers"] == 3 and type(checked["layers"]) is int and type(checked["units"]) is int
    assert type(checked["rate"]) is float and type(checked["optimizer"]) is str and type(checked["size"]) is int
    np.testing.assert_array_equal(MIXED.encode([point | {"grade": "mid"}]), MIXED.encode([checked]))
    assert Space({"b": Boolean()}).check({"b": np.True_}) == {"b": True}


def test_rows_of_the_wrong_shape_or_nan_are_refused():
    with pytest.raises(DataError, match=r"shape \(n, 2\).*found \(2,\)"):
        CONSTRAINED[1].decode([0.1, 0.2])
    with pytest.raises(DataError, match="NaN"):
        CONSTRAINED[1].snap([[0.1, np.nan]])
    assert CONSTRAINED[1].decode(np.empty((0, 2))) == [] and CONSTRAINED[1].encode([]).shape == (0, 2)


GOOD = {"rate": 0.01, "optimizer": "adam", "layers": 3, "units": 9, "size": 10, "grade": "mid"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 1.0}, "parameter 'rate' must be between 1e-05 and 0.1, found 1.0"),
        ({"rate": math.nan}, "'rate' must be finite"),
        ({"rate": "0.1"}, "'rate' must be a number, found '0.1'"),
        ({"rate": None}, "lacks parameter 'rate'"),
        ({"layers": True}, "'layers' must be a number, found True"),
        ({"layers": 3.5}, "'layers' must be a whole number.*3.5"),
        ({"layers": 31}, "'layers' must be between 1 and 30, found 31"),
        ({"layers": 10**400}, "'layers' must be finite"),
        ({"optimizer": "adamw"}, "'optimizer' must be one of 'adam', 'sgd', 'rms', found 'adamw'"),
        ({"optimizer": ["adam"]}, "'optimizer' must be one of"),
        ({"size": True}, "'size' must be one of 1, 2.5, 10, found True"),
        ({"momentum": 0.5}, "'momentum' does not exist at this point .exists when optimizer is 'sgd'.; leave it out"),
        ({"optimizer": "sgd"}, "lacks parameter 'momentum'"),
        ({"optimizer": "rms", "nesterov": 1}, "'nesterov' must be one of False, True, found 1"),
        ({"Rate": 0.1}, "'Rate' is not a parameter of the space; there are rate, "),
    ],
)
def test_a_wrong_point_is_refused_by_the_name_of_its_parameter(change, message):
    with pytest.raises(DataError, match=message):
        MIXED.check(GOOD | change)
    with pytest.raises(DataError, match=f"point 1: .*{message}"):
        MIXED.encode([GOOD, GOOD | change])


def test_none_stands_for_absent_and_a_table_can_be_read_back():
    points = MIXED.sample(9, seed=4)
    table = MIXED.table(points)
    assert list(table) == list(MIXED.names) and any(v is None for v in table["momentum"])
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    assert [MIXED.check(row) for row in rows] == points
    np.testing.assert_array_equal(MIXED.encode(rows), MIXED.encode(points))
    with pytest.raises(DataError, match="point 0: a point is a dict"):
        MIXED.encode([3])


# ---------------------------------------------------------------- what a space may be


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Real(1, 0, name="lr"), "parameter 'lr': low must be below high, found low=1 and high=0; swap"),
        (lambda: Real(1, 1), "low must be below high.*leave a constant out"),
        (lambda: Real(0, math.inf), "high must be finite, found inf"),
        (lambda: Real(-1.7e308, 1.7e308), "too wide"),
        (lambda: Real(0, 1, log=True), "log=True needs low > 0, found low=0"),
        (lambda: Real(0.5, 1, log=1), "log must be True or False, found 1"),
        (lambda: Real("0", 1), "low must be a number, found '0'"),
        (lambda: Integer(0, 2.5), "high must be a whole number"),
        (lambda: Integer(0, 2**60), "at most 2⁵³"),
        (lambda: Integer(False, 3), "low must be a number, found False"),
        (lambda: Categorical([]), "choices is empty"),
        (lambda: Categorical("abc"), "choices must be a list"),
        (lambda: Categorical(["a", "b", "a"]), "choices has 'a' twice"),
        (lambda: Categorical([1, True]), "has True twice"),
        (lambda: Categorical(["a", None]), "must be text, finite numbers or truth values, found None"),
        (lambda: Ordinal([0.1, math.nan]), "found nan"),
        (lambda: Boolean(when={"a": []}), r"when\['a'\] is empty"),
        (lambda: Boolean(when="a"), "when must be such as"),
        (lambda: Space({}), "at least one parameter"),
        (lambda: Space({"a": Real}), r"parameter 'a' must be Real.*write Real\(…\)"),
        (lambda: Space({"": Real(0, 1)}), "needs a name"),
        (lambda: Space([Real(0, 1)]), "needs a name"),
        (lambda: Space([Real(0, 1, name="a"), Boolean(name="a")]), "two parameters named 'a'"),
        (lambda: Space(3), "takes parameters such as"),
        (
            lambda: Space({"a": Boolean(when={"b": 1})}),
            "condition of parameter 'a' names 'b', which is not a parameter",
        ),
        (lambda: Space({"a": Boolean(when={"a": True})}), "'a' names the parameter itself"),
        (lambda: Space({"a": Real(0, 1), "b": Boolean(when={"a": 0.5})}), "'b' names 'a', a real number"),
        (
            lambda: Space({"a": Categorical(["u"]), "b": Boolean(when={"a": ["u", "w"]})}),
            "'b' has a value that cannot occur: parameter 'a' must be one of 'u', found 'w'",
        ),
        (
            lambda: Space({"c": Boolean(), "a": Boolean(when={"b": True}), "b": Boolean(when={"a": True, "c": True})}),
            "'a' is part of a cycle among 'a', 'b'",
        ),
        (lambda: Space.box([0, 0], [1, 1], ["a"]), "low"),
        (lambda: Space.box([0, 1], [1, 1]), "parameter 'x1': low must be below high"),
        (lambda: CONSTRAINED[1]["z"], "'z' is not a parameter of the space; there are a, b"),
    ],
)
def test_a_wrong_space_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_spaces_are_values():
    again = Space(list(MIXED.parameters), MIXED.constraints)
    assert again == MIXED and hash(again) == hash(MIXED) and pickle.loads(pickle.dumps(MIXED)) == MIXED
    assert Space({"a": Real(0, 1)}) != Space({"a": Real(0, 2)}) != Space({"b": Real(0, 2)})
    with pytest.raises(AttributeError):
        MIXED.parameters = ()


def test_box():
    space = Space.box([0, -1], 5)
    assert space == Space({"x0": Real(0, 5), "x1": Real(-1, 5)}) and space.is_continuous
    assert Space.box(0, 1, ["u", "v"]).names == ("u", "v")


def test_repr_says_everything():
    text = repr(MIXED)
    for part in (
        "Space of 9 parameters, 11 columns",
        "rate       real from 1e-05 to 0.1, log",
        "momentum   real from 0 to 1 (exists when optimizer is 'sgd')",
        "one of 'adam', 'sgd', 'rms'",
        "level 1 < 2.5 < 10",
        "subject to 4*momentum + decay + 0.2*layers <= 6",
    ):
        assert part in text


def test_a_space_without_real_numbers_is_finite():
    given = {"a": Integer(2, 4), "b": Boolean(when={"a": [3, 4]})}
    assert Space(given).is_finite and not Space(given | {"c": Real(0, 1, when={"b": True})}).is_finite


def test_which_columns_exist_at_a_row():
    points = MIXED.sample(20, seed=3)
    owners = [MIXED.names[i] for i in MIXED.owners]
    want = [[name in point for name in owners] for point in points]
    np.testing.assert_array_equal(MIXED.exists(MIXED.encode(points)), want)


# ---------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    ("text", "coefficients", "at_least", "at_most"),
    [
        ("a + 2*b <= 5", {"a": 1, "b": 2}, None, 5),
        ("5 >= a + b*2", {"a": -1, "b": -2}, -5, None),
        ("a/4 - -b >= (1 + 2)*(3 - 1)", {"a": 0.25, "b": 1}, 6, None),
        ("a == b + 1e-3", {"a": 1, "b": -1}, 1e-3, 1e-3),
        ("1 <= a + b + 1 <= 5", {"a": 1, "b": 1}, 0, 4),
        ("5 >= 2*(a - 3*b) >= 1", {"a": 2, "b": -6}, 1, 5),
        ("a + a + b - b <= 3", {"a": 2}, None, 3),
    ],
)
def test_text_becomes_a_linear_constraint(text, coefficients, at_least, at_most):
    made = parse(text)
    assert (dict(made.coefficients), made.at_least, made.at_most) == (coefficients, at_least, at_most)
    assert parse(str(made)) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a + b", "compares nothing"),
        ("a +", "not an expression"),
        ("a*b <= 1", "multiplies two parameters"),
        ("1/a <= 1", "divides by a parameter"),
        ("a/0 <= 1", "by zero"),
        ("a < 1", "compare with"),
        ("a ** 2 <= 1", r"it has 'a \*\* 2'"),
        ("__import__('os').getcwd() <= 1", "it has .__import__"),
        ("a.b <= 1", "it has 'a.b'"),
        ("a <= True", "it has 'True'"),
        ("a <= 1j", "it has '1j'"),
        ("a - a <= 1", "does not depend on any parameter"),
        ("5 <= a <= 1", "no number is between"),
        ("a <= b <= 1", "a double bound is"),
        ("1 <= a >= 0", "a double bound is"),
        ("a <= 1e999", "must be finite"),
        ("(" * 9999 + "a <= 1", "not an expression"),
    ],
)
def test_text_that_is_no_linear_constraint_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearConstraint({"a": 1}), "needs at_most or at_least"),
        (lambda: LinearConstraint({"a": 0.0}, at_most=1), "at least one parameter"),
        (lambda: LinearConstraint({"a": 1}, at_most=0, at_least=1), "cannot be at least 1 and at most 0"),
        (lambda: LinearConstraint({"a": "1"}, at_most=0), "coefficient of 'a'.*must be a number"),
        (lambda: LinearConstraint(["a"], at_most=0), "takes coefficients such as"),
        (lambda: LinearConstraint({"a": 1}, at_most=math.nan), "at_most of a linear constraint must be finite"),
        (lambda: Space({"a": Real(0, 1)}, "a + z <= 1"), "names 'z', which is not a parameter"),
        (lambda: Space({"a": Categorical([1, 2])}, "a <= 1"), "whose values are not numbers"),
        (lambda: Space({"a": Ordinal(["x"])}, "a <= 1"), "whose values are not numbers"),
        (lambda: Space({"a": Real(0, 1)}, [lambda p: True]), "give it a name with Check"),
        (lambda: Check(3, "x"), "takes a function"),
        (lambda: Check(len, ""), "takes a name"),
        (lambda: Space({"a": Real(0, 1)}, [Check(lambda p: p["b"], "odd")]).sample(1), "'odd' failed at.*KeyError"),
        (lambda: Space({"a": Real(0, 1)}, [Check(lambda p: 1, "odd")]).sample(1), "must answer True or False, found 1"),
    ],
)
def test_a_wrong_constraint_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


@eqx.filter_jit
def violation(space, rows):
    return space.linear(rows)


@given(st.sampled_from(CONSTRAINED), st.integers(0, 2**20))
def test_linear_is_zero_where_points_are_feasible_and_only_there(space, seed):
    rows = space.snap(np.random.default_rng(seed).uniform(size=(32, space.width)))
    points = space.decode(rows)
    want = np.array([dumb_violation(space, point) for point in points])
    np.testing.assert_allclose(violation(space, jnp.asarray(rows)), want, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(np.asarray(violation(space, jnp.asarray(rows))) == 0, space.feasible(points))
    np.testing.assert_array_equal(space.feasible(points), want <= 1e-10)


def test_linear_can_be_differentiated_also_at_the_bounds():
    space = Space({"a": Real(-2, 4), "b": Real(1, 100, log=True), "c": Ordinal([1, 2, 5])}, ["a + 2*b + 3*c <= 1"])
    rows = jnp.array([[1.0, 1.0, 0.25], [0.0, 0.5, 0.75]])
    slopes = jax.grad(lambda r: jnp.sum(violation(space, r)))(rows)
    b = np.array([100.0, 10.0])
    np.testing.assert_allclose(slopes, np.stack([[6.0, 6], 2 * b * math.log(100), [6, 18.0]], axis=1), rtol=1e-10)


def test_a_check_sees_points_that_meet_the_linear_constraints():
    seen = []
    check = Check(lambda p: (seen.append(p), p["c"])[1], "c")
    space = Space(CONSTRAINED[2].parameters, [*CONSTRAINED[2].constraints, check])
    points = [*CONSTRAINED[2].sample(20), {"a": 20, "b": 8.0, "c": True}]
    np.testing.assert_array_equal(space.feasible(points), [p["c"] for p in points[:-1]] + [False])
    assert len(seen) == 20 and all(p["c"] for p in space.sample(30))


# ---------------------------------------------------------------- samples


@given(specs(), st.integers(0, 1000))
def test_samples_are_points_of_the_space_and_continue(spec, seed):
    space = Space.from_json(spec)
    points = space.sample(12, seed=seed)
    assert [space.check(point) for point in points] == points
    assert space.sample(5, seed=seed, skip=7) == points[7:]


@pytest.mark.parametrize("space", CONSTRAINED)
def test_samples_satisfy_the_constraints_and_continue(space):
    points = space.sample(300, seed=3)
    assert space.feasible(points).all() and space.sample(100, seed=3, skip=200) == points[200:]
    assert points != space.sample(300, seed=4)
    assert all(dumb_violation(space, point) < 1e-9 for point in points)


def test_samples_fill_every_marginal_evenly():
    space = Space({"a": Real(1, 100, log=True), "i": Integer(1, 4), "c": Categorical(["u", "v"]), "o": Ordinal([1, 2])})
    table = space.table(space.sample(256, seed=1))
    assert stats.kstest(np.log(table["a"]) / np.log(100), "uniform").statistic < 0.02
    for name, options in (("i", [1, 2, 3, 4]), ("c", ["u", "v"]), ("o", [1, 2])):
        assert [table[name].count(v) for v in options] == [256 // len(options)] * len(options)
    logs = Space({"i": Integer(1, 3, log=True)}).table(Space({"i": Integer(1, 3, log=True)}).sample(1024))["i"]
    share = np.diff(np.log([0.5, 1.5, 2.5, 3.5])) / np.log(7)
    np.testing.assert_allclose([logs.count(v) / 1024 for v in (1, 2, 3)], share, atol=0.01)


def test_a_mixture_is_sampled_uniformly():
    space = Space({c: Real(0, 1) for c in "abc"} | {"k": Categorical(["u", "v"])}, ["a + b + c == 1"])
    points = space.sample(400, seed=2)
    assert space.feasible(points).all() and {p["k"] for p in points} == {"u", "v"}
    values = np.array([[p[c] for c in "abc"] for p in points])
    np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-12)
    flat = stats.beta(1, 2)  # the marginals of the uniform distribution on a triangle
    for moment in (values, (values - 1 / 3) ** 2):
        want = flat.mean() if moment is values else flat.var()
        assert np.all(np.abs(moment.mean(axis=0) - want) < 4.5 * moment.std(axis=0, ddof=1) / np.sqrt(400))
    assert space.sample(7, seed=2, skip=393) == points[393:]


def test_a_thin_slab_is_walked_from_end_to_end():
    space = Space.box(0, 1, ["a", "b"])
    space = Space(space.parameters, ["a - b <= 1e-6", "b - a <= 1e-6"])
    points = space.sample(200)
    gap = np.array([p["a"] - p["b"] for p in points])
    assert space.feasible(points).all() and np.ptp([p["a"] for p in points]) > 0.9
    assert np.abs(gap).max() <= 1.001e-6 and gap.std() > 0.4e-6


def test_thin_regions_of_whole_numbers_and_conditions():
    space = Space(
        {
            "a": Integer(0, 1000),
            "b": Integer(0, 1000),
            "x": Real(0.1, 2),
            "wide": Boolean(),
            "y": Real(1, 2, when={"wide": True}),
        },
        ["a + b + x + y == 1000", "y - a <= 0"],
    )
    points = space.sample(12, seed=1)
    assert space.feasible(points).all() and {p["wide"] for p in points} == {True, False}
    assert all(abs(p["a"] + p["b"] + p["x"] + p.get("y", 0) - 1000) < 1e-6 for p in points)
    assert len({p["a"] for p in points}) > 6


def test_a_thin_region_where_a_parameter_seldom_exists():
    choices = [f"c{i}" for i in range(20)]
    made = {"k": Categorical(choices), "o": Ordinal([3]), "y": Real(1, 2, when={"k": "c7"})}
    points = Space(made, ["4.5 <= y + o <= 4.500001"]).sample(5)
    assert all(p["k"] == "c7" and 1.5 <= p["y"] <= 1.500001 for p in points)
    points = Space(made, ["y <= 1.000001", Check(lambda p: p["k"] in ("c7", "c8"), "c")]).sample(300)
    assert {p["k"] for p in points} <= {"c7", "c8"} and all(p.get("y", 1) <= 1.000001 for p in points)
    with pytest.raises(DataError, match="no values within the bounds"):
        Space(made, ["o <= 2"]).sample(1)


@pytest.mark.parametrize(
    "constraints",
    [
        ["a + b >= 2.5"],
        ["a + b <= 1", "a + b >= 1.001"],
        [Check(lambda p: False, "never")],
        ["a + b == 1", Check(lambda p: p["a"] > 1, "beyond")],
    ],
)
def test_an_infeasible_space_says_so(constraints):
    space = Space(Space.box(0, 1, ["a", "b"]).parameters, constraints)
    with pytest.raises(DataError, match="no point of the space satisfies the constraints"):
        space.sample(1)


def test_infeasible_whole_numbers_say_so():
    space = Space({"a": Integer(0, 9), "b": Integer(0, 9)}, ["2*a + 2*b == 9"])
    with pytest.raises(DataError, match="no point of the space satisfies the constraints"):
        space.sample(1)


@pytest.mark.parametrize("bad", [{"n": -1}, {"n": 1, "seed": -1}, {"n": 1, "skip": -2}])
def test_wrong_counts_are_refused(bad):
    with pytest.raises(DataError):
        MIXED.sample(**bad)
    assert MIXED.sample(0) == []


# ---------------------------------------------------------------- neighbours


def test_neighbours_of_each_kind():
    space = Space(
        {
            "i": Integer(0, 100),
            "c": Categorical(["u", "v", "w"]),
            "o": Ordinal([1, 2, 3]),
            "b": Boolean(),
            "x": Real(0, 1),
        }
    )
    point = {"i": 95, "c": "v", "o": 1, "b": True, "x": 0.1 + 0.2}
    want = [{"i": v} for v in (85, 94, 96, 100)] + [{"c": "u"}, {"c": "w"}, {"o": 2}, {"b": False}]
    assert space.neighbours(point) == [point | change for change in want]
    assert Space.box(0, 1).neighbours({"x0": 0.5}) == []


def test_neighbours_bring_parameters_into_existence_and_obey_constraints():
    start = GOOD | {"optimizer": "rms", "nesterov": False, "layers": 25}
    found = MIXED.neighbours(start)
    assert not any(p["optimizer"] == "sgd" for p in found)  # 4*momentum + 0.2*layers would be 7
    assert all(MIXED.feasible(found)) and any(p["optimizer"] == "adam" and "nesterov" not in p for p in found)
    assert {p["layers"] for p in found} == {22, 24, 25, 26, 28}
    assert not any(p.get("nesterov") for p in found)  # size + nesterov <= 10 forbids it
    free = Space(MIXED.parameters)
    (sgd,) = [p for p in free.neighbours(start) if p["optimizer"] == "sgd"]
    assert sgd == MIXED.check(start | {"optimizer": "sgd", "momentum": 0.5})
    (brought,) = [p for p in free.neighbours(start) if p.get("nesterov")]
    assert brought == MIXED.check(start | {"nesterov": True, "decay": 0.5})


# ---------------------------------------------------------------- JSON


@given(specs())
def test_json_round_trip_is_exact(spec):
    space = Space.from_json(spec)
    text = json.dumps(space.to_json())
    again = Space.from_json(text)
    assert again == space and repr(again) == repr(space) and json.dumps(again.to_json()) == text
    plain = {name: {k: v for k, v in p.items() if v is not False} for name, p in spec["parameters"].items()}
    assert space.to_json()["parameters"] == plain


def test_json_of_constraints(tmp_path):
    odd = Space(
        {"learning rate": Real(0, 1), "b": Integer(0, 9)}, [LinearConstraint({"learning rate": 0.1, "b": 1 / 3}, 2)]
    )
    assert Space.from_json(odd.to_json()) == odd
    path = tmp_path / "space.json"
    path.write_text(json.dumps(MIXED.to_json() | {"goal": "maximize"}))
    space, extra = Space.from_json(path, extra=True)
    assert space == MIXED and extra == {"goal": "maximize"} and Space.from_json(str(path), extra=True)[0] == MIXED
    with pytest.raises(DataError, match="found also 'goal'"):
        Space.from_json(path)
    with pytest.raises(FileError, match="cannot read the space"):
        Space.from_json(tmp_path / "none.json")


def test_json_keeps_the_name_of_a_check():
    def even(point):
        return point["a"] % 2 == 0

    space = Space({"a": Integer(0, 9)}, [Check(even, "even")])
    assert space.to_json()["constraints"] == [{"check": "even"}]
    assert Space.from_json(space.to_json(), checks={"even": even}) == space
    with pytest.raises(DataError, match=r"constraints\[0\]: the check 'even' is a function.*checks="):
        Space.from_json(space.to_json())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "parameters must be an object.*found none"),
        ('{"parameters": []}', r"parameters must be an object.*found \[\]"),
        ('{"parameters": {"a": 3}}', "parameters.a must be an object"),
        ('{"parameters": {"a": {"low": 0}}}', "parameters.a.type must be one of real.*found none"),
        ('{"parameters": {"a": {"type": "float"}}}', "parameters.a.type must be one of.*found 'float'"),
        ('{"parameters": {"a": {"type": "real", "low": 0}}}', "parameters.a.high is missing"),
        ('{"parameters": {"a": {"type": "real", "low": 0, "hihg": 1}}}', "parameters.a.hihg is not a key.*low, high"),
        ('{"parameters": {"a": {"type": "real", "low": 2, "high": 1}}}', "parameters.a: .*low must be below high"),
        ('{"parameters": {"a": {"type": "real", "low": 0, "high": Infinity}}}', "Infinity is not a number"),
        ('{"parameters": {"a": {"type": "boolean"}, "a": {"type": "boolean"}}}', "key 'a' is there twice"),
        ('{"parameters": {"a": {"type": "boolean", "when": 3}}}', "parameters.a.when must be an object"),
        ('{"parameters": {"a": {"type": "boolean", "when": {"b": true}}}}', "parameters.a.when names 'b'"),
        ('{"parameters": {"a": {"type": "boolean"}}, "constraints": "a <= 1"}', "constraints must be a list"),
        ('{"parameters": {"a": {"type": "boolean"}}, "constraints": ["a <= 1", "c <= 1"]}', r"constraints\[1\]: .*'c'"),
        ('{"parameters": {"a": {"type": "boolean"}}, "constraints": [{"lin": 1}]}', r"constraints\[0\]: expected text"),
        ('{"parameters": {"a": {"type": "boolean"}}, "goal": 1}', "found also 'goal'"),
    ],
)
def test_a_mistake_in_json_is_refused_with_its_path(text, message):
    with pytest.raises(DataError, match=message):
        Space.from_json(text)
    with pytest.raises(DataError, match="a space is read from"):
        Space.from_json(3)
