"""scikit-learn objects on the list are restored unchanged; files can name no other classes of scikit-learn."""

import json
import random
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression, mutual_info_regression
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import ovk
from ovk.base import state as _registry
from ovk.kernels import Gaussian
from ovk.persistence import (
    ChangedClassError,
    CorruptFileError,
    NewerFormatError,
    NotSavableError,
    UnknownClassError,
    inspect,
    load,
    save,
)
from ovk.persistence.objects import ESTIMATORS
from persistence.toys import edited_manifests, forge, parts_of, write

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = np.column_stack([X.sum(axis=1), X[:, 0] ** 2])
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
WORDS = pd.DataFrame({"rock": ["lime", "clay", "lime", "sand"] * 10, "depth": RNG.integers(0, 4, 40)})
TRANSFORMERS = {
    "standard": (StandardScaler(), X),
    "minmax": (MinMaxScaler(clip=True), X),
    "robust": (RobustScaler(), X),
    "maxabs": (MaxAbsScaler(), X),
    "normalizer": (Normalizer(), X),
    "pca": (PCA(2, whiten=True), X),
    "svd": (TruncatedSVD(2, random_state=0), X),
    "imputer": (SimpleImputer(add_indicator=True), HOLES),
    "imputer-words": (SimpleImputer(strategy="most_frequent"), WORDS),
    "indicator": (MissingIndicator(features="all"), HOLES),
    "one-hot": (OneHotEncoder(drop="first", sparse_output=False), WORDS),
    "one-hot-rare": (OneHotEncoder(min_frequency=12, handle_unknown="infrequent_if_exist"), WORDS),
    "one-hot-float32": (OneHotEncoder(dtype=np.float32), WORDS),
    "ordinal": (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), WORDS),
    "polynomial": (PolynomialFeatures(2, interaction_only=True), X),
    "spline": (SplineTransformer(n_knots=4, extrapolation="periodic"), X),
    "quantile": (QuantileTransformer(n_quantiles=10, output_distribution="normal"), X),
    "power": (PowerTransformer(), X),
    "bins": (KBinsDiscretizer(4, strategy="uniform"), X),
    "variance": (VarianceThreshold(0.1), X),
    "best": (SelectKBest(f_regression, k=2), X),
    "identity": (FunctionTransformer(), X),
    "columns": (
        ColumnTransformer([("n", StandardScaler(), ["depth"]), ("w", OneHotEncoder(), [0])], remainder="passthrough"),
        WORDS,
    ),
    "union": (FeatureUnion([("a", PCA(2)), ("b", StandardScaler())], transformer_weights={"a": 2.0}), X),
    "pipeline": (Pipeline([("a", StandardScaler()), ("b", "passthrough"), ("c", PCA(2))]), X),
    "pandas": (StandardScaler().set_output(transform="pandas"), WORDS[["depth"]]),
}


def dense(values):
    return values.toarray() if hasattr(values, "toarray") else np.asarray(values)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_come_back_as_they_were(name, path):
    transformer, A = TRANSFORMERS[name]
    for model in (clone(transformer), clone(transformer).fit(A, Y[:, 0])):
        save(model, path)
        loaded = load(path)
        assert type(loaded) is type(model)
        assert repr(loaded) == repr(model)
    found, expected = loaded.transform(A), model.transform(A)
    assert type(found) is type(expected)
    np.testing.assert_array_equal(dense(found), dense(expected))
    np.testing.assert_array_equal(dense(clone(loaded).fit(A, Y[:, 0]).transform(A)), dense(expected))
    if hasattr(model, "get_feature_names_out"):
        assert list(loaded.get_feature_names_out()) == list(model.get_feature_names_out())


def test_every_class_of_the_list_is_tried():
    tried = {f"{type(one).__module__.rsplit('.', 1)[0]}.{type(one).__name__}" for one, _ in TRANSFORMERS.values()}
    public = {name.split("._")[0] + "." + name.rpartition(".")[2] for name in tried}
    assert {name.rpartition(".")[2] for name in public} | {"TransformedTargetRegressor"} == {
        name.rpartition(".")[2] for name in ESTIMATORS
    }


def whole_model():
    columns = ColumnTransformer(
        [("n", make_pipeline(SimpleImputer(), StandardScaler()), ["depth"]), ("w", OneHotEncoder(), ["rock"])]
    )
    model = make_pipeline(columns, ovk.OVKRidge(Gaussian(1.0), alpha=0.1))
    return model.fit(WORDS, pd.DataFrame(Y, columns=["zinc", "lead"]))


def test_a_pipeline_with_a_learner_of_ovk(path):
    model = whole_model()
    save(model, path)
    loaded = load(path)
    pd.testing.assert_frame_equal(loaded.predict(WORDS), model.predict(WORDS))
    stored = inspect(path)
    assert stored.class_name == "sklearn.pipeline.Pipeline"
    assert sklearn.__version__ in path.read_bytes().decode("latin-1")


def test_a_class_that_was_registered_may_stand_in_a_pipeline(path):
    ovk.persistence.register(Lasso)
    model = make_pipeline(StandardScaler(), Lasso(0.1)).fit(X, Y)
    save(model, path)
    np.testing.assert_array_equal(load(path).predict(X), model.predict(X))


def test_to_register_a_class_of_the_list_changes_nothing(path, monkeypatch):
    model = make_pipeline(OneHotEncoder(drop="first"), StandardScaler(with_mean=False)).fit(WORDS)
    save(model, path)
    before = path.read_bytes()
    monkeypatch.setattr("ovk.base.state._CLASSES", {**_registry._CLASSES})
    for cls in (Pipeline, OneHotEncoder, StandardScaler):
        ovk.persistence.register(cls)
    save(model, path)
    assert path.read_bytes() == before
    scaler = StandardScaler()
    scaler.transform = len
    with pytest.raises(NotSavableError, match="attribute 'transform'"):
        save(scaler, path)


