"""NUTS beside NumPyro and blackjax: the least bulk ESS over the numbers, per second of the whole run.

Four chains of 1000 + 1000 steps each. Everyone samples the same log density of the same unconstrained vector, with the
chains vectorized for the peers (on both cores where "on cores" is said) and credo's defaults for credo.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

from benchmarks.densities import eight_schools, kid_score, logistic
from benchmarks.harness import Count, Rate, compilations
from credo.infer import NUTS
from credo.infer.target import ParameterSpace, Target

TITLE = "Markov chain Monte Carlo"
CHAINS, DRAWS, WARMUP = 4, 1000, 1000


# -- targets ---------------------------------------------------------------------------------------------------------


def process(p: Any, x: Any, y: Any) -> Any:
    """As a user would write it: a Cholesky factor in JAX."""
    r = jnp.sqrt(jnp.sum(jnp.square((x[:, None] - x[None]) / p["length"]), -1) * 5.0 + 1e-12)
    k = p["variance"] * (1 + r + r**2 / 3) * jnp.exp(-r) + p["noise"] * jnp.eye(len(y))
    root = jnp.linalg.cholesky(k)
    z = jax.scipy.linalg.solve_triangular(root, y, lower=True)
    prior = sum(stats.norm.logpdf(jnp.log(v), 0, 1).sum() - jnp.log(v).sum() for v in p.values())
    return prior - 0.5 * z @ z - jnp.log(jnp.diagonal(root)).sum()


@cache
def target(name: str) -> Target:
    rng = np.random.default_rng(0)
    if name == "eight schools":
        y, sigma = [28.0, 8, -3, 7, -1, 1, 18, 12], [15.0, 10, 16, 11, 9, 11, 10, 18]
        space = ParameterSpace.of({"mu": 0.0, "tau": 1.0, "z": np.zeros(8)}, {"tau": "positive"})
        return Target(space, eight_schools, (jnp.asarray(y), jnp.asarray(sigma)))
    if name == "logistic":
        x = rng.normal(size=(1000, 25))
        y = (rng.uniform(size=1000) < 1 / (1 + np.exp(-x @ rng.normal(size=25) * 0.5))).astype(float)
        return Target(ParameterSpace.of(np.zeros(25)), logistic, (jnp.asarray(x), jnp.asarray(y)))
    if name == "kid scores":  # as published: high school, IQ and their product, not centered
        school, iq = (rng.uniform(size=434) < 0.8).astype(float), rng.normal(100, 15, size=434)
        x = np.column_stack([np.ones(434), school, iq, school * iq])
        y = x @ [-11.0, 51.0, 0.97, -0.48] + rng.normal(0, 18, size=434)
        space = ParameterSpace.of({"beta": np.zeros(4), "sigma": 10.0}, {"sigma": "positive"})
        return Target(space, kid_score, (jnp.asarray(x), jnp.asarray(y)))
    x = rng.normal(size=(40, 2))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=40)
    space = ParameterSpace.of(
        {"length": np.ones(2), "variance": 1.0, "noise": 0.1},
        {"length": "positive", "variance": "positive", "noise": "positive"},
    )
    return Target(space, process, (jnp.asarray(x), jnp.asarray(y)))


def least_ess(chains: Any) -> float:
    from blackjax.diagnostics import ess_bulk

    return float(np.min(np.asarray(ess_bulk(jnp.asarray(chains)))))


# -- contestants -----------------------------------------------------------------------------------------------------


def credo(name: str, seed: int) -> Any:
    return np.asarray(NUTS().run(target(name), seed).chains)


def credo_gp(seed: int) -> Any:
    """The same problem as a belief: `fit(GP, …, using=NUTS())` samples this target."""
    from numpyro.distributions import LogNormal

    import credo as library
    from credo.infer.hyper import hyper_target
    from credo.kernels import Matern52
    from credo.models.gp import Zero

    x, y = target("process").data
    gp, rows = library.GP(Matern52(jnp.ones(2)), Zero(), 0.1).prepare(np.asarray(x), np.asarray(y))
    priors = {path: LogNormal(0.0, 1.0) for path in ("kernel.lengthscale", "kernel.variance", "noise")}
    return np.asarray(NUTS().run(hyper_target(gp, rows, (), priors), seed).chains)


@cache
def numpyro_sampler(name: str, dense: bool) -> Any:
    from numpyro.infer import MCMC
    from numpyro.infer import NUTS as Peer

    density = target(name)
    kernel = Peer(potential_fn=lambda u: -density(u), dense_mass=dense)
    return MCMC(
        kernel, num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False, jit_model_args=True,
    )  # fmt: skip


def starts(name: str, seed: int) -> Any:
    u = target(name).space.start()
    return jnp.asarray(u + 0.5 * np.random.default_rng(seed).normal(size=(CHAINS, len(u))))


def numpyro(name: str, dense: bool, seed: int) -> Any:
    sampler = numpyro_sampler(name, dense)
    sampler.run(jax.random.PRNGKey(seed), init_params=starts(name, seed))
    return np.asarray(sampler.get_samples(group_by_chain=True))


@cache
def blackjax_program(name: str, dense: bool) -> Callable[..., Any]:
    import blackjax

    density = target(name)

    def chain(key: Any, u: Any) -> Any:
        k_warm, k_draw = jax.random.split(key)
        warmup = blackjax.window_adaptation(blackjax.nuts, density, is_mass_matrix_diagonal=not dense)
        (state, parameters), _ = warmup.run(k_warm, u, WARMUP)
        kernel = blackjax.nuts(density, **parameters).step

        def step(state: Any, key: Any) -> Any:
            state, _ = kernel(key, state)
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(k_draw, DRAWS))[1]

    return jax.jit(jax.vmap(chain))


def blackjax(name: str, dense: bool, seed: int) -> Any:
    keys = jax.random.split(jax.random.PRNGKey(seed), CHAINS)
    return np.asarray(blackjax_program(name, dense)(keys, starts(name, seed)))


def blackjax_on_cores(name: str, dense: bool, seed: int) -> Any:
    """An expert's way: half of the chains in each of two threads."""
    from concurrent.futures import ThreadPoolExecutor

    keys, places = jax.random.split(jax.random.PRNGKey(seed), CHAINS), starts(name, seed)
    program, half = blackjax_program(name, dense), CHAINS // 2
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(
            lambda i: np.asarray(program(keys[i : i + half], places[i : i + half])), range(0, CHAINS, half)
        )
        return np.concatenate(list(parts))


