"""Blocks of gradient steps, computed exactly by matrix products.

A gradient step is f <- rho_j f + K(x_j, .) a_j with a_j = -eta_j grad l(y_j, z_j), z_j = f(x_j) before the step. With
support S and coefficients A at the start of a block of b rows,

    z_j = R_j0 sum_{i in S} K(x_j, x_i) A_i + sum_{l < j} R_jl K(x_j, x_l) a_l,

where R_jl is the product of the decays rho of the steps between l and j (R_j,j-1 = 1). The first sum is one product
for the whole block; the second is a strictly lower triangular recursion, for the squared loss a triangular system in
the eigenvectors of the output operator. The running sum of iterates, for averages, has the same form with R replaced by
its sums over the steps. Norms and bounds are linear recursions (`recursion`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtrs

from ovk.base import Array, DivergenceError, Gradient, Gradients, Mask, State, Step, Times
from ovk.objectives import DistanceOverGradients, Loss, Schedule, Squared, ThresholdLoss
from ovk.ovkernels import Decoupled, Gram, Rotated


class Block(NamedTuple):
    """Result of a block of steps: predictions z before each step, new coefficients `a` at their step and at the `end`
    of the block, (b, d) each, and the `decay` of the old coefficients.

    `sums` describes the running sum of iterates, None without averaging: its predictions before each step, its new
    coefficients at the end, and the factor of the old ones. `bias` is the intercept before each step, included in z.
    """

    z: Array
    a: Array
    end: Array
    decay: float
    sums: tuple[Array, Array, float] | None
    bias: Array | None = None


class BlockInputs(NamedTuple):
    """Input of a block of steps.

    `gram` (b, b) is that of its rows, `base` (b, d) the sum over the old support with its coefficients at the start,
    and `base_sum` the same for the running sum of iterates. `mask` (b, b) is 1 where row l < j is still in the window
    at row j, None if all are. Rows not in `steps` (b,) are only predicted. The intercept `bias` (d,) takes the same
    steps a_j and does not decay.
    """

    gram: Gram
    base: Array
    base_sum: Array | None
    mask: Array | None
    steps: Mask
    bias: Array | None = None

    def biases(self, a: Array) -> Array | None:
        return None if self.bias is None else self.bias + np.cumsum(a, axis=0) - a

    def weighted(self, between: Array) -> Array:
        return between if self.mask is None else between * self.mask


def squared_loss(task: BlockInputs, Y: Array, eta: Array, rho: Array) -> Block | None:
    """Steps of the squared loss on complete outputs; None if the outputs do not decouple.

    a_j = eta_j (y_j - z_j), so in the eigenvectors of the operators (I + diag(eta) M_q) a_q = eta (y_q - R_0 base_q)
    with M_q = R * (scalar gram G_q of group q), strictly lower triangular. As long as f decays little over the block,
    R_jl = E_j / E_l+1 with E_j = R_j0 can be divided out: with u_l = a_l / E_l+1 the system is
    (diag(rho / eta) + G_q) u_q = y_q / E - base_q, with G_q strictly below its diagonal.
    """
    rotated = task.gram.rotation()
    if rotated is None:
        return None
    decays = Decays(rho)
    if decays.mild and task.mask is None and eta.all():
        z, a = _solve_divided(rotated, task.base, Y, rho / eta, decays.start)
    else:
        between = task.weighted(decays.between[:-1])
        z, a = _solve_triangular(rotated, between, decays.start[:-1, None] * task.base, Y, eta)
    return _finish_block(task, z, a, decays)


def fixed_point(task: BlockInputs, gradient: Gradients, eta: Array, rho: Array) -> Block | None:
    """Steps of any loss with known step sizes; None if numbers overflow.

    z = base + M a and a = -eta grad(z) with M strictly lower triangular (plus ones below its diagonal for an
    intercept). After k passes of this fixed-point iteration the first k rows are exact, and all of them after a few, as
    a step changes the predictions of its neighbours little. `gradient(rows, Z)` gives the gradients of a slice of rows.
    """
    decays = Decays(rho)
    b = len(task.base)
    if decays.mild and task.mask is None:
        # As in `squared_loss`: z_j = E_j (base_j + sum G_jl u_l) with u_l = a_l / E_l+1.
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
            # Exact equality: with a common tolerance one huge label would stop the iteration too early for the others.
            if np.array_equal(a[rows], before):
                break
        if not np.isfinite(a[rows]).all():
            return None
    return _finish_block(task, z, a, decays)


#: Rows of one fixed-point iteration.
PASS_ROWS = 32


def _finish_block(task: BlockInputs, z: Array, a: Array, decays: Decays) -> Block:
    sums = None
    if task.base_sum is not None:
        # Row u of `between` and entry u of `start` describe f after row u - 1.
        counts = np.concatenate([[0.0], task.steps])
        times = np.cumsum(counts * decays.start)
        inside = np.cumsum(counts[:, None] * decays.between, axis=0)
        sum_z = task.base_sum + times[:-1, None] * task.base + task.gram.weighted(task.weighted(inside[:-1])).matmat(a)
        sums = sum_z, inside[-1][:, None] * a, float(times[-1])
    return Block(z, a, decays.end[:, None] * a, float(decays.start[-1]), sums, task.biases(a))


class Decays:
    """Products of the decays rho (b,) of a block: `start` (b + 1,) is R_j0 up to the end of the block, `end` (b,) the
    decay of each coefficient from its step to the end, and `between` (b + 1, b) is R_jl for l < j, else 0.

    Sums of logarithms avoid underflow. If `mild`, dividing by R_j0 is harmless, even for outputs of 1e300.
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


