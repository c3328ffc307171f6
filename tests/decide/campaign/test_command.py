"""Commands: what goes in, what comes out, and that nothing is interpreted on the way."""

import json
import sys
import time
from pathlib import Path

import pytest

from credo.core.errors import DataError
from credo.decide.campaign import Command, CommandFailed

PYTHON = sys.executable


def echo(text, errors=""):
    """A command that prints the text."""
    return f"{PYTHON} -c 'import sys; print({text!r}); sys.stderr.write({errors!r})'".replace("{", "{{").replace(
        "}", "}}"
    )


def shown(*names):
    """A command that prints its arguments as JSON on standard error, and ends with status 1."""
    code = "import json, sys; sys.exit(json.dumps(sys.argv[1:]))"
    return f"{PYTHON} -c '{code}' " + " ".join(names)


@pytest.mark.parametrize(
    "evil", ["a b", "$(touch owned)", "`touch owned`", "; touch owned", "'\"", "{x}", "*", "a\nb", "-rf", "", "é\\"]
)
def test_a_value_is_one_argument_whatever_it_holds(evil, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandFailed) as failed:
        Command(shown("--c={c}", "{c}", "end"), ("c",)).run({"c": evil})
    assert json.loads(str(failed.value).split(": ", 1)[1]) == [f"--c={evil}", evil, "end"]
    assert not (tmp_path / "owned").exists()


def test_how_values_are_written():
    command = Command("true {a} {b} {n}/{t} {trial} {{x}} '{a} {b}'", ("a", "b", "n", "t"))
    arguments = command.arguments({"a": 0.1 + 0.2, "b": True, "n": 3, "t": "x y"}, 7)
    assert arguments == ["true", "0.30000000000000004", "true", "3/x y", "7", "{x}", "0.30000000000000004 true"]
    whole = Command("true {point}", ("a", "b")).arguments({"a": 1e-9, "b": False})
    assert json.loads(whole[1]) == {"a": 1e-9, "b": False}


def test_arguments_of_parameters_that_do_not_exist_are_left_out():
    command = Command("true --m {m} --k={k} -v {a} --last {m}", ("m", "k", "a"))
    assert command.arguments({"a": 1}) == ["true", "-v", "1"]
    assert command.arguments({"a": 1, "m": 2}) == ["true", "--m", "2", "-v", "1", "--last", "2"]
    assert Command("true {a} {m}", ("a", "m")).arguments({"a": -1}) == ["true", "-1"], "a value is no option"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("true {x} {z}", "the command has {z}, which is no parameter; there are x, y"),
        ("true {x}", "does not use y; add {y}, or {point} for all as JSON"),
        ("true {x.__class__} {y}", "the command has {x.__class__}"),
        ("true {x} {y} {}", "the command has {}"),
        ("true {x} {y} {", "cannot be read"),
        ("true 'x", "cannot be split into arguments"),
        ("", "the command is empty"),
        ("no-such-program {x} {y}", "there is no program 'no-such-program'"),
    ],
)
def test_bad_templates_are_refused_before_anything_runs(template, message):
    with pytest.raises(DataError, match=message.replace("{", r"\{").replace("}", r"\}")):
        Command(template, ("x", "y"))


def test_formats_are_refused():
    with pytest.raises(DataError, match="has a format"):
        Command("true {x:.2f}", ("x",))


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("0.5", 0.5),
        ("epoch 10/10\nloss: 1e-3\n", None),
        ("loss: 1e-3\n", 1e-3),
        ("epoch 10/10\n 1e-3 \n\n", 1e-3),
        ("acc 93.1%", None),
        ("\N{MINUS SIGN}0.5", -0.5),
        ("value=\N{MINUS SIGN}0.5", -0.5),
        ("0,523", None),
        ("value=0,523", None),
        ("value 0.523\ndone in 12.7s", 0.523),
        ("loss 0.523\ndone in 12.7s", None),
        ("loss 0.523\ndone in 12.7 s", None),
        ("value=1.5, seconds=3.", 1.5),
        ("value=1e3s", None),
        ("val-value=3\nvalue: 4", 4.0),
        ("value=1 then value=many", None),
        ("-2", -2.0),
        (".5e+2 done", None),
        ("resnet50 v2", None),
        ("value = 3\nseconds 17", 3.0),
        ("value=1\nvalue=2", 2.0),
        ('{"value": 4, "other": 5}\n6', 4.0),
        ("valued=7", 7.0),
        ("", None),
        ("no number", None),
        ("loss nan", None),
        ("1.0\ninf", None),
        ("value=nan", None),
        ('{"value": null}', None),
        ('{"value": true}', None),
    ],
)
def test_the_number_that_is_read(output, value):
    command = Command("true", ())
    if value is None:
        with pytest.raises(CommandFailed):
            command.read(output)
    else:
        assert command.read(output) == {"value": value}


