"""NORMA: nu-classification, an adaptive tube, an unpenalised bias, and novelty detection."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import ovk
import reference
from ovk import OLOK, NoveltyDetector, OLOKClassifier
from ovk.kernels import Gaussian
from ovk.objectives import Novelty, NuHinge, NuInsensitive
from ovk.online import Tolerance, Window
from ovk.online.theory import error_bound

K = Gaussian(0.8)
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (120, 2))
Y = {
    "classification": np.where(X[:, 0] * X[:, 1] > 0.3, 1.0, -1.0),
    "regression": np.sin(2 * X[:, 0]) + 3.0 + 0.2 * RNG.standard_normal(120),
    "novelty": np.zeros(120),
}
LOSSES = {"classification": NuHinge(0.3, 0.2), "regression": NuInsensitive(0.3, 0.1), "novelty": Novelty(0.3)}


@parametrize_with_checks([NoveltyDetector()])
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("bias", [False, True])
def test_learns_what_the_paper_writes(kind, bias):
    loss = LOSSES[kind]
    start = 0.0 if kind == "novelty" else loss.start()
    Z, theta, b = reference.norma(K, X, Y[kind], kind, 0.3, 0.1, lambda t: 0.5 / t**0.5, start, bias)
    model = OLOK(K, 0.1, 0.5, loss, fit_intercept=bias)
    found = model.predict_then_learn(X, None if kind == "novelty" else Y[kind])
    assert_allclose(found, Z, atol=1e-12)
    assert_allclose(model.threshold_, theta, atol=1e-12)
    assert (model.intercept_ is None) == (not bias)
    if bias:
        assert_allclose(model.intercept_, [b], atol=1e-12)
        assert_allclose(model.predict(X[:3]), model.expansion_(X[:3])[:, 0])


@pytest.mark.parametrize("loss", ["squared", "hinge", "huber", NuInsensitive(0.2)])
@pytest.mark.parametrize("schedule", [0.5, "auto"])
def test_a_bias_in_chunks_is_that_of_rows(loss, schedule):
    y = Y["classification" if loss == "hinge" else "regression"]
    model = OLOK(K, 0.1, schedule, loss, truncation=40, fit_intercept=True)
    whole, rows = clone(model).partial_fit(X, y), clone(model)
    for x, label in zip(X, y, strict=True):
        rows.partial_fit(x[None], [label])
    assert_allclose(rows.predict(X), whole.predict(X), atol=1e-10)
    assert_allclose(rows.intercept_, whole.intercept_, atol=1e-10)
    assert whole.truncation_error_ == np.inf
    kept = clone(model).set_params(truncation=None).fit(X, y)
    assert kept.truncation_error_ == 0.0
    assert_allclose(kept.norm_, type(kept.expansion_)(kept.kernel_, kept.support_.X, kept.support_.A[:, 0]).norm())


def test_a_bias_costs_no_penalty():
    """For outputs far from zero, a bias is more accurate than a penalised f."""
    y = Y["regression"]
    plain, biased = (OLOK(K, 0.3, 0.3, fit_intercept=bias).fit(X, y) for bias in (False, True))
    errors = [np.mean((model.predict(X) - y) ** 2) for model in (plain, biased)]
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_share_nu_is_on_the_wrong_side(kind):
    rng = np.random.default_rng(1)
    rows = rng.uniform(-2, 2, (2500, 2))
    noise = rng.standard_normal(2500)
    y = np.sin(2 * rows[:, 0]) + 0.3 * noise
    if kind == "classification":
        y = np.where(rows[:, 0] + 0.3 * noise > 0, 1.0, -1.0)
    for nu in (0.1, 0.4):
        model, wrong = OLOK(K, 0.01, 0.5, type(LOSSES[kind])(nu), truncation=300), []
        for start in range(0, 2500, 10):
            some = slice(start, start + 10)
            theta = model.threshold_ if start else 1.0
            f = model.predict_then_learn(rows[some], y[some])
            wrong.append(np.mean(y[some] * f < theta if kind == "classification" else np.abs(y[some] - f) > theta))
        assert abs(np.mean(wrong[80:]) - nu) < 0.05


@pytest.mark.parametrize("outputs", [1, 16])
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_certified_truncation_with_a_threshold(kind, outputs):
    """Equal outputs reach a kink together, so the threshold moves by as much as the bound allows."""
    y = np.repeat(Y[kind][:, None], outputs, axis=1)
    full = OLOK(K, 1.0, 0.9 / outputs, LOSSES[kind])
    few = clone(full).set_params(truncation=Window(20, hold_steps=False))
    differ = 0
    for i in range(len(X)):
        for model in (full, few):
            model.partial_fit(X[i : i + 1], y[i : i + 1])
        if i % 10 == 9:
            apart = np.linalg.norm((full.predict(X) - few.predict(X)).reshape(len(X), -1), axis=1)
            assert apart.max() <= few.truncation_error_ * (1 + 1e-12)
        apart = abs(full.threshold_ - few.threshold_)
        assert apart <= few.progress_.threshold_error + 1e-12
        differ += apart > 1e-6
    assert differ > 0


def test_several_outputs_with_holes_share_the_threshold():
    y = np.column_stack([Y["regression"], -Y["regression"]])
    y[::3, 1] = np.nan
    model = OLOK(K, 0.1, 0.5, NuInsensitive(0.2), fit_intercept=True).fit(X, y)
    assert model.intercept_.shape == (2,)
    assert model.intercept_[0] > 1.0 > -1.0 > model.intercept_[1]
    assert model.threshold_ >= 0


def test_a_classifier_takes_the_loss_and_the_bias():
    names = np.array(["a", "b", "c"])[(X[:, 0] > -0.5).astype(int) + (X[:, 0] > 0.7)]
    model = OLOKClassifier(K, 1e-3, 1.0, NuHinge(0.2), fit_intercept=True).fit(X, names)
    assert model.learner_.intercept_.shape == (3,)
    assert model.score(X, names) > 0.9


def test_new_inputs_are_detected(tmp_path):
    rows = np.random.default_rng(0).standard_normal((1500, 2))
    model = NoveltyDetector(Gaussian(1.0), nu=0.1).fit(rows)
    assert_array_equal(model.predict(np.full((5, 2), 5.0)), [-1] * 5)
    assert (model.predict(rows) == 1).mean() > 0.8
    assert_allclose(model.decision_function(rows), model.score_samples(rows) - model.threshold_)
    parts = NoveltyDetector(Gaussian(1.0), nu=0.1)
    for start in range(0, 1500, 70):
        parts.partial_fit(rows[start : start + 70])
    assert_allclose(parts.threshold_, model.threshold_, atol=1e-10)
    ovk.save(model, tmp_path / "m.ovk")
    again = ovk.load(tmp_path / "m.ovk").partial_fit(rows[:50])
    assert_array_equal(again.predict(rows), model.partial_fit(rows[:50]).predict(rows))


def test_a_saved_bias_resumes(tmp_path):
    model = OLOK(K, 0.1, 0.5, NuInsensitive(0.2), truncation=30, fit_intercept=True).fit(X, Y["regression"])
    ovk.save(model, tmp_path / "m.ovk")
    again = ovk.load(tmp_path / "m.ovk").partial_fit(X, Y["regression"])
    assert_allclose(again.predict(X), model.partial_fit(X, Y["regression"]).predict(X))


def test_starting_from_a_function_with_an_intercept():
    batch = ovk.OVKRidge(K, 0.1, fit_intercept=True).fit(X, Y["regression"])
    model = OLOK(K, 1e-3, 0.1, init=batch, fit_intercept=True)
    first = model.predict_then_learn(X[:1], Y["regression"][:1])
    assert_allclose(first, batch.predict(X[:1]))
    with pytest.raises(ValueError, match="init has an intercept"):
        OLOK(K, init=batch).fit(X, Y["regression"])


def test_bias_and_threshold_exclude_other_options():
    y = Y["regression"]
    with pytest.raises(ValueError, match="average=True cannot be combined"):
        OLOK(K, fit_intercept=True, average=True).fit(X, y)
    with pytest.raises(ValueError, match="use a window"):
        OLOK(K, fit_intercept=True, truncation=Tolerance()).fit(X, y)
    with pytest.raises(AttributeError, match="Squared has no learned threshold"):
        _ = OLOK(K).fit(X, y).threshold_
    biased = OLOK(K, 0.1, 0.5, "hinge", fit_intercept=True).fit(X, Y["classification"])
    assert "fit_intercept" in error_bound(biased).failed
    assert "NuHinge" in error_bound(OLOK(K, 0.1, 0.5, NuHinge()).fit(X, Y["classification"])).failed
