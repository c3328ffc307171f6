"""`.credo` files: a belief as JSON and arrays in one zip. Reading one never runs code.

    manifest.json   format, version, SHA-256 of the other two
    belief.json     the tree: classes by name, plain values, references to arrays
    arrays.npz      the numbers

Only classes registered in `core.savable` (or passed to `load` by the caller) are rebuilt, field by field, without
calling them; nothing is unpickled. Writing is atomic: a crash leaves the old file.
"""

import contextlib
import dataclasses
import hashlib
import io
import json
import math
import os
import secrets
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.lib import format as npy

from credo.core.errors import FileError
from credo.core.savable import savable_class, savable_name

FORMAT = "credo"
VERSION = 2
"""2: classes by their names in `core.savable`; 1 had named the modules they lived in, which have moved."""
MEMBERS = ("manifest.json", "belief.json", "arrays.npz")
LARGEST_TREE = 2**26
"""So many bytes of JSON may become thirty times as many in memory."""


def save(belief: object, path: str | os.PathLike[str]) -> Path:
    """Writes a belief (or any credo value) to `path`, which gets the ending `.credo` if it has none."""
    target = Path(path)
    target = target if target.suffix else target.with_suffix(".credo")
    arrays: dict[str, np.ndarray] = {}
    tree = _encode(belief, arrays, "belief")
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    contents = {"belief.json": json.dumps(tree, allow_nan=False).encode(), "arrays.npz": packed.getvalue()}
    if len(contents["belief.json"]) > LARGEST_TREE:
        raise FileError(
            f"cannot write {target}: more than {LARGEST_TREE:,} bytes of names and plain values; use arrays"
        )
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "checksums": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    contents["manifest.json"] = json.dumps(manifest).encode()
    # Stored, not deflated: a reader can refuse anything that would grow when opened.
    with replacing(target) as path, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for member in MEMBERS:
            archive.writestr(zipfile.ZipInfo(member), contents[member])
    return target


def bytes_of(path: Path) -> bytes:
    """What a file holds, or an error that says why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file to write beside the target, which takes its place in the end; an error leaves what was there."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        beside.touch(0o666, exist_ok=False)  # as the umask has it
        yield beside
        with beside.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(beside, target)
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Reads what `save` wrote. `classes` are further classes of yours that the file may hold."""
    source = Path(path)
    if not source.is_file():
        raise FileError(f"there is no file {source}")
    own = {f"{c.__module__}:{c.__qualname__}": c for c in classes}
    try:
        tree, arrays = _read(source)
        return _decode(tree, arrays, own)
    except FileError:
        raise
    except Exception as error:  # whatever zipfile, json and NumPy say of bytes that may be anything
        raise FileError(f"{source} is damaged or not a .credo file: {error}") from error


def _read(source: Path) -> tuple[Any, dict[str, np.ndarray]]:
    with zipfile.ZipFile(source) as archive:
        infos = archive.infolist()
        if sorted(i.filename for i in infos) != sorted(MEMBERS):
            raise FileError(f"{source} is a zip file, but not one that credo wrote")
        _check_members(infos, source.stat().st_size, source)
        if archive.getinfo("belief.json").file_size > LARGEST_TREE:
            raise FileError(f"{source} has a tree of more than {LARGEST_TREE:,} bytes, which credo never writes")
        contents = {name: archive.read(name) for name in MEMBERS}
    manifest = json.loads(contents["manifest.json"])
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileError(f"{source} is not a .credo file")
    version = manifest.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise FileError(
            f"{source} has format version {version}, this credo reads up to {VERSION}; install a newer credo to read it"
        )
    if version < VERSION:
        raise FileError(
            f"{source} was written by an earlier credo (format version {version}, this one reads {VERSION}), whose "
            "classes have moved since: fit the model again and save it"
        )
    for name, digest in manifest["checksums"].items():
        if hashlib.sha256(contents[name]).hexdigest() != digest:
            raise FileError(f"{source} was damaged or changed since it was written: {name} does not match its checksum")
    if set(manifest["checksums"]) != set(MEMBERS) - {"manifest.json"}:
        raise FileError(f"{source} lacks the checksums of its contents")
    with zipfile.ZipFile(io.BytesIO(contents["arrays.npz"])) as inner:
        _check_members(inner.infolist(), len(contents["arrays.npz"]), source)
        arrays = {each.filename.removesuffix(".npy"): _array(inner.read(each)) for each in inner.infolist()}
    return json.loads(contents["belief.json"]), arrays


