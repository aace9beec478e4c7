"""Objects of registered classes: constructor arguments and fitted attributes.

An object is built by `cls(**parameters)` and `load_state`, or by `from_state`. Classes are found only in the registry
or on a fixed list of scikit-learn transformers and pipelines; names in files are never imported or evaluated.

scikit-learn objects are stored with the release of scikit-learn. The only functions they may have are named score
functions, their attributes must look like fitted ones, and their values must be data or other supported objects. A
pipeline with a cache is rejected, because a cache is a directory of pickles.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import warnings
from collections import UserList
from collections.abc import Callable, Mapping, Sequence, Set
from inspect import Parameter, signature
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
import sklearn
from scipy import sparse
from scipy.interpolate import BSpline

from ovk.base import Parameters, State, StateError, check_stored, is_fitted_name, lookup, public_name
from ovk.persistence.errors import ChangedClassError, UnknownClassError

#: Raises the error for the current value, given what is wrong and what to do.
Reject: TypeAlias = Callable[[str, str], NoReturn]

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, np.ufunc)
#: Types similar to plain ones, and the plain type to convert them to.
CONVERSIONS: dict[type, type] = {kind: kind for kind in (dict, list, tuple, set, frozenset, str, bytes, int, float)}
CONVERSIONS |= {range: list, Mapping: dict, Sequence: list, Set: set}


def _parameters(value: Any) -> dict[str, Any] | None:
    """The constructor's arguments, or None if they are unknown; a `State` has none."""
    if isinstance(value, State):
        return {}
    if hasattr(value, "get_params"):
        return dict(value.get_params(deep=False))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return None


