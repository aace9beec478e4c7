"""
Which variable influences which, at many sites
==============================================

The same five weather variables are measured at 48 sites every day. Which variable influences which differs between the
west and the east, and the method is not told where the border is.

As in Lim, d'Alche-Buc, Auliac and Michailidis (2014), the settings are chosen at one site by the Bayesian information
criterion, a network is inferred at each of the others, the networks are clustered, and each cluster gets a consensus.
"""

# %%
# Synthetic data: two mechanisms, a border across the map, and 80 days at each site.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import AgglomerativeClustering

from ovk import OKVAR
from ovk.batch import Network, best_okvar, rank_average
from ovk.kernels import Gaussian, Linear
from ovk.plotting import NetworkDisplay

rng = np.random.default_rng(0)
VARIABLES = ("sun", "heat", "rain", "wind", "cloud")
# Row i, column j: i acts on j.
WEST = np.array([[0, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [-1, 0, 0, 0, 0]])
EAST = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, -1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0]])


def observe(mechanism: np.ndarray, days: int = 80) -> np.ndarray:
    """Days of a nonlinear autoregression with that network."""
    x = rng.standard_normal((days, len(mechanism)))
    for t in range(days - 1):
        x[t + 1] = 0.4 * x[t] + 0.9 * np.tanh(x[t]) @ mechanism + 0.5 * rng.standard_normal(len(mechanism))
    return x


places = rng.uniform(size=(48, 2))
eastern = places[:, 0] + 0.3 * np.sin(4 * places[:, 1]) > 0.65
sites = [observe(EAST if is_eastern else WEST) for is_eastern in eastern]

# %%
# Settings are chosen at the first site.

candidates = [OKVAR(kernel, alpha) for kernel in (Linear(), Gaussian(4.0)) for alpha in (0.1, 1.0, 10.0)]
model, criterion = best_okvar(candidates, sites[0])
print(f"chosen: {model.kernel}, alpha = {model.alpha:g}")

# %%
# A network at every other site, as ranks of its edges; sites with similar ranks belong together.

ranks = [rank_average([model.fit(site).edge_scores()]) for site in sites[1:]]
edges = ~np.eye(len(VARIABLES), dtype=bool)
labels = AgglomerativeClustering(2).fit_predict([rank[edges] for rank in ranks])
truth = eastern[1:].astype(int)
agreement = max(np.mean(labels == truth), np.mean(labels != truth))
print(f"sites on their side of the border: {agreement:.0%}")

# %%
# The map, and the six strongest edges of each cluster; dashed edges are not in the true network. The mathematics is in
# :doc:`/systems/okvar`.

figure, (chart, *panels) = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained", width_ratios=(0.9, 1, 1))
for cluster, (marker, colour) in enumerate((("o", "#0072B2"), ("^", "#D55E00"))):
    chart.plot(*places[1:][labels == cluster].T, marker, color=colour, label=f"cluster {cluster + 1}")
height = np.linspace(0, 1, 100)
chart.plot(0.65 - 0.3 * np.sin(4 * height), height, "k:", label="true border")
chart.set(title="Where each network was found", xlabel="west to east", ylabel="south to north", xlim=(0, 1.02))
chart.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False)
for cluster, panel in enumerate(panels):
    scores = rank_average([rank for rank, label in zip(ranks, labels, strict=True) if label == cluster])
    strongest = scores >= np.sort(scores, axis=None)[-6]
    mechanism = EAST if truth[labels == cluster].mean() > 0.5 else WEST
    NetworkDisplay(Network(scores, strongest, np.zeros_like(scores), VARIABLES), mechanism).plot(panel)
    panel.set_title(f"Consensus of cluster {cluster + 1}")
plt.show()
