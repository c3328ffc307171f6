"""What XLA compiles with the settings that users have, which differ from those of the other tests."""

import subprocess
import sys

PROGRAM = """
import numpy as np
import credo
from credo.kernels import *
from credo.kernels.matern import Matern
from credo.kernels.periodic import Periodic, SpectralMixture
from credo.kernels.dotproduct import Linear, NeuralNetwork

for family in (RBF, Matern, SpectralMixture, NeuralNetwork):  # one of each way to a number
    check_kernel(family())
check_kernel(Matern52(ard=True) * Linear() + Periodic())

rng = np.random.default_rng(0)
x, new = rng.normal(size=(300, 2)), rng.normal(size=(50, 2))
y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=300)
gp = credo.GP(2.0 * Matern52([0.7, 1.4]), 0.3, 0.01).condition(x, y)


def gram(a, b):
    r = np.sqrt(5 * np.sum(((a[:, None] - b[None]) / [0.7, 1.4]) ** 2, -1))
    return 2 * (1 + r + r**2 / 3) * np.exp(-r)


k, cross = gram(x, x) + 0.01 * np.eye(300), gram(new, x)
prediction = gp.predict(new)
np.testing.assert_allclose(prediction.mean, 0.3 + cross @ np.linalg.solve(k, y - 0.3), rtol=1e-8, atol=1e-10)
want = 2 - np.sum(cross * np.linalg.solve(k, cross.T).T, 1)
np.testing.assert_allclose(prediction.epistemic, want, rtol=1e-8, atol=1e-10)
"""


def test_kernels_and_a_gaussian_process_keep_their_promises(as_users_compile):
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=as_users_compile)
    assert done.returncode == 0, done.stderr
