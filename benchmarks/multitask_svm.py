"""The multi-task SVM solver compared with libsvm on the kernel matrix of all pairs of point and task."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.svm import SVC

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import MultiTaskSVC
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect

OURS, LIBSVM = "MultiTaskSVC.fit", "SVC on the expanded kernel"


def cases(settings: Settings) -> Iterator[Case]:
    """A small and a large C, 5000 pairs each."""
    n, T, p = settings.pick(toy=20, quick=200, default=500), settings.pick(toy=3, quick=10, default=10), 5
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    common, own = X @ rng.standard_normal((p, 1)), X @ rng.standard_normal((p, T))
    Y = np.where(np.tanh(common) + 0.7 * np.sin(own) + 0.3 * rng.standard_normal((n, T)) > 0, 1.0, -1.0)
    kernel, operator = Gaussian(2.0), MixedEffect(0.5, output_dim=T)

    def libsvm(C: float) -> SVC:
        return SVC(C=C, kernel="precomputed", tol=1e-3).fit(np.kron(kernel(X), operator.dense()), Y.ravel())

    for C in (1.0, 100.0):

        def ours(C: float = C) -> MultiTaskSVC:
            return MultiTaskSVC(kernel * operator, C, tol=1e-4).fit(X, Y)

        def scores(C: float = C) -> tuple[dict[str, float], list[Check]]:
            model = MultiTaskSVC(kernel * operator, C, tol=1e-4).fit(X, Y)
            gap = model.dual_gap_ / model.objective_
            agree = float((model.predict(X).ravel() == libsvm(C).predict(np.kron(kernel(X), operator.dense()))).mean())
            return {"relative duality gap": gap, "same training labels": agree}, [
                Check("relative duality gap at most 1e-4", gap, 1e-4)
            ]

        def checks(seconds: Seconds) -> list[Check]:
            return [Check("at most 3 x libsvm, which has one shared bias", seconds[OURS] / seconds[LIBSVM], 3.0)]

        yield Case(
            f"C={C:g}",
            {"n": n, "tasks": T, "p": p, "C": C},
            [Contender(OURS, ours), Contender(LIBSVM, lambda C=C: libsvm(C))],
            settings.pick(toy=1, quick=3, default=5, long=15),
            checks,
            scores,
        )


BENCHMARK = Benchmark("multitask_svm", "support vector machines for several tasks", cases)
