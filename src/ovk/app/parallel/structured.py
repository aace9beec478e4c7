"""Learning structured outputs from parts: `IOKR` on sketches of inputs and outputs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ovk.app.parallel.learners import ROWS_PER_LANDMARK, PartwiseLearner, RidgeLearner, RidgeParts, learner_for, stacked
from ovk.app.parallel.parts import Part
from ovk.base import Array
from ovk.batch import OVKRidge, as_generator
from ovk.operators import Identity
from ovk.structured import (
    IOKR,
    as_decoder,
    as_outputs,
    check_alphas,
    check_lengths,
    concatenate_outputs,
    coordinates_for,
    count_outputs,
    distinct_outputs,
    landmarks_among,
    operator_on,
    select_outputs,
    split_kernel,
)


class SketchParts(NamedTuple):
    """What parts teach: the sums of a ridge, and the distinct outputs, where predictions are looked for among them."""

    ridge: RidgeParts
    outputs: Any


class CoordinatePart(Part):
    """A part with the coordinates of its outputs in their place."""

    def __init__(self, part: Part, learner: SketchLearner) -> None:
        self.part, self.learner, self.label, self.outputs = part, learner, part.label, learner.none

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        learner = self.learner
        for chunk in self.part.chunks():
            if len(chunk) > 2 and any(one is not None for one in chunk[2:]):
                raise ValueError("IOKR takes neither weights nor tasks: give chunks (X, y)")
            X, y = chunk[:2]
            outputs = as_outputs(y, learner.output_kernel, "y")
            check_lengths(X, outputs)
            if learner.keeps_outputs:
                self.outputs = learner.distinct([self.outputs, y])
            yield X, learner.coordinates.transform(outputs)


class SketchLearner(PartwiseLearner):
    """`IOKR` with landmarks, and with output_landmarks unless its output kernel is linear."""

    def __init__(self, estimator: IOKR, seed: int) -> None:
        if estimator.landmarks is None:
            raise ValueError("IOKR learns from parts only with landmarks: give landmarks=m (and output_landmarks=r)")
        if estimator.alpha_graph:
            raise ValueError("alpha_graph needs all inputs at once: leave it out to learn from parts")
        if isinstance(estimator.operator, str):
            raise ValueError("operator='covariance' needs all outputs at once: leave it out to learn from parts")
        self.model: IOKR = clone(estimator)
        self._rng = as_generator(seed if estimator.random_state is None else estimator.random_state)
        sizes = [one for one in (estimator.landmarks, estimator.output_landmarks) if isinstance(one, (int, np.integer))]
        self.sample_rows = ROWS_PER_LANDMARK * max(map(int, sizes), default=10)

    def start(self, sample: list[tuple[Any, ...]]) -> None:
        model = self.model
        X = model._check_inputs(stacked([np.asarray(chunk[0]) for chunk in sample]), reset=True)
        given = concatenate_outputs([chunk[1] for chunk in sample])
        self.output_kernel, outputs, given = model._check_outputs(given, X)
        scalar, operator = split_kernel(model.kernel, model.operator)
        # Outputs that the sample does not have need coordinates too.
        self.coordinates = coordinates_for(
            self.output_kernel, outputs, model.output_landmarks, self._rng, orthonormal=True
        )
        self.operator = operator_on(operator, self.coordinates, outputs)
        self.keeps_outputs = as_decoder(model.decoder, self.output_kernel) is None
        #: No outputs, in the form of those that there are.
        self.none = select_outputs(given, np.arange(0))
        points = landmarks_among(model.landmarks, X, self._rng, scalar)
        self.kernel = clone(scalar).resolve(points)
        T = self.operator or Identity(count_outputs(self.coordinates.anchors))
        alphas = check_alphas(model.alpha)
        ridge = OVKRidge(self.kernel * T, float(alphas[0]), fit_intercept=model.fit_intercept, landmarks=points)
        self.ridge = RidgeLearner(ridge, 0, alphas)
        self.ridge.start([(X[:2], self.coordinates.transform(select_outputs(outputs, np.arange(2))))])

    def distinct(self, collections: list[Any]) -> Any:
        """The distinct outputs of several collections, in their order."""
        seen = concatenate_outputs(collections)
        return select_outputs(seen, distinct_outputs(as_outputs(seen, self.output_kernel, "y"))[0])

    def learn(self, part: Part) -> SketchParts:
        coded = CoordinatePart(part, self)
        learned = self.ridge.learn(coded)
        return SketchParts(learned, coded.outputs)

    def merge(self, one: SketchParts, two: SketchParts) -> SketchParts:
        outputs = self.distinct([one.outputs, two.outputs]) if self.keeps_outputs else self.none
        return SketchParts(one.ridge + two.ridge, outputs)

    def alphas(self) -> Array | None:
        return self.ridge.alphas()

    def left_out(self, part: Part, total: SketchParts) -> Array:
        # The coordinates are orthonormal: squared distances of them are those in the feature space.
        found = self.ridge.left_out(CoordinatePart(part, self), total.ridge)
        return np.asarray(found / np.array([[1.0], [count_outputs(self.coordinates.anchors)]]))

    def finish(self, total: SketchParts, alpha: Any) -> IOKR:
        model: IOKR = copy.copy(self.model)
        ridge = self.ridge.finish(total.ridge, alpha)
        model.alpha_, model.loo_errors_ = float(ridge.alpha_), None
        model.coordinates_, model.operator_, model.X_fit_ = self.coordinates, self.operator, ridge.X_fit_
        model.kernel_, model.output_kernel_, model.stream_ = self.kernel, self.output_kernel, None
        model.anchors_, model.train_outputs_ = self.coordinates.anchors, total.outputs
        assert ridge.landmarks_ is not None
        model._solve_sums(ridge.landmarks_)
        return model


@learner_for.register
def _(estimator: IOKR, seed: int, *, alphas: Any = None, classes: Any = None) -> PartwiseLearner:
    if alphas is not None:
        raise ValueError("IOKR has the alphas to choose from as its own parameter: IOKR(alpha=[...])")
    return SketchLearner(estimator, seed)
