"""Refits whose work is split over rows: the same result in any chunks, after saving, and after interruptions."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from ovk import AutoStream, AutoStreamClassifier
from ovk.online.experts import mixture, refit
from ovk.online.experts.expert_set import CALL_COST, ExpertSet
from ovk.online.experts.mixture import ExpertMixture

#: Rows before the refit, and rows of the stream.
START, N = 70, 110


@pytest.fixture(autouse=True)
def slow_refits(monkeypatch):
    monkeypatch.setattr(ExpertMixture, "_refit_rows", (15, START))
    monkeypatch.setattr(ExpertSet, "_rows_compared", 60)
    monkeypatch.setattr(ExpertSet, "_widths", (0.5, 1.0))
    monkeypatch.setattr(mixture, "MAX_ROWS_AT_ONCE", START - 1)
    monkeypatch.setattr(refit, "ROW_BUDGET", 3e6)


def stream(classes):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (N, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(N)
    return (AutoStreamClassifier(), X, y > 0.0) if classes else (AutoStream(), X, y)


def learn(model, X, y):
    return model.predict_then_learn(X, y) if isinstance(model, AutoStream) else model.predict_proba_then_learn(X, y)


def rows_of_the_refit(model, X, y):
    """The rows at which a refit is going on, and the costs that each has paid for."""
    found, costs, spent = [], [], 0.0
    model.partial_fit(X[: START - 1], y[: START - 1])
    for i in range(START - 1, len(X)):
        learn(model, X[i : i + 1], y[i : i + 1])
        experts = model.mixture_
        if experts.refit_since:
            found.append(i)
        if experts._work is not None:
            costs.append(experts._work._spent - spent)
            spent = experts._work._spent
    return found, costs


@pytest.mark.parametrize("classes", [False, True])
def test_the_work_is_split_over_rows(classes):
    model, X, y = stream(classes)
    found, costs = rows_of_the_refit(model, X, y)
    assert found == list(range(START - 1, found[-1] + 1))
    assert 8 < len(found) < 30
    # A row pays for its share, and at most for the step that exceeds it.
    assert max(costs) < 2.0 * max(refit.ROW_BUDGET, CALL_COST)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("sizes", [[1], [16, 3]])
def test_rows_equal_chunks_during_a_refit(classes, sizes):
    model, X, y = stream(classes)
    model.partial_fit(X[:START], y[:START])
    whole, parts, start = learn(deepcopy(model), X[START:], y[START:]), [], START
    while start < N:
        stop = start + sizes[len(parts) % len(sizes)]
        parts.append(learn(model, X[start:stop], y[start:stop]))
        start = stop
    assert_allclose(np.concatenate(parts), whole, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("classes", [False, True])
def test_copies_and_files_continue_a_refit(classes, tmp_path):
    model, X, y = stream(classes)
    model.partial_fit(X[:START], y[:START])
    rows = START + 8
    for i in range(START, rows):
        learn(model, X[i : i + 1], y[i : i + 1])
    assert model.mixture_.refit_since == START
    ovk.save(model, tmp_path / "model.ovk")
    copies = [ovk.load(tmp_path / "model.ovk"), deepcopy(model), pickle.loads(pickle.dumps(model))]
    expected = np.concatenate([learn(model, X[i : i + 1], y[i : i + 1]) for i in range(rows, N)])
    assert not model.mixture_.refit_since
    for copy in copies:
        found = np.concatenate([learn(copy, X[i : i + 1], y[i : i + 1]) for i in range(rows, N)])
        assert_array_equal(found, expected)


def test_an_interruption_does_not_change_the_result(monkeypatch):
    model, X, y = stream(False)
    other = deepcopy(model)
    learn(other, X[: START + 3], y[: START + 3])
    expected = learn(other, X[START + 3 :], y[START + 3 :])
    learn(model, X[: START + 3], y[: START + 3])
    with monkeypatch.context() as patch:
        patch.setattr("ovk.online.experts.expert_set.score", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            learn(model, X[START + 3 :], y[START + 3 :])
    assert_array_equal(learn(model, X[START + 3 :], y[START + 3 :]), expected)
