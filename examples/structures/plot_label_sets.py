"""
Sets of labels
==============

Every place has a set of species. `IOKR` compares sets by the Jaccard kernel, and predicts a whole set among those seen
in training instead of one label at a time.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import IOKR
from ovk.kernels import Gaussian
from ovk.structured import Jaccard

rng = np.random.default_rng(0)
SPECIES = {"oak": (0.3, 0.7), "pine": (0.7, 0.6), "reed": (0.5, 0.2), "moss": (0.2, 0.3)}
places = rng.uniform(0, 1, (260, 2))
sets = [
    {name for name, centre in SPECIES.items() if np.linalg.norm(place - centre) < 0.33 + 0.03 * rng.standard_normal()}
    for place in places
]

model = IOKR(Gaussian(0.12), Jaccard(), alpha=0.1).fit(places[:200], sets[:200])
predicted = model.predict(places[200:])
likeness = [len(a & b) / len(a | b) if a | b else 1.0 for a, b in zip(predicted, sets[200:], strict=True)]
exact = np.mean([a == b for a, b in zip(predicted, sets[200:], strict=True)])
print(f"Jaccard index {np.mean(likeness):.2f}, exactly right {exact:.0%}")

# %%
# Predicted areas of four species (green), the training places where each was found (dots) and the true areas (dotted
# circles). More in :doc:`/guide/structured`.

side = np.linspace(0, 1, 30)
grid = np.array([(x, y) for y in side for x in side])
found = model.predict(grid)
figure, axes = plt.subplots(1, 4, figsize=(9, 2.7), sharey=True, layout="constrained")
for ax, (name, centre) in zip(axes, SPECIES.items(), strict=True):
    ax.imshow(
        np.reshape([name in one for one in found], (30, 30)),
        origin="lower",
        extent=(0, 1, 0, 1),
        cmap="Greens",
        vmax=1.6,
    )
    has = np.array([name in one for one in sets[:200]])
    ax.plot(*places[:200][has].T, ".", color="black", markersize=3)
    ax.add_patch(plt.Circle(centre, 0.33, fill=False, linestyle=":"))
    ax.set(title=name, xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
