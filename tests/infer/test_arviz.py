"""Draws as arviz has them, in its old form and its new one."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from credo.infer.mcmc.draws import Draws
from credo.infer.target import ParameterSpace


@pytest.fixture
def found(rng):
    init = {"group": {"scale": 1.0}, "place": np.zeros((2, 3))}
    space = ParameterSpace.of(init, {"group.scale": "positive"})
    flags = rng.uniform(size=(2, 2, 50)) < 0.1
    info = (rng.uniform(size=(2, 50)), flags[0], rng.normal(size=(2, 50)), flags[1])
    return Draws.of(space, rng.normal(size=(2, 50, 7)), info)


def groups_of(found):
    """What arviz is told."""
    chains = np.asarray(found.chains)
    posterior = {"group.scale": np.exp(chains[..., 0]), "place": chains[..., 1:].reshape(2, 50, 2, 3)}
    stats = {
        "diverging": found.divergent,
        "energy": found.energy,
        "acceptance_rate": found.acceptance,
        "reached_max_treedepth": found.at_depth,
    }
    return {"posterior": posterior, "sample_stats": stats}


def same(told, found):
    want = groups_of(found)
    for group in ("posterior", "sample_stats"):
        assert sorted(told[group]) == sorted(want[group])
        for name, values in want[group].items():
            np.testing.assert_allclose(np.asarray(told[group][name]), np.asarray(values), rtol=1e-12)


def old(posterior=None, *, sample_stats=None):
    return {"posterior": posterior, "sample_stats": sample_stats}


def new(data, *, name=None):
    return data


@pytest.mark.parametrize("from_dict", [old, new])
def test_both_signatures_of_from_dict(from_dict, found, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(from_dict=from_dict))
    same(found.to_arviz(), found)


def test_arviz_itself(found):
    arviz = pytest.importorskip("arviz")
    tree = found.to_arviz()
    same({group: dict(tree[group].data_vars) for group in ("posterior", "sample_stats")}, found)
    assert tree["posterior"]["place"].dims[:2] == ("chain", "draw")
    table = arviz.summary(tree)
    assert len(table) == 7 and "group.scale" in table.index
    np.testing.assert_allclose(float(table["mean"]["group.scale"]), float(found.mean["group"]["scale"]), atol=0.1)


def test_a_single_number_is_theta(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(from_dict=new))
    flags = np.zeros((1, 9), dtype=bool)
    single = Draws.of(
        ParameterSpace.of(0.0), rng.normal(size=(1, 9, 1)), (np.ones((1, 9)), flags, np.ones((1, 9)), flags)
    )
    assert list(single.to_arviz()["posterior"]) == ["theta"]
