"""
A table with gaps
=================

Six indicators of the US economy, with half of the values hidden. `OVKRidgeCV` without arguments chooses the kernel,
length scales, penalties and coupling by leave-one-out.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import OVKRidgeCV
from ovk.datasets import load_us_economy

economy = load_us_economy()
X, Y = economy.data, economy.target
model = OVKRidgeCV().fit(X, Y)
print(f"R2 on the hidden values: {model.score(X, economy.hidden):.2f}")

# %%
# Hidden values and predictions
# -----------------------------
# The band is two standard deviations of a new observation. Linear interpolation of each indicator has an R2 of 0.81.
# :doc:`/quickstart` goes through this example step by step.

years = np.linspace(1960, 2009.5, 600)[:, None]
mean, std = model.predict(years, return_std=True)
figure, axes = plt.subplots(3, 2, figsize=(9, 6.6), sharex=True, layout="constrained")
for q, (ax, name) in enumerate(zip(axes.flat, economy.target_names, strict=True)):
    ax.fill_between(years[:, 0], mean[:, q] - 2 * std[:, q], mean[:, q] + 2 * std[:, q], alpha=0.25)
    ax.plot(years[:, 0], mean[:, q])
    ax.plot(X[:, 0], Y[:, q], ".", color="black", markersize=4, label="known")
    ax.plot(X[:, 0], economy.hidden[:, q], ".", color="tab:orange", markersize=4, label="hidden")
    ax.set_title(f"{name}, %", fontsize=11)
figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, markerscale=2)
