"""The fast path for single rows: same results as chunks, errors, interruptions and copies."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from interruptions import count_calls, interrupt
from ovk import KAWV, OLOK, PKAWV, OLOKClassifier, PKAWVClassifier
from ovk.features import KORS, Fourier, Given, Nystrom, Uniform
from ovk.kernels import Gaussian, Linear, Matern
from ovk.objectives import Constant, InverseSqrt
from ovk.online import Tolerance, Window
from ovk.operators import Dense, MixedEffect

N = 300

FEW = Nystrom(Uniform(size=20))
COUPLED = Gaussian(1.0) * MixedEffect(0.5)
REGRESSORS = {
    "kawv": KAWV(warm_up=40),
    "kawv-coupled": KAWV(COUPLED, 0.1),
    "kawv-dense": KAWV(Gaussian([1.0, 2.0, 0.5]) * Dense([[2.0, 1.0], [1.0, 1.0]]), 0.1, forecaster="ridge", clip=1.5),
    "kawv-constant": KAWV(Gaussian(1.0) * Dense([[1.0, 1.0], [1.0, 1.0]]), 0.1),
    "kawv-sum": KAWV(COUPLED + Linear() * MixedEffect(0.2), 0.1),
    "pkawv": PKAWV(features=FEW),
    "pkawv-coupled": PKAWV(COUPLED, 0.1, FEW),
    "pkawv-dense": PKAWV(Gaussian([1.0, 2.0, 0.5]) * Dense([[2.0, 1.0], [1.0, 1.0]]), 0.1, FEW),
    "pkawv-constant": PKAWV(Gaussian(1.0) * Dense([[1.0, 1.0], [1.0, 1.0]]), 0.1, FEW),
    "pkawv-ridge": PKAWV(COUPLED, 0.1, FEW, forecaster="ridge", clip=(-1.0, 1.5)),
    "pkawv-discount": PKAWV(COUPLED, 0.1, FEW, discount=0.98),
    "pkawv-window": PKAWV(COUPLED, 0.1, FEW, window=80, warm_up=50),
    "pkawv-kors": PKAWV(COUPLED, 0.1, Nystrom(KORS(1e-2), budget=15), random_state=0),
    "pkawv-fourier": PKAWV(Gaussian(1.0), 0.1, Fourier(30), random_state=0),
    "olok": OLOK(),
    "olok-window": OLOK(COUPLED, 0.1, truncation=40),
    "olok-held": OLOK(COUPLED, 0.0, Constant(0.2), truncation=Window(25, hold_steps=False)),
    "olok-tolerance": OLOK(COUPLED, 0.5, truncation=Tolerance(1e-3)),
    "olok-insensitive": OLOK(Matern(1.5, 1.0) * MixedEffect(0.5), 0.1, loss="epsilon-insensitive", truncation=30),
    "olok-intercept": OLOK(Gaussian(1.0), 0.1, truncation=30, fit_intercept=True, discount=0.95),
    "olok-linear": OLOK(Linear(), 0.1, 0.1, truncation=30),
    "olok-auto": OLOK(COUPLED, 0.1, "auto", truncation=30),
}
#: Those whose rows all go the general way.
GENERAL = {"olok-auto", "olok-linear", "kawv-sum"}


def stream(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 3))
    return X, np.stack([np.sin(X[:, 0]), X[:, 1] * X[:, 2]], axis=1) + 0.1 * rng.standard_normal((n, 2))


def one_by_one(model, X, Y):
    return np.concatenate([model.predict_then_learn(X[i : i + 1], Y[i : i + 1]) for i in range(len(X))])


#: Learners of several outputs and, but for those whose operator has two of them, of a single one.
CASES = [(name, False) for name in REGRESSORS] + [
    (name, True) for name in REGRESSORS if "dense" not in name and "constant" not in name
]


@pytest.mark.pairwise
@pytest.mark.parametrize(("name", "single"), CASES)
def test_rows_equal_a_chunk(name, single, monkeypatch):
    X, Y = stream()
    Y = Y[:, 0] if single else Y
    whole, parts = copy.deepcopy(REGRESSORS[name]), copy.deepcopy(REGRESSORS[name])
    through = []
    quick = type(parts)._learn_one
    monkeypatch.setattr(type(parts), "_learn_one", lambda self, X, y: (through.append(1), quick(self, X, y))[1])
    Z = whole.predict_then_learn(X, Y)
    assert_allclose(one_by_one(parts, X, Y), Z, rtol=0, atol=1e-8)
    assert_allclose(parts.predict(X), whole.predict(X), rtol=0, atol=1e-8)
    assert_allclose(np.concatenate([parts.predict(x[None]) for x in X[:20]]), whole.predict(X[:20]), atol=1e-8)
    assert len(through) == 0 if name in GENERAL else len(through) > 50
    assert parts.t_ == whole.t_
    assert_allclose(parts.cumulative_loss_, whole.cumulative_loss_, rtol=1e-9)
    if isinstance(whole, OLOK):
        assert_allclose(parts.truncation_error_, whole.truncation_error_, rtol=1e-8, atol=1e-12)
        assert_allclose(parts.norm_, whole.norm_, rtol=1e-8)
        assert_allclose(parts.cumulative_risk_, whole.cumulative_risk_, rtol=1e-9)
        assert_array_equal(parts.support_.time, whole.support_.time)
        assert_allclose(parts.support_.A, whole.support_.A, atol=1e-9)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.sampled_from(["kawv-coupled", "pkawv-coupled", "pkawv-window", "olok-window", "olok-tolerance"]), st.data())
def test_rows_gaps_and_chunks_in_any_order(name, data):
    """Rows on the fast path and on the general path form one stream."""
    X, Y = stream(160, seed=1)
    for row in data.draw(st.lists(st.integers(0, 159), max_size=3)):
        Y[row, data.draw(st.integers(0, 1))] = np.nan
    whole, parts = copy.deepcopy(REGRESSORS[name]), copy.deepcopy(REGRESSORS[name])
    Z, found, start = whole.predict_then_learn(X, Y), [], 0
    while start < len(X):
        size = data.draw(st.sampled_from([1, 1, 1, 7, 40]))
        for _ in range(30 if size == 1 else 1):
            found.append(parts.predict_then_learn(X[start : start + size], Y[start : start + size]))
            start += size
    assert_allclose(np.concatenate(found), Z, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["kawv-coupled", "pkawv-coupled", "olok-window"])
def test_rows_that_the_fast_path_does_not_accept(name):
    X, Y = stream()
    model = copy.deepcopy(REGRESSORS[name])
    one_by_one(model, X[:100], Y[:100])
    before = model.predict(X)
    for bad_X, bad_Y, message in [
        (X[:1] * np.nan, Y[:1], "NaN or infinity"),
        (X[:1], Y[:1] * np.inf, "infinity"),
        (X[:1, :2], Y[:1], "features"),
        (X[:1], Y[:1, :1], "outputs"),
        ([["a", "b", "c"]], Y[:1], "must contain numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(bad_X, bad_Y)
        assert_array_equal(model.predict(X), before)
    model.alpha = -1.0
    with pytest.raises(ValueError, match="alpha"):
        model.partial_fit(X[:1], Y[:1])
    model.alpha = REGRESSORS[name].alpha
    undisturbed = copy.deepcopy(model)
    model.partial_fit(X[100:101].tolist(), Y[100:101].tolist())
    undisturbed.partial_fit(X[100:101], Y[100:101])
    assert_allclose(model.predict(X), undisturbed.predict(X), atol=1e-10)


def fewest_calls(model, X, Y):
    """Number of inner calls of learning a row; occasionally more, as the BLAS threads are checked once in many rows."""
    forks = [model._snapshot(), model._snapshot()]
    return min(count_calls(lambda fork=fork: fork.partial_fit(X, Y)) for fork in forks)


@pytest.mark.parametrize("name", ["kawv-coupled", "pkawv-coupled", "pkawv-discount", "olok-window", "olok-intercept"])
def test_an_interrupted_row_leaves_no_trace(name):
    X, Y = stream()
    Y = Y[:, :1] if name == "olok-intercept" else Y
    model = copy.deepcopy(REGRESSORS[name])
    # The next row is the last of a block for one of the learners.
    one_by_one(model, X[:147], Y[:147])
    # Snapshots, as copies have no fast path. One after the other may write beyond the end of the same arrays.
    before, undisturbed = model.predict(X), model._snapshot()
    calls = fewest_calls(model, X[147:148], Y[147:148])
    after = undisturbed.partial_fit(X[147:148], Y[147:148]).predict(X)
    assert 5 < calls < 80
    for number in range(1, calls + 1):
        assert interrupt(lambda: model.partial_fit(X[147:148], Y[147:148]), number)
        assert_array_equal(model.predict(X), before)
    model.partial_fit(X[147:148], Y[147:148])
    assert_allclose(model.predict(X), after, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["kawv-coupled", "pkawv-coupled", "pkawv-window", "olok-window", "olok-tolerance"])
def test_copies_and_files_in_the_middle(name, tmp_path):
    X, Y = stream()
    model = copy.deepcopy(REGRESSORS[name])
    one_by_one(model, X[:150], Y[:150])
    ovk.save(model, tmp_path / "model")
    others = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), ovk.load(tmp_path / "model")]
    Z = one_by_one(model, X[150:], Y[150:])
    for other in others:
        assert_allclose(one_by_one(other, X[150:], Y[150:]), Z, rtol=0, atol=1e-10)


def test_an_older_copy_keeps_its_past():
    """A snapshot of a learner can continue as long as the other does not."""
    X, Y = stream()
    model = PKAWV(Gaussian(1.0), 0.1, Nystrom(Given(X[:10]))).partial_fit(X[:50], Y[:50])
    model.partial_fit(X[50:51], Y[50:51])
    kept = model._snapshot()
    before = kept.predict(X)
    one_by_one(model, X[51:250], Y[51:250])
    assert_array_equal(kept.predict(X), before)


def test_rows_beyond_the_maximum_are_refused():
    X, Y = stream(60)
    model = KAWV(COUPLED, 0.1, max_rows=50)
    one_by_one(model, X[:50], Y[:50])
    before = model.predict(X)
    with pytest.raises(ValueError, match="max_rows is 50, but there would be 51 rows"):
        model.partial_fit(X[50:51], Y[50:51])
    assert_array_equal(model.predict(X), before)


def test_rows_after_rows_with_weights():
    X, Y = stream(60)
    whole, parts = KAWV(COUPLED, 0.1), KAWV(COUPLED, 0.1)
    w = np.append(np.linspace(0.1, 3.0, 40), np.ones(20))
    Z = whole.predict_then_learn(X, Y, w)
    parts.partial_fit(X[:40], Y[:40], w[:40])
    assert_allclose(one_by_one(parts, X[40:], Y[40:]), Z[40:], rtol=0, atol=1e-8)
    assert_allclose(parts.predict(X[:1]), whole.predict(X)[:1], rtol=0, atol=1e-8)


def test_a_row_on_which_steps_diverge_is_refused():
    X, Y = stream(60)
    model = OLOK(Gaussian(1.0), 0.0, Constant(5.0), truncation=30)
    with pytest.raises(ValueError, match="diverged"):
        one_by_one(model, 0.01 * X, Y[:, 0])
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.norm_)


CLASSIFIERS = {
    "pkawv": PKAWVClassifier(Gaussian(1.0), 0.1, FEW),
    "pkawv-rest": PKAWVClassifier(Gaussian(1.0), 0.1, FEW, coding="one-vs-rest", window=60),
    "olok": OLOKClassifier(Gaussian(1.0), 0.1, truncation=30),
    "olok-logistic": OLOKClassifier(loss="logistic"),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1, 5], [False, True]])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_rows_of_classes_equal_a_chunk(name, labels, monkeypatch):
    X, Y = stream()
    y = np.array(labels)[np.digitize(Y[:, 0], [-0.5, 0.5] if len(labels) == 3 else [0.0])]
    whole, parts = copy.deepcopy(CLASSIFIERS[name]), copy.deepcopy(CLASSIFIERS[name])
    through = []
    quick = type(parts)._learn_one
    monkeypatch.setattr(type(parts), "_learn_one", lambda self, X, k: (through.append(1), quick(self, X, k))[1])
    whole.partial_fit(X[:1], y[:1], classes=labels)
    parts.partial_fit(X[:1], y[:1], classes=labels)
    assert_array_equal(one_by_one(parts, X[1:], y[1:]), whole.predict_then_learn(X[1:], y[1:]))
    assert len(through) > 60
    assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-8)
    assert_allclose(parts.decision_function(X[:1]), whole.decision_function(X)[:1], atol=1e-8)
    assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-8)
    with pytest.raises(ValueError, match="not one of the classes"):
        parts.partial_fit(X[:1], np.array(["maybe"] if labels[0] == "no" else [7]))


def test_an_interrupted_row_of_classes_leaves_no_trace():
    X, Y = stream()
    y = Y[:, 0] > 0
    model = copy.deepcopy(CLASSIFIERS["pkawv"]).partial_fit(X[:1], y[:1], classes=[False, True])
    one_by_one(model, X[1:150], y[1:150])
    before, calls = model.decision_function(X), fewest_calls(model, X[150:151], y[150:151])
    assert 5 < calls < 80
    for number in range(1, calls + 1):
        assert interrupt(lambda: model.partial_fit(X[150:151], y[150:151]), number)
        assert_array_equal(model.decision_function(X), before)


def test_a_schedule_that_changes_between_rows():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((130, 2))
    Y = np.sign(np.column_stack([X[:, 0], X[:, 1] * X[:, 0]]))
    rows, chunks = (OLOK(Gaussian(1.0), schedule=InverseSqrt(0.5)) for _ in range(2))
    for i in range(130):
        if i == 100:
            rows.set_params(schedule__eta=0.1)
        rows.partial_fit(X[i : i + 1], Y[i : i + 1])
    chunks.partial_fit(X[:100], Y[:100]).set_params(schedule__eta=0.1).partial_fit(X[100:], Y[100:])
    assert_allclose(rows.predict(X), chunks.predict(X), atol=1e-12)
