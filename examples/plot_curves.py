"""
Predicting whole curves
=======================

Each output is a curve over the year, like the temperature at a weather station, and half of each curve is missing. The
operator says that times near each other are related, and that the year is periodic.
"""

import matplotlib.pyplot as plt
import numpy as np

from ovk import FunctionalRidge
from ovk.curves import Grid
from ovk.kernels import Gaussian
from ovk.operators import Integral

rng = np.random.default_rng(0)
days = (np.arange(60) + 0.5) / 60
latitude = rng.uniform(30, 70, (40, 1))
curves = 40 - 0.6 * latitude - (4 + 0.25 * (latitude - 30)) * np.cos(2 * np.pi * (days - 0.05))
curves += 3 * np.exp(-(((days - 0.5) / 0.1) ** 2)) * (latitude > 50)
seen = curves + rng.standard_normal(curves.shape)
seen[rng.uniform(size=seen.shape) < 0.5] = np.nan

kernel = Gaussian(8.0) * Integral(Gaussian(0.1))
model = FunctionalRidge(kernel, alpha=1e-3, grid=Grid(days, period=1.0)).fit(latitude[:30], seen[:30])
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
