"""What every belief promises. A new one is added to `BELIEFS` and inherits the suite."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.core import params
from credo.core.pytrees import changed
from credo.kernels import RBF, Matern32, Matern52
from credo.models.densities import FactorAnalyser, Gaussian, Regression
from credo.models.experts import GeneralizedRegression
from credo.models.features import Polynomial
from credo.models.gp import (
    GP,
    SKI,
    SKIGP,
    Basis,
    Fourier,
    FourierGP,
    HeteroscedasticGP,
    Independent,
    Inducing,
    InducingGP,
    Local,
    LocalGP,
    MultiGP,
    Neighbours,
    NeighboursGP,
    RandomFeatures,
    RandomFeaturesGP,
    RobustGP,
    StateSpaceGP,
    Steps,
    WarpedGP,
)
from credo.models.hmm import InputHMM
from credo.models.likelihoods import Bernoulli, Categorical, Poisson
from credo.models.linear import (
    ARD,
    FunctionSpace,
    InverseGamma,
    KnownNoise,
    LaplaceNoise,
    LaplacePrior,
    Linear,
    StudentTNoise,
)
from credo.models.network import LinearGaussian

RNG = np.random.default_rng(5)
X = RNG.normal(size=(24, 2))
Y = X @ [1.0, -0.5] + 0.3 * RNG.normal(size=24)
QUERIES = RNG.normal(size=(4, 2))
THREE = np.column_stack([X, X[:, 0] - Y])
SEQUENCES = [RNG.integers(0, 3, size=n).tolist() for n in RNG.integers(2, 6, size=24)]
CLASSES = (X, np.arange(24) % 3)


class Case(NamedTuple):
    belief: Any
    data: tuple[Any, ...]
    query: tuple[Any, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012
    asked: dict[str, Any] = {}  # noqa: RUF012
    """What `predict` takes besides the query."""


def regression(belief: Any, **options: Any) -> Case:
    return Case(belief, (X, Y), (QUERIES,), options)


def linear_average() -> Case:
    return regression(credo.Averaged([0.0, 0.0], (Linear(), Linear(Polynomial(2)))))


@cache
def waves() -> FourierGP:
    gp = GP(RBF(2.0), noise=0.1)
    return FourierGP(gp, Fourier(1e-3)).placed(gp.statistics(X, Y))


@cache
def gridded() -> SKIGP:
    return SKIGP(GP(RBF(2.0), noise=0.1), SKI(8, box=((-4.0, 4.0), (-4.0, 4.0)))).placed(GP().statistics(X, Y))


@cache
def lasso_draws() -> Case:
    method = credo.infer.NUTS(chains=1, draws=500, warmup=300)
    return regression(Linear(prior=LaplacePrior(1.0), noise=0.3).condition(X[:12], Y[:12], using=method))


def small_network() -> credo.Network:
    return credo.Network(
        {
            "kind": [0.2, 0.3, 0.5],
            "alarm": ("kind", [{"no": 0.9, "yes": 0.1}, {"no": 0.5, "yes": 0.5}, {"no": 0.2, "yes": 0.8}]),
            "x": LinearGaussian(["kind"], [0.0, 1.0, 3.0], variance=[1.0, 0.5, 2.0]),
            "y": LinearGaussian(["x"], 0.3, [2.0], 0.4),
        }
    )


@cache
def driven() -> Case:
    """An HMM whose transitions depend on an input."""
    begun, _ = InputHMM(2, Gaussian(np.ones((2, 1)), mean=[-1.0, 1.0])).prepare(Y, inputs=X[:, :1])
    return Case(begun, (Y,), (2,), {"inputs": X[:, :1]}, {"inputs": QUERIES[:2, :1]})


@cache
def analysers() -> Case:
    """A mixture of factor analysers, whose numbers are given."""
    begun, _ = credo.Mixture(2, FactorAnalyser(1)).prepare(THREE)
    return Case(changed(begun, learned=False), (THREE,), (np.column_stack([QUERIES, np.full(4, np.nan)]),))


BELIEFS: dict[str, Callable[[], Case]] = {
    "Linear": lambda: regression(Linear()),
    "Linear, no intercept": lambda: regression(Linear(intercept=False)),
    "Linear, ARD, polynomial": lambda: regression(Linear(Polynomial(2), ARD(jnp.arange(1.0, 6.0)))),
    "Linear, unknown noise": lambda: regression(Linear(noise=InverseGamma(2.0, 1.0))),
    "Linear, row noise": lambda: regression(Linear(noise=KnownNoise()), noise=np.linspace(0.1, 1, 24)),
    "Linear, weights": lambda: regression(Linear(), weights=np.linspace(0.5, 2, 24)),
    "Linear, Student-t": lambda: regression(Linear(noise=StudentTNoise(4.0, 0.3))),
    "Linear, Laplace": lambda: regression(Linear(noise=LaplaceNoise(0.3))),
    "LinearDraws": lasso_draws,
    "Linear, function space": lambda: Case(
        Linear().condition(X[:3, :1], Y[:3], using=FunctionSpace()), (X[:, :1], Y), (QUERIES[:, :1],)
    ),
    "Averaged": linear_average,
    "Hypotheses": lambda: Case(credo.Hypotheses([[0.7, 0.2], [0.2, 0.3], [0.1, 0.5]]), (np.arange(24) % 3,)),
    "BetaBernoulli": lambda: Case(credo.BetaBernoulli(2.0, 3.0), (np.arange(24) % 2,)),
    "BetaBinomial": lambda: Case(credo.BetaBinomial(2.0, 3.0), (np.arange(24) % 4, np.full(24, 5))),
    "DirichletCategorical": lambda: Case(credo.DirichletCategorical([1.0, 2.0, 0.5]), (np.arange(24) % 3,)),
    "DirichletMultinomial": lambda: Case(
        credo.DirichletMultinomial([1.0, 2.0, 0.5]), (np.arange(24 * 3).reshape(24, 3) % 4,)
    ),
    "GammaPoisson": lambda: Case(credo.GammaPoisson(2.0, 1.0), (np.arange(24) % 5,)),
    "NormalKnownVariance": lambda: Case(credo.NormalKnownVariance(0.0, 2.0, 0.5), (Y,)),
    "NormalInverseGamma": lambda: Case(credo.NormalInverseGamma(0.0, 1.0, 2.0, 1.0), (Y,)),
    "HierarchicalBernoulli": lambda: Case(
        credo.HierarchicalBernoulli().condition([1, 0, 2, 1], [3, 3, 4, 5]), (np.arange(4), np.full(4, 6))
    ),
    "MarkovSequence": lambda: Case(credo.MarkovSequence(3, 1), (SEQUENCES,), ([[0], [1]],)),
    "Logistic": lambda: Case(credo.Logistic(classes=(0, 1)), (X, (Y > 0).astype(int)), (QUERIES,)),
    "Softmax": lambda: Case(credo.Softmax(classes=(0, 1, 2)), (X, np.arange(24) % 3), (QUERIES,)),
    "PoissonRegression": lambda: Case(credo.PoissonRegression(), (X, np.arange(24) % 5), (QUERIES,)),
    "NaiveBayes": lambda: Case(credo.NaiveBayes().told(*CLASSES), CLASSES, (QUERIES,)),
    "Discriminant": lambda: Case(credo.Discriminant("tied").told(*CLASSES), CLASSES, (QUERIES,)),
    "Discriminant, between": lambda: Case(credo.Discriminant().told(*CLASSES), CLASSES, (QUERIES,)),
    "Neural": lambda: regression(credo.Neural((2,), steps=20, batch=8)),
    "Neural, last layer": lambda: regression(
        credo.Neural((2,), steps=20, batch=8).by(credo.infer.Laplace("last-layer"))
    ),
    "GP": lambda: regression(GP(RBF(), noise=0.1)),
    "GP, row noise, trend": lambda: regression(
        GP(Matern52([1.0, 2.0]), Basis(covariance=2.0), KnownNoise()), noise=np.linspace(0.1, 1, 24)
    ),
    "RobustGP": lambda: regression(RobustGP(RBF(), noise=StudentTNoise(4.0, 0.3))),
    "LatentGP": lambda: Case(credo.LatentGP(Bernoulli((0, 1)), RBF(1.0, 2.0)), (X, (Y > 0).astype(int)), (QUERIES,)),
    "KernelNeighbours": lambda: Case(credo.KernelNeighbours(3, classes=(0, 1, 2)), (X, np.arange(24) % 3), (QUERIES,)),
    "KernelNeighbours, numbers": lambda: regression(credo.KernelNeighbours(3, Matern52(), outcomes="numbers")),
    "KernelRegression": lambda: regression(credo.KernelRegression()),
    "KernelDensity": lambda: Case(credo.KernelDensity([0.5, 0.8]), (X,)),
    "LatentGP, classes": lambda: Case(
        credo.LatentGP(Categorical((0, 1, 2)), RBF(1.0, 2.0), concentration=0.1),
        (X, np.digitize(Y, [-0.3, 0.3])),
        (QUERIES,),
    ),
    "LatentGP, softmax": lambda: Case(
        changed(credo.LatentGP(Categorical((0, 1, 2)), RBF(1.0, 2.0)), method="variational"),
        (X, np.digitize(Y, [-0.3, 0.3])),
        (QUERIES,),
    ),
    "WarpedGP": lambda: regression(WarpedGP(RBF(), noise=0.1, warp=Steps(height=[0.5, 0.2]))),
    "HeteroscedasticGP": lambda: regression(HeteroscedasticGP(GP(RBF(), 0.0), GP(RBF(), -2.0))),
    "Independent": lambda: Case(
        Independent([GP(RBF(1.0, 1.0), noise=0.5), GP(RBF(2.0, 1.0), 0.0, 0.5)]),
        (X, np.column_stack([Y, X[:, 0] - Y])),
        (QUERIES,),
    ),
    "MultiGP": lambda: Case(MultiGP(RBF(), outputs=2), (X, np.column_stack([Y, X[:, 0] - Y])), (QUERIES,)),
    "StateSpaceGP": lambda: Case(StateSpaceGP(GP(Matern32(), noise=0.1)), (X[:, :1], Y), (QUERIES[:, :1],)),
    "InducingGP": lambda: regression(InducingGP(GP(RBF(), noise=0.1), Inducing(8), X[:8])),
    "FourierGP": lambda: regression(waves()),
    "NeighboursGP": lambda: regression(NeighboursGP(GP(RBF(), noise=0.1), Neighbours(23, 24))),
    "LocalGP": lambda: regression(LocalGP(GP(RBF(), noise=0.1), Local(0.01, k=23))),
    "RandomFeaturesGP": lambda: regression(RandomFeaturesGP(GP(RBF(), noise=0.1), RandomFeatures(10))),
    "SKIGP": lambda: regression(gridded()),
    "Terrain": lambda: Case(
        credo.Terrain(0.5, Matern32(1.0, 1.0), mean=0.1, noise=0.2), (np.column_stack([X, Y]),), (QUERIES,)
    ),
    "HMM": lambda: Case(
        credo.HMM(2, Gaussian(np.ones((2, 1)), mean=[-1.0, 1.0]), [0.4, 0.6], [[0.9, 0.1], [0.2, 0.8]]), (Y,)
    ),
    "LDS": lambda: Case(
        credo.LDS([[0.9, 0.1], [0.0, 0.8]], np.eye(2), [[1.0, 0.5]], [[0.3]], np.zeros(2), 9 * np.eye(2)), (Y,)
    ),
    "FactorAnalysis": lambda: Case(
        credo.FactorAnalysis(mean=[0.1, 0.2, 0.0], w=[[1.0], [-0.5], [0.3]], noise=[0.5, 1.0, 0.8]), (THREE,)
    ),
    "PPCA": lambda: Case(credo.PPCA(mean=[0.1, 0.2, 0.0], w=[[1.0], [-0.5], [0.3]], noise=0.7), (THREE,)),
    "InputHMM": driven,
    "Mixture, factor analysers": analysers,
    "Mixture": lambda: Case(
        credo.Mixture(2, Gaussian(np.stack([np.eye(2), [[1, 0.5], [0.5, 2]]]), mean=[[-1, 0], [1, 1]]), [0.4, 0.6]),
        (X,),
        (np.column_stack([QUERIES[:, 0], np.full(4, np.nan)]),),
    ),
    "Experts": lambda: regression(
        credo.Experts(
            2,
            experts=Regression(2, np.ones((2, 1)), weights=[[[1.0, 0.0]], [[0.0, 1.0]]], bias=[[0.0], [1.0]]),
            gate_weights=[[0.2], [1.0], [-1.0]],
        )
    ),
    "Experts, counts": lambda: Case(
        credo.Experts(
            2,
            experts=GeneralizedRegression(Poisson(), weights=[[0.3, 0.2, 0.0], [-0.1, 0.0, 0.4]]),
            gate_weights=[[0.2], [1.0], [-1.0]],
        ),
        (X, np.arange(24) % 5),
        (QUERIES,),
    ),
    "Network": lambda: Case(small_network(), ({"alarm": "yes", "x": 0.7},), ("kind",)),
    "Network, numbers": lambda: Case(small_network(), ({"alarm": [0.2, 0.9], "x": 0.7},), ("y",)),
    "NormalInverseWishart": lambda: Case(credo.NormalInverseWishart(jnp.zeros(2), 1.0, 4.0, jnp.eye(2)), (X,)),
}


NOT_BY_ROWS = {
    *("Linear, Student-t", "Linear, Laplace", "Logistic", "Softmax", "PoissonRegression"),
    *("HierarchicalBernoulli", "Neural", "Neural, last layer", "Network", "Network, numbers"),
}
"""Evidence by name, which has no rows; networks, trained anew on all rows; Laplace approximations, whose halves are not
the whole; and rows that are populations, which all must be there."""
ITERATED = {"LatentGP": 1e-5}
"""The sites of the second half start from those of the first, and both settle to 1e-6 standard deviations of f."""


DEAR = {"HierarchicalBernoulli"}
"""Its quadrature takes long to compile."""


@pytest.fixture(params=[pytest.param(n, marks=pytest.mark.slow if n in DEAR else ()) for n in BELIEFS])
def case(request) -> Case:
    return BELIEFS[request.param]()


def rows(case: Case, part: slice) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(d[part] for d in case.data), {k: v[part] for k, v in case.options.items()}


def summary(prediction: credo.Predictive) -> list[np.ndarray]:
    return [np.asarray(v) for v in (prediction.mean, prediction.aleatoric, prediction.epistemic)]


def test_jit_vmap_and_grad_agree_with_eager(case):
    """In one compiled program: prediction, and the evidence of two copies at once with its gradient."""
    statistics = case.belief.statistics(*case.data, **case.options)
    slots = params.layout(case.belief)

    @eqx.filter_jit
    def compiled(belief, statistics, u):
        def evidence(v):
            return params.from_vector(belief, slots, v).evidence_of(statistics)

        prediction = belief.condition_on(statistics).predict(*case.query, **case.asked)
        return prediction, jax.vmap(jax.value_and_grad(evidence))(u)

    u = jnp.asarray(params.to_vector(case.belief, slots))
    prediction, (both, slope) = compiled(case.belief, statistics, jnp.stack([u, u]))
    eager = case.belief.condition_on(statistics).predict(*case.query, **case.asked)
    wanted = float(case.belief.evidence_of(statistics))
    for a, b in zip(summary(eager), summary(prediction), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(both, [wanted] * 2, rtol=1e-9)
    np.testing.assert_allclose(case.belief.log_evidence(*case.data, **case.options), wanted, rtol=1e-9)
    assert np.all(np.isfinite(slope))


def test_numbers_that_are_known_are_numpys(case):
    """Nothing of JAX reaches the user, and so nothing is compiled when it is looked at."""
    after = case.belief.condition(*case.data, **case.options)
    prediction = after.predict(*case.query, **case.asked)
    answers = [*summary(prediction), prediction.std, prediction.log_prob(prediction.median), prediction.cdf(0.0)]
    found = [leaf for leaf in jax.tree.leaves((after, prediction, answers)) if isinstance(leaf, jax.Array)]
    assert not found


def test_a_file_brings_it_back(case, tmp_path):
    after = case.belief.condition(*case.data, **case.options)
    again = credo.load(credo.save(after, tmp_path / "belief"))
    assert eqx.tree_equal(after, again)
    for a, b in zip(
        summary(after.predict(*case.query, **case.asked)),
        summary(again.predict(*case.query, **case.asked)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_doubt_is_noise_plus_ignorance(case):
    for belief in (case.belief, case.belief.condition(*case.data, **case.options)):
        p = belief.predict(*case.query, **case.asked)
        np.testing.assert_allclose(p.total, p.aleatoric + p.epistemic, rtol=1e-10)
        assert np.all(np.asarray(p.aleatoric) >= 0) and np.all(np.asarray(p.epistemic) >= -1e-12)
        same = (
            p.entropy()
            if isinstance(p, credo.core.predictive.Categorical | credo.core.predictive.Bernoulli)
            else p.variance
        )
        np.testing.assert_allclose(p.total, same, rtol=1e-10)


def test_data_lessen_ignorance_on_average(case):
    if isinstance(case.belief, credo.HMM | InputHMM):
        pytest.skip("what is known of a state that moves on does not add up")
    if isinstance(case.belief, credo.FactorAnalysis | credo.PPCA | credo.Mixture | credo.Experts | credo.Network):
        pytest.skip("its parameters are taken as known: what it predicts is noise")
    before, after = (
        case.belief.predict(*case.query, **case.asked),
        case.belief.condition(*case.data, **case.options).predict(*case.query, **case.asked),
    )
    assert np.mean(after.epistemic) < np.mean(before.epistemic)


def test_conditioning_leaves_the_belief_alone(case):
    leaves = [np.array(leaf) for leaf in jax.tree.leaves(case.belief) if eqx.is_array(leaf)]
    case.belief.condition(*case.data, **case.options)
    for leaf, before in zip([v for v in jax.tree.leaves(case.belief) if eqx.is_array(v)], leaves, strict=True):
        np.testing.assert_array_equal(leaf, before)
    with pytest.raises((AttributeError, TypeError)):
        case.belief.new_attribute = 1


@pytest.mark.parametrize("name", [n for n in BELIEFS if n not in NOT_BY_ROWS])
def test_two_halves_are_the_whole(name):
    case = BELIEFS[name]()
    (first, first_options), (second, second_options) = rows(case, slice(0, 12)), rows(case, slice(12, None))
    middle = case.belief.condition(*first, **first_options)
    end = middle.condition(*second, **second_options)
    whole = case.belief.condition(*case.data, **case.options)
    for a, b in zip(
        summary(whole.predict(*case.query, **case.asked)), summary(end.predict(*case.query, **case.asked)), strict=True
    ):
        np.testing.assert_allclose(b, a, rtol=ITERATED.get(name, 1e-8), atol=1e-12)
    chained = case.belief.log_evidence(*first, **first_options) + middle.log_evidence(*second, **second_options)
    np.testing.assert_allclose(chained, case.belief.log_evidence(*case.data, **case.options), rtol=1e-8)


FOLDED = {
    *("BetaBernoulli", "BetaBinomial", "DirichletCategorical", "DirichletMultinomial", "GammaPoisson"),
    *("NormalKnownVariance", "NormalInverseGamma", "NormalInverseWishart", "Averaged"),
}
"""Beliefs whose prior is changed by data: there is no way back."""


@pytest.mark.parametrize("name", [n for n in BELIEFS if n not in {"Linear, function space", "LinearDraws"}])
def test_unconditioned_is_the_belief_before_the_data(name):
    case = BELIEFS[name]()
    after = case.belief.condition(*case.data, **case.options)
    if name in FOLDED:
        with pytest.raises(credo.errors.DataError, match="keep the prior to go back to it"):
            after.unconditioned()
        return
    before = after.unconditioned()
    np.testing.assert_allclose(
        before.log_evidence(*case.data, **case.options),
        case.belief.unconditioned().log_evidence(*case.data, **case.options),
        rtol=1e-9,
    )


@pytest.mark.usefixtures("unchecked")
def test_learning_does_not_lower_the_evidence(case):
    if not params.learnable(case.belief) or isinstance(case.belief, credo.Averaged):
        pytest.skip("nothing to learn, or weights that learning leaves alone")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", credo.errors.NotConvergedWarning)
        options = {"using": credo.infer.Evidence(starts=1), "priors": False, "report": True}  # the evidence alone
        report = credo.learn(case.belief, *case.data, **options, **case.options)
    prepared, statistics = case.belief.prepare(*case.data, **case.options)
    assert report.log_evidence >= float(prepared.log_evidence_of(statistics)) - 1e-8
    # The states of an LDS have no basis of their own; the noise of a factor analyser has no maximum without a prior.
    free = isinstance(case.belief, credo.LDS) or isinstance(getattr(case.belief, "density", None), FactorAnalyser)
    assert report.status == "converged" or free
