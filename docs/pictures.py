"""Draws every picture of the documentation into docs/pictures/: `python docs/pictures.py [name ...]`."""

import contextlib
import io
import runpy
import sys
import tempfile
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pandas as pd
import scipy.optimize
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from sklearn.datasets import load_diabetes

import credo
from credo import evaluate, infer, kernels, plots
from credo.decide.acquiring import acquire
from credo.decide.active_learning import learning_curves
from credo.decide.campaign import Campaign, slices
from credo.decide.space import Categorical, Integer, Real, Space
from credo.models import features as bases
from credo.models.gp import EP, SKI, Fourier, Inducing, InducingGP, Local, Neighbours, RandomFeatures
from credo.models.gp.search import search_kernel
from credo.models.gp.surfaces import evidence_surface
from credo.models.linear import ARD, Intercept, InverseGamma, Isotropic, LaplacePrior, StudentTNoise, lasso_scale
from credo.models.neural import Ensemble
from credo.plots import BLUE, GREEN, GREY, INK, ORANGE, RED, SKY, legend, tidy

OUT = Path(__file__).parent / "pictures"
PICTURES = {}
SAID = {"textcoords": "offset points", "fontsize": 8.5, "color": INK, "va": "top"}


def picture(width, height, columns=1, rows=1, name=None):
    """Registers a function that draws into the axes of a new figure; its name is the file's."""

    def register(draw):
        file = f"{name or draw.__name__}"

        def make():
            figure = Figure(figsize=(width, height), layout="constrained")
            draw(*figure.subplots(rows, columns, squeeze=False).ravel())
            figure.savefig(OUT / f"{file}.svg", metadata={"Date": None})

        PICTURES[file] = make
        return draw

    return register


def linear_page():
    """The data of linear.md, in the order in which it draws them: a sine twice, outliers, relevance."""
    rng = np.random.default_rng(3)
    x = np.linspace(0, 1, 10)[:, None]
    t = np.sin(2 * np.pi * x[:, 0]) + 0.3 * rng.normal(size=10)
    wide = np.linspace(-1, 1, 25)[:, None]
    noisy = np.sin(np.pi * wide[:, 0]) + 0.3 * rng.normal(size=25)
    u = np.linspace(0, 10, 40)[:, None]
    v = 1 + 0.5 * u[:, 0] + 0.3 * rng.normal(size=40)
    v[[33, 36, 39]] -= 8.0
    z = rng.normal(size=(60, 10))
    w = 2 * z[:, 1] - z[:, 4] + 0.5 * rng.normal(size=60)
    return (x, t), (wide, noisy), (u, v), (z, w)


def bands(ax, x, prediction, title="", legends=False):
    plots.bands(prediction, x, ax=ax)
    if not legends:
        ax.get_legend().remove()
    ax.set_title(title, fontsize=9.5, color=INK)


def dots(ax, x, y):
    ax.plot(np.ravel(x), y, "o", color=INK, markersize=3.5, zorder=5, label="observed")


@picture(7.6, 2.3)
def loop(ax):
    places = {"data": (0.8, "X, y"), "belief": (3.0, "what is known"), "prediction": (5.4, "noise + ignorance")}
    places["action"] = (7.8, "least expected loss")
    for name, (x, about) in places.items():
        ax.add_patch(FancyBboxPatch((x - 0.75, 1.05), 1.5, 0.7, boxstyle="round,pad=0.05", fc="#eef4fa", ec=BLUE))
        ax.text(x, 1.5, name, ha="center", va="center", fontsize=11, color=INK, weight="bold")
        ax.text(x, 1.22, about, ha="center", va="center", fontsize=7.5, color=GREY)
    names = list(places)
    verbs = ("condition", "predict", "decide")
    for before, after, verb in zip(names[:-1], names[1:], verbs, strict=True):
        start, stop = places[before][0] + 0.83, places[after][0] - 0.83
        ax.add_patch(FancyArrowPatch((start, 1.4), (stop, 1.4), arrowstyle="-|>", mutation_scale=12, color=INK))
        ax.text((start + stop) / 2, 1.93, verb, ha="center", fontsize=9, color=BLUE, family="monospace")
    back = FancyArrowPatch(
        (7.8, 0.95), (0.8, 0.95), connectionstyle="arc3,rad=-0.16", arrowstyle="-|>", mutation_scale=12, color=INK
    )
    ax.add_patch(back)
    ax.text(4.3, 0.12, "observe the outcome", ha="center", fontsize=9, color=BLUE)
    ax.set(xlim=(-0.1, 8.7), ylim=(0.0, 2.2))
    ax.axis("off")


@picture(7, 3.2)
def first(ax):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, size=(30, 1))
    y = 2 + 0.5 * x[:, 0] + rng.normal(0, 0.8, size=30)
    grid = np.linspace(0, 20, 100)
    plots.bands(credo.fit(credo.Linear(), x, y).predict(grid[:, None]), grid, ax=ax)
    dots(ax, x, y)
    legend(ax, loc="upper left")


@picture(7, 3.2)
def doubt(ax):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(0, 3, 20), rng.uniform(6, 9, 20)])[:, None]
    y = np.sin(x[:, 0]) + 0.2 * rng.normal(size=40)
    grid = np.linspace(-1, 10, 200)
    plots.bands(credo.fit(credo.Linear(bases.Bumps(12)), x, y).predict(grid[:, None]), grid, ax=ax)
    dots(ax, x, y)
    ax.text(1.6, 1.6, "mostly noise", ha="center", fontsize=8.5, color=INK)
    ax.text(4.5, 0.5, "ignorance: no data here", ha="center", fontsize=8.5, color=INK)
    ax.set_ylim(-4.7, 3.6)
    legend(ax, loc="upper right", ncols=2)


