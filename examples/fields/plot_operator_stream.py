"""
An operator learned from a stream
=================================

Pairs of functions arrive one after the other: a force, and the vorticity of the fluid that it stirs. `OnlineOperator`
learns the map between them with any online learner. Each field is predicted before it is learned, and then discarded.
"""

import numpy as np
from matplotlib import pyplot as plt

from ovk import OLOK, OnlineMovKL, OnlineOperator, OperatorRidge
from ovk.datasets import make_navier_stokes
from ovk.kernels import Gaussian, Linear

flow = make_navier_stokes(900, size=24, random_state=0)
X, Y, grid = flow.data, flow.target, flow.grid

# %%
# Stochastic gradient descent in a space of operators, a forecaster that weighs several kernels, and progressive ridge
# regression, the default of `OnlineOperator`.
learners = {
    "OLOK, gradient steps": OLOK(Linear() + Gaussian(1.5), alpha=0.0, schedule="auto"),
    "OnlineMovKL, four kernels": OnlineMovKL([Linear(), Gaussian(0.7), Gaussian(1.5), Gaussian(3.0)]),
    "PKAWV, ridge": None,
}
models = {
    name: OnlineOperator(learner, input_grid=grid, output_grid=grid, warm_up=100) for name, learner in learners.items()
}
progressive = {name: model.predict_then_learn(X, Y) for name, model in models.items()}

# %%
# Errors along the stream, and the regret: how much larger the loss was than that of the best function in hindsight,
# fitted to all pairs at once.
hindsight = OperatorRidge(Linear() + Gaussian(1.5), 1e-2, decay=1.0, input_grid=grid, output_grid=grid).fit(X, Y)
best = np.sum((hindsight.predict(X) - Y) ** 2, axis=1)
size = np.sum((Y - Y.mean(axis=0)) ** 2, axis=1).mean()
n = np.arange(1, len(Y) + 1)
figure, axes = plt.subplots(1, 2, figsize=(9, 4))
for name, Z in progressive.items():
    squares = np.sum((Z - Y) ** 2, axis=1)
    recent = np.array([np.sqrt(squares[max(0, i - 50) : i].mean() / size) for i in n])
    print(f"{name}: {recent[-1]:.1%} of the root mean square in the last 50 fields")
    axes[0].loglog(n, recent, label=name)
    axes[1].loglog(n, np.maximum(np.cumsum(squares - best) / size, 1e-3) / n, label=name)
axes[0].set(xlabel="fields seen", ylabel="relative error of the last 50", xlim=(10, None))
axes[1].set(xlabel="fields seen", ylabel="regret per field, relative to the variance", xlim=(10, None))
axes[0].legend()
figure.tight_layout()

# %%
# The last field, predicted before it was seen, and its prediction on a grid four times as fine. More in
# :doc:`/guide/operators`.
name = "PKAWV, ridge"
fine = type(grid)([np.linspace(0.0, 2.0 * np.pi * 23 / 24, 96)] * 2)
parts = {
    "vorticity": Y[-1].reshape(grid.shape),
    "predicted from the 899 before": progressive[name][-1].reshape(grid.shape),
    "difference": (progressive[name][-1] - Y[-1]).reshape(grid.shape),
    "on a finer grid": models[name].predict(X[-1:], grid=fine).reshape(fine.shape),
}
figure, axes = plt.subplots(2, 2, figsize=(8, 6.4))
for axis, (title, field) in zip(axes.flat, parts.items(), strict=True):
    most = np.abs(field).max()
    image = axis.imshow(field.T, origin="lower", cmap="RdBu_r", vmin=-most, vmax=most)
    axis.set(title=title, xticks=[], yticks=[])
    figure.colorbar(image, ax=axis, shrink=0.8)
figure.tight_layout()
plt.show()
