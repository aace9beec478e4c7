"""Solvers of (K + alpha I) C = Y that use the structure of the gram."""

from ovk.base import SingularSystemError
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.cholesky import (
    MAX_FACTORISATIONS,
    Cholesky,
    CholeskyFactor,
    CholeskyState,
    cholesky_factor,
    forward_row,
    solve_lower,
    whitened_rows,
)
from ovk.solvers.eigen import Eigen, Eigenpairs, KnownEigen, eigenpairs, observed_eigenpairs
from ovk.solvers.evidence import Criterion, dense_evidence, separable_evidence, split_among_terms
from ovk.solvers.iterative import (
    ConjugateGradient,
    GaussSeidel,
    Iterate,
    LowRankPreconditioner,
    MissingOutputs,
    conjugate_gradient,
    conjugate_gradients,
    preconditioner,
    random_pivots,
)
from ovk.solvers.leave_one_out import (
    LeaveOneOut,
    PairwiseLeaveOneOut,
    ScalarPairsLeaveOneOut,
    SeparableLeaveOneOut,
    SeparablePath,
    decoupled_path,
    factored_leave_one_out,
    pairwise_leave_one_out,
    pairwise_path,
    residuals_of_smoother,
    separable_leave_one_out,
)
from ovk.solvers.output_kernel import CompleteProfile, Learned, PairProfile, Profile, learn_low_rank, learn_operator
from ovk.solvers.proximal import PenaltySum, ProximalInfo, proximal_gradient
from ovk.solvers.solver_choice import (
    MAX_DENSE_UNKNOWNS,
    as_solver,
    explained_by_pairs,
    explained_covariance,
    inner_blocks,
    select,
    solve_with_intercept,
)
from ovk.solvers.support_vectors import BoxDual, DualInfo, dual_coordinate, dual_with_biases

__all__ = ["Cholesky", "ConjugateGradient", "Eigen", "GaussSeidel", "SingularSystemError"]
