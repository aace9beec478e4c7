"""
Regret along a stream
=====================

How much worse is learning online than the best fixed function in hindsight? The regret of the exact forecaster
grows with the logarithm of the number of rows. With too few features it grows in proportion to the number of rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import KAWV, PKAWV, OVKRidge
from ovk.evaluation import regret
from ovk.features import Fourier
from ovk.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (600, 2))
Y = np.sin(2 * X[:, :1]) * X[:, 1:] + 0.2 * rng.standard_normal((600, 1))
best = OVKRidge(Gaussian(0.7), alpha=0.1, fit_intercept=False)

figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
for name, model in {
    "exact": KAWV(Gaussian(0.7), alpha=0.1),
    "100 Fourier features": PKAWV(Gaussian(0.7), alpha=0.1, features=Fourier(100), random_state=0),
    "10 Fourier features": PKAWV(Gaussian(0.7), alpha=0.1, features=Fourier(10), random_state=0),
}.items():
    found = regret(model.predict_then_learn(X, Y), best, X=X, Y=Y)
    ax.plot(found.rows, found.loss - found.comparator_loss, label=name)
    print(f"{name:22} regret after {len(X)} rows: {found.final:.1f}")
ax.set(xlabel="rows", ylabel="regret: loss minus that of the best function")
_ = ax.legend()

# %%
# The bounds, and where they come from, are in :doc:`/systems/awv`.
