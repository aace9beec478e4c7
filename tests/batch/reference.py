"""Slow twins of the batch estimators: dense matrices, one linear system, nothing clever."""

from __future__ import annotations

import numpy as np


class DenseRidge:
    """Ridge regression and its Gaussian process on observed pairs of a point and an output.

        (K + N) c + E b = y,  E' c = 0,   N = diag(alpha_output / w_point)

    Parameters
    ----------
    kernel : resolved operator-valued kernel
    Y : (n, d), nan where missing; or (n,) in long form, with `task`
    """

    def __init__(self, kernel, X, Y, alpha, weight=None, task=None, intercept=False, outputs=None):
        X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
        if task is None:
            Y = Y.reshape(len(X), -1)
            points, outs = np.nonzero(~np.isnan(Y))
            y, self.d = Y[points, outs], Y.shape[1]
        else:
            points, outs, y = np.arange(len(X)), np.asarray(task), Y
            self.d = int(outs.max()) + 1 if outputs is None else outputs
        weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float)
        used = weight[points] > 0
        points, outs, y = points[used], outs[used], y[used]
        self.kernel, self.X, self.pairs = kernel, X, points * self.d + outs
        self.N = np.diag(np.broadcast_to(alpha, self.d)[outs] / weight[points])
        self.E = np.eye(self.d)[outs] if intercept else np.zeros((len(y), 0))
        K = kernel.gram(X).dense()[np.ix_(self.pairs, self.pairs)]
        k = self.E.shape[1]
        self.A = np.block([[K + self.N, self.E], [self.E.T, np.zeros((k, k))]])
        solution = np.linalg.solve(self.A, np.concatenate([y, np.zeros(k)]))
        self.c, self.b = solution[: len(y)], solution[len(y) :]

    def _cross(self, X_new):
        """Rows (new point, output); columns (observed pair), then the intercepts."""
        K = self.kernel.gram(np.asarray(X_new, dtype=float), self.X).dense()[:, self.pairs]
        ones = np.tile(np.eye(self.d), (len(X_new), 1))[:, : self.E.shape[1]]
        return np.hstack([K, ones])

    def predict(self, X_new):
        """(m, d)"""
        return (self._cross(X_new) @ np.concatenate([self.c, self.b])).reshape(len(X_new), self.d)

    def covariance(self, X_new):
        """(m, d, d); the KKT matrix's inverse has what an unknown intercept adds (universal kriging)."""
        X_new = np.asarray(X_new, dtype=float)
        m, d = len(X_new), self.d
        cross = self._cross(X_new)
        joint = self.kernel.gram(X_new).dense() - cross @ np.linalg.solve(self.A, cross.T)
        blocks = joint.reshape(m, d, m, d)
        return np.stack([blocks[i, :, i, :] for i in range(m)])


def long_form(X, Y, weight=None):
    """The observed entries of Y as rows: X, y, task (and weight)."""
    points, task = np.nonzero(~np.isnan(Y))
    rows = X[points], Y[points, task], task
    return rows if weight is None else (*rows, weight[points])


def with_holes(Y, fraction=0.3, seed=0):
    """Y with some entries missing; every output is seen, and one row is wholly missing."""
    mask = np.random.default_rng(seed).random(Y.shape) < fraction
    mask[0], mask[1] = False, True
    return np.where(mask, np.nan, Y)


def leave_out_errors(fit, X, Y, weight=None, *, entry=False):
    """Weighted mean squared error of each output, (d,), predicting rows (or entries) from the others.

    Rows with the same inputs are left out together. `fit(X, Y, weight)` returns a predictor.
    """
    weight = np.ones(len(X)) if weight is None else weight
    Y = np.asarray(Y, dtype=float)
    total, mass = np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
    for x in np.unique(X, axis=0):
        rows = (x == X).all(axis=1)
        for outputs in range(Y.shape[1]) if entry else [slice(None)]:
            rest = Y.copy()
            rest[np.ix_(rows, np.arange(Y.shape[1])[outputs].reshape(-1))] = np.nan
            left = Y[rows] - fit(X, rest, weight).predict(x[None])
            seen = ~np.isnan(left)
            squares = np.where(seen, left, 0.0) ** 2 * weight[rows][:, None]
            total[outputs] += squares.sum(axis=0)[outputs]
            mass[outputs] += (seen * weight[rows][:, None]).sum(axis=0)[outputs]
    return total / mass


def manifold_ridge(kernel, X, Y, alpha, graph, alpha_graph, X_new, weight=None, intercept=False):
    """Predictions (m, d) of ridge regression with the manifold penalty, values of f at all inputs as the unknowns.

        minimise  sum_q (sum_i w_i (y_iq - f_iq - b_q)^2 + alpha_graph sum_lm g_lm (f_lq - f_mq)^2) / alpha_q + f'K^-1 f

    over f, one number for each input and output, and b; then f(x) = K(x, X) K^-1 f + b. `Y` has nan where an output was
    not observed, and the kernel matrix K must be regular.
    """
    (n, d), weight = Y.shape, np.ones(len(Y)) if weight is None else weight
    alpha = np.broadcast_to(alpha, d)
    K = kernel.gram(X).dense()
    A, right = np.zeros((n * d + d, n * d + d)), np.zeros(n * d + d)
    A[: n * d, : n * d] = np.linalg.inv(K)
    for q in range(d):
        for i in np.flatnonzero(~np.isnan(Y[:, q])):
            both = np.zeros(n * d + d)
            both[[i * d + q, n * d + q]] = 1.0
            A += np.outer(both, both) * weight[i] / alpha[q]
            right += both * Y[i, q] * weight[i] / alpha[q]
        for one in range(n):
            for other in range(n):
                gap = np.zeros(n * d + d)
                gap[one * d + q] += 1.0
                gap[other * d + q] -= 1.0
                A += alpha_graph * graph[one, other] * np.outer(gap, gap) / alpha[q]
    size = n * d + (d if intercept else 0)
    found = np.linalg.solve(A[:size, :size], right[:size])
    values = kernel.gram(X_new, X).dense() @ np.linalg.solve(K, found[: n * d])
    return values.reshape(-1, d) + (found[n * d :] if intercept else 0.0)
