import numpy as np
import pytest
from scipy import special, stats

from credo.core.errors import DataError
from credo.evaluate import bayes_factor
from credo.evaluate.comparison import compare, in_words


def log_evidence(x, y, variance, noise):
    return stats.multivariate_normal(np.zeros(len(y)), variance * x @ x.T + noise * np.eye(len(y))).logpdf(y)


def test_compare_ranks_by_evidence(Regression, line):
    x, y = line
    beliefs = {
        "tight": Regression.prior(3, 0.01, 0.25),
        "wide": Regression.prior(3, 4.0, 0.25),
        "vague": Regression.prior(3, 1e4, 0.25),
    }
    result = compare(beliefs, x, y)
    want = {name: log_evidence(x, y, v, 0.25) for name, v in (("tight", 0.01), ("wide", 4.0), ("vague", 1e4))}
    assert result.best == max(want, key=want.get) == "wide"
    assert [row.name for row in result.rows] == sorted(want, key=want.get, reverse=True)
    posterior = dict(zip(want, special.softmax(list(want.values())), strict=True))
    for row in result.rows:
        assert row.log_evidence == pytest.approx(want[row.name], rel=1e-9)
        assert row.log_bayes_factor == pytest.approx(want[row.name] - want["wide"], abs=1e-7)
        assert row.probability == pytest.approx(posterior[row.name], rel=1e-6)
        assert row.hyperparameters == 1 and row.bic is None and row.aic is None
    table = str(result)
    assert len(table.splitlines()) == 5 and "very strong" in table and "log evidence" in table
    assert result.to_rows()[0]["name"] == "wide"
    factor = bayes_factor(beliefs["wide"], beliefs["vague"], x, y)
    assert factor.log == pytest.approx(want["wide"] - want["vague"], abs=1e-7)
    assert factor.ratio == pytest.approx(np.exp(factor.log))
    assert factor.words == in_words(want["wide"] - want["vague"])


def test_the_prior_over_models_counts(Regression, line):
    x, y = line[0][:5], line[1][:5]
    beliefs = {"a": Regression.prior(3, 4.0, 0.25), "b": Regression.prior(3, 5.0, 0.25)}
    prior = [1.0, 9.0]
    result = compare(beliefs, x, y, weights=prior)
    joint = np.log([0.1, 0.9]) + np.array([log_evidence(x, y, v, 0.25) for v in (4.0, 5.0)])
    want = special.softmax(joint)
    got = {row.name: row.probability for row in result.rows}
    np.testing.assert_allclose([got["a"], got["b"]], want, rtol=1e-7)
    assert result.best == "b" and result.rows[1].evidence_against == (
        "none" if got["a"] > got["b"] / 9 else "barely worth mentioning"
    )


def test_average_of_a_comparison_predicts_as_the_mixture(Regression, line):
    x, y = line[0][:6], line[1][:6]
    result = compare({"a": Regression.prior(3, 1.0, 0.25), "b": Regression.prior(3, 4.0, 1.0)}, x, y)
    averaged = result.average()
    np.testing.assert_allclose(averaged.weights, [row.probability for row in result.rows], rtol=1e-9)
    query = line[0][6:9]
    each = np.stack([np.asarray(result.beliefs[row.name].condition(x, y).predict(query).mean) for row in result.rows])
    np.testing.assert_allclose(averaged.predict(query).mean, np.asarray(averaged.weights) @ each, rtol=1e-9)


def test_information_criteria(RegressionWithLikelihood, line):
    x, y = line
    row = compare({"only": RegressionWithLikelihood.prior(3, 4.0, 0.25)}, x, y).rows[0]
    w = np.linalg.lstsq(x, y, rcond=None)[0]
    best = stats.norm.logpdf(y, x @ w, 0.5).sum()
    assert row.bic == pytest.approx(3 * np.log(60) - 2 * best)
    assert row.aic == pytest.approx(6 - 2 * best)
    assert row.probability == 1.0 and row.evidence_against == ""


@pytest.mark.parametrize(
    ("log_factor", "words"),
    [
        (0.0, "barely worth mentioning"),
        (-0.9, "barely worth mentioning"),
        (1.1, "positive"),
        (-4.0, "strong"),
        (5.1, "very strong"),
    ],
)
def test_words(log_factor, words):
    assert in_words(log_factor) == words


def test_bad_input(Regression, line):
    x, y = line
    with pytest.raises(DataError, match="beliefs must be a dictionary"):
        compare({}, x, y)
    with pytest.raises(DataError, match="2 are expected, found 3"):
        compare({"a": Regression.prior(3), "b": Regression.prior(3)}, x, y, weights=[1, 2, 3])
    with pytest.raises(DataError, match="weights ≥ 0"):
        compare({"a": Regression.prior(3), "b": Regression.prior(3)}, x, y, weights=[1, -2])
    with pytest.raises(DataError, match="must be a number for every belief"):
        compare({"a": Regression.prior(3, noise=-1.0)}, x, y)
