"""Ridge regression that learns the output operator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ovk.base import Array, ProgressBar, Targets, check_alphas, check_choice, check_int, positive
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.batch.ridge.ridge_system import rows_held_out_together
from ovk.batch.tuning.error_surface import SeparableErrors, pairwise_errors
from ovk.objectives import L1, Frobenius, Penalty, Spectral, Trace
from ovk.operators import Dense, spectrum
from ovk.ovkernels import Separable
from ovk.solvers import (
    CompleteProfile,
    Eigenpairs,
    KnownEigen,
    Learned,
    PairProfile,
    PenaltySum,
    Profile,
    learn_low_rank,
    learn_operator,
)

#: (T, alphas) -> leave-one-out errors of the outputs at each alpha.
ErrorsOf = Callable[[Array, Array], Iterator[Array]]
#: Default alphas, relative to the smallest alpha at which the trace penalty makes T zero.
ALPHA_PATH = np.logspace(-0.5, -6.0, 12)
#: Tolerance and maximum number of steps of the iterative proximal step of a sum of penalties.
PROX_TOL, MAX_PROX_ITER = 1e-7, 200


@dataclass(eq=False, repr=False)
class OutputKernelRidge(OVKRegressor):
    """Ridge regression that learns how outputs are related: the matrix T of the kernel k(x, z) T.

    Minimises, over functions f and positive semi-definite matrices T,

        sum_i w_i |y_i - f(x_i)|^2 + alpha (|f|^2 + Omega(T)),    |f| the norm of the kernel k T,

    which is jointly convex in f and T. Omega needs no separate weight, because doubling T and alpha gives the same
    function. For complete outputs one eigendecomposition of the scalar gram serves all alphas and steps; with missing
    outputs each step factors the gram of the observed pairs.

    Parameters
    ----------
    kernel : scalar kernel, or k * T with T as the starting point; default ``Gaussian()``
        The scalar kernel k of the inputs.
    alphas : float, sequence of floats > 0, or None
        Weights of the penalty. Of several, the one with the smallest leave-one-out error is selected, with T learned
        from all rows; each T starts from that of the next larger alpha. None derives a path from the data.
    penalty : "trace", "frobenius", "sparse" or a penalty of `ovk.objectives`
        Omega: tr T (few common factors), |T|_F^2 (Dinuzzo et al. 2011), or tr T + sum |T_ij| / 4 (few related pairs of
        outputs). `Trace` and `Frobenius` may have a weight; any other penalty is added to tr T, such as ``L1(2.0)`` for
        a sparser T. Without the trace, the sum of |T_ij| would always make T diagonal.
    rank : int, optional
        Learn T = W W' of that rank. Not convex: it starts from the largest eigenvalues of the unrestricted T.
    leave_out : "row" or "entry"
        Unit left out to compare alphas; see `OVKRidgeCV`.
    fit_intercept : bool
        Learn an unpenalised constant for each output.
    tol : float > 0
        Relative gradient at which the iteration for T stops.
    max_iter : int >= 0
        Maximum number of steps for T at each alpha. 0 keeps the T of `kernel`, as `OVKRidgeCV` does.

    Attributes
    ----------
    T_ : (d, d) learned operator
    alpha_, alphas_ : selected alpha, and all alphas in decreasing order
    errors_ : (alphas,) mean squared leave-one-out error; None with a single alpha
    objective_log_ : the objective after each step at the selected alpha, never increasing
    n_iter_ : its length; a round of proximal steps counts as one
    converged_ : whether `tol` was reached at the selected alpha
    kernel_ : k * Dense(T_)
    and those of `OVKRidge`

    See Also
    --------
    OVKRidge, OVKRidgeCV, MovKL

    References
    ----------
    Dinuzzo, Ong, Gehler and Pillonetto (2011), Learning output kernels with block coordinate descent, ICML.
    Ciliberto, Mroueh, Poggio and Rosasco (2015), Convex learning of multiple tasks and their structure, ICML.

    Examples
    --------
    Outputs 0 and 1 are equal up to noise, 2 is their negative, and 3 is unrelated.

    >>> import numpy as np
    >>> from ovk import OutputKernelRidge
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (80, 1))
    >>> a, b = np.sin(2 * X), np.cos(3 * X)
    >>> Y = np.hstack([a, a, -a, b]) + 0.2 * rng.standard_normal((80, 4))
    >>> model = OutputKernelRidge(Gaussian(0.7)).fit(X, Y)
    >>> scale = np.sqrt(np.diagonal(model.T_))
    >>> (model.T_ / np.outer(scale, scale)).round(1) + 0.0
    array([[ 1. ,  0.9, -1. ,  0. ],
           [ 0.9,  1. , -1. ,  0. ],
           [-1. , -1. ,  1. ,  0. ],
           [ 0. ,  0. ,  0. ,  1. ]])
    """

    _stored = {"T_": "n_outputs_ n_outputs_", "objective_log_": "* inf"}

    kernel: Any = None
    alphas: Any = None
    _: KW_ONLY
    penalty: Any = "trace"
    rank: int | None = None
    leave_out: str = "row"
    fit_intercept: bool = True
    tol: float = 1e-4
    max_iter: int = 1000

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Select alpha, learn T and fit the model; arguments as in `OVKRidge.fit`."""
        with self._fitting(X, y):
            penalty = as_operator_penalty(self.penalty)
            X, targets = self._check(X, y, sample_weight, task)
            self._check_parameters(penalty, targets.d)
            kernel = self._separable(X, targets.d)
            profile, errors_of, known = self._profile(kernel, X, targets)
            alphas = self._alphas(profile)
            learned, errors = self._path(profile, errors_of, penalty, alphas, kernel.operator.dense())
            best = int(np.argmin(errors)) if len(alphas) > 1 else 0
            chosen = learned[best]
            if not chosen.converged and self.max_iter > 0:
                warnings.warn(
                    f"OutputKernelRidge did not reach tol={self.tol:g} within max_iter={self.max_iter} steps at "
                    f"alpha={alphas[best]:.3g}: increase max_iter or tol",
                    ConvergenceWarning,
                    stacklevel=2,
                )
            solver = "auto" if known is None else KnownEigen(known)
            self._solve(Separable(kernel.kernel, Dense(chosen.T)), float(alphas[best]), X, targets, solver)
            self.T_, self.alphas_ = chosen.T, alphas
            self.errors_ = errors if len(alphas) > 1 else None
            self.objective_log_ = np.array(chosen.objective)
            self.n_iter_ = len(self.objective_log_)
            self.converged_ = chosen.converged
        return self

    def _check_parameters(self, penalty: Penalty, d: int) -> None:
        check_choice(self.leave_out, "leave_out", ("row", "entry"))
        if self.rank is not None and (check_int(self.rank, "rank") > d or not isinstance(penalty, Spectral)):
            raise ValueError(
                f"rank must be at most the number of outputs {d}, with penalty 'frobenius' or 'trace', got "
                f"rank={self.rank} and penalty={self.penalty!r}"
            )

    def _profile(self, kernel: Separable, X: Any, targets: Targets) -> tuple[Profile, ErrorsOf, Eigenpairs | None]:
        """Ridge regression as a function of T, its errors (d,) by T and alpha, and eigenvectors of the gram."""
        groups = rows_held_out_together(self.kernel, X, targets, intercept=self.fit_intercept)
        entry = self.leave_out == "entry"
        if targets.complete:
            # One eigendecomposition, with repeated inputs merged.
            complete = SeparableErrors(kernel, X, targets, groups, intercept=self.fit_intercept)
            profile = CompleteProfile(complete.pairs, complete.Y, complete.u)
            return profile, lambda T, alphas: complete.path(spectrum(T, "T"), alphas, entry=entry), complete.every
        observed = targets.pairs(groups)
        seen = np.unique(observed.outputs)
        on_pairs = PairProfile(kernel.scalar(X), observed, intercept=self.fit_intercept)

        def errors_of(T: Array, alphas: Array) -> Iterator[Array]:
            path = pairwise_errors(on_pairs.gram(T), observed, alphas, intercept=self.fit_intercept, entry=entry)
            return (errors[seen] for errors in path)

        return on_pairs, errors_of, None

    def _separable(self, X: Any, d: int) -> Separable:
        kernel = self._resolved(X, d)
        separable = kernel.as_separable()
        if separable is None:
            raise ValueError(f"kernel must be a scalar kernel or k * T, got {type(kernel).__name__}")
        return separable

    def _alphas(self, profile: Profile) -> Array:
        if self.alphas is None:
            # At T = 0 the moment is Y'GY / alpha^2; while it is below 1, T = 0 is optimal for the trace penalty.
            largest = np.sqrt(np.linalg.eigvalsh(profile.evaluate(np.zeros((profile.d, profile.d)), 1.0).moment)[-1])
            return (float(largest) if largest > 0 else 1.0) * ALPHA_PATH
        return np.sort(check_alphas([self.alphas] if np.ndim(self.alphas) == 0 else self.alphas))[::-1].copy()

    def _path(
        self, profile: Profile, errors_of: ErrorsOf, penalty: Penalty, alphas: Array, start: Array
    ) -> tuple[list[Learned], Array]:
        """T at each alpha, started from the previous one, and the leave-one-out errors."""
        learned: list[Learned] = []
        errors = np.zeros(len(alphas))
        T = start
        with ProgressBar("learning outputs", total=len(alphas)) as bar:
            for a, alpha in enumerate(alphas):
                learned.append(self._learn_operator(profile, penalty, float(alpha), T))
                T = learned[-1].T if learned[-1].T.any() else start
                if len(alphas) > 1:
                    errors[a] = next(errors_of(learned[-1].T, alphas[a : a + 1])).mean()
                bar.update()
        return learned, errors

    def _learn_operator(self, profile: Profile, penalty: Penalty, alpha: float, start: Array) -> Learned:
        tol, max_iter = positive(self.tol, "tol"), check_int(self.max_iter, "max_iter", least=0)
        if max_iter == 0:
            return Learned(start, [profile.evaluate(start, alpha).value + alpha * penalty.value(start)], False)
        found = learn_operator(profile, penalty, alpha, start, tol=tol, max_iter=max_iter)
        if self.rank is None or not isinstance(penalty, Spectral):
            return found
        values, vectors = np.linalg.eigh(found.T)
        W = vectors[:, -self.rank :] * np.sqrt(np.maximum(values[-self.rank :], 0.0))
        return learn_low_rank(profile, penalty, alpha, W, tol=tol, max_iter=max_iter)


def as_operator_penalty(penalty: Any) -> Penalty:
    """A penalty that keeps T positive semi-definite and bounded, from a name or a penalty."""
    if isinstance(penalty, Spectral):
        return penalty
    if isinstance(penalty, Penalty):
        return PenaltySum([penalty, Trace()], tol=PROX_TOL, max_iter=MAX_PROX_ITER)
    # At the minimum the diagonal of the moment M = C'GC is the gradient of the penalty. M is positive semi-definite,
    # which bounds |M_ij| too: if off-diagonal entries cost as much as the diagonal, a diagonal T would be optimal.
    names: dict[str, Penalty] = {"frobenius": Frobenius(), "trace": Trace(), "sparse": L1(0.25)}
    if isinstance(penalty, str) and penalty in names:
        return as_operator_penalty(names[penalty])
    raise ValueError(f"penalty must be one of {sorted(names)} or a penalty of ovk.objectives, got {penalty!r}")
