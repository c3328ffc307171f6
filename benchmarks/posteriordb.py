"""Six published posteriors: how far each method's means and standard deviations are from the reference draws.

`python -m benchmarks.posteriordb [--method=NUTS ...] [name ...]`, with the data in $CREDO_DATA (default
../shared/data). An error is in Monte Carlo standard errors of both sides for NUTS, and in posterior standard deviations
for the approximations. The table goes to results/posteriordb.md; NUTS beyond 4.5 standard errors ends with an error.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jax.scipy.special import logsumexp

from benchmarks.densities import eight_schools, kid_score
from benchmarks.harness import RESULTS, machine
from credo.infer import NUTS, Laplace
from credo.infer.target import ParameterSpace, Target
from credo.infer.variational import Variational

DATA = Path(os.environ.get("CREDO_DATA", Path(__file__).parents[2] / "shared" / "data")) / "posteriordb"
MOST = 4.5


class Problem(NamedTuple):
    """A density, where to start, the constraints, and the names that the reference has for θ."""

    log_density: Callable[..., Any]
    init: Callable[[dict[str, Any]], dict[str, Any]]
    constraints: dict[str, str]
    data: Callable[[dict[str, Any]], tuple[Any, ...]]
    reported: Callable[[dict[str, Any]], dict[str, Any]]


def linear(p: Any, x: Any, y: Any) -> Any:
    prior = stats.norm.logpdf(p["beta"], 0, 10).sum() + stats.norm.logpdf(p["sigma"], 0, 10)
    return prior + stats.norm.logpdf(y, x @ p["beta"], p["sigma"]).sum()


def flat_linear(p: Any, x: Any, y: Any) -> Any:
    return stats.norm.logpdf(y, x @ p["beta"], p["sigma"]).sum()


def gaussian_process(p: Any, x: Any, y: Any) -> Any:
    from credo.core.linalg import gaussian_log_evidence

    prior = stats.gamma.logpdf(p["rho"], 25, scale=1 / 4) + stats.norm.logpdf(p["alpha"], 0, 2)
    prior += stats.norm.logpdf(p["sigma"], 0, 1)
    k = p["alpha"] ** 2 * jnp.exp(-0.5 * ((x[:, None] - x[None, :]) / p["rho"]) ** 2)
    return prior + gaussian_log_evidence(k + p["sigma"] * jnp.eye(len(y)), y)


def mixture(p: Any, y: Any) -> Any:
    prior = stats.norm.logpdf(p["mu"], 0, 2).sum() + stats.norm.logpdf(p["sigma"], 0, 2).sum()
    prior += stats.beta.logpdf(p["theta"], 5, 5)
    log_weight = jnp.log(jnp.stack([p["theta"], 1 - p["theta"]]))
    return prior + logsumexp(log_weight + stats.norm.logpdf(y[:, None], p["mu"], p["sigma"]), axis=1).sum()


def design(d: dict[str, Any]) -> tuple[Any, Any]:
    age = np.asarray(d["age_discrete"])
    columns = [np.ones(d["N"]), d["real_ideo"], d["race_adj"], age == 2, age == 3, age == 4]
    columns += [d["educ1"], d["gender"], d["income"]]
    return np.column_stack([np.asarray(c, dtype=float) for c in columns]), np.asarray(d["partyid7"], dtype=float)


def numbered(name: str, values: Any) -> dict[str, Any]:
    return {f"{name}[{i + 1}]": values[:, i] for i in range(values.shape[1])}


PROBLEMS = {
    "eight_schools-eight_schools_noncentered": Problem(
        eight_schools,
        lambda d: {"mu": 0.0, "tau": 1.0, "z": np.zeros(8)},
        {"tau": "positive"},
        lambda d: (np.asarray(d["y"], dtype=float), np.asarray(d["sigma"], dtype=float)),
        lambda v: {
            "mu": v["mu"],
            "tau": v["tau"],
            **numbered("theta", v["mu"][:, None] + v["tau"][:, None] * v["z"]),
        },
    ),
    "kidiq-kidscore_momiq": Problem(
        kid_score,
        lambda d: {"beta": np.zeros(2), "sigma": 10.0},
        {"sigma": "positive"},
        lambda d: (
            np.column_stack([np.ones(d["N"]), np.asarray(d["mom_iq"], dtype=float)]),
            np.asarray(d["kid_score"], dtype=float),
        ),
        lambda v: {**numbered("beta", v["beta"]), "sigma": v["sigma"]},
    ),
    "sblrc-blr": Problem(
        linear,
        lambda d: {"beta": np.zeros(np.asarray(d["X"]).shape[1]), "sigma": 10.0},
        {"sigma": "positive"},
        lambda d: (np.asarray(d["X"], dtype=float), np.asarray(d["y"], dtype=float)),
        lambda v: {**numbered("beta", v["beta"]), "sigma": v["sigma"]},
    ),
    "gp_pois_regr-gp_regr": Problem(
        gaussian_process,
        lambda d: {"rho": 6.0, "alpha": 2.0, "sigma": 1.0},
        {"rho": "positive", "alpha": "positive", "sigma": "positive"},
        lambda d: (np.asarray(d["x"], dtype=float), np.asarray(d["y"], dtype=float)),
        lambda v: v,
    ),
    "low_dim_gauss_mix-low_dim_gauss_mix": Problem(
        mixture,
        lambda d: {"mu": np.array([-1.0, 1.0]), "sigma": np.ones(2), "theta": 0.5},
        {"mu": "ordered_vector", "sigma": "positive", "theta": "unit_interval"},
        lambda d: (np.asarray(d["y"], dtype=float),),
        lambda v: {**numbered("mu", v["mu"]), **numbered("sigma", v["sigma"]), "theta": v["theta"]},
    ),
    "nes1992-nes": Problem(
        flat_linear,
        lambda d: {"beta": np.zeros(9), "sigma": 1.0},
        {"sigma": "positive"},
        design,
        lambda v: {**numbered("beta", v["beta"]), "sigma": v["sigma"]},
    ),
}
METHODS = {
    "NUTS": NUTS(draws=2000),
    "Laplace": Laplace(),
    "mean-field": Variational("meanfield"),
    "full-rank": Variational("fullrank"),
}


class Row(NamedTuple):
    """A method on a problem."""

    problem: str
    method: str
    mean_error: float
    sd_error: float
    rhat: float
    seconds: float
    notes: str


def run(name: str, method: str) -> Row:
    """The largest errors of a method over the parameters of a problem."""
    from blackjax.diagnostics import ess_bulk

    with (DATA / f"{name}.json").open() as stream:
        file = json.load(stream)
    problem = PROBLEMS[name]
    arrays = tuple(jnp.asarray(v) for v in problem.data(file["data"]))
    target = Target(ParameterSpace.of(problem.init(file["data"]), problem.constraints), problem.log_density, arrays)
    begin = time.perf_counter()
    posterior = METHODS[method].run(target, seed=1)
    seconds = time.perf_counter() - begin
    draws = {k: np.asarray(v) for k, v in problem.reported(posterior.values).items()}
    mean_errors, sd_errors = [], []
    for parameter, said in file["reference"].items():
        x = draws[parameter]
        if method == "NUTS":
            n = float(ess_bulk(x.reshape(4, -1, 1)).squeeze())
            square = float(ess_bulk(np.square(x - x.mean()).reshape(4, -1, 1)).squeeze())
            fourth = float(np.mean((x - x.mean()) ** 4) / x.var() ** 2)
            se_mean = said["sd"] * np.sqrt(1 / n + 1 / said["draws"])
            se_sd = said["sd"] * np.sqrt((fourth - 1) / 4 * (1 / square + 1 / said["draws"]))
        else:
            se_mean = se_sd = said["sd"]
        mean_errors.append(abs(x.mean() - said["mean"]) / se_mean)
        sd_errors.append(abs(x.std() - said["sd"]) / se_sd)
    rhat = float(np.nanmax(posterior.diagnostics.rhat)) if method == "NUTS" else float("nan")
    return Row(name, method, max(mean_errors), max(sd_errors), rhat, seconds, posterior.verdict)


def main() -> None:
    methods = [a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--method=")] or list(METHODS)
    names = [a for a in sys.argv[1:] if not a.startswith("--")] or list(PROBLEMS)
    lines = ["| posterior | method | worst mean | worst sd | R-hat | seconds | verdict |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    wrong = []
    for name in names:
        for method in methods:
            row = run(name, method)
            unit = " se" if method == "NUTS" else " sd"
            errors = f"{row.mean_error:.2f}{unit} | {row.sd_error:.2f}{unit}"
            lines.append(f"| {name} | {method} | {errors} | {row.rhat:.4f} | {row.seconds:.1f} | {row.notes} |")
            print(lines[-1], flush=True)
            if method == "NUTS" and not (max(row.mean_error, row.sd_error) < MOST and row.rhat < 1.01):
                wrong.append(name)
    if len(names) == len(PROBLEMS) and len(methods) == len(METHODS):
        text = f"# Posteriors with reference draws\n\n{machine()}\n\n" + "\n".join(lines) + "\n"
        (RESULTS / "posteriordb.md").write_text(text, encoding="utf-8")
    if wrong:
        sys.exit(f"NUTS is not within Monte Carlo error of the reference for {', '.join(wrong)}")


if __name__ == "__main__":
    main()
