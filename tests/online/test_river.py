"""River adapters: river's checks, and the same results as the learner."""

import pickle
import re
import subprocess
import sys
import warnings
from datetime import datetime
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from online.streams import stream
from ovk import (
    KAWV,
    OLOK,
    PKAWV,
    AutoStream,
    AutoStreamClassifier,
    DelayedLabels,
    NoveltyDetector,
    OLOKClassifier,
    OVKRidge,
    PKAWVClassifier,
    WithIntervals,
    save,
)
from ovk.features import KORS, Nystrom, Taylor, Uniform
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from ovk.ovkernels import CurlFree
from ovk.persistence import NotSavableError

pytest.importorskip("river")

from river import checks, compose, evaluate, metrics, preprocessing

from ovk.online.river import (
    RiverAnomalyDetector,
    RiverClassifier,
    RiverMultiTargetRegressor,
    RiverRegressor,
    add_features,
)

K = Gaussian(1.0)

ADAPTERS = {
    "regressor": RiverRegressor(OLOK(K, truncation=20)),
    "multi-target": RiverMultiTargetRegressor(OLOK(K * MixedEffect(0.5), truncation=20)),
    "classifier": RiverClassifier(OLOKClassifier(K, truncation=20)),
    "second order": RiverRegressor(PKAWV(K, features=Nystrom(Uniform(size=20)))),
    "second order classifier": RiverClassifier(PKAWVClassifier(K, features=Nystrom(Uniform(size=20)))),
    "without settings": RiverRegressor(AutoStream()),
    "several targets without settings": RiverMultiTargetRegressor(AutoStream()),
    "classifier without settings": RiverClassifier(AutoStreamClassifier()),
}
#: Half of the time of all checks; one adapter is enough for `make test`.
MEMORY = "check_bounded_memory_growth"
CHECKS = [
    pytest.param(
        model,
        check,
        id=f"{name}-{number}-{check.__name__}",
        marks=[pytest.mark.long] * (check.__name__ == MEMORY and name != "regressor"),
    )
    for name, model in ADAPTERS.items()
    for number, check in enumerate(checks.yield_checks(model))
]


def without_its_data(check):
    """A check on local rows; for anomaly detectors river would download a file."""
    if "dataset" not in getattr(check, "keywords", {}):
        return check
    rng = np.random.default_rng(0)
    rows = [(dict(zip("abc", x.tolist(), strict=True)), False) for x in 0.3 * rng.standard_normal((200, 3))]
    return partial(check.func, dataset=[*rows, ({"a": 9.0, "b": 9.0, "c": -9.0}, True)])


DETECTOR = RiverAnomalyDetector(NoveltyDetector(K, truncation=20))


@pytest.mark.parametrize("check", list(checks.yield_checks(DETECTOR)), ids=lambda check: check.__name__)
def test_river_checks_of_a_detector(check):
    without_its_data(check)(DETECTOR.clone())


