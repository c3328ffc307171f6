"""Old faithful, iris and the galaxies: the number of components and the likelihoods that are in print.

Maximum likelihoods and BIC of mclust (Scrucca, Fop, Murphy & Raftery 2016; Fraley & Raftery 2002), which says
2 log p - p log n. The galaxies are those of Roeder (1990) as R's MASS has them, old faithful Azzalini & Bowman's.
"""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import credo
from credo.infer import EM, VariationalBayes
from credo.models.densities import Gaussian
from credo.models.mixture import how_many

GALAXIES = """
9172 9350 9483 9558 9775 10227 10406 16084 16170 18419 18552 18600 18927 19052 19070 19330 19343 19349 19440 19473
19529 19541 19547 19663 19846 19856 19863 19914 19918 19973 19989 20166 20175 20179 20196 20215 20221 20415 20629 20795
20821 20846 20875 20986 21137 21492 21701 21814 21921 21960 22185 22209 22242 22249 22314 22374 22495 22746 22747 22888
22914 23206 23241 23263 23484 23538 23542 23666 23706 23711 24129 24285 24289 24366 24717 24990 25633 26690 26995 32065
32789 34279
"""
ERUPTIONS = """
3.6 1.8 3.333 2.283 4.533 2.883 4.7 3.6 1.95 4.35 1.833 3.917 4.2 1.75 4.7 2.167 1.75 4.8 1.6 4.25 1.8 1.75 3.45 3.067
4.533 3.6 1.967 4.083 3.85 4.433 4.3 4.467 3.367 4.033 3.833 2.017 1.867 4.833 1.833 4.783 4.35 1.883 4.567 1.75 4.533
3.317 3.833 2.1 4.633 2 4.8 4.716 1.833 4.833 1.733 4.883 3.717 1.667 4.567 4.317 2.233 4.5 1.75 4.8 1.817 4.4 4.167
4.7 2.067 4.7 4.033 1.967 4.5 4 1.983 5.067 2.017 4.567 3.883 3.6 4.133 4.333 4.1 2.633 4.067 4.933 3.95 4.517 2.167 4
2.2 4.333 1.867 4.817 1.833 4.3 4.667 3.75 1.867 4.9 2.483 4.367 2.1 4.5 4.05 1.867 4.7 1.783 4.85 3.683 4.733 2.3 4.9
4.417 1.7 4.633 2.317 4.6 1.817 4.417 2.617 4.067 4.25 1.967 4.6 3.767 1.917 4.5 2.267 4.65 1.867 4.167 2.8 4.333
1.833 4.383 1.883 4.933 2.033 3.733 4.233 2.233 4.533 4.817 4.333 1.983 4.633 2.017 5.1 1.8 5.033 4 2.4 4.6 3.567 4
4.5 4.083 1.8 3.967 2.2 4.15 2 3.833 3.5 4.583 2.367 5 1.933 4.617 1.917 2.083 4.583 3.333 4.167 4.333 4.5 2.417 4
4.167 1.883 4.583 4.25 3.767 2.033 4.433 4.083 1.833 4.417 2.183 4.8 1.833 4.8 4.1 3.966 4.233 3.5 4.366 2.25 4.667
2.1 4.35 4.133 1.867 4.6 1.783 4.367 3.85 1.933 4.5 2.383 4.7 1.867 3.833 3.417 4.233 2.4 4.8 2 4.15 1.867 4.267 1.75
4.483 4 4.117 4.083 4.267 3.917 4.55 4.083 2.417 4.183 2.217 4.45 1.883 1.85 4.283 3.95 2.333 4.15 2.35 4.933 2.9
4.583 3.833 2.083 4.367 2.133 4.35 2.2 4.45 3.567 4.5 4.15 3.817 3.917 4.45 2 4.283 4.767 4.533 1.85 4.25 1.983 2.25
4.75 4.117 2.15 4.417 1.817 4.467
"""
WAITING = """
79 54 74 62 85 55 88 85 51 85 54 84 78 47 83 52 62 84 52 79 51 47 78 69 74 83 55 76 78 79 73 77 66 80 74 52 48 80 59
90 80 58 84 58 73 83 64 53 82 59 75 90 54 80 54 83 71 64 77 81 59 84 48 82 60 92 78 78 65 73 82 56 79 71 62 76 60 78
76 83 75 82 70 65 73 88 76 80 48 86 60 90 50 78 63 72 84 75 51 82 62 88 49 83 81 47 84 52 86 81 75 59 89 79 59 81 50
85 59 87 53 69 77 56 88 81 45 82 55 90 45 83 56 89 46 82 51 86 53 79 81 60 82 77 76 59 80 49 96 53 77 77 65 81 71 70
81 93 53 89 45 86 58 78 66 76 63 88 52 93 49 57 77 68 81 81 73 50 85 74 55 77 83 83 51 78 84 46 83 55 81 57 76 84 77
81 87 77 51 78 60 82 91 53 78 46 77 84 49 83 71 80 49 75 64 76 53 94 55 76 50 82 54 75 78 79 78 78 70 79 70 54 86 50
90 54 54 77 79 64 75 47 86 63 85 82 57 82 67 74 54 83 73 73 88 80 71 83 56 79 78 84 58 83 43 60 75 81 46 90 46 74
"""


def numbers(text):
    return np.array(text.split(), dtype=float)


pytestmark = pytest.mark.usefixtures("unchecked")
DATA = {
    "galaxies": numbers(GALAXIES)[:, None] / 1000,
    "faithful": np.column_stack([numbers(ERUPTIONS), numbers(WAITING)]),
    "iris": load_iris().data,
}


@pytest.mark.parametrize(
    ("name", "shape", "k", "log_likelihood", "bic"),
    [
        ("galaxies", "full", 3, -203.1792, -441.6122),
        ("faithful", "full", 2, -1130.264, -2322.192),
        ("faithful", "tied", 3, -1126.326, -2314.316),
        ("iris", "full", 2, -214.3547, -574.0178),
        ("iris", "full", 3, -180.1858, -580.8396),
    ],
)
def test_the_likelihoods_are_those_in_print(name, shape, k, log_likelihood, bic):
    x = DATA[name]
    mixture = credo.fit(credo.Mixture(k, Gaussian(shape, prior=None)), x, using=EM(starts=4, tolerance=1e-8))
    assert float(mixture.log_evidence(x)) == pytest.approx(log_likelihood, abs=2e-2)
    assert -mixture.information_criteria(x)["bic"] == pytest.approx(bic, abs=4e-2)


def test_how_many_galaxies_is_the_number_in_print():
    choice = how_many(DATA["galaxies"], most=4)
    assert choice.best == 3
    assert choice.k[int(np.argmin(choice.bic))] == 3


@pytest.mark.parametrize(("name", "k"), [("galaxies", 3), ("faithful", 2), ("iris", 2)])
def test_variational_bayes_switches_off_the_components_that_are_not_needed(name, k):
    mixture = credo.learn(credo.Mixture(6), DATA[name], using=VariationalBayes(starts=1))
    assert np.sum(np.asarray(mixture.weights) > 0.01) == k