def _solve_divided(decoupled: Rotated, base: Array, Y: Array, diagonal: Array, start: Array) -> tuple[Array, Array]:
    """z and a with the decays divided out. With one scalar gram, G_q = t_q G, and diag(rho / (eta t_q)) + G is the
    matrix of the system for t_q u_q.
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
        # A view of the diagonal, for any memory order.
        own = np.einsum("ii->i", G)
        kept = own.copy()
        # LAPACK uses Fortran order: the upper triangle of the transpose.
        own[:] = diagonal / t
        solved, _ = dtrtrs(G.T, target - inner, lower=0, trans=1)
        own[:] = 0.0
        z.append(inner + dtrmm(1.0, G.T, solved, lower=0, trans_a=1))
        own[:] = kept
        u.append(solved / t)
    return decoupled.join(z) * start[:-1, None], decoupled.join(u) * start[1:, None]


#: Smaller eigenvalues of an output operator count as 0.
MIN_EIGENVALUE = 1e-100


def _solve_triangular(decoupled: Decoupled, weights: Array, base: Array, Y: Array, eta: Array) -> tuple[Array, Array]:
    bases, targets = decoupled.split(base), decoupled.split(Y)
    z, a = [], []
    for q, (inner, target) in enumerate(zip(bases, targets, strict=True)):
        M = decoupled.matrix(q)
        M *= weights
        # LAPACK uses Fortran order: the upper triangle of the transpose.
        solved, _ = dtrtrs((eta[:, None] * M).T, eta[:, None] * (target - inner), lower=0, trans=1, unitdiag=1)
        a.append(solved)
        z.append(inner + M @ solved)
    return decoupled.join(z), decoupled.join(a)


#: Products of factors with smaller logarithms can be divided out without overflow.
MAX_LOG_FACTOR = 200.0


def recursion(start: float, factors: Array, additions: Array) -> Array:
    """(b + 1,) values x_0 = start, x_j+1 = factors_j x_j + additions_j, for positive factors.

    With E_j the product of the factors before j, x_j = E_j (x_0 + sum_l<j additions_l / E_l+1); computed step by step
    where that overflows.
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


