"""The first call: a script of five lines in a fresh process, with an empty folder of compiled programs and a full one.

CPU seconds (user and system) of the whole process, imports included, the best of three, the order alternating. The
programs are those that XLA compiles in a process of its own that is not timed. The peer does the nearest thing it has.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import _section, _verdict

TITLE = "The first call"
REPEATS = 3

TABLE = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(100, 5))
eta = X @ np.array([1.0, -1.0, 0.5, 0.0, 0.0])
y = eta + 0.3 * rng.normal(size=100)
"""
CLASSES = TABLE + "y = np.where(rng.uniform(size=100) < 1 / (1 + np.exp(-eta)), 'yes', 'no')\n"
THREE = TABLE + "y = np.digitize(y, [-1.0, 1.0])\n"
COUNTS = TABLE + "y = rng.poisson(np.exp(0.5 * eta))\n"
COIN = "import numpy as np\ny = (np.arange(100) % 3 == 0)\n"
SERIES = """
import numpy as np
rng = np.random.default_rng(0)
y = np.cumsum(rng.normal(size=120)) + np.resize(3 * np.sin(2 * np.pi * np.arange(12) / 12), 120) + rng.normal(size=120)
"""
STATES = """
import numpy as np
rng = np.random.default_rng(0)
z = np.repeat(rng.integers(0, 3, size=12), 10)
y = (3.0 * z + rng.normal(size=120))[:, None]
"""
LOG_DENSITY = """
import jax, jax.numpy as jnp
def log_density(w, X, y):
    return jnp.sum(y * (X @ w) - jnp.logaddexp(0.0, X @ w)) - 0.5 * w @ w
"""
COUNTING = """
import atexit, sys
from jax import monitoring
counted = []
monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: counted.append(name) if name == "/jax/core/compile/backend_compile_duration" else None
)
atexit.register(lambda: print("programs", len(counted), file=sys.stderr))
"""
# Monthly totals of international airline passengers in thousands: Box & Jenkins (1976), series G.
# fmt: off
PASSENGERS = [
    112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118, 115, 126, 141, 135, 125, 149, 170, 170, 158, 133, 114,
    140, 145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166, 171, 180, 193, 181, 183, 218, 230, 242, 209, 191,
    172, 194, 196, 196, 236, 235, 229, 243, 264, 272, 237, 211, 180, 201, 204, 188, 235, 227, 234, 264, 302, 293, 259,
    229, 203, 229, 242, 233, 267, 269, 270, 315, 364, 347, 312, 274, 237, 278, 284, 277, 317, 313, 318, 374, 413, 405,
    355, 306, 271, 306, 315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336, 340, 318, 362, 348, 363, 435, 491,
    505, 404, 359, 310, 337, 360, 342, 406, 396, 420, 472, 548, 559, 463, 407, 362, 405, 417, 391, 419, 461, 472, 535,
    622, 606, 508, 461, 390, 432,
]
# fmt: on


@dataclass(frozen=True)
class Script:
    """Lines that credo runs and lines that a peer does, each in fresh processes."""

    name: str
    ours: str
    peers: Mapping[str, str] = field(default_factory=dict)
    times: float | None = None
    """The bar: cold, credo takes at most so many times as long as the peer."""
    cold: float | None = None
    """At most so many seconds with an empty folder of programs."""
    warm: float | None = None
    """At most so many in the next process."""
    programs: int | None = None
    """At most so many programs are compiled."""
    note: str = ""

    def run(self) -> str:
        """The script's section of the report."""
        spent: dict[str, float] = {}
        for repeat in range(REPEATS):
            for name in ["credo", *self.peers] if repeat % 2 == 0 else [*reversed(self.peers), "credo"]:
                with tempfile.TemporaryDirectory() as folder:
                    turns = ["credo, cold", "credo, warm"] if name == "credo" else [name]
                    for turn in turns:
                        seconds = run_alone(self.ours if name == "credo" else self.peers[name], folder)[0]
                        spent[turn] = min(spent.get(turn, float("inf")), seconds)
        with tempfile.TemporaryDirectory() as folder:
            programs = int(run_alone(COUNTING + self.ours, folder)[2].split("programs ")[-1])
        first, again = spent.pop("credo, cold"), spent.pop("credo, warm")
        rows = [["credo, cold", f"{first:.2f} s", "", str(programs)], ["credo, warm", f"{again:.2f} s", "", ""]]
        rows += [[name, f"{seconds:.2f} s", f"{first / seconds:.2f}×", ""] for name, seconds in spent.items()]
        peer = next(iter(spent.values()), float("nan"))
        limits = (
            (self.times, first / peer, "at most {:g}× the peer, cold"),
            (self.cold, first, "at most {:g} s, cold"),
            (self.warm, again, "at most {:g} s, warm"),
            (self.programs, programs, "at most {:g} programs compiled"),
        )
        bars = [f"{text.format(most)}: {_verdict(found <= most)}" for most, found, text in limits if most is not None]
        bar = f"Bars: {'; '.join(bars)}." if bars else ""
        return _section(self.name, self.note, ["", "CPU time", "credo, cold, against it", "programs"], rows, bar)


