"""Log densities that several benchmarks sample, as a user would write them."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy import stats


def eight_schools(p: Any, y: Any, sigma: Any) -> Any:
    """Rubin (1981), not centered: θ = μ + τz."""
    theta = p["mu"] + p["tau"] * p["z"]
    prior = stats.norm.logpdf(p["z"]).sum() + stats.norm.logpdf(p["mu"], 0, 5) + stats.cauchy.logpdf(p["tau"], 0, 5)
    return prior + stats.norm.logpdf(y, theta, sigma).sum()


def kid_score(p: Any, x: Any, y: Any) -> Any:
    """A linear model with flat weights."""
    likelihood = stats.norm.logpdf(y, x @ p["beta"], p["sigma"]).sum()
    return likelihood + stats.cauchy.logpdf(p["sigma"], 0, 2.5)


def logistic(p: Any, x: Any, y: Any) -> Any:
    """Logistic regression under w ~ N(0, I)."""
    eta = x @ p
    return jnp.sum(y * eta - jax.nn.softplus(eta)) - 0.5 * jnp.sum(jnp.square(p))
