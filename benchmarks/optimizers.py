"""Bayesian optimizers behind one ask-and-tell face, each used as its own documentation shows it, and one loop.

A contestant maximizes over the box `bounds` (2, d). `observe(x, y)` adds evaluations, `suggest(q)` proposes q points,
`recommend()` says which evaluated point (its index) it holds for the best, by the model of the last suggestion where
there is one. Its libraries are imported when it is made, outside the clock.
"""

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from benchmarks.objectives import INITIAL, Objective


class Optimizer(Protocol):
    def observe(self, x: np.ndarray, y: np.ndarray) -> None: ...

    def suggest(self, q: int) -> np.ndarray: ...

    def recommend(self) -> int: ...


@dataclass(frozen=True)
class Run:
    """What an optimizer did in `play`."""

    x: np.ndarray
    """The evaluated points, the initial design first."""
    y: np.ndarray
    regret: np.ndarray
    """Of the recommended point after the initial design and after each batch."""
    seconds: np.ndarray
    """Per suggestion: from the last outcomes to the next points."""


def play(
    make: Callable[..., Optimizer], objective: Objective, steps: int, seed: int, noisy: bool = False, batch: int = 1
) -> Run:
    """`steps` suggestions of `batch` points after the initial design.

    Without noise the best evaluated point is recommended, with noise the one that the optimizer names. The design and
    the noise of the k-th evaluation depend on the seed alone, so that contestants are paired.
    """
    sd = objective.noise if noisy else 0.0
    noise = sd * np.random.default_rng([seed, 1]).normal(size=INITIAL + steps * batch)
    x = new = objective.initial(seed)
    y = fresh = noise[:INITIAL] - objective.function(x)
    optimizer = make(objective.bounds, seed, noisy)
    regret, seconds = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(steps + 1):
            if step < steps or noisy:  # with noise, the last suggestion is for the sake of its model
                start = time.perf_counter()
                optimizer.observe(new, fresh)
                new = optimizer.suggest(batch)
                seconds.append(time.perf_counter() - start)
            best = optimizer.recommend() if noisy else int(np.argmax(y))
            regret.append(objective.regret(x[best])[0])
            if step < steps:
                new = np.clip(new, *objective.bounds)
                fresh = noise[len(x) : len(x) + batch] - objective.function(new)
                x, y = np.concatenate([x, new]), np.concatenate([y, fresh])
    return Run(x, y, np.array(regret), np.array(seconds[:steps]))


def _named(x: np.ndarray) -> dict[str, float]:
    return {f"x{i}": float(v) for i, v in enumerate(x)}


def _values(point: Any, d: int) -> list[float]:
    return [point[f"x{i}"] for i in range(d)]


class Credo:
    """A campaign in memory."""

    def __init__(self, bounds: np.ndarray, seed: int, noisy: bool) -> None:
        from credo.decide import Campaign, Real, Space

        space = Space({f"x{i}": Real(low, high) for i, (low, high) in enumerate(bounds.T.tolist())})
        self.d = len(bounds.T)
        self.campaign = Campaign(space, goal="maximize", seed=seed, noise="learn" if noisy else None)
        self.asked: list[Any] = []
        self.points: list[dict[str, float]] = []

    def observe(self, x: np.ndarray, y: np.ndarray) -> None:
        points = [trial.point for trial in self.asked] or [_named(row) for row in x]
        for i, (point, value) in enumerate(zip(points, y.tolist(), strict=True)):
            if self.asked:
                self.campaign.tell(self.asked[i], value)
            else:
                self.campaign.add(point, value)
        self.points += points

    def suggest(self, q: int) -> np.ndarray:
        self.asked = self.campaign.ask(q) if q > 1 else [self.campaign.ask()]
        return np.array([_values(trial.point, self.d) for trial in self.asked])

    def recommend(self) -> int:
        return self.points.index(self.campaign.best().point)


class BoTorch:
    """SingleTaskGP with its own priors; LogEI, and qLogNEI with noise or in batches, by `optimize_acqf`."""

    told = False

    def __init__(self, bounds: np.ndarray, seed: int, noisy: bool) -> None:
        import torch

        import_module("botorch")  # outside the clock
        torch.manual_seed(seed)
        self.bounds, self.noisy = torch.as_tensor(bounds), noisy
        self.x = torch.empty(0, bounds.shape[1], dtype=torch.float64)
        self.y = torch.empty(0, 1, dtype=torch.float64)
        self.model: Any = None

    def observe(self, x: np.ndarray, y: np.ndarray) -> None:
        import torch

        self.x = torch.cat([self.x, torch.as_tensor(x)])
        self.y = torch.cat([self.y, torch.as_tensor(y)[:, None]])

    def suggest(self, q: int) -> np.ndarray:
        import torch
        from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Normalize, Standardize
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        self.model = SingleTaskGP(
            self.x,
            self.y,
            train_Yvar=torch.full_like(self.y, 1e-6 * float(self.y.var())) if self.told else None,
            input_transform=Normalize(self.x.shape[1], bounds=self.bounds),
            outcome_transform=Standardize(1),
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(self.model.likelihood, self.model))
        if self.noisy or q > 1:
            score = qLogNoisyExpectedImprovement(self.model, self.x)
        else:
            score = LogExpectedImprovement(self.model, best_f=self.y.max())
        found, _ = optimize_acqf(score, self.bounds, q=q, num_restarts=10, raw_samples=512, sequential=False)
        return found.detach().numpy()

    def recommend(self) -> int:
        return int(self.model.posterior(self.x).mean.argmax())