def test_targets_that_are_transformed(path):
    model = TransformedTargetRegressor(ovk.OVKRidge(Gaussian(1.0)), transformer=StandardScaler()).fit(X, Y)
    save(model, path)
    np.testing.assert_array_equal(load(path).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FunctionTransformer(np.log1p), "func=<ufunc 'log1p'>"),
        (TransformedTargetRegressor(ovk.OVKRidge(), func=np.log, inverse_func=np.exp), "func=<ufunc 'log'>"),
        (Pipeline([("a", StandardScaler())], memory="directory"), "memory='directory'"),
        (SelectKBest(lambda X, y: X[0]), "function"),
        (ColumnTransformer([("a", "drop", make_column_selector())]), "make_column_selector"),
        (make_pipeline(StandardScaler(), LinearRegression()), "LinearRegression"),
        (RandomForestRegressor(), "RandomForestRegressor"),
    ],
)
def test_what_is_not_on_the_list_is_refused(model, message, path):
    with pytest.raises(NotSavableError, match=message):
        save(model, path)
    assert not path.exists()


def test_attributes_that_fitting_does_not_set_are_refused(path):
    model = StandardScaler()
    model.transform = len
    with pytest.raises(NotSavableError, match="attribute 'transform'"):
        save(model, path)


def first(manifest):
    return manifest["value"]["object"]


@pytest.mark.parametrize("name", ["transform", "fit", "__class__", "_get_tags", "n_features_in", "_columns", "_memory"])
def test_a_file_cannot_set_other_attributes(name, path):
    save(StandardScaler().fit(X), path)
    forge(path, lambda manifest, header: first(manifest)["state"].update({name: 1}))
    with pytest.raises(CorruptFileError):
        load(path)


@pytest.mark.parametrize(
    "name",
    ["sklearn.pipeline.make_pipeline", "sklearn.svm.SVC", "sklearn.preprocessing._data.scale", "sklearn.show_versions"],
)
def test_a_file_cannot_name_other_things_of_scikit_learn(name, path):
    save(Normalizer(), path)
    forge(path, lambda manifest, header: first(manifest).update({"class": name}))
    with pytest.raises(UnknownClassError):
        load(path)


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (Pipeline([("a", Normalizer())]), {"memory": "/tmp"}),
        (FunctionTransformer(), {"func": "os.system"}),
        (FunctionTransformer(), {"func": {"dict": [["<score>", "f_regression"]]}}),
        (SelectKBest(mutual_info_regression), {"score_func": {"dict": [["<score>", "os.system"]]}}),
        (OneHotEncoder(), {"dtype": {"dict": [["<type>", "V8"]]}}),
        (OneHotEncoder(), {"dtype": {"dict": [["<type>", "f8,f8"]]}}),
        (Pipeline([("a", Normalizer())]), {"steps": {"dict": [["<slice>", ["a", "b", "c"]]]}}),
        (Normalizer(), {"norm": {"dict": [["<spline>", [[0.0], [1.0], 3, False]]]}}),
    ],
)
def test_parameters_of_a_hostile_file(model, change, path):
    save(model, path)
    forge(path, lambda manifest, header: first(manifest)["parameters"].update(change))
    with pytest.raises((CorruptFileError, ChangedClassError)):
        load(path)


def test_releases_that_differ_are_told(path):
    save(StandardScaler().fit(X), path)
    forge(path, lambda manifest, header: first(manifest)["state"].update({"_sklearn_version": "1.2.0"}))
    with pytest.warns(UserWarning, match=r"scikit-learn 1\.2\.0, but scikit-learn"):
        load(path)
    forge(path, lambda manifest, header: first(manifest)["parameters"].update({"speed": 1}))
    with pytest.raises(ChangedClassError, match=r"parameter 'speed'.*load it with scikit-learn 1\.2\.0"):
        load(path)
    forge(path, lambda manifest, header: first(manifest)["state"].pop("_sklearn_version"))
    with pytest.raises((CorruptFileError, ChangedClassError)):
        load(path)


def classes_within(value, seen=None):
    """Classes of all objects that a value leads to."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return set()
    seen[id(value)] = value
    parts = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, (list, tuple)) else []
    parts += list(value.ravel()) if isinstance(value, np.ndarray) and value.dtype == object else []
    parts += list(vars(value).values()) if hasattr(value, "__dict__") else []
    return {type(value)}.union(*(classes_within(part, seen) for part in parts))


def test_random_edits_with_digests_that_fit_build_nothing_else(path):
    union = FeatureUnion([("s", SplineTransformer(n_knots=3)), ("b", SelectKBest(f_regression, k=1))]).fit(X, Y[:, 0])
    save([whole_model(), union], path)
    raw, allowed, loaded = path.read_bytes(), classes_within(load(path)), 0
    for edited in edited_manifests(parts_of(path)[1], 300, random.Random(2)):
        path.write_bytes(raw)
        header, _, data = parts_of(path)
        write(path, header, json.dumps(edited, separators=(",", ":")), data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # another text in the place of the release
                found = load(path)
        except (CorruptFileError, UnknownClassError, ChangedClassError, NewerFormatError):
            continue
        loaded += 1
        extra = classes_within(found) - allowed
        assert all(kind.__module__.startswith(("builtins", "numpy", "persistence.toys")) for kind in extra), extra
        assert not any(kind.__name__ in ("function", "builtin_function_or_method", "type", "module") for kind in extra)
    assert 0 < loaded < 200  # some edits are legal: another number, another string
