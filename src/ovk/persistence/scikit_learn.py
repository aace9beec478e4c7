"""Transformers and pipelines of scikit-learn: a fixed list of classes, by their public names.

They are written like objects of ovk, as constructor's arguments and fitted attributes, with scikit-learn's release.
Nothing of a file is imported or evaluated: its class must be on the list, functions are none but the score functions of
scikit-learn by name, attributes must look like those that fitting sets, and what they hold must be data or objects that
a file may hold in that place. A pipeline with a cache is refused, since a cache is a folder of pickles.
"""

from __future__ import annotations

import warnings
from collections import UserList
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import sklearn
from scipy import sparse
from scipy.interpolate import BSpline

from ovk.base import is_fitted_name, lookup, public_name
from ovk.persistence.codec import Json, Writer
from ovk.persistence.errors import ChangedClass


@dataclass(frozen=True)
class Listed:
    """A class that files may hold: private attributes that it needs, and parameters that must be None."""

    private: tuple[str, ...] = ()
    none: tuple[str, ...] = ()


_ENCODER = Listed(
    ("_infrequent_enabled", "_infrequent_indices", "_default_to_infrequent_mappings", "_drop_idx_after_grouping",
     "_n_features_outs", "_missing_indices")
)  # fmt: skip
ESTIMATORS: dict[str, Listed] = {
    "sklearn.preprocessing.StandardScaler": Listed(),
    "sklearn.preprocessing.MinMaxScaler": Listed(),
    "sklearn.preprocessing.RobustScaler": Listed(),
    "sklearn.preprocessing.MaxAbsScaler": Listed(),
    "sklearn.preprocessing.Normalizer": Listed(),
    "sklearn.preprocessing.OneHotEncoder": _ENCODER,
    "sklearn.preprocessing.OrdinalEncoder": _ENCODER,
    "sklearn.preprocessing.PolynomialFeatures": Listed(("_min_degree", "_max_degree", "_n_out_full")),
    "sklearn.preprocessing.SplineTransformer": Listed(),
    "sklearn.preprocessing.QuantileTransformer": Listed(),
    "sklearn.preprocessing.PowerTransformer": Listed(("_scaler",)),
    "sklearn.preprocessing.KBinsDiscretizer": Listed(("_encoder",)),
    "sklearn.preprocessing.FunctionTransformer": Listed((), ("func", "inverse_func", "kw_args", "inv_kw_args")),
    "sklearn.decomposition.PCA": Listed(("_fit_svd_solver",)),
    "sklearn.decomposition.TruncatedSVD": Listed(),
    "sklearn.impute.SimpleImputer": Listed(("_fit_dtype", "_fill_dtype")),
    "sklearn.impute.MissingIndicator": Listed(("_precomputed", "_n_features")),
    "sklearn.feature_selection.VarianceThreshold": Listed(),
    "sklearn.feature_selection.SelectKBest": Listed(),
    "sklearn.compose.ColumnTransformer": Listed(("_columns", "_transformer_to_input_indices", "_remainder")),
    "sklearn.compose.TransformedTargetRegressor": Listed(("_training_dim",), ("func", "inverse_func")),
    "sklearn.pipeline.FeatureUnion": Listed(),
    "sklearn.pipeline.Pipeline": Listed((), ("memory",)),
}
SCORES = ("f_classif", "f_regression", "r_regression", "chi2", "mutual_info_classif", "mutual_info_regression")
#: Of `set_output`, which every transformer may have.
OUTPUT = "_sklearn_output_config"
#: Entry of the state with the release that wrote it.
VERSION = "_sklearn_version"
#: Longest name of a dtype, and highest degree of a spline.
LONGEST, DEGREE = 20, 20


def listed_name(cls: type) -> str | None:
    """The public name of a class on the list, or None."""
    if not cls.__module__.startswith("sklearn."):
        return None
    return next((name for name, one in _classes().items() if one is cls), None)


@cache
def _classes() -> dict[str, type]:
    """The classes on the list, imported when a model or a file first has one of scikit-learn."""
    from sklearn import compose, decomposition, feature_selection, impute, pipeline, preprocessing

    packages = (compose, decomposition, feature_selection, impute, pipeline, preprocessing)
    owners = {package.__name__: package for package in packages}
    parts = {name: name.rpartition(".") for name in ESTIMATORS}
    return {name: getattr(owners[package], own) for name, (package, _, own) in parts.items()}


def encode_estimator(value: Any, name: str, writer: Writer) -> Json:
    """The tree of an estimator on the list."""
    parameters = value.get_params(deep=False)
    state = {key: part for key, part in vars(value).items() if key not in parameters}
    for parameter in ESTIMATORS[name].none:
        if parameters.get(parameter) is not None:
            writer.refuse(f"is a {type(value).__name__} with {parameter}={parameters[parameter]!r}", _CURE)
    for key in state:
        if not _is_attribute(type(value), name, key):
            writer.refuse(f"is a {type(value).__name__} with the attribute {key!r}, which is not a fitted one", _CURE)
    plain = {key: _plain(part) for key, part in state.items()} | {VERSION: sklearn.__version__}
    return {
        "class": name,
        "parameters": writer.entries({key: _plain(part) for key, part in parameters.items()}),
        "state": writer.entries(plain),
    }