@picture(8, 2.5, columns=4)
def sequence(*axes):
    rng = np.random.default_rng(5)
    x = rng.uniform(size=(20, 1))
    y = np.sin(2 * np.pi * x[:, 0]) + 0.2 * rng.normal(size=20)
    belief = credo.Linear(
        bases.Bumps(centers=np.linspace(0, 1, 9)), Isotropic(1.0), noise=0.04, intercept=Intercept(0.0, 0.1)
    )
    grid = np.linspace(0, 1, 60)
    seen = 0
    for ax, n in zip(axes, (0, 2, 5, 20), strict=True):
        if n:
            belief = belief.condition(x[seen:n], y[seen:n])
        p = belief.predict(grid[:, None], joint=True)
        curves = np.asarray(p.joint(noise=False).draw(jax.random.key(1), 6))
        half = 1.96 * np.sqrt(np.asarray(p.epistemic))
        ax.fill_between(grid, p.mean - half, p.mean + half, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(grid, curves.T, color=ORANGE, linewidth=0.8, alpha=0.8)
        ax.plot(grid, p.mean, color=BLUE, linewidth=1.6)
        dots(ax, x[:n], y[:n])
        ax.set(ylim=(-3.5, 3.5), xticks=[0, 1])
        tidy(ax)
        ax.set_title("prior" if n == 0 else f"{n} observations", fontsize=9.5, color=INK)
        seen = n


@picture(8, 2.8, columns=3)
def ml_map_bayes(*axes):
    (x, t), *_ = linear_page()
    model = credo.Linear(bases.Polynomial(9), prior=Isotropic(5e-3), noise=0.09)
    grid = np.linspace(0, 1, 120)
    for ax, (name, using) in zip(
        axes, {"maximum likelihood": credo.infer.ML(), "MAP": credo.infer.MAP(), "Bayes": None}.items(), strict=True
    ):
        bands(ax, grid, model.condition(x, t, using=using).predict(grid[:, None]), name)
        ax.plot(grid, np.sin(2 * np.pi * grid), color=GREEN, linestyle="--", linewidth=1.2)
        dots(ax, x, t)
        ax.set(ylim=(-2.2, 2.2), xticks=[0, 0.5, 1])


@picture(7, 3.4)
def occam(ax):
    _, (x, y), *_ = linear_page()
    models = {
        f"degree {d}": credo.learn(credo.Linear(bases.Standardize(bases.Polynomial(d))), x, y) for d in (1, 2, 3, 5, 9)
    }
    plots.comparison(credo.compare(models, x, y), ax=ax)


@picture(7, 3.2)
def degree_errors(ax):
    """Least squares by degree: the error on the rows learned from always falls, that on others does not."""
    _, (x, y), *_ = linear_page()
    fresh = np.random.default_rng(0).uniform(-1, 1, size=(2000, 1))
    outcomes = np.sin(np.pi * fresh[:, 0]) + 0.3 * np.random.default_rng(1).normal(size=2000)
    degrees = np.arange(1, 18)
    errors = []
    for d in degrees:
        fitted = credo.Linear(bases.Polynomial(int(d))).condition(x, y, using=credo.infer.ML())
        errors.append([np.sqrt(np.mean((fitted.predict(u).mean - v) ** 2)) for u, v in ((x, y), (fresh, outcomes))])
    for name, color, values in zip(("training rows", "other rows"), (GREY, BLUE), np.transpose(errors), strict=True):
        ax.plot(degrees, values, "o-", color=color, markersize=4, linewidth=1.6, label=name)
    ax.axhline(0.3, color=GREEN, linestyle="--", linewidth=1.2, label="the noise itself")
    ax.set(ylim=(0, 1.2), xticks=degrees)
    legend(ax, loc="upper center")
    tidy(ax, "degree of the polynomial", "root mean squared error")


@picture(8.6, 3.2, columns=2)
def occam_factor(left, right):
    """Left: the same probability to give away, on few data sets or on many. Right: what a prior too wide costs."""
    x = np.linspace(-1, 1, 12)[:, None]
    bends = np.linspace(0.0, 4.0, 161)
    for name, waves, color in (
        ("simple: a constant", 0, GREY),
        ("moderate: 1 wave", 1, BLUE),
        ("complex: 4 waves", 4, ORANGE),
    ):
        basis = bases.Fourier(waves, period=2.0) if waves else bases.InterceptOnly()
        model = credo.Linear(basis, Isotropic(1.0), noise=0.3, intercept=Intercept(0.0, 1.0))
        log = np.asarray([float(model.log_evidence(x, np.cos(np.pi * b * x[:, 0]))) for b in bends])
        left.plot(bends, np.exp(log) / np.trapezoid(np.exp(log), bends), color=color, linewidth=1.8, label=name)
    legend(left, loc="upper right")
    tidy(left, "data sets: waves of a cosine", "p(D | model), area one")
    _, (x, y), *_ = linear_page()
    widths = np.logspace(-2.5, 4, 40)
    parts = []
    for width in widths:
        model = credo.Linear(bases.Standardize(bases.Polynomial(5)), Isotropic(width**-2), noise=0.09)
        miss = y - np.asarray(model.condition(x, y).predict(x).mean)
        likelihood = float(np.sum(-0.5 * miss**2 / 0.09 - 0.5 * np.log(2 * np.pi * 0.09)))
        parts.append((likelihood, float(model.log_evidence(x, y)) - likelihood))
    fit, factor = np.transpose(parts)
    for name, color, values in (
        ("best fit", GREY, fit),
        ("Occam factor", ORANGE, factor),
        ("evidence", BLUE, fit + factor),
    ):
        right.plot(widths, values, color=color, linewidth=1.8, label=name)
    right.set_xscale("log")
    right.set_ylim(-90, 5)
    for at, said in ((0.15, "too narrow:\nmisses the data"), (60, "too wide:\nwasted on other data")):
        right.annotate(said, (at, -86), (0, 0), **SAID | {"va": "bottom"})
    legend(right, loc="upper left", bbox_to_anchor=(0, 0.8))
    tidy(right, "standard deviation of the prior", "log")


@picture(5.4, 4.2)
def evidence_contour(ax):
    _, (x, y), *_ = linear_page()
    belief = credo.Linear(bases.Bumps(9))
    plots.evidence(evidence_surface(belief, x, y, "prior.precision", "noise", width=3.5, points=21), ax=ax)
    for text in ax.get_legend().get_texts():
        text.set_color("white")


@picture(7, 3.0, columns=2)
def robust(*axes):
    (u, v) = linear_page()[2]
    noises = {"Gaussian noise": 1.0, "Student-t noise": StudentTNoise()}
    for ax, (name, noise) in zip(axes, noises.items(), strict=True):
        bands(ax, u[:, 0], credo.fit(credo.Linear(noise=noise), u, v).predict(u), name)
        ax.plot(u, 1 + 0.5 * u, color=GREEN, linestyle="--", linewidth=1.2)
        dots(ax, u, v)
        ax.set_ylim(-4.5, 8)


@picture(6.4, 3.2)
def ard(ax):
    plots.coefficients(credo.fit(credo.Linear(prior=ARD()), *linear_page()[3]), ax=ax)


@picture(7.6, 3.2, columns=2)
def lasso_diamond(left, right):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    y = x @ [1.6, 0.1] + 0.4 * rng.normal(size=40)
    free = np.linalg.lstsq(x, y, rcond=None)[0]
    a, b = np.meshgrid(np.linspace(-1.4, 2.4, 161), np.linspace(-1.3, 1.6, 161))
    squares = sum((yi - u * a - v * b) ** 2 for yi, (u, v) in zip(y, x, strict=True))
    scale = lasso_scale(credo.Linear(noise=0.16, intercept=False), x, y, 1.0)
    lasso = credo.Linear(prior=LaplacePrior(scale), noise=0.16, intercept=False)
    length = scipy.optimize.brentq(lambda r: np.hypot(*np.linalg.solve(x.T @ x + r * np.eye(2), x.T @ y)) - 1, 0, 1e4)
    bounds = {
        "lasso: |w₁| + |w₂| ≤ 1": ([1, 0, -1, 0, 1], [0, 1, 0, -1, 0]),
        "ridge: w₁² + w₂² ≤ 1": (np.cos(np.linspace(0, 2 * np.pi, 90)), np.sin(np.linspace(0, 2 * np.pi, 90))),
    }
    touches = [
        np.asarray(lasso.condition(x, y, using=credo.infer.MAP()).coefficients().mean),
        np.linalg.solve(x.T @ x + length * np.eye(2), x.T @ y),
    ]
    for ax, (name, edge), at in zip((left, right), bounds.items(), touches, strict=True):
        ax.fill(*edge, color=SKY, alpha=0.35)
        height = np.sum((y - x @ at) ** 2)
        least = np.sum((y - x @ free) ** 2)
        ax.contour(a, b, squares, levels=least + (height - least) * np.array([0.1, 0.4, 1.0]), colors=[GREY])
        ax.plot(*free, "o", color=INK)
        ax.plot(*at, "o", color=ORANGE)
        ax.annotate("least squares", free, (5, 14), **SAID)
        ax.set(title=name, aspect="equal")
        tidy(ax, "w₁", "w₂")


@picture(5.6, 3.6)
def newton(ax):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2)) * [1.0, 3.0]
    y = (rng.uniform(size=60) < 1 / (1 + np.exp(-x @ [1.5, 0.8]))).astype(float)

    def height(w):
        eta = x @ w
        return np.sum(np.logaddexp(0, eta) - y[:, None] * eta if w.ndim > 1 else np.logaddexp(0, eta) - y * eta, axis=0)

    def slope(w):
        return x.T @ (1 / (1 + np.exp(-x @ w)) - y)

    def curvature(w):
        p = 1 / (1 + np.exp(-x @ w))
        return (x.T * (p * (1 - p))) @ x

    steps = {"gradient descent, 25 steps": [np.array([-0.6, 0.1])], "Newton, 6 steps": [np.array([-0.6, 0.1])]}
    gradient, newtons = steps.values()
    rate = 1 / np.linalg.eigvalsh(x.T @ x / 4).max()  # the largest curvature anywhere: never too long
    for _ in range(25):
        gradient.append(gradient[-1] - rate * slope(gradient[-1]))
    for _ in range(6):
        newtons.append(newtons[-1] - np.linalg.solve(curvature(newtons[-1]), slope(newtons[-1])))
    a, b = np.meshgrid(np.linspace(-0.9, 2.4, 120), np.linspace(-0.4, 1.6, 120))
    values = height(np.stack([a.ravel(), b.ravel()])).reshape(a.shape)
    ax.contour(a, b, np.log(values - values.min() + 1), levels=10, colors=[GREY], linewidths=0.7)
    for (name, path), color in zip(steps.items(), (ORANGE, BLUE), strict=True):
        ax.plot(*np.array(path).T, "o-", color=color, markersize=3.5, linewidth=1.3, label=name)
    legend(ax)
    tidy(ax, "w₁", "w₂")


@picture(8, 4.6, columns=2, rows=2)
def features(*axes):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 2, 60))[:, None]
    y = np.sin(2 * np.pi * x[:, 0]) + x[:, 0] + 0.2 * rng.normal(size=60)
    grid = np.linspace(-0.4, 2.6, 46)
    tried = {
        "line": bases.Affine(),
        "splines": bases.BSpline(12),
        "line + season": bases.Affine() + bases.Fourier(1, period=1.0),
        "steps": bases.Haar(4),
    }
    for ax, (name, basis) in zip(axes, tried.items(), strict=True):
        bands(ax, grid, credo.fit(credo.Linear(basis), x, y).predict(grid[:, None]), name)
        dots(ax, x, y)
        ax.set_ylim(-2, 5)


def basis(name, functions, low=0.0, high=1.0, rows=None):
    """Registers a picture of the functions of a basis, one above the other by what `rows` makes of their labels."""

    @picture(6.4, 1.8 if rows is None else 2.4, name=f"basis_{name}")
    def draw(ax):
        grid = np.linspace(low, high, 600)
        table = np.asarray(functions.adapt(np.array([[low], [high]]))(jnp.asarray(grid[:, None])))
        cycle = (BLUE, ORANGE, GREEN, RED, SKY, GREY)
        for i, (label, column) in enumerate(zip(functions.names(["x"]), table.T, strict=True)):
            row = i if rows is None else rows(label)
            if row is None:
                continue
            height = column if rows is None else 1.5 * column / np.abs(column).max() - 3.6 * row
            ax.plot(grid, height, color=cycle[row % 6], linewidth=1.2)
        tidy(ax, grid="y" if rows is None else "")
        if rows is not None:
            ax.set_yticks([])


basis("polynomial", bases.Polynomial(5), low=-1.0)
basis("bspline", bases.BSpline(10))
basis("bumps", bases.Bumps(10))
basis("fourier", bases.Fourier(3, period=1.0), rows=lambda label: int(label[label.index("·") + 1]) - 1)
basis("haar", bases.Haar(3), rows=lambda label: int(label[label.index("[") + 1]))
SHOWN = {"ψ[2,0]": 0, "ψ[3,1]": 1, "ψ[3,4]": 1, "ψ[4,2]": 2, "ψ[4,6]": 2, "ψ[4,10]": 2}
basis("daubechies", bases.Daubechies(5), rows=lambda label: SHOWN.get(label.removeprefix("x~db2")))


@picture(7, 3.0)
def coin(ax):
    tosses = (np.random.default_rng(0).uniform(size=400) < 0.7).astype(int)
    theta = np.linspace(0.001, 0.999, 500)
    for n, color in zip((0, 4, 40, 400), (GREY, SKY, BLUE, INK), strict=True):
        belief = credo.BetaBernoulli(a=1, b=1)
        belief = belief.condition(tosses[:n]) if n else belief
        ax.plot(theta, np.exp(belief.log_prob(theta)), color=color, linewidth=1.6, label=f"{n} tosses")
    ax.axvline(0.7, color=GREEN, linestyle="--", linewidth=1.2)
    ax.text(0.705, 15, "truth", fontsize=8.5, color=GREEN)
    legend(ax, loc="upper left")
    tidy(ax, "probability of a one", "belief")


