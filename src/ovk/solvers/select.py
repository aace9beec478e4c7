"""Which solver suits which gram."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from ovk.ovkernels import DenseBlocks, Gram, Kronecker, Observed
from ovk.solvers.base import Solver
from ovk.solvers.cholesky import Cholesky
from ovk.solvers.eigen import Eigen
from ovk.solvers.iterative import ConjugateGradient, GaussSeidel, MissingOutputs

#: One eigendecomposition costs about as much as this many Cholesky factorisations.
MANY_EIGENVALUES = 8
#: Points above which a dense system is left to an iterative solver (a matrix of 800 MB).
DENSE_LIMIT = 10_000


@singledispatch
def select(gram: Gram) -> Solver:
    """The solver for a gram.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.ovkernels import Kronecker
    >>> from ovk.operators import Dense, MixedEffect
    >>> from ovk.solvers import select
    >>> select(Kronecker(np.eye(4), MixedEffect(0.5, output_dim=50)))
    Cholesky()
    >>> select(Kronecker(np.eye(4), Dense(np.diag(np.arange(50.0)))))
    Eigen()
    """
    raise TypeError(f"no rule selects a solver for a {type(gram).__name__}")


@select.register
def _(gram: Kronecker) -> Solver:
    operators = [operator for _, operator in gram.terms()]
    if len(operators) == 1:
        return Cholesky() if len(operators[0].eigh().groups) <= MANY_EIGENVALUES else Eigen()
    decoupled = gram.decouple()
    if decoupled is None:
        return ConjugateGradient()
    # One operator with many eigenvalues beside multiples of the identity: the preconditioner is the solution.
    several = sum(len(operator.eigh().groups) > 1 for operator in operators) > 1
    return Cholesky() if several or len(decoupled) <= MANY_EIGENVALUES else ConjugateGradient()


@select.register
def _(gram: DenseBlocks) -> Solver:
    return Cholesky() if len(gram.matrix) <= DENSE_LIMIT else ConjugateGradient()


@select.register
def _(gram: Observed) -> Solver:
    if gram.shape[0] <= DENSE_LIMIT:
        return Cholesky()
    terms = gram.base.terms()
    return MissingOutputs() if terms is not None and len(terms) == 1 else ConjugateGradient()


_NAMES: dict[str, type[Solver]] = {
    "cholesky": Cholesky,
    "eigen": Eigen,
    "cg": ConjugateGradient,
    "gauss-seidel": GaussSeidel,
}


def as_solver(solver: Any, gram: Gram) -> Solver:
    """Turn what a user may pass as a solver into one: an object, "auto" or another name.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.ovkernels import Kronecker
    >>> from ovk.operators import Identity
    >>> from ovk.solvers import as_solver
    >>> as_solver("eigen", Kronecker(np.eye(2), Identity(1)))
    Eigen()
    """
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        return select(gram)
    if isinstance(solver, str) and solver in _NAMES:
        return _NAMES[solver]()
    raise ValueError(f"solver must be 'auto', one of {sorted(_NAMES)} or a solver of ovk.solvers, got {solver!r}")
