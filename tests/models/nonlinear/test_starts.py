"""A start whose mean is a function of the first inputs: the linear system is the oracle."""

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.errors import DataError
from credo.models.lds import LDS
from credo.models.nonlinear import Extended, Particles, Unscented

LINEAR = LDS([[0.8]], [[0.3]], [[1.0]], [[0.2]], [1.0], [[0.5]], control=[[0.4]], start_control=[[2.0]])
U = [np.random.default_rng(i).normal(size=(n, 1)) for i, n in enumerate((5, 9, 3))]
X = [np.asarray(LINEAR.simulate(len(u), seed=i, inputs=u)[1]) for i, u in enumerate(U)]


def model(start=lambda u: 1 + 2 * u, **options):
    return credo.StateSpaceModel(lambda z, u: 0.8 * z + 0.4 * u, lambda z, u: z[0], 0.3, 0.2, start, 0.5, **options)


@pytest.mark.parametrize("method", [Extended(), Unscented()], ids=["extended", "unscented"])
def test_each_sequence_begins_where_its_inputs_say(method):
    ssm = model(using=method)
    assert float(ssm.log_evidence(X, inputs=U)) == pytest.approx(float(LINEAR.log_evidence(X, inputs=U)), rel=1e-9)
    for one in ("filter", "smooth"):
        found, want = (getattr(each, one)(X[0], inputs=U[0]) for each in (ssm, LINEAR))
        np.testing.assert_allclose(found.mean, want.mean, atol=1e-9)
    ahead = np.array([[1.0], [0.0]])
    np.testing.assert_allclose(ssm.predict(2, inputs=ahead).mean, [3.0, 2.4])
    np.testing.assert_allclose(
        ssm.condition(X[0], inputs=U[0]).predict(1, inputs=[[1.0]]).mean,
        LINEAR.condition(X[0], inputs=U[0]).predict(1, inputs=[[1.0]]).mean,
    )


def test_particles_are_drawn_there():
    ssm = model(using=Particles(4000))
    exact = float(LINEAR.log_evidence(X[0], inputs=U[0]))
    assert float(ssm.log_evidence(X[0], inputs=U[0])) == pytest.approx(exact, abs=0.1)
    assert ssm.predict(1, inputs=[[1.0]]).mean[0] == pytest.approx(3.0, abs=4.5 * np.sqrt(0.5 / 4000))
    states, _ = ssm.simulate(1, inputs=[[100.0]])
    assert abs(states[0, 0] - 201) < 5


def test_refusals():
    with pytest.raises(DataError, match="found none; pass inputs="):
        model().filter(X[0])
    with pytest.raises(DataError, match="start_mean\\(u\\) must return a state of shape \\(1,\\)"):
        model(lambda u: jnp.array([1.0, 2.0])).filter(X[0], inputs=U[0])
