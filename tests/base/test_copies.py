"""Every public estimator predicts the same after an interruption, saving, copying, pickling and in other processes."""

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.base import is_classifier

import ovk
from instances import ESTIMATORS
from interruptions import count_calls, interrupt
from ovk.kernels import Gaussian
from ovk.structured import Jaccard

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 1])], axis=1)
NEW = RNG.standard_normal((9, 2))
LABELS = np.where(X[:, 0] > 0, "up", "down")
SETS = [{"up" if a > 0 else "down", "left" if b > 0 else "right"} for a, b in X]
LINKS = np.linalg.norm(X[:, None] - X[None], axis=2) < 0.7

PARAMS = {
    "OVKRidgeCV": {"kernel": Gaussian(1.0)},
    "IOKR": {"output_kernel": Jaccard(), "alpha": [0.1, 1.0]},
    # Comparisons of many settings are tested separately.
    "VectorField": {"kernel": "helmholtz", "profile": Gaussian(), "restarts": 1},
    "OperatorRidge": {"kernel": Gaussian(1.0), "alpha": 0.1},
}

#: What is learned, where it is not two numbers or a label a row.
TARGETS = {"IOKR": SETS, "LinkPredictor": LINKS, "OKVAR": None, "GradientMetric": Y}


def unfitted(name):
    model = ESTIMATORS[name](**PARAMS.get(name, {}))
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model


def targets(model):
    return TARGETS.get(type(model).__name__, LABELS if is_classifier(model) else Y)


def fitted(name):
    model = unfitted(name)
    return model.fit(X, targets(model))


def predictions(model, rows):
    """All predictions of a model for new rows, in one comparable object."""
    if isinstance(model, ovk.LinkPredictor):
        graph = model.predict_graph(rows, with_known=True)
        return nx.to_numpy_array(graph), model.score_known(rows), model.threshold_
    if isinstance(model, ovk.OKVAR):
        return model.predict(rows), model.forecast(5, rows), model.edge_scores()
    if isinstance(model, ovk.GradientMetric):
        return model.transform(rows)
    return model.predict(rows)


def assert_same(found, expected, message=""):
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=message)
    elif isinstance(expected, list):
        assert found == expected, message
    else:
        np.testing.assert_array_equal(found, expected, err_msg=message)


def same(found, expected):
    try:
        assert_same(found, expected)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_copies_predict_the_same(name, tmp_path):
    model = fitted(name)
    expected = predictions(model, NEW)
    ovk.save(model, tmp_path / "model.ovk")
    others = {
        "saved": ovk.load(tmp_path / "model.ovk"),
        "pickled": pickle.loads(pickle.dumps(model)),
        "copied": copy.deepcopy(model),
    }
    for how, other in others.items():
        assert_same(predictions(other, NEW), expected, how)
    parallel = Parallel(n_jobs=2, backend="threading")(delayed(predictions)(model, NEW) for _ in range(2))
    for one in parallel:
        assert_same(one, expected)
    assert_same(predictions(model, NEW), expected)
    if not hasattr(model, "partial_fit"):
        return
    # Online learners continue identically and independently.
    y = targets(model)[:9]
    after = predictions(model.partial_fit(NEW, y), X)
    for how, other in others.items():
        assert_same(predictions(other, NEW), expected, f"{how}, and left alone")
        assert_same(predictions(other.partial_fit(NEW, y), X), after, how)


def test_a_stream_of_structured_outputs_goes_on_alike_in_every_copy(tmp_path):
    model = ovk.IOKR(output_kernel=Jaccard(), random_state=0).partial_fit(X[:40], SETS[:40])
    ovk.save(model, tmp_path / "model.ovk")
    others = [ovk.load(tmp_path / "model.ovk"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    expected = model.partial_fit(X[40:], SETS[40:]).predict(NEW)
    for other in others:
        assert other.partial_fit(X[40:], SETS[40:]).predict(NEW) == expected


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interrupted_fit_leaves_the_model_and_the_next_is_whole(name):
    model = fitted(name)
    expected = predictions(model, NEW)
    other = NEW[::-1].copy()
    short = targets(model)
    short = short if short is None else short[:9, :9] if name == "LinkPredictor" else short[:9]

    def again():
        model.fit(other, short)

    calls = count_calls(again)
    after = predictions(model, NEW)
    for number in {1, calls // 7, calls // 2, calls - 1}:
        model.fit(X, targets(model))
        if interrupt(again, max(number, 1)):
            whole = same(predictions(model, NEW), after)
            assert whole or same(predictions(model, NEW), expected), f"interrupted at call {number} of {calls}"
    assert_same(predictions(model.fit(X, targets(model)), NEW), expected)


@pytest.mark.long
def test_other_processes_predict_the_same():
    names = ["OVKRidge", "OLOK", "PKAWV", "OLOKClassifier", "AutoStream", "IOKR", "LinkPredictor", "OKVAR"]
    models = [fitted(name) for name in names]
    try:
        found = Parallel(n_jobs=2)(delayed(predictions)(model, NEW) for model in models)
    finally:
        get_reusable_executor().shutdown(wait=True, kill_workers=True)
    for name, model, one in zip(names, models, found, strict=True):
        assert_same(one, predictions(model, NEW), name)
