"""
Support vector machines for several tasks
=========================================

Eight tasks with ten labelled examples each: too few to learn separately. A mixed-effect operator shares what the tasks
have in common. The best amount of sharing depends on how closely the tasks are related.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import MultiTaskSVC
from ovk.kernels import Linear
from ovk.operators import MixedEffect

rng = np.random.default_rng(0)
TASKS, INPUTS = 8, 10
omegas = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 1.0]
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for spread, name in ((0.2, "tasks nearly the same"), (0.8, "tasks related"), (3.0, "tasks hardly related")):
    weights = rng.standard_normal((INPUTS, 1)) + spread * rng.standard_normal((INPUTS, TASKS))
    X, X_test = rng.standard_normal((80, INPUTS)), rng.standard_normal((500, INPUTS))
    task = np.arange(80) % TASKS
    y = np.sign(X @ weights)[np.arange(80), task]
    scores = [
        MultiTaskSVC(Linear() * MixedEffect(omega, TASKS), tol=1e-3)
        .fit(X, y, task=task)
        .score(X_test, np.sign(X_test @ weights))
        for omega in omegas
    ]
    ax.plot(omegas, scores, "o-", label=name)
    print(f"{name:22} apart {scores[0]:.3f}, best {max(scores):.3f} at omega {omegas[int(np.argmax(scores))]}")
ax.set(xlabel="coupling omega (0: separately, 1: one task)", ylabel="accuracy on new examples")
_ = ax.legend()

# %%
# Coupling helps tasks that are alike and hurts those that are not, so choose omega by cross-validation. The mathematics
# is in :doc:`/systems/multitask`.
