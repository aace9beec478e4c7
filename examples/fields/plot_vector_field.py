"""
A field, its parts, and its outliers
====================================

Vectors were observed at 250 points, but 60% of them are outliers that have nothing to do with the field. A robust
`VectorField` finds the outliers and learns the field, with its curl-free and divergence-free parts.
"""

# %%
# The data; `inlier` marks the vectors that belong to the field, which the model does not see.

import matplotlib.pyplot as plt

from ovk import VectorField
from ovk.datasets import make_vector_field
from ovk.plotting import VectorFieldDisplay

sample = make_vector_field(250, noise=0.03, outliers=0.6, random_state=1)
model = VectorField(robust=True).fit(sample.data, sample.target)
found, true = model.inliers_, sample.inlier
print(f"precision {(found & true).sum() / found.sum():.3f}, recall {(found & true).sum() / true.sum():.3f}")

# %%
# The learned field with the observations that were kept, its stream lines, and its two parts. The mathematics is in
# :doc:`/systems/vector-fields`.

figure, axes = plt.subplots(2, 2, figsize=(9, 7.8), layout="constrained")
VectorFieldDisplay.from_estimator(model, sample.data, sample.target, ax=axes[0, 0])
VectorFieldDisplay.from_estimator(model, style="stream", ax=axes[0, 1])
VectorFieldDisplay.from_estimator(model, part="curl-free", ax=axes[1, 0])
VectorFieldDisplay.from_estimator(model, part="div-free", ax=axes[1, 1])
titles = ("field, with the observations", "stream lines", "curl-free part", "divergence-free part")
for ax, title in zip(axes.flat, titles, strict=True):
    ax.set_title(title)
