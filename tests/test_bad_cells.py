"""Tables that hold something else than numbers, and other wrong inputs: errors that name what is wrong."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV

from ovk import OLOK, PKAWV, OVKRidge, VectorField
from ovk.app.report import report
from ovk.features import Nystrom, Uniform
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from ovk.ovkernels import Expansion

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 3)), RNG.standard_normal((30, 2))
TABLE = pd.DataFrame(X, columns=["a", "b", "c"])
BAD = {
    "category": (pd.Categorical(["u", "v"] * 15), "'b' contains 'u' in row 0.*OneHotEncoder"),
    "string": (["1.5"] * 7 + ["x"] * 23, "'b' contains 'x' in row 7"),
    "missing": ([0.5] * 4 + [pd.NA] * 26, "'b' contains <NA> in row 4.*fill"),
    "date": (pd.date_range("2020", periods=30), "'b' contains .*2020-01-01.* in row 0: convert dates to numbers"),
    "huge": (np.array([1.0, 10**400] * 15, dtype=object), "'b' contains 1000.* in row 1.*too large"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("model", [OVKRidge(Gaussian(1.0)), OLOK(Gaussian(1.0)), PKAWV(Gaussian(1.0))], ids=str)
def test_a_cell_that_is_no_number_is_named(kind, model):
    cells, message = BAD[kind]
    table = TABLE.assign(b=cells)
    for name, call in (("X", lambda: model.fit(table, Y)), ("y", lambda: model.fit(X, table[["a", "b"]]))):
        with pytest.raises((TypeError, ValueError), match=f"{name} must contain numbers, but column {message}"):
            call()


def test_other_frames_and_arrays():
    with pytest.raises(ValueError, match="column 'b' contains 'x' in row 1"):
        OVKRidge().fit(pl.DataFrame({"a": [1.0, 2.0], "b": ["1", "x"]}), [1.0, 2.0])
    with pytest.raises(ValueError, match="column 1 contains 'x' in row 0"):
        OVKRidge().fit(np.array([[1.0, "x"], [2.0, "3"]], dtype=object), [1.0, 2.0])
    with pytest.raises(ValueError, match="y must contain numbers, but it contains 'x' in row 1"):
        OVKRidge().fit([[1.0], [2.0]], ["1", "x"])


def test_parameters_of_a_kernel_that_is_not_there_yet():
    assert PKAWV().set_params(kernel__length_scale=2.0).kernel.length_scale == 2.0
    search = GridSearchCV(OVKRidge(), {"kernel__length_scale": [0.5, 1.0]}, cv=2).fit(X, Y)
    assert set(search.best_params_) == {"kernel__length_scale"}
    model = OVKRidge()
    with pytest.raises(ValueError, match="kernel of VectorField is None"):
        VectorField().set_params(kernel__length_scale=1.0)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(kernels__length_scale=1.0)


def test_a_product_with_a_kernel_of_scikit_learn():
    ours = OVKRidge(Gaussian(1.0) * MixedEffect(0.5)).fit(X, Y).predict(X)
    for kernel in (RBF(1.0) * MixedEffect(0.5), MixedEffect(0.5) * RBF(1.0)):
        np.testing.assert_allclose(OVKRidge(kernel).fit(X, Y).predict(X), ours, atol=1e-10)


def test_expansions_of_lists():
    lists = Expansion(Gaussian(1.0) * MixedEffect(0.5), X[:2].tolist(), Y[:2].tolist())
    arrays = Expansion(Gaussian(1.0) * MixedEffect(0.5), X[:2], Y[:2])
    np.testing.assert_array_equal(lists(X.tolist()), arrays(X))


def test_words_that_help():
    with pytest.raises(ValueError, match="pass a number of points as size"):
        PKAWV(Gaussian(1.0), features=Nystrom(Uniform(500))).fit(X, Y)
    with pytest.raises(TypeError, match=r"report\(\) does not support OVKRidge"):
        report(OVKRidge(), "r.html")


@pytest.mark.parametrize("factor", [1e-160, 1e155])
def test_inputs_of_any_size(factor):
    expected = OVKRidge().fit(X, Y).predict(X)
    np.testing.assert_allclose(OVKRidge().fit(factor * X, Y).predict(factor * X), expected, atol=1e-8)


def test_too_little_memory_names_the_cure(monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr("ovk.batch.ridge.ridge_system.ridge_system", full)
    with pytest.raises(MemoryError, match=r"kernel matrix of 30 rows takes .* GB.*landmarks=1000"):
        OVKRidge().fit(X, Y)


@pytest.mark.parametrize("cell", ["71.6%", "n/a", "1,200"])
def test_a_dirty_number_is_not_a_word(cell):
    """Among numbers, a cell such as 71.6% needs no encoder: the error names the advice and the reader."""
    cells = np.array([["1.5", "2"]] * 8 + [["0", cell]] * 2, dtype=object)
    with pytest.raises(ValueError, match=r"strip percent signs and thousands separators; ovk\.app\.tables\.read_table"):
        OVKRidge().fit(cells, np.arange(10.0))
    with pytest.raises(ValueError, match="write missing values as nan"):
        OVKRidge().fit(np.eye(10), cells)