def row_by_row(task: BlockInputs, gradient: Gradient, step: Step) -> Block:
    """Steps of any loss, row by row, for adaptive step sizes or a learned threshold, from the `gradient(j, z)` of row j
    at z (d,) and its step size and decay, `step(j, z, g)`.
    """
    b, d = task.base.shape
    z, a, c = np.empty((b, d)), np.zeros((b, d)), np.zeros((b, d))
    averaged = task.base_sum is not None
    sum_z, sum_c, times = np.empty((b, d)), np.zeros((b, d)), 0.0
    inner = task.gram.weighted(task.weighted(np.tri(b, b, -1)))

    def before(j: int, c: Array) -> Array:
        """sum_l<j K(x_j, x_l) c_l, (d,)."""
        return np.asarray(inner.part_matmat(slice(j, j + 1), slice(0, j), c[:j])[0])

    decay = 1.0
    bias = np.zeros(d) if task.bias is None else task.bias
    for j in range(b):
        value = decay * task.base[j] + before(j, c) + bias
        z[j] = value
        if task.base_sum is not None:
            sum_z[j] = task.base_sum[j] + times * task.base[j] + before(j, sum_c)
        if not task.steps[j]:
            continue
        g = gradient(j, value)
        eta, rho = step(j, value, g)
        a[j] = -eta * g
        if task.bias is not None:
            bias = bias + a[j]
        if rho != 1.0:
            c[:j] *= rho
            decay *= rho
        c[j] = a[j]
        if averaged:
            sum_c[: j + 1] += c[: j + 1]
            times += decay
    return Block(z, a, c, decay, (sum_z, sum_c, times) if averaged else None, task.biases(a))


@dataclass
class Progress(State):
    """Running quantities: |f|^2 without truncation; for adaptive step sizes the largest |f|, the sum of squared
    gradients and the largest ratio of loss to gradient norm; the learned threshold and the bound on its truncation
    error; the product of the decays since the last truncation; the intercept (d,); and the reach of `check_divergence`.
    """

    norm2: float = 0.0
    distance: float = 0.0
    gradients: float = 0.0
    scale: float = 0.0
    threshold: float = 0.0
    threshold_error: float = 0.0
    contraction: float = 1.0
    bias: Array | None = None
    reach: float = 0.0


class Steps(NamedTuple):
    """A block with its weighted step sizes and decays (b,), 0 and 1 in rows that are only predicted, targets (b, d),
    loss at the threshold of each row, and |f|^2 before each row (b,).
    """

    block: Block
    eta: Array
    rho: Array
    targets: Array
    loss: Loss
    norm2: Array


def take_steps(
    loss: Loss,
    schedule: Schedule,
    alpha: float,
    discount: float,
    task: BlockInputs,
    Y: Array,
    times: Times,
    clock: Times,
    scale: Array,
    weights: Array | None,
    progress: Progress,
) -> Steps:
    """Take the steps of a block and update `progress`.

    `times` (b,) are the numbers of the steps, and the schedule is evaluated at `clock`, which differs where a window
    holds the step size. A scaled schedule is divided by `scale` (b,). `weights` (b,) multiply the losses.
    """
    threshold = _MovingLoss(loss, Y, weights, progress)
    block: Block | None = None
    norm2: Array | None = None
    if isinstance(schedule, DistanceOverGradients):
        held = clock / np.maximum(times, 1)
        block, eta, rho, norm2 = _adaptive(threshold, schedule, alpha, discount, task, held)
    else:
        eta = np.where(task.steps, schedule.rate(np.maximum(clock, 1)) / (scale if schedule.scaled else 1.0), 0.0)
        rho = np.where(task.steps, discount * (1.0 - eta * alpha), 1.0)
    # A weight multiplies the step but not the decay.
    steps = eta if weights is None else weights * eta
    if block is None and isinstance(loss, Squared) and task.bias is None and not np.isnan(Y[task.steps]).any():
        block = squared_loss(task, np.where(np.isnan(Y), 0.0, Y), steps, rho)
    if block is None and not isinstance(loss, ThresholdLoss):
        block = fixed_point(task, lambda rows, Z: loss.gradient(Y[rows], Z), steps, rho)
    if block is None:

        def step(j: int, z: Array, g: Array) -> tuple[float, float]:
            threshold.move(j, z, float(eta[j]))
            return float(eta[j]), float(rho[j])

        block = row_by_row(task, threshold.gradient, step)
    if norm2 is None:
        norm2 = _norms(block, rho, task.gram.quadratic_forms(block.a), progress)
    if progress.bias is not None:
        progress.bias = progress.bias + block.a.sum(axis=0)
    return Steps(block, steps, rho, *threshold.known(), norm2)