@dataclass(frozen=True)
class Again:
    """A script whose second half does the same on other data: its CPU time, and the programs it compiles."""

    name: str
    first: str
    second: str
    share: float | None = None
    """The bar: of the time of the first, imports included."""
    programs: int | None = None

    def run(self) -> str:
        """The section of the report."""
        clock = "import time as _time\n_first, _before = _time.process_time(), len(counted)\n"
        tell = "print('found', _first, _time.process_time() - _first, len(counted) - _before)\n"
        found = []
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as folder:
                out = run_alone(COUNTING + self.first + clock + self.second + tell, folder)[1]
            found.append([float(v) for v in out.split("found ")[-1].split()])
        first, second, programs = (min(column) for column in zip(*found, strict=True))
        rows = [["the first", f"{first:.2f} s", ""], ["another", f"{second:.3f} s", f"{programs:.0f}"]]
        bars = []
        if self.share is not None:
            bars.append(f"at most {self.share:g} of the first: {_verdict(second <= self.share * first)}")
        if self.programs is not None:
            bars.append(f"at most {self.programs} programs compiled: {_verdict(programs <= self.programs)}")
        return _section(self.name, "", ["", "CPU time", "programs"], rows, f"Bars: {'; '.join(bars)}.")


def run_alone(code: str, folder: str) -> tuple[float, str, str]:
    """CPU seconds of a process that runs the code, with compiled programs in the folder, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = os.environ | {"CREDO_CACHE": str(Path(folder) / "programs"), "FOLDER": folder}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{code}\n{done.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout, done.stderr


def fitted(belief: str, ahead: str = "X") -> str:
    """The lines that a user writes."""
    return f"import credo\np = credo.fit({belief}, X, y).predict({ahead})\nprint(p.mean[:3], p.std[:3])\n"


def classified(belief: str) -> str:
    """The same for classes."""
    return f"import credo\np = credo.fit({belief}, X, y).predict(X)\nprint(p.probs[:3], p.entropy()[:3])\n"


def scikit_learn(module: str, estimator: str, ask: str) -> str:
    """The nearest estimator."""
    return f"from sklearn.{module} import {estimator} as Model\nprint(Model().fit(X, y).{ask})\n"


def shaped(n: int, d: int) -> str:
    """Data of another shape."""
    return f"X = rng.normal(size=({n}, {d}))\ny = X[:, 0] + 0.3 * rng.normal(size={n})\n"


def command(*words: str) -> str:
    """The command line; files are in the script's folder."""
    return f"import os, sys\nos.chdir(os.environ['FOLDER'])\nsys.argv = {['credo', *words]!r}\n" + (
        "from credo.app.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
    )


def written(lines: str) -> str:
    """A table for the command line, unless it is there already."""
    return f"import os\nif not os.path.exists(os.environ['FOLDER'] + '/data.csv'):\n{lines}"


AIRLINE = written(
    f"    rows = [f'{{1949 + i // 12}}-{{i % 12 + 1:02d}},{{n}}' for i, n in enumerate({PASSENGERS})]\n"
    "    open(os.environ['FOLDER'] + '/data.csv', 'w').write('\\n'.join(['month,passengers', *rows]))\n"
)
DIABETES = written(
    "    from sklearn.datasets import load_diabetes\n"
    "    load_diabetes(as_frame=True).frame.to_csv(os.environ['FOLDER'] + '/data.csv', index=False)\n"
)
PARTS = "from credo.models.structural import Level, Seasonal, Trend\n"

