"""`render_forecast`: a forecast as one HTML page that needs nothing else, neither network nor script."""

import numpy as np

import credo
from credo.app import forecast_plots as pictures
from credo.app.forecast import Forecasted
from credo.app.forecast_backtest import Scores
from credo.app.forecast_series import filled
from credo.app.plots import evidence_bars, new_axes
from credo.app.report import forecast_words as words
from credo.app.report.figures import data_uri
from credo.app.report.fill import Page, fill
from credo.app.report.forecast_words import near
from credo.app.report.words import number, percent
from credo.core.predictive import Predictive

MOST_HORIZONS = 24


def render_forecast(result: Forecasted, *, command: str = "") -> str:
    """The page. `command` is shown for reproduction."""
    series, n = result.series, len(result.series.y)
    components = components_of(result)
    bars = evidence_bars(result.comparison, new_axes(9.6, 0.9 + 0.36 * len(result.comparison.rows)))
    page = {
        "title": f"{series.target} from {result.table}",
        "target": series.target,
        "time": series.time,
        "table": result.table,
        "headline": words.headline(result),
        "tiles": words.tiles(result),
        "warnings": words.warnings(result),
        "forecast": data_uri(pictures.plot_series(result)),
        "rows": _rows(result),
        "steps": f"{n:,}",
        "every": series.calendar.every(),
        "horizon": result.horizon,
        "part_words": words.parts(result, components),
        "together": "multiply" if result.model.belief.log else "add up",
        "parts": data_uri(pictures.plot_parts(result, components)),
        "origins": len(result.naive.origins),
        "held_out": f"{n - result.train:,}",
        "train": f"{result.train:,}",
        "obvious": pictures.obvious(result),
        "seasonal": result.model.season > 1,
        "backtest": data_uri(pictures.plot_backtest(result)),
        "horizons": _horizons(result),
        "comparison_words": words.comparison(result),
        "comparison": _comparison(result),
        "naive": _scores(result.naive.scores),
        "evidence": data_uri(bars.figure),
        "total_rows": f"{series.total_rows:,}",
        "decisions": series.notes,
        "summaries": series.summaries,
        "inputs": bool(result.model.columns),
        "model_name": result.model.name,
        "seconds": f"{result.seconds:.0f}",
        "command": command,
        "version": credo.__version__,
    }
    return fill("forecast.html", page)


def components_of(result: Forecasted) -> dict[str, Predictive]:
    """The parts of the chosen model over the past and the forecast."""
    n = len(result.series.y)
    future = filled(result.series.inputs)[n : n + result.horizon] if result.model.columns else None
    return result.model.belief.components(result.horizon, inputs=future)


def _rows(result: Forecasted) -> list[dict[str, str]]:
    n, mean = len(result.series.y), np.asarray(result.forecast.mean)
    ends = {level: [np.asarray(end) for end in result.forecast.interval(level)] for level in (0.5, 0.95)}
    width = float(np.min(ends[0.95][1] - ends[0.95][0]))

    def interval(level: float, h: int) -> str:
        return " to ".join(near(float(end[h]), width) for end in ends[level])

    return [
        {
            "when": result.series.calendar.written(n + h),
            "mean": near(float(mean[h]), width),
            "half": interval(0.5, h),
            "most": interval(0.95, h),
        }
        for h in range(result.horizon)
    ]


def _scores(scores: Scores) -> dict[str, str]:
    return {"mase": number(scores.mase), "crps": number(scores.crps), "covered": percent(scores.covered[-1])}


def _comparison(result: Forecasted) -> list[Page]:
    by_name = {each.variant.name: each for each in result.tried}
    return [
        {
            "name": row.name,
            "about": by_name[row.name].variant.about,
            "chosen": row.name == result.comparison.best,
            "evidence": f"{row.log_evidence:,.1f}",
            "probability": f"{row.probability:.2f}" if row.probability >= 0.005 else "< 0.01",
            "seconds": f"{by_name[row.name].seconds:.1f}",
            **_scores(by_name[row.name].backtest.scores),
        }
        for row in result.comparison.rows
    ]


def _horizons(result: Forecasted) -> list[Page]:
    ours, plain = result.chosen.backtest.scores, result.naive.scores
    unit = ours.mae / ours.mase if ours.mase else 1.0
    pairs = list(zip(ours.by_horizon, plain.by_horizon, strict=True))
    shown = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), MOST_HORIZONS)).astype(int))
    return [
        {
            "steps": a.steps,
            "forecasts": a.forecasts,
            "scores": [
                (number(a.mae / unit), a.mae <= b.mae),
                (number(b.mae / unit), b.mae < a.mae),
                (number(a.crps), a.crps <= b.crps),
                (number(b.crps), b.crps < a.crps),
            ],
            "half": percent(a.covered[0]),
            "most": percent(a.covered[-1]),
        }
        for a, b in (pairs[int(i)] for i in shown)
    ]