class _MovingLoss:
    """Gradients of the weighted loss, at a threshold that moves with every row if the loss has one."""

    def __init__(self, loss: Loss, Y: Array, weights: Array | None, progress: Progress) -> None:
        self._loss, self._Y, self.progress = loss, Y, progress
        self._weights = np.ones(len(Y)) if weights is None else weights
        self._theta = np.full(len(Y), progress.threshold)

    def _at(self, rows: slice) -> tuple[Array, Loss]:
        if isinstance(self._loss, ThresholdLoss):
            return self._loss.at(self._Y[rows], self._theta[rows])
        return self._Y[rows], self._loss

    def known(self) -> tuple[Array, Loss]:
        return self._at(slice(None))

    def gradient(self, j: int, z: Array) -> Array:
        self._theta[j] = self.progress.threshold
        targets, loss = self._at(slice(j, j + 1))
        return np.asarray(self._weights[j] * loss.gradient(targets, z[None])[0])

    def loss(self, j: int, z: Array) -> float:
        """Loss of row j; 1, the scale of the kernel, for a loss without targets."""
        targets, loss = self._at(slice(j, j + 1))
        value = 1.0 if loss.unsupervised else float(self._weights[j] * loss.value(targets, z[None])[0])
        return value if isfinite(value) else 0.0

    def slope(self, j: int, z: Array) -> float:
        if isinstance(self._loss, ThresholdLoss):
            return self._loss.threshold_slope(self.progress.threshold, z, self._Y[j])
        return 0.0

    def move(self, j: int, z: Array, eta: float) -> None:
        if isinstance(self._loss, ThresholdLoss):
            moved = self.progress.threshold - eta * self.slope(j, z)
            self.progress.threshold = max(moved, self._loss.lowest)


def _norms(block: Block, rho: Array, quadratic_forms: Array, progress: Progress) -> Array:
    """|f|^2 before each row: |rho f + K(x, .) a|^2 = rho^2 |f|^2 + 2 rho <a, f(x)> + <a, K(x, x) a>."""
    values = block.z if block.bias is None else block.z - block.bias
    changes = 2.0 * rho * np.einsum("jq,jq->j", block.a, values) + quadratic_forms
    norm2: Array = _valid_squared_norm(recursion(progress.norm2, rho**2, changes))
    progress.norm2 = float(norm2[-1])
    return norm2[:-1]


def _valid_squared_norm(value: Any) -> Any:
    """Replace values below zero, which are rounding errors, by 0 and nan, from overflow, by infinity."""
    return np.where(np.isnan(value), np.inf, np.maximum(value, 0.0))


