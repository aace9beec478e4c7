"""
A flow learned from examples
============================

A force stirs a fluid on a torus. Solving the Navier-Stokes equations takes many small time steps. `OperatorRidge`
learns the map from the force to the vorticity from solved examples, and predicts a new field in one step.
"""

import numpy as np
from matplotlib import pyplot as plt

from ovk import OperatorRidge
from ovk.datasets import make_navier_stokes
from ovk.kernels import Gaussian, Linear

flow = make_navier_stokes(220, size=32, random_state=0)
X, Y, new, truth = flow.data[:200], flow.target[:200], flow.data[200:], flow.target[200:]

# %%
# A short list of candidates keeps the example quick; `OperatorRidge` without `kernel` and `decay` has a longer one.
kernels = [Linear(), Linear() + Gaussian(6.0)]
model = OperatorRidge(kernels, decay=[1.0, 2.0], input_grid=flow.grid, output_grid=flow.grid).fit(X, Y)
predicted = model.predict(new)
error = np.mean(np.linalg.norm(predicted - truth, axis=1) / np.linalg.norm(truth, axis=1))
print(f"relative error {error:.1%}, left out {model.loo_error_:.1%}")

# %%
# A flow that was not among the examples, and the width of its 90% band. :doc:`/guide/operators` compares the errors
# with those of neural operators.
low, high = model.predict_bands(new[:1], level=0.9)
parts = {
    "force": new[0],
    "vorticity": truth[0],
    "predicted": predicted[0],
    "difference": predicted[0] - truth[0],
    "width of the 90% band": (high - low)[0],
}
figure, axes = plt.subplots(2, 3, figsize=(9, 5.2), layout="constrained")
axes[1, 2].remove()
for axis, (title, values) in zip(axes.flat, parts.items(), strict=False):
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
plt.show()
