"""The continuous parameters of an operator-valued kernel as one vector.

What is positive is tuned as its logarithm; what lies in an interval, and the factor W of a low-rank operator, as it is.
A positive parameter that is zero stays zero: there is no way to leave it on a logarithmic scale. A matrix B that was
given is not tuned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.ovkernels import OperatorKernel, Term

#: Parameters in [0, 1]; the end is left out where an operator becomes singular.
INTERVALS = {"omega", "within", "between"}
#: Parameters of any sign, and parameters that are not tuned.
ANY_SIGN, GIVEN = {"W"}, {"B"}
#: How far a positive parameter may go down and up from where it starts, as factors: weights of terms, which may vanish,
#: widths, and others.
FAR = {"weights": (1e-6, 1e4), "length_scale": (1e-2, 1e2), "": (1e-4, 1e4)}


@dataclass(frozen=True)
class Parameter:
    """One parameter: its nested name, the shape of its value, and whether its logarithm is tuned."""

    name: str
    shape: tuple[int, ...]
    logarithm: bool

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape))


def named_terms(kernel: OperatorKernel) -> list[Term] | None:
    """The separable terms of a kernel whose parameters belong to one term each; None for other kernels."""
    terms = kernel.terms()
    return None if terms is None or any(term.kernel_name is None for term in terms) else terms


def parameters(kernel: OperatorKernel, X: Any) -> list[Parameter]:
    """The parameters that can be tuned."""
    found: list[Parameter] = []
    values = kernel.get_params()
    for name in gradient_names(kernel, X):
        value = np.asarray(values[name], dtype=np.float64)
        last = name.split("__")[-1]
        if last in GIVEN or (last not in ANY_SIGN | INTERVALS and not (value > 0).all()):
            continue
        found.append(Parameter(name, value.shape, last not in ANY_SIGN | INTERVALS))
    return found


def gradient_names(kernel: OperatorKernel, X: Any) -> list[str]:
    """Nested names of everything that the kernel can be differentiated in, arrays as a whole."""
    few = X[:2]
    terms = named_terms(kernel)
    if terms is None:
        return list(dict.fromkeys(re.sub(r"\[[\d,]+\]$", "", name) for name in kernel.gradient(few)))
    sides = [
        side
        for term in terms
        for side in (
            (term.kernel_name, term.kernel.gradient(few)),
            (term.operator_name, term.operator.gradient() if term.operator_name else {}),
        )
    ]
    return [f"{side}__{name}" for side, gradient in sides for name in gradient]


def read(kernel: OperatorKernel, tuned: list[Parameter]) -> Array:
    """Values of the parameters as one vector."""
    params = kernel.get_params()
    values = [np.asarray(params[one.name], dtype=np.float64).ravel() for one in tuned]
    parts = [np.log(value) if one.logarithm else value for one, value in zip(tuned, values, strict=True)]
    return np.concatenate([*parts, np.empty(0)])


def write(kernel: OperatorKernel, tuned: list[Parameter], vector: Array) -> OperatorKernel:
    """A copy of the kernel with these values."""
    changed: dict[str, Any] = {}
    for one, part in zip(tuned, _parts(tuned, vector), strict=True):
        value = (np.exp(part) if one.logarithm else part).reshape(one.shape)
        changed[one.name] = value if one.shape else float(value)
    return kernel.replace(**changed)


def chain(tuned: list[Parameter], vector: Array, slopes: dict[str, Array]) -> Array:
    """Derivative in the vector from derivatives in the parameters' own values."""
    parts = []
    for one, part in zip(tuned, _parts(tuned, vector), strict=True):
        slope = np.asarray(slopes[one.name]).ravel()
        parts.append(slope * np.exp(part) if one.logarithm else slope)
    return np.concatenate([*parts, np.empty(0)])


def _parts(tuned: list[Parameter], vector: Array) -> list[Array]:
    """The vector cut into the numbers of each parameter."""
    return np.split(vector, np.cumsum([p.size for p in tuned])[:-1]) if tuned else []


def bounds(kernel: OperatorKernel, tuned: list[Parameter], vector: Array) -> list[tuple[float | None, float | None]]:
    """Lower and upper bound of each number of the vector, None where there is none."""
    limits: list[tuple[float | None, float | None]] = []
    params = kernel.get_params()
    for one, part in zip(tuned, _parts(tuned, vector), strict=True):
        owner, _, last = one.name.rpartition("__")
        for value in part:
            if one.logarithm:
                down, up = np.log(FAR.get(last, FAR[""]))
                limits.append((float(value) + down, float(value) + up))
            elif last in ("within", "between"):
                # Each on its side of the middle, so that what is shared between clusters stays below what is within.
                middle = 0.5 * sum(float(params[f"{owner}__{side}"]) for side in ("within", "between"))
                limits.append((middle, 1.0 - 1e-6) if last == "within" else (0.0, middle))
            else:
                limits.append((0.0, 1.0 - 1e-6) if last in INTERVALS else (None, None))
    return limits
