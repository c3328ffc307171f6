import html
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from credo import plots
from credo.app.campaign.desk import luck
from credo.app.cli import app
from credo.app.report import campaign as words
from credo.app.report.page import html as to_html
from credo.app.report.words import number
from credo.decide.campaign import Best, Campaign
from credo.decide.campaign.advice import predicted_optimum
from credo.decide.campaign.model_slices import believed, held, slices
from credo.decide.campaign.sensitivity import importances
from credo.decide.space import Boolean, Categorical, Integer, Real, Space

SPACE = Space({"rate": Real(1e-4, 1e-1, log=True), "layers": Integer(1, 6), "kind": Categorical(["plain", "<b>"])})


def accuracy(point):
    return -((np.log10(point["rate"]) + 2.5) ** 2) - 0.1 * point["layers"] + 0.5 * (point["kind"] == "plain")


def told(goal="maximize", **options):
    """A campaign with 12 results of a Sobol sequence, one of them a failure; the model has not been asked."""
    campaign = Campaign(SPACE, goal, name="tuning", **options)
    for i, point in enumerate(SPACE.sample(12, seed=3)):
        if i == 4:
            campaign.add(point, failed="diverged <script>")
        elif isinstance(goal, str):
            campaign.add(point, accuracy(point))
        else:
            campaign.add(point, {"accuracy": accuracy(point), "memory": 10.0 * point["layers"]})
    return campaign


def plain(page):
    """What a reader reads."""
    body = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(body).split())


@pytest.fixture(scope="module")
def campaign():
    return told(storage=":memory:")


@pytest.fixture(scope="module")
def model(campaign):
    return campaign.model()


@pytest.fixture(scope="module")
def page(campaign):
    return to_html(words.page(campaign, command="credo campaign report"))


def test_the_page_says_the_numbers_of_the_campaign(campaign, model, page):
    text = plain(page)
    best = campaign.best()
    value = max(accuracy(t.point) for t in campaign.trials if t.state == "done")
    assert best.value == pytest.approx(value, rel=1e-12)
    assert f"The best of 11 trials is trial {best.trial}: value = {number(value)} at" in text
    assert f"95 % sure that it lies between {number(best.interval[0])} and {number(best.interval[1])}" in text
    assert campaign.advice().message in text
    assert campaign.model() is model, "nothing has changed: it is not learned again"
    assert "Trials that failed trials reason 5 diverged <script>" in text
    point, mean, std = predicted_optimum(campaign.problem, model)
    assert f"The model expects the largest value at {words.place(point)}: {number(mean)}" in text
    assert f"between {number(mean - 1.96 * std)} and" in text
    for trial in campaign.trials:
        assert trial.state != "done" or f"{trial.value:.5g}" in text


