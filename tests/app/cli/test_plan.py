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


def test_entries_become_a_plan(run, tmp_path, rng):
    """Cassandra's format with nothing hidden: rewards of states, of successors and by rows."""
    p, r = rng.dirichlet(np.ones(3), size=(2, 3)), rng.normal(size=(2, 3, 3))
    lines = ["discount: 0.8", "values: cost", "states: 3", "actions: go wait"]
    for name, moves, paid in zip(("go", "wait"), p, r, strict=True):
        lines += [f"T: {name}", *(" ".join(map(repr, row.tolist())) for row in moves)]
        lines += [f"R: {name} : 0 : {j} {float(paid[0, j])!r}" for j in range(3)]
        lines += [f"R: {name} : {i}\n{' '.join(map(repr, paid[i].tolist()))}" for i in (1, 2)]
    (tmp_path / "world.mdp").write_text("\n".join(lines))
    done = run("world.mdp", "--out", "picture.svg")
    assert done.exit_code == 0 and "3 states, 2 actions, discount 0.8" in done.output, done.output
    with np.load(tmp_path / "picture.npz") as arrays:
        want = solve(MDP(p.transpose(1, 0, 2), -np.sum(p * r, axis=2).T, 0.8)).value
        np.testing.assert_allclose(arrays["value"], want, atol=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["entries.mdp", "--discount", "0.5"], "an .mdp file does not take --discount; it takes --using, --tolerance"),
        (["half.npz", "--slip", "0.5"], "an .npz of arrays does not take --slip"),
        (["good.txt", "--gap", "0.5"], "a drawing does not take --gap"),
        (["good.txt", "--tolerance", "0"], "tolerance must be positive"),
        (["none.txt"], "there is no file none.txt"),
        (["bad.txt"], "'?' in line 1, column 2"),
        (["half.npz"], "has no array 'rewards'; it holds transitions"),
        (["text.npz"], "is not an .npz"),
        (["table.npz"], "is not an .npz"),
        (["."], ". is a folder, not a file"),
        (["good.txt", "--using", "magic"], "--using must be one of"),
        (["good.txt", "--discount", "1.5"], "discount must lie between 0 and 1"),
        (["good.txt", "--out", "x.what"], "a picture ends in"),
        (["good.txt", "--discount", "1"], "must cost something"),
    ],
)
def test_refusals_are_one_line(run, tmp_path, words, said):
    (tmp_path / "good.txt").write_text(DRAWING)
    (tmp_path / "entries.mdp").write_text("discount: 1")
    (tmp_path / "bad.txt").write_text("S?G")
    (tmp_path / "text.npz").write_text("S.G")
    with (tmp_path / "table.npz").open("wb") as file:
        np.save(file, np.ones(3))
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
