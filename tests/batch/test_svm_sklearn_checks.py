"""scikit-learn's estimator checks of the support vector machines and of vector fields, without exceptions."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ovk import MultiTaskSVC, MultiTaskSVR, VectorField
from ovk.kernels import Gaussian


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        MultiTaskSVC(),
        MultiTaskSVC(bias="task"),
        MultiTaskSVC(bias="shared", tol=1e-11),
        MultiTaskSVR(),
        VectorField(profile=Gaussian(), restarts=1),
        VectorField(alpha=0.1, criterion=None, fit_intercept=True),
        VectorField(profile=Gaussian(), robust=True, restarts=1),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
