"""Learning a combination of operator-valued kernels together with the function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from ovk.base import Array, Targets, check_alphas, check_int, in_interval, positive
from ovk.batch.curves import CurveOutputs, has_curve_operator
from ovk.batch.movkl.alternation import LearnedWeights, System, alternate, left_out_residuals
from ovk.batch.movkl.kernel_grid import kernel_grid
from ovk.batch.ridge.ridge_system import RidgeSolution, check_two_inputs, same_inputs
from ovk.curves import Grid
from ovk.operators import Identity, Integral
from ovk.ovkernels import OperatorKernel, WeightedSum, as_operator_kernel

# What `MovKL` and `MovKLCV` share.


def _given(kernels: Any) -> list[OperatorKernel]:
    if kernels is None:
        return []
    if isinstance(kernels, OperatorKernel) or not isinstance(kernels, Sequence) or not kernels:
        raise ValueError(f"kernels must be a sequence of at least one kernel, got {kernels!r}")
    given = [as_operator_kernel(kernel) for kernel in kernels]
    return [kernel.as_separable() or kernel for kernel in given]


def _given_outputs(kernels: Any) -> int | None:
    return next((kernel.output_dim for kernel in _given(kernels) if kernel.output_dim is not None), None)


def _on_curves(kernels: Any) -> bool:
    return any(has_curve_operator(kernel) for kernel in _given(kernels))


def _system(model: MovKL | MovKLCV, X: Any, targets: Targets, n_eigen: int | None = None) -> System:
    operators = [Identity()] if model.grid_ is None else None
    kernels: list[OperatorKernel] = _given(model.kernels) or [*kernel_grid(X, operators=operators)]
    if n_eigen is not None:
        kernels = [_with_eigenfunctions(kernel, n_eigen) for kernel in kernels]
    resolved = [model._own_copy(kernel, targets.d).resolve(X, targets.d) for kernel in kernels]
    return System(resolved, X, targets, model.solver, intercept=bool(model.fit_intercept))


def _with_eigenfunctions(kernel: OperatorKernel, count: int) -> OperatorKernel:
    """The kernel with so many eigenfunctions of its integral operator; one without such an operator stays."""
    separable = kernel.as_separable()
    if separable is None or not isinstance(separable.operator, Integral):
        return kernel
    operator: Integral = clone(separable.operator).set_params(n_eigen=count)
    changed: OperatorKernel = separable.scalar * operator
    return changed


def _learn(model: MovKL | MovKLCV, system: System, alpha: float, start: LearnedWeights | None = None) -> LearnedWeights:
    r, tol = in_interval(model.r, "r", 1.0, np.inf), positive(model.tol, "tol")
    return alternate(system, alpha, r, tol, check_int(model.max_iter, "max_iter"), start)


def _keep(model: MovKL | MovKLCV, system: System, alpha: float, learned: LearnedWeights) -> None:
    kernel = WeightedSum(system.kernels, learned.weights)
    C, b = system.expansion(kernel, learned.C, learned.b)
    model._store(kernel, alpha, RidgeSolution(system.X, system.targets, C, b, learned.info))
    model.weights_, model.kernel_norms_ = learned.weights, learned.norms
    model.history_, model.objective_ = learned.log, float(learned.log[-1, 0])
    model.n_iter_ = len(learned.log)


def _shares(model: MovKL | MovKLCV, X: Any) -> Array:
    C = model.expansion_.C
    X = model._check_inputs(X, reset=False)
    terms = zip(model.kernel_.kernels, model.weights_, strict=True)
    shares = np.stack([weight * kernel.gram(X, model.X_fit_).matmat(C) for kernel, weight in terms])
    shares = shares if model.grid_ is None else shares / model.grid_.roots()
    return shares[:, :, 0] if model.single_output_ else shares


@dataclass(eq=False, repr=False)
class MovKL(CurveOutputs):
    """Multiple operator-valued kernel learning: f = sum_k f_k and the weights d of  K = sum_k d_k K_k.

    Minimises over f_k and d

        sum_i |y_i - sum_k f_k(x_i)|^2 + alpha sum_k |f_k|^2 / d_k,    d_k >= 0,  sum_k d_k^r <= 1,

    in turn: given d, ridge regression with the combined kernel, (sum_k d_k K_k + alpha I) c = y and
    f_k = d_k sum_i K_k(., x_i) c_i; given f, the weights in closed form,

        d_k = |f_k|^(2 / (r + 1)) / (sum_j |f_j|^(2 r / (r + 1)))^(1 / r).

    The objective never increases. For r = 1 most weights tend to zero; the larger r, the more even they are; for
    r = inf all are 1 and there is nothing to learn but f. (The paper's alpha is twice our c.)

    Parameters
    ----------
    kernels : sequence of operator-valued kernels, optional
        Kernels k * T keep their structure; with others among them (`CurlFree`, `Diagonal`, `Hadamard`) the matrix of
        all observed values is formed.
        By default `kernel_grid` of the training inputs: five Gaussians and three polynomials, each with the identity
        and, where a grid is given, multiplication by exp(-t^2) and the integral operator of exp(-|t - s|).
    alpha : float > 0
    r : float in [1, inf]
        Which norm of the weights is bounded by 1.
    grid : `Grid` or its points, optional
        Outputs are curves on this grid. Without it they are curves on [0, 1] when a kernel has an operator on curves,
        and plain vectors when none has.
    solver : "auto", or as in `OVKRidge`
        "auto" groups the kernels by operator and takes a common rotation of the outputs where there is one, else
        conjugate gradients that start from the last solution.
    fit_intercept : bool, optional
        Learn a constant for each output that is not penalised. By default for labels (`MovKLClassifier`) alone.
    tol : float > 0
        Stop when the coefficients change by less than this, relatively.
    max_iter : int

    Attributes
    ----------
    weights_ : (M,) d
    kernel_norms_ : (M,) |f_k|
    objective_ : value of the objective
    history_ : (iterations, 3) objective, relative change of the coefficients, iterations of the solver
    n_iter_ : how often the system was solved
    kernel_ : the learned `WeightedSum`
    and those of `FunctionalRidge`

    Examples
    --------
    Of three kernels, the data need the middle one.

    >>> import numpy as np
    >>> from ovk import MovKL
    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.operators import Identity
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 1))
    >>> Y = np.sin(2 * X) + 0.1 * rng.standard_normal((60, 3))
    >>> model = MovKL([k * Identity() for k in (Gaussian(0.05), Gaussian(1.0), Linear())], alpha=0.1, r=1.0).fit(X, Y)
    >>> model.weights_.argmax(), model.shares(X).shape
    (np.int64(1), (3, 60, 3))
    """

    kernel = None

    kernels: Any = None
    alpha: float = 1.0
    r: float = 2.0
    _: KW_ONLY
    grid: Any = None
    solver: Any = "auto"
    fit_intercept: Any = None
    tol: float = 1e-4
    max_iter: int = 200

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from inputs and outputs.

        Parameters
        ----------
        X : (n, p)
        y : (n, d) or (n,), nan where an output was not observed
        sample_weight : (n,), optional
        task : (n,) integers, optional
            Long form: row i is one observation, of output task_i (of a curve: of the grid's point task_i).
        """
        with self._fitting(X, y):
            alpha = positive(self.alpha, "alpha")
            X, targets = self._check(X, y, sample_weight, task)
            system = _system(self, X, targets)
            _keep(self, system, alpha, _learn(self, system, alpha))
        return self

    def shares(self, X: Any) -> Array:
        """The share of each kernel in the prediction, (M, n, d); the shares and the intercept add up to it."""
        return _shares(self, X)

    def _output_dim(self) -> int | None:
        return _given_outputs(self.kernels)

    def _grid_for(self, d: int) -> Grid | None:
        return super()._grid_for(d) if self.grid is not None or _on_curves(self.kernels) else None