@picture(7, 3.4)
def shrinkage(ax):
    recovered = np.array([3, 0, 21, 45, 2, 11, 8, 70, 1, 33])
    patients = np.array([4, 3, 30, 80, 2, 20, 10, 100, 6, 60])
    belief = credo.HierarchicalBernoulli().condition(recovered, patients)
    found = belief.shrinkage()
    order = np.argsort(patients)
    places = np.arange(len(order))
    raw, estimate = np.asarray(found.raw)[order], np.asarray(found.estimate)[order]
    lower, upper = (np.asarray(end)[order] for end in belief.credible_interval(0.9))
    ax.vlines(places, lower, upper, color=SKY, linewidth=4, alpha=0.5, label="90 % interval")
    ax.vlines(places, raw, estimate, color=GREY, linewidth=1)
    ax.plot(places, raw, "o", mfc="white", mec=INK, markersize=6, label="own frequency")
    ax.plot(places, estimate, "o", color=BLUE, markersize=6, label="estimate")
    ax.axhline(float(found.population_mean), color=ORANGE, linestyle="--", linewidth=1.2, label="common mean")
    ax.set_xticks(places, [f"{patients[i]}" for i in order])
    ax.set_ylim(-0.05, 1.25)
    legend(ax, loc="upper right", ncols=4)
    tidy(ax, "patients of the clinic", "share recovered")


@picture(7.6, 3.6, columns=2)
def calibration(left, right):
    x, y = load_diabetes(return_X_y=True, scaled=False)
    plots.calibration(credo.fit(credo.Linear(), x[:200], y[:200]).predict(x[200:]), y[200:], ax=left)
    left.set_title("Bayes, 200 rows", fontsize=9.5, color=INK)
    quadratic = credo.Linear(bases.Standardize(bases.Polynomial(2))).features.adapt(x[:100])
    ml = credo.Linear(quadratic).condition(x[:100], y[:100], using=credo.infer.ML())
    plots.calibration(ml.predict(x[200:]), y[200:], ax=right)
    right.set_title("maximum likelihood, 66 weights, 100 rows", fontsize=9.5, color=INK)


@picture(7.2, 3.2, columns=3)
def conformal(*axes):
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, size=(700, 1))
    y = np.sin(2 * x[:, 0]) + (0.1 + 0.3 * np.abs(x[:, 0])) * rng.standard_t(5, size=700)
    bold = credo.GP(kernels.RBF(0.8), noise=0.05).condition(x[:100], y[:100])
    beliefs = {
        "as it is": bold,
        "recalibrated": credo.recalibrated(bold, x[100:300], y[100:300]),
        "conformal": evaluate.conformal(bold, x[100:300], y[100:300], "quantile"),
    }
    grid = np.linspace(-3, 3, 200)[:, None]
    for ax, (name, belief), color in zip(axes, beliefs.items(), (RED, BLUE, GREEN), strict=True):
        low, high = belief.predict(grid).interval(0.9)
        ax.plot(x[300:, 0], y[300:], ".", color=GREY, markersize=2)
        ax.fill_between(grid[:, 0], low, high, color=color, alpha=0.3, linewidth=0)
        held = evaluate.coverage(belief.predict(x[300:]), y[300:], 0.9)
        ax.set_title(f"{name}: 90 % holds {held:.0%}", fontsize=9.5, color=INK)
        ax.set_ylim(-4, 4)
        tidy(ax)


@picture(7, 3.2)
def neural(ax):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(120, 1))
    y = np.sin(3 * x[:, 0]) + 0.25 * np.abs(x[:, 0]) * rng.normal(size=120)
    grid = np.linspace(-4, 4, 200)[:, None]
    p = credo.fit(credo.Neural((20,), steps=1000), x, y).predict(grid)
    mean, noise, all_doubt = np.asarray(p.mean), 2 * np.sqrt(p.aleatoric), 2 * np.asarray(p.std)
    ax.fill_between(
        grid[:, 0], mean - all_doubt, mean + all_doubt, color=ORANGE, alpha=0.3, linewidth=0, label="ignorance"
    )
    ax.fill_between(grid[:, 0], mean - noise, mean + noise, color=BLUE, alpha=0.3, linewidth=0, label="noise")
    ax.plot(grid[:, 0], mean, color=BLUE)
    ax.plot(x[:, 0], y, ".", color=INK, markersize=3)
    ax.set_ylim(-4, 4)
    legend(tidy(ax, "x", "y"))


@picture(7, 3.0, columns=2)
def rotated_digits(*axes):
    import equinox as eqx
    from scipy.ndimage import rotate
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x, angles = x / 16, np.arange(0, 91, 10)
    right, noise, ignorance = (np.zeros((3, len(angles))) for _ in range(3))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:1200], order[1200:1500]
        # Pixels as they are: scaled each by its own spread, the dark border would count most.
        network = eqx.nn.MLP(64, 10, 60, 1, jnp.tanh, key=jax.random.key(seed))
        belief = credo.Neural(network=network, outcome="classes", precision=0.1, steps=1000, batch=64, seed=seed)
        ensemble = belief.condition(x[train], y[train], using=Ensemble(5, bootstrap=True))
        for i, angle in enumerate(angles):
            turned = rotate(x[test].reshape(-1, 8, 8), angle, axes=(1, 2), reshape=False, order=1).reshape(-1, 64)
            p = ensemble.predict(turned)
            right[seed, i] = np.mean(np.argmax(p.probs, axis=1) == y[test])
            noise[seed, i], ignorance[seed, i] = np.mean(p.aleatoric), np.mean(p.epistemic)
    axes[0].plot(angles, right.mean(0), color=INK, marker="o", markersize=3)
    tidy(axes[0], "angle", "accuracy")
    for label, values, color in (("noise", noise, BLUE), ("ignorance", ignorance, ORANGE)):
        axes[1].plot(angles, values.mean(0), color=color, marker="o", markersize=3, label=label)
        spread = values.std(0)
        axes[1].fill_between(angles, values.mean(0) - spread, values.mean(0) + spread, color=color, alpha=0.15, lw=0)
    legend(tidy(axes[1], "angle", "entropy (nats)"))


@picture(7, 2.6, columns=3)
def approximation(*axes):
    grid = np.linspace(0, 1, 400)
    for ax, units in zip(axes, (3, 8, 30), strict=True):
        edges = np.linspace(0, 1, units + 1)[:-1]
        values = np.sin(7 * (edges + 0.5 / units)) + edges
        jumps = np.diff(values, prepend=0.0)
        steps = 0.5 * (1 + np.tanh(8 * units * (grid[:, None] - edges))) @ jumps
        ax.plot(grid, np.sin(7 * grid) + grid, color=GREY)
        ax.plot(grid, steps, color=BLUE)
        ax.set_title(f"{units} units", fontsize=9.5, color=INK)
        tidy(ax)


@picture(7, 3.2)
def learning_curve(ax):
    x, y = load_diabetes(return_X_y=True, scaled=False)
    sizes = [15, 20, 30, 50, 100, 200, 330]
    options = {"sizes": sizes, "repeats": 5, "score": "rmse", "test": 0.25}
    ridge = evaluate.learning_curve(credo.Linear(), x, y, **options)

    class LeastSquares(credo.Linear):
        """Maximum likelihood in the place of Bayes' rule."""

        def condition(self, *data, **settings):
            return credo.Linear().condition(*data, using=credo.infer.ML())

    ml = evaluate.learning_curve(LeastSquares(), x, y, learn=False, **options)
    for curve, color, name in ((ml, RED, "maximum likelihood"), (ridge, BLUE, "Bayes")):
        ax.errorbar(curve.sizes, curve.mean, curve.standard_error, color=color, marker="o", markersize=4, label=name)
    ax.set_xscale("log")
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
    ax.set_ylim(50, 115)
    legend(ax)
    tidy(ax, "training rows", "RMSE on test rows")


@picture(7, 3.2)
def bias_variance(ax):
    grid = np.linspace(-1, 1, 20)[:, None]
    precisions = np.logspace(-4, 3.5, 11)
    parts = []
    for precision in precisions:
        model = credo.Linear(bases.Polynomial(7), Isotropic(precision), noise=0.25)
        parts.append(
            evaluate.bias_variance(
                lambda x, t, q, model=model: model.condition(x, t).predict(q).mean,
                lambda x: np.sin(np.pi * x[:, 0]),
                grid,
                noise=0.25,
                test_inputs=grid,
                repeats=25,
            )
        )
    for name, color in (("bias2", ORANGE), ("variance", BLUE)):
        label = name.replace("bias2", "bias²")
        ax.plot(precisions, [getattr(p, name) for p in parts], color=color, linewidth=1.6, label=label)
    ax.plot(precisions, [p.bias2 + p.variance for p in parts], color=INK, linewidth=1.8, label="bias² + variance")
    ax.set_xscale("log")
    ax.invert_xaxis()
    legend(ax)
    tidy(ax, "prior precision, from strong to weak", "squared error")


@picture(7, 3.0)
def asymmetric(ax):
    demand = credo.GammaPoisson(shape=2, rate=0.1).condition([14, 22, 9, 31, 18]).predict()
    actions = np.arange(5.0, 40.0)
    losses = {"over 1, under 1": credo.losses.Absolute(), "over 1, under 3": credo.losses.Asymmetric(under=3, over=1)}
    for (name, loss), color in zip(losses.items(), (GREY, BLUE), strict=True):
        cost = [float(credo.decide.expected_loss(demand, loss, a)) for a in actions]
        best = credo.decide(demand, loss)
        ax.plot(actions, cost, color=color, linewidth=1.6, label=name)
        ax.plot([float(best.action)], [float(best.expected_loss)], "o", color=color, markersize=7)
    legend(ax)
    tidy(ax, "loaves baked", "expected loss")


@picture(7, 3.0)
def reject(ax):
    prob = np.linspace(0, 1, 200)
    wait, treat, ask = 50 * prob, 4 * (1 - prob), np.full(200, 2.3)
    for cost, color, name in ((wait, ORANGE, "wait"), (treat, GREEN, "treat"), (ask, GREY, "second opinion")):
        ax.plot(prob, cost, color=color, linewidth=1.6, label=name)
    ax.plot(prob, np.minimum(np.minimum(wait, treat), ask), color=INK, linewidth=3, alpha=0.25, label="best")
    ax.set(ylim=(0, 6), xlim=(0, 1))
    legend(ax)
    tidy(ax, "probability of disease", "expected cost")


