"""Every public estimator predicts the same after saving, copying, pickling and in other processes."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.base import is_classifier

import ovk
from ovk.kernels import Gaussian

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 1])], axis=1)
NEW = RNG.standard_normal((9, 2))
LABELS = np.where(X[:, 0] > 0, "up", "down")

#: Estimators whose data are of another kind have tests of their own: graphs, structured outputs, series, transformers.
OTHERWISE = {"IOKR", "LinkPredictor", "OKVAR", "GradientMetric"}
PARAMS = {"OVKRidgeCV": {"kernel": Gaussian(1.0)}}
PUBLIC = {
    name: thing
    for name, thing in vars(ovk).items()
    if inspect.isclass(thing) and hasattr(thing, "fit") and hasattr(thing, "predict") and name not in OTHERWISE
}


def fitted(name):
    model = PUBLIC[name](**PARAMS.get(name, {}))
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model.fit(X, LABELS if is_classifier(model) else Y)


def predictions(model, rows):
    return model.predict(rows)


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_copies_predict_the_same(name, tmp_path):
    model = fitted(name)
    expected = model.predict(NEW)
    ovk.save(model, tmp_path / "model.ovk")
    others = {
        "saved": ovk.load(tmp_path / "model.ovk"),
        "pickled": pickle.loads(pickle.dumps(model)),
        "copied": copy.deepcopy(model),
    }
    for how, other in others.items():
        np.testing.assert_array_equal(other.predict(NEW), expected, err_msg=how)
    parallel = Parallel(n_jobs=2, backend="threading")(delayed(predictions)(model, NEW) for _ in range(2))
    for one in parallel:
        np.testing.assert_array_equal(one, expected)
    np.testing.assert_array_equal(model.predict(NEW), expected)
    if not hasattr(model, "partial_fit"):
        return
    # Learners of a stream go on alike, each by itself.
    y = (LABELS if is_classifier(model) else Y)[:9]
    after = model.partial_fit(NEW, y).predict(X)
    for how, other in others.items():
        np.testing.assert_array_equal(other.predict(NEW), expected, err_msg=f"{how}, and left alone")
        np.testing.assert_array_equal(other.partial_fit(NEW, y).predict(X), after, err_msg=how)


def test_other_processes_predict_the_same():
    names = [name for name in PUBLIC if name in ("OVKRidge", "OLOK", "PKAWV", "OLOKClassifier", "AutoStream")]
    models = [fitted(name) for name in names]
    try:
        found = Parallel(n_jobs=2)(delayed(predictions)(model, NEW) for model in models)
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)
    for name, model, one in zip(names, models, found, strict=True):
        np.testing.assert_array_equal(one, model.predict(NEW), err_msg=name)
