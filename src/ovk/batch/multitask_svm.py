"""Support vector machines for several coupled tasks.

Labels y (n,) of K classes are K tasks, one class against the rest (two classes are one task, unless the kernel has two
outputs). A column of Y (n, T) is a task with two labels, nan where missing; in long form row i is an observation of
task task_i.
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ovk.base import (
    Array,
    Indices,
    Labels,
    Mask,
    NamedOutputs,
    Parameters,
    Targets,
    check_choice,
    check_inputs,
    check_int,
    check_no_missing_labels,
    check_not_masked,
    check_targets,
    check_tasks,
    masked_as_nan,
    missing_labels,
    positive,
    share_of_right_labels,
)
from ovk.batch.ridge.ridge import default_kernel, informative_rows, kernel_tags, score_observed
from ovk.batch.ridge.ridge_system import PairSystem, same_inputs, takes_gram
from ovk.kernels import Gaussian
from ovk.objectives import Calibration, two_sided
from ovk.ovkernels import Expansion, OperatorKernel
from ovk.solvers import BoxDual, DualInfo, dual_coordinate, dual_with_biases

#: Largest number of groups between their bounds for which spans are computed.
MAX_SPAN_GROUPS = 3000
#: A coefficient closer to its bound than this fraction of its range counts as at the bound.
BOUND_TOL = 1e-6


@dataclass(eq=False, repr=False)
class SupportVectorMachine(NamedOutputs, Parameters, saved=False):
    """Box-constrained dual on the observed pairs of a point and a task; for its parameters see `MultiTaskSVC`."""

    _stored = {
        "support_vectors_": "s * any | other",
        "dual_coef_": "s * | other",
        "support_": "s int",
        "calibration_": "2",
        "kernel_": OperatorKernel,
        "dual_gap_": "* inf",
    }

    _default_factories = {"kernel": Gaussian}

    kernel: Any = None
    C: float = 1.0
    _: KW_ONLY
    bias: str = "none"
    tol: float = 1e-6
    max_iter: int = 20_000

    def __sklearn_tags__(self) -> Any:
        return kernel_tags(super().__sklearn_tags__(), self.kernel)

    def _check_inputs(self, X: Any, *, reset: bool) -> Any:
        return check_inputs(self, X, reset=reset, accept_sparse="csr", dtype=np.float64)

    def _learn(self, X: Any, targets: Targets, epsilon: float | None) -> tuple[BoxDual, Array, Array]:
        """Solve the dual, for the hinge loss if `epsilon` is None, else for the epsilon-insensitive loss, and store f.

        Returns the dual, its solution and the values of f at the pairs, with biases.
        """
        C, tol = positive(self.C, "C"), positive(self.tol, "tol")
        check_choice(self.bias, "bias", ("none", "shared", "task"))
        kernel = clone(default_kernel(self.kernel)).resolve(X, targets.d)
        observed = targets.pairs()
        task, y, box = observed.outputs, observed.values, C * observed.weights
        lower, upper = (np.minimum(0.0, box * y), np.maximum(0.0, box * y)) if epsilon is None else (-box, box)
        # The gram without sample weights: these enter the box instead.
        gram = PairSystem(kernel, X, replace(targets, weight=None), 1.0).gram
        dual = BoxDual(gram, y, lower, upper, epsilon or 0.0)
        limit = check_int(self.max_iter, "max_iter")
        if self.bias == "task":
            b, biases, info = dual_with_biases(dual, task, tol=tol, max_iter=limit)
            biases = np.concatenate([biases, np.zeros(targets.d - len(biases))])
        elif self.bias == "shared":
            b, biases, info = _shared_bias(dual, box, hinge=epsilon is None, tol=tol, d=targets.d)
        else:
            b, info = dual_coordinate(dual, tol=tol, max_iter=limit)
            biases = None
        if not info.converged:
            warnings.warn(
                f"{type(self).__name__} did not reach tol={tol:g} within {info.iterations} block steps, relative "
                f"duality gap {info.gap / max(info.primal, 1e-300):.1e}: increase max_iter or tol, lower C, or scale "
                "the inputs",
                ConvergenceWarning,
                stacklevel=4,
            )
        support = np.unique(observed.points[b != 0])
        if takes_gram(kernel) or len(support) == 0:
            # Columns of a precomputed kernel matrix keep their positions; a zero function needs a support point.
            support = np.arange(X.shape[0]) if takes_gram(kernel) else np.zeros(1, dtype=np.intp)
        full = sparse.csr_array((b, (observed.points, observed.outputs)), shape=observed.shape)[support]
        self.kernel_: OperatorKernel = kernel
        self.support_ = support
        self.support_vectors_ = X[support]
        self.dual_coef_ = full if targets.task is not None else full.toarray()
        self.bias_ = biases
        self.dual_gap_, self.objective_, self.n_iter_ = info.gap, info.primal, info.iterations
        self.n_outputs_ = targets.d
        self.single_output_ = targets.single
        values = gram.matmat(b[:, None])[:, 0]
        return dual, b, values if biases is None else values + biases[task]

    @property
    def expansion_(self) -> Expansion:
        """The fitted functions of all tasks, f(x) = sum_i K(x, x_i) c_i + bias."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.support_vectors_, self.dual_coef_, self.bias_)

    def _values(self, X: Any, task: Any) -> Array:
        """(n, d), or (n,) for the task of each row."""
        values = self.expansion_(self._check_inputs(X, reset=False))
        if task is None:
            return values
        return np.asarray(values[np.arange(len(values)), check_tasks(task, len(values), values.shape[1])])