@picture(7, 2.8)
def voi(ax):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, size=(12, 1))
    belief = credo.fit(credo.Linear(), x, 1 + x[:, 0] + 0.3 * rng.normal(size=12))
    where = np.linspace(-2, 7, 19)
    loss = credo.losses.Asymmetric(under=5, over=1)
    net = np.asarray(credo.decide.value_of_information(belief, where[:, None], loss, at=[[4.0]], cost=0.01))
    ax.axhline(0, color="#c4cad1", linewidth=1)
    ax.plot(where, net, color=BLUE, linewidth=1.6)
    ax.plot(x[:, 0], np.full(12, -0.017), "|", color=INK, markersize=9)
    ax.axvline(4, color=ORANGE, linestyle="--", linewidth=1.2)
    ax.text(4.08, float(net.max()) * 0.9, "the decision", fontsize=8.5, color=ORANGE)
    ax.text(1.5, -0.027, "measured already", ha="center", fontsize=8.5, color=INK)
    tidy(ax, "where to measure", "worth, less its cost")


@picture(7.6, 2.8, columns=2)
def methods(left, right):
    tried = {
        "maximum likelihood": lambda x, y: credo.Linear().condition(x, y, using=credo.infer.ML()),
        "fit": lambda x, y: credo.fit(credo.Linear(), x, y),
        "unknown noise": lambda x, y: credo.fit(credo.Linear(noise=InverseGamma()), x, y),
        "grid": lambda x, y: credo.Linear().condition(x, y, using=credo.Grid(points=5)),
    }
    rng = np.random.default_rng(0)
    held = {name: [] for name in tried}
    weights = np.array([1.0, 0.5, 0.0])
    for r in range(20):
        x, new = rng.normal(size=(12, 3)), rng.normal(size=(50, 3))
        y, outcome = x @ weights + 0.5 * rng.normal(size=12), new @ weights + 0.5 * rng.normal(size=50)
        for i, (name, method) in enumerate(tried.items()):
            if name == "grid" and r:
                continue
            lower, upper = (np.asarray(end) for end in method(x, y).predict(new).interval(0.95))
            held[name] += list((lower <= outcome) & (outcome <= upper))
            if r == 0:
                left.plot([lower[0], upper[0]], [-i, -i], color=BLUE, linewidth=3, solid_capstyle="round")
    left.set_yticks([-i for i in range(4)], list(tried))
    left.set_ylim(-3.5, 0.5)
    tidy(left, "95 % interval of one prediction", grid="x")
    del held["grid"]
    right.barh([-i for i in range(3)], [np.mean(inside) for inside in held.values()], color=GREY, height=0.55)
    right.axvline(0.95, color=ORANGE, linestyle="--", linewidth=1.4)
    right.set(xlim=(0.6, 1.0), ylim=(-3.5, 0.5), yticks=[])
    tidy(right, "share of 1000 outcomes inside", grid="x")


def gp_page():
    """The data of gaussian-processes.md."""
    rng = np.random.default_rng(0)
    x = np.sort(np.concatenate([rng.uniform(0, 4, 20), rng.uniform(6, 10, 20)]))[:, None]
    y = np.sin(x[:, 0]) + 0.1 * x[:, 0] + 0.2 * rng.normal(size=40)
    few_x = np.array([[-3.5], [-3.0], [-2.3], [-1.7], [1.7], [2.7], [4.0]])
    few_y = np.array([0.9, 1.3, 0.6, -0.1, -0.1, -1.3, -1.4])
    z = rng.uniform(-1, 1, size=(60, 4))
    w = np.sin(3 * z[:, 0]) + 0.5 * z[:, 2] + 0.1 * rng.normal(size=60)
    return (x, y), (few_x, few_y), (z, w)


def curves(ax, grid, gp, number=4, seed=0):
    """The function's band, its mean and draws from it."""
    p = gp.predict(grid[:, None])
    half = 1.96 * np.sqrt(np.asarray(p.epistemic))
    ax.fill_between(grid, p.mean - half, p.mean + half, color=BLUE, alpha=0.18, linewidth=0)
    ax.plot(grid, np.asarray(gp.sample(grid[:, None], number, seed=seed)).T, color=ORANGE, linewidth=0.8, alpha=0.85)
    ax.plot(grid, p.mean, color=BLUE, linewidth=1.6)


@picture(8, 2.5, columns=4)
def gp_sequence(*axes):
    rng = np.random.default_rng(8)
    x = rng.uniform(size=(20, 1))
    y = np.sin(2 * np.pi * x[:, 0]) + 0.1 * rng.normal(size=20)
    belief = credo.GP(kernels.RBF(0.18), 0.0, noise=0.01)
    grid, seen = np.linspace(0, 1, 120), 0
    for ax, n in zip(axes, (0, 2, 5, 20), strict=True):
        belief = belief.condition(x[seen:n], y[seen:n]) if n else belief
        curves(ax, grid, belief, 6)
        dots(ax, x[:n], y[:n])
        ax.set(ylim=(-2.9, 2.9), xticks=[0, 1])
        tidy(ax)
        ax.set_title("prior" if n == 0 else f"{n} observations", fontsize=9.5, color=INK)
        seen = n


@picture(7.4, 3.2)
def gp_first(ax):
    (x, y), *_ = gp_page()
    gp = credo.fit(credo.GP(), x, y)
    grid = np.linspace(-1.5, 13, 200)
    plots.bands(gp.predict(grid[:, None]), grid, ax=ax)
    draws = np.asarray(gp.sample(grid[:, None], 3, seed=2)).T
    ax.plot(grid, draws, color=ORANGE, linewidth=0.9, label=["sampled functions", "_", "_"])
    dots(ax, x, y)
    ax.set_ylim(-2.4, 4.6)
    legend(ax, loc="upper left", ncols=3)


@picture(8.6, 8.6, columns=2, rows=4)
def large_starved(*axes):
    (x, y), *_ = gp_page()
    gp = credo.GP(kernels.RBF(1.0, 1.0), 0.4, noise=0.04)
    points, box = np.array([[0.3], [1.6], [3.6], [6.4], [7.8], [9.5]]), ((-2.5, 13.5),)
    grid = np.linspace(-1.5, 11.5, 400)
    exact = gp.condition(x, y).predict(grid[:, None])
    starved = {
        'Inducing(6, "sor"): sure in the gap': InducingGP(gp, Inducing(6, "sor"), points).condition(x, y),
        'Inducing(6, "vfe"): it knows what it does not know': InducingGP(gp, Inducing(6), points).condition(x, y),
        "RandomFeatures(6): as sure as its weights": gp.condition(x, y, using=RandomFeatures(6)),
        "Local(0.5): seams": gp.condition(x, y, using=Local(0.5)),
        "Neighbours(2): ragged where the function is smooth": gp.condition(x, y, using=Neighbours(2, 2)),
        'SKI(9, "linear"): sure between nodes, bent at them': gp.condition(x, y, using=SKI(9, "linear", box=box)),
        "Fourier(0.3): too few waves, too sure": gp.condition(x, y, using=Fourier(0.3)),
        'Inducing(6, "fitc"): what is left over is noise': InducingGP(gp, Inducing(6, "fitc"), points).condition(x, y),
    }
    for ax, (title, belief) in zip(axes, starved.items(), strict=True):
        p = belief.predict(grid[:, None])
        half, wanted = (1.96 * np.sqrt(np.asarray(v.epistemic)) for v in (p, exact))
        ax.fill_between(grid, p.mean - half, p.mean + half, color=BLUE, alpha=0.2, linewidth=0, label="95 %")
        ax.plot(grid, p.mean, color=BLUE, linewidth=1.5, label="approximation")
        ax.plot(grid, exact.mean, color=ORANGE, linewidth=0.9, label="exact")
        ax.plot(grid, np.column_stack([exact.mean - wanted, exact.mean + wanted]), "--", color=ORANGE, linewidth=0.8)
        dots(ax, x, y)
        ax.set_ylim(-2.6, 3.4)
        tidy(ax)
        ax.set_title(title, fontsize=9.5, color=INK)
    legend(axes[0], loc="upper left", ncols=3)


@picture(9.6, 7.2, columns=2, rows=2)
def map_field(mean, sd, exceeds, variogram):
    page = page_until("maps.md", "made")
    field, made = page["field"], page["made"]
    for ax, layer, title in ((mean, "mean", "mean"), (sd, "sd", "standard deviation"), (exceeds, "exceeds", "P(> 23)")):
        plots.field_map(made, layer, field.points, ax=ax)
        ax.set_title(title, fontsize=9.5, color=INK)
    plots.variogram(field.variogram(), ax=variogram)
    variogram.set_title("variogram", fontsize=9.5, color=INK)


@picture(8.6, 3.0, columns=3)
def gp_maxima(surface, left, right):
    _, (x, y), _ = gp_page()
    gp = credo.GP(kernels.RBF(), 0.0)
    ranges = {"kernel.lengthscale": (0.2, 20.0), "noise": (0.002, 2.0)}
    found = evidence_surface(gp, x, y, "kernel.lengthscale", "noise", ranges=ranges)
    below = found.log_evidence - found.log_evidence.max()
    levels = [-20, -12, -8, -6, -5, -4, -3, -2.5, -2, -1.5, -1, -0.5, -0.1, 0]
    surface.contourf(found.first, found.second, below, levels=levels, cmap="viridis", extend="min")
    surface.set(xscale="log", yscale="log")
    tidy(surface, "lengthscale", "noise variance", grid="")
    grid = np.linspace(-6, 6, 160)
    for ax, top, mark in zip((left, right), found.maxima, "AB", strict=True):
        surface.plot(top.first, top.second, "o", mfc=RED, mec="white", markersize=7)
        surface.annotate(
            mark, (top.first, top.second), xytext=(7, 3), textcoords="offset points", color="white", weight="bold"
        )
        best = credo.GP(kernels.RBF(top.first), 0.0, noise=top.second).condition(x, y)
        bands(ax, grid, best.predict(grid[:, None]), f"{mark}: log evidence {top.log_evidence:.2f}")
        dots(ax, x, y)
        ax.set_ylim(-3.2, 3.2)