def contest(name: str, title: str) -> Rate:
    peers: dict[str, Callable[[int], Any]] = {"credo": partial(credo, name)}
    for label, dense in (("", False), (", dense", True)):
        peers[f"NumPyro{label}"] = partial(numpyro, name, dense)
        peers[f"blackjax{label}"] = partial(blackjax, name, dense)
        peers[f"blackjax{label}, on cores"] = partial(blackjax_on_cores, name, dense)
    return Rate(f"NUTS, {title}", peers, least_ess, "least bulk ESS", repeats=6)


def recompiled() -> int:
    """Programs that a second run with new data of the same shapes compiles."""
    first = target("logistic")
    NUTS().run(first, 0)
    x, y = first.data
    other = Target(first.space, first.function, (x + 0.1, y))
    with compilations() as compiled:
        NUTS().run(other, 1)
    return len(compiled)


TASKS = [
    contest("eight schools", "eight schools"),
    contest("logistic", "logistic regression, n = 1000, d = 25"),
    contest("kid scores", "kid scores with an interaction"),
    Rate(
        "NUTS over GP hyperparameters, n = 40",
        {
            "credo, the belief": credo_gp,
            "NumPyro": partial(numpyro, "process", False),
            "blackjax": partial(blackjax, "process", False),
        },
        least_ess,
        "least bulk ESS",
        least=5.0,
    ),
    Count("Compilations of a second run with other data", recompiled, most=0),
]
