"""A table: learn from it, look at what was learned, predict new rows, decide.

python examples/table.py
"""

from sklearn.datasets import load_diabetes

import credo
from credo import evaluate

frame = load_diabetes(scaled=False, as_frame=True).frame
(inputs, outcome), (new, truth) = evaluate.split(frame.drop(columns="target"), frame["target"])

belief = credo.fit(credo.Linear(), inputs, outcome)
prediction = belief.predict(new)
lower, upper = prediction.interval(0.95)
print(f"RMSE            {evaluate.rmse(prediction, truth):.1f}")
print(f"95 % intervals  hold {((truth >= lower) & (truth <= upper)).mean():.0%} of the test rows")
print(f"doubt           {(prediction.aleatoric / prediction.total).mean():.0%} of it is noise")

# A bed too few costs five times as much as a bed too many.
print(credo.decide(prediction[:3], credo.losses.Asymmetric(under=5, over=1)))
