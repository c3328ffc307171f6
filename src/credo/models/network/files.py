"""Networks in files: BIF (the Bayesian Interchange Format 0.15) and XMLBIF 0.3, read and written.

Blocks are found by regular expressions and the numbers of a table are read at once. Comments, quoted names, properties,
names such as `Asy/Patch` or `<5`, `default` rows and both orders of `table` occur in real files and are read.
"""

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NoReturn
from xml.sax.saxutils import escape

import numpy as np

from credo.core.errors import DataError, FileError
from credo.core.files import replacing
from credo.models.network.nodes import Names, Node, Table

NAME = r'"[^"]*"|[^\s,"(){}|;]+'
COMMENT = re.compile(r'"[^"\n]*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
HEAD = re.compile(r"\s*(network|variable|probability)\b\s*")
NETWORK = re.compile(rf"(?:{NAME})?\s*\{{[^{{}}]*\}}\s*;?")
PROPERTY = re.compile(r'\bproperty\b(?:[^;"]|"[^"]*")*;')
VARIABLE = re.compile(
    rf"({NAME})\s*\{{\s*type\s+discrete\s*(?:\[\s*(\d+)\s*\]\s*)?\{{([^{{}}]*)\}}\s*;?\s*\}}\s*;?", re.DOTALL
)
PROBABILITY = re.compile(r"\(\s*([^()]*?)\s*\)\s*\{([^{}]*)\}\s*;?", re.DOTALL)
ROW = re.compile(r'\(((?:[^()"]|"[^"]*")*)\)([^;]*);')
WORD = re.compile(NAME)
PLAIN = re.compile(r"[\w.+<>=/#%&:\[\]'-]+\Z")
LARGEST = 2**31
"""Bytes of a file that is read."""


def read(path: str | os.PathLike[str]) -> dict[str, Table]:
    """The laws of the network in a file, BIF or XMLBIF: which of them is seen from its first sign."""
    source = Path(path)
    try:
        if source.stat().st_size > LARGEST:
            raise FileError(f"{source} has more than {LARGEST:,} bytes")
        text = source.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise FileError(f"cannot read {source}: {error.strerror or error}") from None
    laws = _read_xml(text, source.name) if text.lstrip()[:1] == "<" else _read_bif(text, source.name)
    if not laws:
        raise DataError(f"{source.name} holds no variable; a BIF file begins with `network`, an XMLBIF file with `<`")
    return laws


def _read_bif(text: str, where: str) -> dict[str, Table]:
    if "//" in text or "/*" in text:  # lines stay where they are
        text = COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text)
    if "property" in text:
        text = PROPERTY.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    states: dict[str, Names] = {}
    blocks: list[tuple[list[str], int, int]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        head = HEAD.match(text, position)
        if head is None:
            _refuse(text, position, where, "a block must begin with network, variable or probability")
        kind, start = head[1], head.end()
        found = {"network": NETWORK, "variable": VARIABLE, "probability": PROBABILITY}[kind].match(text, start)
        if found is None:
            _refuse(text, start, where, f"the block of this {kind} cannot be read")
        position = found.end()
        if kind == "variable":
            name, listed = _bare(found[1]), tuple(map(_bare, WORD.findall(found[3])))
            if found[2] and int(found[2]) != len(listed):
                _refuse(text, start, where, f"{name!r} declares {found[2]} states and lists {len(listed)}")
            if name in states:
                _refuse(text, start, where, f"{name!r} is declared twice")
            states[name] = listed
        elif kind == "probability":
            blocks.append((list(map(_bare, WORD.findall(found[1].replace("|", " ")))), *found.span(2)))
    laws: dict[str, Table] = {}
    for scope, start, stop in blocks:
        unknown = [name for name in scope if name not in states]
        if unknown or not scope:
            _refuse(
                text, start, where, f"a probability of {unknown[0] if unknown else 'nothing'!r}, which is not declared"
            )
        if scope[0] in laws:
            _refuse(text, start, where, f"{scope[0]!r} has two tables")
        shape = tuple(len(states[name]) for name in (*scope[1:], scope[0]))
        values = _table(text, start, stop, shape, [states[name] for name in scope[1:]], where, scope[0])
        laws[scope[0]] = Table(states[scope[0]], scope[1:], values)
    missing = [name for name in states if name not in laws]
    if missing:
        raise DataError(f"{where}: {missing[0]!r} is declared and has no probability block")
    return {name: laws[name] for name in states}


def _table(
    text: str, start: int, stop: int, shape: tuple[int, ...], parents: list[Names], where: str, name: str
) -> np.ndarray:
    body = text[start:stop]
    word = re.match(r"\s*table\b", body)
    if word is not None:
        numbers = _numbers(text, start + word.end(), stop, where)
        if numbers.size != np.prod(shape):
            _refuse(text, start, where, f"{name!r} needs {int(np.prod(shape))} numbers, found {numbers.size}")
        # The format says that the variable itself changes slowest; some programs write it fastest.
        slowest = np.moveaxis(numbers.reshape(shape[-1], *shape[:-1]), 0, -1)
        fastest = numbers.reshape(shape)
        if np.abs(slowest.sum(-1) - 1).max() > 1e-4 and np.abs(fastest.sum(-1) - 1).max() <= 1e-4:
            return fastest
        return slowest
    values = np.full(shape, np.nan)
    default = re.search(r"\bdefault\b([^;]*);", body) if "default" in body else None
    if default is not None:
        values[...] = _row(text, start + default.start(1), start + default.end(1), shape[-1], where, name)
        body = body[: default.start()] + " " * len(default[0]) + body[default.end() :]
    expected = [",".join(key) for key in product(*parents)]
    index = {key: i for i, key in enumerate(expected)}
    keys, said = _rows(body)
    try:
        numbers = np.array(",".join(said).replace(",", " ").split(), dtype=float)
        places = [index[key] for key in keys]
    except (ValueError, KeyError):
        numbers, places = np.zeros(0), []
    if numbers.size != shape[-1] * len(said) or len(places) != len(said):
        _refuse_row(text, start, body, index, shape[-1], where, name)
    rows = values.reshape(-1, shape[-1])
    rows[places] = numbers.reshape(-1, shape[-1])
    if np.isnan(values).any():
        absent = expected[int(np.argmax(np.isnan(rows).any(1)))].replace(",", ", ")
        _refuse(text, start, where, f"{name!r} has no row for ({absent}) and no default")
    return values


def _rows(body: str) -> tuple[list[str], list[str]]:
    """The states and the numbers of each row, as text; what is no row has states that no parents have."""
    if '"' in body:
        found = ROW.findall(body)
        left = ROW.sub("", body).strip()
        return [*(_key(key) for key, _ in found), *[left] * bool(left)], [part for _, part in found]
    *rows, left = body.split(";")
    parts = [row.partition(")") for row in rows]
    keys = [key[1:] if key[:1] == "(" else "(" for key in ("".join(part[0].split()) for part in parts)]
    return [*keys, *["("] * bool(left.strip())], [part[2] for part in parts]


def _key(text: str) -> str:
    """The states of a row, with commas alone between them."""
    return ",".join(map(_bare, WORD.findall(text))) if '"' in text else "".join(text.split())


def _refuse_row(
    text: str, start: int, body: str, index: Mapping[str, int], count: int, where: str, name: str
) -> NoReturn:
    """Which row of a table is wrong, and what is."""
    for row in ROW.finditer(body):
        if _key(row[1]) not in index:
            _refuse(text, start + row.start(), where, f"{name!r} has a row of states that its parents do not have")
        _row(text, start + row.start(2), start + row.end(2), count, where, name)
    left = ROW.sub(lambda m: " " * len(m[0]), body)
    _refuse(text, start + len(left) - len(left.lstrip()), where, f"a row of {name!r} is expected: (states) numbers;")


def _row(text: str, start: int, stop: int, count: int, where: str, name: str) -> np.ndarray:
    numbers = _numbers(text, start, stop, where)
    if numbers.size != count:
        _refuse(text, start, where, f"a row of {name!r} needs {count} numbers, found {numbers.size}")
    return numbers


def _numbers(text: str, start: int, stop: int, where: str) -> np.ndarray:
    """All numbers of a part of the text; `DataError` with line and token where one is none."""
    part = text[start:stop]
    try:
        return np.array(part.replace(",", " ").replace(";", " ").split(), dtype=float)
    except ValueError:
        for token in re.finditer(r"[^\s,;]+", part):
            try:
                float(token[0])
            except ValueError:
                _refuse(text, start + token.start(), where, "a number is expected")
        raise


def _refuse(text: str, position: int, where: str, message: str) -> NoReturn:
    token = re.compile(r"[\s,;]*([^\s,;]*)").match(text, position)
    found = token[1] if token is not None else ""
    line = text.count("\n", 0, token.start(1) if token is not None else position) + 1
    raise DataError(f"{where}, line {line}, at {found[:40]!r}: {message}")


def _bare(name: str) -> str:
    return name[1:-1] if name[:1] == '"' else name


def _read_xml(text: str, where: str) -> dict[str, Table]:
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise DataError(f"{where} is not well-formed XML: {error}") from None
    states: dict[str, Names] = {}
    for variable in root.iter("VARIABLE"):
        states[_text(variable, "NAME", where)] = tuple((o.text or "").strip() for o in variable.iter("OUTCOME"))
    laws: dict[str, Table] = {}
    for block in root.iter("DEFINITION"):
        name = _text(block, "FOR", where)
        parents = [(given.text or "").strip() for given in block.iter("GIVEN")]
        unknown = [each for each in (name, *parents) if each not in states]
        if unknown:
            raise DataError(f"{where}: the definition of {name!r} names {unknown[0]!r}, which is not declared")
        shape = tuple(len(states[each]) for each in (*parents, name))
        body = _text(block, "TABLE", where)
        numbers = _numbers(body, 0, len(body), f"{where}, the table of {name!r}")
        if numbers.size != np.prod(shape):
            raise DataError(f"{where}: the table of {name!r} needs {int(np.prod(shape))} numbers, found {numbers.size}")
        laws[name] = Table(states[name], parents, numbers.reshape(shape))
    missing = [name for name in states if name not in laws]
    if missing:
        raise DataError(f"{where}: {missing[0]!r} is declared and has no definition")
    return {name: laws[name] for name in states}


def _text(element: Any, tag: str, where: str) -> str:
    found = element.find(tag)
    if found is None:
        raise DataError(f"{where}: a {element.tag} has no {tag}")
    return str("".join(found.itertext())).strip()


def write(nodes: Mapping[str, Node], path: str | os.PathLike[str]) -> Path:
    """The network as a file; `DataError` where it has numbers, for which neither format has a word."""
    target = Path(path)
    tables: dict[str, Table] = {}
    for name, law in nodes.items():
        if not isinstance(law, Table):
            raise DataError(f"{name!r} is a number, which BIF and XMLBIF cannot hold; use credo.save(network, path)")
        tables[name] = law
    xml = target.suffix.lower() in (".xml", ".xmlbif")
    text = _as_xml(tables) if xml else _as_bif(tables)
    with replacing(target) as beside:
        beside.write_text(text, encoding="utf-8")
    return target


def _as_bif(tables: Mapping[str, Table]) -> str:
    states = {name: law.states for name, law in tables.items()}
    parts = ["network unknown {\n}\n"]
    for name, law in tables.items():
        listed = ", ".join(map(_quoted, law.states))
        parts.append(f"variable {_quoted(name)} {{\n  type discrete [ {len(law.states)} ] {{ {listed} }};\n}}\n")
    for name, law in tables.items():
        rows = np.asarray(law.values).reshape(-1, len(law.states)).tolist()
        given = f" | {', '.join(map(_quoted, law.parents))}" if law.parents else ""
        parts.append(f"probability ( {_quoted(name)}{given} ) {{\n")
        for key, row in zip(product(*(states[p] for p in law.parents)), rows, strict=True):
            head = f"({', '.join(map(_quoted, key))})" if key else "table"
            parts.append(f"  {head} {_listed(row)};\n")
        parts.append("}\n")
    return "".join(parts)


def _quoted(name: str) -> str:
    if '"' in name:
        raise DataError(f"the name {name!r} has a quotation mark, which BIF cannot hold; rename it")
    plain = PLAIN.match(name) and "//" not in name and "/*" not in name and name not in ("default", "table", "property")
    return name if plain else f'"{name}"'


def _listed(row: Sequence[float]) -> str:
    return ", ".join(map(repr, row))


def _as_xml(tables: Mapping[str, Table]) -> str:
    parts = ['<?xml version="1.0"?>\n<BIF VERSION="0.3">\n<NETWORK>\n<NAME>unknown</NAME>\n']
    for name, law in tables.items():
        outcomes = "".join(f"<OUTCOME>{escape(state)}</OUTCOME>" for state in law.states)
        parts.append(f'<VARIABLE TYPE="nature"><NAME>{escape(name)}</NAME>{outcomes}</VARIABLE>\n')
    for name, law in tables.items():
        given = "".join(f"<GIVEN>{escape(p)}</GIVEN>" for p in law.parents)
        numbers = " ".join(map(repr, np.asarray(law.values).ravel().tolist()))
        parts.append(f"<DEFINITION><FOR>{escape(name)}</FOR>{given}<TABLE>{numbers}</TABLE></DEFINITION>\n")
    return "".join([*parts, "</NETWORK>\n</BIF>\n"])
