import csv
import json
import re
import sys

import pytest
import typer
from typer.testing import CliRunner

from credo.app.campaign import console as campaign_console
from credo.app.cli import app
from credo.app.cli.values import goal, outcomes, seconds
from credo.decide.campaign import Campaign

SPACE = {
    "parameters": {
        "x": {"type": "real", "low": 0, "high": 1},
        "kind": {"type": "categorical", "choices": ["a b", "c"]},
    },
    "goal": "minimize",
    "initial": 4,
}
PROGRAM = "import sys; print('loss', (float(sys.argv[1]) - 0.3)**2 + (sys.argv[2] == 'c'))"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CREDO_STORAGE", raising=False)


@pytest.fixture
def space(tmp_path):
    return write(tmp_path, SPACE)


@pytest.fixture
def brief(monkeypatch):
    """Without the words about the best point, which take a model and seconds."""
    monkeypatch.setattr(campaign_console, "echo_best", lambda campaign: None)


def write(folder, spec, name="lab.json"):
    path = folder / name
    path.write_text(json.dumps(spec))
    return path


def python(code, *arguments):
    return " ".join([sys.executable, "-c", f'"{code}"', *arguments])


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def good(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(message, *arguments):
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.strip().splitlines() if line.startswith("credo:")]
    assert len(lines) == 1 and message in lines[0], result.stderr


def optimize(space, code=PROGRAM, budget=3, *more):
    return call("optimize", space, "--command", python(code, "{x}", "{kind}"), "--budget", budget, *more)


# -- optimize ------------------------------------------------------------------------------------------------------


def test_optimize_asks_the_model_after_the_design_and_says_how_sure_it_is(space):
    result = optimize(space, PROGRAM, 6)
    assert result.exit_code == 0, result.output
    trials = Campaign.open("campaigns.db").trials
    assert [trial.state for trial in trials] == ["done"] * 6
    assert [trial.why["kind"] for trial in trials[:4]] == ["design"] * 4
    assert all("std" in trial.why for trial in trials[4:])
    for trial in trials:
        wanted = (trial.point["x"] - 0.3) ** 2 + (trial.point["kind"] == "c")
        assert trial.values == {"value": pytest.approx(wanted, rel=1e-12)}
    best = min(trials, key=lambda trial: trial.value)
    text = " ".join(result.stdout.split())
    assert f"best: value = {best.value:.6g} in trial {best.number}" in text
    assert "95 % between" in text and "The optimum of value is expected to be" in text
    assert "credo campaign report --name lab" in text


def test_optimize_resumes_and_a_spent_budget_runs_nothing(space, brief):
    assert optimize(space, PROGRAM, 2).exit_code == 0
    before = Campaign.open("campaigns.db").trials
    result = optimize(space, PROGRAM, 3)
    after = Campaign.open("campaigns.db").trials
    assert result.exit_code == 0 and after[:2] == before and len(after) == 3
    again = optimize(space, "raise SystemExit(3)", 3)
    assert again.exit_code == 0 and "a larger --budget goes on" in again.stderr
    assert Campaign.open("campaigns.db").trials == after


def test_failures_are_on_record_and_the_campaign_goes_on(space, brief):
    code = "import sys; x = float(sys.argv[1]); print(x) if x < 0.5 else sys.exit('too hot at last')"
    result = optimize(space, code, 4)
    assert result.exit_code == 0, result.output
    trials = Campaign.open("campaigns.db").trials
    failed = [trial for trial in trials if trial.state == "failed"]
    assert [trial.number for trial in failed] == [t.number for t in trials if t.point["x"] >= 0.5] != []
    assert all("status 1: too hot at last" in trial.reason for trial in failed)
    assert f"{4 - len(failed)} done, {len(failed)} failed" in result.stdout
    shown = good("campaign", "show")
    assert f"trial {failed[-1].number} failed: the command ended with status 1: too hot at last" in shown


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "import sys; sys.exit('no such data')",
            "none of 2 trials gave a value; the last one failed: the command ended",
        ),
        ("pass", "the command printed nothing"),
        ("print(float('nan'))", "not a finite number"),
    ],
)
def test_a_command_that_never_gives_a_value(space, code, message):
    result = optimize(space, code, 2)
    assert result.exit_code == 2 and message in result.stderr.splitlines()[-1]
    assert [trial.state for trial in Campaign.open("campaigns.db").trials] == ["failed"] * 2


