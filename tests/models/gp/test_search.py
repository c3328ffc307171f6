import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from threadpoolctl import threadpool_limits

import credo
from credo.core import params
from credo.core.params import ABSENT
from credo.errors import DataError
from credo.infer.optimize import Optimum
from credo.kernels import RBF, Exponential, Matern32, Matern52, RationalQuadratic, check_kernel
from credo.kernels.dotproduct import Linear
from credo.kernels.expression import terms_of
from credo.kernels.periodic import CenteredPeriodic, Periodic
from credo.kernels.pullback import is_supported
from credo.models.gp import GP, grammar
from credo.models.gp.components import decompose
from credo.models.gp.description import describe
from credo.models.gp.evidence import EvidenceObjective, NumpyModel
from credo.models.gp.hyperpriors import default_priors
from credo.models.gp.search import Climbed, refine, search_kernel, search_priors

# What kernels are called is asked of beliefs whose numbers nobody has learned.
pytestmark = pytest.mark.filterwarnings("ignore:the outcomes contradict:credo.errors.MisfitWarning")

# Monthly totals of international airline passengers in thousands: Box & Jenkins (1976), series G.
# fmt: off
PASSENGERS = np.asarray(
    [
        112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118, 115, 126, 141, 135, 125, 149,
        170, 170, 158, 133, 114, 140, 145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166,
        171, 180, 193, 181, 183, 218, 230, 242, 209, 191, 172, 194, 196, 196, 236, 235, 229, 243,
        264, 272, 237, 211, 180, 201, 204, 188, 235, 227, 234, 264, 302, 293, 259, 229, 203, 229,
        242, 233, 267, 269, 270, 315, 364, 347, 312, 274, 237, 278, 284, 277, 317, 313, 318, 374,
        413, 405, 355, 306, 271, 306, 315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336,
        340, 318, 362, 348, 363, 435, 491, 505, 404, 359, 310, 337, 360, 342, 406, 396, 420, 472,
        548, 559, 463, 407, 362, 405, 417, 391, 419, 461, 472, 535, 622, 606, 508, 461, 390, 432,
    ],
    dtype=float,
)
# fmt: on
YEARS = 1949 + np.arange(144) / 12

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
Y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=24)
KERNELS = {
    "sums and products": RBF().on(0) + Periodic(period=1.3).on(0) * Linear(center=-1.0).on(1) * RBF().on(1),
    "stationary": RationalQuadratic().on(1) + Matern32().on(1) * Exponential().on(0) + Matern52(ard=True),
    "centered": CenteredPeriodic(period=1.3).on(0) * RBF().on(1) + Linear(ard=True),
    "several columns": CenteredPeriodic(period=[1.3, 0.7]) + Periodic(ard=True),
}


@pytest.fixture(autouse=True)
def _one_thread():
    with threadpool_limits(1, "blas"):
        yield


def objective_of(kernel, priors=True):
    gp, rows = GP(kernel).prepare(X, Y)
    own = default_priors(gp, rows) if priors else {}
    slots = params.layout(gp)
    return gp, rows, own, slots, EvidenceObjective(NumpyModel(gp, slots, rows, own))