class BoTorchTold(BoTorch):
    """The same, told that there is no noise (a known variance of 10⁻⁶ of the outcomes')."""

    told = True


class _Optuna(ABC):
    """A study that is asked and told."""

    def __init__(self, bounds: np.ndarray, seed: int, noisy: bool) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.box = {f"x{i}": optuna.distributions.FloatDistribution(*ends) for i, ends in enumerate(bounds.T.tolist())}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deterministic_objective is called experimental
            self.sampler = self.make(optuna.samplers, seed, noisy)
        self.study = optuna.create_study(direction="maximize", sampler=self.sampler)
        self.trials: list[Any] = []

    @abstractmethod
    def make(self, samplers: Any, seed: int, noisy: bool) -> Any:
        """The sampler."""

    def observe(self, x: np.ndarray, y: np.ndarray) -> None:
        import optuna

        if self.trials:
            for trial, value in zip(self.trials, y.tolist(), strict=True):
                self.study.tell(trial, value)
        else:
            for row, value in zip(x, y.tolist(), strict=True):
                self.study.add_trial(optuna.trial.create_trial(params=_named(row), distributions=self.box, value=value))

    def suggest(self, q: int) -> np.ndarray:
        self.trials = [self.study.ask(self.box) for _ in range(q)]
        return np.array([_values(trial.params, len(self.box)) for trial in self.trials])

    def recommend(self) -> int:
        return self.study.best_trial.number


class OptunaGP(_Optuna):
    """GPSampler. Optuna itself recommends the best observed; the mean of its model does better with noise."""

    def make(self, samplers: Any, seed: int, noisy: bool) -> Any:
        return samplers.GPSampler(seed=seed, deterministic_objective=not noisy)

    def recommend(self) -> int:
        (model,) = self.sampler._gprs_cache_list
        mean, _ = model.posterior(model._X_train)
        return int(mean.argmax())


class OptunaTPE(_Optuna):
    def make(self, samplers: Any, seed: int, noisy: bool) -> Any:
        return samplers.TPESampler(seed=seed)


class BayesOpt:
    """bayesian-optimization with its defaults; with noise, the larger `alpha` of its guide."""

    def __init__(self, bounds: np.ndarray, seed: int, noisy: bool) -> None:
        from bayes_opt import BayesianOptimization

        self.box = {f"x{i}": tuple(ends) for i, ends in enumerate(bounds.T.tolist())}
        self.optimizer = BayesianOptimization(None, self.box, random_state=seed, verbose=0, allow_duplicate_points=True)
        if noisy:
            self.optimizer.set_gp_params(alpha=1e-3)
        self.points: list[dict[str, float]] = []

    def observe(self, x: np.ndarray, y: np.ndarray) -> None:
        for row, value in zip(x, y.tolist(), strict=True):
            self.points.append(_named(row))
            self.optimizer.register(self.points[-1], value)

    def suggest(self, q: int) -> np.ndarray:
        return np.array([_values(self.optimizer.suggest(), len(self.box)) for _ in range(q)])

    def recommend(self) -> int:
        return int(np.argmax(self.optimizer.predict(self.points, fit_gp=False)))


class Skopt:
    """scikit-optimize's `Optimizer("GP")`, which hedges between three acquisitions; it minimizes."""

    def __init__(self, bounds: np.ndarray, seed: int, noisy: bool) -> None:
        import skopt

        self.optimizer = skopt.Optimizer([tuple(ends) for ends in bounds.T.tolist()], "GP", random_state=seed)

    def observe(self, x: np.ndarray, y: np.ndarray) -> None:
        self.optimizer.tell(x.tolist(), (-y).tolist())

    def suggest(self, q: int) -> np.ndarray:
        return np.array(self.optimizer.ask(n_points=q) if q > 1 else [self.optimizer.ask()])

    def recommend(self) -> int:
        evaluated = self.optimizer.space.transform(self.optimizer.Xi)
        return int(np.argmin(self.optimizer.models[-1].predict(evaluated)))


OURS = "credo"
PEERS: dict[str, Callable[..., Optimizer]] = {
    "botorch": BoTorch,
    "optuna": OptunaGP,
    "bayesopt": BayesOpt,
    "skopt": Skopt,
}
"""The bars count these."""
REFERENCES: dict[str, Callable[..., Optimizer]] = {"tpe": OptunaTPE, "botorch-told": BoTorchTold}
CONTESTANTS: dict[str, Callable[..., Optimizer]] = {OURS: Credo, **PEERS, **REFERENCES}
TITLES = {
    "credo": "credo",
    "botorch": "BoTorch",
    "optuna": "Optuna GPSampler",
    "bayesopt": "bayesian-optimization",
    "skopt": "scikit-optimize",
    "tpe": "Optuna TPE*",
    "botorch-told": "BoTorch, told noise-free*",
}
