"""Exact pre-images, where there are any: no candidates needed.

Every decoder turns predictions h = sum_j w_j phi(z_j), given by weights W (m, anchors) and anchors z_j, into outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ovk._params import Parameters, check_int, positive
from ovk._types import Array, Outputs
from ovk.kernels import Gaussian, Linear, ScalarKernel


class Decoder(Parameters, ABC):
    """Finds the output whose features are nearest to a prediction."""

    #: The output kernel that the decoder is for.
    for_kernel: type[ScalarKernel] = Linear

    def check(self, kernel: ScalarKernel) -> None:
        """Raise an error for an output kernel that this decoder is not for."""
        if not isinstance(kernel, self.for_kernel):
            raise ValueError(
                f"decoder {type(self).__name__} is for the output kernel {self.for_kernel.__name__}(), got "
                f"{type(kernel).__name__}: use decoder='candidates'"
            )

    @abstractmethod
    def decode(self, kernel: ScalarKernel, anchors: Outputs, W: Array) -> Array:
        """Outputs, (m, d)."""


class ClosedForm(Decoder):
    """With a linear output kernel the feature space is that of the outputs: y = h(x).

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Linear
    >>> from ovk.structured import ClosedForm
    >>> ClosedForm().decode(Linear(), np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[0.5, 0.5]]))
    array([[0.5, 1. ]])
    """

    def decode(self, kernel: ScalarKernel, anchors: Outputs, W: Array) -> Array:
        return np.asarray(W @ anchors)


class LabelThresholds(Decoder):
    """Label sets written as rows of 0 and 1, with a linear output kernel: label q is on where h_q(x) > threshold.

    At 1/2 this is the exact pre-image among all 2^d label sets, for |h - y|^2 falls apart into labels.

    Parameters
    ----------
    threshold : float or (d,) array

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Linear
    >>> from ovk.structured import LabelThresholds
    >>> LabelThresholds().decode(Linear(), np.eye(3), np.array([[0.9, 0.2, 0.6]]))
    array([[1, 0, 1]])
    """

    def __init__(self, threshold: float | Array = 0.5) -> None:
        self.threshold = threshold

    def decode(self, kernel: ScalarKernel, anchors: Outputs, W: Array) -> Array:
        threshold = np.asarray(self.threshold, dtype=np.float64)
        if threshold.ndim > 1 or not np.isfinite(threshold).all():
            raise ValueError(f"threshold must be a finite number or one for each label, got {self.threshold!r}")
        values = np.asarray(W @ anchors)
        if threshold.ndim == 1 and len(threshold) != values.shape[1]:
            raise ValueError(f"threshold has {len(threshold)} entries but there are {values.shape[1]} labels")
        return np.asarray(values > threshold, dtype=np.int64)


class GaussianPreimage(Decoder):
    """Vectors with a Gaussian output kernel: climb from the best anchor to a maximum of sum_j w_j k(z_j, y).

    The step is the mean-shift one, y <- sum_j w_j k_j z_j / sum_j w_j k_j, where it improves the score, and a gradient
    step that is halved until it does elsewhere; so the result is never worse than the best training output.

    Parameters
    ----------
    max_iter : int >= 1
    tol : float > 0
        Stop when no output moves by more than this part of the length scale.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.structured import GaussianPreimage
    >>> anchors = np.array([[0.0], [1.0]])
    >>> GaussianPreimage().decode(Gaussian(2.0), anchors, np.array([[0.5, 0.5]])).round(6)
    array([[0.5]])
    """

    for_kernel = Gaussian

    def __init__(self, max_iter: int = 200, tol: float = 1e-8) -> None:
        self.max_iter = max_iter
        self.tol = tol

    def decode(self, kernel: ScalarKernel, anchors: Outputs, W: Array) -> Array:
        assert isinstance(kernel, Gaussian)
        Z = np.asarray(anchors, dtype=np.float64)
        scale = np.broadcast_to(kernel.scale(Z.shape[1]), (Z.shape[1],))
        tol = positive(self.tol, "tol")
        best = (W @ kernel(Z)).argmax(axis=1)
        y, at = Z[best].copy(), np.arange(len(W))
        score = np.einsum("ij,ij->i", W, kernel(y, Z))
        step = np.ones(len(W))
        for _ in range(check_int(self.max_iter, "max_iter")):
            if not len(at):
                break
            weighted = W[at] * kernel(y[at], Z)
            total = weighted.sum(axis=1, keepdims=True)
            # In units of the length scale the gradient of the score is sum_j w_j k_j (z_j - y).
            gradient = weighted @ Z - total * y[at]
            shift = np.divide(gradient, total, out=gradient.copy(), where=total > 1e-12)
            trial = y[at] + step[at, None] * np.where(total > 1e-12, shift, gradient)
            value = np.einsum("ij,ij->i", W[at], kernel(trial, Z))
            better = value > score[at]
            moved = np.abs((trial - y[at]) / scale).max(axis=1)
            y[at[better]], score[at[better]] = trial[better], value[better]
            step[at] = np.where(better, 1.0, 0.5 * step[at])
            at = at[moved > tol]
        return np.asarray(y)


_NAMES: dict[str, type[Decoder]] = {
    "closed_form": ClosedForm,
    "labels": LabelThresholds,
    "gaussian": GaussianPreimage,
}


def as_decoder(decoder: Any, kernel: ScalarKernel) -> Decoder | None:
    """The decoder that a user asked for, None for a search among candidates."""
    if isinstance(decoder, str):
        if decoder == "candidates" or (decoder == "auto" and not isinstance(kernel, Linear)):
            return None
        if decoder != "auto" and decoder not in _NAMES:
            raise ValueError(
                f"decoder must be 'auto', 'candidates', one of {sorted(_NAMES)} or a decoder, got {decoder!r}"
            )
        decoder = ClosedForm() if decoder == "auto" else _NAMES[decoder]()
    if not isinstance(decoder, Decoder):
        raise ValueError(f"decoder must be a name or a decoder of ovk.structured, got {decoder!r}")
    decoder.check(kernel)
    return decoder