@pytest.mark.parametrize("name", KERNELS)
def test_without_compiling_the_objective_is_the_same(name):
    gp, rows, priors, slots, objective = objective_of(KERNELS[name])
    start = np.asarray(params.to_vector(gp, slots))
    u = start + 0.2 * np.random.default_rng(1).normal(size=len(start))
    there = params.from_vector(gp, slots, jnp.asarray(u))
    value, gradient = objective.value_and_grad(u)
    want = float(there.evidence_of(rows)) + float(params.log_prior(there, priors))
    assert value == pytest.approx(want, rel=1e-9)
    slope = optimize.approx_fprime(u, lambda v: objective.value_and_grad(v)[0], 1e-6)
    np.testing.assert_allclose(gradient, slope, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(
        objective.left_over(u), Y - there.condition_on(rows).predict(X).mean, rtol=1e-7, atol=1e-10
    )


def test_families_that_cannot_be_evaluated_are_refused():
    assert is_supported(KERNELS["stationary"]) and not is_supported(RBF().exp()) and not is_supported(RBF() ** 2)
    with pytest.raises(DataError, match="only kernels made of RBF"):
        objective_of(RBF() ** 2)


def test_centered_periodic_is_a_kernel_without_a_level():
    kernel = CenteredPeriodic(0.7, 2.0, 1.5)
    check_kernel(kernel, RNG.normal(size=(9, 1)))
    phase = jnp.asarray(np.linspace(0, 1.5, 200, endpoint=False)[:, None])
    np.testing.assert_allclose(np.asarray(kernel.gram(phase, phase[:3])).mean(0), 0.0, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(phase), 2.0)
    wave = CenteredPeriodic(300.0, 1.0, 1.5).gram(phase, phase[:1])[:, 0]
    np.testing.assert_allclose(wave, np.cos(2 * np.pi * np.asarray(phase)[:, 0] / 1.5), atol=1e-4)
    assert np.isfinite(jax.grad(lambda k: k.of(phase[3], phase[5]))(kernel).lengthscale)


def test_products_are_distributed_over_sums():
    a, b, c = RBF(0.5, 2.0), Linear(0.7), Periodic(1.2, 1.5, 0.8)
    for kernel in ((a + b) * c, (a + b) * (c + a), 3.0 * ((a + b) * c), ((a + b) * c).on(0) + a.on(0)):
        terms = [term.kernel for term in terms_of(kernel)]
        assert len(terms) > 1 and all(len(t.terms) == 1 for t in terms)
        x = jnp.asarray(X[:, :1])
        np.testing.assert_allclose(sum(t.gram(x, x) for t in terms), kernel.gram(x, x), rtol=1e-12)
    assert [term.kernel for term in terms_of(a * c)] == [a * c]


def test_the_parts_add_up_and_agree_with_dense_algebra():
    gp = GP((RBF(0.8) + Linear(0.5)).on(0) * RBF(1.5).on(1) + Periodic(1.0, 0.3, 0.9).on(0), noise=0.04)
    after = gp.condition(X, Y)
    queries = RNG.normal(size=(7, 2))
    found = decompose(after, queries)
    np.testing.assert_allclose(found.mean, after.predict(queries).mean, rtol=1e-8, atol=1e-8)
    whole = np.asarray(after.prior.kernel.gram(jnp.asarray(X), jnp.asarray(X))) + 0.04 * np.eye(24)
    weights = np.linalg.solve(whole, Y - np.asarray(after.mean(jnp.asarray(X))))
    for part in found.parts:
        if part.kernel is None:
            continue
        cross = np.asarray(part.kernel.gram(jnp.asarray(queries), jnp.asarray(X)))
        own = np.asarray(part.kernel.diagonal(jnp.asarray(queries)))
        offset = np.asarray(after.mean(jnp.asarray(queries))) if part.is_mean else 0.0
        np.testing.assert_allclose(part.mean, cross @ weights + offset, rtol=1e-8, atol=1e-9)
        variance = own - np.einsum("ij,ji->i", cross, np.linalg.solve(whole, cross.T))
        np.testing.assert_allclose(part.std**2, variance, rtol=1e-6, atol=1e-9)
    at_data = decompose(after)
    left = Y - np.asarray(after.predict(X).mean)
    assert at_data.noise_share == pytest.approx(left.var() / Y.var(), rel=1e-6)
    with pytest.raises(DataError, match="takes a GP"):
        decompose(credo.Linear())


def test_sentences_say_what_each_part_is():
    x = np.linspace(0, 10, 60)
    y = 3 * x + (1 + 0.3 * x) * np.sin(2 * np.pi * x) + 0.1 * RNG.normal(size=60)
    season = CenteredPeriodic(1.0, ABSENT, 1.0) * RBF(30.0, ABSENT) * Linear(ABSENT, center=-2.0)
    gp = GP(Linear(9.0, center=5.0) + season.scaled(jnp.asarray(0.1)) + RBF(0.4, 0.01), noise=0.01)
    after = gp.condition(pd.DataFrame({"time": x}), y)
    trend, pattern, *_, noise = describe(after, units={"time": "years"})
    assert trend.startswith("A linear trend in time, rising by ") and "per year" in trend
    assert "yearly pattern in time with a period of 1.00 years" in pattern
    assert "slowly changing in shape over 30.0 years" in pattern and "amplitude that grows with time" in pattern
    assert "% of the variance" in pattern and noise.startswith("Noise with a standard deviation of 0.100")
    plain = " ".join(describe(after))
    assert "yearly" not in plain and "a period of 1.00," in plain


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RBF(0.5).on(0), "smooth function of x0 with a typical length of 0.500"),
        (RBF(0.5).on(0) * RBF(2.0).on(1), "smooth function of x0 and x1 together, with typical lengths of 0.500"),
        (Matern32(0.5).on(1), "rough"),
        (Linear().on(1) * Linear().on(1), "quadratic trend in x1"),
        (Periodic(1.0, 1.0, 0.25).on(0) * RBF(2.0).on(1), "changing with x1 over 2.00"),
        (RBF().exp(), "a function with the covariance exp(RBF"),
    ],
)
def test_words_of_kernels(kernel, words):
    x = np.random.default_rng(3).uniform(-4, 4, size=(20, 2))
    assert words.lower() in describe(GP(kernel, noise=0.1).condition(x, np.cos(5 * x[:, 0]) + x[:, 1] ** 2))[0].lower()


