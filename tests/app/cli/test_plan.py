"""`credo plan`, and its pictures."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from credo import plots
from credo.app.cli.plan import register
from credo.core.errors import DataError
from credo.decide.mdp import MDP, solve

DRAWING = "S..#\n.#..\n..XG\n"


@pytest.fixture
def run(command):
    return command(register, "plan")


def test_a_drawing_becomes_a_plan(run, tmp_path):
    (tmp_path / "world.txt").write_text(DRAWING)
    done = run("world.txt", "--step-reward", "-0.04")
    assert done.exit_code == 0, done.output
    want = solve(MDP.from_drawing(DRAWING, step_reward=-0.04))
    assert "10 states, 4 actions" in done.output and "converged" in done.output
    assert f"from the start {want.start_value():.6g}," in done.output
    assert f"within {want.certificate:.2g} of the optimum" in done.output
    assert (tmp_path / "world.plan.png").read_bytes().startswith(b"\x89PNG")
    with np.load(tmp_path / "world.plan.npz") as arrays:
        np.testing.assert_allclose(arrays["value"], want.value)
        np.testing.assert_array_equal(arrays["policy"], want.policy)
    again = run("world.txt")
    assert again.exit_code == 2 and "exists already" in again.output
    assert run("world.txt", "--force", "--horizon", "4", "--using", "value").exit_code == 0
    with np.load(tmp_path / "world.plan.npz") as arrays:
        assert arrays["value"].shape == (5, 10)


def test_arrays_become_a_plan(run, tmp_path, rng):
    p = rng.dirichlet(np.ones(3), size=(3, 2))
    r = rng.normal(size=(3, 2))
    np.savez(tmp_path / "world.npz", transitions=p, rewards=r, discount=0.8)
    done = run("world.npz", "--using", "program", "--out", "picture.svg")
    assert done.exit_code == 0, done.output
    assert "discount 0.8" in done.output and "linear program" in done.output
    assert "<svg" in (tmp_path / "picture.svg").read_text()
    with np.load(tmp_path / "picture.npz") as arrays:
        np.testing.assert_allclose(arrays["value"], solve(MDP(p, r, 0.8)).value, atol=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.txt"], "there is no file none.txt"),
        (["bad.txt"], "'?' in line 1, column 2"),
        (["half.npz"], "has no array 'rewards'; it holds transitions"),
        (["text.npz"], "is not an .npz"),
        (["good.txt", "--using", "magic"], "--using must be one of"),
        (["good.txt", "--discount", "1.5"], "discount must lie between 0 and 1"),
        (["good.txt", "--out", "x.what"], "a picture ends in"),
        (["good.txt", "--discount", "1"], "must cost something"),
    ],
)
def test_refusals_are_one_line(run, tmp_path, words, said):
    (tmp_path / "good.txt").write_text(DRAWING)
    (tmp_path / "bad.txt").write_text("S?G")
    (tmp_path / "text.npz").write_text("S.G")
    np.savez(tmp_path / "half.npz", transitions=np.ones((1, 1, 1)))
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.output and done.output.startswith("credo: ") and done.output.count("\n") == 1


def test_pictures(rng):
    grid = solve(MDP.from_drawing(DRAWING))
    ax = plots.plan(grid)
    assert isinstance(ax.figure, Figure) and len(ax.images) == 1
    shown = ax.images[0].get_array()
    assert shown[2, 3] == pytest.approx(1) and shown[2, 2] == pytest.approx(-1) and np.ma.is_masked(shown[0, 3])
    few = solve(MDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.normal(size=(3, 2))))
    assert len(plots.plan(few).patches) == 6  # every state leads to the two others
    many = solve(MDP(rng.dirichlet(np.ones(60), size=(60, 2)), rng.normal(size=(60, 2))))
    assert sum(len(line.get_xdata()) for line in plots.values(many).lines) == 60
    assert plots.plan(many).get_ylabel() == "value"
    with pytest.raises(DataError, match="no cells"):
        plots.grid(few)
    with pytest.raises(DataError, match="cannot be read"):
        plots.graph(many)
