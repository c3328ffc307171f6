"""Sentences about classes: how often the model is right, what its probabilities are worth, what decisions cost."""

import numpy as np

from credo.app.report.class_checks import ClassChecks
from credo.app.report.words import beyond_and_rival, count, number, percent
from credo.app.workflow import Result


def headline(result: Result, checks: ClassChecks) -> list[str]:
    """What was learned, in three sentences."""
    scores, target, n = result.chosen.scores, result.model.target, len(result.y_test)
    right, loss = scores["accuracy"], scores["nlpd"]
    said = (
        f"We name the right class of {target} in {percent(right)} of {count(n, 'row')} that the model had not seen, "
        f"against {percent(checks.usual_right)} for always saying “{checks.usual}”, the most frequent."
    )
    if loss >= checks.shares_loss:
        said += (
            f" Its probabilities are no better than the shares of the classes (log loss {number(loss)} against "
            f"{number(checks.shares_loss)}): the columns of this table say little about {target}."
        )
    elif right <= checks.usual_right:
        said += (
            f" Its probabilities are worth more than that says: log loss {number(loss)}, against "
            f"{number(checks.shares_loss)} for stating the shares of the classes."
        )
    doubt = (
        f"Noise accounts for {percent(checks.noise)} of the doubt in a prediction; the other "
        f"{percent(1 - checks.noise)} is ignorance that more rows would reduce."
    )
    if checks.noise > 0.95:
        doubt += " More rows of the same kind would hardly help; better columns might."
    elif checks.noise < 0.5:
        doubt += " More rows would help most."
    return [said, doubt, verdict(checks)]


def verdict(checks: ClassChecks) -> str:
    """Whether the probabilities can be believed."""
    low, high = checks.chance
    said = (
        f"Stated probabilities were off by {number(checks.diagram.error)} on average (expected calibration error; "
        f"{number(low)} to {number(high)} can be chance on so many rows)"
    )
    if checks.off > 0:
        return f"{said}: the model is too sure of itself. Move its probabilities towards even before you rely on them."
    if checks.off < 0:
        return f"{said}: the model is more careful than it needs to be."
    if checks.diagram.error > high:
        return f"{said}: more than chance explains. See below where they are off."
    return f"{said}: they can be taken at face value."


def parts(checks: ClassChecks) -> str:
    """What the parts of the Brier score say."""
    p = checks.parts
    share = p.resolution / p.uncertainty if p.uncertainty > 0 else 0.0
    told = (
        f"the model tells apart {percent(max(share, 0.0))} of it" if share > 0 else "the model tells none of it apart"
    )
    lost = p.reliability / p.uncertainty if p.uncertainty > 0 else 0.0
    return (
        f"Before anything is known about a row, its class is uncertain by {number(p.uncertainty)}; {told}, and loses "
        f"{percent(lost)} by stating probabilities that do not match what happens."
    )


def warnings(result: Result, checks: ClassChecks) -> list[str]:
    """What a careful reader should know before using the model."""
    said = beyond_and_rival(checks.outside, checks.rival)
    n, levels = len(result.y_test), result.prepared.levels
    seen = np.bincount(result.prepared.y.astype(int), minlength=len(levels))
    rare = [f"“{level}” ({count(int(c), 'row')})" for level, c in zip(levels, seen, strict=True) if c < 10]
    if rare:
        said.append(f"Few rows are of {', '.join(rare)}: what is said about so rare a class is mostly prior belief.")
    if n < 50:
        said.append(f"The test has only {count(n, 'row')}: its scores are rough.")
    return said + list(result.notes)


def points(change: float) -> str:
    """A change of a probability."""
    return f"{100 * change:.0f} points" if change >= 0.01 else f"{100 * change:.1f} points"


def decision(costs: dict[str, float], expected: float, plain: bool) -> list[str]:
    """What acting in each way cost on the test rows."""
    (best_name, best), *others = costs.items()
    said = []
    if plain:
        said.append(
            "No costs were given, so every mistake costs one and the best action is the most probable class. Where "
            "mistakes differ in price, say so with --costs: the best action is then often another."
        )
    else:
        said.append("The best action has the smallest cost on average over the classes, weighted by their probability.")
    said.append(
        f"The model expected {best_name} to cost {number(expected)} a row; on the test rows it cost {number(best)}."
    )
    for name, value in others:
        if value > 0 and value != best:
            change = (value - best) / value
            verb = f"{percent(change)} less" if change > 0 else f"{percent(-change)} more"
            said.append(f"That is {verb} than {name} ({number(value)}).")
    return said
