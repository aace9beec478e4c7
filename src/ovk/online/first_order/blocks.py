"""The exact block engine of first-order learners.

A gradient step is f <- rho_j f + K(x_j, .) a_j with a_j = -eta_j grad l(y_j, z_j), z_j = f(x_j) before the step. With
support S and coefficients A at the start of a block of b rows,

    z_j = R_j0 sum_{i in S} K(x_j, x_i) A_i + sum_{l < j} R_jl K(x_j, x_l) a_l,

where R_jl is the product of the decays rho of the steps between l and j (R_j,j-1 = 1). The first sum is one product
for the whole block; the second is a strictly lower triangular recursion, which for the squared loss is a triangular
system in the eigenvectors of the output operator. The result is that of one row at a time, at the speed of matrix
products.

The running sum of iterates, for averages, has the same form with R replaced by its sums over the steps. Norms and
bounds along the steps are linear recursions, solved at once as well (`recursion`).
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtrs

from ovk.base import Array, Gradients, Mask
from ovk.ovkernels import Decoupled, Gram, Rotated


class Block(NamedTuple):
    """What a block of steps did.

    Attributes
    ----------
    z : (b, d) predictions f(x_j) before each step
    a : (b, d) new coefficients at their birth
    end : (b, d) the same at the end of the block
    decay : what old coefficients were multiplied by
    sums : for the running sum of iterates: (b, d) predictions of it before each step, (b, d) its new coefficients at
        the end, and the number of times old coefficients entered it; None without averaging
    bias : (b, d) the intercept before each step, a part of z; None for none
    """

    z: Array
    a: Array
    end: Array
    decay: float
    sums: tuple[Array, Array, float] | None
    bias: Array | None = None


class BlockInputs(NamedTuple):
    """What a block of steps is about.

    Attributes
    ----------
    gram : (b, b) gram of the block's rows
    base : (b, d) sum over the old support, with its coefficients at the start of the block
    base_sum : (b, d) the same for the running sum of iterates, None without averaging
    mask : (b, b) 1 where row l < j is still in the window at row j, else 0; None where every row sees all before it
    steps : (b,) whether a row is learned from; the others are only predicted
    bias : (d,) the intercept at the start of the block: it takes the steps a_j too, and does not decay; None for none
    """

    gram: Gram
    base: Array
    base_sum: Array | None
    mask: Array | None
    steps: Mask
    bias: Array | None = None

    def biases(self, a: Array) -> Array | None:
        """The intercept before each row, (b, d), from the steps a of the block."""
        return None if self.bias is None else self.bias + np.cumsum(a, axis=0) - a

    def weighted(self, between: Array) -> Array:
        """Weights of the rows before, (b, b), without those that have left the window."""
        return between if self.mask is None else between * self.mask


def squared_loss(task: BlockInputs, Y: Array, eta: Array, rho: Array) -> Block | None:
    """All steps of the squared loss on complete outputs at once; None when the outputs do not decouple.

    a_j = eta_j (y_j - z_j), so in the eigenvectors of the operators (I + diag(eta) M_q) a_q = eta (y_q - R_0 base_q)
    with M_q = R * (scalar gram G_q of group q), strictly lower triangular.

    As long as f keeps its size over the block, R_jl = E_j / E_l+1 with E_j = R_j0 can be divided out: with
    u_l = a_l / E_l+1 the system is (diag(rho / eta) + G_q) u_q = y_q / E - base_q, G_q below its diagonal alone.
    """
    rotated = task.gram.rotation()
    if rotated is None:
        return None
    decays = Decays(rho)
    if decays.mild and task.mask is None and eta.all():
        z, a = _divided(rotated, task.base, Y, rho / eta, decays.start)
    else:
        z, a = _triangular(rotated, task.weighted(decays.between[:-1]), decays.start[:-1, None] * task.base, Y, eta)
    return _ended(task, z, a, decays)


def fixed_point(task: BlockInputs, gradient: Gradients, eta: Array, rho: Array) -> Block | None:
    """All steps of any loss with known step sizes; None when numbers overflow on the way.

    z = base + M a and a = -eta grad(z) with M strictly lower triangular (and ones below its diagonal for an
    intercept): putting one into the other makes the first k
    rows right after k passes, and all of them after a few, as each step moves the predictions of its neighbours
    little.

    Parameters
    ----------
    gradient : ``gradient(rows, Z)`` are the gradients of a slice of rows at predictions Z
    """
    decays = Decays(rho)
    b = len(task.base)
    if decays.mild and task.mask is None:
        # As in `squared_loss`: u_l = a_l / E_l+1 takes the decays out of the matrix, z_j = E_j (base_j + sum G_jl u_l).
        before_row, after_row, weights = decays.start[:-1, None], decays.start[1:, None], np.tri(b, b, -1)
    else:
        before_row, after_row, weights = np.ones((b, 1)), np.ones((b, 1)), task.weighted(decays.between[:-1])
    inner = task.gram.weighted(weights)
    base = task.base * (decays.start[:-1, None] / before_row)
    z, a, u = np.empty_like(base), np.zeros(base.shape), np.zeros(base.shape)
    for first in range(0, b, PASS_ROWS):
        rows = slice(first, min(first + PASS_ROWS, b))
        known = base[rows] + inner.part_matmat(rows, slice(0, first), u[:first])
        step = -eta[rows, None]
        bias = None if task.bias is None else task.bias + a[:first].sum(axis=0)
        for _ in range(rows.stop - first):
            z[rows] = before_row[rows] * (known + inner.part_matmat(rows, rows, u[rows]))
            before = a[rows].copy()
            if bias is not None:
                z[rows] += bias + np.cumsum(before, axis=0) - before
            a[rows] = step * gradient(rows, z[rows])
            u[rows] = a[rows] / after_row[rows]
            # To the last bit: a row is settled once the rows before it are, and a tolerance for all rows together
            # would let one huge label stop the others short.
            if np.array_equal(a[rows], before):
                break
        if not np.isfinite(a[rows]).all():
            return None
    return _ended(task, z, a, decays)


#: Rows of which the steps are found together, by passes over them.
PASS_ROWS = 32


def _ended(task: BlockInputs, z: Array, a: Array, decays: Decays) -> Block:
    """The block, from its predictions and new coefficients."""
    sums = None
    if task.base_sum is not None:
        # Row u of `between` and entry u of `start` describe f after row u - 1, which counts if that row was a step.
        counts = np.concatenate([[0.0], task.steps])
        times = np.cumsum(counts * decays.start)
        inside = np.cumsum(counts[:, None] * decays.between, axis=0)
        sum_z = task.base_sum + times[:-1, None] * task.base + task.gram.weighted(task.weighted(inside[:-1])).matmat(a)
        sums = sum_z, inside[-1][:, None] * a, float(times[-1])
    return Block(z, a, decays.end[:, None] * a, float(decays.start[-1]), sums, task.biases(a))


class Decays:
    """Products of the decays rho, (b,), of a block of steps.

    Differences of running sums of logarithms, never positive: no product underflows before it is used.

    Attributes
    ----------
    start : (b + 1,) R_j0, the last of them leads to the end of the block
    end : (b,) from the birth of each row's coefficient to the end of the block
    between : (b + 1, b) R_jl for l < j, else 0
    mild : whether dividing by R_j0 is harmless, even for outputs of 1e300
    """

    def __init__(self, rho: Array) -> None:
        self._logs = np.zeros(len(rho) + 1)
        np.cumsum(np.log(rho), out=self._logs[1:])
        self.start: Array = np.exp(self._logs)
        self.end: Array = np.exp(self._logs[-1] - self._logs[1:])
        self.mild = bool(self._logs[-1] > -7.0)

    @cached_property
    def between(self) -> Array:
        b = len(self._logs) - 1
        between = np.zeros((b + 1, b))
        np.exp(self._logs[:, None] - self._logs[None, 1:], where=np.tri(b + 1, b, -1, dtype=bool), out=between)
        return between


def _divided(decoupled: Rotated, base: Array, Y: Array, diagonal: Array, start: Array) -> tuple[Array, Array]:
    """Predictions and coefficients, (b, d) each, with the decays divided out.

    With one scalar gram, G_q = t_q G, and (diag(rho / (eta t_q)) + G) (t_q u_q) needs no other matrix than G itself.
    """
    bases, targets = decoupled.split(base), decoupled.split(Y / start[:-1, None])
    single = len(decoupled.grams) == 1
    z, u = [], []
    for q, (inner, target) in enumerate(zip(bases, targets, strict=True)):
        t = float(decoupled.weights[q, 0]) if single else 1.0
        if t < MIN_EIGENVALUE:
            u.append((target - inner) / diagonal[:, None])
            z.append(inner)
            continue
        G = decoupled.grams[0] if single else decoupled.matrix(q)
        if not G.flags.writeable:
            G = G.copy()
        # A view of the diagonal, in whatever order a kernel has laid out its matrix.
        own = np.einsum("ii->i", G)
        kept = own.copy()
        # LAPACK's order is the other one: the upper triangle of the transpose.
        own[:] = diagonal / t
        solved, _ = dtrtrs(G.T, target - inner, lower=0, trans=1)
        own[:] = 0.0
        z.append(inner + dtrmm(1.0, G.T, solved, lower=0, trans_a=1))
        own[:] = kept
        u.append(solved / t)
    return decoupled.join(z) * start[:-1, None], decoupled.join(u) * start[1:, None]


#: Eigenvalues of an operator below which an output hears nothing from the others.
MIN_EIGENVALUE = 1e-100


def _triangular(decoupled: Decoupled, weights: Array, base: Array, Y: Array, eta: Array) -> tuple[Array, Array]:
    bases, targets = decoupled.split(base), decoupled.split(Y)
    z, a = [], []
    for q, (inner, target) in enumerate(zip(bases, targets, strict=True)):
        M = decoupled.matrix(q)
        M *= weights
        right = eta[:, None] * (target - inner)
        # SciPy wants Fortran order: the transpose of the transposed system is free.
        solved = solve_triangular(
            (eta[:, None] * M).T, right, lower=False, trans="T", unit_diagonal=True, check_finite=False
        )
        a.append(solved)
        z.append(inner + M @ solved)
    return decoupled.join(z), decoupled.join(a)


#: Products of factors between these exponents can be divided out without leaving the range of numbers.
MAX_LOG_FACTOR = 200.0


def recursion(start: float, factors: Array, additions: Array) -> Array:
    """x_0 = start, x_j+1 = factors_j x_j + additions_j: all of them, (b + 1,). The factors are positive.

    With E_j the product of the factors before j, x_j = E_j (x_0 + sum_l<j additions_l / E_l+1). Where that leaves the
    range of numbers the steps are taken one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.online.first_order.blocks import recursion
    >>> recursion(1.0, np.array([0.5, 0.5]), np.array([1.0, 2.0]))
    array([1.  , 1.5 , 2.75])
    """
    logs = np.log(factors).cumsum()
    x: Array = np.empty(len(factors) + 1)
    x[0] = start
    if len(logs) and np.abs(logs).max() < MAX_LOG_FACTOR:
        E = np.exp(logs)
        with np.errstate(over="ignore", invalid="ignore"):
            np.cumsum(additions / E, out=x[1:])
            x[1:] += start
            x[1:] *= E
        if np.isfinite(x).all():
            return x
    current = start
    for j, (factor, more) in enumerate(zip(factors.tolist(), additions.tolist(), strict=True)):
        current = factor * current + more
        x[j + 1] = current
    return x
