"""A block of steps does not depend on the memory order of the kernel matrix, and does not change it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ovk.online.first_order.blocks import BlockInputs, squared_loss
from ovk.operators import MixedEffect
from ovk.ovkernels import Kronecker


def read_only(G):
    G.flags.writeable = False
    return G


@pytest.mark.parametrize(
    "layout", [np.ascontiguousarray, np.asfortranarray, lambda G: np.repeat(G, 2, axis=1)[:, ::2], read_only]
)
def test_layouts(layout):
    rng = np.random.default_rng(0)
    X, Y, base = rng.standard_normal((40, 3)), rng.standard_normal((40, 2)), rng.standard_normal((40, 2))
    values = X @ X.T
    eta, rho = np.full(40, 0.1), np.full(40, 0.99)
    T = MixedEffect(0.5, output_dim=2)

    gram = layout(values.copy())
    task = BlockInputs(Kronecker(gram, T), base, None, None, np.full(40, True))
    found = squared_loss(task, Y, eta, rho)
    assert_array_equal(gram, values)

    # One row at a time.
    c, z = np.zeros((40, 2)), np.empty((40, 2))
    for j in range(40):
        z[j] = 0.99**j * base[j] + (values[j, :j] @ c[:j]) @ T.dense()
        c[:j] *= 0.99
        c[j] = 0.1 * (Y[j] - z[j])
    assert_allclose(found.z, z, rtol=1e-10, atol=1e-10)
    assert_allclose(found.end, c, rtol=1e-10, atol=1e-10)