def test_several_outcomes():
    command = Command("true", (), outcomes=("yield", "waste"))
    assert command.read("yield=1 waste: 2e1\nyield=3") == {"yield": 3.0, "waste": 20.0}
    assert command.read('x\n{"yield": 1, "waste": -2, "more": []}\n') == {"yield": 1.0, "waste": -2.0}
    with pytest.raises(CommandFailed, match="printed no waste: its last line is 'yield=1'; expected waste=number"):
        command.read("yield=1")


def test_patterns():
    assert Command("true", (), pattern=r"best: (\S+)").read("best: 1\nbest: 2\nlast 9") == {"value": 2.0}
    assert Command("true", (), pattern=r"\d+$").read("a 12\nb 13") == {"value": 13.0}
    two = Command("true", (), outcomes=("a", "b"), pattern=r"b (?P<b>\S+) a (?P<a>\S+)")
    assert two.read("b 1 a 2") == {"a": 2.0, "b": 1.0}
    with pytest.raises(CommandFailed, match="printed no value: its last line is 'worst: 1'"):
        Command("true", (), pattern="best: (.*)").read("worst: 1")
    with pytest.raises(CommandFailed, match="value = many"):
        Command("true", (), pattern="best: (.*)").read("best: many")
    with pytest.raises(DataError, match="not a regular expression"):
        Command("true", (), pattern="(")
    with pytest.raises(DataError, match="needs a group for each of a, b"):
        Command("true", (), outcomes=("a", "b"), pattern="(.)")
    with pytest.raises(DataError, match="needs groups named a, b"):
        Command("true", (), outcomes=("a", "b"), pattern="(?P<a>.)")


def test_a_command_that_works():
    doubled = Command(f"{PYTHON} -c 'import sys; print(float(sys.argv[1]) * 2)' {{x}}", ("x",))
    assert doubled({"x": 0.1}) == {"value": 0.2}
    code = 'import json, os; print(json.loads(os.environ["CREDO_POINT"])["x"] + int(os.environ["CREDO_TRIAL"]))'
    assert Command(f"{PYTHON} -c '{code}' {{x}}", ("x",)).run({"x": 0.5}, 7) == {"value": 7.5}
    assert Command(f"{PYTHON} -c 'print(3)' {{x}}", ("x",))({"x": 0.5}) == {"value": 3.0}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; print(1); sys.exit(3)", "ended with status 3"),
        ("import sys; sys.exit('line one\\nline two')", "ended with status 1: line one\nline two"),
        ("import os; os.kill(os.getpid(), 9)", "ended with signal 9"),
        ("pass", "printed nothing; expected value=number, or a number alone"),
        ("print(float('nan'))", "printed value = nan, which is not a finite number"),
        ("import sys; sys.stderr.write('why'); print('x')", "printed no value: its last line is 'x'; .*: why"),
    ],
)
def test_commands_that_fail(code, message):
    with pytest.raises(CommandFailed, match=message):
        Command(f'{PYTHON} -c "{code}" {{x}}', ("x",)).run({"x": 1.0})


def test_only_the_end_of_a_long_complaint_is_quoted():
    with pytest.raises(CommandFailed) as failed:
        Command("true", ()).read("", "\n".join(f"line {i}" for i in range(1000)))
    assert str(failed.value).endswith("line 998\nline 999") and "line 994" not in str(failed.value)


def test_a_timeout_ends_the_command_and_what_it_started(tmp_path):
    mark = tmp_path / "mark"
    inner, script = tmp_path / "inner.py", tmp_path / "script.py"
    inner.write_text(f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    script.write_text(f"import subprocess, sys; subprocess.run([sys.executable, {str(inner)!r}])")
    started = time.monotonic()
    with pytest.raises(CommandFailed, match="took longer than 3 s and was stopped"):
        Command(f"{PYTHON} {script} {{x}}", ("x",), timeout=3)({"x": 1})
    assert time.monotonic() - started < 30
    assert mark.exists()
    ended = Path("/proc") / mark.read_text()
    while ended.exists() and "Z" not in (ended / "stat").read_text().split()[2]:
        assert time.monotonic() - started < 30
        time.sleep(0.01)


def test_what_cannot_be_started_fails(tmp_path):
    script = tmp_path / "program"
    script.write_text("not a program")
    script.chmod(0o755)
    with pytest.raises(CommandFailed, match="the command cannot be run"):
        Command(f"{script} {{x}}", ("x",)).run({"x": 1})
    with pytest.raises(CommandFailed, match="the command cannot be run"):
        Command("true {x}", ("x",)).run({"x": "a\0b"})