def _shared_bias(dual: BoxDual, box: Array, *, hinge: bool, tol: float, d: int) -> tuple[Array, Array, DualInfo]:
    """libsvm on the kernel of the pairs."""
    K = dual.matrix(np.arange(len(dual.q)))
    if hinge:
        if len(np.unique(dual.q)) < 2:
            raise ValueError("bias='shared' requires both classes, got one class: use bias='none'")
        machine = SVC(C=1.0, kernel="precomputed", tol=tol, cache_size=500)
    else:
        machine = SVR(C=1.0, kernel="precomputed", tol=tol, epsilon=dual.epsilon, cache_size=500)
    machine.fit(K, dual.q, sample_weight=box)
    b = np.zeros(len(dual.q))
    b[machine.support_] = machine.dual_coef_[0]
    bias = float(machine.intercept_[0])
    values = K @ b
    info = dual.info(b, dual.q - values - bias, values, int(np.sum(machine.n_iter_)), np.inf)
    return b, np.full(d, bias), info


def leave_one_out_values(dual: BoxDual, b: Array, values: Array, groups: Indices | None = None) -> Array:
    """(N,) values of f at each pair when its group is left out, by the span rule: f_-g = f_g - b_g S_g^2.

    Pairs of a group, numbered by `groups` (N,), have the same inputs and the same task; by default each pair is a
    group. A group has one row of K, and b_g is the sum of its coefficients, which is all that is determined: a pair of
    weight 2 and a repeated pair give the same values.

    The hinge losses of a group have kinks at f = 1 and f = -1, between which b_g is one of lower_g, lower_g + upper_g
    and upper_g (sums of the bounds). For the other groups, F, f is at a kink. S_g^2 is 1 / (K_FF^-1)_gg for g in F, and
    K_gg - K_gF K_FF^-1 K_Fg otherwise: exact if leaving g out moves no other group to or from a kink. A group with
    b_g = 0 changes nothing. Biases are kept fixed.
    """
    _, first, of_pair = np.unique(
        np.arange(len(b)) if groups is None else groups, return_index=True, return_inverse=True
    )
    total, lower, upper = (np.bincount(of_pair, weights=part) for part in (b, dual.lower, dual.upper))
    distance = np.min([np.abs(total - at) for at in (lower, lower + upper, upper)], axis=0)
    at_kink = distance > BOUND_TOL * (upper - lower)
    free, rest = np.flatnonzero(at_kink), np.flatnonzero(~at_kink & (total != 0))
    spans = dual.gram.diagonal_blocks().reshape(-1)[first]
    # Otherwise the bound K_gg is used, which gives conservative values.
    if 0 < len(free) <= MAX_SPAN_GROUPS:
        K = dual.matrix(first[free])
        K[np.diag_indices_from(K)] += 1e-10 * float(np.diagonal(K).mean())
        factor = cho_factor(K, lower=True)
        spans[free] = 1.0 / np.diagonal(cho_solve(factor, np.eye(len(free))))
        cross = dual.matrix(first[free], first[rest])
        spans[rest] -= np.einsum("ij,ij->j", cross, cho_solve(factor, cross))
    return values - (total * np.maximum(spans, 0.0))[of_pair]


