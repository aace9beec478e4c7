"""scikit-learn's estimator checks, without exceptions."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ovk import OKVAR
from ovk.objectives import L1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:the penalty")
@parametrize_with_checks(
    [OKVAR(), OKVAR(penalty=L1(0.1), tol=0.1), OKVAR(target="increment"), OKVAR(target="integral")]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
