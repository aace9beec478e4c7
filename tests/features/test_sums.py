"""The factor of sums over features, also where the sums are singular to rounding."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk.features import ROUNDING, FeatureSums


@pytest.mark.parametrize(("rank", "ridge"), [(6, 0.5), (3, 0.5), (6, 1e-3), (3, 1e-9), (3, 1e-30), (0, 1.0)])
def test_all_roots_and_solutions_belong_to_one_matrix(rank, ridge):
    """A = S + ridge I; in the span of rounding errors of S its eigenvalues are those of the rounding errors."""
    rng = np.random.default_rng(0)
    sums = FeatureSums.zeros(6, 2)
    sums.add(rng.standard_normal((rank, 6)), rng.standard_normal((rank, 2)))
    S = sums.symmetric().copy()
    factor = sums.factor(ridge)
    if factor.values is None:
        # Entries above the diagonal are not defined.
        A = np.tril(factor.L) @ np.tril(factor.L).T
        inverse = np.linalg.inv(A)
    else:
        A, inverse = (factor.L.T * factor.values**2) @ factor.L, (factor.L.T / factor.values**2) @ factor.L
    assert_allclose(A, S + ridge * np.eye(6), atol=4 * ROUNDING * max(S.max(), 1.0))
    assert np.linalg.eigvalsh(A)[0] > 0.2 * max(ridge, ROUNDING * np.diagonal(S).max())
    Phi, B = rng.standard_normal((4, 6)), rng.standard_normal((6, 2))
    close = {"rtol": 1e-6, "atol": 1e-6 * np.abs(inverse).max()}
    assert_allclose(factor.solve(B), inverse @ B, **close)
    white = factor.whiten_rows(Phi)
    assert_allclose(white @ white.T, Phi @ inverse @ Phi.T, **close)
    assert_allclose([factor.whiten_row(phi) for phi in Phi], white, **close)
    assert_allclose(white @ factor.whiten_columns(B), Phi @ inverse @ B, **close)
    L = np.tril(factor.triangular().L)
    assert_allclose(L @ L.T, A, rtol=1e-9, atol=1e-12 * max(A.max(), 1.0))
