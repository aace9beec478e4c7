"""The warm-up: units chosen from the first rows, in chunks of any sizes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from ovk import KAWV, OLOK, PKAWV, OLOKClassifier, PKAWVClassifier
from ovk.evaluation import RunningMean
from ovk.features import Given, Nystrom
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect


def rows(n=700, centre=100.0, scale=2.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform([-3.0, 1e3], [3.0, 2e3], (n, 2))
    Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 1] / 200)]) + 0.1 * rng.standard_normal((n, 2))
    return X, centre + scale * Y


LEARNERS = {
    "pkawv": PKAWV,
    "olok": OLOK,
    "kawv": KAWV,
    "coupled": lambda: PKAWV(Gaussian() * MixedEffect(0.5), 0.1),
    "short": lambda: OLOK(warm_up=30, average=True, truncation=50),
    "clipped": lambda: PKAWV(clip=(95.0, 101.0)),
}


@pytest.mark.parametrize(("centre", "scale"), [(100.0, 2.0), (1e6, 1e3)])
@pytest.mark.parametrize("learner", ["pkawv", "olok", "kawv"])
def test_better_than_the_running_mean_after_the_warm_up(learner, centre, scale):
    X, Y = rows(600, centre, scale)
    Z = LEARNERS[learner]().predict_then_learn(X, Y)
    mean = RunningMean().predict_then_learn(X, Y)
    ours, theirs = (np.mean((F[200:] - Y[200:]) ** 2, axis=0) for F in (Z, mean))
    assert (ours < 0.5 * theirs).all()
    # The first rows are predicted by the mean of those before.
    assert (np.abs(Z[1:] - Y[1:]) < 20 * scale).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_chunks_make_no_difference_and_a_state_resumes(learner, tmp_path):
    X, Y = rows(260)
    Y[5:60, 0] = np.nan
    whole, seven, single = (LEARNERS[learner]() for _ in range(3))
    Z = whole.predict_then_learn(X, Y)
    found = []
    for start in range(0, len(X), 7):
        if start in (7, 63, 196):
            ovk.save(seven, tmp_path / "model.ovk")
            seven = ovk.load(tmp_path / "model.ovk")
        found.append(seven.predict_then_learn(X[start : start + 7], Y[start : start + 7]))
    assert_allclose(np.concatenate(found), Z, rtol=1e-8)
    assert_allclose(
        np.concatenate([single.predict_then_learn(X[i : i + 1], Y[i : i + 1]) for i in range(len(X))]), Z, rtol=1e-8
    )
    for other in (seven, single, LEARNERS[learner]().fit(X, Y)):
        assert_allclose(other.predict(X[:9]), whole.predict(X[:9]), rtol=1e-8)
        assert other.t_ == whole.t_ == 260
        assert_allclose(other.cumulative_loss_, whole.cumulative_loss_, rtol=1e-8)


def test_a_prediction_during_the_warm_up_uses_the_rows_so_far_and_changes_nothing():
    X, Y = rows(80)
    one, two = PKAWV().partial_fit(X[:60], Y[:60]), PKAWV().partial_fit(X[:60], Y[:60])
    before = one.predict(X[60:])
    assert np.mean((before - Y[60:]) ** 2) < 0.5 * np.var(Y)
    one.predict(X)
    assert_array_equal(one.predict_then_learn(X[60:], Y[60:]), two.predict_then_learn(X[60:], Y[60:]))
    few = OLOK().partial_fit(X[:3], Y[:3])
    assert np.abs(few.predict(X[:3]) - 100.0).max() < 10.0


def test_fit_ends_the_warm_up():
    X, Y = rows(300)
    model = PKAWV().fit(X[:40], Y[:40])
    centre = model.output_units_.centre.copy()
    assert_allclose(centre, Y[:40].mean(axis=0), rtol=0.01)
    model.partial_fit(X[40:], Y[40:])
    assert_array_equal(model.output_units_.centre, centre)


def test_zero_is_the_algorithm_of_the_paper_and_the_units_are_only_units():
    X, Y = rows(230)
    model = PKAWV(warm_up=200).fit(X, Y)
    inputs, outputs = model.input_units_, model.output_units_
    inside = PKAWV(model.kernel_, warm_up=0).fit((X - inputs.centre) / inputs.scale, outputs.outputs(Y))
    mean, std = inside.predict((X[:5] - inputs.centre) / inputs.scale, return_std=True)
    ours, deviation = model.predict(X[:5], return_std=True)
    assert_allclose(ours, outputs.predictions(mean), rtol=1e-10)
    assert_allclose(deviation, outputs.scale * std, rtol=1e-9)
    assert_allclose(model.predict(X[:5], return_cov=True)[1][:, [0, 1], [0, 1]], deviation**2, rtol=1e-9)
    assert any((model.support_[0] == X).all(axis=1) | np.isclose(model.support_[0], X).all(axis=1))


@pytest.mark.parametrize(
    "model",
    [PKAWV(Gaussian(1.0)), OLOK(Gaussian(1.0)), PKAWV(features=Nystrom(Given(np.zeros((1, 2)))))],
    ids=["width", "first order", "dictionary"],
)
def test_off_where_something_is_given(model):
    X, Y = rows(50)
    model.fit(X, Y)
    assert model.output_units_ is None


def test_refusals():
    X, Y = rows(50)
    with pytest.raises(ValueError, match="warm_up must be an integer >= 0"):
        PKAWV(warm_up=-1).fit(X, Y)
    start = OLOK(Gaussian(1.0)).fit(X, Y)
    with pytest.raises(ValueError, match="warm_up must be 0 with init"):
        OLOK(Gaussian(1.0), init=start, warm_up=10).fit(X, Y)
    one, two = PKAWV(random_state=0).fit(X, Y), PKAWV(random_state=0).fit(X[::-1], Y)
    with pytest.raises(ValueError, match="same units: set warm_up=0"):
        one.merge(two)


def test_skipped_rows_do_not_count():
    X, Y = rows(260)
    bad = X.copy()
    bad[[3, 90]] = np.nan
    model = PKAWV(on_invalid="skip")
    Z = model.predict_then_learn(bad, Y)
    kept = np.delete(np.arange(260), [3, 90])
    assert model.n_skipped_ == 2
    assert np.isnan(Z[[3, 90]]).all()
    assert_array_equal(Z[kept], PKAWV().predict_then_learn(X[kept], Y[kept]))


@pytest.mark.parametrize("classifier", [OLOKClassifier, PKAWVClassifier])
def test_classifiers(classifier):
    X, Y = rows(500)
    y = np.where(Y[:, 0] > 100, "up", "down")
    model = classifier()
    guesses = model.predict_then_learn(X, y, classes=["up", "down"])
    assert np.mean(guesses[250:] != y[250:]) < 0.3
    again = classifier()
    parts = [again.predict_then_learn(X[i : i + 50], y[i : i + 50], classes=["up", "down"]) for i in range(0, 500, 50)]
    assert_array_equal(np.concatenate(parts), guesses)


def nights_then_days(n=600, quiet=430, seed=0):
    """One class while the lamp is off; then two, in which the lamp tells them apart."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) >= quiet) & (np.arange(n) // 10 % 2 == 1)
    return np.stack([20.0 + rng.standard_normal(n), np.where(y, 400.0 + 50.0 * rng.standard_normal(n), 0.0)], 1), y


@pytest.mark.parametrize("chunk", [1, 7, 600])
def test_the_warm_up_of_a_classifier_waits_for_a_second_class(chunk):
    X, y = nights_then_days()
    model, found = PKAWVClassifier(), []
    for start in range(0, len(X), chunk):
        rows = slice(start, start + chunk)
        found.append(model.predict_then_learn(X[rows], y[rows], [False, True]))
    Z = np.concatenate(found)
    # With the units and points of the first 200 rows every row was predicted as the first class.
    assert np.mean(Z[480:] != y[480:]) < 0.05
    assert model.learner_.t_ == len(X)
    assert_array_equal(Z, PKAWVClassifier().predict_then_learn(X, y, [False, True]))


def test_a_waiting_warm_up_stores_few_rows():
    X, y = nights_then_days(700, quiet=700)
    model = PKAWVClassifier().partial_fit(X, y, [False, True])
    assert len(model.learner_.held_.rows) < 200
    assert not model.predict(X[:3]).any()
