"""Solvers of (K + alpha I) C = Y that use the structure of the gram."""

from ovk.base import SingularSystem
from ovk.solvers.base import Solution as Solution
from ovk.solvers.base import Solver as Solver
from ovk.solvers.base import SolverInfo as SolverInfo
from ovk.solvers.cholesky import Cholesky
from ovk.solvers.cholesky import CholeskyFactor as CholeskyFactor
from ovk.solvers.cholesky import CholeskyState as CholeskyState
from ovk.solvers.cholesky import cholesky_factor as cholesky_factor
from ovk.solvers.cholesky import forward_row as forward_row
from ovk.solvers.cholesky import solve_lower as solve_lower
from ovk.solvers.cholesky import whitened_rows as whitened_rows
from ovk.solvers.eigen import Eigen
from ovk.solvers.eigen import Eigenpairs as Eigenpairs
from ovk.solvers.eigen import KnownEigen as KnownEigen
from ovk.solvers.eigen import eigenpairs as eigenpairs
from ovk.solvers.eigen import observed_eigenpairs as observed_eigenpairs
from ovk.solvers.evidence import Criterion as Criterion
from ovk.solvers.evidence import dense_evidence as dense_evidence
from ovk.solvers.evidence import separable_evidence as separable_evidence
from ovk.solvers.evidence import split_among_terms as split_among_terms
from ovk.solvers.iterative import ConjugateGradient, GaussSeidel, MissingOutputs
from ovk.solvers.iterative import GradientState as GradientState
from ovk.solvers.iterative import Iterate as Iterate
from ovk.solvers.iterative import conjugate_gradient as conjugate_gradient
from ovk.solvers.iterative import conjugate_gradients as conjugate_gradients
from ovk.solvers.leave_one_out import LeaveOneOut as LeaveOneOut
from ovk.solvers.leave_one_out import PairwiseLeaveOneOut as PairwiseLeaveOneOut
from ovk.solvers.leave_one_out import PairwisePath as PairwisePath
from ovk.solvers.leave_one_out import ScalarPairsLeaveOneOut as ScalarPairsLeaveOneOut
from ovk.solvers.leave_one_out import SeparableLeaveOneOut as SeparableLeaveOneOut
from ovk.solvers.leave_one_out import SeparablePath as SeparablePath
from ovk.solvers.leave_one_out import decoupled_path as decoupled_path
from ovk.solvers.leave_one_out import factored_leave_one_out as factored_leave_one_out
from ovk.solvers.leave_one_out import pairwise_leave_one_out as pairwise_leave_one_out
from ovk.solvers.leave_one_out import residuals_of_smoother as residuals_of_smoother
from ovk.solvers.leave_one_out import separable_leave_one_out as separable_leave_one_out
from ovk.solvers.output_kernel import CompleteProfile as CompleteProfile
from ovk.solvers.output_kernel import Learned as Learned
from ovk.solvers.output_kernel import PairProfile as PairProfile
from ovk.solvers.output_kernel import Profile as Profile
from ovk.solvers.output_kernel import learn_low_rank as learn_low_rank
from ovk.solvers.output_kernel import learn_operator as learn_operator
from ovk.solvers.preconditioners import LowRankPreconditioner as LowRankPreconditioner
from ovk.solvers.preconditioners import preconditioner as preconditioner
from ovk.solvers.preconditioners import random_pivots as random_pivots
from ovk.solvers.proximal import Minimum as Minimum
from ovk.solvers.proximal import PenaltySum as PenaltySum
from ovk.solvers.proximal import ProximalInfo as ProximalInfo
from ovk.solvers.proximal import proximal_gradient as proximal_gradient
from ovk.solvers.solver_choice import DENSE_LIMIT as DENSE_LIMIT
from ovk.solvers.solver_choice import MANY_EIGENVALUES as MANY_EIGENVALUES
from ovk.solvers.solver_choice import as_solver as as_solver
from ovk.solvers.solver_choice import explained_by_pairs as explained_by_pairs
from ovk.solvers.solver_choice import explained_covariance as explained_covariance
from ovk.solvers.solver_choice import inner_blocks as inner_blocks
from ovk.solvers.solver_choice import select as select
from ovk.solvers.solver_choice import solve_with_intercept as solve_with_intercept
from ovk.solvers.support_vectors import BoxDual as BoxDual
from ovk.solvers.support_vectors import DualInfo as DualInfo
from ovk.solvers.support_vectors import dual_coordinate as dual_coordinate
from ovk.solvers.task_bias import dual_with_biases as dual_with_biases

__all__ = [
    "Cholesky",
    "ConjugateGradient",
    "Eigen",
    "GaussSeidel",
    "MissingOutputs",
    "SingularSystem",
]
