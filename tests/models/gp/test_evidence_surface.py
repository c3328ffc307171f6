"""The evidence over two hyperparameters: values, and both explanations of a few rows."""

import numpy as np
import pytest
from scipy import stats

import credo
from credo import plots
from credo.core.params import replace
from credo.errors import DataError
from credo.kernels import RBF
from credo.models.gp.surfaces import evidence_surface

RANGES = {"kernel.lengthscale": (0.1, 80.0), "noise": (0.001, 9.0)}
GP = credo.GP(RBF(1.0, 1.0), mean=0.0, noise=0.01)


@pytest.fixture(scope="module")
def data():
    """Seven rows of a smooth function, as in figure 5.5 of Rasmussen & Williams."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-5, 5, (7, 1)), axis=0)
    return x, rng.multivariate_normal(np.zeros(7), np.exp(-0.5 * (x - x.T) ** 2) + 0.01 * np.eye(7))


@pytest.fixture(scope="module")
def surface(data):
    return evidence_surface(GP, *data, "kernel.lengthscale", "noise", ranges=RANGES)


def dense(x, y, ell, noise):
    return stats.multivariate_normal.logpdf(y, np.zeros(7), np.exp(-0.5 * (x - x.T) ** 2 / ell**2) + noise * np.eye(7))


def test_values_are_log_densities(surface, data):
    assert surface.log_evidence.shape == (41, 41) and surface.logarithmic == (True, True)
    np.testing.assert_allclose(surface.first[[0, -1]], RANGES["kernel.lengthscale"], rtol=1e-12)
    for j, i in [(0, 0), (40, 3), (20, 25)]:
        want = dense(*data, surface.first[i], surface.second[j])
        np.testing.assert_allclose(surface.log_evidence[j, i], want, rtol=1e-8)


def test_both_explanations_are_found(surface, data):
    signal, noise = surface.maxima
    assert signal.log_evidence > noise.log_evidence
    assert signal.first < 5 and signal.second < 0.1  # a function
    assert noise.first > 15 and noise.second > 0.3  # noise explains nearly all
    for top in surface.maxima:
        own = dense(*data, top.first, top.second)
        assert top.log_evidence == pytest.approx(own, rel=1e-8)
        for a, b in [(1.05, 1), (1 / 1.05, 1), (1, 1.05), (1, 1 / 1.05)]:
            assert dense(*data, a * top.first, b * top.second) < own
    assert surface.log_evidence.max() <= signal.log_evidence


def test_the_grid_surrounds_what_is_learned(data):
    gp = credo.GP(RBF(ard=True), mean=0.0)
    x = np.column_stack([data[0], data[0][::-1] ** 2])
    learned = credo.learn(gp, x, data[1])
    got = evidence_surface(gp, x, data[1], "kernel.lengthscale[1]", "noise", points=5, width=1.0)
    ell = float(learned.kernel.lengthscale[1])
    np.testing.assert_allclose(got.first, ell * np.exp(np.linspace(-1, 1, 5)), rtol=1e-6)
    lower = replace(learned, {"noise": float(learned.noise) * np.exp(-1)})
    np.testing.assert_allclose(got.log_evidence[0, 2], lower.log_evidence(x, data[1]), rtol=1e-8)


def test_the_picture_marks_the_maxima(surface):
    ax = plots.evidence(surface)
    marks = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "x"]
    np.testing.assert_allclose(marks, [[m.first, m.second] for m in surface.maxima])
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "kernel.lengthscale"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["highest maximum", "another, 1.8 nats below"]
    own = plots.new_axes()
    assert plots.evidence(surface._replace(maxima=()), ax=own) is own


def test_bad_input(data):
    with pytest.raises(DataError, match=r"no single number 'lengthscale'; there are: kernel.lengthscale"):
        evidence_surface(GP, *data, "lengthscale", "noise", ranges={"lengthscale": (1, 2), "noise": (1, 2)})
    with pytest.raises(DataError, match=r"ranges\['noise'\] must be \(lowest, highest\)"):
        evidence_surface(GP, *data, "kernel.lengthscale", "noise", ranges=RANGES | {"noise": (0.0, 1.0)})
    with pytest.raises(DataError, match="found 'noise' twice"):
        evidence_surface(GP, *data, "noise", "noise", ranges=RANGES)
    with pytest.raises(DataError, match="at least 3"):
        evidence_surface(GP, *data, "kernel.lengthscale", "noise", ranges=RANGES, points=2)
