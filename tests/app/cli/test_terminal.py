"""Ctrl-C on a terminal: one line."""

import signal

import pytest
import typer

from credo.app.cli import terminal


@pytest.fixture
def pressing(monkeypatch):
    """SIGINT as the commands take it."""
    monkeypatch.setattr(terminal, "_pressed", [])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with terminal.interruptible():
        yield
    signal.signal(signal.SIGINT, before)


@terminal.one_line_errors()
def import_in_vain():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise AttributeError("partially initialized module") from None


def test_an_error_that_ctrl_c_caused_is_an_interruption(pressing, capsys):
    with pytest.raises(typer.Exit) as stopped:
        import_in_vain()
    assert stopped.value.exit_code == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err


def test_ctrl_c_elsewhere_is_at_once(pressing):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert terminal._pressed == [signal.SIGINT]