def _check_members(infos: Sequence[zipfile.ZipInfo], size: int, source: Path) -> None:
    """`FileError` unless every byte is there once and as it is: then nothing grows when it is opened."""
    if any(i.compress_type != zipfile.ZIP_STORED or i.file_size != i.compress_size for i in infos):
        raise FileError(f"{source} has compressed contents, which credo never writes")
    if any(i.flag_bits & 1 for i in infos):
        raise FileError(f"{source} is encrypted, which credo never does")
    if sum(i.file_size for i in infos) > size or len({i.filename for i in infos}) < len(infos):
        raise FileError(f"{source} has members that overlap or have one name, which credo never writes")


def _array(data: bytes) -> np.ndarray:
    """The numbers of a `.npy` file, as many as its header says; no memory is taken for what is not there."""
    stream = io.BytesIO(data)
    first = npy.read_magic(stream) == (1, 0)
    shape, fortran, dtype = (npy.read_array_header_1_0 if first else npy.read_array_header_2_0)(stream)
    if dtype.kind not in "biuf":
        raise FileError(f"the file holds an array of {dtype}, which credo never writes")
    numbers = np.frombuffer(data[stream.tell() :], dtype)
    if numbers.size != math.prod(shape):
        raise FileError(f"the file declares an array of shape {shape} and has {numbers.size} numbers for it")
    return numbers.reshape(shape, order="F" if fortran else "C").copy(order="K")


def _encode(value: object, arrays: dict[str, np.ndarray], where: str) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and not isinstance(value, np.generic):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise FileError(f"{where} is an array of {array.dtype}, which cannot be saved")
        name = f"a{len(arrays)}"
        arrays[name] = array
        return {"array": name}
    cls = type(value)
    if _is_record(cls) or _is_named(cls):
        fields = {name: _encode(getattr(value, name), arrays, f"{where}.{name}") for name in _fields(cls)}
        return {"class": _name_of(cls, where), "fields": fields}
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(v, arrays, f"{where}.{i}") for i, v in enumerate(value)]}
    if type(value) is dict and all(isinstance(k, str) for k in value):
        return {"dict": {k: _encode(v, arrays, f"{where}.{k}") for k, v in value.items()}}
    raise FileError(
        f"{where} is a {type(value).__name__}, which cannot be saved: a .credo file holds numbers, text and credo's "
        "own classes, never code"
    )


def _decode(node: Any, arrays: dict[str, np.ndarray], own: dict[str, type]) -> Any:
    if node is None or isinstance(node, bool | int | float | str):
        return node
    if not isinstance(node, dict):
        raise FileError(f"unexpected {type(node).__name__} in the file")
    if "array" in node:
        return arrays[node["array"]]
    if "class" in node:
        cls = _find_class(node["class"], own)
        return _rebuild(cls, {name: _decode(value, arrays, own) for name, value in node["fields"].items()})
    if "tuple" in node:
        return tuple(_decode(v, arrays, own) for v in node["tuple"])
    if "list" in node:
        return [_decode(v, arrays, own) for v in node["list"]]
    if "dict" in node:
        return {k: _decode(v, arrays, own) for k, v in node["dict"].items()}
    if "float" in node:
        return float(node["float"])
    raise FileError("the file has an entry of an unknown kind")


def _is_record(cls: type) -> bool:
    """Whether a class is a module, or another frozen dataclass: its fields are all there is of it."""
    return issubclass(cls, eqx.Module) or (dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _is_named(cls: type) -> bool:
    """Whether a class is a `NamedTuple` itself: a tuple and nothing else, so that its fields are all there is of it."""
    return cls.__bases__ == (tuple,) and isinstance(getattr(cls, "_fields", None), tuple)


def _fields(cls: Any) -> Sequence[str]:
    return cls._fields if _is_named(cls) else [field.name for field in dataclasses.fields(cls)]


def _name_of(cls: type, where: str) -> str:
    name = savable_name(cls)
    if name is not None:
        return name
    if cls.__module__.split(".")[0] == "credo":
        raise FileError(
            f"{where} is a {cls.__name__}, which cannot be saved: it is not registered in credo.core.savable"
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def _find_class(name: object, own: dict[str, type]) -> type:
    cls = own.get(name) or savable_class(name) if isinstance(name, str) else None
    if cls is None or not (_is_record(cls) or _is_named(cls)):
        raise FileError(
            f"the file holds a {name}, which is not one of credo's classes; if it is yours, load(path, classes=[...])"
        )
    return cls


def _rebuild(cls: type, fields: dict[str, object]) -> object:
    expected = _fields(cls)
    wrong = sorted(set(expected).symmetric_difference(fields))
    if wrong:
        raise FileError(f"the fields of {cls.__name__} do not match this credo's: {', '.join(wrong)}")
    if _is_named(cls):
        return tuple.__new__(cls, [fields[name] for name in expected])
    instance: object = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance
