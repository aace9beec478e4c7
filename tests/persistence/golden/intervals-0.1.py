"""Methods for intervals in the middle of a stream, a learner with intervals, and feature maps."""

import numpy as np

from ovk import OLOK
from ovk.evaluation import ACI, ConformalPID, StronglyAdaptive, WithIntervals
from ovk.features import FourierMap, OperatorFourierMap, TaylorMap
from ovk.kernels import Gaussian
from ovk.ovkernels import CurlFree, DivFree

t = np.arange(160)
R = np.column_stack([np.sin(t**2), (1 + t // 40) * np.cos(3.0 * t**2)]).round(6)
Z = np.zeros_like(R)
X = np.column_stack([np.cos(t), np.sin(t)]).round(6)


def make():
    methods = {
        "aci": ACI(0.8, widest=None),
        "aci ellipsoid": ACI(0.8, region="ellipsoid", memory=50),
        "pid box": ConformalPID(0.8, region="box", season=7),
        "strongly adaptive": StronglyAdaptive(0.8),
    }
    for method in methods.values():
        method.regions_then_learn(Z[:100], R[:100])
    learner = WithIntervals(OLOK(Gaussian(0.5)), ACI(0.8, widest=None)).partial_fit(X[:100], R[:100])
    rng = np.random.default_rng(0)
    maps = {
        "taylor": TaylorMap.from_kernel(2.0 * Gaussian(0.7), 3, np.array([0.1, 0.2])),
        "fourier": FourierMap.from_kernel(Gaussian(0.7), 4, 2, rng),
        "operator fourier": OperatorFourierMap.from_kernel(
            CurlFree(Gaussian(0.7), 2) + 0.5 * DivFree(Gaussian(0.7), 2), 4, 2, rng
        ),
    }
    return {"methods": methods, "learner": learner, "maps": maps}


def check(loaded):
    now = make()
    for name, method in now["methods"].items():
        a, b = (m.regions_then_learn(Z[100:], R[100:]) for m in (method, loaded["methods"][name]))
        np.testing.assert_allclose(b.upper, a.upper, rtol=1e-9, err_msg=name)
    a, b = (m.regions_then_learn(X[100:], R[100:]) for m in (now["learner"], loaded["learner"]))
    np.testing.assert_allclose(b.upper, a.upper, rtol=1e-9)
    for name, features in now["maps"].items():
        np.testing.assert_allclose(
            loaded["maps"][name].transform(X), features.transform(X), rtol=1e-9, atol=1e-15, err_msg=name
        )
