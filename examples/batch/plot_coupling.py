"""
What coupling gains
===================

Six outputs share two hidden functions. Each output was measured at a few places only, and rarely two at the same place.
Learned separately, an output is unconstrained between its own measurements; learned jointly, it borrows strength from
the others.
"""

import numpy as np

from ovk import OVKRidgeCV
from ovk.kernels import Gaussian
from ovk.operators import Dense
from ovk.plotting.display import BLUE, draw_band, pyplot

OUTPUTS, PLACES, SEEN = 6, 240, 0.06

# %%
# The problem
# -----------
# Of 1,440 values, 6% were measured, with noise.

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, PLACES))
hidden = np.column_stack([np.sin(x) + 0.5 * np.sin(2.3 * x), np.cos(1.7 * x)])
mixing = np.column_stack([np.ones(OUTPUTS), np.linspace(-0.6, 0.6, OUTPUTS)])
truth = hidden @ mixing.T
seen = np.where(rng.uniform(size=truth.shape) < SEEN, truth + 0.2 * rng.standard_normal(truth.shape), np.nan)
X = x[:, None]

# %%
# Three assumptions about the outputs
# -----------------------------------
# The outputs are unrelated; they resemble each other to a degree selected by leave-one-out (a mixed effect); or, for
# comparison, they have the correlation of the noise-free functions, which is unknown in practice.

alphas = np.logspace(-3, 1, 9)
models = {
    "outputs apart": OVKRidgeCV(Gaussian(0.6), alphas, fit_intercept=True),
    "mixed effect, omega by leave-one-out": OVKRidgeCV(
        Gaussian(0.6), alphas, omegas=[0.0, 0.25, 0.5, 0.75, 0.9, 0.97], fit_intercept=True
    ),
    "the true correlation as operator (oracle)": OVKRidgeCV(
        Gaussian(0.6) * Dense(np.corrcoef(truth.T)), alphas, fit_intercept=True
    ),
}
print(f"{'model':42} {'alpha':>7} {'omega':>6} {'R2 at all places':>17}")
for name, model in models.items():
    model.fit(X, seen)
    omega = "" if model.omega_ is None else f"{model.omega_:g}"
    print(f"{name:42} {model.alpha_:7.3g} {omega:>6} {model.score(X, truth):17.3f}")

# %%
# Two of the outputs
# ------------------
# Where an output has no measurements of its own, the model that learns all of them together stays closer to the truth
# and is more certain. :doc:`/guide/missing` explains when coupling helps, and when it does not.

shown = [0, 2]
figure, axes = pyplot().subplots(2, 2, figsize=(9, 4.8), sharex=True, sharey="row", layout="constrained")
grid = np.linspace(0, 10, 400)
titles = {"learned separately": "outputs apart", "learned together": "mixed effect, omega by leave-one-out"}
for column, (title, name) in enumerate(titles.items()):
    mean, std = models[name].predict(grid[:, None], return_std=True)
    for panel, q in zip(axes[:, column], shown, strict=True):
        draw_band(panel, grid, mean[:, q], 2 * std[:, q], "two standard deviations")
        panel.plot(x, truth[:, q], color="black", linewidth=1.2, linestyle="--", label="truth")
        panel.plot(grid, mean[:, q], color=BLUE, linewidth=2, label="prediction")
        panel.plot(x, seen[:, q], "o", color="black", markersize=5, label="measured")
    axes[0, column].set_title(f"{title}: R² = {models[name].score(X, truth):.2f}", fontsize=13)
for panel, q in zip(axes[:, 0], shown, strict=True):
    panel.set_ylabel(f"output {q + 1} of {OUTPUTS}", fontsize=11)
_ = figure.legend(
    *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=11
)
