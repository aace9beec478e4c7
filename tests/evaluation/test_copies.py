"""Copies, results and merged parts do not change while the original continues."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from ovk.evaluation import (
    ACI,
    CLASSIFICATION,
    COP,
    Chunk,
    ConformalPID,
    DelayedLabels,
    Evaluator,
    LastValue,
    RecentErrors,
    RollingConformal,
    RunningMean,
    RunningMoments,
    Standardised,
    StronglyAdaptive,
)
from ovk.features import Fourier
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect

METHODS = {
    "aci": lambda region: ACI(0.8, region, window=30),
    "pid": lambda region: ConformalPID(0.8, region, season=3),
    "error-quantified": lambda region: COP(0.8, region, trust=0, sharpness=1),
    "optimistic": lambda region: COP(0.8, region),
    "strongly adaptive": lambda region: StronglyAdaptive(0.8, region, lifetime=5),
    "rolling": lambda region: RollingConformal(0.8, region, window=40, step=10),
}
CHUNKS = [slice(0, 1), slice(1, 2), slice(2, 40), slice(40, 41), slice(41, 80)]


def residuals(n=80, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, 2)) * np.where(np.arange(n) < n // 2, 1.0, 4.0)[:, None]
    Y[rng.random(Y.shape) < 0.1] = np.nan
    return Y


def stream(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.column_stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]]) + 0.1 * rng.standard_normal((n, 2))


def learner():
    return ovk.PKAWV(Gaussian(1.0) * MixedEffect(0.5), 0.1, Fourier(10), random_state=0)


def written(value, path):
    ovk.save(value, path)
    return path.read_bytes()


@pytest.mark.parametrize("region", ["each", "box", "ellipsoid"])
@pytest.mark.parametrize("name", METHODS)
def test_copies_of_intervals_do_not_change(name, region, tmp_path):
    method, Y, path, kept = METHODS[name](region), residuals(), tmp_path / "method.ovk", []
    method.regions_then_learn(np.zeros((25, 2)), residuals(25, 1))
    for chunk in CHUNKS:
        copy = method._snapshot()
        kept.append((copy, written(copy, path), pickle.dumps(copy.regions(np.zeros((1, 2))))))
        method.regions_then_learn(0.0 * Y[chunk], Y[chunk])
    for copy, state, regions in kept:
        assert written(copy, path) == state
        assert pickle.dumps(copy.regions(np.zeros((1, 2)))) == regions


@pytest.mark.parametrize("keep", ["none", "all"])
def test_a_result_does_not_change_while_the_evaluation_continues(keep):
    X, Y = stream(160)
    chunks = [Chunk(X[i : i + 20], Y[i : i + 20], ("a", "b"), ("y", "z")) for i in range(0, 160, 20)]
    evaluator = Evaluator.start(
        learner(), [LastValue(), RunningMean()], Standardised(running=True), chunks[0], keep, ACI(0.8)
    )
    results = []
    for chunk in chunks:
        evaluator.predict_then_learn(chunk, tested=True)
        result = evaluator.result()
        results.append((result, pickle.dumps(result)))
    for k, (result, before) in enumerate(results, start=1):
        assert pickle.dumps(result) == before
        assert result.n_rows == result.rows[-1] == 20 * k
        assert_array_equal(result.counts[-1], 20 * k)


def test_intermediate_results_do_not_change_the_evaluation():
    """Taking a result after every chunk does not change the final result."""
    X, Y = stream(160)

    def evaluated(looks):
        chunks = [Chunk(X[i : i + 20], Y[i : i + 20], ("a", "b"), ("y", "z")) for i in range(0, 160, 20)]
        evaluator = Evaluator.start(learner(), [LastValue()], Standardised(running=True), chunks[0], "all", ACI(0.8))
        for chunk in chunks:
            evaluator.predict_then_learn(chunk, tested=True)
            if looks:
                evaluator.result()
        return evaluator.result()

    often, once = evaluated(True), evaluated(False)
    assert_array_equal(often.rows, once.rows)
    for one, other in zip(often.learners, once.learners, strict=True):
        assert_array_equal(one.mse, other.mse)
        assert_array_equal(one.mae, other.mae)
    assert_array_equal(often.predictions, once.predictions)
    assert_array_equal(often.intervals.coverage, once.intervals.coverage)


def test_merged_recent_errors_are_independent(tmp_path):
    Y, path = residuals(60), tmp_path / "recent.ovk"
    one, two = RecentErrors.empty(2, size=50), RecentErrors.empty(2, size=50)
    one.update(np.zeros((30, 2)), Y[:30])
    two.update(np.zeros((30, 2)), Y[30:])
    copy, before, states = one._snapshot(), one.tested.copy(), [written(one, path), written(two, path)]
    one.merge(two)
    one.update(np.zeros((30, 2)), Y[:30])
    assert [written(copy, path), written(two, path)] == states
    assert (one.tested >= before + two.tested).all()
    assert len(one.Y) == len(one.F) == len(one.half) == 50


def test_merged_moments_are_independent():
    A, parts = stream(40)[0], []
    for rows in (slice(0, 0), slice(0, 15), slice(15, 40)):
        parts.append(RunningMoments(2))
        parts[-1].before_then_add(A[rows])
    empty, one, two = parts
    empty.merge(two)
    empty.merge(one)
    empty.before_then_add(A)
    for part, rows in ((one, A[:15]), (two, A[15:])):
        assert_array_equal(part.count, len(rows))
        assert_allclose(part.mean, rows.mean(axis=0))
        assert_allclose(part.sd, rows.std(axis=0))
    assert_allclose(empty.mean, A.mean(axis=0))
    assert_allclose(empty.sd, A.std(axis=0))


def test_scores_of_classes_do_not_change_while_the_evaluation_continues():
    X, _ = stream(120)
    codes = (X[:, 0] > 0) + (X[:, 1] > 0.5) * 1.0
    chunks = [Chunk(X[i : i + 20], codes[i : i + 20], ("a", "b"), ("y",)) for i in range(0, 120, 20)]
    model = ovk.PKAWVClassifier(Gaussian(1.0), 0.1, Fourier(10), random_state=0)
    evaluator = Evaluator.start(model, None, Standardised(running=True), chunks[0], task=CLASSIFICATION)
    results = []
    for chunk in chunks:
        evaluator.predict_then_learn(chunk, tested=True, classes=["u", "v", "w"])
        result = evaluator.result()
        results.append((result, pickle.dumps(result)))
    for k, (result, before) in enumerate(results, start=1):
        assert pickle.dumps(result) == before
        assert result.model.confusion.sum() == 20 * k


def test_delayed_rows_may_be_lists():
    X, Y = stream(30)
    tables, lists = DelayedLabels(learner()), DelayedLabels(learner())
    for rows in (slice(0, 10), slice(10, 20), slice(20, 30)):
        found, tickets = tables.predict(X[rows])
        same, again = lists.predict(X[rows].tolist())
        assert_array_equal(found, same)
        assert_array_equal(tickets, again)
        tables.learn(tickets[:5], Y[rows][:5])
        lists.learn(again[:5].tolist(), Y[rows][:5].tolist())
    assert_array_equal(tables.predict(X)[0], lists.predict(X.tolist())[0])


def test_scores_of_classes_add_up():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 60)
    Y = np.eye(3)[rng.integers(3, size=60)]
    counted = np.ones((60, 3), dtype=bool)
    parts = [CLASSIFICATION.scores("model", 0, probabilities=True) for _ in range(3)]
    for part, rows in zip(parts, (slice(0, 25), slice(25, 60), slice(0, 60)), strict=True):
        part.add(P[rows], Y[rows], counted[rows])
        part.seconds = 1.0 + rows.start
    one, two, whole = parts
    before = pickle.dumps(two)
    one.merge(two)
    assert pickle.dumps(two) == before
    assert_array_equal(one.confusion, whole.confusion)
    assert_array_equal(one.histogram, whole.histogram)
    assert_allclose(one.log_losses, whole.log_losses)
    assert_allclose(one.log_loss, whole.log_loss)
    assert one.seconds == 27.0