#: Significant bits of decision values, about 12 digits.
DECISION_BITS = 40


class MultiTaskSVC(ClassifierMixin, MultiOutputMixin, SupportVectorMachine):
    """Support vector classification of several tasks, coupled by the operator of the kernel.

    Minimises  1/2 |f|^2 + C sum over the observed labels of max(0, 1 - y_it (f_t(x_i) + bias)). With the kernel
    K_st = (1/mu + delta_st) k this is the regularised multi-task learning of Evgeniou and Pontil, whose tasks
    w_t = w_0 + v_t have the penalty lambda_1 / T sum |v_t|^2 + lambda_2 |w_0|^2 when C = T / (2 lambda_1) and
    mu = T lambda_2 / lambda_1: ``k * LowRank(np.full((T, 1), mu**-0.5), diag=1.0)``.

    Labels y (n,) of several classes are tasks too, one class against the rest, and the operator couples the classes:
    ``k * GraphLaplacian(M, self_weight=...)`` for a matrix M of relations, ``k * Tree(...)`` for a hierarchy.

    Several classes within several tasks (diagnoses in hospitals) have a function for each task t and class c, the
    output t K + c of K classes, each class against the rest of its task. An operator on tasks and one on classes couple
    them as ``k * TensorProduct([MixedEffect(0.8, T), MixedEffect(0.1, K)])``.

    Parameters
    ----------
    kernel : operator-valued kernel or scalar kernel, optional
        A scalar kernel learns the tasks independently. Default ``Gaussian() * Identity()``.
    C : float > 0
        Upper bound on the coefficient of an observation, multiplied by its sample weight.
    bias : "none", "shared" or "task"
        An unpenalised constant: none (theorem 2.1), one for all tasks (solved by scikit-learn's libsvm, which computes
        the whole kernel matrix), or one for each task.
    tol : float > 0
        Stop when the duality gap is below this fraction of the objective (for a shared bias: libsvm's rule).
    max_iter : int
        Maximum number of block steps.

    Attributes
    ----------
    classes_ : the labels; with several tasks, those of all tasks
    classes_in_tasks_ : whether there are several classes within several tasks
    support_ : indices of the support vectors
    support_vectors_ : rows of X with a non-zero coefficient
    dual_coef_ : (support vectors, tasks) coefficients y_it alpha_it; sparse in long form
    bias_ : (tasks,) or None
    dual_gap_, objective_ : duality gap and primal objective at the solution
    n_iter_ : number of block steps

    See Also
    --------
    MultiTaskSVR, OVKClassifier, MovKLClassifier

    Examples
    --------
    Three related tasks with ten labels each.

    >>> import numpy as np
    >>> from ovk import MultiTaskSVC
    >>> from ovk.kernels import Linear
    >>> from ovk.operators import MixedEffect
    >>> rng = np.random.default_rng(0)
    >>> weights = np.ones((8, 1)) + 0.3 * rng.standard_normal((8, 3))
    >>> X, X_test = rng.standard_normal((30, 8)), rng.standard_normal((500, 8))
    >>> Y, Y_test = np.sign(X @ weights), np.sign(X_test @ weights)
    >>> task = np.arange(30) % 3
    >>> for omega in (0.0, 0.8):
    ...     model = MultiTaskSVC(Linear() * MixedEffect(omega)).fit(X, Y[np.arange(30), task], task=task)
    ...     print(f"omega={omega}: accuracy {model.score(X_test, Y_test):.2f}")
    omega=0.0: accuracy 0.80
    omega=0.8: accuracy 0.87
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from inputs and class labels (n,), or a column of labels for each task, (n, T), nan where missing.

        The other arguments are those of `OVKRidge.fit`.
        """
        with self._fitting(X, y):
            X = self._check_inputs(X, reset=True)
            outputs = default_kernel(self.kernel).output_dim
            targets, classes, rest = check_labels(y, X.shape[0], sample_weight, task, X, outputs)
            X, targets = informative_rows(self.kernel, X, targets)
            dual, b, values = self._learn(X, targets, None)
            self.classes_, self.one_against_the_rest_ = classes, rest
            self.classes_in_tasks_ = not rest and len(classes) > 2
            self._learn_names(y, 0 if rest else targets.d // (len(classes) if self.classes_in_tasks_ else 1))
            # Pairs with the same inputs and task are left out together: a copy would reveal the label.
            pairs = targets.pairs(same_inputs(X))
            left_out = leave_one_out_values(dual, b, values, pairs.groups * targets.d + pairs.outputs)
            found = Calibration.from_signs(left_out, dual.q, pairs.weights, per_class=self._per_class())
            self.calibration_ = np.array([found.slope, found.offset])
        return self

    def decision_function(self, X: Any, task: Any = None) -> Array:
        """Values of f: (n, tasks); (n,) for two classes, or for the task of each row if `task` (n,) is given.

        With several classes within tasks: (n, tasks, classes), or (n, classes) for the task of each row. Rounded to 12
        digits, so that rows on the margin, where f is 1 or -1, have equal values.
        """
        check_is_fitted(self)
        if self.classes_in_tasks_:
            values = _round_decisions(self._values(X, None))
            values = values.reshape(len(values), -1, len(self.classes_))
            return values if task is None else values[np.arange(len(values)), check_tasks(task, *values.shape[:2])]
        values = _round_decisions(self._values(X, task))
        return values[:, 0] if values.ndim == 2 and self.one_against_the_rest_ and values.shape[1] == 1 else values

    def _per_class(self) -> bool:
        """Whether outputs are class scores, of which the largest is predicted, rather than signs of two labels."""
        return self.classes_in_tasks_ or (self.one_against_the_rest_ and self.n_outputs_ > 1)

    def predict_proba(self, X: Any, task: Any = None) -> Array:
        """Probabilities (n, K) of class labels; with several tasks, those of the second label, (n, tasks).

        (n, 2) for the task of each row if `task` (n,) is given; with several classes within tasks (n, tasks, classes)
        or (n, classes). Calibrated on leave-one-out values of f, which follow from the span rule (Vapnik and Chapelle
        2000): see `ovk.objectives.calibration`.
        """
        values = self.decision_function(X, task)
        calibration = Calibration(*map(float, self.calibration_))
        if self._per_class() and values.ndim > 1:
            return calibration.probabilities(values.reshape(-1, values.shape[-1])).reshape(values.shape)
        found = calibration.probabilities(two_sided(values.ravel()))
        return found if values.ndim == 1 else found[:, 1].reshape(values.shape)

    def predict(self, X: Any, task: Any = None) -> Labels:
        """Labels: (n,) of classes, (n, tasks) of tasks; (n,) for the task of each row if `task` is given."""
        values = self.decision_function(X, task)
        several = self._per_class() and values.ndim > 1
        return self._named(self.classes_[values.argmax(axis=-1) if several else (values > 0).astype(int)], X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """Accuracy over all observed labels."""
        return share_of_right_labels(self.predict(X, task), y, sample_weight)


@dataclass(eq=False, repr=False)
class MultiTaskSVR(MultiOutputMixin, RegressorMixin, SupportVectorMachine):
    """Support vector regression of several tasks, coupled by the operator of the kernel.

    Minimises  1/2 |f|^2 + C sum over the observed outputs of max(0, |y_it - f_t(x_i) - bias| - epsilon).

    Parameters
    ----------
    kernel, C
        As in `MultiTaskSVC`.
    epsilon : float >= 0
        Errors up to this size have no cost.
    bias, tol, max_iter
        As in `MultiTaskSVC`.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, bias_, dual_gap_, objective_, n_iter_ : as in `MultiTaskSVC`

    See Also
    --------
    MultiTaskSVC, OVKRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import MultiTaskSVR
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> Y = np.hstack([np.sin(x), np.sin(x) + 0.2])
    >>> Y[3] = 20.0  # the influence of this outlier is bounded
    >>> model = MultiTaskSVR(Gaussian(1.0) * MixedEffect(0.5), C=5.0, epsilon=0.05).fit(x, Y)
    >>> print(f"largest error {np.abs(model.predict(x[20:]) - Y[20:]).max():.2f}")
    largest error 0.05
    """

    epsilon: float = 0.1

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from inputs and outputs; the arguments are those of `OVKRidge.fit`."""
        with self._fitting(X, y):
            epsilon = positive(self.epsilon, "epsilon", zero=True)
            X = self._check_inputs(X, reset=True)
            targets = check_targets(y, X.shape[0], sample_weight, task, X, default_kernel(self.kernel).output_dim)
            self._learn_names(y, targets.d)
            self._learn(*informative_rows(self.kernel, X, targets), epsilon)
        return self

    def predict(self, X: Any, task: Any = None) -> Array:
        """Outputs: (n, tasks); (n,) if y was, or for the task of each row if `task` (n,) is given."""
        values = self._values(X, task)
        return values[:, 0] if values.ndim == 2 and self.single_output_ else self._named(values, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """R^2 over the observed outputs, averaged over outputs; in long form, of all observations together."""
        return score_observed(self, X, y, sample_weight, task)


def check_labels(
    y: Any, n: int, sample_weight: Any, task: Any, X: Any, outputs: int | None
) -> tuple[Targets, Labels, bool]:
    """Targets, classes in order, and whether each task is one class against the rest."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass a label for each row")
    options: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan", "ensure_min_samples": 0}
    labels = check_array(masked_as_nan(y, "y"), input_name="y", ensure_2d=False, **options)
    if len(labels) != n:
        check_consistent_length(X, labels)
    rest = task is None and (labels.ndim == 1 or labels.shape[1] == 1)
    if rest:
        check_not_masked(y, "y", "every row needs a label")
        labels = column_or_1d(labels)
        check_no_missing_labels(labels)
        check_classification_targets(labels)
    elif task is None and labels.dtype.kind not in "biuf":
        raise ValueError(f"y must contain numbers (nan where missing) with several tasks, got dtype {labels.dtype}")
    seen = ~missing_labels(labels)
    classes = np.unique(labels[seen])
    if len(classes) < 2 and rest:
        raise ValueError(f"y must contain at least 2 classes, got one class: {classes.tolist()[0]!r}")
    if len(classes) < 2:
        raise ValueError(f"y must contain at least two labels, for example 0 and 1, got {classes.tolist()}")
    signs = np.where(seen, np.where(labels == classes[1], 1.0, -1.0), np.nan)
    if rest and (len(classes) > 2 or outputs not in (None, 1)):
        signs = np.where(labels[:, None] == classes, 1.0, -1.0)
    elif not rest and len(classes) > 2:
        if classes.dtype.kind == "f" and (classes != np.floor(classes)).any():
            odd = classes[classes != np.floor(classes)][0]
            raise ValueError(
                f"y must contain integers or strings with more than two classes, got {odd:g}: use MultiTaskSVR"
            )
        signs, task = _classes_in_tasks(labels, seen, classes, task, outputs), None
    return check_targets(signs, n, sample_weight, task, X, None if rest else outputs), classes, rest


def _classes_in_tasks(labels: Labels, seen: Mask, classes: Labels, task: Any, outputs: int | None) -> Array:
    """Targets (n, T K): entry t K + c is 1 if the label in task t is class c, else -1; nan where missing."""
    n, K = len(labels), len(classes)
    if outputs is not None and outputs % K:
        raise ValueError(
            f"the kernel must have an output for each task and class, a multiple of {K}, got {outputs}: use "
            "TensorProduct([T_tasks, T_classes])"
        )
    if task is None:
        rows, tasks = np.nonzero(seen)
        count = labels.shape[1]
    else:
        if labels.ndim > 1:
            raise ValueError(f"y must have shape (n,) in long form, got shape {labels.shape}")
        each = check_tasks(task, n, None if outputs is None else outputs // K)
        rows, tasks = np.flatnonzero(seen), each[seen]
        count = int(each.max()) + 1 if outputs is None else outputs // K
    signs = np.full((n, count, K), np.nan)
    signs[rows, tasks] = np.where(labels[seen][:, None] == classes, 1.0, -1.0)
    return signs.reshape(n, count * K)


def _round_decisions(values: Array) -> Array:
    """Values rounded to `DECISION_BITS` bits, above the rounding error of sums over the support vectors."""
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(np.ldexp(fraction, DECISION_BITS)), exponent - DECISION_BITS))
