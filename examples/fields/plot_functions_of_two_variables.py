"""
Functions of two variables
==========================

The inputs are two numbers, the outputs whole images: the heat on a plate, depending on the positions of two flames. On
a product of two grids the operator is a Kronecker product, which is never formed.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import FunctionalRidge
from ovk.curves import Grid, ProductGrid
from ovk.kernels import Gaussian
from ovk.operators import Integral

rng = np.random.default_rng(0)
side = np.linspace(0, 1, 24)
u, v = np.meshgrid(side, side, indexing="ij")


def plate(flames: np.ndarray) -> np.ndarray:
    """Heat on the grid for each row (x of the left flame, x of the right flame)."""
    left, right = flames[:, 0, None, None], flames[:, 1, None, None]
    return np.exp(-((u - left) ** 2 + (v - 0.3) ** 2) / 0.03) + np.exp(-((u - right) ** 2 + (v - 0.7) ** 2) / 0.03)


flames = rng.uniform(0.2, 0.8, (80, 2))
heat = plate(flames).reshape(80, -1)
grid = ProductGrid([Grid(side), Grid(side)])
model = FunctionalRidge(Gaussian(0.4) * Integral(Gaussian(0.1)), alpha=1e-8, grid=grid).fit(flames[:70], heat[:70])
predicted = model.predict(flames[70:])
error = np.linalg.norm(predicted - heat[70:]) / np.linalg.norm(heat[70:])
print(f"relative error on ten new plates: {error:.3f}")

# %%
# Four of the new plates. More in :doc:`/howto/fields`.

figure, axes = plt.subplots(2, 4, figsize=(9, 4.8), sharex=True, sharey=True, layout="constrained")
for k in range(4):
    for ax, values, name in zip(axes[:, k], (heat[70 + k], predicted[k]), ("truth", "prediction"), strict=True):
        ax.imshow(values.reshape(24, 24).T, origin="lower", extent=(0, 1, 0, 1), vmin=0, vmax=1.1)
        ax.set_title(name)
