"""`render`: a result as one HTML page that needs nothing else, neither network nor script."""

import numpy as np

import credo
from credo.app.costs import check_options, read_costs
from credo.app.report import figures, words
from credo.app.report.checks import Checks, check
from credo.app.report.class_page import class_page
from credo.app.report.effects import curves, effects
from credo.app.report.fill import Page, fill
from credo.app.scoring import SHOWN, written
from credo.app.workflow import Result, is_robust
from credo.core.predictive import Predictive
from credo.decide.bayes import decide
from credo.decide.losses import Asymmetric
from credo.models.features import Affine
from credo.models.glm import GLM
from credo.models.gp.description import describe
from credo.models.linear import Linear

SCORE_WORDS = {
    "number": "for RMSE (error), NLPD (surprise) and CRPS (error, doubt included) lower is better",
    "count": "for RMSE and MAE (errors), NLPD (surprise) and deviance (error in proportion to what is expected) lower "
    "is better",
    "classes": "for log loss (surprise) and Brier score (squared error of the probabilities) lower is better; ECE "
    "(calibration error) is small for shares as well, so it ranks nothing",
}


def render(
    result: Result,
    *,
    command: str = "",
    loss: tuple[float, float] | None = None,
    costs: str | None = None,
) -> str:
    """The page. `command` is shown for reproduction; `loss` are the costs of being one too low and one too high.

    For classes `costs` is what each action costs, see `credo.app.costs`.
    """
    check_options(result.model.target, result.kind, loss, costs)
    page = _common(result, command)
    if result.kind == "classes":
        matrix = None if costs is None else read_costs(costs, result.prepared.levels)
        page |= class_page(result, matrix, costs or "")
        page["cost_rows"] = "" if matrix is None else matrix.costs.tolist()
        return fill("classes.html", page)
    return fill("numbers.html", page | _numbers(result, loss))


def _common(result: Result, command: str) -> Page:
    """What every report shows."""
    return {
        "title": f"{result.model.target} from {result.table}",
        "target": result.model.target,
        "table": result.table,
        "rows": {
            "total": f"{result.prepared.total_rows:,}",
            "used": f"{result.model.rows:,}",
            "train": f"{len(result.train):,}",
            "test": f"{len(result.test):,}",
            "how": "the latest" if result.prepared.schema.time is not None else "chosen at random",
        },
        "summaries": result.prepared.summaries,
        "decisions": result.prepared.notes,
        "inputs": len(result.prepared.schema.columns),
        "numeric_inputs": result.prepared.x.shape[1],
        "comparison": _comparison(result),
        "comparison_words": words.comparison(result),
        "score_names": [shown.name for shown in SHOWN[result.kind]],
        "score_words": SCORE_WORDS[result.kind],
        "evidence": figures.evidence(result),
        "command": command,
        "seed": result.seed,
        "seconds": f"{result.seconds:.0f}",
        "version": credo.__version__,
        "model_name": result.model.name,
    }


def _numbers(result: Result, loss: tuple[float, float] | None) -> Page:
    """What the report of a number or a count shows."""
    prediction = result.predict(result.test)
    checks = check(result, prediction)
    belief = result.model.belief
    ranked = effects(result)
    picture, caption = figures.hero(result, prediction)
    straight = isinstance(belief, Linear) and isinstance(belief.features, Affine)
    return {
        "headline": words.headline(result, prediction, checks),
        "tiles": _tiles(result, prediction, checks),
        "warnings": words.warnings(result, checks),
        "hero": picture,
        "hero_caption": caption,
        "pair": figures.pair(result, prediction),
        "residual_words": words.residuals(checks),
        "calibration": figures.calibration(result, prediction),
        "coverage": [
            (words.percent(c.level), words.percent(c.observed), words.percent(c.low), words.percent(c.high), c.off)
            for c in checks.coverage
        ],
        "structure": _structure(result),
        "effects": figures.effects(ranked, result.model.target) if len(ranked) > 1 else "",
        "effect_words": words.effects(ranked, lambda _: f"the prediction of {result.model.target}"),
        "coefficients": figures.coefficients(result) if straight else "",
        "partial": figures.partial(curves(result, ranked), result.model.target) if ranked else "",
        "decision": None if loss is None else _decision(result, prediction, loss),
    }


