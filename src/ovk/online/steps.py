"""The gradient steps of a block: step sizes, targets, and what the steps do to the norm of f."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ovk._params import Registered
from ovk._validation import Array
from ovk.losses import Loss, Novelty, Squared
from ovk.online.blocks import Block, Task, any_loss, energies, fixed_point, squared_loss
from ovk.online.recursion import recursion
from ovk.schedules import DistanceOverGradients, Schedule

Times = npt.NDArray[np.int64]


@dataclass
class Progress(Registered):
    """What a learner knows of its own way.

    Attributes
    ----------
    norm2 : |f|^2 in the kernel's norm, as if nothing had been dropped
    distance : largest |f| so far (for step sizes that adapt)
    gradients : sum of the squared norms of all gradients (for step sizes that adapt)
    scale : largest loss over norm of the gradient (for step sizes that adapt)
    threshold : rho of novelty detection
    threshold_error : bound on its distance to the one of the learner that drops nothing
    """

    norm2: float = 0.0
    distance: float = 0.0
    gradients: float = 0.0
    scale: float = 0.0
    threshold: float = 0.0
    threshold_error: float = 0.0


class Steps(NamedTuple):
    """A block of steps.

    Attributes
    ----------
    block : predictions and coefficients
    eta, rho : (b,) step sizes and decays; 0 and 1 in rows that are only predicted
    targets : (b, d) what the loss compared the predictions with
    norm2 : (b,) |f|^2 before each row
    """

    block: Block
    eta: Array
    rho: Array
    targets: Array
    norm2: Array


def take_steps(
    loss: Loss,
    schedule: Schedule,
    alpha: float,
    discount: float,
    task: Task,
    Y: Array,
    times: Times,
    progress: Progress,
) -> Steps:
    """Go through a block; `progress` is brought up to date."""
    if isinstance(schedule, DistanceOverGradients):
        return _adaptive(loss, schedule, alpha, discount, task, Y, progress)
    eta = np.where(task.steps, schedule.rate(np.maximum(times, 1)), 0.0)
    rho = np.where(task.steps, discount * (1.0 - eta * alpha), 1.0)
    targets = Y.copy()
    block = None
    if isinstance(loss, Squared):
        missing = np.isnan(Y)
        if not missing.any():
            block = squared_loss(task, Y, eta, rho)
        elif not missing[task.steps].any():
            block = squared_loss(task, np.where(missing, 0.0, Y), eta, rho)
    if block is None and not loss.unsupervised:
        block = fixed_point(task, lambda rows, Z: loss.gradient(Y[rows], Z), eta, rho)
    if block is None:
        threshold = _Threshold(loss, targets, progress)

        def step(j: int, z: Array, g: Array) -> tuple[float, float]:
            threshold.move(z, float(eta[j]))
            return float(eta[j]), float(rho[j])

        block = any_loss(task, threshold.gradient, step)
    norm2 = _norms(block, rho, energies(task.gram, block.a), progress)
    return Steps(block, eta, rho, targets, norm2)


class _Threshold:
    """Gradients of the loss; for novelty detection against a target that moves."""

    def __init__(self, loss: Loss, targets: Array, progress: Progress) -> None:
        self._loss, self._targets, self._progress = loss, targets, progress

    def gradient(self, j: int, z: Array) -> Array:
        if isinstance(self._loss, Novelty):
            self._targets[j] = self._progress.threshold
        gradients: Array = self._loss.gradient(self._targets[j : j + 1], z[None])[0]
        return gradients

    def loss(self, j: int, z: Array) -> float:
        """Loss of row j; without targets of its own it has no scale but that of the kernel."""
        value = 1.0 if self._loss.unsupervised else float(self._loss.value(self._targets[j : j + 1], z[None])[0])
        return value if isfinite(value) else 0.0

    def slope(self, z: Array) -> float:
        """Derivative of the loss in the threshold."""
        if isinstance(self._loss, Novelty):
            return self._loss.threshold_slope(self._progress.threshold, float(z[0]))
        return 0.0

    def move(self, z: Array, eta: float) -> None:
        if isinstance(self._loss, Novelty):
            self._progress.threshold -= eta * self.slope(z)


def _norms(block: Block, rho: Array, energy: Array, progress: Progress) -> Array:
    """|f|^2 before each row: |rho f + K(x, .) a|^2 = rho^2 |f|^2 + 2 rho <a, f(x)> + <a, K(x, x) a>."""
    changes = 2.0 * rho * np.einsum("jq,jq->j", block.a, block.z) + energy
    norm2: Array = _square(recursion(progress.norm2, rho**2, changes))
    progress.norm2 = float(norm2[-1])
    return norm2[:-1]


def _square(value: Any) -> Any:
    """A squared norm, from its sum: not below zero by rounding, and infinity when the sum overflowed."""
    return np.where(np.isnan(value), np.inf, np.maximum(value, 0.0))


def _adaptive(
    loss: Loss,
    schedule: DistanceOverGradients,
    alpha: float,
    discount: float,
    task: Task,
    Y: Array,
    progress: Progress,
) -> Steps:
    """Steps whose size depends on the gradients before them."""
    own = task.gram.diagonal_blocks()
    eta, rho, norm2 = np.zeros(len(Y)), np.ones(len(Y)), np.empty(len(Y))
    targets = Y.copy()
    threshold = _Threshold(loss, targets, progress)

    def step(j: int, z: Array, g: Array) -> tuple[float, float]:
        norm2[j] = progress.norm2
        size = float(g @ own[j] @ g)
        total = size + threshold.slope(z) ** 2
        if total > 0 and isfinite(total):
            # A gradient too large to be squared is not followed.
            progress.gradients += total
            progress.scale = max(progress.scale, threshold.loss(j, z) / sqrt(total))
            eta[j] = schedule.step(progress.distance, progress.gradients, progress.scale)
            if alpha > 0:
                # A step chosen from the data cannot be refused for eta alpha >= 1: it is shortened.
                eta[j] = min(eta[j], 0.5 / alpha)
        rho[j] = decay = discount * (1.0 - float(eta[j]) * alpha)
        taken = float(eta[j])
        threshold.move(z, taken)
        change = taken * (taken * size - 2.0 * decay * float(g @ z)) if taken > 0 else 0.0
        progress.norm2 = float(_square(decay * decay * progress.norm2 + change))
        progress.distance = max(progress.distance, sqrt(progress.norm2))
        return taken, decay

    block = any_loss(task, threshold.gradient, step)
    norm2[~task.steps] = 0.0
    return Steps(block, eta, rho, targets, norm2)
