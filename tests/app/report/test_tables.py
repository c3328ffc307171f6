import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from credo.app.fit.tables import fit_table
from credo.app.report import words
from credo.app.report.checks import Coverage, _echo, _spread, _tails
from credo.app.report.effects import curves, effects
from credo.app.report.page import html
from credo.app.report.tables import page as report
from credo.app.table.read import Table

SECTIONS = (
    "headline",
    "predictions",
    "data",
    "comparison",
    "fit",
    "calibration",
    "effects",
    "decision",
    "use",
    "reproduce",
)


def test_every_section_is_there(fitted):
    for section in SECTIONS:
        assert f'id="{section}"' in fitted.page


def test_the_page_loads_nothing_and_runs_nothing(fitted):
    outside = re.sub(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", "", fitted.page)
    assert "http://" not in outside and "https://" not in outside and "<script" not in outside
    assert "@import" not in outside and "url(" not in outside and "<link" not in outside
    assert fitted.page.count("<img") == fitted.page.count('src="data:image/svg+xml;base64,')
    assert all(re.search(r'alt="[^"]+"', tag) for tag in re.findall(r"<img[^>]*>", fitted.page))


def test_the_page_says_what_was_decided_and_how_to_go_on(fitted):
    text = " ".join(fitted.page.split())
    for said in (
        "We predict cost with a typical error of",
        "Noise accounts for",
        "1 row without a value of &#39;cost&#39; was dropped.",
        "looks like an identifier",
        "credo predict model.credo new.csv",
        "associations in the table, not causes",
        "costs 4 and one unit above costs 1",
        "had no say in it",
    ):
        assert said in text, said


def test_cells_of_the_table_cannot_write_html(tmp_path, monkeypatch, only):
    from credo.app.table.read import read_table

    few = only("lines")
    path = tmp_path / "evil.csv"
    rows = "\n".join(f"{i % 5},{'<b>x</b>' if i % 2 else 'z'},{i % 5 + i % 2 + 0.1 * (i * 7 % 11)}" for i in range(30))
    path.write_text(f"<script>alert(1)</script>,k,y\n{rows}\n")
    page = html(report(fit_table(read_table(path), "y", families=few), command="<i>"))
    assert "<script" not in page and "<b>x" not in page and "&lt;script&gt;" in page and 'id="decision"' not in page


def test_numbers_in_words():
    shown = [words.number(v) for v in (0, 53.13, 0.012345, 1234.5, 1e9, 1e-7, float("inf"), float("nan"))]
    assert shown == ["0", "53.1", "0.0123", "1,234", "1.00e+09", "1.00e-07", "∞", "–"]
    assert [words.percent(v) for v in (0, 0.001, 0.5, 0.999, 1)] == ["0 %", "0.1 %", "50 %", "99.9 %", "100 %"]


@pytest.mark.parametrize(("observed", "verdict"), [(0.7, "too sure"), (1.0, "more careful"), (0.95, "face value")])
def test_coverage_in_words(observed, verdict):
    assert verdict in words.coverage_verdict(Coverage(0.95, observed, 0.9, 0.99))


def test_a_coverage_that_is_slightly_off_does_not_matter_on_however_many_rows():
    found = Coverage(0.95, 0.957, 0.948, 0.952)
    assert found.off == 0 and "too little to matter" in words.coverage_verdict(found)


def test_checks_speak_up_only_beyond_chance():
    rng = np.random.default_rng(0)
    z, mean = rng.normal(size=400), rng.normal(size=400)
    assert _spread(np.abs(z), mean) == 0 and _tails(z) == 0 and _echo(z) == 0
    assert _spread(np.abs(z) * np.exp(mean), mean) > 0.3
    assert _tails(rng.standard_t(2, size=400)) > 3
    assert _echo(np.cumsum(z)) > 0.9


def test_an_effect_is_the_average_over_rows_where_columns_act_together(monkeypatch, only):
    """y = x for half of the rows, -x for the other but for one in ten: the typical row's group says the opposite."""
    rng = np.random.default_rng(0)
    n = 120
    group, x = np.where(np.arange(n) % 10 < 6, "a", "b"), rng.normal(size=n)
    y = np.where(group == "a", -1.0, 5.0) * x + 0.1 * rng.normal(size=n)
    few = only("squares and pairs")
    result = fit_table(Table(pd.DataFrame({"group": group, "x": x, "y": y}), "t"), "y", families=few)
    found = next(effect for effect in effects(result) if effect.column == "x")
    low, high = np.quantile(x, [0.1, 0.9])
    assert found.mean == pytest.approx((0.6 * -1 + 0.4 * 5) * (high - low), rel=0.05) and found.lower > 0
    curve = curves(result, [found])[0]
    slope = np.polyfit(curve.at, curve.mean, 1)[0]
    assert slope == pytest.approx(0.6 * -1 + 0.4 * 5, rel=0.05)


def test_a_model_no_better_than_the_average_is_called_so(only):
    rng = np.random.default_rng(1)
    few = only("lines")
    frame = pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60)})
    result = fit_table(Table(frame, "t"), "y", families=few)
    worse = [e._replace(judged=e.judged._replace(scores=e.scores | {"nlpd": 9.0, "rmse": 9.0})) for e in result.fitted]
    bad = replace(result, fitted=tuple(worse))
    text = html(report(bad))
    assert "The chosen model does not beat the baseline" in text and "no better than always guessing" in text


def test_columns_that_look_like_mathematics_can_be_reported(only):
    rng = np.random.default_rng(0)
    few = only("lines")
    frame = pd.DataFrame({"$a_$b": rng.normal(size=40), "kind": rng.choice(["$x_$", "$y^$", "z"], 40)})
    frame["$y_$"] = frame["$a_$b"] + (frame["kind"] == "z") + 0.1 * rng.normal(size=40)
    text = html(report(fit_table(Table(frame, "$t_$"), "$y_$", families=few), loss=(1.0, 2.0)))
    assert "Going from" in text and "$a_$b" in text