def asymmetric(costs: tuple[float, float]) -> Asymmetric:
    """The loss of `--loss under,over`."""
    return Asymmetric(under=np.asarray(costs[0]), over=np.asarray(costs[1]))


def _tiles(result: Result, prediction: Predictive, checks: Checks) -> list[tuple[str, str, str]]:
    scores = result.chosen.scores
    inside = next(c for c in checks.coverage if c.level == 0.95)
    return [
        ("typical error", words.number(scores["rmse"]), f"guessing the average: {words.number(checks.baseline)}"),
        _second_tile(result),
        ("95 % intervals held", words.percent(inside.observed), "of the test outcomes"),
        ("doubt that is noise", words.percent(words.noise_share(prediction)), "the rest is ignorance"),
    ]


def _second_tile(result: Result) -> tuple[str, str, str]:
    scores = result.chosen.scores
    if result.kind == "count":
        return "typical miss", words.number(scores["mae"]), "mean distance from the predicted median"
    return "variance explained", words.percent(scores["r2"]) if "r2" in scores else "–", "R² on the test rows"


def _comparison(result: Result) -> list[Page]:
    by_name = {each.name: each for each in result.fitted}
    shown = SHOWN[result.kind]
    best = {s.key: (min if s.smaller else max)(e.scores.get(s.key, np.nan) for e in result.fitted) for s in shown}
    found = []
    for row in result.comparison.rows:
        each = by_name[row.name]
        found.append(
            {
                "name": row.name,
                "about": each.about,
                "chosen": row.name == result.comparison.best,
                "evidence": f"{row.log_evidence:,.1f}",
                "probability": f"{row.probability:.2f}" if row.probability >= 0.005 else "< 0.01",
                "scores": [
                    (
                        written(s, each.scores.get(s.key)),
                        s.smaller is not None and each.scores[s.key] == best[s.key],
                    )
                    for s in shown
                ],
                "seconds": f"{each.seconds:.1f}",
                "approximate": is_robust(each.belief) or isinstance(each.belief, GLM),
            }
        )
    return found


def _structure(result: Result) -> Page | None:
    """What the search for a kernel found, where there was one."""
    found = result.searched
    if found is None:
        return None
    chosen = result.searched is result.model.belief
    return {
        "formula": found.kernel.formula(),
        "sentences": describe(found, units=figures.units(result)),
        "figure": figures.structure(result, found),
        "rows": "all rows" if chosen else "the training rows; it is not the model that was chosen",
    }


def _decision(result: Result, prediction: Predictive, loss: tuple[float, float]) -> Page:
    under, over = loss
    chosen = asymmetric(loss)
    actions = {
        "acting on the whole prediction": decide(prediction, chosen).action,
        "acting on the predicted mean": prediction.mean,
        "always acting on the training average": np.full(len(result.y_test), result.y_train.mean()),
    }
    costs = {name: float(np.mean(chosen(action, result.y_test))) for name, action in actions.items()}
    best, plain = list(costs.values())[:2]
    shift = float(np.mean(actions["acting on the whole prediction"] - actions["acting on the predicted mean"]))
    quantile = under / (under + over)
    target = result.model.target
    said = [
        f"If acting on a number one unit below {target} costs {under:g} and one unit above costs {over:g}, the best "
        f"number to act on is the one that the outcome stays below with probability {words.percent(quantile)}. "
        f"It lies {words.number(abs(shift))} {'above' if shift > 0 else 'below'} the predicted mean on average."
    ]
    if plain > 0:
        change = (plain - best) / plain
        verb = f"saved {words.percent(change)}" if change > 0 else f"cost {words.percent(-change)} more"
        said.append(
            f"On the test rows that {verb}: {words.number(best)} a row instead of {words.number(plain)} for acting on "
            "the mean."
        )
    return {"words": said, "figure": figures.decision(costs), "under": f"{under:g}", "over": f"{over:g}"}
