"""Every kind of learner of a stream, small, and rows for it."""

import numpy as np

import ovk
from ovk.evaluation import ConformalPID, StronglyAdaptive, WithIntervals
from ovk.features import ALD, KORS, Fourier, Nystrom, Uniform
from ovk.kernels import Gaussian, Linear
from ovk.online import PaperWindow, Tolerance
from ovk.operators import Identity, LowRank, MixedEffect

K = Gaussian(1.0) * MixedEffect(0.5)
LEARNERS = {
    "olok": lambda: ovk.OLOK(K, alpha=0.1, schedule=0.5),
    "olok-auto-average": lambda: ovk.OLOK(K, schedule="auto", average=True),
    "olok-window": lambda: ovk.OLOK(K, alpha=0.1, truncation=20),
    "olok-paper": lambda: ovk.OLOK(K, alpha=0.5, truncation=PaperWindow(0.3)),
    "olok-tolerance-hinge": lambda: ovk.OLOK(K, alpha=0.9, loss="huber", truncation=Tolerance(1e-3)),
    "kawv": lambda: ovk.KAWV(K, alpha=0.1),
    "pkawv": lambda: ovk.PKAWV(K, alpha=0.1, features=Nystrom(Uniform(size=15), budget=15), random_state=0),
    "pkawv-kors": lambda: ovk.PKAWV(K, alpha=0.1, features=Nystrom(KORS(), budget=15), random_state=0),
    "pkawv-exact-past": lambda: ovk.PKAWV(K, alpha=0.1, features=Nystrom(ALD(), past="exact", budget=15)),
    "pkawv-window": lambda: ovk.PKAWV(K, alpha=0.1, features=Fourier(20), window=25, random_state=0),
    "pkawv-discount": lambda: ovk.PKAWV(K, alpha=0.1, features=Fourier(20), discount=0.98, random_state=0),
    "pkawv-discount-low-rank": lambda: ovk.PKAWV(
        Gaussian(1.0) * LowRank([[1.0], [0.5]], diag=[0.0, 0.3]),
        alpha=0.1,
        features=Fourier(20),
        discount=0.9,
        random_state=0,
    ),
    "auto": lambda: ovk.AutoStream(),
    "movkl": lambda: ovk.OnlineMovKL([Gaussian(1.0) * Identity(), Linear() * Identity()]),
    "movkl-sums": lambda: ovk.OnlineMovKL([Gaussian(1.0) * Identity(), Linear() * Identity()], against="sums"),
    "operator": lambda: ovk.OnlineOperator(ovk.OLOK(K, alpha=0.1, schedule=0.5), warm_up=16),
    "intervals": lambda: WithIntervals(ovk.PKAWV(K, alpha=0.1, features=Fourier(20), random_state=0), 0.8),
    "intervals-box": lambda: WithIntervals(ovk.OLOK(K, alpha=0.1, schedule=0.5), StronglyAdaptive(0.8, region="box")),
    "intervals-pid": lambda: WithIntervals(ovk.KAWV(K, alpha=0.1), ConformalPID(0.8, season=3)),
}
CLASSIFIERS = {
    "olok-classifier": lambda: ovk.OLOKClassifier(Gaussian(1.0), truncation=20),
    "auto-classifier": lambda: ovk.AutoStreamClassifier(),
    "pkawv-classifier": lambda: ovk.PKAWVClassifier(Gaussian(1.0), features=Fourier(20), random_state=0),
}
EVERY = {**LEARNERS, **CLASSIFIERS}


def rows(name, n, seed=0, gaps=True):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    if name in CLASSIFIERS:
        return X, np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 1])], axis=1)
    if gaps and name not in ("movkl", "movkl-sums"):
        Y[rng.random(Y.shape) < 0.1] = np.nan
    return X, Y


def begun(name):
    """A learner of that kind that has learned forty rows."""
    X, Y = rows(name, 40)
    return EVERY[name]().partial_fit(X, Y, **({"classes": ["down", "up"]} if name in CLASSIFIERS else {}))
