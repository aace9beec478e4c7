"""What all estimators with an operator-valued kernel share: how kernel, inputs and outputs are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from ovk.base import FILL, NamedOutputs, Parameters, Targets, check_inputs, check_targets, drop_unobserved_rows
from ovk.batch.ridge.ridge_system import takes_gram
from ovk.kernels import Gaussian
from ovk.ovkernels import OperatorKernel, as_operator_kernel


class KernelTags:
    """Mixin: what scikit-learn is told of an estimator with an operator-valued kernel."""

    kernel: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = takes_gram(self.kernel)
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


class KernelEstimator(KernelTags, NamedOutputs, Parameters, saved=False):
    """An estimator with an operator-valued kernel: how its kernel, inputs and outputs are read."""

    _default_factories = {"kernel": Gaussian}
    #: What a message says about nan in inputs, and whether they are filled after the check.
    _cure_of_gaps = FILL
    _fills_gaps: bool = False

    def _default_kernel(self) -> OperatorKernel:
        return as_operator_kernel(Gaussian() if self.kernel is None else self.kernel)

    def _resolved(self, X: Any, d: int) -> OperatorKernel:
        kernel: OperatorKernel = self._own_copy(self._default_kernel(), d)
        return kernel.resolve(X, d)

    def _own_copy(self, part: Any, d: int) -> Any:
        """A copy of a kernel or operator: what is later done to the parameter must not change the fitted function."""
        return clone(part)

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        # float32 is kept where rows are taken in chunks: copying the whole of a large file would defeat the purpose.
        dtype = [np.float64, np.float32] if stream else np.float64
        finite = "allow-nan" if self._fills_gaps else True
        how: dict[str, Any] = {"accept_sparse": "csr", "dtype": dtype, "ensure_all_finite": finite}
        return check_inputs(self, X, reset=reset, cure=self._cure_of_gaps, **how)

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False
    ) -> tuple[Any, Targets]:
        """Checked inputs and outputs."""
        X = self._check_inputs(X, reset=True, stream=stream)
        targets = check_targets(y, X.shape[0], sample_weight, task, X, self._output_dim())
        self._learn_names(y, targets.d)
        return X, targets

    def _check(self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False) -> tuple[Any, Targets]:
        """Checked inputs and outputs, without the rows that teach nothing."""
        return self._informative(*self._check_rows(X, y, sample_weight, task, stream=stream))

    def _informative(self, X: Any, targets: Targets) -> tuple[Any, Targets]:
        # A kernel matrix given as X must stay square.
        return (X, targets) if takes_gram(self.kernel) else drop_unobserved_rows(X, targets)

    def _output_dim(self) -> int | None:
        """Number of outputs, where the kernel says it."""
        return self._default_kernel().output_dim

    def _checked_chunks(self, stream: Iterable[Any]) -> Iterator[tuple[Any, Targets]]:
        """Chunks of rows, each checked, and checked against the first."""
        first: Targets | None = None
        for number, chunk in enumerate(stream):
            if not isinstance(chunk, tuple) or len(chunk) not in (2, 3, 4):
                raise ValueError(
                    f"chunk {number} must be a tuple (X, Y), (X, Y, sample_weight) or (X, y, sample_weight, task), got "
                    f"{type(chunk).__name__}"
                )
            X = self._check_inputs(chunk[0], reset=first is None, stream=True)
            weight, task = (*chunk[2:], None, None)[:2]
            outputs = self._output_dim()
            if task is not None and outputs is None:
                raise ValueError(
                    "chunks in long form do not show how many tasks there are: give the operator its output_dim, as in "
                    "Gaussian() * MixedEffect(0.5, output_dim=500)"
                )
            targets = check_targets(chunk[1], X.shape[0], weight, task, X, outputs, part=True)
            if first is None:
                self._learn_names(chunk[1], targets.d)
            elif targets.d != first.d:
                raise ValueError(f"chunk {number} has {targets.d} outputs but the first one had {first.d}")
            else:
                self._check_names(chunk[1])
            first = first or targets
            yield X, targets


def is_stream(X: Any) -> bool:
    """Whether X is an iterator of chunks and no table."""
    return isinstance(X, Iterable) and not (
        hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, (list, tuple, str))
    )
