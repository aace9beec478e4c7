"""
Which outputs are related
=========================

Ten sensors report noisy values along a road. Some measure the same signal, two measure it with the opposite sign, three
are unrelated to the others, and nobody wrote down which is which. `OutputKernelRidge` learns the relations between the
sensors, an operator T, together with the functions; `ovk.tune` finds T by maximum likelihood, with a noise level for
each sensor.
"""

# %%
# Synthetic data: two common signals, and sensors that measure a multiple of one of them or a signal of their own. Two
# thirds of the values of each sensor are missing.

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
# T and the functions are learned in one convex problem; a penalty on the trace of T keeps the number of common signals
# small.

learned = OutputKernelRidge(Gaussian(0.8), leave_out="entry").fit(X, Y)
apart = OVKRidgeCV(Gaussian(0.8)).fit(X, Y)
tuned = tune(OVKRidge(Gaussian(0.8)), X, Y, rank=2, restarts=1)
for name, model in (("separate sensors", apart), ("learned operator", learned), ("tuned operator", tuned)):
    print(f"{name:18} mean squared error {np.mean((model.predict(X) - truth) ** 2):.3f}")

# %%
# T as a matrix and as a graph: solid lines join sensors that measure the same signal, dashed lines those with opposite
# signs. More in :doc:`/howto/choose-an-operator`.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.8), layout="constrained")
OutputStructureDisplay.from_estimator(learned, names=names, ax=left)
OutputGraphDisplay.from_estimator(learned, names=names, threshold=0.3, ax=right)
plt.show()
