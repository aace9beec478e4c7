"""GPyTorch's multitask Gaussian process, for comparison on tables; requires the extra ``bench``."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

from ovk.kernels import median_distance
from reproduce.support import Array, Indices

#: Steps of Adam and their size, as in GPyTorch's multitask examples, but twice as many.
STEPS, RATE = 100, 0.1


def installed() -> bool:
    """Whether GPyTorch can be imported."""
    return find_spec("gpytorch") is not None and find_spec("torch") is not None


def multitask_gp(
    X: Array, task: Indices, y: Array, X_new: Array, task_new: Indices, *, d: int, rank: int, nu: float, ard: bool
) -> Array:
    """Predictions, (m,), of a Matern kernel times an index kernel (low rank plus diagonal).

    The data are in long form, so outputs may be missing. Every task has its own noise level. Hyper-parameters
    maximise the evidence by Adam.
    """
    import gpytorch
    import torch

    def joined(X: Array, task: Indices) -> Any:
        return torch.as_tensor(np.column_stack([X, task]).astype(np.float64))

    inputs, outputs = joined(X, task), torch.as_tensor(y.astype(np.float64))

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(inputs, outputs, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.MaternKernel(nu=nu, ard_num_dims=X.shape[1] if ard else None)
            self.task_covar_module = gpytorch.kernels.IndexKernel(num_tasks=d, rank=rank)

        def forward(self, x: Any) -> Any:
            features, tasks = x[..., :-1], x[..., -1:].long()
            covariance = self.covar_module(features).mul(self.task_covar_module(tasks))
            return gpytorch.distributions.MultivariateNormal(self.mean_module(features), covariance)

    torch.manual_seed(0)
    likelihood = gpytorch.likelihoods.HadamardGaussianLikelihood(num_tasks=d, task_feature_index=-1)
    model = Model(likelihood).double()
    # The default start, 0.7, is far too short for many standardised inputs.
    model.covar_module.lengthscale = median_distance(X)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    with warnings.catch_warnings():
        # PyTorch warns that a check of sparse matrices is disabled.
        warnings.simplefilter("ignore", UserWarning)
        model.train()
        for _ in range(STEPS):
            optimiser.zero_grad()
            loss = -evidence(model(inputs), outputs, [inputs])
            loss.backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            result: Array = model(joined(X_new, task_new)).mean.numpy()
    return result
