"""
A river pipeline
================

The adapters in `ovk.online.river` have river's interface: they take dictionaries, one example at a time, and work
in river's pipelines, here after a scaler. Two outputs are learned jointly, and one of them is observed only now and
then.
"""

import matplotlib.pyplot as plt
import numpy as np
from river import preprocessing

from ovk import PKAWV
from ovk.kernels import Gaussian
from ovk.online.river import RiverMultiTargetRegressor
from ovk.operators import MixedEffect

rng = np.random.default_rng(0)


def example() -> tuple[dict[str, float], dict[str, float]]:
    """Wind and hour, and the power of two turbines next to each other."""
    wind, hour = rng.uniform(0, 20), rng.uniform(0, 24)
    power = np.tanh((wind - 8) / 4) + 0.1 * np.sin(hour / 24 * 2 * np.pi)
    return {"wind": wind, "hour": hour}, {"a": power + 0.05 * rng.standard_normal(), "b": power + 0.2}


errors = {}
for name, omega in (("separately", 0.0), ("together", 0.9)):
    rng = np.random.default_rng(0)
    learner = PKAWV(Gaussian(1.0) * MixedEffect(omega, 2), alpha=0.1, random_state=0)
    pipeline = preprocessing.StandardScaler() | RiverMultiTargetRegressor(learner, targets=("a", "b"))
    errors[name] = []
    for row in range(300):
        x, y = example()
        if row:
            errors[name].append(abs(pipeline.predict_one(x)["b"] - y["b"]))
        pipeline.learn_one(x, y if row % 20 == 0 else {"a": y["a"]})  # b is observed in one row of twenty
    print(f"{name:11} mean absolute error of b {np.mean(errors[name]):.3f}")

# %%

figure, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
for name, values in errors.items():
    ax.plot(np.cumsum(values) / np.arange(1, len(values) + 1), label=name)
ax.set(xlabel="examples", ylabel="mean absolute error of b so far")
_ = ax.legend()

# %%
# Start with `RiverRegressor(AutoStream())`, which needs no settings: :doc:`/coming-from`.
