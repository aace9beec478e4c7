"""Candidates in threads, and the progress bar."""

import numpy as np
import pytest

import ovk
from ovk import OVKClassifier, OVKClassifierCV, OVKRidge, OVKRidgeCV
from ovk.batch.tuning.automatic import map_threads
from ovk.kernels import Gaussian, Laplacian, Matern

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (70, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * RNG.standard_normal((70, 2))


@pytest.mark.parametrize(
    "arguments", [{}, {"metric": True}, {"kernel": [Gaussian(1.0), Matern(1.5, 2.0), Laplacian(1.0)]}]
)
def test_the_result_has_the_same_bits_whatever_the_number_of_threads(arguments):
    one, *others = (OVKRidgeCV(**arguments, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2, -1))
    for other in others:
        assert np.array_equal(other.errors_, one.errors_)
        assert np.array_equal(other.alpha_, one.alpha_)
        assert np.array_equal(other.predict(X), one.predict(X))


def test_classifiers_share_their_candidates_too():
    label = X[:, 0] * X[:, 1] > 0
    one, two = (OVKClassifierCV(n_jobs=n_jobs).fit(X, label).predict_proba(X) for n_jobs in (1, 2))
    assert np.array_equal(one, two)


def test_items_come_in_their_order_and_errors_come_through():
    assert list(map_threads(lambda x: x + 1, list(range(20)), 4, "adding")) == list(range(1, 21))
    assert list(map_threads(lambda x: x + 1, [], 2, "adding")) == []
    with pytest.raises(ZeroDivisionError):
        list(map_threads(lambda x: 1 / x, [1, 0], 2, "dividing"))


@pytest.mark.parametrize("n_jobs", [0, True, 1.5, "two"])
def test_a_number_of_threads_that_is_none(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None, a number of threads, or -1"):
        OVKRidgeCV(n_jobs=n_jobs).fit(X, Y)


@pytest.mark.parametrize("Model", [OVKRidgeCV, OVKClassifierCV])
def test_progress_is_shown_where_it_is_asked_for(Model, capsys):
    y = (Y[:, 0] > 0) if Model is OVKClassifierCV else Y
    Model().fit(X, y)
    Model(verbose=False).fit(X, y)
    assert capsys.readouterr().err == ""
    Model(verbose=True).fit(X, y)
    assert "comparing kernels" in capsys.readouterr().err


def test_progress_of_landmarks(capsys):
    OVKRidge(Gaussian(1.0), landmarks=10, verbose=True).fit(X, Y)
    OVKClassifier(Gaussian(1.0), landmarks=10, verbose=True).fit(X, Y[:, 0] > 0)
    assert capsys.readouterr().err.count("learning 70") == 2


@pytest.mark.parametrize("Model", [OVKRidge, OVKRidgeCV, OVKClassifier, OVKClassifierCV])
def test_they_are_saved(Model, tmp_path):
    given = {"dtype": "float32", "verbose": False}
    if Model in (OVKRidgeCV, OVKClassifierCV):
        given["n_jobs"] = 2
    ovk.save(Model(**given), tmp_path / "model.ovk")
    again = ovk.load(tmp_path / "model.ovk")
    assert {name: again.get_params()[name] for name in given} == given