def test_periods_are_read_off_the_periodogram():
    x = np.sort(np.random.default_rng(2).uniform(0, 40, 250))
    y = 0.3 * x + np.sin(2 * np.pi * x / 1.37) + 0.3 * RNG.normal(size=250)
    facts = grammar.Facts(x[:, None], y, np.asarray([0.16]))
    first = grammar.likely_periods(facts, 0, y, ())[0]
    assert first == pytest.approx(1.37, rel=3e-3)
    assert all(abs(p / 1.37 - 1) > 0.03 for p in grammar.likely_periods(facts, 0, y, [1.37]))


def test_steps_keep_what_was_learned():
    facts = grammar.Facts(X, Y, np.asarray([0.1, 0.1]))
    bases = (RBF, Linear, CenteredPeriodic)
    kernel = RBF(0.77, 1.23).on(0) + Linear(0.4).on(1)
    keys = {s.key for s in grammar.next_steps(kernel, 0, bases, facts, Y, 0.1)}
    assert {"CenteredPeriodic0+Linear1+RBF0", "Linear1+Linear1*RBF0", "RBF0", "Linear0+Linear1"} <= keys
    assert "Linear1+Linear1+RBF0" not in keys and "Linear1+RBF0*RBF0" not in keys
    step = next(s for s in grammar.next_steps(kernel, 0, bases, facts, Y, 0.1) if s.key == "Linear1+RBF0+RBF1")
    assert step.starts[0][0].terms[0].kernel.lengthscale == 0.77
    assert grammar.structure(kernel, ["a", "b"]) == "RBF[a] + Linear[b]"


def test_priors_of_lines_are_in_their_units():
    for scale in (1.0, 1000.0):
        gp, rows = GP(Linear() + RBF() * Linear()).prepare(scale * X[:, :1], Y)
        modes = {p: float(v.mode) for p, v in search_priors(gp, rows).items() if p.endswith("variance")}
        spread = scale * X[:, 0].std()
        np.testing.assert_allclose([m * spread**2 for m in modes.values()], Y.var(), rtol=1e-9)
        assert len(modes) == 2


