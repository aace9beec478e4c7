"""Base class of the stream regressors, with the warm-up and the fast path for single rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from ovk.base import Array, NamedOutputs, Parameters, State, Transactional, check_choice, check_int, thread_for_row
from ovk.kernels import Stationary
from ovk.online.shared.rows import LearnedRows, Rows, Scale, checked_rows
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel

#: Default number of warm-up rows.
WARM_UP_ROWS = 200
#: A learner restarts after the warm-up rows divided by each of these.
RESTART_DIVISORS = (8, 4, 2, 1)
#: NumPy's own instance, compared by identity: a row with an equal instance takes the general path.
FLOAT = np.dtype(np.float64)


class FastPath:
    """Checks of a single row, once the general checks have passed.

    Checking parameters, types and shapes takes ten times as long as learning a row. The result does not change while
    the parameters are the same objects and X and y have the shapes `inputs` and `outputs`, so only the numbers are
    checked. Other rows take the general path, with the same result. `plan` is what the learner derives from its
    parameters.
    """

    __slots__ = ("_inputs", "_outputs", "_parameters", "plan")

    def __init__(self, model: Any, inputs: tuple[int, ...], outputs: tuple[int, ...], plan: Any) -> None:
        self.plan = plan
        self._parameters = list(model.get_params(deep=False).items())
        self._inputs, self._outputs = inputs, outputs

    def accepts(self, model: Any, X: Any) -> bool:
        """Whether X is one row of finite numbers and the parameters are those that were checked."""
        if type(X) is not np.ndarray or X.shape != self._inputs or X.dtype is not FLOAT:
            return False
        known = model.__dict__
        for name, value in self._parameters:
            if known[name] is not value:
                return False
        x = X[0]
        # Not finite for nan, infinity and numbers whose squares overflow.
        return isfinite(x.dot(x))

    def accepts_pair(self, model: Any, X: Any, y: Any) -> bool:
        if type(y) is not np.ndarray or y.shape != self._outputs or y.dtype is not FLOAT:
            return False
        flat = y.reshape(-1)
        return isfinite(flat.dot(flat)) and self.accepts(model, X)


@dataclass
class HeldRows(State):
    """The first rows of a warm-up of `size` rows.

    If the labels are equal in all of them, the warm-up starts again, with the last quarter of the rows. The first
    `equal` rows are those from before.
    """

    _state_classes = {"rows": LearnedRows}

    size: int
    rows: LearnedRows
    equal: int = 0

    def restarts(self) -> list[int]:
        return sorted({self.equal + max(1, self.size // share) for share in RESTART_DIVISORS})

    def all_equal(self) -> bool:
        return bool((self.rows.Y[:1] == self.rows.Y).all())

    def start_again(self) -> None:
        self.rows.drop(len(self.rows) - max(1, self.size // 4))
        self.equal = len(self.rows)

    def started(self) -> bool:
        return self.equal > 0 or len(self.rows) >= self.restarts()[0]

    def running_means(self, Y: Array) -> Array:
        """(n, d) mean of each output over the rows before each row of Y, 0 for the first row."""
        before, mean, count = self.rows.Y, np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
        found = np.empty((len(before) + len(Y), Y.shape[1]))
        for i, y in enumerate(np.vstack([before, Y])):
            found[i] = mean
            known = np.isfinite(y)
            count = count + known
            # A sum divided by a count would overflow for outputs of 1e300.
            mean = np.where(known, mean + (np.nan_to_num(y) - mean) / np.maximum(count, 1.0), mean)
        return found[len(before) :]


class StreamRegressor(NamedOutputs, MultiOutputMixin, RegressorMixin, Transactional, Parameters, ABC, saved=False):
    """A regressor that predicts each row before learning from it.

    The warm-up determines the units in which the learner works. After an eighth, a quarter, a half and all of its rows
    the learner restarts: these rows determine the centre and scale of inputs and outputs and the length scale, and are
    then learned in order. Chunk sizes therefore make no difference, and each row is predicted from the
    rows before it, in the first eighth by their mean. A learner may repeat the warm-up until labels differ.
    """

    single_output_: bool
    n_outputs_: int
    n_skipped_: int
    kernel_: OperatorKernel
    t_: int
    cumulative_loss_: float
    warm_up: int | None = 0
    on_invalid: str = "missing"
    #: Whether one pass over few rows fails scikit-learn's check of scores.
    _poor_score = False
    #: Whether the warm-up is repeated as long as all labels are equal.
    _repeats_warm_up = False
    #: Units in which the learner works, None for those of the user.
    input_units_: Scale | None = None
    output_units_: Scale | None = None
    held_: HeldRows | None = None
    _state_classes: ClassVar[Any] = {"input_units_": Scale, "output_units_": Scale, "held_": HeldRows}
    _stored = {"cumulative_loss_": "* inf"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = self._poor_score
        return tags

    def _check_parameters(self) -> None:
        check_choice(self.on_invalid, "on_invalid", ("raise", "skip"))
        self._warm_up_rows()

    @abstractmethod
    def _start(self, rows: Rows) -> None:
        """Create the initial state; all rows are valid."""

    @abstractmethod
    def _learn(self, rows: Rows) -> Array:
        """Predict each row before learning from it; all rows are valid."""

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False, unsupervised: bool = False) -> Rows:
        outputs, invalid = None if first else self.n_outputs_, self.on_invalid
        return checked_rows(self, X, y, outputs=outputs, on_invalid=invalid, whole=whole, unsupervised=unsupervised)

    def _check_weights_supported(self) -> None:
        """Raise an error if the learner does not support weights."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Discard what was learned and learn from the rows once, in order; novelty detection needs no y."""
        with self._transaction() as work:
            work._check_parameters()
            rows = work._checked(X, y, first=True, whole=True)
            work._learn_names(y, rows.Y.shape[1])
            work.n_skipped_ = 0
            work._start_or_warm_up(rows, int(rows.valid.sum()))
            work._learn_in_units(rows)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows; parameters as in `predict_then_learn`."""
        self.predict_then_learn(X, y, sample_weight)
        return self

    def predict_then_learn(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Predict each row before learning from it.

        Parameters
        ----------
        X : (n, p) inputs
        y : (n, d), or (n,) for one output; nan where an output was not observed
        sample_weight : (n,) >= 0, optional
            Factors of the losses. The prediction of a row does not depend on its own weight. A row of weight 0 is
            predicted and not learned, like a row without a label.

        Returns
        -------
        (n, d) predictions, (n,) if y was one-dimensional in the first call; nan in skipped rows. If y was a data frame
        in the first call, so are the predictions
        """
        if self._fast_path is None and type(X) is np.ndarray and X.shape[:1] == (1,):
            with thread_for_row():
                self._open_fast_path()
        if self._fast_path is not None and sample_weight is None and self._fast_path.accepts_pair(self, X, y):
            with thread_for_row():
                learned, z = self._learn_one(X, y.reshape(-1))
            self.__dict__ = learned.__dict__
            return z if self.single_output_ else z[None]
        return self._check_then_learn(X, y, sample_weight)

    def _check_then_learn(self, X: Any, y: Any, sample_weight: Any, last: Array | None = None) -> Array:
        """`predict_then_learn` by the general path; `last` as in `Rows`."""
        first = not hasattr(self, "single_output_")
        with self._transaction() as work:
            work._check_parameters()
            if not first:
                work._check_names(y)
            rows = work._checked(X, y, first=first)
            if sample_weight is not None:
                work._check_weights_supported()
                rows = rows.with_weights(sample_weight)
            if last is not None:
                rows = rows._replace(last=last.reshape(rows.Y.shape))
            if first:
                work._learn_names(y, rows.Y.shape[1])
            if first and not rows.valid.any():
                # Without a valid row the model stays new.
                work.n_skipped_ = getattr(work, "n_skipped_", 0) + len(rows.X)
                Z, single = np.full(rows.Y.shape, np.nan), rows.single
            else:
                with thread_for_row() if len(rows.X) == 1 else nullcontext():
                    if first:
                        work._start_or_warm_up(rows)
                    Z, single = work._learn_in_units(rows), work.single_output_
            # Inside the transaction: an interruption here undoes the update.
            shown: Array = Z[:, 0] if single else work._named(Z, X)
        return shown

    #: None if all rows take the general path; neither saved nor copied.
    _fast_path: FastPath | None = None

    def _row_plan(self) -> Any:
        """The plan of the fast path, None if `_learn_one` cannot learn the next row."""
        return None

    def _open_fast_path(self) -> None:
        named = self.output_frame_ is not None or "feature_names_in_" in vars(self)
        if self.held_ is not None or named or not hasattr(self, "single_output_"):
            return
        self._check_parameters()
        plan = self._row_plan()
        if plan is not None:
            outputs = (1,) if self.single_output_ else (1, self.n_outputs_)
            self._fast_path = FastPath(self, (1, self.n_features_in_), outputs, plan)

    def _learn_one(self, X: Array, y: Array) -> tuple[Self, Array]:
        """The learner after one more row, (1, p) and (d,) without nan, and the prediction of the row, (d,).

        This learner does not change: arrays are replaced, or written to beyond the end that it uses.
        """
        raise NotImplementedError

    def _row_in_units(self, X: Array, y: Array) -> tuple[Array, Array]:
        return (X, y) if self.output_units_ is None else (self._inputs(X), self.output_units_.outputs(y))

    def _default_warm_up(self) -> int:
        return WARM_UP_ROWS

    def _scales_outputs(self) -> bool:
        """Whether the warm-up also chooses the units of the outputs."""
        return True

    def _warm_up_rows(self) -> int:
        return self._default_warm_up() if self.warm_up is None else check_int(self.warm_up, "warm_up", least=0)

    def _start_or_warm_up(self, rows: Rows, most: int | None = None) -> None:
        """Start with the first rows, or with a warm-up of at most `most` rows."""
        size = self._warm_up_rows() if most is None else min(self._warm_up_rows(), most)
        self.input_units_ = self.output_units_ = self.held_ = None
        self.single_output_, self.n_outputs_ = rows.single, rows.Y.shape[1]
        self.n_skipped_ = getattr(self, "n_skipped_", 0)
        if size:
            self.held_ = HeldRows(size, LearnedRows.empty(rows.X.shape[1], rows.Y.shape[1]))
        else:
            labelled = np.flatnonzero(rows.valid & np.isfinite(rows.Y).any(axis=1))
            self._start(rows.take(labelled if len(labelled) else np.flatnonzero(rows.valid)))

    def _learn_in_units(self, rows: Rows) -> Array:
        """Predict each row, in the units of the user, before learning from it."""
        if self.held_ is None and rows.valid.all():
            return self._outputs_of_user(self._learn(self._rows_in_units(rows)))
        Z = np.full(rows.Y.shape, np.nan)
        valid, start = np.flatnonzero(rows.valid), 0
        while start < len(valid) and self.held_ is not None:
            held = self.held_
            # Rows without a label are predicted but not held.
            labelled = np.asarray(np.isfinite(rows.Y[valid[start:]]).any(axis=1))
            left = next(restart for restart in held.restarts() if restart > len(held.rows)) - len(held.rows)
            count = int(np.searchsorted(np.cumsum(labelled), left)) + 1
            some, labelled = valid[start : start + count], labelled[:count]
            chunk = rows.take(some)
            if held.started():
                Z[some] = self._outputs_of_user(self._learn(self._rows_in_units(chunk)))
            else:
                Z[some] = held.running_means(chunk.Y)
            weights = None if chunk.weights is None else chunk.weights[labelled]
            held.rows.append_weighted(weights, chunk.X[labelled], chunk.Y[labelled])
            start += len(some)
            now = labelled.any() and len(held.rows) in held.restarts()
            if now or (start == len(valid) and not held.started()):
                self._restart(chunk)
        if start < len(valid):
            Z[valid[start:]] = self._outputs_of_user(self._learn(self._rows_in_units(rows.take(valid[start:]))))
        self.n_skipped_ += len(rows.X) - len(valid)
        return Z

    def _restart(self, chunk: Rows) -> None:
        """Choose the units and learn the held rows; without any, the last rows determine the units."""
        held = self.held_
        assert held is not None
        if held.equal and held.all_equal():
            held.start_again()
            return
        X, Y, weights = held.rows.with_weights() if len(held.rows) else (chunk.X, chunk.Y, None)
        self._choose_units(X, Y)
        rows = self._rows_in_units(Rows(X, Y, np.full(len(X), True), self.single_output_, weights))
        learned = self.t_ if held.equal else None
        self._start(rows)
        self._learn(rows)
        if learned is not None:
            # Most of the equal rows are no longer held.
            self.t_ = learned
        if len(held.rows) >= held.restarts()[-1]:
            self.held_ = None
            if self._repeats_warm_up and held.all_equal():
                held.start_again()
                self.held_ = held

    def _choose_units(self, X: Array, Y: Array) -> None:
        self.input_units_ = Scale.from_rows(X)
        self.output_units_ = Scale.from_rows(Y) if self._scales_outputs() else Scale.identity(Y.shape[1])

    def _inputs(self, X: Array) -> Array:
        return X if self.input_units_ is None else self.input_units_.outputs(X)

    def _rows_in_units(self, rows: Rows) -> Rows:
        if self.output_units_ is None:
            return rows
        return rows._replace(X=self._inputs(rows.X), Y=self.output_units_.outputs(rows.Y))

    def _outputs_of_user(self, Z: Array) -> Array:
        return Z if self.output_units_ is None else self.output_units_.predictions(Z)

    def _widen(self, count: int) -> None:
        """Add inputs to the kernel, the units and the held rows."""
        p = self.n_features_in_
        try:
            self.kernel_.gram(np.zeros((1, p + count))).matmat(np.zeros((1, self.n_outputs_)))
        except ValueError as error:
            raise ValueError(
                f"{self.kernel_!r} is made for {p} features and cannot take {p + count}: let the first example name "
                "them all"
            ) from error
        self.n_features_in_: int = p + count
        if self.input_units_ is not None:
            new, old = Scale.identity(count), self.input_units_
            self.input_units_ = Scale(np.append(old.centre, new.centre), np.append(old.scale, new.scale))
        if self.held_ is not None:
            self.held_.rows.add_columns(count)


def add_features(model: Any, count: int) -> None:
    """Add features to a learner that has started; they were 0 in all rows so far."""
    if not hasattr(model, "_add_inputs"):
        raise TypeError(
            f"{type(model).__name__} does not support features that appear after its start: let the first example name "
            "them all"
        )
    with model._transaction() as work:
        work._add_inputs(count)


def learns_length_scale(kernel: object) -> bool:
    """Whether the warm-up learns the length scale: the kernel is None, or has the length scale "median"."""
    if kernel is None:
        return True
    full = as_operator_kernel(kernel)
    scalar = full.kernel if isinstance(full, Separable) else None
    return isinstance(scalar, Stationary) and isinstance(scalar.length_scale, str)
