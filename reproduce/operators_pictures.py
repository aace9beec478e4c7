"""Figures of learned operators: errors against the number of pairs, and fields with their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce.operators_data import Pairs
from reproduce.support import Array


def picture_of_errors(
    found: dict[str, dict[str, dict[int, float]]], published: dict[str, dict[str, dict[int, float]]]
) -> Any:
    """Errors against the number of pairs for every problem and method, published ones as marks."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(1, len(found), figsize=(4.5 * len(found), 4.2), squeeze=False, layout="constrained")
    for axis, (name, errors) in zip(axes[0], found.items(), strict=True):
        colours = dict(zip(errors, ("#0072B2", "#D55E00"), strict=False))
        for label, values in errors.items():
            axis.loglog(list(values), list(values.values()), "o-", color=colours[label], label=label)
        for (label, known), marker in zip(published[name].items(), "sDvP", strict=False):
            colour = colours.get(label, "black")
            axis.loglog(
                list(known), list(known.values()), marker, color=colour, mfc="none", label=f"{label}, published", ms=8
            )
        ticks = sorted({n for values in (*errors.values(), *published[name].values()) for n in values})
        axis.set(title=name, xlabel="pairs to learn from", ylabel="relative error in percent")
        axis.set_xticks(ticks, labels=[f"{n:,}" for n in ticks])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
    # Below the axes, where it hides no error.
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def picture_of_fields(pairs: Pairs, predicted: Array) -> Any:
    """An input, the truth, the prediction and their difference."""
    from matplotlib import pyplot as plt

    x, y = pairs.X_test[0], pairs.Y_test[0]
    shape = pairs.grid.shape
    figure, axes = plt.subplots(2, 2, figsize=(8, 6.6), layout="constrained")
    parts = {"input": x, "output": y, "prediction": predicted, "difference": predicted - y}
    for axis, (title, values) in zip(axes.flat, parts.items(), strict=True):
        size = np.abs(values).max()
        image = axis.imshow(values.reshape(shape).T, origin="lower", cmap="RdBu_r", vmin=-size, vmax=size)
        axis.set(title=title, xticks=[], yticks=[])
        figure.colorbar(image, ax=axis, shrink=0.8, format="%.2g")
    return figure
