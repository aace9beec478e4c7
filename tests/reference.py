"""The slow twin of every fast path: each thing straight from its definition, one pair of points at a time.

Nothing here is imported from the code under test but class names, and nothing here is clever.
"""

import re
from functools import singledispatch
from itertools import combinations, product
from math import comb, exp, factorial, prod, sqrt

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import gamma, kv
from sklearn.base import clone

from ovk import curves, kernels, operators, ovkernels

# --------------------------------------------------------------------------------------------- scalar kernels


@singledispatch
def scalar(kernel, x, z):
    """k(x, z) of one pair."""
    raise NotImplementedError(type(kernel))


def _scaled_square(kernel, x, z):
    scales = np.broadcast_to(np.asarray(kernel.length_scale, dtype=float), len(x))
    return sum(((a - b) / scale) ** 2 for a, b, scale in zip(x, z, scales, strict=True))


@scalar.register
def _(kernel: kernels.Gaussian, x, z):
    return exp(-_scaled_square(kernel, x, z) / 2)


@scalar.register
def _(kernel: kernels.Intercept, x, z):
    return kernel.variance


@scalar.register
def _(kernel: kernels.Laplacian, x, z):
    return exp(-sum(abs(a - b) for a, b in zip(x, z, strict=True)) / kernel.length_scale)


@scalar.register
def _(kernel: kernels.Matern, x, z):
    r = sqrt(2 * kernel.nu * _scaled_square(kernel, x, z))
    return 1.0 if r == 0 else 2 ** (1 - kernel.nu) / gamma(kernel.nu) * r**kernel.nu * kv(kernel.nu, r)


@scalar.register
def _(kernel: kernels.RationalQuadratic, x, z):
    return (1 + _scaled_square(kernel, x, z) / (2 * kernel.alpha)) ** (-kernel.alpha)


def _dot(x, z):
    return sum(a * b for a, b in zip(x, z, strict=True))


@scalar.register
def _(kernel: kernels.Polynomial, x, z):
    return (kernel.gamma * _dot(x, z) + kernel.coef0) ** kernel.degree


@scalar.register
def _(kernel: kernels.Linear, x, z):
    return _dot(x, z)


@scalar.register
def _(kernel: kernels.Tanimoto, x, z):
    union = _dot(x, x) + _dot(z, z) - _dot(x, z)
    return _dot(x, z) / union if union > 0 else 1.0


@scalar.register
def _(kernel: kernels.Precomputed, x, z):
    return kernel.matrix[int(x[0])][int(z[0])]


@scalar.register
def _(kernel: kernels.Function, x, z):
    return kernel.function(np.array([x]), np.array([z]))[0, 0]


@scalar.register
def _(kernel: kernels.SklearnKernel, x, z):
    # The one of `instances`: a constant times the Gaussian kernel.
    constant, rbf = kernel.kernel.k1, kernel.kernel.k2
    return constant.constant_value * exp(-sum((x - z) ** 2) / (2 * rbf.length_scale**2))


@scalar.register
def _(kernel: kernels.Sum, x, z):
    return scalar(kernel.left, x, z) + scalar(kernel.right, x, z)


@scalar.register
def _(kernel: kernels.Product, x, z):
    return scalar(kernel.left, x, z) * scalar(kernel.right, x, z)


@scalar.register
def _(kernel: kernels.Scaled, x, z):
    return kernel.factor * scalar(kernel.kernel, x, z)


def scalar_gram(kernel, X, Z=None):
    """k(x_i, z_j), one pair at a time."""
    return np.array([[scalar(kernel, x, z) for z in (X if Z is None else Z)] for x in X])


# -------------------------------------------------------------------------------------------------- operators


@singledispatch
def operator(T):
    """The matrix of an output operator."""
    raise NotImplementedError(type(T))


@operator.register
def _(T: operators.Identity):
    return np.array([[float(i == j) for j in range(T.output_dim)] for i in range(T.output_dim)])


@operator.register
def _(T: operators.Dense):
    return np.array(T.B, dtype=float)


@operator.register
def _(T: operators.LowRank):
    W, own = np.array(T.W), np.broadcast_to(T.diag, len(T.W))
    return np.array([[_dot(a, b) + own[i] * (i == j) for j, b in enumerate(W)] for i, a in enumerate(W)])


@operator.register
def _(T: operators.MixedEffect):
    d = T.output_dim
    return np.array([[1.0 if i == j else T.omega for j in range(d)] for i in range(d)])


@operator.register
def _(T: operators.GraphLaplacian):
    M = np.array(T.M.toarray() if hasattr(T.M, "toarray") else T.M, dtype=float)
    own = np.diagonal(M) + T.self_weight
    d = len(M)
    L = np.zeros((d, d))
    for i in range(d):
        L[i, i] += own[i]
        for j in range(d):
            if i != j:
                # 1/2 m_ij (f_i - f_j)^2, seen from i and from j
                L[i, i] += M[i, j]
                L[i, j] -= M[i, j]
    return np.linalg.pinv(L, rcond=1e-12)


@operator.register
def _(T: operators.Cluster):
    def entry(i, j):
        if i == j:
            return 1.0
        return T.within if T.assignments[i] == T.assignments[j] else T.between

    d = len(T.assignments)
    return np.array([[entry(i, j) for j in range(d)] for i in range(d)])


