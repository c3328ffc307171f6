"""What held-out rows say: a temperature where one is asked for, and which new rows are strange."""

import numpy as np
import pandas as pd

from credo.app.fit import held_out
from credo.app.fit.families import NeuralNetworks
from credo.app.fit.tables import TableData, fit_table
from credo.app.report.words import prediction_remarks
from credo.app.table.prepare import prepare
from credo.app.table.read import Table
from credo.core.predictive import Bernoulli, Normal, Poisson

RNG = np.random.default_rng(0)


def test_bold_predictions_are_corrected_and_fair_ones_left():
    mean, y = np.zeros(200), RNG.normal(size=200)
    found, said = held_out.correction_of(Normal(mean, 0.25 + mean, mean), y)
    assert 1.7 < float(found.factor) < 2.3 and "too bold for the rows held out" in said
    assert held_out.correction_of(Normal(mean, 1 + mean, mean), y) == (None, "")
    assert held_out.correction_of(Normal(mean[:10], 0.01 + mean[:10], mean[:10]), y[:10]) == (None, "")
    assert held_out.correction_of(Poisson(np.ones(200)), np.ones(200)) == (None, "")
    happened = (RNG.uniform(size=400) < 0.7).astype(float)
    found, said = held_out.correction_of(Bernoulli(np.full(400, 0.97), np.zeros(400)), happened)
    assert float(found.temperature) > 2 and "corrected by the temperature" in said


def test_ranks_among_the_rows_held_out():
    epistemic = np.arange(1.0, 100.0)
    reference = held_out.reference_of(Normal(np.zeros(99), np.ones(99), epistemic))
    new = Normal(np.zeros(3), np.ones(3), np.array([0.5, 50.0, 1000.0]))
    ranks = held_out.rank_among(reference, new)
    np.testing.assert_allclose(ranks, [1.0, 0.51, 0.01])
    assert held_out.how_many_strange(ranks, reference) == 1
    assert held_out.reference_of(Normal(np.zeros(99), np.ones(99), np.ones(99))) is None


def table(n):
    x = RNG.normal(size=n)
    return Table(pd.DataFrame({"x": x, "z": RNG.normal(size=n), "y": 2 * x + RNG.normal(size=n)}), "t")


def test_predictions_say_which_rows_are_strange(only):
    found = fit_table(table(250), "y", families=only("average", "lines"))
    new = Table(pd.DataFrame({"x": [0.1, 40.0], "z": [0.0, 40.0]}), "new")
    answer = found.model.answer(new)
    assert answer.frame["novelty"][0] > 0.05 and answer.frame["novelty"][1] < 0.03 and answer.strange == 1
    assert any("1 row like hardly anything seen" in said for said in prediction_remarks(answer, 2))


def test_networks_are_proposed_for_tables_that_are_large_enough():
    family = NeuralNetworks()
    assert family.propose(TableData(prepare(table(100), "y"), "t")) == []
    (candidate,) = family.propose(TableData(prepare(table(600), "y"), "t"))
    assert candidate.seconds > 2 and candidate.belief.outcome == "number" and not candidate.refused