@picture(7.6, 2.9, columns=2)
def gp_ard(left, right):
    *_, (z, w) = gp_page()
    gp = credo.fit(credo.GP(), z, w)
    colors = (BLUE, GREY, ORANGE, SKY)
    left.barh(range(4), 1 / np.asarray(gp.kernel.lengthscale), color=colors, height=0.6)
    left.set_yticks(range(4), [f"x{i}" for i in range(4)])
    left.invert_yaxis()
    tidy(left, "1 / lengthscale", grid="x")
    grid = np.linspace(-1, 1, 60)
    for i in (1, 3, 2, 0):
        rows = np.zeros((60, 4))
        rows[:, i] = grid
        p = gp.predict(rows)
        half = 1.96 * np.sqrt(np.asarray(p.epistemic))
        right.fill_between(grid, p.mean - half, p.mean + half, color=colors[i], alpha=0.15, linewidth=0)
        right.plot(grid, p.mean, color=colors[i], linewidth=1.8, label=f"x{i}")
    handles = dict(zip(*reversed(right.get_legend_handles_labels()), strict=True))
    right.legend([handles[f"x{i}"] for i in range(4)], [f"x{i}" for i in range(4)], frameon=False, fontsize=8.5)
    right.set_xticks([-1, 0, 1])
    tidy(right, "one input, the others at 0", "predicted mean")


def gallery(name, shown, low=-3.0, high=3.0):
    """Registers a picture of prior draws, a panel for each kernel."""

    @picture(8.6, 3.9, columns=3, rows=2, name=f"kernels_{name}")
    def draw(*axes):
        grid = np.linspace(low, high, 300)
        for ax, (title, kernel) in zip(axes, shown.items(), strict=True):
            draws = np.asarray(credo.GP(kernel, 0.0).sample(grid[:, None], 3, seed=3))
            for one, color in zip(draws, (BLUE, ORANGE, GREEN), strict=True):
                ax.plot(grid, one, color=color, linewidth=1.2)
            ax.set_title(title, fontsize=9.5, color=INK)
            ax.axhline(0, color="#c4cad1", linewidth=0.8)
            tidy(ax, grid="")
            ax.set(xticks=[], yticks=[])


gallery(
    "smooth",
    {
        "RBF": kernels.RBF(0.8),
        "Matern52": kernels.Matern52(0.8),
        "Matern32": kernels.Matern32(0.8),
        "Exponential": kernels.Exponential(0.8),
        "RationalQuadratic, α = 0.1": kernels.RationalQuadratic(0.5, alpha=0.1),
        "Brownian": kernels.Brownian(origin=-3.0),
    },
)
gallery(
    "periodic",
    {
        "Periodic": kernels.Periodic(0.8, period=2.0),
        "LocallyPeriodic": kernels.LocallyPeriodic(1.5, period=1.0, decay=2.0),
        "Cosine": kernels.Cosine(period=2.0),
        "SpectralMixture, two waves": kernels.SpectralMixture([1.0, 0.3], [[0.5], [3.0]], [[0.01], [0.01]]),
        "Linear × Periodic": kernels.Linear(center=-3.0) * kernels.Periodic(period=1.0),
        "RBF + Periodic": 3.0 * kernels.RBF(2.0) + 0.3 * kernels.Periodic(period=1.0),
    },
)
gallery(
    "shapes",
    {
        "Constant + Linear": kernels.Constant() + kernels.Linear(),
        "Polynomial(2)": kernels.Polynomial(2),
        "NeuralNetwork": kernels.NeuralNetwork(0.3),
        "Gibbs, ℓ shrinking to the right": kernels.Gibbs(0.5, slope=[-0.6]),
        "ChangePoint(RBF, Exponential)": kernels.ChangePoint(kernels.RBF(1.5), kernels.Exponential(0.4), 0.0, 0.1),
        "RBF.warp(x³)": kernels.RBF(3.0).warp(lambda row: row**3),
    },
)


def co2():
    """The monthly mean at Mauna Loa from 1980 on, every third month, as statistician.md has it."""
    from statsmodels.datasets import co2 as mauna_loa

    monthly = mauna_loa.load_pandas().data["co2"].resample("MS").mean().dropna()["1980":][::3]
    years = monthly.index.year + (monthly.index.month - 0.5) / 12
    return pd.DataFrame({"year": years}), monthly.to_numpy()


def gp_components():
    found = search_kernel(*co2(), seconds=120, depth=2)
    figure = plots.components(found, ahead=0.3, target="CO2 in ppm", units={"year": "years"})
    figure.savefig(OUT / "gp_components.svg", metadata={"Date": None})


PICTURES["gp_components"] = gp_components


def mcmc_chains():
    """The chains of mcmc.md."""
    page = (Path(__file__).parent / "mcmc.md").read_text(encoding="utf-8")
    namespace = {}
    exec(page.split("```python\n", 1)[1].split("```", 1)[0], namespace)
    figure = plots.chains(namespace["draws"], ["mean", "spread", "school[0]"])
    figure.savefig(OUT / "mcmc_chains.svg", metadata={"Date": None})


PICTURES["mcmc_chains"] = mcmc_chains


def class_pictures(name):
    """The figures of classification.md, drawn by its own code."""

    def make():
        page = (Path(__file__).parent / "classification.md").read_text(encoding="utf-8")
        namespace = {}
        for block in page.split("```python\n")[1:]:
            exec(block.split("```", 1)[0], namespace)
            if name in namespace:
                break
        namespace[name].savefig(OUT / f"class_{name}.svg", metadata={"Date": None})

    return make


PICTURES["class_regions"] = class_pictures("regions")
PICTURES["class_entropy"] = class_pictures("entropy")


