import copy
import io
import json
import os
import sys
import tracemalloc
import zipfile
from pathlib import Path

import equinox as eqx
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import credo
from credo.core import files, savable
from credo.errors import FileError
from credo.infer.optimize import Optimum
from credo.models.features import BSpline, Polynomial, Standardize
from credo.models.linear import ARD, InverseGamma


@pytest.fixture
def belief(rng):
    x = rng.normal(size=(30, 2))
    features = Standardize(Polynomial(2) + BSpline(5)).adapt(x)
    return credo.Linear(features, ARD(jnp.ones(15)), InverseGamma()).condition(x, x[:, 0] + rng.normal(size=30))


@pytest.fixture
def saved(belief, tmp_path):
    return credo.save(belief, tmp_path / "belief")


def repack(path: Path, **changes: bytes) -> None:
    """A file whose members are changed and whose checksums are right again: an attacker's file."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        contents = {n: archive.read(n) for n in archive.namelist()}
    contents |= {k.replace("_", "."): v for k, v in changes.items()}
    manifest = json.loads(contents["manifest.json"])
    manifest["checksums"] = {n: hashlib.sha256(d).hexdigest() for n, d in contents.items() if n != "manifest.json"}
    if "manifest_json" not in changes:
        contents["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for n, d in contents.items():
            archive.writestr(n, d)


def test_a_belief_survives_the_round_trip(belief, saved):
    assert saved.name == "belief.credo"
    again = credo.load(saved)
    assert eqx.tree_equal(belief, again)
    x = np.ones((3, 2))
    np.testing.assert_array_equal(again.predict(x).mean, belief.predict(x).mean)


def test_plain_values_survive(tmp_path):
    value = {"a": (1, 2.5, None, True, float("inf")), "b": [np.arange(3), "text"]}
    again = credo.load(credo.save(value, tmp_path / "v.credo"))
    assert again["a"] == value["a"] and again["b"][1] == "text"
    assert isinstance(again["b"][0], np.ndarray)


def test_code_is_never_saved(tmp_path):
    class Sneaky(eqx.Module):
        function: object

    with pytest.raises(FileError, match=r"belief.function is a function, which cannot be saved"):
        credo.save(Sneaky(lambda x: x), tmp_path / "f")
    assert not list(tmp_path.iterdir())


class Mine(eqx.Module):
    number: jnp.ndarray


def test_foreign_classes_need_to_be_named(tmp_path):
    path = credo.save(Mine(jnp.ones(2)), tmp_path / "mine")
    with pytest.raises(FileError, match="not one of credo's classes"):
        credo.load(path)
    assert eqx.tree_equal(credo.load(path, classes=[Mine]), Mine(jnp.ones(2)))


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "credo.core.files:save",
        "credo.core.errors:DataError",
        "credo.core.params:Any",
        "credo.core.files:os.system",
        "credo.models.linear.belief:Nothing",
        "credo.nowhere:Linear",
        "credo.models.nowhere:Linear",
        "credo.models.linear.belief:Linear",
        "linear.Nothing",
        "core.__class__",
        "../../etc:passwd",
        5,
    ],
)
def test_a_file_cannot_name_what_is_not_a_belief(saved, name):
    tree = {"class": name, "fields": {}}
    repack(saved, belief_json=json.dumps(tree).encode())
    with pytest.raises(FileError):
        credo.load(saved)


@pytest.mark.parametrize(
    "tree",
    [
        {"class": "linear.ARD", "fields": {}},
        {"class": "linear.ARD", "fields": {"precision": 1, "__class__": 2}},
        {"class": "linear.ARD"},
        {"array": "nowhere"},
        {"unknown": 1},
        [1, 2],
        {"tuple": 5},
        {"float": "import os"},
    ],
)
def test_nonsense_trees_are_file_errors(saved, tree):
    repack(saved, belief_json=json.dumps(tree).encode())
    with pytest.raises(FileError):
        credo.load(saved)


def test_deep_nesting_is_a_file_error(saved):
    repack(saved, belief_json=(b'{"list": [' * 100_000) + b"1" + b"]}" * 100_000)
    with pytest.raises(FileError):
        credo.load(saved)


def test_pickled_arrays_are_refused(saved):
    packed = io.BytesIO()
    np.savez(packed, a0=np.array([{"x": 1}], dtype=object))
    repack(saved, arrays_npz=packed.getvalue())
    with pytest.raises(FileError):
        credo.load(saved)


def test_compressed_contents_are_refused(saved):
    packed = io.BytesIO()
    np.savez_compressed(packed, a0=np.zeros(10**6))
    repack(saved, arrays_npz=packed.getvalue())
    with pytest.raises(FileError, match="compressed"):
        credo.load(saved)


def test_every_savable_class_is_where_the_table_says():
    for name, (module, cls) in savable._homes().items():
        found = savable.savable_class(name)
        assert found is not None and (found.__module__, found.__qualname__) == (module, cls), name
        assert savable.savable_name(found) == name


def test_names_of_classes_in_files_are_unique():
    rows = [row.split() for row in savable.TABLE.strip().splitlines()]
    names = [f"{topic}.{entry.partition('=')[2] or entry}" for topic, _, *classes in rows for entry in classes]
    assert len(names) == len(set(names)) and len({module for _, module, *_ in rows}) > 50


def test_files_say_nothing_of_modules(saved):
    with zipfile.ZipFile(saved) as archive:
        assert b"credo." not in archive.read("belief.json")


def test_files_of_before_are_refused_in_a_sentence(saved):
    repack(saved, manifest_json=json.dumps({"format": "credo", "version": 1, "checksums": {}}).encode())
    with pytest.raises(FileError, match="written by an earlier credo .* fit the model again and save it"):
        credo.load(saved)


def test_what_is_not_registered_is_not_saved(tmp_path):
    with pytest.raises(FileError, match="belief is a Optimum, which cannot be saved"):
        credo.save(Optimum(np.zeros(1), 0.0, "converged", 1), tmp_path / "optimum")


def test_a_newer_version_says_so(saved):
    repack(saved, manifest_json=json.dumps({"format": "credo", "version": 99, "checksums": {}}).encode())
    with pytest.raises(FileError, match="version 99.*newer credo"):
        credo.load(saved)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x80\x04\x95"])
def test_foreign_files_are_file_errors(tmp_path, content):
    path = tmp_path / "x.credo"
    path.write_bytes(content)
    with pytest.raises(FileError):
        credo.load(path)
    with pytest.raises(FileError, match="there is no file"):
        credo.load(tmp_path / "nothing.credo")
    with pytest.raises(FileError):
        credo.load(tmp_path)


@settings(max_examples=60)
@given(data=st.data())
def test_any_truncation_or_flipped_byte_is_a_file_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "b.credo"
    credo.save(ARD(jnp.ones(3)), path)
    raw = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(raw[:where])
    else:
        raw[where] ^= data.draw(st.integers(1, 255))
        path.write_bytes(raw)
    try:
        again = credo.load(path)
    except FileError:
        return
    # A flipped byte in what zip does not check (a date, a flag) may leave the contents intact.
    assert eqx.tree_equal(again, ARD(jnp.ones(3)))


def test_a_crash_while_writing_leaves_the_old_file(belief, saved, monkeypatch):
    before = saved.read_bytes()

    def crash(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(FileError, match="disk full"):
        credo.save(ARD(jnp.ones(3)), saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
    with pytest.raises(FileError, match="cannot write"):
        credo.save(belief, saved.parent / "missing" / "folder.credo")
    assert files.VERSION == 2


def attacked(saved: Path, packed: bytes, tree: object = None) -> None:
    repack(saved, arrays_npz=packed, belief_json=json.dumps({"array": "a0"} if tree is None else tree).encode())


def small(function, megabytes: int = 60) -> None:
    """Runs it and looks at the memory that it took."""
    tracemalloc.start()
    try:
        with pytest.raises(FileError):
            function()
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()


def test_entries_that_overlap_are_refused(saved):
    """A zip whose central directory names the same bytes many times: 1 MB that would become 200."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        one = io.BytesIO()
        np.save(one, np.zeros(2**17))
        archive.writestr("a0.npy", one.getvalue())
        for i in range(1, 200):
            again = copy.copy(archive.filelist[0])
            again.filename = f"a{i}.npy"
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
    attacked(saved, packed.getvalue(), {"list": [{"array": f"a{i}"} for i in range(200)]})
    small(lambda: credo.load(saved), 20)


