"""Networks beside PyTorch: an ensemble of ten on concrete, 200 epochs each, one after another there, at once here.

`python -m benchmarks neural`, with the published tables in $CREDO_DATA/uci-bnn; without them a table of the same size.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Task

TITLE = "Neural networks"
DATA = Path(os.environ.get("CREDO_DATA", Path(__file__).parents[2] / "shared" / "data")) / "uci-bnn"
MEMBERS, EPOCHS, BATCH, UNITS, RATE = 10, 200, 32, 50, 0.01


class Data(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def make() -> Data:
    """Nine tenths of concrete, standardized."""
    path = DATA / "concrete" / "data.csv.gz"
    rng = np.random.default_rng(0)
    if path.exists():
        table = np.loadtxt(path, delimiter=",")
    else:
        x = rng.normal(size=(1030, 8))
        table = np.column_stack([x, np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.3 * rng.normal(size=1030)])
    table = (table - table.mean(0)) / table.std(0)
    order = rng.permutation(len(table))
    train, test = table[order[: len(table) * 9 // 10]], table[order[len(table) * 9 // 10 :]]
    return Data(train[:, :-1], train[:, -1], test[:, :-1], test[:, -1])


def credo_fit(data: Data) -> Any:
    import credo
    from credo.models.neural import Ensemble

    steps = EPOCHS * -(-len(data.y) // BATCH)
    belief = credo.Neural((UNITS,), precision=0.1, steps=steps, batch=BATCH, step_size=RATE)
    return belief.condition(data.x, data.y, using=Ensemble(MEMBERS))


def torch_fit(data: Data) -> Any:
    """Ten networks with the same loss, one after another."""
    import torch

    torch.set_num_threads(1)
    x, y = torch.tensor(data.x, dtype=torch.float32), torch.tensor(data.y, dtype=torch.float32)
    members = []
    for seed in range(MEMBERS):
        torch.manual_seed(seed)
        network = torch.nn.Sequential(torch.nn.Linear(x.shape[1], UNITS), torch.nn.Tanh(), torch.nn.Linear(UNITS, 2))
        optimizer = torch.optim.Adam(network.parameters(), lr=RATE, weight_decay=0.1 / len(y))
        for _ in range(EPOCHS):
            order = torch.randperm(len(y))
            for first in range(0, len(y), BATCH):
                rows = order[first : first + BATCH]
                f = network(x[rows])
                loss = 0.5 * (f[:, 1] + (y[rows] - f[:, 0]) ** 2 * torch.exp(-f[:, 1])).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        members.append(network)
    return members


def rmse(model: Any, data: Data) -> float:
    if isinstance(model, list):
        import torch

        with torch.no_grad():
            x = torch.tensor(data.x_test, dtype=torch.float32)
            mean = np.mean([network(x)[:, 0].numpy() for network in model], axis=0)
    else:
        mean = np.asarray(model.predict(data.x_test).mean)
    return float(np.sqrt(np.mean((mean - data.y_test) ** 2)))


TASKS = [
    Task(
        f"An ensemble of {MEMBERS}, concrete, {EPOCHS} epochs",
        make,
        {"credo": credo_fit, "PyTorch, one after another": torch_fit},
        {"held-out RMSE": rmse},
        least=8.0,
        repeats=2,
    )
]


def doubts() -> None:
    """What each kind of doubt costs and is worth: concrete without its rows of much cement, and those rows."""
    import time
    import warnings

    import credo
    from credo import evaluate
    from credo.infer import MAP, SGLD, Laplace
    from credo.models.neural import BayesByBackprop, DropConnect, Dropout, Ensemble, LastLayer

    table = np.loadtxt(DATA / "concrete" / "data.csv.gz", delimiter=",")
    x, y = table[:, :-1], table[:, -1]
    far = x[:, 0] > np.quantile(x[:, 0], 0.8)
    near = np.random.default_rng(0).permutation(np.flatnonzero(~far))
    train, test = near[:600], near[600:]
    belief = credo.Neural((UNITS,), precision=0.5, steps=2000)
    methods: dict[str, Any] = {
        "`fit`: 50 networks, stacked": None,
        "`MAP()`": MAP(),
        "`Ensemble(5)`": Ensemble(5),
        "`Ensemble(5, bootstrap=True)`": Ensemble(5, bootstrap=True),
        "`Dropout(0.05)`": Dropout(0.05),
        "`DropConnect(0.05)`": DropConnect(0.05),
        '`Laplace("last-layer")`': Laplace("last-layer"),
        '`Laplace("full")`': Laplace("full"),
        "`LastLayer()`": LastLayer(),
        "`BayesByBackprop()`": BayesByBackprop(),
        "`SGLD(…)`, snapshots": SGLD(2e-5, batch=100, passes=300, precondition=False),
        '`SGLD(…, keep="moments")`': SGLD(2e-5, batch=100, passes=300, keep="moments"),
    }
    print("| `using=` | CPU s | NLPD | RMSE | 90 % holds | AUROC of the shift |\n| --- | --- | --- | --- | --- | --- |")
    for name, method in methods.items():
        begin = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = credo.fit if method is None or isinstance(method, Laplace | LastLayer) else None
                options = {} if method is None else {"using": method}
                found = (
                    fit(belief, x[train], y[train], **options)
                    if fit
                    else belief.condition(x[train], y[train], **options)
                )
                p = found.predict(x[test])
                seconds = time.process_time() - begin
                rmse_of = np.sqrt(np.mean((np.asarray(p.mean) - y[test]) ** 2))
                auroc = evaluate.detect_shift(found, x[test], x[far]).auroc
                scores = (evaluate.nlpd(p, y[test]), rmse_of, evaluate.coverage(p, y[test], 0.9), auroc)
            print(f"| {name} | {seconds:.1f} |", " | ".join(f"{v:.2f}" for v in scores), "|", flush=True)
        except Exception as error:  # the others are still of interest
            print(f"| {name} | {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    doubts()