@operator.register
def _(T: operators.Tree):
    ways = _ways(T.hierarchy)
    d = len(ways)
    shared = np.array(
        [
            [sum(T.decay**depth for depth, node in ways[i] if (depth, node) in ways[j]) for j in range(d)]
            for i in range(d)
        ]
    )
    return np.array([[shared[i, j] / sqrt(shared[i, i] * shared[j, j]) for j in range(d)] for i in range(d)])


def _ways(hierarchy):
    """The (depth, node) above and at each leaf; a node of a nested list is known by the leaves below it."""
    if isinstance(hierarchy, dict):

        def path(node):
            return [*path(hierarchy[node]), node] if node in hierarchy else [node]

        leaves = sorted(node for node in hierarchy if node not in hierarchy.values())
        return [set(enumerate(path(leaf))) for leaf in leaves]
    ways = {}

    def leaves_below(node):
        return [leaf for child in node for leaf in leaves_below(child)] if isinstance(node, list) else [node]

    def visit(node, above):
        here = above | {(len(above), tuple(leaves_below(node)))}
        if isinstance(node, list):
            for child in node:
                visit(child, here)
        else:
            ways[node] = here

    visit(hierarchy, set())
    return [ways[i] for i in range(len(ways))]


# ------------------------------------------------------------------------------------ operator-valued kernels


@singledispatch
def block(K, x, z):
    """The d x d matrix K(x, z)."""
    raise NotImplementedError(type(K))


@block.register
def _(K: ovkernels.Separable, x, z):
    return scalar(K.kernel, x, z) * operator(K.operator)


@block.register
def _(K: ovkernels.WeightedSum, x, z):
    weights = [1.0] * len(K.kernels) if K.weights is None else K.weights
    return sum(w * block(part, x, z) for w, part in zip(weights, K.kernels, strict=True))


@block.register
def _(K: ovkernels.Hadamard, x, z):
    A, B = block(K.left, x, z), block(K.right, x, z)
    d = len(A)
    return np.array([[A[i, j] * B[i, j] for j in range(d)] for i in range(d)])


@block.register
def _(K: ovkernels.Diagonal, x, z):
    d = len(K.kernels)
    return np.array([[scalar(K.kernels[i], x, z) if i == j else 0.0 for j in range(d)] for i in range(d)])


@block.register
def _(K: ovkernels.Transformable, x, z):
    d = len(x) if K.transforms is None else len(K.transforms)

    def view(i, x):
        if K.transforms is None:
            return [x[i]]
        transform = K.transforms[i]
        return transform(np.array([x]))[0] if callable(transform) else np.array(transform) @ x

    return np.array([[scalar(K.kernel, view(i, x), view(j, z)) for j in range(d)] for i in range(d)])


@block.register
def _(K: ovkernels.CurlFree, x, z):
    return -hessian(K.kernel, (x - z) / K.kernel.length_scale)


@block.register
def _(K: ovkernels.DivFree, x, z):
    H = hessian(K.kernel, (x - z) / K.kernel.length_scale)
    return H - np.trace(H) * np.eye(len(H))


def hessian(kernel, u):
    """Second derivatives of u -> phi(|u|^2), worked out by hand for each profile."""
    r, I, uu = sqrt(_dot(u, u)), np.eye(len(u)), np.outer(u, u)  # noqa: E741
    if isinstance(kernel, kernels.Gaussian):
        return exp(-(r**2) / 2) * (uu - I)
    if isinstance(kernel, kernels.RationalQuadratic):
        a, base = kernel.alpha, 1 + r**2 / (2 * kernel.alpha)
        return (a + 1) / a * base ** (-a - 2) * uu - base ** (-a - 1) * I
    if kernel.nu == 2.5:
        s = sqrt(5) * r
        return 5 / 3 * exp(-s) * (5 * uu - (1 + s) * I)
    if kernel.nu == 3.5:
        s = sqrt(7) * r
        return 7 / 15 * exp(-s) * (7 * (1 + s) * uu - (3 + 3 * s + s**2) * I)
    raise NotImplementedError(kernel)


def gram(K, X, Z=None):
    """The (n d, m d) matrix of all blocks."""
    return np.block([[block(K, x, z) for z in (X if Z is None else Z)] for x in X])


# --------------------------------------------------------------------------------------------------- learning


def solve(K, Y, alpha):
    """(K + alpha I)^-1 Y for the dense (n d, n d) matrix K."""
    return np.linalg.solve(K + alpha * np.eye(len(K)), Y.reshape(-1)).reshape(Y.shape)


def ridge(K, Y, alpha, weight=None, intercept=False):
    """Coefficients (n, d) and intercept (d,) that minimise

        sum over the entries seen of (w_i / alpha_q) (y_iq - f_q(x_i) - b_q)^2 + |f|^2,

    nan in Y for entries not seen: (K + diag(alpha_q / w_i)) c + E b = y on them, E'c = 0 and c = 0 elsewhere.
    """
    n, d = Y.shape
    alphas = np.broadcast_to(alpha, d)
    w = np.ones(n) if weight is None else weight
    seen = [(i, q) for i in range(n) for q in range(d) if not np.isnan(Y[i, q])]
    N, k = len(seen), d if intercept else 0
    system, right = np.zeros((N + k, N + k)), np.zeros(N + k)
    for a, (i, q) in enumerate(seen):
        for b, (j, p) in enumerate(seen):
            system[a, b] = K[i * d + q, j * d + p] + (alphas[q] / w[i] if a == b else 0.0)
        if intercept:
            system[a, N + q] = system[N + q, a] = 1.0
        right[a] = Y[i, q]
    found = np.linalg.solve(system, right)
    C = np.zeros((n, d))
    for a, (i, q) in enumerate(seen):
        C[i, q] = found[a]
    return C, found[N:] if intercept else np.zeros(d)


