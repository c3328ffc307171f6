"""`credo plan` on problems whose state is hidden, and their pictures."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import credo
from credo import plots
from credo.app.cli.plan import register
from credo.decide.pomdp import POMDP, QMDP
from credo.decide.pomdp.policy_files import read
from credo.errors import DataError

HALF = np.full((2, 2), 0.5)
NAMES = ["listen", "left", "right"]


@pytest.fixture
def tiger():
    hear = np.array([[0.85, 0.15], [0.15, 0.85]])
    paid = [[-1, -100, 10], [-1, 10, -100]]
    return POMDP([np.eye(2), HALF, HALF], [hear, HALF, HALF], paid, 0.75, actions=NAMES)


@pytest.fixture
def run(command):
    return command(register, "plan")


def test_a_file_becomes_a_plan(run, tiger, tmp_path):
    tiger.write(tmp_path / "tiger.pomdp")
    done = run("tiger.pomdp", "--seconds", "20", "--out", "policy.credo")
    assert done.exit_code == 0, done.output
    assert "2 states, 3 actions, 2 observations" in done.output and "converged" in done.output
    plan = credo.load(tmp_path / "policy.credo")
    assert plan.lower <= 1.933439 + 1e-6 and plan.upper >= 1.933439 - 1e-6 and plan.gap <= 1e-3
    assert f"between {plan.lower:.6g} and {plan.upper:.6g}" in done.output
    again = run("tiger.pomdp", "--out", "policy.credo")
    assert again.exit_code == 2 and "exists already" in again.output
    soon = run("tiger.pomdp", "--horizon", "3", "--out", "soon.alpha")
    assert soon.exit_code == 0 and "soon.alpha holds the first step alone, of 3" in soon.output
    assert len(read(tiger, tmp_path / "soon.alpha")) >= 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["none.pomdp"], "there is no file none.pomdp"),
        (["bad.pomdp"], "bad.pomdp, line 1"),
        (["bad.pomdp", "--out", "plan.png"], "ends in .credo, .policy, .alpha"),
        (["bad.pomdp", "--using", "policy"], "a POMDP does not take --using; it takes --seconds, --gap"),
        (["bad.pomdp", "--slip", "0.1"], "a POMDP does not take --slip"),
        (["bad.pomdp", "--tolerance", "1"], "a POMDP does not take --tolerance"),
        (["bad.pomdp", "--horizon", "3", "--gap", "0.1"], "a POMDP with a horizon does not take --gap"),
        (["bad.pomdp", "--out", "nowhere/plan.credo"], "there is no folder nowhere for plan.credo"),
        (["world.txt", "--seconds", "3"], "a drawing does not take --seconds"),
    ],
)
def test_what_is_refused(run, tmp_path, words, sentence):
    (tmp_path / "bad.pomdp").write_text("colour: red\n")
    (tmp_path / "world.txt").write_text("S.G\n")
    done = run(*words)
    assert done.exit_code == 2 and sentence in done.output.replace("\n", " ")


def test_a_gymnasium_environment_by_its_name(run, tmp_path):
    pytest.importorskip("gymnasium")
    done = run("FrozenLake-v1", "--discount", "0.9")
    assert done.exit_code == 0, done.output
    assert "16 states, 4 actions, discount 0.9" in done.output
    assert (tmp_path / "FrozenLake-v1.plan.png").is_file()


def test_pictures(tiger):
    plan = credo.solve(tiger, using=QMDP())
    ax = plots.belief_values(plan)
    assert isinstance(ax.figure, Figure) and ax.get_xlabel() == "probability of 1"
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set(NAMES)
    assert "episode of 6 steps" in plots.belief_run(plan, plan.run(6)).get_title(loc="left")
    three = POMDP([np.eye(3), np.eye(3)], np.eye(3), np.eye(3)[:, :2], 0.9)
    found = plots.belief_values(credo.solve(three, using=QMDP()))
    assert {text.get_text() for text in found.get_legend().get_texts()} == {"0", "1"}
    four = POMDP([np.eye(4)], np.eye(4), np.ones(4), 0.9)
    with pytest.raises(DataError, match="two or three states, found 4"):
        plots.belief_values(credo.solve(four, using=QMDP()))
    with pytest.raises(DataError, match="belief_values and belief_run draw"):
        plots.plan(plan)