def _state(value: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The fitted attributes as plain values."""
    if isinstance(value, State):
        return value.state()
    if isinstance(value, Parameters):
        return type(value).state(value)  # the object may have a parameter called state
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    return {name: part for name, part in attributes.items() if name not in parameters and is_fitted_name(name)}


@functools.cache
def constructor_arguments(cls: type) -> dict[str, bool]:
    """Names of the constructor's arguments, and whether they are required."""
    _, *arguments = signature(cls.__init__).parameters.values()  # type: ignore[misc]
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {one.name: one.default is Parameter.empty for one in arguments if one.kind in named}


def describe(value: Any, reject: Reject) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Name of an object's class, its constructor's arguments and its fitted attributes."""
    cls: type = type(value)
    # Listed classes first, so that registering one of them does not change the file.
    listed = listed_name(cls)
    if listed is not None:
        return listed, *_describe_estimator(value, listed, reject)
    name = public_name(cls)
    if lookup(name) is not cls:
        _reject_class(value, reject)
    parameters = _parameters(value)
    if parameters is None:
        what = f"is an object of class {name}, which is registered but has no known parameters"
        reject(what, "make the class a dataclass or a subclass of Parameters")
    needed = {argument for argument, required in constructor_arguments(cls).items() if required}
    if not isinstance(value, State) and (missing := needed - parameters.keys()):
        what = f"is an object of class {name}, whose constructor also requires {sorted(missing)}"
        reject(what, "store every constructor argument as an attribute")
    return name, parameters, _state(value, parameters)


def build_object(name: str, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    if name in ESTIMATORS:
        return _build_estimator(name, parameters, state)
    cls = lookup(name)
    if cls is None:
        module, _, _ = name.rpartition(".")
        home = "run the script or notebook that defines it, or " if module == "__main__" else ""
        raise UnknownClassError(
            f"the file contains an object of class {name!r}, which is not registered; {home}import the module that "
            "defines it first, and register classes of other libraries with ovk.persistence.register"
        )
    advice = "load the file with the release that wrote it, or with the old class"
    try:
        if issubclass(cls, State):
            for unknown in parameters:
                raise StateError(f"the file has an unknown parameter {unknown!r}")
            return cls.from_state(state)
        value = cls(**_checked(cls, parameters))
        if isinstance(value, Parameters):
            type(value).load_state(value, state)
        elif state:
            for attribute in state:
                if attribute in parameters or not is_fitted_name(attribute):
                    raise StateError(f"the file has an unknown fitted attribute {attribute!r}")
            vars(value).update(state)
    except StateError as error:
        raise ChangedClassError(f"{name}: {error}; {advice}") from error
    check_stored(cls, {name: getattr(value, name) for name in (*parameters, *state)})
    return value


def _checked(cls: type, parameters: Mapping[str, Any]) -> dict[str, Any]:
    arguments = constructor_arguments(cls)
    for unknown in parameters.keys() - arguments.keys():
        raise StateError(f"the file has an unknown parameter {unknown!r}")
    for missing in {name for name, required in arguments.items() if required} - parameters.keys():
        raise StateError(f"the file lacks the parameter {missing!r}")
    return dict(parameters)


def _reject_class(value: Any, reject: Reject) -> None:
    """Raise the error for an object whose class is not registered."""
    cls = type(value)
    if isinstance(value, type):
        if issubclass(value, np.generic):
            reject(f"is the class {value.__name__}", "store its name, a string")
        reject(f"is the class {value.__qualname__}", "pass an instance instead")
    if isinstance(value, np.dtype):
        reject(f"is the dtype {value}", "store its name, a string")
    if isinstance(value, FUNCTIONS):
        advice = "define it as a method of a Parameters subclass and pass an instance"
        reject("is a function, and loading one would execute code from the file", advice)
    if sparse.issparse(value):
        reject(f"is a sparse matrix in the format {value.format!r}", "convert it with .tocsr()")
    if isinstance(value, np.ndarray):
        reject(f"is a {cls.__name__}", "convert it with np.asarray (a masked array with .filled)")
    if lookup(public_name(cls)) is not None:
        reject(f"is an object of an earlier definition of {public_name(cls)}", "create it again with the current class")
    for kind, plain in CONVERSIONS.items():
        if isinstance(value, kind):
            reject(f"is a {cls.__qualname__}", f"convert it with {plain.__name__}(...)")
    what = f"is an object of class {cls.__module__}.{cls.__qualname__}"
    if cls.__module__.startswith(("river.", "ovk.online.river")):
        advice = "save models of river with pickle.dump(model, file), or the learner of an adapter with "
        reject(what, f"{advice}ovk.save(adapter.learner, path)")
    if getattr(value, "best_estimator_", None) is not None:
        reject(what, "save its best_estimator_: ovk.save(search.best_estimator_, path)")
    if hasattr(value, "get_params") or dataclasses.is_dataclass(value):
        reject(what, f"call ovk.persistence.register({cls.__name__}) here and wherever the file is loaded")
    reject(what, "replace it by a Parameters subclass, an array or a plain value")


# Transformers and pipelines of scikit-learn.


@dataclasses.dataclass(frozen=True)
class Listed:
    """A supported scikit-learn class."""

    private: tuple[str, ...] = ()  # required private attributes
    none: tuple[str, ...] = ()  # parameters that must be None


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
SCORE_FUNCTIONS = ("f_classif", "f_regression", "r_regression", "chi2", "mutual_info_classif", "mutual_info_regression")
OUTPUT_ATTRIBUTE = "_sklearn_output_config"  # the attribute that `set_output` sets
VERSION_KEY = "_sklearn_version"  # entry of the state with the release of scikit-learn
MAX_NAME_LENGTH, MAX_DEGREE = 20, 20  # maximum length of a dtype's name or a version, and maximum degree of a spline


def listed_name(cls: type) -> str | None:
    """The public name of a class on the list, or None."""
    if not cls.__module__.startswith("sklearn."):
        return None
    return next((name for name, one in _classes().items() if one is cls), None)


@functools.cache
def _classes() -> dict[str, type]:
    """The listed classes, imported when a model or a file first has one of scikit-learn."""
    from sklearn import compose, decomposition, feature_selection, impute, pipeline, preprocessing

    packages = (compose, decomposition, feature_selection, impute, pipeline, preprocessing)
    owners = {package.__name__: package for package in packages}
    parts = {name: name.rpartition(".") for name in ESTIMATORS}
    return {name: getattr(owners[package], own) for name, (package, _, own) in parts.items()}


def _describe_estimator(value: Any, name: str, reject: Reject) -> tuple[dict[str, Any], dict[str, Any]]:
    parameters = value.get_params(deep=False)
    state = {key: part for key, part in vars(value).items() if key not in parameters}
    for parameter in ESTIMATORS[name].none:
        if parameters.get(parameter) is not None:
            reject(f"is a {type(value).__name__} with {parameter}={parameters[parameter]!r}", _ADVICE)
    for key in state:
        if not _is_attribute(type(value), name, key):
            reject(f"is a {type(value).__name__} with the attribute {key!r}, which fitting does not set", _ADVICE)
    plain = {key: _plain(part) for key, part in state.items()} | {VERSION_KEY: sklearn.__version__}
    return {key: _plain(part) for key, part in parameters.items()}, plain


_ADVICE = "remove it: files contain neither functions nor directories of pickles"


def _build_estimator(name: str, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    cls, listed = _classes()[name], ESTIMATORS[name]
    attributes = dict(state)
    version = attributes.pop(VERSION_KEY, None)
    if type(version) is not str or len(version) > MAX_NAME_LENGTH:
        raise ValueError(f"{name} without the release of scikit-learn that wrote it")
    here, advice = sklearn.__version__, f"load it with scikit-learn {version}, or fit it again"
    for unknown in parameters.keys() - set(cast(Any, cls)._get_param_names()):
        raise ChangedClassError(
            f"{name}: the file has a parameter {unknown!r} that scikit-learn {here} does not have; {advice}"
        )
    for parameter in listed.none:
        if parameters.get(parameter) is not None:
            raise ValueError(f"{name} with {parameter} other than None")
    for key in attributes:
        if not _is_attribute(cls, name, key):
            raise ValueError(f"{name} with an attribute {key!r}, which fitting does not set")
    value = cls(**{key: _restored(part) for key, part in parameters.items()})
    restored = {key: _restored(part) for key, part in attributes.items()}
    if restored.get(OUTPUT_ATTRIBUTE, {"transform": None}) not in _OUTPUTS:
        raise ValueError(f"{name} with an output of another kind")
    vars(value).update(restored)
    if version.split(".")[:2] != here.split(".")[:2]:
        warnings.warn(
            f"the file contains transformers of scikit-learn {version}, but scikit-learn {here} is installed; compare "
            "predictions, or fit again",
            UserWarning,
            stacklevel=2,
        )
    return value


_OUTPUTS = [{"transform": kind} for kind in (None, "default", "pandas", "polars")]


def _is_attribute(cls: type, name: str, key: str) -> bool:
    """Whether fitting may set this attribute; it must not hide an attribute of the class."""
    if key in ESTIMATORS[name].private or key == OUTPUT_ATTRIBUTE:
        return True
    return is_fitted_name(key) and not hasattr(cls, key)


def _plain(value: Any) -> Any:
    """Values without a tag in files, as a dictionary with one key in brackets."""
    if isinstance(value, np.dtype):
        return {"<dtype>": value.str}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"<type>": np.dtype(value).name}
    if isinstance(value, slice):
        return {"<slice>": [value.start, value.stop, value.step]}
    if type(value) is BSpline:
        return {"<spline>": [value.t, value.c, value.k, value.extrapolate]}
    if callable(value) and getattr(value, "__name__", None) in SCORE_FUNCTIONS and value is _score(value.__name__):
        return {"<score>": value.__name__}
    if isinstance(value, UserList):
        # The columns of a remainder in scikit-learn 1.6, which warns on access.
        value = value.data
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return {key: _plain(part) for key, part in value.items()} if type(value) is dict else value


def _restored(value: Any) -> Any:
    """The inverse of `_plain`; an error for unsupported objects."""
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
    if name not in SCORE_FUNCTIONS:
        raise ValueError(f"a score function {name!r}")
    from sklearn import feature_selection

    return getattr(feature_selection, name)


def _dtype(text: Any) -> np.dtype[Any]:
    if type(text) is not str or len(text) > MAX_NAME_LENGTH or np.dtype(text).kind not in "biufSUO":
        raise ValueError(f"a dtype {text!r}")
    return np.dtype(text)


def _slice(parts: Any) -> slice:
    if not (type(parts) is list and len(parts) == 3 and all(one is None or type(one) is int for one in parts)):
        raise ValueError("a slice that does not consist of integers")
    return slice(*parts)


def _spline(parts: Any) -> BSpline:
    t, c, k, extrapolate = parts
    arrays = all(isinstance(one, np.ndarray) and one.dtype == np.float64 for one in (t, c))
    if not (arrays and type(k) is int and 0 <= k <= MAX_DEGREE and extrapolate in (True, False, "periodic")):
        raise ValueError("a spline that does not consist of numbers")
    return BSpline(t, c, k, extrapolate)


_RESTORE: dict[str, Callable[[Any], Any]] = {
    "<dtype>": _dtype,
    "<type>": lambda text: _dtype(text).type,
    "<slice>": _slice,
    "<spline>": _spline,
    "<score>": _score,
}
