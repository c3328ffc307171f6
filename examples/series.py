"""A series: what it is made of, what comes next, and how far to trust that.

python examples/series.py
"""

import numpy as np

import credo
from credo.models.structural import Level, Seasonal

rng = np.random.default_rng(1)
months = np.arange(96)
sales = 100 + np.cumsum(rng.normal(0.3, 1.0, size=96)) + 12 * np.sin(2 * np.pi * months / 12) + rng.normal(0, 2, 96)

past, future = sales[:84], sales[84:]
belief = credo.fit(Level() + Seasonal(12), past)
forecast = belief.predict(12)
lower, upper = forecast.interval(0.9)
for month, (mean, low, high, was) in enumerate(zip(forecast.mean, lower, upper, future, strict=True), 1):
    print(f"month {month:2d}: {mean:6.1f}  [{low:6.1f}, {high:6.1f}]   came true: {was:6.1f}")

after = belief.condition(future)  # the posterior is the next prior
print("next month, with the new year seen:", round(float(after.predict(1).mean[0]), 1))