def test_ctrl_c_loses_nothing_and_says_how_to_go_on(space, brief, monkeypatch):
    from credo.decide.campaign import command

    real, calls = command.Command.run, []

    def interrupted(self, point, trial=None):
        calls.append(trial)
        return real(self, point, trial)

    def wait(*arguments):
        if len(calls) > 2:
            raise KeyboardInterrupt
        return patched(*arguments)

    from credo.decide.campaign import run_loop

    patched = run_loop.wait
    monkeypatch.setattr(command.Command, "run", interrupted)
    monkeypatch.setattr(run_loop, "wait", wait)
    result = optimize(space, PROGRAM, 6)
    assert result.exit_code == 130
    told = [trial for trial in Campaign.open("campaigns.db").trials if trial.told]
    assert f"{len(told)} results are safe in campaigns.db; the same command again goes on" in result.stderr
    monkeypatch.setattr(run_loop, "wait", patched)
    assert optimize(space, PROGRAM, 4).exit_code == 0
    states = [trial.state for trial in Campaign.open("campaigns.db").trials]
    assert states.count("done") == 4 and "pending" not in states


def test_the_command_is_checked_before_anything_is_put_on_record(space, tmp_path):
    refused("which is no parameter", "optimize", space, "--command", "python {y}", "--budget", 2)
    refused("does not use kind", "optimize", space, "--command", "python {x}", "--budget", 2)
    refused("there is no program", "optimize", space, "--command", "nonesuch {x} {kind}", "--budget", 2)
    pattern = ["--pattern", "(unclosed"]
    refused("not a regular", "optimize", space, "--command", "python {x} {kind}", "--budget", 2, *pattern)
    refused("--timeout takes", "optimize", space, "--command", "python {x} {kind}", "--budget", 2, "--timeout", "soon")
    assert not (tmp_path / "campaigns.db").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": {"x": {"type": "real", "low": 1, "high": 0}}}, "parameters.x"),
        ({"constraints": ["x >= 2"]}, "constraint"),
        ({"goal": "best"}, "goal must be"),
        ({"budget": 3}, "has the key 'budget'"),
        ({"outcome_constraints": {"heat": "80"}}, "'heat'"),
        ({"parameters": {}}, "parameters must be"),
    ],
)
def test_a_bad_space_file(tmp_path, change, message):
    path = write(tmp_path, SPACE | change)
    refused(message, "optimize", path, "--command", "python {point}", "--budget", 2)
    refused(message, "ask", "--space", path)
    assert not (tmp_path / "campaigns.db").exists()


def test_a_space_file_that_is_not_there_or_not_json(tmp_path):
    refused("cannot read the space from none.json", "ask", "--space", "none.json")
    (tmp_path / "bad.json").write_text("{parameters}")
    refused("is not JSON", "ask", "--space", "bad.json")


def test_resuming_with_another_goal_is_refused(space, brief):
    assert optimize(space, PROGRAM, 1).exit_code == 0
    result = optimize(space, PROGRAM, 2, "--goal", "maximize")
    assert result.exit_code == 2 and "exists and differs: goal.value was 'minimize'" in result.stderr


# -- by hand -------------------------------------------------------------------------------------------------------


def test_ask_and_tell_by_hand(space):
    said = good("ask", "-n", 2, "--space", space)
    assert re.findall(r"^trial (\d+)$", said, re.MULTILINE) == ["1", "2"]
    trials = Campaign.open("campaigns.db").pending
    for trial in trials:
        assert f"x     {trial.point['x']:.5g}" in said and f"kind  {trial.point['kind']}" in said
    assert "Design: point 1 of 4" in said and "tell: credo tell 2 VALUE" in said
    assert "trial 1 gave -0.25\n1 done, 0 failed, 1 pending, best -0.25" in good("tell", 1, "-0.25", "--noise", "0.01")
    assert "trial 1 gave -0.25" in good("tell", 1, "-0.25")  # the same again changes nothing
    assert "trial 2 is at 0.7 after step 3" in good("tell", 2, "--partial", "step=3", "value=0.7")
    assert "trial 2 failed: the beaker broke" in good("tell", 2, "--failed", "the beaker broke")
    first, second = Campaign.open("campaigns.db").trials
    assert (first.value, first.noise, second.partials, second.reason) == (
        -0.25,
        0.01,
        ((3.0, 0.7),),
        "the beaker broke",
    )


def test_ask_for_programs(space):
    good("ask", "--space", space)
    given = json.loads(good("ask", "-n", 2, "--json"))
    assert [trial["trial"] for trial in given] == [2, 3]
    assert [trial["point"] for trial in given] == [dict(t.point) for t in Campaign.open("campaigns.db").trials[1:]]
    assert given[0]["why"]["kind"] == "design" and "hyper" not in given[0]["why"]


