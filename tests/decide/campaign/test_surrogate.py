"""What a campaign believes of success: the sites of a latent Gaussian process as rows of one."""

import numpy as np

from credo.decide.acquisition.improvement import Feasibility
from credo.decide.campaign.surrogate import learn_success
from credo.models.gp import LatentGP
from credo.models.likelihoods import Probit


def test_the_probability_of_success_is_that_of_a_latent_gp():
    rng = np.random.default_rng(0)
    x = rng.random((20, 2))
    ok = x[:, 0] + 0.1 * rng.normal(size=20) < 0.6
    found = learn_success(x, ok)
    chance = Feasibility(found.belief, np.asarray(found.standard(0.5)), at_most=False, with_noise=True)
    queries = np.array([[0.1, 0.5], [0.65, 0.5], [0.95, 0.5]])
    latent = LatentGP(Probit((0, 1)), found.belief.kernel, found.belief.mean).condition(x, ok.astype(int))
    want = np.asarray(latent.predict(queries).probs)[:, 1]
    np.testing.assert_allclose(np.exp(chance.climb(found.belief, queries)), want, atol=1e-3)
    again = learn_success(x, ok, found.hyper)  # climbed on from there
    np.testing.assert_allclose(again.lengthscales, found.lengthscales, rtol=0.2)