@picture(8.6, 3.1, columns=2)
def active(left, right):
    """Noise that varies, and learning curves, as in active-learning.md."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 40)[:, None]
    t = np.sin(6 * x[:, 0]) + np.where(x[:, 0] < 0.5, 0.05, 0.8) * rng.normal(size=40)
    f, g = credo.GP(kernels.RBF(0.2), mean=0.0), credo.GP(kernels.RBF(0.3, 2.0), mean=-3.0)
    belief = credo.HeteroscedasticGP(f, g).condition(x, t)
    grid = np.linspace(0, 1, 101)
    bands(left, grid, belief.predict(grid[:, None]), "asked where ignorance is large against noise")
    dots(left, x, t)
    for at in acquire(belief, grid[:, None], n=4).x[:, 0]:
        left.axvline(at, color=RED, linewidth=1.1, linestyle="--")
    prior = credo.GP(kernels.RBF(0.25), mean=0.0, noise=0.01)
    square = rng.uniform(size=(300, 2))
    truth = np.asarray(prior.sample(square, seed=1))[0]
    noisy = truth + 0.1 * rng.normal(size=300)
    curves = learning_curves(prior, square, noisy, 60, test=(square, truth), seeds=4, batch=5, refit=0)
    plots.learning_curves(curves, ax=right)


@picture(8.6, 3.6, columns=3, rows=2)
def bo_run(*axes):
    """The belief and the score after 5, 7 and 10 trials of the first campaign of bayesian-optimization.md."""
    page = (Path(__file__).parent / "bayesian-optimization.md").read_text(encoding="utf-8")
    namespace = {}
    exec(page.split("```python\n", 1)[1].split("```", 1)[0], namespace)
    campaign, strength = namespace["campaign"], namespace["strength"]
    grid = np.linspace(0, 5, 201)
    truth = [strength({"dose": x}) for x in grid]
    for i, n in enumerate((5, 7, 10)):
        early = Campaign(campaign.problem.space)
        told = campaign.trials[:n]
        for trial in told:
            early.add(trial.point, trial.value)
        model = early.model()
        ((curve,),) = slices(early.problem, model, {"dose": 0.0}, ["dose"])
        top, bottom = axes[i], axes[i + 3]
        top.fill_between(curve.at, curve.lower, curve.upper, color=SKY, alpha=0.4, linewidth=0)
        top.plot(grid, truth, color=GREY, linewidth=1.0, linestyle="--")
        top.plot(curve.at, curve.mean, color=BLUE, linewidth=1.5)
        dots(top, [trial.point["dose"] for trial in told], [trial.value for trial in told])
        top.set(xlim=(0, 5), ylim=(-2.6, 2.6))
        top.set_title(f"{n} trials", fontsize=9.5, color=INK)
        bottom.fill_between(curve.at, 0, curve.score, color=ORANGE, alpha=0.5, linewidth=0)
        bottom.set(xlim=(0, 5), ylim=(0, 1.1), yticks=[])
        tidy(top, "", "strength" if i == 0 else "")
        tidy(bottom, "dose", "look next" if i == 0 else "")


@picture(8.6, 3.2)
def campaign_best(ax):
    """A search in which some trials fail."""

    def train(point):
        if point["lr"] > 0.02:
            raise FloatingPointError("diverged")
        off = (np.log10(point["lr"]) + 2.3) ** 2 + 0.05 * (point["layers"] - 4) ** 2
        return {"loss": 0.2 + 0.2 * off + 0.1 * (point["optimizer"] == "sgd")}

    space = {"lr": Real(1e-4, 1e-1, log=True), "layers": Integer(1, 8), "optimizer": Categorical(["adam", "sgd"])}
    plots.best(Campaign(Space(space), {"loss": "minimize"}).run(train, 16, progress=False), ax=ax)


def page_until(page, *names):
    """What the code of a page has made, up to the block that makes the last of the names; its files are thrown away."""
    namespace = {}
    text = (Path(__file__).parent / page).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in text.split("```python\n")[1:]:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(block.split("```", 1)[0], namespace)
            if all(name in namespace for name in names):
                break
    return namespace


@picture(5.6, 5.8)
def network_asia(ax):
    """The network of networks.md after two symptoms, with the trails that these opened."""
    page_until("networks.md", "both")["both"].plot(ax=ax, between=("smoke", "tub"))


@picture(9.2, 3.7, columns=3)
def causes_see_do(seen, done, healed):
    """The kidney stones of causes.md: the network, the arrow into treatment cut, and the shares healed."""
    stones = page_until("causes.md", "stones")["stones"]
    for ax, net, words in (
        (seen, stones.condition({"treatment": "a"}), "seen: treatment = a"),
        (done, stones.do(treatment="a"), "done: treatment = a"),
    ):
        net.plot(ax=ax)
        ax.set_title(words, fontsize=9.5, color=INK, loc="left")
    for i, option in enumerate("ab"):
        shares = (
            stones.condition({"treatment": option}).predict("healed")["yes"],
            stones.do(treatment=option).predict("healed")["yes"],
        )
        for j, (share, color) in enumerate(zip(shares, (GREY, BLUE), strict=True)):
            healed.bar(i + 0.36 * j, share, 0.34, color=color, label=("seen", "done")[j] if i == 0 else None)
            healed.annotate(f"{share:.3f}", (i + 0.36 * j, share), (0, 11), ha="center", **SAID)
    healed.set_xticks([0.18, 1.18], ["treatment a", "treatment b"])
    healed.set_ylim(0.6, 0.9)
    tidy(healed, "", "share healed")
    legend(healed, loc="upper left", ncols=2)


@picture(6.6, 5.4)
def causes_arrows(ax):
    """The arrows of causes.md, each with its probability."""
    made = page_until("causes.md", "network", "arrows")
    plots.arrows(made["network"], made["arrows"], ax=ax)


@picture(8.6, 3.0)
def hmm_states(ax):
    """The earthquakes of time-series.md with the states that are believed in."""
    made = page_until("time-series.md", "hmm", "quakes")
    hmm, quakes = made["hmm"], made["quakes"]
    years = np.arange(1900, 1900 + len(quakes))
    plots.states(hmm.smooth(quakes), quakes, years, hmm.states, ax=ax)
    tidy(ax, "", "earthquakes a year", grid="")


@picture(8.6, 3.4)
def kalman(ax):
    """The model of a Kalman filter above, the two turns of the filter below."""

    def arrow(start, stop, ink=INK, **style):
        ax.add_patch(FancyArrowPatch(start, stop, arrowstyle="-|>", mutation_scale=12, color=ink, **style))

    for i, t in enumerate(("t-1", "t", "t+1")):
        x = 1.6 + 2.9 * i
        for y, letter, fill in ((3.2, "z", "white"), (2.2, "x", "#eef4fa")):
            ax.plot(x, y, "o", markersize=26, markerfacecolor=fill, markeredgecolor=BLUE)
            ax.text(x, y, f"${letter}_{{{t}}}$", ha="center", va="center", fontsize=10, color=INK)
        arrow((x, 2.95), (x, 2.47))
        ax.text(x + 0.12, 2.7, "$H,\\ R$", va="center", fontsize=9, color=INK)
        arrow((x - 1.1 if i == 0 else x - 2.55, 3.2), (x - 0.33, 3.2))
        ax.text(x - 1.45 if i else x - 0.85, 3.33, "$F,\\ Q$", ha="center", fontsize=9, color=INK)
    boxes = (
        (2.0, "predict", "$m^- = Fm,\\quad P^- = FPF^\\top + Q$"),
        (7.0, "update", "$m = m^- + K(x - Hm^-),\\quad P = P^- - KHP^-$"),
    )
    for x, name, formula in boxes:
        ax.add_patch(FancyBboxPatch((x - 1.75, 0.5), 3.5, 0.75, boxstyle="round,pad=0.05", fc="#eef4fa", ec=BLUE))
        ax.text(x, 1.05, name, ha="center", va="center", fontsize=10, color=INK, weight="bold")
        ax.text(x, 0.7, formula, ha="center", va="center", fontsize=9, color=INK)
    arrow((3.85, 0.9), (5.15, 0.9))
    arrow((7.0, 0.4), (2.0, 0.4), connectionstyle="arc3,rad=-0.1")
    arrow((7.0, 1.75), (7.0, 1.35), ORANGE)
    ax.text(7.12, 1.55, "$x_t$ is seen;  $K = P^-H^\\top(HP^-H^\\top + R)^{-1}$", va="center", fontsize=9, color=INK)
    ax.text(4.5, -0.02, "the posterior is the next prior", ha="center", fontsize=9, color=BLUE)
    ax.set(xlim=(0.0, 10.2), ylim=(-0.15, 3.65))
    ax.axis("off")


@picture(8.6, 5.2)
def loadings(ax):
    """The wines of factors.md: which measurements say the same."""
    plots.loadings(page_until("factors.md", "shown")["shown"], ax=ax)


@picture(8.6, 3.4, columns=2)
def mixture_clusters(left, right):
    """The flowers of mixtures.md by component, with two standard deviations of each; and how sure each label is."""
    made = page_until("mixtures.md", "mixture", "labels")
    mixture, x, labels = made["mixture"], made["X"], made["labels"]
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for j, colour in enumerate((BLUE, ORANGE, GREEN)):
        left.scatter(*x[labels == j][:, [0, 2]].T, s=9, color=colour, alpha=0.7, lw=0)
        root = np.linalg.cholesky(mixture.density.covariance[j][np.ix_([0, 2], [0, 2])])
        left.plot(*(mixture.density.mean[j][[0, 2], None] + 2 * root @ circle), color=colour, lw=1.4)
    doubt = mixture.clusters(x).total
    right.scatter(*x[:, [0, 2]].T, s=6 + 120 * doubt, color=RED, alpha=0.35, lw=0)
    tidy(left, "sepal length", "petal length")
    tidy(right, "sepal length", "")
    right.set_title("doubt about the label", fontsize=9, color=INK)


@picture(8.6, 3.6, columns=2)
def explore(left, right):
    """The wines of explore.md."""
    from credo.app.plots import exploration as drawn
    from credo.app.report.exploration import differences

    found = page_until("explore.md", "found")["found"]
    parts = {part.name: part for part in found.features.parts}
    x, y = (parts[name].natural(parts[name].values) for name in ("flavanoids", "color_intensity"))
    drawn.scatter(x, y, found.clusters.labels, found.oddness.odd, ("flavanoids", "color_intensity"), ax=left)
    drawn.profile(*differences(found), ax=right)


@picture(5.4, 3.2)
def mixture_regression(ax):
    """A mixture of two Gaussians in (x, y), and its density of y for each x."""
    rng = np.random.default_rng(3)
    t = rng.uniform(-1, 1, size=200)
    y = np.where(rng.random(200) < 0.6, 1.5 + t, -1.0 - 1.2 * t) + 0.2 * rng.normal(size=200)
    belief = credo.fit(credo.Mixture(2), np.column_stack([t, y]))
    grid, values = np.linspace(-1, 1, 80), np.linspace(-3.2, 3.2, 80)
    p = belief.predict(np.column_stack([grid, np.full(80, np.nan)]))
    ax.pcolormesh(grid, values, np.exp([p.log_prob(np.full(80, v)) for v in values]), cmap="Blues", rasterized=True)
    ax.scatter(t, y, s=5, color=INK, alpha=0.5, lw=0)
    ax.plot(grid, p.mean, color=ORANGE, lw=1.4)
    ax.annotate("mean", (grid[-16], p.mean[-16]), xytext=(0, -4), color=ORANGE, textcoords="offset points", va="top")
    tidy(ax, "x", "y", grid="")


@picture(8.6, 3.2, columns=2)
def experts_regions(left, right):
    """The experts of experts.md: their lines where the gate believes them, the prediction, and the gate."""
    made = page_until("experts.md", "experts")
    experts, x, y = made["experts"], made["x"], made["y"]
    grid = np.linspace(-3, 3, 300)[:, None]
    p, regions, answers = experts.predict(grid), experts.regions(grid), experts.answers(grid)
    left.fill_between(grid[:, 0], *p.interval(0.95), color=SKY, alpha=0.35, lw=0)
    left.scatter(x[:, 0], y, s=6, color=INK, alpha=0.5, lw=0)
    for j, colour in enumerate((BLUE, ORANGE)):
        left.plot(grid[:, 0], answers[:, j], color=colour, lw=0.8, ls=":")
        left.plot(grid[:, 0], np.where(regions[:, j] > 0.5, answers[:, j], np.nan), color=colour, lw=1.8)
        right.plot(grid[:, 0], regions[:, j], color=colour, lw=1.6)
    left.set_ylim(-3.5, 7)
    tidy(left, "x", "y")
    tidy(right, "x", "how much each expert is believed")


@picture(5.4, 3.2)
def experts_branches(ax):
    """The parabola on its side of experts.md: the density of y for each x."""
    made = page_until("experts.md", "branches")
    grid, values = np.linspace(-0.02, 1, 100), np.linspace(-1.3, 1.3, 80)
    p = made["branches"].predict(grid[:, None])
    heights = np.exp([p.log_prob(np.full(100, v)) for v in values])
    ax.pcolormesh(grid, values, heights**0.5, cmap="Blues", rasterized=True)
    ax.scatter(made["square"], made["t"], s=5, color=INK, alpha=0.5, lw=0)
    ax.plot(grid, p.mean, color=ORANGE, lw=1.4)
    tidy(ax, "x", "y", grid="")


@picture(8.6, 3.2, columns=2)
def lds_track(left, right):
    """The cart of time-series.md: filter and smoother around the gap, and the forecast."""
    made = page_until("time-series.md", "cart", "filtered", "after")
    x, truth, at = made["x"], made["truth"], np.arange(60)
    around = slice(22, 56)
    for name, laws, color in (("filter", made["filtered"], ORANGE), ("smoother", made["smoothed"], BLUE)):
        mean, doubt = np.asarray(laws.mean)[around, 0], 1.96 * np.asarray(laws.std)[around, 0]
        left.fill_between(at[around], mean - doubt, mean + doubt, color=color, alpha=0.25, linewidth=0)
        left.plot(at[around], mean, color=color, linewidth=1.5, label=name)
    left.plot(at[around], truth[around, 0], color=INK, linewidth=1.0, linestyle="--", label="truth")
    dots(left, at[around], x[around, 0])
    left.lines[-1].set_markersize(2.5)
    legend(left, loc="best")
    tidy(left, "time", "position")
    plots.forecast(made["after"].predict(15), x[30:, 0], at[30:], ax=right)
    tidy(right, "time", "")


@picture(8.6, 4.0, rows=2)
def filter_alarm(top, bottom):
    """The machine of filtering.md: what was measured, and what was believed at once, later and in the end."""
    made = page_until("filtering.md", "machine", "later", "hindsight")
    hours = np.arange(60)
    top.plot(hours, made["vibration"][:, 0], ".-", color=INK, linewidth=0.8, markersize=4)
    tidy(top, "", "vibration")
    for name, probs, color in (
        ("at once (filter)", made["whole"].probs, ORANGE),
        ("3 hours later (fixed lag)", made["later"], GREEN),
        ("in the end (smoother)", made["hindsight"], BLUE),
    ):
        bottom.plot(hours, np.asarray(probs)[:, 1], color=color, linewidth=1.6, label=name)
    bottom.plot(made["alarm"], made["whole"].probs[made["alarm"], 1], "o", color=RED, markersize=6, label="alarm")
    for ax in (top, bottom):
        ax.axvline(made["began"] - 0.5, color=GREY, linewidth=1.1, linestyle="--")
        ax.set_xlim(-0.5, 59.5)
    top.annotate("worn from here on", (made["began"], 1), (2, -2), ("data", "axes fraction"), **SAID)
    bottom.set_ylim(-0.03, 1.05)
    top.set_ylim(-2, 4.4)
    legend(bottom, loc="lower right", bbox_to_anchor=(1, 0.1))
    tidy(bottom, "hours", "P(worn)")


@picture(8.6, 2.7, columns=2)
def filter_turn(left, right):
    """The cyclist of filtering.md: one turn, as bells of her position."""
    made = page_until("filtering.md", "cyclist", "belief", "m", "P", "R", "report", "K")
    state, (m, p, r, x, k) = made["belief"].state, (made[name] for name in ("m", "P", "R", "report", "K"))
    z = np.linspace(m - 60, m + 60, 400)

    def bell(ax, mean, variance, color, text, **style):
        height = np.exp(-0.5 * (z - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
        ax.plot(z, height, color=color, linewidth=1.8, label=text, **style)
        ax.fill_between(z, height, color=color, alpha=0.12, linewidth=0)

    bell(left, state.mean[0], state.covariance[0, 0], GREY, "now", linestyle="--")
    bell(left, m, p, BLUE, "predicted: moved and widened")
    bell(right, m, p, BLUE, "predicted")
    bell(right, x, r, ORANGE, "of the report")
    bell(right, m + k * (x - m), (1 - k) * p, RED, "updated: their product")
    for ax, title in ((left, "predict"), (right, "update")):
        ax.set(xlim=(z[0], z[-1]), ylim=(0, None), yticks=[])
        ax.set_title(title, fontsize=9.5, color=INK)
        legend(ax, loc="upper left")
        tidy(ax, "position in m", "")


@picture(8.6, 2.9, columns=3)
def filter_pendulum(*axes):
    """The pendulum of filtering.md by three methods."""
    made = page_until("filtering.md", "pendulum", "shadow", "laws")
    seconds = 0.1 * np.arange(60)
    for ax, method in zip(axes, (made["Extended"](), made["Unscented"](), made["Particles"](2000)), strict=True):
        laws = made["pendulum"].filter(made["shadow"], using=method)
        mean, doubt = np.asarray(laws.mean)[:, 0], 1.96 * np.asarray(laws.std)[:, 0]
        ax.fill_between(seconds, mean - doubt, mean + doubt, color=SKY, alpha=0.45, linewidth=0)
        ax.plot(seconds, mean, color=BLUE, linewidth=1.5, label="believed")
        ax.plot(seconds, made["angles"], color=INK, linewidth=1.0, linestyle="--", label="truth")
        ax.set(xlim=(0, 5.9), ylim=(-4.2, 4.2))
        ax.set_title(type(method).__name__, fontsize=9.5, color=INK)
        tidy(ax, "seconds", "angle" if ax is axes[0] else "")
    legend(axes[0], loc="lower left", ncols=2)


@picture(8.6, 5.6, rows=3)
def forecast_parts(top, *below):
    """The forecast of forecasting.md, what came, and its parts."""
    made = page_until("forecasting.md", "after", "later", "parts")
    months = made["monthly"].index.to_numpy()
    plots.forecast(made["p"], made["known"], months[:120], months[120:], ax=top)
    top.plot(months[120:], made["later"], ".", color=RED, markersize=3.5, label="what came")
    legend(top, loc="upper left", ncols=2)
    tidy(top, "", "CO2 in ppm")
    for ax, (name, part) in zip(below, made["parts"].items(), strict=True):
        mean, doubt = np.asarray(part.mean), 1.96 * np.asarray(part.std)
        ax.fill_between(months, mean - doubt, mean + doubt, color=SKY, alpha=0.45, linewidth=0)
        ax.plot(months, mean, color=BLUE, linewidth=1.4)
        ax.axvline(months[119], color="#c4cad1", linewidth=1.0, linestyle="--")
        tidy(ax, "", name)
    for ax in (top, *below):
        ax.set_xlim(months[0], months[-1])


@picture(6.6, 3.9)
def mdp_grid(ax):
    """The gridworld of mdps.md, planned."""
    made = page_until("mdps.md", "drawing", "world", "plan")
    plots.grid(made["plan"], ax=ax)


def latent_rows():
    """Two classes on a line, told apart with some error, and none on the right."""
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(-3, 1.5, size=30))
    return x[:, None], (rng.uniform(size=30) < 1 / (1 + np.exp(-4 * np.sin(1.5 * x)))).astype(int)


@picture(8.6, 2.9, columns=3)
def latent_sigmoid(left, middle, right):
    """A draw of f, the probability it stands for, and the average probability beside that of the average f."""
    grid = np.linspace(-3.5, 4, 200)
    prior = credo.GP(kernels.RBF(0.8, 4.0), 0.0, 1e-6)
    for f, color in zip(prior.sample(grid[:, None], 3, seed=2), (BLUE, ORANGE, GREEN), strict=True):
        left.plot(grid, f, color=color, linewidth=1.4)
        middle.plot(grid, 1 / (1 + np.exp(-f)), color=color, linewidth=1.4)
    x, y = latent_rows()
    belief = credo.LatentGP(kernel=kernels.RBF(0.8, 9.0), mean=0.0).condition(x, y)
    f = belief.function(grid[:, None])
    right.fill_between(
        grid, *(1 / (1 + np.exp(-(f.mean + s * f.std))) for s in (-2, 2)), color=SKY, alpha=0.35, linewidth=0
    )
    right.plot(grid, 1 / (1 + np.exp(-f.mean)), color=ORANGE, linewidth=1.4, label="σ(mean of f)")
    right.plot(grid, belief.predict(grid[:, None]).probs[:, 1], color=BLUE, linewidth=1.6, label="mean of σ(f)")
    right.plot(x[:, 0], y, "|", color=INK, markersize=8)
    right.set_ylim(-0.05, 1.28)
    legend(right, loc="upper left", ncols=2)
    titles = ("draws of f before data", "the probabilities they mean", "after thirty rows, ±2 standard deviations")
    for ax, title, label in zip((left, middle, right), titles, ("f", "P(y = 1)", "P(y = 1)"), strict=True):
        ax.set_title(title, fontsize=9.5, color=INK)
        tidy(ax, "x", label)


@picture(5.6, 3.1)
def latent_posteriors(ax):
    """The posterior of one value of f by four methods."""
    x, y = latent_rows()
    prior = credo.LatentGP(kernel=kernels.RBF(0.8, 9.0), mean=0.0)
    at = np.array([[1.2]])
    drawn = prior.condition(x, y, using=infer.NUTS(chains=4, draws=1000, warmup=500))
    means, left = drawn._drawn(drawn.queries(at))
    f = means[:, 0] + np.sqrt(left[0]) * np.random.default_rng(0).normal(size=len(means))
    ax.hist(f, 40, density=True, color="#dfe4ea", label="NUTS")
    grid = np.linspace(-4, 14, 300)
    for method, color in ((infer.Laplace(), ORANGE), (EP(), BLUE), (infer.Variational(), GREEN)):
        found = prior.condition(x, y, using=method).function(at)
        density = np.exp(-0.5 * ((grid - found.mean) / found.std) ** 2) / (found.std * np.sqrt(2 * np.pi))
        ax.plot(grid, density, color=color, linewidth=1.6, label=type(method).__name__)
    legend(ax, loc="upper right")
    tidy(ax, "f(1.2)", "density")


@picture(5.6, 3.8)
def latent_boundary(ax):
    """A ring of one class around the other: P = ½ of a process that has seen 120 rows, and of who knows the truth."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-2.5, 2.5, size=(120, 2))
    truth = 3.0 * (np.hypot(*x.T) - 1.3)
    y = (rng.uniform(size=120) < 1 / (1 + np.exp(-truth))).astype(int)
    plots.decision_regions(credo.fit(credo.LatentGP(), x, y), x, y, grid=80, ax=ax)
    angle = np.linspace(0, 2 * np.pi, 200)
    ax.plot(1.3 * np.cos(angle), 1.3 * np.sin(angle), color=INK, linestyle="--", linewidth=1.4, label="the optimal one")
    legend(ax, loc="upper right")


