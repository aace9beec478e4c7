"""
Classification with probabilities
=================================

``OVKClassifierCV()`` selects the kernel and alpha, and calibrates its probabilities on leave-one-out scores.
"""

import numpy as np

from ovk import OVKClassifierCV
from ovk.plotting.display import BLUE, pyplot

# %%
# Three classes in the plane
# --------------------------

rng = np.random.default_rng(0)


def sample(n):
    """Points, and labels drawn with known probabilities."""
    X = rng.uniform(-1, 1, (n, 2))
    score = 3 * np.column_stack([np.sin(3 * X[:, 0]), X[:, 1], -X.sum(axis=1)])
    P = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    return X, np.array(["red", "green", "blue"])[(rng.uniform(size=(n, 1)) > P.cumsum(axis=1)).sum(axis=1)]


X, y = sample(400)
new, truth = sample(4000)
model = OVKClassifierCV().fit(X, y)
P = model.predict_proba(new)
print("accuracy on new points:", (model.predict(new) == truth).mean().round(3))

# %%
# What was learned, and how well it is calibrated
# -----------------------------------------------
# On the left, the colour of a point mixes the colours of the classes by their predicted probabilities. On the right,
# predictions of 80% should come true in 80% of the cases. More in :doc:`/guide/classification`.

figure, (left, right) = pyplot().subplots(1, 2, figsize=(9, 4.2), layout="constrained")
side = np.linspace(-1, 1, 120)
plane = np.array([(a, b) for b in side for a in side])
# Colours that can be told apart with colour blindness, too.
colours = np.array([[0.0, 0.45, 0.70], [0.0, 0.62, 0.45], [0.84, 0.37, 0.0]])
mixture = 1 - 0.75 * (1 - model.predict_proba(plane) @ colours)
left.imshow(mixture.reshape(120, 120, 3), origin="lower", extent=(-1, 1, -1, 1))
for label, colour in zip(model.classes_, colours, strict=True):
    left.plot(*X[y == label].T, "o", color=colour, markeredgecolor="white", markersize=5, label=label)
left.set(
    xlabel="first input", ylabel="second input", title="Predicted probabilities of three classes", xticks=[-1, 0, 1]
)
left.legend(fontsize=9, loc="lower left")
said, right_ones = P.ravel(), (truth[:, None] == model.classes_).ravel()
bins = np.array_split(np.argsort(said), 12)
right.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="perfectly calibrated")
right.plot(
    [said[b].mean() for b in bins], [right_ones[b].mean() for b in bins], "o-", color=BLUE, label="OVKClassifierCV()"
)
right.set(xlabel="predicted probability", ylabel="observed frequency", title="Calibration on new points")
right.legend(fontsize=9)
