"""The extended and unscented Kalman filters: exact where the model is linear, and as written down where it is not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credo.core import params
from credo.errors import DataError, NotPositiveDefinite
from credo.models.nonlinear import Extended, Particles, StateSpaceModel, Unscented
from credo.models.nonlinear.method import check_status

METHODS = [Extended(), Unscented(), Unscented(0.1, 2.0, 0.0)]


@pytest.mark.parametrize("method", METHODS)
def test_a_linear_model_is_filtered_and_smoothed_exactly(linear, data, dense, method):
    x, u = data
    filtered = linear.filter(x, using=method, inputs=u, missing=True)
    smoothed = linear.smooth(x, using=method, inputs=u, missing=True)
    for t in range(len(x)):
        mean, covariance = dense.law(t, t + 1)
        np.testing.assert_allclose(filtered.mean[t], mean, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(filtered.covariance[t], covariance, rtol=1e-8, atol=1e-9)
        mean, covariance = dense.law(t, len(x))
        np.testing.assert_allclose(smoothed.mean[t], mean, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(smoothed.covariance[t], covariance, rtol=1e-8, atol=1e-9)
    total = [0.0] + [dense.given(t + 1)[2] for t in range(len(x))]
    np.testing.assert_allclose(filtered.increments, np.diff(total), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(linear.log_evidence(x, using=method, inputs=u, missing=True), total[-1], rtol=1e-8)
    np.testing.assert_allclose(filtered.std[3], np.sqrt(np.diag(filtered.covariance[3])))


@pytest.mark.parametrize("method", METHODS[:2])
def test_rows_one_by_one_are_all_rows_and_need_no_new_program(data, linear, method):
    x, u = data
    calls = []

    def counted(z, v):
        calls.append(1)
        return linear.step(z, v)

    model = eqx.tree_at(lambda m: m.step, linear, counted)
    options = {"missing": True}
    belief = model.condition(x[:1], using=method, inputs=u[:1], **options)
    compiled = len(calls)
    evidence = [belief.by(method).log_evidence(x[1:4], inputs=u[1:4], **options)]
    for t in range(1, len(x)):
        belief = belief.condition(x[t] if t == 3 else x[t : t + 1], inputs=u[t : t + 1], **options)
        if t == 3:
            evidence.append(belief.log_evidence(x[4:], inputs=u[4:], **options))
    assert len(calls) == compiled
    whole = linear.condition(x, using=method, inputs=u, **options)
    np.testing.assert_allclose(belief.state.mean, whole.state.mean, rtol=1e-10)
    np.testing.assert_allclose(belief.state.covariance, whole.state.covariance, rtol=1e-10)
    total = linear.log_evidence(x, using=method, inputs=u, **options)
    first = linear.log_evidence(x[:1], using=method, inputs=u[:1], **options)
    np.testing.assert_allclose(first + sum(evidence), total, rtol=1e-10)


def test_several_sequences_begin_anew(linear, data):
    x, u = data
    options = {"missing": True}
    both = linear.smooth([x, x[:4]], inputs=[u, u[:4]], **options)
    cut = linear.smooth(np.vstack([x, x[:4]]), inputs=np.concatenate([u, u[:4]]), lengths=[len(x), 4], **options)
    parts = [linear.smooth(x[:t], inputs=u[:t], **options) for t in (len(x), 4)]
    for name in ("mean", "covariance", "increments"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_allclose(getattr(both, name), joined, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(getattr(both, name), getattr(cut, name))


@pytest.mark.parametrize("method", METHODS[:2])
def test_a_single_row_and_rows_where_nothing_was_seen(linear, data, dense, method):
    x, u = data
    single = linear.condition(x[0], using=method, inputs=u[0])
    np.testing.assert_allclose(single.state.mean, dense.law(0, 1)[0], rtol=1e-8)
    nothing = linear.filter(np.full((4, 2), np.nan), using=method, inputs=u[:4], missing=True)
    np.testing.assert_allclose(nothing.increments, 0.0, atol=1e-12)
    for t in range(4):
        np.testing.assert_allclose(nothing.mean[t], dense.law(t, 0)[0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(nothing.covariance[t], dense.law(t, 0)[1], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("method", METHODS[:2])
def test_forecasts_of_a_linear_model_are_exact(linear, data, make_dense, method):
    x, u = data
    known = 6
    unknown = x.copy()
    unknown[known:] = np.nan
    oracle = make_dense(unknown, u)
    mean, covariance, _ = oracle.given(known)
    belief = linear.condition(x[:known], using=method, inputs=u[:known], missing=True)
    ahead = belief.predict(4, inputs=u[known:])
    at = slice(2 * known, None)
    h = np.kron(np.eye(4), np.array([[1.0, 0.0], [0.3, 1.0]]))
    np.testing.assert_allclose(np.ravel(ahead.mean), h @ mean[at] + 0.1 * np.repeat(u[known:], 2), rtol=1e-8)
    np.testing.assert_allclose(np.ravel(ahead.epistemic), np.diag(h @ covariance[at, at] @ h.T), rtol=1e-8)
    np.testing.assert_allclose(ahead.aleatoric, np.tile([0.5, 0.3], (4, 1)))
    prior = linear.by(method).predict(1, inputs=u[:1])
    np.testing.assert_allclose(prior.mean[0], oracle.shown[:2], rtol=1e-10)
    np.testing.assert_allclose(prior.variance[0], np.diag(oracle.s)[:2], rtol=1e-10)


def scalar_filter(x, u, moments):
    """The filter of one number, with `moments` (mean, variance, covariance) of a function of a Gaussian."""
    out = []
    for t in range(len(x)):
        if t == 0:
            m, p = 0.3, 2.0
        else:
            m, p, _ = moments(lambda z, v=u[t]: z / 2 + 5 * z / (1 + z**2) + v, m, p)
            p += 1.5
        y, s, c = moments(lambda z: z**2 / 20 + z / 4, m, p)
        s += 0.5
        m, p = m + c / s * (x[t] - y), p - c**2 / s
        out.append((m, p, -0.5 * ((x[t] - y) ** 2 / s + np.log(2 * np.pi * s))))
    return np.array(out)


def tangent(f, m, p):
    slope = (f(m + 1e-20j)).imag / 1e-20  # the complex step: exact to rounding
    return f(m), slope**2 * p, slope * p


def three_points(f, m, p, square=2.0):
    z = m + np.sqrt(square * p) * np.array([-1.0, 0.0, 1.0])
    w = np.array([0.5, square - 1, 0.5]) / square
    mean = w @ f(z)
    return mean, w @ (f(z) - mean) ** 2, w @ ((z - m) * (f(z) - mean))


@pytest.mark.parametrize(("method", "moments"), [(Extended(), tangent), (Unscented(), three_points)])
def test_a_non_linear_model_follows_the_formulas(growth, grown, method, moments):
    x, u = grown
    want = scalar_filter(x, u, moments)
    found = growth.filter(x, using=method, inputs=u)
    np.testing.assert_allclose(found.mean[:, 0], want[:, 0], rtol=1e-8)
    np.testing.assert_allclose(found.covariance[:, 0, 0], want[:, 1], rtol=1e-8)
    np.testing.assert_allclose(found.increments, want[:, 2], rtol=1e-8)
    belief = growth.condition(x, using=method, inputs=u)
    assert belief.predict(3, inputs=u[:3]).mean.shape == (3,)  # observe returns a number


def test_points_at_the_right_distance_have_the_moments_of_a_square():
    m, p = 0.7, 1.3
    moments = eqx.filter_jit(lambda mean, covariance: Unscented(kappa=2.0).moments(jnp.square, mean, covariance))
    found = moments(jnp.asarray([m]), jnp.asarray([[p]]))
    np.testing.assert_allclose(found.mean[0], m**2 + p, rtol=1e-12)
    np.testing.assert_allclose(found.covariance[0, 0], 2 * p**2 + 4 * m**2 * p, rtol=1e-12)
    np.testing.assert_allclose(found.cross[0, 0], 2 * m * p, rtol=1e-12)


def test_a_known_start_and_states_without_noise(linear, data, make_dense):
    """Singular covariances: z₁ is known, and only one direction of the state is moved by chance."""
    x, u = data
    q = np.outer([0.3, 0.1], [0.3, 0.1])
    model = StateSpaceModel(linear.step, linear.observe, q, linear.observation_noise, [0.5, -1.0], np.zeros((2, 2)))
    found = [model.smooth(x, using=m, inputs=u, missing=True) for m in METHODS[:2]]
    for one in found:
        assert np.all(np.isfinite(one.mean)) and np.all(np.linalg.eigvalsh(one.covariance) > -1e-12)
        np.testing.assert_allclose(one.covariance[0], 0.0, atol=1e-12)
        np.testing.assert_allclose(one.mean[0], [0.5, -1.0], atol=1e-10)
    np.testing.assert_allclose(found[0].mean, found[1].mean, rtol=1e-6, atol=1e-8)


def test_the_evidence_and_its_gradient(growth, grown):
    x, u = grown
    statistics = growth.statistics(x, inputs=u)
    slots = params.layout(growth)
    assert [s.path for s in slots] == ["process_noise", "observation_noise"]
    start = params.to_vector(growth, slots)
    value = eqx.filter_jit(lambda v: params.from_vector(growth, slots, v).evidence_of(statistics))
    np.testing.assert_allclose(value(start), growth.log_evidence(x, inputs=u), rtol=1e-12)
    slope = eqx.filter_jit(jax.grad(value))(start)
    for i in range(len(start)):
        step = 1e-5 * jnp.eye(len(start))[i]
        np.testing.assert_allclose(slope[i], (value(start + step) - value(start - step)) / 2e-5, rtol=1e-5)


def test_the_belief_passes_through_jit(growth, grown):
    x, u = grown
    statistics = growth.statistics(x, inputs=u)
    inside = eqx.filter_jit(lambda b, s: b.condition_on(s))(growth, statistics)
    np.testing.assert_allclose(inside.state.mean, growth.condition(x, inputs=u).state.mean, rtol=1e-10)


def rooted(z, u):
    return jnp.sqrt(z) + 0.0 * u


def test_what_is_not_finite_is_an_error_with_its_row(growth):
    model = StateSpaceModel(rooted, lambda z, u: z[0] / u[0], 0.1, 0.1, 4.0, 0.1)
    x = [2.0, 2.0, 2.0, -90.0, 2.0]
    with pytest.raises(DataError, match="step returned a state that is not finite, on the way to row 4"):
        model.condition(x, inputs=np.ones(5))
    with pytest.raises(DataError, match=r"observe .* is not finite at row 2"):
        model.log_evidence(x, inputs=[1, 1, 0, 1, 1.0])
    assert model.evidence_of(model.statistics(x, inputs=np.ones(5))) == -np.inf
    with pytest.raises(NotPositiveDefinite, match="row 1: observation_noise is singular"):
        check_status(np.array([0, 3, 1]), None)


def test_bad_models_are_refused(linear):
    step, observe = linear.step, linear.observe
    eye = np.eye(2)
    with pytest.raises(DataError, match=r"process_noise must be a covariance .* smallest eigenvalue -1"):
        StateSpaceModel(step, observe, np.diag([1.0, -1.0]), eye, [0, 0], eye)
    with pytest.raises(DataError, match="observation_noise must be symmetric"):
        StateSpaceModel(step, observe, eye, [[1, 0.5], [0, 1]], [0, 0], eye)
    with pytest.raises(DataError, match=r"process_noise must be a matrix of shape \(2, 2\)"):
        StateSpaceModel(step, observe, 1.0, eye, [0, 0], eye)
    with pytest.raises(DataError, match="start_covariance is missing"):
        StateSpaceModel(step, observe, eye, eye, [0, 0])
    with pytest.raises(DataError, match="step and process_noise are missing"):
        StateSpaceModel(step, observe, start_mean=0, start_covariance=1)
    with pytest.raises(DataError, match="observe is missing"):
        StateSpaceModel(step, None, 1.0, 1.0, 0, 1)
    with pytest.raises(DataError, match=r"step must be a function \(z, u\) of one state, found ndarray"):
        StateSpaceModel(eye, observe, eye, eye, [0, 0], eye)
    with pytest.raises(DataError, match="alpha must be a positive number"):
        Unscented(alpha=0)
    with pytest.raises(DataError, match="kappa must be finite"):
        Unscented(kappa=np.inf)


def test_bad_data_are_refused(linear, data):
    x, u = data
    with pytest.raises(DataError, match="pass missing=True to treat NaN as not observed"):
        linear.condition(x, inputs=u)
    with pytest.raises(DataError, match="using must be a method.*takes using=Extended.*Particles.*Unscented"):
        linear.filter(x, using="ekf")
    with pytest.raises(DataError, match="unknown options: input;"):
        linear.condition(x, input=u)
    with pytest.raises(DataError, match="x must have 2 columns, as observe returns, found 3"):
        linear.condition(np.ones((4, 3)), inputs=u[:4])
    with pytest.raises(DataError, match="inputs must have a row for each of the 3 steps, found 10"):
        linear.predict(3, inputs=u)
    with pytest.raises(DataError, match=r"step must return a state of shape \(1,\)"):
        StateSpaceModel(lambda z, u: jnp.ones(2), lambda z, u: z, 1.0, 1.0, 0, 1).condition([1.0])
    with pytest.raises(DataError, match="observation_noise must be square with a row for each outcome"):
        StateSpaceModel(lambda z, u: z, lambda z, u: z, 1.0, np.eye(2), 0, 1).condition([[1.0, 2.0]])
    with pytest.raises(DataError, match="kappa must be greater than minus the 1 numbers"):
        StateSpaceModel(lambda z, u: z, lambda z, u: z, 1.0, 1.0, 0, 1).condition([1.0], using=Unscented(kappa=-1))
    with pytest.raises(DataError, match="smooth is for Extended"):
        linear.smooth(x, using=Particles(10), inputs=u, missing=True)
