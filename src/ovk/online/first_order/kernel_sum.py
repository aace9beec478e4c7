"""One function with many kernels: the kernel is a sum whose weights are learned along the stream, by betting.

The function is f = sum_m f_m with f_m in the space H_m of K_m. The squared loss is convex, so for every u = sum_m u_m

    sum_t |f(x_t) - y_t|^2 - |u(x_t) - y_t|^2  <=  2 sum_m sum_t <G_mt, f_m - u_m>,   G_mt = K_m(x_t, .) g_t,

with g_t = f(x_t) - y_t: each f_m may be chosen by a separate algorithm from the gradients of the sum. It bets
on the coin -G_mt. With theta_m = -sum_s G_ms, S_m = sum_s |G_ms|, L_m the largest |G_ms|, and the wealth
W_m = epsilon - sum_s <G_ms, f_m,s>,

    f_m = beta_m theta_m,   beta_m = tanh(|theta_m| / (S_m + 2 L_m)) / |theta_m| * W_m / L_m.

All theta_m have the same coefficients -g_s, so f(x) = -sum_s (sum_m beta_m K_m)(x, x_s) g_s. There is no step size.

**Bound.** Let L_m = 1, F = exp(theta^2 / (2 (1 + S))) / sqrt(1 + S), and G the next gradient, c = |G| <= 1. The new
wealth, W (1 - <G, theta> tanh(theta / (S + 2)) / theta), is linear in q = <G, theta> / |theta|. The new F is convex in
q, so its largest values are at q = +-c. On this line it is convex on either side of 0, equal to F at 0, and at q = +-1

    1 -+ tanh(theta / (S + 2)) >= exp(-+ theta / (S + 2) - theta^2 / (2 (S + 2)^2)) >= F_new / F,

as ln cosh r <= r^2 / 2 and ln(1 + 1/s) >= 1 / (1 + s). So W >= epsilon F. With the convex conjugate of F, and L again

    sum_t <G_mt, f_m - u_m> <= epsilon + |u_m| sqrt(Q ln(1 + Q |u_m|^2 / b^2)),
    Q = L (L + S),   b = epsilon / sqrt(1 + S / L).

The sum over m of |u_m| is the penalty of MovKL with r = 1, whose weights are d_m = |f_m| / sum |f_j|.

L_m is not known before: it is kappa_m g, with kappa_m^2 the largest |K_m(x, x)| and g the largest |g_t| before row t. A
larger gradient is shortened, once per factor by which these grow, epsilon is g^2, and predictions are clipped to a
radius B >= |y|, which never increases <g_t, f(x_t)>. With |y_t|, |u(x_t)| <= B this adds at most
8 B^2 (1 + sum_m ln(kappa_m / first kappa_m)), and the ratio of the last to the first L within the logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ovk.base import Array, State
from ovk.online.shared.rows import RowBuffer
from ovk.ovkernels import Expansion, OperatorKernel, WeightedSum

#: Rows whose kernel values are computed at once.
BLOCK_ROWS = 64


class GradientPoints(RowBuffer):
    """Inputs x_s (n, p) and coefficients -g_s (n, d)."""

    _stored = {"arrays": ("n p", "n d")}


@dataclass
class KernelSum(State):
    """f, with |theta_m|^2, S_m, W_m and kappa_m for each kernel, the largest |g_s|, and a bound on the sum of the W_m.

    The wealth may grow only by the gains, at most |g_t| B a row. This holds by itself if |y| <= B in all rows; else it
    keeps f from growing exponentially while it is clipped.
    """

    _state_classes = {"points": GradientPoints}
    _stored = {"kernels": list[OperatorKernel], "squares lengths wealth reach": "m"}

    kernels: list[OperatorKernel]
    points: GradientPoints
    squares: Array
    lengths: Array
    wealth: Array
    reach: Array
    largest: float = 0.0
    gains: float = 0.0

    @classmethod
    def start(cls, kernels: Sequence[OperatorKernel], p: int, d: int) -> Self:
        points, zeros = GradientPoints((np.empty((0, p)), np.empty((0, d)))), np.zeros(len(kernels))
        return cls(list(kernels), points, zeros, zeros, zeros, zeros)

    def weights(self) -> Array:
        """(M,) beta."""
        L, theta = self.reach * self.largest, np.sqrt(self.squares)
        shares = np.tanh(theta / np.maximum(self.lengths + 2.0 * L, 1e-300)) / np.maximum(theta, 1e-300)
        return np.where(theta > 0, shares * self.wealth / np.maximum(L, 1e-300), 0.0)

    def norms(self) -> Array:
        """(M,) |f_m|."""
        return np.asarray(self.weights() * np.sqrt(self.squares))

    def expansion(self) -> Expansion:
        X, C = self.points.arrays
        return Expansion(WeightedSum(self.kernels, self.weights()), X, C)

    def learn(self, X: Array, Y: Array, radius: Array) -> Array:
        """Predictions (n, d) of rows before each is learned, clipped to the norms `radius` (n,)."""
        blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, len(X), BLOCK_ROWS)]
        return np.concatenate([np.empty((0, Y.shape[1])), *(self._block(X[i], Y[i], radius[i]) for i in blocks)])

    def _block(self, X: Array, Y: Array, radius: Array) -> Array:
        Z, C = np.empty(Y.shape), np.zeros(Y.shape)
        grams = [kernel.gram(X) for kernel in self.kernels]
        reaches = np.sqrt(np.stack([gram.block_norms() for gram in grams], axis=1))
        support, known = self.points.arrays
        base = np.stack([kernel.product(X, support, known) for kernel in self.kernels], axis=1)
        observed = ~np.isnan(Y)
        for j in range(len(X)):
            row = slice(j, j + 1)
            # theta_m at x_j, (M, d).
            theta = base[j] + np.concatenate([gram.part_matmat(row, slice(0, j), C[:j]) for gram in grams])
            parts = self.weights()[:, None] * theta
            z = parts.sum(axis=0)
            Z[j] = z * min(1.0, float(radius[j]) / max(float(np.sqrt(z @ z)), 1e-300))
            if not observed[j].any():
                continue
            a = np.where(observed[j], Y[j], Z[j]) - Z[j]
            C[j] = a = a * self._within_bounds(float(np.sqrt(a @ a)), reaches[j], float(radius[j]))
            forms = np.array([a @ gram.part_matmat(row, row, a[None])[0] for gram in grams])
            self.squares = np.maximum(self.squares + 2.0 * theta @ a + forms, 0.0)
            self.lengths = self.lengths + np.sqrt(np.maximum(forms, 0.0))
            self.wealth = np.clip(self.wealth + parts @ a, 0.0, self.gains)
        learned = C.any(axis=1)
        self.points.append(X[learned], C[learned])
        return Z

    def _within_bounds(self, length: float, reach: Array, radius: float) -> float:
        """The factor of a gradient of this length, 1 unless it exceeds the bounds; then raise the bounds."""
        known, grown = self.largest > 0, np.maximum(self.reach, reach)
        shares = self.reach[grown > 0] / grown[grown > 0]
        factor = min(1.0, self.largest / max(length, 1e-300), float(shares.min(initial=1.0))) if known else 1.0
        more = max(length**2 - self.largest**2, 0.0)
        self.wealth, self.gains = self.wealth + more, self.gains + len(reach) * more + length * radius
        self.largest, self.reach = max(self.largest, length), grown
        return factor