def test_every_section_is_there_and_nothing_is_loaded(page):
    for section in ("headline", "progress", "optimum", "importance", "slices", "parallel", "failures", "trials"):
        assert f'id="{section}"' in page
    outside = re.sub(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", "", page)
    assert "http" not in outside and "<script" not in outside and "<b>," not in outside
    assert page.count("<img") == page.count('src="data:image/svg+xml;base64,') == 4
    assert all(re.search(r'alt="[^"]+"', tag) for tag in re.findall(r"<img[^>]*>", page))


def test_two_objectives_have_a_front_and_constraints_are_counted():
    goal = {"accuracy": "maximize", "memory": "minimize"}
    campaign = told(goal, outcome_constraints={"memory": "<= 50"})
    text = plain(page := to_html(words.page(campaign)))
    done = [(accuracy(t.point), 10.0 * t.point["layers"], t.number) for t in campaign.trials if t.state == "done"]
    kept = [each for each in done if each[1] <= 50]
    front = [a for a in kept if not any((b[0] >= a[0] and b[1] <= a[1]) and b[:2] != a[:2] for b in kept)]
    assert f"{len(front)} trials of 11 are on the Pareto front" in text
    rows = re.search(r'id="front".*?</section>', page, re.DOTALL).group()
    numbers = re.findall(r'<tr><td class="n">(\d+)</td>', rows)
    assert sorted(map(int, numbers)) == sorted(each[2] for each in front)
    assert f"The largest accuracy there is {number(max(each[0] for each in front))}" in text
    assert f"memory ≤ 50 {len(kept)} of 11" in text
    assert 'id="importance2"' in page and 'id="slices2"' in page and 'id="optimum"' not in page
    shown = plots.front(campaign).lines[-1].get_xydata()
    np.testing.assert_allclose(shown, sorted(each[:2] for each in front))


def test_a_campaign_without_values_says_so():
    campaign = Campaign(SPACE, name="young")
    text = plain(to_html(words.page(campaign)))
    assert "There is no value yet: nothing was told." in text and "All 0 trials" in text
    campaign.tell(campaign.ask(), failed="no power")
    text = plain(to_html(words.page(campaign)))
    assert "none of 1 trial that were told gave one" in text and "The last failure: no power" in text


def test_the_command_writes_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = told(storage="lab.db")
    kept.close()
    call = ["campaign", "report", "--storage", "lab.db"]
    assert CliRunner().invoke(app, call).stdout == "wrote tuning.html\n"
    assert "The best of 11 trials" in plain((tmp_path / "tuning.html").read_text(encoding="utf-8"))
    again = CliRunner().invoke(app, call)
    assert again.exit_code == 2 and "tuning.html exists already" in again.stderr


# -- the model -----------------------------------------------------------------------------------------------------


def test_slices_are_the_belief_along_each_parameter(campaign, model):
    problem = campaign.problem
    best = campaign.best()
    (curves,) = slices(problem, model, best.point, list(SPACE.names))
    assert [each.parameter.name for each in curves] == list(SPACE.names)
    for each in curves:
        points = [best.point | {each.parameter.name: value} for value in each.at]
        mean, lower, upper = believed(model.objectives[0], SPACE.encode(points))
        np.testing.assert_allclose(each.mean, mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose([each.lower, each.upper], [lower, upper], rtol=1e-6, atol=1e-9)
        assert each.score.min() >= 0 and each.here == best.point[each.parameter.name]
    assert curves[1].at == list(range(1, 7)) and curves[2].at == ["plain", "<b>"]
    assert max(each.score.max() for each in curves) == pytest.approx(1.0)


def test_a_band_is_in_the_units_of_the_user(campaign, model):
    """Interpolation: at the trials the mean is the value, and the band holds it."""
    seen = campaign.observations()
    surrogate = model.objectives[0]
    known = ~seen.failed
    mean, lower, upper = believed(surrogate, SPACE.encode([p for p, k in zip(seen.points, known, strict=True) if k]))
    spread = np.ptp(seen.values[known, 0])
    np.testing.assert_allclose(mean, seen.values[known, 0], atol=0.05 * spread)
    assert np.all(lower <= mean) and np.all(mean <= upper)


def test_best_so_far_is_the_running_maximum(campaign):
    ax, seen = plots.best(campaign), campaign.observations()
    line = next(line for line in ax.lines if line.get_label() == "best")
    values = np.where(seen.failed, -np.inf, seen.values[:, 0])
    np.testing.assert_allclose(line.get_ydata(), np.maximum.accumulate(values))
    crosses = next(line for line in ax.lines if line.get_label() == "failed")
    assert list(crosses.get_xdata()) == [5]
    assert len(plots.parallel(campaign).lines) == 12 + len(SPACE.names)


def test_predictions_on_record_are_compared_with_what_came(campaign):
    seen = campaign.observations()
    gaps = np.tile([1.9, -2.1], 6)
    why = [{"mean": value, "std": 1.0} for value in seen.values[:, 0] + gaps]
    came = type(seen)(**{**vars(seen), "why": tuple(why)})
    assert list(held(campaign.problem, came, 0.0)) == [i % 2 == 0 for i in range(12) if i != 4]
    assert held(campaign.problem, came, 1.0).all() and not len(held(campaign.problem, seen, 0.0))
    assert "too sure of itself" in words.trust(np.arange(20) % 2 == 0) and words.trust(np.ones(3, bool)) == ""
    assert "face value" in words.trust(np.arange(20) > 0)


def test_a_better_value_than_that_of_the_best_is_called_luck(campaign):
    problem, seen = campaign.problem, campaign.observations()
    order = np.argsort(np.where(seen.failed, -np.inf, seen.values[:, 0]))
    first, second = order[-1], order[-2]
    best = [Best(seen.points[i], float(seen.values[i, 0]), 0.0, (0.0, 0.0), int(seen.numbers[i])) for i in order[-2:]]
    assert luck(problem, seen, best[1]) == ""
    said = luck(problem, seen, best[0])
    assert said == f"Trial {seen.numbers[first]} gave {seen.values[first, 0]:.5g}, which the model takes for luck."
    assert seen.values[second, 0] < seen.values[first, 0]


def test_the_edge_of_a_range_is_pointed_out(campaign):
    point = {"rate": 0.0999, "layers": 3, "kind": "plain"}
    assert words.at_the_edge(campaign.problem, point) == [("rate", "upper end")]
    assert words.at_the_edge(campaign.problem, point | {"rate": 1e-4, "layers": 6}) == [
        ("rate", "lower end"),
        ("layers", "upper end"),
    ]


# -- importance ----------------------------------------------------------------------------------------------------


def test_importance_of_a_sum_is_the_shares_of_the_variances():
    """x on [0, 1] has variance 1/12, a fair coin 1/4, (0, 0, 1) at equal odds 2/9; interactions are nothing."""
    space = Space({"x": Real(-2, 5), "flag": Boolean(), "kind": Categorical(["a", "b", "c"]), "idle": Real(0, 1)})
    weights = np.array([3.0, 1.0, 0.0, 0.0, 2.0, 0.0])
    shares = importances(space, lambda rows: 7 + rows @ weights, points=4096)
    variances = np.array([9 / 12, 1 / 4, 4 * 2 / 9, 0.0])
    wanted = variances / variances.sum()
    np.testing.assert_allclose([each.total for each in shares], wanted, atol=0.01)
    np.testing.assert_allclose([each.alone for each in shares], wanted, atol=0.02)
    assert shares[3].total < 1e-12


def test_importance_of_a_product_is_all_interaction():
    """(x - ½)(z - ½): E[f | x] = 0, so that neither explains anything by itself and both everything together."""
    space = Space({"x": Real(0, 1), "z": Real(1e-3, 1e3, log=True)})
    shares = importances(space, lambda rows: (rows[:, 0] - 0.5) * (rows[:, 1] - 0.5), points=4096)
    np.testing.assert_allclose([each.total for each in shares], 1.0, atol=0.02)
    np.testing.assert_allclose([each.alone for each in shares], 0.0, atol=0.02)


def test_importance_of_ishigami():
    """sin a + 7 sin² b + 0.1 c⁴ sin a on [-π, π]³, whose indices are known: Ishigami & Homma (1990)."""
    space = Space({name: Real(-np.pi, np.pi) for name in "abc"})

    def function(rows):
        a, b, c = ((2 * rows - 1) * np.pi).T
        return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)

    shares = importances(space, function, points=8192)
    np.testing.assert_allclose([each.alone for each in shares], [0.3139, 0.4424, 0.0], atol=0.02)
    np.testing.assert_allclose([each.total for each in shares], [0.5576, 0.4424, 0.2437], atol=0.02)


def test_importance_of_nothing_and_of_a_parameter_that_is_not_always_there():
    space = Space({"kind": Categorical(["a", "b"]), "x": Real(0, 1, when={"kind": "a"})})
    assert [each.total for each in importances(space, lambda rows: np.full(len(rows), 3.0))] == [0.0, 0.0]
    shares = {e.name: e for e in importances(space, lambda rows: (rows[:, 2] - 0.5) * rows[:, 0], points=4096)}
    assert shares["x"].total == pytest.approx(1.0, abs=0.03)  # where x does not exist it is in the middle: f = 0
    assert shares["kind"].alone == pytest.approx(0.0, abs=0.02)
    assert words.importance_words(list(shares.values()), "gain")[0].startswith("x matters most")
