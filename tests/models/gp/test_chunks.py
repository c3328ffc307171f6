"""Gaussian processes of rows that come from disk, a chunk at a time: the same belief as after all rows at once."""

import numpy as np
import pytest

import credo
from credo.core.chunks import chunks
from credo.core.errors import DataError
from credo.kernels import RBF
from credo.models.gp import Inducing

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 3, size=(60, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
GP = credo.GP(RBF(1.0, 1.0), 0.0, noise=0.01)
AT = X[:5] + 0.1


@pytest.fixture
def mapped(tmp_path):
    """X and y as files that are read as they are reached."""
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    return [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"]


def test_chunks_are_rows(mapped):
    at_once = GP.condition(X, Y)
    pairs = [(X[:20], Y[:20]), (X[20:], Y[20:])]
    for data in (chunks(*mapped, rows=25), pairs, iter(pairs)):
        after = GP.condition(data)
        np.testing.assert_allclose(after.predict(AT).mean, at_once.predict(AT).mean, atol=1e-12)
    assert GP.log_evidence(chunks(*mapped, rows=7)) == pytest.approx(float(GP.log_evidence(X, Y)))
    more = GP.condition(X[:40], Y[:40], using=Inducing(10)).condition(chunks(X[40:], Y[40:], rows=3))
    assert len(more.seen.x) == 60


def test_hyperparameters_are_learned_from_a_parquet_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    table.to_parquet(tmp_path / "table.parquet")
    source = chunks(tmp_path / "table.parquet", target="y", rows=25)
    learned, at_once = credo.fit(credo.GP(), source), credo.fit(credo.GP(), X, Y)
    np.testing.assert_allclose(learned.predict(AT).mean, at_once.predict(AT).mean, rtol=1e-6)


def test_classes_with_their_names_in_chunks():
    labels = np.where(Y > 0.5, "high", "low")
    latent = credo.LatentGP(kernel=RBF(1.0, 1.0))
    after = latent.condition(chunks(X, labels, rows=16), using=Inducing(10))
    at_once = latent.condition(X, labels, using=Inducing(10))
    np.testing.assert_allclose(after.predict(AT).probs, at_once.predict(AT).probs, atol=1e-10)
    assert after.classes == ("high", "low")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (iter([]), "no chunks"),
        ([(X, Y), (X[:, :1], Y)], "chunk 1 must have X and y of one length and all columns"),
        ([(X, Y[:3])], "chunk 0 must have X and y of one length"),
        ([(X, Y, Y)], r"chunk 0 of a Gaussian process must be a tuple \(X, y\)"),
        (X, "or on chunks of them; found 1 argument"),
    ],
)
def test_what_are_no_chunks(data, message):
    with pytest.raises(DataError, match=message):
        GP.condition(data)


def test_a_table_beyond_memory_is_refused_before_it_is_read(monkeypatch, mapped):
    monkeypatch.setattr("credo.models.gp.data.usable_memory", lambda: 1000.0)
    for belief in (GP, credo.LatentGP()):
        with pytest.raises(DataError, match="take a part of them"):
            belief.condition(mapped[0], mapped[1] > 0.5)
    with pytest.raises(DataError, match="take a part of them"):
        GP.condition(chunks(*mapped, rows=10))
