"""
Random features of operator-valued kernels
==========================================

A field without rotation (the slope of a landscape) is learned with random Fourier features of the curl-free kernel.
With more features, the approximation approaches the exact solution. Errors are averaged over five draws of the
features.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import PKAWV, OVKRidge
from ovk.features import OperatorFourier
from ovk.kernels import Gaussian
from ovk.ovkernels import CurlFree

rng = np.random.default_rng(0)


def slope(x: np.ndarray) -> np.ndarray:
    """The gradient of sin(x1) cos(x2)."""
    return np.column_stack([np.cos(x[:, 0]) * np.cos(x[:, 1]), -np.sin(x[:, 0]) * np.sin(x[:, 1])])


X, X_test = rng.uniform(-2, 2, (300, 2)), rng.uniform(-2, 2, (300, 2))
Y = slope(X) + 0.1 * rng.standard_normal((300, 2))
exact = OVKRidge(CurlFree(Gaussian(1.2)), alpha=0.05).fit(X, Y)
limit = np.sqrt(np.mean((exact.predict(X_test) - slope(X_test)) ** 2))

sizes = [5, 10, 20, 40, 80, 160]
errors = []
for size in sizes:
    squares = []
    for draw in range(5):
        model = PKAWV(CurlFree(Gaussian(1.2)), alpha=0.05, features=OperatorFourier(size), random_state=draw).fit(X, Y)
        squares.append(np.mean((model.predict(X_test) - slope(X_test)) ** 2))
    errors.append(np.sqrt(np.mean(squares)))
    print(f"{size:4} frequencies: error {errors[-1]:.3f} (exact {limit:.3f})")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.loglog(sizes, errors, "o-", label="random features")
left.axhline(limit, linestyle=":", color="black", label="exact kernel")
left.set(xlabel="random frequencies", ylabel="root mean squared error", xticks=sizes, xticklabels=sizes)
left.minorticks_off()
left.set_yticks([0.03, 0.05, 0.1, 0.2], [0.03, 0.05, 0.1, 0.2])
left.legend()
side = np.linspace(-2, 2, 15)
grid = np.array([(x, y) for y in side for x in side])
right.quiver(*grid.T, *model.predict(grid).T, color="tab:blue")
_ = right.set(title="The learned field", aspect="equal")
