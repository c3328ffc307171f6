import re

import numpy as np
import pytest

import credo
from credo.app.report import words
from credo.app.report.checks import Coverage, _echo, _spread, _tails
from credo.app.report.effects import difference
from credo.models.linear import InverseGamma

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
    from credo.app import workflow
    from credo.app.report.rendering import render
    from credo.app.tables import read_table

    monkeypatch.setattr(workflow, "candidates", only("lines"))
    monkeypatch.setattr(workflow, "ROBUST_WORK", 0)
    path = tmp_path / "evil.csv"
    rows = "\n".join(f"{i % 5},{'<b>x</b>' if i % 2 else 'z'},{i % 5 + i % 2 + 0.1 * (i * 7 % 11)}" for i in range(30))
    path.write_text(f"<script>alert(1)</script>,k,y\n{rows}\n")
    page = render(workflow.run(read_table(path), "y"), command="<i>")
    assert "<script" not in page and "<b>x" not in page and "&lt;script&gt;" in page and 'id="decision"' not in page


def test_numbers_in_words():
    shown = [words.number(v) for v in (0, 53.13, 0.012345, 1234.5, 1e9, 1e-7, float("inf"), float("nan"))]
    assert shown == ["0", "53.1", "0.0123", "1,234", "1.00e+09", "1.00e-07", "∞", "–"]
    assert [words.percent(v) for v in (0, 0.001, 0.5, 0.999, 1)] == ["0 %", "0.1 %", "50 %", "99.9 %", "100 %"]


@pytest.mark.parametrize(("observed", "verdict"), [(0.7, "too sure"), (1.0, "more careful"), (0.95, "face value")])
def test_coverage_in_words(observed, verdict):
    assert verdict in words.coverage_verdict(Coverage(0.95, observed, 0.9, 0.99))


def test_checks_speak_up_only_beyond_chance():
    rng = np.random.default_rng(0)
    z, mean = rng.normal(size=400), rng.normal(size=400)
    assert _spread(np.abs(z), mean) == 0 and _tails(z) == 0 and _echo(z) == 0
    assert _spread(np.abs(z) * np.exp(mean), mean) > 0.3
    assert _tails(rng.standard_t(2, size=400)) > 3
    assert _echo(np.cumsum(z)) > 0.9


def test_the_doubt_about_a_difference_is_that_of_the_weights(rng):
    x = rng.normal(size=(60, 2))
    y = x @ [1.0, -2.0] + rng.normal(size=60)
    for noise in (1.0, InverseGamma()):
        belief = credo.fit(credo.Linear(noise=noise), x, y)
        before = np.asarray([[0.0, 0.0], [1.0, 1.0]])
        mean, std = difference(belief, before, before + np.asarray([1.0, 0.0]))
        scale = np.asarray(belief.features.scale)[0]
        weight = belief.coefficients()
        np.testing.assert_allclose(mean, np.full(2, weight.mean[1] / scale), rtol=1e-8)
        square = float(weight.epistemic[1])
        if isinstance(noise, InverseGamma):
            df = float(weight.df[1])
            square *= (df - 2) / df
        np.testing.assert_allclose(std, np.full(2, np.sqrt(square) / scale), rtol=1e-8)
