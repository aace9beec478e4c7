"""
Prediction intervals
====================

``predict_interval`` returns intervals that contain a new observation with the probability you ask for. They are based
on leave-one-out errors, which have a closed form: no rows are set aside, and nothing is refitted.
"""

import numpy as np

from ovk import OVKRidgeCV
from ovk.plotting import IntervalDisplay
from ovk.plotting.display import BLUE, SKY, draw_band, pyplot

# %%
# Two outputs with correlated noise
# ---------------------------------
# There are few points on the right, so the intervals widen there.

rng = np.random.default_rng(0)


def sample(n):
    """Inputs, and two outputs with correlated noise."""
    x = 6 * rng.beta(1, 2, (n, 1))
    noise = 0.25 * rng.standard_normal((n, 2)) @ np.array([[1.0, 0.9], [0.0, 0.44]])
    return x, np.hstack([np.sin(2 * x), np.cos(x)]) + noise


X, Y = sample(300)
new, observed = sample(2000)
model = OVKRidgeCV().fit(X, Y)
print("coverage of 90% intervals:", model.predict_interval(new).contains(observed).mean().round(3))

# %%
# An interval for each output, and a region for both
# --------------------------------------------------
# The ellipsoid follows the correlation of the errors, so it is smaller than the box with the same coverage.

grid = np.linspace(0, 5.2, 300)[:, None]
band = model.predict_interval(grid)
figure, (left, right) = pyplot().subplots(1, 2, figsize=(9, 4.2), layout="constrained", width_ratios=(1.4, 1))
draw_band(left, grid[:, 0], band.predictions[:, 0], 0.5 * band.width[:, 0], "90% of new observations")
left.plot(grid[:, 0], band.predictions[:, 0], color=BLUE, label="prediction")
left.plot(X[:, 0], Y[:, 0], "k.", markersize=4, label="observed")
left.set(xlabel="x", ylabel="first output", title="An interval for each output")
left.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=3, frameon=False, columnspacing=1)
point = np.array([[2.0]])
ellipsoid, box = (model.predict_interval(point, region=region) for region in ("ellipsoid", "box"))
circle = np.column_stack([np.cos(np.linspace(0, 2 * np.pi, 200)), np.sin(np.linspace(0, 2 * np.pi, 200))])
outline = ellipsoid.predictions[0] + ellipsoid.radius[0, 0] * circle @ np.linalg.cholesky(ellipsoid.scatter[0]).T
right.fill(*outline.T, color=SKY, alpha=0.35, linewidth=0, label="ellipsoid, 90%")
low, high = box.lower[0], box.upper[0]
right.plot(
    [low[0], high[0], high[0], low[0], low[0]], [low[1], low[1], high[1], high[1], low[1]], "k--", linewidth=1,
    label="box, 90%",
)  # fmt: skip
near = np.abs(new[:, 0] - 2.0) < 0.08
right.plot(*observed[near].T, "k.", markersize=4, label="new")
right.set(xlabel="first output", ylabel="second output", title="A region for both, near x = 2")
right.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False, columnspacing=1)

# %%
# How often they contained the outcome
# ------------------------------------
# Coverage and width over 200 new rows at a time. :doc:`/guide/prediction-intervals` lists the other methods.

_ = IntervalDisplay.from_estimator(model, new, observed, window=200, names=["first", "second"])
