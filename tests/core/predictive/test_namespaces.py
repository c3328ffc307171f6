"""Every question to every kind of prediction has one source: NumPy for numbers that are known, JAX for tracers."""

import equinox as eqx
import jax
import numpy as np
import pytest

from credo.core.predictive import (
    Bernoulli,
    BetaBinomial,
    Categorical,
    DirichletMultinomial,
    Laplace,
    LogNormal,
    Mixture,
    MultivariateT,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
    Warped,
    mixture,
)
from credo.core.predictive.expectation import alone, distance, outcome_nodes, shortfall, spread
from credo.core.predictive.lognormal import Logarithm

Y = np.array([1.0, 0.0, 2.0])
QUESTIONS = {
    "mean": lambda p: p.mean,
    "std": lambda p: p.std,
    "aleatoric": lambda p: p.aleatoric,
    "epistemic": lambda p: p.epistemic,
    "total": lambda p: p.total,
    "log_prob": lambda p: p.log_prob(Y),
    "cdf": lambda p: p.cdf(Y),
    "entropy": lambda p: p.entropy(),
    "quantile": lambda p: p.quantile([0.1, 0.5, 0.975]),
    "interval": lambda p: tuple(p.interval(0.8)),
    "some": lambda p: p[[0, 2]].cdf(Y[:2]),
    "one": lambda p: p[1].quantile(0.3),
    "marginal": lambda p: p.marginal().mean,
    "shortfall": lambda p: shortfall(alone(p), Y + 0.5),
    "distance": lambda p: 0.0 if isinstance(p, Categorical) else distance(alone(p), Y),
    "spread": lambda p: spread(alone(p)),
}
MEAN, NOISE, LATENT = np.array([-1.0, 0.5, 3.0]), np.array([0.3, 1.0, 0.5]), np.array([0.2, 2.0, 0.5])
NORMAL, STUDENT = Normal(MEAN, NOISE, LATENT, np.diag(LATENT)), StudentT(MEAN + 4, MEAN, NOISE, LATENT)
WARPED = Warped(Normal(0.1 * MEAN, 0.1 * NOISE, 0.1 * LATENT), Logarithm())
BETA = BetaBinomial([5.0, 12.0, 1.0], NOISE, LATENT, 12)
MATRIX = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.2], [0.1, -0.2, 0.5]])
PREDICTIONS = {
    "normal": NORMAL,
    "student": STUDENT,
    "laplace": Laplace(MEAN, NOISE),
    "lognormal": LogNormal(0.1 * MEAN, NOISE, LATENT),
    "warped": WARPED,
    "multivariate-t": MultivariateT(5.0, MEAN, MATRIX, 0.3 * MATRIX),
    "bernoulli": Bernoulli.certain([0.2, 0.5, 0.9]),
    "categorical": Categorical.average(np.array([0.3, 0.7]), np.random.default_rng(0).dirichlet(np.ones(3), (2, 3))),
    "beta-binomial": BETA,
    "negative-binomial": NegativeBinomial(NOISE, LATENT, NOISE),
    "poisson": Poisson(30 * NOISE),
    "dirichlet-multinomial": DirichletMultinomial(6, NOISE),
    "mixture": mixture([0.2, 0.3, 0.5], [NORMAL, NORMAL, Laplace(MEAN, NOISE)]),
    "mixture-of-warped": mixture([0.3, 0.7], [WARPED, WARPED]),
    "mixture-of-counts": mixture([0.4, 0.6], [BETA, Poisson(NOISE)]),
    "weights-by-query": Mixture(np.array([[0.2, 0.5, 1.0], [0.8, 0.5, 0.0]]), mixture([0.5, 0.5], [NORMAL] * 2).parts),
    "many-counts": Mixture(np.full(21, 1 / 21), (Poisson(np.linspace(0.1, 6, 63).reshape(21, 3)),)),
}


@pytest.fixture
def compiled():
    """The programs that were compiled so far."""
    programs: list[str] = []

    def note(event: str, duration: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            programs.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield programs
    jax.monitoring.unregister_event_duration_listener(note)


@pytest.mark.parametrize("kind", PREDICTIONS)
def test_concrete_predictions_compile_nothing_and_agree_with_traced_ones(kind, compiled):
    p = PREDICTIONS[kind]
    concrete = {name: ask(p) for name, ask in QUESTIONS.items()}
    outcome_nodes(alone(p), 8)
    assert not compiled
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(concrete))
    traced = eqx.filter_jit(lambda q: {name: ask(q) for name, ask in QUESTIONS.items()})(p)
    assert compiled
    for name, got in traced.items():
        np.testing.assert_allclose(got, concrete[name], rtol=1e-9, atol=1e-9, err_msg=name)


def test_draws_are_numpy():
    assert isinstance(PREDICTIONS["mixture"].sample(3), np.ndarray)
