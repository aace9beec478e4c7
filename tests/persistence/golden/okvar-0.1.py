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
    models = {
        "next": OKVAR(Gaussian(1.0), 0.5, lag=2).fit(series),
        "increment": OKVAR("linear", 0.5, target="increment", smoothing=1.0).fit(series),
        "integral": OKVAR(Gaussian(1.0), 0.5, target="integral", memory=1.5).fit(series),
        "rows": OKVAR(Gaussian(1.0), 0.5, L1L2(0.01), standardize=False).fit(series),
        "learned": OKVAR(
            Gaussian(1.0) * Identity() & Transformable(Gaussian(1.0)), 0.5, L1(0.01), True, operator_weight=0.1
        ).fit(series),
    }
    return {
        "models": models,
        # Iterations may end elsewhere in another release; what was saved must say what it said.
        "predictions": {name: model.predict(new) for name, model in models.items()},
        "scores": {name: model.edge_scores() for name, model in models.items()},
        "network": OKVAR().fit(series).network(top_k=1),
    }


def check(loaded):
    for name, model in loaded["models"].items():
        np.testing.assert_allclose(model.predict(new), loaded["predictions"][name], rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(model.edge_scores(), loaded["scores"][name], rtol=1e-9, err_msg=name)
    assert len(loaded["network"].edges) == 1