def test_telling_wrongly(space):
    good("ask", "--space", space)
    refused("there is no trial 9; they go from 1 to 1", "tell", 9, 0.5)
    refused("VALUE must be a number or NAME=NUMBER, found 'much'", "tell", 1, "much")
    refused("tell failed='reason'", "tell", 1, "nan")
    refused("tell one of these", "tell", 1)
    refused("tell one of these", "tell", 1, 0.5, "--failed", "no")
    refused("told by name", "tell", 1, 0.5, 0.6)
    refused("told as --partial step=3 value=0.7", "tell", 1, "--partial", 0.5)
    refused("a partial result is", "tell", 1, "--partial", "step=3")
    refused("--noise and --cost go with", "tell", 1, "--partial", "step=3", "value=1", "--cost", 2)
    refused("found '--fialed'", "tell", 1, "--fialed")
    good("tell", 1, 0.5)
    refused("trial 1 is already finished with 0.5", "tell", 1, 0.6)
    refused("cannot be abandoned", "tell", 1, "--abandon")
    good("ask")
    assert "trial 2 was abandoned" in good("tell", 2, "--abandon")


def test_several_objectives_are_told_by_name(tmp_path):
    goals = {"yield": "maximize", "cost": "minimize"}
    path = write(tmp_path, SPACE | {"goal": goals, "outcome_constraints": {"heat": "<= 80"}})
    assert "credo tell 1 yield=VALUE cost=VALUE heat=VALUE" in good("ask", "-n", 3, "--space", path)
    refused("needs a dict with yield, cost, heat", "tell", 1, 0.5)
    refused("must have values for yield, cost, heat", "tell", 1, "yield=1.2")
    for number, (gain, cost, heat) in enumerate([(1.2, 3, 70), (1.5, 4, 60), (2, 1, 90)], 1):
        good("tell", number, f"yield={gain}", f"cost={cost}", f"heat={heat}")
    shown = good("campaign", "show")
    assert "maximize yield, minimize cost with heat <= 80" in shown
    assert "Pareto front: 2 of 3 trials" in shown  # the third is too hot


def test_a_storage_that_is_not_there_is_not_made(tmp_path):
    for command in (("ask",), ("tell", 1, 2), ("campaign", "list"), ("campaign", "show"), ("campaign", "report")):
        refused("there is no file lab.db", *command, "--storage", "lab.db")
    assert not (tmp_path / "lab.db").exists()


def test_the_storage_may_come_from_the_environment(space, monkeypatch, tmp_path):
    monkeypatch.setenv("CREDO_STORAGE", "lab.db")
    good("ask", "--space", space, "--name", "first")
    good("ask", "--space", space, "--name", "second")
    assert (tmp_path / "lab.db").exists()
    refused("give the name, one of: first, second", "ask")
    refused("there is no campaign 'third'", "ask", "--name", "third")
    lines = good("campaign", "list").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["first", "second"]
    assert lines[1].split()[2:] == ["0", "0", "1", "minimize", "value"]


# -- worker, export ------------------------------------------------------------------------------------------------


def test_worker_works_until_the_results_are_in(space):
    good("ask", "--space", space, "--lease", "0.01s")  # somebody who never comes back
    command = ["worker", "--command", python(PROGRAM, "{x}", "{kind}"), "--budget", 3, "--workers", 2]
    said = good(*command)
    assert "lab: 3 done, 0 failed, 0 pending" in said
    assert good(*command) == said


def test_worker_needs_a_campaign_and_a_sound_command(space):
    refused("there is no file", "worker", "--command", "python {x}")
    refused("does not use kind", "worker", "--command", "python {x}", "--space", space, "--budget", 1)


def test_export(space, brief, tmp_path):
    optimize(space, PROGRAM, 2)
    assert good("campaign", "export", "trials.csv") == "wrote trials.csv: 2 trials\n"
    with open(tmp_path / "trials.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == [trial.value for trial in Campaign.open("campaigns.db").trials]
    refused("exists already", "campaign", "export", "trials.csv")
    good("campaign", "export", "trials.csv", "--force")
    good("campaign", "export", "trials.parquet")
    refused("export writes .csv or .parquet", "campaign", "export", "trials.xlsx")


# -- what people write ---------------------------------------------------------------------------------------------


def test_durations(capsys):
    assert [seconds(text, "--lease") for text in ("90", "1.5m", "2h", "7d", " 3 s")] == [90, 90, 7200, 604800, 3]
    assert seconds(None, "--lease") is None
    for text in ("soon", "-3s", "0", "3w", ""):
        with pytest.raises(typer.Exit):
            seconds(text, "--lease")
        assert "--lease takes a duration" in capsys.readouterr().err


def test_goals_and_values():
    assert goal(None) is None and goal("minimize") == "minimize"
    assert goal("yield=maximize, cost=minimize") == {"yield": "maximize", "cost": "minimize"}
    assert outcomes(["-1e-3"]) == -1e-3 and outcomes([]) is None
    assert outcomes(["a=1", "b=2.5"]) == {"a": 1.0, "b": 2.5}
