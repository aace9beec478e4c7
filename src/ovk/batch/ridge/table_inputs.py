"""Inputs as tables have them: of any scale, with gaps and words."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ovk._bad_cells import refuse_odd_frames
from ovk._types import Array
from ovk.batch.ridge.frame_inputs import FrameColumns, is_frame
from ovk.batch.ridge.inputs import InputScaling
from ovk.batch.ridge.kernel_estimator import KernelEstimator
from ovk.targets import check_inputs


class TableInputs(KernelEstimator, saved=False):
    """Mixin: without a kernel inputs are read as tables; a kernel that is given sees them as they are."""

    _state_classes = {"columns_": FrameColumns}
    _defaults_for_old_files = {"columns_": None}

    standardize: bool
    missing_inputs: str
    columns_: FrameColumns | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._finds_kernel() and self.missing_inputs == "impute"
        return tags

    def _finds_kernel(self) -> bool:
        """No kernel is given."""
        return self.kernel is None

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        if not self._finds_kernel():
            if reset:
                self.columns_ = None
            return super()._check_inputs(X, reset=reset, stream=stream)
        if self.missing_inputs not in ("impute", "error"):
            raise ValueError(f"missing_inputs must be 'impute' or 'error', got {self.missing_inputs!r}")
        refuse_odd_frames(X, "X")
        frame = is_frame(X)
        if reset:
            self.columns_ = FrameColumns.learn(X) if frame else None
        if frame and self.columns_ is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            X = check_array(self.columns_(X), ensure_all_finite="allow-nan", input_name="X")
            self._refuse_gaps(X)
            return X
        finite = "allow-nan" if self.missing_inputs == "impute" and not sparse.issparse(X) else True
        return check_inputs(self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite=finite)

    def _refuse_gaps(self, X: Array) -> None:
        if self.missing_inputs == "error" and np.isnan(X).any():
            row, column = np.argwhere(np.isnan(X))[0]
            raise ValueError(
                f"X has a missing value at row {row}, column {column}: leave the row out, or give "
                "missing_inputs='impute'"
            )

    def _scaling(self, X: Any, weight: Array | None) -> InputScaling | None:
        """What makes inputs comparable and fills their gaps, learned from them; None where nothing is to be done."""
        if sparse.issparse(X) or not (self.standardize or np.isnan(X).any()):
            return None
        indicators = 0 if self.columns_ is None else self.columns_.indicators
        return InputScaling.learn(X, weight, scale=bool(self.standardize), indicators=indicators)
