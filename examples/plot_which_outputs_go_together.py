"""
Which outputs go together
=========================

Ten sensors report noisy values along a road. Some of them see the same thing, two see it upside down, three have
nothing to do with the others, and nobody wrote down which is which. `OutputKernelRidge` learns the operator T that says
so together with the functions themselves; `ovk.tune` finds it by the evidence, with a noise level for each sensor.
"""

# %%
# Data, made up: two common signals, and sensors that see a multiple of one of them or a signal of their own. Of every
# sensor two thirds of the values are missing.

import matplotlib.pyplot as plt
import numpy as np

from ovk import OutputKernelRidge, OVKRidge, OVKRidgeCV, tune
from ovk.kernels import Gaussian
from ovk.plotting import OutputGraphDisplay, OutputStructureDisplay

rng = np.random.default_rng(0)
n, names = 90, [f"s{q}" for q in range(10)]
X = np.sort(rng.uniform(0, 10, (n, 1)), axis=0)
draw = np.linalg.cholesky(Gaussian(0.8)(X) + 1e-9 * np.eye(n))
signals = draw @ rng.standard_normal((n, 5))
first, second = signals[:, :1], signals[:, 1:2]
truth = np.hstack([first, first, -first, 0.8 * first, second, second, -second, signals[:, 2:]])
Y = truth + 0.3 * rng.standard_normal(truth.shape)
Y[rng.uniform(size=Y.shape) < 2 / 3] = np.nan

# %%
# Learned with f, as one convex problem; the trace of T keeps the number of common signals small.

learned = OutputKernelRidge(Gaussian(0.8), leave_out="entry").fit(X, Y)
apart = OVKRidgeCV(Gaussian(0.8)).fit(X, Y)
tuned = tune(OVKRidge(Gaussian(0.8)), X, Y, rank=2, restarts=1)
for name, model in (("sensors apart", apart), ("learned operator", learned), ("tuned by evidence", tuned)):
    print(f"{name:18} mean squared error {np.mean((model.predict(X) - truth) ** 2):.3f}")

# %%
# T as a matrix and as a graph: solid lines join sensors that go together, dashed ones those with opposite signs.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
OutputStructureDisplay.from_estimator(learned, names=names, ax=left)
OutputGraphDisplay.from_estimator(learned, names=names, threshold=0.3, ax=right)
plt.show()
