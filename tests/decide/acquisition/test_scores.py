"""The scores of single points against quadrature, Monte Carlo and SciPy."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import credo
from credo.core.errors import DataError
from credo.core.predictive import Bernoulli, Categorical, Normal, Predictive
from credo.decide import acquisition as acq
from credo.decide.acquisition import normal_tails
from credo.decide.acquisition.information import gumbel_maxima
from credo.kernels import Matern52
from credo.models.noise import KnownNoise

MEANS = np.array([-1.0, 0.0, 0.3, 2.0, 0.5])
STDS = np.array([0.5, 1.0, 2.0, 0.1, 1e-3])
NOISE = np.array([0.1, 0.2, 0.3, 0.4, 0.5])


class Fixed(eqx.Module):
    """A belief that predicts given moments, whatever the rows."""

    prediction: Predictive

    def predict(self, x):
        return self.prediction


BELIEF = Fixed(Normal(MEANS, NOISE, STDS**2))
ROWS = jnp.zeros((5, 1))
ROOT_2PI = np.sqrt(2 * np.pi)


def expected(function, mean, std):
    """E function(f), f ~ N(mean, std²), by quadrature."""
    density = stats.norm(mean, std).pdf
    points = [mean - 12 * std, mean - std, mean, mean + std, mean + 12 * std]
    pieces = [integrate.quad(lambda v: function(v) * density(v), a, b, epsabs=1e-14) for a, b in pairwise(points)]
    return sum(value for value, _ in pieces)


# -- the normal tail ---------------------------------------------------------------------------------------------

FUNCTIONS = (normal_tails.log_cdf, normal_tails.log_improvement, normal_tails.log_information)
DEPTHS = np.array([5.0, 5.1, 7.0, 12.0, 40.0, 1e3, 1e5, 1e8])


def scaled(power, t):
    """∫₀^∞ sᵖ exp(-ts - s²/2) ds, which is Φ(-t)/φ(t) for p = 0 and h(-t)/φ(t) for p = 1, without cancellation."""
    value, _ = integrate.quad(
        lambda u: u**power * np.exp(-u - 0.5 * (u / t) ** 2), 0, 60, epsabs=0, epsrel=1e-13, limit=200
    )
    return value / t ** (power + 1)


def test_the_tails_against_quadrature():
    mills, rises = (np.array([scaled(p, t) for t in DEPTHS]) for p in (0, 1))
    density = -(DEPTHS**2) / 2 - np.log(ROOT_2PI)
    z = jnp.asarray(-DEPTHS)
    (cdf, cdf_slope), (rise, rise_slope), (told, _) = (jax.jit(jax.vmap(jax.value_and_grad(f)))(z) for f in FUNCTIONS)
    np.testing.assert_allclose(cdf, density + np.log(mills), rtol=1e-13)
    np.testing.assert_allclose(rise, density + np.log(rises), rtol=1e-13)
    delta = rises / mills
    np.testing.assert_allclose(told, np.log(-0.5 * DEPTHS * delta + np.log(ROOT_2PI / mills)), rtol=1e-12)
    np.testing.assert_allclose(cdf_slope, 1 / mills, rtol=1e-11)
    np.testing.assert_allclose(rise_slope, mills / rises, rtol=1e-11)


def test_the_tails_are_what_they_are_called_where_nothing_underflows():
    z = np.concatenate([np.linspace(-30, 30, 601), [-5.0, 5.0]])
    log_cdf, improvement, information = (np.asarray(jax.jit(f)(jnp.asarray(z))) for f in FUNCTIONS)
    np.testing.assert_allclose(log_cdf, special.log_ndtr(z), rtol=1e-11, atol=1e-300)
    h = stats.norm.pdf(z) + z * stats.norm.cdf(z)
    safe = z > -12  # where the subtraction itself has ten digits left
    np.testing.assert_allclose(improvement[safe], np.log(h[safe]), rtol=1e-10, atol=1e-13)
    hazard = np.exp(stats.norm.logpdf(z) - special.log_ndtr(z))
    g = 0.5 * z * hazard - special.log_ndtr(z)
    np.testing.assert_allclose(information, np.log(g), rtol=1e-11, atol=1e-11)
    w = np.linspace(-60, 60, 121).astype(np.longdouble)
    np.testing.assert_allclose(
        normal_tails.log_softplus(jnp.asarray(w, float)), np.log(np.log1p(np.exp(w))).astype(float), 1e-12
    )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_slopes_of_the_tails_by_finite_differences(function):
    z = jnp.asarray(np.concatenate([np.linspace(-9.3, 9.3, 61), [-60.0, 35.0]]))
    step = 1e-5
    both = jax.jit(jax.vmap(jax.value_and_grad(function)))
    numeric = (both(z + step)[0] - both(z - step)[0]) / (2 * step)
    np.testing.assert_allclose(both(z)[1], numeric, rtol=2e-6, atol=1e-10)
    extreme = jnp.resize(jnp.array([-1e15, -1e8, 1e8]), z.shape)
    assert all(np.isfinite(v).all() for v in both(extreme))


def test_information_is_the_entropy_that_a_cut_takes_away():
    for z in (-3.0, -0.5, 0.0, 1.7):
        cut = stats.truncnorm(-np.inf, z)
        entropy = -integrate.quad(lambda v, cut=cut: cut.pdf(v) * cut.logpdf(v), -30, z, epsabs=1e-13)[0]
        np.testing.assert_allclose(
            np.exp(jax.jit(normal_tails.log_information)(jnp.asarray(z))), stats.norm.entropy() - entropy, rtol=1e-9
        )


# -- improvement -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("xi", [0.0, 0.2])
def test_improvement_by_quadrature(xi, sign):
    best = 0.4
    options = {"best": best, "xi": xi, "maximize": sign > 0}
    ei = [
        integrate.quad(
            lambda v, m=m, s=s: (v - sign * best - xi) * stats.norm.pdf(v, sign * m, s),
            sign * best + xi,
            max(sign * m + 40 * s, sign * best + xi),
            epsabs=1e-16,
            epsrel=1e-12,
            points=[sign * m] if sign * m > sign * best + xi else None,
            limit=200,
        )[0]
        for m, s in zip(MEANS, STDS, strict=True)
    ]
    pi = stats.norm.sf(sign * best + xi, sign * MEANS, STDS)
    np.testing.assert_allclose(acq.ExpectedImprovement(**options)(BELIEF, ROWS), ei, rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(acq.ProbabilityOfImprovement(**options)(BELIEF, ROWS), pi, rtol=1e-10, atol=1e-300)
    score = acq.LogExpectedImprovement(**options)
    np.testing.assert_allclose(np.exp(score(BELIEF, ROWS)), ei, rtol=1e-8, atol=1e-15)
    assert score.scale == "log" and acq.ExpectedImprovement().scale == "positive"


def test_improvement_by_monte_carlo():
    draws = MEANS + STDS * np.random.default_rng(0).normal(size=(1_000_000, 5))
    for score, outcome in (
        (acq.ExpectedImprovement(0.4), np.maximum(draws - 0.4, 0)),
        (acq.ProbabilityOfImprovement(0.4), (draws > 0.4).astype(float)),
    ):
        se = outcome.std(0, ddof=1) / 1000 + 1e-12
        assert np.all(np.abs(outcome.mean(0) - np.asarray(score(BELIEF, ROWS))) < 4.5 * se)


def test_log_improvement_is_finite_where_improvement_underflows():
    belief = Fixed(Normal([-50.0, -1.0, 0.0, 0.0], np.ones(4), [1.0, 1e-16, 0.0, 1e-8]))
    rows = jnp.zeros((4, 1))
    score = acq.ExpectedImprovement(0.5)
    assert np.all(np.asarray(score(belief, rows))[[0, 1, 2]] == 0)
    assert np.all(np.isfinite(score.climb(belief, rows)))
    t = 50.5
    np.testing.assert_allclose(
        score.climb(belief, rows)[0], -t * t / 2 - np.log(ROOT_2PI) + np.log(scaled(1, t)), rtol=1e-13
    )


def gp(n=20, noise=0.02):
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(n, 2))
    return credo.GP(Matern52(0.4), 0.0, noise).condition(x, np.sin(5 * x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=n))


@pytest.mark.parametrize("maximize", [True, False])
def test_the_incumbent_is_the_best_mean_of_the_rows(maximize):
    belief = gp()
    means = np.asarray(belief.predict(belief.seen.cut()[0]).mean)
    ready = acq.ExpectedImprovement(maximize=maximize).prepared(belief)
    np.testing.assert_allclose(ready.best, means.max() if maximize else means.min())
    assert acq.ExpectedImprovement(best=0.25).prepared(belief).best == 0.25


def test_feasibility_and_constraints():
    score = acq.Feasibility(BELIEF, 0.4)
    np.testing.assert_allclose(score(BELIEF, ROWS), stats.norm.cdf(0.4, MEANS, STDS), rtol=1e-9, atol=1e-300)
    above = acq.Feasibility(BELIEF, 0.4, at_most=False, with_noise=True)
    np.testing.assert_allclose(above(BELIEF, ROWS), stats.norm.sf(0.4, MEANS, np.sqrt(STDS**2 + NOISE)), rtol=1e-10)
    p = np.array([0.1, 0.2, 0.5, 0.9, 1.0])
    classes = acq.Feasibility(Fixed(Bernoulli.certain(p)), 0.5, at_most=False)
    np.testing.assert_allclose(classes(BELIEF, ROWS), p, rtol=1e-12)
    ei = acq.ExpectedImprovement(0.1)
    both = acq.Constrained(ei, [score, classes])
    np.testing.assert_allclose(both(BELIEF, ROWS), ei(BELIEF, ROWS) * score(BELIEF, ROWS) * p, rtol=1e-10)
    logs = acq.Constrained(acq.LogExpectedImprovement(0.1), score)
    np.testing.assert_allclose(logs(BELIEF, ROWS), ei.climb(BELIEF, ROWS) + score.climb(BELIEF, ROWS), rtol=1e-12)
    assert (both.scale, logs.scale) == ("positive", "log")


def test_the_incumbent_of_a_constrained_search_is_feasible():
    belief = gp()
    x = belief.seen.cut()[0]
    other = credo.GP(Matern52(0.5), 0.0, 1e-4).condition(x, x[:, 0])
    means, feasible = np.asarray(belief.predict(x).mean), np.asarray(other.predict(x).mean) < 0.1
    ready = acq.Constrained(acq.ExpectedImprovement(), acq.Feasibility(other, 0.1)).prepared(belief)
    assert feasible.sum() > 0 and means[feasible].max() < means.max()
    np.testing.assert_allclose(ready.acquisition.best, means[feasible].max())
    assert bool(ready.found)
    nowhere = acq.Constrained(acq.ExpectedImprovement(), acq.Feasibility(other, -5.0)).prepared(belief)
    assert not bool(nowhere.found)
    queries = jnp.asarray(x[:4])
    np.testing.assert_allclose(
        nowhere.climb(belief, queries), nowhere.feasibilities[0].climb(belief, queries), rtol=1e-10
    )


# -- bounds ------------------------------------------------------------------------------------------------------


def test_confidence_bounds_and_their_schedule():
    np.testing.assert_allclose(acq.UpperConfidenceBound(3.0)(BELIEF, ROWS), MEANS + 3 * STDS, rtol=1e-12)
    np.testing.assert_allclose(acq.LowerConfidenceBound(3.0)(BELIEF, ROWS), -(MEANS - 3 * STDS), rtol=1e-12)
    width = np.sqrt(9 * np.pi / 2)
    folded = [expected(lambda v, m=m: m + width * abs(v - m), m, s) for m, s in zip(MEANS, STDS, strict=True)]
    np.testing.assert_allclose(acq.UpperConfidenceBound(3.0)(BELIEF, ROWS), folded, rtol=1e-10)
    schedule = acq.UpperConfidenceBound.schedule
    np.testing.assert_allclose(schedule(3, 0.1, size=50) ** 2, 2 * np.log(50 * 9 * np.pi**2 / 0.6))
    compact = 2 * np.log(9 * 2 * np.pi**2 / 0.3) + 4 * np.log(9 * 2 * 1.5 * 2.0 * np.sqrt(np.log(8 * 3.0 / 0.1)))
    np.testing.assert_allclose(schedule(3, 0.1, dimension=2, width=2.0, slopes=(3.0, 1.5)) ** 2, compact)
    np.testing.assert_allclose(acq.regret_bound(10, 2.0, 2.0, 0.25), np.sqrt(8 / np.log(5) * 10 * 4 * 2))


def test_bounds_of_all_rounds_hold_with_the_probability_that_was_asked():
    """A finite set, the prior: |f - μ| ≤ β σ at every point and round in at least 1 - δ of the draws."""
    rng, size, rounds, delta = np.random.default_rng(1), 20, 5, 0.3
    widths = np.array([acq.UpperConfidenceBound.schedule(t, delta, size=size) for t in range(1, rounds + 1)])
    draws = np.abs(rng.normal(size=(2000, rounds, size)))
    held = (draws <= widths[:, None]).all(axis=(1, 2)).mean()
    assert held > 1 - delta


# -- information -------------------------------------------------------------------------------------------------


def test_information_scores():
    np.testing.assert_allclose(acq.MaxVariance()(BELIEF, ROWS), STDS**2)
    total = STDS**2 + NOISE
    np.testing.assert_allclose(acq.MaxEntropy()(BELIEF, ROWS), stats.norm(0, np.sqrt(total)).entropy(), rtol=1e-12)
    gain = stats.norm(0, np.sqrt(total)).entropy() - stats.norm(0, np.sqrt(NOISE)).entropy()
    np.testing.assert_allclose(acq.MutualInformation()(BELIEF, ROWS), gain, rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(acq.BALD()(BELIEF, ROWS), gain, rtol=1e-8, atol=1e-15)
    probs = np.random.default_rng(0).dirichlet([1, 1, 1], size=(4, 5))  # four models, five queries, three classes
    mixed = Categorical.average(jnp.full(4, 0.25), jnp.asarray(probs))
    want = stats.entropy(probs.mean(0), axis=-1) - stats.entropy(probs, axis=-1).mean(0)
    np.testing.assert_allclose(acq.BALD()(Fixed(mixed), ROWS), want, rtol=1e-10)
    np.testing.assert_allclose(acq.MaxVariance()(Fixed(mixed), ROWS), want, rtol=1e-10)


def test_noise_that_differs_is_respected():
    x, y = np.array([[0.0], [1.0]]), np.array([0.0, 1.0])
    belief = credo.GP(Matern52(0.5), 0.0, KnownNoise()).condition(x, y, noise=[0.1, 0.2])

    class Noisy:
        def predict(self, rows):
            return belief.predict(rows, noise=np.where(np.asarray(rows)[:, 0] > 0.5, 4.0, 0.01))

    rows = jnp.array([[0.4], [0.6]])  # alike to the function, not to the noise
    variance = np.asarray(belief.predict(rows).epistemic)
    gain = acq.MutualInformation()(Noisy(), rows)
    np.testing.assert_allclose(gain, 0.5 * np.log1p(variance / [0.01, 4.0]), rtol=1e-10)
    assert gain[0] > gain[1]


def gauss(v, mean, std):
    return np.exp(-0.5 * ((v - mean) / std) ** 2) / (ROOT_2PI * std)


def test_max_value_entropy_search_by_quadrature():
    maxima = np.array([2.5, 3.0, 2.2])
    score = acq.MaxValueEntropySearch(maxima=maxima)
    want = np.zeros(5)
    for top in maxima:
        for i, (m, s) in enumerate(zip(MEANS, STDS, strict=True)):
            low, high = m - 12 * s, min(top, m + 12 * s)
            density = gauss(np.linspace(low, high, 200_001), m, s) / stats.norm.cdf((top - m) / s)
            entropy = integrate.simpson(special.entr(density), dx=(high - low) / 200_000)
            want[i] += (stats.norm(m, s).entropy() - entropy) / 3
    np.testing.assert_allclose(score(BELIEF, ROWS), want, rtol=1e-7, atol=1e-9)
    assert score.prepared(BELIEF) is score


def test_draws_of_the_maximum():
    rng = np.random.default_rng(2)
    mean, std = rng.normal(size=40), rng.uniform(0.2, 1, size=40)
    true = (mean + std * rng.normal(size=(200_000, 40))).max(1)
    drawn = gumbel_maxima(mean, std, 4000, seed=0)
    levels = [0.25, 0.5, 0.75]
    np.testing.assert_allclose(np.quantile(drawn, levels), np.quantile(true, levels), atol=0.05 * true.std())
    belief, at = gp(), np.random.default_rng(0).uniform(size=(30, 2))
    ready = acq.MaxValueEntropySearch(100, at=at, method="functions").prepared(belief, seed=1)
    joint = np.asarray(belief.sample(at, 4000, seed=2)).max(1)
    maxima = np.asarray(ready.maxima)
    floor = float(belief.predict(at).mean.max())
    joint = np.maximum(joint, floor)
    se = np.hypot(maxima.std(ddof=1) / 10, joint.std(ddof=1) / np.sqrt(4000))
    assert abs(maxima.mean() - joint.mean()) < 4.5 * se
    small = acq.MaxValueEntropySearch(64, at=at, maximize=False).prepared(belief)
    assert float(small.maxima.min()) >= float(-belief.predict(at).mean.min()) - 1e-12


# -- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: acq.ExpectedImprovement(best=np.nan), "best must be a finite number, found"),
        (lambda: acq.ExpectedImprovement(xi=np.inf), "xi must be a finite number"),
        (lambda: acq.UpperConfidenceBound(beta=-1.0), "beta must be a finite number of at least 0"),
        (lambda: acq.NoisyExpectedImprovement(best=1.0), "use ExpectedImprovement"),
        (lambda: acq.NoisyExpectedImprovement(draws=5), "even number, found 5"),
        (lambda: acq.Feasibility(3.0, 1.0), "takes a belief first, found float"),
        (lambda: acq.Feasibility(BELIEF, np.nan), "threshold must be a finite number"),
        (lambda: acq.Constrained(acq.ExpectedImprovement(), []), "one or more Feasibility"),
        (lambda: acq.UpperConfidenceBound.schedule(0, 0.1, size=3), "t must be a whole number of at least 1"),
        (lambda: acq.UpperConfidenceBound.schedule(1, 1.5, size=3), "delta is a probability"),
        (lambda: acq.UpperConfidenceBound.schedule(1, 0.1), "one of the two"),
        (lambda: acq.UpperConfidenceBound.schedule(1, 0.1, size=3, dimension=2), "one of the two"),
        (lambda: acq.UpperConfidenceBound.schedule(1, 0.1, dimension=2, width=0.0), "must be positive"),
        (lambda: acq.UpperConfidenceBound.schedule(1, 0.9, dimension=1, slopes=(0.1, 1.0)), "larger a in slopes"),
        (lambda: acq.regret_bound(10, 4.0, 2.0, 0.0), "noise is a variance"),
        (lambda: acq.MaxValueEntropySearch(draws=0), "draws must be a whole number of at least 1"),
        (lambda: acq.MaxValueEntropySearch(method="guess"), 'must be "gumbel" or "functions"'),
        (lambda: acq.MaxValueEntropySearch(at=[[0.0]], method="functions").prepared(BELIEF), 'use method="gumbel"'),
        (lambda: acq.MaxValueEntropySearch().prepared(BELIEF), "at="),
        (lambda: acq.Thompson(features=0), "features must be a whole number of at least 2"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(make, message):
    with pytest.raises(DataError, match=message):
        make()
