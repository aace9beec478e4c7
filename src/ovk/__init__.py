"""ovk: learning functions with vector, curve, graph and other structured outputs, with operator-valued kernels.

Importing this package loads none of its parts: a name below loads the package that it lives in when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ovk import _startup
from ovk._version import __version__

if TYPE_CHECKING:
    from ovk import curves, features, kernels, operators, ovkernels, solvers, structured
    from ovk.app.report import report
    from ovk.app.sessions import fit_file
    from ovk.app.tables import progressive
    from ovk.batch import (
        OKVAR,
        FunctionalRidge,
        FunctionalRidgeCV,
        GradientMetric,
        MovKL,
        MovKLClassifier,
        MovKLCV,
        MultiTaskSVC,
        MultiTaskSVR,
        OperatorRidge,
        OutputKernelRidge,
        OVKClassifier,
        OVKClassifierCV,
        OVKRidge,
        OVKRidgeCV,
        VectorField,
        tune,
    )
    from ovk.evaluation import DelayedLabels, WithIntervals
    from ovk.online import (
        KAWV,
        OLOK,
        PKAWV,
        AutoStream,
        AutoStreamClassifier,
        Diverged,
        NoveltyDetector,
        OLOKClassifier,
        OnlineMovKL,
        OnlineOperator,
        PKAWVClassifier,
    )
    from ovk.ovkernels import Expansion
    from ovk.persistence import load, save
    from ovk.structured import IOKR, LinkPredictor

__all__ = [
    "IOKR",
    "KAWV",
    "OKVAR",
    "OLOK",
    "PKAWV",
    "AutoStream",
    "AutoStreamClassifier",
    "DelayedLabels",
    "Diverged",
    "Expansion",
    "FunctionalRidge",
    "FunctionalRidgeCV",
    "GradientMetric",
    "LinkPredictor",
    "MovKL",
    "MovKLCV",
    "MovKLClassifier",
    "MultiTaskSVC",
    "MultiTaskSVR",
    "NoveltyDetector",
    "OLOKClassifier",
    "OVKClassifier",
    "OVKClassifierCV",
    "OVKRidge",
    "OVKRidgeCV",
    "OnlineMovKL",
    "OnlineOperator",
    "OperatorRidge",
    "OutputKernelRidge",
    "PKAWVClassifier",
    "VectorField",
    "WithIntervals",
    "__version__",
    "curves",
    "features",
    "fit_file",
    "kernels",
    "load",
    "operators",
    "ovkernels",
    "progressive",
    "report",
    "save",
    "solvers",
    "structured",
    "tune",
]

#: Where the names above live that are neither packages nor batch estimators.
_HOMES = {
    **dict.fromkeys(("IOKR", "LinkPredictor"), "structured"),
    **dict.fromkeys(("KAWV", "OLOK", "PKAWV", "AutoStream", "AutoStreamClassifier", "Diverged"), "online"),
    **dict.fromkeys(
        ("NoveltyDetector", "OLOKClassifier", "OnlineMovKL", "OnlineOperator", "PKAWVClassifier"), "online"
    ),
    **dict.fromkeys(("load", "save"), "persistence"),
    **dict.fromkeys(("DelayedLabels", "WithIntervals"), "evaluation"),
    "progressive": "app.tables",
    "Expansion": "ovkernels",
    "fit_file": "app.sessions",
    "report": "app.report",
}
_PACKAGES = ("curves", "features", "kernels", "operators", "ovkernels", "solvers", "structured")


def __getattr__(name: str) -> Any:
    if name.endswith("Display"):
        raise AttributeError(f"plots are in ovk.plotting: from ovk.plotting import {name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _PACKAGES:
        return import_module(f"ovk.{name}")
    found = getattr(import_module(f"ovk.{_HOMES.get(name, 'batch')}"), name)
    # Found without this function from now on.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
