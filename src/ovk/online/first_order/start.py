"""How a first-order learner starts: with nothing, or with a function that is known already."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from ovk._diverged import refuse_overflow
from ovk.expansion import Expansion
from ovk.kernels import Gaussian
from ovk.losses import as_loss
from ovk.losses.thresholds import ThresholdLoss
from ovk.online.first_order.single_rows import SingleRows
from ovk.online.first_order.steps import Progress
from ovk.online.first_order.truncation import Window
from ovk.online.shared.row_buffer import SupportPoints
from ovk.online.shared.rows import Rows
from ovk.ovkernels import OperatorKernel, as_operator_kernel

#: Rows computed together, fewer where the kernel's values for a block would fill memory or most are out of the window.
BLOCK, BLOCK_NUMBERS, SMALLEST = 384, 1 << 22, 64


class FirstOrderStart(SingleRows, saved=False):
    """A first-order learner that makes its state from its parameters and the first rows."""

    fit_intercept: bool
    initial_norm_: float

    def _start(self, rows: Rows) -> None:
        kernel: OperatorKernel = clone(as_operator_kernel(Gaussian() if self.kernel is None else self.kernel))
        X, d = rows.X[rows.valid], rows.Y.shape[1]
        self.kernel_ = kernel.resolve(X, d)
        refuse_overflow(self, self.kernel_, X)
        self.single_output_ = rows.single
        self.t_ = 0
        self.cumulative_loss_ = self.cumulative_risk_ = 0.0
        self.truncation_error_ = 0.0
        self._rows = 0
        bound = self.kernel_.norm_bound()
        self.kappa2_ = 0.0 if bound is None else bound
        truncation = self._truncation()
        self.block_size_ = max(SMALLEST, min(BLOCK, int(truncation.s))) if isinstance(truncation, Window) else BLOCK
        if self.kernel_.gram(X[:1]).terms() is None:
            self.block_size_ = min(self.block_size_, max(16, int(BLOCK_NUMBERS**0.5) // d))
        loss = as_loss(self.loss)
        self.progress_ = Progress(threshold=loss.start() if isinstance(loss, ThresholdLoss) else 0.0)
        self.progress_.bias = np.zeros(d) if self.fit_intercept else None
        self.support_ = SupportPoints.empty(X.shape[1], d, 2 if self.average else 1)
        if self.init is not None:
            self._start_from(self.init, d)
        self.initial_norm_ = float(np.sqrt(self.progress_.norm2))
        self.progress_.reach = self.progress_.norm2
        if self.progress_.bias is not None:
            self.progress_.reach += float(self.progress_.bias @ self.progress_.bias)

    def _start_from(self, init: Any, d: int) -> None:
        f = init if isinstance(init, Expansion) else getattr(init, "expansion_", None)
        if not isinstance(f, Expansion):
            raise TypeError(f"init must be an Expansion or a fitted estimator with `expansion_`, got {init!r}")
        if f.offset is not None:
            if not self.fit_intercept:
                raise ValueError(
                    "init must be an expansion without an intercept: fit it with fit_intercept=False, or learn one here"
                )
            self.progress_.bias = np.array(f.offset, dtype=np.float64)
        C = f.C if isinstance(f.C, np.ndarray) else f.C.toarray()
        if C.shape[1] != d or f.support.shape[1] != self.support_.X.shape[1]:
            raise ValueError(
                f"init maps {f.support.shape[1]} features to {C.shape[1]} outputs, the data have "
                f"{self.support_.X.shape[1]} and {d}"
            )
        A = np.zeros((len(C), self.support_.A.shape[1], d))
        A[:, 0] = C
        self.support_.append(np.asarray(f.support), A, np.arange(1 - len(C), 1))
        X = self.support_.X
        self.progress_.norm2 = float(np.square(Expansion(self.kernel_, X, C).norm()))
        for start in range(0, len(X) if self.kernel_.norm_bound() is None else 0, self.block_size_):
            norms = self.kernel_.gram(X[start : start + self.block_size_]).block_norms()
            self.kappa2_ = max(self.kappa2_, float(norms.max()))
