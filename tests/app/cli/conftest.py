"""Commands run in a folder of their own."""

from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner


@pytest.fixture
def command(tmp_path, monkeypatch) -> Callable[[Callable[[typer.Typer], None], str], Any]:
    """`command(register, "plan")(*words)` runs one command alone."""
    monkeypatch.chdir(tmp_path)

    def alone(register: Callable[[typer.Typer], None], name: str) -> Any:
        app = typer.Typer()
        app.callback()(lambda: None)
        register(app)
        return lambda *words: CliRunner().invoke(app, [name, *words])

    return alone
