"""
Predicting whole curves
=======================

Each output is a curve, like the temperature at a weather station over a year, and half of each curve is missing. The
model only knows that the year is periodic; the smoothness of the curves is selected by leave-one-out over stations.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import FunctionalRidgeCV
from ovk.curves import Grid
from ovk.plotting import FunctionalPredictionDisplay

rng = np.random.default_rng(0)
days = (np.arange(60) + 0.5) / 60
latitude = rng.uniform(30, 70, (40, 1))
curves = 40 - 0.6 * latitude - (4 + 0.25 * (latitude - 30)) * np.cos(2 * np.pi * (days - 0.05))
curves += 3 * np.exp(-(((days - 0.5) / 0.1) ** 2)) * (latitude > 50)
seen = curves + rng.standard_normal(curves.shape)
seen[rng.uniform(size=seen.shape) < 0.5] = np.nan

model = FunctionalRidgeCV(grid=Grid(days, period=1.0)).fit(latitude[:30], seen[:30])
print(f"chosen: {model.kernel_.operator.kernel}, alpha {model.alpha_:.2g}")
error = np.abs(model.predict(latitude[30:]) - curves[30:]).mean()
print(f"mean absolute error on 10 new stations: {error:.2f} degrees")

# %%
# New stations: prediction (line), truth (dotted)
# -----------------------------------------------

figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
for k in np.argsort(latitude[30:, 0])[::3]:
    (line,) = ax.plot(days * 12, model.predict(latitude[30 + k : 31 + k])[0], label=f"{latitude[30 + k, 0]:.0f}° north")
    ax.plot(days * 12, curves[30 + k], ":", color=line.get_color())
ax.set(xlabel="month", ylabel="temperature, °C")
_ = ax.legend()

# %%
# Observations and two standard deviations
# ----------------------------------------
# :doc:`/howto/curves` covers irregular sampling, missing values and prediction on other grids.

labels = {"xlabel": "year", "ylabel": "temperature, °C"}
_ = FunctionalPredictionDisplay.from_estimator(model, latitude[30:34], seen[30:34], **labels)