_CURE = "leave it out: a file holds neither functions nor folders of pickles"


def build_estimator(name: str, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """An estimator on the list from what a file gives, checked."""
    cls, listed = _classes()[name], ESTIMATORS[name]
    attributes = dict(state)
    version = attributes.pop(VERSION, None)
    if type(version) is not str or len(version) > LONGEST:
        raise ValueError(f"{name} without the release of scikit-learn that wrote it")
    here, cure = sklearn.__version__, f"load it with scikit-learn {version}, or fit it again"
    for unknown in parameters.keys() - set(cast(Any, cls)._get_param_names()):
        raise ChangedClass(f"{name} of scikit-learn {here} has no parameter {unknown!r}, the file gives one; {cure}")
    for parameter in listed.none:
        if parameters.get(parameter) is not None:
            raise ValueError(f"{name} with {parameter} other than None")
    for key in attributes:
        if not _is_attribute(cls, name, key):
            raise ValueError(f"{name} with an attribute {key!r}, which fitting does not set")
    value = cls(**{key: _restored(part) for key, part in parameters.items()})
    restored = {key: _restored(part) for key, part in attributes.items()}
    if restored.get(OUTPUT, {"transform": None}) not in _OUTPUTS:
        raise ValueError(f"{name} with an output of another kind")
    vars(value).update(restored)
    if version.split(".")[:2] != here.split(".")[:2]:
        warnings.warn(
            f"the file holds transformers of scikit-learn {version}, here it is {here}: their attributes may mean "
            "something else; compare predictions, or fit again",
            UserWarning,
            stacklevel=2,
        )
    return value


_OUTPUTS = [{"transform": kind} for kind in (None, "default", "pandas", "polars")]


def _is_attribute(cls: type, name: str, key: str) -> bool:
    """Whether fitting sets such an attribute: it hides nothing that the class has."""
    if key in ESTIMATORS[name].private or key == OUTPUT:
        return True
    return is_fitted_name(key) and not hasattr(cls, key)


def _plain(value: Any) -> Any:
    """What a file has no word for, as a dictionary of one entry with a key in brackets."""
    if isinstance(value, np.dtype):
        return {"<dtype>": value.str}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"<type>": np.dtype(value).name}
    if isinstance(value, slice):
        return {"<slice>": [value.start, value.stop, value.step]}
    if type(value) is BSpline:
        return {"<spline>": [value.t, value.c, value.k, value.extrapolate]}
    if callable(value) and getattr(value, "__name__", None) in SCORES and value is _score(value.__name__):
        return {"<score>": value.__name__}
    if isinstance(value, UserList):
        # The columns of a remainder in scikit-learn 1.6, which warns whoever looks at one of them.
        value = value.data
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return {key: _plain(part) for key, part in value.items()} if type(value) is dict else value


def _restored(value: Any) -> Any:
    """The other way, for data and for estimators that may stand within others."""
    if type(value) in (list, tuple):
        return type(value)(map(_restored, value))
    if type(value) is dict:
        if len(value) == 1 and (key := next(iter(value))) in _RESTORE:
            return _RESTORE[key](value[key])
        return {key: _restored(part) for key, part in value.items()}
    data = value is None or isinstance(value, (bool, int, float, str, bytes, np.generic, np.ndarray))
    random = isinstance(value, (np.random.Generator, np.random.RandomState))
    if data or random or sparse.issparse(value):
        return value
    cls: type = type(value)
    if listed_name(cls) is not None or lookup(public_name(cls)) is cls:
        return value
    raise ValueError(f"an object of class {cls.__name__} in an estimator of scikit-learn")


def _score(name: Any) -> Any:
    if name not in SCORES:
        raise ValueError(f"a score function {name!r}")
    from sklearn import feature_selection

    return getattr(feature_selection, name)


def _dtype(text: Any) -> np.dtype[Any]:
    if type(text) is not str or len(text) > LONGEST or np.dtype(text).kind not in "biufSUO":
        raise ValueError(f"a dtype {text!r}")
    return np.dtype(text)


def _slice(parts: Any) -> slice:
    if not (type(parts) is list and len(parts) == 3 and all(one is None or type(one) is int for one in parts)):
        raise ValueError("a slice of other things than numbers")
    return slice(*parts)


def _spline(parts: Any) -> BSpline:
    t, c, k, extrapolate = parts
    arrays = all(isinstance(one, np.ndarray) and one.dtype == np.float64 for one in (t, c))
    if not (arrays and type(k) is int and 0 <= k <= DEGREE and extrapolate in (True, False, "periodic")):
        raise ValueError("a spline of other things than numbers")
    return BSpline(t, c, k, extrapolate)


_RESTORE: dict[str, Callable[[Any], Any]] = {
    "<dtype>": _dtype,
    "<type>": lambda text: _dtype(text).type,
    "<slice>": _slice,
    "<spline>": _spline,
    "<score>": _score,
}
