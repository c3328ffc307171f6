"""The command `credo plan`: the best policy of a gridworld, of arrays, of a gymnasium environment, or of a POMDP."""

import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from credo.app.cli.terminal import one_line_errors, refuse, refuse_existing, write_whole

if TYPE_CHECKING:
    from credo.decide.mdp import MDP

PICTURES = (".png", ".svg", ".pdf")
ARRAYS = ("transitions", "rewards")
PROBLEMS = (".pomdp", ".pomdpx")
PLANS = (".credo", ".policy", ".alpha")
SEEN, DRAWN = ("discount", "using", "tolerance"), ("slip", "step-reward")
HEEDED = {
    "a drawing": SEEN + DRAWN,
    "an .npz of arrays": SEEN,
    "an .mdp file": ("using", "tolerance"),
    "a gymnasium environment": SEEN,
    "a POMDP": ("seconds", "gap"),
    "a POMDP with a horizon": ("seconds",),
}
"""The options, beside --horizon, --out and --force, that each kind of world takes."""
METHODS = {
    "auto": "",
    "value": "ValueIteration",
    "gauss-seidel": "GaussSeidel",
    "prioritized": "PrioritizedSweeping",
    "policy": "PolicyIteration",
    "modified": "ModifiedPolicyIteration",
    "program": "LinearProgram",
    "wavefront": "Wavefront",
}
"""Of worlds whose state is seen, by their names here and in `credo.decide.mdp`."""


