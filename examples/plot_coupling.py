"""
What coupling gains
===================

Six outputs share two hidden functions. Every output is measured at few places, and rarely two at the same place, so
each can borrow from the others.
"""

import numpy as np

from ovk import OVKRidgeCV
from ovk.kernels import Gaussian
from ovk.operators import Dense
from ovk.plotting import PredictionDisplay
from ovk.plotting.display import pyplot

OUTPUTS, PLACES, SEEN = 6, 240, 0.06

# %%
# The problem
# -----------
# Of 1440 values, 6% were measured, with noise.

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
# Outputs apart; a mixed effect whose strength is chosen by leave-one-out; and, as an oracle, the true correlation.

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
# The picture
# -----------
# Three of the outputs: dots are what was measured, the dotted line is the truth, the band two standard deviations.

shown = [0, 2, 5]
figure, axes = pyplot().subplots(3, 2, figsize=(10, 6.4), sharex=True, sharey="row", layout="constrained")
for column, (title, name) in enumerate(
    {"learned separately": "outputs apart", "learned together": "mixed effect, omega by leave-one-out"}.items()
):
    whole = PredictionDisplay.from_estimator(models[name], X, seen, plot=False)
    names = [f"output {q}" for q in shown]
    display = PredictionDisplay(whole.x, whole.mean[:, shown], whole.std[:, shown], (x, seen[:, shown]), names)
    display.plot(axes[:, column])
    for panel, q in zip(axes[:, column], shown, strict=True):
        panel.plot(x, truth[:, q], color="black", linewidth=0.8, linestyle=":", zorder=1)
    axes[0, column].set_title(f"{title}: R² = {models[name].score(X, truth):.2f} (dotted: truth)", pad=24)
