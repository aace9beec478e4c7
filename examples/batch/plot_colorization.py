"""
Colours from grey and a few coloured pixels
===========================================

Colorization as vector-valued regression (Ha Quang, Kang and Le 2010): the inputs are the grey patch around a pixel and
its position, the outputs are its two chrominance values. One pixel in three hundred has a colour, and an
operator-valued kernel carries the colours over to the others. The two chrominances are coupled by their correlation
among the coloured pixels. The grey pixels help as well: a manifold penalty favours similar colours where neighbouring
pixels are similarly grey.
"""

# %%
# An image that comes with scikit-learn, reduced in size, and its luminance and chrominances (YUV).

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.datasets import load_sample_image
from sklearn.model_selection import KFold

from ovk import OVKRidge, OVKRidgeCV
from ovk.kernels import Gaussian
from ovk.operators import Dense, Identity

image = load_sample_image("flower.jpg")[::4, ::4] / 255.0
to_yuv = np.array([[0.299, 0.587, 0.114], [-0.147, -0.289, 0.436], [0.615, -0.515, -0.100]])
yuv = image @ to_yuv.T
luminance, chrominance = yuv[..., 0], yuv[..., 1:]
height, width = luminance.shape

# %%
# The inputs of a pixel are the 5 x 5 grey patch around it and its position, scaled so that a distance of half the image
# counts as much as the difference between black and white.

radius = 2
padded = np.pad(luminance, radius, mode="reflect")
windows = np.lib.stride_tricks.sliding_window_view(padded, (2 * radius + 1, 2 * radius + 1))
patches = windows.reshape(height * width, -1) / (2 * radius + 1)
rows, columns = np.mgrid[:height, :width]
places = 2.0 * np.column_stack([rows.ravel(), columns.ravel()]) / max(height, width)
X = np.hstack([patches, places])
Y = chrominance.reshape(-1, 2)

rng = np.random.default_rng(0)
coloured = rng.choice(len(X), size=len(X) // 300, replace=False)

# %%
# Width, coupling and alpha are chosen by leave-one-out on the coloured pixels.

correlation = np.corrcoef(Y[coloured].T)
model = OVKRidgeCV(
    [Gaussian(scale) for scale in (0.1, 0.2, 0.4, 0.8)],
    alphas=np.logspace(-4, 0, 9),
    operators=[Identity(), Dense(0.5 * np.eye(2) + 0.5 * correlation)],
    fit_intercept=True,
).fit(X[coloured], Y[coloured])
alone = model.predict(X).reshape(height, width, 2)

# %%
# A graph of all pixels: each is linked to its four neighbours, with weights that decrease with the difference in grey.

number = np.arange(height * width).reshape(height, width)
one = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
other = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
weights = np.exp(-(((luminance.flat[one] - luminance.flat[other]) / 0.05) ** 2))
half = sparse.coo_array((weights, (one, other)), shape=(len(X), len(X)))
graph = half + half.T

# %%
# Outputs of grey pixels are nan. The weight of the graph is chosen by cross-validation: a quarter of the coloured
# pixels at a time is turned grey and predicted. The functions are expansions over the coloured pixels and 300 others
# (landmarks).

landmarks = X[np.union1d(coloured, rng.choice(len(X), size=300, replace=False))]


def colours(known, alpha_graph):
    """Chrominances of all pixels from those of some."""
    seen = np.full(Y.shape, np.nan)
    seen[known] = Y[known]
    ridge = OVKRidge(model.kernel_, model.alpha_, landmarks=landmarks, alpha_graph=alpha_graph)
    return ridge.fit(X, seen, graph=graph).predict(X)


def left_out_error(alpha_graph):
    """Mean squared error of coloured pixels that were turned grey."""
    folds = KFold(4, shuffle=True, random_state=0).split(coloured)
    gaps = [(Y - colours(coloured[known], alpha_graph))[coloured[hidden]] for known, hidden in folds]
    return (np.concatenate(gaps) ** 2).mean()


found = colours(coloured, min((1e-3, 1e-2), key=left_out_error)).reshape(height, width, 2)

# %%
# The result, next to the grey image with its coloured pixels and the original. :doc:`/guide/missing` explains the graph
# penalty.


def shown(chroma):
    """Luminance and chrominances as an image."""
    return np.clip(np.dstack([luminance, chroma]) @ np.linalg.inv(to_yuv).T, 0.0, 1.0)


def error(chroma):
    """Root mean squared error of the chrominances."""
    return np.sqrt(((chroma - chrominance) ** 2).mean())


grey = np.zeros((height, width, 2))
panels = {
    f"given: grey, and {len(coloured)} coloured pixels": shown(grey),
    f"from these alone: error {error(alone):.4f}": shown(alone),
    f"from all pixels: error {error(found):.4f}": shown(found),
    "original": image,
}
figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
for ax, (title, panel) in zip(axes.flat, panels.items(), strict=True):
    ax.imshow(panel)
    ax.set_title(title)
    ax.set_axis_off()
axes[0, 0].scatter(coloured % width, coloured // width, s=7, c=image.reshape(-1, 3)[coloured])
print(f"chrominance error {error(alone):.4f} alone, {error(found):.4f} with the graph, left grey {error(grey):.4f}")
plt.show()
