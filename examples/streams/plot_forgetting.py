"""
Drift and forgetting
====================

The function changes in the middle of the stream. A learner that never forgets is best before the change and worst
after it: how fast to forget is a trade-off.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import PKAWV
from ovk.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (2000, 1))
y = np.where(np.arange(2000) < 1000, np.sin(2 * X[:, 0]), np.cos(2 * X[:, 0])) + 0.2 * rng.standard_normal(2000)

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, options in {
    "never forgets": {},
    "discount 0.999": {"discount": 0.999},
    "discount 0.99": {"discount": 0.99},
    "window of 300 rows": {"window": 300},
}.items():
    model = PKAWV(Gaussian(0.7), alpha=0.1, random_state=0, **options)
    error = (model.predict_then_learn(X, y) - y) ** 2
    ax.plot(np.convolve(error, np.full(100, 0.01), mode="valid"), label=f"{name}: {error.mean():.3f}")
    print(f"{name:20} mean squared error {error.mean():.3f}")
ax.axhline(0.04, color="black", linestyle=":", linewidth=1, label="variance of the noise")
ax.set(xlabel="row", ylabel="squared error, mean of 100 rows", ylim=(0, 0.8), title="The function changes at row 1,000")
_ = ax.legend(title="mean squared error")

# %%
# How fast to forget depends on the stream. `AutoStream` runs learners that forget at different speeds and weights them:
# :doc:`/howto/drift`.
