"""Online learners by name, with settings that do well on standardised rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ovk._validation import in_interval
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, ScalarKernel
from ovk.online import OLOK
from ovk.operators import MixedEffect
from ovk.ovkernels import OperatorKernel

KERNELS: dict[str, Callable[[], ScalarKernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
    "linear": Linear,
}

#: Points that OLOK keeps: the cost of a row is proportional to it.
WINDOW = 1000


def make_kernel(name: str, coupling: float | None) -> ScalarKernel | OperatorKernel:
    """A kernel by name, with outputs apart or coupled."""
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}")
    kernel = KERNELS[name]()
    if not coupling:
        return kernel
    if not in_interval(coupling, "coupling", 0.0, 1.0) < 1:
        raise ValueError("coupling must be below 1: at 1 all outputs would be the same")
    coupled: OperatorKernel = kernel * MixedEffect(coupling)
    return coupled


def _olok(kernel: str, coupling: float | None, n_features: int) -> Any:
    return OLOK(make_kernel(kernel, coupling), alpha=1e-4, schedule="auto", truncation=WINDOW, on_invalid="skip")


#: Learners by name.
MODELS: dict[str, Callable[[str, float | None, int], Any]] = {"olok": _olok}

AUTO = "olok"


def make_model(name: str, kernel: str = "gaussian", coupling: float | None = None, n_features: int = 1) -> Any:
    """A new learner for standardised rows.

    Parameters
    ----------
    name : one of `MODELS`, or "auto"
    kernel : name of a kernel
    coupling : how much outputs have in common, 0 for nothing
    n_features : number of inputs, which "auto" looks at

    Examples
    --------
    >>> from ovk.sessions import make_model
    >>> type(make_model("olok")).__name__
    'OLOK'
    """
    if name == "auto":
        name = AUTO
    if name not in MODELS:
        raise ValueError(f"model must be auto or one of {', '.join(MODELS)}, got {name!r}")
    return MODELS[name](kernel, coupling, n_features)
