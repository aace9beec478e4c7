"""Support vector machines that learn several tasks together."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin

from ovk._validation import Array, positive
from ovk.batch.labels import Labels, check_labels
from ovk.batch.regressor import informative, takes_gram
from ovk.batch.support_vectors import SupportVectorMachine
from ovk.batch.targets import check_targets
from ovk.metrics import r2_observed


class MultiTaskSVC(ClassifierMixin, MultiOutputMixin, SupportVectorMachine):
    """Support vector classification of several tasks at once, coupled by the operator of the kernel.

    Minimises  1/2 |f|^2 + C sum over the observed labels of max(0, 1 - y_it (f_t(x_i) + bias)). With the kernel
    K_st = (1/mu + delta_st) k this is the regularised multi-task learning of Evgeniou and Pontil, whose tasks
    w_t = w_0 + v_t have the penalty lambda_1 / T sum |v_t|^2 + lambda_2 |w_0|^2 when C = T / (2 lambda_1) and
    mu = T lambda_2 / lambda_1: ``k * LowRank(np.full((T, 1), mu**-0.5), diag=1.0)``.

    Labels y (n,) of several classes are tasks too, one class against the rest, and the operator says how the classes go
    together: ``k * GraphLaplacian(M, self_weight=...)`` for a matrix M of relations, ``k * Tree(...)`` for a hierarchy.

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for tasks treated apart; default ``Gaussian() * Identity()``
    C : float > 0
        Largest weight of one observation; with sample weights, C times the weight.
    bias : "none", "shared" or "task"
        A constant that is not penalised: none (theorem 2.1), one for all tasks (solved by scikit-learn's libsvm, which
        forms the whole kernel matrix), or one for each task.
    tol : float > 0
        The search stops when the duality gap is below this part of the objective (for a shared bias: libsvm's own
        rule).
    max_iter : int
        Block steps.

    Attributes
    ----------
    classes_ : the labels; of tasks, the two that they share
    support_ : rows of X with a coefficient that is not zero
    support_vectors_ : these rows
    dual_coef_ : (support vectors, tasks) coefficients y_it alpha_it; sparse in long form
    bias_ : (tasks,) or None
    dual_gap_, objective_ : duality gap and primal objective at the solution
    n_iter_ : block steps taken

    Examples
    --------
    Three tasks that share most of what there is to learn, with ten labels each.

    >>> import numpy as np
    >>> from ovk import MultiTaskSVC
    >>> from ovk.kernels import Linear
    >>> from ovk.operators import MixedEffect
    >>> rng = np.random.default_rng(0)
    >>> weights = np.ones((8, 1)) + 0.3 * rng.standard_normal((8, 3))
    >>> X, X_test = rng.standard_normal((30, 8)), rng.standard_normal((500, 8))
    >>> Y, Y_test = np.sign(X @ weights), np.sign(X_test @ weights)
    >>> task = np.arange(30) % 3
    >>> apart = MultiTaskSVC(Linear() * MixedEffect(0.0)).fit(X, Y[np.arange(30), task], task=task)
    >>> together = MultiTaskSVC(Linear() * MixedEffect(0.8)).fit(X, Y[np.arange(30), task], task=task)
    >>> bool(together.score(X_test, Y_test) > apart.score(X_test, Y_test) + 0.05)
    True
    """

    classes_: Labels

    def __init__(
        self,
        kernel: Any = None,
        C: float = 1.0,
        *,
        bias: str = "none",
        tol: float = 1e-6,
        max_iter: int = 20_000,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.bias = bias
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from inputs and labels.

        Parameters
        ----------
        X : (n, p)
        y : (n,) class labels; or (n, T), a column of two labels for each task, nan where not observed
        sample_weight : (n,), optional
        task : (n,) integers, optional
            Long form: row i is one observation, of task task_i, with label y_i.
        """
        with self._all_or_nothing():
            X = self._check_inputs(X, reset=True)
            outputs = self._default_kernel().output_dim
            targets, classes, rest = check_labels(y, X.shape[0], sample_weight, task, X, outputs)
            if not takes_gram(self.kernel):
                X, targets = informative(X, targets)
            self._learn(X, targets, None)
            self.classes_, self.one_against_the_rest_ = classes, rest
        return self

    def decision_function(self, X: Any, task: Any = None) -> Array:
        """Values of f: (n, tasks); (n,) for two classes, or for the task of each row when `task` (n,) is given."""
        values = self._values(X, task)
        return values[:, 0] if values.ndim == 2 and self.one_against_the_rest_ and values.shape[1] == 1 else values

    def predict(self, X: Any, task: Any = None) -> Labels:
        """Labels: (n,) of class labels, (n, tasks) of tasks; (n,) for the task of each row when `task` is given."""
        values = self.decision_function(X, task)
        if self.one_against_the_rest_ and values.ndim == 2:
            labels: Labels = self.classes_[values.argmax(axis=1)]
        else:
            labels = self.classes_[(values > 0).astype(int)]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """Share of right labels, over all that were observed."""
        labels = np.asarray(y)
        found = self.predict(X, task)
        if labels.shape != found.shape and labels.size == found.size:
            labels = labels.reshape(found.shape)
        if labels.shape != found.shape:
            raise ValueError(f"y must have the shape of the prediction, {found.shape}, got {labels.shape}")
        seen = np.ones(found.shape, dtype=bool)
        if labels.dtype.kind == "f":
            seen = ~np.isnan(labels)
        weight = np.ones(len(found)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        weights = seen * weight.reshape(-1, *[1] * (found.ndim - 1))
        return float((weights * (found == labels)).sum() / weights.sum())


class MultiTaskSVR(RegressorMixin, MultiOutputMixin, SupportVectorMachine):
    """Support vector regression of several tasks at once, coupled by the operator of the kernel.

    Minimises  1/2 |f|^2 + C sum over the observed outputs of max(0, |y_it - f_t(x_i) - bias| - epsilon).

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel for tasks treated apart; default ``Gaussian() * Identity()``
    C : float > 0
        Largest weight of one observation; with sample weights, C times the weight.
    epsilon : float >= 0
        Errors up to this size cost nothing.
    bias : "none", "shared" or "task"
        As in `MultiTaskSVC`.
    tol : float > 0
        The search stops when the duality gap is below this part of the objective (for a shared bias: libsvm's own
        rule).
    max_iter : int
        Block steps.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, bias_, dual_gap_, objective_, n_iter_ : as in `MultiTaskSVC`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import MultiTaskSVR
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> Y = np.hstack([np.sin(x), np.sin(x) + 0.2])
    >>> Y[3] = 20.0  # an outlier pulls no harder than any other point
    >>> model = MultiTaskSVR(Gaussian(1.0) * MixedEffect(0.5), C=5.0, epsilon=0.05).fit(x, Y)
    >>> bool(np.abs(model.predict(x[20:]) - Y[20:]).max() < 0.2)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        C: float = 1.0,
        epsilon: float = 0.1,
        *,
        bias: str = "none",
        tol: float = 1e-6,
        max_iter: int = 20_000,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.epsilon = epsilon
        self.bias = bias
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from inputs and outputs; the arguments are those of `OVKRidge.fit`."""
        with self._all_or_nothing():
            epsilon = positive(self.epsilon, "epsilon", zero=True)
            X = self._check_inputs(X, reset=True)
            targets = check_targets(y, X.shape[0], sample_weight, task, X, self._default_kernel().output_dim)
            if not takes_gram(self.kernel):
                X, targets = informative(X, targets)
            self._learn(X, targets, epsilon)
        return self

    def predict(self, X: Any, task: Any = None) -> Array:
        """Outputs: (n, tasks); (n,) if y was, or for the task of each row when `task` (n,) is given."""
        values = self._values(X, task)
        return values[:, 0] if values.ndim == 2 and self.single_output_ else values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2 over the observed outputs, averaged over outputs."""
        prediction = self.predict(X)
        prediction = prediction.reshape(len(prediction), -1)
        targets = check_targets(y, len(prediction), sample_weight, None, X, part=True)
        if targets.d != prediction.shape[1]:
            raise ValueError(f"y has {targets.d} outputs but the model was fitted with {prediction.shape[1]}")
        return r2_observed(targets.Y, prediction, targets.weight)
