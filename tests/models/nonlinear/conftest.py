"""A linear model with inputs, whose law is known by conditioning one large Gaussian, and a non-linear one."""

import jax.numpy as jnp
import numpy as np
import pytest

from credo.models.nonlinear import StateSpaceModel

F = np.array([[1.0, 0.3], [-0.2, 0.9]])
B = np.array([0.4, -0.3])
H = np.array([[1.0, 0.0], [0.3, 1.0]])
Q = np.array([[0.2, 0.05], [0.05, 0.1]])
R = np.array([[0.5, 0.1], [0.1, 0.3]])
M, P = np.array([0.5, -1.0]), np.array([[1.0, 0.2], [0.2, 0.5]])
ROWS = 10


def linear_step(z, u):
    return jnp.asarray(F) @ z + jnp.asarray(B) * u[0]


def linear_observe(z, u):
    return jnp.asarray(H) @ z + 0.1 * u[0]


def growth_step(z, u):
    return z / 2 + 5 * z / (1 + z**2) + u


def growth_observe(z, u):
    return z[0] ** 2 / 20 + z[0] / 4


class Dense:
    """The joint Gaussian of all states and outcomes of one sequence: means and covariances by brute force."""

    def __init__(self, x, u):
        t, n = len(x), 2
        mean, cov = np.zeros((t, n)), np.zeros((t, n, t, n))
        mean[0], cov[0, :, 0] = M, P
        for i in range(1, t):
            mean[i] = F @ mean[i - 1] + B * u[i]
            for j in range(i):
                cov[i, :, j] = F @ cov[i - 1, :, j]
                cov[j, :, i] = cov[i, :, j].T
            cov[i, :, i] = F @ cov[i - 1, :, i - 1] @ F.T + Q
        self.x, self.mean, self.cov = x.ravel(), mean.ravel(), cov.reshape(t * n, t * n)
        big = np.kron(np.eye(t), H)
        self.shown, self.cross = big @ self.mean + 0.1 * np.repeat(u, 2), self.cov @ big.T
        self.s = big @ self.cross + np.kron(np.eye(t), R)

    def given(self, rows):
        """Mean and covariance of all states, and the log density of what was seen in the first rows."""
        at = np.flatnonzero(~np.isnan(self.x) & (np.arange(len(self.x)) < 2 * rows))
        s, c, apart = self.s[np.ix_(at, at)], self.cross[:, at], self.x[at] - self.shown[at]
        log_p = -0.5 * (apart @ np.linalg.solve(s, apart) + np.linalg.slogdet(2 * np.pi * s)[1])
        return self.mean + c @ np.linalg.solve(s, apart), self.cov - c @ np.linalg.solve(s, c.T), log_p

    def law(self, row, rows):
        """p(z of a row | the first rows)."""
        mean, cov, _ = self.given(rows)
        at = slice(2 * row, 2 * row + 2)
        return mean[at], cov[at, at]


@pytest.fixture(scope="session")
def linear():
    return StateSpaceModel(linear_step, linear_observe, Q, R, M, P)


@pytest.fixture(scope="session")
def growth():
    return StateSpaceModel(growth_step, growth_observe, 1.5, 0.5, 0.3, 2.0)


@pytest.fixture(scope="session")
def data():
    """Outcomes with missing entries and a missing row, and inputs."""
    rng = np.random.default_rng(8)
    u, z, x = rng.normal(size=ROWS), rng.multivariate_normal(M, P), np.empty((ROWS, 2))
    for t in range(ROWS):
        z = F @ z + B * u[t] + rng.multivariate_normal([0, 0], Q) if t else z
        x[t] = H @ z + 0.1 * u[t] + rng.multivariate_normal([0, 0], R)
    x[2, 0] = x[5] = x[8, 1] = np.nan
    return x, u


@pytest.fixture(scope="session")
def dense(data):
    return Dense(*data)


@pytest.fixture(scope="session")
def make_dense():
    return Dense


@pytest.fixture(scope="session")
def grown():
    """Outcomes of the growth model, and its inputs."""
    rng = np.random.default_rng(4)
    u = 3 * np.cos(1.2 * np.arange(ROWS))
    z, x = 0.3 + 1.4 * rng.normal(), np.empty(ROWS)
    for t in range(ROWS):
        if t:
            z = z / 2 + 5 * z / (1 + z**2) + u[t] + np.sqrt(1.5) * rng.normal()
        x[t] = z**2 / 20 + z / 4 + np.sqrt(0.5) * rng.normal()
    return x, u
