"""Fitted autoregressions of every target, and a network."""

import numpy as np

from ovk import OKVAR
from ovk.kernels import Gaussian
from ovk.operators import Identity
from ovk.ovkernels import Transformable
from ovk.penalties import L1, L1L2

rng = np.random.default_rng(0)
series = [rng.uniform(size=(n, 2)).round(3) for n in (7, 5)]
new = np.array([[0.2, 0.4], [0.9, 0.1], [0.5, 0.5]])


def make():
    return {
        "next": OKVAR(Gaussian(1.0), 0.5, lag=2).fit(series),
        "increment": OKVAR("linear", 0.5, target="increment", smoothing=1.0).fit(series),
        "integral": OKVAR(Gaussian(1.0), 0.5, target="integral", memory=1.5).fit(series),
        "rows": OKVAR(Gaussian(1.0), 0.5, L1L2(0.01), standardize=False).fit(series),
        "learned": OKVAR(
            Gaussian(1.0) * Identity() & Transformable(Gaussian(1.0)), 0.5, L1(0.01), True, operator_weight=0.1
        ).fit(series),
        "network": OKVAR().fit(series).network(top_k=1),
    }


def check(loaded):
    made = make()
    assert loaded["network"].edges[0][:2] == made["network"].edges[0][:2]
    for name in ("next", "increment", "integral", "rows", "learned"):
        np.testing.assert_allclose(loaded[name].predict(new), made[name].predict(new), rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(loaded[name].edge_scores(), made[name].edge_scores(), rtol=1e-5, err_msg=name)