def test_one_array_that_is_named_often_is_one_array(saved):
    packed = io.BytesIO()
    np.savez(packed, a0=np.zeros(2**17))
    attacked(saved, packed.getvalue(), {"list": [{"array": "a0"}] * 10_000})
    tracemalloc.start()
    found = credo.load(saved)
    assert len(found) == 10_000 and all(each is found[0] for each in found)
    assert tracemalloc.get_traced_memory()[1] < 60 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(4000000000, 4)", "(-1,)", "(3, 3)", "(0, 9)"])
def test_shapes_that_are_not_there_take_no_memory(saved, shape):
    good = io.BytesIO()
    np.save(good, np.zeros(2))
    header = good.getvalue()[:-16].replace(b"(2,)", shape.encode())
    length = len(header) - 10
    header = header[:8] + length.to_bytes(2, "little") + header[10:]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a0.npy", header + bytes(16))
    attacked(saved, packed.getvalue())
    small(lambda: credo.load(saved), 5)


def test_encrypted_and_doubled_members_are_refused(saved):
    raw = bytearray(saved.read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        where = raw.find(signature)
        while where >= 0:
            raw[where + at] |= 1
            where = raw.find(signature, where + 1)
    saved.write_bytes(raw)
    with pytest.raises(FileError, match="encrypted"):
        credo.load(saved)


def test_a_tree_too_large_to_be_read_is_not_written(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_TREE", 100)
    with pytest.raises(FileError, match="more than 100 bytes"):
        credo.save(["x" * 200], tmp_path / "long")
    with pytest.raises(FileError, match="more than 100 bytes"):
        credo.load(saved)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_files_follow_the_umask(tmp_path):
    for mask in (0o022, 0o077, 0o002):
        before = os.umask(mask)
        try:
            path = credo.save(ARD(np.ones(3)), tmp_path / "umask")
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_nothing_is_imported_for_a_name_that_is_not_registered(saved):
    repack(saved, belief_json=json.dumps({"class": "antigravity:Anti", "fields": {}}).encode())
    before = set(sys.modules)
    with pytest.raises(FileError):
        credo.load(saved)
    assert set(sys.modules) == before


def test_three_hundred_damaged_files_are_file_errors(tmp_path):
    """Cut, flipped, with parts exchanged, doubled or renamed, in either archive, with the checksums right again."""
    rng = np.random.default_rng(0)
    value = {"law": ARD(np.arange(3.0)), "table": np.arange(12.0).reshape(3, 4), "names": ("a", "b")}
    path = credo.save(value, tmp_path / "value")
    intact = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        inner = {name: archive.read(name) for name in ("belief.json", "arrays.npz")}

    def damaged(raw: bytes) -> bytes:
        raw, i, j = bytearray(raw), *sorted(rng.integers(0, len(raw), 2))
        match rng.integers(5):
            case 0:
                return bytes(raw[:i])
            case 1:
                for at in rng.integers(0, len(raw), rng.integers(1, 9)):
                    raw[at] ^= 1 << rng.integers(8)
            case 2:
                raw[i:j] = raw[i:j][::-1]
            case 3:
                raw[i:i] = raw[i:j]
            case _:
                for old, new in ((b"a0", b"zz"), (b"table", b"law"), (b"ARD", b"RBF"), (b"(3, 4)", b"(9, 9)")):
                    raw = raw.replace(old, new, int(rng.integers(0, 3)))
        return bytes(raw)

    refused = 0
    for k in range(300):
        path.write_bytes(intact)
        if k % 3 == 0:
            path.write_bytes(damaged(intact))
        else:
            name = "belief.json" if k % 3 == 1 else "arrays.npz"
            repack(path, **{name.replace(".", "_"): damaged(inner[name])})
        try:
            credo.load(path)
        except FileError:
            refused += 1
    assert refused > 200
