"""Objects of registered classes: their constructor's arguments, and what fitting added to them.

Building is `cls(**parameters)`, then `load_state` of what fitting added; a class without parameters of its own has
`from_state` instead. No class is found other than through the registry, or on the list of scikit-learn's transformers:
the file's names are never imported or evaluated. Packages of ovk that are not imported with it, a fixed list, are
imported when a class is asked for that is not known yet.

Transformers and pipelines of scikit-learn are a fixed list of classes, by their public names, written like objects of
ovk, with scikit-learn's release. Functions are none but the score functions of scikit-learn by name, attributes must
look like those that fitting sets, and what they hold must be data or objects that a file may hold in that place. A
pipeline with a cache is refused, since a cache is a folder of pickles.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import warnings
from collections import UserList
from collections.abc import Callable, Mapping, Sequence, Set
from inspect import Parameter, signature
from typing import Any, NoReturn, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import sklearn
from scipy import sparse
from scipy.interpolate import BSpline

from ovk.base import Parameters, State, StateMismatch, is_fitted_name, lookup, public_name
from ovk.persistence.errors import ChangedClass, UnknownClass

#: Raises the error for the value at hand, from what is wrong with it and what to do.
Refuse: TypeAlias = Callable[[str, str], NoReturn]

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, np.ufunc)
#: Relatives of plain values, and what they can be converted to.
CONVERSIONS: dict[type, type] = {kind: kind for kind in (dict, list, tuple, set, frozenset, str, bytes, int, float)} | {
    range: list,
    Mapping: dict,
    Sequence: list,
    Set: set,
}


@runtime_checkable
class HasParameters(Protocol):
    """scikit-learn's way to ask an object for its constructor's arguments."""

    def get_params(self, deep: bool = ...) -> dict[str, Any]: ...


def _parameters(value: Any) -> dict[str, Any] | None:
    """The constructor's arguments, or None if the object cannot tell them; all of a `State` is in its state."""
    if isinstance(value, State):
        return {}
    if isinstance(value, HasParameters):
        return dict(value.get_params(deep=False))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    return None


