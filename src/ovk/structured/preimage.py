"""Pre-images: the candidates whose features are nearest to a predicted point of the feature space.

A prediction is h = sum_j w_j phi(z_j) with anchors z_j (training outputs, or a few of them). The nearest candidate is

    argmin_y |h - phi(y)|^2  =  argmax_y <h, phi(y)> - k(y, y) / 2  =  argmax_y sum_j w_j k(z_j, y) - k(y, y) / 2.

The norm term may be dropped only if k(y, y) is constant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.base import Array, Indices, Outputs, Parameters, check_int, positive
from ovk.kernels import Gaussian, Linear, ScalarKernel
from ovk.ovkernels import row_slices
from ovk.structured.outputs import (
    Candidates,
    checked_blocks,
    concatenate_outputs,
    count_outputs,
    distinct_outputs,
    select_outputs,
    squared_norms,
)

#: Largest number of stored kernel values between anchors and candidates (512 MB).
MAX_KERNEL_VALUES = 1 << 26


def top_k(scores: Array, k: int) -> Indices:
    """Columns of the k largest scores of each row, best first; ties are won by the first column."""
    m, c = scores.shape
    k = min(k, c)
    if k == 1:
        return np.asarray(scores.argmax(axis=1)[:, None])
    bar = np.partition(scores, c - k, axis=1)[:, c - k, None]
    above, equal = scores > bar, scores == bar
    free = k - above.sum(axis=1, keepdims=True)
    chosen = np.nonzero(above | (equal & (np.cumsum(equal, axis=1) <= free)))[1].reshape(m, k)
    order = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


class SharedScores:
    def __init__(self, kernel: ScalarKernel, anchors: Outputs, candidates: Outputs) -> None:
        self._kernel, self._anchors, self._candidates = kernel, anchors, candidates
        self._half = 0.5 * squared_norms(kernel, candidates)
        kept = count_outputs(anchors) * len(self._half) <= MAX_KERNEL_VALUES
        self._all = kernel(anchors, candidates) if kept else None

    def __call__(self, W: Array) -> Array:
        """(m, candidates) scores of predictions with weights W (m, anchors)."""
        if self._all is not None:
            scores: Array = W @ self._all
            scores -= self._half
            return scores
        scores = np.empty((len(W), len(self._half)))
        for some in row_slices(len(self._half), count_outputs(self._anchors)):
            block = select_outputs(self._candidates, np.arange(some.start, some.stop))
            scores[:, some] = W @ self._kernel(self._anchors, block) - self._half[some]
        return scores

    def nearest(self, W: Array, k: int) -> Indices:
        return top_k(self(W), k)


def nearest_generated(kernel: ScalarKernel, anchors: Outputs, candidates: Candidates, W: Array, k: int) -> list[Any]:
    """The k nearest outputs of shared candidates in blocks: a list for each row of W."""
    best = np.empty((len(W), 0))
    kept: list[list[Any]] = [[] for _ in W]
    for given, outputs in checked_blocks(candidates, kernel, 0):
        first = distinct_outputs(outputs)[0]
        scores = SharedScores(kernel, anchors, select_outputs(outputs, first))(W)
        # The best so far precede the block, so that they win ties.
        pool = np.concatenate([best, scores], axis=1)
        chosen = top_k(pool, k)
        best, held = np.take_along_axis(pool, chosen, axis=1), best.shape[1]
        pairs = zip(kept, chosen, strict=True)
        kept = [[old[j] if j < held else given[int(first[j - held])] for j in row] for old, row in pairs]
    return kept


def scores_per_example(kernel: ScalarKernel, anchors: Outputs, W: Array, sets: list[Outputs]) -> list[Array]:
    """Scores of the candidates of each row; kernels are evaluated for many rows at a time."""
    result: list[Array] = []
    ends = np.concatenate([[0], np.cumsum([count_outputs(one) for one in sets])])
    start = 0
    while start < len(sets):
        # As many sets as the limit allows, at least one.
        limit = ends[start] + MAX_KERNEL_VALUES // max(W.shape[1], 1)
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")) - 1)
        together = concatenate_outputs(sets[start:stop])
        first, (back,) = distinct_outputs(together)
        distinct = select_outputs(together, first)
        values, half = kernel(anchors, distinct), 0.5 * squared_norms(kernel, distinct)
        for row, columns in enumerate(np.split(back, ends[start + 1 : stop] - ends[start]), start):
            result.append(W[row] @ values[:, columns] - half[columns])
        start = stop
    return result


def nearest_per_example(
    kernel: ScalarKernel, anchors: Outputs, candidates: Candidates, W: Callable[[slice], Array], n: int, k: int
) -> list[list[Any]]:
    """The k nearest distinct outputs among the candidates of each row."""
    result: list[list[Any]] = []
    for rows in row_slices(n, count_outputs(anchors)):
        weights = W(rows)
        given = [list(checked_blocks(candidates, kernel, row)) for row in range(rows.start, rows.stop)]
        sets = [concatenate_outputs([outputs for _, outputs in blocks]) for blocks in given]
        every = scores_per_example(kernel, anchors, weights, sets)
        for blocks, outputs, scores in zip(given, sets, every, strict=True):
            first = distinct_outputs(outputs)[0]
            chosen = first[top_k(scores[None, first], k)[0]]
            everything = [one for block, _ in blocks for one in block]
            result.append([everything[int(i)] for i in chosen])
    return result


class Decoder(Parameters, ABC, saved=False):
    """Finds pre-images of predictions h = sum_j w_j phi(z_j), with weights W (m, anchors), without candidates."""

    #: The required output kernel.
    for_kernel: type[ScalarKernel] = Linear

    def check(self, kernel: ScalarKernel) -> None:
        if not isinstance(kernel, self.for_kernel):
            wanted, found = self.for_kernel.__name__, type(kernel).__name__
            raise ValueError(f"{type(self).__name__} requires output_kernel={wanted}(), got {found}: use 'candidates'")

    @abstractmethod
    def decode(self, kernel: ScalarKernel, anchors: Outputs, W: Array) -> Array:
        """Outputs, (m, d)."""


class ClosedForm(Decoder, saved=False):
    """With a linear output kernel the feature space is that of the outputs: y = h(x)."""

    def decode(self, kernel: ScalarKernel, anchors: Outputs, W: Array) -> Array:
        return np.asarray(W @ anchors)


@dataclass(eq=False, repr=False)
class LabelThresholds(Decoder):
    """Pre-images of label sets as rows of 0 and 1, for a linear output kernel: label q is on if h_q(x) > threshold.

    At 1/2 this is the exact pre-image among all 2^d label sets, since |h - y|^2 is a sum over labels.

    Parameters
    ----------
    threshold : float or (d,) array
        One threshold for all labels, or one for each.

    See Also
    --------
    GaussianPreimage, Jaccard, IOKR

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Linear
    >>> from ovk.structured import LabelThresholds
    >>> LabelThresholds().decode(Linear(), np.eye(3), np.array([[0.9, 0.2, 0.6]]))
    array([[1, 0, 1]])
    """

    threshold: float | Array = 0.5

    def decode(self, kernel: ScalarKernel, anchors: Outputs, W: Array) -> Array:
        threshold = np.asarray(self.threshold, dtype=np.float64)
        if threshold.ndim > 1 or not np.isfinite(threshold).all():
            raise ValueError(f"threshold must be a finite number or vector, got {self.threshold!r}")
        values = np.asarray(W @ anchors)
        if threshold.ndim == 1 and len(threshold) != values.shape[1]:
            raise ValueError(f"threshold must have {values.shape[1]} entries, one for each label, got {len(threshold)}")
        return np.asarray(values > threshold, dtype=np.int64)


@dataclass(eq=False, repr=False)
class GaussianPreimage(Decoder):
    """Pre-images of vectors for a Gaussian output kernel: a local maximum of sum_j w_j k(z_j, y).

    The ascent starts at the best anchor. Its step is the mean-shift step, y <- sum_j w_j k_j z_j / sum_j w_j k_j, if
    that improves the score, else a gradient step that is halved until it does; so the result is never worse than the
    best training output.

    Parameters
    ----------
    max_iter : int >= 1
        Maximum number of steps.
    tol : float > 0
        Stop when no output moves by more than this fraction of the length scale.

    See Also
    --------
    LabelThresholds, IOKR

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

    max_iter: int = 200
    tol: float = 1e-8

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
            # The gradient of the score in units of the length scale: sum_j w_j k_j (z_j - y).
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


_NAMED: dict[str, type[Decoder]] = {"closed_form": ClosedForm, "labels": LabelThresholds, "gaussian": GaussianPreimage}


def as_decoder(decoder: Any, kernel: ScalarKernel) -> Decoder | None:
    """The decoder of that name, None for a search among candidates."""
    if isinstance(decoder, str):
        if decoder == "candidates" or (decoder == "auto" and not isinstance(kernel, Linear)):
            return None
        if decoder != "auto" and decoder not in _NAMED:
            allowed = ["auto", "candidates", *sorted(_NAMED)]
            raise ValueError(f"decoder must be one of {allowed} or a decoder, got {decoder!r}")
        decoder = ClosedForm() if decoder == "auto" else _NAMED[decoder]()
    if not isinstance(decoder, Decoder):
        raise ValueError(f"decoder must be a name or a decoder of ovk.structured, got {decoder!r}")
    decoder.check(kernel)
    return decoder
