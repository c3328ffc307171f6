"""GPyTorch's exact Gaussian process, as its users write it: a scaled Matérn 5/2 kernel with ARD, and L-BFGS."""

from contextlib import ExitStack
from typing import Any

import numpy as np


class Exact:
    """The model on these rows; `mean` is "zero" or "constant"."""

    def __init__(self, x: np.ndarray, y: np.ndarray, mean: str):
        import gpytorch
        import torch

        self.x, self.y = torch.tensor(x), torch.tensor(y)
        rows, outcomes = self.x, self.y
        self.likelihood = likelihood = gpytorch.likelihoods.GaussianLikelihood().double()

        class Model(gpytorch.models.ExactGP):
            def __init__(self) -> None:
                super().__init__(rows, outcomes, likelihood)
                constant = mean == "constant"
                self.mean_module = gpytorch.means.ConstantMean() if constant else gpytorch.means.ZeroMean()
                kernel = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=x.shape[1])
                self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

            def forward(self, z: Any) -> Any:
                return gpytorch.distributions.MultivariateNormal(self.mean_module(z), self.covar_module(z))

        self.model = Model().double()
        self.mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, self.model)

    def begin(self, lengthscale: float, noise: float) -> None:
        """Training, from these values."""
        import torch

        self.model.train()
        self.likelihood.train()
        self.model.covar_module.base_kernel.lengthscale = torch.full((1, self.x.shape[1]), lengthscale).double()
        self.model.covar_module.outputscale = torch.tensor(1.0).double()
        self.likelihood.noise = torch.tensor([noise]).double()

    def evidence(self) -> float:
        """log p(y | X), and its gradient on the way."""
        self.model.zero_grad()
        with exactly():
            value = self.mll(self.model(self.x), self.y)
            (-value).backward()
        return float(value.detach()) * len(self.y)

    def climb(self, **options: Any) -> float:
        """L-BFGS with a strong-Wolfe line search; log p(y | X) where it ends."""
        import torch

        optimizer = torch.optim.LBFGS(self.model.parameters(), line_search_fn="strong_wolfe", **options)

        def loss() -> Any:
            optimizer.zero_grad()
            value = -self.mll(self.model(self.x), self.y)
            value.backward()
            return value

        with exactly():
            optimizer.step(loss)
            return float(self.mll(self.model(self.x), self.y).detach()) * len(self.y)

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of outcomes."""
        import torch

        self.model.eval()
        self.likelihood.eval()
        with exactly(), torch.no_grad():
            p = self.likelihood(self.model(torch.tensor(x)))
            return p.mean.numpy(), p.stddev.numpy()


def exactly() -> ExitStack:
    """No iterative solver, whatever the size."""
    import gpytorch

    stack = ExitStack()
    stack.enter_context(gpytorch.settings.max_cholesky_size(10**6))
    stack.enter_context(gpytorch.settings.fast_computations(False, False, False))
    return stack
