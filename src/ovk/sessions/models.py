"""Online learners by name, with settings that do well on standardised rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ovk._params import in_interval
from ovk.features import LinearFourier
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, ScalarKernel
from ovk.online import OLOK, PKAWV, AutoStream, AutoStreamClassifier, OLOKClassifier, PKAWVClassifier
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

#: Random frequencies of PKAWV.
WAVES = 50

#: Most inputs for a second-order learner, whose cost a row is quadratic in them.
MANY = 500


def kernel_of_table(name: str) -> ScalarKernel | None:
    """A kernel by name for a table that is learned as a whole; None for "auto", which tries several."""
    if name != "auto" and name not in KERNELS:
        raise ValueError(f"kernel must be auto or one of {', '.join(KERNELS)}, got {name!r}")
    return None if name == "auto" else KERNELS[name]()


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


def _olok(kernel: str, coupling: float | None) -> Any:
    return OLOK(
        make_kernel(kernel, coupling), alpha=1e-4, schedule="auto", truncation=WINDOW, warm_up=0, on_invalid="skip"
    )


def _features(kernel: str) -> tuple[str, LinearFourier]:
    """The kernel that waves are drawn from, and linear functions beside them."""
    # Standardised outputs have variance 1: linear functions are hardly penalised, waves must earn their place.
    waves, shape = (0, "gaussian") if kernel == "linear" else (WAVES, kernel)
    return shape, LinearFourier(waves, weight=10.0)


def _pkawv(kernel: str, coupling: float | None) -> Any:
    shape, features = _features(kernel)
    return PKAWV(
        make_kernel(shape, coupling), alpha=10.0, features=features, warm_up=0, on_invalid="skip", random_state=0
    )


def _autostream(kernel: str, coupling: float | None) -> Any:
    # It chooses kernels and weights of experts by itself, for each output.
    return AutoStream()


def _pkawv_classifier(kernel: str, coupling: float | None) -> Any:
    shape, features = _features(kernel)
    return PKAWVClassifier(
        make_kernel(shape, coupling), alpha=10.0, features=features, warm_up=0, on_invalid="skip", random_state=0
    )


def _olok_classifier(kernel: str, coupling: float | None) -> Any:
    kernels = make_kernel(kernel, coupling)
    return OLOKClassifier(kernels, alpha=1e-4, schedule="auto", truncation=WINDOW, warm_up=0, on_invalid="skip")


def _autostream_classifier(kernel: str, coupling: float | None) -> Any:
    return AutoStreamClassifier()


#: Learners of classes by name.
CLASSIFIERS: dict[str, Callable[[str, float | None], Any]] = {
    "olok": _olok_classifier,
    "pkawv": _pkawv_classifier,
    "autostream": _autostream_classifier,
}

#: Learners by name.
MODELS: dict[str, Callable[[str, float | None], Any]] = {"olok": _olok, "pkawv": _pkawv, "autostream": _autostream}


def make_model(
    name: str,
    kernel: str = "gaussian",
    coupling: float | None = None,
    n_features: int = 1,
    *,
    classify: bool = False,
    mergeable: bool = False,
    lags: bool = False,
) -> Any:
    """A new learner for standardised rows.

    Parameters
    ----------
    name : one of `MODELS`, or "auto": "autostream", which needs no settings; "pkawv" if a coupling or a kernel other
        than the Gaussian is asked for, or if models are to be merged; "olok" above `MANY` inputs, where the matrices of
        the others would not fit
    kernel : name of a kernel
    coupling : how much outputs have in common, 0 for nothing
    n_features : number of inputs, which "auto" looks at
    classify : outputs are labels of classes. Only "autostream" takes classes that come after the warm-up
    mergeable : whether "auto" must find a learner that can be merged with others
    lags : whether earlier outputs are among the inputs. "autostream" then does not look at the last one by itself: in
        a forecast of several steps that would be an old one

    Examples
    --------
    >>> from ovk.sessions import make_model
    >>> [type(make_model("auto", n_features=p)).__name__ for p in (10, 10_000)]
    ['AutoStream', 'OLOK']
    """
    if name == "auto":
        told = mergeable or coupling is not None or kernel != "gaussian"
        name = "olok" if n_features > MANY else "pkawv" if told else "autostream"
    if name not in MODELS:
        raise ValueError(f"model must be auto or one of {', '.join(MODELS)}, got {name!r}")
    model = (CLASSIFIERS if classify else MODELS)[name](kernel, coupling)
    return model.set_params(lag=False) if lags and name == "autostream" else model
