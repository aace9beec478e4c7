"""ovk: kernel regression and classification for related outputs: vectors, curves, graphs and other structures.

Subpackages are imported when one of their names is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ovk import _startup
from ovk._version import __version__

if TYPE_CHECKING:
    from ovk import curves as curves
    from ovk import features as features
    from ovk import kernels as kernels
    from ovk import operators as operators
    from ovk import ovkernels as ovkernels
    from ovk import solvers as solvers
    from ovk import structured as structured
    from ovk._extras import show_versions as show_versions
    from ovk.app.report import report as report
    from ovk.app.sessions import fit_file as fit_file
    from ovk.app.tables import progressive as progressive
    from ovk.batch import OKVAR as OKVAR
    from ovk.batch import FunctionalRidge as FunctionalRidge
    from ovk.batch import FunctionalRidgeCV as FunctionalRidgeCV
    from ovk.batch import GradientMetric as GradientMetric
    from ovk.batch import MovKL as MovKL
    from ovk.batch import MovKLClassifier as MovKLClassifier
    from ovk.batch import MovKLCV as MovKLCV
    from ovk.batch import MultiTaskSVC as MultiTaskSVC
    from ovk.batch import MultiTaskSVR as MultiTaskSVR
    from ovk.batch import OperatorRidge as OperatorRidge
    from ovk.batch import OutputKernelRidge as OutputKernelRidge
    from ovk.batch import OVKClassifier as OVKClassifier
    from ovk.batch import OVKClassifierCV as OVKClassifierCV
    from ovk.batch import OVKRidge as OVKRidge
    from ovk.batch import OVKRidgeCV as OVKRidgeCV
    from ovk.batch import VectorField as VectorField
    from ovk.batch import tune as tune
    from ovk.evaluation import DelayedLabels as DelayedLabels
    from ovk.evaluation import WithIntervals as WithIntervals
    from ovk.online import KAWV as KAWV
    from ovk.online import OLOK as OLOK
    from ovk.online import PKAWV as PKAWV
    from ovk.online import AutoStream as AutoStream
    from ovk.online import AutoStreamClassifier as AutoStreamClassifier
    from ovk.online import DivergenceError as DivergenceError
    from ovk.online import NoveltyDetector as NoveltyDetector
    from ovk.online import OLOKClassifier as OLOKClassifier
    from ovk.online import OnlineMovKL as OnlineMovKL
    from ovk.online import OnlineOperator as OnlineOperator
    from ovk.online import PKAWVClassifier as PKAWVClassifier
    from ovk.ovkernels import Expansion as Expansion
    from ovk.persistence import load as load
    from ovk.persistence import save as save
    from ovk.structured import IOKR as IOKR
    from ovk.structured import LinkPredictor as LinkPredictor

_PACKAGES = ("curves", "features", "kernels", "operators", "ovkernels", "solvers", "structured")

#: The other public names, by the package that defines them.
_NAMES = {
    "_extras": "show_versions",
    "app.report": "report",
    "app.sessions": "fit_file",
    "app.tables": "progressive",
    "batch": (
        "FunctionalRidge FunctionalRidgeCV GradientMetric MovKL MovKLCV MovKLClassifier MultiTaskSVC "
        "MultiTaskSVR OKVAR OVKClassifier OVKClassifierCV OVKRidge OVKRidgeCV OperatorRidge OutputKernelRidge "
        "VectorField tune"
    ),
    "evaluation": "DelayedLabels WithIntervals",
    "online": (
        "AutoStream AutoStreamClassifier DivergenceError KAWV NoveltyDetector OLOK OLOKClassifier OnlineMovKL "
        "OnlineOperator PKAWV PKAWVClassifier"
    ),
    "ovkernels": "Expansion",
    "persistence": "load save",
    "structured": "IOKR LinkPredictor",
}
_HOMES = {name: package for package, names in _NAMES.items() for name in names.split()}

__all__ = sorted([*_PACKAGES, *_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name.endswith("Display"):
        raise AttributeError(f"plots are in ovk.plotting: from ovk.plotting import {name}")
    if name in _PACKAGES:
        return import_module(f"ovk.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"ovk.{_HOMES[name]}"), name)
    # Later accesses do not call this function.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
