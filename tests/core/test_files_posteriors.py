"""What a method found about a belief survives its file; what only looks like it is refused."""

import json
import zipfile
from hashlib import sha256
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core.params import Constraint, Slot
from credo.errors import FileError
from credo.infer import NUTS, Laplace, Variational, importance
from credo.infer.target import ParameterSpace, Target

pytestmark = pytest.mark.filterwarnings("ignore:do not trust this posterior")  # few draws: files are what is tested
METHODS = [NUTS(chains=2, draws=100, warmup=100), Laplace(), Variational()]


def rewrite(path, tree):
    """The file with another tree and right checksums: an attacker's."""
    with zipfile.ZipFile(path) as archive:
        arrays = archive.read("arrays.npz")
    contents = {"belief.json": json.dumps(tree).encode(), "arrays.npz": arrays}
    sums = {name: sha256(data).hexdigest() for name, data in contents.items()}
    contents["manifest.json"] = json.dumps({"format": "credo", "version": 2, "checksums": sums}).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_belief_with_its_posterior_survives(method, rng, tmp_path):
    x = rng.normal(size=(30, 2))
    y = (x[:, 0] + rng.normal(size=30) > 0).astype(int)
    belief = credo.Logistic().condition(x, y, using=method)
    again = credo.load(credo.save(belief, tmp_path / "belief"))
    assert eqx.tree_equal(belief, again)
    np.testing.assert_array_equal(again.predict(x).probs, belief.predict(x).probs)
    assert again.posterior.summary() == belief.posterior.summary()
    assert again.found.space.slots == belief.found.space.slots and hash(again.found.space.slots)


def log_density(p, y):
    return -0.5 * jnp.sum((y - p["mean"]) ** 2) / p["scale"] - 4 * jnp.log(p["scale"]) - p["scale"]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_bare_posterior_survives_without_its_function(method, tmp_path):
    init, constraints = {"mean": 0.0, "scale": 1.0}, {"scale": "positive"}
    data = (jnp.array([0.3, 1.2, -0.4, 2.0]),)
    found = credo.condition(log_density, init, data=data, constraints=constraints, using=method)
    again = credo.load(credo.save(found, tmp_path / "posterior"))
    assert eqx.tree_equal(found, again) and again.verdict == found.verdict
    assert again.summary() == found.summary()
    assert eqx.tree_equal(again.sample(5, seed=3), found.sample(5, seed=3))
    if isinstance(method, NUTS):
        np.testing.assert_array_equal(again.diagnostics.rhat, found.diagnostics.rhat)
        return
    target = Target(ParameterSpace.of(init, constraints), log_density, data)
    weighted = importance(found, target, draws=100)
    assert eqx.tree_equal(credo.load(credo.save(weighted, tmp_path / "weighted")), weighted)
    with pytest.raises(FileError, match=r"belief\.function is a function, which cannot be saved: .* never code"):
        credo.save(target, tmp_path / "target")


class Pair(NamedTuple):
    left: float
    right: float


class Eager(NamedTuple):
    """A named tuple whose making would be noticed."""

    left: float


def refuse(*_):
    raise AssertionError("code of the class was run")


Eager.__new__ = Eager._make = refuse  # type: ignore[method-assign, assignment]


def test_named_tuples_come_back_as_what_they_were(tmp_path):
    slot = Slot("scale", Constraint("positive", 0.1), (2,), 0, 2)
    again = credo.load(credo.save({"slots": (slot, slot)}, tmp_path / "slots"))
    assert again == {"slots": (slot, slot)} and type(again["slots"][0].constraint) is Constraint
    path = credo.save(Pair(1.0, np.float64(2.0)), tmp_path / "pair")
    with pytest.raises(FileError, match="Pair, which is not one of credo's classes; if it is yours"):
        credo.load(path)
    own = credo.load(path, classes=[Pair])
    assert type(own) is Pair and own == (1.0, 2.0)


def test_a_named_tuple_is_rebuilt_without_calling_it(tmp_path):
    path = credo.save(Pair(1.0, 2.0), tmp_path / "pair")
    rewrite(path, {"class": f"{Eager.__module__}:Eager", "fields": {"left": 3}})
    assert tuple(credo.load(path, classes=[Eager])) == (3,)


SLOT = "core.Slot"
FIELDS = {"path": "a", "constraint": None, "shape": {"tuple": []}, "start": 0, "stop": 1}


@pytest.mark.parametrize(
    "tree",
    [
        {"class": "sys:version_info", "fields": {}},
        {"class": "collections:namedtuple", "fields": {"typename": "A"}},
        {"class": "urllib.parse:ParseResult", "fields": {}},
        {"class": "importlib.machinery:ModuleSpec", "fields": {}},
        {"class": "credo.core.params:NamedTuple", "fields": {}},
        {"class": "credo.core.params:Slot._make", "fields": {}},
        {"class": "credo.core.params:layout", "fields": {}},
        {"class": "core.NamedTuple", "fields": {"mode": 1, "spread": 1}},
        {"class": "credo.core.params:Slot", "fields": FIELDS},
        {"class": SLOT, "fields": {}},
        {"class": SLOT, "fields": {**FIELDS, "__class__": 1}},
        {"class": SLOT, "fields": [1, 2, 3, 4, 5]},
        {"class": SLOT},
        {"class": ["credo.core.params", "Slot"], "fields": FIELDS},
    ],
)
def test_a_file_cannot_name_other_tuples(tree, tmp_path):
    path = credo.save(1.0, tmp_path / "hostile")
    rewrite(path, {"class": SLOT, "fields": FIELDS})
    assert credo.load(path) == Slot("a", None, (), 0, 1)  # type: ignore[arg-type]
    rewrite(path, tree)
    with pytest.raises(FileError):
        credo.load(path)
