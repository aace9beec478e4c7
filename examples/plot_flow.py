"""
A flow learned from examples
============================

A forcing stirs a fluid on the torus. Solving the equation of Navier and Stokes takes many small steps;
`OperatorRidge` learns the map from forcing to vorticity from solved examples, and predicts a field of it at once.
"""

import numpy as np
from matplotlib import pyplot as plt

from ovk import OperatorRidge
from ovk.datasets import make_navier_stokes
from ovk.kernels import Gaussian, Linear

flow = make_navier_stokes(220, size=32, random_state=0)
X, Y, new, truth = flow.data[:200], flow.target[:200], flow.data[200:], flow.target[200:]

# %%
# A short list to choose from keeps the example quick; without `kernel` and `decay` there is nothing to set.
kernels = [Linear(), Linear() + Gaussian(6.0)]
model = OperatorRidge(kernels, decay=[1.0, 2.0], input_grid=flow.grid, output_grid=flow.grid).fit(X, Y)
predicted = model.predict(new)
error = np.mean(np.linalg.norm(predicted - truth, axis=1) / np.linalg.norm(truth, axis=1))
print(f"relative error {error:.1%}, left out {model.left_out_error_:.1%}")

# %%
# One of the flows that were not learned from, and how sure the model is of it.
low, high = model.predict_bands(new[:1], level=0.9)
parts = {
    "forcing": new[0],
    "vorticity": truth[0],
    "predicted": predicted[0],
    "difference": predicted[0] - truth[0],
    "width of the band": (high - low)[0],
}
figure, axes = plt.subplots(1, 5, figsize=(15, 3))
for axis, (title, values) in zip(axes, parts.items(), strict=True):
    size = np.abs(values).max()
    one_sided = title.startswith("width")
    image = axis.imshow(
        values.reshape(flow.grid.shape).T,
        origin="lower",
        cmap="viridis" if one_sided else "RdBu_r",
        vmin=0.0 if one_sided else -size,
        vmax=size,
    )
    axis.set(title=title, xticks=[], yticks=[])
    figure.colorbar(image, ax=axis, shrink=0.75)
figure.tight_layout()
plt.show()
