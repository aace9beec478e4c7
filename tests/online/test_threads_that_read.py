"""Threads that predict while another one learns see the model between two calls."""

import copy
import sys
import threading

import numpy as np
import pytest

from learners import CLASSIFIERS, EVERY, rows

READERS = 3
CHUNK = 23


@pytest.fixture
def many_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


#: Ways to read besides `predict`, whose parts must belong to one state.
WAYS = {
    "olok-auto-average": lambda model, X: np.append(model.expansion_(X), 0.0 * model.norm_),
    "kawv": lambda model, X: np.stack(model.predict(X, return_std=True)),
    "pkawv-kors": lambda model, X: model.predict(X, return_cov=True)[1],
    "movkl": lambda model, X: model.weights_,
    "intervals": lambda model, X: model.predict_regions(X).lower,
    "pkawv-classifier": lambda model, X: model.decision_function(X),
}
READ = [(name, lambda model, X: model.predict(X)) for name in EVERY] + list(WAYS.items())


@pytest.mark.parametrize(("name", "value"), READ, ids=[*EVERY, *[f"{name}-more" for name in WAYS]])
def test_readers_see_the_model_between_two_calls(name, value, many_switches):
    X, Y = rows(name, 40)
    model = EVERY[name]()
    model.partial_fit(X, Y, **({"classes": ["down", "up"]} if name in CLASSIFIERS else {}))
    X1, Y1 = rows(name, 6 * CHUNK, 1)
    chunks = [slice(start, start + CHUNK) for start in range(0, len(X1), CHUNK)]
    alone = copy.deepcopy(model)
    boundaries = [value(alone, X)]
    for rows_ in chunks:
        alone.partial_fit(X1[rows_], Y1[rows_])
        boundaries.append(value(alone, X))

    found, errors, ended = [], [], threading.Event()

    def read():
        while not ended.is_set():
            try:
                found.append(value(model, X))
            except BaseException as error:  # whatever comes out is reported
                errors.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    try:
        for rows_ in chunks:
            model.partial_fit(X1[rows_], Y1[rows_])
    finally:
        ended.set()
        for reader in readers:
            reader.join(20)
    assert not errors
    assert found
    for prediction in found:
        if prediction.dtype.kind != "f":
            assert any((prediction == one).all() for one in boundaries)
        else:
            nearest = min(np.abs(prediction - one).max() for one in boundaries)
            assert nearest < 1e-9
