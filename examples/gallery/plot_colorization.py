"""
Colours from grey and a few coloured pixels
===========================================

Colorization as a regression of vectors (Ha Quang, Kang and Le 2010): the input is what a pixel looks like in grey (the
luminance of a patch around it) and where it is, the output its two chrominance values. One pixel in three hundred is
coloured by hand; an operator-valued kernel carries the colour to the others. The two chrominances are coupled by their
correlation among the coloured pixels.
"""

# %%
# An image that scikit-learn ships, made small, and its luminance and chrominances (YUV).

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from ovk import OVKRidgeCV
from ovk.kernels import Gaussian
from ovk.operators import Dense, Identity

image = load_sample_image("flower.jpg")[::4, ::4] / 255.0
to_yuv = np.array([[0.299, 0.587, 0.114], [-0.147, -0.289, 0.436], [0.615, -0.515, -0.100]])
yuv = image @ to_yuv.T
luminance, chrominance = yuv[..., 0], yuv[..., 1:]
height, width = luminance.shape

# %%
# What the learner sees of a pixel: the 5 x 5 patch of grey around it, and its place. The place is scaled so that half
# the image counts as much as the whole range of grey.

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
found = model.predict(X).reshape(height, width, 2)

# %%
# The result, beside the grey image with its coloured pixels and the original.


def shown(chroma):
    """Luminance and chrominances as an image."""
    return np.clip(np.dstack([luminance, chroma]) @ np.linalg.inv(to_yuv).T, 0.0, 1.0)


figure, axes = plt.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
axes[0].imshow(shown(np.zeros((height, width, 2))))
axes[0].scatter(coloured % width, coloured // width, s=7, c=image.reshape(-1, 3)[coloured])
axes[0].set_title(f"given: grey, and {len(coloured)} coloured pixels")
axes[1].imshow(shown(found))
error, grey = np.sqrt(((found - chrominance) ** 2).mean()), np.sqrt((chrominance**2).mean())
axes[1].set_title(f"found: error {error:.3f} (left grey: {grey:.3f})")
axes[2].imshow(image)
axes[2].set_title("original")
for ax in axes:
    ax.set_axis_off()
print(f"chrominance error {error:.3f}, left grey {grey:.3f}")
plt.show()
