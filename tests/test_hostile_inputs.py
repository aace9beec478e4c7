"""What a stranger may hand to any public estimator: a named error or a finite answer, never a raw one or silent nan."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

import ovk
from instances import ESTIMATORS
from ovk.kernels import Gaussian, Linear

RNG = np.random.default_rng(0)
X = RNG.standard_normal((14, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1]])
LABELS = np.where(X[:, 0] > 0, "a", "b")
LINKS = np.linalg.norm(X[:, None] - X[None], axis=2) < 1.2

#: Settings with which nothing is searched for, so that the tests are quick.
PARAMS = {
    "VectorField": {"kernel": "helmholtz", "profile": Gaussian(), "restarts": 1},
    "OperatorRidge": {"kernel": Gaussian(1.0), "alpha": 0.1},
}
CLASSIFIERS = [name for name, thing in ESTIMATORS.items() if is_classifier(thing())]


def unfitted(name):
    return ESTIMATORS[name](**PARAMS.get(name, {}))


def targets(name):
    if name == "OKVAR":
        return None
    return LINKS if name == "LinkPredictor" else LABELS if name in CLASSIFIERS else Y


def answers(model, rows):
    if hasattr(model, "predict"):
        return model.predict(rows)
    return model.transform(rows) if hasattr(model, "transform") else model.score_pairs(rows)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_model_that_was_not_fitted_says_so(name):
    with pytest.raises(NotFittedError):
        answers(unfitted(name), X)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_columns_of_one_name_and_frames_without_rows_are_named(name):
    with pytest.raises(ValueError, match="X has two columns named 'a': rename one"):
        unfitted(name).fit(pd.DataFrame(X, columns=["a", "a", "b"]), targets(name))
    with pytest.raises((TypeError, ValueError), match="LazyFrame"):
        unfitted(name).fit(pl.DataFrame(X, schema=["a", "b", "c"]).lazy(), targets(name))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_things_that_are_no_table_are_refused(name):
    for thing in (None, 3.0, "abc", {"a": [1, 2]}, X[:, 0], X[:, :, None], X[:0], X[:, :0]):
        with pytest.raises((TypeError, ValueError)) as caught:
            unfitted(name).fit(thing, targets(name))
        assert len(str(caught.value)) > 20
        assert not str(caught.value).startswith(("object of type", "'NoneType'", "unsupported operand"))


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("kind", ["objects", "strings"])
def test_a_missing_label_is_left_out_or_named(name, kind):
    labels = LABELS.astype(object)
    labels[2] = None
    y = labels if kind == "objects" else pd.Series(labels, dtype="string")
    if name in ("MovKLClassifier", "MultiTaskSVC"):
        with pytest.raises(ValueError, match="1 labels are missing, the first in row 2"):
            unfitted(name).fit(X, y)
    else:
        assert set(unfitted(name).fit(X, y).predict(X)) <= {"a", "b"}


@pytest.mark.parametrize("name", ["OVKRidge", "OVKRidgeCV", "OVKClassifierCV"])
def test_sparse_rows_after_dense_ones(name):
    model = unfitted(name).fit(X, targets(name))
    found, expected = model.predict(sparse.csr_array(X)), model.predict(X)
    if name in CLASSIFIERS:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_complex_outputs_are_refused():
    with pytest.raises(ValueError, match="y must contain real numbers, got complex ones"):
        ovk.IOKR().fit(X, Y + 0j)


@pytest.mark.parametrize("name", ["MovKL", "OnlineMovKL"])
def test_predictions_beyond_the_range_of_numbers_are_refused_by_row(name):
    model = unfitted(name).fit(X, Y)
    far = X.copy()
    far[5] *= 1e300
    with np.errstate(all="ignore"), pytest.raises(ovk.DivergenceError, match="no finite prediction for row 5 of X"):
        model.predict(far)


@pytest.mark.parametrize("name", ["MovKL", "OperatorRidge", "OnlineOperator"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_learned_beyond_the_range_of_numbers_is_refused_and_leaves_the_model(name):
    model = unfitted(name).fit(X, Y)
    before = model.predict(X)
    with np.errstate(all="ignore"), pytest.raises(ValueError):
        model.fit(X, 1e300 * Y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_outputs_whose_squares_vanish_are_named_with_the_cure():
    with pytest.raises(ValueError, match=r"squares of the outputs underflow.* scale y"):
        ovk.OutputKernelRidge().fit(X, 1e-160 * Y)


def test_landmarks_and_a_linear_kernel_at_any_scale():
    for scale in (1e-150, 1e140):
        model = ovk.OVKRidge(Linear(), landmarks=5, random_state=0).fit(scale * X, Y)
        assert np.isfinite(model.predict(scale * X)).all()


def test_functions_of_any_size_have_the_same_components():
    model, tiny = (ovk.OperatorRidge(Gaussian(1.0), 0.1).fit(X, size * Y) for size in (1.0, 1e-160))
    np.testing.assert_allclose(tiny.predict(X), 1e-160 * model.predict(X), rtol=1e-8)