def leave_one_out(K, Y, alpha, weight=None, intercept=False, entry=False):
    """Residuals (n, d) at what was left out (a row, or an entry), one new fit for each; nan stays nan."""
    n, d = Y.shape
    residuals = np.full((n, d), np.nan)
    out = [[(i, q)] for i in range(n) for q in range(d)] if entry else [[(i, q) for q in range(d)] for i in range(n)]
    for left in out:
        rest = Y.copy()
        for i, q in left:
            rest[i, q] = np.nan
        C, b = ridge(K, rest, alpha, weight, intercept)
        fitted = (K @ C.reshape(-1)).reshape(n, d) + b
        for i, q in left:
            residuals[i, q] = Y[i, q] - fitted[i, q]
    return residuals


def explained(K, cross, alpha, d):
    """K(x, X) (K + alpha I)^-1 K(X, x) at each new point, (m, d, d); `cross` is (m d, N)."""
    total = cross @ np.linalg.solve(K + alpha * np.eye(len(K)), cross.T)
    return np.array([total[i * d : (i + 1) * d, i * d : (i + 1) * d] for i in range(len(cross) // d)])


# ------------------------------------------------------------------------------------------------ derivatives


def derivative(f, t, h=1e-2):
    """f'(t) by central differences of order 8."""
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    return sum(w * (f(t + k * h) - f(t - k * h)) for k, w in weights.items()) / h


def jacobian(f, X, h=1e-2):
    """(n, d, p) derivatives of f, a function of (n, p) arrays with values (n, d), in each coordinate."""
    columns = [derivative(lambda t, e=e: f(X + t * e), 0.0, h) for e in np.eye(X.shape[1])]
    return np.stack(columns, axis=2)


def curl(J):
    """df_i/dx_k - df_k/dx_i for i < k, from Jacobians (n, p, p): (n, p (p-1) / 2)."""
    p = J.shape[1]
    values = [J[:, i, k] - J[:, k, i] for i, k in combinations(range(p), 2)]
    assert len(values) == comb(p, 2)
    return np.stack(values, axis=1)


def divergence(J):
    """sum_i df_i/dx_i, (n,)."""
    return sum(J[:, i, i] for i in range(J.shape[1]))


def moved(thing, name, step):
    """A copy of `thing` with one hyper-parameter larger by `step`.

    `name` is what `gradient` calls it, such as ``kernels[0]__kernel__length_scale[1]``.
    """
    copy = clone(thing)
    owner = copy
    *path, last = name.split("__")
    for part in path:
        owner = _value(owner, *_name_and_index(part))
    attribute, index = _name_and_index(last)
    value = getattr(owner, attribute)
    if index == ():
        setattr(owner, attribute, value + step)
        return copy
    array = np.array(value, dtype=float)
    array[index] += step
    if isinstance(owner, operators.Dense):
        # Half of it goes to the mirror image: the operator stays symmetric.
        array = (array + array.T) / 2
    setattr(owner, attribute, array)
    return copy


def _name_and_index(part):
    found = re.fullmatch(r"(\w+)(?:\[([\d,]+)\])?", part)
    return found[1], tuple(map(int, found[2].split(","))) if found[2] else ()


def _value(owner, attribute, index):
    value = getattr(owner, attribute)
    for i in index:
        value = value[i]
    return value


# ---------------------------------------------------------------------------------------------------- streams


def olok(K, X, Y, gradient, alpha, rate, size=None, discount=1.0, average=False, weights=None):
    """One gradient step after another: predictions before each, and [point, coefficient, running sum, step] of what
    is kept.

    ``gradient(y, z)``; ``rate(t, kept, x, z, g, y)``; ``size(t)`` points are kept after step t. A row without any
    output is predicted and not counted. ``weights`` multiply the losses of the rows.
    """
    kept, Z, t = [], [], 0
    for x, y, w in zip(X, Y, np.ones(len(X)) if weights is None else weights, strict=True):
        blocks = [block(K, x, point) for point, _, _, _ in kept]
        z = sum((B @ a for B, (_, a, _, _) in zip(blocks, kept, strict=True)), np.zeros(len(y)))
        mean = sum((B @ s for B, (_, _, s, _) in zip(blocks, kept, strict=True)), np.zeros(len(y))) / max(t, 1)
        Z.append(mean if average else z)
        if np.isnan(y).all():
            continue
        t += 1
        g = w * gradient(y, z)
        eta = rate(t, kept, x, z, g, y)
        kept = [[point, discount * (1 - eta * alpha) * a, s, born] for point, a, s, born in kept]
        kept.append([x, -eta * g, np.zeros(len(y)), t])
        if size is not None:
            kept = [entry for entry in kept if entry[3] > t - size(t)]
        for entry in kept:
            entry[2] = entry[2] + entry[1]
    return np.array(Z), kept


def norma(k, X, y, kind, nu, alpha, rate, theta=0.0, bias=False):
    """NORMA as it is written, one row at a time: predictions before each row, the threshold and the bias at the end.

    kind : "classification", "regression" or "novelty"
    """
    points, a, b, Z = [], [], 0.0, []
    for t, (x, label) in enumerate(zip(X, y, strict=True), 1):
        f = sum(c * k(x[None], z[None])[0, 0] for c, z in zip(a, points, strict=True)) + b
        Z.append(f)
        eta = rate(t)
        a = [(1 - eta * alpha) * c for c in a]
        if kind == "regression":
            wrong, sign = abs(label - f) > theta, np.sign(label - f)
            theta = max(theta + (1 - nu) * eta if wrong else theta - nu * eta, 0.0)
        else:
            sign = label if kind == "classification" else 1.0
            wrong = sign * f < theta
            theta = theta - (1 - nu) * eta if wrong else theta + nu * eta
        if wrong:
            points.append(x)
            a.append(eta * sign)
            b += eta * sign if bias else 0.0
    return np.array(Z), theta, b


def squared_norm(K, kept):
    """|f|^2 of f = sum K(x_i, .) a_i."""
    return sum(a @ block(K, x, z) @ b for x, a, _, _ in kept for z, b, _, _ in kept)


# -------------------------------------------------------------------------------------------- feature maps


def taylor_features(x, length_scale, degree, centre):
    """exp(-|u|^2 / 2) u^a / sqrt(a!) for each multi-index a of degree at most `degree`: {a: value}."""
    u = (np.asarray(x) - centre) / length_scale
    return {
        a: exp(-_dot(u, u) / 2) * prod(t**k / sqrt(factorial(k)) for t, k in zip(u, a, strict=True))
        for a in product(range(degree + 1), repeat=len(u))
        if sum(a) <= degree
    }


def wave_amplitude(K, w):
    """A(w) with K(x, z) = E cos(w . (x - z)) A(w), for kernels of unit variance, written out for each."""
    if isinstance(K, ovkernels.CurlFree):
        return np.outer(w, w) * K.kernel.length_scale**2
    if isinstance(K, ovkernels.DivFree):
        return (_dot(w, w) * np.eye(len(w)) - np.outer(w, w)) * K.kernel.length_scale**2
    return operator(K.operator)


# -------------------------------------------------------------------------------- regret of the forecaster


def feature_forecasts(phi, Y, alpha, project=None):
    """The nonlinear ridge forecaster, from its definition: at each row a least-squares problem that holds the rows
    before it and the row itself with the label 0.

    phi : (n, d, m) features; ``project(t)`` gives a basis (m, k) of the subspace in which row t is predicted.
    """
    n, d, m = phi.shape
    F = np.zeros((n, d))
    for t in range(n):
        basis = np.eye(m) if project is None else project(t)
        if basis.shape[1] == 0:
            continue
        rows = np.concatenate([phi[: t + 1].reshape(-1, m) @ basis, sqrt(alpha) * np.eye(basis.shape[1])])
        labels = np.concatenate([Y[:t].reshape(-1), np.zeros(d + basis.shape[1])])
        F[t] = phi[t] @ basis @ np.linalg.lstsq(rows, labels)[0]
    return F


# ---------------------------------------------------------------------------------------------- output structure


@operator.register
def _(T: operators.MeanRegularized):
    """The inverse of the penalty's matrix."""
    d = T.output_dim
    penalty = [[(T.own + T.spread) * (i == j) - T.spread / d for j in range(d)] for i in range(d)]
    return np.linalg.inv(np.array(penalty))


# --------------------------------------------------------------------------------------------- proximal steps


def plain_proximal_gradient(smooth, penalty, start, step, rounds, tol=0.0):
    """Forward, backward, thousands of times, until nothing moves: no momentum, no step control."""
    C = start
    for _ in range(rounds):
        before, C = C, penalty.prox(C - step * smooth(C)[1], step)
        if tol and np.abs(C - before).max() <= tol:
            break
    return C


# ----------------------------------------------------------------------------------------------------- curves


def quadrature(grid):
    """Weights of the trapezoidal rule: every gap gives half of its length to each of its ends."""
    t = [float(x) for x in grid.points]
    w = [0.0] * len(t)
    for j in range(len(t) - 1):
        w[j] += (t[j + 1] - t[j]) / 2
        w[j + 1] += (t[j + 1] - t[j]) / 2
    if grid.period is not None:
        gap = grid.period - (t[-1] - t[0])
        w[0] += gap / 2
        w[-1] += gap / 2
    return np.array(w)


@operator.register
def _(T: operators.Multiplication):
    if isinstance(T.function, kernels.ScalarKernel):
        return np.diag([scalar(T.function, [t], [0.0]) for t in T.grid.points])
    return np.diag(np.array(T.function, dtype=float))


@operator.register
def _(T: operators.TensorProduct):
    M = np.eye(1)
    for part in T.operators:
        M = np.kron(M, operator(part))
    return M


@operator.register
def _(T: operators.Integral):
    if isinstance(T.grid, curves.ProductGrid):
        sides = [
            np.eye(side.count) if isinstance(side, curves.Components) else operator(operators.Integral(T.kernel, side))
            for side in T.grid.axes
        ]
        M = np.eye(1)
        for part in sides:
            M = np.kron(M, part)
        return M
    t, w = T.grid.points, quadrature(T.grid)
    k = kernels.Laplacian(1.0) if T.kernel is None else T.kernel
    d = len(t)
    M = np.array([[np.sqrt(w[i] * w[j]) * scalar(k, [t[i]], [t[j]]) for j in range(d)] for i in range(d)])
    if T.lag is not None:
        delta = (t[-1] - t[0]) / (d - 1)
        h = [1 / (1 + exp(-(one - t[0] - T.lag) / delta)) for one in t]
        M = np.array([[h[i] * M[i, j] * h[j] for j in range(d)] for i in range(d)])
    if T.n_eigen is None:
        return M
    values, vectors = np.linalg.eigh(M)
    return sum(values[j] * np.outer(vectors[:, j], vectors[:, j]) for j in range(d - T.n_eigen, d))


@scalar.register
def _(kernel: kernels.Periodic, x, z):
    r = kernel.period / (2 * np.pi)
    circle = [np.array([r * np.cos(v / r) for v in u] + [r * np.sin(v / r) for v in u]) for u in (x, z)]
    return scalar(kernel.kernel, *circle)


@scalar.register
def _(kernel: kernels.Mapped, x, z):
    return scalar(kernel.kernel, *(np.array([u @ column for column in kernel.components.T]) for u in (x, z)))


@scalar.register
def _(kernel: kernels.OnColumns, x, z):
    return scalar(kernel.kernel, *(np.array([u[column] for column in kernel.columns]) for u in (x, z)))


@scalar.register
def _(kernel: kernels.OnCurves, x, z):
    grid, times = kernel.grid, None
    if kernel.window is not None:
        start, stop = kernel.window
        spacing = (grid.points[-1] - grid.points[0]) / (len(grid.points) - 1)
        grid = curves.Grid(np.linspace(start, stop, round((stop - start) / spacing) + 1))
        times = np.array([t - kernel.lag for t in grid.points])
    roots = np.sqrt(quadrature(grid))
    seen = []
    for u in (x, z):
        curve = np.array(u, dtype=float)
        if times is not None:
            ends = kernel.grid.points[0], kernel.grid.points[-1]
            curve = CubicSpline(kernel.grid.points, curve)(np.clip(times, *ends))
        for _ in range(kernel.derivative):
            curve = np.gradient(curve, grid.points, edge_order=2)
        seen.append(roots * curve)
    return scalar(kernel.kernel, *seen)


# ----------------------------------------------------------------------------------------- structured outputs


def nearest(kernel, anchors, w, candidates):
    """Positions of candidates from the nearest to the farthest from h = sum_j w_j phi(z_j), by the full distance."""
    own = sum(w[i] * w[j] * one_kernel(kernel, anchors[i], anchors[j]) for i in range(len(w)) for j in range(len(w)))
    distances = [
        own - 2 * sum(w[j] * one_kernel(kernel, anchors[j], y) for j in range(len(w))) + one_kernel(kernel, y, y)
        for y in candidates
    ]
    return sorted(range(len(candidates)), key=lambda i: (round(distances[i], 9), i))


def one_kernel(kernel, y, z):
    """k(y, z) of one pair of outputs."""
    wrap = (lambda one: np.asarray(one)[None, :]) if isinstance(y, np.ndarray) else (lambda one: [one])
    return kernel(wrap(y), wrap(z))[0, 0]


def min_max(y, z):
    """Sum of minima over sum of maxima of two weighted sets."""
    parts = set(y) | set(z)
    low = sum(min(y.get(part, 0), z.get(part, 0)) for part in parts)
    high = sum(max(y.get(part, 0), z.get(part, 0)) for part in parts)
    return low / high if high else 1.0


# -------------------------------------------------------------------------------------------- feature maps


# ------------------------------------------------------------------------------------- intervals of streams


def aci_radii(scores, miss, rate, window, widest=None):
    """Radii of adaptive conformal inference, each from all scores before it; nan scores are passed over."""
    radii, level, past = [], miss, []
    for s in scores:
        recent = sorted(past[-window:])
        k = int(np.ceil((len(recent) + 1) * (1 - level) - 1e-9))
        if level <= 0 or (level < 1 and k > len(recent)):
            enough = widest is not None and len(recent) >= (1 - miss) / miss - 1e-9
            radius = widest * recent[-1] if enough else np.inf
        elif level >= 1:
            radius = -1.0
        else:
            radius = recent[k - 1]
        radii.append(radius)
        if not np.isnan(s):
            level += rate * (miss - (s > radius))
            past.append(s)
    return radii


def rolling_radii(scores, miss, window, step, rate, first=8):
    """Quantiles of the last scores, looked up after 8, 16, 32, ... of them and then after every `step`.

    Their level moves by `rate` for every score that was a miss more or less than it should.
    """
    radii, radius, past, due, aim, errors = [], np.inf, [], first, miss, []
    for s in scores:
        radii.append(radius)
        if not np.isnan(s):
            past.append(s)
            if radius < np.inf:
                errors.append(s > radius)
            if len(past) == due:
                due += min(len(past), step)
                aim = min(max(aim + rate * (len(errors) * miss - sum(errors)), 0.0), 1.0)
                errors = []
                recent = sorted(past[-window:])
                k, asked = (int(np.ceil((len(recent) + 1) * (1 - a) - 1e-9)) for a in (aim, miss))
                radius = recent[min(max(k, 1), len(recent)) - 1] if asked <= len(recent) else np.inf
    return radii


def pid_radii(scores, miss, rate, gain, saturation, window, first=10):
    """Radii of conformal PID control without seasons, from sums over all rows before."""
    radii, past, errors, steps, start = [], [], [], [], 0.0
    for s in scores:
        if len(past) < first:
            radius = np.inf
        else:
            t = len(errors) + 1
            angle = sum(errors) * np.log(t + 1) / (saturation * (t + 1))
            integral = np.sign(angle) * np.inf if abs(angle) >= np.pi / 2 else gain * max(past) * np.tan(angle)
            radius = start + sum(steps) + (integral if gain else 0.0)
        radii.append(radius)
        if np.isnan(s):
            continue
        if len(past) >= first:
            errors.append((s > radius) - miss)
            steps.append(rate * max([*past, s][-window:]) * errors[-1])
        past.append(s)
        if len(past) == first:
            start = _conformal_quantile(past, 1 - miss)
    return radii


def _conformal_quantile(scores, level):
    k = int(np.ceil((len(scores) + 1) * level - 1e-9))
    return sorted(scores)[min(k, len(scores)) - 1]


def pinball(r, s, miss):
    return max((1 - miss) * (s - r), miss * (r - s))


def strongly_adaptive_radii(scores, miss, lifetime, first=10):
    """Radii of the strongly adaptive method, an expert a dictionary; no score may be missing."""
    radii = [np.inf] * first
    start, D = _conformal_quantile(scores[:first], 1 - miss), max(scores[:first])
    experts, t = [], 0

    def mean():
        if not experts:
            return start
        prior = [1 / (e["began"] ** 2 * (1 + int(np.log2(e["began"])))) for e in experts]
        weights = [p * max(e["w"], 0) for p, e in zip(prior, experts, strict=True)]
        weights = weights if sum(weights) > 0 else prior
        return sum(w * e["r"] for w, e in zip(weights, experts, strict=True)) / sum(weights)

    def born():
        i = t + 1
        life = lifetime * max(2**j for j in range(40) if i % 2**j == 0)
        experts.append({"began": i, "end": i + life, "r": mean(), "squares": 0, "gains": [], "weighed": [], "w": 0})

    born()
    for s in scores[first:]:
        radius = mean()
        radii.append(radius)
        if s > D:
            start, D, experts, t = radius, 2 * s, [], 0
            born()
        t += 1
        for e in experts:
            gain = (pinball(radius, s, miss) - pinball(e["r"], s, miss)) / D
            gain = 0 if abs(gain) <= 1e-12 else gain if e["w"] > 0 else max(gain, 0)
            e["gains"].append(gain)
            e["weighed"].append(e["w"] * gain)
            e["w"] = sum(e["gains"]) * (1 + sum(e["weighed"])) / (len(e["gains"]) + 1)
            gradient = miss - (s > e["r"])
            e["squares"] += gradient**2
            e["r"] -= D / sqrt(3) * gradient / sqrt(e["squares"])
        experts = [e for e in experts if e["end"] > t + 1]
        born()
    return radii


def joint_scores(R, form, decay=1.0):
    """max_q |r_q| / s_q or sqrt(r' S^-1 r) of residuals R (n, d), by the moments of the rows before; none missing."""
    scores = []
    for t, r in enumerate(R):
        weights = decay ** np.arange(t - 1, -1, -1.0)
        S = (R[:t].T * weights) @ R[:t] / max(sum(weights), 1e-300)
        s = np.sqrt(np.diag(S)) if t else np.ones(len(r))
        if form == "box":
            scores.append(max(abs(r) / s))
            continue
        C = S / np.outer(s, s) * sum(weights) / (sum(weights) + len(r))
        np.fill_diagonal(C, 1.0)
        scores.append(sqrt((r / s) @ np.linalg.inv(C) @ (r / s)))
    return scores


# -------------------------------------------------------------------------------------- learned output operators


def profile(G, Y, T, alpha, columns=None):
    """Value of ridge regression with k T and the moment C'GC, from the whole matrix; nan in Y was not observed."""
    n, d = Y.shape
    seen = np.flatnonzero(~np.isnan(Y.ravel()))
    y = Y.ravel()[seen]
    A = np.kron(G, T)[np.ix_(seen, seen)] + alpha * np.eye(len(seen))
    E = np.zeros((len(seen), 0)) if columns is None else np.kron(columns[:, None], np.eye(d))[seen]
    k = E.shape[1]
    c = np.linalg.solve(np.block([[A, E], [E.T, np.zeros((k, k))]]), np.concatenate([y, np.zeros(k)]))[: len(seen)]
    C = np.zeros(n * d)
    C[seen] = c
    C = C.reshape(n, d)
    return alpha * float(y @ c), C.T @ G @ C


# ---------------------------------------------------------------------------------------- second-order streams


def forecasts(K, Y, alpha, shrink=True, dictionaries=None, exact=False, weight=None, ridge=None):
    """Predictions (n, d) of the (nonlinear) ridge forecaster, a new solution for each row.

    K : (n d, n d) gram of all points. dictionaries[t] : numbers of the points whose span f lies in at row t, None for
    all. exact : what rows say about points that joined later counts. weight(t, s) : of row s in the prediction of t.
    ridge(t) : factor of alpha in the prediction of row t.
    """
    n, d = Y.shape
    values, vectors = np.linalg.eigh(K)
    psi = (vectors * np.sqrt(np.maximum(values, 0.0))).reshape(n, d, n * d)
    projections = []
    for t in range(n):
        if dictionaries is None:
            projections.append(np.eye(n * d))
            continue
        span = psi[dictionaries[t]].reshape(-1, n * d)
        _, sizes, right = np.linalg.svd(span, full_matrices=False)
        basis = right[sizes > 1e-7] if len(span) else span
        projections.append(basis.T @ basis)
    Z = np.zeros((n, d))
    for t in range(n):
        seen = [(s, q) for s in range(t) for q in range(d) if not np.isnan(Y[s, q])]
        rows = np.array([projections[t if exact else s] @ psi[s, q] for s, q in seen]).reshape(-1, n * d)
        w = np.array([1.0 if weight is None else weight(t, s) for s, _ in seen])
        y = np.array([Y[s, q] for s, q in seen])
        factor = 1.0 if ridge is None else ridge(t)
        A, b = factor * alpha * np.eye(n * d) + (rows.T * w) @ rows, rows.T @ (w * y)
        own = psi[t] @ projections[t]
        if shrink:
            A += own.T @ own
        Z[t] = own @ np.linalg.solve(A, b)
    return Z


def kors(K, mu, beta, eps, draws):
    """Numbers of the points that KORS keeps, one point after the other."""
    kept, weights = [], []
    for t, u in enumerate(draws):
        S = np.diag(weights)
        b = S @ K[kept, t] if kept else np.zeros(0)
        r = K[t, t] - (b @ np.linalg.solve(S @ K[np.ix_(kept, kept)] @ S + mu * np.eye(len(kept)), b) if kept else 0.0)
        p = min(beta * (1 + eps) * r / (r + mu), 1.0)
        if u < p:
            kept.append(t)
            weights.append(1 / p**0.5)
    return kept


def independent_points(K, tol):
    """Numbers of the points that are not in the span of those kept before, to a part `tol` of k(x, x)."""
    kept = []
    for t in range(len(K)):
        rest = K[t, t] - (K[t, kept] @ np.linalg.solve(K[np.ix_(kept, kept)], K[kept, t]) if kept else 0.0)
        if rest > tol * K[t, t]:
            kept.append(t)
    return kept


# -------------------------------------------------------------------------------------- multiple kernel learning


def movkl(grams, Y, alpha, r, iterations):
    """Weights, coefficients and objectives of the plain alternation, with every (n d, n d) matrix written out."""
    M = len(grams)
    d = np.full(M, 1.0 if r == np.inf else M ** (-1.0 / r))
    objectives = []
    for step in range(iterations):
        K = sum(w * G for w, G in zip(d, grams, strict=True))
        c = np.linalg.solve(K + alpha * np.eye(len(K)), Y.ravel())
        norms = np.array([w * np.sqrt(max(c @ G @ c, 0.0)) for w, G in zip(d, grams, strict=True)])
        residual = Y.ravel() - K @ c
        objectives.append(residual @ residual + alpha * sum(f**2 / w for f, w in zip(norms, d, strict=True) if w > 0))
        if step < iterations - 1 and r < np.inf:
            total = sum(f ** (2 * r / (r + 1)) for f in norms) ** (1 / r)
            d = np.array([f ** (2 / (r + 1)) / total for f in norms])
    return d, c.reshape(Y.shape), norms, objectives


def split_iteration_radius(blocks):
    """Spectral radius of the seed's inner iteration for its system (15), the d x d matrices K_1(x, x), ..., given.

    alpha_1 <- K_1^-1 (s - sum gamma_k), alpha_k <- alpha_1, gamma_k <- K_k alpha_k: alpha_1 is multiplied by
    -K_1^-1 (K_2 + ... + K_{M+1}) in every round.
    """
    return float(np.abs(np.linalg.eigvals(np.linalg.solve(blocks[0], sum(blocks[1:])))).max())


# --------------------------------------------------------------------------------------------- vector autoregression


class OKVARObjective:
    """|Y - W F - E theta + decay O|^2 + alpha <C, K C>, minimised over theta and decay >= 0 one output at a time."""

    def __init__(self, model, regression):
        d = regression.Y.shape[1]
        blocks = [[block(model.kernel_, x, z) for z in regression.Z] for x in regression.Z]
        self.K = np.block(blocks)
        self.W = np.eye(len(regression.Y)) if regression.W is None else regression.W.toarray()
        self.regression, self.alpha, self.d = regression, model.alpha, d

    def __call__(self, C):
        F = (self.K @ C.reshape(-1)).reshape(C.shape)
        total = self.alpha * float((C * F).sum())
        for q in range(self.d):
            rest = self.regression.Y[:, q] - self.W @ F[:, q]
            errors = [self._error(self.regression.E, rest)[0]]
            if self.regression.decaying is not None:
                error, last = self._error(np.column_stack([self.regression.E, -self.regression.decaying[:, q]]), rest)
                errors += [error] if last >= 0 else []
            total += min(errors)
        return total

    @staticmethod
    def _error(columns, rest):
        if columns.shape[1] == 0:
            return float(rest @ rest), 0.0
        theta = np.linalg.lstsq(columns, rest, rcond=None)[0]
        return float(((rest - columns @ theta) ** 2).sum()), theta[-1]


# ------------------------------------------------------------------------------------- support vector machines


def box_dual(K, q, lower, upper, epsilon=0.0, sweeps=5000):
    """argmin 1/2 b'Kb - q'b + epsilon |b|_1 in the box, one coordinate at a time, each to its exact minimum."""
    b = np.zeros(len(q))
    for _ in range(sweeps):
        before = b.copy()
        for i in range(len(q)):
            if K[i, i] <= 0:
                continue
            pull = q[i] - K[i] @ b + K[i, i] * b[i]
            size = max(abs(pull) - epsilon, 0.0) / K[i, i]
            b[i] = min(max(np.sign(pull) * size, lower[i]), upper[i])
        if np.abs(b - before).max() < 1e-13:
            break
    return b


def log_evidence(K, y, columns):
    """log of the integral over amplitude and coefficients of the columns, up to a constant, on the whole space.

    Directions along the columns are taken out by an orthonormal basis of what is orthogonal to them.
    """
    Q = np.linalg.qr(np.column_stack([columns, np.eye(len(y))]))[0][:, columns.shape[1] : len(y)]
    A = np.eye(Q.shape[1]) + Q.T @ K @ Q
    rest = Q.T @ y
    return -0.5 * len(rest) * np.log(rest @ np.linalg.inv(A) @ rest) - 0.5 * np.log(np.linalg.det(A))


# The metric of gradients ----------------------------------------------------------------------------------------------


def gradient_metric(fitted, X, *, steps, power, h=1e-5):
    """A and R: the outer product of gradients by differences, and its root; `fitted` makes a function of new inputs."""
    n, p = X.shape
    R = np.eye(p)
    for _ in range(steps):
        f = fitted(X @ R)
        A = np.zeros((p, p))
        for x in X:
            J = np.column_stack(
                [((f((x + h * e)[None] @ R) - f((x - h * e)[None] @ R)) / (2 * h))[0] for e in np.eye(p)]
            )
            A += J.T @ J / n
        values, Q = np.linalg.eigh(A)
        R = Q @ np.diag(values ** (power / 2)) @ Q.T
        R *= np.sqrt(p / np.sum(R**2))
    return A, R


def progressive_least_squares(Phi, Y, alpha):
    """Ridge predictions of each row from those before it, by orthogonal factors: condition numbers are not squared."""
    m = Phi.shape[1]
    Z = np.zeros(Y.shape)
    for t in range(len(Phi)):
        A = np.vstack([np.sqrt(alpha) * np.eye(m), Phi[:t]])
        B = np.vstack([np.zeros((m, Y.shape[1])), Y[:t]])
        Z[t] = Phi[t] @ np.linalg.lstsq(A, B, rcond=1e-300)[0]
    return Z


def forecast_row_by_row(f, lags, past, U):
    """Forecasts (steps, d) from outputs `past`, the newest last, with inputs U (steps, k) before the lagged outputs."""
    outputs = [np.asarray(row) for row in past]
    for u in U:
        outputs.append(f(np.concatenate([u, *(outputs[-lag] for lag in lags)])))
    return np.array(outputs[len(past) :])


def betting_sum(kernels, X, Y, bound=None):
    """Predictions (n, d) of `OnlineMovKL(kernels, against="sums", bound=bound)`, one row after the other.

    All quantities are computed anew in each row from the coefficients a_s of the rows before.
    """
    n, d = Y.shape
    K = np.array([[[kernel(x, z) for z in X] for x in X] for kernel in kernels])
    M, Z, a = len(kernels), np.zeros((n, d)), np.zeros((n, d))
    wealth, reach, largest, gains, seen = np.zeros(M), np.zeros(M), 0.0, 0.0, 0.0
    for t in range(n):
        radius = seen if bound is None else bound
        parts = np.zeros((M, d))
        for m in range(M):
            square = np.einsum("sq,srqp,rp->", a[:t], K[m, :t, :t], a[:t])
            S = sum(np.sqrt(max(a[s] @ K[m, s, s] @ a[s], 0.0)) for s in range(t))
            L, theta = reach[m] * largest, np.sqrt(max(square, 0.0))
            if theta > 0:
                at_x = np.einsum("sqp,sp->q", K[m, t, :t], a[:t])
                parts[m] = np.tanh(theta / (S + 2 * L)) / theta * wealth[m] / L * at_x
        z = parts.sum(axis=0)
        Z[t] = z * min(1.0, radius / max(np.linalg.norm(z), 1e-300))
        observed = ~np.isnan(Y[t])
        seen = max(seen, np.linalg.norm(Y[t][observed]))
        if not observed.any():
            continue
        g = np.where(observed, Y[t] - Z[t], 0.0)
        length, own = np.linalg.norm(g), np.array([np.sqrt(np.linalg.eigvalsh(K[m, t, t])[-1]) for m in range(M)])
        grown = np.maximum(reach, own)
        a[t] = g if largest == 0 else g * min(1.0, largest / max(length, 1e-300), *(reach / grown))
        more = max(length, largest) ** 2 - largest**2
        gains += M * more + length * radius
        wealth = np.clip(wealth + more + parts @ a[t], 0.0, gains)
        largest, reach = max(largest, length), grown
    return Z
