"""A normal law of the unconstrained numbers: what is known of it in closed form is not drawn."""

import numpy as np
import scipy.stats as st
from scipy.special import expit

from credo.core.params import Constraint
from credo.infer.posterior import NormalApproximation
from credo.infer.target import ParameterSpace

TREE = {"free": np.zeros(2), "scale": np.ones(()), "share": np.full((), 0.5), "weights": np.full(3, 1 / 3)}
CONSTRAINTS = {"scale": "positive", "share": "unit_interval", "weights": "simplex"}
CENTER = np.array([1.0, -2.0, 0.3, 0.7, 0.1, -0.2])


def posterior() -> NormalApproximation:
    space = ParameterSpace.of(TREE, {path: Constraint(kind) for path, kind in CONSTRAINTS.items()})
    root = np.linalg.cholesky(np.diag([1.0, 4.0, 0.25, 2.25, 0.3, 0.2]) + 0.1)
    return NormalApproximation(space, CENTER, root, np.zeros(()))


def test_moments_and_quantiles_are_those_of_the_law():
    law = posterior()
    sd = np.sqrt(np.diag(law.covariance))
    np.testing.assert_allclose(law.mean["free"], CENTER[:2], rtol=1e-14)
    np.testing.assert_allclose(law.std["free"], sd[:2], rtol=1e-14)
    np.testing.assert_allclose(law.quantile(0.9)["free"], st.norm.ppf(0.9, CENTER[:2], sd[:2]), rtol=1e-12)
    scale = st.lognorm(sd[2], scale=np.exp(CENTER[2]))
    np.testing.assert_allclose([law.mean["scale"], law.std["scale"]], [scale.mean(), scale.std()], rtol=1e-12)
    np.testing.assert_allclose(law.quantile([0.05, 0.95])["scale"], scale.ppf([0.05, 0.95]), rtol=1e-12)
    share = st.norm(CENTER[3], sd[3])
    mean = share.expect(expit, epsabs=1e-12)
    spread = np.sqrt(share.expect(lambda u: (expit(u) - mean) ** 2, epsabs=1e-12))
    np.testing.assert_allclose([law.mean["share"], law.std["share"]], [mean, spread], rtol=1e-5)
    np.testing.assert_allclose(law.quantile(0.3)["share"], expit(share.ppf(0.3)), rtol=1e-12)


def test_what_mixes_coordinates_is_drawn():
    law = posterior()
    assert law.mean["weights"].shape == law.std["weights"].shape == (3,)
    np.testing.assert_allclose(law.mean["weights"].sum(), 1.0, rtol=1e-12)
    draws = law.sample(20_000)["weights"]
    se = draws.std(0) / np.sqrt(4000)
    assert np.all(np.abs(law.mean["weights"] - draws.mean(0)) < 4.5 * se)


def test_the_summary_shows_the_law():
    lines = posterior().summary().splitlines()
    assert lines[1].split()[0] == "free[0]" and lines[1].split()[1] == "1"
