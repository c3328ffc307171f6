"""Public names that load on first use: a package lists them once, in its stub (`__init__.pyi`), for people and for us.

    __all__, __getattr__, __dir__ = attach(__name__, __file__)

A line `from credo.infer.learning import fit as fit` of the stub makes `fit` a public name; type checkers read the stub,
and `attach` reads it when the package is imported. Folders of the package resolve too: `credo.models.gp`.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def attach(package: str, file: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package, from the imports of its stub."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        name.asname or name.name: (node.module, name.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("credo")
        for name in node.names
        if not (name.asname or name.name).startswith("_")
    }

    def load(name: str) -> object:
        if name in homes:
            module, original = homes[name]
            folder = module == package  # `from credo import errors`
            value = import_module(f"{module}.{original}") if folder else getattr(import_module(module), original)
        elif not name.startswith("_") and Path(file).stem == "__init__" and find_spec(f"{package}.{name}"):
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    public = sorted(homes)
    return public, load, lambda: public
