"""
Default behaviour of OVKRidgeCV
===============================

``OVKRidgeCV()`` compares kernels of several families and widths by their leave-one-out errors, with a separate alpha
for every output. Here is the comparison for a small table.
"""

import numpy as np

from ovk import OVKRidgeCV
from ovk.plotting.display import pyplot

# %%
# A table with three outputs
# --------------------------
# One is smooth, one has kinks and one is pure noise; the inputs are on very different scales.

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (150, 3)) * [1.0, 100.0, 0.01]
smooth = np.sin(3 * X[:, 0]) + 0.01 * X[:, 1]
rough = np.abs(X[:, 0]) + np.abs(0.01 * X[:, 1])
Y = np.column_stack([smooth, rough, np.zeros(150)]) + 0.1 * rng.standard_normal((150, 3))
model = OVKRidgeCV().fit(X, Y)
print(*model.choice_.names[:4], sep=", ")

# %%
# What was compared
# -----------------
# On the left, a curve for each candidate: its leave-one-out error, averaged over the outputs, where predicting the mean
# has an error of 1. On the right, the errors of the chosen kernel for each output, with a dot at the chosen alpha; for
# the output that is noise, no alpha is better than predicting the mean. All steps are described in
# :doc:`/guide/no-arguments`.

choice, alphas = model.choice_, model.alphas_
figure, (left, right) = pyplot().subplots(1, 2, figsize=(9, 4), layout="constrained")
families = {"linear": ("grey", ":"), "Gaussian": ("C0", "-"), "Matern": ("C1", "--"), "Laplacian": ("C2", "-.")}
for name, errors in zip(choice.names, choice.errors, strict=True):
    colour, style = next((how for key, how in families.items() if name.startswith(key)), ("C3", "-"))
    best = name == choice.names[0]
    left.plot(
        alphas, errors.mean(axis=1), style, color=colour, linewidth=3 if best else 1,
        label=f"{name} (chosen)" if best else None,
    )  # fmt: skip
for key, (colour, style) in families.items():
    left.plot([], [], style, color=colour, label=f"{key}, all widths" if key != "linear" else key)
left.set(
    xscale="log", yscale="log", xlabel="alpha", ylabel="leave-one-out error, mean of the outputs", title="Candidates"
)
left.legend(fontsize=9)
for q, name in enumerate(["smooth", "rough", "noise"]):
    (line,) = right.plot(alphas, choice.errors[0, :, q], label=name)
    right.plot(
        choice.alphas[q], np.interp(choice.alphas[q], alphas, choice.errors[0, :, q]), "o", color=line.get_color()
    )
right.set(xscale="log", xlabel="alpha", title="An alpha for each output")
right.legend(fontsize=9)
