"""
Predicting the links of new nodes
=================================

The nodes of a graph have two features each. `LinkPredictor` learns the similarity that the links express, and predicts
the links of nodes that were not part of the graph.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from ovk import LinkPredictor
from ovk.kernels import Gaussian

rng = np.random.default_rng(0)
features = rng.uniform(0, 4, (150, 2))
distance = np.linalg.norm(features[:, None] - features[None], axis=2)
links = np.triu((rng.uniform(size=distance.shape) < np.exp(-((distance / 0.4) ** 2))), 1)
links = links | links.T

known, new = slice(0, 110), slice(110, 150)
model = LinkPredictor(Gaussian(0.5), alpha=0.1).fit(features[known], links[known, known])
scores = model.score_pairs(features[new], features[known])
truth = links[new, known]
print(f"area under the curve, new nodes with known ones: {roc_auc_score(truth.ravel(), scores.ravel()):.3f}")

# %%
# On the left, as many predicted links as there are true ones; on the right, the ROC curve for pairs of a new and a
# known node. The mathematics is in :doc:`/systems/iokr`.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
for i, j in zip(*np.nonzero(np.triu(links[known, known])), strict=True):
    left.plot(*features[[i, j]].T, color="0.75", linewidth=0.8, zorder=0)
left.plot(*features[known].T, "o", color="0.4", markersize=4, label="known")
left.plot(*features[new].T, "o", color="tab:orange", markersize=5, label="new")
strong = np.argwhere(scores >= np.quantile(scores, 1 - truth.mean()))
for i, j in strong:
    left.plot(*np.array([features[new][i], features[known][j]]).T, color="tab:orange", linewidth=0.8, zorder=1)
left.set(title="Predicted links of the new nodes", xticks=[], yticks=[])
left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=2, frameon=False)
false, true, _ = roc_curve(truth.ravel(), scores.ravel())
right.plot(false, true)
right.plot([0, 1], [0, 1], ":", color="black")
_ = right.set(xlabel="share of non-links accepted", ylabel="share of links found", title="Links of the new nodes")
