"""Regression into a feature space from a stream of rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from ovk._validation import Array, whole
from ovk.features import Given, Nystrom, Uniform
from ovk.kernels import ScalarKernel
from ovk.online import PKAWV
from ovk.operators import Identity
from ovk.structured.choices import (
    check_alphas,
    coordinates_for,
    dense,
    generator,
    landmarks_among,
    operator_on,
    split_kernel,
)
from ovk.structured.coordinates import Coordinates
from ovk.structured.decoders import as_decoder
from ovk.structured.outputs import Outputs, as_outputs, count, first_of_each, squared_norms
from ovk.structured.regressor import FeatureRegressor, pick


def _streams(model: Any) -> bool:
    """Whether `partial_fit` makes sense; scikit-learn takes a method that does not for absent."""
    if getattr(model, "stream_", model) is None:
        raise AttributeError("this model was fitted to a batch: partial_fit goes on from partial_fit alone")
    if np.ndim(model.alpha) > 0 or model.fit_intercept or model.alpha_graph or isinstance(model.operator, str):
        raise AttributeError(
            "partial_fit has no choice of alphas, no fit_intercept, no alpha_graph and no operator='covariance': leave "
            "them out"
        )
    return True


class StreamRegressor(FeatureRegressor):
    """Coordinates of outputs are learned by the second-order learner of vectors."""

    kernel: Any
    alpha: Any
    operator: Any
    fit_intercept: bool
    alpha_graph: float
    landmarks: Any
    output_landmarks: Any
    random_state: Any
    kernel_: ScalarKernel
    coordinates_: Coordinates
    stream_: PKAWV | None

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning from further rows, through the second-order learner of streams (`PKAWV`).

        Inputs are seen from `landmarks` (points, or the first so many rows; the first 100 by default), outputs from
        `output_landmarks` (outputs, or at most so many of those in the first rows; all of these by default; a linear
        output kernel needs none). Given the same points, rows in any pieces give the model that `fit` gives. There is
        no choice of alphas, no intercept and no graph penalty in a stream.

        Parameters
        ----------
        X : (n, p)
        y : n outputs
        """
        with self._all_or_nothing():
            if not hasattr(self, "output_kernel_"):
                self._begin(X, y)
            else:
                X = self._check_inputs(X, reset=False)
                outputs = as_outputs(y, self.output_kernel_, "y")
                self._learn(X, outputs, y)
        return self

    def _begin(self, X: Any, y: Any) -> None:
        X = self._check_inputs(X, reset=True)
        kernel, outputs, given = self._check_outputs(y, X)
        alphas = check_alphas(self.alpha)
        rng = generator(self.random_state)
        scalar, operator = split_kernel(self.kernel, self.operator)
        # Whatever comes later must have coordinates too, so that anchors are landmarks even where all are kept.
        coordinates = coordinates_for(kernel, outputs, self.output_landmarks, rng, orthonormal=True)
        T = operator_on(operator, coordinates, outputs) or Identity(count(coordinates.anchors))
        if self.landmarks is None or isinstance(self.landmarks, (int, np.integer)):
            selection: Any = Uniform(size=100 if self.landmarks is None else whole(self.landmarks, "landmarks"))
        else:
            selection = Given(landmarks_among(self.landmarks, X, rng))
        resolved = clone(scalar).resolve(X)
        self.stream_ = PKAWV(resolved * T, float(alphas[0]), Nystrom(selection), forecaster="ridge", random_state=0)
        self.kernel_, self.output_kernel_, self.coordinates_ = resolved, kernel, coordinates
        self.anchors_, self.alpha_ = coordinates.anchors, float(alphas[0])
        self.train_outputs_ = pick(given, np.arange(0))
        self._learn(X, outputs, y)

    def _learn(self, X: Any, outputs: Outputs, y: Any) -> None:
        if count(outputs) != X.shape[0]:
            raise ValueError(f"X and y have inconsistent numbers of samples: [{X.shape[0]}, {count(outputs)}]")
        targets = self.coordinates_.of(outputs)
        norms = squared_norms(self.output_kernel_, outputs)
        lost = np.flatnonzero((self.coordinates_.squared_norms(targets) < 1e-6 * norms) & (norms > 0))
        if len(lost):
            raise ValueError(
                f"output {lost[0]} has nothing in common with the output_landmarks, so it cannot be learned: give "
                "output_landmarks that cover what is to come"
            )
        assert self.stream_ is not None
        self.stream_.partial_fit(dense(X), targets)
        if as_decoder(self.decoder, self.output_kernel_) is None:
            # Where predictions are looked for among outputs that were seen, these are kept, each once.
            seen = _together(self.train_outputs_, y)
            self.train_outputs_ = pick(seen, first_of_each(as_outputs(seen, self.output_kernel_, "y")))

    def _stream_weights(self, stream: PKAWV, X: Any) -> Array:
        return self.coordinates_.to_anchors(stream.predict(dense(X)).reshape(X.shape[0], -1))


def _together(before: Any, y: Any) -> Any:
    """Outputs as they were given, in two parts."""
    if isinstance(before, np.ndarray):
        return np.concatenate([before, np.asarray(y)]) if len(before) else np.asarray(y)
    if sparse.issparse(before):
        return sparse.csr_array(sparse.vstack([before, sparse.csr_array(y)]))
    return [*before, *y]
