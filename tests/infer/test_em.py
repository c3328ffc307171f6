"""EM as a method, on two small models with hidden variables that are written here."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.scipy import special
from jaxtyping import Array, Float

import credo
from credo.core.abilities import HasExpectations
from credo.core.belief import Belief
from credo.core.params import real, simplex, unit_interval
from credo.core.predictive import Normal
from credo.errors import DataError, NotConverged, NotMonotone
from credo.infer import em
from credo.infer.em import EM


class Profiles(Belief, HasExpectations):
    """p(x) = Σₖ wₖ Πⱼ pₖⱼ^xⱼ (1 - pₖⱼ)^(1-xⱼ), pₖⱼ ~ Beta(1 + prior, 1 + prior)."""

    weights: Float[Array, " k"] = simplex()
    probs: Float[Array, "k d"] = unit_interval()
    prior: float = eqx.field(static=True, default=0.0)
    given: bool = eqx.field(static=True, default=False)
    broken: bool = eqx.field(static=True, default=False)

    def statistics(self, x):
        return jnp.asarray(x, float)

    def condition_on(self, statistics):
        return self

    def predict(self):
        return Normal(self.weights, self.weights, self.weights)

    def _joint(self, x):
        each = special.xlogy(x[:, None], self.probs) + special.xlog1py(1 - x[:, None], -self.probs)
        return jnp.log(self.weights) + jnp.sum(each, axis=-1)

    def evidence_of(self, statistics):
        return jnp.sum(special.logsumexp(self._joint(statistics), axis=1))

    def expect(self, statistics):
        joint = self._joint(statistics)
        share = jax.nn.softmax(joint, axis=1)
        return (share.sum(0), share.T @ statistics), jnp.sum(special.logsumexp(joint, axis=1))

    def maximize(self, expected, fixed):
        n, ones = expected
        if self.broken:
            ones = 0.5 * ones
        probs = (ones + self.prior) / (n[:, None] + 2 * self.prior)
        return Profiles(n / n.sum(), probs, self.prior, self.given, self.broken)

    def log_prior_of_parameters(self):
        return jnp.sum(special.xlogy(self.prior, self.probs) + special.xlog1py(self.prior, -self.probs))

    def restart(self, statistics, seed):
        if self.given:
            return None
        probs = np.random.default_rng(seed).uniform(0.2, 0.8, self.probs.shape)
        return eqx.tree_at(lambda b: b.probs, self, jnp.asarray(probs))


class Shifted(Belief, HasExpectations):
    """x = μ + z + noise with z ~ N(0, 1) hidden and noise ~ N(0, ¼); EM of μ converges by a factor of 4/5."""

    mean: Float[Array, ""] = real(0.0)

    def statistics(self, x):
        return jnp.asarray(x, float)

    def condition_on(self, statistics):
        return self

    def predict(self):
        return Normal(self.mean, 1.0, 0.0)

    def evidence_of(self, statistics):
        return jnp.sum(jax.scipy.stats.norm.logpdf(statistics, self.mean, jnp.sqrt(1.25)))

    def expect(self, statistics):
        z = (statistics - self.mean) / 1.25
        return jnp.mean(statistics - z), self.evidence_of(statistics)

    def maximize(self, expected, fixed):
        return Shifted(expected)

    def log_prior_of_parameters(self):
        return jnp.zeros(())

    def restart(self, statistics, seed):
        return None


def start(seed: int = 0, **options: Any) -> Profiles:
    probs = np.random.default_rng(seed).uniform(0.3, 0.7, (2, 5))
    return Profiles(jnp.full(2, 0.5), jnp.asarray(probs), **options)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    rng = np.random.default_rng(1)
    probs = np.array([[0.8, 0.7, 0.6, 0.3, 0.2], [0.3, 0.4, 0.5, 0.6, 0.7]])
    return (rng.uniform(size=(120, 5)) < probs[rng.integers(0, 2, 120)]).astype(float)


def test_the_gaussian_mean_is_the_average():
    x = np.random.default_rng(0).normal(3.0, 1.0, 50)
    for accelerate in (False, True):
        learned = credo.learn(Shifted(), x, using=EM(tolerance=1e-14, accelerate=accelerate), report=True)
        assert learned.status == "converged"
        np.testing.assert_allclose(learned.belief.mean, x.mean(), rtol=1e-6)
        np.testing.assert_allclose(learned.log_evidence, learned.belief.log_evidence(x), rtol=1e-12)


def test_a_linear_step_is_extrapolated_to_its_end():
    # The error shrinks by 1/5 or so a step: one extrapolation finds the fixed point of a linear map exactly.
    x = np.random.default_rng(0).normal(3.0, 1.0, 50)
    found = EM(tolerance=1e-12).climb(Shifted(), Shifted().statistics(x))
    assert found.steps <= 5
    np.testing.assert_allclose(found.belief.mean, x.mean(), rtol=1e-10)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), accelerate=st.booleans(), prior=st.sampled_from([0.0, 1.5]))
def test_the_objective_never_falls(x, seed, accelerate, prior):
    belief = start(seed, prior=prior)
    found = EM(accelerate=accelerate, max_steps=60).climb(belief, belief.statistics(x))
    assert np.all(np.diff(found.objectives) >= 0)
    end = found.belief.evidence_of(belief.statistics(x)) + found.belief.log_prior_of_parameters()
    np.testing.assert_allclose(found.objective, end, rtol=1e-10)


def test_the_end_is_a_maximum_as_the_gradient_finds_it(x):
    by_em = credo.learn(start(), x, using=EM(tolerance=1e-12, max_steps=2000), report=True)
    by_gradient = credo.infer.Evidence(starts=1).learn(by_em.belief, jnp.asarray(x), [], {}, 0)
    np.testing.assert_allclose(by_gradient.log_evidence, by_em.log_evidence, rtol=1e-8)
    assert by_em.log_evidence == by_em.optima[0].log_evidence >= by_em.optima[-1].log_evidence
    assert len(by_em.notes) == 4 and "start 4 of 4" in by_em.notes[3]


def test_acceleration_takes_fewer_steps(x):
    belief = start()
    plain, fast = (
        EM(accelerate=accelerate, tolerance=1e-10, max_steps=5000).climb(belief, belief.statistics(x))
        for accelerate in (False, True)
    )
    assert plain.status == fast.status == "converged"
    assert fast.steps < 0.5 * plain.steps
    assert fast.objective > plain.objective - 1e-4


def test_ten_and_ten_steps_are_twenty(x):
    belief = start()
    data = belief.statistics(x)
    ten, twenty = (EM(starts=1, max_steps=n, accelerate=False, tolerance=0.0) for n in (10, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        half = credo.learn(belief, x, using=ten, report=True)
        again = credo.learn(half.belief, x, using=ten, report=True)
    assert half.status == "stopped"
    whole = twenty.climb(belief, data)
    assert whole.steps == 20 and len(whole.objectives) == 21
    np.testing.assert_array_equal(again.belief.probs, whole.belief.probs)
    assert again.log_evidence == whole.objective
    assert half.log_evidence == whole.objectives[10]


def test_a_broken_step_is_reported(x):
    with pytest.raises(NotMonotone, match="lowered log likelihood .* has a bug"):
        credo.learn(start(broken=True), x, using=EM(starts=1))


def test_what_is_fixed_stays(x):
    belief = eqx.tree_at(lambda b: b.weights, start(), jnp.asarray([0.3, 0.7]))
    learned = credo.learn(belief, x, using=EM(starts=3), fixed=["weights"], report=True)
    np.testing.assert_array_equal(learned.belief.weights, [0.3, 0.7])
    assert all(set(o.values) == {"probs"} for o in learned.optima)
    assert not np.allclose(learned.belief.probs, belief.probs)


def test_a_prior_keeps_probabilities_inside(x):
    learned = credo.learn(start(prior=2.0), x[:6], using=EM(), report=True)
    assert np.all((learned.belief.probs > 0.05) & (learned.belief.probs < 0.95))
    # Without it the probabilities of six rows end at 0 and 1, where the unconstrained vector is infinite.
    bare = credo.learn(start(), x[:6], using=EM(), report=True)
    assert bare.status == "converged" and np.isfinite(bare.log_evidence)


def test_one_program_serves_all_steps_and_starts(x):
    belief = start(seed=3)
    credo.learn(belief, x, using=EM())
    traces = []

    class Counting(Profiles):
        def maximize(self, expected, fixed):
            traces.append(1)
            following = super().maximize(expected, fixed)
            return Counting(following.weights, following.probs)

    credo.learn(Counting(belief.weights, belief.probs), x, using=EM())
    assert len(traces) == 1


def test_progress_reaches_the_user(x):
    seen: list[float] = []
    credo.learn(start(), x, using=EM(starts=2, progress=lambda share, text: seen.append(share)))
    assert seen == sorted(seen) and seen[0] > 0 and seen[-1] <= 1
    one = credo.learn(start(given=True), x, using=EM(starts=3), report=True)
    assert len(one.notes) == 1 and one.notes[0].startswith("EM: converged after")


def test_refusals(x):
    with pytest.raises(DataError, match="needs hidden variables with closed-form expectations"):
        credo.learn(credo.Linear(), np.ones((4, 1)) * np.arange(4)[:, None], np.arange(4.0), using=EM())
    with pytest.raises(DataError, match="the model's own priors"):
        credo.learn(start(), x, using=EM(), priors={"probs": credo.infer.priors.LogNormal(0.5)})
    with pytest.raises(DataError, match="starts must be"):
        credo.learn(start(), x, using=EM(starts=0))
    with pytest.raises(DataError, match="tolerance"):
        credo.learn(start(), x, using=EM(tolerance=-1.0))
    impossible = eqx.tree_at(lambda b: b.probs, start(given=True), jnp.zeros((2, 5)))
    with pytest.raises(NotConverged, match="not finite"):
        credo.learn(impossible, x, using=EM())
    assert em.ROUNDING < 1e-6
