"""The steps of a block, one row after the other: where a step size depends on the rows before, or a threshold moves."""

from __future__ import annotations

import numpy as np

from ovk._types import Array, Gradient, Step
from ovk.online.first_order.blocks import Block, BlockInputs


def any_loss(task: BlockInputs, gradient: Gradient, step: Step) -> Block:
    """The steps of any loss, row by row, with the kernel's values already there: for step sizes that depend on the
    rows before.

    Parameters
    ----------
    gradient : ``gradient(j, z)`` is the gradient of the loss of row j at z, (d,)
    step : ``step(j, z, g)`` is the step size and the decay of row j
    """
    b, d = task.base.shape
    z, a, c = np.empty((b, d)), np.zeros((b, d)), np.zeros((b, d))
    averaged = task.base_sum is not None
    sum_z, sum_c, times = np.empty((b, d)), np.zeros((b, d)), 0.0
    inner = task.gram.weighted(task.weighted(np.tri(b, b, -1)))

    def before(j: int, c: Array) -> Array:
        """sum_l<j K(x_j, x_l) c_l, (d,)."""
        values: Array = inner.part_matmat(slice(j, j + 1), slice(0, j), c[:j])[0]
        return values

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
