"""scikit-learn's own checks, without exceptions, for every kind of fit."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ovk import (
    FunctionalRidge,
    FunctionalRidgeCV,
    GradientMetric,
    MovKL,
    MovKLClassifier,
    MovKLCV,
    OperatorRidge,
    OutputKernelRidge,
    OVKRidge,
    OVKRidgeCV,
)
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        OVKRidge(),
        OVKRidge(landmarks=20, random_state=0),
        OVKRidge(fit_intercept=True),
        OVKRidge(kernel=Gaussian() * MixedEffect(0.5)),
        OVKRidge(alpha_graph=0.1),
        OVKRidge(alpha_graph=0.1, landmarks=20, random_state=0),
        OVKRidge(solver="eigen"),
        OVKRidge(solver="cg"),
        OVKRidgeCV(),
        OVKRidgeCV(omegas=[0.0, 0.5]),
        OVKRidgeCV(fit_intercept=True),
        FunctionalRidge(),
        FunctionalRidgeCV(fit_intercept=True),
        GradientMetric(),
        GradientMetric(landmarks=10, random_state=0),
        OperatorRidge([Gaussian(1.5), Gaussian(6.0)], decay=[0.0, 1.0]),
        OutputKernelRidge(),
        OutputKernelRidge(penalty="frobenius", fit_intercept=True),
        MovKL(),
        MovKLCV(alphas=[0.1, 1.0], fit_intercept=True),
        MovKLClassifier(),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
