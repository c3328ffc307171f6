"""Generative classifiers as scikit-learn estimators."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from credo.sklearn import DiscriminantClassifier, NaiveBayesClassifier


@pytest.mark.usefixtures("unchecked")
@parametrize_with_checks([NaiveBayesClassifier(), DiscriminantClassifier("tied"), DiscriminantClassifier()])
def test_sklearn_conventions(estimator, check):
    check(estimator)


def test_parts_of_a_table_and_novelty():
    X, y = load_iris(return_X_y=True)
    whole = DiscriminantClassifier("full").fit(X, y)
    parts = DiscriminantClassifier("full").partial_fit(X, y)
    assert np.all(parts.predict(X) == whole.predict(X))
    order = np.random.default_rng(0).permutation(len(X))
    half = NaiveBayesClassifier().partial_fit(X[order[:75]], y[order[:75]], classes=[0, 1, 2])
    half.partial_fit(X[order[75:]], y[order[75:]])
    np.testing.assert_array_equal(half.class_count_, [50, 50, 50])
    assert half.score(X, y) > 0.93
    assert whole.novelty(X).min() > 1e-4 > whole.novelty(X + 30.0).max()
    assert np.all(whole.score_samples(X) > whole.score_samples(X + 30.0))
    with pytest.raises(ValueError, match="but the classes are"):
        half.partial_fit(X[:1], [7])
