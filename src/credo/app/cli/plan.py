"""The command `credo plan`: the best policy of a drawn gridworld, or of a world of arrays."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from credo.app.cli.terminal import one_line_errors, refuse, refuse_existing, write_whole

if TYPE_CHECKING:
    from credo.decide.mdp import MDP
    from credo.decide.mdp.problem import Planner

PICTURES = (".png", ".svg", ".pdf")
ARRAYS = ("transitions", "rewards")
METHODS = ("auto", "value", "gauss-seidel", "prioritized", "policy", "modified", "program", "wavefront")


def plan(
    world: Annotated[
        Path,
        typer.Argument(
            help="A drawn gridworld (text: # wall, . floor, S start, G goal, X trap, digits prizes), or an .npz with "
            "transitions (s, a, s') and rewards, and perhaps discount, terminal and start.",
            show_default=False,
        ),
    ],
    discount: Annotated[
        float | None, typer.Option(help="What a reward one step later is worth.", show_default="0.99, or the file's")
    ] = None,
    slip: Annotated[float, typer.Option(help="Drawing: probability that a move goes to a side.")] = 0.2,
    step_reward: Annotated[float, typer.Option(help="Drawing: what every move pays.")] = 0.0,
    horizon: Annotated[int | None, typer.Option(min=1, help="Plan for so many steps.", show_default="for ever")] = None,
    using: Annotated[str, typer.Option(metavar="|".join(METHODS), help="The method.")] = "auto",
    tolerance: Annotated[float, typer.Option(help="How far the values may be from the optimum.")] = 1e-6,
    out: Annotated[
        Path | None,
        typer.Option(help="Picture to write; the arrays go beside it as .npz.", show_default="NAME.plan.png"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Find the best policy of a known world: prints values and how sure they are, writes a picture and arrays."""
    with one_line_errors():
        if using not in METHODS:
            refuse(f"--using must be one of {', '.join(METHODS)}, found {using!r}")
        picture = out or world.with_suffix(".plan.png")
        if picture.suffix.lower() not in PICTURES:
            refuse(f"a picture ends in {', '.join(PICTURES)}, found {picture.name}")
        arrays = picture.with_suffix(".npz")
        if arrays.resolve() == world.resolve():
            refuse(f"{arrays} is the world itself; name another picture with --out")
        refuse_existing([picture, arrays], force)
        if not world.is_file():
            refuse(f"there is no file {world}")
        from credo.decide.mdp import solve

        found = read_world(world, discount, slip, step_reward)
        solved = solve(found, using=_method(using), tolerance=tolerance, horizon=horizon)
        _summary(world, solved)
        _write(solved, picture, arrays)


def register(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command()(plan)


def read_world(path: Path, discount: float | None, slip: float, step_reward: float) -> "MDP":
    """The world of a file: arrays where its name ends in .npz, else a drawing."""
    from credo.decide.mdp.model import DISCOUNT, MDP

    if path.suffix.lower() != ".npz":
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            refuse(f"{path} is not text; a world is a drawing, or an .npz of arrays")
        gamma = DISCOUNT if discount is None else discount
        return MDP.from_drawing(text, slip=slip, step_reward=step_reward, discount=gamma)
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            held = {name: file[name] for name in file.files}
    except (ValueError, zipfile.BadZipFile) as error:
        refuse(f"{path} is not an .npz of arrays: {error}")
    missing = [name for name in ARRAYS if name not in held]
    if missing:
        refuse(f"{path} has no array {missing[0]!r}; it holds {', '.join(held) or 'nothing'}")
    gamma = float(held.get("discount", DISCOUNT)) if discount is None else discount
    return MDP(held["transitions"], held["rewards"], gamma, terminal=held.get("terminal"), start=held.get("start"))


def _method(name: str) -> "Planner | None":
    from credo.decide import mdp

    return {
        "auto": None,
        "value": mdp.ValueIteration(),
        "gauss-seidel": mdp.GaussSeidel(),
        "prioritized": mdp.PrioritizedSweeping(),
        "policy": mdp.PolicyIteration(),
        "modified": mdp.ModifiedPolicyIteration(),
        "program": mdp.LinearProgram(),
        "wavefront": mdp.Wavefront(),
    }[name]


def _summary(path: Path, solved: Any) -> None:
    """What was found, in four lines."""
    world = solved.world
    s, a = world.shape
    value = solved.value if solved.value.ndim == 1 else solved.value[0]
    typer.echo(f"{path}: {s:,} states, {a} actions, discount {world.discount:g}")
    begin = "" if world.start is None else f" from the start {float(world.start @ value):.6g},"
    typer.echo(f"value      {begin.strip() + ' ' if begin else ''}from {value.min():.6g} to {value.max():.6g}")
    typer.echo(f"certified  within {solved.certificate:.2g} of the optimum")
    typer.echo(f"method     {solved.method}, {solved.iterations:,} iterations: {solved.status}")
    for note in solved.notes:
        typer.echo(f"note: {note}", err=True)


def _write(solved: Any, picture: Path, arrays: Path) -> None:
    """The picture (of the first step, where there is a horizon), and value, policy and certificate as arrays."""
    import numpy as np

    from credo.app.plots.plans import plan as draw_plan
    from credo.decide.mdp import HorizonPlan

    figure: Any = draw_plan(solved.first if isinstance(solved, HorizonPlan) else solved).figure
    write_whole(picture, lambda path: figure.savefig(path, dpi=150, format=picture.suffix.lower()[1:]))

    def save(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, value=solved.value, policy=solved.policy, certificate=solved.certificate)

    write_whole(arrays, save)
    typer.echo(f"picture    {picture}\narrays     {arrays}")