def test_laplace_agrees_with_quadrature():
    gp, rows = GP(Linear(), mean=0.0).prepare(X[:, :1], Y)
    slots, priors = params.layout(gp), search_priors(gp, rows)
    objective = EvidenceObjective(NumpyModel(gp, slots, rows, priors))
    top = optimize.minimize(lambda u: -objective.value(u), params.to_vector(gp, slots)).x
    a, b = (np.linspace(t - 6, t + 9, 36) for t in top)
    log = np.asarray([[objective.value_and_grad(np.asarray([u, v]))[0] for v in b] for u in a])
    want = log.max() + np.log(np.exp(log - log.max()).sum() * (a[1] - a[0]) * (b[1] - b[0]))
    want -= sum(float(prior.log_mass) for prior in priors.values())
    found = Climbed(gp, slots, priors, objective, Optimum(top, objective.value(top), "converged", 0)).laplace()
    assert found == pytest.approx(want, abs=0.25)


def test_refining_climbs_from_where_it_is():
    gp, rows = GP(Matern52(ard=True)).prepare(X, Y)
    learned, value = refine(gp, rows)
    priors = search_priors(gp, rows)
    assert value == pytest.approx(float(learned.evidence_of(rows)), rel=1e-9)
    before, after = (float(g.evidence_of(rows)) + float(params.log_prior(g, priors)) for g in (gp, learned))
    assert after > before + 0.5


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(5)
    x = np.linspace(0, 8, 64)
    y = 2 * x + np.sin(2 * np.pi * x) + 0.1 * rng.normal(size=64)
    said = []
    found = search_kernel(pd.DataFrame({"t": x}), y, seconds=12.0, depth=2, progress=lambda *a: said.append(a))
    return found, x, said


def test_a_line_and_a_wave_are_found(small):
    found, x, said = small
    leaves = [grammar.inside(f)[0] for t in terms_of(found.belief.kernel) for f in t.factors]
    assert any(isinstance(k, Periodic) and float(k.period) == pytest.approx(1.0, rel=0.02) for k in leaves)
    assert np.sqrt(found.belief.noise) == pytest.approx(0.1, rel=0.5)
    text = " ".join(found.sentences())
    assert "trend in t, rising" in text or "rising trend in t" in text
    assert "pattern in t" in text and found.components().parts[0].share > 0.9
    assert max(score for _, score in found.history) == pytest.approx(found.score, abs=1.01)
    assert [share for share, _ in said] == sorted(share for share, _ in said) and len(said) > 3
    np.testing.assert_allclose(found.components().mean, found.belief.predict(x[:, None]).mean, rtol=1e-8)


def test_a_search_that_has_no_time_still_answers():
    found = search_kernel(X[:, :1], Y, seconds=1e-3)
    assert not found.finished and len(found.history) >= 1 and np.isfinite(found.score)
    assert found.belief.predict(X[:, :1]).mean.shape == (24,)


def test_bad_input():
    for bad, words in (
        ({"seconds": 0}, "must be positive"),
        ({"criterion": "aic"}, "'bic' or 'evidence'"),
        ({"base": [RBF()]}, "kernel classes among"),
        ({"base": []}, "at least one"),
    ):
        with pytest.raises(DataError, match=words):
            search_kernel(X, Y, **bad)
    with pytest.raises(DataError, match="at least 4 rows"):
        search_kernel(X[:3], Y[:3])


@pytest.mark.slow
def test_airline_passengers():
    """Eight years of the twelve, which take a quarter of the time."""
    found = search_kernel(pd.DataFrame({"year": YEARS[:96]}), PASSENGERS[:96], seconds=25.0)
    terms = terms_of(found.belief.kernel)
    repeating = [any(isinstance(grammar.inside(f)[0], Periodic) for f in t.factors) for t in terms]
    periods = [
        float(leaf.period)
        for t in terms
        for leaf in (grammar.inside(f)[0] for f in t.factors)
        if isinstance(leaf, Periodic)
    ]
    assert any(abs(p - 1) < 0.02 for p in periods) and not all(repeating)
    text = " ".join(found.sentences(units={"year": "years"}))
    assert "yearly pattern in year" in text and "rising" in text
    assert found.components().noise_share < 0.05  # less where there is time for one more step
