"""scikit-learn's checks, without exceptions."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ovk import KAWV, OLOK, PKAWV, AutoStream, AutoStreamClassifier, PKAWVClassifier
from ovk.features import KORS, Nystrom, Uniform
from ovk.online import Tolerance


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        OLOK(),
        OLOK(schedule="auto"),
        OLOK(truncation=50),
        OLOK(truncation=Tolerance(1e-6)),
        OLOK(average=True),
        OLOK(loss="huber"),
        KAWV(),
        PKAWV(),
        PKAWV(features=Nystrom(KORS(0.1)), discount=0.999, random_state=0),
        PKAWVClassifier(features=Nystrom(Uniform(size=30))),
        AutoStream(),
        AutoStreamClassifier(),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
