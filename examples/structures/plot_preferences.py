"""
Who prefers what
================

The output for each person is a ranking of five drinks. Kendall's tau is a kernel on rankings, so input-output kernel
regression (`IOKR`) predicts whole rankings from a person's features. It also learns from people who ranked only some of
the drinks.
"""

import numpy as np
from matplotlib.colors import ListedColormap
from scipy.stats import kendalltau

from ovk import IOKR
from ovk.kernels import Gaussian
from ovk.plotting.display import pyplot
from ovk.structured import Kendall

THINGS = ["tea", "coffee", "milk", "juice", "water"]

# %%
# The problem
# -----------
# What a person likes depends on two features, and people's rankings are noisy. The output is a row of scores of which
# only the order counts. A third of the people left two of the drinks tied.

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 2))
liking = np.cos(X @ rng.standard_normal((2, 5)) * 2 + rng.uniform(0, 6, 5))
noisy = liking + 0.3 * rng.standard_normal(liking.shape)
scores = noisy.argsort(axis=1).argsort(axis=1).astype(float)
for row in np.flatnonzero(rng.uniform(size=300) < 1 / 3):
    scores[row, rng.choice(5, 2, replace=False)] = 2.0
train, test = slice(0, 200), slice(200, 300)

# %%
# Learning
# --------
# alpha is chosen by leaving one person out at a time. The prediction is the nearest of the rankings that people gave.

model = IOKR(Gaussian(0.7), Kendall(), alpha=np.logspace(-2, 1, 7)).fit(X[train], scores[train])
found = model.predict(X[test])
common = np.tile(scores[train].mean(axis=0), (100, 1))


def agreement(orders):
    """Kendall's tau with what people really like, averaged."""
    return np.mean([kendalltau(a, b).statistic for a, b in zip(orders, liking[test], strict=True)])


print(f"one order for all: agreement {agreement(common):.2f}")
print(f"learned: agreement {agreement(found):.2f}")

# %%
# The favourite drink
# -------------------
# Predicted for people with any features, and what the nearest person really likes best. More in
# :doc:`/guide/structured`.

plt = pyplot()
colours = ListedColormap(plt.get_cmap("Set2").colors[:5])
grid = np.linspace(-1, 1, 41)
people = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
first = model.predict(people).argmax(axis=1)
near = ((people[:, None] - X) ** 2).sum(axis=2).argmin(axis=1)
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for axis, winner, title in ((axes[0], first, "learned"), (axes[1], liking[near].argmax(axis=1), "the nearest person")):
    picture = axis.imshow(
        winner.reshape(41, 41), extent=(-1, 1, -1, 1), origin="lower", cmap=colours, vmin=-0.5, vmax=4.5
    )
    axis.set(title=title, xlabel="first feature")
axes[0].set_ylabel("second feature")
bar = figure.colorbar(picture, ax=axes, ticks=range(5))
bar.ax.set_yticklabels(THINGS)