TASKS = [
    Script(
        "Linear",
        TABLE + fitted("credo.Linear()"),
        {"scikit-learn": TABLE + scikit_learn("linear_model", "BayesianRidge", "predict(X[:3], return_std=True)")},
        times=1.3,
        programs=0,
    ),
    Script(
        "GP",
        TABLE + fitted("credo.GP()"),
        {
            "scikit-learn": TABLE
            + "from sklearn.gaussian_process import GaussianProcessRegressor, kernels\n"
            + "k = kernels.ConstantKernel() * kernels.Matern(np.ones(5), nu=2.5) + kernels.WhiteKernel()\n"
            + "g = GaussianProcessRegressor(k, normalize_y=True, n_restarts_optimizer=3).fit(X, y)\n"
            + "print(g.predict(X[:3], return_std=True))\n"
        },
        times=1.3,
        programs=0,
    ),
    Script(
        "Logistic",
        CLASSES + classified("credo.Logistic()"),
        {"scikit-learn": CLASSES + scikit_learn("linear_model", "LogisticRegression", "predict_proba(X[:3])")},
        times=1.3,
        programs=0,
    ),
    Script(
        "Softmax",
        THREE + classified("credo.Softmax()"),
        {"scikit-learn": THREE + scikit_learn("linear_model", "LogisticRegression", "predict_proba(X[:3])")},
        times=1.3,
        programs=0,
    ),
    Script(
        "PoissonRegression",
        COUNTS + fitted("credo.PoissonRegression()"),
        {"scikit-learn": COUNTS + scikit_learn("linear_model", "PoissonRegressor", "predict(X[:3])")},
        times=1.3,
        programs=0,
    ),
    Script(
        "BetaBernoulli",
        COIN
        + "import credo\nb = credo.BetaBernoulli().condition(y)\n"
        + "print(b.credible_interval(0.95), b.predict().mean)\n",
        {
            "SciPy": COIN
            + "from scipy import stats\nb = stats.beta(1 + y.sum(), 1 + (~y).sum())\n"
            + "print(b.interval(0.95), b.mean())\n"
        },
        times=1.3,
        programs=0,
    ),
    Script(
        "Level() + Seasonal(12)",
        SERIES + "import credo\n" + PARTS + "p = credo.fit(Level() + Seasonal(12), y).predict(12)\nprint(p.mean)\n",
        {
            "statsmodels": SERIES
            + "from statsmodels.tsa.statespace.structural import UnobservedComponents\n"
            + "m = UnobservedComponents(y, 'llevel', seasonal=12).fit(disp=False)\nprint(m.forecast(12))\n"
        },
        times=2.0,
    ),
    Again(
        "Another structure of as many states",
        SERIES + "import credo\n" + PARTS + "credo.fit(Level() + Seasonal(12), y).predict(12)\n",
        "credo.fit(Trend() + Seasonal(11), y).predict(12)\n",
        programs=0,
    ),
    Script(
        "HMM(3)",
        STATES + "import credo\nh = credo.fit(credo.HMM(3), y)\nprint(h.predict(3).mean)\n",
        {
            "hmmlearn": STATES
            + "from hmmlearn.hmm import GaussianHMM\n"
            + "h = GaussianHMM(3, random_state=0).fit(y)\nprint(h.predict(y)[:3])\n"
        },
        times=2.0,
    ),
    Script(
        "NUTS, 5 dimensions",
        CLASSES
        + LOG_DENSITY
        + "import credo\np = credo.condition(log_density, np.zeros(5), data=(X, (y == 'yes') * 1.0))\n"
        + "print(p.mean, p.std, p.verdict)\n",
        {
            "NumPyro": CLASSES
            + "import numpyro, jax\nfrom numpyro import distributions as dist\nnumpyro.set_host_device_count(2)\n"
            + "def model(X, y):\n"
            + "    w = numpyro.sample('w', dist.Normal(0, 1).expand([5]).to_event(1))\n"
            + "    numpyro.sample('y', dist.Bernoulli(logits=X @ w), obs=y)\n"
            + "m = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=1000, num_samples=1000, num_chains=4,\n"
            + "    chain_method='sequential', progress_bar=False)\n"
            + "m.run(jax.random.key(0), X, (y == 'yes') * 1.0)\nm.print_summary()\n"
        },
        cold=4.0,
        warm=1.5,
        note="Four chains of 1,000 + 1,000 draws each; the peer is there to compare with, not a bar.",
    ),
    *(
        Again(
            f"{name}: data of another shape",
            TABLE + fitted(belief),
            shaped(130, 7) + fitted(belief),
            share=0.1,
        )
        for name, belief in (("Linear", "credo.Linear()"), ("GP", "credo.GP()"))
    ),
    Again(
        "Logistic: data of another shape",
        CLASSES + classified("credo.Logistic()"),
        shaped(130, 7) + "y = np.where(y > 0, 'yes', 'no')\n" + classified("credo.Logistic()"),
        share=0.1,
    ),
    Script(
        "credo fit --time, airline passengers",
        AIRLINE + command("fit", "data.csv", "--target", "passengers", "--time", "month", "--force"),
        cold=8.0,
        warm=4.0,
    ),
    Script(
        "credo fit, diabetes (442 × 10)",
        DIABETES + command("fit", "data.csv", "--target", "target", "--force"),
        cold=8.0,
        warm=5.0,
    ),
    Script("credo --help", command("--help"), cold=0.3),
]
