"""
Which kernels matter
====================

The curves vary with the input on one of several scales, and the model is not told which. `MovKL` learns a weight for
each pair of a kernel on the inputs and an operator on the curves, together with the function.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import MovKL
from ovk.plotting import KernelWeightsDisplay

rng = np.random.default_rng(0)
times = np.linspace(0, 1, 25)
X = rng.uniform(-2, 2, (60, 1))
Y = np.sin(2 * X + 4 * times) + 0.1 * rng.standard_normal((60, 25))
model = MovKL(alpha=0.1, r=1.0, grid=times).fit(X, Y)
print(f"R2 on the training curves: {model.score(X, Y):.3f}, kernels used: {np.sum(model.weights_ > 1e-3)}")

# %%
# Two of the 24 pairs have nearly all of the weight; most of the others are exactly 0. More in :doc:`/systems/movkl`.

_ = KernelWeightsDisplay.from_estimator(model)
plt.gcf().set_size_inches(8, 4)