@picture(8.6, 3.1, columns=2)
def agent_curves(left, right):
    """The three agents of reinforcement-learning.md."""
    runs = page_until("reinforcement-learning.md", "runs")["runs"]
    plots.learning_curves(runs, ax=left)
    left.set_xlim(0, 1000)
    left.annotate("the best policy", (1000, runs["Q-learning"].optimum), (-4, 5), ha="right", **SAID | {"va": "bottom"})
    left.set_ylim(-0.6, 0.58)
    plots.regret(runs, ax=right)
    right.set_xlim(0, 2000)
    right.set_ylabel("regret of training")


@picture(8.6, 3.4, columns=2)
def nadaraya_watson(left, right):
    """The density of kernel-methods.md over its inputs, and at three of them."""
    page = page_until("kernel-methods.md", "model")
    model, x, t = page["model"], page["x"], page["t"]
    grid, outcomes = np.linspace(-1.5, 7.5, 240), np.linspace(-3.2, 3.2, 200)
    p = model.predict(grid[:, None])
    density = np.exp(p.log_prob(outcomes[:, None]))
    left.pcolormesh(grid, outcomes, np.sqrt(density), cmap="Blues", shading="auto", rasterized=True)
    left.plot(x[:, 0], t, "o", color=INK, markersize=1.8, alpha=0.7)
    left.plot(grid, p.mean, color=ORANGE, linewidth=1.8, label="mean")
    legend(left, loc="upper left")
    tidy(left, "x", "t", grid="")
    for at, color in ((1.0, GREEN), (5.0, BLUE), (20.0, GREY)):
        one = model.predict([[at]])
        right.plot(outcomes, np.exp(one.log_prob(outcomes[:, None]))[:, 0], color=color, label=f"x = {at:g}")
    legend(right, loc="upper right")
    tidy(right, "t", "p(t | x)")