@dataclass(eq=False, repr=False)
class MovKLCV(CurveOutputs):
    """`MovKL` with alpha chosen by leaving out one curve at a time, the weights kept.

    For each alpha the weights are learned from all curves; then every curve is predicted from the others with these
    weights. That is closed form when the operators have common eigenvectors; otherwise it takes a solve for each curve,
    and with `folds` one for each set of curves. Curves with the same inputs are left out together.

    Parameters
    ----------
    kernels, r, grid, solver, fit_intercept, tol, max_iter : as in `MovKL`
    alphas : sequence of floats > 0; default 9 values from 1e-4 to 1e1
    n_eigen : sequence of ints, optional
        Numbers of eigenfunctions to choose from as well, for the kernels with an `Integral` operator; by default they
        stay as they are.
    folds : int, optional
        Leave out curves in this many sets, row i in set i modulo `folds`, instead of one at a time.

    Attributes
    ----------
    alpha_ : chosen alpha
    alphas_, errors_ : (alphas,) all of them, and the sums of squared left-out errors (integrals, for curves); with
        `n_eigen` the errors are (numbers, alphas)
    n_eigen_ : chosen number of eigenfunctions, None where none was to be chosen
    and those of `MovKL`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import MovKLCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (40, 1))
    >>> Y = np.sin(2 * X) + 0.3 * rng.standard_normal((40, 3))
    >>> MovKLCV(alphas=[1e-3, 1e-1, 10.0]).fit(X, Y).alpha_
    0.1
    """

    kernel = None

    kernels: Any = None
    alphas: Any = None
    r: float = 2.0
    _: KW_ONLY
    grid: Any = None
    solver: Any = "auto"
    fit_intercept: bool = False
    folds: int | None = None
    n_eigen: Any = None
    tol: float = 1e-4
    max_iter: int = 200

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Choose and learn; the arguments are those of `MovKL.fit`."""
        with self._fitting(X, y):
            alphas = np.logspace(-4, 1, 9) if self.alphas is None else check_alphas(self.alphas)
            X, targets = self._check(X, y, sample_weight, task)
            n = X.shape[0]
            if n < 2:
                raise ValueError(f"leaving out a curve needs at least 2 samples, got 1 sample (shape {X.shape})")
            sets = None if self.folds is None else np.arange(n) % min(check_int(self.folds, "folds", least=2), n)
            same = same_inputs(X)
            if sets is None and len(np.unique(same)) < n:
                # A copy left in would give the answer away.
                sets = same
            if self.fit_intercept:
                check_two_inputs(targets.pairs(same if sets is None else sets))
            numbers = [None] if self.n_eigen is None else [check_int(q, "n_eigen") for q in self.n_eigen]
            errors = np.empty((len(numbers), len(alphas)))
            found: dict[tuple[int, int], tuple[System, LearnedWeights]] = {}
            for e, number in enumerate(numbers):
                system = _system(self, X, targets, number)
                start = None
                # From strong to weak: each alpha begins where the last one ended.
                for a in np.argsort(-alphas):
                    start = _learn(self, system, float(alphas[a]), start)
                    errors[e, a] = np.nansum(left_out_residuals(system, start, float(alphas[a]), sets) ** 2)
                    found[e, int(a)] = system, start
            if not found:
                raise ValueError("n_eigen must hold at least one number, got none")
            e, a = min(found, key=lambda place: errors[place])
            self.n_eigen_ = numbers[e]
            _keep(self, found[e, a][0], float(alphas[a]), found[e, a][1])
            self.alphas_, self.errors_ = alphas, errors[0] if self.n_eigen is None else errors
        return self

    def shares(self, X: Any) -> Array:
        """As in `MovKL`."""
        return _shares(self, X)

    def _output_dim(self) -> int | None:
        return _given_outputs(self.kernels)

    def _grid_for(self, d: int) -> Grid | None:
        return super()._grid_for(d) if self.grid is not None or _on_curves(self.kernels) else None