@pytest.mark.parametrize(("model", "check"), CHECKS)
def test_river_checks(model, check):
    assert not model._unit_test_skips()
    unmodified = check.__name__ == MEMORY and isinstance(model.model, AutoStream)
    if "dataset" in getattr(check, "keywords", {}) and not unmodified:
        # Windows and landmarks are full after 20 examples, so 60 are as good as river's hundreds.
        dataset = list(check.keywords["dataset"])
        dataset = dataset[:: max(1, len(dataset) // 60)]
        if isinstance(model.model, (AutoStream, AutoStreamClassifier)):
            # They start and refit after 20 and 60 examples, where their memory grows.
            dataset = (3 * dataset)[:50]
        check = partial(check.func, dataset=dataset)
    check(model.clone())


def test_few_examples_need_little_memory():
    """The unmodified check on river's 20 examples of three targets, of which the 20th starts the learners."""
    model = ADAPTERS["several targets without settings"]
    check = next(check for check in checks.yield_checks(model) if check.__name__ == MEMORY)
    assert len(list(check.keywords["dataset"])) == 20
    check(model.clone())


def dicts(X, names="abc"):
    return [dict(zip(names, x.tolist(), strict=True)) for x in X]


def learner(**params):
    return OLOK(K, 0.1, 0.5, **params)


def test_rows_through_the_adapter_equal_chunks_of_the_learner():
    X, Y = stream(150)
    y = Y[:, 0]
    own = learner(truncation=60)
    Z = own.predict_then_learn(X, y)
    model, found = RiverRegressor(learner(truncation=60)), []
    for x, target in zip(dicts(X), y, strict=True):
        found.append(model.predict_one(x))
        model.learn_one(x, target)
    assert found[0] is None
    assert all(type(z) is float for z in found[1:])
    assert_allclose(found[1:], Z[1:], rtol=0, atol=1e-10)
    frame = pd.DataFrame(X, columns=list("abc"), index=range(100, 250))
    many = RiverRegressor(learner(truncation=60))
    assert many.predict_many(frame).isna().all()
    many.learn_many(frame[["c", "a", "b"]][:70], pd.Series(y[:70]))
    many.learn_many(frame[70:], pd.Series(y[70:]))
    predictions = many.predict_many(frame)
    assert_allclose(predictions, own.predict(X), rtol=0, atol=1e-10)
    assert_array_equal(predictions.index, frame.index)
    assert len(many.predict_many(frame[:0])) == 0


def test_several_targets():
    X, Y = stream(60, missing=0.3)
    Y[0] = 1.0
    own = OLOK(K * MixedEffect(0.5), 0.1, 0.5)
    Z = own.predict_then_learn(X, Y)
    model = RiverMultiTargetRegressor(OLOK(K * MixedEffect(0.5), 0.1, 0.5))
    assert model.predict_one({"a": 1.0}) == {}
    for x, y, z in zip(dicts(X), Y, Z, strict=True):
        if model._names:
            assert_allclose(list(model.predict_one(x).values()), z, rtol=0, atol=1e-10)
        # Absent or nan targets are missing. The order of a dictionary does not matter.
        seen = {name: value for name, value in zip("uvw", y.tolist(), strict=True) if value > 0 or value <= 0}
        model.learn_one(x, dict(reversed(seen.items())) if model._names else seen)
    assert_allclose(list(model.predict_one(dicts(X)[7]).values()), own.predict(X[7:8])[0], rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match=r"y contains the target 'z', which is not one of .*: pass all in targets"):
        model.learn_one({"a": 1.0}, {"z": 1.0})


def test_named_targets_may_be_absent_from_the_start():
    model = RiverMultiTargetRegressor(learner(), targets=("u", "v"))
    assert model.predict_one({"a": 1.0}) == {}
    model.learn_one({"a": 1.0}, {"v": 2.0})
    model.learn_one({"a": 1.0}, {})
    assert model.predict_one({"a": 1.0}) == {"u": 0.0, "v": 1.0}


def test_features_that_come_and_go():
    X, Y = stream(90)
    X[:30, 2] = 0.0  # c appears
    X[60:, 0] = 0.0  # a disappears
    own = learner(truncation=40)
    own.predict_then_learn(X, Y[:, 0])
    model = RiverRegressor(learner(truncation=40))
    for i, x in enumerate(dicts(X)):
        absent = {"c"} if i < 30 else {"a"} if i >= 60 else set()
        model.learn_one({name: value for name, value in x.items() if name not in absent}, Y[i, 0])
    rows = dicts(X)
    assert_allclose([model.predict_one(x) for x in rows], own.predict(X), rtol=0, atol=1e-10)
    # The feature d is new: predictions ignore it and do not change the model.
    before = pickle.dumps(model)
    assert model.predict_one({**rows[0], "d": 7.0}) == model.predict_one(rows[0])
    assert pickle.dumps(model) == before
    model.learn_one({**rows[0], "d": 7.0}, 1.0)
    assert model.learner.n_features_in_ == 4


def test_examples_without_features():
    model = RiverRegressor(learner())
    model.learn_one({}, 1.0)
    assert model.predict_one({}) == pytest.approx(0.5)
    model.learn_one({"a": 1.0}, 1.0)
    model.learn_one({"a": 1.0, "b": 1.0}, 1.0)
    assert model.learner.n_features_in_ == 2


def test_kernels_for_a_number_of_features_refuse_more():
    for kernel in (Gaussian(np.array([1.0, 2.0])), CurlFree(K, 2)):
        model = RiverMultiTargetRegressor(OLOK(kernel, 0.1, 0.5))
        model.learn_one({"a": 1.0, "b": 0.0}, {"u": 1.0, "v": 0.0})
        before = model.predict_one({"a": 1.0})
        with pytest.raises(ValueError, match="is made for 2 features and cannot take 3"):
            model.learn_one({"c": 1.0}, {"u": 1.0, "v": 0.0})
        assert model.predict_one({"a": 1.0}) == before
        model.learn_one({"a": 1.0}, {"u": 1.0, "v": 0.0})


def test_invalid_examples_are_refused():
    model = RiverRegressor(learner())
    with pytest.raises(ValueError, match="feature 'a' must be a number, got 'x': encode it first"):
        model.learn_one({"a": "x"}, 1.0)
    with pytest.raises(ValueError, match="feature 'a' must be a number, got None: use nan for missing values"):
        model.learn_one({"a": None}, 1.0)
    with pytest.raises(ValueError, match=r"y must be a number, got .*use RiverMultiTargetRegressor"):
        model.learn_one({"a": 1.0}, {"u": 1.0})
    model.learn_one({"a": 1.0}, 1.0)
    with pytest.raises(ValueError, match="row 0 contains NaN"):
        model.learn_one({"a": float("nan")}, 1.0)
    assert model.predict_one({"a": 1.0}) == pytest.approx(0.5)
    with pytest.raises(TypeError, match="OVKRidge does not support features that appear after its start"):
        add_features(OVKRidge(), 1)


def test_the_wrapped_model_stays_new():
    own = learner()
    model = RiverRegressor(own)
    model.learn_one({"a": 1.0}, 1.0)
    assert not hasattr(own, "support_")
    assert model.clone().predict_one({"a": 1.0}) is None
    again = pickle.loads(pickle.dumps(model))
    model.learn_one({"a": 2.0}, 1.0)
    again.learn_one({"a": 2.0}, 1.0)
    assert again.predict_one({"a": 2.0}) == model.predict_one({"a": 2.0})


# Classes -------------------------------------------------------------------------------------------------------------


def clusters(n=240, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    X = 2.0 * np.array([[1, 0], [0, 1], [-1, -1]])[labels] + 0.4 * rng.standard_normal((n, 2))
    return X, np.array(["red", "green", "blue"])[labels]


def test_known_classes_are_learned_together():
    X, y = clusters()
    own = OLOKClassifier(K).partial_fit(X, y, classes=["red", "green", "blue"])
    model = RiverClassifier(OLOKClassifier(K), classes=("red", "green", "blue"))
    assert model.predict_proba_one({"a": 1.0}) == pytest.approx(dict.fromkeys(["red", "green", "blue"], 1 / 3))
    for x, label in zip(dicts(X, "ab"), y.tolist(), strict=True):
        model.learn_one(x, label)
    assert [model.predict_one(x) for x in dicts(X, "ab")] == own.predict(X).tolist()
    assert type(model.learner) is OLOKClassifier
    with pytest.raises(ValueError, match="label 'pink', which is not one of the classes"):
        model.learn_one({"a": 1.0}, "pink")


def test_classes_may_appear_later():
    X, y = clusters()
    model = RiverClassifier(OLOKClassifier(K))
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    order = np.argsort(y == "green", kind="stable")  # one class comes late
    order = np.concatenate([order, order])
    rows, labels = [dicts(X, "ab")[i] for i in order], y[order].tolist()
    for x, label in zip(rows, labels, strict=True):
        model.learn_one(x, label)
    assert set(model.learner) == {"red", "green", "blue"}
    right = [model.predict_one(x) == label for x, label in zip(rows, labels, strict=True)]
    assert np.mean(right) > 0.95
    shares = model.predict_proba_one(rows[0])
    assert sum(shares.values()) == pytest.approx(1.0)
    many = RiverClassifier(OLOKClassifier(K))
    frame = pd.DataFrame(rows)
    many.learn_many(frame[:90], labels[:90])
    many.learn_many(frame[90:], labels[90:])
    assert many.predict_proba_one(rows[0]) == pytest.approx(shares, abs=1e-10)
    assert many.predict_many(frame).tolist() == [model.predict_one(x) for x in rows]
    assert_allclose(many.predict_proba_many(frame).sum(axis=1), 1.0)


def test_true_and_false_need_one_learner():
    X, y = clusters()
    model = RiverClassifier(OLOKClassifier(K))
    for x, label in zip(dicts(X, "ab"), y == "red", strict=True):
        model.learn_one(x, label)  # numpy's booleans
    own = OLOKClassifier(K).partial_fit(X, y == "red", classes=[False, True])
    assert type(model.learner) is OLOKClassifier
    scores = own.decision_function(X)
    shares = [model.predict_proba_one(x)[True] for x in dicts(X, "ab")]
    assert_allclose(shares, 1 / (1 + np.exp(-scores)), rtol=1e-9)
    assert [model.predict_one(x) for x in dicts(X, "ab")] == own.predict(X).tolist()


def test_examples_with_weights():
    X, Y = stream(30)
    w = np.linspace(0.0, 2.0, 30)
    own = learner().partial_fit(X, Y[:, 0], w)
    one, several = RiverRegressor(learner()), RiverMultiTargetRegressor(learner())
    for x, y, weight in zip(dicts(X), Y[:, 0].tolist(), w.tolist(), strict=True):
        one.learn_one(x, y, w=weight)
        several.learn_one(x, {"u": y}, w=weight)
    assert_allclose(one.predict_one(dicts(X)[3]), own.predict(X[3:4])[0], atol=1e-10)
    assert_allclose(several.predict_one(dicts(X)[3])["u"], own.predict(X[3:4])[0], atol=1e-10)
    labels, classifier = Y[:, 0] > 0, RiverClassifier(OLOKClassifier(K))
    for x, label, weight in zip(dicts(X), labels.tolist(), w.tolist(), strict=True):
        classifier.learn_one(x, label, w=weight)
    scores = OLOKClassifier(K).partial_fit(X, labels, [False, True], w).decision_function(X[:1])
    assert classifier.predict_proba_one(dicts(X)[0])[True] == pytest.approx(1 / (1 + np.exp(-scores[0])))


def test_in_a_pipeline():
    X, Y = stream(100)
    model = compose.Pipeline(preprocessing.StandardScaler(), RiverRegressor(learner()))
    for x, y in zip(dicts(X), Y[:, 0], strict=True):
        model.predict_one(x)
        model.learn_one(x, y)
    assert np.isfinite(model.predict_one(dicts(X)[0]))


@pytest.mark.long
def test_without_river_the_message_says_what_to_install():
    code = "import sys; sys.modules['river'] = None; import ovk.online; import ovk.online.river"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "the extra 'river' of ovk: pip install river" in run.stderr


@pytest.mark.parametrize(
    "model", [KAWV(K), PKAWV(K, features=Nystrom(KORS(0.1), past="exact"), random_state=0)], ids=["exact", "projected"]
)
def test_second_order_learners_take_features_that_come_later(model):
    X, Y = stream(40)
    X[:20, 2] = 0.0
    adapter = RiverRegressor(model)
    for x, y in zip(dicts(X[:20, :2], "ab"), Y[:20, 0], strict=True):
        adapter.learn_one(x, y)
    for x, y in zip(dicts(X[20:]), Y[20:, 0], strict=True):
        adapter.learn_one(x, y)
    whole = model.fit(X, Y[:, 0])
    found = [adapter.predict_one(x) for x in dicts(X)]
    assert_allclose(found, whole.predict(X), rtol=0, atol=1e-8)


def test_features_that_cannot_be_widened():
    adapter = RiverRegressor(PKAWV(K, features=Taylor(2)))
    adapter.learn_one({"a": 1.0}, 1.0)
    with pytest.raises(TypeError, match="Taylor features do not support inputs that appear after the start"):
        adapter.learn_one({"a": 1.0, "b": 1.0}, 1.0)


def test_rows_through_the_adapter_equal_autostream():
    X, Y = stream(80)
    Z = AutoStream().predict_then_learn(X, Y[:, 0])
    model, found = RiverRegressor(AutoStream()), []
    for x, y in zip(dicts(X), Y[:, 0].tolist(), strict=True):
        found.append(model.predict_one(x))
        model.learn_one(x, y)
    assert_allclose(found[1:], Z[1:], rtol=0, atol=1e-8)


def test_autostream_classes_may_appear_later():
    X, y = clusters(90)
    order = np.argsort(y == "green", kind="stable")
    X, y = X[order], y[order]
    model, own = RiverClassifier(AutoStreamClassifier()), AutoStreamClassifier()
    assert model.predict_one({"a": 1.0}) is None
    for x, label in zip(dicts(X, "ab"), y.tolist(), strict=True):
        model.learn_one(x, label)
    own.partial_fit(X, y)
    assert type(model.learner) is AutoStreamClassifier
    shares = model.predict_proba_one({"a": X[5, 0], "b": X[5, 1]})
    assert list(shares) == own.classes_.tolist()
    assert_allclose(list(shares.values()), own.predict_proba(X[5:6])[0], atol=1e-8)
    assert type(model.predict_one({"a": 1.0, "b": 0.0})) is str
    given = RiverClassifier(AutoStreamClassifier(), classes=("red", "green"))
    with pytest.raises(ValueError, match="label 'blue', which is not one of the classes"):
        given.learn_one({"a": 1.0}, "blue")


@pytest.mark.parametrize("before", [10, 40])
def test_features_that_appear_later_with_autostream(before):
    X, Y = stream(before + 90)
    X[:before, 2] = 0.0
    y = Y[:, 0] + 50.0 * X[:, 2]
    model = RiverRegressor(AutoStream())
    for x, label in zip(dicts(X[:before, :2], "ab"), y[:before].tolist(), strict=True):
        model.learn_one(x, label)
    kept = pickle.loads(pickle.dumps(model))
    errors = []
    for x, label in zip(dicts(X[before:]), y[before:].tolist(), strict=True):
        errors.append(model.predict_one(x) - label)
        model.learn_one(x, label)
    assert model.learner.n_features_in_ == 3
    # Refits count rows from the new feature on: after 60 more rows its effect is learned.
    assert np.std(errors[65:]) < 0.2 * np.std(y[before + 65 :])
    # A row with an invalid value does not change the features.
    with pytest.raises(ValueError, match="must be a number"):
        kept.learn_one({"a": 0.0, "c": "?"}, 0.0)
    assert kept.learner.n_features_in_ == 2


def test_anomalies_are_those_of_the_detector():
    X = np.random.default_rng(0).standard_normal((300, 2))
    model, own = RiverAnomalyDetector(NoveltyDetector(K)), NoveltyDetector(K).fit(X)
    assert model.score_one({"a": 1.0}) == 0.0
    for x in dicts(X, "ab"):
        model.learn_one(x)
    new = dicts(np.array([[0.0, 0.0], [5.0, 5.0]]), "ab")
    assert_allclose([model.score_one(x) for x in new], -own.decision_function([[0.0, 0.0], [5.0, 5.0]]), atol=1e-12)
    assert [model.is_new_one(x) for x in new] == [False, True]
    model.learn_one({"a": 0.0, "b": 0.0, "c": 1.0})
    assert model.learner.n_features_in_ == 3


def test_a_learner_is_checked_when_it_is_wrapped():
    for adapter, model, message in [
        (RiverRegressor, OVKRidge(), r"OVKRidge has no partial_fit: .* such as RiverRegressor\(AutoStream\(\)\)"),
        (RiverRegressor, DelayedLabels(AutoStream()), "DelayedLabels has no partial_fit"),
        (
            RiverRegressor,
            AutoStreamClassifier(),
            "does not support AutoStreamClassifier: use RiverClassifier",
        ),
        (RiverMultiTargetRegressor, NoveltyDetector(), "does not support NoveltyDetector: use RiverAnomalyDetector"),
        (RiverClassifier, AutoStream(), r"use RiverRegressor, or another learner such as AutoStreamClassifier\(\)"),
        (RiverAnomalyDetector, AutoStream(), "RiverAnomalyDetector does not support AutoStream: use RiverRegressor"),
    ]:
        with pytest.raises(TypeError, match=message):
            adapter(model)


def test_a_pipeline_shows_the_learner():
    assert str(preprocessing.StandardScaler() | RiverRegressor(AutoStream())).endswith("| RiverRegressor(AutoStream())")


@pytest.mark.parametrize("several", [False, True])
def test_intervals_as_in_river(several):
    X, Y = stream(60)
    X[:20, 2] = 0.0
    Y, unit = Y if several else Y[:, :1], X / np.linalg.norm(X, axis=1, keepdims=True)
    own = WithIntervals(learner(), 0.8)
    adapter = RiverMultiTargetRegressor if several else RiverRegressor
    model = adapter(WithIntervals(learner(), 0.8), **({"targets": "uvw"[: Y.shape[1]]} if several else {}))
    pipeline = compose.Pipeline(preprocessing.Normalizer(), model)
    first = pipeline.predict_one({"a": 1.0}, with_interval=True)
    for interval in first.values() if several else [first]:
        assert (interval.lower, interval.upper) == (-np.inf, np.inf)
    for t, x in enumerate(dicts(X)):
        # The third feature appears later.
        x = {name: value for name, value in x.items() if t >= 20 or name != "c"}
        found = pipeline.predict_one(x, with_interval=True)
        if t not in (0, 20):  # before an example with it was learned, a feature is ignored
            expected = own.predict_regions(unit[t : t + 1])
            ends = [(one.lower, one.upper) for one in (found.values() if several else [found])]
            assert_allclose(ends, np.vstack([expected.lower, expected.upper]).T, atol=1e-10)
        y = dict(zip("uvw", Y[t].tolist(), strict=False)) if several else float(Y[t, 0])
        pipeline.learn_one(x, y)
        own.partial_fit(unit[t : t + 1], Y[t : t + 1])
    with pytest.raises(ValueError, match=r"with intervals: use \w+\(WithIntervals\(OLOK\(\), 0.9\)\)"):
        adapter(learner()).predict_one({"a": 1.0}, with_interval=True)


ADVISED = {
    "regressor": (RiverRegressor(learner()), [1.0, 2.0]),
    "several targets": (RiverMultiTargetRegressor(learner()), [{"u": 1.0}, {"u": 2.0}]),
    "two classes": (RiverClassifier(OLOKClassifier(K)), [True, False]),
    "given classes": (RiverClassifier(OLOKClassifier(K), classes=("p", "q")), ["p", "q"]),
    "one for each label": (RiverClassifier(OLOKClassifier(K)), ["p", 3]),
    "classes without settings": (RiverClassifier(AutoStreamClassifier()), ["p", "q"]),
    "labels of several types": (RiverClassifier(AutoStreamClassifier()), ["p", 3]),
    "anomalies": (RiverAnomalyDetector(NoveltyDetector(K)), [None, None]),
}


@pytest.mark.parametrize("name", ADVISED)
def test_the_advice_on_saving_works_as_written(name, tmp_path):
    adapter, labels = ADVISED[name]
    adapter, path = adapter.clone(), tmp_path / "model.ovk"
    for label in [None, *labels]:
        if label is not None:
            adapter.learn_one({"a": 1.0}, label)
        elif name == "anomalies":
            adapter.learn_one({"a": 1.0})
        with pytest.raises(NotSavableError, match=r"pickle\.dump\(model, file\)") as error:
            save(preprocessing.StandardScaler() | adapter, path)
        with pytest.raises(NotSavableError):
            save(adapter, path)
        advice = re.search(r"ovk\.save\(.*\)", str(error.value)).group()
        eval(advice, {"ovk": ovk, "adapter": adapter, "path": path})
    again, own = ovk.load(path), adapter.learner
    if isinstance(own, dict):
        assert list(again) == list(own) == labels
        again, own = again["p"], own["p"]
    assert_array_equal(again.predict([[0.5]]), own.predict([[0.5]]))


class Duck:
    """A learner that is not a scikit-learn estimator."""

    def partial_fit(self, X, y=None):
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def get_params(self, deep=True):
        return {}

    def set_params(self, **parameters):
        return self


def test_learners_that_are_not_estimators():
    assert RiverRegressor(Duck()).model.predict([[0.0]]) == 0.0


def test_there_is_no_prediction_before_the_first_target():
    one, several = RiverRegressor(AutoStream()), RiverMultiTargetRegressor(AutoStream(), targets=("u",))
    for y, w in ((None, 1.0), (np.nan, 1.0), (7.0, 0.0)):
        one.learn_one({"a": 1.0}, y, w=w)
        several.learn_one({"a": 1.0}, {"u": y}, w=w)
        assert one.predict_one({"a": 1.0}) is None
        assert several.predict_one({"a": 1.0}) == {}
        assert one.predict_many(pd.DataFrame({"a": [1.0]})).isna().all()
    one.learn_one({"a": 1.0}, 7.0)
    several.learn_one({"a": 1.0}, {"u": 7.0})
    assert one.predict_one({"a": 1.0}) == several.predict_one({"a": 1.0})["u"] == 7.0


def test_river_does_not_score_the_row_before_the_first_target():
    # A prediction of 0 for labels around 100 would dominate the error.
    rows = [({"a": float(i % 3)}, 100.0 + i % 3) for i in range(30)]
    assert evaluate.progressive_val_score(rows, RiverRegressor(AutoStream()), metrics.RMSE()).get() < 3.0


def test_a_first_example_of_weight_0_leaves_no_trace():
    classifier = RiverClassifier(AutoStreamClassifier())
    classifier.learn_one({"a": 1.0}, "p", w=0.0)
    assert classifier.predict_proba_one({"a": 1.0}) == {}
    classifier.learn_one({"a": 1.0}, "q")
    assert classifier.predict_one({"a": 1.0}) == "q"


MIXED = [0, "one", 2.5, True, ("a", "tuple"), "one", 0, "late", 2**70]


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (AutoStreamClassifier(), None),
        (AutoStreamClassifier(), list(dict.fromkeys(MIXED))),
        (OLOKClassifier(K), None),
        (OLOKClassifier(K), list(dict.fromkeys(MIXED))),
    ],
    ids=["without settings", "without settings, given", "one for each", "given"],
)
def test_predictions_are_the_very_labels_that_were_learned(model, classes):
    adapter = RiverClassifier(model, classes=classes)
    rng = np.random.default_rng(0)
    metric = metrics.Accuracy()
    names = list(dict.fromkeys(MIXED))
    for t in range(120):
        label = MIXED[t] if t < len(MIXED) else names[rng.integers(len(names))]
        x = {"a": float(names.index(label)), "b": 0.1 * rng.standard_normal()}
        if t > 90:
            metric.update(label, adapter.predict_one(x))
        adapter.learn_one(x, label)
        if t in (0, 2, 70):
            adapter = pickle.loads(pickle.dumps(adapter))
        found = list(adapter.predict_proba_one(x))
        assert all(any(type(one) is type(other) and one == other for other in MIXED) for one in found)
    assert found == names
    assert metric.get() > 0.85
    frame = pd.DataFrame([{"a": float(number), "b": 0.0} for number in range(len(names))])
    assert adapter.predict_many(frame).tolist() == [adapter.predict_one(x) for x in frame.to_dict("records")]


def test_labels_of_a_second_type_change_nothing_in_what_was_learned():
    X, y = clusters(90)
    order = np.argsort(y == "green", kind="stable")
    X, y = X[order], y[order]
    names = {"red": "red", "blue": "blue", "green": 7}
    mixed, plain = RiverClassifier(AutoStreamClassifier()), RiverClassifier(AutoStreamClassifier())
    for x, label in zip(dicts(X, "ab"), y.tolist(), strict=True):
        mixed.learn_one(x, names[label])
        plain.learn_one(x, label)
    for x in dicts(X[::9], "ab"):
        shares = {names[label]: share for label, share in plain.predict_proba_one(x).items()}
        assert mixed.predict_proba_one(x) == shares
    many = RiverClassifier(AutoStreamClassifier())
    many.learn_many(pd.DataFrame(X, columns=["a", "b"]), [names[label] for label in y])
    assert many.predict_proba_one({"a": 0.3, "b": 0.1}) == pytest.approx(mixed.predict_proba_one({"a": 0.3, "b": 0.1}))


@pytest.mark.parametrize("model", [AutoStreamClassifier(), OLOKClassifier(K)])
@pytest.mark.parametrize("labels", [("p", 4), ("p", "q"), (3, 4), (True, False)])
def test_an_example_without_label_is_not_learned(model, labels):
    adapter, other = RiverClassifier(model), RiverClassifier(model)
    for nothing in (None, float("nan"), np.float64("nan")):
        adapter.learn_one({"a": 1.0}, nothing)
        assert adapter.predict_proba_one({"a": 1.0}) == {}
    for number, label in enumerate(labels):
        adapter.learn_one({"a": float(number)}, label)
        other.learn_one({"a": float(number)}, label)
    before = adapter.predict_proba_one({"a": 1.0})
    assert before == other.predict_proba_one({"a": 1.0})
    adapter.learn_one({"a": 9.0}, None)
    assert list(adapter.predict_proba_one({"a": 1.0})) == list(before)
    many = RiverClassifier(model)
    many.learn_many(pd.DataFrame({"a": [0.0, 0.0, 1.0]}), [None, *labels])
    assert many.predict_proba_one({"a": 1.0}) == pytest.approx(before)
    many.learn_many(pd.DataFrame({"a": [0.0, 0.0, 1.0]}), [labels[0], None, labels[1]])
    assert [type(label) for label in many.predict_proba_one({"a": 1.0})] == [type(label) for label in before]


ROWS = {
    RiverRegressor: (AutoStream(), 1.0),
    RiverMultiTargetRegressor: (AutoStream(), {"u": 1.0}),
    RiverClassifier: (AutoStreamClassifier(), "p"),
}


@pytest.mark.parametrize("adapter", ROWS)
@pytest.mark.parametrize("learned", [False, True])
def test_values_are_numbers_in_predictions_as_in_learning(adapter, learned):
    own, y = ROWS[adapter]
    model = adapter(own)
    if learned:
        model.learn_one({"a": 1.0}, y)
    for value, advice in [
        ("s", "encode it first"),
        ([1.0, 2.0], "use a separate feature for each of its values"),
        ({"b": 1.0}, "a separate feature"),
        (np.zeros(50), "a separate feature"),
        (None, "use nan for missing values"),
    ]:
        message = rf"feature 'q' must be a number, got .*: .*{advice}"
        for call in (model.predict_one, lambda x: model.learn_one(x, y)):
            with pytest.raises(ValueError, match=message) as error:
                call({"a": 1.0, "q": value})
            assert len(str(error.value)) < 220
    if learned:
        # All known features are absent, hence 0.
        assert model.predict_one({"q": 1.0}) == model.predict_one({"a": 0.0}) == model.predict_one({})


def test_a_column_that_is_no_number_is_named():
    frame = pd.DataFrame({"a": [1.0, 2.0], "town": ["Ulm", "Bonn"]})
    dates = pd.DataFrame({"a": [1.0, 2.0], "day": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    for adapter, own, y in [
        (RiverRegressor, AutoStream(), [1.0, 2.0]),
        (RiverClassifier, AutoStreamClassifier(), ["p", "q"]),
    ]:
        model = adapter(own)
        for call in (model.predict_many, partial(model.learn_many, y=y)):
            with pytest.raises(ValueError, match=r"feature 'town' in row 0 must be a number, got 'Ulm': encode it"):
                call(frame)
            with pytest.raises(ValueError, match=r"feature 'day' in row 0 must be a number, .* the weekday"):
                call(dates)


def test_a_target_that_is_no_number_is_named():
    several = RiverMultiTargetRegressor(AutoStream())
    with pytest.raises(TypeError, match=r"y must be a dictionary of targets, got 1\.0: .*RiverRegressor"):
        several.learn_one({"a": 1.0}, 1.0)
    with pytest.raises(ValueError, match=r"target 'v' must be a number, got 'x': .*RiverClassifier"):
        several.learn_one({"a": 1.0}, {"u": 1.0, "v": "x"})
    with pytest.raises(ValueError, match=r"target 'v' must be a number, got \[1.0\]: use a separate target"):
        several.learn_one({"a": 1.0}, {"u": 1.0, "v": [1.0]})
    several.learn_one({"a": 1.0}, {"u": 1.0, "v": None})
    assert several.predict_one({"a": 1.0})["u"] == 1.0
    one, frame = RiverRegressor(AutoStream()), pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"y in row 1 must be a number, got 'x': .*RiverClassifier"):
        one.learn_many(frame, [1.0, "x"])
    with pytest.raises(ValueError, match=r"y must be one-dimensional, got shape \(2, 1\)"):
        one.learn_many(frame, np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"y must be a number, got \[1.0\]: .*RiverMultiTargetRegressor"):
        one.learn_one({"a": 1.0}, [1.0])


def test_labels_that_are_text_are_sent_to_the_classifier():
    with pytest.raises(ValueError, match=r"y must be a number, got 'spam': .*RiverClassifier"):
        RiverRegressor(AutoStream()).learn_one({"a": 1.0}, "spam")


def test_a_date_is_not_one_hot_encoded():
    with pytest.raises(ValueError, match=r"feature 'when' must be a number.*weekday"):
        RiverRegressor(AutoStream()).learn_one({"when": datetime(2026, 1, 1)}, 1.0)


def test_a_fitted_learner_is_copied_with_a_warning():
    trained = PKAWV().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    with pytest.warns(UserWarning, match="pickle the adapter"):
        adapter = RiverRegressor(trained)
    assert adapter.predict_one({"x": 2.0}) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RiverRegressor(PKAWV()).clone()
