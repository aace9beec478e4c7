"""What regressors into the feature space of an output kernel share: scores, pre-images, and how good they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import MultiOutputMixin, clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, Outputs, Parameters, Transactional, check_inputs, check_int, reads_snapshot
from ovk.kernels import Linear, ScalarKernel, as_kernel
from ovk.ovkernels import row_slices
from ovk.structured.outputs import (
    Candidates,
    as_outputs,
    check_lengths,
    checked_blocks,
    concatenate_outputs,
    count_outputs,
    distinct_outputs,
    select_outputs,
    squared_norms,
)
from ovk.structured.preimage import (
    SharedScores,
    as_decoder,
    nearest_generated,
    nearest_per_example,
    nearest_shared,
    scores_per_example,
)


class FeatureRegressor(MultiOutputMixin, Transactional, Parameters, ABC):
    """h(x) = sum_j w_j(x) phi(z_j): a combination of the features of anchor outputs z_j.

    To scikit-learn this is neither a regressor nor a classifier: outputs may be anything. A subclass learns the weights
    w_j and sets `output_kernel_`, `anchors_` (outputs) and `train_outputs_` (as given).
    """

    output_kernel: Any
    decoder: Any
    output_kernel_: ScalarKernel
    anchors_: Outputs
    train_outputs_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    @abstractmethod
    def _weights(self, X: Any) -> Array:
        """w_j(x), (m, anchors), for checked inputs."""

    def _check_inputs(self, X: Any, *, reset: bool) -> Any:
        return check_inputs(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)

    def _check_outputs(self, y: Any, X: Any) -> tuple[ScalarKernel, Outputs, Any]:
        """The output kernel, and the outputs in its form and as they came."""
        kernel: ScalarKernel = clone(Linear() if self.output_kernel is None else as_kernel(self.output_kernel))
        outputs = as_outputs(y, kernel, "y")
        check_lengths(X, outputs)
        kernel = kernel.resolve(outputs)
        as_decoder(self.decoder, kernel)
        # A kernel that knows no norms is refused now rather than in predict; one output is enough to see it.
        squared_norms(kernel, select_outputs(outputs, np.arange(min(count_outputs(outputs), 1))))
        if sparse.issparse(y):
            return kernel, outputs, sparse.csr_array(y)
        return kernel, outputs, (np.asarray(y) if hasattr(y, "__array__") else list(y))

    @reads_snapshot
    def weights(self, X: Any) -> Array:
        """The weights w_j(x) of the anchors' features in h(x), (m, anchors)."""
        check_is_fitted(self)
        return self._weights(self._check_inputs(X, reset=False))

    @property
    @reads_snapshot
    def candidates_(self) -> Any:
        """The distinct training outputs, in order of appearance: where predictions are looked for by default."""
        check_is_fitted(self)
        first, _ = distinct_outputs(as_outputs(self.train_outputs_, self.output_kernel_, "y"))
        return select_outputs(self.train_outputs_, first)

    @reads_snapshot
    def decision_function(self, X: Any, candidates: Any = None) -> Any:
        """Scores of candidates, <h(x), phi(y)> - k(y, y) / 2: largest where |h(x) - phi(y)|^2 is smallest.

        Parameters
        ----------
        X : (m, p)
        candidates : array or list of outputs, or `PerExample`; `candidates_` by default

        Returns
        -------
        (m, candidates), or for `PerExample` a list of arrays
        """
        check_is_fitted(self)
        X = self._check_inputs(X, reset=False)
        kernel = self.output_kernel_
        if isinstance(candidates, Candidates):
            if candidates.shared:
                raise ValueError(
                    "decision_function needs candidates that can be listed: pass a block of them at a time"
                )
            candidates.check(X.shape[0])
            blocks = [checked_blocks(candidates, kernel, row) for row in range(X.shape[0])]
            sets = [concatenate_outputs([outputs for _, outputs in some]) for some in blocks]
            return scores_per_example(kernel, self.anchors_, self._weights(X), sets)
        _, outputs = self._shared(candidates)
        scores = SharedScores(kernel, self.anchors_, outputs)
        parts = [scores(self._weights(X[rows])) for rows in self._row_chunks(X, count_outputs(outputs))]
        return np.concatenate(parts)

    @reads_snapshot
    def predict(self, X: Any, candidates: Any = None, return_top_k: int = 1) -> Any:
        """The outputs whose features are nearest to h(x).

        Parameters
        ----------
        X : (m, p)
        candidates : where to look
            None for the decoder or, where there is none, the training outputs; an array or a list of outputs for all
            inputs; `PerExample` for a list for each input; `Generated` for more than can be listed.
        return_top_k : int
            How many to return for each input, best first. Equal candidates count once; of equally near ones the first
            wins; where there are fewer, all are returned.

        Returns
        -------
        m outputs, in the form of the candidates; with return_top_k > 1 m collections of outputs
        """
        check_is_fitted(self)
        k = check_int(return_top_k, "return_top_k")
        X = self._check_inputs(X, reset=False)
        kernel, anchors = self.output_kernel_, self.anchors_
        decoder = as_decoder(self.decoder, kernel) if candidates is None else None
        if decoder is not None:
            if k > 1:
                raise ValueError("return_top_k > 1 needs candidates: the decoder finds the one best output")
            parts = [decoder.decode(kernel, anchors, self._weights(X[rows])) for rows in self._row_chunks(X, 1)]
            values = np.concatenate(parts)
            return values[:, 0] if np.ndim(self.train_outputs_) == 1 and values.shape[1] == 1 else values
        if isinstance(candidates, Candidates):
            candidates.check(X.shape[0])
            if candidates.shared:
                kept = nearest_generated(kernel, anchors, candidates, self._weights(X), k)
            else:
                kept = nearest_per_example(kernel, anchors, candidates, lambda r: self._weights(X[r]), X.shape[0], k)
            return _collected(kept, k)
        given, outputs = self._shared(candidates)
        weights: Iterator[Array] = (self._weights(X[rows]) for rows in self._row_chunks(X, count_outputs(outputs)))
        chosen = np.concatenate(list(nearest_shared(kernel, anchors, outputs, weights, k)))
        return select_outputs(given, chosen[:, 0] if k == 1 else chosen)

    def _shared(self, candidates: Any) -> tuple[Any, Outputs]:
        given = self.candidates_ if candidates is None else candidates
        outputs = as_outputs(given, self.output_kernel_, "candidates")
        if count_outputs(outputs) == 0:
            raise ValueError("candidates are empty: give at least one, or candidates=None for the training outputs")
        return given, outputs

    def _row_chunks(self, X: Any, width: int) -> Iterator[slice]:
        return row_slices(X.shape[0], max(width, count_outputs(self.anchors_)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination in the output feature space.

        1 - sum |phi(y_i) - phi(prediction_i)|^2 / sum |phi(y_i) - mean of phi(y)|^2: 1 when every prediction is right.
        """
        kernel = self.output_kernel_
        truth = as_outputs(y, kernel, "y")
        found = as_outputs(self.predict(X), kernel, "prediction")
        n = count_outputs(truth)
        if n != count_outputs(found):
            raise ValueError(f"X and y have inconsistent numbers of samples: [{count_outputs(found)}, {n}]")
        w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        w = w / w.sum()
        norms = squared_norms(kernel, truth)
        error = norms + squared_norms(kernel, found)
        spread = float(w @ norms)
        for rows in row_slices(n, 128, most=1 << 14):
            some = np.arange(rows.start, rows.stop)
            mine = select_outputs(truth, some)
            error[rows] -= 2.0 * np.diagonal(kernel(mine, select_outputs(found, some)))
            spread -= float(w[rows] @ kernel(mine, truth) @ w)
        missed = float(w @ error)
        if spread <= 1e-12 * float(w @ norms):
            # One class: there is nothing to explain.
            return 1.0 if missed <= 1e-12 * float(w @ norms) else 0.0
        return 1.0 - missed / spread


def _collected(kept: list[list[Any]], k: int) -> Any:
    """The results of candidates that differ between inputs; arrays where they were arrays."""
    vectors = all(isinstance(one, np.ndarray) for row in kept for one in row)
    if k == 1:
        first = [row[0] for row in kept]
        return np.array(first) if vectors else first
    return [np.array(row) for row in kept] if vectors else kept