def _state(value: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What fitting added, as plain values."""
    if isinstance(value, State):
        return value.state()
    if isinstance(value, Parameters):
        return type(value).state(value)  # of the class: the object may have a parameter of that name
    attributes: dict[str, Any] = getattr(value, "__dict__", {})
    return {name: part for name, part in attributes.items() if name not in parameters and is_fitted_name(name)}


@functools.cache
def constructor_arguments(cls: type) -> dict[str, bool]:
    """Names of the constructor's arguments, and whether they must be given."""
    _, *arguments = signature(cls.__init__).parameters.values()  # type: ignore[misc]
    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return {one.name: one.default is Parameter.empty for one in arguments if one.kind in named}


def describe(value: Any, refuse: Refuse) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Name of an object's class, its constructor's arguments, and what fitting added."""
    cls: type = type(value)
    # Before the registered classes: whether somebody registered one of the list must not change what is written.
    listed = listed_name(cls)
    if listed is not None:
        return listed, *_describe_estimator(value, listed, refuse)
    name = public_name(cls)
    if lookup(name) is not cls:
        _refuse_class(value, refuse)
    parameters = _parameters(value)
    if parameters is None:
        refuse(
            f"is an object of class {name}, which is registered but does not tell its parameters",
            "make the class a dataclass or a subclass of Parameters",
        )
    needed = {argument for argument, required in constructor_arguments(cls).items() if required}
    if not isinstance(value, State) and (missing := needed - parameters.keys()):
        refuse(
            f"is an object of class {name}, whose constructor also needs {sorted(missing)}",
            "keep every argument of the constructor as an attribute",
        )
    return name, parameters, _state(value, parameters)


def build_object(name: str, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """An object from what a file gives."""
    if name in ESTIMATORS:
        return _build_estimator(name, parameters, state)
    cls = lookup(name)
    if cls is None:
        module, _, _ = name.rpartition(".")
        home = "run the script or notebook that defined it, or " if module == "__main__" else ""
        raise UnknownClass(
            f"the file holds an object of class {name!r}, which is not registered here; {home}import the "
            "module that defines it first (a class from elsewhere also needs ovk.persistence.register)"
        )
    cure = "load the file with the release that wrote it, or with the class as it was"
    try:
        if issubclass(cls, State):
            for unknown in parameters:
                raise StateMismatch(f"no parameter {unknown!r}, which the file has")
            return cls.from_state(state)
        value = cls(**_checked(cls, parameters))
        if isinstance(value, Parameters):
            type(value).load_state(value, state)
        elif state:
            for attribute in state:
                if attribute in parameters or not is_fitted_name(attribute):
                    raise StateMismatch(f"no fitted attribute {attribute!r}, which the file has")
            vars(value).update(state)
    except StateMismatch as error:
        raise ChangedClass(f"{name}: {error}; {cure}") from error
    return value


def _checked(cls: type, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for the constructor."""
    arguments = constructor_arguments(cls)
    for unknown in parameters.keys() - arguments.keys():
        raise StateMismatch(f"no parameter {unknown!r}, which the file has")
    for missing in {name for name, required in arguments.items() if required} - parameters.keys():
        raise StateMismatch(f"needs the parameter {missing!r}, which the file lacks")
    return dict(parameters)


def _refuse_class(value: Any, refuse: Refuse) -> None:
    """Raise the error for an object whose class is not the one registered under its name."""
    cls = type(value)
    if isinstance(value, type):
        if issubclass(value, np.generic):
            refuse(f"is the class {value.__name__}", "keep its name, a string")
        refuse(f"is the class {value.__qualname__}", "pass an object of it instead")
    if isinstance(value, np.dtype):
        refuse(f"is the dtype {value}", "keep its name, a string")
    if isinstance(value, FUNCTIONS):
        refuse(
            "is a function, and loading one would run code from the file",
            "write it as the method of a Parameters subclass and pass an object of that",
        )
    if sparse.issparse(value):
        refuse(f"is a sparse matrix in the format {value.format!r}", "convert it with .tocsr()")
    if isinstance(value, np.ndarray):
        refuse(f"is a {cls.__name__}", "convert it with np.asarray (a masked array with .filled)")
    if lookup(public_name(cls)) is not None:
        refuse(
            f"is an object of an earlier definition of {public_name(cls)}",
            "make it anew with the present class",
        )
    for kind, plain in CONVERSIONS.items():
        if isinstance(value, kind):
            refuse(f"is a {cls.__qualname__}", f"convert it with {plain.__name__}(...)")
    what = f"is an object of class {cls.__module__}.{cls.__qualname__}"
    if cls.__module__.startswith(("river.", "ovk.online.river")):
        refuse(
            what,
            "river's models are pickled: pickle.dump(model, file). What learns inside an adapter can be saved for use "
            "on arrays: ovk.save(adapter.learner, path)",
        )
    if isinstance(value, HasParameters) or dataclasses.is_dataclass(value):
        refuse(what, f"call ovk.persistence.register({cls.__name__}) here and wherever the file is loaded")
    refuse(what, "replace it by a Parameters subclass, an array or a plain value")


# Transformers and pipelines of scikit-learn.


@dataclasses.dataclass(frozen=True)
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


@functools.cache
def _classes() -> dict[str, type]:
    """The classes on the list, imported when a model or a file first has one of scikit-learn."""
    from sklearn import compose, decomposition, feature_selection, impute, pipeline, preprocessing

    packages = (compose, decomposition, feature_selection, impute, pipeline, preprocessing)
    owners = {package.__name__: package for package in packages}
    parts = {name: name.rpartition(".") for name in ESTIMATORS}
    return {name: getattr(owners[package], own) for name, (package, _, own) in parts.items()}


def _describe_estimator(value: Any, name: str, refuse: Refuse) -> tuple[dict[str, Any], dict[str, Any]]:
    parameters = value.get_params(deep=False)
    state = {key: part for key, part in vars(value).items() if key not in parameters}
    for parameter in ESTIMATORS[name].none:
        if parameters.get(parameter) is not None:
            refuse(f"is a {type(value).__name__} with {parameter}={parameters[parameter]!r}", _CURE)
    for key in state:
        if not _is_attribute(type(value), name, key):
            refuse(f"is a {type(value).__name__} with the attribute {key!r}, which is not a fitted one", _CURE)
    plain = {key: _plain(part) for key, part in state.items()} | {VERSION: sklearn.__version__}
    return {key: _plain(part) for key, part in parameters.items()}, plain


_CURE = "leave it out: a file holds neither functions nor folders of pickles"


def _build_estimator(name: str, parameters: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    cls, listed = _classes()[name], ESTIMATORS[name]
    attributes = dict(state)
    version = attributes.pop(VERSION, None)
    if type(version) is not str or len(version) > LONGEST:
        raise ValueError(f"{name} without the release of scikit-learn that wrote it")
    here, cure = sklearn.__version__, f"load it with scikit-learn {version}, or fit it again"
    for unknown in parameters.keys() - set(cast(Any, cls)._get_param_names()):
        raise ChangedClass(f"{name} of scikit-learn {here} has no parameter {unknown!r}, which the file has; {cure}")
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
