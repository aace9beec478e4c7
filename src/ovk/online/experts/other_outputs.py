"""Outputs corrected by what is predicted of the others, so that those that have something in common share labels.

With the predictions f of all outputs, made from the labels of each, output j is predicted by

    f_j + b_j' (1, f),        b_j a ridge regression of the residuals y_j - f_j,

which is no more than f_j where the others say nothing about it. It matters where outputs are observed in different
rows: their predictions then have errors of their own, which average out.
"""

from __future__ import annotations

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.online.second_order.decaying import DecayingRidge
from ovk.online.shared.units import StreamUnits

#: Ridge parameter, in units in which labels have a deviation of 1.
ALPHA = 0.1


class OtherOutputs(State):
    """Predictions of outputs from those of all of them.

    Parameters
    ----------
    F, Y : (n, d) predictions of rows, each made without it, and labels, nan where missing
    weights : (n,) what the losses of the rows are multiplied by
    units : of the labels
    groups : outputs that are observed together
    robust : as in `DecayingRidge`
    """

    _saved_state = ("units", "groups", "ridges")
    _state_classes = {"units": StreamUnits, "ridges": DecayingRidge}

    def __init__(
        self, F: Array, Y: Array, weights: Array | None, units: StreamUnits, groups: list[list[int]], robust: float
    ) -> None:
        self.units, self.groups = units, groups
        features = F.shape[1] + 1
        self.ridges = [DecayingRidge(features, len(outputs), ALPHA, robust=robust) for outputs in groups]
        f, residuals = self._rows(F), (Y - F) / units.scale
        for outputs, ridge in zip(groups, self.ridges, strict=True):
            ridge.replay(f, residuals[:, outputs], weights)

    def predict(self, F: Array) -> Array:
        """(n, d) predictions from those of other learners."""
        f = self._rows(F)
        return self._corrected(F, [ridge.predict(f) for ridge in self.ridges])

    def predict_and_update(self, F: Array, Y: Array, weights: Array | None = None) -> Array:
        """(n, d) predictions, each made before its own labels are learned."""
        f, residuals = self._rows(F), (Y - F) / self.units.scale
        pairs = zip(self.groups, self.ridges, strict=True)
        return self._corrected(
            F, [ridge.predict_and_update(f, residuals[:, outputs], weights) for outputs, ridge in pairs]
        )

    def _rows(self, F: Array) -> Array:
        return np.hstack([np.ones((len(F), 1)), self.units.outputs(F)])

    def _corrected(self, F: Array, found: list[Array]) -> Array:
        Z = F.copy()
        for outputs, residuals in zip(self.groups, found, strict=True):
            Z[:, outputs] += self.units.scale[outputs] * residuals
        return Z
