"""Eigenvectors of a separable gram where outputs are missing, from the few coordinates that curves live in.

With G = Q diag(g) Q' and T = V diag(t) V' the gram of the N observed pairs (i, j) is

    K = F F',   F[(i, j), (a, q)] = Q_ia sqrt(g_a) V_jq sqrt(t_q).

The columns with the smallest g_a t_q are left out: together they have at most the trace sum g_a t_q, and leaving out a
trace E changes solutions at ridge alpha by at most E / alpha, relatively. The eigenvalues of a smooth operator fall so
quickly that p << N columns are left, and with F'F = Z diag(l) Z', (p, p), the eigenvectors of K are F Z diag(l)^-1/2.
No product with N rows is needed for F'F: with M_i the outputs that were observed at point i,

    F'F[(a, q), (b, s)] = sum_i sqrt(g_a g_b) Q_ia Q_ib (sqrt(t_q t_s) V_q' M_i V_s).
"""

from __future__ import annotations

import numpy as np

from ovk._types import Array
from ovk.grams import Observed
from ovk.solvers.eigen import Eigenpairs, eigenpairs

#: Columns for each observed pair above which the plain eigenvectors take less time.
WORTH = 0.8


def observed_eigenpairs(gram: Observed, tol: float = 0.0) -> Eigenpairs:
    """Eigenpairs of a gram of observed pairs; a trace of up to `tol` may be left out.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker, Observed
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import Integral
    >>> from ovk.solvers.observed_eigen import observed_eigenpairs
    >>> times, curves = np.linspace(0, 1, 40), np.linspace(0, 1, 10)[:, None]
    >>> base = Kronecker(Gaussian(0.3)(curves), Integral(Gaussian(0.5), grid=times))
    >>> points, outputs = np.nonzero(np.random.default_rng(0).random((10, 40)) < 0.7)
    >>> pairs = observed_eigenpairs(Observed(base, points, outputs), tol=1e-12)
    >>> len(pairs.Q), pairs.Q.shape[1] < 0.5 * len(pairs.Q)
    (257, True)
    """
    terms = gram.base.terms()
    found = None if terms is None or len(terms) != 1 or tol <= 0 else _spanned(gram, tol)
    return eigenpairs(gram.dense()) if found is None else found


def _spanned(gram: Observed, tol: float) -> Eigenpairs | None:
    """The eigenpairs from F'F, None where it is not much smaller than the gram."""
    ((G, operator),) = gram.base.terms() or []
    inputs, outputs = eigenpairs(G), operator.eigh()
    products = np.multiply.outer(inputs.g, outputs.values)
    order = np.argsort(products, axis=None)
    kept = np.ones(products.size, dtype=bool)
    kept[order[np.cumsum(products.ravel()[order]) <= tol]] = False
    if kept.sum() > WORTH * gram.shape[0]:
        return None
    a, q = (np.unique(numbers) for numbers in np.nonzero(kept.reshape(products.shape)))
    Phi = inputs.Q[:, a] * np.sqrt(inputs.g[a])
    V = np.asarray(outputs.vectors)[:, q] * np.sqrt(outputs.values[q])
    inside = kept.reshape(products.shape)[np.ix_(a, q)].ravel()
    a, q = np.divmod(np.flatnonzero(inside), V.shape[1])
    F = Phi[gram.rows[:, None], a] * V[gram.outputs[:, None], q]
    n, m, r = len(Phi), Phi.shape[1], V.shape[1]
    # By products of rows and of columns apart only where these take no more memory than the gram would.
    short = max(n * m * m, n * r * r, (m * r) ** 2) <= gram.shape[0] ** 2
    inner = _inner_products(Phi, V, gram)[np.ix_(inside, inside)] if short else F.T @ F
    values, Z = np.linalg.eigh(inner)
    used = values > np.finfo(float).eps * values.max(initial=1e-300)
    return Eigenpairs((F @ Z[:, used]) / np.sqrt(values[used]), values[used], False)


def _inner_products(Phi: Array, V: Array, gram: Observed) -> Array:
    """F'F, (m r, m r), of all products of the m columns of Phi and the r columns of V."""
    n, m, r = len(Phi), Phi.shape[1], V.shape[1]
    observed = gram.spread(np.ones(gram.shape[0]))
    across = np.stack([(V * seen[:, None]).T @ V for seen in observed]).reshape(n, r * r)
    along = (Phi[:, :, None] * Phi[:, None, :]).reshape(n, m * m)
    return np.asarray((along.T @ across).reshape(m, m, r, r).transpose(0, 2, 1, 3).reshape(m * r, m * r))