@picture(8.6, 3.2, columns=2)
def cube_surface(left, right):
    share, columns = np.linspace(0, 1, 200), np.arange(1, 101)
    for d, color in ((1, GREY), (2, GREEN), (5, SKY), (20, BLUE), (100, RED)):
        left.plot(share, 1 - (1 - share) ** d, color=color, label=f"{d} column{'s' * (d > 1)}")
    legend(left, loc="lower right")
    tidy(left, "ε, a layer ε/2 deep on each side", "share of the volume in it")
    for part, color in ((0.1, SKY), (0.01, BLUE), (0.001, RED)):
        right.plot(columns, part ** (1 / columns), color=color, label=f"holds {100 * part:g} % of the rows")
    right.set_ylim(0, 1)
    legend(right, loc="lower right")
    tidy(right, "columns", "edge of a cube that …")


@picture(8.6, 3.8, columns=2)
def ellipse_plane(left, right):
    """x → (x₁², x₂², √2 x₁x₂) turns the ellipse xᵀAx = 1 into a plane."""
    rng = np.random.default_rng(0)
    a = np.array([[1.0, 0.45], [0.45, 0.6]])
    x = rng.uniform(-1.8, 1.8, size=(260, 2))
    level = np.einsum("ni,ij,nj->n", x, a, x)
    x, inside = x[np.abs(level - 1) > 0.12], level[np.abs(level - 1) > 0.12] < 1
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    edge = circle / np.sqrt(np.einsum("in,ij,jn->n", circle, a, circle))
    for which, color in ((inside, ORANGE), (~inside, BLUE)):
        left.plot(*x[which].T, "o", color=color, markersize=3)
    left.plot(*edge, color=INK, linewidth=1.4)
    left.set_aspect("equal")
    tidy(left, "x₁", "x₂", grid="")
    figure = right.figure
    right.remove()
    space = figure.add_subplot(1, 2, 2, projection="3d")

    def lifted(u, v):
        return u**2, v**2, np.sqrt(2) * u * v

    for which, color in ((inside, ORANGE), (~inside, BLUE)):
        space.plot(*lifted(*x[which].T), "o", color=color, markersize=2.5)
    first, third = np.meshgrid(np.linspace(0, 3.2, 60), np.linspace(-3.2, 3.2, 60))
    second = (1 - a[0, 0] * first - np.sqrt(2) * a[0, 1] * third) / a[1, 1]
    second[(second < 0) | (second > 3.2)] = np.nan
    space.plot_surface(first, second, third, color=GREY, alpha=0.4, linewidth=0, rasterized=True)
    space.plot(*lifted(*edge), color=INK, linewidth=1.4)
    space.set(xlabel="x₁²", ylabel="x₂²", zlabel="√2 x₁x₂", ylim=(0, 3.2))
    space.view_init(elev=12, azim=-60)  # nearly along the plane
    space.set_box_aspect((1, 1, 1), zoom=0.95)
    space.tick_params(labelsize=7)


@picture(6.6, 3.9)
def novelty(ax):
    """The three classes of generative.md: who is where, and where nobody has been."""
    made = page_until("generative.md", "belief", "X", "species")
    belief, x, species = made["belief"], made["X"], made["species"]
    wide, high = np.linspace(24, 66, 140), np.linspace(8, 26, 120)
    grid = np.stack(np.meshgrid(wide, high), axis=-1).reshape(-1, 2)
    shape = (len(high), len(wide))
    probs = belief.predict(grid, draws=0, warn=False).probs
    for i, colour in enumerate((BLUE, ORANGE, GREEN)):
        mine = probs[:, i].reshape(shape)
        ax.contourf(wide, high, mine, levels=[0.5, 0.9, 1.01], colors=[colour, colour], alpha=0.16)
        ax.scatter(*x[species == belief.classes[i]].T, s=12, color=colour, label=belief.classes[i])
    lines = ax.contour(
        wide, high, np.log10(belief.novelty(grid)).reshape(shape), [-6, -3, -1], colors=INK, linewidths=0.9
    )
    ax.clabel(lines, fmt={-6: "1e-6", -3: "0.001", -1: "0.1"}, fontsize=8)
    ax.set_title("classes (shaded: more probable than not), and novelty (lines)", fontsize=9.5, color=INK)
    legend(ax, loc="lower right")
    tidy(ax, "bill length, mm", "bill depth, mm", grid="")


@picture(8.4, 3.1, columns=2)
def generative_rows(left, right):
    """Log loss of naive Bayes and of the logistic model against rows; where both are right, and where one is not."""
    sizes, rng = np.array([10, 20, 40, 80, 160, 320]), np.random.default_rng(0)
    slope = np.array([1.0, 0.7, 0.5, 0.3, 0.0, 0.0])

    def gaussian(n):
        y = np.arange(n) % 2
        return rng.normal(size=(n, 6)) + slope * (2 * y[:, None] - 1) * 0.6, y

    def lognormal(n):
        x, y = gaussian(n)
        return np.exp(0.9 * x), y

    for ax, make, title in ((left, gaussian, "Gaussian classes"), (right, lognormal, "skewed classes")):
        held, truth = make(4000)
        rows = {"naive Bayes": [], "logistic": []}
        for n in sizes:
            losses = {name: [] for name in rows}
            for _ in range(10):
                x, y = make(int(n))
                found = credo.NaiveBayes().condition(x, y).predict(held, draws=0, warn=False)
                losses["naive Bayes"].append(-np.mean(found.log_prob(truth)))
                losses["logistic"].append(-np.mean(credo.fit(credo.Logistic(), x, y).predict(held).log_prob(truth)))
            for name in rows:
                rows[name].append(np.mean(losses[name]))
        for (name, each), colour in zip(rows.items(), (BLUE, ORANGE), strict=True):
            ax.plot(sizes, each, "o-", color=colour, ms=4, label=name)
        ax.set_xscale("log")
        ax.set_xticks(sizes, [str(n) for n in sizes])
        ax.minorticks_off()
        ax.set_title(title, fontsize=9.5, color=INK)
        tidy(ax, "rows", "log loss of other rows")
    legend(left)


@picture(6.6, 3.1)
def numbers_to_learn(ax):
    """How many numbers each class has."""
    d = np.arange(1, 31)
    ax.plot(d, 2.0**d - 1, color=RED)
    ax.plot(d, d + d * (d + 1) / 2, color=ORANGE)
    ax.plot(d, 2.0 * d, color=BLUE)
    ax.set_yscale("log")
    ax.set_ylim(1, 1e7)
    ax.set_xlim(1, 30)
    ax.annotate("a table of all combinations, 2ᵈ - 1", (19.0, 2**19), (-12, 4), ha="right", **SAID)
    ax.annotate("mean and full covariance, d(d + 3)/2", (29, 464), (0, 16), ha="right", **SAID)
    ax.annotate("naive Bayes, 2d", (29, 58), (0, -8), ha="right", **SAID)
    tidy(ax, "columns d", "numbers of each class")


@picture(7.0, 3.4)
def pomdp_values(ax):
    """The value of Tiger over its beliefs."""
    plots.belief_values(page_until("pomdps.md", "tiger", "exact")["exact"], ax=ax)


@picture(7.0, 3.2)
def pomdp_grid(ax):
    """The belief MDP of Tiger, solved."""
    plots.plan(page_until("pomdps.md", "tiger", "solved")["solved"], ax=ax)


@picture(8.0, 3.2)
def pomdp_run(ax):
    """Beliefs along an episode of Tiger."""
    made = page_until("pomdps.md", "plan", "run")
    plots.belief_run(made["plan"], made["run"], ax=ax)


@picture(5.6, 4.6)
def pomdp_triangle(ax):
    """The value over the beliefs of three states."""
    plots.belief_values(page_until("pomdps.md", "light", "coloured")["coloured"], ax=ax)


@picture(9.4, 3.1, columns=3)
def terrain_map(*axes):
    page = page_until("terrain.md", "made")
    for ax, layer in zip(axes, ("mean", "slope", "sd"), strict=True):
        plots.field_map(page["made"], layer, ax=ax)
    axes[0].set_title("elevation, m", fontsize=9.5, color=INK)
    axes[1].set_title("slope", fontsize=9.5, color=INK)
    axes[2].set_title("doubt of the elevation, m", fontsize=9.5, color=INK)


@picture(9.4, 4.0, columns=2)
def terrain_rover(left, right):
    rover = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "rover.py"))
    rover["main"]((left, right))


def main():
    wanted = sys.argv[1:] or list(PICTURES)
    OUT.mkdir(exist_ok=True)
    matplotlib.rcParams.update({"svg.hashsalt": "credo", "svg.fonttype": "none"})
    warnings.simplefilter("ignore", credo.errors.NotConvergedWarning)
    start = time.perf_counter()
    for name in wanted:
        begin = time.perf_counter()
        PICTURES[name]()
        size = (OUT / f"{name}.svg").stat().st_size / 1000
        print(f"{name:<18} {time.perf_counter() - begin:5.1f} s {size:6.0f} kB")
    print(f"{len(wanted)} pictures in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
