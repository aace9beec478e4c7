"""
Penalty and coupling by leave-one-out
=====================================

The leave-one-out error for every combination of penalty and coupling has a closed form: computing all of them costs
little more than one fit.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import OVKRidgeCV
from ovk.kernels import Gaussian
from ovk.plotting import LeaveOneOutDisplay

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (60, 1))
Y = np.sin(X) + 0.2 * np.cos(2 * X) * rng.standard_normal(5) + 0.6 * rng.standard_normal((60, 5))

omegas = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99]
model = OVKRidgeCV(Gaussian(0.8), np.logspace(-3, 2, 21), omegas=omegas).fit(X, Y)
print(f"chosen: alpha {model.alpha_:.3g}, omega {model.omega_:.2f}")

# %%
# Each curve is one strength of coupling (omega). The outputs have much in common, so strong coupling wins; without any
# (omega = 0), the best error is larger. More in :doc:`/guide/choosing`.

_ = LeaveOneOutDisplay.from_estimator(model)
plt.gcf().set_size_inches(7.5, 4.5)
