"""scikit-learn's estimator checks, without exceptions. They cannot create a graph for `LinkPredictor`."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ovk import IOKR
from ovk.kernels import Gaussian


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        IOKR(),
        IOKR(landmarks=20, random_state=0),
        IOKR(alpha=[0.1, 1.0], fit_intercept=True),
        IOKR(output_kernel=Gaussian(0.5), alpha=0.01),
        IOKR(alpha_graph=0.01),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
