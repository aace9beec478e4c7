"""
Cokriging: mapping with a related quantity
==========================================

An expensive quantity was measured at 25 places, a cheap one at 200. The two are related, so the cheap one helps to fill
in the map of the expensive one. This is cokriging: ridge regression with an operator-valued kernel.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import OVKRidge, tune
from ovk.kernels import Gaussian
from ovk.operators import LowRank

rng = np.random.default_rng(1)


def field(x: np.ndarray) -> np.ndarray:
    """The two quantities at places x."""
    common = np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1]) + np.exp(-4 * ((x - 0.8) ** 2).sum(axis=1))
    return np.column_stack([common + 0.2 * x[:, 0], 2 * common - 0.3 * x[:, 1]])


places = rng.uniform(0, 2, (200, 2))
seen = field(places) + 0.1 * rng.standard_normal((200, 2))
seen[25:, 0] = np.nan  # the expensive one

# %%
# Widths, coupling and noise by maximum likelihood
# ------------------------------------------------
# `tune` chooses them by gradient ascent on the marginal likelihood, as for a Gaussian process.

start = OVKRidge(Gaussian(0.5) * LowRank([[1.0], [1.0]], diag=0.1), alpha=0.05)
together = tune(start, places, seen, restarts=1, max_iter=30, random_state=0)
alone = tune(OVKRidge(Gaussian(0.5), alpha=0.05), places[:25], seen[:25, :1], restarts=1, max_iter=30, random_state=0)

side = np.linspace(0, 2, 40)
grid = np.array([(x, y) for y in side for x in side])
truth = field(grid)[:, 0]
maps = {
    "truth": truth,
    "from 25 samples": alone.predict(grid)[:, 0],
    "with 200 cheap samples": together.predict(grid)[:, 0],
}
for name, values in maps.items():
    print(f"{name:24} mean absolute error {np.abs(values - truth).mean():.3f}")

# %%
# The expensive quantity on the map
# ---------------------------------
# Circles are the places where it was measured, dots the places where the cheap quantity was measured. Coupling lowers
# the mean absolute error of the map from 0.11 to 0.06. `python -m reproduce jura` does the same with real soil samples.

figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, maps.items(), strict=True):
    image = ax.imshow(values.reshape(40, 40), origin="lower", extent=(0, 2, 0, 2), vmin=truth.min(), vmax=truth.max())
    ax.plot(*places[:25].T, "o", color="white", markeredgecolor="black", markersize=5)
    if "cheap" in name:
        ax.plot(*places[25:].T, ".", color="black", markersize=2)
    ax.set_title(name)
_ = figure.colorbar(image, ax=axes, shrink=0.8)