def _adaptive(
    threshold: _MovingLoss, sizes: DistanceOverGradients, alpha: float, discount: float, task: BlockInputs, held: Array
) -> tuple[Block, Array, Array, Array]:
    """The block, (b,) step sizes and decays, and |f|^2 before each row, for step sizes that depend on past gradients.

    With a window that keeps the step size constant, each gradient has a weight `held` < 1, so that the total weight is
    the number of steps in the window; the distance does not grow.
    """
    own, (b, d), progress = task.gram.diagonal_blocks(), task.base.shape, threshold.progress
    eta, rho, norm2 = np.zeros(b), np.ones(b), np.empty(b)
    bias: Array = np.zeros(d) if task.bias is None else task.bias.copy()

    def step(j: int, z: Array, g: Array) -> tuple[float, float]:
        norm2[j] = progress.norm2
        size = float(g @ own[j] @ g)
        total = size + threshold.slope(j, z) ** 2 + (0.0 if task.bias is None else float(g @ g))
        if total > 0 and isfinite(total):
            # Gradients whose squares overflow are ignored.
            progress.gradients += total
            progress.scale = max(progress.scale, threshold.loss(j, z) / sqrt(total))
            eta[j] = sizes.step(progress.distance, progress.gradients * float(held[j]), progress.scale)
            if alpha > 0:
                # Steps chosen from the data are shortened where eta alpha would reach 1.
                eta[j] = min(eta[j], 0.5 / alpha)
        rho[j] = decay = discount * (1.0 - float(eta[j]) * alpha)
        taken = float(eta[j])
        threshold.move(j, z, taken)
        change = taken * (taken * size - 2.0 * decay * float(g @ (z - bias))) if taken > 0 else 0.0
        if task.bias is not None:
            bias[:] -= taken * g
        progress.norm2 = float(_valid_squared_norm(decay * decay * progress.norm2 + change))
        if held[j] == 1:
            progress.distance = max(progress.distance, sqrt(progress.norm2))
        return taken, decay

    block = row_by_row(task, threshold.gradient, step)
    norm2[~task.steps] = 0.0
    return block, eta, rho, norm2


#: |f| may exceed its bound for steps of a suitable size by this factor.
MAX_NORM_FACTOR = 1e6


def check_divergence(learner: object, steps: Steps, Y: Array, times: Times, norms: Array, progress: Progress) -> None:
    """Raise `DivergenceError` if |f| grows beyond its bound for steps of a suitable size; else update the bound.

    Let l >= 0 be a convex loss whose gradient g has the Lipschitz constant L, and f' = rho f - eta K(x, .) g(f(x)) a
    step with eta L |K(x, x)| <= rho <= 1. By convexity <g, z> >= l(z) - l(0), and by smoothness |g|^2 <= 2 L l(z), so

        |f'|^2 = rho^2 |f|^2 - 2 rho eta <g, z> + eta^2 <g, K(x, x) g>  <=  |f|^2 + 2 eta l(0),

    and |f_t|^2 <= |f_0|^2 + 2 sum eta l(0), the reach. Steps too large for the kernel overshoot more and more; a few of
    them are harmless, as most schedules decrease. With bounded gradients the norm grows slowly and is not checked.
    `times` (b,) number the steps, Y (b, d) are the targets and `norms` (b,) are |K(x, x)|.
    """
    block = steps.block
    wrong = ~(np.isfinite(block.z).all(axis=1) & np.isfinite(block.a).all(axis=1))
    if steps.loss.lipschitz(Y.shape[1]) is None:
        reach = progress.reach + np.cumsum(2.0 * steps.eta * steps.loss.value(steps.targets, np.zeros(Y.shape)))
        wrong |= np.append(steps.norm2[1:], progress.norm2) > MAX_NORM_FACTOR**2 * reach
        progress.reach = float(reach[-1])
    if not wrong.any():
        return
    row = int(wrong.argmax())
    norm, eta, size = float(np.sqrt(np.append(steps.norm2, progress.norm2)[row + 1])), steps.eta[row], norms[row]
    largest = float(np.nanmax(np.abs(Y), initial=0.0))
    if not np.isfinite(size):
        raise DivergenceError(
            f"{type(learner).__name__} failed at step {int(times[row])}: the kernel value K(x, x) is {size}. Check the "
            "kernel, or scale X. The model is unchanged"
        )
    advice = (
        f"Outputs go up to {largest:.3g}, where sums overflow: divide y by a constant"
        if largest > 1e150
        else f"The step size {eta:.3g} is too large for |K(x, x)| = {size:.3g}, their product should not exceed 1: "
        f"lower the schedule to {eta / max(eta * size, 1.0):.1g}, scale X, or use schedule=None or 'auto', which "
        "adapt to the kernel"
    )
    raise DivergenceError(
        f"{type(learner).__name__} diverged at step {int(times[row])}: the norm of f is {norm:.3g}. {advice}. The "
        "model is unchanged"
    )