def plan(
    world: Annotated[
        Path,
        typer.Argument(
            help="A drawn gridworld (text: # wall, . floor, S start, G goal, X trap, digits prizes), an .npz with "
            "transitions (s, a, s') and rewards, and perhaps discount, terminal and start, an .mdp in Cassandra's "
            "format, the name of a gymnasium environment with a table of probabilities, or a .pomdp or .pomdpx file, "
            "whose state is hidden.",
            show_default=False,
        ),
    ],
    discount: Annotated[
        float | None, typer.Option(help="What a reward one step later is worth.", show_default="0.99, or the file's")
    ] = None,
    slip: Annotated[
        float | None, typer.Option(help="Drawing: probability that a move goes to a side.", show_default="0.2")
    ] = None,
    step_reward: Annotated[float | None, typer.Option(help="Drawing: what every move pays.", show_default="0")] = None,
    horizon: Annotated[int | None, typer.Option(min=1, help="Plan for so many steps.", show_default="for ever")] = None,
    using: Annotated[
        str | None, typer.Option(metavar="|".join(METHODS), help="The method.", show_default="auto")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="How far the values may be from the optimum.", show_default="1e-6")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Picture to write, the arrays go beside it as .npz; of a POMDP the plan: .credo, .policy or .alpha.",
            show_default="NAME.plan.png, NAME.plan.credo",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="POMDP: stop after so long.", show_default="until the gap is reached")
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(help="POMDP: how far the bounds may be apart, relative to their size.", show_default="0.001"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Find the best policy of a known world: prints values and how sure they are, writes a picture and arrays."""
    with one_line_errors():
        options = {"discount": discount, "slip": slip, "step-reward": step_reward, "using": using}
        options |= {"tolerance": tolerance, "seconds": seconds, "gap": gap}
        kind = _kind(world, horizon)
        others = [name for name, value in options.items() if value is not None and name not in HEEDED[kind]]
        if others:
            refuse(f"{kind} does not take --{others[0]}; it takes {', '.join(f'--{name}' for name in HEEDED[kind])}")
        if out is not None and not out.parent.is_dir():
            refuse(f"there is no folder {out.parent} for {out.name}")
        if not (world.is_file() or kind == "a gymnasium environment"):
            refuse(f"{world} is a folder, not a file" if world.is_dir() else f"there is no file {world}")
        if kind.startswith("a POMDP"):
            _hidden(world, horizon, seconds, gap, out or world.with_suffix(".plan.credo"), force)
            return
        if using is not None and using not in METHODS:
            refuse(f"--using must be one of {', '.join(METHODS)}, found {using!r}")
        picture = out or world.with_suffix(".plan.png")
        if picture.suffix.lower() not in PICTURES:
            refuse(f"a picture ends in {', '.join(PICTURES)}, found {picture.name}")
        arrays = picture.with_suffix(".npz")
        if arrays.resolve() == world.resolve():
            refuse(f"{arrays} is the world itself; name another picture with --out")
        refuse_existing([picture, arrays], force)
        from credo.decide import mdp

        method = METHODS[using or "auto"]
        solved = mdp.solve(
            _read(kind, world, discount, 0.2 if slip is None else slip, step_reward or 0.0),
            using=getattr(mdp, method)() if method else None,
            tolerance=1e-6 if tolerance is None else tolerance,
            horizon=horizon,
        )
        _summary(world, solved)
        _write(solved, picture, arrays)


def register(app: typer.Typer) -> None:
    """Give the program this command."""
    app.command()(plan)


def _kind(world: Path, horizon: int | None) -> str:
    """Which kind of world it is, by its name; see `HEEDED`."""
    ending = world.suffix.lower()
    if ending in PROBLEMS:
        return "a POMDP" if horizon is None else "a POMDP with a horizon"
    if not world.exists() and re.fullmatch(r"[\w./-]+-v\d+", str(world)):
        return "a gymnasium environment"
    return {".npz": "an .npz of arrays", ".mdp": "an .mdp file"}.get(ending, "a drawing")


def _read(kind: str, path: Path, discount: float | None, slip: float, step_reward: float) -> "MDP":
    """The world of a file, or of the name of an environment."""
    from credo.decide.mdp.model import DISCOUNT, MDP

    gamma = DISCOUNT if discount is None else discount
    if kind == "a gymnasium environment":
        return MDP.from_gymnasium(str(path), gamma)
    if kind == "an .mdp file":
        return MDP.read(path)
    if kind == "a drawing":
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            refuse(f"{path} is not text; a world is a drawing, or an .npz of arrays")
        return MDP.from_drawing(text, slip=slip, step_reward=step_reward, discount=gamma)
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            held = {name: file[name] for name in file.files}
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        refuse(f"{path} is not an .npz of arrays: {error}")
    missing = [name for name in ARRAYS if name not in held]
    if missing:
        refuse(f"{path} has no array {missing[0]!r}; it holds {', '.join(held) or 'nothing'}")
    gamma = held.get("discount", DISCOUNT) if discount is None else discount
    return MDP(held["transitions"], held["rewards"], gamma, terminal=held.get("terminal"), start=held.get("start"))


def _hidden(world: Path, horizon: int | None, seconds: float | None, gap: float | None, out: Path, force: bool) -> None:
    """The plan of a POMDP, with a live line of both bounds."""
    if out.suffix.lower() not in PLANS:
        refuse(f"the plan of a POMDP ends in {', '.join(PLANS)}, found {out.name}")
    refuse_existing([out], force)
    from credo.core.errors import NotConvergedWarning
    from credo.core.files import save
    from credo.decide.mdp import solve
    from credo.decide.pomdp import POMDP

    pomdp = POMDP.read(world)
    s, a, o = pomdp.shape
    typer.echo(f"{world}: {s:,} states, {a} actions, {o} observations, discount {pomdp.discount:g}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # the notes below say so
        solved = solve(pomdp, gap=gap, horizon=horizon, seconds=seconds, progress=sys.stderr.isatty())
    low, high = f"{solved.lower:.6g}", f"{solved.upper:.6g}"
    typer.echo(f"value      from the start between {low} and {high}, a gap of {solved.gap:.2g}")
    typer.echo(f"method     {solved.method}, {len(solved.vectors):,} vectors: {solved.status}")
    typer.echo(f"first      {solved.act()}")
    notes = list(solved.notes)
    if out.suffix.lower() == ".credo":
        save(solved, out)
    else:
        solved.write(out)
        notes += [f"{out} holds the first step alone, of {horizon}; a .credo file holds all"] * bool(solved.later)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"plan       {out}")


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
