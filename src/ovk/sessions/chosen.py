"""What leave-one-out has chosen, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

#: Correlations of outputs below this, in size, are no coupling.
APART = 0.005


def kernel_in_words(kernel: Any, outputs: Sequence[str]) -> str:
    """Which scalar kernels a fitted kernel consists of, and how strongly it couples the outputs.

    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.operators import Dense, Identity
    >>> kernel_in_words(Gaussian(2.0) * Dense([[1.0, 0.8], [0.8, 1.0]]), ["zinc", "lead"])
    'Gaussian kernel, outputs coupled (most: zinc and lead, 0.80)'
    >>> kernel_in_words((Gaussian(2.0) + 0.5 * Gaussian(1.0) + Linear()) * Identity(2), ["zinc", "lead"])
    'sum of 3 kernels (Gaussian, Linear), outputs not coupled'
    >>> from ovk.kernels import Mapped
    >>> kernel_in_words(Mapped(Gaussian(2.0), [[1.0]]) * Identity(1), ["zinc"])
    'Gaussian kernel in a learned metric'
    """
    terms = kernel.terms()
    found = [name for term in terms for name in re.findall(r"\b([A-Z]\w+)\(", repr(term.kernel))]
    names = [name for name in found if name != "Mapped"]
    kinds = list(dict.fromkeys(names))
    words = f"{kinds[0]} kernel" if len(kinds) == 1 else f"kernels ({', '.join(kinds)})"
    if len(names) > 1:
        words = f"sum of {len(names)} {words}{'s' if len(kinds) == 1 else ''}"
    if mapped := len(found) - len(names):
        metrics = "in a learned metric" if mapped == len(names) == 1 else "in learned metrics"
        words += f" {metrics}" if mapped == len(names) else f", {mapped} of them {metrics}"
    if len(outputs) == 1:
        return words
    T = np.sum([term.weight * term.operator.dense() for term in terms], axis=0)
    scale = np.sqrt(np.maximum(np.diagonal(T), np.finfo(float).tiny))
    between = np.triu(T / np.outer(scale, scale), 1)
    i, j = np.unravel_index(np.abs(between).argmax(), between.shape)
    if abs(between[i, j]) < APART:
        return f"{words}, outputs not coupled"
    return f"{words}, outputs coupled (most: {outputs[i]} and {outputs[j]}, {between[i, j]:.2f})"
